"""What a model is shown of a session, and what of its answer is believed. Nothing it says is taken at its word."""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import regex
from pydantic import BaseModel, Field

from memsvc.core.facts import Claim, Ending, Evidence, Fact, Retraction, Statement, Tier, normalised_value, slot_of
from memsvc.core.rules import topics
from memsvc.core.rules.rule import Topic
from memsvc.core.secrets import is_secret
from memsvc.styles.turns.layout import turn_of
from memsvc.styles.turns.models.shown import Message, Shown

PROPOSALS_MAX: Final = 20
VALUE_BYTES_MAX: Final = 512
KEY_BYTES_MAX: Final = 64
CONFIDENCE: Final = 0.78
"""How sure a model is that does not say so in a way that can be."""
ASSISTANT_CONFIDENCE_MAX: Final = 0.6
"""What only the assistant said is believed less, whatever the model says: it may come from a web page."""
TEXT_CHARS_MAX: Final = 4096
"""Characters of one text of an answer that are looked at."""
SAME_WORDS_MIN: Final = 3
"""A value of so many words is the same statement under whatever key it stands."""

_NO_KEY: Final = regex.compile(r"\W+")
_BREAKS: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]")
_UNSEEN: Final = regex.compile(r"[\p{Cs}\p{Co}\p{Cn}[\p{Cf}--[\u200c\u200d]]]", regex.V1)
_TOPICS: Final = {one.key.replace(" ", "_"): one for one in vars(topics).values() if isinstance(one, Topic)}
KEYS: Final = tuple(sorted(_TOPICS))
"""The keys under which rules keep facts: where a model uses them too, neither repeats the other."""
_OWN_WORDS: Final = frozenset(("rule", "user"))


class Proposal(BaseModel):
    """One change of the facts, as loosely as a model may put it: what is wrong with it is found out later, so that one
    bad proposal does not cost the others."""

    change: str = Field("", json_schema_extra={"enum": ["add", "update", "delete"]})
    fact: str = Field("", description="update, delete: id of the fact")
    key: str = Field("", description="add: what the fact is about, in snake_case")
    value: str = Field("", description="add, update: what is true")
    several: bool = Field(False, description="add: whether the key may hold more than one value at once")
    tier: str = Field("", description="add, update: L0, L1 or L2", json_schema_extra={"enum": ["L0", "L1", "L2"]})
    confidence: float = Field(CONFIDENCE, description="add, update: above 0 and at most 1")
    evidence: list[str] = Field(default_factory=list, description="ids of the messages that say it")


class Proposals(BaseModel):
    """The changes of the facts that the messages give reason for; often none."""

    changes: list[Proposal] = Field(default_factory=list)


class _DroppedError(Exception):
    """A proposal that is not believed; the reason is one of the published outcomes."""


def believed(
    proposals: Sequence[Proposal],
    shown: Shown,
    *,
    holding: Sequence[Fact],
    deleted: Sequence[Fact],
) -> tuple[list[Claim], Counter[str]]:
    """The claims that an answer comes to, and how many of its proposals were dropped, by reason.

    `holding` is what is believed now, `deleted` what was taken back or forgotten lately. Of a fact that is not what the
    model was shown any more nothing is claimed, nor of one that an id was invented for.
    """
    judge = _Judge(shown, holding, deleted)
    claims: list[Claim] = []
    dropped: Counter[str] = Counter()
    # what is deleted first may be said again under another key
    for at, proposal in sorted(enumerate(proposals[:PROPOSALS_MAX]), key=lambda one: one[1].change != "delete"):
        try:
            claims.append(judge.claim(proposal, at))
        except _DroppedError as reason:
            dropped[str(reason)] += 1
    if len(proposals) > PROPOSALS_MAX:
        dropped["unfit"] += len(proposals) - PROPOSALS_MAX
    return claims, dropped


