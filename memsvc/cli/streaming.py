"""An app within this process as a transport of httpx that streams both ways, where httpx's own keeps a whole answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.types import ASGIApp, Message


class StreamingTransport(httpx.AsyncBaseTransport):
    """Sends requests to the app. An answer that breaks off ends in httpx.RemoteProtocolError."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer as soon as it begins; the app goes on while it is read."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        sends, answers = anyio.create_memory_object_stream[Message](0)
        body = aiter(request.stream)
        over = asyncio.Event()

        async def receive() -> Message:
            with suppress(StopAsyncIteration):
                return {"type": "http.request", "body": await anext(body), "more_body": True}
            if not over.is_set():
                over.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await asyncio.Event().wait()  # whoever asks once more waits for a client that goes away, and none does
            raise AssertionError

        async def run() -> None:
            async with sends:
                await self._app(_scope(request), receive, sends.send)

        task = asyncio.create_task(run())
        try:
            start = await answers.receive()
        except anyio.EndOfStream:
            await task
            raise httpx.RemoteProtocolError("the service gave no answer") from None
        return httpx.Response(start["status"], headers=start["headers"], stream=_Body(answers, task))


class _Body(httpx.AsyncByteStream):
    """What an app sends, as it sends it."""

    def __init__(self, answers: MemoryObjectReceiveStream[Message], task: "asyncio.Task[None]") -> None:
        self._answers = answers
        self._task = task
        self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._answers:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                self._whole = True
                return
        raise httpx.RemoteProtocolError("the answer broke off")

    async def aclose(self) -> None:
        """Stop the app if its answer was not read to the end; else it has only to tell of it, and may."""
        self._answers.close()
        if not self._whole:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)  # the service has told of its faults in the log


def _scope(request: httpx.Request) -> dict[str, Any]:
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
