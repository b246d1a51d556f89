"""MCP by the SDK's own client, on both wires."""

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import structlog
from mcp import MCPError
from pydantic import BaseModel

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.dispatch import Catalogue
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.schemas import input_schema, listed_output_schema, output_schema, plain
from memsvc.package_files import version
from memsvc.runtime import instructions
from memsvc.store.calls import CallFilter, list_calls
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key
from tests.fakes import FakeClock
from tests.gateway.catalogue import CANARY, catalogue
from tests.gateway.conftest import WIRES, Gateway, Running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", WIRES)]


@pytest.fixture
def lines() -> Iterator[io.BytesIO]:
    """Everything that is logged, as it would stand on stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    file = io.BytesIO()
    configure_logging("debug", file)
    structlog.configure(cache_logger_on_first_use=False)
    yield file
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


async def test_a_server_tells_who_it_is_and_what_it_can_do(gateway: Gateway, wire: str) -> None:
    async with gateway.client(wire) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        if wire == "legacy":
            assert client.protocol_version == "2025-11-25"
            assert (client.server_info.name, client.server_info.version) == ("memsvc", version())
            assert client.instructions == instructions()
    assert set(tools) == {"echo", "crash", "refuse", "garble", "write"}
    echo, write = tools["echo"], tools["write"]
    assert (echo.title, echo.description) == ("Echo", "To echo")
    assert echo.annotations is not None
    assert write.annotations is not None
    assert echo.annotations.model_dump() == {
        "title": "Echo",
        "read_only_hint": True,
        "destructive_hint": False,
        "idempotent_hint": True,
        "open_world_hint": False,
    }
    assert write.annotations.read_only_hint is False


async def test_the_automatic_client_takes_the_newer_wire(gateway: Gateway, wire: str) -> None:
    async with gateway.client("auto") as client:
        assert client.protocol_version == "2026-07-28"
        assert (client.server_info.name, client.instructions) == ("memsvc", instructions())
        assert wire in WIRES


async def test_success_is_text_and_the_same_object(gateway: Gateway, wire: str) -> None:
    given = {"text": "メモ", "items": [{"a": [1, 2.5, None, True]}], "parts": [{"title": "t"}]}
    async with gateway.client(wire) as client:
        answer = await client.call_tool("echo", given)
    assert answer.is_error is False
    assert answer.structured_content == given | {
        "project": "default",
        "parts": [{"title": "t", "tags": None}],
    }
    [content] = answer.content
    assert json.loads(content.text) == answer.structured_content


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("nothing", {}, "NOT_FOUND"),
        ("disabled", {}, "NOT_FOUND"),
        ("echo", {"count": "x"}, "INVALID_ARGUMENT"),
        ("echo", {"odd": 1}, "INVALID_ARGUMENT"),
        ("refuse", {}, "RESOURCE_BUSY"),
        ("crash", {}, "INTERNAL_ERROR"),
        ("garble", {}, "INTERNAL_ERROR"),
    ],
)
async def test_failure_is_text_in_the_one_shape(
    gateway: Gateway, wire: str, name: str, arguments: dict[str, Any], code: str
) -> None:
    async with gateway.client(wire) as client:
        await client.list_tools()
        answer = await client.call_tool(name, arguments)
    assert answer.is_error is True
    body = json.loads(answer.content[0].text)
    assert (body["code"], body["retryable"]) == (code, code == "RESOURCE_BUSY")
    assert answer.structured_content is None


async def test_a_tool_of_plain_text_tells_its_text_or_its_error_and_no_json(
    running: Running, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Catalogue(replace(tool, text_member="text", bare_errors=True) for tool in catalogue())
    monkeypatch.setattr("tests.gateway.conftest.catalogue", lambda: tools)
    async with running() as gateway, gateway.client(wire) as client:
        answer = await client.call_tool("echo", {"text": "two\nlines"})
        refused = await client.call_tool("refuse", {})
        invalid = await client.call_tool("echo", {"count": "x"})
    assert answer.content[0].text == "two\nlines"
    assert answer.structured_content == {
        "project": "default",
        "text": "two\nlines",
        "items": [],
        "parts": [],
    }
    assert (refused.is_error, refused.content[0].text) == (True, "somebody else is at it")
    assert (invalid.is_error, invalid.content[0].text) == (True, "count must be a whole number")


async def test_what_a_tool_chokes_on_is_told_nowhere(
    running: Running, wire: str, lines: io.BytesIO, database: Database, scope: Any
) -> None:
    async with running() as gateway, gateway.client(wire) as client:
        answers = [
            await client.call_tool("crash", {"text": CANARY}),
            await client.call_tool("echo", {"count": CANARY}),
            await client.call_tool(
                "echo", {"first": {"title": 1, "odd": CANARY}, "plugin": CANARY}
            ),
            await client.call_tool("echo", {"items": CANARY}),
            await client.call_tool("garble", {"text": CANARY}),
        ]
        await gateway.call_log.flush()
        assert CANARY not in repr(answers)
        assert CANARY not in gateway.metrics.text().decode()
    logged = lines.getvalue().decode()
    assert CANARY not in logged
    crash = next(
        line
        for line in map(json.loads, logged.splitlines())
        if line["event"] == "a tool call failed because of an internal error"
    )
    assert crash["error"] == "RuntimeError"
    assert any(
        "tests.gateway.catalogue" in place and place.endswith(" crash") for place in crash["at"]
    )
    async with database.begin_tenant(
        type(scope)(hash_key("key-one"), "default"), read_only=True
    ) as tx:
        records = (await list_calls(tx, CallFilter(), after=None, limit=100)).calls
    assert len(records) == 5
    assert CANARY not in repr(records)


@pytest.mark.parametrize(
    "body",
    [
        b"{" + CANARY.encode(),
        b'"' + CANARY.encode() + b'"',
        b'[{"canary-7f3a91": 1}]',
        b'{"jsonrpc":"2.0","id":"canary-7f3a91","method":"canary-7f3a91"}',
        b'{"jsonrpc":"2.0","id":{"canary-7f3a91":1},"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["canary-7f3a91"]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"canary-7f3a91"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":["canary-7f3a91"]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":["canary-7f3a91"]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"canary-7f3a91":1}}',
    ],
)
async def test_a_message_that_is_not_one_leaves_no_trace_in_the_log(
    running: Running, wire: str, lines: io.BytesIO, body: bytes
) -> None:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25" if wire == "legacy" else wire,
    }
    async with running() as gateway, gateway.http() as http:
        answer = await http.post(
            "/mcp", content=body, headers=headers | {"Mcp-Method": "tools/call"}
        )
    assert answer.status_code < 500
    assert CANARY not in lines.getvalue().decode()


async def test_a_key_hides_tools_from_itself(
    running: Running, wire: str, database: Database, clock: FakeClock
) -> None:
    made = await create_key(
        database, "narrow", clock.now(), hidden_tools=["crash"], projects=["mine"]
    )
    async with running() as gateway, gateway.client(wire, made.text) as client:
        assert "crash" not in {tool.name for tool in (await client.list_tools()).tools}
        assert (
            json.loads((await client.call_tool("crash", {})).content[0].text)["code"] == "NOT_FOUND"
        )
        assert (
            json.loads((await client.call_tool("echo", {"project": "other"})).content[0].text)[
                "code"
            ]
            == "PERMISSION_DENIED"
        )
        # a key of one project need not name it
        assert (await client.call_tool("echo", {})).is_error is False
        assert (await client.call_tool("echo", {"project": "mine"})).is_error is False


async def test_an_unknown_key_cannot_connect_where_keys_are_listed(
    running: Running, wire: str
) -> None:
    async with running(AuthOptions(), host="0.0.0.0") as gateway:
        with pytest.raises((MCPError, ExceptionGroup)) as raised:
            async with gateway.client(wire) as client:
                await client.list_tools()
    told = raised.value
    while isinstance(told, ExceptionGroup):
        told = told.exceptions[0]
    assert "this API key is unknown" in str(told)


class Branch(BaseModel):
    branches: list["Branch"] = []


async def test_schemas_can_be_read_by_every_client(wire: str) -> None:
    assert wire in WIRES
    for tool in catalogue():
        for schema in (input_schema(tool), output_schema(tool), listed_output_schema(tool)):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert not {"$ref", "$defs"} & set(_keywords(schema))
            assert all("items" in part for part in _parts(schema) if part.get("type") == "array")
    schema = input_schema(next(iter(catalogue())))
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]["parts"]["items"]["properties"]) == {"title", "tags"}
    shown = listed_output_schema(next(iter(catalogue())))["properties"]["parts"]["items"]
    assert shown == {"type": "object", "description": "title\ntags"}  # of each, nothing is checked
    with pytest.raises(ValueError, match="Branch refers to itself"):
        plain(Branch.model_json_schema())


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for part in (
        schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    ):
        yield from _parts(part)


def _keywords(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        yield from part
