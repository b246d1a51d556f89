"""The notebook by the SDK's own client: the answers and the errors of structured-memory, string by
string."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from memsvc.settings import Settings
from tests.gateway.conftest import ORIGIN, WIRES
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
TEMPLATE = "# Notes\n"


@dataclass
class Agent:
    """An agent with a notebook."""

    client: Client

    async def __call__(self, tool: str, **arguments: Any) -> str:
        """The text of an answer: one content, and no error."""
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error is False
        (content,) = answer.content
        assert content.type == "text"
        return str(content.text)

    async def error(self, tool: str, **arguments: Any) -> tuple[int, str, Any]:
        """The code, message and data of the error of the protocol that a call comes to."""
        with pytest.raises(MCPError) as refused:
            await self.client.call_tool(tool, arguments)
        return refused.value.error.code, refused.value.error.message, refused.value.error.data


@asynccontextmanager
async def connected(
    urls: DatabaseUrls, admin: asyncpg.Connection, wire: str, **settings: Any
) -> AsyncIterator[Agent]:
    async with (
        served(urls, admin, **settings) as service,
        service.http() as http,
        Client(
            streamable_http_client(f"{ORIGIN}/mcp?tools=all", http_client=http), mode=wire
        ) as client,
    ):
        yield Agent(client)


@pytest.fixture
async def agent(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Agent]:
    async with connected(database_urls, admin, "2026-07-28") as agent:
        yield agent


@pytest.mark.parametrize("wire", WIRES)
async def test_answers_and_errors_are_the_same_on_both_wires(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, wire: str
) -> None:
    async with connected(database_urls, admin, wire) as agent:
        assert await agent("update_document", content="[[a]]") == "Succeeded\nCreated: a"
        code, message, data = await agent.error("read_document", id="b")
        assert (code, message, data["id"]) == (-32602, "Error: id: not found", "b")


async def test_without_an_id_the_root_is_read_and_it_is_the_template(agent: Agent) -> None:
    assert await agent("read_document") == TEMPLATE
    assert await agent("read_document", id=None) == TEMPLATE


async def test_a_document_is_read_by_its_id(agent: Agent) -> None:
    await agent("update_document", content="[[doc]]")
    await agent("update_document", id="doc", content="what it holds")
    assert await agent("read_document", id="doc") == "what it holds"


async def test_a_document_that_is_not_there_is_not_found(agent: Agent) -> None:
    code, message, data = await agent.error("read_document", id="nonexistent")
    assert (code, message, data["id"]) == (-32602, "Error: id: not found", "nonexistent")


async def test_markdown_is_read_as_it_was_written(agent: Agent) -> None:
    text = "# T\n\n- a\n  - b\n\n```rust\nfn main() {}\n```\n| x | y |\n|---|---|\n> メモ\r\n\n\n"
    await agent("update_document", content=text)
    assert await agent("read_document") == text


async def test_the_root_is_written_without_an_id(agent: Agent) -> None:
    assert await agent("update_document", content="# New root\n") == "Succeeded"
    assert await agent("read_document", id="root") == "# New root\n"


async def test_a_document_is_written_by_its_id(agent: Agent) -> None:
    await agent("update_document", content="[[specific_doc]]")
    assert await agent("update_document", id="specific_doc", content="# Specific") == "Succeeded"
    assert await agent("read_document", id="specific_doc") == "# Specific"


async def test_links_make_documents(agent: Agent) -> None:
    answer = await agent("update_document", content="# Root\n[[child_doc1]] and [[child_doc2]]")
    assert answer == "Succeeded\nCreated: child_doc1, child_doc2"
    assert await agent("read_document", id="child_doc1") == "# child_doc1\n\n"


async def test_success_tells_what_was_made_only_when_something_was(agent: Agent) -> None:
    assert await agent("update_document", content="nothing linked") == "Succeeded"
    assert await agent("update_document", content="[[one]]") == "Succeeded\nCreated: one"
    assert await agent("update_document", content="[[one]] again") == "Succeeded"


async def test_a_document_that_is_not_there_cannot_be_written(agent: Agent) -> None:
    code, message, data = await agent.error("update_document", id="nonexistent", content="x")
    assert (code, message, data["id"]) == (-32602, "Error: id: not found", "nonexistent")


async def test_a_link_to_a_child_of_another_document_is_refused(agent: Agent) -> None:
    await agent("update_document", content="[[parent1]] [[parent2]]")
    await agent("update_document", id="parent1", content="[[child1]]")
    await agent("update_document", id="parent2", content="[[child2]]")
    code, message, data = await agent.error("update_document", id="child1", content="[[child2]]")
    assert (code, message) == (-32602, "Error: content: cross-tree reference not allowed")
    assert (data["link"], data["other_parent_id"]) == ("child2", "parent2")
    assert await agent("read_document", id="child1") == "# child1\n\n"
    code, message, data = await agent.error("update_document", id="child1", content="[[parent1]]")
    assert (
        message == "Error: content: cross-tree reference not allowed - circular reference detected"
    )
    assert (code, data["parent_id"], data["link"]) == (-32602, "child1", "parent1")
    code, message, data = await agent.error(
        "update_document", content="[[parent1]] [[child1]] [[parent2]]"
    )
    assert message == "Error: content: cross-tree reference not allowed - merge point detected"
    assert (code, data["link"], data["existing_link"]) == (-32602, "parent1", "child1")


async def test_the_tree_of_a_new_notebook_is_its_root(agent: Agent) -> None:
    assert await agent("get_document_tree") == "root\n"


async def test_the_tree_shows_parents_over_their_children(agent: Agent) -> None:
    await agent("update_document", content="[[parent]]")
    await agent("update_document", id="parent", content="[[child1]] [[child2]]")
    assert await agent("get_document_tree") == "root:\n- parent:\n  - child1\n  - child2\n"


async def test_the_tree_shows_grandchildren(agent: Agent) -> None:
    await agent("update_document", content="[[parent]]")
    await agent("update_document", id="parent", content="[[child1]] [[child2]]")
    await agent("update_document", id="child1", content="[[grandchild1]] [[grandchild2]]")
    assert await agent("get_document_tree") == (
        "root:\n- parent:\n  - child1:\n    - grandchild1\n    - grandchild2\n  - child2\n"
    )


async def test_beyond_the_texts_answers_are_structured_and_arguments_of_no_use_are_errors_too(
    agent: Agent,
) -> None:
    answer = await agent.client.call_tool("update_document", {"content": "[[a]]"})
    assert answer.structured_content["created"] == ["a"]
    found = await agent.client.call_tool("search_documents", {"query": "nothing of the kind"})
    assert found.structured_content == {"passages": []}
    assert (await agent.error("update_document", id="root"))[0] == -32602
    code, message, data = await agent.error("edit_document", old_text="x", new_text="y")
    assert (code, data["count"]) == (-32602, 0)
    assert message.startswith("Error: old_text: ")


async def test_the_notebook_can_be_switched_off(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    off = Settings.model_validate(
        {"settings": {"mcp": {"tools": {"notebook": {"enabled": False}}}}}
    ).settings
    async with connected(database_urls, admin, "2026-07-28", settings=off) as agent:
        names = {tool.name for tool in (await agent.client.list_tools()).tools}
    assert "file_read" in names
    assert not {name for name in names if "document" in name}
