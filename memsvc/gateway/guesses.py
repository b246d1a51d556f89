"""Throttling of addresses that present invalid keys."""

from collections import OrderedDict
from time import monotonic
from typing import Final

ADDRESSES_MAX: Final = 10_000
MINUTE_S: Final = 60.0


class Guesses:
    """Counts invalid keys by address: so many a minute, and so many at once."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Count an invalid key of this address; return 0, or how long it should have waited.

        A key that came too early does not count.
        """
        if self._a_minute == 0:
            return 0.0
        spent, at = self._spent.get(address, (0.0, 0.0))
        now = monotonic()
        spent = max(0.0, spent - (now - at) * self._a_minute / MINUTE_S)
        if spent > self._a_minute - 1:
            return (spent - self._a_minute + 1) * MINUTE_S / self._a_minute
        self._spent[address] = spent + 1, now
        self._spent.move_to_end(address)
        while len(self._spent) > ADDRESSES_MAX:
            self._spent.popitem(last=False)
        return 0.0
