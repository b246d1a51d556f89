"""Archives over plain HTTP: export and restore of a tenant's memory by way of a temporary file."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from io import FileIO
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
"""Bytes of an upload that are collected before they are written to disk."""
SENT_BYTES: Final = 256 * 1024
"""Bytes of an export that are read from disk at once."""
SPARE_BYTES: Final = 256 * 1024 * 1024
"""Bytes kept free on the disk of temporary files: the database may be on it."""


def is_archive(scope: Scope) -> bool:
    """Return whether a request's body is an archive, which its route reads by itself."""
    return bool(scope["path"] == ARCHIVE_PATH and scope["method"] == "POST")


class ArchiveEndpoint:
    """ASGI: sends an archive on GET, restores one on POST.

    A call lasts until the last byte is sent, so that the call log has interrupted ones.
    """

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
        left = False

        async def operation(data: DataScope, asked: Any) -> None:
            nonlocal left
            with self._archives.place(data.tenant), _spool() as spool:
                # written to disk first: while it is read from the database, vacuum waits for all
                # tenants
                async with self._archives.opened(data, asked) as archive:
                    size_bytes = await _kept(archive.pieces, spool, request, self._archives.export_bytes_max)
                headers = {
                    "Content-Disposition": f'attachment; filename="{archive.name}"',
                    "Content-Length": str(size_bytes),
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                }
                sent = _Sent(spool)
                body = StreamingResponse(sent.pieces(), headers=headers, media_type=archive.media_type)
                with suppress(_NotTakenError):  # treated as a disconnect: others wait for the slot
                    await body(request.scope, request.receive, _in_time(send, self._archives.idle_s_max))
                left = not sent.whole
            if left:
                raise _gone()

        try:
            await self._perform(request, EXPORT_TOOL, queried(request, PROJECT, "gzip", "calls"), operation)
        except MemsvcError:
            if not left:  # otherwise the response has begun, and the client is gone
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
    """Return the route of archives; none without an exporter."""
    if archives is None:
        return []
    return [Route(ARCHIVE_PATH, ArchiveEndpoint(dispatch, archives), methods=["GET", "POST"])]


class _Sent:
    """Spool that is being sent; `whole` once the last chunk was read."""

    def __init__(self, spool: FileIO) -> None:
        self._spool = spool
        self.whole = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all of it."""
        self._spool.seek(0)
        while piece := await anyio.to_thread.run_sync(self._spool.read, SENT_BYTES):
            yield piece
        self.whole = True


class _NotTakenError(Exception):
    """The client does not read what is sent."""


def _in_time(send: Send, idle_s_max: float) -> Send:
    """Return a `send` that gives the client this long to read each message."""

    async def sending(message: Message) -> None:
        try:
            async with asyncio.timeout(idle_s_max):
                await send(message)
        except TimeoutError as error:
            raise _NotTakenError from error

    return sending


@asynccontextmanager
async def _spooled(request: Request, size_max: int, idle_s_max: float) -> AsyncIterator[BinaryIO]:
    """Open the whole body as a file that is deleted when the block ends.

    PAYLOAD_TOO_LARGE as soon as it is known to exceed the limit, INVALID_CONTENT if it is cut off
    or stalls.
    """
    too_large = MemsvcError(
        Code.PAYLOAD_TOO_LARGE,
        f"an archive may hold {size_max} bytes",
        recovery="raise archives.archive_bytes_max, or export project by project",
    )
    if declares_more(request, size_max):
        raise too_large
    with _spool() as spool:
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
                    await anyio.to_thread.run_sync(_write, spool, b"".join(chunks))
                    chunks, waiting_bytes = [], 0
        except (ClientDisconnect, TimeoutError):
            raise MemsvcError(Code.INVALID_CONTENT, "the body ended before it was whole") from None
        await anyio.to_thread.run_sync(_write, spool, b"".join(chunks))
        yield spool


@contextmanager
def _spool() -> Iterator[FileIO]:
    """Open an unnamed temporary file: deleted when the block or the process ends."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(TemporaryFile(buffering=0))
        except OSError as error:
            raise _no_room(error) from error
        yield file


def _write(spool: FileIO, content: bytes) -> None:
    """Append to a spool. UNAVAILABLE where the disk is, or would be, too full."""
    try:
        disk = os.fstatvfs(spool.fileno())
        if disk.f_bavail * disk.f_frsize < SPARE_BYTES + len(content):
            raise _no_room(None)
        left = memoryview(content)
        while left:
            left = left[spool.write(left) :]
    except OSError as error:
        raise _no_room(error) from error


async def _kept(pieces: AsyncIterator[bytes], spool: FileIO, request: Request, size_max: int) -> int:
    """Write an export to a spool and return its size.

    PAYLOAD_TOO_LARGE, UNAVAILABLE; also when the client disconnects.
    """
    size_bytes = 0
    async for piece in pieces:
        size_bytes += len(piece)
        if size_bytes > size_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"an archive that is made may hold {size_max} bytes",
                recovery="export it compressed, or project by project, or raise archives.export_bytes_max",
            )
        await anyio.to_thread.run_sync(_write, spool, piece)
        if await request.is_disconnected():
            raise _gone()
    return size_bytes


def _gone() -> MemsvcError:
    return MemsvcError(Code.UNAVAILABLE, "the client that requested the archive went away")


def _no_room(error: OSError | None) -> MemsvcError:
    why = (
        "" if error is None or error.errno is None else f" ({os.strerror(error.errno)})"
    )  # the error's text names folders
    return MemsvcError(
        Code.UNAVAILABLE,
        f"there is no room for the archive in the folder for temporary files{why}",
        retry_after_s=60.0,
        recovery="free space on its disk, or let TMPDIR name a folder with more",
    )
