"""Facts: values of a key with validity and evidence, their merge, and a person's profile."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, get_args

from memsvc.core.frozen import frozen
from memsvc.core.secrets import has_secret_value


class FactTier(StrEnum):
    """Where a fact is kept: L0 with what lasts, L1 by day, L2 by week; tasks end with L1 and L2."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"


class FactState(StrEnum):
    """State of a fact; recall returns only active ones. A questioned one is active with a doubt."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


Identity = tuple[str, str, str]

_TIER_RANK = {FactTier.L1: 1, FactTier.L2: 2, FactTier.L0: 3}
_USER_ORIGINS = frozenset(("rule", "user", "person"))
_ARTICLES: Final = frozenset(["the", "der", "die", "das", "dem", "den", "le", "la", "el"])
KIND_CHARS_MIN: Final = 4
"""Letters of a noun by which the end of a name is recognised."""
_FIRST_CJK = "\u2e80"


Origin = Literal["rule", "model", "user", "import", "person"]
"""Source of a fact: a rule on the user's words, a model, the user through a tool, an import, or a
person who corrected it."""

LASTING_IDS: Final = frozenset({"user_like", "user_dislike", "user_project"})
"""Facts that last until the user says otherwise, whatever their tier."""
DATED_IDS: Final = frozenset({"user_plan", "user_reminder"})
"""Facts that end when the day is over that they name, and without one when they are done."""
STATEMENT_CHARS_MAX = 200
"""Maximum length of the clause that a fact keeps."""


@frozen
class Evidence:
    """Source of a fact: the session, the turn and the item of it, the user, and who found it."""

    session: str
    turn: str
    item: str
    user: str
    origin: Origin = "rule"


@frozen
class FactExpiry:
    """Facts that no longer hold: those of a key that have this value.

    A key of "" means every key of the `fact_id`, a value of "" any value. Unless `exact`, a value
    that no fact has means facts that contain it among other words."""

    fact_id: str
    key: str
    value: str = ""
    exact: bool = False

    def names(self, statement: "Statement", *, partial: bool) -> bool:
        """Return whether a statement has ended; with `partial`, also if it has further words."""
        if self.fact_id != statement.fact_id or self.key not in ("", statement.key):
            return False
        if not self.value or (self.exact and statement.slot == slot_of(self.value)):
            return True
        value, existing = normalized_value(self.value), normalized_value(statement.value)
        return value == existing or (
            partial
            and (
                _contains_words(value, existing)
                or _contains_words(existing, value)
                or _is_kind(value, existing)
            )
        )


@frozen
class Statement:
    """A statement that may become a fact.

    `slot` distinguishes the values of a key that has many, else "". `keywords` are further keywords
    of the fact. `conflicts` are facts that conflict with it, such as liking what is disliked now.
    `message_at` is the time of its evidence, where that was not just now, and `words` the original
    wording, where that was not in English. `statement` is the clause that says it, word for word,
    with its negation and its time; "" where that is not known."""

    record: str
    fact_id: str
    key: str
    slot: str
    value: str
    tier: FactTier
    confidence: float
    keywords: str
    evidence: Evidence
    conflicts: tuple[FactExpiry, ...] = ()
    message_at: datetime | None = None
    words: str = field(default="", compare=False)
    statement: str = ""

    @property
    def record_id(self) -> str:
        """Return the id of this one value, unique over all sessions of a user."""
        return record_id(self.evidence.session, self.record)

    @property
    def told(self) -> str:
        """Return the words that tell this fact: the clause that says it, or else key and value."""
        return words_of(self.statement, self.key, self.value)

    @property
    def ending(self) -> FactExpiry:
        """Return what ends this very value, and no other."""
        return FactExpiry(self.fact_id, self.key, self.value, exact=True)

    @property
    def identity(self) -> Identity:
        """Return the identity that two statements about the same thing share."""
        return self.fact_id, self.key, self.slot


@frozen
class RemovalClaim:
    """A claim that something is no longer true, or never was."""

    conflicts: tuple[FactExpiry, ...]
    evidence: Evidence
    message_at: datetime | None = None
    statement: str = ""


Claim = Statement | RemovalClaim


@frozen
class Doubt:
    """A later sentence of the user's, by which a fact may no longer hold."""

    text: str
    said_at: datetime
    session: str
    turn: str


