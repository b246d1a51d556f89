"""The service within a command, on the data folder or database: no listener, and no job runs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from memsvc.cli.calls import client
from memsvc.cli.options import settings_of
from memsvc.cli.streaming import StreamingTransport
from memsvc.databases import bring_up_to_date, database_starting
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.rest import Draining
from memsvc.own_key import KEY_FILE, own_key

INSIDE: Final = "http://localhost"


@asynccontextmanager
async def opened(config: Path | None, data_dir: Path | None, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of the service, with this key or, for "", the data folder's own.

    The jobs it queues are for the server or worker that runs next.
    """
    settings = settings_of(config, data_dir=data_dir)
    alone = settings.model_copy(update={"worker": settings.worker.model_copy(update={"enabled": False})})
    configure_logging("warning")  # hides, among others, that a new key opens an empty memory
    async with AsyncExitStack() as stack:
        started = stack.enter_context(database_starting(alone))
        from memsvc import app as root  # noqa: PLC0415 - takes a second or more, in which PostgreSQL starts

        urls = started()
        await bring_up_to_date(urls, alone)
        app = await stack.enter_async_context(root.opened(alone, urls.app, Draining()))
        text = key or await own_key(app.database, alone.data_dir.absolute() / KEY_FILE)
        await stack.enter_async_context(app.asgi.router.lifespan_context(app.asgi))
        yield await stack.enter_async_context(client(INSIDE, text, StreamingTransport(app.asgi)))
