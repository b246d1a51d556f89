"""Past items that a prompt shows, the changes told with them, and why others are left out."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final, Self, TypeVar

from memsvc.core import relevance
from memsvc.core.analysis import CHANGE_MARK, normalized_text, terms
from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import (
    is_filler,
    is_greeting_phrase,
)
from memsvc.core.ranking import Ranked
from memsvc.core.rules.change_words import TOPICS_BY_FACT
from memsvc.core.rules.changes import (
    CHANGE_CHARS_MAX,
    Change,
    changes_in,
    matches_topic,
    names,
    replaces,
    topics_of,
)
from memsvc.store.index import Text
from memsvc.store.recalls import EntryPlace, OutdatedFact
from memsvc.store.search import IndexMatches
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recall_request import EARLIEST, CandidatePool, RecallRequest
from memsvc.styles.turns.recall.recalled import (
    IN_CONTEXT,
    OVER_THE_BUDGET,
    DroppedCandidate,
    RecalledChunk,
    turn_chunk,
)
from memsvc.styles.turns.recall.recalled_facts import FactRequest
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder

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
WordsOf = Callable[[str], frozenset[str]]
V = TypeVar("V")

GREETING_CHARS_MAX: Final = 60
"""A longer answer is taken to have content."""
NOT_LOADED_LIMIT: Final = 20
UNDER_THE_FLOOR: Final = "nothing is relevant enough"
QUOTED_SHARE: Final = 1.3
"""Estimated tokens of items, by the limit of a block, behind which no more are selected."""
QUOTE_SHARES: Final = (6, 4, 3, 3, 3, 2)
"""Sixths of `snippet_chars_max` that are quoted of the best items, and of each behind them."""
ANSWER: Final = "answer to a shown item"
"""Name of the score of an answer that no word of the question found."""
OVER_THE_LIMIT: Final = "over recall_turns_limit"


def without_change_terms(
    found: Sequence[IndexMatches],
) -> tuple[list[IndexMatches], list[EntryPlace]]:
    """Return matches as if no message of change were marked, and the marked ones, latest first."""
    changed: list[tuple[datetime, EntryPlace]] = []
    result: list[IndexMatches] = []
    for matches in found:
        if CHANGE_MARK not in matches.counts_by_term:
            result.append(matches)
            continue
        candidates = []
        for candidate in matches.candidates:
            if CHANGE_MARK in candidate.term_scores:
                said_at = candidate.message_at or EARLIEST
                changed.append((said_at, EntryPlace(candidate.index_id, candidate.entry)))
                scores = _without_mark(candidate.term_scores)
                candidates.append(candidate._replace(term_scores=scores))
            else:
                candidates.append(candidate)
        matched = [
            (candidate.index_id, candidate.entry)
            for candidate in candidates
            if candidate.term_scores or candidate.cosine is not None
        ]
        if matched:
            steps = range(-NEIGHBOURS, NEIGHBOURS + 1)
            neighbours = {(number, entry + step) for step in steps for number, entry in matched}
            kept = [
                candidate
                for candidate in candidates
                if (candidate.index_id, candidate.entry) in neighbours
            ]
            counts = _without_mark(matches.counts_by_term)
            result.append(replace(matches, counts_by_term=counts, candidates=kept))
    return result, [place for _, place in sorted(changed, reverse=True)]


def _without_mark(by_term: Mapping[str, V]) -> dict[str, V]:
    return {term: value for term, value in by_term.items() if term != CHANGE_MARK}


@frozen
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
    words_of: WordsOf,
) -> Iterator[RecalledChunk]:
    """Yield the chunks; an item whose facts ended, or that a later change names, says by what.

    A sentence of change that one chunk tells, or its own message, is told once: another item says
    on which day it was said."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks} - {""}
    told |= {said.change.text for said in changes if said.place in shown}
    latest_first = [said for said in reversed(changes) if not said.change.weak]
    for chunk in chunks:
        text = items.get(chunk.place) if chunk.kind == "turn" and chunk.place else None
        if text is None:
            yield chunk
            continue
        ended = [
            (fact.superseded_by, "" if fact.valid_to else fact.ended_on)
            for fact in outdated.get(chunk.place or EntryPlace(0, 0), ())
            if (
                fact.session == chunk.fields["session"]
                if fact.is_source
                else _repeats(fact, words_of(text.text), words_of)
            )
        ]
        can_end = latest_first if text.role == "user" and len(text.text) <= NAMED_CHARS_MAX else ()
        named = (
            (said.change.text, f"{said.text.message_at:%Y-%m-%d}")
            for said in can_end
            if said.is_after(chunk, text) and _is_outdated(said.change, text.text, words_of)
        )
        marks = dict(ended or islice(named, 1))
        by = [words for words, day in marks.items() if not day or words not in told]
        told |= {said.change.text for said in changes} & set(by)
        if by:
            yield _marked(chunk, superseded_by="; ".join(by))
        elif marks:
            yield _marked(chunk, questioned=max(marks.values()))
        else:
            yield chunk


