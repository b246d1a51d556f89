"""The ASGI app of a server, with the console: runtime in, app out."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Scope

from memsvc.console.dependencies import ConsoleDependencies, SignedIn
from memsvc.console.options import ConsoleOptions
from memsvc.console.routes import console_app
from memsvc.core.background import report_loop_delay
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller
from memsvc.core.version import version
from memsvc.gateway import (
    archive_routes,
    file_routes,
    job_routes,
    memory_routes,
    openapi,
    rest,
    server,
)
from memsvc.gateway import tools as tool_routes
from memsvc.gateway.audit import Retention
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.credentials import Credentials
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.memory_routes import EventsEndpoint
from memsvc.gateway.rest import Check, run_check
from memsvc.gateway.schemas import input_schema
from memsvc.runtime import Runtime, build_runtime, checks_of, instructions
from memsvc.settings import Settings
from memsvc.store import closed_sessions, keys, server_secrets
from memsvc.store.database import Database
from memsvc.worker import Worker


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app, to be served with its lifespan; its database; its worker, if it has one.

    `warm` does the slow first-time work, for a process that keeps running once it is ready.
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
        database, worker = parts.database, parts.worker
        checks = checks_of(database, worker)
        asgi = server.build(
            dispatch=parts.dispatch,
            call_log=parts.call_log,
            metrics=parts.metrics,
            metrics_options=settings.metrics,
            tracer=parts.tracer,
            authenticator=parts.authenticator,
            limits=settings.limits,
            sse=settings.sse,
            card=settings.server_card,
            administration=settings.settings.mcp.tools.admin.over_mcp,
            toolsets=settings.settings.mcp.toolset,
            sessions=McpSessions(database, parts.clock, parts.changes, settings.limits),
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks=checks,
            console=console(
                settings.console,
                dispatch=parts.dispatch,
                authenticator=parts.authenticator,
                database=database,
                checks=checks,
                clock=parts.clock,
                version=version(),
            ),
            draining=draining,
            states={"model": lambda: not parts.models.refused()} if parts.models.has_llm else {},
            prompts=parts.published.prompts,
            guides=parts.published.guides,
            completions=parts.published.completions,
            changes=parts.changes,
            routes=[
                *job_routes.routes(parts.dispatch),
                *tool_routes.routes(parts.dispatch),
                *file_routes.routes(parts.dispatch, parts.published.content, settings.limits),
                *archive_routes.routes(parts.dispatch, parts.published.archives),
                *openapi.routes(parts.dispatch, version()),
            ],
            stream_routes=lambda subscriptions: memory_routes.routes(
                parts.dispatch, _events_endpoint(parts, subscriptions, settings)
            ),
            background=[
                *parts.published.background,
                partial(report_loop_delay, parts.metrics),
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


def console(
    options: ConsoleOptions,
    *,
    dispatch: Dispatch,
    authenticator: Authenticator,
    database: Database,
    checks: Mapping[str, Check],
    clock: Clock,
    version: str,
) -> ASGIApp | None:
    """Return the app at /console, or None when it is switched off."""
    if not options.enabled:
        return None

    async def sign_in(scope: Scope, text: str) -> SignedIn:
        caller = await authenticator.authenticate(scope, Credentials(text, as_bearer=False))
        return SignedIn(caller, keys.hash_key(text))

    def body_slot(caller: Caller) -> AbstractAsyncContextManager[None]:
        return nullcontext() if dispatch.admission is None else dispatch.admission.body(caller)

    async def health() -> dict[str, bool]:
        return {name: await run_check(check) for name, check in checks.items()}

    return console_app(
        ConsoleDependencies(
            sign_in=sign_in,
            resolve_caller=authenticator.caller_of_hash,
            body_slot=body_slot,
            calls=lambda caller, request_id: dispatch.calls(
                caller, surface=SURFACE, request_id=request_id
            ),
            schema=input_schema,
            health=health,
            secret=lambda: server_secrets.get_or_create(database, SECRET, clock.now()),
            close_session=lambda session, until: closed_sessions.close(
                database, session, until, clock.now()
            ),
            is_closed=lambda session: closed_sessions.is_closed(database, session),
            clock=clock,
            version=version,
        ),
        options,
    )
