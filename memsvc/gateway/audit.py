"""The call log's writing side: what a call looked like without its content, written in batches behind the answers."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import MemsvcError
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Arguments, Tool
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.audit")

LOGGED_CHARS_MAX = 128
INTEGER_MAX = 2**53
UNKNOWN_NAMES = "unknown_names"


def printable(text: str, chars_max: int) -> str:
    """The text cut to a length, with whatever a log or a database might choke on replaced."""
    text = text[:chars_max]
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )


def shape(arguments: Any, tool: Tool) -> dict[str, Any]:
    """What the call log keeps of arguments: numbers and booleans, the strings that the tool names as logged, and the
    size of everything else. Names that the tool does not have may themselves be content: they are only counted."""
    if not isinstance(arguments, Mapping):
        return {} if arguments is None else {"arguments": {"redacted": True}}
    known = argument_names(tool.arguments)
    kept = {name: _shape(value, name in tool.logged) for name, value in arguments.items() if name in known}
    unknown = len(arguments) - len(kept)
    return kept | {UNKNOWN_NAMES: unknown} if unknown else kept


@lru_cache(maxsize=1024)
def argument_names(arguments: type[Arguments]) -> frozenset[str]:
    """Every name by which an argument may be given."""
    fields = arguments.model_fields.items()
    names = (name for field, spec in fields for name in (field, spec.alias, spec.validation_alias))
    return frozenset(name for name in names if isinstance(name, str))


def _shape(value: Any, logged: bool) -> Any:
    match value:
        case None | bool():
            return value
        case int() if abs(value) <= INTEGER_MAX:
            return value
        case float():
            return value if isfinite(value) else None
        case str() if logged:
            return printable(value, LOGGED_CHARS_MAX)
        case str():
            return {"redacted": True, "bytes": len(value.encode("utf-8", "surrogatepass"))}
        case list():
            return {"redacted": True, "items": len(value), "bytes": _size(value)}
        case dict():
            return {"redacted": True, "fields": len(value), "bytes": _size(value)}
        case _:
            return {"redacted": True}


def _size(value: Any) -> int | None:
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return None


class AuditOptions(BaseModel):
    """How the call log is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    flush_every_s: float = Field(0.5, gt=0, description="how long a call record waits at the most")
    batch_records: int = Field(200, ge=1, description="how many records are written together at the most")
    backlog_max: int = Field(10_000, ge=1, description="how many records wait for the database before the oldest go")
    keep_s: float = Field(300.0, gt=0, description="how long a record waits for the database before it goes")


class CallLog:
    """Takes records without waiting or failing and writes them behind; what cannot be written is counted and gone."""

    def __init__(self, database: Database, meter: Meter, clock: Clock, options: AuditOptions) -> None:
        self._database = database
        self._meter = meter
        self._clock = clock
        self._options = options
        self._waiting: deque[CallRecord] = deque()
        self._enough = asyncio.Event()
        self._stopping = False

    def record(self, record: CallRecord) -> None:
        """Keep a record for the next batch; the oldest one goes when there are too many."""
        if len(self._waiting) >= self._options.backlog_max:
            self._waiting.popleft()
            self._meter.add("memsvc_audit_dropped_total")
        self._waiting.append(record)
        if len(self._waiting) >= self._options.batch_records:
            self._enough.set()

    def backlog(self) -> int:
        """How many records wait."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Write what waits, a batch at a time, until the database will not take one for now."""
        while batch := list(islice(self._waiting, self._options.batch_records)):
            self._waiting = deque(islice(self._waiting, len(batch), None))
            groups = _groups(batch)
            while groups:
                if not await self._written(groups[-1]):
                    self._put_back(record for group in groups for record in group)
                    return
                groups.pop()
            if len(batch) < self._options.batch_records:
                return  # what came meanwhile waits for a batch of its own

    async def _written(self, group: list[CallRecord]) -> bool:
        """Whether the records of one scope are dealt with; False while the database is away."""
        try:
            async with self._database.begin(Scope(group[0].tenant, group[0].project)) as tx:
                await insert_calls(tx, group)
        except MemsvcError as error:
            if error.retryable:
                log.warning("call records wait for the database", records=len(group), code=error.code.value)
                return False
            self._drop(len(group), error)
        except Exception as error:  # noqa: BLE001 - the task behind all calls outlives a record that no row can hold
            self._drop(len(group), error)
        return True

    def _drop(self, count: int, error: Exception) -> None:
        self._meter.add("memsvc_audit_dropped_total", count)
        log.error("call records were dropped", records=count, exc_info=error)

    def _put_back(self, records: Iterable[CallRecord]) -> None:
        oldest = self._clock.now() - timedelta(seconds=self._options.keep_s)
        waiting = [*records, *self._waiting]
        kept = [record for record in waiting if record.called_at >= oldest][-self._options.backlog_max :]
        if len(kept) < len(waiting):
            self._meter.add("memsvc_audit_dropped_total", len(waiting) - len(kept))
        self._waiting = deque(kept)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write in the background, and once more at the end."""
        task = asyncio.create_task(self._keep_writing())
        try:
            yield
        finally:
            self._stopping = True
            self._enough.set()
            await task
            if self._waiting:
                log.error("call records were lost at the end", records=len(self._waiting))

    async def _keep_writing(self) -> None:
        while not self._stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.flush_every_s):
                    await self._enough.wait()
            self._enough.clear()
            await self.flush()
            if self._waiting and not self._stopping:
                await asyncio.sleep(self._options.flush_every_s)
        await self.flush()


def _groups(records: Iterable[CallRecord]) -> list[list[CallRecord]]:
    groups: dict[tuple[bytes, str], list[CallRecord]] = {}
    for record in records:
        groups.setdefault((record.tenant, record.project), []).append(record)
    return list(groups.values())
