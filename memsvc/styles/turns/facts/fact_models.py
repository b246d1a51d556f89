"""Argument and result models of the tools that list, correct and forget facts."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from memsvc.core.paths import check_identifier
from memsvc.core.tools import Result
from memsvc.styles.turns.turn_models import SessionArguments

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
CURSOR_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 1000
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=200)]


class FactsArguments(SessionArguments):
    """Arguments that select the owner of the facts."""

    user_id: str = Field(
        "", description="the person whose facts, shared by all of their sessions, are meant too"
    )
    reach: Literal["all", "session", "user"] = Field(
        "all", description="all: the session's facts and the user's; session, user: only those"
    )

    @field_validator("user_id")
    @classmethod
    def _user(cls, value: str) -> str:
        return check_identifier(value.strip(), "user_id") if value.strip() else ""


class ListFactsArguments(FactsArguments):
    tier: Literal["", "L0", "L1", "L2"] = Field(
        "", description="facts of this tier only; every tier if not given"
    )
    state: Literal["active", "past", "all"] = Field(
        "active",
        description="active: what holds now, questioned or not; past: what was replaced, taken back"
        " or is past its day",
    )
    fact_id: str = Field(
        "",
        max_length=1024,
        pattern=r"^[^\x00]*$",
        description="values of this fact only; every fact if not given",
    )
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="facts at the most")
    cursor: str = Field(
        "", max_length=CURSOR_CHARS_MAX, description="next_cursor of the page before"
    )


class FactEvidence(Result):
    session_id: str = Field(description="the session in which it was said")
    turn_id: str = Field(description="the turn in which it was said")
    item: str = Field(
        description="the event of the item that says it, as in the session's event files"
    )
    user_id: str = Field(description="who said it, if known")
    origin: str = Field(
        description="who found the fact there: rule, model, user or import; person: who corrected"
        " what had been found there"
    )


class FactDoubt(Result):
    text: str = Field(description="what the user said later")
    said_at: datetime = Field(description="when")
    session_id: str = Field(description="the session in which it was said")
    turn_id: str = Field(description="the turn in which it was said")


class ListedFact(Result):
    fact_id: str = Field(description="what it is a fact about, as in fact_ids of memory_after_turn")
    record_id: str = Field(
        description="this one value of it, as in recall_fact_ids; memory_forget takes it as well"
    )
    key: str = Field(description="the kind of the fact")
    value: str = Field(description="the value, as it was said")
    statement: str = Field(description="the words that say it; empty if they are not known")
    tier: str = Field(
        description="how long it is kept: L0 for good, L1 for the day, L2 for the week"
    )
    confidence: float = Field(description="how sure it is, 0 to 1")
    state: str = Field(
        description="active, questioned (it may hold no more, see doubt), superseded, deleted, or"
        " expired for one that is past its day"
    )
    doubt: FactDoubt | None = Field(description="the later sentence that makes it questioned")
    valid_from: datetime = Field(description="since when it holds")
    valid_to: datetime | None = Field(
        description="until when it held, if it was replaced or taken back"
    )
    expires_at: datetime | None = Field(
        description="the end of its last day; none for what is kept for good"
    )
    superseded_by: str | None = Field(description="the record_id of the value that replaced it")
    evidence: FactEvidence = Field(description="where it was said")


class ListFactsResult(Result):
    facts: list[ListedFact] = Field(description="newest first; forgotten facts are not among them")
    next_cursor: str | None = Field(None, description="where the next page begins, if there is one")


class FactForgetArguments(FactsArguments):
    fact_ids: Names = Field(
        default_factory=list,
        description="facts by fact_id, with every past value, or single values by record_id",
    )
    query: str = Field(
        "", max_length=20_000, description="facts that hold now and bear on these words"
    )
    turn_ids: Names = Field(
        default_factory=list,
        description="turns of the session: all that was said in them, and the facts learnt there",
    )
    dry_run: bool | None = Field(
        None,
        description="only say what would be forgotten; if not given, true with a query and false"
        " without one",
    )


class ForgottenTurn(Result):
    turn_id: str = Field(description="the turn")
    items: int = Field(description="items of it that recall could show")


class FactForgetResult(Result):
    dry_run: bool = Field(description="true: nothing was changed")
    facts: list[ListedFact] = Field(
        description="values that were forgotten, or would be, as they were before"
    )
    turns: list[ForgottenTurn] = Field(description="turns that were forgotten, or would be")
    not_found: list[str] = Field(description="ids that nothing was found under")


class FactCorrectArguments(FactsArguments):
    record_id: str = Field(
        pattern="^[0-9a-f]{12}$", description="the value to correct, as in recall_fact_ids"
    )
    statement: str | None = Field(
        None, max_length=TEXT_CHARS_MAX, description="what is true, in a sentence of the user's"
    )
    value: str | None = Field(
        None, max_length=TEXT_CHARS_MAX, description="or only the value that is true"
    )
    restore: bool = Field(
        False, description="or true: the value holds, again if it is a past one, without a doubt"
    )


class FactCorrectResult(Result):
    changed: bool = Field(description="false: it held already")
    fact: ListedFact = Field(description="the value that holds now")
