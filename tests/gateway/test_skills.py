"""Guides are served as skills: listed with digests, read as resources, seen by who sees their tools."""

from hashlib import sha256
from typing import Any

import asyncpg
import pytest
from mcp import Client, MCPError
from mcp_types import Request, RequestParams, Result
from pydantic import ConfigDict

from tests.e2e.sdk import WIRES, connected
from tests.gateway.served import served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

LIFECYCLE = "skill://memsvc/turn-lifecycle/SKILL.md"


class Params(RequestParams):
    model_config = ConfigDict(extra="allow")


class Answer(Result):
    model_config = ConfigDict(extra="allow")


async def asked(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request = Request[Params, str](method=method, params=Params(**params))
    return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)


@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_listed_is_what_is_read(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, wire: str
) -> None:
    async with (
        served(database_urls, admin) as service,
        wired(service.app) as url,
        connected(url, "key-one", wire) as client,
    ):
        listed = (await asked(client, "skills/list"))["skills"]
        assert {skill["frontmatter"]["name"] for skill in listed} == {
            "turn-lifecycle",
            "memory-directory",
            "knowledge",
        }
        for skill in listed:
            [content] = (await client.read_resource(skill["uri"])).contents
            text = content.text
            assert skill["resources"] == [
                {
                    "uri": skill["uri"],
                    "digest": f"sha256:{sha256(text.encode()).hexdigest()}",
                    "size": len(text.encode()),
                }
            ]
            name, description = skill["frontmatter"]["name"], skill["frontmatter"]["description"]
            assert text.startswith(f'---\nname: {name}\ndescription: "{description}"\n---\n')
            assert skill["uri"].split("/")[-2] == name
            assert (await asked(client, "skills/get", uri=skill["uri"]))["skill"] == skill
        with pytest.raises(MCPError) as unknown:
            await asked(client, "skills/get", uri="skill://memsvc/none/SKILL.md")
        assert unknown.value.error.code == -32602


async def test_a_key_sees_the_skills_whose_tools_it_sees(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, wired(service.app) as url:
        key = await service.key(hidden_tools=frozenset({"memory_after_turn"}))
        async with connected(url, key, "auto") as client:
            extensions = client.server_capabilities.extensions
            assert extensions == {"io.modelcontextprotocol/skills": {}}
            listed = (await asked(client, "skills/list"))["skills"]
            assert LIFECYCLE not in {skill["uri"] for skill in listed}
            for call in (
                asked(client, "skills/get", uri=LIFECYCLE),
                client.read_resource(LIFECYCLE),
            ):
                with pytest.raises(MCPError):
                    await call
