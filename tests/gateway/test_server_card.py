"""What strangers learn of the server before they connect: nothing, or what its operator says."""

import asyncpg
import pytest
from pydantic import ValidationError

from memsvc.gateway.server_card import PATHS, ServerCardOptions
from memsvc.package_files import version
from tests.gateway.served import served
from tests.servers import DatabaseUrls

URL = "https://memory.example/mcp"
CARD = ServerCardOptions(mcp_url=URL, name="com.example/memory", title="Our memory")


@pytest.mark.anyio
async def test_the_card_is_told_to_whoever_asks_where_it_is_switched_on(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin, server_card=CARD) as service,
        service.http(None) as http,
    ):
        for path in PATHS:
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (
                200,
                "application/mcp-server-card+json",
            )
            assert answer.headers["access-control-allow-origin"] == "*"
            card = answer.json()
            assert (card["name"], card["title"], card["version"]) == (
                "com.example/memory",
                "Our memory",
                version(),
            )
            [remote] = card["remotes"]
            assert (remote["type"], remote["url"]) == ("streamable-http", URL)
            assert {"2025-11-25", "2026-07-28"} <= set(remote["supportedProtocolVersions"])
            assert [header["name"] for header in remote["headers"] if header["isSecret"]] == [
                "Authorization"
            ]
            assert "tools" not in card


@pytest.mark.anyio
async def test_nothing_is_told_unless_it_is_switched_on(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        for key, statuses in ((None, [401, 404]), ("key-one", [404, 404])):
            async with service.http(key) as http:
                assert [(await http.get(path)).status_code for path in PATHS] == statuses


@pytest.mark.parametrize(
    "wrong",
    [
        {"mcp_url": "memory.example", "name": "com.example/m"},
        {"mcp_url": URL},
        {"mcp_url": URL, "name": "m"},
        {"mcp_url": "https://u:p@m.example/mcp", "name": "com.example/m"},
    ],
)
def test_a_card_that_nobody_could_use_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="server_card"):
        ServerCardOptions(**wrong)
