"""MCP over streamable HTTP, stateless, on both wires. The only file that knows the SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, ListToolsResult, PaginatedRequestParams, ToolAnnotations
from mcp_types import Tool as Listed
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from memsvc.core.tools import Outcome, Tool
from memsvc.gateway.auth import caller_of
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rest import REQUEST_ID

SERVER_NAME = "memsvc"
SURFACE = "mcp"

_Context = ServerRequestContext[Any, Request]
_Schema = dict[str, Any]

_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_ONE_SCHEMA = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
_SEVERAL_SCHEMAS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NOT_FOR_CLIENTS = frozenset({"$defs", "$ref", "title", "discriminator"})


def input_schema(tool: Tool) -> _Schema:
    """The JSON schema of a tool's arguments."""
    return plain(tool.arguments.model_json_schema(mode="validation"))


def output_schema(tool: Tool) -> _Schema:
    """The JSON schema of a tool's result."""
    return plain(tool.result.model_json_schema(mode="serialization"))


def plain(schema: _Schema) -> _Schema:
    """The schema as every client can read it: no references, `items` in every array, no generated titles.

    ValueError for a schema that refers to itself, which cannot be written without references.
    """
    whole: _Schema = _plain(schema, schema.get("$defs", {}), ())
    return whole


def _plain(schema: Any, definitions: dict[str, _Schema], within: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return schema
    whole: _Schema = {}
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if name in within:
            raise ValueError(f"the schema of {name} refers to itself")
        whole = _plain(definitions[name], definitions, (*within, name))
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS:
            whole[keyword] = {name: _plain(part, definitions, within) for name, part in value.items()}
        elif keyword in _ONE_SCHEMA:
            whole[keyword] = _plain(value, definitions, within)
        elif keyword in _SEVERAL_SCHEMAS:
            whole[keyword] = [_plain(part, definitions, within) for part in value]
        elif keyword not in _NOT_FOR_CLIENTS:
            whole[keyword] = value
    if whole.get("type") == "array":
        whole.setdefault("items", {})
    return whole


def listed(tool: Tool) -> Listed:
    """The tool as `tools/list` shows it."""
    return Listed(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=output_schema(tool),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def result_of(outcome: Outcome, *, plain_text: bool = False) -> dict[str, Any]:
    """The tool result of an outcome, in its wire form; `plain_text` as the tool has it.

    A failure carries text alone: the TypeScript SDK holds structured content to the output schema even when the result
    says that it is an error, and would show its user a schema fault in place of ours.
    """
    text = outcome.text
    if plain_text:
        text = outcome.body["text"] if outcome.error is None else outcome.error.message
    whole: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "isError": outcome.error is not None,
        "resultType": "complete",
    }
    if outcome.error is None:
        whole["structuredContent"] = outcome.body
    return whole


class McpEndpoint:
    """The ASGI app at /mcp. It serves while `running` is entered; callers come with the request's ASGI scope."""

    def __init__(self, dispatch: Dispatch, limits: LimitsOptions, *, instructions: str, version: str) -> None:
        self._dispatch = dispatch
        self._listed = {tool.name: listed(tool) for tool in dispatch.catalogue}
        server: Server[Any] = Server(
            SERVER_NAME,
            version=version,
            instructions=instructions,
            on_list_tools=self._list_tools,
            # No tool mirrors an argument into a header, so there is no schema to check headers by. Left out, the SDK
            # would list all tools on each call to find that out.
            get_tool_input_schema=lambda name: None,
        )
        # A result that is already in its wire form is not dumped again, so this is not `on_call_tool`.
        server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        # The SDK's tracing puts names that callers made up into span names.
        server.middleware.clear()
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True, max_request_body_size=limits.request_bytes_max
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with self._manager.run():
            yield

    async def _list_tools(self, context: _Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        caller = caller_of(_request(context).scope)
        return ListToolsResult(tools=[self._listed[tool.name] for tool in self._dispatch.tools_for(caller)])

    async def _call_tool(self, context: _Context, call: CallToolRequestParams) -> dict[str, Any]:
        scope = _request(context).scope
        outcome = await self._dispatch.call(
            caller_of(scope), call.name, call.arguments, surface=SURFACE, request_id=scope[REQUEST_ID]
        )
        tool = self._dispatch.catalogue.get(call.name)
        return result_of(outcome, plain_text=tool is not None and tool.plain_text)


def _request(context: _Context) -> Request:
    if context.request is None:
        raise RuntimeError("a call came without its HTTP request")
    return context.request
