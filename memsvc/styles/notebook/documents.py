"""Writing a notebook: a tree of documents, each of which is below the one that links it.

A folder of Markdown files becomes a notebook by `NotebookDocuments.import_documents(scope, {id:
text})`, where the file `a.md` is the document `a` and `root.md` the root: all of it, or nothing and
the error that says why. It returns which documents were stored, which were made because they are
linked and missing, and which were left out because no link leads to them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.store import document_tree, files
from memsvc.store.database import Database, Tx
from memsvc.store.files import File
from memsvc.styles.notebook.document_split import joined, name_of, names, split_text
from memsvc.styles.notebook.document_tree import build_tree
from memsvc.styles.notebook.links import ROOT, document_id, links, with_link, without_links
from memsvc.styles.notebook.notebook_reader import NotebookReader, past_text
from memsvc.styles.notebook.notebook_writer import INDEX_NAME, Changed, NotebookWriter, checked_id
from memsvc.styles.notebook.options import NotebookOptions

_CYCLE_MESSAGE: Final = (
    "Error: parent: cross-tree reference not allowed - circular reference detected"
)


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """Result of a write: created and removed documents, and version and size of its document."""

    document: str
    created: tuple[str, ...]
    removed: tuple[str, ...]
    version: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """A split, or a suggestion of one: what the document keeps, and its new child documents by id.

    `written` is None for a suggestion.
    """

    document: str
    text: str
    parts: Mapping[str, str]
    written: DocumentWrite | None


@dataclass(frozen=True, slots=True)
class NotebookImport:
    """Result of an import: stored documents, those made by links, and unlinked ones."""

    documents: tuple[str, ...]
    created: tuple[str, ...]
    orphans: tuple[str, ...]


class NotebookDocuments:
    """Writer of a project's notebook; every write leaves one tree, or changes nothing.

    The links of a text are checked first, newly linked documents are made, and unlinked ones
    removed with all below them.

    NOT_FOUND for a missing document, VERSION_CONFLICT where it is not at the expected version,
    INVALID_CONTENT for links that make no tree or too deep a one, PAYLOAD_TOO_LARGE,
    QUOTA_EXCEEDED.
    """

    def __init__(
        self,
        database: Database,
        writer: NotebookWriter,
        reader: NotebookReader,
        options: NotebookOptions,
    ) -> None:
        self._database = database
        self._writer = writer
        self._reader = reader
        self._options = options

    async def update(
        self, scope: Scope, name: str, text: str, *, expected_version: str | None = None
    ) -> DocumentWrite:
        """Replace the text of a document."""
        document = checked_id(name)
        self._writer.check_size(text)
        async with self._writer.begin_write(scope) as tx:
            file = await self._writer.find(tx, document, expected_version)
            return await self._put(tx, document, text, file)

    async def edit(
        self,
        scope: Scope,
        name: str,
        old_text: str,
        new_text: str,
        *,
        expected_version: str | None = None,
    ) -> DocumentWrite:
        """Replace one text with another; it must occur in the document exactly once."""
        document = checked_id(name)
        async with self._writer.begin_write(scope) as tx:
            file = await self._writer.find(tx, document, expected_version)
            text = await _text(tx, file)
            count = _count_matches(text, old_text)
            if count != 1:
                raise MemsvcError(
                    Code.INVALID_ARGUMENT,
                    "Error: old_text: must stand in the document exactly once, and stands there"
                    f" {count} times",
                    recovery="read the document, and copy more of what is around it"
                    if count
                    else "read the document",
                    details={"id": document, "count": count},
                )
            return await self._put(tx, document, text.replace(old_text, new_text), file)

    async def restore(
        self, scope: Scope, name: str, version: str, *, expected_version: str | None = None
    ) -> DocumentWrite:
        """Restore a document to a version, also one from before it was removed and linked anew."""
        document = checked_id(name)
        async with self._writer.begin_write(scope) as tx:
            file = await self._writer.find(tx, document, expected_version)
            return await self._put(tx, document, await past_text(tx, document, version), file)

    async def move(
        self,
        scope: Scope,
        name: str,
        parent: str,
        *,
        old_parent_content: str | None = None,
        new_parent_content: str | None = None,
    ) -> DocumentWrite:
        """Move a document, with all below it, below another one.

        The link to it is removed from its old parent and appended to the new one, unless their
        contents are given. Where it is there already, nothing is done.
        """
        document, known = checked_id(name), document_id(parent)
        if document == ROOT:
            raise invalid("Error: id: the root cannot be moved")
        async with self._writer.begin_write(scope) as tx:
            file = await self._writer.find(tx, document)
            old, new_parent = await _place(tx, document, parent, known)
            if old == new_parent:
                if old_parent_content is not None or new_parent_content is not None:
                    raise invalid(
                        "Error: parent: the document is there already; update_document changes"
                        " its parent"
                    )
                return DocumentWrite(document, (), (), file.version, file.size_bytes)
            files_by_id = {one: await self._writer.find(tx, one) for one in (old, new_parent)}
            if old_parent_content is None:
                old_parent_content = _taken_out(await _text(tx, files_by_id[old]), document)
            if new_parent_content is None:
                new_parent_content = with_link(await _text(tx, files_by_id[new_parent]), document)
            if document in links(old_parent_content):
                raise MemsvcError(
                    Code.INVALID_CONTENT, "Error: old_parent_content: must not link the document"
                )
            if document not in links(new_parent_content):
                raise MemsvcError(
                    Code.INVALID_CONTENT, "Error: new_parent_content: must link the document"
                )
            changed = await self._writer.change(
                tx, {old: old_parent_content, new_parent: new_parent_content}, files_by_id
            )
            return DocumentWrite(
                document, changed.created, changed.removed, file.version, file.size_bytes
            )

    async def split(self, scope: Scope, name: str, *, apply: bool) -> DocumentSplit:
        """Split a document, or suggest how unless `apply`: see `split_text`."""
        document = checked_id(name)
        if not apply:
            text = (await self._reader.read(scope, document)).text
            async with self._database.begin(scope, read_only=True) as tx:
                return await self._parts(tx, document, text)
        async with self._writer.begin_write(scope) as tx:
            file = await self._writer.find(tx, document)
            found = await self._parts(tx, document, await _text(tx, file))
            texts = {document: found.text, **found.parts}
            changed = await self._writer.change(tx, texts, {document: file})
            return replace(found, written=_written(document, changed, len(found.text.encode())))

    async def _parts(self, tx: Tx, document: str, text: str) -> DocumentSplit:
        found = split_text(text, document, bytes_max=self._options.oversized_bytes)
        if len(found.new_documents) < 2:
            return DocumentSplit(document, text, {}, None)
        name_counts = Counter(name_of(section.title) for section in found.new_documents)
        candidates = {
            name
            for base, times in name_counts.items()
            for name in (base, *(f"{base} {n}" for n in range(2, times + 20)))
        }
        existing = (await document_tree.find(tx, INDEX_NAME, candidates)).keys() | {
            ROOT,
            *links(text),
        }
        left, parts = joined(found, names(found.new_documents, existing.__contains__))
        return DocumentSplit(document, left, parts, None)

    async def import_documents(self, scope: Scope, texts: Mapping[str, str]) -> NotebookImport:
        """Store these documents, by their ids, one of them `root`, as a new notebook.

        NOT_EMPTY for an existing notebook; INVALID_ARGUMENT without a root or for an invalid id;
        INVALID_CONTENT, PAYLOAD_TOO_LARGE and QUOTA_EXCEEDED as for a write, and nothing is stored
        then.
        """
        for name, text in texts.items():
            if document_id(name) != name:
                raise MemsvcError(
                    Code.INVALID_ARGUMENT, "Error: id: is none", details={"id": name[:128]}
                )
            self._writer.check_size(text)
        if ROOT not in texts:
            raise invalid("Error: root: not found", recovery="give the notebook a root, root.md")
        tree = build_tree(texts, depth_max=self._options.depth_max)
        await self._writer.create(scope, tree)
        stored = tuple(name for name in tree.nodes if name in texts)
        return NotebookImport(stored, tree.created, tree.orphans)

    async def _put(self, tx: Tx, document: str, text: str, file: File) -> DocumentWrite:
        changed = await self._writer.change(tx, {document: text}, {document: file})
        return _written(document, changed, len(text.encode()))


def _written(document: str, changed: Changed, size_bytes: int) -> DocumentWrite:
    return DocumentWrite(
        document, changed.created, changed.removed, changed.versions[document], size_bytes
    )


async def _place(tx: Tx, document: str, parent: str, new_parent: str | None) -> tuple[str, str]:
    """Return the parent of a document, and the one that it can be moved below."""
    line = (
        await document_tree.with_ancestors(
            tx, INDEX_NAME, [document, *([new_parent] if new_parent else [])]
        )
    )[1]
    if new_parent is None or new_parent not in line:
        raise MemsvcError(
            Code.NOT_FOUND, "Error: parent: not found", details={"parent_id": parent[:128]}
        )
    one: str | None = new_parent
    while one is not None:
        if one == document:
            raise MemsvcError(
                Code.INVALID_CONTENT,
                _CYCLE_MESSAGE,
                details={"parent_id": new_parent, "link": document},
            )
        one = line[one]
    return line[document] or ROOT, new_parent


def _taken_out(text: str, document: str) -> str:
    """Return a text without its links to a document, and with all others."""
    left = without_links(text, {document})
    if links(left) != tuple(link for link in links(text) if link != document):
        raise MemsvcError(
            Code.INVALID_CONTENT,
            "Error: id: its link cannot be taken out of the old parent by itself",
            recovery="give old_parent_content",
        )
    return left


async def _text(tx: Tx, file: File) -> str:
    return (await files.read(tx, file, 0, file.size_bytes)).decode()


def _count_matches(text: str, query: str) -> int:
    """Return how often a text holds another, overlaps counted."""
    count, at = 0, text.find(query)
    while at != -1:
        count, at = count + 1, text.find(query, at + 1)
    return count
