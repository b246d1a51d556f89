"""Tools over plain HTTP: their list, calls by name, and operations by method and path."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote_to_bytes

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memsvc.core.background import others_first
from memsvc.core.errors import invalid, invalid_path
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.scope import Scope as DataScope
from memsvc.core.tools import CallOutcome, Tool
from memsvc.core.validation_messages import position
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.credentials import QUERY_NAMES
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.rest import REQUEST_ID, caller_of, error_response, json_response
from memsvc.gateway.schemas import own_schema

PROJECT: Final = "project"
_Done = TypeVar("_Done")


_REST: Final = "{path}"


@frozen
class RestOperation:
    """One method of one path, and the tool that it calls.

    `{name}` in the path is one segment, decoded by itself; `named` maps it to the tool's argument
    if the names differ. `{path}` at the end stands for all remaining segments, as the path of a
    file. `query` lists the arguments that may be in the query; with `takes_body`, all others come
    as JSON. `defaults` are arguments that a request may omit."""

    method: str
    path: str
    tool: str
    query: tuple[str, ...] = ()
    takes_body: bool = False
    named: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def segments(self) -> list[str]:
        """The path as a list of segments."""
        return self.path.split("/")[1:]

    def placeholders(self) -> dict[str, str]:
        """Return the names in the path, with the arguments that they stand for."""
        names = [segment[1:-1] for segment in self.segments if segment.startswith("{")]
        return {name: self.named.get(name, name) for name in names}

    def matched(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the arguments in a request's path, or None if the path does not match.

        A fixed word of the path only matches literally: if it is percent-encoded, it is treated as
        a name. Raises INVALID_ARGUMENT if a name is not UTF-8."""
        pattern = self.segments
        has_rest = pattern[-1] == _REST
        count = len(pattern) - has_rest
        if len(segments) < count or (len(segments) > count and not has_rest):
            return None
        found: dict[str, str] = {}
        for expected, raw in zip(pattern[:count], segments, strict=False):
            if expected.startswith("{"):
                found[self.named.get(expected[1:-1], expected[1:-1])] = _decoded(raw)
            elif expected != raw:
                return None
        return found | ({"path": _path(segments[count:])} if has_rest else {})

    async def arguments(self, request: Request, found: dict[str, str]) -> JsonObject:
        """Return the tool's arguments; INVALID_ARGUMENT for duplicate or misplaced ones."""
        body = await json_body(request) if self.takes_body else {}
        if not isinstance(body, dict):
            raise invalid("the request body must be a JSON object")
        query = query_arguments(request, *self.query)
        for name in body.keys() & (query.keys() | found.keys()):
            raise invalid(f"{name} is both in the body and in the URL; send it in only one of them")
        return {**self.defaults, **body, **query, **found}


def _decoded(raw: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise invalid("the URL path must be percent-encoded UTF-8") from error


def _path(segments: Sequence[str]) -> str:
    """Return the path that URL segments make; INVALID_PATH if one of them contains a slash."""
    decoded = list(map(_decoded, segments))
    if any("/" in segment for segment in decoded):
        raise invalid_path("the URL path must not contain an encoded slash (%2F)")
    return "".join("/" + segment for segment in decoded)


def segments_of(scope: Scope) -> list[str]:
    """Return a request's path between its slashes, as it was sent, without a slash at its end."""
    segments = raw_segments(scope)
    return segments[:-1] if len(segments) > 1 and not segments[-1] else segments


def raw_segments(scope: Scope) -> list[str]:
    """Return a request's path between its slashes, as it was sent."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("ascii", "replace").split("/")[1:]


def query_arguments(request: Request, *names: str) -> JsonObject:
    """Return the arguments in the query, except a key.

    Raises INVALID_ARGUMENT for unknown or repeated names."""
    pairs = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in QUERY_NAMES
    ]
    arguments = dict(pairs)
    if len(arguments) < len(pairs) or not arguments.keys() <= set(names):
        raise invalid(
            "the query can contain only these parameters, each at most once: "
            + (", ".join(names) or "none")
        )
    return arguments


TOOLS_PATH = "/api/tools"
SURFACE = "rest"


def tool_routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return `GET /api/tools`, the visible tools, and `POST /api/tools/{name}`, a call.

    The arguments are sent as JSON."""

    async def list_tools(request: Request) -> Response:
        caller = caller_of(request.scope)
        tools = [_listed(tool, frozenset(caller.own)) for tool in dispatch.offered_to(caller)]
        return json_response({"tools": tools})

    async def call_tool(request: Request) -> Response:
        name: str = request.path_params["name"]
        rejection = await dispatch.rejection(caller_of(request.scope), name)
        if rejection is not None:
            return error_response(rejection, request.scope)
        return answer(request, await call(dispatch, request, name, await json_body(request)))

    return [
        Route(TOOLS_PATH, list_tools, methods=["GET"]),
        Route(TOOLS_PATH + "/{name}", call_tool, methods=["POST"]),
    ]


def _listed(tool: Tool, own: frozenset[str]) -> JsonObject:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": own_schema(tool, own),
        "hints": {
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        },
    }


