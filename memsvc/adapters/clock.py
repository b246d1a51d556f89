"""The time of the machine."""

from datetime import UTC, datetime


class SystemClock:
    """Reads the machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
