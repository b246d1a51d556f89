"""The ASGI app of a server: every route, the console, and the middleware."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Scope

from memsvc.console.dependencies import ConsoleDependencies, SignedIn
from memsvc.console.routes import console_app
from memsvc.core.background import report_loop_delay
from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller
from memsvc.core.tools import Published, Toolset
from memsvc.gateway import file_routes, memory_routes, openapi, operations, rest
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.call_accounting import CallLog, Retention
from memsvc.gateway.credentials import Credentials
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.file_routes import is_archive, is_upload
from memsvc.gateway.limits import LimitsOptions, SseOptions
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
from memsvc.gateway.middleware import GatewayMiddleware
from memsvc.gateway.rest import Check, run_check
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
    public = _public_routes(authenticator, card, version, has_console=console is not None)
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
    middleware = _middleware(
        authenticator, dispatch, draining, limits, public, tracer=tracer, host=host, console=console
    )
    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=endpoint.methods) for path in rest.MCP_PATHS),
            *_sse_routes(config, authenticator, sse, metrics, draining),
            *public,
            *rest.routes(metrics, metrics_options, checks, draining, states),
            *routes,
            *stream_routes(subscriptions),
        ],
        middleware=[middleware],
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


def _public_routes(
    authenticator: Authenticator, card: ServerCardOptions, version: str, *, has_console: bool
) -> list[Route]:
    public = protected_routes(authenticator.options.oauth)
    public += card_routes(card, version, PROTOCOL_VERSIONS)
    if has_console:
        public += [Route("/", rest.to_console), Route("/favicon.ico", rest.no_icon)]
    return public


def _middleware(
    authenticator: Authenticator,
    dispatch: Dispatch,
    draining: rest.Draining,
    limits: LimitsOptions,
    public: Sequence[Route],
    *,
    tracer: Tracer,
    host: str,
    console: ASGIApp | None,
) -> Middleware:
    return Middleware(
        GatewayMiddleware,
        draining=draining,
        tracer=tracer,
        limits=limits,
        host=host,
        console=console,
        authenticator=authenticator,
        challenge=challenge(authenticator.options.oauth),
        public_paths=rest.PUBLIC_PATHS | {route.path for route in public},
        admission=dispatch.admission,
        streams=lambda scope: is_upload(scope) or is_archive(scope),
    )


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


@frozen
class App:
    """The ASGI app, to be served with its lifespan; its database; its worker, if it has one.

    `warm` loads all that calls need.
    """

    asgi: Starlette
    database: Database
    worker: Worker | None
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
        yield App(asgi, database, worker, parts.warm)


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
        return nullcontext() if admission is None else admission.bodies.hold(caller.tenant)

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
