"""Which facts the changes that a user's messages say put in doubt, and what takes their place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from memsvc.core.analysis import normalized_text, terms
from memsvc.core.facts import Claim, Doubt, Evidence, Fact, Merge, Statement, slot_of
from memsvc.core.rules import topics as t
from memsvc.core.rules.change_words import TOPICS_BY_FACT
from memsvc.core.rules.changes import (
    CHANGE_CHARS_MAX,
    CLAUSE_END,
    COMMON,
    NUMBER,
    STOPS,
    Change,
    changes_in,
    gave_way,
    is_said_in,
    matches_topic,
    may_end,
    names,
    replaces,
    says_otherwise,
    takes_up,
    topics_of,
)
from memsvc.core.secrets import is_secret

QUESTIONED_MAX: Final = 8
"""Facts that one change puts in doubt by its topic alone."""


def with_replacements(
    claims: Sequence[Claim],
    known: Sequence[Fact],
    doubts: Sequence[tuple[Change, Doubt, Evidence]],
    now: datetime,
) -> list[Claim]:
    """Return the claims, and those for what replaces known facts according to the changes."""
    result = list(claims)
    for change, doubt, evidence in doubts if any(one.replaced for one, *_ in doubts) else ():
        for fact in _concerned(change, doubt, _open(known, result, now)):
            new = _replacement(change, fact, doubt, evidence, result)
            if new is not None:
                result = [one for one in result if not _is_part(one, new.statement)]
                result.append(new)
    return result


def restatements(
    known: Sequence[Fact],
    claims: Sequence[Claim],
    doubts: Sequence[tuple[Change, Doubt, Evidence]],
) -> list[Fact]:
    """Return the known facts, with a doubt where a change states their value in new words.

    The new words replace the old ones then: "I'm vegan, but I eat fish now", "I'm vegan again"."""
    anew = {
        claim.identity: (claim.statement, doubt)
        for change, doubt, _ in doubts
        for claim in claims
        if isinstance(claim, Statement)
        and claim.statement in change.sentence
        and change.may_end_facts
    }
    result = []
    for fact in known:
        words, doubt = anew.get(fact.statement.identity, ("", fact.doubt))
        is_older = fact.statement.evidence.origin == "rule" and words != fact.statement.statement
        result.append(replace(fact, doubt=doubt) if is_older else fact)
    return result


def questioned(
    merge: Merge,
    known: Sequence[Fact],
    claims: Sequence[Claim],
    doubts: Sequence[tuple[Change, Doubt, Evidence]],
    now: datetime,
    meant: Sequence[tuple[Fact, Doubt]] = (),
) -> Merge:
    """Return a merge that also questions the known facts that changes end.

    `meant` are facts that a change ends by its meaning. What the claims of the same turn say of a
    fact goes before. Words of change in a fact itself are no change of it."""
    ended = [fact for fact, _ in merge.replaced] + list(merge.deleted)
    open_facts = [fact for fact in _open(known, claims, now) if fact not in ended]
    by_meaning = [one for one in meant if one[0] in open_facts]
    by_words = [
        (fact, doubt)
        for change, doubt, _ in doubts
        for fact in _concerned(change, doubt, open_facts)
    ]
    every = (*merge.questioned, *by_meaning, *by_words)
    last = {fact.place: (fact, doubt) for fact, doubt in every}
    return replace(merge, questioned=tuple(last.values()))


def meant_facts(
    facts: Sequence[Fact], doubt: Doubt, cosines: Mapping[tuple[int, int], float]
) -> list[Fact]:
    """Return the facts of one message that a change of that message is about.

    Those that share a word or their topic with the change, unless it says that something else is
    over; where none does, the one that is nearest by the cosines of index and entry. A fact that is
    all that the message says needs none."""
    changes = (change for change in changes_in(doubt.text) if change.may_end_facts)
    ended = frozenset[str]().union(*(change.ended_terms for change in changes))
    topics = topics_of(normalized_text(doubt.text))
    said = frozenset(terms(doubt.text)) - COMMON
    may_be = [fact for fact in facts if may_end(fact.statement.fact_id, topics)]
    about = [
        fact
        for fact in may_be
        if TOPICS_BY_FACT.get(fact.statement.fact_id) in topics
        or not said.isdisjoint(_words(fact))
        or not ended.isdisjoint(terms(fact.statement.statement))
    ]
    if about:
        return [fact for fact in about if not ended or not ended.isdisjoint(_words(fact))]
    if len({fact.statement.statement for fact in facts}) <= 1:
        return may_be
    compared = [fact for fact in may_be if fact.place in cosines]
    return sorted(compared, key=lambda fact: cosines[fact.place])[-1:]


def _open(known: Sequence[Fact], claims: Sequence[Claim], now: datetime) -> list[Fact]:
    """Return the valid facts, except those that claims of the same turn state again."""
    claimed = {claim.identity for claim in claims if isinstance(claim, Statement)}
    return [fact for fact in known if fact.is_valid(now) and fact.statement.identity not in claimed]


def _concerned(change: Change, doubt: Doubt, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that a change may end: those it names, else the latest of its topic.

    A change that names some facts says nothing of the others of its topic."""
    before = [
        fact for fact in facts if fact.valid_from <= doubt.said_at and _may_concern(change, fact)
    ]
    about = [
        fact
        for fact in before
        if matches_topic(change, fact.statement.told, fact.statement.fact_id)
    ]
    named = [fact for fact in before if _is_named(change, doubt, fact, before)]
    if change.expired_topics and about:
        named = [fact for fact in named if fact in about]
    if named:
        return [fact for fact in named if not is_said_in(change, fact.statement.statement)]
    return sorted(about, key=lambda fact: fact.valid_from)[-QUESTIONED_MAX:]


