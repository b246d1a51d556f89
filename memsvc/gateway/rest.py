"""The public HTTP routes, health checks and metrics, errors as JSON, and the state of a request."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from http import HTTPStatus
from math import ceil
from time import monotonic
from typing import Any, Final

import orjson
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ExceptionHandler, Scope

from memsvc.core.errors import (
    Code,
    MemsvcError,
    MissingPermissionError,
    invalid,
    not_found,
    payload_too_large,
    permission_denied,
    unavailable,
)
from memsvc.core.scope import Caller, Permission
from memsvc.core.urls import CONSOLE_PATH
from memsvc.gateway.metrics import Metrics, MetricsOptions
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.rest")

REQUEST_ID = "memsvc.request_id"
STATE: Final = "memsvc.request"
"""Scope key of the `RequestState`."""
ISOLATION_CHECK_S: Final = 60.0
"""Seconds between checks that the database keeps tenants apart."""
HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
MCP_PATHS = ("/mcp", "/mcp/")
HEALTH_PATHS = frozenset({HEALTH_PATH, READY_PATH})
PUBLIC_PATHS = HEALTH_PATHS | {METRICS_PATH}
CHECK_S_MAX = 1.0

Check = Callable[[], Awaitable[bool]]
NO_STATES: Final[Mapping[str, Callable[[], bool]]] = {}

_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603

Header = tuple[bytes, bytes]
VARY: Final[Header] = (b"vary", b"Accept-Encoding")
GZIP_HEADER: Final[Header] = (b"content-encoding", b"gzip")
_TAKES_GZIP: Final = re.compile(rb"(?<![\w-])gzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")


@dataclass(slots=True)
class RequestState:
    """What the gateway knows of a request beside its ASGI scope.

    `headers` has the first value of each name, `body` the whole body, except that of an upload.
    `missing_permission` is the one for lack of which a call was refused, `retry_after` the header
    of one that was refused for now. `toolsets` are those that an MCP request names; of its session
    it has the hash of its id, whether its client shows forms, and what sends it a request in the
    response.
    """

    method: str
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    caller: Caller | None = None
    cors_headers: tuple[Header, ...] = ()
    missing_permission: Permission | None = None
    retry_after: tuple[Header, ...] = ()
    toolsets: frozenset[str] = frozenset()
    session: bytes | None = None
    has_forms: bool = False
    send_request: Callable[[dict[str, Any]], Awaitable[None]] | None = None

    def takes_gzip(self) -> bool:
        """Return whether the client accepts a compressed response."""
        accepted = self.headers.get(b"accept-encoding", b"").lower()
        return self.method != "HEAD" and _TAKES_GZIP.search(accepted) is not None


def state_of(scope: Scope) -> RequestState:
    """Return the state of a request that came through the middleware."""
    state: RequestState = scope[STATE]
    return state


def caller_of(scope: Scope) -> Caller:
    """Return the caller of a request at a path that needs one."""
    caller = state_of(scope).caller
    if caller is None:
        raise RuntimeError("a route that needs an authenticated caller got a request without one")
    return caller


@dataclass(slots=True)
class Draining:
    """State of a process that is stopping: it finishes its requests and is no longer ready."""

    started: bool = False
    _then: list[Callable[[], None]] = field(default_factory=list)

    def on_start(self, do: Callable[[], None]) -> None:
        """Register a function that ends streams when draining begins."""
        self._then.append(do)

    def start(self) -> None:
        """Begin to drain, so that the process is no longer ready."""
        self.started = True
        while self._then:
            self._then.pop()()


async def to_console(_: Request) -> Response:
    """Redirect a browser from the server's root to the web console."""
    return RedirectResponse(CONSOLE_PATH, HTTPStatus.SEE_OTHER)


async def no_icon(_: Request) -> Response:
    """Answer browsers that look for an icon beside the pages; those name their own."""
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Cache-Control": "max-age=86400"})


