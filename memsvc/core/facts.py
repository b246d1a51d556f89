"""Facts: values of a key with validity and evidence, and the merge of newer statements."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal


class Tier(StrEnum):
    """Lifetime of a fact: L0 for good, L1 for the day, L2 for the week."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"


class State(StrEnum):
    """State of a fact; recall returns only active ones."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


Identity = tuple[str, str, str]

_LASTING = {Tier.L1: 1, Tier.L2: 2, Tier.L0: 3}
_OWN = frozenset(("rule", "user"))
_FIRST_UNSPACED = "\u2e80"


Origin = Literal["rule", "model", "user", "import"]
"""Source of a fact: a rule on the user's words, a model, the user through a tool, or an import."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Source of a fact: the session, the turn and the item of it, the user, and who found it."""

    session: str
    turn: str
    item: str
    user: str
    origin: Origin = "rule"


@dataclass(frozen=True, slots=True)
class Ending:
    """Facts that no longer hold: those of a key that have this value.

    A key of "" means every key of the `fact_id`, a value of "" any value. Unless `exact`, a value
    that no fact has means facts that contain it among other words."""

    fact_id: str
    key: str
    value: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that may become a fact.

    `slot` distinguishes the values of a key that has many, else "". `cues` are further keywords of
    the fact. `ends` are facts that conflict with it, such as liking what is disliked now. `said_at`
    is the time of its evidence, where that was not just now, and `words` the original wording,
    where that was not in English."""

    record: str
    fact_id: str
    key: str
    slot: str
    value: str
    tier: Tier
    confidence: float
    cues: str
    evidence: Evidence
    ends: tuple[Ending, ...] = ()
    said_at: datetime | None = None
    words: str = field(default="", compare=False)

    @property
    def identity(self) -> Identity:
        """Return the identity that two statements about the same thing share."""
        return self.fact_id, self.key, self.slot


@dataclass(frozen=True, slots=True)
class Retraction:
    """A claim that something is no longer true, or never was."""

    ends: tuple[Ending, ...]
    evidence: Evidence
    said_at: datetime | None = None


Claim = Statement | Retraction


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored statement with its validity, its entry and its index."""

    entry: int
    statement: Statement
    state: State
    valid_from: datetime
    valid_to: datetime | None
    expires_at: datetime | None
    superseded_by: str | None
    book: int = 0

    def holds(self, now: datetime) -> bool:
        """Return whether the fact is active and has not expired."""
        return self.state is State.ACTIVE and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class Merge:
    """Changes that new claims make to stored facts.

    `kept` are the statements to store, `replaced` the facts they replace with the record that
    replaces each, `deleted` the facts that were retracted. `repeated` counts known statements,
    `overruled` rejected ones."""

    kept: tuple[Statement, ...]
    replaced: tuple[tuple[Fact, str], ...]
    repeated: int
    deleted: tuple[Fact, ...] = ()
    overruled: int = 0

    @property
    def changes(self) -> bool:
        """Return whether anything is to be written."""
        return bool(self.kept or self.replaced or self.deleted)


def merge(known: Iterable[Fact], claims: Sequence[Claim], now: datetime) -> Merge:
    """Decide how new claims, in the order in which they were made, change the known facts.

    `known` are the active facts that they may touch, of one index or of several in order, and for
    claims that are not the user's own words the deleted ones. The same value again is skipped,
    unless for a longer time; a new value supersedes; the last claim wins. The user's own words
    always win. A proposal of a model or an import wins over older evidence, and over another such
    proposal of no higher confidence; it never brings back what was deleted since.

    An expired fact no longer holds, so stating it again renews it, and retracting it changes
    nothing."""
    facts = list({(fact.book, fact.entry): fact for fact in known}.values())
    latest, endings, repeated = _settled(claims)
    overruled = [
        identity
        for identity, statement in latest.items()
        if any(not _outranks(statement, fact, now) for fact in facts if fact.statement.identity == identity)
    ]
    for identity in overruled:
        del latest[identity]
    replaced: list[tuple[Fact, str]] = []
    deleted: list[Fact] = []
    holding = [fact for fact in facts if fact.holds(now)]
    ended = _ended(holding, endings, now)
    again = {
        identity
        for identity, fact in latest_by_identity(holding).items()
        if identity in latest and _repeats(fact.statement, latest[identity])
    }
    for fact in facts:
        if fact.state is not State.ACTIVE:
            continue
        identity = fact.statement.identity
        if identity in latest:
            if identity not in again:
                replaced.append((fact, latest[identity].record))
        elif (claim := ended.get((fact.book, fact.entry))) is not None:
            if isinstance(claim, Retraction):
                deleted.append(fact)
            elif claim.identity in latest:
                replaced.append((fact, claim.record))
    kept = tuple(statement for identity, statement in latest.items() if identity not in again)
    return Merge(kept, tuple(replaced), repeated + len(again), tuple(deleted), len(overruled))


