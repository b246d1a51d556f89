"""Checks of a request before it is parsed: id, allowed host and origin, size and JSON depth."""

import asyncio
import re
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import accumulate
from typing import Final
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import structlog
from pydantic import Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.core.background import others_first
from memsvc.core.errors import (
    Code,
    MemsvcError,
    invalid,
    invalid_path,
    payload_too_large,
    permission_denied,
)
from memsvc.core.frozen import frozen
from memsvc.core.json_text import replace_half_characters
from memsvc.core.options import Options
from memsvc.core.urls import CONSOLE_PATH, is_loopback
from memsvc.gateway.admission import Admission, SlotOptions
from memsvc.gateway.auth import CALLER, caller_of
from memsvc.gateway.rate_limits import RateOptions, StoredOptions
from memsvc.gateway.rest import (
    HEALTH_PATHS,
    REQUEST_ID,
    Draining,
    error_response,
    with_headers,
)

_STEP_BYTES = bytes.maketrans(b"[{]},", b"\x01\x01\xff\xff\x00")
_IGNORED = bytes(byte for byte in range(256) if byte not in b'[]{},"')


class SseOptions(Options):
    """The deprecated transport at /sse."""

    enabled: bool = Field(
        True, description="whether /sse is there; with several replicas it needs sticky routing"
    )
    sessions_max: int = Field(256, ge=1, description="how many clients one process serves at once")
    sessions_per_caller_max: int = Field(
        32, ge=1, description="how many of them may have the same key"
    )
    calls_per_caller_max: int = Field(
        64, ge=1, description="how many requests of one key may wait for their answers"
    )
    idle_s: float = Field(
        3600.0, gt=0, description="after how long of silence a client is sent away"
    )


def check_json(body: bytes, depth_max: int, values_max: int) -> None:
    """Raise INVALID_ARGUMENT for a body that is not UTF-8, too deep or with too many values.

    Lists and objects count twice. It does not check that the body is JSON. Linear in the body, and
    without recursion.

    UTF-16 and UTF-32, which Python's parser would read, are refused: they would hide brackets from
    these checks.
    """
    if b"\0" in body or body[:1] in (b"\xfe", b"\xff"):
        raise invalid("the request body must be UTF-8")
    signs = body.translate(None, _IGNORED)
    opened = signs.count(b"[") + signs.count(b"{")
    if opened <= depth_max and opened + signs.count(b",") < values_max:
        return
    signs = _signs(body)
    many = signs.count(b'"') > 4 * values_max  # a value and its name are two strings
    steps = _steps(signs[:values_max] if many else signs)
    if _depth(steps[:values_max]) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")
    if many or steps.count(1) + steps.count(0) >= values_max:
        raise invalid(f"the request body holds more than {values_max} values")
    if _depth(steps) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")


def is_too_deep(body: bytes, depth_max: int) -> bool:
    """Return whether JSON is nested deeper than this."""
    opened = body.count(b"[") + body.count(b"{")
    return opened > depth_max and _depth(_steps(_signs(body))) > depth_max


