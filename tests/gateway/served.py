"""The whole service in this process, as `memsvc serve` puts it together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import httpx2
import orjson
from starlette.applications import Starlette

from memsvc.app import opened
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.call_accounting import AuditOptions
from memsvc.gateway.rest import Draining
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.worker import WorkerOptions
from tests.gateway.conftest import ORIGIN
from tests.servers import DatabaseUrls


@dataclass
class Service:
    """A running service, and what a test may want to look at in it."""

    app: Starlette
    database: Database
    admin: asyncpg.Connection

    def http(self, key: str | None = "key-one") -> httpx2.AsyncClient:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers, timeout=60)

    async def key(self, like: str = "key-one", **narrowed: Any) -> str:
        """A key for the tenant of another one, with fewer rights."""
        now = datetime.now(UTC)
        await keys.remember_tenant(self.database, keys.hash_key(like), now)
        made = await keys.create_key(
            self.database, "narrow", now, tenant=keys.hash_key(like), **narrowed
        )
        return made.text

    async def calls(self, tool: str, most: int = 1) -> list[dict[str, Any]]:
        """The newest calls of a tool as the call log has them, oldest first, once it has as
        many."""
        async with asyncio.timeout(10):
            while True:
                rows = await self.admin.fetch(
                    "SELECT * FROM calls WHERE tool = $1 ORDER BY called_at", tool
                )
                if len(rows) >= most:
                    return [
                        dict(row) | {"arguments": orjson.loads(row["arguments"])}
                        for row in rows[-most:]
                    ]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def served(
    urls: DatabaseUrls, admin: asyncpg.Connection, **settings: Any
) -> AsyncIterator[Service]:
    """The service on loopback; its call log is written at once."""
    quick = {
        "auth": AuthOptions(mode="open"),
        "worker": WorkerOptions(enabled=False),
        "audit": AuditOptions(flush_every_s=0.02, batch_records=1),
    }
    async with (
        opened(Settings(**(quick | settings)), urls.app, Draining()) as app,
        app.asgi.router.lifespan_context(app.asgi),
    ):
        yield Service(app.asgi, app.database, admin)
