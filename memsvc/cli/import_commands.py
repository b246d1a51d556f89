"""Commands `memsvc import` and `memsvc shadow-report`: migration from clients' own memory."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
from rich.console import Console
from rich.progress import Progress
from typer import Argument, Option

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.tokens import O200kCounter
from memsvc.cli.options import Owner, owner_of, with_database
from memsvc.cli.settings_option import CommandPlace, using_place
from memsvc.cli.tool_client import Json, Project
from memsvc.core.errors import Code, MemsvcError, invalid, invalid_path, not_found, unavailable
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_identifier, check_project, decode_segment
from memsvc.core.scope import DEFAULT_PROJECT, Scope
from memsvc.settings import Settings
from memsvc.store.database import Database
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.migration import legacy
from memsvc.styles.turns.migration.session_import import SessionImport, import_result
from memsvc.styles.turns.migration.shadow import report
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild

FILE_BYTES_MAX = 64 * 1024 * 1024
_SESSION_FILES = (
    "meta",
    "events",
    "memory_tiers",
    "log.jsonl",
    "context.jsonl",
    "memory_facts.jsonl",
    "meta.json",
)


@dataclass(slots=True)
class SessionDirectory:
    """A session on disk: its name, its path, and the files left out, with reasons."""

    session: str
    path: Path
    ignored: dict[str, str] = field(default_factory=dict)

    def read(self) -> dict[str, bytes]:
        """Return the files by their relative names.

        Raises UNAVAILABLE if a file cannot be read, because it must not look empty."""
        return {
            path.relative_to(self.path).as_posix(): _content(path)
            for path in self._files(self.path)
        }

    def read_texts(self) -> dict[str, str]:
        """Return the files as texts, with archives unpacked, in the form that a server accepts.

        Archives that cannot be unpacked are left out, with the reason."""
        texts = {}
        for name, content in self.read().items():
            try:
                plain = legacy.unpack(name, content)
            except ValueError as error:
                self.ignored[name] = str(error)
            else:
                texts[name.removesuffix(legacy.ARCHIVED)] = plain.decode("utf-8", "replace")
        return texts

    def _files(self, directory: Path) -> Iterator[Path]:
        for entry in sorted(os.scandir(directory), key=lambda one: one.name):
            name = Path(entry.path).relative_to(self.path).as_posix()
            if entry.is_symlink():
                self.ignored[name] = "it is a symbolic link"
            elif entry.is_dir(follow_symlinks=False):
                yield from self._files(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                self.ignored[name] = "it is not a regular file"
            elif entry.stat(follow_symlinks=False).st_size > FILE_BYTES_MAX:
                self.ignored[name] = f"it is larger than {FILE_BYTES_MAX} bytes"
            else:
                yield Path(entry.path)


def find_sessions(root: Path) -> list[SessionDirectory]:
    """Return the sessions in a folder with `memory`, in `memory` itself, or the one it is.

    Raises INVALID_ARGUMENT if there is no session, and INVALID_PATH if the name of a session cannot
    be an identifier."""
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise invalid(
            f"{root} {what}; pass a folder that a client-side SDK wrote: the one that contains"
            " the subfolder memory/, or the folder of a single session",
            recovery="to restore an archive written by `memsvc export`, use `memsvc restore"
            " FILE`; exports of mem0 and server-memory cannot be imported, but `memsvc"
            " audit FILE` reads them",
        )
    inner = root / "memory"
    if inner.is_dir() and not inner.is_symlink():
        root = inner
    if _is_session(root):
        return [SessionDirectory(session_name(root.resolve().name), root)]
    found = [
        SessionDirectory(session_name(entry.name), Path(entry.path))
        for entry in sorted(os.scandir(root), key=lambda one: one.name)
        if entry.is_dir(follow_symlinks=False) and _is_session(Path(entry.path))
    ]
    if not found:
        raise invalid(
            "the folder does not contain any sessions",
            recovery="name the folder that contains the subfolder memory/, or the folder of one"
            " session",
        )
    return found


def session_name(name: str) -> str:
    """Return the session that a folder is named after; `%` starts an encoded byte."""
    session = decode_segment(name) if "%" in name else name
    if session is None:
        raise invalid_path(
            "the folder name of a session is not a valid session id: rename the folder"
        )
    return check_identifier(session, "the folder name of a session")


def _is_session(directory: Path) -> bool:
    return any((directory / name).exists() for name in _SESSION_FILES) or any(
        directory.glob("legacy*.json*")
    )


def _content(path: Path) -> bytes:
    try:
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise invalid_path(
                    "a file was replaced while it was being read: run the import again"
                )
            return file.read()
    except OSError as error:
        raise unavailable(f"cannot read {path.name}: {error.strerror}") from error


@using_place
def import_folder(
    place: CommandPlace,
    folder: Annotated[
        Path,
        Argument(
            help="A folder that contains the subfolder memory/, or the folder of one session."
        ),
    ],
    project: Project = DEFAULT_PROJECT,
    session: Annotated[
        str | None, Option(help="Import the only session in FOLDER under this id.")
    ] = None,
    tenant: Owner = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Report what would be imported, without importing it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Import sessions that a client-side SDK stored as folders. Run it again to resume.

    FOLDER is a folder written by such an SDK, not a file. To restore an archive written by `memsvc
    export`, use `memsvc restore`; to read exports of mem0 and server-memory, `memsvc audit`.

    The sessions are imported into the memory of the key in MEMSVC_API_KEY (also on a server), or of
    --tenant in the data folder or database."""
    found = find_sessions(folder)
    if session is not None and len(found) > 1:
        raise invalid(
            "--session needs a folder with a single session, but this folder contains several"
        )
    names = (
        [check_identifier(session, "--session")]
        if session is not None
        else [one.session for one in found]
    )

    if place.server and tenant is None:
        done = {
            name: place.call(
                "memory_import_session",
                project=project,
                session_id=name,
                files=one.read_texts(),
                dry_run=dry_run,
            )
            for name, one in zip(names, found, strict=True)
        }
    else:
        settings = place.settings(create=not dry_run)
        sessions = dict(zip(names, found, strict=True))
        done = _import_here(settings, project, tenant, sessions, dry_run=dry_run, as_json=as_json)
    _print_report(done, found, dry_run=dry_run, as_json=as_json)
    if any(
        (one["broken"] and not any(one["counts"].values())) or one["conflicts"]
        for one in done.values()
    ):
        sys.exit(1)  # a session that could not be read at all, or is stored with other items


