"""Writing a notebook: a tree of documents, each of which is below the one that links it.

A folder of Markdown files becomes a notebook by `NotebookDocuments.import_documents(scope, {id:
text})`, where the file `a.md` is the document `a` and `root.md` the root: all of it, or nothing and
the error that says why. It returns which documents were stored, which were made because they are
linked and missing, and which were left out because no link leads to them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Final

from pydantic import Field

from memsvc.core.errors import invalid, invalid_content, not_found
from memsvc.core.frozen import frozen
from memsvc.core.paths import IDENTIFIER_BYTES_MAX
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.core.tools import Version, removes_nothing
from memsvc.store import document_tree, files
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.styles.notebook.document_tree import (
    ROOT,
    build_tree,
    document_id,
    links,
    too_long_links,
    with_link,
    without_links,
)
from memsvc.styles.notebook.notebook_reader import NotebookReader, past_texts
from memsvc.styles.notebook.notebook_writer import (
    INDEX_NAME,
    Changed,
    DocumentId,
    NotebookWriter,
    checked_id,
    notebook_tool,
)

NAME_BYTES_MAX: Final = 100
"""Leaves space for a number after it."""

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_NOT_IN_NAMES: Final = re.compile(r"[\[\]\u2028\u2029]|[\x00-\x1f\x7f-\x9f]")


@frozen
class Section:
    """A part of a text that could be a document of its own."""

    title: str
    text: str


def split_text(text: str, name: str, *, bytes_max: int) -> list[str | Section]:
    """Split the text at its most general level of headings that has two or more.

    Returns it in order: what stays, as strings, and what becomes documents, as sections.

    One without such headings is split between paragraphs, into parts of at most half of
    `bytes_max`, where it is longer than that. Nothing is lost: the pieces are the text, but for the
    mark of the heading that a section begins with.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    headers = dict(_find_headers(lines))
    levels = [level for level, _ in headers.values()]
    level = next((level for level in range(1, 7) if levels.count(level) > 1), None)
    if level is not None:
        return list(_split_at_headers(lines, headers, level))
    if len(text.encode()) > bytes_max:
        return list(_by_paragraphs(lines, name, bytes_max // 2))
    return [text]


def sections_of(parts: Sequence[str | Section]) -> list[Section]:
    """Return the parts of a split text that become documents."""
    return [part for part in parts if isinstance(part, Section)]


def _find_headers(lines: list[str]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the level and title of lines that are headings, by line number."""
    for number, line in _outside_fences(lines):
        level, title = _heading(line)
        if title.strip("#"):  # one without a title is no place to split
            yield number, (level, title)


def _heading(line: str) -> tuple[int, str]:
    """Return the level of a heading and its title, without closing marks; 0 for any other line."""
    found = _HEADING.match(line)
    if found is None:
        return 0, ""
    whole = line[found.end() :].removesuffix("\n").removesuffix("\r").rstrip(" \t")
    title = whole.rstrip("#")
    return len(found[1]), title.rstrip(" \t") if title.endswith((" ", "\t")) else whole


def _outside_fences(lines: list[str]) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""
        elif not fence:
            yield number, line


def _split_at_headers(
    lines: list[str], headers: dict[int, tuple[int, str]], level: int
) -> Iterator[str | Section]:
    start_lines = [number for number, (found, _) in headers.items() if found <= level] + [
        len(lines)
    ]
    yield "".join(lines[: start_lines[0]])
    for start, end in pairwise(start_lines):
        found, title = headers[start]
        if found == level:
            yield Section(title, f"# {title}\n" + "".join(lines[start + 1 : end]))
        else:
            yield "".join(lines[start:end])


def _by_paragraphs(lines: list[str], name: str, bytes_max: int) -> Iterator[str | Section]:
    if _heading(lines[0])[0]:
        yield lines[0]
        lines = lines[1:]
    part: list[str] = []
    paragraph = []
    number, part_bytes, paragraph_bytes = 1, 0, 0
    blank = {at for at, line in _outside_fences(lines) if not line.strip()}
    for at, line in enumerate(lines):
        paragraph.append(line)
        paragraph_bytes += len(line.encode())
        if at in blank or at == len(lines) - 1:
            if part and part_bytes + paragraph_bytes > bytes_max:
                yield _indexed_section(name, number, part)
                number, part, part_bytes = number + 1, [], 0
            part += paragraph
            part_bytes += paragraph_bytes
            paragraph, paragraph_bytes = [], 0
    yield _indexed_section(name, number, part)


def _indexed_section(name: str, number: int, part: list[str]) -> Section:
    return Section(f"{name} {number}", f"# {name} {number}\n\n" + "".join(part).lstrip("\n"))


def name_of(title: str) -> str:
    """Return the name of a section's document."""
    name = " ".join(_NOT_IN_NAMES.sub(" ", unicodedata.normalize("NFC", title)).split())
    while len(name.encode()) > NAME_BYTES_MAX:
        name = name[: min(len(name) - 1, NAME_BYTES_MAX)]
    return name.strip() or "part"


def names(parts: list[Section], taken: Callable[[str], bool]) -> list[str]:
    """Return a name for each section that no other one and, by `taken`, no document has."""
    used: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for section in parts:
        base = name_of(section.title)
        number = numbers.get(base, 1)
        name = f"{base} {number}" if number > 1 else base
        while name in used or taken(name):
            number += 1
            name = f"{base} {number}"
        used[name] = None
        numbers[base] = number
    return list(used)


def joined(parts: Sequence[str | Section], document_ids: list[str]) -> tuple[str, dict[str, str]]:
    """Return the document's text once its sections are documents of these names, and their texts.

    A document that several of them linked is linked by the first.
    """
    rest = "".join(part for part in parts if isinstance(part, str))
    seen = set(links(rest))
    texts = {}
    for name, section in zip(document_ids, sections_of(parts), strict=True):
        texts[name] = without_links(section.text, seen & set(links(section.text)))
        seen |= set(links(texts[name]))
    order = iter(document_ids)
    lines = [part if isinstance(part, str) else f"- [[{next(order)}]]\n" for part in parts]
    return "".join(_separate_lines(lines)), texts


def _separate_lines(lines: list[str]) -> Iterator[str]:
    before = "\n"
    for line in lines:
        if line:
            yield line if before.endswith("\n") else "\n" + line
            before = line


PREVIEW_CHARS: Final = 120
_CYCLE_MESSAGE: Final = (
    "Error: parent: cross-tree reference not allowed - circular reference detected"
)
ExpectedVersion = Annotated[Version | None, "write only if the document is at this version"]
writing_tool = partial(notebook_tool, needs=Permission.WRITE, text_member="text")


@result
class DocumentWrite:
    text: Annotated[
        str,
        "the word Succeeded; if documents were created or removed, further lines list their ids",
    ]
    id: Annotated[str, "id of the document"]
    created: Annotated[Sequence[str], "ids of the created documents, to which a link was added"]
    removed: Annotated[
        Sequence[str], "ids of the documents that were removed, because no link to them is left"
    ]
    version: Annotated[str, "version of the document after the call"]
    note: Annotated[
        str | None,
        "warning that the document is very long or that texts of restored documents are lost",
    ] = None


@result
class DocumentPart:
    id: Annotated[str, "id of the new document"]
    size_bytes: Annotated[int, "size of the document in bytes"]
    beginning: Annotated[str, "beginning of the new document's text"]


@result
class DocumentSplit:
    text: Annotated[str, "the result or the preview, in words"]
    id: Annotated[str, "id of the document"]
    applied: Annotated[bool, "whether the document was split"]
    content: Annotated[str, "text that remains in the document, with links to the new documents"]
    parts: Annotated[list[DocumentPart], "new documents, one for each part"]
    created: Annotated[Sequence[str], "ids of the created documents"]
    version: Annotated[str | None, "version of the document after the split"] = None


@frozen
class NotebookImport:
    """Result of an import: stored documents, those made by links, and unlinked ones."""

    documents: tuple[str, ...]
    created: tuple[str, ...]
    orphans: tuple[str, ...]


@frozen
class NotebookDocuments:
    """Writer of a project's notebook; every write leaves one tree, or changes nothing.

    The links of a text are checked first, newly linked documents are made, and unlinked ones
    removed with all below them.

    NOT_FOUND for a missing document, VERSION_CONFLICT where it is not at the expected version,
    INVALID_CONTENT for links that make no tree or too deep a one, PAYLOAD_TOO_LARGE,
    QUOTA_EXCEEDED.
    """

    writer: NotebookWriter
    reader: NotebookReader

    @writing_tool(
        "update_document",
        "Write a document of the notebook",
        idempotent=True,
        stores=("content",),
    )
    async def update(
        self,
        scope: Scope,
        *,
        id_: DocumentId = ROOT,
        content: Annotated[str, "full new text of the document, in Markdown"],
        expected_version: ExpectedVersion = None,
    ) -> DocumentWrite:
        """Replace the text of a document of the notebook, by default of the root.

        Keep what matters most in the root. The document must exist; to create one, write [[id]] in
        its parent's text. Each document has exactly one parent that links to it, without cycles.
        Removing the link removes the document and all below it; to undo this, restore the parent's
        earlier version with restore_document. Split out only topics that are too large; keep the
        tree shallow."""
        document = checked_id(id_)
        self.writer.check_size(content)
        async with self.writer.begin_write(scope) as tx:
            file = await self.writer.find(tx, document, expected_version)
            await _check_links(tx, content, file)
            return await self._put(tx, document, content, file)

    @writing_tool("edit_document", "Edit a document of the notebook", stores=("new_text",))
    async def edit(
        self,
        scope: Scope,
        *,
        id_: DocumentId = ROOT,
        old_text: Annotated[str, Field(min_length=1), "the text to replace"],
        new_text: Annotated[str, "replacement text"],
        expected_version: ExpectedVersion = None,
    ) -> DocumentWrite:
        """Replace a text that occurs exactly once in a document of the notebook.

        Changed links create or remove documents, as in update_document."""
        document = checked_id(id_)
        async with self.writer.begin_write(scope) as tx:
            file = await self.writer.find(tx, document, expected_version)
            text = await _text(tx, file)
            count = _count_matches(text, old_text)
            if count != 1:
                raise invalid(
                    "Error: old_text: must occur exactly once in the document, but occurs"
                    f" {count} times",
                    recovery="read the document, and include more surrounding text in old_text"
                    if count
                    else "read the document to get its exact text",
                    details={"id": document, "count": count},
                )
            content = text.replace(old_text, new_text)
            await _check_links(tx, content, file)
            return await self._put(tx, document, content, file)

    @writing_tool(
        "move_document",
        "Move or rename a document of the notebook",
        stores=("old_parent_content", "new_parent_content"),
    )
    async def move(
        self,
        scope: Scope,
        id_: Annotated[str, "id of the document"],
        parent: Annotated[str | None, "id of the new parent"] = None,
        old_parent_content: Annotated[
            str | None, "new text of the old parent; by default, only the link is removed"
        ] = None,
        new_parent_content: Annotated[
            str | None, "new text of the new parent; by default, only the link is added"
        ] = None,
        new_id: Annotated[str | None, "new id of the document"] = None,
    ) -> DocumentWrite:
        """Move a document and all documents below it to another parent, rename it, or both.

        Moving puts the link at the end of the new parent; renaming updates it. History stays."""
        document = checked_id(id_)
        if document == ROOT:
            raise invalid("Error: id: the root cannot be moved")
        if parent is None and (new_id is None or old_parent_content or new_parent_content):
            recovery = "pass parent, or new_id without the contents of parents"
            raise invalid("Error: parent: this argument is missing", recovery=recovery)
        new = document if new_id is None else document_id(new_id)
        if new is None:
            raise invalid(
                "Error: new_id: is not a valid document id", details={"id": str(new_id)[:128]}
            )
        async with self.writer.begin_write(scope) as tx:
            file = await self.writer.find(tx, document)
            if new != document:
                await self.writer.rename(tx, file, document, new)
                file = await self.writer.find(tx, new)
            changed = Changed((), (), {})
            if parent is not None:
                contents = (old_parent_content, new_parent_content)
                changed = await self._move(tx, new, parent, contents)
            return self._written(new, changed, file.version, file.size_bytes)

    async def _move(
        self, tx: Tx, document: str, parent: str, contents: tuple[str | None, str | None]
    ) -> Changed:
        """Move a document below another one; `contents` are those of its old and new parent."""
        old, new_parent = await _place(tx, document, parent, document_id(parent))
        old_content, new_content = contents
        if old == new_parent:
            if old_content is not None or new_content is not None:
                raise invalid(
                    "Error: parent: is already the parent; use update_document to change"
                    " the parent's text"
                )
            return Changed((), (), {})
        files_by_id = {one: await self.writer.find(tx, one) for one in (old, new_parent)}
        if old_content is None:
            old_content = _taken_out(await _text(tx, files_by_id[old]), document)
        if new_content is None:
            new_content = with_link(await _text(tx, files_by_id[new_parent]), document)
        if document in links(old_content):
            raise invalid_content(
                "Error: old_parent_content: must not contain a link to the moved document"
            )
        if document not in links(new_content):
            raise invalid_content("Error: new_parent_content: must link to the moved document")
        texts = {old: old_content, new_parent: new_content}
        for one, text in texts.items():
            await _check_links(tx, text, files_by_id[one])
        return await self.writer.change(tx, texts, files_by_id)

    @writing_tool("split_document", "Split a document of the notebook")
    async def split(
        self,
        scope: Scope,
        id_: DocumentId = ROOT,
        apply: Annotated[bool, "split the document now"] = False,
    ) -> DocumentSplit:
        """Preview how a document of the notebook would be split at headings, or split it."""
        document = checked_id(id_)
        if not apply:
            text = (await self.reader.read(scope, document)).text
            async with self.writer.database.begin_read(scope) as tx:
                return _split(document, *await self._parts(tx, document, text))
        async with self.writer.begin_write(scope) as tx:
            file = await self.writer.find(tx, document)
            left, parts = await self._parts(tx, document, await _text(tx, file))
            changed = await self.writer.change(tx, {document: left, **parts}, {document: file})
            return _split(document, left, parts, changed)

    @writing_tool(
        "restore_document",
        "Restore a document of the notebook",
        destructive=True,
        removes=removes_nothing,
    )
    async def restore(
        self,
        scope: Scope,
        *,
        id_: DocumentId = ROOT,
        version: Annotated[Version, "a version from document_history"],
        expected_version: ExpectedVersion = None,
    ) -> DocumentWrite:
        """Restore a document of the notebook to a version from document_history.

        Also restores removed documents to which this version linked, as they were when it was
        replaced. To restore only a removed document, first add a link to it."""
        document = checked_id(id_)
        async with self.writer.begin_write(scope, long_running=True) as tx:
            file = await self.writer.find(tx, document, expected_version)
            texts = await past_texts(tx, document, version)
            changed = await self.writer.change(tx, texts, {document: file})
            written = self._written(
                document, changed, changed.versions[document], len(texts[document].encode())
            )
            empty = [one for one in changed.created if one not in texts]
            if not empty:
                return written
            note = "the texts of these documents are no longer available: " + ", ".join(empty)
            return replace(written, text=f"{written.text}\nNote: {note}", note=note)

    async def _parts(self, tx: Tx, document: str, text: str) -> tuple[str, dict[str, str]]:
        """Return what a document would keep, and the documents that it would be split into."""
        found = split_text(text, document, bytes_max=self.writer.options.oversized_bytes)
        sections = sections_of(found)
        if len(sections) < 2:
            return text, {}
        name_counts = Counter(name_of(section.title) for section in sections)
        candidates = {
            name
            for base, times in name_counts.items()
            for name in (base, *(f"{base} {n}" for n in range(2, times + 20)))
        }
        existing = (await document_tree.find(tx, INDEX_NAME, candidates)).keys() | {
            ROOT,
            *links(text),
        }
        return joined(found, names(sections, existing.__contains__))

    async def import_documents(self, scope: Scope, texts: Mapping[str, str]) -> NotebookImport:
        """Store these documents, by their ids, one of them `root`, as a new notebook.

        NOT_EMPTY for an existing notebook; INVALID_ARGUMENT without a root or for an invalid id;
        INVALID_CONTENT, PAYLOAD_TOO_LARGE and QUOTA_EXCEEDED as for a write, and nothing is stored
        then.
        """
        for name, text in texts.items():
            if document_id(name) != name:
                raise invalid("Error: id: is not a valid document id", details={"id": name[:128]})
            self.writer.check_size(text)
        if ROOT not in texts:
            raise invalid("Error: root: not found", recovery="create the root document, root.md")
        tree = build_tree(texts, depth_max=self.writer.options.depth_max)
        await self.writer.create(scope, tree)
        stored = tuple(name for name in tree.nodes if name in texts)
        return NotebookImport(stored, tree.created, tree.orphans)

    async def _put(self, tx: Tx, document: str, text: str, file: File) -> DocumentWrite:
        changed = await self.writer.change(tx, {document: text}, {document: file})
        return self._written(document, changed, changed.versions[document], len(text.encode()))

    def _written(
        self, document: str, changed: Changed, version: str, size_bytes: int
    ) -> DocumentWrite:
        lines = ["Succeeded"]
        if changed.created:
            lines.append("Created: " + ", ".join(changed.created))
        if changed.removed:
            lines.append("Removed: " + ", ".join(changed.removed))
        note = None
        if size_bytes > self.writer.options.oversized_bytes:
            note = f"this document has {size_bytes} bytes; split_document shows how to split it"
            lines.append("Note: " + note)
        return DocumentWrite(
            "\n".join(lines), document, changed.created, changed.removed, version, note
        )


def _split(
    document: str, left: str, parts: Mapping[str, str], changed: Changed | None = None
) -> DocumentSplit:
    """Return a split, or the suggestion of one, of which nothing is changed."""
    sizes = {name: len(text.encode()) for name, text in parts.items()}
    if not parts:
        text = (
            "Nothing to split: the document has no two headings of the same level and is"
            " not too long"
        )
    elif changed is not None:
        text = "Succeeded\nCreated: " + ", ".join(changed.created)
    else:
        lines = "".join(f"- {name}: {size} bytes\n" for name, size in sizes.items())
        text = f"The document would be split into:\n{lines}This text would remain:\n\n{left}"
    return DocumentSplit(
        text,
        document,
        changed is not None and bool(parts),
        left,
        [DocumentPart(name, sizes[name], text[:PREVIEW_CHARS]) for name, text in parts.items()],
        changed.created if changed is not None else (),
        changed.versions[document] if changed is not None else None,
    )


async def _place(tx: Tx, document: str, parent: str, new_parent: str | None) -> tuple[str, str]:
    """Return the parent of a document, and the one that it can be moved below."""
    line = (
        await document_tree.with_ancestors(
            tx, INDEX_NAME, [document, *([new_parent] if new_parent else [])]
        )
    )[1]
    if new_parent is None or new_parent not in line:
        raise not_found("Error: parent: not found", details={"parent_id": parent[:128]})
    one: str | None = new_parent
    while one is not None:
        if one == document:
            raise invalid_content(
                _CYCLE_MESSAGE,
                details={"parent_id": new_parent, "link": document},
            )
        one = line[one]
    return line[document] or ROOT, new_parent


def _taken_out(text: str, document: str) -> str:
    """Return a text without its links to a document, and with all others."""
    left = without_links(text, {document})
    if links(left) != tuple(link for link in links(text) if link != document):
        raise invalid_content(
            "Error: id: the link to the document cannot be removed from the old parent"
            " automatically",
            recovery="pass the new text of the old parent in old_parent_content",
        )
    return left


async def _check_links(tx: Tx, text: str, file: File) -> None:
    """Raise INVALID_CONTENT for a link that is too long, unless the present text has it."""
    if not (found := too_long_links(text)):
        return
    present = too_long_links(await _text(tx, file))
    added = next((link for link in found if link not in present), None)
    if added is not None:
        raise invalid_content(
            f"Error: content: the id in a link is limited to {IDENTIFIER_BYTES_MAX} bytes,"
            f" but one link has an id of {len(added.encode(errors='replace'))} bytes",
            recovery="shorten the id in the link; to write brackets that are not a link, put a"
            " space inside them",
            details={"link": added[:IDENTIFIER_BYTES_MAX]},
        )


async def _text(tx: Tx, file: File) -> str:
    return (await files.read(tx, file)).decode()


def _count_matches(text: str, query: str) -> int:
    """Return how often a text holds another, overlaps counted."""
    count, at = 0, text.find(query)
    while at != -1:
        count, at = count + 1, text.find(query, at + 1)
    return count
