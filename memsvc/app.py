"""The ASGI app of a server: every route, the console, and the order of the middleware."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.console.dependencies import ConsoleDependencies, SignedIn
from memsvc.console.routes import console_app
from memsvc.core.background import report_loop_delay
from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller
from memsvc.core.tools import Published, Toolset
from memsvc.core.urls import CONSOLE_PATH
from memsvc.gateway import file_routes, memory_routes, openapi, operations, rest
from memsvc.gateway.auth import Authenticator, RequireCaller
from memsvc.gateway.call_accounting import CallLog, Retention
from memsvc.gateway.credentials import Credentials
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.file_routes import is_archive, is_upload
from memsvc.gateway.limits import (
    CheckHost,
    LimitRequest,
    LimitsOptions,
    MountApp,
    RequestId,
    SseOptions,
)
from memsvc.gateway.mcp.http import (
    PROTOCOL_VERSIONS,
    McpEndpoint,
    SseEndpoint,
    challenge,
    protected_routes,
)
from memsvc.gateway.mcp.server import McpServerConfig
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.memory_routes import EventsEndpoint
from memsvc.gateway.metrics import OPEN_METRICS, Metrics, MetricsOptions
from memsvc.gateway.rest import (
    CORS_HEADERS,
    PUBLIC_PATHS,
    REQUEST_ID,
    Check,
    GzipEncoding,
    run_check,
)
from memsvc.gateway.schemas import input_schema
from memsvc.gateway.server_card import NO_CARD, ServerCardOptions
from memsvc.gateway.server_card import routes as card_routes
from memsvc.package_files import version
from memsvc.runtime import Runtime, build_runtime, checks_of, instructions
from memsvc.settings import Settings, off_notices
from memsvc.store import keys, server_secrets
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.worker import Worker

NOTHING_PUBLISHED: Final = Published([], [])
Background = Callable[[], AbstractAsyncContextManager[None]]


def build(  # noqa: PLR0913 - one name a part, all of them by keyword
    *,
    dispatch: Dispatch,
    call_log: CallLog,
    metrics: Metrics,
    authenticator: Authenticator,
    limits: LimitsOptions,
    host: str,
    sessions: McpSessions,
    instructions: str,
    version: str,
    checks: Mapping[str, rest.Check],
    draining: rest.Draining,
    published: Published = NOTHING_PUBLISHED,
    changes: Changes | None = None,
    sse: SseOptions | None = None,
    card: ServerCardOptions = NO_CARD,
    administration: bool = False,
    toolsets: Sequence[Toolset] = ("all",),
    metrics_options: MetricsOptions = OPEN_METRICS,
    tracer: Tracer = NO_TRACER,
    states: Mapping[str, Callable[[], bool]] = rest.NO_STATES,
    routes: Sequence[BaseRoute] = (),
    stream_routes: Callable[[Subscriptions | None], Sequence[BaseRoute]] = lambda _: (),
    background: Sequence[Background] = (),
    console: ASGIApp | None = None,
) -> Starlette:
    """Return the app of one process, for whose whole life the database must be open.

    The bind address `host` determines the accepted Host and Origin. `background` outlives the
    gateway's own tasks. `stream_routes` stream changes. `administration` gives agents the
    administrative tools; `toolsets` are listed by default. `/readyz` includes `states`.
    """
    metrics.add_tools(dispatch.catalogue)
    metrics.watch("memsvc_audit_backlog", call_log.backlog)
    subscriptions = None if changes is None else _subscriptions(changes, limits, metrics, draining)
    public = protected_routes(authenticator.options.oauth)
    public = [*public, *card_routes(card, version, PROTOCOL_VERSIONS)]
    if console is not None:
        public += [Route("/", rest.to_console), Route("/favicon.ico", rest.no_icon)]
    config = McpServerConfig(
        dispatch=dispatch,
        instructions=instructions,
        version=version,
        limits=limits,
        prompts=published.prompts,
        guides=published.guides,
        completions=published.completions,
        subscriptions=subscriptions,
        sessions=sessions,
        administration=administration,
        toolsets=frozenset(toolsets),
    )
    endpoint = McpEndpoint(config, sessions, authenticator, limits)
    common = _common_middleware(draining, tracer, limits, host, console)
    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=endpoint.methods) for path in rest.MCP_PATHS),
            *_sse_routes(config, authenticator, sse, metrics, draining),
            *public,
            *rest.routes(metrics, metrics_options, checks, draining, states),
            *routes,
            *stream_routes(subscriptions),
        ],
        middleware=[*common, *_caller_middleware(authenticator, dispatch, limits, public)],
        exception_handlers=rest.EXCEPTION_HANDLERS,
        lifespan=_lifespan(*background, call_log.running, authenticator.running, endpoint.running),
    )
    app.router.redirect_slashes = False
    return app


def _lifespan(*background: Background) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a lifespan that enters these in order before the app serves, and leaves them after."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for enter in background:
                await stack.enter_async_context(enter())
            yield

    return lifespan


def _subscriptions(
    changes: Changes, limits: LimitsOptions, metrics: Metrics, draining: rest.Draining
) -> Subscriptions:
    subscriptions = Subscriptions(changes, limits)
    metrics.watch("memsvc_changes_heard", lambda: float(changes.listening))
    metrics.watch("memsvc_listeners_open", subscriptions.count)
    draining.on_start(subscriptions.close)
    return subscriptions


def _common_middleware(
    draining: rest.Draining,
    tracer: Tracer,
    limits: LimitsOptions,
    host: str,
    console: ASGIApp | None,
) -> list[Middleware]:
    """Return the middleware of every request, before it is authenticated."""
    return [
        Middleware(RequestId, draining=draining),
        *([Middleware(TraceRequests, tracer=tracer)] if tracer is not NO_TRACER else []),
        Middleware(CheckHost, options=limits, host=host),
        *(
            [Middleware(MountApp, path=CONSOLE_PATH, sub_app=console)]
            if console is not None
            else []
        ),
    ]


def _caller_middleware(
    authenticator: Authenticator, dispatch: Dispatch, limits: LimitsOptions, public: Sequence[Route]
) -> list[Middleware]:
    """Return the middleware of requests that need a caller.

    It decides whether a page may read the response, who the caller is, whether it may call now, and
    how large the request may be.
    """
    return [
        Middleware(Cors, public_paths=rest.PUBLIC_PATHS),
        Middleware(GzipEncoding),
        Middleware(
            RequireCaller,
            authenticator=authenticator,
            public_paths=rest.PUBLIC_PATHS | {route.path for route in public},
            challenge=challenge(authenticator.options.oauth),
        ),
        Middleware(LimitRequest, options=limits, streams=_is_stream, admission=dispatch.admission),
    ]


def _is_stream(scope: Scope) -> bool:
    return scope["path"].startswith("/api/") and (is_upload(scope) or is_archive(scope))


def _sse_routes(
    config: McpServerConfig,
    authenticator: Authenticator,
    options: SseOptions | None,
    metrics: Metrics,
    draining: rest.Draining,
) -> list[BaseRoute]:
    if options is None or not options.enabled:
        return []
    endpoint = SseEndpoint(config, authenticator, options)
    metrics.watch("memsvc_sse_open", endpoint.count)
    draining.on_start(endpoint.end)
    return endpoint.routes()


ALLOWED_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS: Final = (
    "accept, authorization, content-type, if-match, if-none-match, if-range, last-event-id,"
    " mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, range, x-api-key,"
    " x-memsvc-project, x-memsvc-tools, x-memsvc-user, x-request-id"
)
EXPOSE_HEADERS: Final = (
    "content-disposition, content-range, etag, mcp-session-id, retry-after,"
    " www-authenticate, x-request-id"
)
PREFLIGHT_AGE_S: Final = 7200
"""Seconds that a browser may cache a preflight: Chromium's maximum."""