def _import_here(
    settings: Settings,
    project: str,
    tenant: str | None,
    sessions: Mapping[str, SessionDirectory],
    *,
    dry_run: bool,
    as_json: bool,
) -> dict[str, JsonObject]:
    """Import into the data folder or the database itself."""

    async def work(database: Database) -> dict[str, JsonObject]:
        scope = Scope(await owner_of(database, settings, tenant, project), check_project(project))
        importer = _importer(database, settings)
        done: dict[str, JsonObject] = {}
        with Progress(
            console=Console(stderr=True), disable=as_json or not sys.stderr.isatty()
        ) as progress:
            for name, one in sessions.items():
                imported = await importer.run(
                    scope,
                    name,
                    legacy.read(one.read()),
                    dry_run=dry_run,
                    on_progress=partial(progress.advance, progress.add_task(name, total=None)),
                )
                done[name] = asdict(import_result(imported))
        return done

    return with_database(settings, work)


def _importer(database: Database, settings: Settings) -> SessionImport:
    clock, tokens, options = SystemClock(), O200kCounter(), settings.settings.mcp.memory
    follow_up = FollowUp([], clock)
    rebuilding = TurnRebuild(database, clock, tokens, options)
    return SessionImport(database, clock, Costs(tokens, options), options, follow_up, rebuilding)


def _print_report(
    done: Mapping[str, JsonObject],
    found: Sequence[SessionDirectory],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    ignored = {name: one.ignored for name, one in zip(done, found, strict=True)}
    if as_json:
        sessions: JsonObject = {
            name: one | {"passed_over": ignored[name]} for name, one in done.items()
        }
        print(orjson.dumps({"dry_run": dry_run, "sessions": sessions}).decode())
        return
    total: Counter[str] = Counter()
    for name, one in done.items():
        total.update(one["counts"])
        for broken in one["broken"]:
            place = f"{broken['file']}:{broken['line']}"
            print(f"{name}: {place}: {broken['why']}", file=sys.stderr)
        for turn in one["conflicts"]:
            print(
                f"{name}: turn {turn} is already stored with different content and was left"
                " unchanged",
                file=sys.stderr,
            )
        for file, why in [
            *ignored[name].items(),
            *((file, "the file does not belong to a session") for file in one["unknown_files"]),
        ]:
            print(f"{name}: skipped {file}: {why}", file=sys.stderr)
    print(f"sessions\t{len(done)}")
    for kind, count in sorted((+total).items()):
        print(f"{kind}\t{count}")
    print(f"broken\t{sum(one['broken_count'] for one in done.values())}")
    print(f"conflicts\t{sum(len(one['conflicts']) for one in done.values())}")


@using_place
def shadow_report(
    place: CommandPlace,
    project: Project = DEFAULT_PROJECT,
    tenant: Owner = None,
    as_json: Json = False,
) -> None:
    """Report how often memory_shadow_compare found that memsvc and a client's own memory agree.

    Exits with code 1 if nothing has been compared yet."""

    if place.server and tenant is None:
        try:
            found = place.call("memory_shadow_report", project=project)
        except MemsvcError as error:
            if error.code is Code.NOT_FOUND:
                raise not_found(
                    "this server does not compare turns with a client's own memory",
                    recovery="enable settings.mcp.memory.shadow.enabled on the server",
                ) from error
            raise
    else:
        found = _report_here(place.settings(), project, tenant)
    if not found["turns"]:
        raise not_found(
            "no turns of this project have been compared with a client's own memory yet"
        )
    if as_json:
        print(orjson.dumps(found).decode())
        return
    for name, value in [
        *((one, found[one]) for one in found if one != "counts"),
        *found["counts"].items(),
    ]:
        print(f"{name}\t{'' if value is None else value}")


def _report_here(settings: Settings, project: str, tenant: str | None) -> JsonObject:
    """Read the comparisons from the data folder or the database itself."""

    async def work(database: Database) -> JsonObject:
        scope = Scope(await owner_of(database, settings, tenant, project), check_project(project))
        rebuilding = TurnRebuild(
            database, SystemClock(), O200kCounter(), settings.settings.mcp.memory
        )
        return asdict(await report(database, scope, await rebuilding.sessions(scope)))

    return with_database(settings, work)
