"""Restore of an archive: validated in one pass, then written in one transaction, all or nothing."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from uuid import uuid4

import anyio.to_thread
from pydantic import Field

from memsvc.administration.archive_format import ArchiveManifest, ArchiveRows
from memsvc.administration.archive_reader import (
    ArchiveStep,
    BlocksStep,
    StreamsStep,
    TenantArchiveReader,
)
from memsvc.core.errors import (
    conflict,
    invalid,
    payload_too_large,
    permission_denied,
    quota_exceeded,
    resource_busy,
)
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tools import Result
from memsvc.store import derived_index, export, jobs, usage
from memsvc.store.database import Database, Tx
from memsvc.store.export import CALLS, JOBS, Table
from memsvc.store.locks import Lock
from memsvc.store.usage import Quota

PROJECT_LOCKS_MAX: Final = 100
"""Projects that are locked one by one, as the database has only so many locks. A restore of more
locks the whole tenant."""
JOBS_MAX: Final = 200_000
"""Jobs in one archive: the queue is shared by all tenants."""


@frozen
class FileQuotas:
    """Quotas of callers' files and, in `stored`, of the whole tenant after a restore.

    `tenant_bytes_max` 0 is no limit.
    """

    project_bytes_max: int
    tenant_bytes_max: int
    stored: Quota = field(default_factory=Quota)


@dataclass(slots=True)
class ProjectContent:
    """Content of an archive for one project."""

    rows: Counter[str] = field(default_factory=Counter)
    caller_bytes: int = 0
    jobs: set[tuple[str, str]] = field(default_factory=set)


class RestoredProject(Result):
    project: str = Field(description="name of the project in the archive")
    into: str = Field(description="name of the project into which the data was restored")
    rows: dict[str, int] = Field(
        description="number of restored rows of each table; in a check, the number that would"
        " be restored"
    )
    occupied: bool = Field(
        False,
        description="true if a check found that the project is not empty, so that a restore would"
        " be refused",
    )
    written: bool = Field(
        description="false if nothing was changed because this archive had already been restored"
        " into this project"
    )


class _RolledBackError(Exception):
    """Rolls back the writes of a check."""


@frozen
class ArchiveRestore:
    """Restores of archives into empty projects.

    `known_jobs` are the jobs that this deployment runs, `sweep_jobs` those of them that look for
    what is missing in a project.
    """

    database: Database
    clock: Clock
    allowed: FileQuotas
    expanded_bytes_max: int
    known_jobs: Collection[str]
    sweep_jobs: Collection[str]

    async def run(
        self, scope: Scope, archive: BinaryIO, *, check_only: bool
    ) -> tuple[ArchiveManifest, list[RestoredProject]]:
        """Write an archive to the projects that it names; return what became of them.

        Where the scope names a project, the archive must be of one project, which is written to
        that one. With `check_only` all of it is written where nobody sees it, and rolled back: a
        check refuses what a restore refuses, except for an occupied project.

        INVALID_CONTENT, PAYLOAD_TOO_LARGE as `Reading.steps`; CONFLICT where a project holds
        anything that did not come from this archive; QUOTA_EXCEEDED; PERMISSION_DENIED for a
        project that the scope may not touch; RESOURCE_BUSY. Nothing has changed after any of them.
        An archive that was restored before succeeds again and changes nothing.
        """
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            tables = await export.describe_tables(tx)
            stream_tables = await export.describe_tables(tx, ("streams", "blocks"))
            reading = TenantArchiveReader(
                tables,
                await export.revision(tx),
                expanded_bytes_max=self.expanded_bytes_max,
            )
        manifest, contents = await anyio.to_thread.run_sync(_validate, reading.steps(archive))
        into = _targets(manifest, scope)
        self._check_sizes(contents)
        with suppress(_RolledBackError):
            async with self.database.begin_tenant(scope, long_running=True) as tx:
                transactions = {project: tx.within(into[project]) for project in manifest.projects}
                if not check_only:
                    await _lock_projects(tx, list(transactions.values()))
                states = [
                    await _state(project_tx, manifest, name, contents[name].rows)
                    for name, project_tx in transactions.items()
                ]
                occupied = {state.project for state in states if state.occupied}
                if occupied and not check_only:
                    raise conflict(
                        f"the project {into[min(occupied)]} is not empty",
                        recovery="restore into another project, or purge the project first",
                    )
                if check_only:
                    # no project has this name, and no other check uses it
                    check_prefix = f"~{uuid4().hex}~"
                    transactions = {
                        name: tx.within(f"{check_prefix}{number}")
                        for number, name in enumerate(transactions)
                    }
                load = _Load(
                    {
                        state.project: transactions[state.project]
                        for state in states
                        if state.written
                    },
                    tables | stream_tables,
                )
                if load.transactions:
                    replaced = {name: into[name] for name in occupied}
                    await self._fill(tx, load, manifest, reading.steps(archive), contents, replaced)
                if check_only:
                    raise _RolledBackError
                for name, project_tx in load.transactions.items():
                    await usage.add_bytes(
                        project_tx,
                        contents[name].caller_bytes,
                        project_bytes_max=self.allowed.project_bytes_max,
                        tenant_bytes_max=self.allowed.tenant_bytes_max,
                        now=self.clock.now(),
                    )
        return manifest, states

    def _check_sizes(self, contents: Mapping[str, ProjectContent]) -> None:
        for project, content in contents.items():
            if content.caller_bytes > self.allowed.project_bytes_max:
                raise quota_exceeded(
                    f"the files of the project {project} have {content.caller_bytes} bytes, but the"
                    f" files of a project are limited to {self.allowed.project_bytes_max} bytes",
                    recovery="raise files.project_bytes_max",
                )

    async def _fill(
        self,
        tx: Tx,
        load: "_Load",
        manifest: ArchiveManifest,
        steps: Iterator[ArchiveStep],
        found: Mapping[str, ProjectContent],
        replaced: Mapping[str, str],
    ) -> None:
        """Write the projects of a load, and index them.

        QUOTA_EXCEEDED at the start where their files alone are too large, at the end where they are
        together with what is derived. What they replace is not counted. No row is locked that
        others write until `spend`, which therefore comes last.
        """
        new_bytes = sum(
            found[name].caller_bytes for name in load.transactions if name not in replaced
        )
        await usage.check_tenant_quota(
            tx, new_bytes, tenant_bytes_max=self.allowed.tenant_bytes_max
        )
        content_bytes = sum(found[name].rows["content_bytes"] for name in load.transactions)
        await self._check_quota(tx, content_bytes, without=replaced.values())
        for part in load.transactions.values():
            await export.set_restored(part, manifest.archive, self.clock.now())
        while (step := await anyio.to_thread.run_sync(next, steps, None)) is not None:
            await load.write(step)
        for name, part in load.transactions.items():
            await self._finish(part, manifest, found[name])
        await self._check_quota(tx, 0, without=replaced.values())

    async def _check_quota(self, tx: Tx, more_bytes: int, *, without: Collection[str]) -> None:
        """Raise QUOTA_EXCEEDED where so many more bytes would pass the tenant's quota.

        What the projects `without` hold is left out.
        """
        quota = self.allowed.stored
        if not quota.bytes_max or await quota.unbounded_until(tx, self.clock.now()) is not None:
            return
        held_bytes = await usage.quota_bytes(tx, without=without) + more_bytes
        if held_bytes > quota.bytes_max:
            raise quota.exceeded(held_bytes)

    async def _finish(self, tx: Tx, manifest: ArchiveManifest, found: ProjectContent) -> None:
        now = self.clock.now()
        await derived_index.build(tx)
        for name, subject in sorted({*found.jobs, *((name, "") for name in self.sweep_jobs)}):
            if name in self.known_jobs:
                await jobs.enqueue(tx, name, subject, now=now)


@frozen
class _Load:
    """Writer of an archive's steps to its target projects."""

    transactions: Mapping[str, Tx]
    tables: Mapping[str, Table]

    async def write(self, step: ArchiveStep) -> None:
        """Write one step."""
        if isinstance(step, ArchiveManifest) or (tx := self.transactions.get(step.project)) is None:
            return
        if isinstance(step, StreamsStep):
            await export.put_streams(tx, self.tables["streams"], step.streams)
        elif isinstance(step, BlocksStep):
            await export.put_blocks(tx, self.tables["blocks"], step.blocks)
        elif (rows := step.rows).table.name not in (CALLS, JOBS):
            await export.put(tx, rows.table, rows.columns, rows.rows)