async def json_body(request: Request) -> Any:
    """Return the JSON of the body, or {} if it is empty.

    Raises INVALID_ARGUMENT if the body is not declared as JSON."""
    body = await request.body()
    if not body:
        return {}
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise invalid(
            "the Content-Type of the request is not JSON",
            recovery="send the header Content-Type: application/json",
        )
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(f"the request body is not valid JSON{position(error)}") from None
    await others_first(len(body))
    return value


async def call(dispatch: Dispatch, request: Request, name: str, arguments: Any) -> CallOutcome:
    """Call a tool on behalf of the request's caller."""
    return await dispatch.call(
        caller_of(request.scope),
        name,
        arguments,
        surface=SURFACE,
        request_id=request.scope[REQUEST_ID],
    )


async def perform(
    dispatch: Dispatch,
    request: Request,
    tool: str,
    arguments: JsonObject,
    operation: Callable[[DataScope, Any], Awaitable[_Done]],
    raw: Raw | None = None,
) -> _Done:
    """Run an operation as a call of a tool on behalf of the request's caller."""
    return await dispatch.perform(
        caller_of(request.scope),
        tool,
        arguments,
        operation,
        surface=SURFACE,
        request_id=request.scope[REQUEST_ID],
        raw=raw,
    )


def answer(request: Request, outcome: CallOutcome) -> Response:
    """Return the result unchanged, or the error with its HTTP status."""
    if outcome.error is not None:
        return error_response(outcome.error, request.scope)
    return Response(outcome.text, media_type="application/json")


Handler = Callable[[Request, JsonObject], Awaitable[ASGIApp]]
"""Returns the response to a request with these arguments."""


@dataclass(frozen=True, eq=False)
class OperationRoutes(BaseRoute):
    """All routes of operations at and below one path. Some tools have handlers of their own.

    Routes are matched on the raw path, since the decoded path no longer shows where segments end.
    `check` raises for segments before anything else happens."""

    dispatch: Dispatch
    path: str
    operations: Sequence[RestOperation]
    handlers: Mapping[str, Handler]
    segments_of: Callable[[Scope], list[str]] = segments_of
    check: Callable[[Sequence[str]], None] = lambda _: None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match every request at or below the path."""
        matched = scope["type"] == "http" and has_prefix(self.path, self.segments_of(scope))
        return (Match.FULL, {"endpoint": self}) if matched else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        404 and 405 are raised as HTTPException, every other refusal as MemsvcError."""
        request, segments = Request(scope, receive), self.segments_of(scope)
        self.check(segments)
        allowed: dict[str, None] = {}
        for operation in self.operations:
            found = operation.matched(segments)
            if found is not None and operation.method == request.method:
                response = await self._response(request, operation, found)
                await response(scope, receive, send)
                return
            if found is not None:
                allowed[operation.method] = None
        if not allowed:
            raise HTTPException(404)
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})

    async def _response(
        self, request: Request, operation: RestOperation, found: dict[str, str]
    ) -> ASGIApp:
        arguments = await operation.arguments(request, found)
        handler = self.handlers.get(operation.tool)
        if handler is not None:
            return await handler(request, arguments)
        return answer(request, await call(self.dispatch, request, operation.tool, arguments))


def has_prefix(path: str, segments: Sequence[str]) -> bool:
    """Return whether the segments of a request begin with those of this path."""
    prefix = path.split("/")[1:]
    return segments[: len(prefix)] == prefix


JOBS_PATH: Final = "/api/jobs"
LIST_LIMIT: Final = 100
JOB_OPERATIONS: Final[Sequence[RestOperation]] = (
    RestOperation(
        "GET",
        JOBS_PATH,
        "tenant_jobs",
        query=("state", "limit", PROJECT),
        defaults={"limit": LIST_LIMIT},
    ),
    RestOperation(
        "POST",
        JOBS_PATH + "/{id}/retry",
        "tenant_settle_job",
        query=(PROJECT,),
        defaults={"action": "retry"},
    ),
    RestOperation(
        "DELETE",
        JOBS_PATH + "/{id}",
        "tenant_settle_job",
        query=(PROJECT,),
        defaults={"action": "drop"},
    ),
)


def job_routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return the routes below /api/jobs."""

    async def perform(operation: RestOperation, request: Request) -> Response:
        arguments = await operation.arguments(request, request.path_params)
        return answer(request, await call(dispatch, request, operation.tool, arguments))

    return [
        Route(operation.path, partial(perform, operation), methods=[operation.method])
        for operation in JOB_OPERATIONS
    ]
