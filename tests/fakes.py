"""Stand-ins for what tests must steer: the time, the counters of operators and the embedder."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from memsvc.core.errors import MemsvcError
from tests.endpoints import vector_of


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, now: datetime = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, step: timedelta | None = None, **parts: float) -> datetime:
        """Move on by a timedelta, or by `days=`, `hours=`, `minutes=`, `seconds=`; the new time."""
        self._now += step or timedelta(**parts)
        return self._now


class RecordingMeter:
    """Keeps what was counted: every amount in order, by name and labels."""

    def __init__(self) -> None:
        self.amounts: dict[str, list[tuple[float, dict[str, str]]]] = defaultdict(list)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self.amounts[name].append((amount, labels))

    def total(self, name: str, **labels: str) -> float:
        """The sum of a name's amounts whose labels include these."""
        return sum(amount for amount, given in self.amounts[name] if labels.items() <= given.items())

    def clear(self) -> None:
        self.amounts.clear()


class FakeEmbedder:
    """Makes vectors of words; words that `alike` gives another word for mean the same. `failing` is raised instead."""

    def __init__(self, model: str = "fake/1", alike: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.alike = alike or {}
        self.texts: list[str] = []
        self.failing: MemsvcError | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.failing is not None:
            raise self.failing
        self.texts += texts
        return [self._vector(text) for text in texts]

    async def embed_question(self, text: str) -> list[float]:
        if self.failing is not None:
            raise self.failing
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        return vector_of(" ".join(self.alike.get(word, word) for word in text.lower().split()))
