"""Correction of facts by a person; what was held before stays as history."""

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final, assert_never

from memsvc.core.analysis import normalized_text, terms
from memsvc.core.errors import Code, MemsvcError, invalid, not_found
from memsvc.core.facts import (
    PROFILE_FACT_IDS,
    STATEMENT_CHARS_MAX,
    Doubt,
    Fact,
    FactExpiry,
    FactState,
    Merge,
    Statement,
    normalized_value,
    record_id,
    slot_of,
)
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.rules import topics
from memsvc.core.rules.change_words import NEGATIVE
from memsvc.core.rules.extraction import extract
from memsvc.core.rules.rule import Topic
from memsvc.core.scope import Scope
from memsvc.core.secrets import is_secret
from memsvc.core.untrusted import plain_line
from memsvc.store import fact_history, facts, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.style_files import append
from memsvc.styles.embedding import queue_embedding
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.facts.fact_removal import FactOwner
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of
from memsvc.styles.turns.turn_index import TurnIndex

_CONFLICTS: Final = {
    topic.fact_id: topic.conflicts for topic in vars(topics).values() if isinstance(topic, Topic)
}


async def write_merge(
    tx: Tx,
    fact_index: TurnIndex,
    merged: Merge,
    new_facts: Sequence[StatementWithExpiry],
    now: datetime,
) -> None:
    """Write a merge whose new facts belong to one index, as a turn does.

    The caller holds the locks of the indexes that the merge touches."""
    await append(
        tx, file_layout.fact_lines(merged, new_facts, now), owner=file_layout.OWNER, now=now
    )
    first_entries = (
        await index.add(tx, {fact_index.name: facts.entries(new_facts, now)}) if new_facts else {}
    )
    await facts.apply(
        tx, fact_index.number, first_entries.get(fact_index.name, 0), merged, new_facts, now
    )
    await queue_embedding(tx, now)


KIND_NOTE: Final = (
    "the statement has no form that the rules know, so the kind of the fact is unchanged: if it no"
    " longer fits, forget the fact and let the user say it anew"
)
PLAIN_NOTE: Final = (
    "the statement has no form that the rules know and does not say what the fact was about, so it"
    " was stored as a plain statement in place of the fact"
)
ADDITIONAL_NOTE: Final = (
    "the statement corrects something else in the sentence that says the fact, so it was stored"
    " as a plain statement beside the fact, which is questioned"
)
EXPIRED_NOTE: Final = "the statement denies the fact, so the fact was ended and nothing replaces it"
_SENTENCES: Final = (topics.STATEMENT.key, topics.INSTRUCTION.key)
"""Keys of facts whose value is a whole sentence."""
_OTHERS: Final = (topics.FAMILY.fact_id, topics.KIN.fact_id, topics.PET.fact_id)
"""Ids of facts that name somebody of whom the same sentence may tell more."""
_MONTH: Final = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|ene|abr|ago|dic|janv|fév|avr"
    r"|juin|juil|aoû|déc)[a-zéû]*\.?"
)
_PARTS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}(?![a-z])"
            rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b"
            r"|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)?"
            r"|\d{1,2}月\d{1,2}[日号]"
        ),
        r"\b(?=[A-Z/-]*\d)(?=[\d/-]*[A-Z])[A-Z\d]+(?:[/-][A-Z\d]+)+\b",
        r"(?<![\w.,:/-])\d+(?:[.,]\d+)?(?![\w:/-]|[.,]\d)",
    )
)
"""Dates, identifiers and numbers: a value of one of these kinds can stand in another's place."""
CONTENT_TERMS_MIN: Final = 2
"""Minimum number of terms in a corrected statement that no rule can read."""
WRONG: Final = "reported as wrong"
"""The words of a doubt that is feedback, and no sentence of the user's."""


@frozen
class NewStatement:
    """The words that state the fact from now on; its value is read in them."""

    text: str


@frozen
class NewValue:
    """The value of the fact from now on."""

    text: str


@frozen
class Restored:
    """The value holds again, without a doubt."""


Correction = NewStatement | NewValue | Restored


