"""Index of callers' files, and search in it: a write's start is indexed at once, the rest later."""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY
from typing import Annotated, Final

import structlog
from pydantic import AfterValidator

from memsvc.core.background import run_in_thread
from memsvc.core.call_context import step_done
from memsvc.core.chunks import chunks
from memsvc.core.errors import MemsvcError, invalid, invalid_query
from memsvc.core.frozen import frozen
from memsvc.core.paths import KEPT_ROOTS, check_path, is_kept
from memsvc.core.ports import CitedPassage, Clock, Meter, Reranker
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import OMIT_NONE, result, tool
from memsvc.core.tools import Job, NamedProjectArguments
from memsvc.store import documents, files, jobs, passages, projects, summaries, tree
from memsvc.store.database import Database, Tx
from memsvc.store.documents import DocumentChunk
from memsvc.store.files import File, FileMovedError
from memsvc.store.passages import Passage, PassageKey, SearchRange
from memsvc.styles import passage_search
from memsvc.styles.embedding import Embedding, embed_query, queue_embedding
from memsvc.styles.files.file_summaries import (
    SETTLE_S,
    SUMMARISE_JOB,
    SUMMARY_BYTES_MIN,
    summary_of,
)
from memsvc.styles.files.options import SearchOptions

FILE_INDEX: Final = "files"
AT_ONCE_BYTES: Final = 128 * 1024
"""Bytes that a write indexes in its own transaction: about 0.2 s of work."""
CHUNKS_AT_ONCE: Final = 512
"""More chunks than AT_ONCE_BYTES can make, overlaps included."""
INDEX_JOB: Final = "files.index"
DELETED_JOB: Final = "files.forget"
RENAME_JOB: Final = "files.retitle"
FILES_AT_ONCE: Final = 50

log = structlog.get_logger("memsvc.search")

QUERY_BYTES_MAX: Final = 16_384
PROJECTS_MAX: Final = 10_000
HEAD_BYTES: Final = 8192
"""Bytes from the start of a file that its summary is made from when no model made one."""

NOT_SEARCHED: Final = (
    f"file_search does not search the files that the server writes itself, below"
    f" {', '.join(KEPT_ROOTS)}: use the search tools of that memory, or file_read"
)

Content = tuple[str, int, int]
"""Identity of a file's content: its project, its stream and its size in bytes."""


@frozen
class FileChange:
    """One write to a file: `whole` is its new content, or None where `added` is appended."""

    whole: bytes | None
    added: bytes

    def indexed_bytes(self, before: File | None, *, is_text: bool) -> int:
        """Return the indexed bytes once `FileIndex.file_written` has handled this change."""
        if not is_text:
            return 0
        if self.whole is not None:
            return whole_characters(self.whole, AT_ONCE_BYTES)
        assert before is not None
        if before.indexed_bytes < before.size_bytes:
            return before.indexed_bytes
        return before.size_bytes + whole_characters(self.added, AT_ONCE_BYTES)


