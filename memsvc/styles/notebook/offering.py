"""MCP resources of the notebook: documents under URIs, and completion of their ids."""

from collections.abc import Mapping, Sequence
from typing import Final

from memsvc.core.resources import Completion, Listing, Readable, Resource
from memsvc.core.scope import Scope
from memsvc.store import outlines
from memsvc.store.database import Database
from memsvc.styles.notebook.changing import BOOK

TREE_TOOL: Final = "get_document_tree"


def document_resource(database: Database) -> Resource:
    """Return the resource of a document under its id."""

    async def page(scope: Scope, after: str, most: int) -> Sequence[Readable]:
        async with database.begin(scope, read_only=True) as tx:
            names = await outlines.names(tx, BOOK, after=after, most=most)
        return [Readable(values={"project": scope.project, "id": name}, place=name, title=name) for name in names]

    return Resource(
        template="memsvc://{project}/documents/{id}",
        name="document",
        title="Document of the notebook",
        description="What a document of the notebook says, in Markdown; root is the main one.",
        text="text",
        mime_type="text/markdown",
        listing=Listing(TREE_TOOL, page),
    )


def completions(database: Database) -> dict[str, Completion]:
    """Return the completion of document ids."""

    async def find(scope: Scope, beginning: str, _: Mapping[str, str], most: int) -> Sequence[str]:
        async with database.begin(scope, read_only=True) as tx:
            return await outlines.names(tx, BOOK, beginning=beginning, most=most)

    return {"id": Completion(TREE_TOOL, find)}
