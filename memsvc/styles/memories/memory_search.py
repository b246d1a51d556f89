"""Search of a user's memories: by words, and by similarity where an embedder is configured."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.fusion import merge_scores
from memsvc.core.ports import Meter
from memsvc.core.rules.question_patterns import requested_fact_ids
from memsvc.store import memories
from memsvc.store.database import Tx
from memsvc.store.memories import Memory
from memsvc.store.search import IndexQuery, QueryEmbedding, search
from memsvc.styles.embedding import Embedding
from memsvc.styles.memories.memory_index import MemoryIndex

CANDIDATES: Final = 100
EMBEDDING_WEIGHT: Final = 0.5
"""Weight of similarity: a memory is a few words, and a query often shares none of them."""


class MemorySearch:
    """Search in one index.

    A stored memory is found by its words at once, by similarity once it has a vector.
    """

    def __init__(self, meter: Meter, embedding: Embedding | None) -> None:
        self._meter = meter
        self._embedding = embedding

    async def embed(self, question: str) -> QueryEmbedding | None:
        """Return the embedding of a query; None where there is none in time.

        Call it before a transaction begins.
        """
        if self._embedding is None:
            return None
        vector = await self._embedding.question(question)
        return QueryEmbedding(vector, self._embedding.model) if vector is not None else None

    async def find(
        self,
        tx: Tx,
        user_index: MemoryIndex,
        question: str,
        embedding: QueryEmbedding | None,
        *,
        since: datetime | None,
        limit: int,
    ) -> list[Memory]:
        """Return the memories that answer best, best first.

        Then those of the kinds that the query asks for in words too common to search by; with
        `since`, no hidden ones.
        """
        found = await self._ranked(tx, user_index, question, embedding, since=since, limit=limit)
        if len(found) < limit and (kinds := requested_fact_ids(question)):
            found_ids = {one.memory for one in found}
            more = await memories.of_kinds(tx, user_index.index_id, kinds, since=since, limit=limit)
            found += [one for one in more if one.memory not in found_ids]
        return found[:limit]

    async def _ranked(
        self,
        tx: Tx,
        user_index: MemoryIndex,
        question: str,
        embedding: QueryEmbedding | None,
        *,
        since: datetime | None,
        limit: int,
    ) -> list[Memory]:
        terms = query_terms(question)
        best = max(CANDIDATES, 2 * limit)
        while terms or embedding is not None:
            index_search = IndexQuery(
                user_index.index_id,
                best,
                neighbours=0,
                expand_count=0,
                best_by_embedding=best if embedding is not None else 0,
            )
            found = (await search(tx, [index_search], terms, embedding)).get(user_index.index_id)
            candidates = found.candidates if found is not None else []
            self._meter.add("memsvc_recall_candidates", len(candidates))
            term_scores = {
                candidate.entry: sum(candidate.term_scores.values())
                for candidate in candidates
                if candidate.term_scores
            }
            similarity = {
                candidate.entry: candidate.cosine
                for candidate in candidates
                if candidate.cosine is not None
            }
            ranked = [
                entry
                for entry, score in merge_scores(
                    term_scores, similarity, cosine_weight=EMBEDDING_WEIGHT
                ).items()
                if score > 0
            ]
            visible = await memories.at(tx, user_index.index_id, ranked, since=since)
            if len(visible) >= limit or max(len(term_scores), len(similarity)) < best:
                return _in_order(ranked, visible, limit)
            best *= 8  # hidden memories took the places of visible ones
        return []


def _in_order(ranked: Sequence[int], visible: dict[int, Memory], limit: int) -> list[Memory]:
    return [visible[entry] for entry in ranked if entry in visible][:limit]
