"""Far more clients than there is room for: each is served or told when to come again, and then all
is as before."""

import asyncio
from collections import Counter

import asyncpg
import httpx2
import pytest

from memsvc.gateway import admission
from memsvc.gateway.admission import SlotOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rate_limits import Rate, RateOptions
from memsvc.store.database import DatabaseOptions
from tests.gateway.served import Service, served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CLIENTS, CALLS, QUIET_CALLS = 200, 3, 20
REFUSALS = {(429, "RATE_LIMITED"), (503, "RESOURCE_BUSY")}
LIMITS = LimitsOptions(
    slots=SlotOptions(calls_max=4, waiting_max=20, wait_ms=300),
    rates=RateOptions(key_calls_at_once=60, key_calls_s=1, burst_s=350),
)


def ended_as(answer: httpx2.Response) -> tuple[int, str]:
    """How a call ended; a refusal has to say when to come again, in both places."""
    if answer.status_code == 200:
        return 200, ""
    body = answer.json()
    assert body["retryable"] is True
    assert 0 < body["retry_after_s"] <= int(answer.headers["Retry-After"])
    return answer.status_code, body["code"]


async def gauges(http: httpx2.AsyncClient) -> dict[str, float]:
    """What runs and what waits, as the metrics tell."""
    lines = (await http.get("/metrics")).text.splitlines()
    return {
        line.split()[0]: float(line.split()[1])
        for line in lines
        if line.startswith(("memsvc_calls_r", "memsvc_calls_w"))
    }


async def test_two_hundred_clients_are_served_or_refused_and_nothing_else(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    few = DatabaseOptions(pool_min=2, pool_max=2, acquire_timeout_ms=20_000)
    async with (
        served(database_urls, admin, limits=LIMITS, database=few) as service,
        wired(service.app, LIMITS) as url,
    ):
        flood, quiet = await asyncio.gather(_flood(url), _quiet(service))
        assert flood.keys() <= {(200, ""), *REFUSALS}
        assert flood[200, ""] > 0
        assert flood[429, "RATE_LIMITED"] > 0
        assert flood[503, "RESOURCE_BUSY"] > 0
        assert quiet == {(200, ""): QUIET_CALLS}
        async with service.http("key-three") as http:
            assert await gauges(http) == {"memsvc_calls_running": 0, "memsvc_calls_waiting": 0}
            assert (
                await http.post("/api/tools/file_stat", json={"project": "p", "path": "/"})
            ).status_code == 200
            assert (await http.get("/readyz")).status_code == 200


async def _flood(url: str) -> Counter[tuple[int, str]]:
    """Clients of one key, all at once, each writing a file of its own and again."""
    ends: Counter[tuple[int, str]] = Counter()
    limits = httpx2.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    headers = {"Authorization": "Bearer key-one"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as http:

        async def client(number: int) -> None:
            for _ in range(CALLS):
                written = {"project": "p", "path": f"/f{number}", "content": "x" * 100}
                ends[ended_as(await http.post("/api/tools/file_write", json=written))] += 1

        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return ends


async def _quiet(service: Service) -> Counter[tuple[int, str]]:
    """One client of another tenant, meanwhile."""
    ends: Counter[tuple[int, str]] = Counter()
    async with service.http("key-two") as http:
        for number in range(QUIET_CALLS):
            written = {"project": "p", "path": f"/q{number}", "content": "y"}
            ends[ended_as(await http.post("/api/tools/file_write", json=written))] += 1
    return ends


async def test_a_call_over_mcp_that_finds_no_room_says_when_to_come_again_in_its_header_too(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    one = LimitsOptions(rates=RateOptions(key_calls_s=0.1, burst_s=10))
    call = {"name": "file_stat", "arguments": {"project": "p", "path": "/"}}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accepted = {"Accept": "application/json, text/event-stream"}
    async with served(database_urls, admin, limits=one) as service, service.http() as http:
        served_call = await http.post("/mcp", json=sent, headers=accepted)
        refused = await http.post("/mcp", json=sent, headers=accepted)
    assert (served_call.status_code, "retry-after" in served_call.headers) == (200, False)
    assert (refused.status_code, refused.json()["result"]["isError"]) == (200, True)
    assert int(refused.headers["retry-after"]) >= 1


async def test_who_goes_on_calling_whatever_it_is_told_is_refused_before_its_call_is_read(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "REJECTION_RATE", Rate(per_s=0.01, burst_s=1))
    monkeypatch.setattr(admission, "REJECT_S_MAX", 0.01)
    one = LimitsOptions(rates=RateOptions(key_calls_at_once=1))
    call = {"name": "file_stat", "arguments": {"project": "p", "path": "/"}}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accepted = {"Accept": "application/json, text/event-stream"}
    async with (
        served(database_urls, admin, limits=one) as service,
        service.http() as http,
        service.http("two") as two,
    ):
        assert (await http.post("/mcp", json=sent, headers=accepted)).json()["result"][
            "isError"
        ] is False
        async with admin.transaction():
            await admin.execute("LOCK TABLE files")
            under_way = asyncio.create_task(http.post("/mcp", json=sent, headers=accepted))
            while (await gauges(http))["memsvc_calls_running"] == 0:  # noqa: ASYNC110 - metrics alone tell
                await asyncio.sleep(0)
            refused = await http.post("/mcp", json=sent, headers=accepted)
            insisting = await http.post("/mcp", json=sent, headers=accepted)
            unread = await http.post("/api/tools/file_stat", content=b"{")
            listed = await http.post(
                "/mcp", json={**sent, "method": "tools/list", "params": {}}, headers=accepted
            )
        assert (await under_way).json()["result"]["isError"] is False
        other = await two.post("/mcp", json=sent, headers=accepted)
    assert (refused.status_code, refused.json()["result"]["isError"]) == (200, True)
    assert (insisting.status_code, insisting.json()["error"]["data"]["code"]) == (
        429,
        "RATE_LIMITED",
    )
    assert (unread.status_code, unread.json()["code"]) == (429, "RATE_LIMITED")
    assert insisting.headers["retry-after"] == unread.headers["retry-after"] == "1"
    assert listed.json()["result"]["tools"]
    assert other.json()["result"]["isError"] is False
