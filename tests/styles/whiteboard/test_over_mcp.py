"""A client of an older whiteboard server finds what it knew: the SDK's own client, a model behind
its own protocol."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, TextResourceContents
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from memsvc.adapters import model_client
from memsvc.adapters.options import ModelOptions
from tests.e2e import sdk
from tests.e2e.sdk import WIRES
from tests.endpoints import Provider, provider
from tests.gateway.conftest import ORIGIN
from tests.gateway.served import Service, served
from tests.gateway.wired import told, wired
from tests.servers import DatabaseUrls
from tests.styles.whiteboard.pages import WHO, entry, everything

pytestmark = pytest.mark.anyio
URI = "memory://alice/123"
CANARY = "xyzzy-canary-4711"


@pytest.fixture
async def model() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


@pytest.fixture
async def service(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, model: Provider
) -> AsyncIterator[Service]:
    options = ModelOptions(model="openai-chat:gpt-4", base_url=model.url, api_key="k", retries=0)
    async with served(database_urls, admin, model=options) as service:
        yield service


@asynccontextmanager
async def connected(service: Service, wire: str = "2026-07-28") -> AsyncIterator[Client]:
    async with (
        service.http() as http,
        Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
    ):
        yield client


async def update(client: Client, *entries: dict[str, Any]) -> Any:
    return await client.call_tool("context_update", WHO | {"entries": list(entries)})


async def resource(client: Client, uri: str = URI) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/plain"
    return content.text


def text_of(answer: Any) -> str:
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


def asked(model: Provider, number: int = -1) -> tuple[str, str]:
    """The system prompt and the message of a call of the model."""
    messages = model.calls[number].body["messages"]
    return messages[0]["content"], messages[-1]["content"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_from_its_first_message_to_its_deletion(
    service: Service, model: Provider, wire: str
) -> None:
    async with connected(service, wire) as client:
        assert await resource(client) == ""
        templates = (await client.list_resource_templates()).resource_templates
        kinds = {template.uri_template: template.mime_type for template in templates}
        assert kinds["memory://{user_id}/{conversation_id}"] == "text/plain"
        model.says = "Alice asked about the weather."
        answer = await update(
            client,
            entry("How is the weather?", timestamp=1767614400.5),
            entry("Fine.", "assistant"),
        )
        assert (text_of(answer), answer.structured_content, answer.is_error) == (
            "true",
            {"result": True},
            False,
        )
        assert text_of(await update(client)) == "true"
        assert await resource(client) == "Alice asked about the weather."
        system, message = asked(model)
        assert "memory manager" in system
        assert "At most about 1000 words" in system
        assert message.startswith(
            "Current memory:\nNo existing memory (start fresh).\n\nNew events:\n- user: How is"
        )
        assert "\n- assistant: Fine.\n" in message
        model.says = "Alice asked about the weather, and plans a walk."
        await update(client, entry("I will go for a walk."))
        assert "Current memory:\nAlice asked about the weather.\n" in asked(model)[1]
        assert await resource(client) == "Alice asked about the weather, and plans a walk."
        assert await resource(client, "memory://alice/1234") == ""
        prompt = await client.get_prompt("memory:whiteboard", dict(WHO))
        assert "plans a walk." in prompt.messages[0].content.text
        deleted = [
            (await client.call_tool("whiteboard_delete", WHO)).structured_content for _ in range(2)
        ]
        assert deleted == [{"deleted": True}, {"deleted": False}]
        assert await resource(client) == ""
        assert (await client.call_tool("whiteboard_get", WHO)).structured_content["exists"] is False


async def test_whoever_reads_a_board_by_rules_is_told_so(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, connected(service) as client:
        assert await resource(client) == ""
        await update(client, entry("We decided to ship on Friday."))
        found = (await client.call_tool("whiteboard_get", WHO)).structured_content
        assert found is not None
        assert (found["made_by"], "rules" in found["text"]) == ("rules", False)
        shown = (
            f"{found['text']}\n\n(Lines of the conversation that were selected by rules; no"
            " model wrote this.)"
        )
        assert await resource(client) == shown
        prompt = (await client.get_prompt("memory:whiteboard", dict(WHO))).messages[0].content
        assert isinstance(prompt, TextContent)
        assert prompt.text.endswith(shown)


async def test_the_prompt_shows_boards_of_every_project(service: Service, model: Provider) -> None:
    model.says = "The board of another project."
    there = WHO | {"project": "elsewhere"}
    async with connected(service) as client:
        await client.call_tool("context_update", there | {"entries": [entry("hello")]})
        shown = [
            (await client.get_prompt("memory:whiteboard", who)).messages[0].content
            for who in (there, WHO)
        ]
    assert [model.says in getattr(content, "text", "") for content in shown] == [True, False]


async def test_an_entry_without_a_role_is_refused(service: Service, model: Provider) -> None:
    async with connected(service) as client:
        answer = await update(client, {"content": "x"})
        assert answer.is_error
        told = json.loads(text_of(answer))
        assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
        assert "entries.0.role" in told["message"]
        assert (await client.call_tool("nope", {})).is_error
    assert model.calls == []


async def test_a_failing_model_is_told_and_the_board_stays(
    service: Service, model: Provider
) -> None:
    async with connected(service) as client:
        model.says = "The first board."
        await update(client, entry("one"))
        model.always = "broken"
        answer = await update(client, entry("two"))
        assert answer.is_error
        told = json.loads(text_of(answer))
        assert (told["code"], told["retryable"]) == ("UNAVAILABLE", True)
        assert "recovery" in told
        assert await resource(client) == "The first board."
        model.always = "fine"
        model.says = "The second board."
        await update(client, entry("two"))
        assert asked(model)[1].count("- user: two") == 1
        assert await resource(client) == "The second board."


async def test_a_board_never_grows_beyond_its_limit(service: Service, model: Provider) -> None:
    async with connected(service) as client:
        for number in range(1, 6):
            model.says = "A line of the board, one of very many.\n" * 300 * number
            await update(client, entry("more"))
            found = (await client.call_tool("whiteboard_get", WHO)).structured_content
            assert found is not None
            assert found["tokens"] <= 1500
            assert "At most about 1000 words" in asked(model)[0]


async def test_nothing_of_an_entry_is_in_any_table_or_log(
    service: Service, model: Provider, admin: asyncpg.Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    async with connected(service) as client:
        for always in ("fine", "broken", "nothing", "fine"):
            model.always = always
            sent = entry(f"{CANARY} was here", f"{CANARY}-r", type=f"{CANARY}-t")
            answer = await update(client, sent, entry("and more"))
            assert CANARY not in text_of(answer)
        assert await resource(client) == model.says
    assert CANARY in asked(model)[1]
    assert len(await service.calls("context_update", 4)) == 4
    stored = await everything(admin)
    assert model.says in stored
    assert CANARY not in stored
    printed = "".join(capfd.readouterr())
    assert "context_update" in printed
    assert CANARY not in printed


async def test_whoever_waits_for_a_board_hears_of_its_update(
    service: Service, model: Provider
) -> None:
    async with wired(service.app) as url, sdk.connected(url, "key-one") as client:
        async with client.listen(resource_subscriptions=[URI]) as subscription:
            await update(client, entry("hello"))
            assert await told(subscription) == URI
        assert await resource(client) == model.says


async def test_the_service_is_healthy(service: Service) -> None:
    async with service.http() as http:
        assert (await http.get("/healthz")).status_code == 200


def summarises(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model of pydantic-ai that counts the new events it was given."""
    prompt = str(messages[-1].parts[-1].content)
    assert info.instructions is not None
    assert "memory manager" in info.instructions
    events = prompt.partition("New events:\n")[2].count("\n- ") + 1
    return ModelResponse(parts=[TextPart(f"There were {events} events.")])


