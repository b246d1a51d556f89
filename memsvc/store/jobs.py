"""Jobs from the write that needs them to the end of their run.

One waits for each subject, one runs. A row of `job_refs` stands for each job that waits or was
started. A waiting job is claimed in a transaction of its own before anything is read, so that every
write is either seen by the job that waited for it or queues another one.
"""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

import asyncpg

from memsvc.core.call_context import current_call
from memsvc.core.errors import Code
from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope
from memsvc.store.database import Database, Tx
from memsvc.store.queue import LOG, QUEUE, statements

SWEEP = "sweep:"
"""Prefix of the name of a job with `every_s`: its `job_refs` row keeps when it was last queued for
a project."""

OF_SUBJECT = "tenant = $1 AND project = $2 AND name = $3 AND subject = $4"


@frozen
class Ref:
    """Reference to a job of the queue: its number, name, scope and subject.

    `request` and `traceparent` are the request that queued it, and its trace; "" where that is not
    known.
    """

    job: int
    name: str
    scope: Scope
    subject: str
    request: str = ""
    traceparent: str = ""

    @classmethod
    def read(cls, job: int, name: str, headers: Mapping[str, object] | None) -> "Ref":
        """Return the reference that the queue's row holds."""
        values = headers or {}
        scope = Scope(bytes.fromhex(str(values["tenant"])), str(values["project"]))
        origin = [str(values.get(key, "")) for key in ("request", "traceparent")]
        return cls(job, name, scope, str(values["subject"]), *origin)


class Claim(Enum):
    """Decision about a job that a worker received: run it, come back for it, or leave it."""

    RUN = auto()
    LOCKED = auto()
    NOTHING_LEFT = auto()


async def enqueue(tx: Tx, name: str, subject: str, *, now: datetime, delay_s: float = 0.0) -> None:
    """Queue a job that runs after this transaction commits: one round trip when it already waits.

    Of several writers one queues it; the others lock its row until they end, so that the job sees
    what they wrote. Call it last in a transaction, and for several jobs in one order, for the same
    reason. The subject is an identifier, never content. Where the job already waits, `delay_s`
    changes nothing.
    """
    token = -1 - secrets.randbits(
        62
    )  # the job has no number yet, and this tells our row from another writer's
    waiting = await tx.fetchval(
        """
        INSERT INTO job_refs AS r (tenant, project, name, subject, started, job, queued_at)
        VALUES ($1, $2, $3, $4, false, $5, $6)
        ON CONFLICT (tenant, project, name, subject, started) DO UPDATE SET queued_at = r.queued_at
        RETURNING job
        """,
        name,
        subject,
        token,
        now,
    )
    if waiting == token:
        headers = {
            "tenant": tx.scope.tenant.hex(),
            "project": tx.scope.project,
            "subject": subject,
        } | _origin()
        delay = timedelta(seconds=delay_s)
        await tx.unbound(
            statements().build_enqueue_query(), [0], [name], [None], [delay], [None], [headers]
        )


def _origin() -> dict[str, str]:
    """Return the request that queues a job, and its trace, as far as they are known."""
    call = current_call()
    known = {"request": call.request_id, "traceparent": call.tracer.traceparent()}
    return {key: value for key, value in known.items() if value}


async def claim(database: Database, ref: Ref) -> Claim:
    """Begin a job, in a transaction that is committed before the job reads anything.

    BUSY while another job of its name and subject runs, on whichever worker. A job that was started
    before goes on, and one that failed for good or is gone is replaced. NOTHING_LEFT when another
    job does or did what this one was for.
    """
    try:
        async with database.begin(ref.scope) as tx:
            return await _claim(tx, ref)
    except asyncpg.UniqueViolationError:  # another one was begun between two of our statements
        return Claim.LOCKED


async def status_of(tx: Tx, job: int) -> str | None:
    """Return the status of a job in the queue, whose row it locks; None without one."""
    rows = await tx.unbound(
        f"SELECT status::text AS status FROM {QUEUE} WHERE id = $1 FOR UPDATE", job
    )
    return rows[0]["status"] if rows else None


