"""A tool that a key hides is not there for it, whichever way it comes."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from memsvc.core.scope import Permission
from memsvc.runtime import all_published
from tests.gateway.conftest import ORIGIN
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
HIDDEN = ["whiteboard_get", "file_write", "memories_add"]


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


async def test_it_is_in_no_list_and_answers_no_call_over_http(service: Service) -> None:
    async with service.http(await service.key(hidden_tools=HIDDEN)) as http:
        listed = {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]}
        assert not listed & {*HIDDEN}
        assert "file_read" in listed
        told = (await http.get("/api/openapi.json")).text
        assert not any(name in told for name in HIDDEN)
        assert "file_read" in told
        content = {"project": "default", "path": "/a", "content": "x"}
        assert (await http.post("/api/tools/file_write", json=content)).status_code == 404
        assert (await http.put("/api/files/default/content/a", content=b"x")).status_code == 404
        assert (
            await http.post("/api/memories", json={"user_id": "u", "messages": []})
        ).status_code == 404
        found = await http.post(
            "/api/tools/find_tool", json={"query": "write a file, read a whiteboard"}
        )
        assert not any(f'"{name}"' in found.text for name in HIDDEN)


async def test_tools_that_a_key_lacks_the_permission_for_are_not_listed_and_are_refused(
    service: Service,
) -> None:
    key = await service.key(permissions=frozenset({Permission.READ}))
    async with (
        service.http(key) as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode="2026-07-28"
        ) as client,
    ):
        tools = (await http.get("/api/tools")).json()["tools"]
        listed = {tool["name"] for tool in tools}
        assert {"file_read", "search"} <= listed
        mcp_listed = {tool.name for tool in (await client.list_tools()).tools}
        assert mcp_listed <= listed
        told = (await http.get("/api/openapi.json")).text
        query = {"query": "write a file", "mode": "bm25"}
        found = (await http.post("/api/tools/find_tool", json=query)).text
        for name in ("file_write", "memories_add", "keys_create"):
            assert name not in listed
            assert f"/api/tools/{name}" not in told
            assert f'"{name}"' not in found
        for tool in all_published().tools:
            if tool.name in listed:
                assert tool.permission is Permission.READ, tool.name
        content = {"project": "default", "path": "/a", "content": "x"}
        refused = await http.post("/api/tools/file_write", json=content)
        assert (refused.status_code, refused.json()["code"]) == (403, "PERMISSION_DENIED")


async def test_it_is_no_step_of_a_pipeline(service: Service) -> None:
    step = {
        "id": "w",
        "tool": "file_write",
        "args": {"project": "default", "path": "/a", "content": "x"},
    }
    async with service.http(await service.key(hidden_tools=HIDDEN)) as http:
        answer = await http.post("/api/tools/mcp_pipe", json={"spec": {"steps": [step]}})
        assert "unknown tool" in answer.text
        assert await service.admin.fetchval("SELECT count(*) FROM files") == 0


async def test_it_is_no_tool_resource_prompt_or_completion_over_mcp(service: Service) -> None:
    key = await service.key(hidden_tools=HIDDEN)
    async with (
        service.http(key) as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode="2026-07-28"
        ) as client,
    ):
        assert not {tool.name for tool in (await client.list_tools()).tools} & {*HIDDEN}
        outcome: Any = await client.call_tool(
            "file_write", {"project": "default", "path": "/a", "content": "x"}
        )
        assert outcome.is_error
        assert "Unknown tool" in outcome.content[0].text
        assert "did you mean" not in outcome.content[0].text
        templates = (await client.list_resource_templates()).resource_templates
        assert not any(template.uri_template.startswith("memory://") for template in templates)
        with pytest.raises(MCPError):
            await client.read_resource("memory://alice/1")
        assert not any(
            "whiteboard" in prompt.name for prompt in (await client.list_prompts()).prompts
        )
        with pytest.raises(MCPError):
            await client.get_prompt(
                "memory:whiteboard", {"user_id": "alice", "conversation_id": "1"}
            )


@pytest.mark.parametrize(
    ("hidden", "wrapper"),
    [
        ("memory_before_turn", "memory_run_turn"),
        ("memory_after_turn", "memory_commit_turn"),
    ],
)
async def test_tool_that_wraps_a_hidden_one_is_hidden(
    service: Service, hidden: str, wrapper: str
) -> None:
    async with service.http(await service.key(hidden_tools=[hidden])) as http:
        listed = {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]}
        assert not listed & {hidden, wrapper}
        arguments = {"current_input": "hello", "operation_token": "x"}
        step = {"id": "s", "tool": wrapper, "args": arguments}
        found = {"query": wrapper, "return_references_only": True}
        assert (await http.post(f"/api/tools/{wrapper}", json=arguments)).status_code == 404
        piped = await http.post("/api/tools/mcp_pipe", json={"spec": {"steps": [step]}})
        assert "unknown tool" in piped.text
        assert f'"{wrapper}"' not in (await http.post("/api/tools/find_tool", json=found)).text
    async with service.http(await service.key(hidden_tools=[wrapper])) as http:
        listed = {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]}
        assert listed & {hidden, wrapper} == {hidden}


@pytest.mark.parametrize("tool", ["memory_before_turn", "memory_run_turn"])
@pytest.mark.parametrize(
    ("source", "hidden"),
    [("files", "file_search"), ("whiteboard", "whiteboard_get"), ("notebook", "search_documents")],
)
async def test_recall_from_a_source_is_refused_where_its_search_is_hidden(
    service: Service, tool: str, source: str, hidden: str
) -> None:
    asked = {"current_input": "hello", "user_id": "ada", "sources": ["facts", source]}
    async with service.http(await service.key(hidden_tools=[hidden])) as http:
        refused = await http.post(f"/api/tools/{tool}", json=asked)
        assert (refused.status_code, refused.json()["code"]) == (403, "PERMISSION_DENIED")
        assert hidden in refused.json()["message"]
        assert (
            await http.post(f"/api/tools/{tool}", json=asked | {"sources": ["facts"]})
        ).is_success
    async with service.http() as http:
        assert (await http.post(f"/api/tools/{tool}", json=asked)).is_success


async def test_administrative_tools_are_for_rest_and_not_for_agents(service: Service) -> None:
    async with (
        service.http() as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode="2026-07-28"
        ) as client,
    ):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert not {name for name in names if name.startswith(("keys_", "calls_"))}
        outcome = await client.call_tool("keys_create", {})
        assert outcome.is_error
        made = (await http.post("/api/tools/keys_create", json={"label": "by rest"})).json()
        listed = {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]}
        assert {"keys_create", "calls_list"} <= listed
    [call] = await service.calls("keys_create")
    assert call["arguments"] == {"label": {"redacted": True, "bytes": 7}}
    rows = await service.admin.fetch("SELECT c::text FROM calls AS c")
    assert made["text"] not in str(rows)
