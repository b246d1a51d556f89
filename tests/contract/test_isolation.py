"""No tool shows a tenant anything of another one, nor of another project: by its queries, and by the policies alone."""

import re
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database, Tx
from memsvc.store.schema import TENANT_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, TOOLS, as_sent
from tests.door import Door

pytestmark = pytest.mark.anyio
RANDOM = re.compile(
    r"msk_[\w-]{43}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}(:\d+)?|mem_\d+|"
    r'(?<="operation_token":")[^"]+|(?<="duration_ms":)[\d.]+'
)


async def answer(door: Door, tool: str, /, **changes: Any) -> str:
    """What a call came to, an error or not, without what is random in it."""
    outcome = await door.dispatch.call(door.caller, tool, EXAMPLES[tool] | changes, surface="test", request_id="r")
    assert outcome.body.get("code") != "INTERNAL_ERROR"
    return RANDOM.sub("*", outcome.text)


async def fill(door: Door) -> None:
    for tool in EXAMPLES:
        if not TOOLS[tool].read_only and not TOOLS[tool].destructive:
            await door(tool, **await as_sent(door, tool))


async def rows(admin: asyncpg.Connection, tenant: bytes, project: str) -> dict[str, list[str]]:
    """Every row of a tenant's project, as text."""
    return {
        table: [
            row[0]
            for row in await admin.fetch(
                f"SELECT t::text FROM {table} AS t WHERE tenant = $1 AND"
                f" coalesce(to_jsonb(t) ->> 'project', $2) = $2 ORDER BY 1",
                tenant,
                project,
            )
        ]
        for table in TENANT_TABLES
    }


@pytest.fixture(params=[False, True], ids=["by the queries", "by the policies alone"])
def walls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With and without the tenant in the queries; True when the policies stand alone."""
    if request.param:
        without_the_tenant(monkeypatch)
    return bool(request.param)


def without_the_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement forget whose rows it wants."""
    for name in ("fetch", "fetchrow", "fetchval", "execute"):
        run = getattr(Tx, name)

        async def forgetful(tx: Tx, sql: str, *arguments: Any, run: Any = run) -> Any:
            return await run(tx, re.sub(r"(\b\w+\.)?tenant = \$1", "$1::bytea IS NOT NULL", sql), *arguments)

        monkeypatch.setattr(Tx, name, forgetful)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_stranger_gets_the_answer_of_an_empty_service(
    call: Door, other_call: Door, admin: asyncpg.Connection, walls: bool, tool: str
) -> None:
    nobody = call.as_tenant(Scope(b"\x03" * 32, "default"))
    empty = await answer(nobody, tool)
    await fill(call)
    token = (await call("memory_run_turn", **EXAMPLES["memory_run_turn"]))["operation_token"]
    held = {"operation_token": token} if "operation_token" in EXAMPLES[tool] else {}
    mine = await rows(admin, call.caller.tenant, "default")
    assert {"files", "entries", "facts", "guards", "sessions", "blocks"} <= {
        table for table, held in mine.items() if held
    }
    if held:  # whoever took a tenant's token gets no further than with one that was never issued
        empty = await answer(nobody, tool, **held)
        assert "PERMISSION_DENIED" in empty
    assert await answer(other_call, tool, **held) == empty
    assert await rows(admin, call.caller.tenant, "default") == mine
    if not walls and not TOOLS[tool].spans_projects:  # the project is no wall of the policies
        assert await answer(call, tool, project="elsewhere", **held) == empty
        mine.pop("usage")  # what a tenant's projects hold together
        others = await rows(admin, call.caller.tenant, "default")
        assert {table: others[table] for table in mine} == mine
    theirs = await rows(admin, other_call.caller.tenant, "default")
    if TOOLS[tool].read_only:
        assert not any(theirs.values())


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_strangers_writes_touch_only_their_own_rows(
    call: Door, other_call: Door, admin: asyncpg.Connection, walls: bool, tool: str
) -> None:
    del walls
    await fill(call)
    await fill(other_call)
    mine = await rows(admin, call.caller.tenant, "default")
    await answer(other_call, tool, **await as_sent(other_call, tool))
    assert await rows(admin, call.caller.tenant, "default") == mine


async def test_without_either_wall_a_stranger_would_see_everything(
    call: Door, other_call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: this is what they would meet."""
    await fill(call)
    without_the_tenant(monkeypatch)
    for table in TENANT_TABLES:
        await admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    assert MARK in await answer(other_call, "file_read")
    assert MARK in await answer(other_call, "memory_before_turn", current_input="Who am I, and what of the coast?")


async def test_an_argument_never_chooses_the_tenant(call: Door, other_call: Door, database: Database) -> None:
    del database
    await fill(call)
    for name in ("tenant", "scope", "caller", "api_key", "user"):
        for value in (call.caller.tenant.hex(), f"\\x{call.caller.tenant.hex()}"):
            await other_call.refuses("INVALID_ARGUMENT", "file_read", **EXAMPLES["file_read"] | {name: value})
