"""Jobs in the queue for their operators: list, count, retry and drop them."""

from collections.abc import Collection, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from memsvc.core.errors import Code, conflict, not_found
from memsvc.core.frozen import frozen
from memsvc.store.database import Database, Row, Tx, columns_of
from memsvc.store.jobs import OF_SUBJECT, Ref, status_of
from memsvc.store.queue import LOG, QUEUE, statements

_JOB_MAX = 2**63 - 1


class JobState(StrEnum):
    """State of a queued job: waiting for its first or next attempt, running, or failed for good."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"


_STATUS = {JobState.WAITING: "queued", JobState.RUNNING: "picked", JobState.FAILED: "failed"}
_STATE = {status: state for state, status in _STATUS.items()}


@frozen
class QueuedJob:
    """Job as its tenant and operators see it: its failed attempts, and the last one's code."""

    ref: Ref
    state: JobState
    failures: int
    code: Code | None
    queued_at: datetime


@frozen
class Backlog:
    """Number of jobs that wait and have failed, by name.

    `oldest_s` is how long the oldest runnable one has waited.
    """

    waiting: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    oldest_s: dict[str, float] = field(default_factory=dict)


_SELECT = f"""
    SELECT q.id, q.entrypoint, q.status::text AS status, q.created, q.headers, tried.failures,
        tried.code
    FROM {QUEUE} AS q CROSS JOIN LATERAL (
        SELECT count(*) AS failures,
               (array_agg(l.traceback ->> 'exception_message' ORDER BY l.id DESC))[1] AS code
        FROM {LOG} AS l WHERE l.job_id = q.id AND l.traceback ->> 'exception_message' = ANY ($1)
    ) AS tried
"""


def _queued(row: Row) -> QueuedJob:
    return QueuedJob(
        ref=Ref.read(row["id"], row["entrypoint"], row["headers"]),
        state=_STATE[row["status"]],
        failures=row["failures"],
        code=None if row["code"] is None else Code(row["code"]),
        queued_at=row["created"],
    )


async def list_jobs(
    database: Database,
    tenant: bytes | None = None,
    *,
    projects: Collection[str] | None = None,
    state: JobState | None = None,
    limit: int,
) -> list[QueuedJob]:
    """Return the jobs of a tenant, or of all, newest first.

    They can be limited to some projects or one state.
    """
    filters = [
        ("q.status::text = ANY ({})", [_STATUS[state]] if state else list(_STATE)),
        ("q.headers ->> 'tenant' = {}", None if tenant is None else tenant.hex()),
        ("q.headers ->> 'project' = ANY ({})", None if projects is None else list(projects)),
    ]
    set_filters = [(condition, value) for condition, value in filters if value is not None]
    where = " AND ".join(
        condition.format(f"${number}") for number, (condition, _) in enumerate(set_filters, 3)
    )
    rows = await database.registry(
        f"{_SELECT} WHERE {where} ORDER BY q.id DESC LIMIT $2",
        list(Code),
        limit,
        *(value for _, value in set_filters),
    )
    return [_queued(row) for row in rows]


async def count_jobs(
    database: Database, tenant: bytes, *, projects: Collection[str] | None = None
) -> dict[JobState, int]:
    """Return the number of a tenant's jobs in each state.

    With `projects`, of these alone.
    """
    rows = await database.registry(
        f"""
        SELECT status::text AS status, count(*) AS jobs FROM {QUEUE}
        WHERE headers ->> 'tenant' = $1 AND ($2::text[] IS NULL OR headers ->> 'project' = ANY ($2))
            GROUP BY status
        """,
        tenant.hex(),
        None if projects is None else list(projects),
    )
    counted = {row["status"]: row["jobs"] for row in rows}
    return {state: counted.get(status, 0) for state, status in _STATUS.items()}


async def _find(
    database: Database, job: int, tenant: bytes | None, projects: Collection[str] | None
) -> Ref:
    rows = (
        await database.registry(f"SELECT id, entrypoint, headers FROM {QUEUE} WHERE id = $1", job)
        if 0 <= job <= _JOB_MAX
        else []
    )
    for row in rows:
        ref = Ref.read(row["id"], row["entrypoint"], row["headers"])
        if tenant in (None, ref.scope.tenant) and (
            projects is None or ref.scope.project in projects
        ):
            return ref
    raise not_found("the job does not exist", recovery="list the jobs with `memsvc jobs list`")


async def retry(
    database: Database,
    job: int,
    now: datetime,
    *,
    tenant: bytes | None = None,
    projects: Collection[str] | None = None,
) -> Ref:
    """Let a job that failed for good be tried again, as if it had never failed.

    NOT_FOUND when there is none, or not of this tenant and these projects; CONFLICT when it has not
    failed.
    """
    ref = await _find(database, job, tenant, projects)
    async with database.begin(ref.scope) as tx:
        await tx.execute(
            """
            INSERT INTO job_refs (tenant, project, name, subject, started, job, queued_at)
            VALUES ($1, $2, $3, $4, true, $5, $6) ON CONFLICT DO NOTHING
            """,
            ref.name,
            ref.subject,
            job,
            now,
        )
        if await status_of(tx, job) != "failed":
            raise conflict("only a failed job can be retried")
        await tx.unbound(statements().build_requeue_jobs_query(), [job])
    return ref