class _Judge:
    """Turns proposals into claims, one after the other; what was claimed counts as held for those that follow."""

    def __init__(
        self,
        shown: Shown,
        holding: Sequence[Fact],
        deleted: Sequence[Fact],
    ) -> None:
        self._shown = shown
        self._messages = {f"m{at}": message for at, message in enumerate(shown.messages, 1)}
        self._facts = {f"f{at}": fact for at, fact in enumerate(shown.facts, 1)}
        self._holding = {(fact.book, fact.entry): fact for fact in holding}
        self._held = [fact.statement for fact in holding]
        self._deleted = deleted

    def claim(self, proposal: Proposal, at: int) -> Claim:
        message = self._evidence(proposal)
        match proposal.change:
            case "add":
                return self._add(proposal, message, at)
            case "update":
                return self._update(proposal, message, at)
            case "delete":
                return self._delete(proposal, message)
            case _:
                raise _DroppedError("unfit")

    def _evidence(self, proposal: Proposal) -> Message:
        """The latest of the messages that are cited, one of the user's if there is any."""
        cited = [self._messages[one] for one in proposal.evidence[:100] if one in self._messages]
        if not cited:
            raise _DroppedError("unknown")
        return max(cited, key=lambda message: (message.role == "user", message.entry))

    def _add(self, proposal: Proposal, message: Message, at: int) -> Statement:
        key = _NO_KEY.sub("_", _plain(proposal.key).casefold()).strip("_")
        if not key or len(key.encode()) > KEY_BYTES_MAX:
            raise _DroppedError("unfit")
        value = _checked_value(key, proposal.value)
        fact_id, key, several = self._subject(key)
        slot = slot_of(value) if several or proposal.several else ""
        statement = self._statement(proposal, message, at, (fact_id, key, slot, value))
        self._check_new(statement)
        active = next((fact for fact in self._holding.values() if fact.statement.identity == statement.identity), None)
        if active is not None:
            _check_may_change(active, message)
        return self._kept(statement, message, active)

    def _subject(self, key: str) -> tuple[str, str, bool]:
        """The fact_id and the key that something is kept under, and whether there are several: as rules keep it, or as
        a fact is kept that holds already."""
        topic = _TOPICS.get(key)
        if topic is not None:
            return topic.fact_id, topic.key, topic.many
        held = next((one for one in self._held if one.key == key), None)
        return (held.fact_id, key, bool(held.slot)) if held else (key, key, False)

    def _update(self, proposal: Proposal, message: Message, at: int) -> Statement:
        old = self._target(proposal, message)
        value = _checked_value(old.statement.key, proposal.value)
        slot = slot_of(value) if old.statement.slot else ""
        identity = (old.statement.fact_id, old.statement.key, slot, value)
        statement = self._statement(proposal, message, at, identity)
        self._check_new(statement)
        if slot:
            gone = Ending(old.statement.fact_id, old.statement.key, old.statement.value, exact=True)
            statement = replace(statement, ends=(gone,))
        return self._kept(statement, message, old)

    def _delete(self, proposal: Proposal, message: Message) -> Retraction:
        old = self._target(proposal, message)
        gone = Ending(old.statement.fact_id, old.statement.key, old.statement.value, exact=True)
        self._held = [one for one in self._held if one != old.statement]
        return Retraction((gone,), self._evidence_of(message), self._weight(message, old))

    def _target(self, proposal: Proposal, message: Message) -> Fact:
        """The fact that is meant, if it still is what the model was shown."""
        seen = self._facts.get(proposal.fact)
        if seen is None:
            raise _DroppedError("unknown")
        if self._holding.get((seen.book, seen.entry)) is None:
            raise _DroppedError("stale")
        _check_may_change(seen, message)
        return seen

    def _statement(self, proposal: Proposal, message: Message, at: int, named: tuple[str, str, str, str]) -> Statement:
        fact_id, key, slot, value = named
        if proposal.tier not in Tier.__members__:
            raise _DroppedError("unfit")
        sure = proposal.confidence if 0 < proposal.confidence <= 1 else CONFIDENCE
        if message.role != "user":
            sure = min(sure, ASSISTANT_CONFIDENCE_MAX)
        evidence = self._evidence_of(message)
        mark = "|".join((evidence.turn, fact_id, slot, str(self._shown.messages[-1].entry), str(at)))
        number = hashlib.sha1(mark.encode(), usedforsecurity=False).hexdigest()[:12]
        record = f"{evidence.turn}-llm-{number}"
        return Statement(record, fact_id, key, slot, value, Tier[proposal.tier], sure, "", evidence)

    def _check_new(self, statement: Statement) -> None:
        # what says the same of the same thing is for the merge, which knows about tiers
        if any(one.identity != statement.identity and _same(one, statement) for one in self._held):
            raise _DroppedError("repeated")

    def _kept(self, statement: Statement, message: Message, old: Fact | None) -> Statement:
        for fact in self._deleted:
            forgotten_since = fact.valid_to is None or fact.valid_to >= message.stored_at
            if (forgotten_since or message.role != "user") and _same(fact.statement, statement):
                raise _DroppedError("stale")
        self._held.append(statement)
        return replace(statement, said_at=self._weight(message, old))

    def _weight(self, message: Message, old: Fact | None) -> datetime:
        """From when a claim counts against what is believed. It wins over what a rule made of the very same words, and
        over what a model made of words before them, though that was written down later than they were said."""
        if old is None:
            return message.stored_at
        learnt = old.statement.evidence
        same_words = (learnt.session, learnt.turn) == (self._shown.session, turn_of(message.event))
        if learnt.origin == "model" or same_words:
            return max(message.stored_at, old.valid_from + timedelta(microseconds=1))
        return message.stored_at

    def _evidence_of(self, message: Message) -> Evidence:
        shown = self._shown
        return Evidence(shown.session, turn_of(message.event), message.event, shown.user, origin="model")


def _check_may_change(fact: Fact, message: Message) -> None:
    """What a user said is changed by what a user says later or in the same breath, and by nobody else."""
    if fact.statement.evidence.origin in _OWN_WORDS and (message.role != "user" or message.stored_at < fact.valid_from):
        raise _DroppedError("stale")


def _checked_value(key: str, given: str) -> str:
    value = _plain(given)
    if not value or len(value.encode()) > VALUE_BYTES_MAX:
        raise _DroppedError("unfit")
    if is_secret(value, f"{key.replace('_', ' ')} {value}"):
        raise _DroppedError("secret")
    return value


def _same(one: Statement, other: Statement) -> bool:
    """Whether two statements say the same: one value of one key, or a value of several words under whatever key."""
    said = normalised_value(one.value)
    if said.strip(".!") != normalised_value(other.value).strip(".!"):
        return False
    return set(one.key.split("_")) == set(other.key.split("_")) or len(said.split()) >= SAME_WORDS_MIN


def _plain(text: str) -> str:
    """The text in one line, without what cannot be stored or seen."""
    return " ".join(unicodedata.normalize("NFC", _UNSEEN.sub("", _BREAKS.sub(" ", text[:TEXT_CHARS_MAX]))).split())
