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
    list[Any],
    WithJsonSchema(_ITEMS_SCHEMA | {"description": "response items, stored with all fields"}),
]
# Clients of the SDK validate a result against its schema, part by part. They skip `true`; an empty
# schema, which means the same, made them check each item and took four times as long.
ResultItems = Annotated[list[Any], WithJsonSchema({"type": "array", "items": True})]
CurrentInput = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": (
                "new input: response items, one item or text; ignored with conversation_items"
            ),
            "anyOf": [_ITEMS_SCHEMA, _ITEM_SCHEMA, {"type": "string"}],
        }
    ),
]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]


SESSION_TEXT: Final = "conversation id; default: one per user"
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
    turn_id: TurnId = Field("", description="turn id; reuse it in after_turn and retries")
    user_id: TurnUser = Field("", description="user id; the user's sessions share facts")
    conversation_items: Items = Field(
        default_factory=list, description="the whole conversation, oldest first"
    )
    current_input_start: Whole = Field(
        0, description="start of the current input in conversation_items"
    )
    current_input_count: Whole = Field(
        0, description="number of current input items; 0: all remaining"
    )


class BeforeTurnArguments(TurnArguments):
    current_input: CurrentInput = Field(default_factory=list)
    current_input_text: str = Field("", description="current input as text")
    base_instructions: str = Field(
        "", description="your instructions; counted towards max_input_tok"
    )
    max_input_tok: Whole = Field(
        0, description="token limit of input_items; 0 uses the default, 120000"
    )
    explain: bool = Field(False, description="explain why items were recalled or not")
    as_of: str = Field(
        "",
        description="RFC 3339 time: recall only what was known then",
    )
    sources: list[Literal["turns", "facts", "insights", "files", "whiteboard", "notebook"]] = Field(
        ["turns", "facts", "insights"],
        description="sources to recall from; whiteboard needs user_id",
    )


def search_tools(args: BeforeTurnArguments) -> list[str]:
    """Return the tools that search the sources of a recall, as far as they have one."""
    tools = {"files": "file_search", "whiteboard": "whiteboard_get", "notebook": "search_documents"}
    return [tools[source] for source in args.sources if source in tools]


@result
class BeforeTurnResult:
    turn_id: Annotated[str, "id of the turn, to pass to after_turn"]
    input_items: Annotated[
        ResultItems,
        "response items to send to the model, in this order: memory, earlier context,"
        " history, recent context, current input",
    ]
    recall_fact_ids: Annotated[list[str], "record_ids of the recalled facts in input_items"]
    recall_insight_ids: Annotated[list[str], "ids of the recalled insights in input_items"]
    context_token_count: Annotated[
        int,
        "tokens of input_items: texts, names, arguments and outputs counted with"
        " o200k_base, plus 4 per item",
    ]
    explanation: Annotated[
        dict[str, Any] | None,
        "with explain: each candidate with its score, exact time and rank, whether it is"
        " shown or why not, and what was left out because of limits",
    ] = None


class AfterTurnArguments(TurnArguments):
    input_items: Items = Field(
        default_factory=list,
        description="what the model received; an item's metadata.occurred_at (RFC 3339) dates its"
        " facts, metadata.speaker names its speaker",
    )
    output_items: Items = Field(default_factory=list, description="the model's answer")


@result
class AfterTurnResult:
    ok: Annotated[bool, "true once the turn is stored"]
    turn_id: Annotated[str, "id of the turn, which was generated if none was given"]
    stored_items: Annotated[int, "number of stored items of the turn"]
    fact_ids: Annotated[list[str], "fact_ids of the facts that the turn stated or changed"]
    note: Annotated[str | None, "note about this call, if any"] = None
    forgotten: Annotated[
        bool | None, "true if nothing was stored because the turn was forgotten or purged"
    ] = None


@result
class MaintenanceResult:
    ok: Annotated[bool, "true on success"]
    compacted_items: Annotated[
        int, "number of items of older context that were replaced by a summary"
    ]
    archived_files: Annotated[
        int, "number of files of events (messages and tool calls) that were archived"
    ]
    archived_bytes: Annotated[int, "size of the archived files before archiving, in bytes"]
    expired_facts: Annotated[int, "number of expired facts that were deleted"]
    expired_items: Annotated[int, "number of items that were deleted because their retention ended"]
    insights_written: Annotated[
        int, "number of insights (summaries of several turns) that were written"
    ]
    insights_withdrawn: Annotated[
        int, "number of insights that were withdrawn because they are no longer true"
    ]
    summaries_written: Annotated[int, "number of directory summaries that were updated"]


@result
class DirectorySummary:
    path: Annotated[str, "path of the directory"]
    abstract: Annotated[str, "summary of the directory, in 100 to 200 words"]
    updated_at: Annotated[datetime, "time of the last write to anything in the directory"]
    has_overview: Annotated[bool, "whether the directory has an .overview file"]


@result
class DirectorySummaries:
    summaries: Annotated[
        list[DirectorySummary],
        "one summary per directory, ordered by path; empty if nothing is stored",
    ]
