"""Settings of a project for its memories, and its findings, for those who wait for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsvc.store.database import Tx
from memsvc.store.memories import EVENTS_MAX, MemoryEvent


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Settings of a project; `prompt` is its own prompt for extracting facts, if it has one."""

    settings: dict[str, Any]
    prompt: str | None


async def read_settings(tx: Tx) -> MemorySettings:
    """Return the settings of the project; empty ones where it has none."""
    row = await tx.fetchrow(
        "SELECT wanted, prompt FROM memory_settings WHERE tenant = $1 AND project = $2"
    )
    return (
        MemorySettings(row["wanted"], row["prompt"])
        if row is not None
        else MemorySettings({}, None)
    )


async def set_settings(tx: Tx, settings: dict[str, Any]) -> None:
    """Store all settings of the project."""
    await tx.execute(
        """
        INSERT INTO memory_settings (tenant, project, wanted) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, project) DO UPDATE SET wanted = EXCLUDED.wanted
        """,
        settings,
    )


async def set_prompt(tx: Tx, prompt: str | None) -> None:
    """Store the project's prompt for a model; None for the default one."""
    await tx.execute(
        """
        INSERT INTO memory_settings (tenant, project, prompt) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, project) DO UPDATE SET prompt = EXCLUDED.prompt
        """,
        prompt,
    )


async def add_event(tx: Tx, index_id: int, first_entry: int, entries: int, now: datetime) -> None:
    """Store what a call found, as the last statement of its transaction.

    Until that ends, no other of the project can store anything, so that findings are committed in
    the order of their numbers.
    """
    await tx.execute(
        """
        WITH counted AS (
            INSERT INTO memory_settings AS s (tenant, project, findings) VALUES ($1, $2, 1)
            ON CONFLICT (tenant, project) DO UPDATE SET findings = s.findings + 1 RETURNING findings
        ), outdated AS (
            DELETE FROM memory_findings USING counted
            WHERE tenant = $1 AND project = $2 AND number <= counted.findings - $7
        )
        INSERT INTO memory_findings (tenant, project, number, book, first_entry, entries, found_at)
        SELECT $1, $2, findings, $3, $4, $5, $6 FROM counted RETURNING 1
        """,
        index_id,
        first_entry,
        entries,
        now,
        EVENTS_MAX,
    )


async def latest_event(tx: Tx) -> int:
    """Return the number of the project's latest finding."""
    latest: int | None = await tx.fetchval(
        "SELECT findings FROM memory_settings WHERE tenant = $1 AND project = $2"
    )
    return latest or 0


async def events_since(tx: Tx, number: int, *, limit: int) -> list[MemoryEvent]:
    """Return the next findings after this one, oldest first, with the texts not deleted by now."""
    rows = await tx.fetch(
        """
        SELECT one.number, one.found_at, ARRAY(
            SELECT value FROM facts AS f WHERE f.tenant = $1 AND f.project = $2
                AND f.book = one.book
              AND f.entry >= one.first_entry AND f.entry < one.first_entry + one.entries
              AND f.state <> 'deleted' AND NOT f.forgotten ORDER BY f.entry) AS texts
        FROM memory_findings AS one WHERE one.tenant = $1 AND one.project = $2 AND one.number > $3
        ORDER BY one.number LIMIT $4
        """,
        number,
        limit,
    )
    return [MemoryEvent(row["number"], row["found_at"], list(row["texts"])) for row in rows]
