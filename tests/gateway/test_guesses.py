"""How many keys that open nothing an address may try, and that whoever has a good one is let in
whatever it tried."""

import asyncio
from ipaddress import ip_network
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.credentials import (
    CONCURRENT_QUERIES,
    AuthFailures,
    KeyCache,
    client_address,
    counted_address,
)
from memsvc.store import keys
from memsvc.store.database import Database
from tests.fakes import FakeClock
from tests.gateway.conftest import Gateway, Running

pytestmark = pytest.mark.anyio


async def status(gateway: Gateway, key: str) -> int:
    async with gateway.http(key) as http:
        return (await http.post("/nowhere", json={})).status_code


async def test_an_address_that_tries_too_many_keys_is_told_to_wait_and_a_good_key_is_let_in(
    running: Running, database: Database, clock: FakeClock
) -> None:
    unseen = [await keys.create_key(database, "not seen yet", clock.now()) for _ in range(2)]
    async with running(auth=AuthOptions(mode="listed", failures_a_minute=3, cache_s=0)) as gateway:
        assert [await status(gateway, f"guess-{number}") for number in range(5)] == [
            401,
            401,
            401,
            429,
            429,
        ]
        async with gateway.http("guess-6") as http:
            answer = await http.post("/nowhere", json={})
            assert (answer.json()["code"], answer.json()["retryable"]) == ("RATE_LIMITED", True)
            assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert [await status(gateway, one.text) for one in unseen] == [404, 404]


async def test_after_a_thousand_wrong_keys_an_unseen_good_one_of_the_same_address_is_let_in(
    running: Running, database: Database, clock: FakeClock
) -> None:
    unseen = await keys.create_key(database, "not seen yet", clock.now())
    async with running(auth=AuthOptions(mode="listed")) as gateway, gateway.http(None) as http:
        answers = [
            (await http.get("/nowhere", headers={"X-API-Key": f"guess-{number}"})).status_code
            for number in range(1000)
        ]
        assert (answers[:60], answers[-1]) == ([401] * 60, 429)
        assert (await http.get("/nowhere", headers={"X-API-Key": unseen.text})).status_code == 404


