"""Connection pool of a process, with prepared statements where a pooler keeps them."""

from dataclasses import dataclass
from typing import Final, Literal

import asyncpg

from memsvc.store.connections import leave_no_transaction, prepare
from memsvc.store.faults import statements_lost
from memsvc.store.poolers import Pooler, hands_out, pooler_before

CACHED_STATEMENTS: Final = 100
"""Statements that a connection keeps prepared."""
IDLE_S_MAX: Final = 60.0

Prepared = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Connections and their pooler; `prepares` says whether statements are prepared over them.

    If not, each takes one round trip more.
    """

    connections: asyncpg.Pool
    pooler: Pooler
    prepares: bool


async def open_pool(url: str, size_min: int, size_max: int, *, command_timeout_s: float, prepared: Prepared) -> Pool:
    """Connect, with prepared statements unless a pooler is seen to lose them.

    UNAVAILABLE where they are to be prepared `always` all the same; otherwise raises what the
    driver does.
    """

    async def made(*, prepares: bool) -> asyncpg.Pool:
        return await asyncpg.create_pool(
            url,
            min_size=min(size_min, size_max),
            max_size=size_max,
            max_inactive_connection_lifetime=IDLE_S_MAX,
            command_timeout=command_timeout_s,
            init=prepare,
            reset=leave_no_transaction,
            statement_cache_size=CACHED_STATEMENTS if prepares else 0,
        )

    prepares = prepared != "never"
    connections = await made(prepares=prepares)
    try:
        async with connections.acquire() as connection:
            pooler = await pooler_before(connection)
        lost = prepares and pooler is Pooler.LOSES
        if lost and prepared == "always" and await hands_out(url):
            raise statements_lost()
    except BaseException:
        await connections.close()
        raise
    if lost and prepared == "auto":
        await connections.close()
        connections, prepares = await made(prepares=False), False
    return Pool(connections, pooler, prepares)
