"""Types of what the tools that list, correct and forget facts take and return."""

from datetime import datetime
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.tool_methods import result, tool
from memsvc.styles.turns.turn_models import TurnUser

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
CURSOR_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 1000
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=200)]
FactUser = Annotated[TurnUser, "the person"]
Reach = Annotated[
    Literal["all", "session", "user"],
    "whose facts",
]
CorrectedText = Annotated[str | None, Field(max_length=TEXT_CHARS_MAX)]
fact_tool = partial(tool, toolset="turns", logs=("session_id", "user_id"))


@result
class FactEvidence:
    session_id: Annotated[str, "the session in which it was said"]
    turn_id: Annotated[str, "the turn in which it was said"]
    item: Annotated[str, "the event of the item that says it, as in the session's event files"]
    user_id: Annotated[str, "who said it, if known"]
    origin: Annotated[
        str,
        "who found the fact there: rule, model, user or import; person: who corrected"
        " what had been found there",
    ]


@result
class FactDoubt:
    text: Annotated[str, "what the user said later"]
    said_at: Annotated[datetime, "when"]
    session_id: Annotated[str, "the session in which it was said"]
    turn_id: Annotated[str, "the turn in which it was said"]


@result
class ListedFact:
    fact_id: Annotated[str, "what it is a fact about, as in fact_ids of memory_after_turn"]
    record_id: Annotated[
        str, "this one value of it, as in recall_fact_ids; memory_forget takes it as well"
    ]
    key: Annotated[str, "the kind of the fact"]
    value: Annotated[str, "the value, as it was said"]
    statement: Annotated[str, "the words that say it; empty if they are not known"]
    tier: Annotated[str, "how long it is kept: L0 for good, L1 for the day, L2 for the week"]
    confidence: Annotated[float, "how sure it is, 0 to 1"]
    state: Annotated[
        str,
        "active, questioned (it may hold no more, see doubt), superseded, deleted, or"
        " expired for one that is past its day",
    ]
    doubt: Annotated[FactDoubt | None, "the later sentence that makes it questioned"]
    valid_from: Annotated[datetime, "since when it holds"]
    valid_to: Annotated[datetime | None, "until when it held, if it was replaced or taken back"]
    expires_at: Annotated[
        datetime | None, "the end of its last day; none for what is kept for good"
    ]
    superseded_by: Annotated[str | None, "the record_id of the value that replaced it"]
    evidence: Annotated[FactEvidence, "where it was said"]


@result
class FactList:
    facts: Annotated[list[ListedFact], "newest first; forgotten facts are not among them"]
    next_cursor: Annotated[str | None, "where the next page begins, if there is one"] = None


@result
class ForgottenTurn:
    turn_id: Annotated[str, "the turn"]
    items: Annotated[int, "items of it that recall could show"]


@result
class ForgottenFacts:
    dry_run: Annotated[bool, "true: nothing was changed"]
    facts: Annotated[
        list[ListedFact], "values that were forgotten, or would be, as they were before"
    ]
    turns: Annotated[list[ForgottenTurn], "turns that were forgotten, or would be"]
    not_found: Annotated[list[str], "ids that nothing was found under"]


@result
class FactChange:
    changed: Annotated[bool, "false: it held already"]
    fact: Annotated[ListedFact, "the value that holds now"]
