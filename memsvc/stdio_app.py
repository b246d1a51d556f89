"""The service of a host that talks over standard input and output: one client, one key."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from memsvc.adapters.standard_streams import StandardStreams
from memsvc.core.scope import Caller
from memsvc.core.version import version
from memsvc.gateway.challenges import UnknownKeyError
from memsvc.gateway.limits import LOOPBACK_HOSTS
from memsvc.gateway.mcp.server import SERVER_NAME, Offer
from memsvc.gateway.mcp.stdio import StdioEndpoint
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.own_key import KEY_FILE, own_key, told_file
from memsvc.parts import Parts, Publish, instructions, put_together
from memsvc.publishing import published
from memsvc.settings import Settings
from memsvc.worker import Worker


@dataclass(frozen=True, slots=True)
class Face:
    """Properties of the server that its client sees, and what is prepared before it answers."""

    instructions: str = field(default_factory=instructions)
    name: str = SERVER_NAME
    publish: Publish = published
    prepare: Callable[[Parts, Caller], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Stdio:
    """The endpoint of the client, and the worker that runs beside it, if there is one.

    `warm` does the slow first-time work.
    """

    endpoint: StdioEndpoint
    subscriptions: Subscriptions | None
    worker: Worker | None
    warm: Callable[[], Coroutine[Any, Any, None]]

    def stop(self) -> None:
        """Take no more requests and no more jobs."""
        self.endpoint.stop()
        if self.subscriptions is not None:
            self.subscriptions.close()
        if self.worker is not None:
            self.worker.stop()


@asynccontextmanager
async def opened(
    settings: Settings, app_url: str, streams: StandardStreams, key: str | None, face: Face
) -> AsyncIterator[Stdio]:
    """Open the service for the client at the other end of the streams, with all that it needs."""
    # only the server of a remote database knows whether keys opened tenants without being listed
    host = "" if settings.database.url else LOOPBACK_HOSTS[0]
    async with put_together(settings, app_url, host, face.publish) as parts, AsyncExitStack() as running:
        text = key if key is not None else await own_key(parts.database, settings.data_dir.absolute() / KEY_FILE)
        caller = await parts.authenticator.resolve(text)
        if caller is None:
            recovery = "set MEMSVC_API_KEY to a key that `memsvc key create` made for this database, or to none"
            raise UnknownKeyError(text, told_file(settings), recovery=recovery)
        if face.prepare is not None:
            await face.prepare(parts, caller)
        subscriptions = Subscriptions(parts.changes, settings.limits)
        offer = Offer(
            dispatch=parts.dispatch,
            instructions=face.instructions,
            version=version(),
            limits=settings.limits,
            prompts=parts.published.prompts,
            guides=parts.published.guides,
            completions=parts.published.completions,
            subscriptions=subscriptions,
            name=face.name,
            administration=settings.settings.mcp.tools.admin.over_mcp,
        )
        parts.metrics.know_tools(parts.dispatch.catalogue)
        beside = [part.running for part in (parts.changes, parts.worker, parts.rates) if part is not None]
        for enter in (*beside, *parts.published.background, parts.call_log.running, parts.authenticator.running):
            await running.enter_async_context(enter())
        endpoint = StdioEndpoint(
            offer, streams, lambda: parts.authenticator.resolve(text), grace_s=settings.shutdown_grace_s
        )
        yield Stdio(endpoint, subscriptions, parts.worker, parts.warm)
