"""The nearest entries of an index, for tests."""

from collections.abc import Sequence

from memsvc.store.database import Tx
from memsvc.store.search import IndexQuery, QueryEmbedding, search


async def nearest(
    tx: Tx, index_id: int, model: str, vector: Sequence[float], best: int
) -> dict[int, float]:
    """The cosines of the best entries of an index that a search by the vector alone finds."""
    query = IndexQuery(index_id, 0, neighbours=0, expand_count=0, best_by_embedding=best)
    found = await search(tx, [query], [], QueryEmbedding(vector, model))
    cosines = {
        one.entry: one.cosine
        for matches in found.values()
        for one in matches.candidates
        if one.cosine is not None
    }
    return dict(sorted(cosines.items(), key=lambda pair: -pair[1]))
