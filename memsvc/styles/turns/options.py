"""The options of turn memory, under the names that operators know from `settings.mcp.memory`."""

from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class HeuristicOptions(BaseModel):
    """Model-assisted extraction of facts. Not part of this version: the keys are checked, `enabled` must be false."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="extract facts with a model too; must be false in this version")
    model: str = Field("openai/gpt-oss-120b", min_length=1, description="model to ask")
    base_url: str = Field("", description="absolute URL of the endpoint; /v1/responses is added unless it ends with it")
    timeout_ms: int = Field(12_000, ge=1, description="how long the model may take")
    max_output_tokens: int = Field(800, ge=1, description="tokens that the model may answer")

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and not (
            parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment
        ):
            raise ValueError("must be an absolute URL such as https://api.example.com/v1, without query or fragment")
        return value

    @model_validator(mode="after")
    def _off(self) -> Self:
        if self.enabled:
            raise ValueError("model extraction is not part of this version; allowed: enabled: false")
        return self


class TurnOptions(BaseModel):
    """How much is recalled, how long facts are kept, and what a call may bring."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recent_context_items: int = Field(30, ge=0, le=1000, description="latest items that stay in the active context")
    recall_facts_limit: int = Field(20, ge=0, le=1000, description="facts recalled into a turn at the most")
    recall_turns_limit: int = Field(20, ge=0, le=1000, description="past items recalled into a turn at the most")
    recall_tok_max: int = Field(1500, ge=100, description="tokens of the memory block at the most")
    search_limit: int = Field(5, ge=1, le=1000, description="file chunks recalled into a turn; no effect yet")
    snippet_chars_max: int = Field(600, ge=40, description="characters shown of one recalled item")
    max_input_tok: int = Field(120_000, ge=100, description="tokens of input_items when a call names no limit")
    media_tok: int = Field(1024, ge=0, description="tokens that a picture, file or sound counts as")
    compact_threshold: float = Field(
        0.8, gt=0, lt=1, description="share of max_input_tok that starts compaction; no effect yet"
    )
    l1_retention_days: int = Field(1, ge=1, le=36500, description="days that a fact of tier L1 is kept")
    l2_retention_days: int = Field(7, ge=1, le=36500, description="days that a fact of tier L2 is kept")
    compaction_min_age_hours: int = Field(24, ge=1, description="hours until raw events are archived; no effect yet")
    summary_refresh_interval_minutes: int = Field(60, ge=1, description="directory summaries are renewed no more often")
    max_processed_turns: int = Field(1024, ge=1, description="turn ids listed in meta/state.json")
    session_lock_timeout_ms: int = Field(5000, ge=1, description="how long a call waits for a session's writer")
    items_max: int = Field(2000, ge=1, description="items in one argument of a call")
    text_chars_max: int = Field(262_144, ge=1, description="characters of one text of an item")
    heuristic: HeuristicOptions = HeuristicOptions()
