"""How many keys that open nothing an address may try, and who is let in whatever it tried."""

import pytest

from memsvc.core.scope import Permission
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.guesses import Guesses, address_of
from memsvc.store import keys
from memsvc.store.database import Database
from tests.fakes import FakeClock
from tests.gateway.conftest import Gateway, Running

pytestmark = pytest.mark.anyio


async def status(gateway: Gateway, key: str) -> int:
    async with gateway.http(key) as http:
        return (await http.post("/nowhere", json={})).status_code


async def test_an_address_that_tries_too_many_keys_is_told_to_wait_and_a_known_key_is_let_in(
    running: Running, database: Database, clock: FakeClock
) -> None:
    known = await keys.create_key(database, "known", clock.now())
    unknown = await keys.create_key(database, "not seen yet", clock.now(), permissions=[Permission.READ])
    async with running(auth=AuthOptions(mode="listed", failures_a_minute=3, cache_s=0)) as gateway:
        assert await status(gateway, known.text) == 404
        assert [await status(gateway, f"guess-{number}") for number in range(5)] == [401, 401, 401, 429, 429]
        async with gateway.http("guess-6") as http:
            answer = await http.post("/nowhere", json={})
            assert (answer.json()["code"], answer.json()["retryable"]) == ("RATE_LIMITED", True)
            assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert await status(gateway, known.text) == 404
        assert await status(gateway, unknown.text) == 429


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


async def test_guesses_push_out_nothing_that_is_known(running: Running, database: Database, clock: FakeClock) -> None:
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


def test_one_address_has_no_say_in_another_and_a_network_of_ipv6_is_one() -> None:
    guesses = Guesses(1)
    guesses.note("10.0.0.1")
    assert guesses.wait_s("10.0.0.1") > 0
    assert guesses.wait_s("10.0.0.2") == 0
    hosts = ("2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1", "10.0.0.1", "", "unix")
    assert [address_of({"client": (host, 1)}) for host in hosts] == [
        "2001:db8::",
        "2001:db8::",
        "2001:db8:0:1::",
        "10.0.0.1",
        "",
        "unix",
    ]
    assert address_of({"client": None}) == ""
