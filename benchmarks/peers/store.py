"""What every peer is asked to do, and how each is known."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from benchmarks.locomo import Said


@dataclass(frozen=True, slots=True)
class Turn:
    """What is stored in one go: what a user says and what is answered."""

    name: str
    asked: Sequence[Said]
    answered: Sequence[Said] = ()

    @property
    def messages(self) -> list[Said]:
        """All of it in order."""
        return [*self.asked, *self.answered]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came back with: for each entry, best first, the ids of the messages that it is;
    and the time."""

    entries: list[frozenset[str]]
    ms: float

    @property
    def messages(self) -> list[str]:
        """The ids, best first, each once."""
        return list(dict.fromkeys(one for entry in self.entries for one in sorted(entry)))


class Store(Protocol):
    """A memory that runs, on a data folder of its own."""

    async def add(self, user: str, turn: Turn) -> float:
        """Store a turn; milliseconds until it was acknowledged."""

    async def fill(self, user: str, turns: Sequence[Turn]) -> None:
        """Store many turns in the fastest way that there is."""

    async def settle(self) -> None:
        """Do or await what has to be done until what was stored is found."""

    async def search(self, user: str, text: str, way: str) -> Found:
        """Up to 20 messages."""

    async def data_bytes(self) -> int:
        """What the stored messages take on disk with all that belongs to them."""

    def pids(self) -> list[int]:
        """The processes that it takes."""

    async def kill(self) -> None:
        """End all of it as a crash would."""

    async def close(self) -> None:
        """Stop it in order."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a peer finds what it needs: its environment, a data folder, an endpoint for embeddings;
    and the messages behind each text that was stored there, for those peers that carry no ids."""

    environment: Path
    data: Path
    embeddings_url: str
    dimensions: int
    said: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def known(self, message: Said) -> str:
        """A message as who knows no speakers is given it; its id is kept."""
        text = f"{message.speaker}: {message.text}"
        self.said[text].add(message.dia_id)
        return text

    def behind(self, text: str) -> frozenset[str]:
        """The messages that a text may be."""
        return frozenset(self.said[text])


@dataclass(frozen=True, slots=True)
class Peer:
    """One of those compared. `separation` says how users are kept apart, `ways` how one can ask it,
    of which the first is timed. `behaves_as` names another peer that it behaves as, `python_must`
    is a statement that its interpreter has to get through."""

    name: str
    version: str
    packages: tuple[str, ...]
    installer: Literal["pip", "npm"]
    used: str
    separation: str
    open: Callable[[Ground], Awaitable[Store]]
    ways: tuple[str, ...] = ("default",)
    behaves_as: str = ""
    python_must: str = "pass"


LIMIT = 20
"""Entries that a search may come back with."""


def folder_bytes(folder: Path, *, but: frozenset[str] = frozenset({"child.log"})) -> int:
    """What the files of a folder hold, logs of ours left out."""
    return sum(
        one.stat().st_size for one in folder.rglob("*") if one.is_file() and one.name not in but
    )
