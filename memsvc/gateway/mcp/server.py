"""The MCP server of every transport: turns SDK requests into calls, and outcomes into results."""

import json
import re
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from struct import pack
from typing import Any, Final

import orjson
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server, lifespan
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CancelledNotificationParams,
    CompleteRequestParams,
    CompleteResult,
    GetPromptRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    ServerCapabilities,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    TextResourceContents,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from mcp_types import Completion as Found
from mcp_types import Tool as ListedTool
from mcp_types.methods import serialize_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.json_text import JsonObject
from memsvc.core.package_texts import package_text
from memsvc.core.resources import Completion, Guide
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.core.tools import HOST_TOOLSET, CallOutcome, Published, Tool, Toolset
from memsvc.core.validation_messages import safe_text
from memsvc.gateway.dispatch import NAME_CHARS_MAX, Catalogue, Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.notifications import ChangeNotifications, Elicitation, InputRequiredError
from memsvc.gateway.mcp.request import (
    Cancellation,
    Context,
    RequestSender,
    SenderOf,
    progress_for,
    protocol_error,
    unknown_resource,
    wants_progress,
)
from memsvc.gateway.mcp.resource_handlers import PromptHandlers, ResourceHandlers
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.rest import GZIP_HEADER, VARY
from memsvc.gateway.schemas import listed_output_schema, own_schema

SERVER_NAME = "memsvc"
GREETINGS: Final = ("initialize", "server/discover")
"""Requests whose results have the instructions."""
_ITEM_START: Final = re.compile(r"\n(?! )")
_TOOL_NAME: Final = re.compile(r"[a-z]+_\w+")
STATIC_LISTS: Final[tuple[CacheableMethod, ...]] = (
    "tools/list",
    "prompts/list",
    "resources/templates/list",
)
"""Lists that change neither while the server runs nor while the key has the same rights."""
LISTS_KEPT_MS: Final = 60_000
"""Milliseconds that a client may cache such a list: as long as a narrowed key still gets the old
one."""


@frozen_by_keyword
class McpServerConfig:
    """What a server offers, over any transport.

    Without `administration` there are no administrative tools. `toolsets` are listed if neither the
    request nor its key names others."""

    dispatch: Dispatch
    name: str = SERVER_NAME
    instructions: str
    version: str
    limits: LimitsOptions
    published: Published
    subscriptions: Subscriptions
    sessions: McpSessions
    administration: bool
    toolsets: frozenset[Toolset]

    @property
    def hidden_tools(self) -> frozenset[str]:
        """Tools of the catalogue that are not offered here: transports hide them from callers."""
        if self.administration:
            return frozenset()
        return frozenset(tool.name for tool in self.dispatch.catalogue if tool.is_admin)


def result_of(outcome: CallOutcome, text: str | None = None) -> JsonObject:
    """Return the tool result of an outcome, in its wire form, with its tool's text.

    A failure has only text: the TypeScript SDK checks structured content against the output schema
    even when the result is an error, and would show its user a schema fault in place of ours.
    """
    result: JsonObject = {
        "content": [{"type": "text", "text": outcome.text if text is None else text}],
        "isError": outcome.error is not None,
        "resultType": "complete",
    }
    if outcome.error is None:
        result["structuredContent"] = outcome.body
    return result


