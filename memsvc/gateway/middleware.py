"""The middleware of every request: one pass from the socket to a route, over one map of headers."""

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.core.call_context import NO_TRACER, Tracer, TraceSpan
from memsvc.core.errors import (
    MemsvcError,
    invalid_content,
    invalid_path,
    payload_too_large,
    permission_denied,
)
from memsvc.core.urls import CONSOLE_PATH, is_loopback
from memsvc.gateway.admission import Admission
from memsvc.gateway.auth import FORBIDDEN_STATUS, Authenticator, Challenge
from memsvc.gateway.limits import LOOPBACK_HOSTS, BodyTimeoutError, LimitsOptions, checked_json
from memsvc.gateway.rest import (
    GZIP_HEADER,
    HEALTH_PATHS,
    PUBLIC_PATHS,
    REQUEST_ID,
    STATE,
    VARY,
    Draining,
    Header,
    RequestState,
    error_response,
    with_length,
)

GZIP_BYTES_MIN: Final = 16_384
"""A smaller response goes in one packet anyway."""
THREAD_BYTES_MIN: Final = 64 * 1024
"""A larger response is compressed outside of the event loop."""
LEVEL: Final = 1
"""Other levels make JSON hardly smaller and take up to five times as long."""
UNSUPPORTED_STATUS: Final = 415
_UNCHANGED_HEADERS: Final = frozenset({b"etag", b"content-encoding", b"content-range"})
"""Headers of responses that must not be changed: encoded already, partial, or with a strong entity
tag."""
_IDENTITY: Final = (b"", b"identity")

ANONYMOUS_BYTES_MAX: Final = 4096
WRONG_HOST_STATUS: Final = 421
_PORT: Final = re.compile(r":[0-9]+$")
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")

ALLOWED_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS: Final = (
    "accept, authorization, content-type, if-match, if-none-match, if-range, last-event-id,"
    " mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, range, x-api-key,"
    " x-memsvc-project, x-memsvc-tools, x-memsvc-user, x-request-id"
)
EXPOSE_HEADERS: Final = (
    b"content-disposition, content-range, etag, mcp-session-id, retry-after,"
    b" www-authenticate, x-request-id"
)
PREFLIGHT_AGE_S: Final = 7200
"""Seconds that a browser may cache a preflight: Chromium's maximum."""
_VARY_ORIGIN: Final[Header] = (b"vary", b"Origin")
_ALLOW_ORIGIN: Final = b"access-control-allow-origin"
_EXPOSE: Final[Header] = (b"access-control-expose-headers", EXPOSE_HEADERS)

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_TRACEPARENT: Final = b"traceparent"
_CLOSE: Final[Header] = (b"connection", b"close")


class HostRules:
    """The hosts and origins that are answered, against DNS rebinding and foreign web pages.

    Bound to loopback, a server answers to this machine's names, on any port, and to its own pages.
    Bound elsewhere, Host is checked once `allowed_hosts` is set, and no page may call unless
    `allowed_origins` lets it.
    """

    def __init__(self, options: LimitsOptions, host: str) -> None:
        loopback = LOOPBACK_HOSTS if is_loopback(host) else ()
        self._hosts = options.allowed_hosts or tuple(
            pattern for name in loopback for pattern in (name, f"{name}:*")
        )
        self._origins = options.allowed_origins
        self._local_names = () if options.allowed_origins else loopback

    def refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Response | None:
        """Return the response to a foreign Host or Origin, except at health paths; else None.

        A path that is not UTF-8 once it is decoded is refused too: with replacement characters, two
        different paths would be one.
        """
        path: str = scope["path"]
        if "\ufffd" in path and not _is_text(scope.get("raw_path")):
            return error_response(invalid_path("the decoded path is not UTF-8"), scope)
        if path in HEALTH_PATHS:
            return None
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and host not in self._hosts and not _matches(host, self._hosts):
            recovery = "add it to limits.allowed_hosts"
            error = permission_denied("this Host is not allowed", recovery=recovery)
            return error_response(error, scope, status=WRONG_HOST_STATUS)
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and not self._allows(path, origin, host):
            recovery = "add it to limits.allowed_origins"
            error = permission_denied(
                "requests from this origin are not allowed", recovery=recovery
            )
            return error_response(error, scope)
        return None

    def _allows(self, path: str, origin: str, host: str) -> bool:
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


