"""Callers that ask too often are told so at once and in the one shape, however many processes they
ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Scope
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rate_limits import RateLimits, RateOptions
from memsvc.store.database import Database, DatabaseOptions
from tests.fakes import RecordingMeter
from tests.gateway.conftest import WIRES, OutOfReach, Running
from tests.gateway.served import served
from tests.servers import DatabaseUrls, Relay
from tests.waiting import until

pytestmark = pytest.mark.anyio

ONE, TWO = Caller(b"\x01" * 32, "one"), Caller(b"\x01" * 32, "two")
OTHER = Caller(b"\x02" * 32, "one")
SLOW = {"key_calls_s": 0, "tenant_calls_s": 0.01, "burst_s": 1000.0}
"""Ten calls at once, and then hardly any."""


def taken(rates: RateLimits, caller: Caller, most: int = 100) -> int:
    """How many calls of so many are let through."""
    through = 0
    for _ in range(most):
        with suppress(MemsvcError):
            rates.count(caller, "calls")
            through += 1
    return through


@pytest.fixture
def limited() -> RateOptions:
    return RateOptions(**SLOW)


async def test_keys_of_a_tenant_share_its_rate_and_have_one_each(
    database: Database, meter: RecordingMeter
) -> None:
    rates = RateLimits(
        database, RateOptions(key_calls_s=0.006, tenant_calls_s=0.01, burst_s=1000), meter
    )
    assert (taken(rates, ONE), taken(rates, TWO), taken(rates, OTHER)) == (6, 4, 6)
    refused = meter.amounts["memsvc_refused_total"]
    assert {labels["reason"] for _, labels in refused} == {"key_calls", "tenant_calls"}
    assert all(set(labels) == {"reason"} for _, labels in refused)


async def test_what_is_refused_names_a_code_and_a_time(
    database: Database, meter: RecordingMeter
) -> None:
    rates = RateLimits(database, RateOptions(key_calls_s=0.5, burst_s=2), meter)
    rates.count(ONE, "calls")
    with pytest.raises(MemsvcError) as refused:
        rates.count(ONE, "calls")
    assert (refused.value.code, refused.value.retryable) == (Code.RATE_LIMITED, True)
    assert 0 < (refused.value.retry_after_s or 0) <= 2.001


async def test_an_operator_gives_a_tenant_more_or_less(
    database: Database, meter: RecordingMeter
) -> None:
    more, less = f"{'01' * 4}=3", f"{'02' * 32}=0.5"
    rates = RateLimits(database, RateOptions(**SLOW, tenants=(more, less)), meter)
    assert (taken(rates, ONE), taken(rates, OTHER)) == (30, 5)
    for wrong in ("0101=2", "01010101", "01010101=0", "01010101=x", "0101010g=2", "01010101=inf"):
        with pytest.raises(ValueError, match="ID=FACTOR"):
            RateOptions(tenants=(wrong,))


async def test_two_processes_let_through_what_one_may_once_they_told_each_other(
    database: Database, meter: RecordingMeter, limited: RateOptions, admin: asyncpg.Connection
) -> None:
    here, there = RateLimits(database, limited, meter), RateLimits(database, limited, meter)
    assert taken(here, ONE, 6) == 6
    assert await here.exchange()
    assert taken(there, TWO, 1) == 1
    assert await there.exchange()
    assert taken(there, TWO) == 3
    assert await there.exchange()
    assert taken(there, OTHER) == 10  # nobody else's
    assert await here.exchange()
    assert taken(here, ONE) == 4  # it has told nothing since, and so was told nothing
    assert await here.exchange()
    assert taken(here, ONE) == taken(there, TWO) == 0
    row = dict(await admin.fetchrow("SELECT * FROM rates WHERE tenant = $1", ONE.tenant) or {})
    assert (row["bucket"], row.keys()) == ("calls", {"tenant", "bucket", "empty_at", "used_s"})


async def test_what_was_let_through_too_much_is_paid_back(
    database: Database, meter: RecordingMeter, limited: RateOptions
) -> None:
    replicas = [RateLimits(database, limited, meter) for _ in range(3)]
    assert sum(taken(one, ONE) for one in replicas) == 30  # none knows of the others yet
    for one in replicas:
        assert await one.exchange()
    with pytest.raises(MemsvcError) as refused:
        replicas[-1].count(ONE, "calls")
    assert (refused.value.retry_after_s or 0) > 2000  # 20 calls too many, at a hundredth a second


async def test_with_the_database_away_each_process_goes_on_by_its_own_count(
    database_urls: DatabaseUrls, meter: RecordingMeter, limited: RateOptions
) -> None:
    async with Relay(database_urls.app) as relay:
        database = await Database.open(relay.url, DatabaseOptions(pool_min=1), meter)
        rates = RateLimits(database, limited, meter)
        await relay.cut()
        assert taken(rates, ONE, 8) == 8
        assert not await rates.exchange()
        assert taken(rates, ONE) == 2
        await relay.mend()
        assert await rates.exchange()
        assert taken(rates, ONE) == 0
        await database.close()
    told = [labels["status"] for _, labels in meter.amounts["memsvc_rates_told_total"]]
    assert told == ["error", "success"]


async def test_a_busy_bucket_is_told_of_without_waiting_for_the_next_time(
    database: Database, meter: RecordingMeter
) -> None:
    options = RateOptions(tenant_calls_s=0.05, key_calls_s=0, burst_s=1000, told_every_s=60)
    here, there = RateLimits(database, options, meter), RateLimits(database, options, meter)
    async with here.running():
        assert taken(here, ONE, 40) == 40
        await until(lambda: meter.total("memsvc_rates_told_total") == 1)
    assert taken(there, ONE, 1) == 1
    assert await there.exchange()
    assert taken(there, ONE) == 9


async def test_a_quiet_tenant_leaves_nothing_behind(
    database: Database, meter: RecordingMeter, admin: asyncpg.Connection, scope: Scope
) -> None:
    await admin.execute(
        "INSERT INTO rates VALUES ($1, 'calls gone', 5, 1), ($2, 'calls', 5, 1)",
        *([scope.tenant] * 2),
    )
    rates = RateLimits(database, RateOptions(tenant_calls_s=1, burst_s=100), meter)
    taken(rates, ONE, 3)
    assert await rates.exchange()
    assert [row["bucket"] for row in await admin.fetch("SELECT bucket FROM rates")] == ["calls"]


async def test_over_mcp_a_refusal_is_a_result_and_over_rest_429(running: Running) -> None:
    limits = LimitsOptions(rates=RateOptions(**SLOW))
    async with running(limits=limits) as gateway:
        for wire in WIRES:
            async with gateway.client(wire, key=f"key of {wire}".replace(" ", "-")) as client:
                ended = [await client.call_tool("echo", {"text": "a"}) for _ in range(11)]
            assert [one.is_error for one in ended] == [False] * 10 + [True]
            text = ended[-1].content[0].text
            assert '"code":"RATE_LIMITED"' in text
            assert '"retry_after_s":' in text


async def test_over_rest_a_refusal_is_429_with_retry_after(
    database_urls: DatabaseUrls, admin: Any
) -> None:
    limits = LimitsOptions(rates=RateOptions(**(SLOW | {"tenant_calls_s": 0.002})))
    async with served(database_urls, admin, limits=limits) as service, service.http() as http:
        answers = [await http.post("/api/tools/file_projects", json={}) for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        body = answers[-1].json()
        assert (body["code"], body["retryable"]) == ("RATE_LIMITED", True)
        assert int(answers[-1].headers["Retry-After"]) >= body["retry_after_s"]
        assert (await http.get("/api/tools")).status_code == 200  # which calls none


async def test_steps_of_a_pipeline_count_each(database_urls: DatabaseUrls, admin: Any) -> None:
    limits = LimitsOptions(rates=RateOptions(**SLOW))
    steps = [{"id": f"s{number}", "tool": "file_projects"} for number in range(12)]
    async with served(database_urls, admin, limits=limits) as service, service.http() as http:
        answer = await http.post(
            "/api/tools/mcp_pipe", json={"steps": steps, "continue_on_error": True}
        )
        assert answer.json()["code"] == "RATE_LIMITED", answer.text
        done = answer.json()["steps"]
        assert [one["ok"] for one in done.values()] == [True] * 9 + [False] * 3


async def test_requests_that_reach_no_tool_count_before_their_body_is_read(
    running: Running,
) -> None:
    rates = RateOptions(key_requests_s=0.003, burst_s=1000)

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    async with running(limits=LimitsOptions(rates=rates)) as gateway, gateway.http() as http:
        for path in ("/api/nothing", "/mcp", "/api/jobs"):
            assert (await http.get(path)).status_code != 429
        for _ in range(3):
            answer = await http.post(
                "/mcp", content=never(), headers={"Content-Type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (429, "RATE_LIMITED")
            assert answer.json()["error"]["data"]["code"] == "RATE_LIMITED"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert [(await http.get(path)).status_code for _ in range(5)] == [200] * 5
        assert (
            await http.get("/api/nothing", headers={"Authorization": "Bearer key-two"})
        ).status_code == 404


async def test_calls_under_way_are_bounded_for_a_key_and_a_tenant(meter: RecordingMeter) -> None:
    rates = RateLimits(
        OutOfReach(), RateOptions(key_calls_at_once=2, tenant_calls_at_once=3), meter
    )

    @asynccontextmanager
    async def under_way(*callers: Caller) -> AsyncIterator[None]:
        if not callers:
            yield
            return
        rates.begin(callers[0])
        try:
            async with under_way(*callers[1:]):
                yield
        finally:
            rates.end(callers[0])

    for callers, last in (((ONE, ONE), ONE), ((ONE, ONE, TWO), TWO)):
        async with under_way(*callers):
            with pytest.raises(MemsvcError, match="are already running") as refused:
                rates.begin(last)
            assert (refused.value.code, refused.value.retry_after_s) == (Code.RATE_LIMITED, 1.0)
            async with under_way(OTHER, OTHER):
                pass
    async with under_way(ONE, ONE, TWO):
        pass


async def test_a_tenant_that_is_being_purged_keeps_no_other_from_being_told_of(
    database: Database, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    await admin.execute(
        "INSERT INTO purges VALUES ($1, '*', 0, gen_random_uuid(), now())", ONE.tenant
    )
    rates = RateLimits(database, RateOptions(tenant_calls_s=1, burst_s=100), meter)
    taken(rates, ONE, 3)
    taken(rates, OTHER, 3)
    assert await rates.exchange()
    assert [row["tenant"] for row in await admin.fetch("SELECT tenant FROM rates")] == [
        OTHER.tenant
    ]
