"""The SDK's own client, as an agent has it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

WIRES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
"""By the client's mode: the protocol version that it then speaks."""


@asynccontextmanager
async def connected(
    url: str, key: str, wire: str = "2026-07-28", timeout_s: float = 30, **callbacks: Any
) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=timeout_s) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http), mode=wire, **callbacks
        ) as client,
    ):
        yield client


async def used(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a call that has to succeed."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    body: dict[str, Any] = answer.structured_content
    return body
