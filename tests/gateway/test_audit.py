"""What the call log keeps of a call, and how it behaves while the database is away."""

import json
from typing import Any, cast
from uuid import uuid4

import orjson
import pytest

from memsvc.gateway.audit import AuditOptions, CallLog, shape
from memsvc.store.calls import CallRecord
from memsvc.store.database import Database
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
        ({"session_id": "s" * 200}, {"session_id": "s" * 128}),
        ({"session_id": "a\x00\nb"}, {"session_id": "a\ufffd\ufffdb"}),
        ({"items": [1, "two"]}, {"items": {"redacted": True, "items": 2, "bytes": 9}}),
        ({"first": {"title": "x"}}, {"first": {"redacted": True, "fields": 1, "bytes": 13}}),
        ({CANARY: 1, "other": CANARY, "count": 1}, {"count": 1, "unknown_names": 2}),
        ({"session_id": [CANARY]}, {"session_id": {"redacted": True, "items": 1, "bytes": len(CANARY) + 4}}),
        ({"count": 10**400}, {"count": {"redacted": True}}),
        ({"count": float("nan")}, {"count": None}),
        ({"text": "\ud800"}, {"text": {"redacted": True, "bytes": 3}}),
        ({"items": ["\ud800"]}, {"items": {"redacted": True, "items": 1, "bytes": None}}),
        (None, {}),
        ([CANARY], {"arguments": {"redacted": True}}),
        (CANARY, {"arguments": {"redacted": True}}),
    ],
)
def test_numbers_and_named_strings_are_kept_and_all_else_leaves_its_size(arguments: Any, kept: dict[str, Any]) -> None:
    told = shape(arguments, ECHO)
    assert told == kept
    assert CANARY not in json.dumps(told)
    orjson.dumps(told)


def call_log(clock: FakeClock, meter: RecordingMeter, **options: Any) -> CallLog:
    return CallLog(cast(Database, OutOfReach()), meter, clock, AuditOptions(**options))


@pytest.mark.anyio
async def test_records_wait_while_the_database_is_away(clock: FakeClock, meter: RecordingMeter) -> None:
    log = call_log(clock, meter)
    for _ in range(3):
        log.record(record(clock))
    await log.flush()
    assert log.backlog() == 3
    assert meter.total("memsvc_audit_dropped_total") == 0


@pytest.mark.anyio
async def test_the_oldest_record_goes_when_too_many_wait(clock: FakeClock, meter: RecordingMeter) -> None:
    log = call_log(clock, meter, backlog_max=10)
    for _ in range(15):
        log.record(record(clock))
    assert log.backlog() == 10
    assert meter.total("memsvc_audit_dropped_total") == 5


@pytest.mark.anyio
async def test_a_record_goes_when_the_database_was_away_for_long(clock: FakeClock, meter: RecordingMeter) -> None:
    log = call_log(clock, meter, keep_s=300)
    log.record(record(clock))
    clock.advance(seconds=301)
    log.record(record(clock))
    await log.flush()
    assert log.backlog() == 1
    assert meter.total("memsvc_audit_dropped_total") == 1