@frozen
class CorrectedFact:
    """The valid or ended fact, whether the call changed it, and a note for the caller."""

    fact: Fact
    changed: bool
    note: str | None = None


@frozen
class FactCorrection:
    """Replaces facts by what a person says of them."""

    database: Database
    clock: Clock
    options: TurnOptions

    @asynccontextmanager
    async def _begin(
        self, scope: Scope, owner: FactOwner
    ) -> AsyncIterator[tuple[Tx, str, dict[int, TurnIndex]]]:
        """Lock the facts of an owner; yield its session and indexes, as far as within reach."""
        names = sorted(target_index.name for target_index in owner.indexes())
        async with self.database.begin(
            scope,
            locks=[session_lock(owner.session), *map(index_lock, names)],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
        ) as tx:
            near = await owner.within_reach(tx)
            yield tx, near.session, {one.number: one for one in near.indexes()}

    async def correct(
        self, scope: Scope, owner: FactOwner, record_id: str, correction: Correction
    ) -> CorrectedFact:
        """Store a new fact in place of one, with origin "person" and the evidence of the old one.

        A statement that only denies the fact ends it. Nothing changes where that holds already.
        INVALID_ARGUMENT for a statement that says nothing true; NOT_FOUND for an id without a fact,
        or of a forgotten one; CONFLICT for a past value that is not restored, or where the policy
        of a session forbids storage; RESOURCE_BUSY when the session's writer takes too long."""
        now = self.clock.now()
        async with self._begin(scope, owner) as (tx, session, indexes):
            old = await _find(tx, list(indexes), session, record_id)
            policy = await self._policy(tx, session, old.statement.evidence.session)
            fact_index, is_active = indexes[old.index_id], old.state is FactState.ACTIVE
            if is_active and old.doubt is not None and isinstance(correction, Restored):
                merged = Merge(questioned=((old, None),))
                await write_merge(tx, fact_index, merged, [], now)
                return CorrectedFact(replace(old, doubt=None), True)
            new, note = _corrected(old.statement, correction, now)
            if new is None and is_active:
                await write_merge(tx, fact_index, Merge(deleted=(old,)), [], now)
                ended = replace(old, state=FactState.DELETED, valid_to=now, doubt=None)
                return CorrectedFact(ended, True, note)
            if new is None:
                return CorrectedFact(old, False, note)
            known = await facts.facts_of_claims(tx, list(indexes), [new])
            for fact in known:
                if fact.is_valid(now) and _says(fact, new, correction):
                    changes = is_active and old.statement.record_id != fact.statement.record_id
                    if changes:
                        merged = Merge(replaced=((old, fact.statement.record),))
                        await write_merge(tx, fact_index, merged, [], now)
                    return CorrectedFact(fact, changes)
            if not is_active and not isinstance(correction, Restored):
                raise MemsvcError(
                    Code.CONFLICT,
                    "the value with this record_id is not the current value of the fact",
                    recovery="correct the current value of the fact, or restore the value with"
                    " this record_id",
                )
            replaced = [old] if is_active else await _correcting(tx, list(indexes), old)
            doubted: tuple[tuple[Fact, Doubt | None], ...] = ()
            if note == ADDITIONAL_NOTE:
                replaced = []
                source = old.statement.evidence
                doubted = ((old, Doubt(new.statement, now, source.session, source.turn)),)
            closed = {one.place: (one, new.record) for one in [*known, *replaced]}
            merged = Merge((new,), tuple(closed.values()), questioned=doubted)
            expires_at = policy.expires_at(new, now)
            stored = [StatementWithExpiry(new, expires_at)]
            await write_merge(tx, fact_index, merged, stored, now)
        fact = Fact(0, new, FactState.ACTIVE, now, None, expires_at, None, old.index_id)
        return CorrectedFact(fact, True, note)

    async def feedback(
        self, scope: Scope, owner: FactOwner, *, record_id: str, turn: str, helped: bool
    ) -> bool:
        """Store that a fact, or a turn of the session, helped or was wrong; return what changed.

        The latest feedback counts. It changes the rank of the entries by a bounded factor; a fact
        that was wrong is in doubt until it helps. NOT_FOUND for what is not there or was forgotten;
        RESOURCE_BUSY when the session's writer takes too long."""
        async with self._begin(scope, owner) as (tx, session, indexes):
            if turn:
                index_id = turn_index.turns(session).number
                limit = self.options.items_max * 3
                found = await index.list_visible(tx, session, index_id, [turn], limit=limit)
                entries = [item.entry for item in found.get(turn, ())]
                if not entries:
                    raise not_found(
                        "this session has no turn with this turn_id; it may have been forgotten"
                    )
            else:
                fact = await _find(tx, list(indexes), session, record_id)
                index_id, entries = fact.index_id, [fact.entry]
                now, known = self.clock.now(), fact.doubt
                doubt = None if helped else Doubt(WRONG, now, fact.statement.evidence.session, "")
                changes = known is not None and known.text == WRONG if helped else known is None
                if fact.state is FactState.ACTIVE and changes:
                    merged = Merge(questioned=((fact, doubt),))
                    await write_merge(tx, indexes[index_id], merged, [], now)
            changed = await index.set_feedback(tx, index_id, entries, 1 if helped else -1)
        return changed > 0

    async def _policy(self, tx: Tx, *session_names: str) -> SessionPolicy:
        """Return the policy of the last session; CONFLICT where one of them forbids storage."""
        found = await sessions.find_all(tx, session_names)
        policies = [
            policy_of(found[session].policy if session in found else None, self.options)
            for session in session_names
        ]
        if not all(policy.store for policy in policies):
            raise MemsvcError(
                Code.CONFLICT,
                "the policy of this session, or of the session of the fact, does not allow"
                " anything to be stored",
            )
        return policies[-1]


