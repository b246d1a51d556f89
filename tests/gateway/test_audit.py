"""What the call log keeps of a call, and how it behaves while the database is away."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import asyncpg
import orjson
import pytest

from memsvc.gateway.call_accounting import AuditOptions, CallLog, call_log, shape
from memsvc.store.batch_writer import BatchWriter
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.database import Database, Tx
from memsvc.store.locks import Lock
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.catalogue import CANARY, echo, tool
from tests.gateway.conftest import OutOfReach

ECHO = tool("echo", echo)


def record(clock: FakeClock) -> CallRecord:
    return CallRecord(
        tenant=b"\x01" * 32,
        project="default",
        call=uuid4(),
        called_at=clock.now(),
        surface="mcp",
        tool="echo",
        key_label="test",
        status="success",
        code=None,
        duration_ms=1.0,
        arguments={},
        request_id="r",
    )


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"count": 3, "text": "abc"}, {"count": 3, "text": {"redacted": True, "bytes": 3}}),
        ({"count": True, "first": None}, {"count": True, "first": None}),
        ({"text": "メモ"}, {"text": {"redacted": True, "bytes": 6}}),
        ({"session_id": "s1", "project": "p"}, {"session_id": "s1", "project": "p"}),
        ({"session_id": " Mu\u0308l "}, {"session_id": "M\u00fcl"}),
        ({"session_id": "s" * 200}, {"session_id": "s" * 128}),
        ({"session_id": "a\x00\nb"}, {"session_id": "a\ufffd\ufffdb"}),
        ({"items": [1, "two"]}, {"items": {"redacted": True, "items": 2, "bytes": 9}}),
        ({"first": {"title": "x"}}, {"first": {"redacted": True, "fields": 1, "bytes": 13}}),
        ({CANARY: 1, "other": CANARY, "count": 1}, {"count": 1, "unknown_names": 2}),
        (
            {"session_id": [CANARY]},
            {"session_id": {"redacted": True, "items": 1, "bytes": len(CANARY) + 4}},
        ),
        ({"count": 10**400}, {"count": {"redacted": True}}),
        ({"count": float("nan")}, {"count": None}),
        ({"text": "\ud800"}, {"text": {"redacted": True, "bytes": 3}}),
        ({"items": ["\ud800"]}, {"items": {"redacted": True, "items": 1, "bytes": None}}),
        (None, {}),
        ([CANARY], {"arguments": {"redacted": True}}),
        (CANARY, {"arguments": {"redacted": True}}),
    ],
)
def test_numbers_and_named_strings_are_kept_and_all_else_leaves_its_size(
    arguments: Any, kept: dict[str, Any]
) -> None:
    told = shape(arguments, ECHO)
    assert told == kept
    assert CANARY not in json.dumps(told)
    orjson.dumps(told)


def log_of(clock: FakeClock, meter: RecordingMeter, **options: Any) -> CallLog:
    return call_log(cast(Database, OutOfReach()), meter, clock, AuditOptions(**options))


@pytest.mark.anyio
async def test_records_wait_while_the_database_is_away(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    log = log_of(clock, meter)
    for _ in range(3):
        log.record(record(clock))
    await log.flush()
    assert log.backlog() == 3
    assert meter.total("memsvc_audit_dropped_total") == 0


@pytest.mark.anyio
async def test_the_oldest_record_goes_when_too_many_wait(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    log = log_of(clock, meter, backlog_max=10)
    for _ in range(15):
        log.record(record(clock))
    assert log.backlog() == 10
    assert meter.total("memsvc_audit_dropped_total") == 5


@pytest.mark.anyio
async def test_a_record_goes_when_the_database_was_away_for_long(
    clock: FakeClock, meter: RecordingMeter
) -> None:
    log = log_of(clock, meter, keep_s=300)
    log.record(record(clock))
    clock.advance(seconds=301)
    log.record(record(clock))
    await log.flush()
    assert log.backlog() == 1
    assert meter.total("memsvc_audit_dropped_total") == 1


@pytest.mark.anyio
async def test_a_tenant_that_is_being_purged_or_restored_keeps_no_other_from_being_logged(
    database: Database, clock: FakeClock, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    purged, restored, other = (
        replace(record(clock), tenant=bytes([number]) * 32) for number in (1, 2, 3)
    )
    await admin.execute(
        "INSERT INTO purges VALUES ($1, '*', 0, gen_random_uuid(), now())", purged.tenant
    )
    log = call_log(database, meter, clock, AuditOptions(batch_records=2))
    async with database.begin(restored.scope) as tx:
        await tx.lock(Lock("project", ""))
        for one in (other, purged, restored, replace(other, call=uuid4())):
            log.record(one)
        await log.flush()
        assert [row["tenant"] for row in await admin.fetch("SELECT tenant FROM calls")] == [
            other.tenant
        ] * 2
        assert log.backlog() == 2
    await admin.execute("DELETE FROM purges")
    await log.flush()
    assert (await admin.fetchval("SELECT count(*) FROM calls"), log.backlog()) == (4, 0)


@pytest.mark.anyio
async def test_records_that_take_the_database_too_long_wait_whether_or_not_they_outlive_their_scope(
    database: Database, clock: FakeClock
) -> None:
    async def write(tx: Tx, _: Sequence[CallRecord]) -> None:
        await tx.fetch("SELECT set_config('statement_timeout', '20', true), $1::bytea, $2::text")
        await tx.fetch("SELECT pg_sleep(60), $1::bytea, $2::text")

    lost: list[int] = []
    log = BatchWriter(
        database,
        clock,
        AuditOptions(),
        kind="calls",
        write=write,
        dropped=lost.append,
        keep_after_purge=False,
    )
    log.record(record(clock))
    await log.flush()
    assert (log.backlog(), lost) == (1, [])


@pytest.mark.anyio
async def test_a_tenant_whose_records_take_too_long_holds_up_no_other(
    database: Database, clock: FakeClock, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    slow, other = (replace(record(clock), tenant=bytes([number]) * 32) for number in (1, 2))

    async def write(tx: Tx, records: Sequence[CallRecord]) -> None:
        if tx.scope.tenant == slow.tenant:
            await tx.fetch(
                "SELECT set_config('statement_timeout', '20', true), $1::bytea, $2::text"
            )
            await tx.fetch("SELECT pg_sleep(60), $1::bytea, $2::text")
        await insert_calls(tx, records)

    lost: list[int] = []
    options = AuditOptions(batch_records=2)
    log = BatchWriter(database, clock, options, kind="calls", write=write, dropped=lost.append)
    for one in (other, slow, slow, slow, replace(other, call=uuid4())):
        log.record(one)
    await log.flush()
    assert [row["tenant"] for row in await admin.fetch("SELECT tenant FROM calls")] == [
        other.tenant
    ] * 2
    assert (log.backlog(), lost) == (3, [])


WAITING = """
    SELECT count(*) FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database
    WHERE NOT held.granted AND here.datname = current_database()
"""


@pytest.mark.anyio
async def test_a_record_that_cannot_be_stored_at_once_waits_for_the_next_batch(
    database: Database, clock: FakeClock, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    log = call_log(database, meter, clock, AuditOptions())
    async with database.begin(record(clock).scope) as tx:
        await tx.lock(Lock("project", ""))
        await log.record_now(record(clock))
        cancelled = asyncio.create_task(log.record_now(record(clock)))
        while await admin.fetchval(WAITING) == 0:  # noqa: ASYNC110 - a process of PostgreSQL waits, and tells nobody
            await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await admin.fetchval("SELECT count(*) FROM calls"), log.backlog()) == (0, 2)
    await log.flush()
    assert (await admin.fetchval("SELECT count(*) FROM calls"), log.backlog()) == (2, 0)
    await log.record_now(record(clock))
    assert (await admin.fetchval("SELECT count(*) FROM calls"), log.backlog()) == (3, 0)
