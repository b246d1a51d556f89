"""Facts relevant to a question: matches of its words or embedding, and requested kinds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from memsvc.core import ranking, relevance
from memsvc.core.analysis import query_terms, terms
from memsvc.core.bm25 import bm25_constants, bm25_idf, bm25_term_score
from memsvc.core.facts import Fact, Tier, latest_by_identity
from memsvc.core.fusion import FLOOR_CANDIDATES_MIN
from memsvc.core.ranking import Candidate, Ranked
from memsvc.core.rules.asking import ASKED, KINDS_ASKED
from memsvc.store.recalled import Place
from memsvc.store.search import Found
from memsvc.styles.turns.recall.pieces import fact_piece
from memsvc.styles.turns.recall.recalled import Piece

ALONE: Final = ranking.Weights(
    near=0.0, near_reach=0, answer=0.0, day=0.0, date=0.0, speaker=1.0, brevity=0.0, meaning_near=0.0, order=0.0
)
"""Facts and insights are ranked alone: no neighbours, no days, no speakers."""
FLOOR: Final = 1.5
"""Minimum relevance of a fact by itself, halved where the question is about the user's own matters."""

_CLAUSE: Final = re.compile(r"[,;:.!?。，、；：！？…\n]| (?:and|or|und|oder|et|ou|y|e|o) |和|以及|或", re.IGNORECASE)
_ABOUT_THE_USER = re.compile(r"\b(about me|who am i|know me|remember me|my profile)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FactsAsked:
    """Request for facts: the question, the indexes, the matches, best first, and requested kinds.

    Kinds are requested without matching words: everything lasting about the user, or facts of some
    ids. `spent` are those of its `asked_terms` that only request these ids."""

    question: str
    books: Sequence[int]
    ranked: Sequence[tuple[Place, Ranked]]
    about_the_user: bool
    ids: frozenset[str]
    asked_terms: frozenset[str] = frozenset()
    spent: frozenset[str] = frozenset()

    @classmethod
    def of(cls, question: str, books: Sequence[int], found: Mapping[int, Found]) -> Self:
        """Return the request for facts of some indexes, with the matches of a search."""
        asked_for = [ids for pattern, ids in ASKED.items() if pattern.search(question)] if books else []
        return cls(
            question,
            books,
            beliefs(question, books, found),
            about_the_user=bool(books) and _ABOUT_THE_USER.search(question) is not None,
            ids=frozenset().union(*asked_for),
            asked_terms=frozenset(query_terms(question)) if asked_for else frozenset(),
            spent=_spent(question) if asked_for else frozenset(),
        )

    @property
    def every(self) -> bool:
        """Return whether all facts have to be read."""
        return self.about_the_user or bool(self.ids)


def beliefs(question: str, books: Sequence[int], found: Mapping[int, Found]) -> list[tuple[Place, Ranked]]:
    """Return the relevant entries of some indexes, each by itself, best first."""
    ranked: list[tuple[Place, Ranked]] = []
    for book in books:
        if book in found:
            shelf = found[book]
            asked = ranking.read_question(question, shelf.entries, shelf.counts_by_term)
            # too few entries to estimate an unrelated cosine
            telling = sum(one.cosine is not None for one in shelf.candidates) >= FLOOR_CANDIDATES_MIN
            for one in ranking.rank(shelf.candidates, asked, ALONE):
                known = one.relevance + relevance.MEANING_RATE * one.meaning * telling
                if known * (relevance.PERSONAL_FACTOR if asked.personal else 1) >= FLOOR:
                    ranked.append((Place(book, one.entry), one))
    return sorted(ranked, key=lambda pair: -pair[1].score)


def fact_pieces(asked: FactsAsked, read: Sequence[Fact], *, as_of: datetime | None) -> list[Piece]:
    """Return the chunks of loaded facts, best first: matches, then requested kinds."""
    order = {book: at for at, book in enumerate(asked.books)}
    oldest_first = sorted(read, key=lambda fact: (fact.valid_from, order.get(fact.book, -1), fact.entry))
    held = latest_by_identity(oldest_first)
    at_places = {Place(fact.book, fact.entry): fact for fact in held.values()}
    ranked = asked.ranked if as_of is None else _ranked_here(asked.question, list(held.values()))
    found = [(at_places[place], one) for place, one in ranked if place in at_places]
    found = [(fact, one) for fact, one in found if not _is_unasked(fact, asked)]
    pieces = [fact_piece(fact, one.score, one.parts) for fact, one in found]
    shown = {fact.statement.identity for fact, _ in found}
    for fact in sorted(held.values(), key=lambda fact: fact.valid_from, reverse=True):
        said = fact.statement
        by_kind = said.fact_id in asked.ids or (asked.about_the_user and said.tier is Tier.L0)
        if by_kind and said.identity not in shown:
            pieces.append(fact_piece(fact, said.confidence, {"asked for": said.confidence}))
    return pieces


def _spent(question: str) -> frozenset[str]:
    """Return the terms that occur only in clauses requesting facts of some ids.

    In "What is my dog called?" this includes "called", a keyword of names as well: here it requests
    pets."""
    clauses = _CLAUSE.split(question)
    asking = [any(pattern.search(clause) for pattern in ASKED) for clause in clauses]
    free = {term for clause, asks in zip(clauses, asking, strict=True) if not asks for term in terms(clause)}
    return frozenset(
        term for clause, asks in zip(clauses, asking, strict=True) if asks for term in terms(clause) if term not in free
    )


def _is_unasked(fact: Fact, asked: FactsAsked) -> bool:
    """Return whether only keywords of a fact match, and only in a request for other ids."""
    said = fact.statement
    if not asked.spent or said.fact_id in asked.ids or said.fact_id not in KINDS_ASKED:
        return False
    found = asked.asked_terms.intersection(terms(_words(fact)))
    return bool(found) and found <= asked.spent and found.isdisjoint(terms(said.value))


def _ranked_here(question: str, facts: Sequence[Fact]) -> list[tuple[Place, Ranked]]:
    """Rank facts as a search would: past facts are not in the index any more."""
    documents = [Counter(terms(_words(fact))) for fact in facts]
    average = sum(document.total() for document in documents) / max(1, len(documents))
    k1, b = bm25_constants(average)
    counts = {term: sum(term in document for document in documents) for term in query_terms(question)}
    candidates: dict[int, list[Candidate]] = {}
    for fact, document in zip(facts, documents, strict=True):
        length = document.total()
        scores = {
            term: bm25_term_score(bm25_idf(held, len(documents)), document[term], length, average, k1, b)
            for term, held in counts.items()
            if document[term]
        }
        if scores:
            candidates.setdefault(fact.book, []).append(Candidate(fact.entry, scores, length))
    found = {book: Found(len(documents), counts, some) for book, some in candidates.items()}
    return beliefs(question, list(found), found)


def _words(fact: Fact) -> str:
    said = fact.statement
    return f"{said.key.replace('_', ' ')}: {said.value}\n{said.cues}"
