"""Command `memsvc maintain`: maintains sessions, and compares or rebuilds their derived rows."""

import asyncio
import sys
from collections import Counter
from functools import partial
from typing import Annotated

import orjson
from typer import Option

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.tokens import O200kCounter
from memsvc.cli.options import Owner, owner_of, scopes_of, with_database
from memsvc.cli.settings_option import CommandPlace, using_place
from memsvc.cli.tool_client import CommandTarget, Json, OnlyProject, RemoteTools, run_calls
from memsvc.core.errors import invalid, not_found
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_identifier
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tool_methods import run_tool
from memsvc.core.tools import Tool
from memsvc.gateway.metrics import Metrics
from memsvc.runtime import Models, Services, published
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.styles.files.indexing import FILE_INDEX
from memsvc.styles.notebook.notebook_writer import INDEX_NAME as NOTEBOOK
from memsvc.styles.notebook.notebook_writer import TreeRebuild as NotebookRebuilding
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild

MAINTENANCE = "memory_run_maintenance"


@using_place
def maintain(
    place: CommandPlace,
    project: OnlyProject = None,
    session: Annotated[
        str | None, Option(help="Maintain only this session; needs --project.")
    ] = None,
    tenant: Owner = None,
    all_tenants: Annotated[
        bool, Option("--all", help="Maintain the memory of all tenants.")
    ] = False,
    check: Annotated[
        bool,
        Option(
            "--check",
            help="Only compare derived data with the files; exit with code 1 if there are any"
            " differences.",
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        Option(
            "--rebuild",
            help="Before maintenance, repair any derived data that differs from the files.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Maintain sessions: summarize older context and delete expired facts.

    --check only compares derived data, such as index entries, with the files it comes from.
    --rebuild repairs it before maintenance. --check, --rebuild, --tenant and --all need direct
    access to the data folder or the database. There, the command maintains the sessions of --tenant
    or of the key in MEMSVC_API_KEY, and asks for the key if the variable is not set. A server
    maintains the sessions of the key in MEMSVC_API_KEY."""
    if check and rebuild:
        raise invalid(
            "--check and --rebuild cannot be used together: --check changes nothing, and"
            " --rebuild repairs data"
        )
    if session is not None and project is None:
        raise invalid("--session needs --project")
    if all_tenants and tenant is not None:
        raise invalid("--all covers every tenant, so --tenant cannot be used with it")
    if place.server and not (check or rebuild or all_tenants or tenant is not None):
        target = CommandTarget(place.server, project or ALL_PROJECTS)
        done = asyncio.run(run_calls(target, partial(_maintain_by_tools, session=session)))
    else:
        done = _maintain_here(
            place.settings(), project, session, tenant, all_tenants, check=check, rebuild=rebuild
        )
    if not done and not all_tenants:
        raise not_found(
            "nothing is stored for this key or tenant",
            recovery="check MEMSVC_API_KEY or --tenant, and the data folder or database.url",
        )
    difference_count = sum(sum(one["differences"].values()) for one in done)
    if as_json:
        print(orjson.dumps({"projects": done, "differences": difference_count}).decode())
    else:
        _print_report(done, check=check, rebuild=rebuild)
    if check and difference_count:
        sys.exit(1)


async def _maintain_by_tools(call: RemoteTools, session: str | None) -> list[JsonObject]:
    """Run maintenance on a session, a project or all projects of the key, and print counts."""
    done = []
    for project in await _projects(call) if call.project == ALL_PROJECTS else [call.project]:
        sessions = [session] if session else await _sessions(call, project)
        counters: Counter[str] = Counter()
        for name in sessions:
            answer = await call(MAINTENANCE, project=project, session_id=name)
            counters.update({name: value for name, value in answer.items() if type(value) is int})
        done.append(_project_report(project, sessions, Counter(), counters))
    return done


async def _projects(call: RemoteTools) -> list[str]:
    """Return the projects that the key may use."""
    found: list[str] = []
    after = ""
    while True:
        page = await call("file_projects", after=after, limit=100)
        found += page["projects"]
        after = page["next_cursor"]
        if not after:
            return found


async def _sessions(call: RemoteTools, project: str) -> list[str]:
    found = await call.list_all("memory_list_sessions", "sessions", project=project)
    return [one["session_id"] for one in found]


def _project_report(
    project: str,
    sessions: list[str],
    found: Counter[str],
    counters: Counter[str],
    tenant: str = "",
) -> JsonObject:
    return {
        "tenant": tenant,
        "project": project,
        "sessions": len(sessions),
        "differences": dict(sorted((+found).items())),
        "maintained": dict(sorted((+counters).items())),
    }


def _maintain_here(
    settings: Settings,
    project: str | None,
    session: str | None,
    tenant: str | None,
    all_tenants: bool,
    *,
    check: bool,
    rebuild: bool,
) -> list[JsonObject]:
    """Maintain, compare or rebuild in the data folder or the database itself."""

    async def work(database: Database) -> list[JsonObject]:
        owners = (
            await keys.list_tenants(database)
            if all_tenants
            else [await owner_of(database, settings, tenant, project)]
        )
        maintenance = _Maintenance(database, settings)
        return [
            await maintenance.project(scope, session, check=check, rebuild=rebuild)
            for owner in owners
            async for scope in scopes_of(database, owner, project)
        ]

    return with_database(settings, work)


class _Maintenance:
    """Maintenance of the sessions of a project."""

    def __init__(self, database: Database, settings: Settings) -> None:
        clock, tokens = SystemClock(), O200kCounter()
        self._rebuilding = TurnRebuild(database, clock, tokens, settings.settings.mcp.memory)
        self._notebook = NotebookRebuilding(database)
        tools = published(Services(settings, database, clock, tokens, Metrics(), Models())).tools
        self._tool: Tool | None = next((tool for tool in tools if tool.name == MAINTENANCE), None)

    async def project(
        self, scope: Scope, only: str | None, *, check: bool, rebuild: bool
    ) -> JsonObject:
        """Maintain, compare or rebuild all of a project, or one session of it."""
        sessions = (
            [check_identifier(only, "--session")]
            if only is not None
            else await self._rebuilding.sessions(scope)
        )
        found: Counter[str] = Counter()
        counters: Counter[str] = Counter()
        if check or rebuild:
            found += await self._compare(scope, sessions, full=only is None, fix=rebuild)
        if not check and self._tool is not None:
            for session in sessions:
                done = await run_tool(self._tool, scope, {"session_id": session})
                counters.update({name: value for name, value in done.items() if type(value) is int})
        return _project_report(scope.project, sessions, found, counters, scope.tenant.hex())

    async def _compare(
        self, scope: Scope, sessions: list[str], *, full: bool, fix: bool
    ) -> Counter[str]:
        rebuild = self._rebuilding
        found: Counter[str] = Counter()
        for session in sessions:
            found += await (rebuild.run(scope, session) if fix else rebuild.check(scope, session))
        for user, user_sessions in (await rebuild.users(scope)).items():
            if full or set(sessions) & set(user_sessions):
                found += await rebuild.check_user(scope, user, user_sessions, fix=fix)
        if full:
            found += await self._notebook.check(scope, fix=fix)
            for index_id in (FILE_INDEX, NOTEBOOK):
                found += await rebuild.check_index(scope, index_id, fix=fix)
        return found


def _print_report(done: list[JsonObject], *, check: bool, rebuild: bool) -> None:
    for one in done:
        counts = one["differences"] if check else one["differences"] | one["maintained"]
        counts_text = ", ".join(f"{name} {count}" for name, count in counts.items())
        nothing = (
            "all derived data matches the files that it comes from"
            if check
            else "nothing had to be rebuilt or maintained"
            if rebuild
            else "no maintenance was necessary"
        )
        print(
            f"{one['tenant'][:16]}\t{one['project']}\t{one['sessions']}"
            f" sessions\t{counts_text or nothing}"
        )
