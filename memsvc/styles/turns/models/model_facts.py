"""Validation of facts that a model proposes: its input, and the claims made of its output."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
import regex
from pydantic import BaseModel, Field

from memsvc.core.analysis import terms
from memsvc.core.chunks import sentence_boundary_positions
from memsvc.core.facts import (
    STATEMENT_CHARS_MAX,
    Claim,
    Evidence,
    Fact,
    FactState,
    FactTier,
    RemovalClaim,
    Statement,
    normalized_value,
    slot_of,
)
from memsvc.core.frozen import frozen
from memsvc.core.rules import topics
from memsvc.core.rules.own_words import masked, pasted_spans
from memsvc.core.rules.rule import Topic
from memsvc.core.secrets import is_secret, replace_secrets
from memsvc.core.untrusted import escaped, plain_line
from memsvc.styles.turns.file_layout import timestamp, turn_of

FACT_LIMIT: Final = 60
QUOTED_SHARE_MIN: Final = 0.8
"""Terms of a quotation that the sentence must have."""
OWN_SHARE_MIN: Final = 0.5
"""Terms of a quotation that the user's own part of the sentence must have: the end of it may name a
title, but a text to be translated is nobody's statement."""

PROPOSALS_MAX: Final = 20
VALUE_BYTES_MAX: Final = 512
KEY_BYTES_MAX: Final = 64
CONFIDENCE: Final = 0.78
"""Default confidence of a model that gives no valid one."""
TEXT_CHARS_MAX: Final = 4096
"""Characters of one output text that are read."""
SAME_WORDS_MIN: Final = 3
"""A value with this many words is the same statement under any key."""

_NO_KEY: Final = regex.compile(r"\W+")
_TOPICS: Final = {
    one.key.replace(" ", "_"): one for one in vars(topics).values() if isinstance(one, Topic)
}
KEYS: Final = tuple(sorted(_TOPICS))
"""Keys under which rules store facts: a model that uses them too repeats nothing."""
_USER_ORIGINS: Final = frozenset(("rule", "user"))


@frozen
class InputMessage:
    """A message in a model's input.

    `stored_at` is when its turn was stored, `message_at` its own time."""

    entry: int
    event: str
    role: str
    speaker: str
    text: str
    message_at: datetime
    stored_at: datetime


@frozen
class ModelInput:
    """Input of a model: new messages of one user of a session, earlier ones, and current facts.

    The model sees only the ids made here: `m1`, `m2` ... and `f1`, `f2` ... in this order."""

    session: str
    user: str
    messages: Sequence[InputMessage]
    previous: Sequence[InputMessage]
    facts: Sequence[Fact]

    def text(self, now: datetime) -> str:
        """Return all of it as one JSON object that no text can close, with secrets masked."""
        body = {
            "today": f"{now:%Y-%m-%d, %A}",
            "facts": [_fact(f"f{at}", fact) for at, fact in enumerate(self.facts, 1)],
            "earlier": [_message(message) for message in self.previous],
            "messages": [
                {"id": f"m{at}"} | _message(one) for at, one in enumerate(self.messages, 1)
            ],
        }
        return escaped(orjson.dumps(body).decode())


def most_related(
    facts: Sequence[Fact], messages: Iterable[InputMessage], *, limit: int = FACT_LIMIT
) -> list[Fact]:
    """Return the facts that share the most words with the messages, newest first among equals."""
    if len(facts) <= limit:
        return list(facts)
    message_terms = {term for message in messages for term in terms(message.text)}
    by_words = sorted(
        facts,
        key=lambda fact: (
            len(
                message_terms
                & set(terms(f"{fact.statement.key.replace('_', ' ')} {fact.statement.value}"))
            ),
            fact.valid_from,
        ),
        reverse=True,
    )
    return by_words[:limit]


def _fact(name: str, fact: Fact) -> dict[str, Any]:
    statement = fact.statement
    return {
        "id": name,
        "key": statement.key,
        "value": replace_secrets(statement.value),
        "statement": replace_secrets(statement.statement),
        "tier": statement.tier.value,
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }


