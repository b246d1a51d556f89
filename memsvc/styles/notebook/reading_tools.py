"""Tools that read the notebook: read_document, get_document_tree, search_documents, ..."""

from typing import Any, Final

from memsvc.core.resources import Resource
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.styles.notebook.notebook_models import (
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
from memsvc.styles.notebook.notebook_reader import NotebookReader
from memsvc.styles.notebook.options import NotebookOptions

_COMMON: Final[dict[str, Any]] = {
    "permission": Permission.READ,
    "read_only": True,
    "idempotent": True,
    "logged": LOGGED,
    "protocol_errors": True,
}


class NotebookReadTools:
    """Functions behind these tools."""

    def __init__(self, reader: NotebookReader, options: NotebookOptions) -> None:
        self._reader = reader
        self._options = options

    async def read(self, scope: Scope, args: ReadDocumentArguments) -> ReadDocumentResult:
        read = await self._reader.read(scope, args.id, args.version)
        return ReadDocumentResult(id=read.id, text=read.text, version=read.version)

    async def tree(self, scope: Scope, _: DocumentTreeArguments) -> DocumentTreeResult:
        tree = await self._reader.tree(scope)
        return DocumentTreeResult(text=tree.text, documents=tree.documents)

    async def search(self, scope: Scope, args: SearchDocumentsArguments) -> SearchDocumentsResult:
        found = await self._reader.search(
            scope, args.query, args.limit or self._options.search_limit
        )
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

    async def history(self, scope: Scope, args: DocumentHistoryArguments) -> DocumentHistoryResult:
        states, more = await self._reader.history(
            scope, args.id, limit=args.limit, before=args.cursor
        )
        return DocumentHistoryResult(
            versions=[
                DocumentVersion(
                    version=one.version, size_bytes=one.size_bytes, created_at=one.created_at
                )
                for one in states
            ],
            next_cursor=states[-1].version if more else None,
        )


def reading_tools(
    reader: NotebookReader, options: NotebookOptions, resource: Resource
) -> list[Tool]:
    """Return these tools."""
    functions = NotebookReadTools(reader, options)
    return [
        Tool(
            name="read_document",
            title="Read a document of the notebook",
            description="Read one Markdown document of the notebook. Without id it is the root,"
            " the main entry point: read it first, and always. [[id]] in a text links the"
            " document id below it.",
            arguments=ReadDocumentArguments,
            result=ReadDocumentResult,
            resource=resource,
            run=functions.read,
            text_member="text",
            **_COMMON,
        ),
        Tool(
            name="get_document_tree",
            title="Show the tree of the notebook",
            description="Show the ids of all documents of the notebook as a tree in YAML, from"
            " the root down.",
            arguments=DocumentTreeArguments,
            result=DocumentTreeResult,
            run=functions.tree,
            text_member="text",
            **_COMMON,
        ),
        Tool(
            name="search_documents",
            title="Search the notebook",
            description="Find passages in the documents of the notebook that answer a question or"
            " hold some words.",
            arguments=SearchDocumentsArguments,
            result=SearchDocumentsResult,
            run=functions.search,
            **_COMMON,
        ),
        Tool(
            name="document_history",
            title="List past versions of a document",
            description="List what a document of the notebook was before, newest first, also"
            " after it was removed. read_document with a version shows it; restore_document"
            " brings it back.",
            arguments=DocumentHistoryArguments,
            result=DocumentHistoryResult,
            run=functions.history,
            **_COMMON,
        ),
    ]
