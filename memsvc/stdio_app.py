"""The service of a host that talks over standard input and output: one client, one key."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any

from memsvc.adapters.standard_streams import StandardStreams
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller, ConnectionDefaults
from memsvc.folder_key import KEY_FILE, load_key, visible_key_file
from memsvc.gateway.auth import Authenticator, UnknownKeyError, connection_of
from memsvc.gateway.limits import LOOPBACK_HOSTS
from memsvc.gateway.mcp.server import SERVER_NAME, McpServerConfig
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.stdio import StdioEndpoint
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.package_files import version
from memsvc.runtime import Publish, Runtime, build_runtime, instructions, published
from memsvc.settings import Settings
from memsvc.variables import PROJECT_VARIABLE, USER_VARIABLE
from memsvc.worker import Worker


@frozen
class ServerProfile:
    """Properties of the server that its client sees, and what is prepared before it answers."""

    instructions: str = field(default_factory=instructions)
    name: str = SERVER_NAME
    publish: Publish = published
    prepare: Callable[[Runtime, Caller], Awaitable[None]] | None = None


@frozen
class Stdio:
    """The endpoint of the client, and the worker that runs beside it, if there is one.

    `warm` does the slow first-time work.
    """

    endpoint: StdioEndpoint
    subscriptions: Subscriptions
    worker: Worker | None
    warm: Callable[[], Coroutine[Any, Any, None]]

    def stop(self) -> None:
        """Take no more requests and no more jobs."""
        self.endpoint.stop()
        self.subscriptions.close()
        if self.worker is not None:
            self.worker.stop()


@asynccontextmanager
async def opened(
    settings: Settings,
    app_url: str,
    streams: StandardStreams,
    key: str | None,
    profile: ServerProfile,
) -> AsyncIterator[Stdio]:
    """Open the service for the client at the other end of the streams, with all that it needs."""
    settings = _stdio_settings(settings)
    # only the server of a remote database knows whether keys opened tenants without being listed
    host = "" if settings.database.url else LOOPBACK_HOSTS[0]
    async with (
        build_runtime(settings, app_url, host, profile.publish) as parts,
        AsyncExitStack() as running,
    ):
        text = (
            key
            if key is not None
            else await load_key(parts.services.database, settings.data_dir.absolute() / KEY_FILE)
        )
        caller = await parts.authenticator.resolve(text)
        if caller is None:
            recovery = (
                "set MEMSVC_API_KEY to a key created for this database with `memsvc key"
                " create`, or unset MEMSVC_API_KEY"
            )
            raise UnknownKeyError(text, visible_key_file(settings), recovery=recovery)
        connection = connection_of(
            caller, os.environ.get(PROJECT_VARIABLE, ""), os.environ.get(USER_VARIABLE, "")
        )
        if profile.prepare is not None:
            await profile.prepare(parts, caller)
        services, subscriptions = parts.services, Subscriptions(parts.changes, settings.limits)
        config = McpServerConfig(
            dispatch=parts.dispatch,
            instructions=profile.instructions,
            version=version(),
            limits=settings.limits,
            published=parts.published,
            subscriptions=subscriptions,
            sessions=McpSessions(services.database, services.clock, parts.changes, settings.limits),
            name=profile.name,
            administration=settings.settings.mcp.tools.admin.over_mcp,
            toolsets=frozenset(settings.settings.mcp.toolset),
        )
        services.metrics.add_tools(parts.dispatch.catalogue)
        background = [
            part.running for part in (parts.changes, parts.worker, parts.rates) if part is not None
        ]
        for enter in (
            *background,
            *parts.published.background,
            parts.call_log.running,
            parts.authenticator.running,
        ):
            await running.enter_async_context(enter())
        endpoint = StdioEndpoint(
            config,
            streams,
            partial(_resolve, parts.authenticator, text, connection),
            grace_s=settings.shutdown_grace_s,
        )

        yield Stdio(endpoint, subscriptions, parts.worker, parts.warm)


async def _resolve(
    authenticator: Authenticator, text: str, connection: ConnectionDefaults
) -> Caller | None:
    """Return the current caller of the key, on this connection; None once it is not valid."""
    caller = await authenticator.resolve(text)
    return None if caller is None else replace(caller, connection=connection)


def _stdio_settings(settings: Settings) -> Settings:
    """Return settings with which a call waits for a slot as long as it may run.

    Its client is the only one: nobody is served sooner when it is refused."""
    slots = settings.limits.slots
    wait_ms = max(slots.wait_ms, round(1000 * slots.call_s))
    slots = slots.model_copy(update={"wait_ms": wait_ms})
    limits = settings.limits.model_copy(update={"slots": slots})
    return settings.model_copy(update={"limits": limits})