def following(
    chunks: Sequence[RecalledChunk],
    items: Mapping[EntryPlace, Text],
    changes: Sequence[SaidChange],
    facts: Mapping[EntryPlace, Fact],
    words_of: WordsOf,
) -> list[SaidChange]:
    """Return the changes to show beside these chunks, that no chunk tells already.

    They name or concern an item or a fact, in whatever session, or follow it in its own: the former
    first, then the surer ones, those that share a word, then the later."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks}
    found: dict[EntryPlace, tuple[tuple[bool, ...], SaidChange]] = {}
    changes = [said for said in changes if said.place not in shown and said.change.text not in told]
    for chunk in chunks:
        if chunk.kind not in ("turn", "fact") or _by(chunk) or chunk.place is None:
            continue
        fact = facts.get(chunk.place)
        later = [
            said
            for said in changes
            if (said.place not in found or found[said.place][0] > (False, said.change.weak, False))
            and _is_later(said, chunk.place, items, fact)
        ]
        if not later:
            continue
        text = str(chunk.fields.get("statement") or chunk.fields.get("text", ""))
        words = words_of(text)
        topics = _topics_of(text, fact) if any(map(_about, later)) else frozenset[str]()
        for said in later:
            change = said.change
            shares = not change.terms.isdisjoint(words)
            related = (shares and names(change, words)) or not topics.isdisjoint(_about(said))
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


def _about(said: SaidChange) -> frozenset[str]:
    return said.change.topics | said.change.expired_topics


def _topics_of(text: str, fact: Fact | None) -> frozenset[str]:
    """Return the topic that a fact has by its id, or those that its text or an item's names."""
    known = TOPICS_BY_FACT.get(fact.statement.fact_id) if fact else None
    return frozenset((known,)) if known else topics_of(normalized_text(text))


def once_read() -> WordsOf:
    """Return a function that returns the terms of a text, and reads each text once."""
    return cache(lambda text: frozenset(terms(text)))


def _is_outdated(change: Change, text: str, words_of: WordsOf) -> bool:
    """Return whether a sure change names what a user said, by a name and a good part of its words.

    In a short text it may also say what took the place of the thing. A change that ends a topic
    ends no item about another."""
    words = words_of(text)
    if len(text) <= CHANGE_CHARS_MAX and change.is_short and replaces(change, text, words):
        return True
    shared = change.terms & words
    return (
        NAMED_PART * len(shared) >= len(change.terms)
        and len(shared) >= NAMED_TERMS_MIN
        and any(shared.intersection(terms(name)) for name in _named(change.text, text))
        and (not change.expired_topics or matches_topic(change, text))
    )


def _repeats(fact: OutdatedFact, words: frozenset[str], words_of: WordsOf) -> bool:
    """Return whether a text of these words, which holds the value of a fact, says the fact."""
    value = words_of(fact.value)
    # of a longer word in a script without spaces, other characters count by where it stands
    longer = {word for word in value if len(word) > 1} or value
    return longer <= words and not words.isdisjoint(words_of(fact.statement) - value)


def _named(*texts: str) -> set[str]:
    """Return what is written as a name within a sentence, identifiers, and runs of CJK."""
    return {name for text in texts for name in _NAME.findall(text)}


