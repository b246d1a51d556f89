"""Types of what the turn memory tools take and return."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from memsvc.core.paths import check_identifier, checked_name
from memsvc.core.scope import DEFAULT_SESSION
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Arguments

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
            "description": "the new input: response items, one item or text; not read beside"
            " conversation_items",
            "anyOf": [_ITEMS_SCHEMA, _ITEM_SCHEMA, {"type": "string"}],
        }
    ),
]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]


SESSION_TEXT: Final = "the conversation; else the user's"
SessionId = Annotated[
    str,
    AfterValidator(lambda value: check_identifier(value.strip() or DEFAULT_SESSION, "session_id")),
    Field(validate_default=True),
    SESSION_TEXT,
]
TurnId = Annotated[str, AfterValidator(partial(checked_name, name="turn_id"))]
TurnUser = Annotated[str, AfterValidator(partial(checked_name, name="user_id"))]
turn_tool = partial(tool, toolset="turns", logs=("session_id", "turn_id", "user_id", "path"))


class TurnArguments(Arguments):
    """Arguments that before_turn and after_turn share."""

    session_id: Annotated[SessionId, Field(description=SESSION_TEXT)] = ""
    turn_id: TurnId = Field("", description="the same in before_turn, after_turn and retries")
    user_id: TurnUser = Field("", description="the person; their sessions share facts")
    conversation_items: Items = Field(
        default_factory=list, description="the whole conversation, oldest first"
    )
    current_input_start: Whole = Field(0, description="where the current input begins")
    current_input_count: Whole = Field(0, description="items of the current input; 0: the rest")


class BeforeTurnArguments(TurnArguments):
    current_input: CurrentInput = Field(default_factory=list)
    current_input_text: str = Field("", description="or as plain text")
    base_instructions: str = Field("", description="instructions counted too")
    max_input_tok: Whole = Field(0, description="most tokens of input_items; 0: 120000")
    explain: bool = Field(False, description="say why items were recalled or not")
    as_of: str = Field(
        "",
        description="RFC 3339 time: recall only what was known then",
    )
    sources: list[Literal["turns", "facts", "insights", "files", "whiteboard", "notebook"]] = Field(
        ["turns", "facts", "insights"],
        description="where to recall from; boards: user_id's",
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
        description="what was sent to the model; an item's metadata.occurred_at (RFC 3339) dates"
        " its facts, metadata.speaker names who said it",
    )
    output_items: Items = Field(default_factory=list, description="what the model answered")


@result
class AfterTurnResult:
    ok: Annotated[bool, "true: the turn is in memory"]
    turn_id: Annotated[str, "the turn's id; made up if none was given"]
    stored_items: Annotated[int, "items of the turn that are now in memory"]
    fact_ids: Annotated[list[str], "facts that the turn stated anew or changed, by fact_id"]
    note: Annotated[str | None, "what to know about this call, if anything"] = None
    forgotten: Annotated[bool | None, "true: the turn was forgotten, and nothing is stored"] = None


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
