"""Tools of the notebook, its documents as MCP resources, and completion of their ids."""

from collections.abc import Mapping, Sequence
from typing import Final

from memsvc.core.resources import Completion, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Job, Published
from memsvc.store import document_tree
from memsvc.store.database import Database
from memsvc.styles.notebook.documents import NotebookDocuments
from memsvc.styles.notebook.notebook_reader import NotebookReader
from memsvc.styles.notebook.notebook_writer import FORGET_JOB, INDEX_NAME, NotebookWriter
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.passage_search import CitationSearch
from memsvc.styles.services import StyleServices

TREE_TOOL: Final = "get_document_tree"


def document_resource(database: Database) -> Resource:
    """Return the resource of a document under its id."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin_read(scope) as tx:
            names = await document_tree.names(tx, INDEX_NAME, after=after, limit=limit)
        return [
            ListedResource(values={"project": scope.project, "id": name}, place=name, title=name)
            for name in names
        ]

    return Resource(
        template="memsvc://{project}/documents/{id}",
        name="document",
        title="Document of the notebook",
        description="Text of a notebook document, in Markdown; root is the main document.",
        text="text",
        mime_type="text/markdown",
        listing=ResourceListing(TREE_TOOL, page),
    )


def completions(database: Database) -> dict[str, Completion]:
    """Return the completion of document ids."""

    async def find(scope: Scope, prefix: str, _: Mapping[str, str], limit: int) -> Sequence[str]:
        async with database.begin_read(scope) as tx:
            return await document_tree.names(tx, INDEX_NAME, prefix=prefix, limit=limit)

    return {"id": Completion(TREE_TOOL, find)}


def notebook(services: StyleServices, options: NotebookOptions) -> NotebookDocuments:
    """Return the notebooks' writer, for callers that import documents beside the tools."""
    writer = NotebookWriter(services.database, services.clock, options)
    passages = CitationSearch(
        services.database, services.meter, INDEX_NAME, embedding=services.embedding
    )
    return NotebookDocuments(writer, NotebookReader(writer, passages))


def published(services: StyleServices, options: NotebookOptions) -> Published:
    """Return the tools of the notebook, its cleanup job, and its documents as passages."""
    database = services.database
    documents = notebook(services, options)
    return Published(
        tools=[
            *tools_of(documents.reader, {"read_document": document_resource(database)}),
            *tools_of(documents),
        ],
        jobs=[Job(FORGET_JOB, documents.writer.forget)],
        passages=documents.reader.passages,
        completions=completions(database),
    )
