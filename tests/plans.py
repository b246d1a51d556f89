"""The plans by which statements really run, taken in the transactions that run them, as the role
that runs them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from memsvc.store.database import Tx

RUNS = ("fetch", "fetchrow", "fetchval", "execute")


@dataclass(frozen=True, slots=True)
class Read:
    """What one node of a plan read of a table: by which conditions, and how many rows it found and
    threw away."""

    table: str
    kind: str
    condition: str
    found: int
    thrown_away: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement, and what it read."""

    sql: str
    reads: tuple[Read, ...]


def reads(node: dict[str, Any]) -> Iterator[Read]:
    """Every read of a table in a plan that was run; one that never began is told with no rows."""
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        conditions = [node.get("Index Cond", "")]
        if node["Node Type"] == "Bitmap Heap Scan":
            conditions += [below.get("Index Cond", "") for below in _below(node)]
        loops = node.get("Actual Loops", 0)
        found, thrown = node.get("Actual Rows", 0), node.get("Rows Removed by Filter", 0)
        thrown += node.get("Rows Removed by Index Recheck", 0)
        yield Read(
            node["Relation Name"], node["Node Type"], " ".join(filter(None, conditions)), int(found * loops),
            int(thrown * loops),
        )  # fmt: skip
    for child in node.get("Plans", []):
        yield from reads(child)


def _below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node.get("Plans", []):
        yield child
        yield from _below(child)


async def _plan(connection: Any, sql: str, arguments: tuple[Any, ...]) -> Plan:
    """The plan of a statement as any call of it would get it (made once, for no values in
    particular), and what it reads now. The statement leaves nothing behind."""
    prepared = await connection.prepare(sql)
    types = [_name(one) for one in prepared.get_parameters()]
    values = ", ".join(
        f"quote_nullable(${number}::{kind}::text)" for number, kind in enumerate(types, 1)
    )
    literals = await connection.fetchrow(f"SELECT {values}", *arguments)
    given = ", ".join(f"{literal}::{kind}" for literal, kind in zip(literals, types, strict=True))
    await connection.execute("SAVEPOINT explaining; SET LOCAL plan_cache_mode = force_generic_plan")
    await connection.execute(
        "SET LOCAL enable_seqscan = off"
    )  # else a table of one page is read at once
    try:
        told = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {prepared.get_name()}({given})"
        )
    finally:
        await connection.execute("ROLLBACK TO SAVEPOINT explaining; RELEASE SAVEPOINT explaining")
    return Plan(sql, tuple(reads(orjson.loads(told)[0]["Plan"])))


def _name(kind: Any) -> str:
    return (
        f"{kind.schema}.{kind.name}"
        if kind.kind != "array"
        else f"{kind.schema}.{kind.name.removesuffix('[]')}[]"
    )


def record_plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """From now on, the plan of every statement that a transaction runs, each before it runs."""
    seen: list[Plan] = []
    for name in RUNS:
        run = getattr(Tx, name)

        async def recorded(tx: Tx, sql: str, *arguments: Any, run: Any = run) -> Any:
            if not sql.lstrip().upper().startswith(("SET ", "EXPLAIN ")):
                seen.append(await _plan(tx._connection, sql, (*tx._bound, *arguments)))
            return await run(tx, sql, *arguments)

        monkeypatch.setattr(Tx, name, recorded)
    return seen
