"""What the conformance suite looks for is on a server that its fixtures were added to, and answers
as the suite wants; no other server has it."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    TextContent,
)

from memsvc.app import opened
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.call_accounting import AuditOptions
from memsvc.gateway.rest import Draining
from memsvc.settings import Settings
from memsvc.worker import WorkerOptions
from tests.conformance.serve import install
from tests.e2e.sdk import WIRES
from tests.gateway.served import Service, served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
"""The suite asks for what the newest version of the protocol has given up."""


@asynccontextmanager
async def conforming(
    urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Service, str]]:
    """A service with the fixtures, and where it is."""
    install(monkeypatch.setattr)
    quick = AuditOptions(flush_every_s=0.02, batch_records=1)
    draining = Draining()
    async with (
        opened(
            Settings(
                auth=AuthOptions(mode="open"), worker=WorkerOptions(enabled=False), audit=quick
            ),
            urls.app,
            draining,
        ) as app,
        app.asgi.router.lifespan_context(app.asgi),
        wired(app.asgi) as url,
    ):
        yield Service(app.asgi, app.database, admin), url
        draining.start()


async def elicited(_: Any, asked: Any) -> ElicitResult:
    """A user who fills in every form."""
    known = {
        "name": "Alice",
        "color": "blue",
        "ok": True,
        "context": "c",
        "username": "alice",
        "email": "a@b.c",
    }
    fields = asked.requested_schema["properties"]
    return ElicitResult(
        action="accept", content={name: known[name] for name in fields if name in known}
    )


async def sampled(_: Any, __: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", model="m", content=TextContent(text="Paris"))


async def rooted(_: Any) -> ListRootsResult:
    return ListRootsResult(roots=[])


@asynccontextmanager
async def able(url: str, wire: str) -> AsyncIterator[Client]:
    """A client that can do all that a server may ask for."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer key-one"}, timeout=30) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode=wire,
            elicitation_callback=elicited,
            sampling_callback=sampled,
            list_roots_callback=rooted,
        ) as client,
    ):
        yield client


async def kinds(client: Client, tool: str, **arguments: Any) -> list[str]:
    return [content.type for content in (await client.call_tool(tool, arguments)).content]


async def said(client: Client, tool: str, **arguments: Any) -> str:
    [content] = (await client.call_tool(tool, arguments)).content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("wire", WIRES)
async def test_fixtures_answer_as_the_suite_wants(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    wire: str,
) -> None:
    told: list[float] = []

    async def hear(done: float, _: float | None, __: str | None) -> None:
        told.append(done)

    async with (
        conforming(database_urls, admin, monkeypatch) as (service, url),
        able(url, wire) as client,
    ):
        assert (
            await said(client, "test_simple_text") == "This is a simple text response for testing."
        )
        assert await kinds(client, "test_image_content") == ["image"]
        assert await kinds(client, "test_audio_content") == ["audio"]
        assert await kinds(client, "test_multiple_content_types") == ["text", "image", "resource"]
        assert (await client.call_tool("test_error_handling", {})).is_error
        await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
        assert told == [0, 50, 100]
        [text] = (await client.read_resource("test://static-text")).contents
        [raw] = (await client.read_resource("test://static-binary")).contents
        [templated] = (await client.read_resource("test://template/123/data")).contents
        assert (text.mime_type, '"id":"123"' in templated.text) == ("text/plain", True)
        assert base64.b64decode(raw.blob).startswith(b"\x89PNG")
        with pytest.raises(MCPError):
            await client.read_resource("test://none")
        prompt = await client.get_prompt(
            "test_prompt_with_arguments", {"arg1": "one", "arg2": "two"}
        )
        assert "arg1='one', arg2='two'" in str(prompt.messages[0].content)
        reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        assert (
            await client.complete(reference, {"name": "arg1", "value": "x"})
        ).completion.values == []
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert schemas["json_schema_2020_12_tool"]["$defs"]["address"]["$anchor"] == "addressDef"
        [call] = await service.calls("test_simple_text")
        assert (call["status"], call["surface"]) == ("success", "mcp")


async def test_a_server_of_the_newer_wire_says_what_is_missing(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        conforming(database_urls, admin, monkeypatch) as (_, url),
        able(url, "2026-07-28") as client,
    ):
        for name in ("elicitation", "sampling", "list_roots", "multiple_inputs", "multi_round"):
            assert await said(client, f"test_input_required_result_{name}")
        assert "state-ok" in await said(client, "test_input_required_result_request_state")
        with pytest.raises(MCPError) as raised:
            await client.session.call_tool(
                "test_input_required_result_tampered_state", {}, request_state="tampered_state:0.00"
            )
        assert raised.value.error.code == -32602


async def test_no_other_server_has_a_fixture(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin) as service,
        wired(service.app) as url,
        able(url, "2026-07-28") as client,
    ):
        assert not [
            tool for tool in (await client.list_tools()).tools if tool.name.startswith("test_")
        ]
        assert (await client.call_tool("test_simple_text", {})).is_error
        with pytest.raises(MCPError):
            await client.read_resource("test://static-text")