async def _find(tx: Tx, index_ids: Sequence[int], session: str, record_id: str) -> Fact:
    found = await fact_history.find_by_names(
        tx, index_ids, names=[record_id], session=session, turns=()
    )
    for fact in found:
        if fact.statement.record_id == record_id:
            return fact
    raise not_found(
        "there is no fact with this record_id; it may have been forgotten",
        recovery="get the record_id of each value from memory_list_facts",
    )


async def _correcting(tx: Tx, index_ids: Sequence[int], old: Fact) -> list[Fact]:
    """Return the current fact by which a person corrected a past one, directly or in steps."""
    by = old.superseded_by
    while by:
        name = record_id(old.statement.evidence.session, by)
        found = await fact_history.find_by_names(tx, index_ids, names=[name], session="", turns=())
        fact = next((one for one in found if one.statement.record_id == name), None)
        if fact is None or fact.statement.evidence.origin != "person":
            break
        if fact.state is FactState.ACTIVE:
            return [fact]
        by = fact.superseded_by
    return []


def _corrected(
    old: Statement, correction: Correction, now: datetime
) -> tuple[Statement | None, str | None]:
    """Return the statement that replaces one, None if nothing does, and a note for the caller.

    It is of the same topic, unless a whole sentence is the new statement and says something else.
    """
    note = None
    match correction:
        case Restored():
            value, statement = old.value, old.statement
        case NewValue(text=text):
            value = _checked(text, "value", old.key)
            if old.key in _SENTENCES and value != old.value:
                return _corrected(old, NewStatement(_sentence_with(old, value)), now)
            value_is_prefix = normalized_value(old.statement).startswith(
                normalized_value(old.value)
            )
            statement = value if value_is_prefix else ""
            if value == old.value:
                statement = old.statement
        case NewStatement(text=text):
            statement = _checked(text, "statement", old.key)
            read = _read(statement, old)
            if read is None:
                return None, EXPIRED_NOTE
            old, value, note = read
        case _:
            assert_never(correction)
    mark = "\x1f".join((old.record_id, value, statement, now.isoformat()))
    number = hashlib.sha1(mark.encode(), usedforsecurity=False).hexdigest()[:12]
    new = replace(
        old,
        record=f"{old.evidence.turn}-person-{number}",
        slot=slot_of(value) if old.slot and value != old.value else old.slot,
        value=value,
        statement=statement,
        confidence=1.0,
        evidence=replace(old.evidence, origin="person"),
        conflicts=tuple(
            FactExpiry(*conflict, value, exact=True) for conflict in _CONFLICTS.get(old.fact_id, ())
        ),
    )
    return new, note


