"""The official TypeScript SDKs go through a turn and a whiteboard, on every wire that they
speak."""

import json
from pathlib import Path

import pytest

from tests.e2e.node_tools import folder, needs, run_node
from tests.e2e.process import Served

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "node" / "lifecycle.mjs"
SDK, CLIENT = "@modelcontextprotocol/sdk", "@modelcontextprotocol/client"


@pytest.mark.parametrize(
    ("sdk", "wire"),
    [
        pytest.param("sdk", "2025-11-25", marks=needs(SDK)),
        pytest.param("sdk", "sse", marks=needs(SDK)),
        pytest.param("client", "2025-11-25", marks=needs(CLIENT)),
        pytest.param("client", "2026-07-28", marks=needs(CLIENT)),
    ],
)
def test_a_turn_and_a_whiteboard(shared: Served, sdk: str, wire: str) -> None:
    done = run_node(str(SCRIPT), str(folder()), sdk, wire, shared.url, f"key-of-{sdk}-{wire}")
    assert done.returncode == 0, done.stderr
    came = json.loads(done.stdout)
    listed = "whiteboard_get" if wire == "sse" else "memory_before_turn"
    assert listed in came["tools"]
    assert (came["stored"]["ok"], came["stored"]["stored_items"]) == (True, 2)
    assert came["again"] == came["stored"]
    assert "Ada Lovelace" in came["recalled"]
    assert (came["committed"]["ok"], came["maintained"]["ok"]) == (True, True)
    assert any(path.startswith("/memory/") for path in came["directories"])
    if wire == "sse":  # the SDK loses a notification that it reads together with the result
        assert {one["total"] for one in came["progress"]} == {6}
    else:
        assert came["progress"][-1] == {"progress": 6, "total": 6}
    assert "Friday" in came["board"]
