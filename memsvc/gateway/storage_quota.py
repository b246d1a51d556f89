"""Storage quota of a tenant: counted in the background, so that no call waits for a count."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter
from typing import Final

import structlog
from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.core.tools import Tool
from memsvc.store import usage
from memsvc.store.database import Database
from memsvc.store.usage import Quota

log = structlog.get_logger("memsvc.stored")

FRESH_S: Final = 10.0
FRESH_S_MAX: Final = 600.0
FRESH_FACTOR: Final = 200
"""A count is used for FRESH_S, or this many times as long as it took, at most FRESH_S_MAX."""
TENANTS_MAX: Final = 10_000


class StoredOptions(BaseModel):
    """Storage limits of a tenant."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant_bytes_max: int = Field(
        10_000_000_000,
        ge=0,
        description="what a tenant may store of all kinds of memory, what is derived included, in"
        " bytes; 0: no limit",
    )
    grace_days: int = Field(
        30,
        ge=0,
        le=3650,
        description="how long that does not hold for tenants who were there before the quota",
    )

    @property
    def quota(self) -> Quota:
        """Return these options as a quota."""
        return Quota(self.tenant_bytes_max, self.grace_days)


@dataclass(frozen=True, slots=True)
class _Count:
    stored_bytes: int
    is_active: bool
    until: datetime


class StorageQuota:
    """Refuses tools that store something for a tenant at its quota or above.

    Writes between two counts may exceed it.
    """

    def __init__(self, database: Database, clock: Clock, quota: Quota) -> None:
        self._database = database
        self._clock = clock
        self._quota = quota
        self._counts: OrderedDict[bytes, _Count] = OrderedDict()
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    def check(self, tenant: bytes, tool: Tool) -> None:
        """Raise QUOTA_EXCEEDED where the tool would store more than the tenant may. Never waits."""
        if not self._quota.bytes_max or tool.read_only or tool.is_admin or tool.over_quota:
            return
        count = self._counts.get(tenant)
        if (count is None or self._clock.now() >= count.until) and tenant not in self._tasks:
            task = asyncio.create_task(self._count_in_background(tenant))
            self._tasks[tenant] = task
            task.add_done_callback(lambda _: self._tasks.pop(tenant, None))
        if count is not None and count.is_active and count.stored_bytes >= self._quota.bytes_max:
            raise self._quota.exceeded(count.stored_bytes)

    async def count(self, tenant: bytes) -> None:
        """Count what the tenant stores now."""
        started = perf_counter()
        async with self._database.begin_tenant(Scope(tenant, ALL_PROJECTS), read_only=True) as tx:
            stored_bytes = await usage.quota_bytes(tx)
            now = self._clock.now()
            is_active = await self._quota.unbounded_until(tx, now) is None
        fresh_s = min(max(FRESH_S, (perf_counter() - started) * FRESH_FACTOR), FRESH_S_MAX)
        self._keep(tenant, _Count(stored_bytes, is_active, now + timedelta(seconds=fresh_s)))
        if stored_bytes >= self._quota.bytes_max:
            log.warning(
                "a tenant holds more than limits.stored.tenant_bytes_max",
                tenant=tenant.hex()[:8],
                held_bytes=stored_bytes,
                refused=is_active,
            )

    def _keep(self, tenant: bytes, count: _Count) -> None:
        self._counts.pop(tenant, None)
        self._counts[tenant] = count
        while len(self._counts) > TENANTS_MAX:
            self._counts.popitem(last=False)

    async def _count_in_background(self, tenant: bytes) -> None:
        try:
            await self.count(tenant)
        except MemsvcError as error:
            log.warning("what a tenant holds could not be counted", code=error.code.value)
            count, until = (
                self._counts.get(tenant),
                self._clock.now() + timedelta(seconds=FRESH_S_MAX),
            )
            self._keep(tenant, replace(count, until=until) if count else _Count(0, False, until))
