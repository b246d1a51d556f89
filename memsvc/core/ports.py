"""What the core asks of the outside world: the time, and how long a text is for a model."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time, aware and in UTC."""

    def now(self) -> datetime: ...


class TokenCounter(Protocol):
    """Counts tokens as the models of the o200k family do."""

    def count(self, text: str) -> int: ...


class Meter(Protocol):
    """Counts what operators watch; `name` is one of the published metric names, labels are from closed sets."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None: ...
