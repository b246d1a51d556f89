"""Options of the console."""

from pydantic import BaseModel, ConfigDict, Field


class ConsoleOptions(BaseModel):
    """Options of the web pages at /console."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="whether /console is there")
    session_hours: float = Field(
        12.0, gt=0, le=720, description="how long somebody stays signed in without doing anything"
    )
