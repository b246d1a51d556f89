"""Search of a user's memories: by words, and by similarity where an embedder is configured."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.fusion import fuse
from memsvc.core.ports import Meter
from memsvc.core.rules.asking import asked_for
from memsvc.store import memories
from memsvc.store.database import Tx
from memsvc.store.memories import Memory
from memsvc.store.search import Meaning, Shelf, search
from memsvc.styles.embedding import Embedding
from memsvc.styles.memories.book import Book

CANDIDATES: Final = 100
MEANING_WEIGHT: Final = 0.5
"""Weight of similarity: a memory is a few words, and a query often shares none of them."""


class Finding:
    """Search in one index.

    A stored memory is found by its words at once, by similarity once it has a vector.
    """

    def __init__(self, meter: Meter, embedding: Embedding | None) -> None:
        self._meter = meter
        self._embedding = embedding

    async def meaning(self, question: str) -> Meaning | None:
        """Return the embedding of a query; None where there is none in time.

        Call it before a transaction begins.
        """
        if self._embedding is None:
            return None
        vector = await self._embedding.question(question)
        return Meaning(vector, self._embedding.model) if vector is not None else None

    async def find(
        self, tx: Tx, book: Book, question: str, meaning: Meaning | None, *, since: datetime | None, most: int
    ) -> list[Memory]:
        """Return the memories that answer best, best first.

        Then those of the kinds that the query asks for in words too common to search by; with
        `since`, no hidden ones.
        """
        found = await self._ranked(tx, book, question, meaning, since=since, most=most)
        if len(found) < most and (kinds := asked_for(question)):
            there = {one.memory for one in found}
            more = await memories.of_kinds(tx, book.number, kinds, since=since, most=most)
            found += [one for one in more if one.memory not in there]
        return found[:most]

    async def _ranked(
        self, tx: Tx, book: Book, question: str, meaning: Meaning | None, *, since: datetime | None, most: int
    ) -> list[Memory]:
        asked = query_terms(question)
        best = max(CANDIDATES, 2 * most)
        while asked or meaning is not None:
            shelf = Shelf(book.number, best, reach=0, reaching=0, near=best if meaning is not None else 0)
            found = (await search(tx, [shelf], asked, meaning)).get(book.number)
            candidates = found.candidates if found is not None else []
            self._meter.add("memsvc_recall_candidates", len(candidates))
            words = {one.entry: sum(one.term_scores.values()) for one in candidates if one.term_scores}
            alike = {one.entry: one.cosine for one in candidates if one.cosine is not None}
            ranked = [entry for entry, score in fuse(words, alike, cosine_weight=MEANING_WEIGHT).items() if score > 0]
            shown = await memories.at(tx, book.number, ranked, since=since)
            if len(shown) >= most or max(len(words), len(alike)) < best:
                return _in_order(ranked, shown, most)
            best *= 8  # hidden memories took the places of visible ones
        return []


def _in_order(ranked: Sequence[int], shown: dict[int, Memory], most: int) -> list[Memory]:
    return [shown[entry] for entry in ranked if entry in shown][:most]
