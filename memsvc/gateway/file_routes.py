"""Bytes over plain HTTP: streamed files, and archives of a tenant."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from io import FileIO
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import anyio.to_thread
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, ArchiveTransfers
from memsvc.core.errors import (
    Code,
    MemsvcError,
    invalid,
    invalid_content,
    payload_too_large,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS
from memsvc.core.scope import Scope as DataScope
from memsvc.core.tools import FileContent, OpenFile
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import BodyTimeoutError, LimitsOptions
from memsvc.gateway.mcp.subscriptions import sent_in_time
from memsvc.gateway.operations import (
    PROJECT,
    Handler,
    OperationRoutes,
    RestOperation,
    answer,
    call,
    has_prefix,
    perform,
    query_arguments,
    raw_segments,
)
from memsvc.gateway.rest import error_response
from memsvc.gateway.streams import file_response, is_too_large, receive_body, write_condition

WRITE_BYTES: Final = 1024 * 1024
"""Bytes of an upload that are collected before they are written to disk."""
SEND_BYTES: Final = 256 * 1024
"""Bytes of an export that are read from disk at once."""
FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""Bytes kept free on the disk of temporary files: the database may be on it."""

FILES_PATH: Final = "/api/files"
UPLOADS: Final = {"PUT": "TRUNCATE", "POST": "APPEND"}
PRECONDITION_FAILED: Final = 412
RANGE_NOT_SATISFIABLE: Final = 416
_OF_PROJECT: Final = FILES_PATH + "/{project}"
_CONTENT: Final = _OF_PROJECT + "/content/{path}"
_VERSION: Final = _OF_PROJECT + "/version/{version}/{path}"
_OF_VERSION: Final = {"version": "history_id"}
OPERATIONS: Final[Sequence[RestOperation]] = (
    RestOperation("GET", FILES_PATH, "file_projects", query=("q", "after", "limit")),
    RestOperation("GET", _CONTENT, "file_read"),
    RestOperation("HEAD", _CONTENT, "file_read"),
    *(RestOperation(method, _CONTENT, "file_write") for method in UPLOADS),
    RestOperation("DELETE", _CONTENT, "file_delete", query=("recursive",)),
    RestOperation(
        "GET",
        _OF_PROJECT + "/stat/{path}",
        "file_stat",
        query=("content_sha256",),
    ),
    RestOperation(
        "GET",
        _OF_PROJECT + "/list/{path}",
        "file_list",
        query=("depth", "limit", "cursor"),
    ),
    RestOperation(
        "GET",
        _OF_PROJECT + "/search",
        "file_search",
        query=("query", "path_prefix", "limit"),
    ),
    RestOperation(
        "GET",
        _OF_PROJECT + "/versions/{path}",
        "file_list_versions",
        query=("limit", "before_id"),
    ),
    RestOperation("GET", _VERSION, "file_read_version", named=_OF_VERSION),
    RestOperation("HEAD", _VERSION, "file_read_version", named=_OF_VERSION),
    RestOperation(
        "POST",
        _OF_PROJECT + "/restore/{version}/{path}",
        "file_restore_version",
        named=_OF_VERSION,
    ),
    RestOperation("POST", _OF_PROJECT + "/rename", "file_rename", takes_body=True),
)


def is_archive(scope: Scope) -> bool:
    """Return whether a request's body is an archive, which its route reads by itself."""
    return bool(scope["path"] == ARCHIVE_PATH and scope["method"] == "POST")


@frozen
class ArchiveEndpoint:
    """ASGI app that sends an archive on GET and restores one on POST.

    A call lasts until the last byte is sent, so the call log also has interrupted transfers."""

    dispatch: Dispatch
    archives: ArchiveTransfers

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
            is_sent = False
            with self.archives.slot(data.tenant), _temporary_file() as file:
                # written to disk first: while it is read from the database, vacuum waits for all
                # tenants
                async with self.archives.opened(data, gzip=args.gzip, calls=args.calls) as archive:
                    size_bytes = await _write_export(
                        archive.chunks, file, request, self.archives.export_bytes_max
                    )
                headers = {
                    "Content-Disposition": f'attachment; filename="{archive.name}"',
                    "Content-Length": str(size_bytes),
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                }

                async def chunks() -> AsyncIterator[bytes]:
                    nonlocal is_sent
                    file.seek(0)
                    while chunk := await anyio.to_thread.run_sync(file.read, SEND_BYTES):
                        yield chunk
                    is_sent = True

                body = StreamingResponse(chunks(), headers=headers, media_type=archive.media_type)
                # one who does not read counts as gone: others wait for the slot
                with sent_in_time(send, self.archives.idle_s_max) as send_in_time:
                    await body(request.scope, request.receive, send_in_time)
                disconnected = not is_sent
            if disconnected:
                raise _disconnected()

        args = query_arguments(request, PROJECT, "gzip", "calls")
        try:
            await perform(self.dispatch, request, EXPORT_TOOL, args, operation)
        except MemsvcError:
            if not disconnected:  # otherwise the response has begun, and the client is gone
                raise

    async def _import(self, request: Request) -> Response:
        async def operation(data: DataScope, args: Any) -> Response:
            with self.archives.slot(data.tenant):
                async with _body_file(
                    request, self.archives.bytes_max, self.archives.idle_s_max
                ) as archive:
                    restored = await self.archives.restored(data, archive, check=args.check)
            return Response(restored.model_dump_json(), media_type="application/json")

        args = query_arguments(request, PROJECT, "check")
        return await perform(self.dispatch, request, IMPORT_TOOL, args, operation)


