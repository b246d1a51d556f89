"""Argument and result models of the turn memory tools."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator

from memsvc.core.paths import check_identifier, check_path
from memsvc.core.tools import Arguments, Result

DEFAULT_SESSION = "default"

_ITEM_SCHEMA: dict[str, Any] = {"type": "object", "additionalProperties": True}
_ITEMS_SCHEMA: dict[str, Any] = {"type": "array", "items": _ITEM_SCHEMA}
Items = Annotated[
    list[Any], WithJsonSchema(_ITEMS_SCHEMA | {"description": "response items, kept whole"})
]
# Clients of the SDK validate a result against its schema, part by part. They skip `true`; an empty
# schema, which means the same, made them check each item and took four times as long.
ResultItems = Annotated[list[Any], WithJsonSchema({"type": "array", "items": True})]
CurrentInput = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "the new input of this turn: response items, one item, or plain text;"
            " not read when conversation_items is given",
            "anyOf": [_ITEMS_SCHEMA, _ITEM_SCHEMA, {"type": "string"}],
        }
    ),
]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]


class SessionArguments(Arguments):
    """Arguments that every tool of a session takes."""

    session_id: str = Field(
        DEFAULT_SESSION, description="the conversation; any text of up to 128 bytes"
    )

    @field_validator("session_id")
    @classmethod
    def _session(cls, value: str) -> str:
        return check_identifier(value.strip() or DEFAULT_SESSION, "session_id")


class TurnArguments(SessionArguments):
    """Arguments that before_turn and after_turn share."""

    turn_id: str = Field(
        "", description="the turn; use the same one in before_turn, after_turn and every retry"
    )
    user_id: str = Field(
        "", description="the person; facts about a user are shared by all of that user's sessions"
    )
    conversation_items: Items = Field(
        default_factory=list, description="the whole conversation, oldest first"
    )
    current_input_start: Whole = Field(
        0, description="where the current input begins in conversation_items"
    )
    current_input_count: Whole = Field(
        0, description="how many items the current input has; 0 means the rest"
    )

    @field_validator("turn_id", "user_id")
    @classmethod
    def _identifier(cls, value: str, field: ValidationInfo) -> str:
        return check_identifier(value.strip(), str(field.field_name)) if value.strip() else ""


class BeforeTurnArguments(TurnArguments):
    current_input: CurrentInput = Field(default_factory=list)
    current_input_text: str = Field(
        "", description="plain text, used when neither of the others is given"
    )
    base_instructions: str = Field(
        "", description="instructions sent along; they count towards max_input_tok"
    )
    max_input_tok: Whole = Field(
        0, description="tokens that input_items may have at the most; 120000 if not given"
    )
    explain: bool = Field(False, description="also say why each item was recalled or left out")
    as_of: str = Field(
        "",
        description="a moment (RFC 3339): recall what was said and held by then, nothing later;"
        " now if not given",
    )
    sources: list[Literal["turns", "facts", "insights", "files", "whiteboard", "notebook"]] = Field(
        ["turns", "facts", "insights"],
        description="where to recall from; turns, facts and insights if not given. Of files,"
        " whiteboard and notebook, passages are quoted, of boards those of user_id alone; one"
        " that this service does not keep is refused",
    )


class BeforeTurnResult(Result):
    turn_id: str = Field(description="the turn id to use in after_turn")
    input_items: ResultItems = Field(
        description="response items to send to the model: memory, context older than the history,"
        " history, recent context, current input"
    )
    recall_fact_ids: list[str] = Field(description="facts in the memory block, by record_id")
    recall_insight_ids: list[str] = Field(description="insights in the memory block")
    context_token_count: int = Field(
        description="tokens of input_items: o200k_base over texts, names, arguments and outputs,"
        " 4 an item"
    )
    explanation: dict[str, Any] | None = Field(
        None,
        description="with explain: each candidate, its score and exact time, whether it is shown,"
        " its position by relevance, or why not; what limits left out",
    )


class AfterTurnArguments(TurnArguments):
    input_items: Items = Field(
        default_factory=list,
        description="what was sent to the model; `metadata.occurred_at` (RFC 3339) of an item, if"
        " given, dates its facts, and `metadata.speaker` names who said it",
    )
    output_items: Items = Field(default_factory=list, description="what the model answered")


class AfterTurnResult(Result):
    ok: bool = Field(description="true: the turn is in memory")
    turn_id: str = Field(description="the turn's id; made up if none was given")
    stored_items: int = Field(description="items of the turn that are now in memory")
    fact_ids: list[str] = Field(
        description="facts that the turn stated anew or changed, by fact_id"
    )
    note: str | None = Field(None, description="what to know about this call, if anything")


class MaintenanceResult(Result):
    ok: bool = Field(description="true: the session is in order")
    compacted_items: int = Field(
        description="items of older context that a summary stands for from now on"
    )
    archived_files: int = Field(description="files of raw events that were packed")
    archived_bytes: int = Field(description="bytes of these files before they were packed")
    expired_facts: int = Field(description="facts past their day that were removed")
    expired_items: int = Field(
        description="items past the session's time to live that were removed"
    )
    insights_written: int = Field(description="insights that several facts and turns gave")
    insights_withdrawn: int = Field(description="insights that are no longer true")
    summaries_written: int = Field(description="summaries of directories that were written anew")


class ListDirArguments(SessionArguments):
    path: str = Field("", description="directory to look at; the session's own if not given")
    depth: Whole = Field(8, description="levels below the path; 8 if not given")
    limit: Whole = Field(200, description="directories at the most; 200 if not given")

    @field_validator("path")
    @classmethod
    def _path(cls, value: str) -> str:
        return check_path(value)


class DirectorySummary(Result):
    path: str = Field(description="the directory")
    abstract: str = Field(description="what it holds, in 100 to 200 words")
    updated_at: datetime = Field(description="when anything in it was last written")
    has_overview: bool = Field(description="whether it has an .overview file")


class ListDirResult(Result):
    summaries: list[DirectorySummary] = Field(
        description="one for each directory, in order of their paths; empty where nothing is"
    )
