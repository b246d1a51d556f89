"""On a real Citus cluster, which `make test-citus DSN=...` names: every tool works, and every wall
stands."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database, Row, Tx
from memsvc.store.migrate import downgrade, migrate
from memsvc.store.policies import SHARD_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, as_sent
from tests.contract.test_isolation import answer, fill
from tests.contract.test_walls import READING
from tests.door import Door
from tests.nodes import TELL, Node, at, node_of, told
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
SHARDS = """
    SELECT s.logicalrelid::text AS whole, shard_name(s.logicalrelid, s.shardid) AS shard,
        n.nodename, n.nodeport
    FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) JOIN pg_dist_node AS n
        USING (groupid)
    JOIN pg_class AS c ON c.oid = s.logicalrelid WHERE NOT c.relispartition
"""
RUN = (
    "SELECT * FROM run_on_node($1, $2, quote_literal($1::bytea)) AS found (tenant bytea, told text)"
)
MOVE = """
    SELECT citus_move_shard_placement(get_shard_id_for_distribution_column('files', $1::bytea),
        $2, $3::text::int, $4, $5::text::int, shard_transfer_mode => 'block_writes')
"""
KILLS = 3
PLANS_KEPT = 128
REFUSED = dict.fromkeys(("tenant_settle_job", "restore_document"), "NOT_FOUND")
"""Tools whose example names what is not there."""


@pytest.fixture(autouse=True)
def cluster(server: TestServer) -> None:
    if not server.nodes:
        pytest.skip("the server is no coordinator of a Citus cluster")


@pytest.fixture
async def neighbour(admin: asyncpg.Connection, scope: Scope) -> Scope:
    """A tenant whose rows are in the same parts of the tables."""
    part = "SELECT get_shard_id_for_distribution_column('files', $1::bytea)"
    own = await admin.fetchval(part, scope.tenant)
    for number in range(2, 256):
        tenant = bytes([number]) * 32
        if await admin.fetchval(part, tenant) == own:
            return Scope(tenant, scope.project)
    raise AssertionError("no tenant is beside this one")


@pytest.fixture
async def both(call: Door, neighbour: Scope) -> tuple[Door, Door]:
    """Two tenants of the same parts, who have something of everything."""
    doors = call, call.as_tenant(neighbour)
    for door in doors:
        await fill(door)
    return doors


@pytest.fixture
async def teller(
    database_urls: DatabaseUrls, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Counter[str]]:
    """How many statements each node was sent, by the connections that are opened from now on."""
    connection = await asyncpg.connect(database_urls.superuser)
    for setting in TELL:
        await connection.execute(
            f"ALTER DATABASE {urlsplit(database_urls.app).path[1:]} SET {setting}"
        )
    await connection.close()
    with told(monkeypatch) as counts:
        yield counts


async def killable(dsn: str) -> Node:
    """A node of this machine."""
    node = await Node.find(dsn)
    if node is None:
        pytest.skip("the nodes are on other machines, or somebody else's")
    return node


async def drive(door: Door) -> dict[str, str]:
    """Call every tool by its example, in their order; the codes of those that failed."""
    codes = {}
    for tool in EXAMPLES:
        outcome = await door.dispatch.call(
            door.caller, tool, await as_sent(door, tool), surface="test", request_id="r"
        )
        if outcome.error is not None:
            codes[tool] = str(outcome.body["code"])
    await door.work()
    return codes


async def test_every_tool_works_and_every_wall_stands_on_every_node(
    call: Door, other_call: Door, admin: asyncpg.Connection, database_urls: DatabaseUrls
) -> None:
    assert await drive(call) == REFUSED
    for door in (call, other_call):
        await door("elfmem_remember", project="default", content=MARK)
    tenants = call.caller.tenant, other_call.caller.tenant
    seen = dict.fromkeys(tenants, 0)
    shards = await admin.fetch(SHARDS)
    assert {shard["whole"] for shard in shards} <= {*SHARD_TABLES}
    for node in {(shard["nodename"], shard["nodeport"]) for shard in shards}:
        here = [
            shard["shard"] for shard in shards if (shard["nodename"], shard["nodeport"]) == node
        ]
        parts = urlsplit(database_urls.app)
        url = parts._replace(
            netloc=f"{parts.netloc.rpartition('@')[0]}@{node[0]}:{node[1]}"
        ).geturl()
        connection = await asyncpg.connect(url)
        try:
            for tenant in (None, *tenants):
                async with connection.transaction():
                    if tenant is not None:
                        await connection.execute("SELECT set_tenant($1, 0, 0)", tenant)
                    for shard in (*here, *{shard["whole"] for shard in shards}):
                        for owner, rows in await connection.fetch(
                            f"SELECT tenant, count(*) FROM {shard} GROUP BY 1"
                        ):
                            assert owner == tenant, shard
                            seen[owner] += rows
        finally:
            await connection.close()
    assert all(seen.values())


async def test_no_call_of_a_tenant_touches_another_node_than_its_own(
    teller: Counter[str], call: Door, admin: asyncpg.Connection
) -> None:
    own = await node_of(admin, call.caller.tenant)
    assert await drive(call) == REFUSED
    assert {*teller} == {own}
    assert teller[own] > 500


@pytest.mark.parametrize("node", ["knows the cluster", "does not know the cluster yet"])
async def test_a_read_that_is_run_by_its_node_sees_what_was_written_and_keeps_its_plan(
    node: str, database: Database, admin: asyncpg.Connection, scope: Scope
) -> None:
    await admin.execute(f"UPDATE pg_dist_node SET metadatasynced = {node.startswith('knows')}")
    read = "SELECT size_bytes FROM usage WHERE tenant = $1 AND size_bytes < $2 ORDER BY 1"
    plans = "SELECT statement, generic_plans FROM pg_prepared_statements WHERE $1 <> ''::bytea"
    async with database.begin_tenant(scope) as tx:
        for number in range(3):
            await tx.fetch("SELECT * FROM add_bytes($1, 'default', $2, now())", 1)
            assert [dict(row) for row in await tx.fetch_prepared(read, 5)] == [
                {"size_bytes": number + 1}
            ]
        kept = [
            row["generic_plans"]
            for row in await tx.fetch_prepared(plans)
            if re.search(r"FROM \S*usage_\d+ WHERE", row["statement"])
        ]
    assert kept == ([2] if node.startswith("knows") else [])


async def test_a_node_keeps_so_many_plans(database: Database, scope: Scope) -> None:
    kept = "SELECT count(*) AS kept FROM pg_prepared_statements WHERE $1 <> ''::bytea"
    async with database.begin_tenant(scope) as tx:
        for number in range(PLANS_KEPT + 10):
            await tx.fetch_prepared(f"SELECT size_bytes FROM usage WHERE tenant = $1 -- {number}\n")
        [row] = await tx.fetch_prepared(kept)
    assert row["kept"] == PLANS_KEPT


@pytest.mark.parametrize("condition", ["tenant = $1", "$1::bytea IS NOT NULL"])
async def test_a_node_gives_a_transaction_the_rows_of_its_tenant_whomever_a_statement_asks_for(
    condition: str, both: tuple[Door, Door], admin: asyncpg.Connection, database_urls: DatabaseUrls
) -> None:
    """The two have their rows in the same parts of the tables."""
    tenants = [door.caller.tenant for door in both]
    port = (await node_of(admin, tenants[0])).rpartition(":")[2]
    connection = await asyncpg.connect(database_urls.app)

    async def found(table: str, asked: bytes) -> set[bytes]:
        statement = f"SELECT tenant, current_setting('port') FROM {table} WHERE {condition}"
        rows = await connection.fetch(RUN, asked, statement)
        assert {row["told"] for row in rows} <= {port}
        return {row["tenant"] for row in rows}

    filled: set[str] = set()
    try:
        for own in tenants:
            async with connection.transaction():
                await connection.execute("SELECT set_tenant($1, 0, 0)", own)
                for table in SHARD_TABLES:
                    owners = await found(table, own)
                    assert owners <= {own}, table
                    filled |= {table} if owners else set()
                    (other,) = {*tenants} - {own}
                    expected = set() if condition == "tenant = $1" else owners
                    assert await found(table, other) == expected, table
            assert await found("files", own) == set()
        assert len(filled) > 20
        await admin.execute("ALTER TABLE files DISABLE ROW LEVEL SECURITY")
        assert {*tenants} == await found("files", tenants[0]) | await found("files", tenants[1])
    finally:
        await connection.close()


async def test_without_the_tenant_in_what_a_node_is_given_every_tool_answers_as_with_it(
    both: tuple[Door, Door], admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, _ = both
    answers = {tool: await answer(call, tool) for tool in READING}
    run = Tx.fetch_prepared
    given: set[str] = set()

    async def forgetful(tx: Tx, sql: str, *arguments: Any) -> list[Row]:
        given.add(sql)
        return await run(tx, re.sub(r"(\b\w+\.)?tenant = \$1", "$1 <> ''::bytea", sql), *arguments)

    monkeypatch.setattr(Tx, "fetch_prepared", forgetful)
    assert {tool for tool in READING if await answer(call, tool) != answers[tool]} == set()
    assert len(given) > 4
    for table in SHARD_TABLES:
        await admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    outcome = await call.dispatch.call(
        call.caller,
        "memory_before_turn",
        EXAMPLES["memory_before_turn"],
        surface="test",
        request_id="r",
    )
    assert outcome.body["code"] == "INTERNAL_ERROR", "two rows were found where one can be"


async def store(database: Database, tenants: Iterable[Scope]) -> None:
    """Let each have one byte."""
    for tenant in tenants:
        async with database.begin_tenant(tenant) as tx:
            await tx.fetch("SELECT * FROM add_bytes($1, 'default', 1, now())")


async def shown(database: Database, tenant: Scope) -> list[tuple[bytes, int]]:
    """What a transaction finds on its node when it asks for the bytes of all tenants."""
    async with database.begin_tenant(tenant) as tx:
        read = "SELECT tenant, size_bytes FROM usage WHERE $1 <> ''::bytea"
        return [(row["tenant"], row["size_bytes"]) for row in await tx.fetch_prepared(read)]


async def test_a_plan_that_a_node_keeps_shows_each_tenant_of_its_parts_its_own_rows(
    database: Database, scope: Scope, neighbour: Scope
) -> None:
    tenants = scope, neighbour
    await store(database, tenants)
    for tenant in tenants * 2:
        assert await shown(database, tenant) == [(tenant.tenant, 1)]
    async with database.begin_tenant(scope) as tx:
        [kept] = await tx.fetch_prepared(
            r"""
            SELECT generic_plans + custom_plans AS runs FROM pg_prepared_statements
            WHERE $1 <> ''::bytea AND statement ~ 'size_bytes FROM \S*usage_\d+ WHERE'
            """
        )
    assert kept["runs"] == 4


async def test_a_node_runs_statements_for_the_application_alone_and_as_it(
    server: TestServer, admin: asyncpg.Connection, database_urls: DatabaseUrls, scope: Scope
) -> None:
    async def runs_as(url: str) -> str:
        connection = await asyncpg.connect(url)
        try:
            statement = "SELECT $1::bytea, current_user::text"
            return str((await connection.fetchrow(RUN, scope.tenant, statement))["told"])
        finally:
            await connection.close()

    stranger = f"{server.app}_stranger"
    await admin.execute(f"CREATE ROLE {stranger} LOGIN PASSWORD '{server.password}'")
    coordinator = urlsplit(database_urls.app).netloc.rpartition("@")[2]
    try:
        for node in (coordinator, *server.nodes):
            own = at(database_urls.app, node)
            assert await runs_as(own) == server.app
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="run_on_node"):
                await runs_as(own.replace(f"{server.app}:", f"{stranger}:"))
    finally:
        await admin.execute(f"DROP ROLE {stranger}")


async def test_a_read_finds_the_rows_of_its_tenant_alone_wherever_they_were_moved(
    database: Database,
    admin: asyncpg.Connection,
    server: TestServer,
    scope: Scope,
    neighbour: Scope,
) -> None:
    """Also on a node that kept a plan over parts it had before, and while one still has those."""
    tenants = scope, neighbour
    home = await node_of(admin, scope.tenant)
    away = next(node for node in server.nodes if node != home)
    for before, target in enumerate((home, away, home, away)):
        source = await node_of(admin, scope.tenant)
        if source != target:
            await admin.execute(MOVE, scope.tenant, *source.split(":"), *target.split(":"))
        assert await node_of(admin, scope.tenant) == target
        for tenant in tenants:
            assert await shown(database, tenant) == [(tenant.tenant, before)] * bool(before)
        await store(database, tenants)
        await admin.execute("CALL citus_cleanup_orphaned_resources()")
        for tenant in tenants:
            assert await shown(database, tenant) == [(tenant.tenant, before + 1)]


async def test_a_read_finds_its_node_started_again(
    database: Database, admin: asyncpg.Connection, database_urls: DatabaseUrls, scope: Scope
) -> None:
    node = await killable(at(database_urls.superuser, await node_of(admin, scope.tenant)))
    await store(database, [scope])
    assert await shown(database, scope) == [(scope.tenant, 1)]
    node.kill()
    await node.start()
    assert await shown(database, scope) == [(scope.tenant, 1)]


async def test_a_dead_node_stops_its_own_tenants_alone(
    call: Door, admin: asyncpg.Connection, database_urls: DatabaseUrls
) -> None:
    own = await node_of(admin, call.caller.tenant)
    tenants = [bytes([number]) * 32 for number in range(3, 30)]
    nodes = [await node_of(admin, tenant) for tenant in tenants]
    strange = next(number for number, node in enumerate(nodes) if node != own)
    stopped = call.as_tenant(Scope(tenants[strange], "default"))
    await stopped("memory_after_turn", **EXAMPLES["memory_after_turn"])
    node = await killable(at(database_urls.superuser, nodes[strange]))
    node.kill()
    try:
        outcome = await stopped.dispatch.call(
            stopped.caller,
            "memory_list_turns",
            EXAMPLES["memory_list_turns"],
            surface="test",
            request_id="r",
        )
        assert (outcome.body["code"], outcome.body["retryable"]) == ("UNAVAILABLE", True)
        assert await drive(call) == REFUSED
    finally:
        await node.start()
    assert (await stopped("memory_list_turns", **EXAMPLES["memory_list_turns"]))["items"]


@pytest.mark.parametrize("dies", ["worker", "coordinator"])
async def test_no_acknowledged_turn_is_lost_or_doubled_when_a_node_is_killed(
    dies: str, call: Door, admin: asyncpg.Connection, database_urls: DatabaseUrls
) -> None:
    own = await node_of(admin, call.caller.tenant)
    await admin.close()
    dsn = database_urls.superuser
    node = await killable(at(dsn, own) if dies == "worker" else dsn)
    done: list[str] = []
    enough, over = asyncio.Event(), asyncio.Event()

    async def write(session: str) -> None:
        while not over.is_set():
            turn = f"{session}-{len(done)}"
            text = {"type": "message", "role": "user", "content": f"I noted {turn}."}
            arguments = {"session_id": session, "turn_id": turn, "input_items": [text]}
            while (
                failed := await call.dispatch.call(
                    call.caller,
                    "memory_after_turn",
                    {"project": "default", **arguments},
                    surface="test",
                    request_id="r",
                )
            ).error is not None:
                assert failed.body["retryable"], failed.body
                await asyncio.sleep(0.05)
            done.append(turn)
            if len(done) % 20 == 0:
                enough.set()

    async def break_it() -> None:
        for _ in range(KILLS):
            await enough.wait()
            node.kill()
            await node.start()
            enough.clear()
        await enough.wait()
        over.set()

    try:
        async with asyncio.timeout(300):
            await asyncio.gather(break_it(), *(write(f"s{number}") for number in range(4)))
    finally:
        await node.start()
    kept: Counter[str] = Counter()
    for number in range(4):
        listed = await call("file_list", project="default", path="/memory", depth=64, limit=1024)
        for entry in listed["entries"]:
            path = entry["path"]
            if f"/s{number}/" in path and "/events/raw/" in path and path.endswith(".jsonl"):
                read = await call("file_read", project="default", path=path)
                lines = [orjson.loads(line) for line in read["content"].splitlines()]
                kept.update(line["turn_id"] for line in lines)
    assert kept == Counter(done)


async def test_revisions_go_down_and_up_on_distributed_tables(
    database_urls: DatabaseUrls, server: TestServer
) -> None:
    undone = await downgrade(database_urls.admin, "0014")
    assert await migrate(database_urls.admin, server.app) == tuple(reversed(undone))
