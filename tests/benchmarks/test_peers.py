"""The comparison with other memories, with small made-up ones in their place."""

import os
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from benchmarks.locomo import Conversation, Question, Said
from benchmarks.peers.child import Child, PeerError
from benchmarks.peers.embeddings import Endpoint
from benchmarks.peers.library import RUNNERS, Library
from benchmarks.peers.over_stdio import OverStdio
from benchmarks.peers.results import report
from benchmarks.peers.store import Ground, Peer
from benchmarks.peers.timing import measure
from benchmarks.peers.trial import Trial, behave, each, recall

pytestmark = pytest.mark.slow

LIBRARY = """
import json, sys
from pathlib import Path

sys.path.insert(0, RUNNERS)
from loop import serve


class Memory:
    '''Finds what has a word in common; writes when it is closed, and with `careful` at once; knows no users.'''

    def __init__(self, folder, embeddings_url, dimensions):
        self.place = Path(folder, "said.json")
        self.said = json.loads(self.place.read_text()) if self.place.exists() else []

    def add(self, user, messages):
        print("what a library says on stdout is no answer")
        self.said += [one["text"] for one in messages]
        if CAREFUL:
            self.close()

    def settle(self):
        pass

    def search(self, user, text, limit, way):
        asked = set(text.lower().split())
        found = {at: len(asked & set(one.lower().split())) for at, one in enumerate(self.said)}
        best = sorted((at for at in found if found[at]), key=lambda at: -found[at])
        return [{"text": self.said[at]} for at in best[:limit]]

    def close(self):
        self.place.write_text(json.dumps(self.said))


serve(Memory)
"""
SERVER = """
import json, sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    print("a line that is no message")
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
    failed = request["params"].get("name") == "refuse"
    content = [{"type": "text", "text": "there is no such thing"}]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"isError": failed, "content": content}}))
    sys.stdout.flush()
"""
AT = datetime(2026, 1, 2, tzinfo=UTC)
SAID = [
    Said("D1:1", "Ada", "I planted three quinces behind the shed", AT),
    Said("D1:2", "Ben", "Did they survive the frost", AT),
    Said("D1:3", "Ada", "Only one of my quinces did", AT),
]
CONVERSATION = Conversation(
    "conv-1",
    ("Ada", "Ben"),
    SAID,
    [
        Question("what about quinces", frozenset({"D1:1", "D1:3"}), 1, ""),
        Question("which frost", frozenset({"D1:2"}), 4, ""),
        Question("left out, as it is adversarial", frozenset({"D1:2"}), 5, ""),
    ],
)


def on_trial(folder: Path, name: str, *, careful: bool = True, source: str = LIBRARY) -> Trial:
    """A made-up library that needs no installing."""
    script = folder / f"{name}.py"
    script.write_text(
        source.replace("RUNNERS", repr(str(RUNNERS))).replace("CAREFUL", str(careful))
    )
    peer = Peer(
        name, "1", (), "pip", "library", "none", partial(Library.open, script, Path(sys.executable))
    )
    return Trial(peer, folder, folder, Endpoint("http://127.0.0.1:9/v1", 4), folder / name)


async def test_the_evidence_that_a_peer_finds_is_scored(tmp_path: Path) -> None:
    trial = on_trial(tmp_path, "words")
    await recall(trial, CONVERSATION, questions=10, off_topic=["nothing here matches"])
    told = report([trial], 10).more["peers"]["words"]["recall"]["default"]
    assert told["questions"] == 2
    assert told["recall@5"] == told["MRR"] == 1.0
    assert told["off-topic that find nothing"] == 1.0


async def test_what_a_peer_loses_doubles_and_mixes_is_told(tmp_path: Path) -> None:
    careful, careless = on_trial(tmp_path, "careful"), on_trial(tmp_path, "careless", careful=False)
    await each([careful, careless], behave, "behaviour")
    assert (careful.failed, careless.failed) == ("", "")
    assert careful.figures == {
        "copies of a turn sent twice": 2,
        "entries of the same words in two turns": 2,
        "found by another user": 1,
        "of 20 there after a restart": 20,
        "of 3 there after kill -9": 3,
    }
    assert careless.figures == careful.figures | {"of 3 there after kill -9": 0}


async def test_a_peer_that_breaks_is_told_with_the_reason_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = on_trial(tmp_path, "broken", source="raise SystemExit('it wants another machine')")
    fine = on_trial(tmp_path, "fine")
    await measure([broken, fine], messages=4, rounds=1, calls=2)
    assert broken.failed.startswith("starting: ")
    assert "it wants another machine" in broken.failed
    assert fine.failed == ""
    assert {kind: len(each_ms) for kind, each_ms in fine.ms.items()} == {
        (what, size): 2 for what in ("write", "search") for size in (4, 40)
    }
    assert fine.figures["bytes a message"] > 0
    report([broken, fine], messages=4).show()
    assert "it wants another machine" in capsys.readouterr().out


async def test_a_server_on_standard_streams_is_heard_through_what_else_it_says(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    ground = Ground(tmp_path, tmp_path, "", 0)
    server = await OverStdio.start([sys.executable, str(script)], ground, {})
    result, ms = await server.tool("look")
    assert OverStdio.text(result) == "there is no such thing"
    assert ms > 0
    with pytest.raises(PeerError, match="refuse: there is no such thing"):
        await server.tool("refuse")
    await server.kill()
    with pytest.raises(PeerError, match="has ended"):
        await server.tool("look")


async def test_a_process_that_does_not_end_by_itself_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers.child.STOP_S", 0.0)
    child = await Child.start([sys.executable, "-c", "import signal; signal.pause()"], tmp_path, {})
    await child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
