"""Handlers that add the fixtures to the server that users get."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import BaseModel

from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Scope
from memsvc.core.tools import Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.notifications import Elicitation
from memsvc.gateway.mcp.request import (
    Context,
    SenderOf,
    progress_for,
    protocol_error,
    resource_error,
    unknown_resource,
)
from tests.conformance import client_inputs, fixtures, resource_fixtures
from tests.conformance.fixtures import Fixture, FixtureCall, tool_of

ALL: Final[dict[str, Fixture]] = {
    one.name: one
    for one in (*fixtures.fixtures(), *client_inputs.fixtures(), *resource_fixtures.fixtures())
}

Handler = Callable[[Context, Any], Awaitable[Any]]


def tools() -> list[Tool]:
    """Return the fixtures as tools, for the catalogue."""
    made = [tool_of(fixture) for fixture in ALL.values()]
    return [
        replace(tool, resource=resource_fixtures.WATCHED)
        if tool.name == resource_fixtures.READ_TOOL
        else tool
        for tool in made
    ]


def install(
    sdk: Server[Any], dispatch: Dispatch, sender_of: SenderOf, elicitation: Elicitation
) -> None:
    """Let a server answer for the fixtures, and otherwise as before."""
    _FixtureHandlers(sdk, dispatch, sender_of, elicitation).install()


class _FixtureHandlers:
    """Handlers that wrap those of the server."""

    def __init__(
        self, sdk: Server[Any], dispatch: Dispatch, sender_of: SenderOf, elicitation: Elicitation
    ) -> None:
        self._sdk = sdk
        self._elicitation = elicitation
        self._dispatch = dispatch
        self._sender_of = sender_of

    def install(self) -> None:
        self._wrap("tools/call", CallToolRequestParams, self._call)
        self._wrap("resources/list", PaginatedRequestParams, self._list_resources)
        self._wrap("resources/templates/list", PaginatedRequestParams, self._list_templates)
        self._wrap("resources/read", ReadResourceRequestParams, self._read)
        self._wrap("prompts/list", PaginatedRequestParams, self._list_prompts)
        self._wrap("prompts/get", GetPromptRequestParams, self._prompt)
        self._wrap("completion/complete", CompleteRequestParams, self._complete)
        self._sdk.get_tool_input_schema = lambda name: ALL[name].schema if name in ALL else None

    def _wrap(
        self,
        method: str,
        params_type: type[BaseModel],
        handler: Callable[[Handler, Context, Any], Awaitable[Any]],
    ) -> None:
        """Wrap a method's handler by one that may call it."""
        entry = self._sdk.get_request_handler(method)
        before: Handler = _unknown if entry is None else entry.handler

        async def answer(context: Context, given: Any) -> Any:
            return await handler(before, context, given)

        self._sdk.add_request_handler(method, params_type, answer)

    async def _run(self, context: Context, call: CallToolRequestParams) -> dict[str, Any]:
        """Run a fixture as the tool that it is; MemsvcError where dispatch refuses it."""
        sender = self._sender_of(context)
        async with progress_for(context) as progress:

            async def operation(_: Scope, __: Any) -> dict[str, Any] | MCPError:
                elicit = partial(self._elicitation.elicit, context, sender)
                return await ALL[call.name].answer(FixtureCall(context, call, progress, elicit))

            try:
                result: dict[str, Any] | MCPError | MemsvcError = await self._dispatch.perform(
                    sender.caller,
                    call.name,
                    call.arguments or {},
                    operation,
                    surface=sender.surface,
                    request_id=sender.request_id,
                )
            except MemsvcError as refused:
                result = refused
        if isinstance(result, Exception):
            raise result
        return result

    async def _call(self, before: Handler, context: Context, call: CallToolRequestParams) -> Any:
        if call.name not in ALL:
            return await before(context, call)
        try:
            return await self._run(context, call)
        except MemsvcError as error:
            return {
                "content": [{"type": "text", "text": error.message}],
                "isError": True,
                "resultType": "complete",
            }

    async def _list_resources(
        self, before: Handler, context: Context, params: Any
    ) -> ListResourcesResult:
        listed: ListResourcesResult = await before(context, params)
        first = params is None or params.cursor is None
        return listed.model_copy(
            update={
                "resources": [*(resource_fixtures.RESOURCES if first else ()), *listed.resources]
            }
        )

    async def _list_templates(
        self, before: Handler, context: Context, params: Any
    ) -> ListResourceTemplatesResult:
        listed: ListResourceTemplatesResult = await before(context, params)
        return listed.model_copy(
            update={
                "resource_templates": [*listed.resource_templates, *resource_fixtures.TEMPLATES]
            }
        )

    async def _list_prompts(
        self, before: Handler, context: Context, params: Any
    ) -> ListPromptsResult:
        listed: ListPromptsResult = await before(context, params)
        return listed.model_copy(update={"prompts": [*listed.prompts, *resource_fixtures.PROMPTS]})

    async def _read(
        self, before: Handler, context: Context, params: ReadResourceRequestParams
    ) -> Any:
        if not params.uri.startswith(resource_fixtures.SCHEME):
            return await before(context, params)
        if resource_fixtures.read(params.uri) is None:
            raise resource_error(unknown_resource(params.uri), context.protocol_version, params.uri)
        result = await self._as_tool(
            context, params, resource_fixtures.READ_TOOL, {"uri": params.uri}
        )
        return ReadResourceResult.model_validate(result)

    async def _prompt(
        self, before: Handler, context: Context, params: GetPromptRequestParams
    ) -> Any:
        if params.name not in resource_fixtures.PROMPT_NAMES:
            return await before(context, params)
        given = {"name": params.name, "arguments": params.arguments or {}}
        return await self._as_tool(context, params, resource_fixtures.PROMPT_TOOL, given)

    async def _as_tool(
        self, context: Context, params: Any, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        call = CallToolRequestParams(
            name=name,
            arguments=arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
        )
        try:
            return await self._run(context, call)
        except MemsvcError as error:
            raise protocol_error(error) from None

    async def _complete(
        self, before: Handler, context: Context, params: CompleteRequestParams
    ) -> Any:
        named = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        if named in resource_fixtures.PROMPT_NAMES or named.startswith(resource_fixtures.SCHEME):
            return {
                "completion": {"values": [], "total": 0, "hasMore": False},
                "resultType": "complete",
            }
        return await before(context, params)


async def _unknown(_: Context, params: Any) -> Any:
    raise protocol_error(unknown_resource(str(getattr(params, "uri", ""))))
