"""Options of turn memory, under the names that operators know from `settings.mcp.memory`."""

from typing import Final

from pydantic import Field, field_validator

from memsvc.core.facts import PROFILE_CLASSES, ProfileClass
from memsvc.core.options import AbsoluteUrl, Options
from memsvc.store.batch_writer import BatchWriterOptions

HEURISTIC_MODEL: Final = "openai/gpt-oss-120b"

TOKEN_SECRET_CHARS_MIN: Final = 32


class HeuristicOptions(Options):
    """Options of a job that finds more facts with a model, after rules found some at once."""

    enabled: bool = Field(False, description="also extract facts with a model")
    model: str = Field(
        HEURISTIC_MODEL,
        max_length=200,
        pattern=r"^\S+$",
        description="model at base_url: NAME for the Responses API; openai-chat:NAME and"
        " anthropic:NAME for those APIs",
    )
    base_url: AbsoluteUrl = Field(
        "",
        description="absolute URL of the endpoint; /v1/responses is appended if missing; empty: the"
        " model in section `model` is used",
    )
    api_key: str = Field(
        "",
        repr=False,
        description="API key of base_url; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, if set",
    )
    timeout_ms: int = Field(12_000, ge=1, description="time limit of the model")
    max_output_tokens: int = Field(
        800, ge=100, description="maximum number of tokens in a model answer"
    )
    calls_a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="model calls per day and tenant; 0: unlimited",
    )


class ShadowOptions(Options):
    """Shadow mode, in which clients with their own memory compare it with this one."""

    enabled: bool = Field(
        False, description="enable memory_shadow_compare and memory_shadow_report"
    )


class TraceOptions(BatchWriterOptions):
    """Recall traces, which people can read to see what was recalled and why."""

    days: int = Field(
        14,
        ge=0,
        le=3650,
        description="days that recall traces are kept; 0: none are recorded",
    )


class ProfileOptions(Options):
    """The user's profile, which is part of every memory block."""

    classes: tuple[ProfileClass, ...] = Field(
        PROFILE_CLASSES,
        description="topics that a profile may contain; a session's policy can override it",
    )


class TurnOptions(Options):
    """Options of recall, retention of facts, and limits of calls."""

    recent_context_items: int = Field(
        30, ge=0, le=1000, description="latest items that stay in the active context"
    )
    recall_facts_limit: int = Field(
        20, ge=0, le=1000, description="maximum number of facts recalled for a turn"
    )
    recall_turns_limit: int = Field(
        32, ge=0, le=1000, description="maximum number of past items recalled for a turn"
    )
    recall_insights_limit: int = Field(
        5, ge=0, le=1000, description="maximum number of insights recalled for a turn"
    )
    recall_tok_max: int = Field(1500, ge=100, description="maximum tokens of the memory block")
    profile_tok_max: int = Field(
        150, ge=0, description="maximum tokens of the profile in a memory block; 0: no profile"
    )
    profile: ProfileOptions = Field(
        ProfileOptions(), description="facts about the user that are included whatever the question"
    )
    search_limit: int = Field(
        5,
        ge=1,
        le=1000,
        description="number of file passages recalled for a turn that requests them",
    )
    snippet_chars_max: int = Field(
        900,
        ge=40,
        description="maximum characters of the best recalled item; from the sixth item on, fewer"
        " are shown, down to a third",
    )
    max_input_tok: int = Field(120_000, ge=100, description="default maximum tokens of input_items")
    media_tok: int = Field(
        1024, ge=0, description="tokens that an image, file or audio item counts as"
    )
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
        description="days that a fact of tier L2 (a task of the week) is kept",
    )
    compaction_min_age_hours: int = Field(
        24, ge=1, description="hours until raw events are archived"
    )
    summary_refresh_interval_minutes: int = Field(
        60, ge=1, description="minimum interval between updates of directory summaries"
    )
    forget_grace_hours: int = Field(
        24,
        ge=0,
        le=8760,
        description="hours in which a forget can be undone; 0: it is final at once",
    )
    maintenance_every_hours: int = Field(
        0,
        ge=0,
        le=8760,
        description="interval at which every session is maintained; 0: only on request",
    )
    max_processed_turns: int = Field(
        1024, ge=1, description="number of turn ids listed in meta/state.json"
    )
    session_lock_timeout_ms: int = Field(
        5000, ge=1, description="how long a call waits while another call writes the same session"
    )
    operation_token_ttl_s: int = Field(
        3600, ge=1, le=2_592_000, description="lifetime of an operation token"
    )
    operation_token_bytes_max: int = Field(
        65_536,
        ge=1024,
        le=1_048_576,
        description="maximum compressed input that an operation token may contain",
    )
    operation_token_secret: str = Field(
        "",
        repr=False,
        description="secret that signs operation tokens, at least 32 characters; empty: generated"
        " and stored in the database",
    )
    items_max: int = Field(
        2000, ge=1, description="maximum number of items in one argument of a call"
    )
    text_chars_max: int = Field(
        262_144,
        ge=1,
        description="characters of an item's text that are indexed; the rest is stored, but not"
        " searchable",
    )
    item_bytes_max: int = Field(
        10_000_000,
        ge=1,
        le=2**30,
        description="maximum size of an item as JSON; at most the size limit of a file",
    )
    heuristic: HeuristicOptions = Field(
        HeuristicOptions(),
        description="facts extracted by a model, in addition to those found by rules",
    )
    shadow: ShadowOptions = ShadowOptions()
    trace: TraceOptions = Field(
        TraceOptions(), description="recall traces: references and scores, without content"
    )

    @field_validator("operation_token_secret")
    @classmethod
    def _hard_to_guess(cls, value: str) -> str:
        if value and len(value) < TOKEN_SECRET_CHARS_MIN:
            raise ValueError(f"must have at least {TOKEN_SECRET_CHARS_MIN} characters")
        return value
