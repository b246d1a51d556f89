"""Bytes over plain HTTP: files, streamed either way, and archives of a tenant."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from io import FileIO
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote_to_bytes

import anyio.to_thread
import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, ArchiveTransfers
from memsvc.core.errors import (
    Code,
    MemsvcError,
    invalid,
    invalid_content,
    invalid_path,
    payload_too_large,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS
from memsvc.core.scope import Scope as DataScope
from memsvc.core.tools import FileContent, OpenFile
from memsvc.gateway.auth import caller_of
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import BodyTimeoutError, LimitsOptions
from memsvc.gateway.operations import PROJECT, SURFACE, answer, call, json_body, query_arguments
from memsvc.gateway.rest import REQUEST_ID, error_response
from memsvc.gateway.streams import file_response, is_too_large, receive_body, write_condition

WRITE_BYTES: Final = 1024 * 1024
"""Bytes of an upload that are collected before they are written to disk."""
SEND_BYTES: Final = 256 * 1024
"""Bytes of an export that are read from disk at once."""
FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""Bytes kept free on the disk of temporary files: the database may be on it."""

FILES_PATH: Final = "/api/files"
CONTENT: Final = "content"
UPLOADS: Final = {"PUT": "TRUNCATE", "POST": "APPEND"}
PRECONDITION_FAILED: Final = 412
RANGE_NOT_SATISFIABLE: Final = 416

_PREFIX: Final = FILES_PATH.encode().split(b"/")
_GET_TOOLS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "stat": ("file_stat", ("content_sha256",)),
    "list": ("file_list", ("depth", "limit", "cursor")),
    "versions": ("file_list_versions", ("limit", "before_id")),
}


def is_archive(scope: Scope) -> bool:
    """Return whether a request's body is an archive, which its route reads by itself."""
    return bool(scope["path"] == ARCHIVE_PATH and scope["method"] == "POST")


@frozen
class ArchiveEndpoint:
    """ASGI: sends an archive on GET, restores one on POST.

    A call lasts until the last byte is sent, so that the call log has interrupted ones.
    """

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
                        _with_timeout(send, self.archives.idle_s_max),
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
            with self.archives.slot(data.tenant):
                async with _body_file(
                    request, self.archives.bytes_max, self.archives.idle_s_max
                ) as archive:
                    restored = await self.archives.restored(data, archive, check=args.check)
            return Response(restored.model_dump_json(), media_type="application/json")

        response: Response = await self._perform(
            request, IMPORT_TOOL, query_arguments(request, PROJECT, "check"), operation
        )
        return response

    async def _perform(
        self, request: Request, tool: str, arguments: dict[str, Any], operation: Any
    ) -> Any:
        return await self.dispatch.perform(
            caller_of(request.scope),
            tool,
            arguments,
            operation,
            surface=SURFACE,
            request_id=request.scope[REQUEST_ID],
        )


def archive_routes(dispatch: Dispatch, archives: ArchiveTransfers | None) -> list[BaseRoute]:
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
    too_large = payload_too_large(
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
            raise invalid_content("the body ended before it was whole") from None
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
                f"an archive that is made may hold {size_max} bytes",
                recovery="export it compressed, or project by project, or raise"
                " archives.export_bytes_max",
            )
        await anyio.to_thread.run_sync(_write, file, chunk)
        if await request.is_disconnected():
            raise _disconnected()
    return size_bytes


def _disconnected() -> MemsvcError:
    return unavailable("the client that requested the archive went away")


def _disk_full(error: OSError | None) -> MemsvcError:
    why = (
        "" if error is None or error.errno is None else f" ({os.strerror(error.errno)})"
    )  # the error's text names folders
    return unavailable(
        f"there is no room for the archive in the folder for temporary files{why}",
        retry_after_s=60.0,
        recovery="free space on its disk, or let TMPDIR name a folder with more",
    )