@frozen
class FileIndex:
    """The search index of files, updated with every change of a file.

    Searches check the file itself: a file that is binary, deleted or has a new stream is not found
    by its old chunks from that transaction on. Removing them can therefore wait."""

    database: Database
    clock: Clock
    has_summaries: bool = False

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs."""
        return [
            Job(INDEX_JOB, self.index),
            Job(DELETED_JOB, self.index_deleted),
            Job(RENAME_JOB, self.rename_entries),
        ]

    async def file_written(
        self, tx: Tx, before: File | None, after: File, change: FileChange
    ) -> None:
        """Index what was written, in the writer's transaction."""
        needs_job = after.is_text and after.indexed_bytes < after.size_bytes
        if change.whole is not None:
            old = []
            if before is not None and before.indexed_bytes:
                if before.indexed_bytes <= AT_ONCE_BYTES:
                    old = await documents.list_chunks(
                        tx, FILE_INDEX, before.incarnation.hex, limit=CHUNKS_AT_ONCE
                    )
                else:
                    needs_job = True
            text = change.whole[: after.indexed_bytes].decode() if after.is_text else ""
            await self._replace_chunks(tx, after, old, text, 0, "")
        elif before is not None and after.indexed_bytes > before.indexed_bytes:
            await self._index_added(
                tx,
                after,
                before.indexed_bytes,
                change.added[: after.indexed_bytes - before.indexed_bytes],
            )
        elif before is not None and before.indexed_bytes and not after.is_text:
            needs_job = True
        if needs_job:
            await jobs.enqueue(tx, INDEX_JOB, after.incarnation.hex, now=self.clock.now())
        if (
            self.has_summaries
            and max(after.size_bytes, before.size_bytes if before else 0) >= SUMMARY_BYTES_MIN
        ):
            await jobs.enqueue(
                tx, SUMMARISE_JOB, after.incarnation.hex, now=self.clock.now(), delay_s=SETTLE_S
            )

    async def file_deleted(self, tx: Tx, file: File) -> None:
        """Remove the chunks of a file that was just deleted; many are left to a job."""
        if file.size_bytes >= SUMMARY_BYTES_MIN:
            await summaries.remove(tx, file.incarnation)
        if 0 < file.indexed_bytes <= AT_ONCE_BYTES:
            old = await documents.list_chunks(
                tx, FILE_INDEX, file.incarnation.hex, limit=CHUNKS_AT_ONCE
            )
            await documents.remove(tx, FILE_INDEX, old)
            await queue_embedding(tx, self.clock.now())
        elif file.indexed_bytes:
            await jobs.enqueue(tx, INDEX_JOB, file.incarnation.hex, now=self.clock.now())

    async def files_deleted(self, tx: Tx) -> None:
        """Leave the chunks of all deleted files to a job."""
        await jobs.enqueue(tx, DELETED_JOB, "", now=self.clock.now())

    async def file_moved(self, tx: Tx, target: File | str) -> None:
        """Index a file, or all files below a path, under new names; many or long ones by a job."""
        if isinstance(target, File) and target.indexed_bytes <= AT_ONCE_BYTES:
            await self._rename_entry(tx, target)
        else:
            path = target.path if isinstance(target, File) else target
            await jobs.enqueue(tx, RENAME_JOB, path, now=self.clock.now())

    async def index(self, scope: Scope, file_id: str) -> None:
        """Job: remove stale chunks of a file, then index the rest, a part at a time."""
        while await self._index_part(scope, uuid.UUID(file_id)):
            step_done()

    async def _index_part(self, scope: Scope, file_id: uuid.UUID) -> bool:
        async with self.database.begin(scope) as tx:
            file = await files.find_by_id(tx, file_id)
            current_stream = file.stream if file is not None and file.is_text else None
            stale = await documents.list_chunks(
                tx, FILE_INDEX, file_id.hex, limit=CHUNKS_AT_ONCE // 4, not_of=current_stream
            )
            if stale:
                await documents.remove(tx, FILE_INDEX, stale)
                await queue_embedding(tx, self.clock.now())
                return True
            if file is None or not file.is_text:
                await files.set_indexed(tx, file_id, 0)
                await summaries.remove(tx, file_id)
                return False
            content = await files.read(
                tx, file, file.indexed_bytes, file.indexed_bytes + AT_ONCE_BYTES
            )
            content = content[: whole_characters(content, len(content))]
            if not content:
                return False
            await files.set_indexed(tx, file_id, file.indexed_bytes + len(content))
            await self._index_added(tx, file, file.indexed_bytes, content)
            return True

    async def index_deleted(self, scope: Scope, _: str) -> None:
        """Job: remove the chunks of deleted files."""
        while True:
            async with self.database.begin_read(scope) as tx:
                deleted = await files.deleted_with_entries(tx, limit=FILES_AT_ONCE)
            for file_id in deleted:
                await self.index(scope, file_id.hex)
            if not deleted:
                return

    async def rename_entries(self, scope: Scope, path: str) -> None:
        """Job: index the files at and below a path under the names that they have now."""
        after = ""
        while True:
            async with self.database.begin_read(scope) as tx:
                paths = await tree.files_at(tx, path, after=after, limit=FILES_AT_ONCE)
            for file_path in paths:
                # one at a time: a holder of the index lock must not wait for the file of a writer
                # waiting for it
                with suppress(FileMovedError):  # the call that moved it updates its name
                    async with self.database.begin(scope) as tx:
                        file = await files.find(tx, file_path, for_update=True)
                        if file is not None:
                            await self._rename_entry(tx, file)
            if not paths:
                return
            after = paths[-1]

    async def _rename_entry(self, tx: Tx, file: File) -> None:
        now = self.clock.now()
        ref = file.incarnation.hex
        await documents.set_title(tx, FILE_INDEX, ref, file.stream, title=file.path, now=now)
        await queue_embedding(tx, now)

    async def _index_added(self, tx: Tx, file: File, indexed_bytes: int, added: bytes) -> None:
        """Index `added`, which follows the first `indexed_bytes`; the last chunk is redone."""
        last = await documents.last_chunk(tx, FILE_INDEX, file.incarnation.hex, file.stream)
        start = last.start if last else 0
        tail = last.text.encode() if last else b""
        if len(tail) != indexed_bytes - start:  # whitespace at the end belongs to no chunk
            tail = await files.read(tx, file, start, indexed_bytes)
        old = [last] if last else []
        await self._replace_chunks(
            tx, file, old, (tail + added).decode(), start, last.context if last else ""
        )

    async def _replace_chunks(
        self, tx: Tx, file: File, old: list[DocumentChunk], text: str, start: int, context: str
    ) -> None:
        # stored text holds no NUL; chunks without it can be compared with stored ones
        stored = text.replace("\x00", " ")
        new = await run_in_thread(len(stored), chunks, stored, start=start, context=context)
        now = self.clock.now()
        ref = file.incarnation.hex
        await documents.replace_chunks(
            tx, FILE_INDEX, ref, file.stream, title=file.path, old=old, new=new, now=now
        )
        await queue_embedding(tx, now)


