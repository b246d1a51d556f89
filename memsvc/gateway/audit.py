"""Writer of the call log, in batches and without content, and its deletion after the retention."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from math import isfinite
from typing import Any, Final
from unicodedata import normalize

import orjson
import structlog
from pydantic import Field

from memsvc.core.background import in_background
from memsvc.core.errors import MemsvcError
from memsvc.core.ports import Clock, Meter
from memsvc.core.tools import Arguments, Tool
from memsvc.core.validation_messages import LOGGED_CHARS_MAX, safe_text
from memsvc.store.batch_writer import BatchWriter, BatchWriterOptions
from memsvc.store.call_partitions import roll
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.database import Database

INTERVAL_S: Final = 6 * 3600.0
RETRY_S: Final = 300.0


class Retention:
    """Maintains the partitions, now and a few times a day.

    Any number of processes may run it: the first of them does the work.
    """

    def __init__(self, database: Database, keep_days: int) -> None:
        self._database = database
        self._keep_days = keep_days

    async def roll(self) -> bool:
        """Maintain the partitions; return whether that succeeded. A failure is logged."""
        try:
            rolled = await roll(self._database, self._keep_days)
        except MemsvcError as error:
            log.warning("the partitions of the call log were not maintained", code=error.code.value)
            return False
        if rolled.made or rolled.dropped:
            log.info(
                "the partitions of the call log were maintained",
                made=rolled.made,
                dropped=rolled.dropped,
            )
        if rolled.kept_days > self._keep_days > 0:
            log.warning(
                "the owner of the database keeps the call log longer", days=rolled.kept_days
            )
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it in the background."""
        async with in_background(self._roll_loop()):
            yield

    async def _roll_loop(self) -> None:
        while True:
            rolled = await self.roll()
            await asyncio.sleep(INTERVAL_S if rolled else RETRY_S)


log = structlog.get_logger("memsvc.audit")

INTEGER_MAX = 2**53
UNKNOWN_NAMES = "unknown_names"


def shape(arguments: Any, tool: Tool) -> dict[str, Any]:
    """Return what the call log keeps of arguments.

    Numbers and booleans, the strings that the tool names as logged, and the size of everything
    else. Unknown names may themselves be content: they are only counted.
    """
    if not isinstance(arguments, Mapping):
        return {} if arguments is None else {"arguments": {"redacted": True}}
    known = argument_names(tool.arguments)
    kept = {
        name: _shape(value, name in tool.logged)
        for name, value in arguments.items()
        if name in known
    }
    unknown = len(arguments) - len(kept)
    return kept | {UNKNOWN_NAMES: unknown} if unknown else kept


@lru_cache(maxsize=1024)
def argument_names(arguments: type[Arguments]) -> frozenset[str]:
    """Return every name by which an argument may be given."""
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
            # normalised as by the tools, so that a purge finds it; truncated first as in
            # check_identifier
            return safe_text(
                normalize("NFC", value.strip()[: 4 * LOGGED_CHARS_MAX]), LOGGED_CHARS_MAX
            )
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


class AuditOptions(BatchWriterOptions):
    """Options of the call log."""

    retention_days: int = Field(
        30,
        ge=0,
        le=36500,
        description="how long calls are shown; they are gone within a week after; 0: for ever",
    )
    slow_ms: int = Field(
        1000, ge=0, description="calls that take longer are told of in the log as slow; 0: none"
    )


CallLog = BatchWriter[CallRecord]
"""Queue of call records that never waits or fails, written in batches."""


def call_log(database: Database, meter: Meter, clock: Clock, options: AuditOptions) -> CallLog:
    """Return the call log of a process; records that could not be written are counted."""
    return BatchWriter(
        database,
        clock,
        options,
        kind="calls",
        write=insert_calls,
        dropped=lambda count: meter.add("memsvc_audit_dropped_total", count),
    )