def _read(statement: str, old: Statement) -> tuple[Statement, str, str | None] | None:
    """Return a fact of the topic of a statement, its value, and a note if rules read no topic.

    None if the statement only denies the old fact. Where the rules read no topic but that of any
    sentence, what a profile tells stays what it is, and so does a fact whose key the statement
    names; its value is the old one, if that is said, or else the whole statement. Any other fact
    becomes a plain statement. INVALID_ARGUMENT where so few words say nothing true."""
    source = old.evidence
    claims = extract(
        [(source.item, statement)],
        session=source.session,
        turn=source.turn,
        user=source.user,
        certain=True,
    )
    read = [claim for claim in claims if isinstance(claim, Statement)]
    of_topic = [claim for claim in read if claim.identity[:2] == old.identity[:2]]
    if len(read) == 1 and read[0].fact_id != topics.STATEMENT.fact_id:
        of_topic = read
    if of_topic:
        return replace(of_topic[0], record=old.record, evidence=source), of_topic[0].value, None
    said = normalized_text(statement)
    is_denial = NEGATIVE.search(said) is not None
    is_of_kind = old.fact_id in (topics.STATEMENT.fact_id, *PROFILE_FACT_IDS)
    words = frozenset(terms(NEGATIVE.sub(" ", said)))
    known_words = frozenset(terms(f"{old.key} {old.value}"))
    denies_all = is_denial and not is_of_kind and words and words <= known_words
    if denies_all or any(
        ended.names(old, partial=True) for claim in claims for ended in claim.conflicts
    ):
        return None
    if len(words) < CONTENT_TERMS_MIN:
        raise invalid(
            "statement does not say what is true",
            recovery='pass the true sentence as statement, such as "My sister is called Ana", or'
            " the true value as value; if nothing is true instead, call memory_forget",
        )
    if not is_of_kind and (is_denial or words.isdisjoint(terms(old.key))):
        plain = topics.STATEMENT
        kept = replace(old, fact_id=plain.fact_id, key=plain.key, slot="-", keywords=plain.keywords)
        shared = words.intersection(terms(old.statement))
        is_beside = old.fact_id in _OTHERS and len(shared) >= CONTENT_TERMS_MIN
        is_beside = is_beside and not is_denial and words.isdisjoint(known_words)
        return kept, statement, ADDITIONAL_NOTE if is_beside else PLAIN_NOTE
    known = normalized_value(old.value)
    is_whole = is_denial or normalized_value(old.statement).startswith(known)
    is_said = not is_whole and known in normalized_value(statement)
    return old, old.value if is_said else statement, KIND_NOTE


def _sentence_with(old: Statement, value: str) -> str:
    """Return the sentence of a plain fact with its only value of that kind replaced.

    A value that is a sentence itself is returned. INVALID_ARGUMENT for any other."""
    sentence = old.statement or old.value
    kind = next((kind for kind in _PARTS if kind.fullmatch(value)), None)
    if kind is not None and len(kind.findall(sentence)) == 1:
        return kind.sub(lambda _: value, sentence)
    if kind is None and len(terms(value)) > CONTENT_TERMS_MIN:
        return value
    raise invalid(
        "value is not a sentence, but the fact is one",
        recovery=f"pass the corrected sentence as statement; the fact is: {sentence}",
    )


def _checked(text: str, name: str, key: str) -> str:
    plain = plain_line(text)
    if not plain:
        raise invalid(f"{name} must contain visible text")
    if len(plain) > STATEMENT_CHARS_MAX:
        raise invalid(f"{name} is limited to {STATEMENT_CHARS_MAX} characters")
    if is_secret(plain, f"{key.replace('_', ' ')} {plain}"):
        raise invalid(f"{name} contains or names a password, key or other secret; facts hold none")
    return plain


def _says(fact: Fact, new: Statement, correction: Correction) -> bool:
    """Return whether a fact holds without a doubt what a correction makes of it."""
    held = fact.statement
    if fact.doubt is not None or held.identity != new.identity or held.value != new.value:
        return False
    return isinstance(correction, NewValue) or held.statement == new.statement
