"""The file tools with history and upkeep, and what tests look up below them."""

from dataclasses import dataclass, field
from typing import Any

import asyncpg

from memsvc.core.scope import Caller, Scope
from memsvc.core.tool_methods import tools_of
from memsvc.gateway.call_accounting import AuditOptions, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.store.database import Database
from memsvc.styles.files.file_store import FileStore
from memsvc.styles.files.file_writer import FileMaintenance, FileWriter
from memsvc.styles.files.indexing import FileIndex
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.tools import FileHistory, Projects, file_resource
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.styles.files.conftest import FileDoor


@dataclass
class Past:
    """The file tools of one caller in one project, history among them, and the purge of that
    project."""

    files: FileDoor
    scope: Scope
    upkeep: FileMaintenance
    history: FileHistory
    writing: FileWriter
    versions: dict[str, str] = field(default_factory=dict)

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.files(tool, **arguments)

    async def refuses(self, code: str, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.files.refuses(code, tool, **arguments)

    async def write(self, path: str, *contents: str, mode: str = "TRUNCATE") -> list[str]:
        """The versions that these contents led to, one after the other."""
        return [await self.files.write(path, content, mode=mode) for content in contents]

    async def listed(self, path: str, **arguments: Any) -> list[str]:
        """The ids of a page of a path's history."""
        return [
            one["id"] for one in (await self("list_versions", path=path, **arguments))["versions"]
        ]

    async def contents(self, path: str) -> list[str]:
        """What each version of a path's history holds, newest first."""
        held = []
        for version in await self.listed(path):
            read = await self("read_version", path=path, history_id=version)
            assert read["history_id"] == version
            held.append(read["content"])
        return held

    async def purge(self) -> None:
        await self.upkeep.run(self.scope)

    def elsewhere(self, scope: Scope, projects: frozenset[str] | None = None) -> "Past":
        """The same service for another tenant or project, or with a key that is confined to some
        projects."""
        door = Door(self.files.call.dispatch, Caller(scope.tenant, "test", projects=projects))
        return Past(FileDoor(door, scope.project), scope, self.upkeep, self.history, self.writing)


def open_past(
    database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope, **limits: Any
) -> Past:
    """The tools over a database, with limits other than the defaults."""
    options = FilesOptions(**limits)
    indexing = FileIndex(database, clock)
    writing = FileWriter(database, clock, options, indexing)
    # what was stored once can be stored again, whatever one payload may hold
    restoring = options.model_copy(update={"payload_bytes_max": options.file_bytes_max})
    history = FileHistory(database, FileWriter(database, clock, restoring, indexing))
    tools = [
        *tools_of(FileStore(database, clock, options, []), {"file_read": file_resource(database)}),
        *tools_of(writing),
        *tools_of(history),
        *tools_of(Projects(database)),
    ]
    dispatch = Dispatch(
        Catalogue(tools),
        call_log(database, meter, clock, AuditOptions()),
        meter,
        clock,
        unlimited(meter),
    )
    files = FileDoor(Door(dispatch, Caller(scope.tenant, "test")), scope.project)
    return Past(files, scope, FileMaintenance(database, clock, options), history, writing)


async def orphans(admin: asyncpg.Connection) -> tuple[int, int]:
    """Rows that should not exist: streams of no file, and blocks of no stream."""
    streams = await admin.fetchval(
        """SELECT count(*) FROM streams AS s WHERE NOT EXISTS (SELECT FROM files AS f
            WHERE f.tenant = s.tenant
        AND f.project = s.project AND f.incarnation = s.incarnation)"""
    )
    blocks = await admin.fetchval(
        """SELECT count(*) FROM blocks AS b WHERE NOT EXISTS (SELECT FROM streams AS s
            WHERE s.tenant = b.tenant
        AND s.project = b.project AND s.stream = b.stream)"""
    )
    return streams, blocks
