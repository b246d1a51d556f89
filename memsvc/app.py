"""The ASGI app of a server: every route, the console, and the middleware."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Scope

from memsvc.console.dependencies import ConsoleDependencies, SignedIn
from memsvc.console.routes import Console
from memsvc.core.background import report_loop_delay
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller
from memsvc.gateway import file_routes, memory_routes, openapi, operations, rest
from memsvc.gateway.call_accounting import Retention
from memsvc.gateway.credentials import Credentials
from memsvc.gateway.file_routes import is_archive, is_upload
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
from memsvc.gateway.middleware import GatewayMiddleware
from memsvc.gateway.rest import Check, run_check
from memsvc.gateway.schemas import input_schema
from memsvc.gateway.server_card import routes as card_routes
from memsvc.package_files import version
from memsvc.runtime import Runtime, build_runtime, checks_of, instructions
from memsvc.settings import Settings, off_notices
from memsvc.store import keys, server_secrets
from memsvc.store.database import Database
from memsvc.worker import Worker

Background = Callable[[], AbstractAsyncContextManager[None]]


def build(
    parts: Runtime,
    draining: rest.Draining,
    checks: Mapping[str, Check],
    background: Sequence[Background] = (),
) -> Starlette:
    """Return the app of one process, for whose whole life the database must be open.

    `background` outlives the gateway's own tasks."""
    settings, dispatch, metrics = parts.services.settings, parts.dispatch, parts.services.metrics
    metrics.add_tools(dispatch.catalogue)
    metrics.watch("memsvc_audit_backlog", parts.call_log.backlog)
    subscriptions = Subscriptions(parts.changes, settings.limits)
    metrics.watch("memsvc_changes_heard", lambda: float(parts.changes.listening))
    metrics.watch("memsvc_listeners_open", subscriptions.count)
    draining.on_start(subscriptions.close)
    config = McpServerConfig(
        dispatch=dispatch,
        instructions=instructions(),
        version=version(),
        limits=settings.limits,
        published=parts.published,
        subscriptions=subscriptions,
        sessions=McpSessions(
            parts.services.database, parts.services.clock, parts.changes, settings.limits
        ),
        administration=settings.settings.mcp.tools.admin.over_mcp,
        toolsets=frozenset(settings.settings.mcp.toolset),
    )
    endpoint = McpEndpoint(config, parts.authenticator)
    console = _console(parts, checks)
    public = _public_routes(settings)
    models = parts.services.models
    states = {"model": lambda: not models.refused()} if models.has_llm else {}
    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=endpoint.methods) for path in rest.MCP_PATHS),
            *_sse_routes(config, parts, draining),
            *public,
            *rest.routes(metrics, settings.metrics, checks, draining, states),
            *operations.job_routes(dispatch),
            *operations.tool_routes(dispatch),
            *file_routes.routes(dispatch, parts.published.content, settings.limits),
            *file_routes.archive_routes(dispatch, parts.published.archives),
            *openapi.routes(dispatch, version()),
            *memory_routes.routes(dispatch, _events_endpoint(parts, subscriptions)),
        ],
        middleware=[_middleware(parts, draining, public, console)],
        exception_handlers=rest.EXCEPTION_HANDLERS,
        lifespan=_lifespan(
            *background, parts.call_log.running, parts.authenticator.running, endpoint.running
        ),
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


def _public_routes(settings: Settings) -> list[Route]:
    public = protected_routes(settings.auth.oauth)
    public += card_routes(settings.server_card, version(), PROTOCOL_VERSIONS)
    if settings.console.enabled:
        public += [Route("/", rest.to_console), Route("/favicon.ico", rest.no_icon)]
    return public


def _middleware(
    parts: Runtime, draining: rest.Draining, public: Sequence[Route], console: ASGIApp | None
) -> Middleware:
    settings = parts.services.settings
    return Middleware(
        GatewayMiddleware,
        draining=draining,
        tracer=parts.services.tracer,
        limits=settings.limits,
        host=settings.host,
        console=console,
        authenticator=parts.authenticator,
        challenge=challenge(settings.auth.oauth),
        public_paths=rest.PUBLIC_PATHS | {route.path for route in public},
        admission=parts.dispatch.admission,
        streams=lambda scope: is_upload(scope) or is_archive(scope),
    )


def _sse_routes(
    config: McpServerConfig, parts: Runtime, draining: rest.Draining
) -> list[BaseRoute]:
    options = parts.services.settings.sse
    if not options.enabled:
        return []
    endpoint = SseEndpoint(config, parts.authenticator, options)
    parts.services.metrics.watch("memsvc_sse_open", endpoint.count)
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
        database, worker = parts.services.database, parts.worker
        background: list[Background] = [
            *parts.published.background,
            partial(report_loop_delay, parts.services.metrics),
            Retention(database, settings.audit.retention_days).running,
            *(part.running for part in (worker, parts.changes, parts.rates) if part is not None),
        ]
        asgi = build(parts, draining, checks_of(database, worker), background)
        yield App(asgi, database, worker, parts.warm)


def _events_endpoint(parts: Runtime, subscriptions: Subscriptions) -> EventsEndpoint | None:
    if parts.published.events is None:
        return None
    return EventsEndpoint(
        parts.dispatch,
        parts.published.events,
        subscriptions,
        parts.authenticator,
        parts.services.settings.limits,
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
    authenticator, bodies = parts.authenticator, parts.dispatch.admission.bodies
    if not settings.console.enabled:
        return None

    async def sign_in(scope: Scope, text: str) -> SignedIn:
        caller = await authenticator.authenticate(scope, Credentials(text, as_bearer=False))
        return SignedIn(caller, keys.hash_key(text))

    def body_slot(caller: Caller) -> AbstractAsyncContextManager[None]:
        return bodies.hold(caller.tenant)

    async def health() -> dict[str, bool]:
        return {name: await run_check(check) for name, check in checks.items()}

    return Console(
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
    ).app()
