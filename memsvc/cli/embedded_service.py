"""The service inside a command, on a data folder or database: it neither listens nor runs jobs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.types import ASGIApp, Message

from memsvc.cli.options import check_database, settings_of
from memsvc.database_setup import database_starting, migrate_database
from memsvc.folder_key import KEY_FILE, load_key
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.rest import Draining


@asynccontextmanager
async def opened(
    config: Path | None, data_dir: Path | None, key: str, *, create: bool = False
) -> AsyncIterator[tuple["StreamingTransport", str]]:
    """Open a transport to the service with this key or, for "", the data folder's own key.

    Jobs that are queued are for the server or worker that runs next. With `create`, the database is
    created if it does not exist; otherwise NOT_FOUND is raised."""
    settings = settings_of(config, data_dir=data_dir)
    if not create:
        check_database(settings)
    without_worker = settings.model_copy(
        update={
            "worker": settings.worker.model_copy(update={"enabled": False}),
            "audit": settings.audit.model_copy(update={"slow_ms": 0}),
        }
    )
    configure_logging("warning")  # hides, among others, that a new key opens an empty memory
    async with AsyncExitStack() as stack:
        started = stack.enter_context(database_starting(without_worker))
        from memsvc import app as root  # noqa: PLC0415 - takes a second or more, in which PostgreSQL starts

        urls = started()
        await migrate_database(urls, without_worker)
        app = await stack.enter_async_context(root.opened(without_worker, urls.app, Draining()))
        if app.database.encoder is not None:
            app.database.encoder.wait_for_loading()
        text = key or await load_key(app.database, without_worker.data_dir.absolute() / KEY_FILE)
        await stack.enter_async_context(app.asgi.router.lifespan_context(app.asgi))
        yield StreamingTransport(app.asgi), text


class StreamingTransport(httpx2.AsyncBaseTransport):
    """An httpx2 transport to an app in this process that streams both ways; httpx2's buffers.

    An answer that ends early raises httpx2.RemoteProtocolError."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response as soon as it begins; the app continues while it is read."""
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        send_stream, messages = anyio.create_memory_object_stream[Message](0)
        body = aiter(request.stream)
        body_sent = asyncio.Event()

        async def receive() -> Message:
            with suppress(StopAsyncIteration):
                return {"type": "http.request", "body": await anext(body), "more_body": True}
            if not body_sent.is_set():
                body_sent.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            # a second call waits for a client to disconnect, and none does
            await asyncio.Event().wait()
            raise AssertionError

        async def run() -> None:
            async with send_stream:
                await self._app(_scope(request), receive, send_stream.send)

        task = asyncio.create_task(run())
        try:
            start = await messages.receive()
        except anyio.EndOfStream:
            await task
            raise httpx2.RemoteProtocolError(
                "the service that runs inside this command did not answer"
            ) from None
        return httpx2.Response(
            start["status"], headers=start["headers"], stream=_Body(messages, task)
        )


class _Body(httpx2.AsyncByteStream):
    """Body that an app sends, as it is sent."""

    def __init__(
        self, messages: MemoryObjectReceiveStream[Message], task: "asyncio.Task[None]"
    ) -> None:
        self._messages = messages
        self._task = task
        self._complete = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._messages:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                self._complete = True
                return
        raise httpx2.RemoteProtocolError("the answer ended before it was complete")

    async def aclose(self) -> None:
        """Stop the app if its answer was not read to the end; else let it finish."""
        self._messages.close()
        if not self._complete:
            self._task.cancel()
        # the service has logged its faults
        await asyncio.gather(self._task, return_exceptions=True)


def _scope(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
