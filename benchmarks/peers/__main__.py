"""Other memories beside this service, the same work on the same machine: `python -m
benchmarks.peers [PEER...]`.

Each peer is installed into an environment of its own in the scratch folder, with pip or npm as they
are configured here. Those with an embedder get the sentence encoder that memsvc is installed with,
from an endpoint on the loopback, and reach nothing else. The report names each peer that cannot be
installed or run, with the reason.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.command import Command, Size
from benchmarks.locomo import load
from benchmarks.peers import results, timing
from benchmarks.peers.embeddings import endpoint
from benchmarks.peers.of_libraries import ELFMEM, MEM0
from benchmarks.peers.of_mcp_memory_service import MCP_MEMORY_SERVICE
from benchmarks.peers.of_server_memory import SERVER_MEMORY
from benchmarks.peers.ours import OURS, WORDS_ALONE
from benchmarks.peers.store import Peer
from benchmarks.peers.trial import Trial, behave, each, install, recall
from benchmarks.recall import OFF_TOPIC
from benchmarks.report import Report

PARTS = ("recall", "behaviour", "time")
SIZES = {
    "conversations": Size(2, 1, "conversations of the LoCoMo file"),
    "questions": Size(1000, 50, "questions about each at the most"),
    "off_topic": Size(40, 10, "off-topic questions about each"),
    "messages": Size(
        250, 50, "messages that are stored when calls are timed, and then ten times as many"
    ),
    "rounds": Size(4, 2, "interleaved rounds"),
    "calls": Size(15, 5, "writes and searches in a round"),
}


async def compare(
    peers: Sequence[Peer], scratch: Path, run: Path, given: argparse.Namespace
) -> list[Trial]:
    """Every peer on trial, one part after the other: environments in the scratch folder, data in
    that of the run."""
    off_topic = OFF_TOPIC.read_text(encoding="utf-8").splitlines()[: given.off_topic]
    async with endpoint() as where:
        trials = [Trial(peer, scratch, run, where) for peer in peers]
        await each(trials, install, "installing")
        if "recall" in given.parts and given.data:
            for conversation in load(given.data)[: given.conversations]:
                step = partial(
                    recall,
                    conversation=conversation,
                    questions=given.questions,
                    off_topic=off_topic,
                )
                await each(trials, step, f"recall, {conversation.name}")
        if "behaviour" in given.parts:
            await each(
                [trial for trial in trials if not trial.peer.behaves_as], behave, "behaviour"
            )
        if "time" in given.parts:
            await timing.measure(trials, given.messages, given.rounds, given.calls)
    return trials


def chosen(names: Sequence[str]) -> list[Peer]:
    """The peers of these names, or all. SystemExit when there is none of a name."""
    every = (OURS, WORDS_ALONE, MEM0, MCP_MEMORY_SERVICE, SERVER_MEMORY, ELFMEM)
    peers = {peer.name: peer for peer in every}
    if unknown := set(names) - peers.keys():
        raise SystemExit(
            f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(peers)}"
        )
    return [peer for name, peer in peers.items() if not names or name in names]


async def measure(given: argparse.Namespace) -> Report:
    """Install, measure, tell."""
    peers = chosen(given.peers)
    with tempfile.TemporaryDirectory(prefix="memsvc-peers-") as run:
        scratch = given.scratch.resolve() if given.scratch else Path(run)
        return results.report(await compare(peers, scratch, Path(run), given), given.messages)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the servers to compare, the data, and the folder."""
    parser.add_argument(
        "peers", nargs="*", metavar="PEER", help="who is compared; without a name, everybody"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured")
    parser.add_argument("--data", type=Path, help="the LoCoMo file; without it, recall is left out")
    parser.add_argument(
        "--scratch", type=Path, help="folder that keeps the environments for the next time"
    )


COMMAND = Command(__doc__, measure, SIZES, options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
