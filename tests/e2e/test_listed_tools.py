"""`memsvc stdio --tools`, of a server of its own and in front of another."""

from pathlib import Path

import pytest

from tests.e2e.conftest import copied
from tests.e2e.host import Host, hosting
from tests.e2e.process import Served

pytestmark = pytest.mark.slow


@pytest.fixture
def key() -> str:
    return "key-of-a-lister"


async def names(host: Host) -> set[str]:
    await host.shake_hands()
    return {tool["name"] for tool in (await host.ask("tools/list"))["result"]["tools"]}


async def test_a_server_of_its_own_lists_the_sets_that_are_named(
    migrated: Path, tmp_path: Path
) -> None:
    data_dir = copied(migrated, tmp_path / "data")
    async with hosting(
        "stdio", "--data-dir", str(data_dir), "--tools", "notebook, knowledge"
    ) as host:
        listed = await names(host)
        assert {"read_document", "elfmem_recall"} <= listed
        assert not {"memory_before_turn", "file_read"} & listed
    async with hosting("stdio", "--data-dir", str(data_dir), "--tools", "flies") as host:
        assert await host.process.wait() != 0


async def test_a_bridge_asks_the_server_for_them(shared: Served, key: str) -> None:
    variables = {"MEMSVC_URL": shared.url, "MEMSVC_API_KEY": key}
    async with hosting("stdio", "--tools", "whiteboard", **variables) as host:
        assert "whiteboard_get" in (listed := await names(host))
        assert "memory_before_turn" not in listed
    async with hosting("stdio", "--tools", "flies", **variables) as host:
        error = (await host.ask("tools/list"))["error"]
        assert error["data"]["code"] == "INVALID_ARGUMENT"
        assert "flies" in error["message"]
