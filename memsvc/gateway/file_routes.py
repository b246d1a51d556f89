"""Files over plain HTTP: their bytes streamed either way, and the file tools by path and query."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS
from memsvc.core.scope import Scope as DataScope
from memsvc.core.tools import FileContent, OpenFile
from memsvc.gateway.auth import caller_of
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import BodyTimeoutError, LimitsOptions
from memsvc.gateway.operations import SURFACE, answer, call, json_body, query_arguments
from memsvc.gateway.rest import REQUEST_ID, error_response
from memsvc.gateway.streams import file_response, receive_body, write_condition

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


@dataclass(frozen=True, slots=True)
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
        raise MemsvcError(Code.INVALID_PATH, "a segment of a path cannot hold a slash")
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
