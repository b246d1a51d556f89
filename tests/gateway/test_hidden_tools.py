"""A tool that a key hides is not there for it, whichever way it comes."""

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from httpx2 import AsyncClient
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceTemplateReference

from memsvc.core.scope import Permission
from memsvc.runtime import all_published
from tests.gateway.conftest import ORIGIN
from tests.gateway.served import Service, served
from tests.gateway.test_whose_memory import greeted, greeting
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


def readers_of(toolset: str) -> list[str]:
    """The tools of a toolset that read."""
    return [
        tool.name
        for tool in all_published().tools
        if tool.toolset == toolset and tool.permission is Permission.READ
    ]


ROOTS = {"turns": "/memory", "whiteboard": "/whiteboard", "notebook": "/notebook"}
SAID = "The launch is on Thursday."


async def stored_everywhere(http: AsyncClient) -> None:
    """Store the same sentence in each kind of memory that has files."""
    said = [{"role": "user", "content": SAID}]
    for tool, arguments in (
        ("memory_after_turn", {"session_id": "s", "user_id": "ada", "input_items": said}),
        ("context_update", {"user_id": "ada", "conversation_id": "c", "entries": said}),
        ("update_document", {"id": "root", "content": SAID}),
        ("elfmem_remember", {"content": SAID}),
        ("file_write", {"project": "default", "path": "/notes/a.md", "content": SAID}),
        ("file_write", {"project": "default", "path": "/zoo.md", "content": SAID}),
    ):
        assert (await http.post(f"/api/tools/{tool}", json=arguments)).is_success, tool


async def listed(http: AsyncClient, **arguments: Any) -> list[str]:
    """The paths that file_list returns, over all pages of two entries."""
    paths: list[str] = []
    cursor = ""
    while True:
        page = {"project": "default", "limit": 2, "cursor": cursor, **arguments}
        found = (await http.post("/api/tools/file_list", json=page)).json()
        paths += [one["path"] for one in found["entries"]]
        if not found["has_more"]:
            return paths
        cursor = found["next_cursor"]


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
@pytest.mark.parametrize("toolset", ["agent", "host"])
async def test_instructions_name_only_tools_that_the_key_may_call(
    service: Service, method: str, toolset: str
) -> None:
    hidden = frozenset({"memory_forget", "memory_before_turn", "elfmem_recall"})
    told = {}
    for name, key in (
        ("all", await service.key()),
        ("hidden", await service.key(hidden_tools=hidden)),
        ("reader", await service.key(permissions=frozenset({Permission.READ}))),
    ):
        async with service.http(key) as http:
            headers = greeted(method) | {"X-Memsvc-Tools": toolset}
            answer = await http.post("/mcp", json=greeting(method), headers=headers)
            told[name] = answer.json()["result"]["instructions"]
    named = {name: {*re.findall(r"[a-z]+_\w+", text)} for name, text in told.items()}
    tools = {tool.name: tool for tool in all_published().tools}
    writers = {name for name, tool in tools.items() if tool.permission is not Permission.READ}
    assert named["all"] & hidden
    assert named["all"] & writers
    assert not named["hidden"] & hidden
    assert not named["reader"] & writers
    assert {"memory_profile", "find_tool"} <= named["hidden"] & named["reader"]
    assert "\n\n\n" not in told["all"]


@pytest.mark.parametrize("hidden", ROOTS)
async def test_files_of_memory_whose_reading_tools_are_all_hidden_do_not_exist(
    service: Service, hidden: str
) -> None:
    async with service.http() as http:
        await stored_everywhere(http)
        everything = await listed(http, depth=9)
        top = await listed(http)
    root = ROOTS[hidden]
    inside = [path for path in everything if path.startswith(f"{root}/")]
    file = next(path for path in inside if path.endswith((".md", ".jsonl")))
    key = await service.key(hidden_tools=readers_of(hidden))
    async with service.http(key) as http:
        assert await listed(http, depth=9) == [
            path for path in everything if path != root and path not in inside
        ]
        assert await listed(http) == [path for path in top if path != root]
        for tool, argument in (
            ("file_read", "path"),
            ("file_stat", "path"),
            ("file_list", "path"),
            ("file_list_versions", "path"),
            ("file_search", "path_prefix"),
            *([("memory_list_dir_with_abstract", "path")] if hidden != "turns" else []),
        ):
            for path in (root, file):
                asked = {"project": "default", argument: path, "query": "launch"}
                if tool != "file_search":
                    del asked["query"]
                if tool.startswith("memory_"):
                    asked["session_id"] = "s1"
                answer = await http.post(f"/api/tools/{tool}", json=asked)
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), tool
        for method in ("GET", "HEAD"):
            answer = await http.request(method, f"/api/files/default/content{file}")
            assert answer.status_code == 404
        fetched = await http.post("/api/tools/fetch", json={"id": f"file:{file}"})
        assert fetched.json()["code"] == "NOT_FOUND"
        read = {"project": "default", "path": "/zoo.md"}
        assert (await http.post("/api/tools/file_read", json=read)).json()["content"] == SAID
    async with service.http(await service.key(hidden_tools=readers_of(hidden)[1:])) as http:
        assert await listed(http, depth=9) == everything


async def test_paths_of_hidden_memory_are_not_completed_and_its_files_are_no_resources(
    service: Service,
) -> None:
    async with service.http() as http:
        await stored_everywhere(http)
    hidden = [name for toolset in ROOTS for name in readers_of(toolset)]
    for key, expected in (
        (await service.key(), {"memory", "notebook", "notes", "whiteboard", "zoo.md"}),
        (await service.key(hidden_tools=hidden), {"notes", "zoo.md"}),
    ):
        async with (
            service.http(key) as http,
            Client(
                streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode="2026-07-28"
            ) as client,
        ):
            template = ResourceTemplateReference(
                type="ref/resource", uri="memsvc://{project}/files/{+path}"
            )
            found: set[str] = set()
            for prefix in ("", "memory/", "notebook/", "notes/", "whiteboard/", "zoo"):
                completed = await client.complete(
                    template, {"name": "path", "value": prefix}, {"project": "default"}
                )
                found |= {path.partition("/")[0] for path in completed.completion.values}
            assert found == expected


async def test_forgetting_does_not_tell_what_hidden_memory_holds(service: Service) -> None:
    async with service.http() as http:
        await stored_everywhere(http)
    hidden = [*readers_of("whiteboard"), *readers_of("knowledge")]
    asked = {"session_id": "s", "user_id": "ada", "query": "launch"}
    for key, expected in (
        (await service.key(), {"files", "whiteboard", "notebook", "knowledge"}),
        (await service.key(hidden_tools=hidden), {"files", "notebook"}),
    ):
        async with service.http(key) as http:
            found = (await http.post("/api/tools/memory_forget", json=asked)).json()
            assert {one["kind"] for one in found["also_in"]} == expected
