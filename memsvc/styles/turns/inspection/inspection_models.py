"""Types of what the inspection tools take and return."""

import re
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from memsvc.core.scope import Permission
from memsvc.core.tool_methods import result, tool

CURSOR_CHARS_MAX: Final = 700
ITEM_CURSOR: Final = re.compile(r"[1-9]\d{0,9}\Z")
Cursor = Annotated[str, Field(max_length=CURSOR_CHARS_MAX), "next_cursor of the page before"]
Next = Annotated[str | None, "cursor of the next page, when there is one"]
inspection_tool = partial(
    tool,
    toolset="turns",
    needs=Permission.READ,
    logs=("session_id", "turn_id", "user_id"),
    is_admin=True,
)


@result
class ListedSession:
    session_id: Annotated[str, "the session"]
    user_id: Annotated[str, "who spoke last, if known"]
    shared: Annotated[bool, "whether more than one user spoke in it"]
    turns: Annotated[int, "turns that were stored"]
    items: Annotated[int, "items that were stored"]
    facts: Annotated[int, "facts that its turns stated or changed"]
    created_at: Annotated[datetime, "when it began"]
    updated_at: Annotated[datetime, "when it was last written"]
    last_maintenance_at: Annotated[datetime | None, "when it was last maintained"]


@result
class SessionList:
    sessions: Annotated[list[ListedSession], "the latest first"]
    next_cursor: Next = None


@result
class ListedTurnItem:
    event_id: Annotated[
        str, "the item, as in the session's event files and as the evidence of facts"
    ]
    turn_id: Annotated[str, "the turn"]
    said_at: Annotated[datetime, "when it was said"]
    role: Annotated[str, "who it is from: user, assistant, tool and so on"]
    speaker: Annotated[str, "the speaker's name, if it was given"]
    text: Annotated[str, "its text, the first 4,000 characters"]
    cut: Annotated[bool, "whether the text goes on"]
    tokens: Annotated[int, "what it costs in a prompt"]
    item: Annotated[
        dict[str, Any] | None,
        "the item as it was stored; none for one that is packed, or over 32 KB",
    ]


@result
class TurnItemList:
    items: Annotated[
        list[ListedTurnItem],
        "what was said, the latest first; what was forgotten is not among them",
    ]
    next_cursor: Next = None


@result
class RecallCandidate:
    kind: Annotated[str, "turn, fact, insight, or chunk for a passage of a file, board or document"]
    ref: Annotated[str, "the event, insight or passage, or the record_id of a fact"]
    session_id: Annotated[str, "the session that it is from"]
    turn_id: Annotated[str | None, "the turn that it is from; of a fact, in which it was said"]
    fact_id: Annotated[str | None, "of a fact, what it is a fact about"]
    shown: Annotated[bool, "whether the prompt had it"]
    reason: Annotated[str | None, "why the prompt did not have it"]
    score: Annotated[float, "what it was ranked by"]
    parts: Annotated[dict[str, float], "what the score was made of"]
    text: Annotated[
        str | None,
        "what the prompt had of it; none once it was forgotten, and for passages, which change",
    ]
    role: Annotated[str, "who it was from"]
    speaker: Annotated[str, "the speaker's name, if it was given"]
    said_at: Annotated[datetime | None, "when it was said"]
    key: Annotated[str | None, "of a fact, its kind"]
    tier: Annotated[str | None, "of a fact, how long it is kept"]
    state: Annotated[str | None, "of a fact, what became of it since: active, superseded, deleted"]


@result
class ListedRecall:
    recall_id: Annotated[str, "the recall"]
    recalled_at: Annotated[datetime, "when"]
    turn_id: Annotated[str, "for which turn, if that was given"]
    user_id: Annotated[str, "for which person, if that was given"]
    context_token_count: Annotated[int, "tokens of the whole prompt"]
    candidates: Annotated[list[RecallCandidate], "what was shown, and the best of what was not"]
    confidence: Annotated[dict[str, Any] | None, "how sure recall was of past items, and the floor"]
    limits: Annotated[dict[str, Any], "what there was room for, and what was left out"]


@result
class RecallList:
    recalls: Annotated[list[ListedRecall], "the latest first; a second may pass until one is here"]
    next_cursor: Next = None
