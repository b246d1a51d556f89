"""Permits shared by tenants in turn: a free one goes round-robin to those who wait."""

import asyncio
from collections import OrderedDict, deque


class FairSemaphore:
    """A number of permits, of which one tenant has at most `each_max`."""

    def __init__(self, limit: int, each_max: int) -> None:
        self._limit = limit
        self._free = limit
        self._each_max = each_max
        self._taken: dict[bytes, int] = {}
        self._waiting: OrderedDict[bytes, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def taken(self) -> int:
        """Return how many permits are in use."""
        return self._limit - self._free

    @property
    def waiting(self) -> int:
        """Return how many callers wait for a permit."""
        return sum(map(len, self._waiting.values()))

    def queued(self, tenant: bytes) -> int:
        """Return how many callers of a tenant wait for a permit."""
        return len(self._waiting.get(tenant, ()))

    def queue_position(self, tenant: bytes) -> int:
        """Return how many callers would get a permit before one more of a tenant."""
        turn = self.queued(tenant) + 1
        return sum(min(len(queue), turn) for queue in self._waiting.values())

    def available(self, tenant: bytes) -> bool:
        """Return whether a tenant would get a permit at once."""
        return self._free > 0 and self._taken.get(tenant, 0) < self._each_max

    async def acquire(self, tenant: bytes) -> None:
        """Take a permit, waiting if necessary; it must be released in any case."""
        if self.available(tenant):
            self._grant(tenant)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # granted during the cancellation
                self.release(tenant)
            else:
                self._remove(tenant, turn)
            raise

    def release(self, tenant: bytes) -> None:
        """Return a permit; the next waiting tenant gets it."""
        self._free += 1
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
        while self._free > 0:
            following = next((one for one in self._waiting if self.available(one)), None)
            if following is None:
                return
            queue = self._waiting.pop(following)
            turn = queue.popleft()
            if queue:
                self._waiting[following] = queue  # after the others
            if not turn.done():
                self._grant(following)
                turn.set_result(None)

    def _grant(self, tenant: bytes) -> None:
        self._free -= 1
        self._taken[tenant] = self._taken.get(tenant, 0) + 1

    def _remove(self, tenant: bytes, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]
