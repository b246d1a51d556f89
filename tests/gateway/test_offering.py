"""What there is to read and how its names go on, with the styles as they are: files, sessions,
boards, documents."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import PromptReference, ResourceTemplateReference

from memsvc.core.scope import Permission
from memsvc.gateway.mcp import resource_handlers
from tests.e2e.sdk import WIRES, used
from tests.gateway.conftest import ORIGIN
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

FILE = "memsvc://{project}/files/{+path}"
GUIDES = ("memsvc:turn-lifecycle", "memsvc:memory-directory", "memsvc:knowledge")


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@asynccontextmanager
async def client_of(
    service: Service, key: str = "key-one", wire: str = "2026-07-28"
) -> AsyncIterator[Client]:
    async with (
        service.http(key) as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode=wire
        ) as client,
    ):
        yield client


async def fill(client: Client) -> None:
    """Two projects with something of everything."""
    await used(client, "file_write", project="default", path="/notes/a.md", content="# plans")
    await used(
        client,
        "file_write",
        project="default",
        path="/zoo.bin",
        content="AP8=",
        content_encoding="base64",
    )
    await used(client, "file_write", project="work", path="/notes/b%20.txt", content="elsewhere")
    said = [{"role": "user", "content": "My name is Ada Lovelace."}]
    await used(
        client, "memory_after_turn", session_id="s/1", user_id="ada", turn_id="t", input_items=said
    )
    entries = [{"role": "user", "content": "The launch is on Friday."}]
    await used(client, "context_update", user_id="ada", conversation_id="one", entries=entries)
    await used(
        client,
        "context_update",
        project="work",
        user_id="bob",
        conversation_id="two",
        entries=entries,
    )
    await used(client, "update_document", id="root", content="See [[topic]].")


async def listed(client: Client) -> list[str]:
    """All URIs, page by page."""
    uris: list[str] = []
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        uris += [one.uri for one in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            return uris


async def completed(
    client: Client, template: str, name: str, beginning: str, **others: str
) -> list[str]:
    reference = ResourceTemplateReference(type="ref/resource", uri=template)
    answer = await client.complete(
        reference, {"name": name, "value": beginning}, context_arguments=others or None
    )
    return answer.completion.values


@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_listed_can_be_read(service: Service, wire: str) -> None:
    async with client_of(service) as client:
        await fill(client)
    async with client_of(service, wire=wire) as client:
        uris = await listed(client)
        assert len(uris) == len(set(uris))
        assert {
            "memsvc://default/files/notes/a.md",
            "memsvc://default/files/zoo.bin",
            "memsvc://work/files/notes/b%2520.txt",
            "memsvc://default/sessions/s%2F1",
            "memsvc://default/documents/root",
            "memory://ada/one",
            "memory://bob/two?project=work",
        } <= set(uris)
        assert not [uri for uri in uris if "/files/memory" in uri or "/files/whiteboard" in uri]
        for uri in uris:
            [content] = (await client.read_resource(uri)).contents
            assert content.uri == uri


async def test_a_file_is_text_or_bytes_and_a_directory_is_a_list(service: Service) -> None:
    async with client_of(service) as client:
        await fill(client)
        [text] = (await client.read_resource("memsvc://default/files/notes/a.md")).contents
        [raw] = (await client.read_resource("memsvc://default/files/zoo.bin")).contents
        [escaped] = (await client.read_resource("memsvc://work/files/notes/b%2520.txt")).contents
        [root] = (await client.read_resource("memsvc://default/directories/")).contents
        [facts] = (await client.read_resource("memsvc://default/sessions/s%2F1/facts")).contents
        assert (text.text, text.mime_type) == ("# plans", "text/markdown")
        assert (base64.b64decode(raw.blob), raw.mime_type) == (
            b"\x00\xff",
            "application/octet-stream",
        )
        assert escaped.text == "elsewhere"
        assert '"/zoo.bin"' in root.text
        assert facts.text.startswith('{"facts":')
        for wrong in (
            "memsvc://default/files/none.md",
            "memsvc://default/files/../a.md",
            "memsvc://de%2Ffault/files/a",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)


async def test_a_list_goes_on_where_it_was(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(service) as client:
        await fill(client)
        whole = await listed(client)
        monkeypatch.setattr(resource_handlers, "PAGE", 1)
        assert await listed(client) == whole
        monkeypatch.setattr(resource_handlers, "STEPS_MAX", 1)
        assert await listed(client) == whole
        for wrong in ("nonsense", base64.b64encode(b'["default", 99, ""]').decode(), "e30="):
            with pytest.raises(MCPError) as raised:
                await client.list_resources(cursor=wrong)
            assert raised.value.error.code == -32602


async def test_nobody_is_shown_what_is_not_theirs(service: Service) -> None:
    async with client_of(service) as client:
        await fill(client)
    confined = await service.key(projects=["work"])
    blind = await service.key(hidden_tools=["file_list", "file_read"])
    writer = await service.key(permissions=[Permission.WRITE])
    async with client_of(service, "key-two") as stranger:
        assert await listed(stranger) == []
        assert await completed(stranger, FILE, "path", "notes") == []
        assert await completed(stranger, FILE, "project", "") == []
    async with client_of(service, confined) as client:
        assert {uri for uri in await listed(client) if "work" not in uri} == set()
        assert await completed(client, FILE, "project", "") == ["work"]
        assert await completed(client, FILE, "path", "notes", project="default") == []
    async with client_of(service, blind) as client:
        assert not [uri for uri in await listed(client) if "/files/" in uri]
        with pytest.raises(MCPError):
            await completed(client, FILE, "path", "notes")
    async with client_of(service, writer) as client:
        with pytest.raises(MCPError):
            await listed(client)


async def test_the_beginning_of_a_name_goes_on_as_what_is_there(service: Service) -> None:
    session, document = (
        "memsvc://{project}/sessions/{session_id}",
        "memsvc://{project}/documents/{id}",
    )
    board = "memory://{user_id}/{conversation_id}"
    cases: list[tuple[str, str, str, dict[str, str], list[str]]] = [
        (FILE, "project", "", {}, ["default", "work"]),
        (FILE, "project", "w", {}, ["work"]),
        (FILE, "project", "default", {}, ["default"]),
        (FILE, "path", "no", {}, ["notebook/root.md", "notebook/topic.md", "notes/a.md"]),
        (FILE, "path", "/no", {"project": "work"}, ["/notes/b%20.txt"]),
        (FILE, "path", "%", {}, []),
        (session, "session_id", "s", {}, ["s/1"]),
        (session, "session_id", "S", {}, []),
        (document, "id", "to", {}, ["topic"]),
        (board, "user_id", "a", {}, ["ada"]),
        (board, "conversation_id", "", {"user_id": "ada"}, ["one"]),
        (board, "conversation_id", "", {}, []),
    ]
    async with client_of(service) as client:
        await fill(client)
        for template, name, beginning, others, values in cases:
            assert await completed(client, template, name, beginning, **others) == values, (
                name,
                beginning,
            )


async def test_arguments_of_prompts_go_on_too_and_are_never_too_many(service: Service) -> None:
    async with client_of(service) as client:
        said = [{"role": "user", "content": "hello"}]
        for number in range(102):
            await used(
                client,
                "memory_after_turn",
                session_id=f"s{number:03}",
                turn_id="t",
                input_items=said,
            )
        prompt = PromptReference(type="ref/prompt", name="memsvc:turn-lifecycle")
        answer = (await client.complete(prompt, {"name": "session_id", "value": "s"})).completion
        assert (len(answer.values), answer.has_more) == (100, True)
        assert answer.values == sorted(answer.values)
        assert (
            await client.complete(prompt, {"name": "user_id", "value": "x"})
        ).completion.values == []
        for reference, argument in (
            (prompt, "none"),
            (PromptReference(type="ref/prompt", name="none"), "session_id"),
        ):
            with pytest.raises(MCPError):
                await client.complete(reference, {"name": argument, "value": ""})


async def test_looking_for_names_is_logged_as_calls_without_what_was_typed(
    service: Service,
) -> None:
    async with client_of(service) as client:
        await fill(client)
        await completed(client, FILE, "path", "notes/canary-5d1f")
    [call] = await service.calls("file_list")
    assert (call["surface"], call["status"]) == ("completion", "success")
    assert "canary" not in str(call)


@pytest.mark.parametrize("wire", WIRES)
async def test_guides_say_how_the_tools_are_used(service: Service, wire: str) -> None:
    async with client_of(service, wire=wire) as client:
        prompts = {one.name: one for one in (await client.list_prompts()).prompts}
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {
            "memsvc:turn-lifecycle",
            "memsvc:memory-directory",
            "memsvc:knowledge",
            "memory:whiteboard",
        } <= set(prompts)
        lifecycle = await client.get_prompt("memsvc:turn-lifecycle", {"session_id": "s-1"})
        text: Any = lifecycle.messages[0].content
        assert "session s-1 and user user_id" in text.text
        for name in GUIDES:
            said: Any = (await client.get_prompt(name)).messages[0].content
            named = {word.strip(".,:;()") for word in said.text.split() if "_" in word}
            assert {
                word for word in named if word.split("_")[0] in ("memory", "file", "elfmem")
            } <= tools | {"memory_directory"}
        with pytest.raises(MCPError):
            await client.get_prompt("memsvc:turn-lifecycle", {"session": "s-1"})
    hidden = await service.key(hidden_tools=["memory_after_turn"])
    async with client_of(service, hidden) as client:
        assert "memsvc:turn-lifecycle" not in {
            one.name for one in (await client.list_prompts()).prompts
        }
        with pytest.raises(MCPError):
            await client.get_prompt("memsvc:turn-lifecycle")


async def test_lists_that_do_not_change_say_how_long_they_may_be_kept(service: Service) -> None:
    async with client_of(service) as client:
        kept = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.list_resources(),
        ]
    assert [(one.ttl_ms, one.cache_scope) for one in kept] == [(60_000, "private")] * 3 + [
        (0, "private")
    ]


async def test_a_resource_that_nobody_announces_is_not_waited_for(service: Service) -> None:
    async with client_of(service) as client:
        await fill(client)
        with pytest.raises(MCPError):
            await client.subscribe_resource("memsvc://default/directories/notes")
