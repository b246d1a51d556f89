"""Limits of keys and tenants: call rates, which replicas share, and stored bytes."""

import asyncio
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from time import monotonic, perf_counter
from typing import Final, Literal, TypeVar
from uuid import UUID

import structlog
from pydantic import Field, field_validator

from memsvc.core.background import in_background, wait_for_event
from memsvc.core.errors import Code, ExclusiveLockError, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.options import Amount, Options
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import ALL_PROJECTS, Caller, Scope, tenant_digits
from memsvc.core.tools import Tool
from memsvc.store import usage
from memsvc.store.database import Database
from memsvc.store.usage import Quota

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LatestDict(OrderedDict[_Key, _Value]):
    """A dictionary that keeps the latest values, up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def put(self, key: _Key, value: _Value) -> None:
        """Set a value, which becomes the latest."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)


storage_log = structlog.get_logger("memsvc.stored")

FRESH_S: Final = 10.0
FRESH_S_MAX: Final = 600.0
FRESH_FACTOR: Final = 200
"""A count is used for FRESH_S, or this many times as long as it took, at most FRESH_S_MAX."""
TENANTS_MAX: Final = 10_000


class StoredOptions(Options):
    """Storage limits of a tenant."""

    tenant_bytes_max: Amount = Field(
        10_000_000_000,
        description="maximum number of bytes that a tenant can store in all kinds of memory,"
        " including derived data; 0: unlimited",
    )
    grace_days: int = Field(
        30,
        ge=0,
        le=3650,
        description="tenants that are older than this quota may exceed it for this many days after"
        " the migration that introduced the quota",
    )

    @property
    def quota(self) -> Quota:
        """Return these options as a quota."""
        return Quota(self.tenant_bytes_max, self.grace_days)


@frozen
class _Count:
    stored_bytes: int
    is_active: bool
    until: datetime


class StorageQuota:
    """Refuses tools that store something for a tenant that has reached its quota.

    Writes between two counts may exceed the quota."""

    def __init__(self, database: Database, clock: Clock, quota: Quota) -> None:
        self._database = database
        self._clock = clock
        self._quota = quota
        self._counts = LatestDict[bytes, _Count](TENANTS_MAX)
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    def check(self, tenant: bytes, tool: Tool) -> None:
        """Raise QUOTA_EXCEEDED if the tool would store something for a tenant at its quota.

        Never waits: the storage is counted outside of the call."""
        if not self._quota.bytes_max or tool.read_only or tool.is_admin or tool.over_quota:
            return
        count = self._counts.get(tenant)
        if (count is None or self._clock.now() >= count.until) and tenant not in self._tasks:
            task = asyncio.create_task(self._count_in_background(tenant), context=Context())
            self._tasks[tenant] = task
            task.add_done_callback(lambda _: self._tasks.pop(tenant, None))
        if count is not None and count.is_active and count.stored_bytes >= self._quota.bytes_max:
            raise self._quota.exceeded(count.stored_bytes)

    async def count(self, tenant: bytes) -> None:
        """Count how much the tenant stores now."""
        started = perf_counter()
        async with self._database.begin_tenant(Scope(tenant, ALL_PROJECTS), read_only=True) as tx:
            stored_bytes = await usage.quota_bytes(tx)
            now = self._clock.now()
            is_active = await self._quota.unbounded_until(tx, now) is None
        fresh_s = min(max(FRESH_S, (perf_counter() - started) * FRESH_FACTOR), FRESH_S_MAX)
        self._counts.put(tenant, _Count(stored_bytes, is_active, now + timedelta(seconds=fresh_s)))
        if stored_bytes >= self._quota.bytes_max:
            storage_log.warning(
                "a tenant exceeds limits.stored.tenant_bytes_max",
                tenant=tenant_digits(tenant),
                held_bytes=stored_bytes,
                refused=is_active,
            )

    async def _count_in_background(self, tenant: bytes) -> None:
        try:
            await self.count(tenant)
        except MemsvcError as error:
            storage_log.warning(
                "the storage of a tenant could not be counted", code=error.code.value
            )
            count = self._counts.get(tenant)
            until = self._clock.now() + timedelta(seconds=FRESH_S_MAX)
            self._counts.put(
                tenant, replace(count, until=until) if count else _Count(0, False, until)
            )


