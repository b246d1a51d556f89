"""Command `memsvc notebook`: the tree of linked documents of a project."""

from pathlib import Path
from typing import Annotated

import typer

from memsvc.cli.tool_client import CommandOutput, RemoteTools, columns, local_bytes, using_memory
from memsvc.core.errors import invalid

commands = typer.Typer(help="Notebook: a tree of linked documents.", no_args_is_help=True)

Document = Annotated[str, typer.Argument(help="The id of a document.", metavar="ID")]
Source = Annotated[
    Path, typer.Argument(help="A local file; - for standard input.", allow_dash=True)
]


@using_memory(commands)
async def tree(call: RemoteTools) -> CommandOutput:
    """Show all documents as a tree, in YAML."""
    body = await call("get_document_tree")
    return CommandOutput(body, [body["text"].rstrip("\n")])


@using_memory(commands)
async def read(
    call: RemoteTools,
    document: Document = "root",
    version: Annotated[str | None, typer.Option(help="What it was at this version.")] = None,
) -> CommandOutput:
    """Print a document."""
    body = await call("read_document", id=document, version=version)
    return CommandOutput(body, [body["text"].rstrip("\n")])


@using_memory(commands)
async def write(call: RemoteTools, document: Document, source: Source) -> CommandOutput:
    """Replace a document with a local file; new [[links]] make documents, dropped ones delete."""
    try:
        content = local_bytes(source).decode()
    except UnicodeDecodeError as error:
        raise invalid(f"{source} is not UTF-8 text") from error
    body = await call("update_document", id=document, content=content)
    return CommandOutput(body, [body["text"], *([body["note"]] if body.get("note") else [])])


@using_memory(commands)
async def edit(
    call: RemoteTools, document: Document, old_text: str, new_text: str
) -> CommandOutput:
    """Replace a text that occurs exactly once in a document."""
    body = await call("edit_document", id=document, old_text=old_text, new_text=new_text)
    return CommandOutput(body, [body["text"]])


@using_memory(commands)
async def mv(
    call: RemoteTools,
    document: Document,
    parent: Annotated[str, typer.Argument(help="The document it goes below.")],
) -> CommandOutput:
    """Move a document, with all below it, to another parent."""
    body = await call("move_document", id=document, parent=parent)
    return CommandOutput(body, [body["text"]])


@using_memory(commands)
async def search(
    call: RemoteTools, query: str, limit: Annotated[int | None, typer.Option(min=1)] = None
) -> CommandOutput:
    """Find passages of documents."""
    body = await call("search_documents", query=query, limit=limit)
    return CommandOutput(body, columns(body["passages"], "score", "id", "text"))


@using_memory(commands)
async def history(call: RemoteTools, document: Document = "root") -> CommandOutput:
    """List the past versions of a document, newest first."""
    versions = await call.list_all("document_history", "versions", id=document)
    return CommandOutput(
        {"versions": versions}, columns(versions, "version", "size_bytes", "created_at")
    )


@using_memory(commands)
async def restore(call: RemoteTools, document: Document, version: str) -> CommandOutput:
    """Restore a document to a version."""
    body = await call("restore_document", id=document, version=version)
    return CommandOutput(body, [body["text"]])


@using_memory(commands)
async def split(
    call: RemoteTools,
    document: Document,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
) -> CommandOutput:
    """Show how a document could be split by its headings, or do it."""
    body = await call("split_document", id=document, apply=apply)
    return CommandOutput(body, [body["text"]])