async def drop(
    database: Database,
    job: int,
    *,
    tenant: bytes | None = None,
    projects: Collection[str] | None = None,
) -> Ref:
    """Remove a job that waits or has failed from the queue, so that it will not run.

    A later write queues another one. NOT_FOUND as `retry`; CONFLICT while it runs.
    """
    ref = await _find(database, job, tenant, projects)
    async with database.begin(ref.scope) as tx:
        await tx.fetch(f"SELECT FROM job_refs WHERE {OF_SUBJECT} FOR UPDATE", ref.name, ref.subject)
        status = await status_of(tx, job)
        if status == "picked":
            raise conflict("the job is running", recovery="wait until it has ended")
        await tx.unbound(f"DELETE FROM {QUEUE} WHERE id = $1", job)
        removed = await tx.execute(
            f"DELETE FROM job_refs WHERE {OF_SUBJECT} AND started AND job = $5",
            ref.name,
            ref.subject,
            job,
        )
        if not removed and status == "queued" and not await _has_other_queued(tx, ref):
            await tx.execute(
                f"DELETE FROM job_refs WHERE {OF_SUBJECT} AND NOT started", ref.name, ref.subject
            )
    return ref


async def _has_other_queued(tx: Tx, ref: Ref) -> bool:
    rows = await tx.unbound(
        f"""
        SELECT FROM {QUEUE} WHERE headers ->> 'tenant' = $1 AND headers ->> 'project' = $2
        AND headers ->> 'subject' = $3 AND entrypoint = $4 AND status = 'queued' AND id <> $5
            LIMIT 1
        """,
        ref.scope.tenant.hex(),
        ref.scope.project,
        ref.subject,
        ref.name,
        ref.job,
    )
    return bool(rows)


_OF_SCOPE = "headers ->> 'tenant' = $1 AND ($2::text IS NULL OR headers ->> 'project' = $2)"


def _scope_of(tx: Tx) -> tuple[str, str | None]:
    return tx.scope.tenant.hex(), tx.scope.project if tx.bound > 1 else None


async def forget_all(tx: Tx) -> int:
    """Remove every job of a project, or tenant, and the times of its sweeps; return how many jobs.

    A running job is not stopped.
    """
    of_project = " AND project = $2" if tx.bound > 1 else ""
    await tx.execute(f"DELETE FROM job_refs WHERE tenant = $1{of_project}")
    return len(
        await tx.unbound(f"DELETE FROM {QUEUE} WHERE {_OF_SCOPE} RETURNING id", *_scope_of(tx))
    )


async def queued(tx: Tx) -> int:
    """Return the number of jobs of the tenant, or of one of its projects, in the queue."""
    (row,) = await tx.unbound(
        f"SELECT count(*) AS jobs FROM {QUEUE} WHERE {_OF_SCOPE}", *_scope_of(tx)
    )
    return int(row["jobs"])


async def forget_jobs(
    tx: Tx, jobs: Sequence[tuple[str, str]], *, dry_run: bool = False
) -> tuple[int, int]:
    """Remove the jobs of a project with these names and subjects; return how many.

    The result counts rows that reference them, and jobs. With `dry_run` nothing is removed. A
    running job is not stopped.
    """
    names, targets = columns_of(jobs, 2)
    statement = "SELECT count(*) AS rows" if dry_run else "DELETE"
    matching = "(SELECT * FROM unnest({0}::text[], {1}::text[]))"
    deleted_refs = await tx.fetch(
        f"{statement} FROM job_refs WHERE tenant = $1 AND project = $2 AND (name, subject) IN"
        f" {matching.format('$3', '$4')}" + ("" if dry_run else " RETURNING 1"),
        names,
        targets,
    )
    deleted_jobs = await tx.unbound(
        f"{statement} FROM {QUEUE} WHERE headers ->> 'tenant' = $1 AND headers ->> 'project' = $2"
        f" AND (entrypoint, headers ->> 'subject') IN {matching.format('$3', '$4')}"
        + ("" if dry_run else " RETURNING 1"),
        tx.scope.tenant.hex(),
        tx.scope.project,
        names,
        targets,
    )
    return (
        (deleted_refs[0]["rows"], deleted_jobs[0]["rows"])
        if dry_run
        else (len(deleted_refs), len(deleted_jobs))
    )


async def read_backlog(database: Database, now: datetime) -> Backlog:
    """Return the state of the queue, over all tenants."""
    rows = await database.registry(
        f"""
        SELECT entrypoint AS name, count(*) FILTER (WHERE status = 'queued') AS waiting,
               count(*) FILTER (WHERE status = 'failed') AS failed,
               min(execute_after) FILTER (WHERE status = 'queued') AS since
        FROM {QUEUE} GROUP BY entrypoint ORDER BY entrypoint
        """
    )
    return Backlog(
        waiting={row["name"]: row["waiting"] for row in rows if row["waiting"]},
        failed={row["name"]: row["failed"] for row in rows if row["failed"]},
        oldest_s={
            row["name"]: max(0.0, (now - row["since"]).total_seconds())
            for row in rows
            if row["since"]
        },
    )


async def prune_log(database: Database, before: datetime) -> None:
    """Remove the queue's log of jobs that ended before this time."""
    await database.registry(
        f"DELETE FROM {LOG} AS l WHERE created < $1 AND NOT EXISTS (SELECT FROM {QUEUE} AS q"
        " WHERE q.id = l.job_id)",
        before,
    )
