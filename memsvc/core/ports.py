"""What the core asks of the outside world: the time, how long a text is for a model, and what it is like."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time, aware and in UTC."""

    def now(self) -> datetime: ...


class TokenCounter(Protocol):
    """Counts tokens as the models of the o200k family do."""

    def count(self, text: str) -> int: ...


class Embedder(Protocol):
    """Turns texts into vectors of one length, whose cosine says how alike they are.

    `model` names provider, model and dimension: vectors of another model are never compared with these. Raises
    UNAVAILABLE when the model is out of reach or too slow, and INTERNAL_ERROR when it answers something else.
    """

    model: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text that is stored."""
        ...

    async def embed_question(self, text: str) -> list[float]:
        """The vector of what is asked, within the time that a caller can wait."""
        ...


class Meter(Protocol):
    """Counts what operators watch; `name` is one of the published metric names, labels are from closed sets."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None: ...
