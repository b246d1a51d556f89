"""Search in callers' files: by words and by embeddings where configured, reranked on request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Cited, Meter, Reranker
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import passages, projects, summaries
from memsvc.store.database import Database, Tx
from memsvc.store.passages import Passage, Place, Where
from memsvc.styles import citing
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.indexing import BOOK
from memsvc.styles.files.options import SearchOptions
from memsvc.styles.files.summary_text import by_rules

log = structlog.get_logger("memsvc.search")

QUERY_BYTES_MAX: Final = 16_384
PROJECTS_MAX: Final = 10_000
HEAD_BYTES: Final = 8192
"""Bytes from the start of a file that its summary is made from when no model made one."""

Content = tuple[str, int, int]
"""Identity of a file's content: its project, its stream and its size in bytes."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching passage with its file's summary.

    `project` is None unless several were searched."""

    project: str | None
    passage: Passage
    score: float
    summary: str


class Search:
    """Search over files; it finds what the previous call wrote and nothing that was deleted."""

    def __init__(
        self,
        database: Database,
        meter: Meter,
        options: SearchOptions,
        *,
        embedding: Embedding | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._database = database
        self._meter = meter
        self._options = options
        self._embedding = embedding
        self._reranker = reranker

    async def find(self, scope: Scope, query: str, *, path: str, limit: int | None) -> list[Hit]:
        """Return the best passages for a question, best first, in the files at and below a path.

        Searches one project or, where the scope's project is `*`, all that the caller may touch.
        INVALID_QUERY for a blank or overlong query."""
        query = query.strip()
        if not query or len(query.encode()) > QUERY_BYTES_MAX:
            raise MemsvcError(Code.INVALID_QUERY, f"a query has 1 to {QUERY_BYTES_MAX} bytes that are not blank")
        most = self._options.limit_default if limit is None else min(limit, self._options.limit_max)
        if most < 1:
            raise MemsvcError(Code.INVALID_ARGUMENT, "limit must be > 0")
        vector = await self._embedding.question(query) if self._embedding is not None else None
        kept = most if self._reranker is None else max(most, self._options.reranked)
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            where = Where(BOOK, await _projects(tx, scope), path)
            scores = await self._scores(tx, where, query, vector, kept)
            best = sorted(scores, key=lambda place: (-scores[place], place))[:kept]
            found = await passages.read(tx, where, best)
            self._meter.add("memsvc_recall_candidates", len(scores))
            ordered = [(place, scores[place]) for place in best if place in found]
            if self._reranker is None:
                return _hits(scope, ordered, found, await _summaries(tx, ordered, found))
        ordered = (await self._reranked(query, ordered, found))[:most]
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            told = await _summaries(tx, ordered, found)
        return _hits(scope, ordered, found, told)

    async def cite(self, scope: Scope, question: str, limit: int, *, user: str = "") -> Sequence[Cited]:
        """Return the best passages of a project (the port `Passages`); files belong to no user."""
        if not question.strip():
            return []
        hits = await self.find(scope, question, path="", limit=limit)
        return [
            Cited(one.path, one.start, one.end, one.text, hit.score, one.updated_at)
            for hit in hits
            for one in [hit.passage]
        ]

    async def _scores(
        self, tx: Tx, where: Where, query: str, vector: Sequence[float] | None, kept: int
    ) -> Mapping[Place, float]:
        return await citing.scores(
            tx,
            where,
            query,
            vector,
            self._embedding.model if self._embedding is not None else "",
            best=kept,
            candidates=self._options.candidates,
            semantic_weight=self._options.semantic_weight,
        )

    async def _reranked(
        self, query: str, ordered: list[tuple[Place, float]], found: Mapping[Place, Passage]
    ) -> list[tuple[Place, float]]:
        """Return the same places in the reranker's order, unchanged if it fails or is slow."""
        assert self._reranker is not None
        if not ordered:
            return ordered
        try:
            scores = await self._reranker(query, [found[place].text for place, _ in ordered])
        except MemsvcError as error:
            log.warning("search goes on without the reranker", code=error.code.value)
            return ordered
        again = [(place, score) for (place, _), score in zip(ordered, scores, strict=True)]
        return sorted(again, key=lambda pair: -pair[1])


async def _projects(tx: Tx, scope: Scope) -> list[str]:
    if scope.project != ALL_PROJECTS:
        return [scope.project]
    return await projects.names(tx, like="", after="", only=scope.confined_to, most=PROJECTS_MAX)


async def _summaries(
    tx: Tx, ordered: Sequence[tuple[Place, float]], found: Mapping[Place, Passage]
) -> dict[Content, str]:
    """Return a summary of each file: the model's if it is current, else one of the file's start."""
    contents = list({_content(place, found[place]) for place, _ in ordered})
    told = await summaries.told_of(tx, contents, head_bytes=HEAD_BYTES) if contents else {}
    return {
        content: of.summary or by_rules(of.head, size_bytes=of.size_bytes, is_text=of.is_text)
        for content, of in told.items()
    }


def _content(place: Place, passage: Passage) -> Content:
    return place.project, passage.stream, passage.size_bytes


def _hits(
    scope: Scope,
    ordered: Sequence[tuple[Place, float]],
    found: Mapping[Place, Passage],
    told: Mapping[Content, str],
) -> list[Hit]:
    several = scope.project == ALL_PROJECTS
    return [
        Hit(
            place.project if several else None,
            found[place],
            score,
            told[_content(place, found[place])],
        )
        for place, score in ordered
    ]
