"""Handlers that add the fixtures to a server."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CompleteRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel

from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Scope
from memsvc.core.tools import Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Context, Who
from memsvc.gateway.mcp.conformance import asking, fixtures, reading
from memsvc.gateway.mcp.conformance.fixtures import Asked, Fixture, tool_of
from memsvc.gateway.mcp.errors import protocol_error, resource_error, unknown_resource
from memsvc.gateway.mcp.progress import telling

ALL: Final[dict[str, Fixture]] = {
    one.name: one for one in (*fixtures.fixtures(), *asking.fixtures(), *reading.fixtures())
}

Handler = Callable[[Context, Any], Awaitable[Any]]


def tools() -> list[Tool]:
    """Return the fixtures as tools, for the catalogue."""
    return [tool_of(fixture) for fixture in ALL.values()]


def install(sdk: Server[Any], dispatch: Dispatch, who: Who) -> None:
    """Let a server answer for the fixtures, and otherwise as before."""
    _Beside(sdk, dispatch, who).install()


class _Beside:
    """Handlers that wrap those of the server."""

    def __init__(self, sdk: Server[Any], dispatch: Dispatch, who: Who) -> None:
        self._sdk = sdk
        self._dispatch = dispatch
        self._who = who

    def install(self) -> None:
        self._around("tools/list", PaginatedRequestParams, self._list_tools)
        self._around("tools/call", CallToolRequestParams, self._call)
        self._around("resources/list", PaginatedRequestParams, self._list_resources)
        self._around("resources/templates/list", PaginatedRequestParams, self._list_templates)
        self._around("resources/read", ReadResourceRequestParams, self._read)
        self._around("prompts/list", PaginatedRequestParams, self._list_prompts)
        self._around("prompts/get", GetPromptRequestParams, self._prompt)
        self._around("completion/complete", CompleteRequestParams, self._complete)
        self._around("resources/subscribe", SubscribeRequestParams, self._subscribe)
        self._around("resources/unsubscribe", UnsubscribeRequestParams, self._subscribe)
        self._sdk.add_request_handler("logging/setLevel", SetLevelRequestParams, _nothing)
        self._sdk.get_tool_input_schema = lambda name: ALL[name].schema if name in ALL else None

    def _around(
        self, method: str, asked: type[BaseModel], handler: Callable[[Handler, Context, Any], Awaitable[Any]]
    ) -> None:
        """Wrap a method's handler by one that may call it."""
        entry = self._sdk.get_request_handler(method)
        before: Handler = _unknown if entry is None else entry.handler

        async def answer(context: Context, given: Any) -> Any:
            return await handler(before, context, given)

        self._sdk.add_request_handler(method, asked, answer)

    async def _run(self, context: Context, call: CallToolRequestParams) -> dict[str, Any]:
        """Run a fixture as the tool that it is; MemsvcError where dispatch refuses it."""
        asking = self._who(context)
        async with telling(context) as progress:

            async def operation(_: Scope, __: Any) -> dict[str, Any] | MCPError:
                return await ALL[call.name].answer(Asked(context, call, progress))

            try:
                ended: dict[str, Any] | MCPError | MemsvcError = await self._dispatch.perform(
                    asking.caller,
                    call.name,
                    call.arguments or {},
                    operation,
                    surface=asking.surface,
                    request_id=asking.request_id,
                )
            except MemsvcError as refused:
                ended = refused
        if isinstance(ended, Exception):
            raise ended
        return ended

    async def _call(self, before: Handler, context: Context, call: CallToolRequestParams) -> Any:
        if call.name not in ALL:
            return await before(context, call)
        try:
            return await self._run(context, call)
        except MemsvcError as error:
            return {"content": [{"type": "text", "text": error.message}], "isError": True, "resultType": "complete"}

    async def _list_tools(self, before: Handler, context: Context, asked: Any) -> ListToolsResult:
        listed: ListToolsResult = await before(context, asked)
        for tool in listed.tools:
            if tool.name in ALL:
                tool.input_schema, tool.output_schema = ALL[tool.name].schema, None
        return listed

    async def _list_resources(self, before: Handler, context: Context, asked: Any) -> ListResourcesResult:
        listed: ListResourcesResult = await before(context, asked)
        first = asked is None or asked.cursor is None
        return listed.model_copy(update={"resources": [*(reading.RESOURCES if first else ()), *listed.resources]})

    async def _list_templates(self, before: Handler, context: Context, asked: Any) -> ListResourceTemplatesResult:
        listed: ListResourceTemplatesResult = await before(context, asked)
        return listed.model_copy(update={"resource_templates": [*listed.resource_templates, *reading.TEMPLATES]})

    async def _list_prompts(self, before: Handler, context: Context, asked: Any) -> ListPromptsResult:
        listed: ListPromptsResult = await before(context, asked)
        return listed.model_copy(update={"prompts": [*listed.prompts, *reading.PROMPTS]})

    async def _read(self, before: Handler, context: Context, asked: ReadResourceRequestParams) -> Any:
        if not asked.uri.startswith(reading.SCHEME):
            return await before(context, asked)
        if reading.read(asked.uri) is None:
            raise resource_error(unknown_resource(asked.uri), context.protocol_version, asked.uri)
        came = await self._as_tool(context, asked, reading.READ_TOOL, {"uri": asked.uri})
        return ReadResourceResult.model_validate(came)

    async def _prompt(self, before: Handler, context: Context, asked: GetPromptRequestParams) -> Any:
        if asked.name not in reading.PROMPT_NAMES:
            return await before(context, asked)
        given = {"name": asked.name, "arguments": asked.arguments or {}}
        return await self._as_tool(context, asked, reading.PROMPT_TOOL, given)

    async def _as_tool(self, context: Context, asked: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = CallToolRequestParams(
            name=name,
            arguments=arguments,
            input_responses=asked.input_responses,
            request_state=asked.request_state,
        )
        try:
            return await self._run(context, call)
        except MemsvcError as error:
            raise protocol_error(error) from None

    async def _complete(self, before: Handler, context: Context, asked: CompleteRequestParams) -> Any:
        named = asked.ref.name if isinstance(asked.ref, PromptReference) else asked.ref.uri
        if named in reading.PROMPT_NAMES or named.startswith(reading.SCHEME):
            return {"completion": {"values": [], "total": 0, "hasMore": False}, "resultType": "complete"}
        return await before(context, asked)

    async def _subscribe(self, before: Handler, context: Context, asked: Any) -> Any:
        if asked.uri.startswith(reading.SCHEME):
            return EmptyResult()
        return await before(context, asked)


async def _nothing(_: Context, __: Any) -> EmptyResult:
    return EmptyResult()


async def _unknown(_: Context, asked: Any) -> Any:
    raise protocol_error(unknown_resource(str(getattr(asked, "uri", ""))))