@frozen
class Cors:
    """ASGI: answers preflights, which have no key, and adds CORS headers to every other response.

    Refusals get them too. Origins were checked before: only requests of allowed ones come here. The
    origins of `public_paths` are not checked, so no page may read them.
    """

    app: ASGIApp
    public_paths: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.public_paths:
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin: bytes | None = headers.get(b"origin")
        named = {"Vary": "Origin"}
        if origin is not None:
            named |= {
                "Access-Control-Allow-Origin": origin.decode("latin-1"),
                "Access-Control-Expose-Headers": EXPOSE_HEADERS,
            }
        if (
            origin is not None
            and scope["method"] == "OPTIONS"
            and b"access-control-request-method" in headers
        ):
            await _preflight(named["Access-Control-Allow-Origin"])(scope, receive, send)
            return
        scope[CORS_HEADERS] = named
        added = [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()]
        replaced = {name for name, _ in added if name != b"vary"}

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [
                    header for header in message.get("headers", ()) if header[0] not in replaced
                ]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        await self.app(scope, receive, send_allowed)


def _preflight(origin: str) -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": ALLOWED_METHODS,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
            "Vary": "Origin",
        },
    )


_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_TRACEPARENT: Final = b"traceparent"


@frozen
class TraceRequests:
    """ASGI: makes a request part of the trace that its `traceparent` names, if any.

    The span has the route and never the path, which contains names that callers gave.
    """

    app: ASGIApp
    tracer: Tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PUBLIC_PATHS:
            await self.app(scope, receive, send)
            return
        headers = [value for name, value in scope["headers"] if name == _TRACEPARENT]
        parent = headers[0].decode("latin-1") if len(headers) == 1 else ""
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        attributes = {"method": method, "request_id": scope[REQUEST_ID]}
        with self.tracer.span("request", method, attributes, parent=parent) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note(http_status=message["status"])
                    if message["status"] >= 500:
                        span.note(status="error")
                await send(message)

            try:
                await self.app(scope, receive, send_with_status)
            finally:
                if "route" in scope:
                    span.note(route=scope["route"].path)


