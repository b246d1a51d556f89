"""Reading a notebook: documents, their past versions, the tree, and passages for a question."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Annotated, Final

from pydantic import Field

from memsvc.core.background import map_in_thread
from memsvc.core.errors import MemsvcError, not_found
from memsvc.core.frozen import frozen
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.core.tools import NextCursor, Version
from memsvc.store import document_tree, files, versions
from memsvc.store.database import Tx
from memsvc.styles.notebook.document_tree import ROOT, document_at, links, path_of, with_new_ids
from memsvc.styles.notebook.notebook_writer import (
    INDEX_NAME,
    RENAMED,
    DocumentId,
    NotebookWriter,
    checked_id,
    missing_document,
    notebook_tool,
)
from memsvc.styles.passage_search import CitationSearch

_KEYWORDS: Final = frozenset(
    {"null", "Null", "NULL", "~", "true", "True", "TRUE", "false", "False", "FALSE"}
)
_OF_1_1: Final = re.compile(
    r"(?i:y|yes|n|no|on|off)|<<|=|[+-]?0b[01_]+|[+-]?0x[0-9a-fA-F_]+"
    r"|[+-]?(?:[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-][0-9]+)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?"
)
"""Texts that YAML 1.1 reads as something else than a string, beyond those of 1.2."""
_FLOAT_CONSTANT: Final = re.compile(r"[+-]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|\+\.(?:nan|NaN|NAN)")
_BASE_NUMBER: Final = re.compile(r"[+-]?(?:0x[0-9a-fA-F]{1,32}|0o[0-7]+|0b[01]+)")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FIRST: Final = re.compile(r"[#,\[\]{}&*!|>'\"%@`]|[-?:](?: |\Z)|---|\.\.\.")
_NOT_WITHIN: Final = re.compile(r":(?: |\Z)| #")
_CONTROL_CHAR: Final = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPED: Final = re.compile('[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|["\\\\]')


def block_style(root: str, children: Mapping[str, Sequence[str]]) -> str:
    """Return the tree from a root down, children in order, as serde_yaml 0.9 writes it.

    A leaf is a plain line. Written here because agents compare the text itself: PyYAML quotes other
    strings, and recurses. Maps have one key; what readers of YAML 1.1 alone take for a number, a
    date or a truth value is quoted too, which serde_yaml leaves bare."""
    lines = []
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        child_nodes = children.get(node, ())
        mark = "  " * (depth - 1) + "- " if depth else ""
        lines.append(f"{mark}{scalar(node)}{':' if child_nodes else ''}\n")
        waiting += [(child, depth + 1) for child in reversed(child_nodes)]
    return "".join(lines)


def scalar(text: str) -> str:
    """Return a one-line string in block style: plain if unambiguous, else quoted.

    Characters beyond the basic plane are escaped, as libyaml does.
    """
    if _CONTROL_CHAR.search(text):
        return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"'
    if _is_other_scalar(text) or _NOT_FIRST.match(text) or _NOT_WITHIN.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_other_scalar(text: str) -> bool:
    if (
        text in _KEYWORDS
        or _OF_1_1.fullmatch(text)
        or _FLOAT_CONSTANT.fullmatch(text)
        or _BASE_NUMBER.fullmatch(text)
    ):
        return True
    return _DECIMAL.fullmatch(text) is not None and isfinite(float(text))


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    return (
        f"\\x{code:02X}"
        if code <= 0xFF
        else f"\\u{code:04X}"
        if code <= 0xFFFF
        else f"\\U{code:08X}"
    )


HISTORY_LIMIT: Final = 20
HISTORY_LIMIT_MAX: Final = 200


@result
class NotebookDocument:
    id: Annotated[str, "id of the document"]
    text: Annotated[str, "full text of the document, in Markdown"]
    version: Annotated[
        str | None,
        "version to pass as expected_version when writing; null if the notebook was never written",
    ]


@result
class NotebookTreeText:
    text: Annotated[
        str,
        "tree of document ids in YAML: a document with documents below it is a key, any other"
        " document a string",
    ]
    documents: Annotated[int, "number of documents"]


@result
class DocumentVersion:
    version: Annotated[str, "version of the document, for read_document and restore_document"]
    size_bytes: Annotated[int, "size of the version in bytes"]
    created_at: Annotated[datetime, "time when the version was written"]


@result
class DocumentHistory:
    versions: Annotated[
        list[DocumentVersion], "past versions, newest first, without the current one"
    ]
    next_cursor: NextCursor = None


@result
class FoundPassage:
    id: Annotated[str, "id of the document"]
    text: Annotated[str, "text of the passage"]
    start_bytes: Annotated[int, "byte offset in the document at which the passage begins"]
    end_bytes: Annotated[int, "byte offset at which the passage ends"]
    score: Annotated[float, "relevance; higher is better"]


@result
class FoundPassages:
    passages: Annotated[list[FoundPassage], "passages, best first"]


@frozen
class NotebookReader:
    """Reader of a notebook, which writes nothing: a new notebook is what the template says."""

    writer: NotebookWriter
    passages: CitationSearch

    @notebook_tool(
        "read_document",
        "Read a document of the notebook",
        Permission.READ,
        text_member="text",
    )
    async def read(
        self,
        scope: Scope,
        id_: DocumentId = ROOT,
        version: Annotated[Version | None, "version to read, from document_history"] = None,
    ) -> NotebookDocument:
        """Read a Markdown document of the notebook, by default the root.

        Always read the root first. [[id]] in a text links to the child document with this id."""
        document = checked_id(id_)
        async with self.writer.database.begin_read(scope) as tx:
            if version is not None:
                return NotebookDocument(document, await past_text(tx, document, version), version)
            file = await files.find(tx, path_of(document))
            if file is not None:
                content = await files.read(tx, file)
                return NotebookDocument(document, content.decode(), file.version)
            text = (
                None
                if await document_tree.count(tx, INDEX_NAME)
                else self.writer.initial_tree().texts.get(document)
            )
        if text is None:
            raise missing_document(document)
        return NotebookDocument(document, text, None)

    @notebook_tool(
        "get_document_tree",
        "Show the tree of the notebook",
        Permission.READ,
        text_member="text",
    )
    async def tree(self, scope: Scope) -> NotebookTreeText:
        """Show the ids of all documents of the notebook as a YAML tree, from the root down."""
        async with self.writer.database.begin_read(scope) as tx:
            nodes = await document_tree.read_all(tx, INDEX_NAME)
        nodes = nodes or dict(self.writer.initial_tree().nodes)
        return NotebookTreeText(
            block_style(ROOT, {name: node.children for name, node in nodes.items()}), len(nodes)
        )

    @notebook_tool("search_documents", "Search the notebook", Permission.READ)
    async def search(
        self,
        scope: Scope,
        query: Annotated[str, "words to search for, or a question"],
        limit: Annotated[int | None, Field(ge=1, le=100), "maximum number of passages"] = None,
    ) -> FoundPassages:
        """Find passages in the notebook's documents by words or by a question."""
        cited = await self.passages(scope, query, limit or self.writer.options.search_limit)
        return FoundPassages(
            [
                FoundPassage(
                    document, one.text, one.start_bytes, one.end_bytes, round(one.score, 6)
                )
                for one in cited
                if (document := document_at(one.path)) is not None
            ]
        )

    @notebook_tool("document_history", "List past versions of a document", Permission.READ)
    async def history(
        self,
        scope: Scope,
        id_: DocumentId = ROOT,
        limit: Annotated[
            int, Field(ge=1, le=HISTORY_LIMIT_MAX), "maximum number of versions"
        ] = HISTORY_LIMIT,
        cursor: Annotated[Version | None, "next_cursor of the previous page"] = None,
    ) -> DocumentHistory:
        """List past versions of a document of the notebook, newest first, even if it was removed.

        read_document shows a version; restore_document restores it."""
        document = checked_id(id_)
        path = path_of(document)
        async with self.writer.database.begin_read(scope) as tx:
            found = await versions.history(tx, path, before=cursor, limit=limit + 1)
            if found is None:
                raise _no_version("cursor")
            exists = found or cursor is not None or await versions.is_known(tx, path)
            if not exists and (
                await document_tree.count(tx, INDEX_NAME)
                or document not in self.writer.initial_tree().nodes
            ):
                raise missing_document(document)
        return DocumentHistory(
            [DocumentVersion(at.version, at.size_bytes, at.created_at) for at in found[:limit]],
            found[limit - 1].version if len(found) > limit else None,
        )


