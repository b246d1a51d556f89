"""Changes as every process hears them: announced in a transaction, listened for by a connection of
its own."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import changes as module
from memsvc.store.changes import ChangePoll, Changes, change_key, notify
from memsvc.store.database import Database
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = pytest.mark.anyio

MINE = (
    "SELECT {} FROM pg_stat_activity WHERE application_name = 'memsvc changes' AND datname ="
    " current_database()"
)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for long."""
    for name, seconds in {
        "RECONNECT_S_MIN": 0.01,
        "RECONNECT_S_MAX": 0.02,
        "ECHO_INTERVAL_S": 0.02,
        "ECHO_S_MAX": 0.2,
    }.items():
        monkeypatch.setattr(module, name, seconds)


async def test_a_change_is_told_when_it_is_committed_and_to_nobody_else(
    database: Database, database_urls: DatabaseUrls, scope: Scope, other_scope: Scope
) -> None:
    changes, told = Changes(database_urls.app), list[str]()
    for name, whose, uri in (
        ("mine", scope, "m://a"),
        ("theirs", other_scope, "m://a"),
        ("else", scope, "m://b"),
    ):
        changes.watch(change_key(whose, uri), lambda name=name: told.append(name))
    end = changes.watch(change_key(scope, "m://a"), lambda: told.append("gone"))
    async with changes.running():
        await until(lambda: changes.listening)
        assert sorted(told) == [
            "else",
            "gone",
            "mine",
            "theirs",
        ]  # what changed before cannot be known
        told.clear()
        end()
        end()
        with suppress(RuntimeError):
            async with database.begin(scope) as tx:
                await notify(tx, "m://b")
                raise RuntimeError
        async with database.begin(scope) as tx:
            await notify(tx, "m://a")
            assert told == []
        await until(lambda: bool(told))
    assert told == ["mine"]


async def test_the_connection_is_closed_at_the_end_and_opened_again_when_it_is_lost(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, at_once: None
) -> None:
    changes, told = Changes(database_urls.app), list[int]()
    async with changes.running():
        await until(lambda: changes.listening)
        changes.watch("k" * 64, lambda: told.append(1))
        for times in (1, 2):
            assert await admin.fetchval(MINE.format("count(pg_terminate_backend(pid))")) == 1
            await until(lambda times=times: len(told) == times)
            assert changes.listening
    assert not changes.listening
    assert await admin.fetchval(MINE.format("count(*)")) == 0


async def test_a_connection_that_hears_nothing_is_known_as_such_and_logged_once(
    database_urls: DatabaseUrls, monkeypatch: pytest.MonkeyPatch, at_once: None
) -> None:
    tries = 0

    async def deaf(
        *_: Any,
    ) -> None:  # as behind a pooler, which gives each statement another connection
        nonlocal tries
        tries += 1

    changes = Changes(database_urls.app)
    with structlog.testing.capture_logs() as lines:
        async with changes.running():
            await until(lambda: changes.listening)
            with monkeypatch.context() as behind_a_pooler:
                behind_a_pooler.setattr(asyncpg.Connection, "add_listener", deaf)
                behind_a_pooler.setattr(changes, "_on_notify", deaf)
                behind_a_pooler.setattr(module, "ECHO_S_MAX", 0.01)
                await _cut(database_urls)
                await until(lambda: tries > 3)
                assert not changes.listening
            await until(lambda: changes.listening)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "change notifications are not received at the moment"),
        ("info", "change notifications are received again"),
    ]
    assert "direct_url" in lines[0]["recovery"]


async def _cut(urls: DatabaseUrls) -> None:
    connection = await asyncpg.connect(urls.superuser)
    await connection.fetchval(MINE.format("count(pg_terminate_backend(pid))"))
    await connection.close()


async def test_a_database_that_is_out_of_reach_is_tried_until_the_end(at_once: None) -> None:
    changes = Changes("postgresql://nobody@127.0.0.1:1/nothing")
    with structlog.testing.capture_logs() as lines:
        async with changes.running():
            await until(lambda: bool(lines))
            assert not changes.listening
    assert len(lines) == 1
    assert "nobody" not in repr(lines)


async def test_what_nobody_announces_is_looked_for_together_and_again_after_an_outage(
    scope: Scope, other_scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "POLL_BATCH", 2)
    states = dict.fromkeys("abc", 1)
    asked, told, away = list[tuple[bytes, str]](), list[str](), list[Exception]()

    async def stamps(whose: Scope, names: Sequence[str]) -> list[int]:
        asked.append((whose.tenant, "".join(names)))
        if away:
            raise away[-1]
        return [states[name] for name in names]

    changes = Changes("postgresql://nobody@127.0.0.1:1/nothing")
    ends = [
        changes.watch(f"{whose.tenant.hex()}{name}", lambda name=name: told.append(name), look)
        for whose, names in ((scope, "abc"), (other_scope, "a"))
        for name, look in [(name, await ChangePoll.start(stamps, whose, name)) for name in names]
    ]
    asked.clear()
    with structlog.testing.capture_logs() as lines:
        async with changes.running():
            await until(lambda: len(asked) >= 3)
            assert asked[:3] == [
                (scope.tenant, "ab"),
                (scope.tenant, "c"),
                (other_scope.tenant, "a"),
            ]
            assert told == []
            states["c"] = 2
            await until(lambda: bool(told))
            for error in (MemsvcError(Code.UNAVAILABLE, "away"), OSError("away")):
                away.append(error)
                states["b"] += 1
                asked.clear()
                await until(lambda: len(asked) > 3)
                assert "b" not in told
            away.clear()
            await until(lambda: "b" in told)
            assert told == ["c", "b"]
            late = ChangePoll(
                stamps, scope, "b", 1
            )  # begun before b changed, and waited for after that was seen
            ends.append(changes.watch(f"{scope.tenant.hex()}b", lambda: told.append("late"), late))
            assert told == ["c", "b", "late"]
            for end in ends:
                end()
            asked.clear()
            await asyncio.sleep(0.05)
            assert (changes.watch_count(), asked) == (0, [])
    looks = [(line["log_level"], line.get("error")) for line in lines if "polled" in line["event"]]
    assert looks == [
        ("warning", "MemsvcError"),
        ("warning", "MemsvcError"),
        ("info", None),
        ("info", None),
    ]
