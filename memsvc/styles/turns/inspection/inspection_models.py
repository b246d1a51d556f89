"""Argument and result models of the inspection tools."""

import re
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from memsvc.core.errors import invalid
from memsvc.core.paths import check_identifier
from memsvc.core.tools import Arguments, Result
from memsvc.styles.turns.turn_models import SessionArguments

CURSOR_CHARS_MAX: Final = 700
ITEM_CURSOR: Final = re.compile(r"[1-9]\d{0,9}\Z")
Cursor = Annotated[
    str, Field(max_length=CURSOR_CHARS_MAX, description="next_cursor of the page before")
]
Next = Annotated[str | None, Field(description="cursor of the next page, when there is one")]


class ListSessionsArguments(Arguments):
    q: str = Field(
        "",
        max_length=128,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="sessions whose names have this in them, of the latest 10,000",
    )
    user_id: str = Field("", description="sessions in which this person spoke last")
    limit: int = Field(50, ge=1, le=200, description="sessions at the most")
    cursor: Cursor = ""

    @field_validator("user_id")
    @classmethod
    def _user(cls, value: str) -> str:
        return check_identifier(value.strip(), "user_id") if value.strip() else ""


class ListedSession(Result):
    session_id: str = Field(description="the session")
    user_id: str = Field(description="who spoke last, if known")
    shared: bool = Field(description="whether more than one user spoke in it")
    turns: int = Field(description="turns that were stored")
    items: int = Field(description="items that were stored")
    facts: int = Field(description="facts that its turns stated or changed")
    created_at: datetime = Field(description="when it began")
    updated_at: datetime = Field(description="when it was last written")
    last_maintenance_at: datetime | None = Field(description="when it was last maintained")


class ListSessionsResult(Result):
    sessions: list[ListedSession] = Field(description="the latest first")
    next_cursor: Next = None


class ListTurnsArguments(SessionArguments):
    turn_id: str = Field(
        "", description="a turn to begin with: it, and what was said before; else the latest one"
    )
    limit: int = Field(50, ge=1, le=200, description="items at the most")
    cursor: str = Field("", max_length=10, description="next_cursor of the page before")

    @field_validator("turn_id")
    @classmethod
    def _turn(cls, value: str) -> str:
        return check_identifier(value.strip(), "turn_id") if value.strip() else ""

    @field_validator("cursor")
    @classmethod
    def _cursor(cls, value: str) -> str:
        if value and not ITEM_CURSOR.match(value):
            raise invalid("cursor must be the next_cursor of an earlier answer")
        return value


class ListedTurnItem(Result):
    event_id: str = Field(
        description="the item, as in the session's event files and as the evidence of facts"
    )
    turn_id: str = Field(description="the turn")
    said_at: datetime = Field(description="when it was said")
    role: str = Field(description="who it is from: user, assistant, tool and so on")
    speaker: str = Field(description="the speaker's name, if it was given")
    text: str = Field(description="its text, the first 4,000 characters")
    cut: bool = Field(description="whether the text goes on")
    tokens: int = Field(description="what it costs in a prompt")
    item: dict[str, Any] | None = Field(
        description="the item as it was stored; none for one that is packed, or over 32 KB"
    )


class ListTurnsResult(Result):
    items: list[ListedTurnItem] = Field(
        description="what was said, the latest first; what was forgotten is not among them"
    )
    next_cursor: Next = None


class ListRecallsArguments(SessionArguments):
    turn_id: str = Field("", description="the turn; every turn of the session if not given")
    limit: int = Field(10, ge=1, le=50, description="recalls at the most")
    cursor: Cursor = ""

    @field_validator("turn_id")
    @classmethod
    def _turn(cls, value: str) -> str:
        return check_identifier(value.strip(), "turn_id") if value.strip() else ""


class RecallCandidate(Result):
    kind: str = Field(
        description="turn, fact, insight, or chunk for a passage of a file, board or document"
    )
    ref: str = Field(description="the event, insight or passage, or the record_id of a fact")
    session_id: str = Field(description="the session that it is from")
    turn_id: str | None = Field(
        description="the turn that it is from; of a fact, in which it was said"
    )
    fact_id: str | None = Field(description="of a fact, what it is a fact about")
    shown: bool = Field(description="whether the prompt had it")
    reason: str | None = Field(description="why the prompt did not have it")
    score: float = Field(description="what it was ranked by")
    parts: dict[str, float] = Field(description="what the score was made of")
    text: str | None = Field(
        description="what the prompt had of it; none once it was forgotten, and for passages,"
        " which change"
    )
    role: str = Field(description="who it was from")
    speaker: str = Field(description="the speaker's name, if it was given")
    said_at: datetime | None = Field(description="when it was said")
    key: str | None = Field(description="of a fact, its kind")
    tier: str | None = Field(description="of a fact, how long it is kept")
    state: str | None = Field(
        description="of a fact, what became of it since: active, superseded, deleted"
    )


class ListedRecall(Result):
    recall_id: str = Field(description="the recall")
    recalled_at: datetime = Field(description="when")
    turn_id: str = Field(description="for which turn, if that was given")
    user_id: str = Field(description="for which person, if that was given")
    context_token_count: int = Field(description="tokens of the whole prompt")
    candidates: list[RecallCandidate] = Field(
        description="what was shown, and the best of what was not"
    )
    confidence: dict[str, Any] | None = Field(
        description="how sure recall was of past items, and the floor"
    )
    limits: dict[str, Any] = Field(description="what there was room for, and what was left out")


class ListRecallsResult(Result):
    recalls: list[ListedRecall] = Field(
        description="the latest first; a second may pass until one is here"
    )
    next_cursor: Next = None
