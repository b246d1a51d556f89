"""Writer of a notebook: texts become files, index entries and outline nodes in one transaction.

`TreeRebuild` repairs an outline that differs from its documents.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
from typing import Annotated, Final

from memsvc.core.background import in_batches, map_in_thread
from memsvc.core.errors import (
    Code,
    MemsvcError,
    already_exists,
    not_found,
    payload_too_large,
    quota_exceeded,
)
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import tool
from memsvc.store import document_tree, documents, files, jobs, style_files, tree
from memsvc.store.database import Database, Tx
from memsvc.store.document_tree import DocumentNode
from memsvc.store.files import File
from memsvc.store.locks import document_tree_lock
from memsvc.styles.embedding import queue_embedding
from memsvc.styles.notebook.document_tree import (
    DIRECTORY,
    ROOT,
    NotebookTree,
    TreeChange,
    TreeUpdate,
    build_tree,
    document_at,
    document_id,
    links,
    path_of,
    tree_of,
    with_new_ids,
)
from memsvc.styles.notebook.options import NotebookOptions

INDEX_NAME: Final = "notebook"
OWNER: Final = "notebook"
RENAMED: Final = "notebook.renamed"
"""Owner of what stands in the place of a renamed document: a deleted file that links its new id."""
FORGET_JOB: Final = "notebook.forget"
FORGET_INLINE_MAX: Final = 16
"""Documents whose entries are removed in the call that removes them; a job does more."""
CHUNKS_PER_STEP: Final = 128
DOCUMENTS_PER_STEP: Final = 250
_CHANGED: Final = "Error: expected_version: the document has changed; read it again before writing"

DocumentId = Annotated[str, "id of the document; root is the id of the main document"]
notebook_tool = partial(
    tool,
    toolset="notebook",
    logs=("id", "parent", "new_id", "version", "expected_version"),
    protocol_errors=True,
)


@frozen
class Changed:
    """Result of a change: created and removed documents, and versions of those that got a text."""

    created: tuple[str, ...]
    removed: tuple[str, ...]
    versions: Mapping[str, str]


@frozen
class NotebookWriter:
    """Writes a project's notebook, one writer at a time; each leaves one tree or no change.

    A new notebook is the root template alone; the first change stores it.
    """

    database: Database
    clock: Clock
    options: NotebookOptions

    def begin_write(
        self, scope: Scope, *, long_running: bool = False
    ) -> AbstractAsyncContextManager[Tx]:
        """Begin a transaction in which nobody else writes the notebook, see `Database.begin`."""
        return self.database.begin(
            scope, locks=[document_tree_lock(INDEX_NAME)], long_running=long_running
        )

    async def find(self, tx: Tx, document: str, expected_version: str | None = None) -> File:
        """Return the file of a document.

        NOT_FOUND, and VERSION_CONFLICT unless it is at the expected version.
        """
        path = path_of(document)
        found = await style_files.find(tx, [path])
        if not found and not await document_tree.count(tx, INDEX_NAME):
            await self._create(tx, self.initial_tree())
            found = await style_files.find(tx, [path])
        if path not in found:
            raise missing_document(
                document,
                recovery="to create the document, add [[id]] to the text of its parent; to bring"
                " back a removed document, restore its former parent with restore_document to a"
                " version that links to the document",
            )
        if expected_version is not None and found[path].version != expected_version:
            raise MemsvcError(Code.VERSION_CONFLICT, _CHANGED, details={"id": document})
        return found[path]

    def initial_tree(self) -> NotebookTree:
        """Return a notebook before its first change."""
        return build_tree({ROOT: self.options.root_template}, depth_max=self.options.depth_max)

    def check_size(self, text: str) -> bytes:
        """Return the bytes of a text; PAYLOAD_TOO_LARGE where a document may not hold as many."""
        content = text.encode()
        if len(content) > self.options.document_bytes_max:
            raise payload_too_large(
                f"Error: content: a document is limited to {self.options.document_bytes_max} bytes",
                recovery="move parts of the document to separate documents, and put a [[link]]"
                " in place of each part",
            )
        return content

    async def change(self, tx: Tx, texts: Mapping[str, str], now: Mapping[str, File]) -> Changed:
        """Store new texts of documents, and the tree as these link it.

        `now` are the files of existing documents; other texts are of documents that one of these
        links. An unchanged text changes nothing.

        INVALID_CONTENT where there would be no tree, or too deep a one; PAYLOAD_TOO_LARGE,
        QUOTA_EXCEEDED. After any of them the transaction must not be committed.
        """
        contents = {document: self.check_size(text) for document, text in texts.items()}
        same = {
            one
            for one, file in now.items()
            if one in contents and sha256(contents[one]).digest() == file.sha256
        }
        versions = {document: now[document].version for document in same}
        texts = {document: text for document, text in texts.items() if document not in same}
        if not texts:
            return Changed((), (), versions)
        change = await self._write_tree(tx, texts, frozenset(now))
        gone = []
        if change.removed:
            gone = await style_files.delete(
                tx, [path_of(one) for one in change.removed], now=self.clock.now()
            )
        written = await self._write(tx, change.texts, frozenset(now))
        await queue_embedding(tx, self.clock.now())
        if len(gone) <= FORGET_INLINE_MAX:
            for file_id in gone:
                await documents.forget(tx, INDEX_NAME, file_id)
        else:
            await jobs.enqueue(tx, FORGET_JOB, "", now=self.clock.now())
        versions |= {document: written[path_of(document)].version for document in texts}
        return Changed(change.created, change.removed, versions)

    async def rename(self, tx: Tx, file: File, document: str, new_id: str) -> None:
        """Give a document another id, with its history, and mend the link to it.

        Past texts link the old id: a deleted file stays in its place that links the new one.
        ALREADY_EXISTS for the id of another document.
        """
        nodes = await document_tree.find(tx, INDEX_NAME, [document, new_id])
        if new_id in nodes:
            raise already_exists("Error: new_id: already exists", details={"id": new_id})
        node, now = nodes[document], self.clock.now()
        parent = node.parent or ROOT
        near = await document_tree.find(tx, INDEX_NAME, [parent, *node.children])
        put = {child: DocumentNode(new_id, near[child].children) for child in node.children}
        children = [new_id if one == document else one for one in near[parent].children]
        put |= {new_id: node, parent: DocumentNode(near[parent].parent, tuple(children))}
        await document_tree.change(tx, INDEX_NAME, put, [document], added_nodes=0)
        await files.move(tx, file.path, path_of(new_id))
        forward = {file.path: f"[[{new_id}]]".encode()}
        await style_files.put(tx, forward, owner=RENAMED, now=file.created_at)
        await style_files.delete(tx, [file.path], now=now)
        ref = file.incarnation.hex
        await documents.set_title(tx, INDEX_NAME, ref, file.stream, title=new_id, now=now)
        holder = await self.find(tx, parent)
        text = with_new_ids((await files.read(tx, holder)).decode(), {document: new_id})
        self.check_size(text)
        await self._write(tx, {parent: text}, frozenset([parent]))
        await queue_embedding(tx, self.clock.now())

    async def _write_tree(
        self, tx: Tx, texts: Mapping[str, str], existing: frozenset[str]
    ) -> TreeChange:
        """Check the links of the texts, and write the outline."""
        linked = dict(zip(texts, await map_in_thread(list(texts.values()), links), strict=True))
        known, parents = await document_tree.with_ancestors(tx, INDEX_NAME, linked)
        for document in known.keys() - existing:
            raise already_exists(
                "Error: id: a document with this id already exists", details={"id": document}
            )
        before = {child for node in known.values() for child in node.children}
        added = {link for targets in linked.values() for link in targets} - before - known.keys()
        found = await document_tree.find(tx, INDEX_NAME, added) if added else {}
        inner = {child: name for name, node in known.items() for child in node.children}
        update = TreeUpdate(linked, known | found, inner | parents)
        update.check_links()
        changed = {*update.dropped, *update.moved}
        descendants = (
            await document_tree.with_descendants(tx, INDEX_NAME, changed) if changed else {}
        )
        change = update.change(texts, descendants, depth_max=self.options.depth_max)
        put = {name: node for name, node in change.put.items() if known.get(name) != node}
        if put or change.removed:
            size_change = len(change.created) - len(change.removed)
            nodes = await document_tree.change(
                tx, INDEX_NAME, put, change.removed, added_nodes=size_change
            )
            self._check_count(nodes if size_change > 0 else 0)
        return change

    def _check_count(self, documents_: int) -> None:
        if documents_ > self.options.documents_max:
            raise quota_exceeded(
                f"Error: content: a notebook is limited to {self.options.documents_max} documents",
                recovery="remove documents that are no longer needed, by deleting the links to"
                " them",
            )

    async def _write(
        self, tx: Tx, texts: Mapping[str, str], existing: frozenset[str]
    ) -> dict[str, File]:
        """Write new files and those that are `existing`, and index them."""
        contents = {path_of(document): text.encode() for document, text in texts.items()}
        written: dict[str, File] = {}
        for some in in_batches(contents.items(), lambda _: 1, DOCUMENTS_PER_STEP):
            written |= await style_files.put(tx, dict(some), owner=OWNER, now=self.clock.now())
        new = [
            (written[path_of(one)], text, one) for one, text in texts.items() if one not in existing
        ]
        for document, text in texts.items():
            if document in existing:
                file = written[path_of(document)]
                await documents.put(
                    tx, INDEX_NAME, file, text, title=document, now=self.clock.now()
                )
        await documents.add(tx, INDEX_NAME, new, now=self.clock.now())
        return written

    async def forget(self, scope: Scope, _: str) -> None:
        """Remove the index entries of removed documents.

        A job. None of them is found any more anyway.
        """
        begin = ""
        while True:
            async with self.database.begin(scope) as tx:
                found = await documents.stale(tx, INDEX_NAME, begin=begin, limit=CHUNKS_PER_STEP)
                await documents.remove(tx, INDEX_NAME, [chunk for _, chunk in found])
                if found:
                    await queue_embedding(tx, self.clock.now())
            if len(found) < CHUNKS_PER_STEP:
                return
            begin = found[-1][0]

    async def create(self, scope: Scope, tree: NotebookTree) -> None:
        """Store this tree as a new notebook; NOT_EMPTY for an existing one, QUOTA_EXCEEDED."""
        async with self.begin_write(scope, long_running=True) as tx:
            if await document_tree.count(tx, INDEX_NAME):
                raise MemsvcError(Code.NOT_EMPTY, "Error: this notebook is not empty")
            await self._create(tx, tree)
            await queue_embedding(tx, self.clock.now())

    async def _create(self, tx: Tx, tree: NotebookTree) -> None:
        self._check_count(len(tree.nodes))
        names = list(tree.nodes)
        for start in range(0, len(names), DOCUMENTS_PER_STEP):
            some = names[start : start + DOCUMENTS_PER_STEP]
            await document_tree.change(
                tx, INDEX_NAME, {name: tree.nodes[name] for name in some}, (), added_nodes=len(some)
            )
            await self._write(tx, {name: tree.texts[name] for name in some}, frozenset())


def missing_document(document: str, *, recovery: str | None = None) -> MemsvcError:
    """Return the error for a missing document."""
    return not_found("Error: id: not found", recovery=recovery, details={"id": document[:128]})


def checked_id(name: str) -> str:
    """Return the id that a name means; NOT_FOUND where it can be none."""
    document = document_id(name)
    if document is None:
        raise missing_document(name)
    return document


DOCUMENTS_PER_READ: Final = 200

DiffCounts = Counter[str]
"""Number of different rows by table; and under `orphans` the documents no link leads to."""


@frozen
class TreeRebuild:
    """Compares the outline with the documents that it is derived from, and rebuilds it."""

    database: Database

    async def check(self, scope: Scope, *, fix: bool = False) -> DiffCounts:
        """Return what differs; with `fix` it is repaired, while nobody writes the notebook."""
        async with self.database.begin(
            scope,
            locks=[document_tree_lock(INDEX_NAME)] if fix else (),
            read_only=not fix,
            long_running=fix,
        ) as tx:
            return await _compare(tx, fix=fix)


async def _compare(tx: Tx, *, fix: bool) -> DiffCounts:
    linked: dict[str, tuple[str, ...]] = {}
    after = ""
    while paths := await tree.files_at(tx, DIRECTORY, after=after, limit=DOCUMENTS_PER_READ):
        contents = await tree.contents(tx, paths)
        linked |= {
            document: links(contents.get(path, b"").decode())  # an empty one has no content
            for path in paths
            if (document := document_at(path)) is not None
        }
        after = paths[-1]
    expected = tree_of(linked)
    stored = await document_tree.read_all(tx, INDEX_NAME)
    count = await document_tree.count(tx, INDEX_NAME)
    wrong = {name: node for name, node in expected.nodes.items() if stored.get(name) != node}
    extra = stored.keys() - expected.nodes.keys()
    found = Counter(
        outline_nodes=len(wrong) + len(extra),
        outlines=int(count != len(expected.nodes)),
        unlinked=len(expected.orphans),
    )
    if fix and (wrong or extra or count != len(expected.nodes)):
        await document_tree.change(
            tx, INDEX_NAME, wrong, extra, added_nodes=len(expected.nodes) - count
        )
    return +found