@frozen
class App:
    """The ASGI app, to be served with its lifespan; its database; its worker, if it has one.

    `load_encoder` loads what makes vectors, before it is ready; `warm` does the other slow
    first-time work, for a process that keeps running.
    """

    asgi: Starlette
    database: Database
    worker: Worker | None
    load_encoder: Callable[[], Coroutine[Any, Any, None]]
    warm: Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def opened(settings: Settings, app_url: str, draining: rest.Draining) -> AsyncIterator[App]:
    """Open the app over an open database, which is closed after it.

    Raises UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED
    for a privileged role.
    """
    async with build_runtime(settings, app_url, settings.host) as parts:
        services, worker = parts.services, parts.worker
        database, clock, models = services.database, services.clock, services.models
        checks = checks_of(database, worker)
        asgi = build(
            dispatch=parts.dispatch,
            call_log=parts.call_log,
            metrics=services.metrics,
            metrics_options=settings.metrics,
            tracer=services.tracer,
            authenticator=parts.authenticator,
            limits=settings.limits,
            sse=settings.sse,
            card=settings.server_card,
            administration=settings.settings.mcp.tools.admin.over_mcp,
            toolsets=settings.settings.mcp.toolset,
            sessions=McpSessions(database, clock, parts.changes, settings.limits),
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks=checks,
            console=_console(parts, checks),
            draining=draining,
            states={"model": lambda: not models.refused()} if models.has_llm else {},
            published=parts.published,
            changes=parts.changes,
            routes=[
                *operations.job_routes(parts.dispatch),
                *operations.tool_routes(parts.dispatch),
                *file_routes.routes(parts.dispatch, parts.published.content, settings.limits),
                *file_routes.archive_routes(parts.dispatch, parts.published.archives),
                *openapi.routes(parts.dispatch, version()),
            ],
            stream_routes=lambda subscriptions: memory_routes.routes(
                parts.dispatch, _events_endpoint(parts, subscriptions, settings)
            ),
            background=[
                *parts.published.background,
                partial(report_loop_delay, services.metrics),
                Retention(database, settings.audit.retention_days).running,
                *(
                    part.running
                    for part in (worker, parts.changes, parts.rates)
                    if part is not None
                ),
            ],
        )
        yield App(asgi, database, worker, parts.load_encoder, parts.warm)


def _events_endpoint(
    parts: Runtime, subscriptions: Subscriptions | None, settings: Settings
) -> EventsEndpoint | None:
    if subscriptions is None or parts.published.events is None:
        return None
    return EventsEndpoint(
        parts.dispatch, parts.published.events, subscriptions, parts.authenticator, settings.limits
    )


SURFACE = "console"
SECRET = "console"  # noqa: S105 - the name of the secret that seals cookies


def _console(parts: Runtime, checks: Mapping[str, Check]) -> ASGIApp | None:
    """Return the app at /console, or None when it is switched off."""
    settings, database, clock = (
        parts.services.settings,
        parts.services.database,
        parts.services.clock,
    )
    authenticator, admission = parts.authenticator, parts.dispatch.admission
    if not settings.console.enabled:
        return None

    async def sign_in(scope: Scope, text: str) -> SignedIn:
        caller = await authenticator.authenticate(scope, Credentials(text, as_bearer=False))
        return SignedIn(caller, keys.hash_key(text))

    def body_slot(caller: Caller) -> AbstractAsyncContextManager[None]:
        return nullcontext() if admission is None else admission.body(caller)

    async def health() -> dict[str, bool]:
        return {name: await run_check(check) for name, check in checks.items()}

    return console_app(
        ConsoleDependencies(
            sign_in=sign_in,
            resolve_caller=authenticator.caller_of_hash,
            body_slot=body_slot,
            calls=lambda caller, request_id: parts.dispatch.calls(
                caller, surface=SURFACE, request_id=request_id
            ),
            schema=input_schema,
            health=health,
            secret=lambda: server_secrets.get_or_create(database, SECRET, clock.now()),
            close_session=lambda session, until: server_secrets.close_session(
                database, session, until, clock.now()
            ),
            is_closed=lambda session: server_secrets.is_session_closed(database, session),
            clock=clock,
            version=version(),
            notices=off_notices(settings),
        ),
        settings.console,
    )
