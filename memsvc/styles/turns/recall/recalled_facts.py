"""Which facts a question draws on: those that its words or its meaning find, and those that it asks for by kind."""

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
from memsvc.store.recalled import Place
from memsvc.store.search import Found
from memsvc.styles.turns.facts.extraction import RULES
from memsvc.styles.turns.recall.pieces import fact_piece
from memsvc.styles.turns.recall.recalled import Piece

ALONE: Final = ranking.Weights(
    near=0.0, near_reach=0, answer=0.0, day=0.0, date=0.0, speaker=1.0, brevity=0.0, meaning_near=0.0, order=0.0
)
"""Facts and insights stand for themselves: no neighbours, no days, no speakers."""
FLOOR: Final = 1.5
"""Least relevance of a fact, each for itself, twice as much where the question speaks of what is its asker's own."""

_ASKED = {
    re.compile(asked, re.IGNORECASE): frozenset(rule.fact_id for rule in RULES if rule.asked == asked)
    for asked in dict.fromkeys(rule.asked for rule in RULES if rule.asked)
}
"""Patterns of questions, with the ids of the facts that they ask for."""
_ABOUT_THE_USER = re.compile(r"\b(about me|who am i|know me|remember me|my profile)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FactsAsked:
    """What is asked of facts: the question, the books that they may come from, what was found there, best first, and
    which kinds are asked for without a word of them: everything lasting about the user, or facts of some ids."""

    question: str
    books: Sequence[int]
    ranked: Sequence[tuple[Place, Ranked]]
    about_the_user: bool
    ids: frozenset[str]

    @classmethod
    def of(cls, question: str, books: Sequence[int], found: Mapping[int, Found]) -> Self:
        """What a question asks of the facts of some books, of which a search found these."""
        asked_for = [ids for pattern, ids in _ASKED.items() if pattern.search(question)] if books else []
        return cls(
            question,
            books,
            beliefs(question, books, found),
            about_the_user=bool(books) and _ABOUT_THE_USER.search(question) is not None,
            ids=frozenset().union(*asked_for),
        )

    @property
    def every(self) -> bool:
        """Whether all facts have to be looked at."""
        return self.about_the_user or bool(self.ids)


def beliefs(question: str, books: Sequence[int], found: Mapping[int, Found]) -> list[tuple[Place, Ranked]]:
    """The entries of some books that are relevant, each for itself, best first."""
    ranked: list[tuple[Place, Ranked]] = []
    for book in books:
        if book in found:
            shelf = found[book]
            asked = ranking.read_question(question, shelf.entries, shelf.counts_by_term)
            # of a few entries nobody can tell what an unrelated one is like
            telling = sum(one.cosine is not None for one in shelf.candidates) >= FLOOR_CANDIDATES_MIN
            for one in ranking.rank(shelf.candidates, asked, ALONE):
                known = one.relevance + relevance.MEANING_RATE * one.meaning * telling
                if known * (relevance.PERSONAL_FACTOR if asked.personal else 1) >= FLOOR:
                    ranked.append((Place(book, one.entry), one))
    return sorted(ranked, key=lambda pair: -pair[1].score)


def fact_pieces(asked: FactsAsked, read: Sequence[Fact], *, as_of: datetime | None) -> list[Piece]:
    """The facts to show among those that were read, best first: what was found, then what is asked for by kind."""
    order = {book: at for at, book in enumerate(asked.books)}
    oldest_first = sorted(read, key=lambda fact: (fact.valid_from, order.get(fact.book, -1), fact.entry))
    held = latest_by_identity(oldest_first)
    at_places = {Place(fact.book, fact.entry): fact for fact in held.values()}
    ranked = asked.ranked if as_of is None else _ranked_here(asked.question, list(held.values()))
    pieces = [fact_piece(at_places[place], one.score, one.parts) for place, one in ranked if place in at_places]
    shown = {at_places[place].statement.identity for place, _ in ranked if place in at_places}
    for fact in sorted(held.values(), key=lambda fact: fact.valid_from, reverse=True):
        said = fact.statement
        by_kind = said.fact_id in asked.ids or (asked.about_the_user and said.tier is Tier.L0)
        if by_kind and said.identity not in shown:
            pieces.append(fact_piece(fact, said.confidence, {"asked for": said.confidence}))
    return pieces


def _ranked_here(question: str, facts: Sequence[Fact]) -> list[tuple[Place, Ranked]]:
    """As a search would find them: past facts are not in the index any more."""
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
