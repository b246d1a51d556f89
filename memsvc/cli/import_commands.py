"""Commands `memsvc import` and `memsvc shadow-report`: migration from clients' own memory."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import Progress

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.session_directories import SessionDirectory, find_sessions
from memsvc.adapters.tokens import O200kCounter
from memsvc.cli.options import Owner, owner_of, settings_of, with_database
from memsvc.cli.tool_client import Config, DataDir
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_identifier, check_project
from memsvc.core.scope import DEFAULT_PROJECT, Scope
from memsvc.settings import Settings
from memsvc.store.database import Database
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.migration import legacy
from memsvc.styles.turns.migration.import_tools import import_result
from memsvc.styles.turns.migration.session_import import ImportReport, SessionImport
from memsvc.styles.turns.migration.shadow_tools import report
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild

Json = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]
Project = Annotated[str, typer.Option(help="The project.")]


def import_folder(
    folder: Annotated[
        Path, typer.Argument(help="A folder that holds memory/, or one session's folder.")
    ],
    project: Project = DEFAULT_PROJECT,
    session: Annotated[
        str | None, typer.Option(help="The name that a single session gets.")
    ] = None,
    tenant: Owner = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be imported.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Import sessions that a client-side SDK kept as folders; run again, it resumes.

    Name the owner of the memory by --tenant or by a key: the variable MEMSVC_API_KEY, else you are
    asked for one.
    """
    settings = settings_of(config, data_dir=data_dir)
    found = find_sessions(folder)
    if session is not None and len(found) > 1:
        raise invalid("--session names one session, and there are several in this folder")
    names = (
        [check_identifier(session, "--session")]
        if session is not None
        else [one.session for one in found]
    )

    async def work(database: Database) -> dict[str, ImportReport]:
        scope = Scope(await owner_of(database, settings, tenant, project), check_project(project))
        importer = _importer(database, settings)
        done: dict[str, ImportReport] = {}
        with Progress(
            console=Console(stderr=True), disable=as_json or not sys.stderr.isatty()
        ) as progress:
            for name, one in zip(names, found, strict=True):
                done[name] = await _import(importer, scope, name, one, progress, dry_run=dry_run)
        return done

    done = with_database(settings, work)
    _print_report(done, found, dry_run=dry_run, as_json=as_json)
    if any((one.broken and not +one.counts) or one.conflicts for one in done.values()):
        sys.exit(1)  # a session that could not be read at all, or is stored with other items


async def _import(
    importer: SessionImport,
    scope: Scope,
    name: str,
    folder: SessionDirectory,
    progress: Progress,
    *,
    dry_run: bool,
) -> ImportReport:
    content = legacy.read(folder.read())
    task = progress.add_task(name, total=None)
    return await importer.run(
        scope,
        name,
        content,
        dry_run=dry_run,
        on_progress=lambda turns: progress.advance(task, turns),
    )


def _importer(database: Database, settings: Settings) -> SessionImport:
    clock, tokens, options = SystemClock(), O200kCounter(), settings.settings.mcp.memory
    follow_up = FollowUp([], clock, embeds=False)  # a server's sweep finds what has no vectors
    return SessionImport(
        database, clock, tokens, options, follow_up, TurnRebuild(database, clock, tokens, options)
    )


def _print_report(
    done: dict[str, ImportReport],
    found: Sequence[SessionDirectory],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    ignored = {name: one.ignored for name, one in zip(done, found, strict=True)}
    if as_json:
        sessions: dict[str, Any] = {
            name: import_result(one).model_dump() | {"passed_over": ignored[name]}
            for name, one in done.items()
        }
        print(orjson.dumps({"dry_run": dry_run, "sessions": sessions}).decode())
        return
    total: Counter[str] = Counter()
    for name, one in done.items():
        total.update(one.counts)
        for broken in one.broken[: legacy.REPORT_LIMIT]:
            print(f"{name}: {broken.file}:{broken.line}: {broken.why}", file=sys.stderr)
        for turn in one.conflicts:
            print(
                f"{name}: turn {turn} is here with other items and was left as it is",
                file=sys.stderr,
            )
        for file, why in [
            *ignored[name].items(),
            *((file, "none of a session's files") for file in one.unknown),
        ]:
            print(f"{name}: {file}: passed over: {why}", file=sys.stderr)
    print(f"sessions\t{len(done)}")
    for kind, count in sorted((+total).items()):
        print(f"{kind}\t{count}")
    print(f"broken\t{sum(len(one.broken) for one in done.values())}")
    print(f"conflicts\t{sum(len(one.conflicts) for one in done.values())}")


def shadow_report(
    project: Project = DEFAULT_PROJECT,
    tenant: Owner = None,
    as_json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Report how far clients' own memory and this one agreed, as memory_shadow_compare found.

    Exit code 1 where nothing was ever compared.
    """
    settings = settings_of(config, data_dir=data_dir)

    async def work(database: Database) -> dict[str, Any]:
        scope = Scope(await owner_of(database, settings, tenant, project), check_project(project))
        rebuilding = TurnRebuild(
            database, SystemClock(), O200kCounter(), settings.settings.mcp.memory
        )
        return (await report(database, scope, await rebuilding.sessions(scope))).model_dump()

    found = with_database(settings, work)
    if not found["turns"]:
        raise MemsvcError(Code.NOT_FOUND, "no turn of this project was ever compared")
    if as_json:
        print(orjson.dumps(found).decode())
        return
    for name, value in [
        *((one, found[one]) for one in found if one != "counts"),
        *found["counts"].items(),
    ]:
        print(f"{name}\t{'' if value is None else value}")