class McpServer:
    """The server's handlers, over whichever transport.

    The SDK's transports serve `sdk`; one with `sessions` runs it (`sdk.run`) once for each of them.
    """

    def __init__(
        self, config: McpServerConfig, sender_of: SenderOf, *, sessions: bool = False
    ) -> None:
        self._dispatch = config.dispatch
        self._sender_of = sender_of
        self._cancellation = Cancellation(sender_of)
        self._lists = ToolLists(config.dispatch.catalogue)
        self._toolsets = config.toolsets
        self._instructions = config.instructions
        self._host_instructions = package_text(__package__, "host_instructions.md")
        self._elicitation = Elicitation(config.limits, config.sessions, config.subscriptions)
        resources = ResourceHandlers(config.dispatch, sender_of)
        published = config.published
        prompts = PromptHandlers(config.dispatch, sender_of, published.prompts, published.guides)
        notifications: ChangeNotifications | None = None
        if resources.tool_resources:
            notifications = ChangeNotifications(
                config.dispatch,
                sender_of,
                resources,
                config.subscriptions,
                config.limits,
                config.sessions,
            )
        self.notifications = notifications
        self.sdk = _Sdk(
            config.name,
            version=config.version,
            cache_hints=dict.fromkeys(STATIC_LISTS, CacheHint(ttl_ms=LISTS_KEPT_MS)),
            on_list_tools=self._list_tools,
            # No tool mirrors an argument into a header, so there is no schema to check headers by.
            # Left out, the SDK would list all tools on each call to find that out.
            get_tool_input_schema=lambda name: None,
            lifespan=notifications.connection
            if notifications is not None and sessions
            else lifespan,
        )
        self.sdk.has_subscriptions = notifications is not None
        self._add_handlers(resources, prompts, notifications)
        if published.completions and (resources.tool_resources or prompts.prompts):
            completion = CompletionHandler(
                config.dispatch, sender_of, resources, prompts, published.completions
            )
            self.sdk.add_request_handler(
                "completion/complete", CompleteRequestParams, completion.complete
            )
        # The SDK's tracing puts names that callers made up into span names.
        self.sdk.middleware[:] = [self._with_instructions]

    def _add_handlers(
        self,
        resources: ResourceHandlers,
        prompts: PromptHandlers,
        notifications: ChangeNotifications | None,
    ) -> None:
        """Register the handlers with anything to serve; others are unknown and unannounced."""
        add_handler = self.sdk.add_request_handler
        # Unlike `on_call_tool`, this does not dump a result that is already in its wire form.
        add_handler("tools/call", CallToolRequestParams, self._call_tool)
        self.sdk.add_notification_handler(
            "notifications/cancelled", CancelledNotificationParams, self._cancellation.cancel
        )
        if resources.tool_resources:
            add_handler("resources/list", PaginatedRequestParams, resources.list_resources)
            add_handler(
                "resources/templates/list", PaginatedRequestParams, resources.list_templates
            )
            skills = SkillHandlers(prompts, self._sender_of, resources.read)
            add_handler("resources/read", ReadResourceRequestParams, skills.read)
            if prompts.guides:
                self.sdk.extensions[SKILLS] = {}
                add_handler("skills/list", PaginatedRequestParams, skills.list_skills)
                add_handler("skills/get", GetSkillParams, skills.get)
        if prompts.prompts or prompts.guides:
            add_handler("prompts/list", PaginatedRequestParams, prompts.list_prompts)
            add_handler("prompts/get", GetPromptRequestParams, prompts.get)
        if notifications is not None:
            add_handler(
                "subscriptions/listen", SubscriptionsListenRequestParams, notifications.listen
            )
            add_handler("resources/subscribe", SubscribeRequestParams, notifications.subscribe)
            add_handler(
                "resources/unsubscribe", UnsubscribeRequestParams, notifications.unsubscribe
            )

    async def _with_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer, with the instructions for this client that its key can follow.

        Each item of the instructions begins a line, which is left out with the lines that continue
        it if it names a tool that the caller is not offered."""
        result = await call_next(ctx)
        if ctx.method not in GREETINGS or not isinstance(result, dict):
            return result
        sender = self._sender_of(ctx)
        is_host = HOST_TOOLSET in self._toolsets_of(sender)
        offered = {tool.name for tool in self._dispatch.offered_to(sender.caller)}
        others = set(self._dispatch.catalogue.names()) - offered
        items = _ITEM_START.split(self._host_instructions if is_host else self._instructions)
        told = [item for item in items if others.isdisjoint(_TOOL_NAME.findall(item))]
        return result | {"instructions": "\n".join(told)}

    def _toolsets_of(self, sender: RequestSender) -> Collection[str]:
        return sender.toolsets or sender.caller.toolsets or self._toolsets

    async def _list_tools(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        sender = self._sender_of(context)
        toolsets = self._toolsets_of(sender)
        offered = self._dispatch.offered_to(sender.caller)
        tools = [tool for tool in offered if tool.is_in(toolsets)]
        return self._lists.answer(context, tools, frozenset(sender.caller.own))

    async def _call_tool(self, context: Context, call: CallToolRequestParams) -> JsonObject:
        if "inputResponses" in (context.params or {}) and call.input_responses is None:
            raise MCPError(INVALID_PARAMS, "inputResponses must be an object")
        sender = self._sender_of(context)
        tool = self._dispatch.catalogue.get(call.name)
        traceparent, elicit = (context.meta or {}).get("traceparent"), None
        if tool is not None and tool.destructive:
            elicit = self._elicitation.elicit_for(context, sender, call)
        run = partial(
            self._dispatch.call,
            sender.caller,
            call.name,
            call.arguments,
            surface=sender.surface,
            request_id=sender.request_id,
            traceparent=traceparent if isinstance(traceparent, str) else "",
            elicit=elicit,
        )
        if sender.session is not None or wants_progress(context):
            outcome = await self._with_progress(context, sender, run)
        else:
            outcome = await run()
        error = outcome.error
        if isinstance(error, InputRequiredError):
            return error.result()
        if error is not None:
            sender.on_error(error)
        if tool is None or (error and not self._dispatch.is_visible(sender.caller, tool)):
            return result_of(outcome)
        if error is not None and tool.protocol_errors:
            raise protocol_error(error)
        return result_of(outcome, tool.text_of(outcome))

    async def _with_progress(
        self, context: Context, sender: RequestSender, run: Callable[..., Awaitable[CallOutcome]]
    ) -> CallOutcome:
        """Return the outcome of a call with progress notifications or cancellation."""
        with self._cancellation.cancel_scope(context, sender.caller) as scope:
            async with progress_for(context) as progress:
                outcome = await run(progress=progress)
        if scope is not None and scope.cancelled_caught:
            raise MCPError(REQUEST_CANCELLED, "Request cancelled")
        return outcome


class _Sdk(Server[Any]):
    """The SDK's server, with capabilities that are true here.

    No list changes while the server runs, and resources can be subscribed to where
    `has_subscriptions`, or by `subscriptions/listen`. The SDK would announce a capability for each
    method with a handler, even one that only refuses.
    """

    has_subscriptions = False

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, JsonObject] | None = None,
        extensions: dict[str, JsonObject] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        capabilities = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        for capability in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if capability is not None:
                capability.list_changed = False
        if capabilities.resources is not None and protocol_version not in MODERN_PROTOCOL_VERSIONS:
            capabilities.resources.subscribe = self.has_subscriptions
        return capabilities


VALUES_MAX: Final = 100
"""Values of one answer, by the protocol."""
PREFIX_CHARS_MAX: Final = 1024
SURFACE: Final = "completion"


@frozen
class CompletionHandler:
    """Completes arguments, by their names."""

    dispatch: Dispatch
    sender_of: SenderOf
    resources: ResourceHandlers
    prompts: PromptHandlers
    completions: Mapping[str, Completion]

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        """Return the values with the argument's prefix.

        None for an argument of free text, and none that the caller may not read.
        """
        sender = self.sender_of(context)
        try:
            name, prefix = params.argument.name, params.argument.value
            if name not in self._arguments(sender.caller, params):
                raise invalid(f"unknown argument {safe_text(name, NAME_CHARS_MAX)}")
            completion = self.completions.get(name)
            if completion is None or len(prefix) > PREFIX_CHARS_MAX or "\0" in prefix:
                return CompleteResult(completion=Found(values=[], has_more=False))
            others = (params.context.arguments if params.context is not None else None) or {}
            values = await self._values(
                sender.caller, completion, prefix, others, sender.request_id
            )
        except MemsvcError as error:
            raise protocol_error(error) from None
        return CompleteResult(
            completion=Found(values=list(values[:VALUES_MAX]), has_more=len(values) > VALUES_MAX)
        )

    def _arguments(self, caller: Caller, params: CompleteRequestParams) -> Sequence[str]:
        """Return the arguments of a prompt or resource; NOT_FOUND where the caller sees none."""
        if isinstance(params.ref, PromptReference):
            return self.prompts.arguments(caller, params.ref.name)
        for one in self.resources.tool_resources:
            if one.resource.template == params.ref.uri and self.dispatch.is_visible(
                caller, one.tool
            ):
                return one.template.variables
        raise unknown_resource(params.ref.uri)

    async def _values(
        self,
        caller: Caller,
        completion: Completion,
        prefix: str,
        others: Mapping[str, str],
        request_id: str,
    ) -> Sequence[str]:
        async def find(scope: Scope, _: Any) -> Sequence[str]:
            return await completion.find(scope, prefix, others, VALUES_MAX + 1)

        project = others.get("project") or caller.own.get("project", DEFAULT_PROJECT)
        try:
            return await self.dispatch.perform(
                caller,
                completion.tool,
                {"project": project},
                find,
                surface=SURFACE,
                request_id=request_id,
            )
        except MemsvcError as error:
            if error.code in (Code.NOT_FOUND, Code.PERMISSION_DENIED):
                return []
            raise


SKILLS: Final = "io.modelcontextprotocol/skills"
Read = Callable[[Context, ReadResourceRequestParams], Awaitable[ReadResourceResult]]
"""Reads a resource for the sender of a request."""


class GetSkillParams(RequestParams):
    """Parameters of skills/get: the URI of a SKILL.md."""

    uri: str


class SkillHandlers:
    """Guides as skills, for callers that see the tools in them; other resources by `read_other`."""

    def __init__(self, prompts: PromptHandlers, sender_of: SenderOf, read_other: Read) -> None:
        self._prompts = prompts
        self._sender_of = sender_of
        self._read_other = read_other
        self._skills = {
            f"skill://memsvc/{_name(guide)}/SKILL.md": (guide, _content(guide))
            for guide in prompts.guides.values()
        }

    async def list_skills(self, context: Context, _: PaginatedRequestParams) -> JsonObject:
        """List the skills, whole in one page."""
        skills = [
            _skill(uri, guide, content) for uri, (guide, content) in self._visible(context).items()
        ]
        return _complete(skills=skills)

    async def get(self, context: Context, params: GetSkillParams) -> JsonObject:
        """Return the entry of a skill; -32602 where the caller sees none at this URI."""
        visible = self._visible(context)
        if params.uri not in visible:
            raise protocol_error(unknown_resource(params.uri))
        return _complete(skill=_skill(params.uri, *visible[params.uri]))

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a skill's file, or another resource."""
        visible = self._visible(context) if params.uri in self._skills else {}
        if params.uri not in visible:
            return await self._read_other(context, params)
        _, text = visible[params.uri]
        contents = TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)
        return ReadResourceResult(contents=[contents])

    def _visible(self, context: Context) -> dict[str, tuple[Guide, str]]:
        caller = self._sender_of(context).caller
        return {
            uri: skill
            for uri, skill in self._skills.items()
            if self._prompts.is_visible(caller, skill[0])
        }


