"""The tools that a client lists, by sets; all others can be called all the same."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memsvc.core.tools import TOOLSETS
from memsvc.settings import Settings
from tests.gateway.conftest import ORIGIN, WIRES
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
AGENT = [
    "memory_before_turn",
    "memory_after_turn",
    "memory_profile",
    "memory_run_maintenance",
    "memory_list_dir_with_abstract",
    "memory_correct_fact",
    "memory_forget",
    "find_tool",
    "mcp_pipe",
    "file_read",
    "file_list",
    "file_write",
    "file_search",
]
WIRE = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


async def listed(
    service: Service, query: str = "", header: str | None = None, key: str = "key-one"
) -> list[str]:
    headers = WIRE | ({} if header is None else {"X-Memsvc-Tools": header})
    async with service.http(key) as http:
        answer = await http.post(f"/mcp{query}", json=LIST, headers=headers)
    return [tool["name"] for tool in answer.json()["result"]["tools"]]


@pytest.mark.parametrize("wire", WIRES)
async def test_agents_list_a_handful_and_may_call_the_others(service: Service, wire: str) -> None:
    async with (
        service.http() as http,
        Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == AGENT
        step: dict[str, Any] = {"id": "s", "tool": "elfmem_status", "args": {}}
        found = await client.call_tool("find_tool", {"query": "elfmem_status"})
        called = await client.call_tool("elfmem_status", {})
        piped = await client.call_tool("mcp_pipe", {"steps": [step]})
    assert found.structured_content is not None
    assert found.structured_content["tools"][0]["name"] == "elfmem_status"
    assert not called.is_error
    assert piped.structured_content is not None
    assert piped.structured_content["ok"]


async def test_documentation_counts_the_tools_that_are_listed(service: Service) -> None:
    page = (Path(__file__).parents[2] / "docs/tools.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| [\d,]+ \| (.*?) \|$", page, re.MULTILINE)
    assert {toolset for toolset, _, _ in rows} == set(TOOLSETS)
    for toolset, count, names in rows:
        if toolset == "admin":  # listed where settings.mcp.tools.admin.over_mcp is on
            continue
        tools = await listed(service, f"?tools={toolset}")
        assert len(tools) == int(count), toolset
        if toolset != "all":
            assert tools == re.findall(r"`(\w+)`", names.partition(";")[0])


async def test_the_header_wins_over_the_query_and_it_over_the_key(service: Service) -> None:
    key = await service.key(toolsets=["notebook"])
    assert "read_document" in await listed(service, key=key)
    assert "file_read" not in await listed(service, key=key)
    assert set(await listed(service, "?tools=files", key=key)) >= {"file_read", "file_stat"}
    asked = await listed(service, "?tools=files", " agent, whiteboard", key=key)
    assert asked[: len(AGENT)] == AGENT
    assert "whiteboard_get" in asked
    assert "file_stat" not in asked


async def test_every_set_is_a_part_of_all_and_turns_come_first(service: Service) -> None:
    everything = await listed(service, "?tools=all")
    for name in TOOLSETS:
        part = await listed(service, f"?tools={name}")
        assert part == [tool for tool in everything if tool in part]
    turns = await listed(service, "?tools=turns")
    assert all(tool.startswith("memory") for tool in turns)
    assert everything[: len(turns) + 2] == [*turns, "find_tool", "mcp_pipe"]


async def test_a_set_lists_no_tool_that_agents_may_not_see(service: Service) -> None:
    assert await listed(service, "?tools=admin") == []
    hidden = await service.key(hidden_tools=["file_read"])
    assert "file_read" not in await listed(service, "?tools=files", key=hidden)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_an_unknown_set_is_named_with_those_that_there_are(
    service: Service, path: str
) -> None:
    async with service.http() as http:
        if path == "/sse":
            answer = await http.get(f"{path}?tools=agent,flies", headers=WIRE)
        else:
            answer = await http.post(f"{path}?tools=agent,flies", json=LIST, headers=WIRE)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (400, "INVALID_ARGUMENT")
    assert body["message"].startswith("unknown toolset flies; the toolsets are agent, host, turns")
    assert "files" in body["recovery"]
    if path == "/mcp":
        assert (body["id"], body["error"]["code"]) == (7, -32602)


async def test_the_setting_is_what_clients_list_that_name_nothing(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    settings = Settings.model_validate({"settings": {"mcp": {"toolset": "files, whiteboard"}}})
    async with served(database_urls, admin, settings=settings.settings) as service:
        names = await listed(service)
    assert {name.partition("_")[0] for name in names} == {"file", "context", "whiteboard"}
