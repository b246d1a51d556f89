"""A test's database made ready for vectors, where its PostgreSQL can hold them."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memsvc.store import migrate
from memsvc.store.database import Tx
from memsvc.store.search import IndexQuery, QueryEmbedding, search
from tests.servers import DatabaseUrls


async def as_sqlalchemy(url: str, work: Callable[[Connection], Any]) -> Any:
    """What a function of migration gives, run in a transaction of its own."""
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


async def make_ready(urls: DatabaseUrls) -> None:
    """The extension by a superuser, the rest by the owner; skips the test where there is no
    pgvector."""
    connection = await asyncpg.connect(urls.superuser)
    try:
        if not await connection.fetchval(
            "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
        ):
            pytest.skip("this PostgreSQL has no pgvector")
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    finally:
        await connection.close()
    assert await as_sqlalchemy(urls.admin, migrate.ensure)


async def nearest(
    tx: Tx, index_id: int, model: str, vector: Sequence[float], best: int
) -> dict[int, float]:
    """The cosines of the best entries of an index that a search by the vector alone finds."""
    query = IndexQuery(index_id, 0, neighbours=0, expand_count=0, best_by_embedding=best)
    found = await search(tx, [query], [], QueryEmbedding(vector, model))
    cosines = {
        one.entry: one.cosine
        for matches in found.values()
        for one in matches.candidates
        if one.cosine is not None
    }
    return dict(sorted(cosines.items(), key=lambda pair: -pair[1]))
