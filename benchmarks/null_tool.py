"""An MCP server with one tool that does nothing, on the same SDK stack: what every call costs at
the least."""

import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from starlette.applications import Starlette

SCHEMA = {"type": "object", "additionalProperties": True}


async def _list_tools(
    _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name="null", input_schema=SCHEMA, output_schema=SCHEMA)]
    )


async def _call_tool(
    _: ServerRequestContext[Any, Any], __: types.CallToolRequestParams
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text='{"ok":true}')],
        structured_content={"ok": True},
    )


def app() -> Starlette:
    """The server as an ASGI app."""
    server: Server[Any] = Server(
        "null",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        get_tool_input_schema=lambda name: None,
    )
    return server.streamable_http_app(stateless_http=True, json_response=True)


if __name__ == "__main__":
    uvicorn.run(
        app(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="error",
    )
