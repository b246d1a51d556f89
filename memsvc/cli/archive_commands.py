"""Commands `memsvc export` and `memsvc restore`: all data, or one project, as a file."""

import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import httpx2
from typer import Argument, Option

from memsvc.cli.tool_client import (
    CommandOutput,
    CommandTarget,
    Config,
    DataDir,
    Json,
    OnlyProject,
    RemoteTools,
    Url,
    as_command,
    server_of,
    stores,
)
from memsvc.core.errors import invalid, unavailable
from memsvc.core.scope import ALL_PROJECTS

PATH: Final = "/api/archive"
GZIP_SUFFIXES: Final = (".gz", ".tgz")
CHUNK_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 600.0
"""How long the server may be silent: it reads and writes a large archive before it answers."""

Archive = Annotated[
    Path,
    Argument(
        help="The archive file; - means standard output for an export and standard input for a"
        " restore.",
        allow_dash=True,
    ),
]


def archive_target(
    *,
    as_json: Json = False,
    url: Url = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> CommandTarget:
    """Return the target that the options name, for all projects."""
    return CommandTarget(server_of(url, data_dir, config), ALL_PROJECTS, config, data_dir, as_json)


async def export_archive(
    call: RemoteTools,
    archive: Archive,
    project: OnlyProject = None,
    calls: Annotated[
        bool,
        Option(
            "--calls", help="Include the call log in the archive; a restore ignores the call log."
        ),
    ] = False,
    gzip: Annotated[
        bool,
        Option(
            "--gzip",
            help="Compress the archive. A file name that ends in .gz or .tgz has the same effect.",
        ),
    ] = False,
) -> CommandOutput:
    """Write all data, or one project, to an archive: a tar of files and JSON lines.

    The archive is a snapshot: later writes do not change it. `memsvc restore` restores it. The key
    needs the admin permission."""
    params = {
        "project": project or ALL_PROJECTS,
        "gzip": str(gzip or archive.suffix in GZIP_SUFFIXES).lower(),
        "calls": str(calls).lower(),
    }
    size_bytes = 0
    try:
        async with call.download(PATH, params=params, timeout=TIMEOUT_S) as response:
            with _written(archive) as file:
                async for chunk in response.aiter_raw():
                    file.write(chunk)
                    size_bytes += len(chunk)
    except httpx2.HTTPError as error:
        raise unavailable(
            f"the connection ended before the archive was complete ({type(error).__name__})",
            recovery="run the command again",
        ) from error
    if str(archive) == "-":
        return CommandOutput(None, ())
    return CommandOutput(
        {"archive": str(archive), "bytes": size_bytes}, [f"{size_bytes} bytes written to {archive}"]
    )


@partial(stores, only_reads_with="check")
async def restore_archive(
    call: RemoteTools,
    archive: Archive,
    into: Annotated[
        str | None,
        Option(
            help="Restore the archive into this project; the archive must contain a single project."
        ),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Only check whether the archive can be restored.")
    ] = False,
) -> CommandOutput:
    """Restore an archive written by `memsvc export`, compressed or not, into empty projects.

    The archive is restored completely or not at all, so the command can safely be repeated. The key
    needs the admin permission."""
    params = {"project": into or ALL_PROJECTS, "check": str(check).lower()}
    with _opened(archive) as file:
        headers = {"Content-Type": "application/x-tar"}
        if str(archive) != "-":
            headers["Content-Length"] = str(archive.stat().st_size)
        response = await call.send(
            "POST", PATH, params=params, content=_chunks(file), headers=headers, timeout=TIMEOUT_S
        )
    body = response.json()
    return CommandOutput(body, _result_lines(body))


def _result_lines(body: dict[str, Any]) -> Iterable[str]:
    for one in body["projects"]:
        rows = ", ".join(f"{name} {count}" for name, count in sorted(one["rows"].items()))
        if not one["written"]:
            what = "this archive has already been restored into this project"
        elif one["occupied"]:
            what = (
                "the archive is intact, but the project is not empty; choose another"
                " project with --into"
            )
        elif body["checked_only"]:
            what = "the archive can be restored"
        else:
            what = "restored"
        yield "\t".join([one["into"], what, rows])


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


@contextmanager
def _written(archive: Path) -> Iterator[BinaryIO]:
    """Yield a file that gets the name of the archive once it is complete, and not before."""
    if str(archive) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = archive.with_name(archive.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(archive)
    except OSError as error:
        raise invalid(f"cannot write {archive}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _opened(archive: Path) -> Iterator[BinaryIO]:
    if str(archive) == "-":
        yield sys.stdin.buffer
        return
    try:
        with archive.open("rb") as file:
            yield file
    except OSError as error:
        raise invalid(f"cannot read {archive}: {error.strerror}") from error


export_command = as_command(export_archive, archive_target)
restore_command = as_command(restore_archive, archive_target)
