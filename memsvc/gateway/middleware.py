"""The middleware that every request passes, from the socket to its route."""

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.core.background import others_first
from memsvc.core.call_context import NO_TRACER, Tracer, TraceSpan
from memsvc.core.errors import (
    MemsvcError,
    invalid_content,
    invalid_path,
    payload_too_large,
    permission_denied,
)
from memsvc.core.json_text import replace_half_characters
from memsvc.core.scope import Caller
from memsvc.core.urls import CONSOLE_PATH, is_loopback
from memsvc.gateway.admission import Admission
from memsvc.gateway.auth import (
    DISCOVERY_PATHS,
    DISCOVERY_PREFIXES,
    FORBIDDEN_STATUS,
    Authenticator,
    Challenge,
)
from memsvc.gateway.limits import LOOPBACK_HOSTS, BodyTimeoutError, LimitsOptions, check_json
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

API_PATH: Final = "/api/"
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
    """The hosts and origins that the server answers, against DNS rebinding and foreign web pages.

    A server that listens on loopback answers to this machine's names, on any port, and to its own
    pages. On other addresses, Host is checked if `allowed_hosts` is set, and web pages may only
    call if `allowed_origins` allows them."""

    def __init__(self, options: LimitsOptions, host: str) -> None:
        loopback = LOOPBACK_HOSTS if is_loopback(host) else ()
        self._hosts = options.allowed_hosts or tuple(
            pattern for name in loopback for pattern in (name, f"{name}:*")
        )
        self._origins = options.allowed_origins
        self._local_names = () if options.allowed_origins else loopback

    def refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Response | None:
        """Return the response to a Host or Origin that is not allowed, or None.

        Health paths are exempt. A path whose decoded form is not UTF-8 is refused too: with
        replacement characters, two different paths would be the same."""
        path: str = scope["path"]
        if "\ufffd" in path and not _is_text(scope.get("raw_path")):
            return error_response(invalid_path("the decoded path is not UTF-8"), scope)
        if path in HEALTH_PATHS:
            return None
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and host not in self._hosts and not _matches(host, self._hosts):
            recovery = "add the host to limits.allowed_hosts"
            error = permission_denied(
                "requests with this Host header are not allowed", recovery=recovery
            )
            return error_response(error, scope, status=WRONG_HOST_STATUS)
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and not self._allows(path, origin, host):
            recovery = "add the origin to limits.allowed_origins"
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
    """ASGI: gives each request an id, and closes its connection while the process is stopping.

    This is the base of `GatewayMiddleware`, for a process that does not answer calls."""

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

    It continues the trace, checks Host and Origin, passes on requests of the console, answers
    preflight requests, authenticates the caller, counts the request, and receives the body within
    limits of size, depth and time. Responses get CORS headers, and large JSON responses are
    compressed.

    Requests to the API that `streams` selects are only counted: their route reads the body in
    chunks, with a limit of its own."""

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
        admission: Admission,
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
        """Check what all requests have in common, then pass the request to its route."""
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
                if state.caller is not None:
                    self._admission.rates.count(state.caller, "requests")
                if not (path.startswith(API_PATH) and self._streams(scope)):
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
            recovery="send the body without Content-Encoding",
        )
        return error_response(error, scope, status=UNSUPPORTED_STATUS)

    async def _identify(self, state: RequestState, scope: Scope) -> Response | None:
        """Set the caller of a request; return the response that refuses it, else None.

        401 without valid credentials, 403 for a valid token with too few scopes, 503 when the
        look-up fails, 429 for an address with too many invalid keys. At the paths of an
        authorization server it is 404: from 401 clients conclude that there is one.
        """
        path: str = scope["path"]
        if path in self._public_paths:
            return None
        if path in DISCOVERY_PATHS or path.startswith(DISCOVERY_PREFIXES):
            return self._challenge.not_found(scope)
        if scope["method"] == "OPTIONS":  # it has no key, and no route accepts it: 405, or 404
            return None
        try:
            state.caller = await self._authenticator.authenticate_request(scope)
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
        async with asyncio.timeout(self._limits.body_s):
            body, is_whole = await _next_part(receive)
            if not is_whole:  # its sender may be slow
                async with self._body_slot(state.caller):
                    parts, size = [body], len(body)
                    while not is_whole and size <= size_max:
                        body, is_whole = await _next_part(receive)
                        parts.append(body)
                        size += len(body)
                    body = b"".join(parts)
        if len(body) > size_max:
            raise payload_too_large(f"the request body is larger than {size_max} bytes")
        if body and b"json" in headers.get(b"content-type", b"").lower():
            check_json(body, self._limits.json_depth_max, self._limits.json_values_max)
            if b"\\u" in body:
                body = replace_half_characters(body)
            await others_first(len(body))
        return body

    def _body_slot(self, caller: Caller | None) -> AbstractAsyncContextManager[None]:
        return nullcontext() if caller is None else self._admission.bodies.hold(caller.tenant)


async def _next_part(receive: Receive) -> tuple[bytes, bool]:
    """Return the next part of a body, and whether it is the last; ClientDisconnect without one."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientDisconnect

    return message.get("body", b""), not message.get("more_body", False)


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
