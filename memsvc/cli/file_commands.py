"""Command `memsvc files`: the files of a project, with commands like those of a shell."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Final

from rich.console import Console
from rich.progress import Progress
from typer import Argument, Option

from memsvc.cli.tool_client import (
    OR_STDIN,
    CommandOutput,
    RemoteTools,
    argument,
    columns,
    command_group,
    local_bytes,
    option,
    rows,
    stores,
    tool_command,
)
from memsvc.core.errors import Code, MemsvcError, not_found

CHUNK_BYTES: Final = 256 * 1024

PATH_HELP: Final = "A path in the file store, such as /notes/a.md."
FilePath = Annotated[str, Argument(help=PATH_HELP)]
FILE: Final = argument("path", PATH_HELP)


async def ls(
    call: RemoteTools,
    path: Annotated[str, Argument(help="A directory or file.")] = "/",
    depth: Annotated[
        int, Option(min=0, max=64, help="Number of levels to list; 0 lists only the path itself.")
    ] = 1,
    summaries: Annotated[bool, Option("--summaries", help="Print a summary of each file.")] = False,
) -> CommandOutput:
    """List a directory: the type, size in bytes, modification time and path of each entry."""
    entries = await call.list_all(
        "file_list", "entries", path=path, depth=depth, summaries=summaries or None
    )
    named = ("type", "size", "updated_at", "path", *(["summary"] if summaries else []))
    return CommandOutput({"entries": entries}, columns(entries, *named))


def no_file(path: str) -> MemsvcError:
    """Return a NOT_FOUND error that names the path, which the server's own error does not."""
    return not_found(
        f"file {path} does not exist", recovery="list the files with `memsvc files ls`"
    )


async def cat(call: RemoteTools, path: FilePath) -> CommandOutput:
    """Write the bytes of a file to standard output."""
    try:
        async with call.download(call.content_path(path)) as response:
            async for chunk in response.aiter_bytes():
                sys.stdout.buffer.write(chunk)
    except MemsvcError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        raise no_file(path) from error
    sys.stdout.buffer.flush()
    return CommandOutput(None, ())


@stores
async def put(
    call: RemoteTools,
    source: Annotated[str, Argument(help=f"A local file{OR_STDIN}")],
    path: FilePath,
    append: Annotated[
        bool, Option("--append", help="Append to the file instead of replacing it.")
    ] = False,
    create_only: Annotated[
        bool, Option("--create-only", help="Fail if the file already exists.")
    ] = False,
) -> CommandOutput:
    """Write a local file, or standard input, to a path in the file store.

    The arguments may be given in either order if only the second one is a local file or -."""
    if not _is_local(source) and _is_local(path):
        source, path = path, source
    content = local_bytes(Path(source))
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


def _is_local(source: str) -> bool:
    return source == "-" or Path(source).is_file()


commands = command_group(
    {
        "ls": ls,
        "cat": cat,
        "put": put,
        "rm": tool_command(
            "file_delete",
            "Delete a file or, with --recursive, a directory with everything in it.",
            FILE,
            option(
                "recursive",
                "Delete a directory with everything in it.",
                bool,
                False,
                flags=("--recursive", "-r"),
            ),
            lines=lambda body: [f"{body['deleted_count']} deleted"],
        ),
        "mv": tool_command(
            "file_rename",
            "Move a file or a directory together with its history.",
            argument("source", PATH_HELP, to="from_path"),
            argument("destination", PATH_HELP, to="to_path"),
            lines=lambda body: [f"{body['moved_count']} moved"],
        ),
        "search": tool_command(
            "file_search",
            "Find passages in files by words and by meaning.",
            argument("query", "Words to search for, or a question."),
            option("path", "Search only this directory or file.", to="path_prefix"),
            option("limit", "Maximum number of passages.", int, min=1),
            lines=rows("chunks", "score", "file_path", "chunk_content"),
        ),
        "versions": tool_command(
            "file_list_versions",
            "List the past versions of a file, newest first.",
            FILE,
            lines=rows("versions", "id", "size", "created_at"),
        ),
    }
)
