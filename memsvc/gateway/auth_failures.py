"""Throttling of addresses that present invalid keys."""

from collections import OrderedDict
from time import monotonic
from typing import Final

ADDRESSES_MAX: Final = 10_000
MINUTE_S: Final = 60.0


class AuthFailures:
    """Counts invalid keys by address: so many a minute, and so many at once."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Count an invalid key of this address; return 0, or how long it should have waited.

        A key that came too early does not count.
        """
        if self._per_minute == 0:
            return 0.0
        used, at = self._used.get(address, (0.0, 0.0))
        now = monotonic()
        used = max(0.0, used - (now - at) * self._per_minute / MINUTE_S)
        if used > self._per_minute - 1:
            return (used - self._per_minute + 1) * MINUTE_S / self._per_minute
        self._used[address] = used + 1, now
        self._used.move_to_end(address)
        while len(self._used) > ADDRESSES_MAX:
            self._used.popitem(last=False)
        return 0.0
