"""Tools that read the notebook: read_document, get_document_tree, search_documents, ..."""

from typing import Any, Final

from memsvc.core.resources import Resource
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.styles.notebook.contract import (
    LOGGED,
    DocumentHistoryArguments,
    DocumentHistoryResult,
    DocumentTreeArguments,
    DocumentTreeResult,
    DocumentVersion,
    FoundPassage,
    ReadDocumentArguments,
    ReadDocumentResult,
    SearchDocumentsArguments,
    SearchDocumentsResult,
)
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.notebook.reading import Reading

_COMMON: Final[dict[str, Any]] = {
    "permission": Permission.READ,
    "read_only": True,
    "idempotent": True,
    "logged": LOGGED,
    "protocol_errors": True,
}


class ReadingTools:
    """Functions behind these tools."""

    def __init__(self, reading: Reading, options: NotebookOptions) -> None:
        self._reading = reading
        self._options = options

    async def read(self, scope: Scope, asked: ReadDocumentArguments) -> ReadDocumentResult:
        read = await self._reading.read(scope, asked.id, asked.version)
        return ReadDocumentResult(id=read.id, text=read.text, version=read.version)

    async def tree(self, scope: Scope, _: DocumentTreeArguments) -> DocumentTreeResult:
        tree = await self._reading.tree(scope)
        return DocumentTreeResult(text=tree.text, documents=tree.documents)

    async def search(self, scope: Scope, asked: SearchDocumentsArguments) -> SearchDocumentsResult:
        found = await self._reading.search(scope, asked.query, asked.limit or self._options.search_limit)
        return SearchDocumentsResult(
            passages=[
                FoundPassage(
                    id=one.document,
                    text=one.text,
                    start_bytes=one.start_bytes,
                    end_bytes=one.end_bytes,
                    score=round(one.score, 6),
                )
                for one in found
            ]
        )

    async def history(self, scope: Scope, asked: DocumentHistoryArguments) -> DocumentHistoryResult:
        states, more = await self._reading.history(scope, asked.id, limit=asked.limit, before=asked.cursor)
        return DocumentHistoryResult(
            versions=[
                DocumentVersion(version=one.version, size_bytes=one.size_bytes, created_at=one.created_at)
                for one in states
            ],
            next_cursor=states[-1].version if more else None,
        )


def reading_tools(reading: Reading, options: NotebookOptions, resource: Resource) -> list[Tool]:
    """Return these tools."""
    functions = ReadingTools(reading, options)
    return [
        Tool(
            name="read_document",
            title="Read a document of the notebook",
            description="Read one Markdown document of the notebook. Without id it is the root, the main entry point:"
            " read it first, and always. [[id]] in a text links the document id below it.",
            arguments=ReadDocumentArguments,
            result=ReadDocumentResult,
            resource=resource,
            run=functions.read,
            told_as="text",
            **_COMMON,
        ),
        Tool(
            name="get_document_tree",
            title="Show the tree of the notebook",
            description="Show the ids of all documents of the notebook as a tree in YAML, from the root down.",
            arguments=DocumentTreeArguments,
            result=DocumentTreeResult,
            run=functions.tree,
            told_as="text",
            **_COMMON,
        ),
        Tool(
            name="search_documents",
            title="Search the notebook",
            description="Find passages in the documents of the notebook that answer a question or hold some words.",
            arguments=SearchDocumentsArguments,
            result=SearchDocumentsResult,
            run=functions.search,
            **_COMMON,
        ),
        Tool(
            name="document_history",
            title="List past versions of a document",
            description="List what a document of the notebook was before, newest first, also after it was removed."
            " read_document with a version shows it; restore_document brings it back.",
            arguments=DocumentHistoryArguments,
            result=DocumentHistoryResult,
            run=functions.history,
            **_COMMON,
        ),
    ]