def _marked(chunk: RecalledChunk, **mark: str) -> RecalledChunk:
    fields: dict[str, Any] = chunk.fields | {"more": chunk.fields.get("more", {}) | mark}
    length = sum(map(len, mark.values()))
    return replace(chunk, fields=fields, tokens=chunk.tokens + length // 3 + 6)


def _by(chunk: RecalledChunk) -> str:
    questioned: str = chunk.fields.get("questioned", {}).get("text", "")
    return questioned or str(chunk.fields.get("more", {}).get("superseded_by", ""))


@frozen
class RankedMatches:
    """Ranked matches of a question, best first: items with their confidence, facts, insights.

    `changes` are the messages of change among the candidates, the latest first."""

    pool: CandidatePool
    items: Sequence[Ranked]
    confidence: relevance.Confidence
    facts: FactRequest
    insights: Sequence[tuple[EntryPlace, Ranked]]
    changes: Sequence[EntryPlace]

    @property
    def silent(self) -> bool:
        """Return whether no item is relevant enough to be shown."""
        return self.confidence.total < relevance.FLOOR

    def with_sessions(self, names: Mapping[int, str]) -> Self:
        """Return the same, with the sessions of further indexes, given by name."""
        more = {number: turn_index.session_of(name) for number, name in names.items()}
        return replace(self, pool=replace(self.pool, sessions=self.pool.sessions | more))


class TurnSelection:
    """Selection of items for one prompt: each once, up to `recall_turns_limit`."""

    def __init__(
        self,
        options: TurnOptions,
        request: RecallRequest,
        ranked: RankedMatches,
        quote_finder: QuoteFinder,
    ) -> None:
        self._limit = options.recall_turns_limit
        self._chars_max = options.snippet_chars_max
        self._request = request
        self._ranked = ranked
        self._quote_finder = quote_finder
        self._remaining = QUOTED_SHARE * options.recall_tok_max
        self._distinct = relevance.Distinct()
        self._is_silent = ranked.silent
        self._count = 0

    def chunks(
        self,
        selected: Sequence[tuple[EntryPlace, Ranked]],
        items: Mapping[EntryPlace, Text],
        dropped: list[DroppedCandidate],
    ) -> list[RecalledChunk]:
        """Return the items to show, in this order.

        The others are added to `dropped` with reasons."""
        request, pool = self._request, self._ranked.pool
        result: list[RecalledChunk] = []
        for place, entry in selected:
            if place not in items:
                continue
            text, session = items[place], pool.sessions[place.index_id]
            is_other_session = session != request.session
            reason = (
                UNDER_THE_FLOOR
                if self._is_silent
                else self.why_not(text, is_other_session=is_other_session)
            )
            if reason is None and self._count >= self._limit:
                reason = OVER_THE_LIMIT
            if reason is None and self._remaining <= 0:
                reason = OVER_THE_BUDGET
            if reason is None and not self._distinct.add_if_new(text.text.casefold().split()):
                reason = "nearly the same as an earlier one"
            if reason is None:
                self._count += 1
                result.append(self.chunk(place, text, entry))
            else:
                dropped.append(
                    DroppedCandidate(
                        "turn",
                        text.ref,
                        entry.score,
                        reason,
                        session if is_other_session else "",
                        place,
                    )
                )
        return result

    def answers(
        self,
        shown: Sequence[RecalledChunk],
        items: Mapping[EntryPlace, Text],
        as_of: datetime | None,
    ) -> list[RecalledChunk]:
        """Return the answers to the first of the user's messages shown, as far as they were read.

        What was decided and done often stands there alone, in other words than the question."""
        places = {chunk.place for chunk in shown}
        found = []
        for chunk in shown:
            if chunk.place is None or chunk.fields["role"] != "user":
                continue
            place = chunk.place._replace(entry=chunk.place.entry + 1)
            text = items.get(place)
            if text is None or place in places or text.role != "assistant":
                continue
            is_same_turn = turn_of(text.ref) == chunk.fields["turn"]
            if is_same_turn and (as_of is None or text.message_at <= as_of):
                found.append((place, Ranked(place.entry, chunk.score, {ANSWER: chunk.score}, 0.0)))
        self._limit += len(found)
        return self.chunks(found, items, [])

    def chunk(self, place: EntryPlace, text: Text, entry: Ranked) -> RecalledChunk:
        """Return the chunk of an item, the shorter the more come before it."""
        session = self._ranked.pool.sessions[place.index_id]
        share = QUOTE_SHARES[min(max(self._count, 1), len(QUOTE_SHARES)) - 1]
        chunk = turn_chunk(
            session,
            text,
            entry,
            self._quote_finder,
            place=place,
            chars_max=share * self._chars_max // 6,
            is_other_session=session != self._request.session,
        )
        self._remaining -= chunk.tokens
        return chunk

    def why_not(self, text: Text, *, is_other_session: bool) -> str | None:
        """Return why an item is not shown, None where it may be."""
        request = self._request
        if not is_other_session and turn_of(text.ref) == request.turn:
            return "stored by this turn itself"
        if not text.text.strip():
            return "no text"
        is_short = len(text.text) <= GREETING_CHARS_MAX
        is_empty = is_greeting_phrase if text.role == "assistant" else is_filler
        if is_short and is_empty(text.text):
            return "a message without content"
        if not is_other_session and text.entry in request.prompt:
            return IN_CONTEXT
        if text.digest in request.known:
            return "in the caller's input"
        return None


def not_loaded(
    ranked: RankedMatches,
    selected: Sequence[Ranked],
    request: RecallRequest,
    in_context: Collection[int],
) -> list[DroppedCandidate]:
    """Return the best items that were not even read, by their places, with reasons."""
    pool, read = ranked.pool, {entry.entry for entry in selected}
    other = UNDER_THE_FLOOR if ranked.silent else OVER_THE_LIMIT
    dropped: list[DroppedCandidate] = []
    for entry in islice(
        (entry for entry in ranked.items if entry.entry not in read), NOT_LOADED_LIMIT
    ):
        place = pool.place(entry.entry)
        session = pool.sessions[place.index_id]
        reason = IN_CONTEXT if entry.entry in in_context else other
        dropped.append(
            DroppedCandidate(
                "turn",
                "",
                entry.score,
                reason,
                session if session != request.session else "",
                place,
            )
        )
    return dropped
