"""Messages to clients: notifications of changes, and questions before a deletion.

Notifications are sent in streams of `subscriptions/listen` and in sessions. In newer protocol
versions, the client gets a question instead of a result, and calls again with the answer. In older
ones, the call waits: over HTTP the question is sent in the response, and the answer is another
request, which any replica may get.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import orjson
import structlog
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    event_to_notification,
)
from mcp_types import (
    INVALID_REQUEST,
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
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
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from memsvc.core.errors import Code, MemsvcError, invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope
from memsvc.gateway.call_accounting import Elicit
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.request import (
    Context,
    RequestSender,
    SenderOf,
    is_valid,
    protocol_error,
    resource_error,
)
from memsvc.gateway.mcp.resource_handlers import ResourceHandlers
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import SubscribedResource, Subscriptions, Watch
from memsvc.store.changes import ChangePoll, change_key

log = structlog.get_logger("memsvc.subscriptions")

SURFACE: Final = "subscription"
"""Surface of the call that checks whether a caller may wait for a resource."""
WRITE_S_MAX: Final = 10.0
"""Seconds that a client may take to read one notification before its stream is ended."""


@dataclass(slots=True)
class McpSession:
    """One connection of a stateful transport: the subscriptions of its client and their senders."""

    tasks: TaskGroup
    stack: ExitStack
    watch: Watch | None = None
    subscriptions: dict[str, tuple[RequestSender, Context]] = field(default_factory=dict)


@frozen
class ChangeNotifications:
    """Answers requests for notifications.

    Callers may subscribe to any URI that they may read. They are notified as long as the key is
    valid for the same caller, which is checked before each notification."""

    dispatch: Dispatch
    sender_of: SenderOf
    resources: ResourceHandlers
    subscriptions: Subscriptions
    limits: LimitsOptions
    sessions: McpSessions

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Send changes in the response until it ends.

        It ends when the client disconnects, its key becomes invalid, this process stops, or the
        time limit of the stream is reached. The first notification lists the accepted URIs: those
        that the caller may read, as it wrote them."""
        if context.request_id is None:
            raise MCPError(
                INVALID_REQUEST, "subscriptions/listen is a request, so the message needs an id"
            )
        sender = self.sender_of(context)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        try:
            with (
                self.subscriptions.opened(sender.caller.tenant) as watch,
                sender.watch_validity(watch.close),
            ):
                accepted = await self._add(
                    watch, sender, params.notifications.resource_subscriptions or []
                )
                with anyio.move_on_after(self.limits.listen_s_max):
                    await self._stream(context, sender, watch, accepted, meta)
        except MemsvcError as error:
            raise protocol_error(error) from None
        return SubscriptionsListenResult.model_validate({"_meta": meta})

    async def _add(self, watch: Watch, sender: RequestSender, uris: list[str]) -> list[str]:
        """Subscribe to those of the URIs that the caller may read, and return them."""
        if len(uris) > self.limits.listener_uris_max:
            raise invalid(
                f"a client can subscribe to at most {self.limits.listener_uris_max} resources"
            )
        accepted = []
        for uri in dict.fromkeys(uris):
            try:
                watch.add_resource(uri, await self.resource(sender, uri))
            except MemsvcError as error:
                log.debug(
                    "a client cannot subscribe to a resource and gets no notifications"
                    " about this resource",
                    code=error.code.value,
                )
            else:
                accepted.append(uri)
        return accepted

    async def _stream(
        self,
        context: Context,
        sender: RequestSender,
        watch: Watch,
        accepted: list[str],
        meta: dict[str, Any],
    ) -> None:
        params = SubscriptionsAcknowledgedNotificationParams.model_validate(
            {
                "notifications": SubscriptionFilter(resource_subscriptions=accepted or None),
                "_meta": meta,
            }
        )
        is_read = await _send(
            context, SubscriptionsAcknowledgedNotification(params=params), in_response=True
        )
        while is_read and (uri := await watch.changed()) is not None:
            event = event_to_notification(ResourceUpdated(uri=uri), meta)
            is_read = await is_valid(sender) and await _send(context, event, in_response=True)

    async def resource(self, sender: RequestSender, uri: str) -> SubscribedResource:
        """Return a resource that this caller may subscribe to.

        Errors are the same as for reading it."""
        one, arguments = self.resources.find(sender.caller, uri)
        stamps = one.resource.stamps
        if stamps is None:
            raise invalid(
                "you cannot subscribe to this resource",
                recovery="read the resource again when you need it",
            )

        async def known(scope: Scope, args: Any) -> SubscribedResource:
            key = change_key(scope, one.canonical(args))
            poll = await ChangePoll.start(stamps, scope, args)
            return SubscribedResource(key, poll, not one.resource.has_notifications)

        return await self.dispatch.perform(
            sender.caller,
            one.tool.name,
            arguments,
            known,
            surface=SURFACE,
            request_id=sender.request_id,
        )

    @asynccontextmanager
    async def connection(self, _: Any) -> AsyncIterator[McpSession]:
        """Provide the lifespan of one connection, with which its subscriptions end."""
        with ExitStack() as stack:
            async with anyio.create_task_group() as tasks:
                yield McpSession(tasks, stack)
                tasks.cancel_scope.cancel()

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Notify this request's session of changes of a resource, until it unsubscribes or ends."""
        sender, session = self.sender_of(context), context.lifespan_context
        try:
            resource = await self.resource(sender, params.uri)
            if not isinstance(session, McpSession):
                session_hash = _stored_session(sender)
                await self.sessions.subscribe(
                    sender.caller, session_hash, params.uri, resource.poll
                )
                return EmptyResult()
            if session.watch is None:
                session.watch = session.stack.enter_context(
                    self.subscriptions.opened(sender.caller.tenant)
                )
                session.tasks.start_soon(_notify, session, session.watch)
            session.watch.add_resource(params.uri, resource)
        except MemsvcError as error:
            raise resource_error(error, context.protocol_version, params.uri) from None
        session.subscriptions[params.uri] = sender, context
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Stop notifying the session; a URI without a subscription is no error."""
        sender, session = self.sender_of(context), context.lifespan_context
        if not isinstance(session, McpSession):
            try:
                await self.sessions.unsubscribe(sender.caller, _stored_session(sender), params.uri)
            except MemsvcError as error:
                raise protocol_error(error) from None
            return EmptyResult()
        session.subscriptions.pop(params.uri, None)
        if session.watch is not None:
            session.watch.remove(params.uri)
        return EmptyResult()


def _stored_session(sender: RequestSender) -> bytes:
    """Return the hash of the sender's session over HTTP; INVALID_ARGUMENT without one."""
    if sender.session is None:
        raise invalid(
            "subscribing to a resource needs an MCP session",
            recovery="send the Mcp-Session-Id header from initialize with this request, and"
            " open a GET stream with the same header; alternatively, use"
            " subscriptions/listen (protocol version 2026-07-28)",
        )
    return sender.session


