"""Reading a notebook: documents, their past versions, the tree, and passages for a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import document_tree, files, versions
from memsvc.store.database import Database, Tx
from memsvc.store.versions import FileRevision, FileState
from memsvc.styles.notebook.links import ROOT, document_at, path_of
from memsvc.styles.notebook.notebook_writer import INDEX_NAME, NotebookWriter, checked_id, not_found
from memsvc.styles.notebook.yaml_tree import block_style
from memsvc.styles.passage_search import CitationSearch

HISTORY_LIMIT: Final = 20
HISTORY_LIMIT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class NotebookDocument:
    """A document, now or in the past; `version` is None while nobody has written the notebook."""

    id: str
    text: str
    version: str | None


@dataclass(frozen=True, slots=True)
class NotebookTreeText:
    """All documents: their number, and their tree as YAML."""

    text: str
    documents: int


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A passage of a document, with its byte range."""

    document: str
    start_bytes: int
    end_bytes: int
    text: str
    score: float


class NotebookReader:
    """Reader of a notebook, which writes nothing: a new notebook is what the template says."""

    def __init__(
        self, database: Database, writer: NotebookWriter, passages: CitationSearch
    ) -> None:
        self._database = database
        self._writer = writer
        self._passages = passages

    async def read(self, scope: Scope, name: str, version: str | None = None) -> NotebookDocument:
        """Return a document, or what it was at a version, even if it has been removed since.

        Raises NOT_FOUND.
        """
        document = checked_id(name)
        async with self._database.begin(scope, read_only=True) as tx:
            if version is not None:
                return NotebookDocument(document, await past_text(tx, document, version), version)
            file = await files.find(tx, path_of(document))
            if file is not None:
                content = await files.read(tx, file, 0, file.size_bytes)
                return NotebookDocument(document, content.decode(), file.version)
            text = (
                None
                if await document_tree.count(tx, INDEX_NAME)
                else self._writer.initial_tree().texts.get(document)
            )
        if text is None:
            raise not_found(document)
        return NotebookDocument(document, text, None)

    async def tree(self, scope: Scope) -> NotebookTreeText:
        """Return the whole tree, read in one query."""
        async with self._database.begin(scope, read_only=True) as tx:
            nodes = await document_tree.read_all(tx, INDEX_NAME)
        nodes = nodes or dict(self._writer.initial_tree().nodes)
        return NotebookTreeText(
            block_style(ROOT, {name: node.children for name, node in nodes.items()}), len(nodes)
        )

    async def history(
        self, scope: Scope, name: str, *, limit: int = HISTORY_LIMIT, before: str | None = None
    ) -> tuple[list[FileState], bool]:
        """Return past versions, newest first, after `before`, and whether there are more.

        The current version is not among them. NOT_FOUND where there is and was no such document, or
        it never was at `before`.
        """
        document = checked_id(name)
        path = path_of(document)
        async with self._database.begin(scope, read_only=True) as tx:
            position = FileRevision.parse(before) if before is not None else None
            unknown = before is not None and position is None
            found = (
                None
                if unknown
                else await versions.history(tx, path, before=position, limit=limit + 1)
            )
            if found is None:
                raise _no_version("cursor")
            exists = found or before is not None or await versions.is_known(tx, path)
            if not exists and (
                await document_tree.count(tx, INDEX_NAME)
                or document not in self._writer.initial_tree().nodes
            ):
                raise not_found(document)
        return found[:limit], len(found) > limit

    async def search(self, scope: Scope, question: str, limit: int) -> Sequence[FoundDocument]:
        """Return the best passages for a question, best first; none for a blank one."""
        cited = await self._passages(scope, question, limit)
        return [
            FoundDocument(document, one.start_bytes, one.end_bytes, one.text, one.score)
            for one in cited
            if (document := document_at(one.path)) is not None
        ]


async def past_text(tx: Tx, document: str, version: str) -> str:
    """Return a document's text at a version; NOT_FOUND unless it was one of its own."""
    position = FileRevision.parse(version)
    state = await versions.state(tx, path_of(document), position) if position is not None else None
    if state is None:
        raise _no_version("version")
    return (await versions.content(tx, state)).decode()


def _no_version(argument: str) -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND,
        f"Error: {argument}: not found",
        recovery="see document_history for the versions that are kept",
    )
