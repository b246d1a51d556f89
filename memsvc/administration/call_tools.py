"""The tools over the call log: calls_list and calls_summary."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.timestamp import Timestamp
from memsvc.core.tool_methods import admin_tool, result
from memsvc.store.calls import (
    COUNTED_MAX,
    CallFilter,
    CallPosition,
    CallRecord,
    HourOfCalls,
    count_by_hour,
    list_calls,
)
from memsvc.store.database import Database

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
HOURS_DEFAULT = 24
HOURS_MAX = 168
Name = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A string that can be in the call log, where all characters are printable."""


@result
class ListedCall:
    id: Annotated[UUID, "the call"]
    called_at: Annotated[datetime, "when it ended"]
    surface: Annotated[str, "which way it came"]
    tool: Annotated[str, "the tool; unknown where there is none of the name that was given"]
    project: Annotated[str, "the project that it touched, * for several"]
    key_label: Annotated[str, "the label of the key that it came with"]
    status: Annotated[str, "success, error, or cancelled"]
    code: Annotated[str | None, "the code of the error, if it was one"]
    duration_ms: Annotated[float, "how long it took"]
    arguments: Annotated[
        dict[str, Any],
        "the shape of its arguments: numbers, identifiers and paths as they were, of"
        " all else the size",
    ]
    request_id: Annotated[str, "the request that it was part of, as in the log"]


@result
class CallList:
    calls: Annotated[list[ListedCall], "the calls, newest first"]
    next_cursor: Annotated[str | None, "cursor of the next page, when there may be one"] = None


@result
class CallsCounted:
    success: Annotated[int, "calls that succeeded"]
    error: Annotated[int, "calls that failed"]
    cancelled: Annotated[int, "calls that their callers gave up"]
    p50_ms: Annotated[float, "the time in which half of them were over; 0 without any"]
    p95_ms: Annotated[float, "the time in which all but a twentieth were over; 0 without any"]


@result
class HourCounted(CallsCounted):
    hour: Annotated[datetime, "when the hour began"]


@result
class CallsSummary:
    hours: Annotated[list[HourCounted], "each hour in which there was a call, the earliest first"]
    total: Annotated[CallsCounted, "all of them together"]
    since: Annotated[datetime, "the beginning of what was asked for"]
    counted_from: Annotated[
        datetime | None,
        f"the earliest call that was counted, where there were more than {COUNTED_MAX}; null: all"
        " were",
    ]


class CallLogReader:
    """Call log of a tenant, within its retention.

    Calls past it are left out, though they may be purged up to a week later.
    """

    def __init__(self, database: Database, clock: Clock, retention_days: int) -> None:
        self._database = database
        self._clock = clock
        self._retention_days = retention_days

    @admin_tool(
        "calls_list",
        title="List calls",
        needs=Permission.READ,
        logs=("tool", "status", "code", "surface", "session_id"),
        project="only calls of this project; `*`: of all that the key may touch",
    )
    async def list_page(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        tool: Annotated[Name | None, "only calls of this tool"] = None,
        status: Annotated[
            Literal["success", "error", "cancelled"] | None, "only calls that ended so"
        ] = None,
        code: Annotated[Name | None, "only calls that failed with this code"] = None,
        surface: Annotated[
            Name | None, "only calls that came this way, such as mcp, rest, pipe"
        ] = None,
        key_label: Annotated[Name | None, "only calls of keys of this label"] = None,
        session_id: Annotated[
            Name | None, "only calls that named this session, as they named it"
        ] = None,
        since: Annotated[Timestamp | None, "only calls at this time or later"] = None,
        until: Annotated[Timestamp | None, "only calls before this time"] = None,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "calls at the most"] = LIMIT_DEFAULT,
        cursor: Annotated[str, Field(max_length=128), "next_cursor of the page before"] = "",
    ) -> CallList:
        """List the calls that were made, newest first, a page at a time.

        Who called which tool when, how it ended and how long it took. A page may be short and have
        a next_cursor: go on with it."""
        filters = CallFilter(
            projects=scope.projects,
            tool=tool,
            status=status,
            code=code,
            surface=surface,
            key_label=key_label,
            session_id=check_identifier(session_id, "session_id") if session_id else None,
            since=self._since(since),
            until=until,
        )
        after = CallPosition(*decode_cursor(cursor, datetime, UUID)) if cursor else None
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            page = await list_calls(tx, filters, after=after, limit=limit)
        return CallList(
            [_listed(call) for call in page.calls],
            None if page.next is None else encode_cursor(page.next.called_at, page.next.call),
        )

    @admin_tool(
        "calls_summary",
        title="Count calls",
        needs=Permission.READ,
        project="only calls of this project; `*`: of all that the key may touch",
    )
    async def summary(
        self,
        scope: Scope,
        hours: Annotated[
            int, Field(ge=1, le=HOURS_MAX), "how many hours back, this one among them"
        ] = HOURS_DEFAULT,
    ) -> CallsSummary:
        """Count the calls of the last hours: how they ended and how long they took, by the hour."""
        now = self._clock.now()
        since = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours - 1)
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            counted = await count_by_hour(tx, since, now, scope.projects)
        return CallsSummary(
            [
                HourCounted(*_counts(hour), hour.hour)
                for hour in counted.hours
                if hour.hour is not None
            ],
            CallsCounted(*_counts(counted.total)),
            since,
            counted.counted_from,
        )

    def _since(self, requested: datetime | None) -> datetime | None:
        if self._retention_days == 0:
            return requested
        kept = self._clock.now() - timedelta(days=self._retention_days)
        return kept if requested is None else max(requested, kept)


def _listed(call: CallRecord) -> ListedCall:
    return ListedCall(
        call.call,
        call.called_at,
        call.surface,
        call.tool,
        call.project,
        call.key_label,
        call.status,
        call.code,
        round(call.duration_ms, 2),
        call.arguments,
        call.request_id,
    )


def _counts(hour: HourOfCalls) -> tuple[int, int, int, float, float]:
    return hour.success, hour.error, hour.cancelled, round(hour.p50_ms, 2), round(hour.p95_ms, 2)
