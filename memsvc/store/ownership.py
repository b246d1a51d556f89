"""What goes with a session, a user or a path, as the styles declare it, and how it is taken out.

Facts and insights that rest on a session or a user are removed from indexes that stay: each
function is one short step, and the transaction holds the lock of the index.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.scope import Scope
from memsvc.store import index, insights, memories, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.facts import COLUMNS, fact_of, indexed
from memsvc.store.index import index_id_of
from memsvc.store.insights import Insight
from memsvc.store.locks import Lock, index_lock

ROWS_PER_STEP: Final = 200
SESSIONS_PER_PAGE: Final = 1000

_OF_SESSION = "tenant = $1 AND project = $2 AND evidence ->> 'session' = $3"

Step = Callable[[Tx], Awaitable[Counter[str]]]
"""Removes, some at a time, what only the style can find; returns counts by table, nothing when none
is left."""


@frozen
class PurgeStep:
    """Rows that a style removes from data that stays.

    `count` returns how many rows of which table would go; each call of `step`, in a transaction
    with these locks, is one short step. Steps go on until one has nothing left to do.
    """

    locks: tuple[Lock, ...]
    count: Step
    step: Step


@frozen_by_keyword
class OwnerData:
    """Data that is purged together and closed to its writers meanwhile, who hold one of `locks`.

    Without locks, nothing is closed.

    `directories` are paths of files that go with all that is in them and with their history, hidden
    from the start. `documents_index` is the index whose documents they are, where they are found by
    their content, and `file_jobs` are the names of jobs about one of them. `jobs` are others that
    wait, by name and subject. `purge_steps` come first, then `index_names` go as a whole, then
    the rows of `owners` (column and value, as `TABLES` declares), then the files; `last` is removed
    in the transaction that opens everything again. The resources at the URIs in `changed` are gone
    from then on.

    `kept_sessions` stay, although what the owner said is in them.
    """

    locks: tuple[Lock, ...] = ()
    directories: tuple[str, ...] = ()
    documents_index: str = ""
    file_jobs: tuple[str, ...] = ()
    jobs: tuple[tuple[str, str], ...] = ()
    purge_steps: tuple[PurgeStep, ...] = ()
    index_names: tuple[str, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    last: tuple[PurgeStep, ...] = ()
    changed: tuple[str, ...] = ()
    kept_sessions: tuple[str, ...] = ()


Owner = Callable[[Scope, str], AsyncIterator[OwnerData]]
"""Yields what has an owner of this name in a project, or at and below a path of callers' files."""
Owners = Mapping[str, Sequence[Owner]]
"""The styles' owners by the level of a purge."""


def counted(
    tables: tuple[str, ...],
    locks: tuple[Lock, ...],
    count: Callable[[Tx], Awaitable[int]] | None,
    step: Callable[[Tx], Awaitable[int]],
) -> PurgeStep:
    """Return a purge step that removes as many rows of each of these tables.

    Without `count` they are counted elsewhere.
    """

    async def counts(tx: Tx) -> Counter[str]:
        return Counter(dict.fromkeys(tables, await count(tx) if count else 0))

    async def removed(tx: Tx) -> Counter[str]:
        return Counter(dict.fromkeys(tables, await step(tx)))

    return PurgeStep(locks, counts, removed)


def facts_of_session(name: str, session: str) -> PurgeStep:
    """Return the step for the facts of an index that were learned in a session.

    A memory that has no other fact goes with them.
    """
    index_id = index_id_of(name)

    async def count(tx: Tx) -> Counter[str]:
        facts = await count_facts(tx, index_id, session)
        return Counter(facts=facts, entries=facts)

    async def step(tx: Tx) -> Counter[str]:
        removed = await facts_from_session(tx, index_id, session, limit=ROWS_PER_STEP)
        if not removed:
            return Counter()
        await drop_facts(tx, index_id, removed)
        records = {fact.statement.record for fact in removed}
        return Counter(
            facts=len(removed),
            entries=len(removed),
            memories=await memories.delete_without_facts(tx, index_id, records),
        )

    return PurgeStep((index_lock(name),), count, step)


