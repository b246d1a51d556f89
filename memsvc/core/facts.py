"""What a fact is: a value of a key, how long it holds, where it was learnt, and what a newer statement does to it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Tier(StrEnum):
    """How long a fact is kept: L0 for good, L1 for the day, L2 for the week."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"


class State(StrEnum):
    """What became of a fact; recall shows only the active ones."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


Identity = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a fact was learnt: the session, the turn and the item of it."""

    session: str
    turn: str
    item: str
    user: str


@dataclass(frozen=True, slots=True)
class Statement:
    """Something said that may become a fact. `slot` tells apart the values of a key that holds many, else "".

    `cues` are further words under which the fact shall be found.
    """

    record: str
    fact_id: str
    key: str
    slot: str
    value: str
    tier: Tier
    confidence: float
    cues: str
    evidence: Evidence

    @property
    def identity(self) -> Identity:
        """What makes two statements speak of the same thing."""
        return self.fact_id, self.key, self.slot


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement that was believed, from when, and until when if no longer."""

    entry: int
    statement: Statement
    state: State
    valid_from: datetime
    valid_to: datetime | None
    expires_at: datetime | None
    superseded_by: str | None

    def holds(self, now: datetime) -> bool:
        """True while the fact is active and not past its day."""
        return self.state is State.ACTIVE and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class Merge:
    """What new statements change: those to keep, and the facts that they replace with the record that replaces each."""

    kept: tuple[Statement, ...]
    replaced: tuple[tuple[Fact, str], ...]
    repeated: int


def merge(active: Mapping[Identity, Fact], statements: Sequence[Statement], now: datetime) -> Merge:
    """Decide what new statements do to the facts that hold: the same value again is skipped, a new value supersedes.

    The last statement of an identity wins. A fact past its day no longer holds, so saying it again renews it.
    """
    latest = {statement.identity: statement for statement in statements}
    kept, replaced, repeated = [], [], len(statements) - len(latest)
    for identity, statement in latest.items():
        old = active.get(identity)
        if old is not None and old.holds(now) and _same(old.statement, statement):
            repeated += 1
            continue
        kept.append(statement)
        if old is not None:
            replaced.append((old, statement.record))
    return Merge(tuple(kept), tuple(replaced), repeated)


def latest_by_identity(facts: Iterable[Fact]) -> dict[Identity, Fact]:
    """The newest fact of each identity: what is believed when a session's book and a user's both hold one."""
    return {fact.statement.identity: fact for fact in sorted(facts, key=lambda fact: fact.valid_from)}


def normalised_value(value: str) -> str:
    """The value as it is compared: case and white space do not count."""
    return " ".join(value.casefold().split())


def slot_of(value: str) -> str:
    """The slot of one value of a key that holds many."""
    return hashlib.sha256(normalised_value(value).encode()).hexdigest()[:12]


def expires_at(tier: Tier, now: datetime, *, l1_days: int, l2_days: int) -> datetime | None:
    """Midnight UTC of today plus the tier's days; None for what is kept for good."""
    days = {Tier.L0: None, Tier.L1: l1_days, Tier.L2: l2_days}[tier]
    if days is None:
        return None
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


def _same(one: Statement, other: Statement) -> bool:
    return one.tier is other.tier and normalised_value(one.value) == normalised_value(other.value)
