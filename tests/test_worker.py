"""A worker runs what was queued, tries again what fails, and tells nobody what a failure was
about."""

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.core.call_context import NO_TRACER, TimeSliceError, call_scope, step_done
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tools import Job
from memsvc.store import backlog, jobs, mcp_sessions
from memsvc.store.backlog import JobState, QueuedJob
from memsvc.store.database import Database
from memsvc.store.keys import remember_tenant
from memsvc.worker import Worker, WorkerOptions
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls, Relay
from tests.waiting import PATIENCE_S, until

CANARY = "canary-4c1d77"
QUICK = WorkerOptions(poll_s=0.2, lease_s=1.0, retry_s_max=0.05, sample_s=0.05, sweep_s=0.05)
clock = SystemClock()


class Runs:
    """A job's function: keeps what it was run for, and does with each attempt what it is told
    to."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.of: list[tuple[Scope, str]] = []
        self.outcomes = list(outcomes)
        self._changed = asyncio.Condition()

    async def __call__(self, scope: Scope, subject: str) -> None:
        async with self._changed:
            self.of.append((scope, subject))
            self._changed.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: len(self.of) >= count)


Working = Callable[..., Any]


@pytest.fixture
def working(database: Database, database_urls: DatabaseUrls, meter: RecordingMeter) -> Working:
    """Runs a worker: `async with working(job, ...) as worker`."""

    @asynccontextmanager
    async def run(
        *published: Job, url: str = database_urls.app, **changes: Any
    ) -> AsyncIterator[Worker]:
        options = QUICK.model_copy(update=changes.pop("options", {}))
        worker = Worker(url, database, published, clock, meter, options, **changes)
        async with worker.running():
            yield worker

    return run


async def write(
    database: Database, scope: Scope, subject: str, name: str = "tidy", delay_s: float = 0.0
) -> None:
    async with database.begin(scope) as tx:
        await jobs.enqueue(tx, name, subject, now=clock.now(), delay_s=delay_s)


async def shows(database: Database, holds: Callable[[list[QueuedJob]], bool]) -> list[QueuedJob]:
    """What is in the queue as soon as this holds of it."""
    found: list[QueuedJob] = []

    async def held() -> bool:
        found[:] = await backlog.list_jobs(database, limit=1000)
        return holds(found)

    await until(held)
    return found


def empty(found: list[QueuedJob]) -> bool:
    return not found


def failed(found: list[QueuedJob]) -> bool:
    return bool(found) and all(job.state is JobState.FAILED for job in found)


async def test_a_job_is_run_with_its_scope_and_subject_and_is_gone(
    database: Database,
    scope: Scope,
    working: Working,
    meter: RecordingMeter,
    admin: asyncpg.Connection,
) -> None:
    runs = Runs()
    async with working(Job("tidy", runs)) as worker:
        await write(database, scope, "a")
        await runs.reach(1)
        assert await shows(database, empty) == []
        assert await worker.alive()
    assert runs.of == [(scope, "a")]
    assert await admin.fetchval("SELECT count(*) FROM job_refs") == 0
    assert meter.total("memsvc_job_runs_total", job="tidy", status="success") == 1
    assert len(meter.amounts["memsvc_job_duration_ms"]) == 1
    assert not await worker.alive()


async def test_a_job_is_not_run_before_its_time(
    database: Database, scope: Scope, working: Working
) -> None:
    runs = Runs()
    await write(database, scope, "later", delay_s=3600)
    await write(database, scope, "soon", delay_s=0.3)
    async with working(Job("tidy", runs)):
        await runs.reach(1)
        assert [
            job.ref.subject for job in await shows(database, lambda found: len(found) == 1)
        ] == ["later"]
    assert runs.of == [(scope, "soon")]


async def test_an_error_that_may_pass_is_tried_again_however_often(
    database: Database, scope: Scope, working: Working, meter: RecordingMeter
) -> None:
    runs = Runs(
        *[
            MemsvcError(code, "away")
            for code in (Code.UNAVAILABLE, Code.RESOURCE_BUSY, Code.RATE_LIMITED) * 3
        ]
    )
    await write(database, scope, "a")
    async with working(Job("tidy", runs, attempts_max=2)):
        await runs.reach(10)
        await shows(database, empty)
    assert meter.total("memsvc_job_runs_total", status="retried") == 9
    assert meter.total("memsvc_job_runs_total", status="failed") == 0


async def test_the_wait_between_attempts_doubles_up_to_its_limit(
    database: Database, scope: Scope, working: Working, admin: asyncpg.Connection
) -> None:
    runs = Runs(*[MemsvcError(Code.UNAVAILABLE, "away")] * 5)
    await write(database, scope, "a")
    async with working(Job("tidy", runs), options={"retry_s_max": 4.0}):
        for attempt in range(1, 6):
            await runs.reach(attempt)
            await shows(database, lambda found: bool(found) and found[0].state is JobState.WAITING)
            await admin.execute("UPDATE memsvc_queue SET execute_after = now()")
        await runs.reach(6)
    waits = await admin.fetch(
        "SELECT traceback #>> '{additional_context,retry_delay}' FROM memsvc_queue_log WHERE"
        " traceback IS NOT NULL ORDER BY id"
    )
    seconds = [float(row[0].rpartition(":")[2]) for row in waits]
    for waited, wanted in zip(seconds, (1, 2, 4, 4, 4), strict=True):
        assert 0.75 * wanted <= waited <= wanted


async def test_a_job_that_fails_for_good_stays_visible_and_can_be_tried_again_or_dropped(
    database: Database, scope: Scope, working: Working, meter: RecordingMeter
) -> None:
    runs = Runs(
        *[MemsvcError(Code.INVALID_CONTENT, "odd")] * 2,
        MemsvcError(Code.UNAVAILABLE, "away"),
        *[KeyError()] * 3,
    )
    await write(database, scope, "a")
    async with working(Job("tidy", runs, attempts_max=2)) as worker:
        [job] = await shows(database, failed)
        assert (job.failures, job.code, job.ref.subject) == (2, Code.INVALID_CONTENT, "a")
        assert len(runs.of) == 2

        async def counted() -> bool:
            return worker.backlog.failed == {"tidy": 1}

        await until(counted)
        await backlog.retry(database, job.ref.job, clock.now())
        await runs.reach(5)  # one that may pass, and two more that count
        [job] = await shows(database, failed)
        assert job.code is Code.INTERNAL_ERROR
        await backlog.drop(database, job.ref.job)
        await write(database, scope, "a")
        await runs.reach(7)
        await shows(database, empty)
    assert meter.total("memsvc_job_runs_total", status="failed") == 2


async def test_a_newer_job_takes_the_place_of_a_failed_one(
    database: Database, scope: Scope, working: Working
) -> None:
    runs = Runs(KeyError())
    await write(database, scope, "a")
    async with working(Job("tidy", runs, attempts_max=1)):
        await shows(database, failed)
        await write(database, scope, "a")
        await runs.reach(2)
        await shows(database, empty)


async def test_nothing_of_an_error_but_its_code_is_stored_or_logged(
    database: Database,
    scope: Scope,
    working: Working,
    admin: asyncpg.Connection,
    log_lines: io.BytesIO,
) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as cause:
        first = MemsvcError(Code.UNAVAILABLE, f"away {CANARY}", details={"what": CANARY})
        first.__cause__ = cause
    group = ExceptionGroup(CANARY, [RuntimeError(CANARY)])
    runs = Runs(first, RuntimeError(CANARY), group, KeyError(CANARY))
    await write(database, scope, "a")
    async with working(Job("tidy", runs, attempts_max=3)):
        await shows(database, failed)
    for table in ("memsvc_queue", "memsvc_queue_log", "job_refs"):
        rows = await admin.fetch(f"SELECT t::text FROM {table} AS t")
        assert rows
        assert not any(CANARY in row[0] for row in rows)
    lines = log_lines.getvalue().decode()
    assert CANARY not in lines
    told = [
        json.loads(line) for line in lines.splitlines() if "memsvc.worker" in line or "job" in line
    ]
    assert [(line["code"], line["project"]) for line in told if line.get("job") == "tidy"] == [
        ("UNAVAILABLE", "default"),
        *[("INTERNAL_ERROR", "default")] * 3,
    ]


async def test_two_jobs_of_one_subject_never_run_at_once_on_two_workers(
    database: Database, scope: Scope, working: Working
) -> None:
    begun, released = asyncio.Event(), asyncio.Event()
    now_running, most, ran = 0, 0, 0

    async def run(_: Scope, subject: str) -> None:
        nonlocal now_running, most, ran
        if subject == "a":
            now_running, ran = now_running + 1, ran + 1
            most = max(most, now_running)
            begun.set()
            await released.wait()
            now_running -= 1
        else:
            released.set()

    job = Job("tidy", run)
    async with working(job), working(job):
        await write(database, scope, "a")
        await begun.wait()
        await write(database, scope, "a")  # which waits for the first one
        await shows(database, lambda found: len(found) == 2 and found[0].state is JobState.WAITING)
        await write(database, scope, "b")  # which does not
        await shows(database, empty)
    assert (most, ran) == (1, 2)


async def test_a_job_that_outlasts_the_grace_is_handed_back_and_done_by_the_next_worker(
    database: Database, scope: Scope, working: Working
) -> None:
    begun, attempts = asyncio.Event(), 0

    async def run(_: Scope, __: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            begun.set()
            await asyncio.Event().wait()

    job = Job("tidy", run, attempts_max=1)
    await write(database, scope, "a")
    async with working(job, grace_s=0.05):
        await begun.wait()
    [handed_back] = await backlog.list_jobs(database, limit=10)
    assert (handed_back.state, handed_back.failures) == (JobState.WAITING, 0)
    async with working(job):
        await shows(database, empty)
    assert attempts == 2


async def test_a_job_that_ends_within_the_grace_is_done(
    database: Database, scope: Scope, working: Working
) -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    async def run(_: Scope, __: str) -> None:
        begun.set()
        await released.wait()

    await write(database, scope, "a")
    async with working(Job("tidy", run)) as worker:
        await begun.wait()
        worker.stop()
        released.set()
    assert await backlog.list_jobs(database, limit=10) == []


async def test_jobs_of_one_tenant_leave_a_slot_for_others(
    database: Database, scope: Scope, other_scope: Scope, working: Working
) -> None:
    at_work: list[str] = []
    released = asyncio.Event()

    async def run(of: Scope, subject: str) -> None:
        at_work.append(subject)
        if of == scope:
            await released.wait()

    for number in range(5):
        await write(database, scope, f"mine {number}")
    async with working(Job("tidy", run)):
        await until(lambda: len(at_work) == 3)
        await write(database, other_scope, "theirs")
        await until(lambda: "theirs" in at_work)
        waiting = await shows(database, lambda found: len(found) == 5)
        assert sorted(at_work) == ["mine 0", "mine 1", "mine 2", "theirs"]
        assert [job.ref.subject for job in waiting if job.state is JobState.WAITING] == [
            "mine 4",
            "mine 3",
        ]
        released.set()
        await shows(database, empty)
    assert len(at_work) == 6


async def test_a_long_job_goes_on_where_it_stopped_when_others_had_their_turn(
    database: Database, scope: Scope, working: Working, meter: RecordingMeter
) -> None:
    steps, runs = 0, Runs()

    async def long(_: Scope, __: str) -> None:
        nonlocal steps
        while not runs.of or steps < 100:
            await asyncio.sleep(0)
            steps += 1
            step_done()

    await write(database, scope, "long", name="long")
    async with working(
        Job("long", long, attempts_max=1),
        Job("tidy", runs),
        options={
            "concurrency": 2,
            "slice_s": 0.05,
        },  # one slot for a tenant: the second job waits for the first
    ):
        await until(lambda: steps > 0)
        await write(database, scope, "short")
        await shows(database, empty)
    assert [subject for _, subject in runs.of] == ["short"]
    assert len(meter.amounts["memsvc_job_duration_ms"]) >= 3
    assert meter.total("memsvc_job_runs_total", job="long", status="success") == 1


async def test_long_jobs_of_two_tenants_that_fill_all_slots_give_a_third_its_turn(
    database: Database, scope: Scope, other_scope: Scope, working: Working
) -> None:
    began, done = Counter[bytes](), asyncio.Event()

    async def long(of: Scope, _: str) -> None:
        began[of.tenant] += 1
        while not done.is_set():
            await asyncio.sleep(0)
            step_done()

    async def short(_: Scope, __: str) -> None:
        done.set()

    for each in (scope, other_scope):
        for number in range(6):
            await write(database, each, f"long {number}", name="long")
    options = {
        "slice_s": 0.6
    }  # longer than a job that was put back pauses: it is due before the next slot is free
    async with working(Job("long", long), Job("tidy", short), options=options):
        await until(lambda: len(began) == 2)
        await write(database, Scope(b"\x03" * 32, "default"), "short")
        before = began.total()
        await until(done.is_set)
        assert began.total() - before <= 16  # each of the others once, and those that are under way
        await shows(database, empty)


def test_nothing_but_a_job_is_interrupted_between_its_steps() -> None:
    step_done()
    with call_scope("", NO_TRACER):
        step_done()
    with call_scope("", NO_TRACER, slice_s=-1.0), pytest.raises(TimeSliceError):
        step_done()


async def test_a_worker_that_lost_its_database_goes_on_when_it_is_back(
    database: Database, database_urls: DatabaseUrls, scope: Scope, working: Working
) -> None:
    runs, begun = Runs(), asyncio.Event()

    async def hang_once(scope: Scope, subject: str) -> None:
        await runs(scope, subject)
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    async with (
        Relay(database_urls.app) as relay,
        working(Job("tidy", hang_once), url=relay.url) as worker,
    ):
        await write(database, scope, "a")
        await begun.wait()
        await relay.cut()
        await write(database, scope, "b")
        await relay.mend()
        await runs.reach(3)
        await shows(database, empty)
        assert await worker.alive()
    assert sorted(subject for _, subject in runs.of) == ["a", "a", "b"]


async def test_a_worker_that_hears_nothing_for_a_minute_is_not_alive(
    database: Database, working: Working, meter: RecordingMeter
) -> None:
    worker = Worker("postgresql://nobody@127.0.0.1:1/nothing", database, [], clock, meter, QUICK)
    assert not await worker.alive()
    async with worker.running():
        await until(worker.alive)
        worker._last_event_at -= timedelta(seconds=61)
        assert not await worker.alive()


async def test_a_regular_job_is_queued_for_each_project_once_by_many_workers(
    database: Database,
    scope: Scope,
    other_scope: Scope,
    working: Working,
    admin: asyncpg.Connection,
) -> None:
    for each in (scope, Scope(scope.tenant, "beside"), other_scope):
        await remember_tenant(database, each.tenant, clock.now())
        await admin.execute(
            """
            INSERT INTO files (tenant, project, incarnation, path, revision, stream, size_bytes,
                is_text, owner,
                               created_at, updated_at)
            VALUES ($1, $2, gen_random_uuid(), '/a', 1, 1, 1, true, '', now(), now())
            """,
            each.tenant,
            each.project,
        )
    runs = Runs()
    job = Job("sweep", runs, interval_s=3600)
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(working(job))
        await runs.reach(3)
        await shows(database, empty)
    async with working(job):  # a restart does not make it due
        marker = Runs()
        async with working(Job("tidy", marker)):
            await write(database, scope, "a")
            await marker.reach(1)
    assert sorted((scope.tenant, scope.project) for scope, _ in runs.of) == [
        (scope.tenant, "beside"),
        (scope.tenant, "default"),
        (other_scope.tenant, "default"),
    ]


async def test_what_is_being_purged_keeps_nothing_else_from_being_swept(
    database: Database,
    scope: Scope,
    other_scope: Scope,
    working: Working,
    admin: asyncpg.Connection,
) -> None:
    each = [scope, Scope(scope.tenant, "beside"), other_scope]
    for one in each:
        await remember_tenant(database, one.tenant, clock.now())
        await admin.execute(
            """
            INSERT INTO files (tenant, project, incarnation, path, revision, stream, size_bytes,
                is_text, owner,
                               created_at, updated_at)
            VALUES ($1, $2, gen_random_uuid(), '/a', 1, 1, 1, true, '', now(), now())
            """,
            one.tenant,
            one.project,
        )
    shut = "INSERT INTO purges VALUES ($1, $2, 0, gen_random_uuid(), now())"
    await admin.execute(shut, scope.tenant, "beside")
    await admin.execute(shut, other_scope.tenant, "*")
    runs = Runs()
    async with working(Job("sweep", runs, interval_s=3600)):
        await runs.reach(1)
        assert [one for one, _ in runs.of] == [scope]
        await admin.execute("DELETE FROM purges")
        await runs.reach(3)


async def test_what_clients_left_is_removed_when_it_has_expired(
    database: Database, scope: Scope, working: Working, admin: asyncpg.Connection
) -> None:
    await remember_tenant(database, scope.tenant, clock.now())
    now = clock.now()
    async with database.begin_tenant(Scope(scope.tenant, ALL_PROJECTS)) as tx:
        for name, hours in (("gone", -1), ("kept", 1)):
            times = {"now": now - timedelta(days=1), "expires_at": now + timedelta(hours=hours)}
            session = name.encode()
            await mcp_sessions.add_question(tx, session, name, **times)
            limits = {"sessions_max": 2, "uris_max": 1}
            await mcp_sessions.subscribe(tx, session, "memory://a/b", "stamp", **times, **limits)

    async def left() -> bool:
        questions = await admin.fetch("SELECT question FROM mcp_questions")
        sessions = await admin.fetch("SELECT session_hash FROM mcp_sessions")
        return [row[0] for row in questions + sessions] == ["kept", b"kept"]

    assert not await left()
    async with working(Job("sweep", Runs(), interval_s=3600)):
        await until(left)


async def test_what_the_queue_noted_goes_when_it_is_old_but_for_jobs_that_are_there(
    database: Database, scope: Scope, working: Working, admin: asyncpg.Connection
) -> None:
    runs = Runs(KeyError())
    await write(database, scope, "a")
    async with working(Job("tidy", runs, attempts_max=1)):
        await shows(database, failed)
        await write(database, scope, "b")
        await runs.reach(2)
        await shows(database, failed)
    assert await admin.fetchval("SELECT count(DISTINCT job_id) FROM memsvc_queue_log") == 2
    await backlog.prune_log(database, clock.now() + timedelta(hours=1))
    [job] = await backlog.list_jobs(database, limit=10)
    assert job.code is Code.INTERNAL_ERROR
    assert await admin.fetchval("SELECT count(DISTINCT job_id) FROM memsvc_queue_log") == 1
