"""One peer on trial: where its things are, what was measured, and why it stopped if it did."""

import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.locomo import Conversation, Said
from benchmarks.peers.child import PeerError
from benchmarks.peers.embeddings import Endpoint
from benchmarks.peers.environment import environment, installed_bytes
from benchmarks.peers.store import Ground, Peer, Store, Turn
from benchmarks.recall import OFF_TOPIC, SCORED
from benchmarks.scores import Result, Scores, Shown

BROKEN = (PeerError, OSError, RuntimeError, TimeoutError, AssertionError)
"""What a peer may fail with, ours among them; anything else is a fault of the benchmark."""
USER, OTHER = "ada", "ben"
MOMENT = datetime(2026, 1, 2, 9, tzinfo=UTC)
KEPT, KILLS = 20, 3


@dataclass
class Trial:
    """A peer with its figures: milliseconds by what was done and at how many messages, answers by
    question."""

    peer: Peer
    scratch: Path
    run: Path
    endpoint: Endpoint
    environment: Path = Path()
    failed: str = ""
    ms: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    scores: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))
    figures: dict[str, Any] = field(default_factory=dict)
    store: Store | None = None
    ground: Ground | None = None

    def fresh(self, name: str) -> Ground:
        """An empty ground."""
        data = self.run / "data" / self.peer.name / name
        data.mkdir(parents=True)
        return Ground(self.environment, data, self.endpoint.url, self.endpoint.dimensions)

    @asynccontextmanager
    async def opened(self, ground: Ground) -> AsyncIterator[Store]:
        """The peer on a ground; killed where the block fails."""
        store = await self.peer.open(ground)
        try:
            yield store
        except BaseException:
            await store.kill()
            raise
        await store.close()


async def each(
    trials: Sequence[Trial], step: Callable[[Trial], Awaitable[None]], told: str
) -> None:
    """Do a step with every peer that still runs; one that fails is out, with the reason, and the
    others go on."""
    for trial in trials:
        if trial.failed:
            continue
        started = perf_counter()
        try:
            await step(trial)
        except BROKEN as error:
            trial.failed = f"{told}: {str(error) or type(error).__name__}"
        print(
            f"{told}, {trial.peer.name}: {trial.failed or f'{perf_counter() - started:.1f} s'}",
            file=sys.stderr,
        )


async def install(trial: Trial) -> None:
    """Its environment, and what that takes."""
    trial.environment = await environment(trial.peer, trial.scratch)
    trial.figures["installed MB"] = installed_bytes(trial.environment) / 1e6


async def recall(
    trial: Trial, conversation: Conversation, questions: int, off_topic: Sequence[str]
) -> None:
    """Store a conversation turn by turn in an empty memory, ask, and score the messages found."""
    ground = trial.fresh(conversation.name)
    async with trial.opened(ground) as store:
        for number, (asked, answered) in enumerate(conversation.turns()):
            await store.add(USER, Turn(f"turn-{number}", asked, answered))
        await store.settle()
        for way in trial.peer.ways:
            scores = trial.scores[way]
            for question in [one for one in conversation.questions if one.category in SCORED][
                :questions
            ]:
                found = (await store.search(USER, question.text, way)).messages
                shown = Shown(found, set(found))
                scores.results.append(Result(conversation.name, question, shown, shown))
            for text in off_topic:
                scores.silent.append(not (await store.search(USER, text, way)).entries)


def said(name: str, text: str) -> Turn:
    """A turn of one message."""
    return Turn(name, [Said(name, "Ada", text, MOMENT)])


def exchanged(name: str, text: str, answer: str) -> Turn:
    """A turn of two."""
    return Turn(
        name,
        [Said(f"{name}-in", "Ada", text, MOMENT)],
        [Said(f"{name}-out", "Assistant", answer, MOMENT)],
    )


async def behave(trial: Trial) -> None:
    """What it keeps, once, apart, and through what: all on one ground, as starts take the most
    time."""
    ground = trial.fresh("behaviour")
    # sentences that have nothing in common: some peers take what is alike in meaning for the same
    lines = iter(OFF_TOPIC.read_text(encoding="utf-8").splitlines())
    kept = [said(f"kept-{at}", text) for at, text in enumerate(islice(lines, KEPT))]
    killed = [said(f"killed-{at}", text) for at, text in enumerate(islice(lines, KILLS))]
    async with trial.opened(ground) as store:
        await _repeats(trial, store)
        secret = said("secret", "My locker in the swimming hall is number 83.")
        await store.add(USER, secret)
        await store.settle()
        trial.figures["found by another user"] = await _entries(trial, store, OTHER, secret)
        for turn in kept:
            await store.add(USER, turn)
    for turn in killed:
        store = await trial.peer.open(ground)
        try:
            await store.add(USER, turn)
        finally:
            await store.kill()
    async with trial.opened(ground) as store:
        await store.settle()
        for name, turns in (
            (f"of {KEPT} there after a restart", kept),
            (f"of {KILLS} there after kill -9", killed),
        ):
            there = [await _entries(trial, store, USER, turn) for turn in turns]
            trial.figures[name] = sum(map(bool, there))


async def _repeats(trial: Trial, store: Store) -> None:
    """A turn that is sent again is stored once; the same words in two turns are two."""
    first = said("first", "The gate code of the allotment is 4711.")
    second, third = (said(name, "Blue suits the kitchen best.") for name in ("second", "third"))
    for turn in (first, first, second, third):
        await store.add(USER, turn)
        await store.settle()
    trial.figures["copies of a turn sent twice"] = await _entries(trial, store, USER, first)
    trial.figures["entries of the same words in two turns"] = await _entries(
        trial, store, USER, second, third
    )


async def _entries(trial: Trial, store: Store, user: str, *turns: Turn) -> int:
    """How many entries a search for the words of turns finds of them, by whichever way finds the
    most."""
    names = {one.dia_id for turn in turns for one in turn.messages}
    found = [await store.search(user, turns[0].asked[0].text, way) for way in trial.peer.ways]
    return max(sum(bool(names & entry) for entry in one.entries) for one in found)
