"""Records written after the answers, in batches, or before an answer if they must not be lost.

Records that cannot be written are counted and dropped: a crash may lose the last second of them,
and nothing else is lost with it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final, Generic, Protocol, TypeVar

import structlog
from pydantic import Field

from memsvc.core.background import wait_for_event
from memsvc.core.errors import ExclusiveLockError, MemsvcError
from memsvc.core.options import Count, Options, Positive
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store.database import Database, Tx

log = structlog.get_logger("memsvc.behind")

LOCK_TIMEOUT_MS = 250
"""How long the records of a scope wait for an exclusive lock on it: the others wait for them."""
FAILURES_MAX: Final = 3
"""After so many scopes whose records cannot be written it is the database, and not they."""
NOW_S_MAX: Final = 2.0
"""How long an answer waits for a record that is stored before it."""


class BatchWriterOptions(Options):
    """Options for writing records in the background."""

    flush_every_s: Positive = Field(0.5, description="maximum delay before a record is written")
    batch_records: Count = Field(200, description="maximum number of records written at once")
    backlog_max: Count = Field(
        10_000,
        description="maximum number of records that wait for the database; if there are more, the"
        " oldest are dropped",
    )
    keep_s: Positive = Field(
        300.0,
        description="maximum time for which a record waits for the database before it is dropped",
    )


class BatchRecord(Protocol):
    """Record of one scope and one time. Writing it twice must store it once."""

    @property
    def scope(self) -> Scope: ...

    @property
    def at(self) -> datetime: ...


_Record = TypeVar("_Record", bound=BatchRecord)
_Key = tuple[bytes, str]
"""A scope's tenant and project."""


@dataclass
class BatchWriter(Generic[_Record]):
    """Writer of records in batches, those of one scope in one transaction.

    `dropped` is called with the number of lost records. While a purge or restore holds a scope
    exclusively, its records wait for the end of that or, unless they are `keep_after_purge` it, are
    dropped: purged data does not come back with them.
    """

    database: Database
    clock: Clock
    options: BatchWriterOptions
    kind: str
    write: Callable[[Tx, Sequence[_Record]], Awaitable[object]]
    dropped: Callable[[int], None]
    keep_after_purge: bool = True
    _waiting: deque[_Record] = field(default_factory=deque)
    _batch_ready: asyncio.Event = field(default_factory=asyncio.Event)
    _flushing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stopped: bool = False

    def record(self, record: _Record) -> None:
        """Keep a record for the next batch; drop the oldest one when there are too many."""
        if len(self._waiting) >= self.options.backlog_max:
            self._waiting.popleft()
            self.dropped(1)
        self._waiting.append(record)
        if len(self._waiting) >= self.options.batch_records:
            self._batch_ready.set()

    async def record_now(self, record: _Record) -> None:
        """Store a record before this returns.

        One that the database does not take within `NOW_S_MAX`, or whose caller is cancelled
        meanwhile, waits for the next batch.
        """
        stored = False
        try:
            with suppress(MemsvcError, TimeoutError):
                async with asyncio.timeout(NOW_S_MAX):
                    await self._write_group([record])
                stored = True
        finally:
            if not stored:
                self.record(record)

    def backlog(self) -> int:
        """Return the number of records that wait."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Write the waiting records, a batch at a time.

        Records of a scope that is locked exclusively or too slow wait and hold up no other scope;
        all wait once FAILING_MAX scopes have failed.
        """
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        deferred: dict[_Key, list[_Record]] = {}
        groups: dict[_Key, list[_Record]] = {}
        failures = 0
        while failures < FAILURES_MAX and (
            batch := list(islice(self._waiting, self.options.batch_records))
        ):
            self._waiting = deque(islice(self._waiting, len(batch), None))
            groups = {}
            for record in batch:
                key = (record.scope.tenant, record.scope.project)
                groups.setdefault(key, []).append(record)
            while groups and failures < FAILURES_MAX:
                key, group = groups.popitem()
                if key in deferred:
                    deferred[key] += group
                    continue
                try:
                    await self._write_group(group)
                except MemsvcError as error:
                    details = {"what": self.kind, "records": len(group), "code": error.code.value}
                    log.warning(
                        "records could not be written yet and are waiting for the database",
                        **details,
                    )
                    if isinstance(error, ExclusiveLockError) and not self.keep_after_purge:
                        self.dropped(len(group))
                        continue
                    deferred[key] = group
                    failures += not isinstance(error, ExclusiveLockError)
            if len(batch) < self.options.batch_records:
                break  # records added meanwhile wait for a batch of their own
        if deferred:
            self._put_back(chain(*deferred.values(), *groups.values()))

    async def _write_group(self, group: list[_Record]) -> None:
        """Write the records of one scope, or drop them if they never can be written.

        Raise retryable errors.
        """
        try:
            async with self.database.begin(group[0].scope, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
                await self.write(tx, group)
        except MemsvcError as error:
            if error.retryable:
                raise
            self._drop(len(group), error)
        except Exception as error:  # noqa: BLE001 - the task behind all calls outlives a record that no row can hold
            self._drop(len(group), error)

    def _drop(self, count: int, error: Exception) -> None:
        self.dropped(count)
        log.error(
            "records could not be written and were dropped",
            what=self.kind,
            records=count,
            exc_info=error,
        )

    def _put_back(self, records: Iterable[_Record]) -> None:
        oldest = self.clock.now() - timedelta(seconds=self.options.keep_s)
        waiting = [*records, *self._waiting]
        kept = [record for record in waiting if record.at >= oldest][-self.options.backlog_max :]
        if len(kept) < len(waiting):
            self.dropped(len(waiting) - len(kept))
        self._waiting = deque(kept)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write in the background, and once more at the end."""
        self._stopped = False
        task = asyncio.create_task(self._keep_writing())
        self.database.flush_callbacks.append(self.flush)
        try:
            yield
        finally:
            self.database.flush_callbacks.remove(self.flush)
            self._stopped = True
            self._batch_ready.set()
            await task
            if self._waiting:
                log.error(
                    "records that had not been written were lost at shutdown",
                    what=self.kind,
                    records=len(self._waiting),
                )

    async def _keep_writing(self) -> None:
        while not self._stopped:
            await wait_for_event(self._batch_ready, self.options.flush_every_s)
            self._batch_ready.clear()
            await self.flush()
            if self._waiting and not self._stopped:
                await asyncio.sleep(self.options.flush_every_s)
        await self.flush()
