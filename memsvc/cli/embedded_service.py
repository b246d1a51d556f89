"""The service within a command, on the data folder or database: no listener, and no job runs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from memsvc.cli.app_transport import StreamingTransport
from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import client
from memsvc.database_setup import database_starting, migrate_database
from memsvc.folder_key import KEY_FILE, load_key
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.rest import Draining

INSIDE: Final = "http://localhost"


@asynccontextmanager
async def opened(
    config: Path | None, data_dir: Path | None, key: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of the service, with this key or, for "", the data folder's own.

    The jobs it queues are for the server or worker that runs next.
    """
    settings = settings_of(config, data_dir=data_dir)
    without_worker = settings.model_copy(
        update={"worker": settings.worker.model_copy(update={"enabled": False})}
    )
    configure_logging("warning")  # hides, among others, that a new key opens an empty memory
    async with AsyncExitStack() as stack:
        started = stack.enter_context(database_starting(without_worker))
        from memsvc import app as root  # noqa: PLC0415 - takes a second or more, in which PostgreSQL starts

        urls = started()
        await migrate_database(urls, without_worker)
        app = await stack.enter_async_context(root.opened(without_worker, urls.app, Draining()))
        text = key or await load_key(app.database, without_worker.data_dir.absolute() / KEY_FILE)
        await stack.enter_async_context(app.asgi.router.lifespan_context(app.asgi))
        yield await stack.enter_async_context(client(INSIDE, text, StreamingTransport(app.asgi)))
