"""No tool shows a tenant anything of another one, nor of another project: by its queries, and by
the policies alone."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database, DatabaseOptions, Tx
from migrations.schema import TENANT_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, TOOLS, as_sent
from tests.contract.conftest import Numbers
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
STRANGER = Scope(b"\x03" * 32, "default")
RANDOM = re.compile(
    r"msk_[\w-]{43}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}(:\d+)?|mem_\d+|"
    r'(?<="operation_token":")[^"]+|(?<="duration_ms":)[\d.]+'
)


async def answer(door: Door, tool: str, /, **changes: Any) -> str:
    """What a call came to, an error or not, without what is random in it."""
    outcome = await door.dispatch.call(
        door.caller, tool, EXAMPLES[tool] | changes, surface="test", request_id="r"
    )
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


@dataclass(slots=True)
class Filled:
    """A database in which two tenants have used every tool, and what was named next there; filled
    for the first test of this module that wants one, and cloned for each."""

    name: str = ""
    numbers: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def filled(server: TestServer) -> Iterator[Filled]:
    filled = Filled()
    yield filled
    if filled.name:
        asyncio.run(server.drop(filled.name))


@asynccontextmanager
async def opened(
    urls: DatabaseUrls, clock: FakeClock, tokens: Any, meter: RecordingMeter
) -> AsyncIterator[Door]:
    """The service on a database, as somebody who has never been there."""
    database = await Database.open(urls.app, DatabaseOptions(pool_min=1), meter)
    try:
        yield open_door(database, clock, tokens, meter, STRANGER)
    finally:
        await database.close()


@pytest.fixture
async def database_urls(
    server: TestServer,
    filled: Filled,
    numbers: Numbers,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    other_scope: Scope,
) -> AsyncIterator[DatabaseUrls]:
    """A database in which both tenants, of `call` and `other_call`, have used every tool."""
    if not filled.numbers:
        filled.name = filled.name or await server.create()
        async with opened(server.urls(filled.name), clock, tokens, meter) as door:
            await fill(door.as_tenant(scope))
            await fill(door.as_tenant(other_scope))
        filled.numbers = dict(numbers.next)
    numbers.next = dict(filled.numbers)
    name = await server.create(origin=filled.name)
    yield server.urls(name)
    await server.drop(name)


@pytest.fixture
async def nobody(
    server: TestServer, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter
) -> AsyncIterator[Door]:
    """The stranger, in a database where nobody has ever been."""
    name = await server.create()
    async with opened(server.urls(name), clock, tokens, meter) as door:
        yield door
    await server.drop(name)


@pytest.fixture
def stranger(call: Door) -> Door:
    """A third tenant, beside the two."""
    return call.as_tenant(STRANGER)


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
            return await run(
                tx, re.sub(r"(\b\w+\.)?tenant = \$1", "$1::bytea IS NOT NULL", sql), *arguments
            )

        monkeypatch.setattr(Tx, name, forgetful)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_stranger_gets_the_answer_of_an_empty_service(
    call: Door, stranger: Door, nobody: Door, admin: asyncpg.Connection, walls: bool, tool: str
) -> None:
    empty = await answer(nobody, tool)
    token = (await call("memory_run_turn", **EXAMPLES["memory_run_turn"]))["operation_token"]
    held = {"operation_token": token} if "operation_token" in EXAMPLES[tool] else {}
    mine = await rows(admin, call.caller.tenant, "default")
    assert {"files", "entries", "facts", "guards", "sessions", "blocks"} <= {
        table for table, held in mine.items() if held
    }
    if held:  # whoever took a tenant's token gets no further than with one that was never issued
        empty = await answer(nobody, tool, **held)
        assert "PERMISSION_DENIED" in empty
    assert await answer(stranger, tool, **held) == empty
    assert await rows(admin, call.caller.tenant, "default") == mine
    if not walls and not TOOLS[tool].spans_projects:  # the project is no wall of the policies
        elsewhere = await answer(call, tool, project="elsewhere", **held)
        # what finds nothing says in which project it looked
        assert elsewhere.replace("elsewhere", "default") == empty
        mine.pop("usage")  # what a tenant's projects hold together
        others = await rows(admin, call.caller.tenant, "default")
        assert {table: others[table] for table in mine} == mine
    theirs = await rows(admin, STRANGER.tenant, "default")
    if TOOLS[tool].read_only:
        assert not any(theirs.values())


async def test_what_a_process_remembers_of_a_tenant_is_shown_to_no_other(
    call: Door, stranger: Door, nobody: Door
) -> None:
    """As above, where the process that is asked has answered the tenant's calls of every kind."""
    for tool in EXAMPLES:
        if not TOOLS[tool].destructive:
            await answer(call, tool)
    for tool in EXAMPLES:
        if TOOLS[tool].read_only:
            assert await answer(stranger, tool) == await answer(nobody, tool), tool


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_strangers_writes_touch_only_their_own_rows(
    call: Door, other_call: Door, admin: asyncpg.Connection, walls: bool, tool: str
) -> None:
    del walls
    mine = await rows(admin, call.caller.tenant, "default")
    await answer(other_call, tool, **await as_sent(other_call, tool))
    assert await rows(admin, call.caller.tenant, "default") == mine


async def test_without_either_wall_a_stranger_would_see_everything(
    stranger: Door, other_call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: this is what they would meet, with the rows of one tenant, as those
    of two would get in each other's way."""
    without_the_tenant(monkeypatch)
    for table in TENANT_TABLES:
        await admin.execute(f"DELETE FROM {table} WHERE tenant = $1", other_call.caller.tenant)
        await admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    assert MARK in await answer(stranger, "file_read")
    assert MARK in await answer(
        stranger, "memory_before_turn", current_input="Who am I, and what of the coast?"
    )


async def test_an_argument_never_chooses_the_tenant(call: Door, other_call: Door) -> None:
    for name in ("tenant", "scope", "caller", "api_key", "user"):
        for value in (call.caller.tenant.hex(), f"\\x{call.caller.tenant.hex()}"):
            await other_call.refuses(
                "INVALID_ARGUMENT", "file_read", **EXAMPLES["file_read"] | {name: value}
            )
