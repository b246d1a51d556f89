"""What a project wants of its memories, and what was found in it, for those who wait for that."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsvc.store.database import Tx
from memsvc.store.memories import FINDINGS_KEPT, Finding


@dataclass(frozen=True, slots=True)
class Wants:
    """What a project said that it wants; `prompt` is its own way to ask a model for facts, if it has one."""

    wanted: dict[str, Any]
    prompt: str | None


async def wants(tx: Tx) -> Wants:
    """What the project wants; nothing where it never said."""
    row = await tx.fetchrow("SELECT wanted, prompt FROM memory_settings WHERE tenant = $1 AND project = $2")
    return Wants(row["wanted"], row["prompt"]) if row is not None else Wants({}, None)


async def want(tx: Tx, wanted: dict[str, Any]) -> None:
    """Note what the project wants, all of it."""
    await tx.execute(
        """
        INSERT INTO memory_settings (tenant, project, wanted) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, project) DO UPDATE SET wanted = EXCLUDED.wanted
        """,
        wanted,
    )


async def ask_by(tx: Tx, prompt: str | None) -> None:
    """Note how the project wants a model to be asked; None for the way that everybody has."""
    await tx.execute(
        """
        INSERT INTO memory_settings (tenant, project, prompt) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, project) DO UPDATE SET prompt = EXCLUDED.prompt
        """,
        prompt,
    )


async def found(tx: Tx, book: int, first_entry: int, entries: int, now: datetime) -> None:
    """Note what a call brought. To be the last that a transaction does: until it ends, no other of the project can note
    anything, so that findings are committed in the order of their numbers."""
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
        book,
        first_entry,
        entries,
        now,
        FINDINGS_KEPT,
    )


async def findings(tx: Tx) -> int:
    """The number of the project's latest finding."""
    latest: int | None = await tx.fetchval("SELECT findings FROM memory_settings WHERE tenant = $1 AND project = $2")
    return latest or 0


async def since(tx: Tx, number: int, *, most: int) -> list[Finding]:
    """The findings behind this one, oldest first, at most so many, with the texts of what is not deleted by now."""
    rows = await tx.fetch(
        """
        SELECT one.number, one.found_at, ARRAY(
            SELECT value FROM facts AS f WHERE f.tenant = $1 AND f.project = $2 AND f.book = one.book
              AND f.entry >= one.first_entry AND f.entry < one.first_entry + one.entries
              AND f.state <> 'deleted' AND NOT f.forgotten ORDER BY f.entry) AS texts
        FROM memory_findings AS one WHERE one.tenant = $1 AND one.project = $2 AND one.number > $3
        ORDER BY one.number LIMIT $4
        """,
        number,
        most,
    )
    return [Finding(row["number"], row["found_at"], list(row["texts"])) for row in rows]
