"""Indexes to search for a question, and their combined matches on one scale."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core import ranking
from memsvc.core.bm25 import bm25_idf
from memsvc.core.paths import decode_segment
from memsvc.core.ranking import Candidate, Question
from memsvc.core.when import When
from memsvc.store.recalled import Place
from memsvc.store.search import Found, Shelf
from memsvc.styles.turns import books

OTHERS_MAX: Final = 8
"""Other sessions to search: the user's most recently active, then those found by digests."""
DIGESTS: Final = 12
"""Digests to read: one session may have several."""
ELSEWHERE: Final = 0.8
"""Factor of items of other sessions: an equal match of the session itself comes first, and one from
elsewhere has to match by a quarter better."""
ENTRIES_A_BOOK: Final = 1 << 32
"""Distance of indexes in the ids of candidates, so that none are neighbours."""


def own(session: str) -> Shelf:
    """Return the query of the session's items."""
    return Shelf(books.turns(session).number, best=80, reach=2, reaching=40, near=60)


def other(session: str) -> Shelf:
    """Return the query of another session's items."""
    return Shelf(books.turns(session).number, best=16, reach=1, reaching=6, near=16)


def digest(user: str) -> Shelf:
    """Return the query of the user's session digests."""
    return Shelf(books.digests(user).number, best=DIGESTS, reach=0, reaching=0)


def others(session: str, active: Sequence[str], told: Found | None) -> list[str]:
    """Return the other sessions to search: the active ones first, then the best by digests."""
    by_digest: list[str] = []
    if told is not None:
        best = sorted(told.candidates, key=lambda one: (-sum(one.term_scores.values()), -one.entry))
        by_digest = [name for one in best if (name := decode_segment(one.ref.partition("/")[0])) is not None]
    return [name for name in dict.fromkeys([*active, *by_digest]) if name != session][:OTHERS_MAX]


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates of several sessions as one index, and the question for it.

    `sessions` is by index."""

    candidates: list[Candidate]
    question: Question
    sessions: Mapping[int, str]
    order: Sequence[int]

    def place(self, entry: int) -> Place:
        """Return the place of a candidate."""
        return Place(self.order[entry // ENTRIES_A_BOOK], entry % ENTRIES_A_BOOK)


def pooled(
    found: Mapping[int, Found], session: str, elsewhere: Collection[str], text: str, when: When, until: datetime | None
) -> Pool:
    """Return the matches of a session and of others, up to `until` if given.

    The idf of a term is computed over all the indexes, so that a rare word of a small index does
    not count for more."""
    sessions = {books.turns(name).number: name for name in [*elsewhere, session]}
    order = [book for book in sessions if book in found]  # the session itself last: among equals the later comes first
    entries = sum(found[book].entries for book in order)
    if until is None and [sessions[book] for book in order] == [session]:  # unchanged: entries of the first index
        shelf = found[order[0]]
        return Pool(shelf.candidates, ranking.read_question(text, entries, shelf.counts_by_term, when), sessions, order)
    counts: Counter[str] = Counter()
    for book in order:
        counts.update(found[book].counts_by_term)
    candidates = []
    for at, book in enumerate(order):
        shelf = found[book]
        scale = {
            term: bm25_idf(counts[term], entries) / bm25_idf(held, shelf.entries)
            for term, held in shelf.counts_by_term.items()
        }
        for one in shelf.candidates:
            if until is None or (one.said_at is not None and one.said_at <= until):
                scores = one.term_scores
                if len(order) > 1:
                    scores = {term: score * scale[term] for term, score in scores.items()}
                weight = 1.0 if sessions[book] == session else ELSEWHERE
                moved = one._replace(entry=at * ENTRIES_A_BOOK + one.entry, term_scores=scores, weight=weight)
                candidates.append(moved)
    return Pool(candidates, ranking.read_question(text, entries, counts, when), sessions, order)
