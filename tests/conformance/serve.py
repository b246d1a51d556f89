"""`memsvc serve` with the fixtures of the official suite, on the endpoint that users get."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from mcp_types import Tool as Listed

from memsvc import app, runtime, start
from memsvc.core.tools import Published, Tool
from memsvc.gateway.mcp import http, server
from memsvc.gateway.mcp.server import McpServer
from memsvc.settings import Settings
from tests.conformance import handlers


def _published(*parts: Any) -> Published:
    base = runtime.published(*parts)
    return replace(base, tools=[*base.tools, *handlers.tools()])


def _build_runtime(
    settings: Settings, app_url: str, host: str
) -> AbstractAsyncContextManager[runtime.Runtime]:
    return runtime.build_runtime(settings, app_url, host, _published)


class _Server(McpServer):
    """The server, which answers for the fixtures too."""

    def __init__(self, config: Any, sender_of: Any, *, sessions: bool = False) -> None:
        super().__init__(config, sender_of, sessions=sessions)
        handlers.install(self.sdk, config.dispatch, sender_of, self._elicitation)


def _listed(tool: Tool, own: frozenset[str]) -> Listed:
    entry = listed(tool, own)
    fixture = handlers.ALL.get(tool.name)
    if fixture is not None:
        entry.input_schema, entry.output_schema = fixture.schema, None
    return entry


listed = server.listed


def install(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Put the fixtures beside the tools of this process."""
    for module, name, value in (
        (app, "build_runtime", _build_runtime),
        (http, "McpServer", _Server),
        (server, "listed", _listed),
    ):
        put(module, name, value)


if __name__ == "__main__":
    install()
    sys.argv = ["memsvc", *sys.argv[1:]]
    start.main()