def _is_text(raw_path: bytes | None) -> bool:
    try:
        unquote_to_bytes(raw_path or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _matches(value: str, allowed: Sequence[str]) -> bool:
    name, _, port = value.rpartition(":")
    return value in allowed or (bool(name) and port.isdigit() and f"{name}:*" in allowed)


class HttpMiddleware:
    """ASGI: gives a request its id, and while the process drains closes its connection.

    The base of `GatewayMiddleware`, for a process that answers no calls.
    """

    def __init__(self, app: ASGIApp, draining: Draining) -> None:
        self.app = app
        self.draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, value)
        given = headers.get(b"x-request-id")
        if given is None or _REQUEST_ID.fullmatch(given) is None:
            given = uuid4().hex.encode()
        state = scope[STATE] = RequestState(scope["method"], headers)
        scope[REQUEST_ID] = given.decode()
        response = _Response(state, send, given, self.draining)
        with structlog.contextvars.bound_contextvars(request_id=scope[REQUEST_ID]):
            await self.answer(state, scope, receive, response)

    async def answer(
        self, state: RequestState, scope: Scope, receive: Receive, response: "_Response"
    ) -> None:
        """Answer a request with an id."""
        del state
        await self.app(scope, receive, response)


class GatewayMiddleware(HttpMiddleware):
    """ASGI: everything between the socket and a route.

    It continues the trace, checks Host and Origin, passes the console's requests on, answers
    preflights, authenticates the caller, counts the request, and receives the body, limited in
    size, depth and time. Responses get CORS headers, and large ones of JSON are compressed.

    Requests that `streams` picks are only counted: their route reads the body in chunks, with a
    limit of its own.
    """

    def __init__(  # noqa: PLR0913 - one name a part, all of them by keyword
        self,
        app: ASGIApp,
        *,
        draining: Draining,
        tracer: Tracer,
        limits: LimitsOptions,
        host: str,
        console: ASGIApp | None,
        authenticator: Authenticator,
        challenge: Challenge,
        public_paths: frozenset[str],
        admission: Admission | None,
        streams: Callable[[Scope], bool],
    ) -> None:
        super().__init__(app, draining)
        self._tracer = tracer
        self._limits = limits
        self._hosts = HostRules(limits, host)
        self._console = console
        self._authenticator = authenticator
        self._challenge = challenge
        self._public_paths = public_paths
        self._admission = admission
        self._streams = streams

    async def answer(
        self, state: RequestState, scope: Scope, receive: Receive, response: "_Response"
    ) -> None:
        """Answer a request, as part of the trace that its `traceparent` names, if any.

        The span has the route and never the path, which contains names that callers gave.
        """
        if self._tracer is NO_TRACER or scope["path"] in PUBLIC_PATHS:
            await self._pass(state, scope, receive, response)
            return
        parent = state.headers.get(_TRACEPARENT, b"").decode("latin-1")
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        attributes = {"method": method, "request_id": scope[REQUEST_ID]}
        with self._tracer.span("request", method, attributes, parent=parent) as span:
            response.span = span
            try:
                await self._pass(state, scope, receive, response)
            finally:
                if "route" in scope:
                    span.note(route=scope["route"].path)

    async def _pass(
        self, state: RequestState, scope: Scope, receive: Receive, response: "_Response"
    ) -> None:
        """Pass a request on to its route, once everything is checked that all have in common."""
        path: str = scope["path"]
        app: ASGIApp | None = self._hosts.refusal(scope, state.headers)
        if app is None and self._console is not None and path.startswith(CONSOLE_PATH):
            app = self._console if path[len(CONSOLE_PATH) :][:1] in ("", "/") else None
        try:
            if app is None:
                response.challenge = self._challenge
                app = self._preflight(state, scope) or self._encoding_refusal(state, scope)
            if app is None:
                app = await self._identify(state, scope)
            if app is None:
                app = self.app
                if state.caller is not None and self._admission is not None:
                    self._admission.rates.count(state.caller, "requests")
                if not self._streams(scope):
                    body = state.body = await self._read(state, receive)
                    receive = replayed({"type": "http.request", "body": body}, receive)
        except TimeoutError:
            app = BodyTimeoutError(self._limits.body_s).response(scope)
        except MemsvcError as error:
            app = error_response(error, scope)
        except ClientDisconnect:  # half a body means nothing
            return
        await app(scope, receive, response)

    def _preflight(self, state: RequestState, scope: Scope) -> Response | None:
        """Set the CORS headers of the response; return the answer to a preflight, else None.

        Only requests of allowed origins come here; those of public paths are not checked, so no
        page may read them.
        """
        if scope["path"] in PUBLIC_PATHS:
            return None
        origin = state.headers.get(b"origin")
        if origin is None:
            state.cors_headers = (_VARY_ORIGIN,)
            return None
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in state.headers:
            return Response(
                status_code=204,
                headers={
                    "Access-Control-Allow-Origin": origin.decode("latin-1"),
                    "Access-Control-Allow-Methods": ALLOWED_METHODS,
                    "Access-Control-Allow-Headers": ALLOWED_HEADERS,
                    "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
                    "Vary": "Origin",
                },
            )
        state.cors_headers = (_VARY_ORIGIN, (_ALLOW_ORIGIN, origin), _EXPOSE)
        return None

    def _encoding_refusal(self, state: RequestState, scope: Scope) -> Response | None:
        if state.headers.get(b"content-encoding", b"").strip().lower() in _IDENTITY:
            return None
        error = invalid_content(
            "compressed request bodies are not supported",
            recovery="send it without Content-Encoding",
        )
        return error_response(error, scope, status=UNSUPPORTED_STATUS)

    async def _identify(self, state: RequestState, scope: Scope) -> Response | None:
        """Set the caller; return the response to a request that needs one and has none, else None.

        401 without valid credentials, 403 for a valid token with too few scopes, 503 when the
        look-up fails, 429 for an address with too many invalid keys. At the paths of an
        authorization server it is 404: from 401 clients conclude that there is one.
        """
        path: str = scope["path"]
        if path in self._public_paths:
            return None
        if self._challenge.is_discovery(path):
            return self._challenge.not_found(scope)
        if scope["method"] == "OPTIONS":  # it has no key, and no route accepts it: 405, or 404
            return None
        try:
            state.caller = await self._authenticator.authenticate_request(scope, state.headers)
        except MemsvcError as error:
            return self._challenge.error(error, scope)
        return None

    async def _read(self, state: RequestState, receive: Receive) -> bytes:
        """Return the whole body; ClientDisconnect where it ends early."""
        headers = state.headers
        size_max = self._limits.request_bytes_max
        if state.caller is None:  # no public route reads a body
            size_max = min(size_max, ANONYMOUS_BYTES_MAX)
        declared = headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared[:20]) > size_max:
            raise payload_too_large(f"the request body is larger than {size_max} bytes")
        # a request that announces no body takes no slot
        is_empty = declared in (None, b"0") and b"transfer-encoding" not in headers
        caller, admission = state.caller, self._admission
        slots = None if caller is None or admission is None or is_empty else admission.bodies
        tenant = b"" if caller is None else caller.tenant
        if slots is not None:
            await slots.acquire(tenant)
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await _received(receive, size_max)
        finally:
            if slots is not None:
                slots.release(tenant)
        if body and b"json" in headers.get(b"content-type", b"").lower():
            return await checked_json(body, self._limits)
        return body