async def _notify(session: McpSession, watch: Watch) -> None:
    while (uri := await watch.changed()) is not None:
        if uri not in session.subscriptions:
            continue
        sender, context = session.subscriptions[uri]
        event = event_to_notification(ResourceUpdated(uri=uri), {})
        if not (await is_valid(sender) and await _send(context, event, in_response=False)):
            session.subscriptions.pop(uri, None)
            watch.remove(uri)


async def _send(context: Context, notification: ServerNotification, *, in_response: bool) -> bool:
    """Return whether the client read a notification, in the response to its request or outside."""
    with anyio.move_on_after(WRITE_S_MAX):
        try:
            await context.session.send_notification(
                notification, context.request_id if in_response else None
            )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True
    log.warning("a client does not read its notifications; its stream is closed")
    return False


CONFIRM: Final = "confirm"
ELICIT_METHOD: Final = "elicitation/create"
_ELSEWHERE: Final = (
    "make the call over REST or the command line, or ask an operator to set"
    " limits.confirm_s_max to 0"
)
_AGREEMENT_FORM: Final = {
    "type": "object",
    "properties": {CONFIRM: {"type": "boolean", "title": "Do it", "default": False}},
    "required": [CONFIRM],
}


class InputRequiredError(MemsvcError):
    """The client must ask its user, and call again with the answer and this state."""

    def __init__(self, form: ElicitRequestFormParams, state: str) -> None:
        super().__init__(Code.NOT_ACCEPTED, "the user must agree to this call")
        self._form = form
        self._state = state

    def result(self) -> dict[str, Any]:
        """Return the result of the call, in its wire form."""
        params = self._form.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {
            "resultType": "input_required",
            "inputRequests": {CONFIRM: {"method": ELICIT_METHOD, "params": params}},
            "requestState": self._state,
        }


