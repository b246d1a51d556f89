"""Notifications of changes: in streams of `subscriptions/listen`, and within sessions."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, event_to_notification
from mcp_types import (
    INVALID_REQUEST,
    EmptyResult,
    ServerNotification,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.asking import Asking, Context, Who
from memsvc.gateway.mcp.errors import protocol_error, resource_error
from memsvc.gateway.mcp.resources import Resources
from memsvc.gateway.mcp.subscriptions import Subscriptions, Watch
from memsvc.store.changes import Look, change_key

log = structlog.get_logger("memsvc.subscriptions")

SURFACE: Final = "subscription"
"""Surface of the call that checks whether a caller may wait for a resource."""
WRITE_S_MAX: Final = 10.0
"""Seconds that a client may take to read one notification before its stream is ended."""


@dataclass(slots=True)
class Session:
    """One connection of a stateful transport: the subscriptions of its client and their senders."""

    tasks: TaskGroup
    stack: ExitStack
    watch: Watch | None = None
    asked: dict[str, tuple[Asking, Context]] = field(default_factory=dict)


class Listening:
    """Answers requests for notifications.

    Callers may subscribe to a URI that they may read, and are notified while the key is still valid
    for the same caller, which is checked before each notification.
    """

    def __init__(
        self, dispatch: Dispatch, who: Who, resources: Resources, subscriptions: Subscriptions, limits: LimitsOptions
    ) -> None:
        self._dispatch = dispatch
        self._who = who
        self._resources = resources
        self._subscriptions = subscriptions
        self._limits = limits

    async def listen(self, context: Context, asked: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Send changes in the response until it ends.

        It ends when the client or its key goes, this process stops, or the stream's time is over.

        The first notification lists the accepted URIs: those that the caller may read, as it wrote
        them.
        """
        if context.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen is a request: it needs an id")
        asking = self._who(context)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        try:
            with self._subscriptions.opened(asking.caller.tenant) as watch, asking.standing(watch.close):
                heard = await self._add(watch, asking, asked.notifications.resource_subscriptions or [])
                with anyio.move_on_after(self._limits.listen_s_max):
                    await self._stream(context, asking, watch, heard, meta)
        except MemsvcError as error:
            raise protocol_error(error) from None
        return SubscriptionsListenResult.model_validate({"_meta": meta})

    async def _add(self, watch: Watch, asking: Asking, uris: list[str]) -> list[str]:
        """Subscribe to those of the URIs that the caller may read, and return them."""
        if len(uris) > self._limits.listener_uris_max:
            raise invalid(f"one client may wait for {self._limits.listener_uris_max} resources at the most")
        heard = []
        for uri in dict.fromkeys(uris):
            try:
                watch.add(uri, *await self._waited_for(asking, uri))
            except MemsvcError as error:
                log.debug("a resource is not heard of", code=error.code.value)
            else:
                heard.append(uri)
        return heard

    async def _stream(
        self, context: Context, asking: Asking, watch: Watch, heard: list[str], meta: dict[str, Any]
    ) -> None:
        acknowledged = SubscriptionsAcknowledgedNotificationParams.model_validate(
            {"notifications": SubscriptionFilter(resource_subscriptions=heard or None), "_meta": meta}
        )
        told = await _written(context, SubscriptionsAcknowledgedNotification(params=acknowledged), in_response=True)
        while told and (uri := await watch.changed()) is not None:
            event = event_to_notification(ResourceUpdated(uri=uri), meta)
            told = await _still(asking) and await _written(context, event, in_response=True)

    async def _waited_for(self, asking: Asking, uri: str) -> tuple[str, Look | None]:
        """Return a resource's change key for this caller, and how to poll it.

        It is polled if its changes are not announced. The errors are those of reading it.
        """
        one, arguments = self._resources.find(asking.caller, uri)
        stamps = one.resource.stamps
        if stamps is None and not one.resource.announced:
            raise invalid("changes of this resource are not told", recovery="read it again when you need it")

        async def known(scope: Scope, asked: Any) -> tuple[str, Look | None]:
            key = change_key(scope, one.canonical(asked))
            return key, None if stamps is None else await Look.begun(stamps, scope, asked)

        return await self._dispatch.perform(
            asking.caller, one.tool.name, arguments, known, surface=SURFACE, request_id=asking.request_id
        )

    @asynccontextmanager
    async def connection(self, _: Any) -> AsyncIterator[Session]:
        """Provide the lifespan of one connection, with which its subscriptions end."""
        with ExitStack() as stack:
            async with anyio.create_task_group() as tasks:
                yield Session(tasks, stack)
                tasks.cancel_scope.cancel()

    async def subscribe(self, context: Context, asked: SubscribeRequestParams) -> EmptyResult:
        """Notify this request's session of changes of a resource, until it unsubscribes or ends."""
        asking, session = self._who(context), _session(context)
        try:
            waited_for = await self._waited_for(asking, asked.uri)
            if session.watch is None:
                session.watch = session.stack.enter_context(self._subscriptions.opened(asking.caller.tenant))
                session.tasks.start_soon(_tell, session, session.watch)
            session.watch.add(asked.uri, *waited_for)
        except MemsvcError as error:
            raise resource_error(error, context.protocol_version, asked.uri) from None
        session.asked[asked.uri] = asking, context
        return EmptyResult()

    async def unsubscribe(self, context: Context, asked: UnsubscribeRequestParams) -> EmptyResult:
        """Stop notifying the session; a URI without a subscription is no error."""
        session = _session(context)
        session.asked.pop(asked.uri, None)
        if session.watch is not None:
            session.watch.remove(asked.uri)
        return EmptyResult()


async def refuse(_: Context, __: SubscribeRequestParams | UnsubscribeRequestParams) -> EmptyResult:
    """Refuse a subscription on a transport without sessions."""
    raise protocol_error(
        invalid(
            "there are no sessions here, so nothing can be subscribed to",
            recovery="use subscriptions/listen of protocol version 2026-07-28, or the transports stdio or SSE",
        )
    )


def _session(context: Context) -> Session:
    if not isinstance(context.lifespan_context, Session):
        raise RuntimeError("a transport with sessions must run the server once for each")
    return context.lifespan_context


async def _tell(session: Session, watch: Watch) -> None:
    while (uri := await watch.changed()) is not None:
        if uri not in session.asked:
            continue
        asking, context = session.asked[uri]
        event = event_to_notification(ResourceUpdated(uri=uri), {})
        if not (await _still(asking) and await _written(context, event, in_response=False)):
            session.asked.pop(uri, None)
            watch.remove(uri)


async def _still(asking: Asking) -> bool:
    """Return whether the key is still valid for the same caller; False when the look-up fails."""
    try:
        return await asking.again() == asking.caller
    except MemsvcError:
        return False


async def _written(context: Context, notification: ServerNotification, *, in_response: bool) -> bool:
    """Return whether the client read a notification, in the response to its request or outside."""
    with anyio.move_on_after(WRITE_S_MAX):
        try:
            await context.session.send_notification(notification, context.request_id if in_response else None)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True
    log.warning("a client that waits for changes does not read them; its stream is ended")
    return False
