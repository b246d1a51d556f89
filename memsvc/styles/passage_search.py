"""Search of passages in the indexed files of a style, by words and, with an embedder, by meaning.

It is no style by itself: styles that store files use it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.frozen import frozen
from memsvc.core.ports import CitedPassage, Meter
from memsvc.core.ranking import merge_scores
from memsvc.core.scope import Scope
from memsvc.store import passages
from memsvc.store.database import Database, Tx
from memsvc.store.passages import PassageKey, SearchRange
from memsvc.store.search import QueryEmbedding
from memsvc.styles.embedding import Embedding, embed_query

CANDIDATES: Final = 100
VECTOR_WEIGHT: Final = 0.3


async def scores(
    tx: Tx,
    where: SearchRange,
    question: str,
    embedding: QueryEmbedding | None,
    *,
    best: int,
    candidates: int = CANDIDATES,
    vector_weight: float = VECTOR_WEIGHT,
) -> Mapping[PassageKey, float]:
    """Return the best chunks for a question by score.

    Without its embedding words alone count.
    """
    query = query_terms(question)
    limit = best if embedding is None else candidates
    matched = (
        await passages.search(tx, where, query, best=limit) if query and where.projects else {}
    )
    if embedding is None:
        return matched
    by_embedding = await passages.match_embedding(tx, where, embedding, best=limit)
    return merge_scores(matched, by_embedding, cosine_weight=vector_weight)


@frozen
class CitationSearch:
    """The port `PassageSearch` over one index: what was written is found by the next call.

    `directory_of` returns the directory of a user's files if each file has an owner; then only
    those of the calling user are found.
    """

    database: Database
    meter: Meter
    index_name: str
    embedding: Embedding | None = None
    directory_of: Callable[[str], str] | None = None

    async def __call__(
        self, scope: Scope, question: str, limit: int, *, path: str = "", user: str = ""
    ) -> Sequence[CitedPassage]:
        """Return the best passages for a question, best first, in the files at and inside a path.

        None for a blank question.
        """
        if not question.strip() or (self.directory_of is not None and not user):
            return []
        if self.directory_of is not None:
            path = self.directory_of(user)
        embedding = await embed_query(self.embedding, question)
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            where = SearchRange(self.index_name, [scope.project], path)
            found = await scores(tx, where, question, embedding, best=limit)
            best = sorted(found, key=lambda place: (-found[place], place))[:limit]
            read = await passages.read(tx, where, best)
        self.meter.add("memsvc_recall_candidates", len(found))
        return [
            CitedPassage(one.path, one.start, one.end, one.text, found[place], one.updated_at)
            for place in best
            if (one := read.get(place)) is not None
        ]