@frozen
class Elicitation:
    """Asks the users of clients, over any transport that allows it."""

    limits: LimitsOptions
    sessions: McpSessions
    subscriptions: Subscriptions

    def elicit_for(
        self, context: Context, sender: RequestSender, call: CallToolRequestParams
    ) -> Elicit | None:
        """Return the function that asks the user of this call's client, or None."""
        if not self.limits.confirm_s_max:
            return None
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            takes_forms = has_forms(context.session.client_capabilities)
            return partial(self._require, sender, call) if takes_forms else None
        if sender.send_request is None and not (
            context.session.can_send_request and has_forms(context.session.client_capabilities)
        ):
            return None
        return partial(self._wait, context, sender)

    async def _require(self, sender: RequestSender, call: CallToolRequestParams, text: str) -> None:
        """Take the answer that came with the call, or require one."""
        sessions, caller = self.sessions, sender.caller
        arguments = orjson.dumps(call.arguments, option=orjson.OPT_SORT_KEYS)
        about = f"{call.name} {hashlib.sha256(arguments).hexdigest()}"
        answer = (call.input_responses or {}).get(CONFIRM)
        if answer is None:
            raise InputRequiredError(_agreement_form(text), await sessions.new_state(caller, about))
        if not await sessions.is_state(caller, about, call.request_state or ""):
            raise MemsvcError(
                Code.NOT_ACCEPTED,
                "the user's answer belongs to another confirmation prompt, or came too late",
                recovery="repeat the call without the answer, so that the user is asked again",
            )
        _check_agreement(answer)

    async def _wait(self, context: Context, sender: RequestSender, text: str) -> None:
        """Ask, and wait for the answer, which counts while the key is valid."""
        _check_agreement(await self.elicit(context, sender, _agreement_form(text)))
        if not await is_valid(sender):
            raise permission_denied(
                "this API key was revoked or changed while the user was asked; nothing was changed"
            )

    async def elicit(
        self, context: Context, sender: RequestSender, form: ElicitRequestFormParams
    ) -> ElicitResult:
        """Return the user's answer to a form. Raises NOT_ACCEPTED if none comes in time."""
        request = ElicitRequest(params=form)
        try:
            if sender.send_request is not None:
                return await self._elicit_over_http(sender, request)
            with anyio.fail_after(self.limits.confirm_s_max):
                return await context.session.send_request(
                    request,
                    ElicitResult,
                    metadata=ServerMessageMetadata(related_request_id=context.request_id),
                )
        except (MCPError, ValidationError, TimeoutError):
            raise MemsvcError(
                Code.NOT_ACCEPTED,
                f"the user did not answer within {self.limits.confirm_s_max:g} s; nothing"
                " was changed",
                recovery="repeat the call when the user can answer; if no user can answer,"
                f" {_ELSEWHERE}",
            ) from None

    async def _elicit_over_http(
        self, sender: RequestSender, request: ElicitRequest
    ) -> ElicitResult:
        """Ask in the response to a call, and wait for the answer at any replica; TimeoutError."""
        if sender.send_request is None or sender.session is None:
            raise TimeoutError
        question = secrets.token_hex(16)
        body = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        send = partial(sender.send_request, {"jsonrpc": "2.0", "id": question, **body})
        with (
            self.subscriptions.opened(sender.caller.tenant) as watch,
            sender.watch_validity(watch.close),
        ):
            answer = await self.sessions.ask(
                sender.caller,
                sender.session,
                question,
                watch,
                self.limits.confirm_s_max,
                send=send,
            )
        if answer is None:
            raise TimeoutError
        return ElicitResult.model_validate(answer)


def has_forms(capabilities: ClientCapabilities | None) -> bool:
    """Return whether a client can show its user forms."""
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _agreement_form(text: str) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(
        message=f"This cannot be undone:\n{text}", requested_schema=_AGREEMENT_FORM
    )


def _check_agreement(answer: Any) -> None:
    """Raise NOT_ACCEPTED unless the user has agreed."""
    if (
        isinstance(answer, ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get(CONFIRM) is True
    ):
        return
    if isinstance(answer, ElicitResult) and answer.action == "cancel":
        raise MemsvcError(
            Code.NOT_ACCEPTED,
            "the user closed the confirmation prompt without a choice; nothing was changed",
            recovery="tell the user what you want to delete, and repeat the call once they"
            " agree; if the client automatically dismisses confirmation prompts,"
            f" {_ELSEWHERE}",
        )
    raise MemsvcError(
        Code.NOT_ACCEPTED,
        "the user did not agree; nothing was changed",
        recovery="do not repeat the call unless the user asks for it",
    )
