"""Search in callers' files: by words and by embeddings where configured, reranked on request."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final

import structlog
from pydantic import AfterValidator, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_path
from memsvc.core.ports import CitedPassage, Meter, Reranker
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import NamedProjectArguments
from memsvc.store import passages, projects, summaries
from memsvc.store.database import Database, Tx
from memsvc.store.passages import Passage, PassageKey, SearchRange
from memsvc.styles import passage_search
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.indexing import FILE_INDEX
from memsvc.styles.files.options import SearchOptions
from memsvc.styles.files.summary_text import rule_summary

log = structlog.get_logger("memsvc.search")

QUERY_BYTES_MAX: Final = 16_384
PROJECTS_MAX: Final = 10_000
HEAD_BYTES: Final = 8192
"""Bytes from the start of a file that its summary is made from when no model made one."""

Content = tuple[str, int, int]
"""Identity of a file's content: its project, its stream and its size in bytes."""


@result
class FileChunk:
    _: KW_ONLY
    project: Annotated[
        str | None,
        Field(exclude_if=lambda value: value is None),
        "its project, when several were searched",
    ] = None
    file_path: Annotated[str, "the file that it is in"]
    file_seek_start_bytes: Annotated[int, "its first byte in the file"]
    file_seek_end_bytes: Annotated[int, "the byte after its last"]
    is_full_file: Annotated[bool, "whether it is all that the file holds"]
    chunk_content: Annotated[str, "its text"]
    score: Annotated[float, "how well it answers; comparable within one answer only"]
    file_summary: Annotated[str, "what the file is about, in a paragraph"]


@result
class FoundChunks:
    chunks: Annotated[list[FileChunk], "best first; empty when nothing matches"]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching passage with its file's summary.

    `project` is None unless several were searched."""

    project: str | None
    passage: Passage
    score: float
    summary: str


class FileSearch:
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

    @tool(
        "file_search",
        title="Search files",
        needs=Permission.READ,
        toolset="files",
        for_agents=True,
        base=NamedProjectArguments,
        project="the project; *: all of yours",
        logs=("path_prefix",),
        spans_projects=True,
    )
    async def search(
        self,
        scope: Scope,
        query: Annotated[str, "words or a question"],
        path_prefix: Annotated[
            str,
            AfterValidator(lambda value: check_path(value.removesuffix("/"))),
            "file or directory to search in",
        ] = "",
        limit: Annotated[int | None, "passages; at most 20"] = None,
    ) -> FoundChunks:
        """Call to find what files say: passages that fit, by words and, if set up, by meaning."""
        return FoundChunks(
            [
                FileChunk(
                    project=hit.project,
                    file_path=hit.passage.path,
                    file_seek_start_bytes=hit.passage.start,
                    file_seek_end_bytes=hit.passage.end,
                    is_full_file=hit.passage.whole,
                    chunk_content=hit.passage.text,
                    score=hit.score,
                    file_summary=hit.summary,
                )
                for hit in await self.find(scope, query, path=path_prefix, limit=limit)
            ]
        )

    async def find(
        self, scope: Scope, query: str, *, path: str, limit: int | None
    ) -> list[SearchHit]:
        """Return the best passages for a question, best first, in the files at and below a path.

        Searches one project or, where the scope's project is `*`, all that the caller may touch.
        INVALID_QUERY for a blank or overlong query."""
        query = query.strip()
        if not query or len(query.encode()) > QUERY_BYTES_MAX:
            raise MemsvcError(
                Code.INVALID_QUERY, f"a query has 1 to {QUERY_BYTES_MAX} bytes that are not blank"
            )
        max_passages = (
            self._options.limit_default if limit is None else min(limit, self._options.limit_max)
        )
        if max_passages < 1:
            raise MemsvcError(Code.INVALID_ARGUMENT, "limit must be > 0")
        vector = await self._embedding.question(query) if self._embedding is not None else None
        rerank_count = (
            max_passages if self._reranker is None else max(max_passages, self._options.reranked)
        )
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            where = SearchRange(FILE_INDEX, await _projects(tx, scope), path)
            scores = await self._scores(tx, where, query, vector, rerank_count)
            best = sorted(scores, key=lambda place: (-scores[place], place))[:rerank_count]
            found = await passages.read(tx, where, best)
            self._meter.add("memsvc_recall_candidates", len(scores))
            ordered = [(place, scores[place]) for place in best if place in found]
            if self._reranker is None:
                return _search_results(scope, ordered, found, await _summaries(tx, ordered, found))
        ordered = (await self._rerank(query, ordered, found))[:max_passages]
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            summaries_by_content = await _summaries(tx, ordered, found)
        return _search_results(scope, ordered, found, summaries_by_content)

    async def find_passages(
        self, scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        """Return the best passages of a project, for any user (port `PassageSearch`)."""
        if not question.strip():
            return []
        found = await self.find(scope, question, path="", limit=limit)
        return [
            CitedPassage(
                passage.path,
                passage.start,
                passage.end,
                passage.text,
                hit.score,
                passage.updated_at,
            )
            for hit in found
            for passage in [hit.passage]
        ]

    async def _scores(
        self, tx: Tx, where: SearchRange, query: str, vector: Sequence[float] | None, limit: int
    ) -> Mapping[PassageKey, float]:
        return await passage_search.scores(
            tx,
            where,
            query,
            vector,
            self._embedding.model if self._embedding is not None else "",
            best=limit,
            candidates=self._options.candidates,
            vector_weight=self._options.semantic_weight,
        )

    async def _rerank(
        self,
        query: str,
        ordered: list[tuple[PassageKey, float]],
        found: Mapping[PassageKey, Passage],
    ) -> list[tuple[PassageKey, float]]:
        """Return the same places in the reranker's order, unchanged if it fails or is slow."""
        assert self._reranker is not None
        if not ordered:
            return ordered
        try:
            scores = await self._reranker(query, [found[place].text for place, _ in ordered])
        except MemsvcError as error:
            log.warning("search goes on without the reranker", code=error.code.value)
            return ordered
        ranked = [(place, score) for (place, _), score in zip(ordered, scores, strict=True)]
        return sorted(ranked, key=lambda pair: -pair[1])


async def _projects(tx: Tx, scope: Scope) -> list[str]:
    if scope.project != ALL_PROJECTS:
        return [scope.project]
    return await projects.names(
        tx, like="", after="", only=scope.allowed_projects, limit=PROJECTS_MAX
    )


async def _summaries(
    tx: Tx, ordered: Sequence[tuple[PassageKey, float]], found: Mapping[PassageKey, Passage]
) -> dict[Content, str]:
    """Return a summary of each file: the model's if it is current, else one of the file's start."""
    contents = list({_content(place, found[place]) for place, _ in ordered})
    sources = (
        await summaries.describe_contents(tx, contents, head_bytes=HEAD_BYTES) if contents else {}
    )
    return {
        content: source.summary
        or rule_summary(source.head, size_bytes=source.size_bytes, is_text=source.is_text)
        for content, source in sources.items()
    }


def _content(place: PassageKey, passage: Passage) -> Content:
    return place.project, passage.stream, passage.size_bytes


def _search_results(
    scope: Scope,
    ordered: Sequence[tuple[PassageKey, float]],
    found: Mapping[PassageKey, Passage],
    summaries_by_content: Mapping[Content, str],
) -> list[SearchHit]:
    multi_project = scope.project == ALL_PROJECTS
    return [
        SearchHit(
            place.project if multi_project else None,
            found[place],
            score,
            summaries_by_content[_content(place, found[place])],
        )
        for place, score in ordered
    ]
