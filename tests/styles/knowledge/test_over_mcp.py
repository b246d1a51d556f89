"""The knowledge tools as an agent sees them over the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memsvc.settings import Settings
from tests.gateway.conftest import ORIGIN, WIRES
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(
    urls: DatabaseUrls, admin: asyncpg.Connection, wire: str, **settings: Any
) -> AsyncIterator[Client]:
    async with (
        served(urls, admin, **settings) as service,
        service.http() as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode=wire
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("wire", WIRES)
async def test_results_are_json_and_structured_errors_have_one_shape_and_the_guide_is_text(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, wire: str
) -> None:
    async with connected(database_urls, admin, wire) as client:
        kept = await client.call_tool("elfmem_remember", {"content": "Ada likes tea."})
        assert orjson.loads(kept.content[0].text) == kept.structured_content
        found = await client.call_tool("elfmem_recall", {"query": "tea"})
        assert found.structured_content is not None
        assert found.structured_content["text"] == "## Relevant Knowledge\n[1] Ada likes tea."
        refused = await client.call_tool("elfmem_recall", {"query": "tea", "frame": "bad"})
        assert refused.is_error
        assert orjson.loads(refused.content[0].text) == {
            "code": "INVALID_ARGUMENT",
            "message": "Unknown frame: 'bad'. Available: ['self', 'attention', 'task', 'simulate']",
            "retryable": False,
            "recovery": "Valid frames: 'self', 'attention', 'task', 'simulate'.",
        }
        guide = await client.call_tool("elfmem_guide", {"method": "learn"})
        assert guide.content[0].text.startswith("elfmem.learn()\n")


async def test_knowledge_can_be_switched_off(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    off = Settings.model_validate(
        {"settings": {"mcp": {"tools": {"knowledge": {"enabled": False}}}}}
    ).settings
    async with connected(database_urls, admin, "2026-07-28", settings=off) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "file_read" in names
    assert not {name for name in names if name.startswith("elfmem_")}
