"""The server card (SEP-2127), from which clients learn about a server before they connect.

It needs no key."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memsvc.core.options import Options

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
MEDIA_TYPE: Final = "application/mcp-server-card+json"
PATHS: Final = ("/mcp/server-card", "/.well-known/mcp/server-card.json")
"""Path of the extension, and the one before it."""
HEADERS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Cache-Control": "public, max-age=3600",
}
NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
DESCRIPTION: Final = (
    "Memory for agents: turns, facts, files, whiteboards, a notebook and knowledge."
)


class ServerCardOptions(Options):
    """Options of the server card, a public JSON document that tells MCP clients about the server.

    Anyone can read the card without a key. To publish it, set `mcp_url`."""

    mcp_url: str = Field("", description="public URL of /mcp; empty: no server card")
    name: str = Field(
        "",
        description="name of the server: a domain that you own, in reverse order, then a slash and"
        " a name, such as com.example/memory",
    )
    title: str = Field(
        "memsvc", max_length=100, description="name of the server, as shown to people"
    )

    @model_validator(mode="after")
    def _whole(self) -> "ServerCardOptions":
        if self.mcp_url and not self.mcp_url.startswith(("https://", "http://")):
            raise ValueError("server_card.mcp_url must begin with https:// or http://")
        if "@" in self.mcp_url:
            raise ValueError("server_card.mcp_url is public and must not contain credentials")
        if self.mcp_url and not NAME.fullmatch(self.name):
            raise ValueError(
                "server_card.name must be a domain in reverse order, then a slash and a"
                " name, such as com.example/memory"
            )
        return self


def routes(
    options: ServerCardOptions, version: str, protocol_versions: Sequence[str]
) -> list[Route]:
    """Return the routes of the card; none without a URL."""
    if not options.mcp_url:
        return []
    key = {
        "name": "Authorization",
        "description": "Bearer, a space and an API key",
        "isRequired": True,
        "isSecret": True,
    }
    remote = {
        "type": "streamable-http",
        "url": options.mcp_url,
        "headers": [key],
        "supportedProtocolVersions": list(protocol_versions),
    }
    card = {
        "$schema": SCHEMA,
        "name": options.name,
        "title": options.title,
        "version": version,
        "description": DESCRIPTION,
        "remotes": [remote],
    }

    async def send_card(_: Request) -> Response:
        return JSONResponse(card, headers=HEADERS, media_type=MEDIA_TYPE)

    return [Route(path, send_card, methods=["GET"]) for path in PATHS]
