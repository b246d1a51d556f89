"""Writers and workers meet over one subject: no write goes unseen, no two jobs run at once, and few
do for many."""

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack, suppress

import asyncpg
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import backlog, jobs
from memsvc.store.backlog import JobState
from memsvc.store.database import Database, Tx
from memsvc.store.jobs import Claim, Ref
from memsvc.worker import Worker, WorkerOptions
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

WRITES = 100
SUBJECTS = ("a", "b", "c")
clock = SystemClock()


class _Undone(Exception):
    """A writer that changed its mind."""


async def write(tx: Tx, subject: str, number: int) -> None:
    """Store something under a subject, and have a job look at it."""
    await tx.execute(
        "INSERT INTO posting_lists (tenant, project, book, term, segment, hits) VALUES ($1, $2, 1, $3,"
        " $4, '{}')",
        subject,
        number,
    )
    await jobs.enqueue(tx, "look", subject, now=clock.now())


async def read(database: Database, scope: Scope, subject: str) -> set[int]:
    async with database.begin(scope, read_only=True) as tx:
        rows = await tx.fetch(
            "SELECT segment FROM posting_lists WHERE tenant = $1 AND project = $2 AND term = $3",
            subject,
        )
    return {row["segment"] for row in rows}


async def queued(database: Database) -> list[Ref]:
    return [job.ref for job in reversed(await backlog.list_jobs(database, limit=1000))]


async def until_somebody_waits(admin: asyncpg.Connection) -> None:
    """Until a statement of this database waits for another transaction."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
        " wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(20):
        while not await admin.fetchval(waiting):  # noqa: ASYNC110 - only the database knows
            await asyncio.sleep(0)


async def test_a_claim_waits_for_the_writer_that_counts_on_it(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    async with database.begin(scope) as tx:
        await write(tx, "a", 1)
    [ref] = await queued(database)
    async with database.begin(scope) as tx:
        await write(tx, "a", 2)
        claiming = asyncio.create_task(jobs.claim(database, ref))
        await until_somebody_waits(admin)
        assert not claiming.done()
    assert await claiming is Claim.RUN
    assert await read(database, scope, "a") == {1, 2}
    assert await queued(database) == [ref]


async def test_a_writer_that_meets_a_claim_queues_another_job(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    async with database.begin(scope) as tx:
        await write(tx, "a", 1)
    [ref] = await queued(database)

    async def write_late() -> None:
        async with database.begin(scope) as tx:
            await write(tx, "a", 2)

    async with database.begin(scope) as tx:
        assert await jobs._claim(tx, ref) is Claim.RUN
        writing = asyncio.create_task(write_late())
        await until_somebody_waits(admin)
        assert not writing.done()
    await writing
    assert len(await queued(database)) == 2


async def test_of_two_claims_at_once_one_runs(database: Database, scope: Scope) -> None:
    for _ in range(20):
        async with database.begin(scope) as tx:
            await write(tx, "a", random.getrandbits(30))
        [ref] = await queued(database)
        other = Ref(ref.job + 1_000_000, ref.name, ref.scope, ref.subject)
        barrier = asyncio.Barrier(2)

        async def claim(claimed: Ref, barrier: asyncio.Barrier = barrier) -> Claim:
            await barrier.wait()
            return await jobs.claim(database, claimed)

        answers = await asyncio.gather(claim(ref), claim(other))
        assert answers.count(Claim.RUN) == 1
        for each in (ref, other):
            await jobs.finish(database, each)
        async with database.begin(scope) as tx:
            await backlog.forget_all(tx)


@pytest.mark.parametrize("seed", range(3))
async def test_the_last_write_is_always_seen_and_many_writes_need_few_runs(
    database: Database, database_urls: DatabaseUrls, scope: Scope, meter: RecordingMeter, seed: int
) -> None:
    chance = random.Random(seed)
    seen: dict[str, set[int]] = {}
    at_work: dict[str, int] = defaultdict(int)
    runs: dict[str, int] = defaultdict(int)
    doubled: list[str] = []

    async def look(_: Scope, subject: str) -> None:
        at_work[subject] += 1
        runs[subject] += 1
        if at_work[subject] > 1:
            doubled.append(subject)
        found = await read(database, scope, subject)
        await asyncio.sleep(
            chance.random() / 50
        )  # a write may come between what it read and its end
        if chance.random() < 0.1:
            at_work[subject] -= 1
            raise RuntimeError
        seen[subject] = found
        at_work[subject] -= 1

    written: dict[str, set[int]] = defaultdict(set)

    async def one(number: int, barrier: asyncio.Barrier) -> None:
        subject, undone = chance.choice(SUBJECTS), chance.random() < 0.2
        await barrier.wait()
        with suppress(_Undone):
            async with database.begin(scope, lock_timeout_ms=20_000) as tx:
                await write(tx, subject, number)
                await asyncio.sleep(
                    chance.random() / 100
                )  # a claim may come between the write and its commit
                if undone:
                    raise _Undone
            written[subject].add(number)

    job = Job("look", look, attempts_max=100)
    options = WorkerOptions(poll_s=0.1, retry_s_max=0.05, lease_s=10)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            worker = Worker(database_urls.app, database, [job], clock, meter, options)
            await stack.enter_async_context(worker.running())
        for wave in range(10):
            barrier = asyncio.Barrier(WRITES // 10)
            await asyncio.gather(
                *(one(wave * 10 + place, barrier) for place in range(WRITES // 10))
            )
        async with asyncio.timeout(60):
            while await queued(database):  # noqa: ASYNC110 - the queue tells nobody when it is empty
                await asyncio.sleep(0.02)
    assert seen == dict(written)
    assert doubled == []
    assert sum(runs.values()) < sum(map(len, written.values()))
    assert await backlog.list_jobs(database, state=JobState.FAILED, limit=1) == []
