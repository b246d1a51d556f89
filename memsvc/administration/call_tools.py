"""The tool that lists the call log: calls_list."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints, field_validator

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.timestamp import Timestamp
from memsvc.core.tools import AllProjectsArguments, Result, Tool
from memsvc.store.calls import CallFilter, CallPosition, CallRecord, list_calls
from memsvc.store.database import Database

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
Name = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A string that can be in the call log, where all characters are printable."""


class CallsListArguments(AllProjectsArguments):
    project: str = Field(
        ALL_PROJECTS, description="only calls of this project; `*`: of all that the key may touch"
    )
    tool: Name | None = Field(None, description="only calls of this tool")
    status: Literal["success", "error", "cancelled"] | None = Field(
        None, description="only calls that ended so"
    )
    code: Name | None = Field(None, description="only calls that failed with this code")
    surface: Name | None = Field(
        None, description="only calls that came this way, such as mcp, rest, pipe"
    )
    key_label: Name | None = Field(None, description="only calls of keys of this label")
    session_id: Name | None = Field(
        None, description="only calls that named this session, as they named it"
    )
    since: Timestamp | None = Field(None, description="only calls at this time or later")
    until: Timestamp | None = Field(None, description="only calls before this time")
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="calls at the most")
    cursor: str = Field("", max_length=128, description="next_cursor of the page before")

    @field_validator("session_id")
    @classmethod
    def _session(cls, value: str | None) -> str | None:
        return check_identifier(value, "session_id") if value else None


class ListedCall(Result):
    id: UUID = Field(description="the call")
    called_at: datetime = Field(description="when it ended")
    surface: str = Field(description="which way it came")
    tool: str = Field(
        description="the tool; unknown where there is none of the name that was given"
    )
    project: str = Field(description="the project that it touched, * for several")
    key_label: str = Field(description="the label of the key that it came with")
    status: str = Field(description="success, error, or cancelled")
    code: str | None = Field(description="the code of the error, if it was one")
    duration_ms: float = Field(description="how long it took")
    arguments: dict[str, Any] = Field(
        description="the shape of its arguments: numbers, identifiers and paths as they were, of"
        " all else the size"
    )
    request_id: str = Field(description="the request that it was part of, as in the log")


class CallsListResult(Result):
    calls: list[ListedCall] = Field(description="the calls, newest first")
    next_cursor: str | None = Field(
        None, description="cursor of the next page, when there may be one"
    )


class CallLogReader:
    """Call log of a tenant, within its retention."""

    def __init__(self, database: Database, clock: Clock, retention_days: int) -> None:
        self._database = database
        self._clock = clock
        self._retention_days = retention_days

    async def list_page(self, scope: Scope, args: CallsListArguments) -> CallsListResult:
        """Return a page of the calls in the projects that the scope is confined to.

        Calls past their retention are left out, though they may be purged up to a week later.
        """
        filters = CallFilter(
            projects=scope.projects,
            tool=args.tool,
            status=args.status,
            code=args.code,
            surface=args.surface,
            key_label=args.key_label,
            session_id=args.session_id,
            since=self._since(args.since),
            until=args.until,
        )
        after = CallPosition(*decode_cursor(args.cursor, datetime, UUID)) if args.cursor else None
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            page = await list_calls(tx, filters, after=after, limit=args.limit)
        cursor = None if page.next is None else encode_cursor(page.next.called_at, page.next.call)
        return CallsListResult(calls=[_listed(call) for call in page.calls], next_cursor=cursor)

    def _since(self, requested: datetime | None) -> datetime | None:
        if self._retention_days == 0:
            return requested
        kept = self._clock.now() - timedelta(days=self._retention_days)
        return kept if requested is None else max(requested, kept)


def _listed(call: CallRecord) -> ListedCall:
    return ListedCall(
        id=call.call,
        called_at=call.called_at,
        surface=call.surface,
        tool=call.tool,
        project=call.project,
        key_label=call.key_label,
        status=call.status,
        code=call.code,
        duration_ms=round(call.duration_ms, 2),
        arguments=call.arguments,
        request_id=call.request_id,
    )


def call_tools(listing: CallLogReader) -> list[Tool]:
    """Return the tool calls_list."""
    return [
        Tool(
            name="calls_list",
            title="List calls",
            description="List the calls that were made, newest first, a page at a time: who"
            " called which tool when, how it ended and how long it took. A page may be short"
            " and have a next_cursor: go on with it.",
            arguments=CallsListArguments,
            result=CallsListResult,
            run=listing.list_page,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=frozenset({"project", "tool", "status", "code", "surface", "session_id"}),
            spans_projects=True,
            is_admin=True,
        )
    ]