async def test_keys_are_looked_up_a_few_at_once_however_many_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    under_way, most, full = 0, 0, asyncio.Event()

    async def find_key(*_: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == CONCURRENT_QUERIES:
            full.set()
        await full.wait()
        under_way -= 1

    monkeypatch.setattr(keys, "find_key", find_key)
    known = KeyCache(
        cast(Database, None), keep_s=0, keys_max=10, changes=None, changed=lambda: None
    )
    await asyncio.gather(*(known.find(keys.hash_key(f"guess-{number}")) for number in range(50)))
    assert most == CONCURRENT_QUERIES


async def test_behind_a_trusted_proxy_each_client_counts_by_itself(running: Running) -> None:
    trusting = AuthOptions(mode="listed", failures_a_minute=1, trusted_proxies=("10.0.0.0/8",))
    async with (
        running(auth=trusting) as gateway,
        gateway.http(None, client=("10.0.0.1", 1)) as http,
    ):

        async def tried(key: str, forwarded: str) -> int:
            headers = {"X-API-Key": key, "X-Forwarded-For": forwarded}
            return (await http.get("/nowhere", headers=headers)).status_code

        assert [await tried("a", "198.51.100.1"), await tried("b", "198.51.100.1")] == [401, 429]
        assert await tried("c", "198.51.100.2") == 401
        assert (
            await tried("d", "203.0.113.9, 198.51.100.1, 10.0.0.2") == 429
        )  # what a client wrote itself says nothing


async def test_no_key_at_all_is_no_guess_and_a_key_that_was_revoked_neither(
    running: Running, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "revoked", clock.now())
    async with running(auth=AuthOptions(mode="listed", failures_a_minute=1, cache_s=0)) as gateway:
        assert await status(gateway, made.text) == 404
        await keys.revoke_key(database, made.key.key_id, clock.now())
        async with gateway.http(None) as http:
            for _ in range(3):
                assert (await http.post("/nowhere", json={})).status_code == 401
        assert [await status(gateway, made.text) for _ in range(3)] == [401, 401, 401]
        assert await status(gateway, "guess") == 401
        assert await status(gateway, "another") == 429


async def test_refused_keys_are_counted_and_logged_by_reason_and_never_told(
    running: Running, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "revoked", clock.now())
    await keys.revoke_key(database, made.key.key_id, clock.now())
    options = AuthOptions(mode="listed", failures_a_minute=2, cache_s=0)
    with capture_logs() as logged:
        async with running(auth=options) as gateway:
            for key in (made.text, "guess-1", "guess-2", "guess-3"):
                await status(gateway, key)
            async with gateway.http(None) as http:
                assert (await http.post("/nowhere", json={})).status_code == 401
            metrics = gateway.metrics.text().decode()
    counts = {"missing": 1, "unknown": 2, "expired": 1, "token": 0, "limited": 1}
    for reason, count in counts.items():
        assert f'memsvc_keys_refused_total{{reason="{reason}"}} {count}.0' in metrics
    [line] = [one for one in logged if "because of their keys" in one["event"]]
    assert {name: line.get(name) for name in ("unknown", "expired", "limited", "missing")} == {
        "unknown": 2,
        "expired": 1,
        "limited": 1,
        "missing": None,
    }
    assert not any(word in f"{logged}{metrics}" for word in (made.text, "guess-", "127.0.0.1"))


async def test_guesses_push_out_nothing_that_is_known(
    running: Running, database: Database, clock: FakeClock
) -> None:
    known = await keys.create_key(database, "known", clock.now())
    options = AuthOptions(mode="listed", failures_a_minute=0, cache_keys_max=2, cache_s=300)
    async with running(auth=options) as gateway:
        assert await status(gateway, known.text) == 404
        assert {await status(gateway, f"guess-{number}") for number in range(10)} == {401}
        await database.close()
        assert await status(gateway, known.text) == 404


async def test_in_open_mode_there_is_nothing_to_guess(running: Running) -> None:
    async with running(auth=AuthOptions(mode="open", failures_a_minute=1)) as gateway:
        assert {await status(gateway, f"key-{number}") for number in range(5)} == {404}


def test_one_address_has_no_say_in_another() -> None:
    guesses = AuthFailures(1)
    assert [guesses.wait_s("10.0.0.1"), guesses.wait_s("10.0.0.2")] == [0, 0]
    assert guesses.wait_s("10.0.0.1") > 0
    assert AuthFailures(0).wait_s("10.0.0.1") == 0


def request(peer: str | None, *headers: tuple[str, str]) -> dict[str, Any]:
    named = [(name.encode(), value.encode()) for name, value in headers]
    return {"client": None if peer is None else (peer, 1), "headers": named}


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    hosts = (
        "2001:db8::1",
        "2001:db8::ffff",
        "2001:db8:0:1::1",
        "10.0.0.1",
        "",
        "unix",
        "::ffff:10.0.0.1",
    )
    assert [counted_address(request(host), ()) for host in hosts] == [
        "2001:db8::",
        "2001:db8::",
        "2001:db8:0:1::",
        "10.0.0.1",
        "",
        "unix",
        "10.0.0.1",
    ]
    assert counted_address(request(None), ()) == ""


@pytest.mark.parametrize(
    ("peer", "header", "value", "address"),
    [
        ("10.0.0.1", "x-forwarded-for", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "x-forwarded-for", "1.1.1.1, 198.51.100.1:4711, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "x-forwarded-for", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "x-forwarded-for", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "x-forwarded-for", "", "10.0.0.1"),
        ("10.0.0.1", "forwarded", 'for=1.1.1.1, For="[2001:db8::7]:80";proto=https', "2001:db8::7"),
        ("10.0.0.1", "forwarded", "proto=https;for=198.51.100.1;by=10.0.0.9", "198.51.100.1"),
        ("10.0.0.1", "forwarded", "for=_hidden", "10.0.0.1"),
        ("198.51.100.9", "x-forwarded-for", "1.1.1.1", "198.51.100.9"),
        ("198.51.100.9", "forwarded", "for=1.1.1.1", "198.51.100.9"),
    ],
)
def test_who_calls_is_what_a_trusted_proxy_says_and_nobody_else(
    peer: str, header: str, value: str, address: str
) -> None:
    trusted = [ip_network("10.0.0.0/8")]
    assert client_address(request(peer, (header, value)), trusted) == address
    assert client_address(request(peer, (header, value)), ()) == peer