async def _received(receive: Receive, size_max: int) -> bytes:
    """Return the whole body; ClientDisconnect where it ends early, PAYLOAD_TOO_LARGE."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > size_max:
            raise payload_too_large(f"the request body is larger than {size_max} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunk if len(chunks) == 1 else b"".join(chunks)


def replayed(first: Message, receive: Receive) -> Receive:
    """Return a `receive` for which this message is the first."""
    messages = [first]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


class _Response:
    """ASGI `send` of one response: adds the headers that it needs, and compresses a large one.

    A response of the console, which has no `challenge`, is not compressed.
    """

    def __init__(
        self, state: RequestState, send: Send, request_id: bytes, draining: Draining
    ) -> None:
        self._state = state
        self._send = send
        self._request_id = request_id
        self._draining = draining
        self._start: Message | None = None
        self.challenge: Challenge | None = None
        self.span: TraceSpan | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            start = self._started(message)
            if self.challenge is not None and _is_json(
                start
            ):  # whether it is large is known with the body
                self._start = start
            else:
                await self._send(start)
            return
        if self._start is not None:
            start, self._start = self._start, None
            if not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                if len(body) >= GZIP_BYTES_MIN:
                    start, message = await self._encoded(start, message, body)
            await self._send(start)
        await self._send(message)

    def _started(self, message: Message) -> Message:
        """Return the start of the response with the headers of every response."""
        state, status = self._state, message["status"]
        headers = list(message.get("headers", ()))
        if state.missing_permission is not None and self.challenge is not None:
            scope_challenge = self.challenge.missing_scope(state)
            if scope_challenge is not None:
                status = FORBIDDEN_STATUS
                headers.append(scope_challenge)
        if len(state.cors_headers) > 1:  # those of an app behind this one count for nothing
            headers = [header for header in headers if header[0] not in (_ALLOW_ORIGIN, _EXPOSE[0])]
        headers += state.cors_headers
        headers.append((b"x-request-id", self._request_id))
        if self._draining.started:  # to move clients elsewhere
            headers.append(_CLOSE)
        if self.span is not None:
            self.span.note(http_status=status)
            if status >= 500:
                self.span.note(status="error")
        return {**message, "status": status, "headers": headers}

    async def _encoded(
        self, start: Message, message: Message, body: bytes
    ) -> tuple[Message, Message]:
        headers = [*start["headers"], VARY]
        if not self._state.takes_gzip():
            return {**start, "headers": headers}, message
        compress = partial(gzip.compress, body, LEVEL, mtime=0)
        is_long = len(body) >= THREAD_BYTES_MIN
        body = await asyncio.to_thread(compress) if is_long else compress()
        start = {**start, "headers": with_length(headers, body, GZIP_HEADER)}
        return start, {**message, "body": body}


def _is_json(start: Message) -> bool:
    headers = dict(start["headers"])
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return not _UNCHANGED_HEADERS & headers.keys() and (
        media_type == b"application/json" or media_type.endswith(b"+json")
    )
