"""The MCP server of every transport: SDK requests become calls of dispatch, outcomes results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server, lifespan
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CancelledNotificationParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ServerCapabilities,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memsvc.core.progress import SILENT, Progress
from memsvc.core.resources import Completion, Guide, Prompt
from memsvc.core.tools import Outcome
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.asking import Asking, Context, Who, traceparent_of, without
from memsvc.gateway.mcp.cancelling import Cancelling, has_session
from memsvc.gateway.mcp.completing import Completing
from memsvc.gateway.mcp.errors import protocol_error
from memsvc.gateway.mcp.listening import Listening, refuse
from memsvc.gateway.mcp.progress import telling, wants_progress
from memsvc.gateway.mcp.prompts import Prompts
from memsvc.gateway.mcp.resources import Resources
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.mcp.tool_list import ToolLists

SERVER_NAME = "memsvc"
UNCHANGING: Final[tuple[CacheableMethod, ...]] = ("tools/list", "prompts/list", "resources/templates/list")
"""Lists that change neither while the server runs nor while the key has the same rights."""
LISTS_KEPT_MS: Final = 60_000
"""Milliseconds that a client may cache such a list: as long as a narrowed key still gets the old
one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Offer of a server, over whichever transport.

    Without `subscriptions` there are no notifications of changes; without `administration` no
    administrative tools. `beside` adds its own handlers to the server's.
    """

    dispatch: Dispatch
    name: str = SERVER_NAME
    instructions: str
    version: str
    limits: LimitsOptions
    prompts: Sequence[Prompt] = ()
    guides: Sequence[Guide] = ()
    completions: Mapping[str, Completion] = field(default_factory=dict)
    subscriptions: Subscriptions | None = None
    administration: bool = False
    beside: Callable[[Server[Any], Dispatch, Who], None] | None = None

    @property
    def withheld(self) -> frozenset[str]:
        """Tools of the catalogue that are not offered here."""
        if self.administration:
            return frozenset()
        return frozenset(tool.name for tool in self.dispatch.catalogue if tool.administrative)


def result_of(outcome: Outcome, text: str | None = None) -> dict[str, Any]:
    """Return the tool result of an outcome, in its wire form, with its tool's text.

    A failure has only text: the TypeScript SDK checks structured content against the output schema
    even when the result is an error, and would show its user a schema fault in place of ours.
    """
    whole: dict[str, Any] = {
        "content": [{"type": "text", "text": outcome.text if text is None else text}],
        "isError": outcome.error is not None,
        "resultType": "complete",
    }
    if outcome.error is None:
        whole["structuredContent"] = outcome.body
    return whole


class McpServer:
    """The server's handlers, over whichever transport.

    The SDK's transports serve `sdk`; one with `sessions` runs it (`sdk.run`) once for each of them.
    """

    def __init__(self, offer: Offer, who: Who, *, sessions: bool = False) -> None:
        who = without(who, offer.withheld)
        self._dispatch = offer.dispatch
        self._who = who
        self._cancelling = Cancelling(who)
        self._lists = ToolLists(offer.dispatch.catalogue)
        resources = Resources(offer.dispatch, who)
        prompts = Prompts(offer.dispatch, who, offer.prompts, offer.guides)
        listening = None
        if resources.offered and offer.subscriptions is not None:
            listening = Listening(offer.dispatch, who, resources, offer.subscriptions, offer.limits)
        self.sdk = _Sdk(
            offer.name,
            version=offer.version,
            instructions=offer.instructions,
            cache_hints=dict.fromkeys(UNCHANGING, CacheHint(ttl_ms=LISTS_KEPT_MS)),
            on_list_tools=self._list_tools,
            # No tool mirrors an argument into a header, so there is no schema to check headers by.
            # Left out, the SDK would list all tools on each call to find that out.
            get_tool_input_schema=lambda name: None,
            lifespan=listening.connection if listening is not None and sessions else lifespan,
        )
        self.sdk.subscribable = listening is not None and sessions
        self._answer(resources, prompts, listening)
        if offer.completions and (resources.offered or prompts.offered):
            completing = Completing(offer.dispatch, who, resources, prompts, offer.completions)
            self.sdk.add_request_handler("completion/complete", CompleteRequestParams, completing.complete)
        if offer.beside is not None:
            offer.beside(self.sdk, offer.dispatch, who)
        # The SDK's tracing puts names that callers made up into span names.
        self.sdk.middleware.clear()

    def _answer(self, resources: Resources, prompts: Prompts, listening: Listening | None) -> None:
        """Register the handlers with anything to serve; others are unknown and unannounced."""
        answer = self.sdk.add_request_handler
        # Unlike `on_call_tool`, this does not dump a result that is already in its wire form.
        answer("tools/call", CallToolRequestParams, self._call_tool)
        self.sdk.add_notification_handler(
            "notifications/cancelled", CancelledNotificationParams, self._cancelling.cancel
        )
        if resources.offered:
            answer("resources/list", PaginatedRequestParams, resources.list_resources)
            answer("resources/templates/list", PaginatedRequestParams, resources.list_templates)
            answer("resources/read", ReadResourceRequestParams, resources.read)
        if prompts.offered or prompts.guides:
            answer("prompts/list", PaginatedRequestParams, prompts.list_prompts)
            answer("prompts/get", GetPromptRequestParams, prompts.get)
        if listening is not None:
            answer("subscriptions/listen", SubscriptionsListenRequestParams, listening.listen)
            subscribable = self.sdk.subscribable
            answer("resources/subscribe", SubscribeRequestParams, listening.subscribe if subscribable else refuse)
            answer("resources/unsubscribe", UnsubscribeRequestParams, listening.unsubscribe if subscribable else refuse)

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return self._lists.answer(context, self._dispatch.tools_for(self._who(context).caller))

    async def _call_tool(self, context: Context, call: CallToolRequestParams) -> dict[str, Any]:
        if "inputResponses" in (context.params or {}) and call.input_responses is None:
            raise MCPError(INVALID_PARAMS, "inputResponses must be an object")
        asking = self._who(context)
        if wants_progress(context) or has_session(context):
            outcome = await self._attended(context, asking, call)
        else:
            outcome = await self._outcome(context, asking, call, SILENT)
        if outcome.error is not None:
            asking.failed(outcome.error)
        tool = self._dispatch.catalogue.get(call.name)
        if tool is None or (outcome.error is not None and not self._dispatch.sees(asking.caller, tool)):
            return result_of(outcome)
        if outcome.error is not None and tool.protocol_errors:
            raise protocol_error(outcome.error)
        return result_of(outcome, tool.told(outcome))

    async def _attended(self, context: Context, asking: Asking, call: CallToolRequestParams) -> Outcome:
        """Return the outcome of a call with progress notifications or cancellation."""
        with self._cancelling.cancellable(context, asking.caller) as scope:
            async with telling(context) as progress:
                outcome = await self._outcome(context, asking, call, progress)
        if scope is not None and scope.cancelled_caught:
            raise MCPError(REQUEST_CANCELLED, "Request cancelled")
        return outcome

    async def _outcome(
        self, context: Context, asking: Asking, call: CallToolRequestParams, progress: Progress
    ) -> Outcome:
        return await self._dispatch.call(
            asking.caller,
            call.name,
            call.arguments,
            surface=asking.surface,
            request_id=asking.request_id,
            progress=progress,
            traceparent=traceparent_of(context),
        )


class _Sdk(Server[Any]):
    """The SDK's server, with capabilities that are true here.

    No list changes while the server runs, and resources can be subscribed to where `subscribable`,
    or by `subscriptions/listen`. The SDK would announce a capability for each method with a
    handler, even one that only refuses.
    """

    subscribable = False

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        whole = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        for announced in (whole.tools, whole.prompts, whole.resources):
            if announced is not None:
                announced.list_changed = False
        if whole.resources is not None and protocol_version not in MODERN_PROTOCOL_VERSIONS:
            whole.resources.subscribe = self.subscribable
        return whole
