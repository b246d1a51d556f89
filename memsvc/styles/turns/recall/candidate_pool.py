"""Indexes to search for a question, and their combined matches on one scale."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core import ranking
from memsvc.core.paths import decode_segment
from memsvc.core.ranking import Candidate, Question, bm25_idf
from memsvc.core.time_references import TimeReferences
from memsvc.store.recall_content import EntryPlace
from memsvc.store.search import IndexMatches, IndexQuery
from memsvc.styles.turns import turn_index

OTHERS_MAX: Final = 8
"""Other sessions to search: the user's most recently active, then those found by digests."""
OTHERS_MIN: Final = 2
"""Other sessions up to which an answer is looked for as near a match as in the session itself."""
DIGESTS: Final = 12
"""Digests to read: one session may have several."""
OTHER_SESSION_WEIGHT: Final = 0.8
"""Factor of items of other sessions: an equal match of the session itself comes first, and one from
elsewhere has to match by a quarter better."""
ENTRIES_PER_INDEX: Final = 1 << 32
"""Distance of indexes in the ids of candidates, so that none are neighbours."""


def session_query(session: str) -> IndexQuery:
    """Return the query of the session's items."""
    return IndexQuery(
        turn_index.turns(session).number,
        best=80,
        neighbours=2,
        expand_count=40,
        best_by_embedding=60,
    )


def other_session_query(session: str, sessions: int) -> IndexQuery:
    """Return the query of another session's items; of few sessions more is read of each."""
    return IndexQuery(
        turn_index.turns(session).number,
        best=max(16, 80 // sessions),
        neighbours=2 if sessions <= OTHERS_MIN else 1,
        expand_count=max(6, 40 // sessions),
        best_by_embedding=max(16, 60 // sessions),
    )


def digest_query(user: str) -> IndexQuery:
    """Return the query of the user's session digests."""
    return IndexQuery(turn_index.digests(user).number, best=DIGESTS, neighbours=0, expand_count=0)


def others(session: str, active: Sequence[str], digest_matches: IndexMatches | None) -> list[str]:
    """Return the other sessions to search: the active ones first, then the best by digests."""
    by_digest: list[str] = []
    if digest_matches is not None:
        best = sorted(
            digest_matches.candidates,
            key=lambda candidate: (-sum(candidate.term_scores.values()), -candidate.entry),
        )
        by_digest = [
            name
            for candidate in best
            if (name := decode_segment(candidate.ref.partition("/")[0])) is not None
        ]
    return [name for name in dict.fromkeys([*active, *by_digest]) if name != session][:OTHERS_MAX]


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidates of several sessions as one index, and the question for it.

    `sessions` is by index, `entries` their number in those that were found."""

    candidates: list[Candidate]
    question: Question
    sessions: Mapping[int, str]
    order: Sequence[int]
    entries: int

    def place(self, entry: int) -> EntryPlace:
        """Return the place of a candidate."""
        return EntryPlace(self.order[entry // ENTRIES_PER_INDEX], entry % ENTRIES_PER_INDEX)


def pool_matches(
    found: Mapping[int, IndexMatches],
    session: str,
    other_sessions: Collection[str],
    text: str,
    when: TimeReferences,
    until: datetime | None,
    *,
    counts_unknown: bool = True,
) -> CandidatePool:
    """Return the matches of a session and of others, up to `until` if given.

    The idf of a term is computed over all the indexes, so that a rare word of a small index does
    not count for more."""
    sessions = {turn_index.turns(name).number: name for name in [*other_sessions, session]}
    order = [
        index_id for index_id in sessions if index_id in found
    ]  # the session itself last: among equals the later comes first
    entries = sum(found[index_id].entries for index_id in order)
    if until is None and [sessions[index_id] for index_id in order] == [
        session
    ]:  # unchanged: entries of the first index
        index_matches = found[order[0]]
        return CandidatePool(
            index_matches.candidates,
            ranking.read_question(
                text, entries, index_matches.counts_by_term, when, counts_unknown=counts_unknown
            ),
            sessions,
            order,
            entries,
        )
    counts: Counter[str] = Counter()
    for index_id in order:
        counts.update(found[index_id].counts_by_term)
    candidates = []
    for at, index_id in enumerate(order):
        index_matches = found[index_id]
        scale = {
            term: bm25_idf(counts[term], entries) / bm25_idf(term_count, index_matches.entries)
            for term, term_count in index_matches.counts_by_term.items()
        }
        for candidate in index_matches.candidates:
            if until is None or (
                candidate.message_at is not None and candidate.message_at <= until
            ):
                scores = candidate.term_scores
                if len(order) > 1:
                    scores = {term: score * scale[term] for term, score in scores.items()}
                weight = 1.0 if sessions[index_id] == session else OTHER_SESSION_WEIGHT
                moved = candidate._replace(
                    entry=at * ENTRIES_PER_INDEX + candidate.entry,
                    term_scores=scores,
                    weight=weight,
                )
                candidates.append(moved)
    return CandidatePool(
        candidates,
        ranking.read_question(text, entries, counts, when, counts_unknown=counts_unknown),
        sessions,
        order,
        entries,
    )
