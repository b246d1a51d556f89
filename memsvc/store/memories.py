"""Memories: facts of a user's index with an id and a client's metadata; settings and findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Final

from memsvc.core.facts import Fact, Identity
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.facts import COLUMNS, fact_of

MARK: Final = "~"
"""Separator in a record between the id of its memory and the number of the version."""

EVENTS_MAX: Final = 1000
"""Findings of a project that a client that was away can still read."""


@frozen
class Memory:
    """Current memory: its fact, and the client's metadata."""

    memory: str
    fact: Fact
    metadata: JsonObject
    created_at: datetime

    @property
    def text(self) -> str:
        """Text of the memory."""
        return self.fact.statement.value


@frozen
class Shown:
    """Which memories are to be read.

    With `since`, none that was neither made nor changed from then on; `metadata` are members that
    their metadata must have.
    """

    since: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


EVERY: Final = Shown()


@frozen
class MemoryEvent:
    """Result of one call: its number in the project, its time, and the texts that still hold."""

    number: int
    found_at: datetime
    texts: list[str]


def record_of(memory: str, version: int) -> str:
    """Return the record of the fact that a memory is in one of its versions, counted from 1."""
    return f"{memory}{MARK}{version}"


def version_of(record: str) -> int:
    """Return the version of its memory that a record is."""
    return int(record.partition(MARK)[2])


async def remember(
    tx: Tx,
    index_id: int,
    new: Sequence[tuple[str, Identity]],
    metadata: JsonObject,
    now: datetime,
) -> None:
    """Store memories by id, with the identities of their facts, which are stored separately."""
    await tx.execute(
        """
        INSERT INTO memories (tenant, project, book, memory, fact_id, key, slot, metadata,
            created_at)
        SELECT b.tenant, b.project, b.book, m.memory, m.fact_id, m.key, m.slot, $8, $9
        FROM books AS b, unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS m (memory,
            fact_id, key, slot)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
        """,
        index_id,
        *columns_of([(memory, *identity) for memory, identity in new], 4),
        metadata,
        now,
    )


async def describe(tx: Tx, index_id: int, memory: str, metadata: JsonObject) -> None:
    """Replace the metadata of a memory."""
    await tx.execute(
        "UPDATE memories SET metadata = $5 WHERE tenant = $1 AND project = $2 AND book = $3 AND"
        " memory = $4",
        index_id,
        memory,
        metadata,
    )


async def list_latest(tx: Tx, index_id: int, shown: Shown = EVERY, *, limit: int) -> list[Memory]:
    """Return the current memories of an index that are to be shown, the latest first."""
    return await _read(
        tx, index_id, shown, "true", "m.created_at DESC, f.entry DESC LIMIT $6", limit
    )


async def at(
    tx: Tx, index_id: int, entries: Sequence[int], shown: Shown = EVERY
) -> dict[int, Memory]:
    """Return the current memories to be shown among these entries, by entry."""
    found = await _read(tx, index_id, shown, "entry = ANY($6::int4[])", "f.entry", list(entries))
    return {memory.fact.entry: memory for memory in found}


async def find_by_ids(tx: Tx, index_id: int, ids: Iterable[str]) -> dict[str, Memory]:
    """Return the current ones of these memories of an index, by id."""
    rows = await tx.fetch(
        f"""
        SELECT f.*, m.memory, m.metadata, m.created_at FROM memories AS m CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book = m.book
              AND facts.fact_id = m.fact_id AND facts.key = m.key AND facts.slot = m.slot
                  AND state = 'active'
              AND split_part(record, '{MARK}', 1) = m.memory) AS f
        WHERE m.tenant = $1 AND m.project = $2 AND m.book = $3 AND m.memory = ANY($4::text[])
        """,
        index_id,
        list(ids),
    )
    return {memory.memory: memory for memory in map(_memory, rows)}


async def with_texts(tx: Tx, index_id: int, texts: Sequence[str]) -> list[Memory]:
    """Return the current memories of an index with one of these texts.

    Case and a full stop at the end do not count.
    """
    condition = "(value = ANY($6::text[]) OR rtrim(lower(value), '.') = ANY($7::text[]))"
    return await _read(
        tx,
        index_id,
        EVERY,
        condition,
        "f.entry",
        list(texts),
        [text.lower().rstrip(".") for text in texts],
    )


async def of_kinds(
    tx: Tx, index_id: int, kinds: Iterable[str], shown: Shown = EVERY, *, limit: int
) -> list[Memory]:
    """Return the current memories to be shown that are facts of these ids, the latest first."""
    return await _read(
        tx,
        index_id,
        shown,
        "fact_id = ANY($6::text[])",
        "m.created_at DESC, f.entry DESC LIMIT $7",
        list(kinds),
        limit,
    )


async def count_current(tx: Tx, index_id: int) -> int:
    """Return the number of current memories of an index."""
    return await tx.fetch_int(
        "SELECT count(*) FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND state ="
        " 'active'",
        index_id,
    )


async def has_any(tx: Tx, index_id: int) -> bool:
    """Return whether an index ever had a memory."""
    return await tx.fetch_bool(
        "SELECT EXISTS (SELECT FROM memories WHERE tenant = $1 AND project = $2 AND book = $3)",
        index_id,
    )


