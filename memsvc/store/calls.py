"""The call log: one row a call, written in batches behind the answer, read a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memsvc.store.database import Row, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call as the log keeps it. `arguments` are shapes, never content; `call` makes a repeated insert harmless."""

    tenant: bytes
    project: str
    call: UUID
    called_at: datetime
    surface: str
    tool: str
    key_label: str
    status: str
    code: str | None
    duration_ms: float
    arguments: dict[str, Any]
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls to list; None does not narrow. `since` is inclusive, `until` exclusive."""

    tool: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def insert_calls(tx: Tx, records: Sequence[CallRecord]) -> int:
    """How many of these records, all of the transaction's scope, were new."""
    if any(record.tenant != tx.scope.tenant or record.project != tx.scope.project for record in records):
        raise ValueError("a call is logged in its own scope")
    return await tx.execute(
        """
        INSERT INTO calls (tenant, project, called_at, call, surface, tool, key_label, status, code, duration_ms,
                           arguments, request_id)
        SELECT $1, $2, c.* FROM unnest($3::timestamptz[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
                                       $9::text[], $10::real[], $11::jsonb[], $12::text[]) AS c
        ON CONFLICT DO NOTHING
        """,
        [record.called_at for record in records],
        [record.call for record in records],
        [record.surface for record in records],
        [record.tool for record in records],
        [record.key_label for record in records],
        [record.status for record in records],
        [record.code for record in records],
        [record.duration_ms for record in records],
        [record.arguments for record in records],
        [record.request_id for record in records],
    )


_FILTER = """
    FROM calls
    WHERE tenant = $1 AND project = $2
      AND ($3::text IS NULL OR tool = $3)
      AND ($4::text IS NULL OR status = $4)
      AND ($5::timestamptz IS NULL OR called_at >= $5)
      AND ($6::timestamptz IS NULL OR called_at < $6)
"""


async def list_calls(tx: Tx, filters: CallFilter, page: int, page_size: int) -> tuple[list[CallRecord], int]:
    """One page of the scope's calls, newest first and counted from page 1, and how many there are in all."""
    narrowed = (filters.tool, filters.status, filters.since, filters.until)
    total: int = await tx.fetchval(f"SELECT count(*) {_FILTER}", *narrowed)
    rows = await tx.fetch(
        f"""
        SELECT tenant, project, called_at, call, surface, tool, key_label, status, code, duration_ms, arguments,
               request_id
        {_FILTER}
        ORDER BY called_at DESC, call DESC LIMIT $7 OFFSET $8
        """,
        *narrowed,
        page_size,
        (page - 1) * page_size,
    )
    return [_record(row) for row in rows], total


def _record(row: Row) -> CallRecord:
    return CallRecord(**dict(row.items()))
