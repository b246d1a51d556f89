"""Slots of one kind of call, shared by tenants: a short wait, and a quick refusal beyond that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from time import perf_counter
from typing import Final, Literal

from memsvc.core.call_context import current_call
from memsvc.core.errors import Code
from memsvc.core.fair_semaphore import FairSemaphore
from memsvc.core.ports import Meter
from memsvc.gateway.rate_limits import LimitError

TENANT_SHARE: Final = 3 / 4
"""Share of the slots of a kind, and of its waiting places, that one tenant may have: there is
always capacity for another."""
RETRY_AFTER_S: Final = 1.0
UNAVAILABLE_STATUS: Final = 503
INTERVAL_WEIGHT: Final = 0.1
"""Weight of the latest returned slot in the pace of returned slots."""
INTERVAL_VALID_S: Final = 2.0
"""Seconds for which that pace predicts anything: after a rush, calls are fast again."""

Lane = Literal["short", "model", "composed", "administration", "upload", "body"]


class CapacityError(LimitError):
    """Too many calls for the capacity."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            Code.RESOURCE_BUSY,
            "the server has as much to do as it can just now",
            retry_after_s=retry_after_s,
        )

    @property
    def http_status(self) -> int:
        return UNAVAILABLE_STATUS


class Slots:
    """Slots of one kind of call. A free one goes to the waiting tenants in turn."""

    def __init__(
        self, lane: Lane, capacity: int, meter: Meter, *, waiting_max: int = 0, wait_ms: int = 1
    ) -> None:
        self._lane = lane
        self._meter = meter
        self._permits = FairSemaphore(capacity, ceil(capacity * TENANT_SHARE))
        self._waiting_max = waiting_max
        self._tenant_waiting_max = ceil(waiting_max * TENANT_SHARE)
        self._wait_s = wait_ms / 1000
        self._interval_s = 0.0
        self._returned_at: float | None = None
        self._updated_at = 0.0

    def used(self) -> int:
        """Return the number of slots in use."""
        return self._permits.taken

    def waiting(self) -> int:
        """Return the number of calls that wait for a slot."""
        return self._permits.waiting

    @asynccontextmanager
    async def hold(self, tenant: bytes) -> AsyncIterator[None]:
        """Hold a slot; RESOURCE_BUSY without one in time, at once when too many wait already."""
        await self.acquire(tenant)
        try:
            yield
        finally:
            self.release(tenant)

    async def acquire(self, tenant: bytes) -> None:
        """Take a slot, which must be given back in any case; RESOURCE_BUSY as above."""
        refused = self.rejection(tenant)
        if refused is not None:
            raise refused
        if self._permits.available(tenant):
            # nobody waited since then, so the time says nothing about the pace
            self._returned_at = None
            await self._permits.acquire(tenant)
        else:
            await self._wait(tenant)

    def rejection(self, tenant: bytes) -> LimitError | None:
        """Return the error if a call would be refused at once."""
        if self._permits.available(tenant):
            return None
        if (
            self.waiting() >= self._waiting_max
            or self._permits.queued(tenant) >= self._tenant_waiting_max
        ):
            return self._capacity_error("waiting")
        expected_s = self._expected_s(tenant)
        return self._capacity_error("pace", expected_s) if expected_s > self._wait_s else None

    def release(self, tenant: bytes) -> None:
        """Give a slot back, to the next tenant in turn."""
        self._update_interval()
        self._permits.release(tenant)

    def _update_interval(self) -> None:
        """Record how long it took until another slot came back, while calls waited for one."""
        now = perf_counter()
        if self._returned_at is not None:
            self._interval_s += INTERVAL_WEIGHT * (now - self._returned_at - self._interval_s)
            self._updated_at = now
        self._returned_at = now if self.waiting() else None

    def _expected_s(self, tenant: bytes) -> float:
        """Return the expected wait of one more call of a tenant, in seconds.

        The number of calls before it, times the pace at which slots come back (Little's law).
        """
        if perf_counter() - self._updated_at > INTERVAL_VALID_S:
            self._interval_s = 0.0
        return self._permits.queue_position(tenant) * self._interval_s

    async def _wait(self, tenant: bytes) -> None:
        """Wait for a slot, which is then taken."""
        started = perf_counter()
        try:
            with current_call().timer("admission"):
                async with asyncio.timeout(self._wait_s):
                    await self._permits.acquire(tenant)
        except TimeoutError:
            raise self._capacity_error("wait") from None
        finally:
            self._meter.add(
                "memsvc_slot_wait_ms", (perf_counter() - started) * 1000, lane=self._lane
            )

    def _capacity_error(
        self, why: Literal["waiting", "pace", "wait"], expected_s: float = 0.0
    ) -> CapacityError:
        self._meter.add("memsvc_refused_total", reason=f"{self._lane}_{why}")
        return CapacityError(max(RETRY_AFTER_S, round(expected_s, 1)))
