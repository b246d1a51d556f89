"""Stand-ins for what tests must steer: the time, the counters of operators and the embedder."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson

from memsvc.core.errors import MemsvcError
from memsvc.core.ports import Head, Meter, Output
from memsvc.gateway.admission import Admission, SlotOptions
from memsvc.gateway.rate_limits import RateLimits, RateOptions
from memsvc.store.database import Database
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
        return sum(
            amount for amount, given in self.amounts[name] if labels.items() <= given.items()
        )

    def clear(self) -> None:
        self.amounts.clear()


class FakeEmbedder:
    """Makes vectors of words; words that `alike` gives another word for mean the same. `failing`
    is raised instead."""

    def __init__(self, model: str = "fake/1", alike: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.in_process = False
        self.is_ready = True
        self.unrelated_cosine: float | None = None
        self.alike = alike or {}
        self.texts: list[str] = []
        self.failing: MemsvcError | None = None

    async def load(self) -> None:
        pass

    def log_odds(self, head: Head, vector: Sequence[float]) -> None:
        pass

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        return vector

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


@dataclass(frozen=True)
class Question:
    """What a model was asked: its instructions, and the JSON that it was given to read."""

    instructions: str
    text: str
    output_tokens_max: int

    @property
    def shown(self) -> dict[str, Any]:
        body: dict[str, Any] = orjson.loads(self.text)
        return body


class ScriptedLlm:
    """Answers with what the test put into `answers`, then with nothing: a list of changes, an
    object or a text, a function of the question that makes one, or an error to raise.
    `meanwhile` happens while it thinks."""

    def __init__(self, model: str = "fake:1") -> None:
        self.model = model
        self.answers: deque[Any] = deque()
        self.always: Any = None
        self.asked: list[Question] = []
        self.meanwhile: Callable[[], Awaitable[Any]] = lambda: asyncio.sleep(0)

    async def complete(self, instructions: str, text: str, *, output_tokens_max: int) -> str:
        return str(await self._answer(Question(instructions, text, output_tokens_max)) or "")

    async def extract(
        self, instructions: str, text: str, output: type[Output], *, output_tokens_max: int
    ) -> Output:
        changes = await self._answer(Question(instructions, text, output_tokens_max))
        return output.model_validate(
            changes if isinstance(changes, dict) else {"changes": changes or []}
        )

    async def _answer(self, question: Question) -> Any:
        self.asked.append(question)
        await self.meanwhile()
        answer = self.answers.popleft() if self.answers else self.always
        if isinstance(answer, MemsvcError):
            raise answer
        return answer(question) if callable(answer) else answer


def unlimited(meter: Meter) -> Admission:
    """An admission that refuses nothing: more slots and time than any test takes, and no rates."""
    rates = RateLimits(cast(Database, None), RateOptions(enabled=False), meter)
    slots = SlotOptions(
        model_calls_max=10_000,
        composed_calls_max=10_000,
        administration_max=10_000,
        uploads_max=10_000,
        bodies_max=10_000,
        call_s=3600,
    )
    return Admission(slots, rates, meter, connections_max=10_000)
