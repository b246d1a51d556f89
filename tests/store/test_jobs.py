"""Jobs are queued with the write that needs them, once for each subject, and looked after by
tenant."""

import json
from datetime import timedelta

import asyncpg
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import backlog, jobs
from memsvc.store.backlog import Backlog, JobState
from memsvc.store.database import Database
from memsvc.store.jobs import Claim, Ref, claim, enqueue, finish

NOW = SystemClock().now()


async def queue(
    database: Database, scope: Scope, *subjects: str, name: str = "tidy", delay_s: float = 0
) -> list[int]:
    """Round trips of each enqueue, in one transaction."""
    spent = []
    async with database.begin(scope) as tx:
        for subject in subjects:
            before = tx.query_count
            await enqueue(tx, name, subject, now=NOW, delay_s=delay_s)
            spent.append(tx.query_count - before)
    return spent


async def listed(
    database: Database, scope: Scope | None = None, state: JobState | None = None
) -> list[Ref]:
    """What is in the queue, oldest first."""
    found = await backlog.list_jobs(
        database, scope.tenant if scope else None, state=state, limit=1000
    )
    return [entry.ref for entry in reversed(found)]


async def pick(admin: asyncpg.Connection, ref: Ref, status: str = "picked") -> None:
    """What a worker does to the queue when it is given a job, or gives it back."""
    await admin.execute(
        "UPDATE memsvc_queue SET status = $2::text::memsvc_queue_status WHERE id = $1",
        ref.job,
        status,
    )


async def test_a_job_waits_once_for_each_subject_and_costs_two_round_trips_then_one(
    database: Database, scope: Scope
) -> None:
    assert await queue(database, scope, "a", "a", "b") == [2, 1, 2]
    assert await queue(database, scope, "a") == [1]
    assert [(ref.name, ref.subject, ref.scope) for ref in await listed(database)] == [
        ("tidy", "a", scope),
        ("tidy", "b", scope),
    ]


async def test_a_job_of_a_transaction_that_is_rolled_back_is_never_there(
    database: Database, scope: Scope
) -> None:
    async def write_and_fail() -> None:
        async with database.begin(scope) as tx:
            await enqueue(tx, "tidy", "a", now=NOW)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await write_and_fail()
    assert await listed(database) == []
    assert await queue(database, scope, "a") == [2]