async def indexes_with_facts(tx: Tx, session: str, prefix: str) -> list[str]:
    """Return the indexes, by name, with facts that were learned in a session, past ones included.

    Their names begin with `prefix`. One statement over the facts of the project.
    """
    return await tx.fetch_column(
        f"""
        SELECT b.name FROM (SELECT DISTINCT book FROM facts WHERE {_OF_SESSION}) AS f
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = f.book
        WHERE starts_with(b.name, $4) ORDER BY b.name
        """,
        session,
        prefix,
    )


async def facts_from_session(tx: Tx, index_id: int, session: str, *, limit: int) -> list[Fact]:
    """Return some facts of an index, past ones included, that were learned in a session."""
    return await tx.fetch_with(
        fact_of,
        f"SELECT book, {COLUMNS} FROM facts WHERE {_OF_SESSION} AND book = $4 ORDER BY entry"
        " LIMIT $5",
        session,
        index_id,
        limit,
    )


async def count_facts(tx: Tx, index_id: int, session: str) -> int:
    """Return the number of facts of an index that were learned in a session."""
    return await tx.fetch_int(
        f"SELECT count(*) FROM facts WHERE {_OF_SESSION} AND book = $4", session, index_id
    )


async def drop_facts(tx: Tx, index_id: int, removed: Sequence[Fact]) -> None:
    """Delete facts from their index, with their entries and vectors."""
    entries = [fact.entry for fact in removed]
    await index.hold(tx, index_id)
    await index.remove(tx, index_id, indexed(removed))
    await tx.execute(
        "DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
        " ANY($4::int4[])",
        index_id,
        entries,
    )
    await _drop_vectors(tx, index_id, entries)


async def insights_of_session(tx: Tx, prefix: str, session: str) -> list[tuple[str, Insight]]:
    """Return the insights that cite a turn of a session, with the names of their indexes.

    Only indexes whose names begin with `prefix`. One statement over the insights of the project.
    """
    rows = await tx.fetch(
        """
        SELECT b.name, i.book AS index_id, i.entry, i.insight, i.kind, i.summary, e.cues,
            i.confidence, i.evidence, i.made_at
        FROM insights AS i
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = i.book
        JOIN entries AS e ON e.tenant = $1 AND e.project = $2 AND e.book = i.book
            AND e.entry = i.entry
        WHERE i.tenant = $1 AND i.project = $2 AND starts_with(b.name, $3)
            AND i.evidence -> 'turns' @> jsonb_build_array(jsonb_build_object('session', $4::text))
        ORDER BY i.book, i.entry
        """,
        prefix,
        session,
    )
    return [
        (row["name"], Insight(**{name: row[name] for name in dict(row) if name != "name"}))
        for row in rows
    ]


async def drop_insights(tx: Tx, removed: Sequence[Insight]) -> None:
    """Delete insights, with their entries and vectors."""
    for index_id in sorted({insight.index_id for insight in removed}):
        await index.hold(tx, index_id)
    await insights.remove(tx, removed)
    for index_id in {insight.index_id for insight in removed}:
        await _drop_vectors(
            tx, index_id, [insight.entry for insight in removed if insight.index_id == index_id]
        )


async def _drop_vectors(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    if entries:
        await vectors.forget(tx, index_id, entries)


async def sessions_of(database: Database, scope: Scope, user: str, *, shared: bool) -> list[str]:
    """Return the sessions in which this user alone spoke, by name.

    If `shared`, all in which several users did.
    """
    condition = "shared" if shared else "user_id = $3 AND NOT shared"
    found: list[str] = []
    while True:
        async with database.begin_read(scope) as tx:
            rows = await tx.fetch(
                f"""
                SELECT session FROM sessions WHERE tenant = $1 AND project = $2 AND ($3 <> '')
                    AND {condition}
                    AND session > $4 ORDER BY session LIMIT $5
                """,
                user,
                found[-1] if found else "",
                SESSIONS_PER_PAGE,
            )
        found += [row["session"] for row in rows]
        if len(rows) < SESSIONS_PER_PAGE:
            return found
