"""Archives over plain HTTP: a tenant's memory streamed out, and in by way of a temporary file."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, Archives
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope as DataScope
from memsvc.gateway.auth import caller_of
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.operations import PROJECT, queried
from memsvc.gateway.rest import REQUEST_ID
from memsvc.gateway.streams import declares_more
from memsvc.gateway.tools import SURFACE

WRITTEN_BYTES: Final = 1024 * 1024
"""How much of an upload is gathered before it is written to disk."""


def is_archive(scope: Scope) -> bool:
    """Whether the body of a request is an archive, which its route reads by itself."""
    return bool(scope["path"] == ARCHIVE_PATH and scope["method"] == "POST")


class ArchiveEndpoint:
    """ASGI: an archive out by GET, in by POST. A call lasts until the last byte is sent, so that the call log tells of
    one that was broken off."""

    def __init__(self, dispatch: Dispatch, archives: Archives) -> None:
        self._dispatch = dispatch
        self._archives = archives

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            response = await self._take(request)
            await response(scope, receive, send)
        else:
            await self._give(request, send)

    async def _give(self, request: Request, send: Send) -> None:
        gone = False

        async def operation(data: DataScope, asked: Any) -> None:
            nonlocal gone
            with self._archives.place(data.tenant):
                async with self._archives.opened(data, asked) as archive, aclosing(_begun(archive.pieces)) as pieces:
                    headers = {
                        "Content-Disposition": f'attachment; filename="{archive.name}"',
                        "Cache-Control": "no-store",
                        "X-Content-Type-Options": "nosniff",
                    }
                    sent = _Sent(await anext(pieces), pieces)
                    body = StreamingResponse(sent.pieces(), headers=headers, media_type=archive.media_type)
                    with suppress(_NotTakenError):  # as if it had gone: what it holds, others wait for
                        await body(request.scope, request.receive, _in_time(send, self._archives.idle_s_max))
                    gone = not sent.whole
            if gone:
                raise MemsvcError(Code.UNAVAILABLE, "whoever asked for the archive went away")

        try:
            await self._perform(request, EXPORT_TOOL, queried(request, PROJECT, "gzip", "calls"), operation)
        except MemsvcError:
            if not gone:  # what fails after the answer began breaks the connection, so that nobody takes it for whole
                raise

    async def _take(self, request: Request) -> Response:
        async def operation(data: DataScope, asked: Any) -> Response:
            with self._archives.place(data.tenant):
                async with _spooled(request, self._archives.bytes_max, self._archives.idle_s_max) as archive:
                    restored = await self._archives.restored(data, asked, archive)
            return Response(restored.model_dump_json(), media_type="application/json")

        response: Response = await self._perform(request, IMPORT_TOOL, queried(request, PROJECT, "check"), operation)
        return response

    async def _perform(self, request: Request, tool: str, arguments: dict[str, Any], operation: Any) -> Any:
        return await self._dispatch.perform(
            caller_of(request.scope),
            tool,
            arguments,
            operation,
            surface=SURFACE,
            request_id=request.scope[REQUEST_ID],
        )


def routes(dispatch: Dispatch, archives: Archives | None) -> list[BaseRoute]:
    """The route of archives; none where nobody makes any."""
    if archives is None:
        return []
    return [Route(ARCHIVE_PATH, ArchiveEndpoint(dispatch, archives), methods=["GET", "POST"])]


async def _begun(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    async for piece in pieces:
        yield piece


class _Sent:
    """The pieces of an archive as they are sent; `whole` once the last one was."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self._first = first
        self._rest = rest
        self.whole = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """All of them."""
        yield self._first
        async for piece in self._rest:
            yield piece
        self.whole = True


class _NotTakenError(Exception):
    """What was sent is not taken."""


def _in_time(send: Send, idle_s_max: float) -> Send:
    """Sends what is taken within this time."""

    async def sending(message: Message) -> None:
        try:
            async with asyncio.timeout(idle_s_max):
                await send(message)
        except TimeoutError as error:
            raise _NotTakenError from error

    return sending


@asynccontextmanager
async def _spooled(request: Request, size_max: int, idle_s_max: float) -> AsyncIterator[BinaryIO]:
    """The whole body in a file that is gone when the block ends. PAYLOAD_TOO_LARGE as soon as it is known to be over
    the limit, INVALID_CONTENT if it is cut, or if nothing of it comes for too long."""
    too_large = MemsvcError(
        Code.PAYLOAD_TOO_LARGE,
        f"an archive may hold {size_max} bytes",
        recovery="raise archives.archive_bytes_max, or export project by project",
    )
    if declares_more(request, size_max):
        raise too_large
    with TemporaryFile() as spool:
        chunks, waiting_bytes, size_bytes = [], 0, 0
        try:
            body = aiter(request.stream())
            while True:
                async with asyncio.timeout(idle_s_max):
                    chunk = await anext(body, None)
                if chunk is None:
                    break
                chunks.append(chunk)
                waiting_bytes, size_bytes = waiting_bytes + len(chunk), size_bytes + len(chunk)
                if size_bytes > size_max:
                    raise too_large
                if waiting_bytes >= WRITTEN_BYTES:
                    await anyio.to_thread.run_sync(spool.write, b"".join(chunks))
                    chunks, waiting_bytes = [], 0
        except (ClientDisconnect, TimeoutError):
            raise MemsvcError(Code.INVALID_CONTENT, "the body ended before it was whole") from None
        await anyio.to_thread.run_sync(spool.write, b"".join(chunks))
        yield spool
