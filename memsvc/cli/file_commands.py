"""Command `memsvc files`: the files of a project, as a shell user knows them."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from memsvc.cli.tool_client import (
    CommandOutput,
    RemoteTools,
    columns,
    failure,
    local_bytes,
    using_memory,
)
from memsvc.core.errors import Code, MemsvcError, not_found

commands = typer.Typer(help="Files: what is kept in a project's file store.", no_args_is_help=True)

CHUNK_BYTES: Final = 256 * 1024

FilePath = Annotated[str, typer.Argument(help="A path of the file store, such as /notes/a.md.")]


@using_memory(commands)
async def ls(
    call: RemoteTools,
    path: Annotated[str, typer.Argument(help="A directory or file.")] = "/",
    depth: Annotated[int, typer.Option(min=0, max=64, help="Levels; 0 is the path itself.")] = 1,
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Say what each file is about.")
    ] = False,
) -> CommandOutput:
    """List a directory: type, bytes, time of the last write and path of each entry."""
    entries = await call.list_all(
        "file_list", "entries", path=path, depth=depth, summaries=summaries or None
    )
    named = ("type", "size", "updated_at", "path", *(["summary"] if summaries else []))
    return CommandOutput({"entries": entries}, columns(entries, *named))


def no_file(path: str) -> MemsvcError:
    """Return NOT_FOUND that names the path, which answers of the server do not."""
    return not_found(f"there is no file {path}", recovery="see `memsvc files ls`")


@using_memory(commands)
async def cat(call: RemoteTools, path: FilePath) -> CommandOutput:
    """Write the bytes of a file to standard output."""
    async with call.http.stream("GET", call.content_path(path)) as response:
        if response.is_error:
            await response.aread()
            error = failure(response)
            raise no_file(path) if error.code is Code.NOT_FOUND else error
        async for chunk in response.aiter_bytes():
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return CommandOutput(None, ())


@using_memory(commands)
async def put(
    call: RemoteTools,
    path: FilePath,
    source: Annotated[
        Path, typer.Argument(help="A local file; - for standard input.", allow_dash=True)
    ],
    append: Annotated[bool, typer.Option("--append", help="Add to the end of the file.")] = False,
    create_only: Annotated[
        bool, typer.Option("--create-only", help="Fail if the file is there.")
    ] = False,
) -> CommandOutput:
    """Write a local file, or standard input, to a path."""
    content = local_bytes(source)
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(content))}
    if create_only:
        headers["If-None-Match"] = "*"
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(path, total=len(content))

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(content), CHUNK_BYTES):
                yield content[start : start + CHUNK_BYTES]
                progress.advance(task, CHUNK_BYTES)

        method = "POST" if append else "PUT"
        response = await call.send(
            method, call.content_path(path), content=chunks(), headers=headers
        )
    body = response.json()
    return CommandOutput(body, [f"{body['bytes_written']} bytes written to {path}"])


@using_memory(commands)
async def rm(
    call: RemoteTools,
    path: FilePath,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="A directory, with all in it.")
    ] = False,
) -> CommandOutput:
    """Delete a file, or a directory with all that is in it."""
    body = await call("file_delete", path=path, recursive=recursive)
    return CommandOutput(body, [f"{body['deleted_count']} deleted"])


@using_memory(commands)
async def mv(call: RemoteTools, source: FilePath, destination: FilePath) -> CommandOutput:
    """Move a file or a directory, history and all."""
    body = await call("file_rename", from_path=source, to_path=destination)
    return CommandOutput(body, [f"{body['moved_count']} moved"])


@using_memory(commands)
async def search(
    call: RemoteTools,
    query: Annotated[str, typer.Argument(help="Words, or a question.")],
    path: Annotated[str | None, typer.Option(help="Only in this directory or file.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Passages at the most.")] = None,
) -> CommandOutput:
    """Find passages of files by words and, where an embedder is configured, by meaning."""
    body = await call("file_search", query=query, path_prefix=path, limit=limit)
    return CommandOutput(body, columns(body["chunks"], "score", "file_path", "chunk_content"))


@using_memory(commands)
async def versions(call: RemoteTools, path: FilePath) -> CommandOutput:
    """List the past versions of a file, newest first."""
    body = await call("file_list_versions", path=path)
    return CommandOutput(body, columns(body["versions"], "id", "size", "created_at"))