def _message(message: InputMessage) -> dict[str, Any]:
    body = {
        "role": message.role,
        "at": timestamp(message.message_at),
        "text": replace_secrets(message.text),
    }
    return body | ({"speaker": message.speaker} if message.speaker else {})


def own_sentence(text: str, quotation: str) -> str:
    """Return the user's sentence that a model quotes, as it was said; "" where nothing says it.

    `text` is a message of the user's, `quotation` the model's wording. The sentence is returned,
    not the quotation, so that no negation is lost; at most STATEMENT_CHARS_MAX characters."""
    expected = set(terms(quotation))
    own_text = masked(text, pasted_spans(text))
    best, found, start = (0.0, 0.0), "", 0
    for end in (*sentence_boundary_positions(text), len(text)):
        shares = [
            len(expected.intersection(terms(words[start:end]))) / max(1, len(expected))
            for words in (text, own_text)
        ]
        is_quoted = shares[0] >= QUOTED_SHARE_MIN and shares[1] >= OWN_SHARE_MIN
        if is_quoted and (shares[1], shares[0]) > best:
            best, found = (shares[1], shares[0]), text[start:end]
        start = end
    return " ".join(found.split())[:STATEMENT_CHARS_MAX]


class FactProposal(BaseModel):
    """One change of the facts, as loosely as a model may put it.

    What is wrong with it is found out later, so that one bad proposal does not cost the others."""

    change: str = Field("", json_schema_extra={"enum": ["add", "update", "delete"]})
    fact: str = Field("", description="for update and delete: id of the fact")
    key: str = Field("", description="for add: what the fact is about, in snake_case")
    value: str = Field("", description="for add and update: the value of the fact")
    statement: str = Field(
        "", description="for add and update: the sentence in which the user says so, word for word"
    )
    several: bool = Field(
        False, description="for add: whether the key may hold more than one value at once"
    )
    tier: str = Field(
        "",
        description="for add and update: retention tier of the fact, L0, L1 or L2",
        json_schema_extra={"enum": ["L0", "L1", "L2"]},
    )
    confidence: float = Field(
        CONFIDENCE, description="for add and update: confidence, above 0 and at most 1"
    )
    evidence: list[str] = Field(
        default_factory=list, description="ids of the messages that state the fact"
    )


class Proposals(BaseModel):
    """The changes of the facts that the messages give reason for; often none."""

    changes: list[FactProposal] = Field(default_factory=list)


@frozen
class _Said:
    """A sentence of the user's, its message, and how the model put it."""

    message: InputMessage
    sentence: str
    quotation: str


class _DroppedError(Exception):
    """A rejected proposal; the reason is one of the published outcomes."""


def claims_of_proposals(
    proposals: Sequence[FactProposal],
    model_input: ModelInput,
    *,
    active: Sequence[Fact],
    deleted: Sequence[Fact],
) -> tuple[list[Claim], Counter[str]]:
    """Return the claims of an answer, and counts of rejected proposals by reason.

    `active` are the active facts, `deleted` those retracted, forgotten or corrected recently. Facts
    that changed since the model saw them, and invented ids, make no claims."""
    judge = _ProposalJudge(model_input, active, deleted)
    claims = []
    dropped: Counter[str] = Counter()
    # deletions first: their value may be added under another key
    for at, proposal in sorted(
        enumerate(proposals[:PROPOSALS_MAX]), key=lambda one: one[1].change != "delete"
    ):
        try:
            claims.append(judge.claim(proposal, at))
        except _DroppedError as reason:
            dropped[str(reason)] += 1
    if len(proposals) > PROPOSALS_MAX:
        dropped["unfit"] += len(proposals) - PROPOSALS_MAX
    return claims, dropped


