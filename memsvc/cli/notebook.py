"""Command `memsvc notebook`: the tree of linked documents of a project."""

from pathlib import Path
from typing import Annotated

import typer

from memsvc.cli.calls import Calls, Said, columns, local_bytes, using_memory
from memsvc.core.errors import invalid

commands = typer.Typer(help="Notebook: a tree of linked documents.", no_args_is_help=True)

Document = Annotated[str, typer.Argument(help="The id of a document.", metavar="ID")]
Source = Annotated[Path, typer.Argument(help="A local file; - for standard input.", allow_dash=True)]


@using_memory(commands)
async def tree(call: Calls) -> Said:
    """Show all documents as a tree, in YAML."""
    body = await call("get_document_tree")
    return Said(body, [body["text"].rstrip("\n")])


@using_memory(commands)
async def read(
    call: Calls,
    document: Document = "root",
    version: Annotated[str | None, typer.Option(help="What it was at this version.")] = None,
) -> Said:
    """Print a document."""
    body = await call("read_document", id=document, version=version)
    return Said(body, [body["text"].rstrip("\n")])


@using_memory(commands)
async def write(call: Calls, document: Document, source: Source) -> Said:
    """Replace a document with a local file; new [[links]] make documents, dropped ones delete."""
    try:
        content = local_bytes(source).decode()
    except UnicodeDecodeError as error:
        raise invalid(f"{source} is not UTF-8 text") from error
    body = await call("update_document", id=document, content=content)
    return Said(body, [body["text"], *([body["note"]] if body.get("note") else [])])


@using_memory(commands)
async def edit(call: Calls, document: Document, old_text: str, new_text: str) -> Said:
    """Replace a text that occurs exactly once in a document."""
    body = await call("edit_document", id=document, old_text=old_text, new_text=new_text)
    return Said(body, [body["text"]])


@using_memory(commands)
async def mv(
    call: Calls, document: Document, parent: Annotated[str, typer.Argument(help="The document it goes below.")]
) -> Said:
    """Move a document, with all below it, to another parent."""
    body = await call("move_document", id=document, parent=parent)
    return Said(body, [body["text"]])


@using_memory(commands)
async def search(call: Calls, query: str, limit: Annotated[int | None, typer.Option(min=1)] = None) -> Said:
    """Find passages of documents."""
    body = await call("search_documents", query=query, limit=limit)
    return Said(body, columns(body["passages"], "score", "id", "text"))


@using_memory(commands)
async def history(call: Calls, document: Document = "root") -> Said:
    """List the past versions of a document, newest first."""
    versions = await call.pages("document_history", "versions", id=document)
    return Said({"versions": versions}, columns(versions, "version", "size_bytes", "created_at"))


@using_memory(commands)
async def restore(call: Calls, document: Document, version: str) -> Said:
    """Restore a document to a version."""
    body = await call("restore_document", id=document, version=version)
    return Said(body, [body["text"]])


@using_memory(commands)
async def split(
    call: Calls, document: Document, apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False
) -> Said:
    """Show how a document could be split by its headings, or do it."""
    body = await call("split_document", id=document, apply=apply)
    return Said(body, [body["text"]])
