"""Types of what the turn memory tools take and return."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from memsvc.core.paths import check_identifier
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Arguments

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


def checked_name(value: str, name: str) -> str:
    """Return an identifier, or "" for a blank one."""
    return check_identifier(value.strip(), name) if value.strip() else ""


SessionId = Annotated[
    str,
    AfterValidator(lambda value: check_identifier(value.strip() or DEFAULT_SESSION, "session_id")),
    "the conversation; any text of up to 128 bytes",
]
TurnId = Annotated[str, AfterValidator(partial(checked_name, name="turn_id"))]
TurnUser = Annotated[str, AfterValidator(partial(checked_name, name="user_id"))]
turn_tool = partial(tool, logs=("session_id", "turn_id", "user_id", "path"))


class TurnArguments(Arguments):
    """Arguments that before_turn and after_turn share."""

    session_id: Annotated[
        SessionId, Field(description="the conversation; any text of up to 128 bytes")
    ] = DEFAULT_SESSION
    turn_id: TurnId = Field(
        "", description="the turn; use the same one in before_turn, after_turn and every retry"
    )
    user_id: TurnUser = Field(
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


@result
class BeforeTurnResult:
    turn_id: Annotated[str, "the turn id to use in after_turn"]
    input_items: Annotated[
        ResultItems,
        "response items to send to the model: memory, context older than the history,"
        " history, recent context, current input",
    ]
    recall_fact_ids: Annotated[list[str], "facts in the memory block, by record_id"]
    recall_insight_ids: Annotated[list[str], "insights in the memory block"]
    context_token_count: Annotated[
        int, "tokens of input_items: o200k_base over texts, names, arguments and outputs, 4 an item"
    ]
    explanation: Annotated[
        dict[str, Any] | None,
        "with explain: each candidate, its score and exact time, whether it is shown,"
        " its position by relevance, or why not; what limits left out",
    ] = None


class AfterTurnArguments(TurnArguments):
    input_items: Items = Field(
        default_factory=list,
        description="what was sent to the model; `metadata.occurred_at` (RFC 3339) of an item, if"
        " given, dates its facts, and `metadata.speaker` names who said it",
    )
    output_items: Items = Field(default_factory=list, description="what the model answered")


@result
class AfterTurnResult:
    ok: Annotated[bool, "true: the turn is in memory"]
    turn_id: Annotated[str, "the turn's id; made up if none was given"]
    stored_items: Annotated[int, "items of the turn that are now in memory"]
    fact_ids: Annotated[list[str], "facts that the turn stated anew or changed, by fact_id"]
    note: Annotated[str | None, "what to know about this call, if anything"] = None


@result
class MaintenanceResult:
    ok: Annotated[bool, "true: the session is in order"]
    compacted_items: Annotated[int, "items of older context that a summary stands for from now on"]
    archived_files: Annotated[int, "files of raw events that were packed"]
    archived_bytes: Annotated[int, "bytes of these files before they were packed"]
    expired_facts: Annotated[int, "facts past their day that were removed"]
    expired_items: Annotated[int, "items past the session's time to live that were removed"]
    insights_written: Annotated[int, "insights that several facts and turns gave"]
    insights_withdrawn: Annotated[int, "insights that are no longer true"]
    summaries_written: Annotated[int, "summaries of directories that were written anew"]


@result
class DirectorySummary:
    path: Annotated[str, "the directory"]
    abstract: Annotated[str, "what it holds, in 100 to 200 words"]
    updated_at: Annotated[datetime, "when anything in it was last written"]
    has_overview: Annotated[bool, "whether it has an .overview file"]


@result
class DirectorySummaries:
    summaries: Annotated[
        list[DirectorySummary],
        "one for each directory, in order of their paths; empty where nothing is",
    ]
