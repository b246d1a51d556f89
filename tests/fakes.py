"""Stand-ins for what tests must steer: the time and the counters of operators."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta


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
