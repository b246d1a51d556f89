"""What a caller that wrote something wrong is told: what was meant, what there is, and where in its
request it is."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
TURN = {"session_id": "s", "turn_id": "t", "input_items": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as running:
        yield running


async def rest(http: httpx2.AsyncClient, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = (await http.post(f"/api/tools/{tool}", json=arguments)).json()
    return body


async def mcp(
    http: httpx2.AsyncClient, tool: str, arguments: dict[str, Any], **more: Any
) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments} | more
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body: dict[str, Any] = (await http.post("/mcp", json=sent, headers=MCP)).json()
    return body


async def test_a_tool_or_an_argument_that_is_none_is_answered_with_the_nearest(
    service: Service,
) -> None:
    async with service.http() as http:
        step = {"id": "a", "tool": "file_raed", "args": {}}
        unknown = [
            await rest(http, "file_raed", {}),
            (await mcp(http, "file_raed", {}))["result"]["content"][0],
            await rest(http, "mcp_pipe", {"spec": {"steps": [step]}}),
        ]
        assert all("did you mean file_read" in str(answer) for answer in unknown)
        wrong = await rest(http, "memory_before_turn", {"sesion_id": "s", "current_input": "x"})
        assert wrong["message"].startswith("unknown argument sesion_id")
        assert wrong["recovery"].startswith("did you mean session_id? The arguments are ")
        assert "current_input" in wrong["recovery"]
        assert "did you mean" not in (await rest(http, "file_read", {"zzzzzzzz": 1}))["recovery"]


async def test_nothing_is_meant_that_the_key_does_not_see(service: Service) -> None:
    key = await service.key(hidden_tools=frozenset({"file_read"}))
    async with service.http(key) as http:
        for answer in (await rest(http, "file_raed", {}), await mcp(http, "file_raed", {})):
            assert "file_read" not in str(answer)
    async with service.http() as http:
        assert "keys_create" not in str(await mcp(http, "keys_creat", {}))
        assert "keys_create" in str(await rest(http, "keys_creat", {}))


async def test_an_output_message_without_content_is_refused_by_its_place(service: Service) -> None:
    calls = [
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function"}]},
        {"role": "assistant", "content": "said"},
    ]
    async with service.http() as http:
        for empty in (
            {"role": "assistant"},
            {"type": "message", "role": "assistant", "content": None, "id": "m"},
        ):
            body = await rest(http, "memory_after_turn", TURN | {"output_items": [*calls, empty]})
            assert (body["code"], body["retryable"]) == ("INVALID_ARGUMENT", False)
            assert body["message"].startswith("output_items[5].content is required")
        stored = await rest(http, "memory_after_turn", TURN | {"output_items": calls})
        assert (stored["ok"], stored["stored_items"]) == (True, 6)


async def test_a_body_that_is_no_json_is_told_where(service: Service) -> None:
    async with service.http() as http:
        sent = {"content": b'{"a": 1,\n "b": nul}', "headers": MCP}
        assert (
            "line 2 column" in (await http.post("/api/tools/file_read", **sent)).json()["message"]
        )
        spec = await rest(http, "mcp_pipe", {"spec": '{"steps":\n [nul]}'})
        assert "line 2 column" in spec["message"]


async def test_an_id_that_is_none_is_told_what_one_looks_like(service: Service) -> None:
    async with service.http() as http:
        body = await rest(http, "keys_revoke", {"key_id": "nonsense"})
    assert body["message"].startswith("key_id must be an id such as ")
    assert "nonsense" not in str(body)


async def test_a_version_that_is_not_spoken_is_400_and_names_those_that_are(
    service: Service,
) -> None:
    sent = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    async with service.http() as http:
        answer = await http.post(
            "/mcp", json=sent, headers=MCP | {"MCP-Protocol-Version": "1999-01-01"}
        )
    body = answer.json()
    assert (answer.status_code, body["id"], body["error"]["code"]) == (400, 7, -32022)
    assert {"2025-11-25", "2026-07-28"} <= set(body["error"]["data"]["supported"])
    assert "2025-11-25" in body["message"]


@pytest.mark.parametrize("version", [{}, {"MCP-Protocol-Version": "2026-07-28"}])
async def test_a_batch_is_refused_in_a_sentence(service: Service, version: dict[str, str]) -> None:
    async with service.http() as http:
        answer = await http.post(
            "/mcp", json=[{"jsonrpc": "2.0", "id": 1, "method": "ping"}], headers=MCP | version
        )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    assert "send one message" in answer.json()["message"]
    assert len(answer.content) < 500


async def test_a_resource_that_is_not_there_is_named(service: Service) -> None:
    sent = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "resources/read",
        "params": {"uri": "memory://none/of/these/there"},
    }
    async with service.http() as http:
        error = (await http.post("/mcp", json=sent, headers=MCP)).json()["error"]
    assert error["data"]["uri"] == "memory://none/of/these/there"


async def test_responses_to_questions_that_are_null_are_refused(service: Service) -> None:
    arguments = {"project": "p", "path": "/"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "file_stat", "arguments": arguments, "_meta": meta, "inputResponses": None}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    named = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "file_stat",
    }
    async with service.http() as http:
        error = (await http.post("/mcp", json=sent, headers=MCP | named)).json()["error"]
    assert (error["code"], "inputResponses" in error["message"]) == (-32602, True)
