"""Options of the deprecated transport at /sse, apart from it: settings load without the MCP SDK."""

from pydantic import BaseModel, ConfigDict, Field


class SseOptions(BaseModel):
    """The deprecated transport at /sse."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        True, description="whether /sse is there; with several replicas it needs sticky routing"
    )
    sessions_max: int = Field(256, ge=1, description="how many clients one process serves at once")
    sessions_per_caller_max: int = Field(
        32, ge=1, description="how many of them may have the same key"
    )
    calls_per_caller_max: int = Field(
        64, ge=1, description="how many requests of one key may wait for their answers"
    )
    idle_s: float = Field(
        3600.0, gt=0, description="after how long of silence a client is sent away"
    )
