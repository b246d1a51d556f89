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

from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, ArchiveTransfers
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope as DataScope
from memsvc.gateway.auth import caller_of
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.operations import PROJECT, SURFACE, query_arguments
from memsvc.gateway.rest import REQUEST_ID
from memsvc.gateway.streams import is_too_large

WRITE_BYTES: Final = 1024 * 1024
"""Bytes of an upload that are collected before they are written to disk."""
SEND_BYTES: Final = 256 * 1024
"""Bytes of an export that are read from disk at once."""
FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""Bytes kept free on the disk of temporary files: the database may be on it."""


def is_archive(scope: Scope) -> bool:
    """Return whether a request's body is an archive, which its route reads by itself."""
    return bool(scope["path"] == ARCHIVE_PATH and scope["method"] == "POST")


class ArchiveEndpoint:
    """ASGI: sends an archive on GET, restores one on POST.

    A call lasts until the last byte is sent, so that the call log has interrupted ones.
    """

    def __init__(self, dispatch: Dispatch, archives: ArchiveTransfers) -> None:
        self._dispatch = dispatch
        self._archives = archives

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            response = await self._import(request)
            await response(scope, receive, send)
        else:
            await self._export(request, send)

    async def _export(self, request: Request, send: Send) -> None:
        disconnected = False

        async def operation(data: DataScope, args: Any) -> None:
            nonlocal disconnected
            with self._archives.slot(data.tenant), _temporary_file() as file:
                # written to disk first: while it is read from the database, vacuum waits for all
                # tenants
                async with self._archives.opened(data, gzip=args.gzip, calls=args.calls) as archive:
                    size_bytes = await _write_export(
                        archive.chunks, file, request, self._archives.export_bytes_max
                    )
                headers = {
                    "Content-Disposition": f'attachment; filename="{archive.name}"',
                    "Content-Length": str(size_bytes),
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                }
                sent = _FileChunks(file)
                body = StreamingResponse(
                    sent.chunks(), headers=headers, media_type=archive.media_type
                )
                with suppress(
                    _SendTimeoutError
                ):  # treated as a disconnect: others wait for the slot
                    await body(
                        request.scope,
                        request.receive,
                        _with_timeout(send, self._archives.idle_s_max),
                    )
                disconnected = not sent.complete
            if disconnected:
                raise _disconnected()

        try:
            await self._perform(
                request, EXPORT_TOOL, query_arguments(request, PROJECT, "gzip", "calls"), operation
            )
        except MemsvcError:
            if not disconnected:  # otherwise the response has begun, and the client is gone
                raise

    async def _import(self, request: Request) -> Response:
        async def operation(data: DataScope, args: Any) -> Response:
            with self._archives.slot(data.tenant):
                async with _body_file(
                    request, self._archives.bytes_max, self._archives.idle_s_max
                ) as archive:
                    restored = await self._archives.restored(data, archive, check=args.check)
            return Response(restored.model_dump_json(), media_type="application/json")

        response: Response = await self._perform(
            request, IMPORT_TOOL, query_arguments(request, PROJECT, "check"), operation
        )
        return response

    async def _perform(
        self, request: Request, tool: str, arguments: dict[str, Any], operation: Any
    ) -> Any:
        return await self._dispatch.perform(
            caller_of(request.scope),
            tool,
            arguments,
            operation,
            surface=SURFACE,
            request_id=request.scope[REQUEST_ID],
        )


def routes(dispatch: Dispatch, archives: ArchiveTransfers | None) -> list[BaseRoute]:
    """Return the route of archives; none without an exporter."""
    if archives is None:
        return []
    return [Route(ARCHIVE_PATH, ArchiveEndpoint(dispatch, archives), methods=["GET", "POST"])]


class _FileChunks:
    """Spool that is being sent; `complete` once the last chunk was read."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.complete = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield all of it."""
        self._file.seek(0)
        while chunk := await anyio.to_thread.run_sync(self._file.read, SEND_BYTES):
            yield chunk
        self.complete = True


class _SendTimeoutError(Exception):
    """The client does not read what is sent."""


def _with_timeout(send: Send, idle_s_max: float) -> Send:
    """Return a `send` that gives the client this long to read each message."""

    async def send_in_time(message: Message) -> None:
        try:
            async with asyncio.timeout(idle_s_max):
                await send(message)
        except TimeoutError as error:
            raise _SendTimeoutError from error

    return send_in_time


@asynccontextmanager
async def _body_file(request: Request, size_max: int, idle_s_max: float) -> AsyncIterator[BinaryIO]:
    """Open the whole body as a file that is deleted when the block ends.

    PAYLOAD_TOO_LARGE as soon as it is known to exceed the limit, INVALID_CONTENT if it is cut off
    or stalls.
    """
    too_large = MemsvcError(
        Code.PAYLOAD_TOO_LARGE,
        f"an archive may hold {size_max} bytes",
        recovery="raise archives.archive_bytes_max, or export project by project",
    )
    if is_too_large(request, size_max):
        raise too_large
    with _temporary_file() as file:
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
                if waiting_bytes >= WRITE_BYTES:
                    await anyio.to_thread.run_sync(_write, file, b"".join(chunks))
                    chunks, waiting_bytes = [], 0
        except (ClientDisconnect, TimeoutError):
            raise MemsvcError(Code.INVALID_CONTENT, "the body ended before it was whole") from None
        await anyio.to_thread.run_sync(_write, file, b"".join(chunks))
        yield file


@contextmanager
def _temporary_file() -> Iterator[FileIO]:
    """Open an unnamed temporary file: deleted when the block or the process ends."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(TemporaryFile(buffering=0))
        except OSError as error:
            raise _disk_full(error) from error
        yield file


def _write(file: FileIO, content: bytes) -> None:
    """Append to a spool. UNAVAILABLE where the disk is, or would be, too full."""
    try:
        disk = os.fstatvfs(file.fileno())
        if disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN + len(content):
            raise _disk_full(None)
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        raise _disk_full(error) from error


async def _write_export(
    chunks: AsyncIterator[bytes], file: FileIO, request: Request, size_max: int
) -> int:
    """Write an export to a spool and return its size.

    PAYLOAD_TOO_LARGE, UNAVAILABLE; also when the client disconnects.
    """
    size_bytes = 0
    async for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > size_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"an archive that is made may hold {size_max} bytes",
                recovery="export it compressed, or project by project, or raise"
                " archives.export_bytes_max",
            )
        await anyio.to_thread.run_sync(_write, file, chunk)
        if await request.is_disconnected():
            raise _disconnected()
    return size_bytes


def _disconnected() -> MemsvcError:
    return MemsvcError(Code.UNAVAILABLE, "the client that requested the archive went away")


def _disk_full(error: OSError | None) -> MemsvcError:
    why = (
        "" if error is None or error.errno is None else f" ({os.strerror(error.errno)})"
    )  # the error's text names folders
    return MemsvcError(
        Code.UNAVAILABLE,
        f"there is no room for the archive in the folder for temporary files{why}",
        retry_after_s=60.0,
        recovery="free space on its disk, or let TMPDIR name a folder with more",
    )