@frozen
class Target:
    """Target of a request: a project, the noun, and the segments after it.

    Each segment was decoded once and by itself, so that an encoded slash stays within it.
    """

    project: str
    action: str
    segments: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path that all segments make."""
        return path_of(self.segments)


def path_of(segments: Sequence[str]) -> str:
    """Return the path that URL segments make; INVALID_PATH if one of them contains a slash."""
    if any("/" in segment for segment in segments):
        raise invalid_path("a segment of a path cannot hold a slash")
    return "".join("/" + segment for segment in segments)


def target_of(scope: Scope) -> Target | None:
    """Return the target of a request below /api/files; None for other paths.

    The list of projects has no noun.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    parts = raw.split(b"/")
    if parts[:3] != _PREFIX:
        return None
    project, action, *segments = [
        *(unquote_to_bytes(part).decode("utf-8", "replace") for part in parts[3:]),
        "",
        "",
    ][: max(2, len(parts) - 3)]
    return Target(project, action, tuple(segments))


def is_upload(scope: Scope) -> bool:
    """Return whether a request's body is file content, which its route reads by itself."""
    if scope["method"] not in UPLOADS:
        return False
    target = target_of(scope)
    return target is not None and target.action == CONTENT


Handler = Callable[[Request, Target], Awaitable[Response]]


