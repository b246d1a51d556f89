"""Changes that are told with the older items and facts that they may end."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from memsvc.core.analysis import CHANGE_MARK, normalized_text, terms
from memsvc.core.facts import Fact
from memsvc.core.rules.change_words import TOPICS_BY_FACT
from memsvc.core.rules.changes import (
    Change,
    changes_in,
    matches_topic,
    names,
    topics_of,
)
from memsvc.store.index import Text
from memsvc.store.recall_content import EntryPlace, OutdatedFact
from memsvc.store.search import IndexMatches
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.recall.recalled import RecalledChunk

CHANGES_READ: Final = 12
"""Latest messages of change among the candidates that are read with every recall."""
FOLLOWING_MAX: Final = 3
"""Messages of change shown beside what is told."""
FOLLOWING_ENTRIES: Final = 100
"""Entries within which such a message follows what is told; one that is weak, a tenth of them."""
NEIGHBOURS: Final = 2
NAMED_CHARS_MAX: Final = 600
"""Of a longer text a change may share some words by chance."""
NAMED_PART: Final = 3
"""An item shares at least one in so many words with the change that ends it."""
NAMED_TERMS_MIN: Final = 2
_NAME: Final = re.compile(
    r"(?<=[^\s.!?…:][ \t])(?!I\b)[A-ZÀ-ÖØ-Þ][\w'-]*|\w*\d[\w.-]{2,}"
    r"|[\u3040-\u30ff\u4e00-\u9fff]{2,}"
)
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)


def without_change_terms(
    found: Mapping[int, IndexMatches],
) -> tuple[dict[int, IndexMatches], list[EntryPlace]]:
    """Return matches as if no message of change were marked, and the marked ones, latest first."""
    changed: list[tuple[datetime, EntryPlace]] = []
    result: dict[int, IndexMatches] = {}
    for index_id, matches in found.items():
        if CHANGE_MARK not in matches.counts_by_term:
            result[index_id] = matches
            continue
        candidates = []
        for candidate in matches.candidates:
            if CHANGE_MARK in candidate.term_scores:
                said_at = candidate.message_at or _EARLIEST
                changed.append((said_at, EntryPlace(index_id, candidate.entry)))
                scores = {
                    term: score
                    for term, score in candidate.term_scores.items()
                    if term != CHANGE_MARK
                }
                candidates.append(candidate._replace(term_scores=scores))
            else:
                candidates.append(candidate)
        neighbours = {
            candidate.entry + step
            for candidate in candidates
            if candidate.term_scores or candidate.cosine is not None
            for step in range(-NEIGHBOURS, NEIGHBOURS + 1)
        }
        counts = {
            term: count for term, count in matches.counts_by_term.items() if term != CHANGE_MARK
        }
        if neighbours:
            kept = [candidate for candidate in candidates if candidate.entry in neighbours]
            result[index_id] = replace(matches, counts_by_term=counts, candidates=kept)
    return result, [place for _, place in sorted(changed, reverse=True)]


@dataclass(frozen=True, slots=True)
class SaidChange:
    """A change with the message that says it."""

    place: EntryPlace
    text: Text
    change: Change

    def is_after(self, chunk: RecalledChunk, text: Text) -> bool:
        """Return whether it was said after an item."""
        place = chunk.place
        if place is not None and place.index_id == self.place.index_id:
            return self.place.entry > place.entry
        return self.text.message_at > text.message_at


def said_changes(
    places: Collection[EntryPlace], items: Mapping[EntryPlace, Text]
) -> list[SaidChange]:
    """Return the changes in the messages of these places that were read, oldest first."""
    found = [
        SaidChange(place, items[place], change)
        for place in places
        if place in items and items[place].role == "user"
        for change in changes_in(items[place].text)
    ]
    return sorted(found, key=lambda said: (said.text.message_at, said.place.entry))


def with_changes(
    chunks: Sequence[RecalledChunk],
    items: Mapping[EntryPlace, Text],
    changes: Sequence[SaidChange],
    outdated: Mapping[EntryPlace, Sequence[OutdatedFact]],
) -> Iterator[RecalledChunk]:
    """Yield the chunks; an item whose facts ended, or that a later change names, says by what.

    A sentence of change that one chunk tells, or its own message, is told once."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks} - {""}
    told |= {said.change.text for said in changes if said.place in shown}
    words_of = _words()
    for chunk in chunks:
        text = items.get(chunk.place) if chunk.kind == "turn" and chunk.place else None
        if text is None:
            yield chunk
            continue
        ended = [
            fact.superseded_by
            for fact in outdated.get(chunk.place or EntryPlace(0, 0), ())
            if fact.session == chunk.fields["session"] and fact.doubt not in told
        ]
        later = [
            said.change.text
            for said in changes
            if said.change.text not in told
            and said.is_after(chunk, text)
            and _is_outdated(said, text, words_of)
        ]
        by = "; ".join(dict.fromkeys(filter(None, ended or later[-1:])))
        told |= {*later[-1:], *ended}
        yield _superseded(chunk, by) if by else chunk