async def test_the_queue_holds_identifiers_alone(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    row = await admin.fetchrow("SELECT payload, headers::text AS about FROM memsvc_queue")
    assert row is not None
    assert row["payload"] is None
    assert sorted(json.loads(row["about"])) == ["project", "subject", "tenant"]


async def test_a_write_after_the_claim_queues_another_job_that_waits_for_the_first(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    [first] = await listed(database)
    await pick(admin, first)
    assert await claim(database, first) is Claim.RUN
    assert await queue(database, scope, "a") == [2]
    second = (await listed(database))[-1]
    await pick(admin, second)
    assert await claim(database, second) is Claim.LOCKED
    assert await claim(database, first) is Claim.RUN  # the same job again, as after a crash
    await finish(database, first)
    assert await claim(database, second) is Claim.RUN


async def test_a_job_whose_write_another_one_saw_has_nothing_left_to_do(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    [first] = await listed(database)
    assert await claim(database, first) is Claim.RUN
    await pick(admin, first, "queued")  # it failed, and waits for its next attempt
    await queue(database, scope, "a")
    second = (await listed(database))[-1]
    assert await claim(database, second) is Claim.NOTHING_LEFT
    assert await queue(database, scope, "a") == [2]  # which the first one may not see any more
    await finish(database, first)
    assert await claim(database, first) is Claim.RUN  # in the place of the one just queued
    await pick(admin, first)
    assert await claim(database, (await listed(database))[-1]) is Claim.NOTHING_LEFT


@pytest.mark.parametrize("gone", [True, False])
async def test_a_newer_job_takes_the_place_of_one_that_is_gone_or_failed_for_good(
    database: Database, scope: Scope, admin: asyncpg.Connection, gone: bool
) -> None:
    await queue(database, scope, "a")
    [first] = await listed(database)
    assert await claim(database, first) is Claim.RUN
    await pick(admin, first, "failed")
    if gone:
        await admin.execute("DELETE FROM memsvc_queue")
    await queue(database, scope, "a")
    second = (await listed(database))[-1]
    assert await claim(database, second) is Claim.RUN
    assert await listed(database) == [second]
    assert await claim(database, first) is Claim.NOTHING_LEFT


async def test_tenants_and_projects_have_jobs_of_their_own(
    database: Database, scope: Scope, other_scope: Scope
) -> None:
    beside = Scope(scope.tenant, "beside")
    for each in (scope, beside, other_scope):
        assert await queue(database, each, "a") == [2]
    mine = await backlog.list_jobs(database, scope.tenant, limit=10)
    assert [entry.ref.scope for entry in mine] == [beside, scope]
    confined = await backlog.list_jobs(database, scope.tenant, projects={"beside"}, limit=10)
    assert [entry.ref.scope for entry in confined] == [beside]
    [theirs] = await listed(database, other_scope)
    for attempt in (
        backlog.retry(database, theirs.job, NOW, tenant=scope.tenant),
        backlog.drop(database, theirs.job, tenant=scope.tenant),
        backlog.drop(database, mine[1].ref.job, tenant=scope.tenant, projects={"beside"}),
        backlog.drop(database, 2**70),
    ):
        with pytest.raises(MemsvcError) as refused:
            await attempt
        assert refused.value.code is Code.NOT_FOUND
    assert len(await listed(database)) == 3


async def test_a_job_that_waits_or_failed_can_be_dropped_and_is_queued_by_the_next_write(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    [waiting] = await listed(database)
    await backlog.drop(database, waiting.job)
    assert await listed(database) == []
    assert await queue(database, scope, "a") == [2]
    [failed] = await listed(database)
    await claim(database, failed)
    await pick(admin, failed)
    with pytest.raises(MemsvcError) as running:
        await backlog.drop(database, failed.job)
    assert running.value.code is Code.CONFLICT
    await pick(admin, failed, "failed")
    await backlog.drop(database, failed.job)
    assert await admin.fetchval("SELECT count(*) FROM job_refs") == 0


async def test_dropping_a_job_that_has_nothing_left_to_do_keeps_the_one_that_waits(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    [idle] = await listed(database)
    await admin.execute("DELETE FROM job_refs")
    await queue(database, scope, "a")
    await backlog.drop(database, idle.job)
    [left] = await listed(database)
    assert await claim(database, left) is Claim.RUN


async def test_only_a_failed_job_is_tried_again_under_its_own_number(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a")
    [job] = await listed(database)
    with pytest.raises(MemsvcError) as refused:
        await backlog.retry(database, job.job, NOW)
    assert refused.value.code is Code.CONFLICT
    await claim(database, job)
    await pick(admin, job, "failed")
    assert await listed(database, scope, JobState.FAILED) == [job]
    assert await backlog.retry(database, job.job, NOW) == job
    assert await listed(database, scope, JobState.WAITING) == [job]
    assert await claim(database, job) is Claim.RUN


async def test_the_backlog_counts_what_waits_and_has_failed_and_how_long(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await queue(database, scope, "a", "b")
    await queue(database, scope, "c", name="later", delay_s=3600)
    await pick(admin, (await listed(database))[0], "failed")
    seen = await backlog.read_backlog(
        database, await admin.fetchval("SELECT now()") + timedelta(seconds=60)
    )
    assert (seen.waiting, seen.failed) == ({"tidy": 1, "later": 1}, {"tidy": 1})
    assert seen.oldest_s["later"] == 0
    assert 60 <= seen.oldest_s["tidy"] < 90


async def test_a_project_and_a_tenant_are_forgotten_with_their_jobs(
    database: Database, scope: Scope, other_scope: Scope, admin: asyncpg.Connection
) -> None:
    beside, third = Scope(scope.tenant, "beside"), Scope(scope.tenant, "third")
    for each in (scope, beside, third, other_scope):
        await queue(database, each, "a", "b")
    async with database.begin(scope) as tx:
        assert await backlog.forget_all(tx) == 2
    assert {ref.scope for ref in await listed(database)} == {beside, third, other_scope}
    async with database.begin_tenant(scope) as tx:
        assert await backlog.forget_all(tx) == 4
    assert {ref.scope for ref in await listed(database)} == {other_scope}
    assert await admin.fetchval("SELECT count(*) FROM job_refs") == 2


async def test_an_empty_queue_has_no_backlog(database: Database) -> None:
    assert await backlog.read_backlog(database, NOW) == Backlog()


async def test_a_sweep_is_due_in_each_project_with_files_and_again_when_its_time_is_over(
    database: Database, scope: Scope, other_scope: Scope, admin: asyncpg.Connection
) -> None:
    for each, project in ((scope, "one"), (scope, "two"), (other_scope, "one")):
        await admin.execute(
            """
            INSERT INTO files (tenant, project, incarnation, path, revision, stream, size_bytes,
                is_text, owner,
                               created_at, updated_at)
            VALUES ($1, $2, gen_random_uuid(), '/a', 1, 1, 1, true, '', $3, $3)
            """,
            each.tenant,
            project,
            NOW,
        )

    async def due(hours: float) -> list[tuple[str, str]]:
        async with database.begin_tenant(scope, read_only=True) as tx:
            at = NOW + timedelta(hours=hours)
            return list((await jobs.pending_jobs(tx, {"hourly": 3600, "daily": 86400}, at)).pending)

    async def sweep(project: str, name: str, hours: float) -> bool:
        async with database.begin(Scope(scope.tenant, project)) as tx:
            every_s = {"hourly": 3600, "daily": 86400}[name]
            return await jobs.enqueue_sweep(
                tx, name, interval_s=every_s, now=NOW + timedelta(hours=hours)
            )

    assert await due(0) == [
        ("one", "daily"),
        ("one", "hourly"),
        ("two", "daily"),
        ("two", "hourly"),
    ]
    assert [await sweep("one", "hourly", 0), await sweep("one", "hourly", 0)] == [True, False]
    assert await due(0.9) == [("one", "daily"), ("two", "daily"), ("two", "hourly")]
    assert await sweep("one", "daily", 0.9)
    assert await due(1) == [("one", "hourly"), ("two", "daily"), ("two", "hourly")]
    assert await sweep("one", "hourly", 1)
    assert [(ref.name, ref.subject) for ref in await listed(database)] == [
        ("hourly", ""),
        ("daily", ""),
    ]