def whole_characters(content: bytes, limit: int) -> int:
    """Return how many of the first `limit` bytes of UTF-8 text form whole characters."""
    return len(content[:limit].decode("utf-8", "ignore").encode())


@result
class FileChunk:
    _: KW_ONLY
    project: Annotated[
        str | None,
        OMIT_NONE,
        "file's project, if several projects were searched",
    ] = None
    file_path: Annotated[str, "path of the file"]
    file_seek_start_bytes: Annotated[int, "offset of the passage's first byte"]
    file_seek_end_bytes: Annotated[int, "offset after the passage's last byte"]
    is_full_file: Annotated[bool, "whether the passage is the whole file"]
    chunk_content: Annotated[str, "text of the passage"]
    score: Annotated[float, "relevance; only comparable within one result"]
    file_summary: Annotated[str, "one-paragraph summary of the file"]


@result
class FoundChunks:
    chunks: Annotated[list[FileChunk], "passages, best first; empty if nothing matches"]
    note: Annotated[
        str | None,
        OMIT_NONE,
        "why files below path_prefix are not searched, if they are not",
    ] = None


RankedPassage = tuple[PassageKey, Passage, float]
"""A passage with its place and score."""


@frozen
class FileSearch:
    """Search over files; it finds what the previous call wrote and nothing that was deleted."""

    database: Database
    meter: Meter
    options: SearchOptions
    embedding: Embedding | None
    reranker: Reranker | None

    @tool(
        "file_search",
        "Search files",
        Permission.READ,
        toolset="files",
        for_agents=True,
        base=NamedProjectArguments,
        project="the project; *: all of your projects",
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
            "file or directory to search",
        ] = "",
        limit: Annotated[int | None, "maximum number of passages; at most 20"] = None,
    ) -> FoundChunks:
        """Call this to find passages in files, by words and by meaning."""
        ranked, summary_by_content = await self.find(scope, query, path=path_prefix, limit=limit)
        multi_project = scope.project == ALL_PROJECTS
        return FoundChunks(
            [
                FileChunk(
                    project=place.project if multi_project else None,
                    file_path=passage.path,
                    file_seek_start_bytes=passage.start,
                    file_seek_end_bytes=passage.end,
                    is_full_file=passage.whole,
                    chunk_content=passage.text,
                    score=score,
                    file_summary=summary_by_content[_content(place, passage)],
                )
                for place, passage, score in ranked
            ],
            NOT_SEARCHED if is_kept(path_prefix) else None,
        )

    async def find(
        self, scope: Scope, query: str, *, path: str, limit: int | None
    ) -> tuple[list[RankedPassage], dict[Content, str]]:
        """Return the best passages for a question in the files at and below a path, best first.

        Also the summaries of these files, by their content.

        Searches one project or, where the scope's project is `*`, all that the caller may touch.
        INVALID_QUERY for a blank or overlong query."""
        query = query.strip()
        if not query or len(query.encode()) > QUERY_BYTES_MAX:
            raise invalid_query(
                f"the query must not be blank or longer than {QUERY_BYTES_MAX} bytes"
            )
        max_passages = (
            self.options.limit_default if limit is None else min(limit, self.options.limit_max)
        )
        if max_passages < 1:
            raise invalid("limit must be > 0")
        embedding = await embed_query(self.embedding, query)
        rerank_count = (
            max_passages if self.reranker is None else max(max_passages, self.options.reranked)
        )
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            where = SearchRange(FILE_INDEX, await _projects(tx, scope), path)
            scores = await passage_search.scores(
                tx,
                where,
                query,
                embedding,
                best=rerank_count,
                candidates=self.options.candidates,
                vector_weight=self.options.semantic_weight,
            )
            best = sorted(scores, key=lambda place: (-scores[place], place))[:rerank_count]
            found = await passages.read(tx, where, best)
            self.meter.add("memsvc_recall_candidates", len(scores))
            ranked = [(place, found[place], scores[place]) for place in best if place in found]
            if self.reranker is None:
                return ranked, await _summaries(tx, ranked)
        ranked = (await self._rerank(query, ranked))[:max_passages]
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            return ranked, await _summaries(tx, ranked)

    async def find_passages(
        self, scope: Scope, question: str, limit: int, *, user: str | None = ""
    ) -> Sequence[CitedPassage]:
        """Return the best passages of a project, for any user (port `PassageSearch`)."""
        if not question.strip():
            return []
        ranked, _ = await self.find(scope, question, path="", limit=limit)
        return [
            CitedPassage(
                passage.path,
                passage.start,
                passage.end,
                passage.text,
                score,
                passage.updated_at,
            )
            for _, passage, score in ranked
        ]

    async def _rerank(self, query: str, ranked: list[RankedPassage]) -> list[RankedPassage]:
        """Return the same places in the reranker's order, unchanged if it fails or is slow."""
        assert self.reranker is not None
        if not ranked:
            return ranked
        try:
            scores = await self.reranker(query, [passage.text for _, passage, _ in ranked])
        except MemsvcError as error:
            log.warning("the reranker failed; search continues without it", code=error.code.value)
            return ranked
        reranked = [(*one[:2], score) for one, score in zip(ranked, scores, strict=True)]
        return sorted(reranked, key=lambda one: -one[2])


async def _projects(tx: Tx, scope: Scope) -> list[str]:
    if scope.project != ALL_PROJECTS:
        return [scope.project]
    return await projects.names(
        tx, like="", after="", only=scope.allowed_projects, limit=PROJECTS_MAX
    )


async def _summaries(tx: Tx, ranked: Sequence[RankedPassage]) -> dict[Content, str]:
    """Return a summary of each file: the model's if it is current, else one of the file's start."""
    contents = list({_content(place, passage) for place, passage, _ in ranked})
    sources = (
        await summaries.describe_contents(tx, contents, head_bytes=HEAD_BYTES) if contents else {}
    )
    return {content: summary_of(source) for content, source in sources.items()}


def _content(place: PassageKey, passage: Passage) -> Content:
    return place.project, passage.stream, passage.size_bytes
