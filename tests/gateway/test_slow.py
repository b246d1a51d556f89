"""The log of slow calls."""

import io
from datetime import UTC, datetime
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.gateway.call_accounting import LINES_MAX, AuditOptions, SlowCalls
from memsvc.store import keys
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
SECRET = "canary-90c2aa"
SPLIT = ("admission_ms", "pool_ms", "database_ms", "model_ms", "rest_ms")


def slow_lines(log_lines: io.BytesIO) -> list[dict[str, Any]]:
    told = [orjson.loads(line) for line in log_lines.getvalue().splitlines()]
    return [line for line in told if line["event"] == "slow call"]


@pytest.mark.slow
async def test_a_slow_call_is_told_with_where_its_time_went_and_without_content(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, log_lines: io.BytesIO
) -> None:
    audit = AuditOptions(slow_ms=300, flush_every_s=0.02)
    async with served(database_urls, admin, audit=audit) as service, service.http() as http:
        given = {"project": "p", "path": "/a", "content": SECRET}
        await http.post("/api/tools/file_write", json=given)
        async with admin.transaction():
            tenant = await admin.fetchval("SELECT tenant FROM files WHERE path = '/a'")
            await admin.execute("SELECT path FROM files WHERE tenant = $1 FOR UPDATE", tenant)
            answer = await http.post(
                "/api/tools/file_write",
                json=given | {"mode": "APPEND"},
                headers={"X-Request-ID": "quoted"},
            )
            assert answer.json()["code"] == "RESOURCE_BUSY"
        metrics = (await http.get("/metrics")).text
    [line] = slow_lines(log_lines)
    assert (line["level"], line["tool"], line["project"], line["status"]) == (
        "warning",
        "file_write",
        "p",
        "error",
    )
    assert line["request_id"] == "quoted"
    assert line["database_ms"] > 300
    assert line["database_ms"] <= line["latency_ms"]
    assert line["round_trips"] >= 2
    assert abs(sum(line[name] for name in SPLIT) - line["latency_ms"]) < 1
    assert SECRET not in str(line)
    assert 'memsvc_slow_calls_total{tool="file_write"} 1.0' in metrics


@pytest.mark.parametrize(("slow_ms", "duration_ms"), [(0, 1e6), (1000, 1000), (1000, 3)])
def test_what_is_not_slow_is_not_told(
    log_lines: io.BytesIO, meter: RecordingMeter, clock: FakeClock, slow_ms: int, duration_ms: float
) -> None:
    SlowCalls(slow_ms, meter, clock).record("echo", duration_ms, {})
    assert slow_lines(log_lines) == []


def test_a_storm_of_slow_calls_is_a_few_lines_a_minute_and_all_are_counted(
    log_lines: io.BytesIO, meter: RecordingMeter, clock: FakeClock
) -> None:
    slow = SlowCalls(1000, meter, clock)
    for _ in range(1000):
        slow.record("echo", 2000, {})
    assert len(slow_lines(log_lines)) == LINES_MAX
    clock.advance(seconds=61)
    slow.record("echo", 2000, {})
    lines = slow_lines(log_lines)
    assert (len(lines), lines[-1]["left_out_before"]) == (LINES_MAX + 1, 1000 - LINES_MAX)
    assert meter.total("memsvc_slow_calls_total", tool="echo") == 1001


async def test_log_names_key_and_tenant_as_the_list_of_keys_does_and_never_the_key(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, log_lines: io.BytesIO
) -> None:
    audit = AuditOptions(slow_ms=1, flush_every_s=0.02)
    async with served(database_urls, admin, audit=audit) as service:
        made = await keys.create_key(service.database, "listed", datetime.now(UTC))
        for key in (made.text, "key-one"):
            async with service.http(key) as http:
                given = {"project": "p", "path": "/a", "content": SECRET}
                await http.post("/api/tools/file_write", json=given)
    logged = log_lines.getvalue().decode()
    told = [orjson.loads(line) for line in logged.splitlines()]
    ids: dict[str, list[tuple[str | None, str | None]]] = {"call": [], "slow call": []}
    for line in told:
        if line["event"] in ids:
            ids[line["event"]].append((line["key_id"], line["tenant"]))
    listed = (str(made.key.key_id), made.key.tenant.hex()[:8])
    # the tenant of a key that is not listed is a hash of the key
    assert ids == {event: [listed, (None, None)] for event in ids}
    for secret in (made.text, "key-one"):
        assert secret not in logged
        assert keys.hash_key(secret).hex()[:8] not in logged