class _ProposalJudge:
    """Conversion of proposals into claims, one after the other.

    Claims count as facts for later ones."""

    def __init__(
        self,
        model_input: ModelInput,
        active: Sequence[Fact],
        deleted: Sequence[Fact],
    ) -> None:
        self._input = model_input
        self._messages = {f"m{at}": message for at, message in enumerate(model_input.messages, 1)}
        self._facts = {f"f{at}": fact for at, fact in enumerate(model_input.facts, 1)}
        self._active = {fact.place: fact for fact in active}
        self._statements = [fact.statement for fact in active]
        self._deleted = deleted

    def claim(self, proposal: FactProposal, at: int) -> Claim:
        cited = self._evidence(proposal)
        match proposal.change:
            case "add":
                return self._add(proposal, cited, at)
            case "update":
                return self._update(proposal, cited, at)
            case "delete":
                return self._delete(proposal, cited[-1])
            case _:
                raise _DroppedError("unfit")

    def _evidence(self, proposal: FactProposal) -> list[InputMessage]:
        """Return the cited messages in order, those of the user last."""
        cited = [self._messages[one] for one in proposal.evidence[:100] if one in self._messages]
        if not cited:
            raise _DroppedError("unknown")
        return sorted(cited, key=lambda message: (message.role == "user", message.entry))

    def _said(self, proposal: FactProposal, cited: Sequence[InputMessage]) -> _Said:
        """Return the latest sentence of the user's own words that says what is proposed.

        Nothing else is evidence: not what an assistant said, nor a text that is worked on."""
        quotation = plain_line((proposal.statement or proposal.value)[:TEXT_CHARS_MAX])
        for message in reversed(cited):
            sentence = own_sentence(message.text, quotation) if message.role == "user" else ""
            if sentence and is_secret(sentence, sentence):
                raise _DroppedError("secret")
            if sentence:
                return _Said(message, plain_line(sentence), quotation)
        raise _DroppedError("unfit")

    def _add(self, proposal: FactProposal, cited: Sequence[InputMessage], at: int) -> Statement:
        key = _NO_KEY.sub("_", plain_line(proposal.key[:TEXT_CHARS_MAX]).casefold()).strip("_")
        if not key or len(key.encode()) > KEY_BYTES_MAX:
            raise _DroppedError("unfit")
        value = _checked_value(key, proposal.value)
        fact_id, key, has_many = self._subject(key)
        slot = slot_of(value) if has_many or proposal.several else ""
        said = self._said(proposal, cited)
        message = said.message
        statement = self._statement(proposal, said, at, (fact_id, key, slot, value))
        self._check_new(statement, said)
        active = next(
            (
                fact
                for fact in self._active.values()
                if fact.statement.identity == statement.identity
            ),
            None,
        )
        if active is not None:
            _check_precedence(active, message)
        return self._kept(statement, message, active)

    def _subject(self, key: str) -> tuple[str, str, bool]:
        """Return the fact_id and the key, and whether it has several values.

        As rules store it, or as an active fact is stored."""
        topic = _TOPICS.get(key)
        if topic is not None:
            return topic.fact_id, topic.key, topic.many
        existing = next((one for one in self._statements if one.key == key), None)
        return (existing.fact_id, key, bool(existing.slot)) if existing else (key, key, False)

    def _update(self, proposal: FactProposal, cited: Sequence[InputMessage], at: int) -> Statement:
        old = self._target(proposal, cited[-1])
        value = _checked_value(old.statement.key, proposal.value)
        slot = slot_of(value) if old.statement.slot else ""
        identity = (old.statement.fact_id, old.statement.key, slot, value)
        said = self._said(proposal, cited)
        statement = self._statement(proposal, said, at, identity)
        self._check_new(statement, said)
        if slot:
            statement = replace(statement, conflicts=(old.statement.ending,))
        return self._kept(statement, said.message, old)

    def _delete(self, proposal: FactProposal, message: InputMessage) -> RemovalClaim:
        old = self._target(proposal, message)
        self._statements = [one for one in self._statements if one != old.statement]
        return RemovalClaim(
            (old.statement.ending,), self._evidence_of(message), self._weight(message, old)
        )

    def _target(self, proposal: FactProposal, message: InputMessage) -> Fact:
        """Return the fact that is meant, if it is still as the model saw it."""
        seen = self._facts.get(proposal.fact)
        if seen is None:
            raise _DroppedError("unknown")
        if seen.place not in self._active:
            raise _DroppedError("stale")
        _check_precedence(seen, message)
        return seen

    def _statement(
        self,
        proposal: FactProposal,
        said: _Said,
        at: int,
        identity: tuple[str, str, str, str],
    ) -> Statement:
        fact_id, key, slot, value = identity
        if proposal.tier not in FactTier.__members__:
            raise _DroppedError("unfit")
        confidence = proposal.confidence if 0 < proposal.confidence <= 1 else CONFIDENCE
        evidence = self._evidence_of(said.message)
        mark = "|".join(
            (evidence.turn, fact_id, slot, str(self._input.messages[-1].entry), str(at))
        )
        number = hashlib.sha1(mark.encode(), usedforsecurity=False).hexdigest()[:12]
        record = f"{evidence.turn}-llm-{number}"
        return Statement(
            record,
            fact_id,
            key,
            slot,
            value,
            FactTier[proposal.tier],
            confidence,
            "",
            evidence,
            statement=said.sentence,
        )

    def _check_new(self, statement: Statement, said: _Said) -> None:
        """Raise _DroppedError for what another fact says: in its value, or in a rule's words."""
        # repeats of the same identity are left to the merge, which knows about tiers
        others = [one for one in self._statements if one.identity != statement.identity]
        source = statement.evidence
        by_rules = [
            one.statement
            for one in others
            if one.evidence.origin == "rule"
            and (one.evidence.session, one.evidence.turn) == (source.session, source.turn)
        ]
        if any(_same(one, statement) for one in others) or any(
            words and own_sentence(words, said.quotation) for words in by_rules
        ):
            raise _DroppedError("repeated")

    def _kept(self, statement: Statement, message: InputMessage, old: Fact | None) -> Statement:
        for fact in self._deleted:
            if fact.state is FactState.SUPERSEDED and _same(fact.statement, statement):
                raise _DroppedError("stale")  # a person corrected it
            forgotten_since = fact.valid_to is None or fact.valid_to >= message.stored_at
            if (forgotten_since or message.role != "user") and _same(fact.statement, statement):
                raise _DroppedError("stale")
        self._statements.append(statement)
        return replace(statement, message_at=self._weight(message, old))

    def _weight(self, message: InputMessage, old: Fact | None) -> datetime:
        """Return the time from which a claim counts against existing facts.

        It wins over a rule's fact from the same words, and over a model's fact from earlier words,
        though that was written later than they were sent."""
        if old is None:
            return message.stored_at
        source = old.statement.evidence
        same_words = (source.session, source.turn) == (self._input.session, turn_of(message.event))
        if source.origin == "model" or same_words:
            return max(message.stored_at, old.valid_from + timedelta(microseconds=1))
        return message.stored_at

    def _evidence_of(self, message: InputMessage) -> Evidence:
        model_input = self._input
        return Evidence(
            model_input.session,
            turn_of(message.event),
            message.event,
            model_input.user,
            origin="model",
        )


def _check_precedence(fact: Fact, message: InputMessage) -> None:
    """Raise _DroppedError unless the message may change the fact.

    What a person corrected is not changed, and a user's statement only by a later statement of the
    user or in the same message."""
    if fact.statement.evidence.origin == "person":
        raise _DroppedError("stale")
    if fact.statement.evidence.origin in _USER_ORIGINS and (
        message.role != "user" or message.stored_at < fact.valid_from
    ):
        raise _DroppedError("stale")


def _checked_value(key: str, given: str) -> str:
    value = plain_line(given[:TEXT_CHARS_MAX])
    if not value or len(value.encode()) > VALUE_BYTES_MAX:
        raise _DroppedError("unfit")
    if is_secret(value, f"{key.replace('_', ' ')} {value}"):
        raise _DroppedError("secret")
    return value


def _same(first: Statement, second: Statement) -> bool:
    """Return whether two statements are equivalent.

    They have one value of one key, or a value of several words under any key."""
    value = normalized_value(first.value)
    if value.strip(".!") != normalized_value(second.value).strip(".!"):
        return False
    return (
        set(first.key.split("_")) == set(second.key.split("_"))
        or len(value.split()) >= SAME_WORDS_MIN
    )
