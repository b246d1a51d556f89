"""Records calls when they end, and maintains the call log."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from math import isfinite
from time import perf_counter
from typing import Any, Final
from unicodedata import normalize
from uuid import uuid4

import orjson
import structlog
from pydantic import Field

from memsvc.core.background import in_background
from memsvc.core.call_context import AttributeValue, CallContext
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_project
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT, OPEN_LABEL, Caller, tenant_digits
from memsvc.core.tools import Arguments, Tool
from memsvc.core.validation_messages import LOGGED_CHARS_MAX, safe_text
from memsvc.gateway.metrics import NO_CODE, UNKNOWN_TOOL
from memsvc.store.batch_writer import BatchWriter, BatchWriterOptions
from memsvc.store.calls import CallRecord, insert_calls, roll
from memsvc.store.database import Database

INTERVAL_S: Final = 6 * 3600.0
RETRY_S: Final = 300.0


@frozen
class Retention:
    """Maintains the partitions of the call log, at the start and a few times a day.

    Any number of processes may run it: the first one does the work."""

    database: Database
    keep_days: int

    async def roll(self) -> bool:
        """Maintain the partitions; return whether that succeeded. A failure is logged."""
        try:
            rolled = await roll(self.database, self.keep_days)
        except MemsvcError as error:
            audit_log.warning(
                "the weekly partitions (tables) of the call log could not be created or dropped",
                code=error.code.value,
            )
            return False
        if rolled.made or rolled.dropped:
            audit_log.info(
                "weekly partitions (tables) of the call log were created or dropped",
                made=rolled.made,
                dropped=rolled.dropped,
            )
        if rolled.kept_days > self.keep_days > 0:
            audit_log.warning(
                "the call log is kept longer than audit.retention_days, because the minimum that"
                " the database owner set in memsvc_calls_kept_days_min() is longer",
                days=rolled.kept_days,
            )
        return True

    def running(self) -> AbstractAsyncContextManager[None]:
        """Maintain the partitions in the background."""
        return in_background(self._roll_loop())

    async def _roll_loop(self) -> None:
        while True:
            rolled = await self.roll()
            await asyncio.sleep(INTERVAL_S if rolled else RETRY_S)


audit_log = structlog.get_logger("memsvc.audit")

INTEGER_MAX = 2**53
UNKNOWN_NAMES = "unknown_names"


Elicit = Callable[[str], Awaitable[None]]
"""Asks the user of a client about what a text says; NOT_ACCEPTED unless the user agrees."""


def shape(arguments: Any, tool: Tool, shown: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the form of the arguments that the call log stores.

    It has numbers and booleans, the strings that the tool names as logged or that are `shown`, and
    the size of everything else. Unknown argument names may themselves be content, so they are only
    counted."""
    if not isinstance(arguments, Mapping):
        return {} if arguments is None else {"arguments": {"redacted": True}}
    known = argument_names(tool.arguments)
    kept = {
        name: _shape(value, name in tool.logged or name in shown)
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
        description="number of days for which calls are listed; they are deleted at most a week"
        " later; 0: calls are listed forever",
    )
    slow_ms: int = Field(
        1000,
        ge=0,
        description="duration in milliseconds above which a call is logged as slow; 0: never",
    )


CallLog = BatchWriter[CallRecord]
"""Queue of call records that never waits or fails, written in batches."""


def call_log(database: Database, meter: Meter, clock: Clock, options: AuditOptions) -> CallLog:
    """Return the call log of a process. Records that could not be written are counted."""
    return BatchWriter(
        database,
        clock,
        options,
        kind="calls",
        write=insert_calls,
        dropped=lambda count: meter.add("memsvc_audit_dropped_total", count),
    )


LINES_MAX: Final = 10
LINES_WITHIN: Final = timedelta(seconds=60)


@dataclass(slots=True)
class SlowCalls:
    """Logs calls that took longer than `slow_ms` (0: none), a limited number a minute.

    All slow calls are counted, even if they are not logged."""

    slow_ms: int
    meter: Meter
    clock: Clock
    _started_at: datetime | None = None
    _lines: int = 0
    _left_out: int = 0

    def record(self, tool: str, duration_ms: float, details: dict[str, Any]) -> None:
        """Log a call that has ended if it was slow. `details` must not contain content."""
        if not 0 < self.slow_ms < duration_ms:
            return
        self.meter.add("memsvc_slow_calls_total", tool=tool)
        now = self.clock.now()
        if self._started_at is None or now - self._started_at >= LINES_WITHIN:
            self._started_at, self._lines = now, 0
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        left_out = {"left_out_before": self._left_out} if self._left_out else {}
        self._left_out = 0
        log.warning("slow call", tool=tool, latency_ms=round(duration_ms, 2), **details, **left_out)


log = structlog.get_logger("memsvc.calls")


@dataclass(slots=True)
class Raw:
    """Bytes sent outside of a call's arguments: the argument that they replace, their number."""

    argument: str
    size_bytes: int = 0