async def past_text(tx: Tx, document: str, version: str) -> str:
    """Return a document's text at a version; NOT_FOUND unless it was one of its own."""
    return (await versions.content(tx, await _past_state(tx, document, version))).decode()


async def past_texts(tx: Tx, document: str, version: str) -> dict[str, str]:
    """Return a document's text at a version, and those of the removed documents below it.

    These are what they held when the version was replaced. All of them link documents that were
    renamed since by their new ids. NOT_FOUND as `past_text`."""
    state = await _past_state(tx, document, version)
    moment = await versions.replaced_at(tx, state)
    level = {document: (await versions.content(tx, state)).decode()}
    texts: dict[str, str] = {}
    new_ids: dict[str, str] = {}
    linked: set[str] = set()
    while level or linked:
        texts |= level
        linked |= set(chain.from_iterable(await map_in_thread(list(level.values()), links)))
        known = (await document_tree.find(tx, INDEX_NAME, linked)).keys()
        missing = [] if moment is None else linked - known - texts.keys() - new_ids.keys()
        level, renamed = await _deleted_texts(tx, missing, moment or state.created_at)
        new_ids |= renamed
        linked = set(renamed.values())
    for old, new in reversed(new_ids.items()):
        new_ids[old] = new_ids.get(new, new)
    return {name: with_new_ids(text, new_ids) for name, text in texts.items()}


async def _deleted_texts(
    tx: Tx, names: Collection[str], moment: datetime
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what removed documents held at a moment, and new ids of those renamed since."""
    if not names:
        return {}, {}
    states = await versions.deleted_at_moment(tx, [path_of(name) for name in names], moment)
    contents = await versions.contents(tx, [state for _, state in states.values()])
    texts, new_ids = {}, {}
    for (path, (owner, _)), content in zip(states.items(), contents, strict=True):
        name, text = document_at(path) or "", content.decode()
        if owner == RENAMED:
            [new_ids[name]] = links(text)
        else:
            texts[name] = text
    return texts, new_ids


async def _past_state(tx: Tx, document: str, version: str) -> versions.FileState:
    state = await versions.state(tx, path_of(document), version)
    if state is None:
        raise _no_version("version")
    return state


def _no_version(argument: str) -> MemsvcError:
    return not_found(
        f"Error: {argument}: not found",
        recovery="list the available versions with document_history",
    )
