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
from memsvc.store import index, passages
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.passages import PassageKey, SearchRange
from memsvc.store.search import IndexQuery, QueryEmbedding, search
from memsvc.styles.embedding import Embedding, embed_query

CANDIDATES: Final = 100
VECTOR_WEIGHT: Final = 0.3
CLEAR_MIN: Final = 0.1
"""Minimum lead of the best cosine over all others to find a passage that is not near."""
ENTRY_CHARS_MAX: Final = 100_000


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

    Without its embedding words alone count. With it a chunk without any of its words is found if
    its meaning is near, or clearly nearer than that of all others.
    """
    query = query_terms(question)
    limit = best if embedding is None else candidates
    matched = (
        await passages.search(tx, where, query, best=limit) if query and where.projects else {}
    )
    if embedding is None:
        return matched
    cosines = await passages.match_embedding(tx, where, embedding, best=limit)
    clear = embedding.standing_out(cosines, near=0.0, clear=CLEAR_MIN)
    by_embedding = {
        place: cosine
        for place, cosine in cosines.items()
        if place in matched or place == clear or embedding.is_near(cosine)
    }
    return merge_scores(matched, by_embedding, cosine_weight=vector_weight)


@frozen
class CitationSearch:
    """The port `PassageSearch` over one index: what was written is found by the next call.

    `directory_of` returns the directory of a user's files if each file has an owner; then only
    those of the calling user are found, or those of all users for None.
    """

    database: Database
    meter: Meter
    index_name: str
    embedding: Embedding | None = None
    directory_of: Callable[[str], str] | None = None

    async def __call__(
        self, scope: Scope, question: str, limit: int, *, path: str = "", user: str | None = ""
    ) -> Sequence[CitedPassage]:
        """Return the best passages for a question, best first, in the files at and inside a path.

        None for a blank question.
        """
        if not question.strip() or (self.directory_of is not None and user == ""):
            return []
        if self.directory_of is not None and user is not None:
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


@frozen
class EntrySearch:
    """The port `PassageSearch` over an index without files, by words; a path is an entry's id.

    `name_of` returns the name of the index that a user may read; None stands for no user."""

    database: Database
    name_of: Callable[[str], str]

    async def __call__(
        self, scope: Scope, question: str, limit: int, *, user: str | None = ""
    ) -> Sequence[CitedPassage]:
        """Return the best entries for a question, best first; none for a blank one."""
        number, query = index_id_of(self.name_of(user or "")), query_terms(question)
        if not query:
            return []
        async with self.database.begin_read(scope) as tx:
            matches = (await search(tx, [IndexQuery(number, limit)], query)).get(number)
            best = [one for one in matches.candidates if one.term_scores] if matches else []
            entries = [one.entry for one in best]
            read = await index.texts(tx, number, entries, chars_max=ENTRY_CHARS_MAX)
        return [
            CitedPassage(text.ref, 0, 0, text.text, sum(one.term_scores.values()), text.message_at)
            for one in best
            if (text := read.get(one.entry)) is not None
        ]