async def _state(
    tx: Tx, manifest: ArchiveManifest, project: str, rows: Mapping[str, int]
) -> RestoredProject:
    """Return the outcome for a project: not written if this archive was restored before."""
    holds = await export.has_rows(tx)
    before = holds and await export.restored_before(tx, manifest.archive)
    return RestoredProject(
        project=project,
        into=tx.scope.project,
        rows=dict(rows),
        written=not before,
        occupied=holds and not before,
    )


async def _lock_projects(tx: Tx, transactions: Sequence[Tx]) -> None:
    """Lock projects for writing until the transaction ends; RESOURCE_BUSY if they are purged."""
    many = len(transactions) > PROJECT_LOCKS_MAX
    if many:
        await tx.lock(Lock("tenant", ""))
    for project_tx in transactions:
        if not many:
            await project_tx.lock(Lock("project", ""))
        if await export.is_closed(project_tx):
            raise resource_busy(
                "the project is being purged; try again when the purge has finished",
                retry_after_s=2.0,
            )


def _validate(steps: Iterator[ArchiveStep]) -> tuple[ArchiveManifest, dict[str, ProjectContent]]:
    """Return an archive's manifest and its content by project, once all of it was read."""
    manifest = next(steps)
    assert isinstance(manifest, ArchiveManifest)
    contents: dict[str, ProjectContent] = defaultdict(ProjectContent)
    jobs_left = JOBS_MAX
    for step in steps:
        assert not isinstance(step, ArchiveManifest)
        content = contents[step.project]
        if isinstance(step, BlocksStep):
            content.rows["blocks"] += len(step.blocks)
            content.rows["content_bytes"] += sum(len(block.content) for block in step.blocks)
        elif isinstance(step, StreamsStep):
            content.rows["streams"] += len(step.streams)
        else:
            content.caller_bytes += step.caller_bytes
            content.rows[step.rows.table.name] += len(step.rows.rows)
            if step.rows.table.name == JOBS:
                jobs_left -= len(step.rows.rows)
                if jobs_left < 0:
                    raise payload_too_large(
                        f"the archive contains more than {JOBS_MAX} waiting jobs, which is"
                        " the limit",
                        recovery="export again when fewer jobs are waiting, or export one"
                        " project at a time",
                    )
                content.jobs.update(_pairs(step.rows))
    return manifest, {name: contents[name] for name in manifest.projects}


def _pairs(rows: ArchiveRows) -> list[tuple[str, str]]:
    name, subject = rows.columns.index("name"), rows.columns.index("subject")
    return [(row[name], row[subject]) for row in rows.rows]


def _targets(manifest: ArchiveManifest, scope: Scope) -> dict[str, str]:
    """Return the target of each project of an archive."""
    if scope.project != ALL_PROJECTS:
        if len(manifest.projects) != 1:
            raise invalid(
                "a target project was named, but this archive contains"
                f" {len(manifest.projects)} projects",
                recovery="omit the target project, so that each project is restored under its"
                " own name",
            )
        return {manifest.projects[0]: scope.project}
    for project in manifest.projects:
        if scope.allowed_projects is not None and project not in scope.allowed_projects:
            raise permission_denied(
                "this key does not have access to every project of this archive"
            )
    return {project: project for project in manifest.projects}
