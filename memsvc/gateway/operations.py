"""Tools over plain HTTP: the list, a call of each, and operations by method, path and query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import orjson
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from memsvc.core.background import others_first
from memsvc.core.errors import invalid
from memsvc.core.tools import CallOutcome, Tool
from memsvc.core.validation_messages import position
from memsvc.gateway.auth import caller_of
from memsvc.gateway.credentials import QUERY_NAMES
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.rest import REQUEST_ID, error_response
from memsvc.gateway.schemas import input_schema

PROJECT: Final = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOperation:
    """One method of one path, and the tool that it calls.

    `{name}` in the path is one segment, decoded once and by itself; `named` maps it to its argument
    where the names differ. The query may have `query` and the project; with `takes_body` all other
    arguments come as JSON. `given` are default arguments.
    """

    method: str
    path: str
    tool: str
    query: tuple[str, ...] = ()
    takes_body: bool = False
    named: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def segments(self) -> tuple[str, ...]:
        """Path between its slashes."""
        return tuple(self.path.split("/")[1:])

    def placeholders(self) -> dict[str, str]:
        """Return the names in the path, with the arguments that they stand for."""
        names = [segment[1:-1] for segment in self.segments if segment.startswith("{")]
        return {name: self.named.get(name, name) for name in names}

    def matched(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the arguments in a request's path; None if it is another path.

        A fixed word of the path only matches literally: percent-encoded, it is a name like any
        other. INVALID_ARGUMENT for what is not UTF-8: two such names must not be the same one.
        """
        pattern = self.segments
        if len(pattern) != len(segments):
            return None
        found: dict[str, str] = {}
        for expected, raw in zip(pattern, segments, strict=True):
            if expected.startswith("{"):
                found[self.named.get(expected[1:-1], expected[1:-1])] = _decoded(raw)
            elif expected != raw:
                return None
        return found

    async def arguments(self, request: Request, found: dict[str, str]) -> dict[str, Any]:
        """Return the tool's arguments; INVALID_ARGUMENT for duplicate or misplaced ones."""
        body = await json_body(request) if self.takes_body else {}
        if not isinstance(body, dict):
            raise invalid("the body must be an object")
        query = query_arguments(request, *self.query, PROJECT)
        for name in body.keys() & (query.keys() | found.keys()):
            raise invalid(f"{name} must not be in the body and beside it")
        return {**self.defaults, **body, **query, **found}


def _decoded(raw: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise invalid("a path must be UTF-8, percent-encoded") from error


def segments_of(scope: Scope) -> list[str]:
    """Return a request's path between its slashes, as it was sent, without a slash at its end."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    segments = raw.decode("ascii", "replace").split("/")[1:]
    return segments[:-1] if len(segments) > 1 and not segments[-1] else segments


def query_arguments(request: Request, *names: str) -> dict[str, Any]:
    """Return the query as arguments; INVALID_ARGUMENT for unknown or repeated names.

    A key in the query is none of them.
    """
    pairs = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in QUERY_NAMES
    ]
    arguments = dict(pairs)
    if len(arguments) < len(pairs) or not arguments.keys() <= set(names):
        raise invalid(
            "the query takes each of these once at the most: " + (", ".join(names) or "nothing")
        )
    return arguments


TOOLS_PATH = "/api/tools"
SURFACE = "rest"


def tool_routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return `GET /api/tools`, the visible tools, and `POST /api/tools/{name}`, a call.

    The arguments come as JSON.
    """

    async def list_tools(request: Request) -> Response:
        tools = dispatch.tools_for(caller_of(request.scope))
        return Response(
            orjson.dumps({"tools": [_listed(tool) for tool in tools]}),
            media_type="application/json",
        )

    async def call_tool(request: Request) -> Response:
        name: str = request.path_params["name"]
        return answer(request, await call(dispatch, request, name, await json_body(request)))

    return [
        Route(TOOLS_PATH, list_tools, methods=["GET"]),
        Route(TOOLS_PATH + "/{name}", call_tool, methods=["POST"]),
    ]


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": input_schema(tool),
        "hints": {
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        },
    }


async def json_body(request: Request) -> Any:
    """Return the JSON of the body, {} for none; INVALID_ARGUMENT unless it is declared as JSON."""
    body = await request.body()
    if not body:
        return {}
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise invalid(
            "the body must be JSON", recovery="send the header Content-Type: application/json"
        )
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(f"the body is not JSON{position(error)}") from None
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


def answer(request: Request, outcome: CallOutcome) -> Response:
    """Return the result as it is, or the error with its status."""
    if outcome.error is not None:
        return error_response(outcome.error, request.scope)
    return Response(outcome.text, media_type="application/json")


JOBS_PATH: Final = "/api/jobs"
LIST_LIMIT: Final = 100
JOB_OPERATIONS: Final[Sequence[RestOperation]] = (
    RestOperation(
        method="GET",
        path=JOBS_PATH,
        tool="tenant_jobs",
        query=("state", "limit"),
        defaults={"limit": LIST_LIMIT},
    ),
    RestOperation(
        method="POST",
        path=JOBS_PATH + "/{id}/retry",
        tool="tenant_settle_job",
        defaults={"action": "retry"},
    ),
    RestOperation(
        method="DELETE",
        path=JOBS_PATH + "/{id}",
        tool="tenant_settle_job",
        defaults={"action": "drop"},
    ),
)


def job_routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return the routes below /api/jobs."""
    return [_route(dispatch, operation) for operation in JOB_OPERATIONS]


def _route(dispatch: Dispatch, operation: RestOperation) -> Route:
    async def perform(request: Request) -> Response:
        arguments = await operation.arguments(request, request.path_params)
        return answer(request, await call(dispatch, request, operation.tool, arguments))

    return Route(operation.path, perform, methods=[operation.method])
