"""mcp_pipe and find_tool as clients meet them: over the SDK's client, over plain HTTP, and beside
other tenants."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memsvc.core.errors import SettingsError
from memsvc.core.scope import Permission
from memsvc.settings import Switch, ToolSettings
from tests.gateway.conftest import ORIGIN, WIRES
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
SECRET = "canary-51c07e"
COPY = {
    "vars": {"project": "p", "text": f"hello {SECRET}"},
    "steps": [
        {
            "id": "write",
            "tool": "file_write",
            "args": {"project": "${vars.project}", "path": "/a", "content": "${vars.text}"},
        },
        {
            "id": "both",
            "parallel": [
                {"id": "read", "tool": "file_read", "args": {"project": "p", "path": "/a"}},
                {"id": "stat", "tool": "file_stat", "args": {"project": "p", "path": "/a"}},
            ],
        },
        {
            "id": "copy",
            "tool": "file_write",
            "args": {
                "project": "p",
                "path": "/b",
                "content": "${steps.both.children.read.structured.content}!",
                "create_only": True,
            },
        },
    ],
    "return": {
        "copied": {"$ref": "last.structured.bytes_written"},
        "version": "${steps.write.structured.version}",
    },
}


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_lists_finds_and_runs_them(service: Service, wire: str) -> None:
    async with (
        service.http() as http,
        Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        pipe, find = tools["mcp_pipe"].annotations, tools["find_tool"].annotations
        assert pipe is not None
        assert find is not None
        assert (pipe.read_only_hint, pipe.destructive_hint, pipe.idempotent_hint) == (
            False,
            True,
            False,
        )
        assert (find.read_only_hint, find.idempotent_hint) == (True, True)
        found = (await client.call_tool("find_tool", {"query": "^file_write$"})).structured_content
        assert found == {
            "tools": [
                {
                    "name": "file_write",
                    "description": tools["file_write"].description,
                    "inputSchema": tools["file_write"].input_schema,
                }
            ]
        }
        done = await client.call_tool("mcp_pipe", {"spec": COPY})
        assert done.is_error is False
        assert done.structured_content is not None
        assert done.structured_content["result"]["copied"] == len(f"hello {SECRET}!")
        assert done.structured_content == json.loads(done.content[0].text)
        again = await client.call_tool("mcp_pipe", COPY)
    assert again.is_error is True
    told = json.loads(again.content[0].text)
    assert (told["code"], told["ok"], list(told["steps"])) == (
        "ALREADY_EXISTS",
        False,
        ["write", "both", "copy"],
    )


async def test_a_pipeline_over_plain_http_has_the_status_of_what_failed_and_a_record_a_step(
    service: Service,
) -> None:
    async with service.http() as http:
        done = await http.post(
            "/api/tools/mcp_pipe", json={"spec": json.dumps(COPY)}, headers={"X-Request-ID": "r-7"}
        )
        assert (done.status_code, done.json()["ok"]) == (200, True)
        missing = {"id": "a", "tool": "file_read", "args": {"project": "p", "path": "/nothing"}}
        failed = await http.post("/api/tools/mcp_pipe", json={"steps": [missing]})
        assert (failed.status_code, failed.json()["code"], failed.json()["steps"]["a"]["ok"]) == (
            404,
            "NOT_FOUND",
            False,
        )
    await service.calls("mcp_pipe", most=2)
    rows = await service.admin.fetch("SELECT c::text AS whole, * FROM calls c ORDER BY called_at")
    steps = [
        (row["tool"], row["surface"], row["project"]) for row in rows if row["request_id"] == "r-7"
    ]
    assert sorted(steps) == [
        ("file_read", "pipe", "p"),
        ("file_stat", "pipe", "p"),
        ("file_write", "pipe", "p"),
        ("file_write", "pipe", "p"),
        ("mcp_pipe", "rest", "*"),
    ]
    assert not [row for row in rows if SECRET in row["whole"]]


async def test_a_pipeline_reaches_what_its_key_reaches(service: Service) -> None:
    read = {"id": "a", "tool": "file_read", "args": {"project": "p", "path": "/a"}}
    async with service.http() as http:
        assert (await http.post("/api/tools/mcp_pipe", json=COPY)).status_code == 200
    reader = await service.key(
        permissions=[Permission.READ], projects=["p"], hidden_tools=["file_stat"]
    )
    async with service.http(reader) as http:
        assert (await http.post("/api/tools/mcp_pipe", json={"steps": [read]})).status_code == 200
        assert (await http.post("/api/tools/mcp_pipe", json=COPY)).status_code == 403
        hidden = await http.post(
            "/api/tools/mcp_pipe", json={"steps": [{"id": "a", "tool": "file_stat"}]}
        )
        assert (hidden.status_code, hidden.json()["message"]) == (404, "unknown tool: file_stat")
        found = await http.post("/api/tools/find_tool", json={"query": "file_stat"})
        assert "file_stat" not in {tool["name"] for tool in found.json()["tools"]}
    async with service.http("key-two") as http:
        assert (await http.post("/api/tools/mcp_pipe", json={"steps": [read]})).status_code == 404


async def test_an_operator_takes_tools_out_by_kind_or_by_name(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    without = {
        "mcp_pipe": {"enabled": False},
        "find_tool": Switch(enabled=False),
        "disabled": ["file_delete"],
    }
    options = ToolSettings.model_validate({"mcp": {"tools": without}})
    async with served(database_urls, admin, settings=options) as service, service.http() as http:
        names = {tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]}
        assert "file_write" in names
        assert not names & {"mcp_pipe", "find_tool", "file_delete"}
        for name in ("mcp_pipe", "find_tool", "file_delete"):
            assert (await http.post(f"/api/tools/{name}", json={})).status_code == 404
        assert (await http.delete("/api/files/p/content/a")).status_code == 404


async def test_a_name_that_takes_nothing_out_stops_the_start(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    options = ToolSettings.model_validate({"mcp": {"tools": {"disabled": ["file_delet"]}}})
    with pytest.raises(SettingsError, match="unknown tool file_delet; did you mean file_delete"):
        async with served(database_urls, admin, settings=options):
            pass


async def test_operators_bound_a_pipeline(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    options = ToolSettings.model_validate({"mcp": {"tools": {"mcp_pipe": {"steps_max": 1}}}})
    async with served(database_urls, admin, settings=options) as service, service.http() as http:
        refused = await http.post("/api/tools/mcp_pipe", json=COPY)
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "pipeline exceeds maximum step limit",
    )
