"""Whatever breaks in the middle of storing a turn, nothing of the turn is there, and the same call
again stores it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code
from memsvc.store.database import Tx
from tests.door import Door, Refused
from tests.servers import DatabaseUrls
from tests.styles.turns.talk import ask, events, file_records, say, snapshot, values
from tests.waiting import until

pytestmark = pytest.mark.slow

STATEMENTS = ("fetch", "fetchrow", "fetchval", "execute", "lock")
MOST = 40


class UnforeseenError(Exception):
    """A fault that nobody foresaw."""


class Statements:
    """Does something in place of, or after, the n-th statement that any transaction sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self.at = 0
        self.then: Callable[[], Awaitable[None]] | None = None
        self.afterwards = False
        for name in STATEMENTS:
            monkeypatch.setattr(Tx, name, self._wrapped(getattr(Tx, name)))

    def _wrapped(self, original: Any) -> Any:
        async def run(tx: Tx, *given: Any) -> Any:
            self.sent += 1
            mine = self.sent == self.at and self.then is not None
            if mine and not self.afterwards:
                await self.then()
            answer = await original(tx, *given)
            if mine and self.afterwards:
                await self.then()
            return answer

        return run


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    return Statements(monkeypatch)


async def learn(door: Door) -> dict[str, Any]:
    said = "My name is Grace. Today I need milk. I like tea."
    return await say(door, "t2", said, answer="Noted.", session="s1", user_id="u1")


async def broken() -> None:
    raise UnforeseenError


@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
async def test_a_fault_at_any_statement_leaves_nothing_behind_and_the_retry_succeeds(
    door: Door, admin: asyncpg.Connection, statements: Statements, afterwards: bool
) -> None:
    await say(door, "t1", "My name is Ada.", session="s0", user_id="u1")
    before = await snapshot(admin)
    statements.then, statements.afterwards = broken, afterwards
    for at in range(1, MOST):
        statements.sent, statements.at = 0, at
        try:
            answer = await learn(door)
        except Refused as refused:
            assert refused.code is Code.INTERNAL_ERROR  # noqa: PT017
            assert await snapshot(admin) == before
        else:
            break
    assert at > 4
    statements.then = None
    assert sorted(answer["fact_ids"]) == ["today_task", "user_like", "user_name"]
    assert await learn(door) == answer
    assert len(await events(door)) == 2
    assert values(await ask(door, "What is my name?", user_id="u1")) == ["Grace"]
    closed = await file_records(door, "/memory/s0/memory_tiers/L0/2026/01/facts-202601.jsonl")
    assert [record["type"] for record in closed] == ["fact_upsert", "fact_supersede"]


async def test_a_call_that_is_cancelled_at_any_statement_leaves_nothing_half_written(
    door: Door, admin: asyncpg.Connection, statements: Statements
) -> None:
    await say(door, "t1", "My name is Ada.", session="s0", user_id="u1")
    before = await snapshot(admin)
    call: asyncio.Task[Any] | None = None

    async def cancel() -> None:
        assert call is not None
        call.cancel()
        await asyncio.sleep(0)

    statements.then, statements.afterwards = cancel, True
    for at in range(1, MOST):
        statements.sent, statements.at = 0, at
        call = asyncio.create_task(learn(door))
        try:
            await call
        except asyncio.CancelledError:
            assert await snapshot(admin) == before
        else:
            break
    assert at > 4
    statements.then = None
    assert len(await events(door)) == 2
    assert len(await admin.fetch("SELECT FROM facts WHERE state = 'active'")) == 3


async def test_a_connection_that_is_lost_at_any_statement_is_told_to_try_again_and_leaves_nothing(
    door: Door, admin: asyncpg.Connection, statements: Statements
) -> None:
    await say(door, "t1", "My name is Ada.", session="s0", user_id="u1")
    before = await snapshot(admin)

    async def cut() -> None:
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    statements.then = cut
    for at in range(1, MOST):
        statements.sent, statements.at = 0, at
        try:
            await learn(door)
        except Refused as refused:
            assert (refused.code, refused.body["retryable"]) == (Code.UNAVAILABLE, True)  # noqa: PT017
            assert await snapshot(admin) == before
        else:
            break
    assert at > 4
    statements.then = None
    assert len(await events(door)) == 2


async def nothing_left(admin: asyncpg.Connection) -> None:
    """No transaction is open, but for one that is just being ended."""

    async def none_open() -> bool:
        sql = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state"
            " LIKE 'idle in%'"
        )
        return not await admin.fetchval(sql)

    await until(none_open)


@pytest.mark.parametrize("way", ["broken", "cancelled", "cut"])
async def test_whatever_breaks_in_the_middle_of_recalling_the_next_call_recalls_all(
    door: Door, admin: asyncpg.Connection, statements: Statements, way: str
) -> None:
    await learn(door)
    answer = await ask(door, "What is my name?", user_id="u1", turn_id="t9")
    call: asyncio.Task[Any] | None = None

    async def breaks() -> None:
        if way == "broken":
            raise UnforeseenError
        if way == "cancelled":
            assert call is not None
            call.cancel()
            await asyncio.sleep(0)
        else:
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    async def again() -> dict[str, Any]:
        while True:
            try:
                return await ask(door, "What is my name?", user_id="u1", turn_id="t9")
            except Refused as refused:  # of a cut, other connections may only hear now
                assert (way, refused.code) == ("cut", Code.UNAVAILABLE)  # noqa: PT017

    for at in range(1, MOST):
        statements.sent, statements.at, statements.then = 0, at, breaks
        call = asyncio.create_task(ask(door, "What is my name?", user_id="u1", turn_id="t9"))
        ended = await asyncio.wait([call])
        statements.then = None
        assert await again() == answer
        await nothing_left(admin)
        [done] = ended[0]
        if not done.cancelled() and done.exception() is None:
            break
    assert at > 3
    assert call.result() == answer


async def test_recalling_that_is_cancelled_while_it_waits_for_the_database_gives_its_connection_back(
    door: Door, admin: asyncpg.Connection, database_urls: DatabaseUrls
) -> None:
    await learn(door)
    answer = await ask(door, "What is my name?", turn_id="t9")
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
        " wait_event_type = 'Lock'"
    )
    other = await asyncpg.connect(database_urls.superuser)
    for _ in range(3):
        async with other.transaction():
            await other.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
            call = asyncio.create_task(ask(door, "What is my name?", turn_id="t9"))
            await until(lambda: admin.fetchval(waits))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert await ask(door, "What is my name?", turn_id="t9") == answer
        await nothing_left(admin)
    await other.close()
