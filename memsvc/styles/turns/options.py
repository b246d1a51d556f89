"""Options of turn memory, under the names that operators know from `settings.mcp.memory`."""

from typing import Final

from pydantic import Field, field_validator

from memsvc.core.facts import PROFILE_CLASSES, ProfileClass
from memsvc.core.options import AbsoluteUrl, Options
from memsvc.store.batch_writer import BatchWriterOptions

HEURISTIC_MODEL: Final = "openai/gpt-oss-120b"

TOKEN_SECRET_CHARS_MIN: Final = 32


class HeuristicOptions(Options):
    """Facts that a model finds, by a job after the turns, beside those that rules find at once."""

    enabled: bool = Field(False, description="extract facts with a model too")
    model: str = Field(
        HEURISTIC_MODEL,
        max_length=200,
        pattern=r"^\S+$",
        description="model at base_url, by the Responses API; openai-chat:NAME and anthropic:NAME"
        " by those APIs",
    )
    base_url: AbsoluteUrl = Field(
        "",
        description="absolute URL; /v1/responses is added unless it ends with it; empty: what"
        " section `model` names",
    )
    api_key: str = Field(
        "",
        repr=False,
        description="key of base_url; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, if set",
    )
    timeout_ms: int = Field(12_000, ge=1, description="how long the model may take")
    max_output_tokens: int = Field(800, ge=100, description="tokens that the model may answer")
    calls_a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="times that it is asked a day for a tenant; 0: no limit",
    )


class ShadowOptions(Options):
    """Shadow mode: clients that keep their own memory compare it with this one."""

    enabled: bool = Field(False, description="offer memory_shadow_compare and memory_shadow_report")


class TraceOptions(BatchWriterOptions):
    """Recall traces, kept for people to read."""

    days: int = Field(
        14,
        ge=0,
        le=3650,
        description="days that what was recalled, and why, is kept; 0: not at all",
    )


class ProfileOptions(Options):
    """The profile of a person, in every memory block of a user who has one."""

    classes: tuple[ProfileClass, ...] = Field(
        PROFILE_CLASSES, description="what a profile may tell; a session's policy may say otherwise"
    )


class TurnOptions(Options):
    """Options of recall, retention of facts, and limits of calls."""

    recent_context_items: int = Field(
        30, ge=0, le=1000, description="latest items that stay in the active context"
    )
    recall_facts_limit: int = Field(
        20, ge=0, le=1000, description="facts recalled into a turn at the most"
    )
    recall_turns_limit: int = Field(
        32,
        ge=0,
        le=1000,
        description="past items recalled into a turn at the most; of a small memory of work twice "
        "as many",
    )
    recall_insights_limit: int = Field(
        5, ge=0, le=1000, description="insights recalled into a turn at the most"
    )
    recall_tok_max: int = Field(1500, ge=100, description="tokens of the memory block at the most")
    profile_tok_max: int = Field(
        150, ge=0, description="tokens of the profile in a memory block at the most; 0: no profile"
    )
    profile: ProfileOptions = Field(
        ProfileOptions(), description="what is told of a person whatever the question"
    )
    small_memory_tok_max: int = Field(
        700,
        ge=0,
        description="tokens of what a small memory tells beside what shares words with a question"
        " about the user, at the most",
    )
    search_limit: int = Field(
        5, ge=1, le=1000, description="passages of files recalled into a turn that asks for them"
    )
    snippet_chars_max: int = Field(
        900,
        ge=40,
        description="characters shown of the best recalled item, down to a third of those behind"
        " the first five",
    )
    max_input_tok: int = Field(
        120_000, ge=100, description="tokens of input_items when a call names no limit"
    )
    media_tok: int = Field(1024, ge=0, description="tokens that a picture, file or sound counts as")
    compact_threshold: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="share of max_input_tok above which older context is summarised",
    )
    l1_retention_days: int = Field(
        1, ge=1, le=36500, description="days that a fact of tier L1 is kept"
    )
    l2_retention_days: int = Field(
        7,
        ge=1,
        le=36500,
        description="days that a task of the week (tier L2) is kept",
    )
    compaction_min_age_hours: int = Field(
        24, ge=1, description="hours until raw events are archived"
    )
    summary_refresh_interval_minutes: int = Field(
        60, ge=1, description="directory summaries are renewed no more often"
    )
    forget_grace_hours: int = Field(
        24,
        ge=0,
        le=8760,
        description="hours in which a forget can be taken back; 0: it is for good at once",
    )
    maintenance_every_hours: int = Field(
        0, ge=0, le=8760, description="how often every session is maintained; 0: only when asked to"
    )
    max_processed_turns: int = Field(1024, ge=1, description="turn ids listed in meta/state.json")
    session_lock_timeout_ms: int = Field(
        5000, ge=1, description="how long a call waits for a session's writer"
    )
    operation_token_ttl_s: int = Field(
        3600, ge=1, le=2_592_000, description="how long an operation token holds"
    )
    operation_token_bytes_max: int = Field(
        65_536,
        ge=1024,
        le=1_048_576,
        description="compressed input that an operation token may carry",
    )
    operation_token_secret: str = Field(
        "",
        repr=False,
        description="what signs operation tokens, 32 characters at least; empty: kept in the"
        " database",
    )
    items_max: int = Field(2000, ge=1, description="items in one argument of a call")
    text_chars_max: int = Field(
        262_144,
        ge=1,
        description="characters of an item's text that are indexed; more is kept, and not searched",
    )
    item_bytes_max: int = Field(
        10_000_000, ge=1, le=2**30, description="one item as JSON, as large as a file may be"
    )
    heuristic: HeuristicOptions = Field(
        HeuristicOptions(), description="a model that finds facts behind the turns"
    )
    shadow: ShadowOptions = ShadowOptions()
    trace: TraceOptions = Field(
        TraceOptions(), description="the recall trace: references and scores, no content"
    )

    @field_validator("operation_token_secret")
    @classmethod
    def _hard_to_guess(cls, value: str) -> str:
        if value and len(value) < TOKEN_SECRET_CHARS_MIN:
            raise ValueError(f"must have {TOKEN_SECRET_CHARS_MIN} characters at least")
        return value