# The project's indexes that ever had a memory, up to $3: a step of the primary key each.
_INDEXES: Final = """
    WITH RECURSIVE walk AS (
        (SELECT book FROM memories WHERE tenant = $1 AND project = $2 ORDER BY book LIMIT 1)
        UNION ALL
        SELECT following.book FROM walk CROSS JOIN LATERAL (
            SELECT book FROM memories WHERE tenant = $1 AND project = $2 AND book > walk.book
            ORDER BY book LIMIT 1) AS following
    ), counted AS (SELECT book FROM walk LIMIT $3)
"""


async def users(tx: Tx, *, limit: int) -> int:
    """Return the number of the project's indexes that ever had a memory, up to `limit`."""
    return await tx.fetch_int(f"{_INDEXES} SELECT count(*) FROM counted", limit)


async def index_names(tx: Tx, *, limit: int) -> dict[int, str]:
    """Return the names of the project's indexes that ever had a memory, up to `limit`."""
    return await tx.fetch_pairs(
        f"""
        {_INDEXES}
        SELECT b.book, b.name FROM counted CROSS JOIN LATERAL (
            SELECT book, name FROM books WHERE tenant = $1 AND project = $2
                AND book = counted.book) AS b
        """,
        limit,
    )


async def fact_versions(tx: Tx, index_id: int, memory: str) -> list[Fact]:
    """Return the facts that a memory was, oldest first, also when it has ended.

    None where there never was such a memory.
    """
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT f.* FROM memories AS m CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book = m.book
              AND facts.fact_id = m.fact_id AND facts.key = m.key AND facts.slot = m.slot
                  AND NOT forgotten
              AND split_part(record, '{MARK}', 1) = m.memory) AS f
        WHERE m.tenant = $1 AND m.project = $2 AND m.book = $3 AND m.memory = $4
        ORDER BY f.valid_from, f.entry
        """,
        index_id,
        memory,
    )


async def _read(
    tx: Tx, index_id: int, shown: Shown, condition: str, order: str, *arguments: Any
) -> list[Memory]:
    """Return the memories to be shown whose facts are current and meet a condition.

    Arguments of the condition and the order begin at $6.
    """
    # OFFSET 0: the id is a value when memories are looked up; row level security keeps an
    # expression from their key
    return await tx.fetch_with(
        _memory,
        f"""
        SELECT f.*, m.memory, m.metadata, m.created_at FROM (
            SELECT book, {COLUMNS}, split_part(record, '{MARK}', 1) COLLATE "C" AS id FROM facts
            WHERE tenant = $1 AND project = $2 AND book = $3 AND state = 'active'
                AND ($4::timestamptz IS NULL OR valid_from >= $4) AND {condition} OFFSET 0) AS f
        JOIN memories AS m ON m.tenant = $1 AND m.project = $2 AND m.book = $3 AND m.memory = f.id
        WHERE m.metadata @> $5
        ORDER BY {order}
        """,
        index_id,
        shown.since,
        dict(shown.metadata),
        *arguments,
    )


def _memory(row: Row) -> Memory:
    return Memory(row["memory"], fact_of(row), row["metadata"], row["created_at"])


async def delete_without_facts(tx: Tx, index_id: int, records: Iterable[str]) -> int:
    """Delete the memories of these records that have no fact left, past ones included.

    Return how many.
    """
    ids = sorted({record.partition(MARK)[0] for record in records})
    return await tx.execute(
        f"""
        DELETE FROM memories AS m WHERE m.tenant = $1 AND m.project = $2 AND m.book = $3
            AND m.memory = ANY($4::text[])
            AND NOT EXISTS (SELECT FROM facts AS f WHERE f.tenant = $1 AND f.project = $2
                AND f.book = $3
                AND split_part(f.record, '{MARK}', 1) = m.memory)
        """,
        index_id,
        ids,
    )


@frozen
class MemorySettings:
    """Settings of a project; `prompt` is its own prompt for extracting facts, if it has one."""

    settings: JsonObject
    prompt: str | None


async def read_settings(tx: Tx) -> MemorySettings:
    """Return the settings of the project; empty ones where it has none."""
    found = await tx.fetchrow_as(
        MemorySettings,
        "SELECT wanted AS settings, prompt FROM memory_settings WHERE tenant = $1 AND project = $2",
    )
    return found or MemorySettings({}, None)


async def set_settings(tx: Tx, settings: JsonObject) -> None:
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
    number = await tx.fetchval(
        """
        INSERT INTO memory_settings AS s (tenant, project, findings) VALUES ($1, $2, 1)
        ON CONFLICT (tenant, project) DO UPDATE SET findings = s.findings + 1 RETURNING findings
        """
    )
    await tx.execute(
        """
        WITH outdated AS (
            DELETE FROM memory_findings WHERE tenant = $1 AND project = $2 AND number <= $8
        )
        INSERT INTO memory_findings (tenant, project, number, book, first_entry, entries, found_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        """,
        number,
        index_id,
        first_entry,
        entries,
        now,
        number - EVENTS_MAX,
    )


async def latest_event(tx: Tx) -> int:
    """Return the number of the project's latest finding."""
    latest: int | None = await tx.fetchval(
        "SELECT findings FROM memory_settings WHERE tenant = $1 AND project = $2"
    )
    return latest or 0


async def events_since(tx: Tx, number: int, *, limit: int) -> list[MemoryEvent]:
    """Return the next findings after this one, oldest first, with the texts not deleted by now."""
    return await tx.fetch_as(
        MemoryEvent,
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