@frozen
class Rate:
    """A rate per second with a burst of `burst_s` seconds' worth, at least one use.

    `cost_s` is how far one use moves the bucket, `depth_s` how far ahead of now it may be."""

    per_s: float
    burst_s: float
    cost_s: float = field(init=False)
    depth_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost_s", 1 / self.per_s)
        object.__setattr__(self, "depth_s", max(self.burst_s, self.cost_s))

    def wait_s(self, empty_at: float, now: float) -> float:
        """Return the seconds until one more use is allowed; 0 if it is now."""
        return max(0.0, max(empty_at, now) + self.cost_s - self.depth_s - now)

    def used(self, empty_at: float, now: float, times: int = 1) -> float:
        """Return when the bucket is empty after this many more uses."""
        return max(empty_at, now) + times * self.cost_s


log = structlog.get_logger("memsvc.rates")

EXCHANGE_SHARE: Final = 0.1
"""Share of its rate that a process must have used of a bucket before this is exchanged."""
AT_ONCE_RETRY_S: Final = 1.0
TENANT_DIGITS_MIN: Final = 8

Kind = Literal["calls", "requests"]
_KeyName = UUID | str
"""What identifies a key within its tenant: its id, or its label where it is not listed."""
_Bucket = tuple[Kind, _KeyName | None]
"""Kind of what is counted, and the key; None for all of a tenant's keys together."""


class RateOptions(Options):
    """Rate limits of a key and a tenant.

    A busy host of 32 agents, each with four tool calls in a turn of three seconds, makes about 50
    calls a second. One client that never pauses can make 300."""

    enabled: bool = Field(
        True,
        description="whether to limit the call rates and concurrent calls of each key and tenant",
    )
    key_calls_s: float = Field(
        300,
        ge=0,
        description="maximum number of calls per second per key, including steps of mcp_pipe; 0:"
        " unlimited",
    )
    tenant_calls_s: float = Field(
        600,
        ge=0,
        description="maximum number of calls per second for all keys of a tenant together; 0:"
        " unlimited",
    )
    key_requests_s: float = Field(
        600, ge=0, description="maximum number of HTTP requests per second per key; 0: unlimited"
    )
    tenant_requests_s: float = Field(
        1200,
        ge=0,
        description="maximum number of HTTP requests per second for all keys of a tenant together;"
        " 0: unlimited",
    )
    burst_s: float = Field(
        10,
        gt=0,
        le=3600,
        description="size of a burst: a caller that has paused can immediately make the number of"
        " calls that its rate limit allows in this many seconds",
    )
    key_calls_at_once: Amount = Field(
        64,
        description="maximum number of concurrent calls per key in one process; 0: unlimited",
    )
    tenant_calls_at_once: Amount = Field(
        128,
        description="maximum number of concurrent calls per tenant in one process; 0: unlimited",
    )
    tenants: tuple[str, ...] = Field(
        (),
        description="tenants with higher or lower limits, each as ID=FACTOR: ID is the first 8 or"
        " more digits of the tenant's id, as shown by `memsvc key list`; the tenant's limits are"
        " multiplied by FACTOR, such as 4 or 0.5",
    )
    told_every_s: float = Field(
        1.0,
        ge=0.05,
        le=60,
        description="interval at which replicas exchange their counts of calls, so that all"
        " replicas together keep to the rate limits",
    )

    @field_validator("tenants")
    @classmethod
    def _factors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            digits, _, factor = one.partition("=")
            if len(digits) < TENANT_DIGITS_MIN or not set(digits) <= set("0123456789abcdef"):
                raise ValueError(
                    "must be ID=FACTOR, where ID has at least 8 hexadecimal digits (0 to 9"
                    " and a to f)"
                )
            if not _is_positive(factor):
                raise ValueError("must be ID=FACTOR, where FACTOR is a number above 0")
        return value

    def factor(self, tenant: bytes) -> float:
        """Return the factor of this tenant's limits; the entry with most digits that fits wins."""
        entries = [entry.partition("=") for entry in self.tenants]
        matching = [
            (len(digits), float(factor))
            for digits, _, factor in entries
            if tenant.hex().startswith(digits)
        ]
        return max(matching)[1] if matching else 1.0


def _is_positive(number: str) -> bool:
    try:
        return 0 < float(number) < float("inf")
    except ValueError:
        return False