@dataclass(slots=True)
class Call:
    """A call in progress, with the facts about it that will be logged."""

    caller: Caller
    surface: str
    request_id: str
    arguments: Any
    raw: Raw | None = None
    traceparent: str = ""
    elicit: Elicit | None = None
    accepted: bool = False
    context: CallContext = field(default_factory=CallContext)
    started: float = field(default_factory=perf_counter)
    tool: Tool | None = None
    project: str = ""
    status: str = "cancelled"
    code: str = NO_CODE

    @property
    def tool_name(self) -> str:
        return UNKNOWN_TOOL if self.tool is None else self.tool.name

    def logged_project(self) -> str:
        """Return the project that the call is logged under.

        Before the arguments are validated, that is the project that they name, if it is valid."""
        if self.project or self.tool is None:
            return self.project or DEFAULT_PROJECT
        project = self.arguments.get("project") if isinstance(self.arguments, Mapping) else None
        if not isinstance(project, str) or not project.strip():
            project = self.tool.arguments.model_fields["project"].default
        if self.tool.spans_projects and project == ALL_PROJECTS:
            return ALL_PROJECTS
        try:
            return check_project(project.strip()) if isinstance(project, str) else DEFAULT_PROJECT
        except MemsvcError:
            return DEFAULT_PROJECT

    def failed(self, error: MemsvcError) -> MemsvcError:
        """Record that the call ended with this error.

        An internal error gets the request id, by which it is found in the log. NOT_FOUND names the
        project and user that were searched."""
        self.status, self.code = "error", error.code.value
        if error.code is Code.INTERNAL_ERROR:
            error.details = {**error.details, "request_id": self.request_id}
        # errors of the protocol have the details that clients of an older server expect
        if error.code is Code.NOT_FOUND and self.tool and not self.tool.protocol_errors:
            error.details = {**error.details, "looked_in": self._place()}
        return error

    def _place(self) -> dict[str, str]:
        """Return the project, user and session in which a call looked."""
        named = {name: self.identifier(name) for name in ("user_id", "session_id")}
        return {"project": self.logged_project()} | {
            name: value for name, value in named.items() if value
        }

    def shape(self) -> dict[str, Any]:
        """Return the form of the arguments that the call log stores."""
        if self.tool is None:
            return {}
        result = shape(self.arguments, self.tool)
        if self.raw is not None:
            result[self.raw.argument] = {"redacted": True, "bytes": self.raw.size_bytes}
        return result

    def identifier(self, name: str) -> str | None:
        """Return the argument of this name if the tool allows it to be logged, else None."""
        may_be_logged = self.tool is not None and name in self.tool.logged
        sent = self.arguments if isinstance(self.arguments, Mapping) else {}
        value = sent.get(name) if may_be_logged else None
        return safe_text(value, 128) if isinstance(value, str) else None


def _public_ids(caller: Caller) -> dict[str, str | None]:
    """Return the key and the tenant as `memsvc key list` prints them, the tenant's first digits.

    The tenant of a key that is not listed is a hash of the key, which is not logged."""
    is_listed = caller.key_label != OPEN_LABEL or caller.key_id is not None
    return {
        "key_id": None if caller.key_id is None else str(caller.key_id),
        "tenant": tenant_digits(caller.tenant) if is_listed else None,
    }


class CallAccounting:
    """Records calls that have ended; calls slower than `slow_ms` (if not 0) are also logged."""

    def __init__(self, call_log: CallLog, meter: Meter, clock: Clock, slow_ms: int) -> None:
        self._call_log = call_log
        self._meter = meter
        self._clock = clock
        self._slow_calls = SlowCalls(slow_ms, meter, clock)

    async def close(self, call: Call) -> dict[str, AttributeValue]:
        """Log and count a call that has ended in any way; return the notes for its trace."""
        duration_ms = (perf_counter() - call.started) * 1000
        tool = call.tool
        self._meter.add(
            "memsvc_calls_total", tool=call.tool_name, status=call.status, code=call.code
        )
        self._meter.add("memsvc_call_duration_ms", duration_ms, tool=call.tool_name)
        if tool is not None and tool.counter is not None:
            self._meter.add(tool.counter, status=call.status)
        if tool is not None and tool.duration_ms is not None:
            self._meter.add(tool.duration_ms, duration_ms)
        details = {
            "request_id": call.request_id,
            "surface": call.surface,
            "project": call.logged_project(),
            "status": call.status,
            **_public_ids(call.caller),
        }
        log.info(
            "call",
            **details,
            tool=call.tool_name,
            session_id=call.identifier("session_id"),
            turn_id=call.identifier("turn_id"),
            latency_ms=round(duration_ms, 2),
            code=call.code or None,
        )
        split = call.context.time_by_kind(duration_ms)
        self._slow_calls.record(call.tool_name, duration_ms, details | split)
        await self._record(call, duration_ms)
        return {**split, "code": call.code}

    async def _record(self, call: Call, duration_ms: float) -> None:
        """Write a call to the call log: before its answer if it is an administrative change."""
        record = CallRecord(
            tenant=call.caller.tenant,
            project=call.logged_project(),
            call=uuid4(),
            called_at=self._clock.now(),
            surface=call.surface,
            tool=call.tool_name,
            key_label=call.caller.key_label,
            status=call.status,
            code=call.code or None,
            duration_ms=duration_ms,
            arguments=call.shape(),
            request_id=call.request_id,
        )
        tool = call.tool
        if tool and tool.is_admin and not tool.read_only and call.status == "success":
            await self._call_log.record_now(record)
        else:
            self._call_log.record(record)