def _may_concern(change: Change, fact: Fact) -> bool:
    """Return whether a change is the speaker's own, or changes what the fact is about."""
    if change.resumes or change.corrects or not change.subject:
        return True
    topic = TOPICS_BY_FACT.get(fact.statement.fact_id) or fact.statement.key
    words = frozenset(terms(change.subject))
    is_word = " " not in change.subject
    return (is_word and topic in topics_of(change.subject)) or bool(
        words and words <= frozenset(terms(_said(fact)))
    )


def _is_named(change: Change, doubt: Doubt, fact: Fact, known: Sequence[Fact]) -> bool:
    """Return whether a change is about the very thing that a fact says."""
    if change.resumes:
        return takes_up(change, fact.statement.told)
    said, words = _said(fact), _words(fact)
    if change.weak:
        return says_otherwise(change, said, words)
    if change.corrects and NUMBER.search(change.sentence):
        before = [
            one
            for one in known
            if one.statement.evidence.session == doubt.session and NUMBER.search(_said(one))
        ]
        if fact == max(before, key=lambda one: one.valid_from, default=None):
            return True
    ended = change.ended_terms
    if replaces(change, said, words) or (ended and ended <= words):
        return True
    return names(change, words) and (not ended or not ended.isdisjoint(words))


def _replacement(
    change: Change, fact: Fact, doubt: Doubt, evidence: Evidence, claims: Sequence[Claim]
) -> Statement | None:
    """Return the statement that replaces a fact according to a change; None if there is none.

    A person's correction stands, and a home is no matter of what moves from one place to another.
    """
    statement = fact.statement
    pairs = [(old, new) for old, new in change.replaced if gave_way(old, _said(fact))]
    topic = TOPICS_BY_FACT.get(statement.fact_id)
    if not pairs or statement.evidence.origin == "person" or topic == "home" or change.corrects:
        return None
    told = change.sentence.strip(STOPS)
    is_plain = statement.fact_id == t.STATEMENT.fact_id
    value = told if is_plain else next((new for _, new in pairs if new), "")
    if not value or len(told) > CHANGE_CHARS_MAX or is_secret(value, told):
        return None
    for claim in claims:
        if is_plain and isinstance(claim, Statement) and _is_part(claim, told):
            return replace(claim, conflicts=(*claim.conflicts, statement.ending))
    return replace(
        statement,
        record=f"{evidence.turn}-change-{len(claims)}",
        slot=slot_of(value) if statement.slot else "",
        value=value,
        evidence=evidence,
        conflicts=(statement.ending,),
        message_at=doubt.said_at,
        words="",
        statement=told,
    )


def _is_part(claim: Claim, sentence: str) -> bool:
    """Return whether a statement without a topic is told by a sentence."""
    words = normalized_text(claim.statement).strip(STOPS)
    is_plain = isinstance(claim, Statement) and claim.fact_id == t.STATEMENT.fact_id
    return is_plain and bool(words) and words in normalized_text(sentence)


def _said(fact: Fact) -> str:
    """Return the value of a fact and the part of its statement that says the value."""
    statement = fact.statement
    parts = [statement.statement]
    if statement.fact_id != t.STATEMENT.fact_id:
        parts = [one for one in CLAUSE_END.split(parts[0]) if statement.value in one] or parts
    return "\n".join((statement.value, *parts))


def _words(fact: Fact) -> frozenset[str]:
    """Return the terms of what a fact says and of its key."""
    return frozenset(terms(f"{fact.statement.key} {_said(fact)}"))
