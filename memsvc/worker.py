"""The worker: runs queued jobs, retries those that fail, and keeps those that fail for good."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from time import perf_counter

import structlog
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.domain.models import Job as Picked
from pydantic import Field

from memsvc.core.background import wait_for_event
from memsvc.core.call_context import NO_TRACER, TimeSliceError, Tracer, call_scope
from memsvc.core.errors import RETRYABLE, Code, ExclusiveLockError, MemsvcError
from memsvc.core.options import Options
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tools import Job
from memsvc.store import jobs, mcp_sessions, queue
from memsvc.store.backlog import Backlog, prune_log, read_backlog
from memsvc.store.database import Database
from memsvc.store.jobs import Claim, Ref
from memsvc.store.usage import IndexSize, read_index_size

log = structlog.get_logger("memsvc.worker")

HEARTBEAT_S_MAX = 60.0
# until a job is picked again that another worker runs, or whose slice ended
LOCKED_RETRY_S, SLICE_PAUSE_S = 1.0, 0.5
RECONNECT_S_MAX = 30.0
PRUNE_INTERVAL_S = 3600.0
LOCKED, RETURNED, SLICE_OVER = "busy", "handed back", "slice over"


class WorkerOptions(Options):
    """Options of the worker, which runs background jobs."""

    enabled: bool = Field(
        True,
        description="whether `memsvc serve` also runs jobs; if false, run `memsvc worker` as well",
    )
    concurrency: int = Field(
        4, ge=2, le=100, description="maximum number of jobs that one worker runs at once"
    )
    slice_s: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="time after which a long job pauses so that waiting jobs can run",
    )
    lease_s: float = Field(
        25.0,
        ge=1,
        le=3600,
        description="time after which another worker takes over the job of a dead worker",
    )
    poll_s: float = Field(
        5.0,
        gt=0,
        le=300,
        description="interval at which the worker looks for new jobs in the queue if no"
        " notification arrives",
    )
    retry_s_max: float = Field(
        60.0, gt=0, le=3600, description="longest delay between two attempts of a job"
    )
    sample_s: float = Field(
        15.0,
        gt=0,
        le=3600,
        description="interval at which waiting jobs are counted for the metrics",
    )
    sweep_s: float = Field(
        60.0,
        gt=0,
        le=86400,
        description="interval at which projects are checked for due maintenance jobs",
    )
    port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port where `memsvc worker` serves /healthz, /readyz and /metrics; 0: no port",
    )
    keep_log_days: float = Field(
        7.0, gt=0, le=3650, description="number of days for which the log of finished jobs is kept"
    )


def _log_fields(ref: Ref) -> dict[str, object]:
    """Return the fields of a job that each of its log lines carries."""
    return {"job_id": ref.job} | ({"request_id": ref.request} if ref.request else {})


class JobFailedError(Exception):
    """Error code of a job that failed for good, and nothing else, for the queue."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.value)