class LimitError(MemsvcError):
    """The call was refused because of a limit, not because of its content."""


@dataclass(slots=True)
class _BucketUse:
    """One bucket: when it is empty, by this process's clock, and use since the last exchange."""

    empty_at: float = 0.0
    pending: int = 0


@dataclass(slots=True)
class _TenantUse:
    """Current use of a tenant in this process."""

    rates: dict[_Bucket, Rate | None]
    keys_at_once: int
    at_once: int
    uses: dict[_Bucket, _BucketUse] = field(default_factory=dict)
    active: dict[_KeyName, int] = field(default_factory=dict)
    active_calls: int = 0
    sent_at: float | None = None


class RateLimits:
    """Counts calls and requests. Without the database, each process only uses its own counts."""

    def __init__(self, database: Database, options: RateOptions, meter: Meter) -> None:
        self._database = database
        self._options = options
        self._meter = meter
        self._tenants: dict[bytes, _TenantUse] = {}
        self._limits = cache(partial(_limits_of, options))
        self._exchange_now = asyncio.Event()

    def count(self, caller: Caller, kind: Kind) -> None:
        """Count one more use.

        Raises RATE_LIMITED, without counting, if the key or its tenant is at its limit."""
        if not self._options.enabled:
            return
        now = monotonic()
        tenant = self._tenant(caller.tenant)
        found: list[tuple[Rate, _BucketUse, float]] = []
        for bucket in ((kind, caller.key_id or caller.key_label), (kind, None)):
            rate = tenant.rates[kind, "" if bucket[1] is not None else None]
            if rate is None:
                continue
            use = tenant.uses.get(bucket)
            if use is None:
                use = tenant.uses[bucket] = _BucketUse()
            empty_at = max(use.empty_at, now) + rate.cost_s
            if empty_at - rate.depth_s > now:
                raise self._refused(bucket, empty_at - rate.depth_s - now)
            found.append((rate, use, empty_at))
        for rate, use, empty_at in found:
            use.empty_at = empty_at
            use.pending += 1
            if use.pending >= rate.per_s * self._options.told_every_s:
                self._exchange_now.set()

    def begin(self, caller: Caller) -> None:
        """Count a running call, until `end`. Raises RATE_LIMITED if too many calls are running."""
        if not self._options.enabled:
            return
        refused = self.over_limit(caller)
        if refused is not None:
            raise refused
        tenant, key = self._tenant(caller.tenant), caller.key_id or caller.key_label
        tenant.active[key] = tenant.active.get(key, 0) + 1
        tenant.active_calls += 1

    def end(self, caller: Caller) -> None:
        """Stop counting a call that has ended."""
        if not self._options.enabled:
            return
        tenant, key = self._tenant(caller.tenant), caller.key_id or caller.key_label
        tenant.active_calls -= 1
        tenant.active[key] -= 1
        if not tenant.active[key]:
            del tenant.active[key]

    def over_limit(self, caller: Caller) -> LimitError | None:
        """Return RATE_LIMITED if the key or its tenant has too many calls, or None."""
        if not self._options.enabled:
            return None
        tenant = self._tenant(caller.tenant)
        of_key = tenant.active.get(caller.key_id or caller.key_label, 0)
        if of_key >= tenant.keys_at_once > 0:
            return self._too_many("key", of_key, "with this key")
        if tenant.active_calls >= tenant.at_once > 0:
            return self._too_many("tenant", tenant.active_calls, "of this tenant")
        return None

    def _tenant(self, tenant: bytes) -> _TenantUse:
        found = self._tenants.get(tenant)
        if found is None:
            limits = self._limits(self._options.factor(tenant))
            found = self._tenants[tenant] = _TenantUse(*limits)
        return found

    def _refused(self, bucket: _Bucket, wait_s: float) -> LimitError:
        kind, label = bucket
        owner, wait_s = "tenant" if label is None else "key", round(wait_s + 0.0005, 3)
        message = f"this {owner} exceeds its limit of {kind} per second"
        return self._limit_error(f"{owner}_{kind}", message, wait_s)

    def _too_many(self, owner: str, count: int, subject: str) -> LimitError:
        message = f"{count} calls {subject} are already running, which is the limit"
        return self._limit_error(f"{owner}_at_once", message, AT_ONCE_RETRY_S)

    def _limit_error(self, reason: str, message: str, wait_s: float) -> LimitError:
        self._meter.add("memsvc_refused_total", reason=reason)
        return LimitError(Code.RATE_LIMITED, message, retry_after_s=wait_s)

    async def exchange(self) -> bool:
        """Exchange counts with other replicas. Returns whether the database could be reached.

        Counts that could not be sent are not sent later, since they would have expired by then."""
        now = monotonic()
        for name, tenant in list(self._tenants.items()):
            changes = {
                bucket: use.pending
                for bucket, use in tenant.uses.items()
                if self._is_significant(tenant, bucket, use)
            }
            for bucket, use in list(tenant.uses.items()):
                use.pending = 0
                if use.empty_at <= now and bucket not in changes:
                    del tenant.uses[bucket]
            try:
                if changes:
                    await self._exchange(name, tenant, changes)
                elif (
                    tenant.sent_at is not None
                    and now - tenant.sent_at > 2 * usage.QUIET_S + self._options.burst_s
                ):
                    async with self._database.begin_tenant(Scope(name, ALL_PROJECTS)) as tx:
                        await usage.forget_idle_rates(tx)
                    tenant.sent_at = None
            except MemsvcError as error:
                self._meter.add("memsvc_rates_told_total", status="error")
                if isinstance(error, ExclusiveLockError):  # while this tenant is being purged
                    continue
                log.warning(
                    "this replica cannot exchange its counts of calls with the other"
                    " replicas at the moment, so it applies the rate limits only to its own calls",
                    code=error.code.value,
                )
                return False
            if not (tenant.uses or tenant.active) and tenant.sent_at is None:
                del self._tenants[name]
        return True

    def _is_significant(self, tenant: _TenantUse, bucket: _Bucket, use: _BucketUse) -> bool:
        rate = _rate(tenant, bucket)
        return use.pending >= max(1.0, rate.per_s * self._options.told_every_s * EXCHANGE_SHARE)

    async def _exchange(self, name: bytes, tenant: _TenantUse, changes: dict[_Bucket, int]) -> None:
        used_s = {
            _bucket_name(bucket): times * _rate(tenant, bucket).cost_s
            for bucket, times in changes.items()
        }
        async with self._database.begin_tenant(Scope(name, ALL_PROJECTS)) as tx:
            offset_s = await usage.add_rate_usage(tx, used_s)
        now = tenant.sent_at = monotonic()
        for bucket in changes:
            use = tenant.uses.setdefault(bucket, _BucketUse())
            known = _rate(tenant, bucket).used(
                now + offset_s[_bucket_name(bucket)], now, use.pending
            )
            use.empty_at = max(use.empty_at, known)
        self._meter.add("memsvc_rates_told_total", status="success")

    def running(self) -> AbstractAsyncContextManager[None]:
        """Exchange counts in the background."""
        return in_background(self._exchange_loop())

    async def _exchange_loop(self) -> None:
        while True:
            await wait_for_event(self._exchange_now, self._options.told_every_s)
            self._exchange_now.clear()
            if not await self.exchange():
                await asyncio.sleep(self._options.told_every_s)


def _rate(tenant: _TenantUse, bucket: _Bucket) -> Rate:
    rate = tenant.rates[bucket[0], None if bucket[1] is None else ""]
    assert rate is not None  # otherwise there is no such bucket
    return rate


def _bucket_name(bucket: _Bucket) -> str:
    kind, label = bucket
    return kind if label is None else f"{kind} {label}"


def _limits_of(options: RateOptions, factor: float) -> tuple[dict[_Bucket, Rate | None], int, int]:
    """Return a tenant's rates, and how many calls of a key and of all its keys may run at once."""
    allowed: dict[_Bucket, float] = {
        ("calls", ""): options.key_calls_s,
        ("calls", None): options.tenant_calls_s,
        ("requests", ""): options.key_requests_s,
        ("requests", None): options.tenant_requests_s,
    }
    rates = {
        bucket: Rate(per_s * factor, options.burst_s) if per_s else None
        for bucket, per_s in allowed.items()
    }
    at_once = options.key_calls_at_once, options.tenant_calls_at_once
    of_key, of_tenant = (max(1, round(limit * factor)) if limit else 0 for limit in at_once)
    return rates, of_key, of_tenant
