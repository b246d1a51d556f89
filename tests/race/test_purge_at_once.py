"""Purging beside writers: each write goes or lives on whole, and a purge that was killed is
finished by the next."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store import tenant_purge
from memsvc.styles.files.indexing import FILE_INDEX
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from migrations.schema import TENANT_TABLES
from tests.door import Door, Refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
WRITERS = 8


ENTRY = (
    "NOT EXISTS (SELECT FROM entries AS e WHERE (e.tenant, e.project, e.book, e.entry) ="
    " ({0}, o.book, o.entry))"
)
SCOPE = "o.tenant, o.project"
ORPHANS = (
    *(f"SELECT FROM {table} AS o WHERE {ENTRY.format(SCOPE)}" for table in ("facts", "notions")),
    """
    SELECT FROM fresh_terms AS o WHERE NOT EXISTS (SELECT FROM entries AS e
        WHERE (e.tenant, e.project, e.search_book, e.search_entry)
            = (o.tenant, o.project, o.book, o.entry))
    """,
    """
    SELECT FROM posting_lists AS o CROSS JOIN LATERAL unnest(o.hits) AS hit
    WHERE NOT EXISTS (SELECT FROM entries AS e
        WHERE (e.tenant, e.project, e.search_book, e.search_entry)
            = (o.tenant, o.project, o.book, (hit >> 32)::int4))
    """,
    "SELECT FROM entries AS o WHERE NOT EXISTS (SELECT FROM books AS b WHERE b.book = o.book)",
    "SELECT FROM blocks AS o WHERE NOT EXISTS (SELECT FROM streams AS s WHERE s.stream = o.stream)",
    (
        "SELECT FROM streams AS o WHERE NOT EXISTS (SELECT FROM files AS f WHERE f.incarnation ="
        " o.incarnation)"
    ),
    """
    SELECT FROM books AS b CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE length > 0) AS entries,
            coalesce(sum(greatest(length, 0)), 0) AS length
        FROM entries AS e WHERE (e.tenant, e.project, e.search_book) = (b.tenant, b.project,
            b.book)) AS counted
    WHERE (b.entries, b.length) <> (counted.entries, counted.length)
    """,
    "SELECT FROM purges",
)
"""What nobody may be left with, and counters that are not those of what is there."""


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


async def busy_or_done(calling: Awaitable[dict[str, Any]]) -> dict[str, Any] | None:
    """What a call answers, None when it was refused for now; it is refused for nothing else."""
    try:
        return await calling
    except Refused as refused:
        if refused.code is not Code.RESOURCE_BUSY:
            raise
        return None


async def write(call: Door, writer: int, number: int) -> None:
    """A turn, a file and a block, which may be refused for now, and never anything else."""
    session, user = ("shared" if writer % 2 else f"s{writer}"), f"u{writer % 2}"
    for tool, asked in (
        (
            "memory_after_turn",
            {
                "session_id": session,
                "turn_id": f"{writer}-{number}",
                "user_id": user,
                "input_items": [said(f"My name is Name{writer}x{number}.")],
            },
        ),
        (
            "file_write",
            {
                "project": "default",
                "path": f"/f{writer}/{number}",
                "content": "a word",
                "mode": "TRUNCATE",
            },
        ),
        ("elfmem_remember", {"content": f"Thing {writer} of {number} is round."}),
        (
            "memories_add",
            {
                "user_id": user,
                "messages": [{"role": "user", "content": f"I live in Town{number}."}],
            },
        ),
    ):
        await busy_or_done(call(tool, **asked))


async def purge(call: Door, level: str, name: str, **more: Any) -> dict[str, Any]:
    return await call(
        "tenant_purge", project="default", level=level, name=name, confirm=name or "default", **more
    )


async def checked(call: Door, admin: asyncpg.Connection, clock: Any, tokens: Any) -> None:
    """What is there holds together: rows are as the files say, counters of books as their entries,
    quotas as the files, and nothing is closed or left of what is gone."""
    assert call.database is not None
    scope = Scope(call.caller.tenant, "default")
    rebuilding = TurnRebuild(call.database, clock, tokens, TurnOptions())
    for session in await rebuilding.sessions(scope):
        assert not +(await rebuilding.check(scope, session)), session
    for user, learnt_in in (await rebuilding.users(scope)).items():
        assert not +(await rebuilding.check_user(scope, user, learnt_in))
    for book in (FILE_INDEX, "knowledge", "memories/u0", "memories/u1"):
        assert not +(await rebuilding.check_index(scope, book)), book
    for orphans in ORPHANS:
        assert await admin.fetchval(f"SELECT count(*) FROM ({orphans}) AS found") == 0, orphans
    counted = "SELECT coalesce(sum(size_bytes), 0) FROM"
    held = await admin.fetchval(f"{counted} files WHERE owner = '' AND deleted_at IS NULL")
    assert await admin.fetchval(f"{counted} projects") == held
    assert await admin.fetchval(f"{counted} usage") == held


@pytest.mark.parametrize(
    ("level", "name"),
    [("project", ""), ("session", "shared"), ("user", "u0"), ("user", "u1"), ("path", "/f1")],
)
async def test_a_purge_beside_writers_leaves_nothing_broken(
    call: Door, admin: asyncpg.Connection, clock: Any, tokens: Any, level: str, name: str
) -> None:
    ready, receipts = asyncio.Barrier(WRITERS + 1), []

    async def writing(writer: int) -> None:
        for number in range(3):
            await write(call, writer, number)
        await ready.wait()
        for number in range(3, 8):
            await write(call, writer, number)

    async def purging() -> None:
        await ready.wait()
        while not receipts:
            receipts.extend(
                one for one in [await busy_or_done(purge(call, level, name))] if one is not None
            )

    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(writing(writer))
        group.create_task(purging())
    assert receipts[0]["complete"]
    assert receipts[0]["counts"]
    await checked(call, admin, clock, tokens)
    assert (await purge(call, level, name))["complete"]
    await checked(call, admin, clock, tokens)


class Killed(BaseException):
    """What a test ends a purge with."""


@pytest.mark.parametrize("step", [1, 9, 20])
@pytest.mark.parametrize(
    ("level", "name"), [("project", ""), ("session", "s0"), ("user", "u0"), ("user", "u1")]
)
async def test_a_killed_purge_keeps_writers_out_and_is_finished_by_the_next_one(
    call: Door, admin: asyncpg.Connection, clock: Any, tokens: Any, monkeypatch: pytest.MonkeyPatch, *,
    level: str, name: str, step: int,
) -> None:  # fmt: skip
    for writer in range(4):
        await write(call, writer, 0)
    erase, left = tenant_purge.erase, iter(range(step))

    async def killed(*given: Any, **more: Any) -> Any:
        done = await erase(*given, **more)
        if next(left, None) is None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return done

    monkeypatch.setattr(tenant_purge, "erase", killed)
    task = asyncio.create_task(purge(call, level, name))
    ended = (await asyncio.gather(task, return_exceptions=True))[0]
    monkeypatch.undo()
    if isinstance(ended, asyncio.CancelledError) and level == "project":
        assert await admin.fetchval("SELECT count(*) FROM purges") == 1
        with pytest.raises(Refused, match="RESOURCE_BUSY"):
            await call("file_write", project="default", path="/new", content="x", mode="TRUNCATE")
        await call(
            "memory_before_turn", session_id="s0", user_id="u0", current_input="What is my name?"
        )
    receipt = await purge(call, level, name)
    assert receipt["complete"]
    if isinstance(ended, asyncio.CancelledError) and level == "project":
        assert receipt["resumed"]
    await checked(call, admin, clock, tokens)
    if level == "project":
        for table in TENANT_TABLES:
            left_over = await admin.fetchval(f"SELECT count(*) FROM {table}")
            assert left_over == (1 if table in ("usage", "calls") else 0), (
                table
            )  # that of the purge itself


async def test_of_two_that_purge_the_same_one_finishes_and_the_other_is_told(
    call: Door, admin: asyncpg.Connection, clock: Any, tokens: Any
) -> None:
    for writer in range(4):
        await write(call, writer, 0)
    ended = await asyncio.gather(
        *(purge(call, "project", "") for _ in range(3)), return_exceptions=True
    )
    refused = [one for one in ended if isinstance(one, Refused)]
    assert len(refused) < 3
    assert all(one.code is Code.RESOURCE_BUSY for one in refused)
    await checked(call, admin, clock, tokens)
