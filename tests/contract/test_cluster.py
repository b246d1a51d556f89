"""On a real Citus cluster, which `make test-citus DSN=...` names: every tool works, and every wall
stands."""

from urllib.parse import urlsplit

import asyncpg
import pytest

from memsvc.store.migrate import downgrade, migrate
from memsvc.store.policies import SHARD_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, as_sent
from tests.door import Door
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
SHARDS = """
    SELECT s.logicalrelid::text AS whole, shard_name(s.logicalrelid, s.shardid) AS shard,
        n.nodename, n.nodeport
    FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) JOIN pg_dist_node AS n
        USING (groupid)
    JOIN pg_class AS c ON c.oid = s.logicalrelid WHERE NOT c.relispartition
"""
REFUSED = {"tenant_settle_job": "NOT_FOUND"}
"""Tools whose example names what is not there."""


@pytest.fixture(autouse=True)
def cluster(server: TestServer) -> None:
    if not server.nodes:
        pytest.skip("the server is no coordinator of a Citus cluster")


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


async def test_revisions_go_down_and_up_on_distributed_tables(
    database_urls: DatabaseUrls, server: TestServer
) -> None:
    undone = await downgrade(database_urls.admin, "0014")
    assert await migrate(database_urls.admin, server.app) == tuple(reversed(undone))
