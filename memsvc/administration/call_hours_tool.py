"""The tool that counts the calls of the last hours: calls_summary."""

from datetime import datetime, timedelta

from pydantic import Field

from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import AllProjectsArguments, Result, Tool
from memsvc.store.call_hours import COUNTED_MAX, HourOfCalls, count_by_hour
from memsvc.store.database import Database

HOURS_DEFAULT = 24
HOURS_MAX = 168


class CallsSummaryArguments(AllProjectsArguments):
    project: str = Field(
        ALL_PROJECTS, description="only calls of this project; `*`: of all that the key may touch"
    )
    hours: int = Field(
        HOURS_DEFAULT, ge=1, le=HOURS_MAX, description="how many hours back, this one among them"
    )


class CallsCounted(Result):
    success: int = Field(description="calls that succeeded")
    error: int = Field(description="calls that failed")
    cancelled: int = Field(description="calls that their callers gave up")
    p50_ms: float = Field(description="the time in which half of them were over; 0 without any")
    p95_ms: float = Field(
        description="the time in which all but a twentieth were over; 0 without any"
    )


class HourCounted(CallsCounted):
    hour: datetime = Field(description="when the hour began")


class CallsSummaryResult(Result):
    hours: list[HourCounted] = Field(
        description="each hour in which there was a call, the earliest first"
    )
    total: CallsCounted = Field(description="all of them together")
    since: datetime = Field(description="the beginning of what was asked for")
    counted_from: datetime | None = Field(
        description="the earliest call that was counted, where there were more than"
        f" {COUNTED_MAX}; null: all were"
    )


def call_hours_tool(database: Database, clock: Clock) -> Tool:
    """Return the tool calls_summary."""

    async def summary(scope: Scope, args: CallsSummaryArguments) -> CallsSummaryResult:
        now = clock.now()
        this_hour = now.replace(minute=0, second=0, microsecond=0)
        since = this_hour - timedelta(hours=args.hours - 1)
        async with database.begin_tenant(scope, read_only=True) as tx:
            counted = await count_by_hour(tx, since, now, scope.projects)
        return CallsSummaryResult(
            hours=[
                HourCounted(hour=hour.hour, **_counted(hour).model_dump())
                for hour in counted.hours
                if hour.hour is not None
            ],
            total=_counted(counted.total),
            since=since,
            counted_from=counted.counted_from,
        )

    return Tool(
        name="calls_summary",
        title="Count calls",
        description="Count the calls of the last hours, hour by hour: how they ended and how long"
        " they took.",
        arguments=CallsSummaryArguments,
        result=CallsSummaryResult,
        run=summary,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=frozenset({"project"}),
        spans_projects=True,
        is_admin=True,
    )


def _counted(hour: HourOfCalls) -> CallsCounted:
    return CallsCounted(
        success=hour.success,
        error=hour.error,
        cancelled=hour.cancelled,
        p50_ms=round(hour.p50_ms, 2),
        p95_ms=round(hour.p95_ms, 2),
    )