def _name(guide: Guide) -> str:
    return guide.name.rpartition(":")[2]


def _content(guide: Guide) -> str:
    head = f"---\nname: {_name(guide)}\ndescription: {json.dumps(guide.description)}\n---\n\n"
    return head + guide.message({})


def _skill(uri: str, guide: Guide, content: str) -> JsonObject:
    raw = content.encode()
    file = {"uri": uri, "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)}
    metadata = {"name": _name(guide), "description": guide.description}
    return {"uri": uri, "frontmatter": metadata, "resources": [file]}


def _complete(**members: Any) -> JsonObject:
    return {"resultType": "complete", **members, "ttlMs": LISTS_KEPT_MS, "cacheScope": "private"}


TOOL_LIST: Final = "tools/list"
LISTS_MAX: Final = 64
"""Cached sets of tools: keys that hide the same tools share one."""
LIST: Final = "memsvc.tool_list"
"""Scope key of the list for the response."""
_EMPTY: Final = b'"tools":[]'
_GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"


def listed(tool: Tool, own: frozenset[str] = frozenset()) -> ListedTool:
    """Return the tool as `tools/list` has it, for a caller with `own` arguments."""
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=own_schema(tool, own),
        output_schema=listed_output_schema(tool),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


@frozen
class SerializedList:
    """The member `tools` of a response in its wire form, plain and as part of a deflate stream."""

    plain: bytes
    deflate_part: bytes

    def response(self, answer: bytes, *, as_gzip: bool) -> Response:
        """Return the response for an answer with an empty list, with this one in its place."""
        before, empty, after = answer.partition(_EMPTY)
        if not empty:
            raise RuntimeError("the list of tools cannot be inserted into the answer to tools/list")
        if not as_gzip:
            return Response(before + self.plain + after, media_type="application/json")
        response = Response(self._as_gzip(before, after), media_type="application/json")
        response.raw_headers += (VARY, GZIP_HEADER)
        return response

    def _as_gzip(self, before: bytes, after: bytes) -> bytes:
        """Return the whole response as gzip (RFC 1952), without compressing this part again."""
        checksum = zlib.crc32(after, zlib.crc32(self.plain, zlib.crc32(before)))
        size = len(before) + len(self.plain) + len(after)
        parts = (
            _compress(before, zlib.Z_FULL_FLUSH),
            self.deflate_part,
            _compress(after, zlib.Z_FINISH),
        )
        return b"".join((_GZIP_HEAD, *parts, pack("<II", checksum, size)))


def _compress(content: bytes, flush: int) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(content) + deflate.flush(flush)


class ToolLists:
    """`tools/list`, serialized and compressed once for each set of visible tools.

    The SDK would validate and dump all schemas anew for each new client. Over HTTP it gets an empty
    list, to answer in the protocol of the request, and the cached list is put in its place.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._serialized = lru_cache(LISTS_MAX)(self._serialize)

    def answer(
        self, context: Context, tools: Sequence[Tool], own: frozenset[str]
    ) -> ListToolsResult:
        """Return the list of these tools; an empty one where the response gets the cached list."""
        if isinstance(context.request, Request) and LIST in context.request.scope:
            names = tuple(tool.name for tool in tools)
            context.request.scope[LIST] = self._serialized(names, context.protocol_version, own)
            return ListToolsResult(tools=[])
        return ListToolsResult(tools=[listed(tool, own) for tool in tools])

    def _serialize(
        self, names: tuple[str, ...], version: str, own: frozenset[str]
    ) -> SerializedList:
        tools = [listed(tool, own) for tool in map(self._catalogue.get, names) if tool is not None]
        dumped = ListToolsResult(tools=tools).model_dump(
            by_alias=True, mode="json", exclude_none=True
        )
        plain = b'"tools":' + orjson.dumps(
            serialize_server_result(TOOL_LIST, version, dumped)["tools"]
        )
        return SerializedList(plain, _compress(plain, zlib.Z_FULL_FLUSH))