def following(
    chunks: Sequence[RecalledChunk],
    items: Mapping[EntryPlace, Text],
    changes: Sequence[SaidChange],
    facts: Mapping[EntryPlace, Fact],
) -> list[SaidChange]:
    """Return the changes to show beside these chunks, that no chunk tells already.

    They name or concern an item or a fact, in whatever session, or follow it in its own: the former
    first, then the surer ones, those that share a word, then the later."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks}
    found: dict[EntryPlace, tuple[tuple[bool, ...], SaidChange]] = {}
    words_of, topics_in = _words(), cache(lambda text: topics_of(normalized_text(text)))
    changes = [said for said in changes if said.place not in shown and said.change.text not in told]
    for chunk in chunks:
        if chunk.kind not in ("turn", "fact") or _by(chunk) or chunk.place is None:
            continue
        fact = facts.get(chunk.place)
        text = str(chunk.fields.get("statement") or chunk.fields.get("text", ""))
        known = TOPICS_BY_FACT.get(fact.statement.fact_id) if fact else None
        for said in changes:
            if not _is_later(said, chunk.place, items, fact):
                continue
            change, words = said.change, words_of(text)
            shares = not change.terms.isdisjoint(words)
            about = change.topics | change.expired_topics
            related = names(change, words) or not about.isdisjoint(
                (known,) if known else topics_in(text) if about else ()
            )
            if not related and not _is_near(said, chunk.place, fact):
                continue
            rank = (not related, said.change.weak, not shares)
            if said.place not in found or rank < found[said.place][0]:
                found[said.place] = (rank, said)
    latest_first = sorted(found.values(), key=lambda one: one[1].text.message_at, reverse=True)
    ranked = sorted(latest_first, key=lambda one: one[0])
    return [said for _, said in ranked][:FOLLOWING_MAX]


def _is_later(
    said: SaidChange, place: EntryPlace, items: Mapping[EntryPlace, Text], fact: Fact | None
) -> bool:
    """Return whether a change was said after an item or a fact."""
    if fact is not None:
        return fact.valid_from < said.text.message_at
    if place.index_id == said.place.index_id:
        return said.place.entry > place.entry
    return place in items and items[place].message_at < said.text.message_at


def _is_near(said: SaidChange, place: EntryPlace, fact: Fact | None) -> bool:
    """Return whether a change follows an item soon, or a fact, in its session."""
    if fact is not None:
        place = EntryPlace(
            turn_index.turns(fact.statement.evidence.session).number, said.place.entry
        )
    entries_max = FOLLOWING_ENTRIES // (10 if said.change.weak else 1)
    return place.index_id == said.place.index_id and said.place.entry <= place.entry + entries_max


def _words() -> Callable[[str], frozenset[str]]:
    """Return a function that returns the terms of a text, and reads each text once."""
    return cache(lambda text: frozenset(terms(text)))


def _is_outdated(said: SaidChange, text: Text, words_of: Callable[[str], frozenset[str]]) -> bool:
    """Return whether a change names what a user said, by a name and in a good part of its words.

    One that ends a topic ends no item about another."""
    change = said.change
    if change.weak or text.role != "user" or len(text.text) > NAMED_CHARS_MAX:
        return False
    shared = change.terms & words_of(text.text)
    return (
        NAMED_PART * len(shared) >= len(change.terms)
        and len(shared) >= NAMED_TERMS_MIN
        and any(shared.intersection(terms(name)) for name in _named(change.text, text.text))
        and (not change.expired_topics or matches_topic(change, text.text))
    )


def _named(*texts: str) -> set[str]:
    """Return what is written as a name within a sentence, identifiers, and runs of CJK."""
    return {name for text in texts for name in _NAME.findall(text)}


def _superseded(chunk: RecalledChunk, by: str) -> RecalledChunk:
    fields: dict[str, Any] = chunk.fields | {
        "more": chunk.fields.get("more", {}) | {"superseded_by": by}
    }
    return replace(chunk, fields=fields, tokens=chunk.tokens + len(by) // 3 + 6)


def _by(chunk: RecalledChunk) -> str:
    questioned: str = chunk.fields.get("questioned", {}).get("text", "")
    return questioned or str(chunk.fields.get("more", {}).get("superseded_by", ""))
