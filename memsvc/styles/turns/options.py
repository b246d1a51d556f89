"""Options of turn memory, under the names that operators know from `settings.mcp.memory`."""

from typing import Final

from pydantic import Field, field_validator

from memsvc.core.facts import PROFILE_CLASSES, ProfileClass
from memsvc.core.options import AbsoluteUrl, Amount, Count, DailyLimit, Limit, LimitOrNone, Options
from memsvc.store.batch_writer import BatchWriterOptions

HEURISTIC_MODEL: Final = "openai/gpt-oss-120b"

TOKEN_SECRET_CHARS_MIN: Final = 32


class HeuristicOptions(Options):
    """Options of a job that uses a model to extract more facts than the rules find."""

    enabled: bool = Field(False, description="whether to also extract facts with a model")
    model: str = Field(
        HEURISTIC_MODEL,
        max_length=200,
        pattern=r"^\S+$",
        description="name of the model at base_url: NAME for the Responses API, openai-chat:NAME"
        " for chat completions, anthropic:NAME for Anthropic's API",
    )
    base_url: AbsoluteUrl = Field(
        "",
        description="absolute URL of the endpoint; /v1/responses is appended if missing; empty: use"
        " the model of section `model`",
    )
    api_key: str = Field(
        "",
        repr=False,
        description="API key of base_url; empty: the environment variable OPENAI_API_KEY or"
        " ANTHROPIC_API_KEY, if set",
    )
    timeout_ms: Count = Field(
        12_000, description="time limit for one answer of the model, in milliseconds"
    )
    max_output_tokens: int = Field(
        800, ge=100, description="maximum number of tokens in one answer of the model"
    )
    calls_a_day: DailyLimit = Field(
        1000,
        description="maximum number of model calls per day and tenant; when it is reached, the"
        " remaining work waits until the next day; 0: unlimited",
    )


class ShadowOptions(Options):
    """Options of shadow mode, in which clients compare their own memory with memsvc."""

    enabled: bool = Field(
        False,
        description="whether to enable the tools memory_shadow_compare and memory_shadow_report",
    )


class TraceOptions(BatchWriterOptions):
    """Options of recall traces, which show what was recalled and why."""

    days: int = Field(
        14,
        ge=0,
        le=3650,
        description="number of days for which recall traces are kept; 0: no traces are recorded",
    )


class ProfileOptions(Options):
    """Options of the user's profile, which is the first part of every recalled text."""

    classes: tuple[ProfileClass, ...] = Field(
        PROFILE_CLASSES,
        description="topics that a profile can contain; the policy of a session can override this"
        " list",
    )


class TurnOptions(Options):
    """Options of conversation memory: recall, retention of facts, and limits of calls."""

    recent_context_items: LimitOrNone = Field(
        30,
        description="maximum number of latest items of a session that are included in a prompt as"
        " recent context",
    )
    recall_facts_limit: LimitOrNone = Field(
        20, description="maximum number of facts recalled for a turn"
    )
    recall_turns_limit: LimitOrNone = Field(
        32, description="maximum number of past items recalled for a turn"
    )
    recall_insights_limit: LimitOrNone = Field(
        5,
        description="maximum number of insights (short summaries of what several turns have in"
        " common) recalled for a turn",
    )
    recall_tok_max: int = Field(
        1500,
        ge=100,
        description="maximum number of tokens of the memory block, the recalled text that is"
        " inserted into a prompt",
    )
    profile_tok_max: Amount = Field(
        150,
        description="maximum number of tokens of the user's profile in the recalled text that is"
        " inserted into a prompt; 0: no profile",
    )
    profile: ProfileOptions = Field(
        ProfileOptions(),
        description="profile of the user: facts about the user that are part of every recalled"
        " text, regardless of the question",
    )
    search_limit: Limit = Field(
        5,
        description="maximum number of passages recalled for a turn from each of the sources files,"
        " whiteboard and notebook, if the turn requests them",
    )
    snippet_chars_max: int = Field(
        900,
        ge=40,
        description="maximum number of characters shown of the best recalled item. The limit is two"
        " thirds of this number for the second item, half for the third to fifth, and a"
        " third for each later one",
    )
    max_input_tok: int = Field(
        120_000,
        ge=100,
        description="default maximum number of tokens in the input_items that memory_before_turn"
        " returns",
    )
    media_tok: Amount = Field(
        1024, description="number of tokens counted for an image, file or audio item"
    )
    compact_threshold: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="share of max_input_tok above which older context is summarised",
    )
    l1_retention_days: int = Field(
        1, ge=1, le=36500, description="number of days for which a fact of tier L1 is kept"
    )
    l2_retention_days: int = Field(
        7,
        ge=1,
        le=36500,
        description="number of days for which a fact of tier L2 (such as a task for this week) is"
        " kept",
    )
    compaction_min_age_hours: Count = Field(
        24,
        description="age, in hours, at which files of events (messages and tool calls) are"
        " archived; large files are archived earlier",
    )
    summary_refresh_interval_minutes: Count = Field(
        60, description="minimum interval between updates of directory summaries, in minutes"
    )
    forget_grace_hours: int = Field(
        24,
        ge=0,
        le=8760,
        description="number of hours for which forgetting can be undone; 0: it cannot be undone",
    )
    maintenance_every_hours: int = Field(
        0,
        ge=0,
        le=8760,
        description="interval, in hours, at which every session is maintained: older context is"
        " summarised, old events are archived and expired facts are deleted; 0:"
        " sessions are only maintained on request",
    )
    max_processed_turns: Count = Field(
        1024,
        description="maximum number of turn ids listed in the file meta/state.json of a session",
    )
    session_lock_timeout_ms: Count = Field(
        5000,
        description="how long a call waits, in milliseconds, while another call is writing to the"
        " same session; after this time, the waiting call fails with RESOURCE_BUSY",
    )
    operation_token_ttl_s: int = Field(
        3600,
        ge=1,
        le=2_592_000,
        description="time for which an operation token of memory_run_turn can be used",
    )
    operation_token_bytes_max: int = Field(
        65_536,
        ge=1024,
        le=1_048_576,
        description="maximum compressed size of the input in an operation token, in bytes; a larger"
        " input is refused",
    )
    operation_token_secret: str = Field(
        "",
        repr=False,
        description="secret that signs operation tokens, at least 32 characters; empty: the server"
        " generates a secret and stores it in the database",
    )
    items_max: Count = Field(
        2000,
        description="maximum number of items in one argument, such as input_items; a call with more"
        " items is refused",
    )
    text_chars_max: Count = Field(
        262_144,
        description="maximum number of characters of an item that are indexed; the rest is stored,"
        " but cannot be searched",
    )
    item_bytes_max: int = Field(
        10_000_000,
        ge=1,
        le=2**30,
        description="maximum size of an item as JSON, in bytes; larger items are refused. This"
        " limit cannot exceed the size limit of a file",
    )
    heuristic: HeuristicOptions = Field(
        HeuristicOptions(),
        description="extraction of facts by a model, in addition to the built-in rules",
    )
    shadow: ShadowOptions = ShadowOptions()
    trace: TraceOptions = Field(
        TraceOptions(),
        description="recall traces, which show what was recalled and why; they contain references"
        " and scores, but no text",
    )

    @field_validator("operation_token_secret")
    @classmethod
    def _hard_to_guess(cls, value: str) -> str:
        if value and len(value) < TOKEN_SECRET_CHARS_MIN:
            raise ValueError(f"must have at least {TOKEN_SECRET_CHARS_MIN} characters")
        return value