def _settled(claims: Sequence[Claim]) -> tuple[dict[Identity, Statement], list[tuple[Ending, Claim]], int]:
    """Return the final statements of some claims, what they end, and the number of repeats."""
    latest: dict[Identity, Statement] = {}
    endings: list[tuple[Ending, Claim]] = []
    repeated = 0
    for claim in claims:
        endings += [(ending, claim) for ending in claim.ends]
        for identity, statement in list(latest.items()):
            if any(_names(ending, statement, loosely=not ending.exact) for ending in claim.ends):
                del latest[identity]
        if isinstance(claim, Statement):
            repeated += claim.identity in latest
            latest[claim.identity] = claim
    return latest, endings, repeated


def _ended(
    facts: Sequence[Fact], endings: Sequence[tuple[Ending, Claim]], now: datetime
) -> dict[tuple[int, int], Claim]:
    """Return the facts, by index and entry, that the endings match, with the last such claim."""
    ended: dict[tuple[int, int], Claim] = {}
    for ending, claim in endings:
        meant = [fact for fact in facts if _names(ending, fact.statement, loosely=False)]
        if not meant and not ending.exact:
            meant = [fact for fact in facts if _names(ending, fact.statement, loosely=True)]
        ended |= {(fact.book, fact.entry): claim for fact in meant if _outranks(claim, fact, now)}
    return ended


def _names(ending: Ending, statement: Statement, *, loosely: bool) -> bool:
    if ending.fact_id != statement.fact_id or ending.key not in ("", statement.key):
        return False
    if not ending.value:
        return True
    if ending.exact and statement.slot == slot_of(ending.value):
        return True
    one, other = normalised_value(ending.value), normalised_value(statement.value)
    return one == other or (loosely and (_holds_words(one, other) or _holds_words(other, one)))


def _holds_words(text: str, words: str) -> bool:
    """Return whether a text contains words as whole words; in scripts without spaces, anywhere."""
    unspaced = any(character >= _FIRST_UNSPACED for character in words)
    return words in text if unspaced else f" {words} " in f" {text} "


def _outranks(claim: Claim, fact: Fact, now: datetime) -> bool:
    if claim.evidence.origin in _OWN:
        return True
    said_at = claim.said_at or now
    if fact.state is State.DELETED:
        return fact.valid_to is None or said_at > fact.valid_to
    if said_at > fact.valid_from or not fact.holds(now):
        return True
    sure = claim.confidence if isinstance(claim, Statement) else 0.0
    return fact.statement.evidence.origin not in _OWN and sure >= fact.statement.confidence


def latest_by_identity(facts: Iterable[Fact]) -> dict[Identity, Fact]:
    """Return the newest fact of each identity, across a session's index and a user's."""
    return {fact.statement.identity: fact for fact in sorted(facts, key=lambda fact: fact.valid_from)}


def normalised_value(value: str) -> str:
    """Return the value for comparison: case and white space are ignored."""
    return " ".join(value.casefold().split())


def slot_of(value: str) -> str:
    """Return the slot of one value of a key that has many."""
    return hashlib.sha256(normalised_value(value).encode()).hexdigest()[:12]


def expires_at(tier: Tier, now: datetime, *, l1_days: int, l2_days: int) -> datetime | None:
    """Return midnight UTC of today plus the tier's days; None for facts that are kept for good."""
    days = {Tier.L0: None, Tier.L1: l1_days, Tier.L2: l2_days}[tier]
    if days is None:
        return None
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


def _repeats(one: Statement, other: Statement) -> bool:
    """Return whether the other statement adds nothing: the same value, for no longer."""
    return _LASTING[other.tier] <= _LASTING[one.tier] and normalised_value(one.value) == normalised_value(other.value)