def archive_routes(dispatch: Dispatch, archives: ArchiveTransfers | None) -> list[BaseRoute]:
    """Return the route of archives, or none without an exporter."""
    if archives is None:
        return []
    return [Route(ARCHIVE_PATH, ArchiveEndpoint(dispatch, archives), methods=["GET", "POST"])]


@asynccontextmanager
async def _body_file(request: Request, size_max: int, idle_s_max: float) -> AsyncIterator[BinaryIO]:
    """Open the whole body as a file that is deleted when the block ends.

    PAYLOAD_TOO_LARGE as soon as it is known to exceed the limit, INVALID_CONTENT if it is cut off
    or stalls.
    """
    too_large = payload_too_large(
        f"the archive is larger than {size_max} bytes",
        recovery="raise archives.archive_bytes_max, or export one project at a time",
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
            raise invalid_content(
                "the request body ended before the archive was complete"
            ) from None
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
            raise payload_too_large(
                f"the new archive would be larger than {size_max} bytes",
                recovery="compress the export, export one project at a time, or raise"
                " archives.export_bytes_max",
            )
        await anyio.to_thread.run_sync(_write, file, chunk)
        if await request.is_disconnected():
            raise _disconnected()
    return size_bytes


def _disconnected() -> MemsvcError:
    return unavailable("the client that requested the archive disconnected")


def _disk_full(error: OSError | None) -> MemsvcError:
    why = (
        "" if error is None or error.errno is None else f" ({os.strerror(error.errno)})"
    )  # the error's text names folders
    return unavailable(
        f"the folder for temporary files does not have enough space for the archive{why}",
        retry_after_s=60.0,
        recovery="free space on its disk, or set TMPDIR to a folder with more space",
    )


def _segments(scope: Scope) -> list[str]:
    """Return a request's path between its slashes, with what it does to files decoded."""
    segments = raw_segments(scope)
    if not any(segments[2:]):
        segments = segments[:2]
    return [*segments[:3], *map(unquote, segments[3:4]), *segments[4:]]


def is_upload(scope: Scope) -> bool:
    """Return whether a request's body is file content, which its route reads by itself."""
    if scope["method"] not in UPLOADS:
        return False
    segments = _segments(scope)
    return has_prefix(FILES_PATH, segments) and segments[3:4] == ["content"]


@frozen
class FileHandlers:
    """Operations on files whose requests or responses are more than JSON."""

    dispatch: Dispatch
    content: FileContent
    limits: LimitsOptions

    def by_tool(self) -> Mapping[str, Handler]:
        """Return the handlers by their tools."""
        return {
            "file_read": partial(self._download, "file_read", self.content.open),
            "file_read_version": partial(
                self._download, "file_read_version", self.content.open_version
            ),
            "file_write": self._upload,
            "file_delete": self._delete,
            "file_restore_version": self._restore,
        }

    async def _delete(self, request: Request, arguments: JsonObject) -> Response:
        condition = write_condition(request.headers)
        if condition.absent:
            raise invalid("the header if-none-match is not supported for this request")
        arguments |= condition.arguments()
        return answer(request, await call(self.dispatch, request, "file_delete", arguments))

    async def _restore(self, request: Request, arguments: JsonObject) -> Response:
        arguments |= write_condition(request.headers).arguments()
        outcome = await call(self.dispatch, request, "file_restore_version", arguments)
        if outcome.error is not None:
            return _refused_write(request, outcome.error)
        response = answer(request, outcome)
        response.headers["etag"] = f'"{outcome.body["version"]}"'
        return response

    async def _download(
        self,
        tool: str,
        open_file: Callable[[DataScope, Any], Awaitable[OpenFile]],
        request: Request,
        arguments: JsonObject,
    ) -> Response:
        async def operation(scope: DataScope, args: Any) -> Response:
            return await file_response(request, await open_file(scope, args))

        try:
            return await perform(self.dispatch, request, tool, arguments, operation)
        except MemsvcError as error:
            if error.code is not Code.INVALID_OFFSET:
                raise
            headers = {"Content-Range": f"bytes */{error.details['size']}"}
            return error_response(
                error, request.scope, status=RANGE_NOT_SATISFIABLE, headers=headers
            )

    async def _upload(self, request: Request, arguments: JsonObject) -> Response:
        arguments |= {"mode": UPLOADS[request.method]} | write_condition(
            request.headers
        ).arguments()
        raw = Raw("content")

        async def operation(scope: DataScope, args: Any) -> Response:
            content = await receive_body(
                request, raw, self.content.bytes_max, within_s=self.limits.upload_s
            )
            stored = await self.content.put(scope, args, content)
            return Response(
                orjson.dumps({"bytes_written": stored.bytes_written, "version": stored.version}),
                201 if stored.created else 200,
                {"ETag": f'"{stored.version}"'} if stored.version else {},
                "application/json",
            )

        try:
            return await perform(self.dispatch, request, "file_write", arguments, operation, raw)
        except BodyTimeoutError as error:
            return error.response(request.scope)
        except MemsvcError as error:
            return _refused_write(request, error)


def routes(
    dispatch: Dispatch, content: FileContent | None, limits: LimitsOptions
) -> list[BaseRoute]:
    """Return the routes below /api/files; none without file content."""
    if content is None:
        return []
    handlers = FileHandlers(dispatch, content, limits).by_tool()
    return [OperationRoutes(dispatch, FILES_PATH, OPERATIONS, handlers, _segments, _check_project)]


def _check_project(segments: Sequence[str]) -> None:
    for project in map(unquote, segments[2:3]):
        if project != ALL_PROJECTS:
            check_project(project)


def _refused_write(request: Request, error: MemsvcError) -> Response:
    # raised only where If-None-Match required that no file exists, which is a precondition
    status = PRECONDITION_FAILED if error.code is Code.ALREADY_EXISTS else None
    return error_response(error, request.scope, status=status)
