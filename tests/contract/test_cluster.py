"""On a real Citus cluster, which `make test-citus DSN=...` names: every tool works, and every wall
stands."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.store.migrate import downgrade, migrate
from memsvc.store.policies import SHARD_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, as_sent
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
KILLS = 3
PLANS_KEPT = 128
REFUSED = dict.fromkeys(("tenant_settle_job", "restore_document"), "NOT_FOUND")
"""Tools whose example names what is not there."""


@pytest.fixture(autouse=True)
def cluster(server: TestServer) -> None:
    if not server.nodes:
        pytest.skip("the server is no coordinator of a Citus cluster")


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
