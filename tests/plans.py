"""The plans by which statements really run, taken in the transactions that run them, as the role
that runs them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson
import pytest
from pglast import parse_plpgsql

from memsvc.store.database import Tx

RUNS = ("fetch", "fetchrow", "fetchval", "execute", "execute_each")
STATEMENTS = {
    "PLpgSQL_stmt_execsql": "sqlstmt",
    "PLpgSQL_stmt_fors": "query",
    "PLpgSQL_stmt_perform": "expr",
    "PLpgSQL_stmt_return_query": "query",
}
"""What runs a statement in a function, and where its text is."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one node of a plan read of a table: by which conditions, and how many rows it found and
    threw away. `index` is "" where it went by none or several."""

    table: str
    kind: str
    index: str
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
            node["Relation Name"], node["Node Type"], node.get("Index Name", ""),
            " ".join(filter(None, conditions)), int(found * loops), int(thrown * loops),
        )  # fmt: skip
    for child in node.get("Plans", []):
        yield from reads(child)


def _below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node.get("Plans", []):
        yield child
        yield from _below(child)


async def _plans(connection: Any, sql: str, arguments: tuple[Any, ...]) -> list[Plan]:
    """The plan of a statement as any call of it would get it (made once, for no values in
    particular), and what it reads now; behind it those that ran in functions, where their bodies
    are explained. The statement leaves nothing behind."""
    prepared = await connection.prepare(sql)
    types = [_name(one) for one in prepared.get_parameters()]
    values = ", ".join(
        f"quote_nullable(${number}::{kind}::text)" for number, kind in enumerate(types, 1)
    )
    literals = await connection.fetchrow(f"SELECT {values}", *arguments)
    given = ", ".join(f"{literal}::{kind}" for literal, kind in zip(literals, types, strict=True))
    await connection.execute("SAVEPOINT explaining; SET LOCAL plan_cache_mode = force_generic_plan")
    await connection.execute(
        "SET LOCAL enable_seqscan = off; SET LOCAL tests.plans = '[]'"
    )  # else a table of one page is read at once
    try:
        told = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {prepared.get_name()}({given})"
        )
        inner = orjson.loads(await connection.fetchval("SELECT current_setting('tests.plans')"))
    finally:
        await connection.execute("ROLLBACK TO SAVEPOINT explaining; RELEASE SAVEPOINT explaining")
    explained = [(sql, orjson.loads(told)), *inner]
    return [Plan(text, tuple(reads(plan[0]["Plan"]))) for text, plan in explained]


def _name(kind: Any) -> str:
    return (
        f"{kind.schema}.{kind.name}"
        if kind.kind != "array"
        else f"{kind.schema}.{kind.name.removesuffix('[]')}[]"
    )


def record_plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """From now on, the plan of every statement that a transaction runs, each before it runs; of one
    that runs for each of many rows, for the first."""
    seen: list[Plan] = []
    for name in RUNS:
        run = getattr(Tx, name)

        async def recorded(
            tx: Tx, sql: str, *arguments: Any, run: Any = run, each: bool = name == "execute_each"
        ) -> Any:
            calls = arguments[0][:1] if each else [arguments]
            for given in calls if not sql.lstrip().upper().startswith(("SET ", "EXPLAIN ")) else ():
                seen.extend(await _plans(tx._connection, sql, (*tx._bound, *given)))
            return await run(tx, sql, *arguments)

        monkeypatch.setattr(Tx, name, recorded)
    return seen


# A statement is run, explained and taken back before it is run: what it read is kept.
_EXPLAIN = """
DECLARE explained json;
BEGIN
    BEGIN
        FOR explained IN EXPLAIN (ANALYZE, FORMAT JSON) {query} LOOP END LOOP;
        RAISE SQLSTATE 'PLANS';
    EXCEPTION WHEN SQLSTATE 'PLANS' THEN NULL;
    END;
    PERFORM set_config('tests.plans', (coalesce(nullif(current_setting('tests.plans', true), ''), '[]')::jsonb
        || jsonb_build_array(jsonb_build_array({text}, explained)))::text, true);
END;
"""


async def explain_bodies(admin: asyncpg.Connection) -> set[str]:
    """Let the functions that take a tenant first tell `record_plans` the plans of their statements,
    for the values of a call; return these statements."""
    functions = await admin.fetch(
        """SELECT pg_get_functiondef(p.oid) AS definition FROM pg_proc AS p
        JOIN pg_language AS l ON l.oid = p.prolang
        WHERE pronamespace = 'public'::regnamespace AND proargnames[1] = 'tenant'
            AND lanname = 'plpgsql' AND proname <> 'set_tenant'"""
    )
    found = set()
    for (definition,) in functions:
        head, body, tail = definition.split("$function$")
        lines = body.split("\n")
        for line, query in set(_statements(parse_plpgsql(definition))):
            text = await admin.fetchval("SELECT quote_literal($1::text)", query)
            lines[line - 1] = _EXPLAIN.format(query=query, text=text) + lines[line - 1]
            found.add(query)
        await admin.execute("$function$".join((head, "\n".join(lines), tail)))
    return found


def _statements(node: Any) -> Iterator[tuple[int, str]]:
    """The statements of a function, each with the line that it begins on."""
    if isinstance(node, list):
        for inner in node:
            yield from _statements(inner)
    elif isinstance(node, dict):
        for kind, inner in node.items():
            if kind in STATEMENTS:
                yield inner["lineno"], inner[STATEMENTS[kind]]["PLpgSQL_expr"]["query"]
            yield from _statements(inner)
