"""Log of slow calls, with where the time went."""

from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from memsvc.core.ports import Clock, Meter

log = structlog.get_logger("memsvc.calls")

LINES_MAX: Final = 10
LINES_WITHIN: Final = timedelta(seconds=60)


class SlowCalls:
    """Logs calls that took longer than `slow_ms` (0: none), up to some lines a minute.

    When everything is slow, ten lines say so as well as ten thousand. All are counted.
    """

    def __init__(self, slow_ms: int, meter: Meter, clock: Clock) -> None:
        self._slow_ms = slow_ms
        self._meter = meter
        self._clock = clock
        self._started_at: datetime | None = None
        self._lines = 0
        self._left_out = 0

    def record(self, tool: str, duration_ms: float, details: dict[str, Any]) -> None:
        """Log a call that has ended if it was slow. `details` is logged as it is: no content."""
        if not 0 < self._slow_ms < duration_ms:
            return
        self._meter.add("memsvc_slow_calls_total", tool=tool)
        now = self._clock.now()
        if self._started_at is None or now - self._started_at >= LINES_WITHIN:
            self._started_at, self._lines = now, 0
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        left_out = {"left_out_before": self._left_out} if self._left_out else {}
        self._left_out = 0
        log.warning("slow call", tool=tool, latency_ms=round(duration_ms, 2), **details, **left_out)