@pytest.mark.parametrize(
    ("stand_in", "text"),
    [
        (TestModel(custom_output_text="UPDATED_SUMMARY"), "UPDATED_SUMMARY"),
        (FunctionModel(summarises), "There were 2 events."),
    ],
    ids=["TestModel", "FunctionModel"],
)
async def test_the_models_of_pydantic_ai_for_tests_write_boards(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Model,
    text: str,
) -> None:
    monkeypatch.setattr(model_client, "_model", lambda *_: stand_in)
    async with (
        served(
            database_urls, admin, model=ModelOptions(model="openai:gpt-4", api_key="k")
        ) as service,
        connected(service) as client,
    ):
        assert text_of(await update(client, entry("one"), entry("two"))) == "true"
        assert await resource(client) == text


async def test_the_file_of_a_board_with_the_longest_ids_is_read_at_the_path_that_is_listed(
    service: Service, model: Provider
) -> None:
    who = {"user_id": "メ" * 42, "conversation_id": "モ" * 42}
    model.says = "They meet in Nara."
    async with connected(service) as client:
        await client.call_tool(
            "context_update", who | {"entries": [entry("We meet in Nara on Friday.")]}
        )
        listed = (await client.call_tool("whiteboard_list", {})).structured_content
        assert listed is not None
        path = listed["boards"][0]["path"]
        assert len(path) > 700
        read = (
            await client.call_tool("file_read", {"project": "default", "path": path})
        ).structured_content
        assert read is not None
        assert "Nara" in read["content"]