def error_response(
    error: MemsvcError,
    scope: Scope,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as JSON.

    On the MCP path it is also a JSON-RPC error, which SDK clients can read.
    """
    body: dict[str, Any] = error.body()
    if isinstance(error, MissingPermissionError):
        state_of(scope).missing_permission = error.permission
    if scope.get("path") in MCP_PATHS:
        code = _INTERNAL_ERROR if error.http_status >= 500 else _INVALID_REQUEST
        body |= {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": code, "message": error.message, "data": error.body()},
        }
    extra = dict(headers or {}) | retry_after(error)
    return Response(orjson.dumps(body), status or error.http_status, extra, "application/json")


def json_response(body: Any) -> Response:
    """Return a result as JSON."""
    return Response(orjson.dumps(body), media_type="application/json")


def retry_after(error: MemsvcError) -> dict[str, str]:
    """Return the Retry-After header, or none if retrying would not help."""
    wait_s = error.retry_after_s
    return {} if wait_s is None else {"Retry-After": str(max(1, ceil(wait_s)))}


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            named = not_found("this path does not exist")
        case 405:
            allowed = (error.headers or {}).get("Allow", "")
            named = invalid(f"this path does not support this method; it supports {allowed}")
        case 413:
            named = payload_too_large("the request body is too large")
        case status if status >= 500:
            named = _internal_error(request)
        case _:
            named = invalid("the server cannot parse this request")
    return error_response(named, request.scope, status=error.status_code, headers=error.headers)


def _internal_error(request: Request) -> MemsvcError:
    """Return the error for an internal fault, with the request id that finds it in the log."""
    name = request.scope.get(REQUEST_ID, "")
    return MemsvcError(
        Code.INTERNAL_ERROR, "internal error", details={"request_id": name} if name else None
    )


def _memsvc_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MemsvcError)
    return error_response(error, request.scope)


def _unexpected_error(request: Request, error: Exception) -> Response:
    name = request.scope.get(REQUEST_ID, "")
    log.error("a request failed", request_id=name, exc_info=error)
    response = error_response(_internal_error(request), request.scope)
    if STATE in request.scope:  # the middleware did not see this response
        response.raw_headers += state_of(request.scope).cors_headers
        response.raw_headers.append((b"x-request-id", name.encode()))
    return response


EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {
    HTTPException: _http_error,
    MemsvcError: _memsvc_error,
    Exception: _unexpected_error,
}


def database_check(database: Database) -> Check:
    """Return the check that the database answers."""

    async def check() -> bool:
        return bool(await database.registry("SELECT 1"))

    return check


def isolation_check(database: Database, interval_s: float = ISOLATION_CHECK_S) -> Check:
    """Return the check that the database keeps tenants apart.

    This was checked when the database was opened. It is checked again periodically and, as long as
    it fails, every time."""
    checked_at = monotonic()

    async def check() -> bool:
        nonlocal checked_at
        if monotonic() - checked_at < interval_s:
            return True
        try:
            await database.check_isolation()
        except MemsvcError as error:
            if error.code is Code.PERMISSION_DENIED:
                log.error(
                    "row-level security in the database does not separate the tenants from"
                    " each other",
                    found=error.message,
                    recovery=error.recovery,
                )
            raise
        checked_at = monotonic()
        return True

    return check


async def run_check(check: Check) -> bool:
    """Return whether a check succeeds, within a second."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            return await check()
    except (MemsvcError, TimeoutError):
        return False


def routes(
    metrics: Metrics,
    options: MetricsOptions,
    checks: Mapping[str, Check],
    draining: Draining,
    states: Mapping[str, Callable[[], bool]] = NO_STATES,
) -> list[BaseRoute]:
    """Return the public routes.

    `/readyz` is 200 when every check succeeds within a second and the process is not draining; the
    states in `states` do not affect it. `/metrics` may require a token.
    """

    async def health(_: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(request: Request) -> Response:
        results = await asyncio.gather(*map(run_check, checks.values()))
        state = dict(zip(checks, results, strict=True)) | {"draining": draining.started}
        state |= {name: holds() for name, holds in states.items()}
        if all(results) and not draining.started:
            return json_response({"status": "ready"} | state)
        error = unavailable("not ready", retry_after_s=1.0, details={"checks": state})
        return error_response(error, request.scope)

    async def expose(request: Request) -> Response:
        header = request.headers.get("Authorization", "").encode()
        if options.token and not compare_digest(header, f"Bearer {options.token}".encode()):
            recovery = "send the token that is configured as metrics.token"
            error = permission_denied("metrics can only be read with a token", recovery=recovery)
            challenge = {"WWW-Authenticate": "Bearer"}
            return error_response(error, request.scope, status=401, headers=challenge)
        return Response(metrics.text(), media_type=metrics.media_type)

    return [Route(HEALTH_PATH, health), Route(READY_PATH, ready), Route(METRICS_PATH, expose)]


def with_length(headers: Sequence[Header], body: bytes, *more: Header) -> list[Header]:
    """Return the headers of a response with a changed body, and more."""
    others = (header for header in headers if header[0] != b"content-length")
    return [*others, (b"content-length", b"%d" % len(body)), *more]
