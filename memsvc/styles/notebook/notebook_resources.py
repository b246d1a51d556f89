"""MCP resources of the notebook: documents under URIs, and completion of their ids."""

from collections.abc import Mapping, Sequence
from typing import Final

from memsvc.core.resources import Completion, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.store import document_tree
from memsvc.store.database import Database
from memsvc.styles.notebook.notebook_writer import INDEX_NAME

TREE_TOOL: Final = "get_document_tree"


def document_resource(database: Database) -> Resource:
    """Return the resource of a document under its id."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin(scope, read_only=True) as tx:
            names = await document_tree.names(tx, INDEX_NAME, after=after, limit=limit)
        return [
            ListedResource(values={"project": scope.project, "id": name}, place=name, title=name)
            for name in names
        ]

    return Resource(
        template="memsvc://{project}/documents/{id}",
        name="document",
        title="Document of the notebook",
        description="What a document of the notebook says, in Markdown; root is the main one.",
        text="text",
        mime_type="text/markdown",
        listing=ResourceListing(TREE_TOOL, page),
    )


def completions(database: Database) -> dict[str, Completion]:
    """Return the completion of document ids."""

    async def find(scope: Scope, prefix: str, _: Mapping[str, str], limit: int) -> Sequence[str]:
        async with database.begin(scope, read_only=True) as tx:
            return await document_tree.names(tx, INDEX_NAME, prefix=prefix, limit=limit)

    return {"id": Completion(TREE_TOOL, find)}