class FileRoutes(BaseRoute):
    """All routes below /api/files.

    They are matched on the raw path: the decoded one that other routes match has lost the borders
    of segments.
    """

    path = FILES_PATH

    def __init__(self, dispatch: Dispatch, content: FileContent, limits: LimitsOptions) -> None:
        self._dispatch = dispatch
        self._upload_s = limits.upload_s
        self._content = content
        get_handlers: dict[str, dict[str, Handler]] = {
            action: {"GET": self._list} for action in _GET_TOOLS
        }
        self._handlers: dict[str, dict[str, Handler]] = get_handlers | {
            "": {"GET": self._projects},
            "search": {"GET": self._search},
            CONTENT: {
                "GET": self._download,
                "HEAD": self._download,
                **dict.fromkeys(UPLOADS, self._upload),
                "DELETE": self._delete,
            },
            "version": {"GET": self._download_version, "HEAD": self._download_version},
            "restore": {"POST": self._restore},
            "rename": {"POST": self._rename},
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match every request below /api/files."""
        matched = scope["type"] == "http" and target_of(scope) is not None
        return (Match.FULL, {"endpoint": self}) if matched else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        404 and 405 are HTTPException, every other refusal is MemsvcError.
        """
        request = Request(scope, receive)
        target = target_of(scope)
        assert target is not None
        if (target.action or target.project) and target.project != ALL_PROJECTS:
            check_project(target.project)
        handlers = self._handlers.get(target.action)
        if handlers is None or (not target.action and (target.project or target.segments)):
            raise HTTPException(404)
        handler = handlers.get(request.method)
        if handler is None:
            raise HTTPException(405, headers={"Allow": ", ".join(handlers)})
        response = await handler(request, target)
        await response(scope, receive, send)

    async def _projects(self, request: Request, _: Target) -> Response:
        return await self._call(
            request, "file_projects", query_arguments(request, "q", "after", "limit")
        )

    async def _list(self, request: Request, target: Target) -> Response:
        tool, names = _GET_TOOLS[target.action]
        return await self._call(
            request, tool, query_arguments(request, *names) | _file(target.project, target.path)
        )

    async def _search(self, request: Request, target: Target) -> Response:
        _reject_path(target)
        args = query_arguments(request, "query", "path_prefix", "limit")
        return await self._call(request, "file_search", args | {"project": target.project})

    async def _rename(self, request: Request, target: Target) -> Response:
        _reject_path(target)
        query_arguments(request)
        body = await json_body(request)
        if not isinstance(body, dict) or "project" in body:
            raise invalid("the body must be an object; the project is in the path")
        return await self._call(request, "file_rename", body | {"project": target.project})

    async def _delete(self, request: Request, target: Target) -> Response:
        condition = write_condition(request.headers)
        if condition.absent:
            raise invalid("if-none-match is not understood here")
        args = query_arguments(request, "recursive") | condition.arguments()
        return await self._call(request, "file_delete", args | _file(target.project, target.path))

    async def _restore(self, request: Request, target: Target) -> Response:
        query_arguments(request)
        args = _version(target) | write_condition(request.headers).arguments()
        outcome = await call(self._dispatch, request, "file_restore_version", args)
        if outcome.error is not None:
            return _refused_write(request, outcome.error)
        response = answer(request, outcome)
        response.headers["etag"] = f'"{outcome.body["version"]}"'
        return response

    async def _call(self, request: Request, tool: str, arguments: dict[str, Any]) -> Response:
        return answer(request, await call(self._dispatch, request, tool, arguments))

    async def _download(self, request: Request, target: Target) -> Response:
        return await self._send(
            request, "file_read", _file(target.project, target.path), self._content.open
        )

    async def _download_version(self, request: Request, target: Target) -> Response:
        return await self._send(
            request, "file_read_version", _version(target), self._content.open_version
        )

    async def _send(
        self,
        request: Request,
        tool: str,
        arguments: dict[str, Any],
        open_file: Callable[[DataScope, Any], Awaitable[OpenFile]],
    ) -> Response:
        query_arguments(request)

        async def operation(scope: DataScope, args: Any) -> Response:
            return await file_response(request, await open_file(scope, args))

        try:
            return await self._perform(request, tool, arguments, operation)
        except MemsvcError as error:
            if error.code is not Code.INVALID_OFFSET:
                raise
            headers = {"Content-Range": f"bytes */{error.details['size']}"}
            return error_response(
                error, request.scope, status=RANGE_NOT_SATISFIABLE, headers=headers
            )

    async def _upload(self, request: Request, target: Target) -> Response:
        query_arguments(request)
        arguments = {"mode": UPLOADS[request.method]} | write_condition(request.headers).arguments()
        raw = Raw("content")

        async def operation(scope: DataScope, args: Any) -> Response:
            content = await receive_body(
                request, raw, self._content.bytes_max, within_s=self._upload_s
            )
            stored = await self._content.put(scope, args, content)
            return Response(
                orjson.dumps({"bytes_written": stored.bytes_written, "version": stored.version}),
                201 if stored.created else 200,
                {"ETag": f'"{stored.version}"'} if stored.version else {},
                "application/json",
            )

        try:
            return await self._perform(
                request,
                "file_write",
                arguments | _file(target.project, target.path),
                operation,
                raw,
            )
        except BodyTimeoutError as error:
            return error.response(request.scope)
        except MemsvcError as error:
            return _refused_write(request, error)

    async def _perform(
        self,
        request: Request,
        tool: str,
        arguments: dict[str, Any],
        operation: Callable[[DataScope, Any], Awaitable[Response]],
        raw: Raw | None = None,
    ) -> Response:
        scope = request.scope
        return await self._dispatch.perform(
            caller_of(scope),
            tool,
            arguments,
            operation,
            surface=SURFACE,
            request_id=scope[REQUEST_ID],
            raw=raw,
        )


def routes(
    dispatch: Dispatch, content: FileContent | None, limits: LimitsOptions
) -> list[BaseRoute]:
    """Return the routes below /api/files; none without file content."""
    return [] if content is None else [FileRoutes(dispatch, content, limits)]


def _file(project: str, path: str) -> dict[str, Any]:
    return {"project": project, "path": path}


def _version(target: Target) -> dict[str, Any]:
    if not target.segments:
        raise HTTPException(404)
    return _file(target.project, path_of(target.segments[1:])) | {"history_id": target.segments[0]}


def _reject_path(target: Target) -> None:
    if target.segments:
        raise HTTPException(404)


def _refused_write(request: Request, error: MemsvcError) -> Response:
    # raised only where If-None-Match required that no file exists, which is a precondition
    status = PRECONDITION_FAILED if error.code is Code.ALREADY_EXISTS else None
    return error_response(error, request.scope, status=status)
