"""Connection pool of a process, with prepared statements where a pooler keeps them."""

from dataclasses import dataclass
from typing import Final, Literal

import asyncpg

from memsvc.store.connections import prepare, rollback
from memsvc.store.database_errors import statements_lost
from memsvc.store.pooler import Pooler, pooler_before, shares_by_transaction

CACHED_STATEMENTS: Final = 100
"""Statements that a connection keeps prepared."""
IDLE_S_MAX: Final = 60.0

Prepared = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class ConnectionPool:
    """Connections and their pooler; `prepares` says whether statements are prepared over them.

    If not, each takes one round trip more.
    """

    connections: asyncpg.Pool
    pooler: Pooler
    prepared: bool


async def open_pool(
    url: str, size_min: int, size_max: int, *, command_timeout_s: float, prepared: Prepared
) -> ConnectionPool:
    """Connect, with prepared statements unless a pooler is seen to lose them.

    UNAVAILABLE where they are to be prepared `always` all the same; otherwise raises what the
    driver does.
    """

    async def create(*, use_prepared: bool) -> asyncpg.Pool:
        return await asyncpg.create_pool(
            url,
            min_size=min(size_min, size_max),
            max_size=size_max,
            max_inactive_connection_lifetime=IDLE_S_MAX,
            command_timeout=command_timeout_s,
            init=prepare,
            reset=rollback,
            statement_cache_size=CACHED_STATEMENTS if use_prepared else 0,
        )

    use_prepared = prepared != "never"
    connections = await create(use_prepared=use_prepared)
    try:
        async with connections.acquire() as connection:
            pooler = await pooler_before(connection)
        lost = use_prepared and pooler is Pooler.WITHOUT_PREPARED
        if lost and prepared == "always" and await shares_by_transaction(url):
            raise statements_lost()
    except BaseException:
        await connections.close()
        raise
    if lost and prepared == "auto":
        await connections.close()
        connections, use_prepared = await create(use_prepared=False), False
    return ConnectionPool(connections, pooler, use_prepared)