class Worker:
    """Runs jobs until it is stopped, over its own connection, which it reopens when it is lost.

    A job runs at least once, and not beside another of its name and subject. When its slice of time
    is over, it is put back between two of its steps, and one tenant has at most three quarters of
    the slots. A retryable error is retried for ever, any other one until `attempts_max`; then the
    job stays in the queue as failed. Neither the queue nor the log gets anything of an error but
    its code. A regular job is queued when its last time, which the database keeps, is long enough
    ago: neither restarts nor several workers change its interval. A tenant is checked when the next
    of its regular jobs is due, so that a new project waits for its first one no longer than for any
    other.
    """

    def __init__(
        self,
        url: str,
        database: Database,
        published: Sequence[Job],
        clock: Clock,
        meter: Meter,
        options: WorkerOptions,
        *,
        grace_s: float = 25.0,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._url = url
        self._database = database
        self._jobs = published
        self._clock = clock
        self._meter = meter
        self._options = options
        self._grace_s = grace_s
        self._tracer = tracer
        self._last_event_at = clock.now()
        self._running = False
        self._stop_event = asyncio.Event()
        self._manager: QueueManager | None = None
        self._attempts: set[asyncio.Task[Claim]] = set()
        self._returned: set[asyncio.Task[Claim]] = set()
        self._check_at: dict[bytes, datetime] = {}
        # slots kept for others when one tenant has all the rest
        self._for_others = max(1, options.concurrency // 4)
        self.backlog = Backlog()
        self.index_size = IndexSize()

    async def alive(self) -> bool:
        """Return whether it is running and has heard from the queue within the last minute."""
        return self._running and self._clock.now() - self._last_event_at < timedelta(
            seconds=HEARTBEAT_S_MAX
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the background; at the end, stop and wait for pending jobs."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            self.stop()
            await task

    def stop(self) -> None:
        """Take no more jobs; return pending ones to the queue after the grace period."""
        if not self._stop_event.is_set():
            self._stop_event.set()
            asyncio.get_running_loop().call_later(self._grace_s, self._return_jobs)
            if self._manager is not None:
                self._manager.shutdown.set()

    async def run(self) -> None:
        """Work until `stop`."""
        self._running, self._last_event_at = True, self._clock.now()
        regular = ((self._options.sample_s, self._sample), (PRUNE_INTERVAL_S, self._prune))
        tasks = [asyncio.create_task(self._repeat(interval_s, do)) for interval_s, do in regular]
        if any(job.interval_s for job in self._jobs):
            tasks.append(asyncio.create_task(self._repeat(self._options.sweep_s, self._sweep)))
        try:
            await self._run_until_stopped()
        finally:
            self._running = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_until_stopped(self) -> None:
        pause_s = 0.5
        while not self._stop_event.is_set():
            started_at = self._last_event_at
            try:
                tenant_slots, use_prepared = (
                    self._options.concurrency - self._for_others,
                    self._database.prepared,
                )
                async with queue.connected(
                    self._url,
                    use_prepared=use_prepared,
                    tenant_jobs_max=tenant_slots,
                    on_answer=self._record_event,
                    on_lost=self._return_jobs,
                ) as queries:
                    await self._work(queries)
            except Exception as error:  # noqa: BLE001 - whatever ended the work, it starts again
                log.warning(
                    "the worker lost its connection to the job queue in the database",
                    error=type(error).__name__,
                )
            pause_s = (
                0.5 if self._last_event_at != started_at else min(pause_s * 2, RECONNECT_S_MAX)
            )
            await wait_for_event(self._stop_event, pause_s)

    async def _work(self, queries: Queries) -> None:
        options = self._options
        manager = QueueManager(queries, channel=queue.names().channel)
        for job in self._jobs:
            manager.entrypoint(job.name, accepts_context=False, on_failure="hold")(
                partial(self._perform, job)
            )
        self._manager = manager
        if self._stop_event.is_set():
            return
        await manager.run(
            dequeue_timeout=timedelta(seconds=options.poll_s),
            batch_size=self._for_others,
            max_concurrent_tasks=options.concurrency,
            shutdown_on_listener_failure=True,
            heartbeat_timeout=timedelta(seconds=options.lease_s),
            log_aggregation_interval=timedelta(0),
        )

    def _record_event(self) -> None:
        self._last_event_at = self._clock.now()

    def _return_jobs(self) -> None:
        for attempt in self._attempts:
            self._returned.add(attempt)
            attempt.cancel()

    async def _perform(self, job: Job, picked: Picked) -> None:
        """Run one attempt in its own task, so that only what this raises reaches the queue."""
        ref = Ref.read(picked.id, job.name, picked.headers)
        with structlog.contextvars.bound_contextvars(**_log_fields(ref)):
            await self._run_attempt(job, ref, picked.attempts)

    async def _run_attempt(self, job: Job, ref: Ref, attempts: int) -> None:
        attempt = asyncio.create_task(self._attempt(job, ref))
        self._attempts.add(attempt)
        try:
            await asyncio.wait({attempt})
        # the process must end at once; the queue would take it for a job's end
        except asyncio.CancelledError:
            raise RetryRequested(timedelta(0), RETURNED) from None
        finally:
            attempt.cancel()
            returned = attempt in self._returned
            self._attempts.discard(attempt)
            self._returned.discard(attempt)
        if attempt.cancelled() and returned:
            raise RetryRequested(timedelta(0), RETURNED)
        error = asyncio.CancelledError() if attempt.cancelled() else attempt.exception()
        if error is not None:
            raise await self._outcome(job, ref, attempts, error)
        if attempt.result() is Claim.LOCKED:
            raise RetryRequested(timedelta(seconds=LOCKED_RETRY_S), LOCKED)

    async def _attempt(self, job: Job, ref: Ref) -> Claim:
        claimed = await jobs.claim(self._database, ref)
        if claimed is Claim.RUN:
            attributes = {"request_id": ref.request} if ref.request else {}
            with (
                self._tracer.span("job", job.name, attributes, linked=ref.traceparent),
                call_scope(
                    ref.request, self._tracer, ref.scope.tenant, slice_s=self._options.slice_s
                ),
            ):
                await self._run(job, ref)
        return claimed

    async def _run(self, job: Job, ref: Ref) -> None:
        started = perf_counter()
        try:
            await job.run(ref.scope, ref.subject)
        finally:
            self._meter.add(
                "memsvc_job_duration_ms", (perf_counter() - started) * 1000, job=job.name
            )
        await jobs.finish(self._database, ref)
        self._meter.add("memsvc_job_runs_total", job=job.name, status="success")

    async def _outcome(
        self, job: Job, ref: Ref, attempts: int, error: BaseException
    ) -> RetryRequested | JobFailedError:
        """Return what the queue gets for a failed attempt: a retry, or a final failure."""
        if isinstance(error, TimeSliceError):
            return RetryRequested(timedelta(seconds=SLICE_PAUSE_S), SLICE_OVER)
        code = error.code if isinstance(error, MemsvcError) else Code.INTERNAL_ERROR
        try:
            failures = await jobs.failures(self._database, ref)
        except MemsvcError:  # the database is away, and so are its records of earlier attempts
            failures = Counter({Code.UNAVAILABLE: attempts})
        permanent = 1 + sum(
            times for failed_code, times in failures.items() if failed_code not in RETRYABLE
        )
        fields = {"job": job.name, "project": ref.scope.project, "code": code.value}
        if code not in RETRYABLE and permanent >= job.attempts_max:
            log.error("a job failed permanently", **fields, exc_info=error)
            self._meter.add("memsvc_job_runs_total", job=job.name, status="failed")
            return JobFailedError(code)
        log.warning("a job will be retried", **fields, exc_info=error)
        self._meter.add("memsvc_job_runs_total", job=job.name, status="retried")
        wait_s = min(2.0 ** min(failures.total(), 30), self._options.retry_s_max)
        return RetryRequested(timedelta(seconds=wait_s * random.uniform(0.75, 1.0)), code.value)  # noqa: S311

    async def _repeat(self, interval_s: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await do()
            except MemsvcError as error:
                log.warning(
                    "a regular task of the worker failed (counting waiting jobs, queueing"
                    " due jobs or cleaning up); it will be repeated",
                    code=error.code.value,
                )
            except Exception as error:  # a fault in one round must not end all later ones
                log.error(
                    "a regular task of the worker failed (counting waiting jobs, queueing"
                    " due jobs or cleaning up); it will be repeated",
                    exc_info=error,
                )
            await asyncio.sleep(interval_s)

    async def _sample(self) -> None:
        self.backlog = await read_backlog(self._database, self._clock.now())
        self.index_size = await read_index_size(self._database)

    async def _prune(self) -> None:
        await prune_log(
            self._database, self._clock.now() - timedelta(days=self._options.keep_log_days)
        )

    async def _sweep(self) -> None:
        intervals = {job.name: job.interval_s for job in self._jobs if job.interval_s}
        tenants = {
            row["tenant"] for row in await self._database.registry("SELECT tenant FROM tenants")
        }
        self._check_at = {tenant: at for tenant, at in self._check_at.items() if tenant in tenants}
        for tenant in tenants:
            now = self._clock.now()
            if now < self._check_at.get(tenant, now):
                continue
            async with self._database.begin_tenant(
                Scope(tenant, ALL_PROJECTS), read_only=True
            ) as tx:
                schedule = await jobs.pending_jobs(tx, intervals, now)
            await self._remove_expired(tenant, now)
            failed = [
                project
                for project, pending in groupby(schedule.pending, key=itemgetter(0))
                if not await self._enqueue_jobs(
                    Scope(tenant, project), {name: intervals[name] for _, name in pending}
                )
            ]
            min_interval_s = min(intervals.values())
            next_s = (
                min_interval_s if schedule.next_s is None else min(schedule.next_s, min_interval_s)
            )
            self._check_at[tenant] = now + timedelta(seconds=0 if failed else next_s)

    async def _remove_expired(self, tenant: bytes, now: datetime) -> None:
        """Remove what clients left that went without a word; a purge removes it anyway."""
        with suppress(ExclusiveLockError):
            async with self._database.begin_tenant(Scope(tenant, ALL_PROJECTS)) as tx:
                await mcp_sessions.remove_expired(tx, now)

    async def _enqueue_jobs(self, scope: Scope, intervals: dict[str, int]) -> bool:
        """Queue a project's regular jobs; False while it is being purged or restored.

        No other tenant waits for it.
        """
        try:
            async with self._database.begin(scope) as tx:
                for name, interval_s in intervals.items():
                    await jobs.enqueue_sweep(tx, name, interval_s=interval_s, now=self._clock.now())
        except ExclusiveLockError:
            return False
        return True