@frozen
class Fact:
    """A stored statement with its validity, its entry and its index.

    A `doubt` makes an active fact questioned: it is told with that sentence, never without."""

    entry: int
    statement: Statement
    state: FactState
    valid_from: datetime
    valid_to: datetime | None
    expires_at: datetime | None
    superseded_by: str | None
    index_id: int = 0
    doubt: Doubt | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return the index and the entry of the fact."""
        return self.index_id, self.entry

    def is_valid(self, now: datetime) -> bool:
        """Return whether the fact is active and has not expired."""
        return self.state is FactState.ACTIVE and (self.expires_at is None or self.expires_at > now)

    def at(self, time: datetime) -> "Fact":
        """Return the fact as it was at a time: without a doubt that arose later."""
        is_later = self.doubt is not None and self.doubt.said_at > time
        return replace(self, doubt=None) if is_later else self


@frozen
class Merge:
    """Changes that new claims make to stored facts.

    `kept` are the statements to store, `replaced` the facts they replace with the record that
    replaces each, `deleted` the facts that were retracted, `questioned` those in doubt from now on
    (None: no longer), `past` what was said before the newer fact that holds. `repeated` counts
    known statements, `ignored` rejected ones."""

    kept: tuple[Statement, ...] = ()
    replaced: tuple[tuple[Fact, str], ...] = ()
    repeated: int = 0
    deleted: tuple[Fact, ...] = ()
    ignored: int = 0
    questioned: tuple[tuple[Fact, Doubt | None], ...] = ()
    past: tuple[tuple[Statement, Fact], ...] = ()

    @property
    def changes(self) -> bool:
        """Return whether anything is to be written."""
        return bool(self.kept or self.replaced or self.deleted or self.questioned or self.past)


def merge(known: Iterable[Fact], claims: Sequence[Claim], now: datetime) -> Merge:
    """Decide how new claims, in the order in which they were made, change the known facts.

    `known` are the active facts that they may touch, of one index or of several in order, and for
    claims that are not the user's own words the deleted and corrected ones. The same value again
    is skipped, unless for a longer time or where it was in doubt; a new value supersedes; the last
    claim wins. The user's own words win, unless said before what holds, which makes them history; a
    rule puts what a person corrected in doubt and changes nothing of it. A proposal of a model or
    an import wins over older evidence, and over another such proposal of no higher confidence; it
    never brings back what was deleted since, and changes nothing that a person corrected.

    An expired fact no longer holds, so stating it again renews it, and retracting it changes
    nothing."""
    facts = list({fact.place: fact for fact in known}.values())
    latest, filters, repeated = _resolve_claims(claims)
    ignored, past = _remove_ignored(facts, latest, now)
    doubts = _corrected(facts, latest, now)
    for fact, _ in doubts:
        latest.pop(fact.statement.identity, None)
    replaced = []
    deleted = []
    valid = [fact for fact in facts if fact.is_valid(now)]
    claim_by_fact = _match_facts(valid, filters, now)
    repeats = {
        identity
        for identity, fact in latest_by_identity(valid).items()
        if identity in latest and fact.doubt is None and _repeats(fact.statement, latest[identity])
    }
    for fact in facts:
        if fact.state is not FactState.ACTIVE:
            continue
        identity = fact.statement.identity
        if identity in latest:
            if identity not in repeats:
                replaced.append((fact, latest[identity].record))
        elif (claim := claim_by_fact.get(fact.place)) is not None:
            if _is_corrected(fact, claim):
                doubts += [(fact, _doubt_of(claim, now))] if claim.statement else []
            elif isinstance(claim, RemovalClaim):
                deleted.append(fact)
            elif claim.identity in latest:
                replaced.append((fact, claim.record))
    kept = tuple(statement for identity, statement in latest.items() if identity not in repeats)
    return Merge(
        kept,
        tuple(replaced),
        repeated + len(repeats),
        tuple(deleted),
        ignored,
        tuple(doubts),
        tuple(past),
    )


def _remove_ignored(
    facts: Sequence[Fact], latest: dict[Identity, Statement], now: datetime
) -> tuple[int, list[tuple[Statement, Fact]]]:
    """Remove the statements that change nothing; return how many, and those that are history."""
    latest_facts = latest_by_identity(fact for fact in facts if fact.is_valid(now))
    weak = {
        fact.statement.identity
        for fact in facts
        if (statement := latest.get(fact.statement.identity)) is not None
        and not _takes_precedence(statement, fact, now)
    }
    taken = [(latest.pop(identity), latest_facts.get(identity)) for identity in weak]
    past = [
        (statement, newer)
        for statement, newer in taken
        if newer is not None and statement.evidence.origin == "rule" and not _same(newer, statement)
    ]
    return len(taken) - len(past), past


def _corrected(
    facts: Sequence[Fact], latest: Mapping[Identity, Statement], now: datetime
) -> list[tuple[Fact, Doubt]]:
    """Return the facts that a person corrected and a rule reads otherwise, with that sentence."""
    return [
        (fact, _doubt_of(statement, now))
        for fact in facts
        if (statement := latest.get(fact.statement.identity)) is not None
        and fact.is_valid(now)
        and _is_corrected(fact, statement)
        and not _same(fact, statement)
    ]


def _is_corrected(fact: Fact, claim: Claim) -> bool:
    return fact.statement.evidence.origin == "person" and claim.evidence.origin == "rule"


def _doubt_of(claim: Claim, now: datetime) -> Doubt:
    text = claim.told if isinstance(claim, Statement) else claim.statement
    evidence = claim.evidence
    return Doubt(
        text[:STATEMENT_CHARS_MAX], claim.message_at or now, evidence.session, evidence.turn
    )


def _same(fact: Fact, statement: Statement) -> bool:
    return normalized_value(fact.statement.value) == normalized_value(statement.value)


def _resolve_claims(
    claims: Sequence[Claim],
) -> tuple[dict[Identity, Statement], list[tuple[FactExpiry, Claim]], int]:
    """Return the final statements of some claims, what they end, and the number of repeats."""
    latest: dict[Identity, Statement] = {}
    filters = []
    repeated = 0
    for claim in claims:
        filters += [(fact_filter, claim) for fact_filter in claim.conflicts]
        for identity, statement in list(latest.items()):
            if any(
                fact_filter.names(statement, partial=not fact_filter.exact)
                for fact_filter in claim.conflicts
            ):
                del latest[identity]
        if isinstance(claim, Statement):
            repeated += claim.identity in latest
            latest[claim.identity] = claim
    return latest, filters, repeated


def _match_facts(
    facts: Sequence[Fact], filters: Sequence[tuple[FactExpiry, Claim]], now: datetime
) -> dict[tuple[int, int], Claim]:
    """Return the facts, by index and entry, that the endings match, with the last such claim."""
    claim_by_fact: dict[tuple[int, int], Claim] = {}
    for fact_filter, claim in filters:
        matching = [fact for fact in facts if fact_filter.names(fact.statement, partial=False)]
        if not matching and not fact_filter.exact:
            matching = [fact for fact in facts if fact_filter.names(fact.statement, partial=True)]
        claim_by_fact |= {
            fact.place: claim for fact in matching if _takes_precedence(claim, fact, now)
        }
    return claim_by_fact


def _contains_words(text: str, words: str) -> bool:
    """Return whether a text contains words as whole words; in scripts without spaces, anywhere."""
    is_cjk = any(character >= _FIRST_CJK for character in words)
    return words in text if is_cjk else f" {words} " in f" {text} "


def _is_kind(words: str, name: str) -> bool:
    """Return whether words are an article and the end of a name: "the bank" of Volksbank."""
    article, _, kind = words.partition(" ")
    is_known = article in _ARTICLES and len(kind) >= KIND_CHARS_MIN
    return is_known and any(word.endswith(kind) for word in name.split())


def _takes_precedence(claim: Claim, fact: Fact, now: datetime) -> bool:
    message_at = claim.message_at or now
    if claim.evidence.origin in _USER_ORIGINS:
        return message_at >= fact.valid_from or not fact.is_valid(now)
    if fact.state is FactState.DELETED:
        return fact.valid_to is None or message_at > fact.valid_to
    if fact.state is FactState.SUPERSEDED or fact.statement.evidence.origin == "person":
        return False
    if message_at > fact.valid_from or not fact.is_valid(now):
        return True
    confidence = claim.confidence if isinstance(claim, Statement) else 0.0
    return (
        fact.statement.evidence.origin not in _USER_ORIGINS
        and confidence >= fact.statement.confidence
    )


def latest_by_identity(facts: Iterable[Fact]) -> dict[Identity, Fact]:
    """Return the latest fact of each identity, across a session's index and a user's."""
    return {
        fact.statement.identity: fact for fact in sorted(facts, key=lambda fact: fact.valid_from)
    }


def words_of(statement: str, key: str, value: str) -> str:
    """Return the words that tell a fact: the clause that says it, or else key and value."""
    return statement or f"{key.replace('_', ' ')}: {value}"


def record_id(session: str, record: str) -> str:
    """Return the id of a record, 12 hexadecimal digits, unique over all sessions of a user."""
    name = f"{session}\x1f{record}".encode()
    return hashlib.md5(name, usedforsecurity=False).hexdigest()[:12]


def normalized_value(value: str) -> str:
    """Return the value for comparison: case and white space are ignored."""
    return " ".join(value.casefold().split())


def slot_of(value: str) -> str:
    """Return the slot of one value of a key that has many."""
    return hashlib.sha256(normalized_value(value).encode()).hexdigest()[:12]


def _repeats(one: Statement, other: Statement) -> bool:
    """Return whether the other statement adds nothing: the same value, for no longer."""
    return _TIER_RANK[other.tier] <= _TIER_RANK[one.tier] and normalized_value(
        one.value
    ) == normalized_value(other.value)


ProfileClass = Literal[
    "instruction",
    "answer_language",
    "name",
    "pronouns",
    "allergy",
    "condition",
    "medication",
    "diet",
]
"""A class of facts in a profile."""
PROFILE_CLASSES: Final[tuple[ProfileClass, ...]] = get_args(ProfileClass)
"""All classes, in the order in which a profile tells them."""
PRIVATE_CLASSES: Final[frozenset[ProfileClass]] = frozenset(
    ("allergy", "condition", "medication", "diet")
)
"""Classes that are not told where somebody else listens."""

_CLASS_BY_FACT_ID: Final[Mapping[str, ProfileClass]] = {
    "user_instruction": "instruction",
    "user_name": "name",
    "user_nickname": "name",
    "user_pronouns": "pronouns",
    "user_allergy": "allergy",
    "user_condition": "condition",
    "user_medication": "medication",
    "user_diet": "diet",
    "user_food_rule": "diet",
}
PROFILE_FACT_IDS: Final = tuple(_CLASS_BY_FACT_ID)
"""Ids of the facts that a profile is made of."""
PRIVATE_FACT_IDS: Final = tuple(
    name for name, kind in _CLASS_BY_FACT_ID.items() if kind in PRIVATE_CLASSES
)
"""Ids of the facts that are not told where somebody else listens."""
ADDRESS_FACT_IDS: Final = ("user_name", "user_nickname", "user_pronouns")
"""Ids of the facts by which somebody is addressed, also where somebody else listens."""


def profile_class(fact_id: str, key: str) -> ProfileClass | None:
    """Return the class of such facts in a profile; None where they are in none."""
    if fact_id == "user_instruction" and key == "answer language":
        return "answer_language"
    return _CLASS_BY_FACT_ID.get(fact_id)


def profile_facts(
    facts: Iterable[Fact], classes: Collection[str]
) -> list[tuple[ProfileClass, Fact]]:
    """Return the facts of a profile in an order that new facts do not change: class, then age.

    Facts with a secret or a code are left out."""
    told = [
        (name, fact)
        for fact in facts
        if (name := profile_class(fact.statement.fact_id, fact.statement.key)) in classes
        and name is not None
        and not has_secret_value(fact.statement.told)
    ]
    order = PROFILE_CLASSES.index
    return sorted(told, key=lambda pair: (order(pair[0]), pair[1].valid_from, pair[1].entry))