def _signs(body: bytes) -> bytes:
    """Return the brackets, commas and quotation marks of JSON, without those that are escaped."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    return unescaped.translate(None, _IGNORED)


def _steps(signs: bytes) -> bytes:
    """Return the brackets that open and close levels, and the commas, as steps."""
    return b"".join(signs.split(b'"')[::2]).translate(_STEP_BYTES)


def _depth(steps: bytes) -> int:
    return max(accumulate(array("b", steps)), default=0)


LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ANONYMOUS_BYTES_MAX: Final = 4096
WRONG_HOST_STATUS = 421
TIMEOUT_STATUS = 408

_PORT = re.compile(r":[0-9]+$")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class LimitsOptions(Options):
    """Limits of requests. Hosts and origins are exact, or end in `:*` for any port."""

    request_bytes_max: int = Field(
        4 * 1024 * 1024, ge=1024, description="largest request body, 413 above it"
    )
    body_s: float = Field(
        30.0, gt=0, description="how long a request body may take to come, but for uploads"
    )
    upload_s: float = Field(120.0, gt=0, description="how long an upload may take to come")
    head_bytes_max: int = Field(
        32 * 1024,
        ge=1024,
        description="request line and headers together, the URL among them; 431 above it",
    )
    headers_max: int = Field(100, ge=10, description="headers of one request; 431 above it")
    head_s: float = Field(
        15.0, gt=0, description="how long request line and headers may take to come"
    )
    connections_max: int = Field(
        2000, ge=1, description="connections of clients at once; further ones are closed"
    )
    json_depth_max: int = Field(
        64, ge=8, le=128, description="deepest nesting of a JSON body, 400 below it"
    )
    json_values_max: int = Field(
        100_000, ge=1000, description="values of a JSON body; 400 above it"
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host headers that are answered; empty: this machine's names on a loopback"
        " bind, else any",
    )
    allowed_origins: tuple[str, ...] = Field(
        (),
        description="web origins whose pages may call; empty: the server's own on a loopback"
        " bind, else none",
    )
    listeners_max: int = Field(
        1000, ge=1, description="clients that may wait for changes of resources in one process"
    )
    tenant_listeners_max: int = Field(
        100, ge=1, description="clients of one tenant among them, and its sessions that subscribed"
    )
    listener_uris_max: int = Field(
        100, ge=1, le=10000, description="resources that one client may wait for"
    )
    listen_s_max: float = Field(
        3600.0,
        gt=0,
        description="how long one stream of changes goes on before the client has to ask again; a"
        " session is kept twice as long after its last",
    )
    confirm_s_max: float = Field(
        55.0,
        ge=0,
        description="how long a call that removes something for good waits for the client's user to"
        " agree; 0: users are not asked",
    )
    model_calls_a_day: int = Field(
        20_000,
        ge=0,
        le=2**31 - 1,
        description="questions to a model a day for a tenant, whatever asks; what is over is done"
        " by rules or on the next day; 0: no limit",
    )
    stored: StoredOptions = Field(StoredOptions(), description="how much a tenant may store")
    rates: RateOptions = Field(RateOptions(), description="how often a key and a tenant may call")
    slots: SlotOptions = Field(
        SlotOptions(), description="how many calls run at once in one process"
    )


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


@frozen
class RequestId:
    """ASGI: gives every request an id, the caller's X-Request-ID if it is valid, and echoes it.

    While the process drains, responses close the connection, to move clients elsewhere.
    """

    app: ASGIApp
    draining: Draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        header = _header(scope, b"x-request-id")
        name = header if header and _REQUEST_ID.fullmatch(header) else uuid4().hex.encode()
        scope[REQUEST_ID] = name.decode()
        named = (b"x-request-id", name)
        closed = (named, (b"connection", b"close"))
        send = with_headers(send, lambda _: closed if self.draining.started else (named,))
        with structlog.contextvars.bound_contextvars(request_id=scope[REQUEST_ID]):
            await self.app(scope, receive, send)


def _is_text(raw_path: bytes | None) -> bool:
    try:
        unquote_to_bytes(raw_path or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _matches(value: str, allowed: Sequence[str]) -> bool:
    name, _, port = value.rpartition(":")
    return value in allowed or (bool(name) and port.isdigit() and f"{name}:*" in allowed)


class CheckHost:
    """ASGI: refuses a foreign Host (DNS rebinding) and Origin (a web page), except at health paths.

    It refuses a path too that is not UTF-8 once it is decoded: with replacement characters, two
    different paths would be one.

    Bound to loopback, it answers to this machine's names, on any port, and to its own pages. Bound
    elsewhere, Host is checked once `allowed_hosts` is set, and no page may call unless
    `allowed_origins` lets it.
    """

    def __init__(self, app: ASGIApp, options: LimitsOptions, host: str) -> None:
        self.app = app
        loopback = LOOPBACK_HOSTS if is_loopback(host) else ()
        self._hosts = options.allowed_hosts or tuple(
            pattern for name in loopback for pattern in (name, f"{name}:*")
        )
        self._origins = options.allowed_origins
        self._local_names = () if options.allowed_origins else loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if "\ufffd" in scope["path"] and not _is_text(scope.get("raw_path")):
            return error_response(invalid_path("the path is not UTF-8 once it is decoded"), scope)
        if scope["path"] in HEALTH_PATHS:
            return None
        host = (_header(scope, b"host") or b"").decode("latin-1").lower()
        if self._hosts and not _matches(host, self._hosts):
            recovery = "add it to limits.allowed_hosts"
            error = permission_denied("this Host is not served here", recovery=recovery)
            return error_response(error, scope, status=WRONG_HOST_STATUS)
        origin = (_header(scope, b"origin") or b"").decode("latin-1").lower()
        if origin and not self._is_allowed(scope["path"], origin, host):
            recovery = "add it to limits.allowed_origins"
            error = permission_denied("pages of this Origin may not call", recovery=recovery)
            return error_response(error, scope)
        return None

    def _is_allowed(self, path: str, origin: str, host: str) -> bool:
        """Return whether pages of this origin may call.

        Those of an allowed origin may; those of the console may call their own console. On loopback
        pages of this very server may; those of another port belong to another program.
        """
        of_console = path.startswith(f"{CONSOLE_PATH}/") and origin in (
            f"https://{host}",
            f"http://{host}",
        )
        port = _PORT.search(host)
        local_origins = {f"http://{name}{port[0] if port else ''}" for name in self._local_names}
        return of_console or origin in local_origins or _matches(origin, self._origins)


@frozen
class MountApp:
    """ASGI: routes a path and everything below it to another app."""

    app: ASGIApp
    path: str
    sub_app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        matches = scope["type"] == "http" and (
            path == self.path or path.startswith(f"{self.path}/")
        )
        await (self.sub_app if matches else self.app)(scope, receive, send)


@frozen
class LimitRequest:
    """ASGI: counts a caller's requests, and passes complete bodies on, limited in size and depth.

    RATE_LIMITED beyond the rate, before the body is read. A body that does not come at once takes
    one of a few slots until it is complete, and has limited time.

    Requests that `streams` picks are counted alone: their route reads the body in chunks, with a
    limit of its own.
    """

    app: ASGIApp
    options: LimitsOptions
    streams: Callable[[Scope], bool]
    admission: Admission | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self.app
        try:
            if CALLER in scope and self.admission is not None:
                self.admission.rates.count(caller_of(scope), "requests")
            if scope["type"] == "http" and not self.streams(scope):
                body = await self._read(scope, receive)
                receive = replayed({"type": "http.request", "body": body}, receive)
        except TimeoutError:
            app = BodyTimeoutError(self.options.body_s).response(scope)
        except MemsvcError as error:
            app = error_response(error, scope)
        except ClientDisconnect:  # half a body means nothing
            return
        await app(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body; ClientDisconnect where it ends early."""
        size_max = self.options.request_bytes_max
        if CALLER not in scope:  # no public route reads a body
            size_max = min(size_max, ANONYMOUS_BYTES_MAX)
        declared = _header(scope, b"content-length")
        too_large = payload_too_large(f"the request body is larger than {size_max} bytes")
        if declared is not None and declared.isdigit() and int(declared[:20]) > size_max:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        async with self._slot(scope), asyncio.timeout(self.options.body_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnect
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > size_max:
                    raise too_large
                chunks.append(chunk)
                if not message.get("more_body", False):
                    break
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if body and b"json" in (_header(scope, b"content-type") or b"").lower():
            check_json(body, self.options.json_depth_max, self.options.json_values_max)
            body = replace_half_characters(body)
            await others_first(len(body))
        return body

    def _slot(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Return a slot for a body in transfer; a request that announces no body needs none."""
        is_empty = (
            _header(scope, b"content-length") in (None, b"0")
            and _header(scope, b"transfer-encoding") is None
        )
        if self.admission is None or CALLER not in scope or is_empty:
            return nullcontext()
        return self.admission.body(caller_of(scope))


def replayed(first: Message, receive: Receive) -> Receive:
    """Return a `receive` for which this message is the first."""
    messages = [first]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


class BodyTimeoutError(MemsvcError):
    """A body did not arrive in time; the rest is not awaited."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Code.INVALID_CONTENT, f"the body did not come within {seconds:g} s")

    def response(self, scope: Scope) -> Response:
        """Return the response, which also closes the connection."""
        return error_response(self, scope, status=TIMEOUT_STATUS, headers={"Connection": "close"})