async def _claim(tx: Tx, ref: Ref) -> Claim:
    running_job = await tx.fetchval(
        f"SELECT job FROM job_refs WHERE {OF_SUBJECT} AND started FOR UPDATE",
        ref.name,
        ref.subject,
    )
    if running_job == ref.job:
        return Claim.RUN
    status = None if running_job is None else await status_of(tx, running_job)
    if status == "picked":
        is_queued = await tx.fetchval(
            f"SELECT true FROM job_refs WHERE {OF_SUBJECT} AND NOT started", ref.name, ref.subject
        )
        return Claim.LOCKED if is_queued else Claim.NOTHING_LEFT
    queued_at = await tx.fetchval(
        f"DELETE FROM job_refs WHERE {OF_SUBJECT} AND NOT started RETURNING queued_at",
        ref.name,
        ref.subject,
    )
    if (
        queued_at is None or status == "queued"
    ):  # the one that waits to be tried again will see what this one was for
        return Claim.NOTHING_LEFT
    if running_job is not None:
        await tx.execute(
            f"DELETE FROM job_refs WHERE {OF_SUBJECT} AND started", ref.name, ref.subject
        )
        await tx.unbound(f"DELETE FROM {QUEUE} WHERE id = $1", running_job)
    await tx.execute(
        "INSERT INTO job_refs (tenant, project, name, subject, started, job, queued_at)"
        " VALUES ($1, $2, $3, $4, true, $5, $6)",
        ref.name,
        ref.subject,
        ref.job,
        queued_at,
    )
    return Claim.RUN


async def finish(database: Database, ref: Ref) -> None:
    """Let the next job of this name and subject run."""
    async with database.begin(ref.scope) as tx:
        await tx.execute(
            f"DELETE FROM job_refs WHERE {OF_SUBJECT} AND started AND job = $5",
            ref.name,
            ref.subject,
            ref.job,
        )


async def failures(database: Database, ref: Ref) -> Counter[Code]:
    """Return the failures of a job since it was queued or retried by somebody, by error code."""
    rows = await database.registry(
        f"""
        SELECT traceback ->> 'exception_message' AS code, count(*) AS times FROM {LOG}
        WHERE job_id = $1 AND traceback ->> 'exception_message' = ANY ($2)
        AND id > coalesce((SELECT max(id) FROM {LOG} WHERE job_id = $1 AND status = 'failed'), 0)
        GROUP BY 1
        """,
        ref.job,
        list(Code),
    )
    return Counter({Code(row["code"]): row["times"] for row in rows})


@frozen
class SweepSchedule:
    """Regular jobs of a tenant that are due, as (project, name), and when the next one is.

    `next_s` is in seconds, None where none is to come of those that ran before.
    """

    pending: Sequence[tuple[str, str]]
    next_s: float | None


async def pending_jobs(tx: Tx, intervals_s: Mapping[str, int], now: datetime) -> SweepSchedule:
    """Return which regular jobs are due in which projects of a tenant.

    Takes a transaction of the whole tenant. A project exists as soon as it has a file.
    """
    found = await tx.fetch(
        """
        WITH RECURSIVE found (project) AS (
            (SELECT project FROM files WHERE tenant = $1 ORDER BY project LIMIT 1)
            UNION ALL
            SELECT (SELECT project FROM files WHERE tenant = $1 AND project > found.project
                ORDER BY project LIMIT 1)
            FROM found WHERE found.project IS NOT NULL
        )
        SELECT project FROM found WHERE project IS NOT NULL
        """
    )
    rows = await tx.fetch(
        """
        WITH swept AS (
            SELECT found.project, sweep.name, extract(epoch
                FROM r.queued_at - sweep.before)::float8 AS left_s
            FROM unnest($5::text[]) AS found (project)
            CROSS JOIN unnest($2::text[], $3::timestamptz[]) AS sweep (name, before)
            LEFT JOIN job_refs AS r ON r.tenant = $1 AND r.project = found.project
                AND r.name = $4 || sweep.name
                AND r.subject = '' AND NOT r.started
        )
        SELECT project, name, NULL AS left_s FROM swept WHERE left_s IS NULL OR left_s <= 0
        UNION ALL SELECT NULL, NULL, min(left_s) FROM swept WHERE left_s > 0
        ORDER BY project, name
        """,
        list(intervals_s),
        [now - timedelta(seconds=seconds) for seconds in intervals_s.values()],
        SWEEP,
        [row["project"] for row in found],
    )
    pending = [(row["project"], row["name"]) for row in rows if row["project"] is not None]
    return SweepSchedule(pending, next(row["left_s"] for row in rows if row["project"] is None))


async def enqueue_sweep(tx: Tx, name: str, *, interval_s: int, now: datetime) -> bool:
    """Queue a regular job for a project if it is due; of several workers at once, one does."""
    is_pending = await tx.fetchval(
        """
        INSERT INTO job_refs AS r (tenant, project, name, subject, started, job, queued_at)
        VALUES ($1, $2, $3, '', false, 0, $4)
        ON CONFLICT (tenant, project, name, subject, started) DO UPDATE
            SET queued_at = excluded.queued_at
        WHERE r.queued_at <= $5
        RETURNING true
        """,
        SWEEP + name,
        now,
        now - timedelta(seconds=interval_s),
    )
    if is_pending:
        await enqueue(tx, name, "", now=now)
    return bool(is_pending)
