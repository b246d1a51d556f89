"""Users are asked before something is removed through `memsvc stdio` too, alone and as a bridge."""

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

from tests.e2e.process import CHECKOUT, Served, environment, on
from tests.e2e.sdk import WIRES, used
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

FILE = {"project": "p", "path": "/asked.txt"}


@pytest.mark.parametrize("bridged", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_file_goes_only_when_the_user_agrees(
    shared: Served, shared_urls: DatabaseUrls, tmp_path: Path, wire: str, bridged: bool
) -> None:
    agrees, asked = False, []

    async def user(_: Any, question: Any) -> ElicitResult:
        asked.append(question.message)
        return ElicitResult(action="accept", content={"confirm": agrees})

    variables = {"MEMSVC_URL": shared.url} if bridged else on(shared_urls)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memsvc", "stdio", "--data-dir", str(tmp_path / "data")],
        env=environment(MEMSVC_API_KEY="key-of-the-asked", **variables),
        cwd=CHECKOUT,
    )
    async with Client(stdio_client(server), mode=wire, elicitation_callback=user) as client:
        await used(client, "file_write", content="kept", mode="overwrite", **FILE)
        refused = await client.call_tool("file_delete", FILE)
        assert "NOT_ACCEPTED" in refused.content[0].text
        assert (await used(client, "file_read", **FILE))["content"] == "kept"
        agrees = True
        await used(client, "file_delete", **FILE)
        assert (await client.call_tool("file_read", FILE)).is_error
    assert asked == ["This cannot be undone:\nDelete a file; project: p; path: /asked.txt"] * 2
