"""What Citus refuses of a statement, or would run otherwise than PostgreSQL does, by its text
alone.

Taken from the planner of Citus (multi_router_planner.c, recursive_planning.c,
insert_select_planner.c). A statement in which every distributed table is bound to `$1` is sent to
one node, and runs there as it is. One that has INSERT and WITH together is not: each part of its
WITH runs by itself, one after the other, and sees what those before it did.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pglast import parse_sql

from memsvc.store.policies import LOCAL, SHARD_TABLES
from tests.parsed import (
    Node,
    adds_interval,
    below,
    body,
    column_of,
    columns_of,
    conditions,
    is_owner,
    parts_of,
    queries_in,
    tables_in,
    times,
)

IMMUTABLE: Final = frozenset((
    *("array_agg", "array_position", "bit_count", "bool_or", "cardinality", "char_length", "chr", "count"),
    *("encode", "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_each_text", "jsonb_object_agg", "lag"),
    *("left", "length", "like_escape", "ln", "lower", "max", "md5", "min", "octet_length", "percentile_cont"),
    *("regexp_replace", "replace", "round", "row_number", "rtrim", "sha256", "split_part", "starts_with"),
    *("string_agg", "string_to_array", "strpos", "substr", "substring", "sum", "unnest", "btrim", "normalize"),
))  # fmt: skip
STABLE: Final = frozenset((
    *("array_to_string", "convert_to", "date_trunc", "extract", "generate_series", "jsonb_agg", "jsonb_build_array"),
    *("jsonb_build_object", "jsonb_to_recordset", "now", "timezone", "to_jsonb"),
))  # fmt: skip
"""The functions that statements over distributed tables call; one that is in neither is taken for
volatile. Where some of a name are stable, all are taken for it."""

KEY: Final = "tenant"
MODIFYING: Final = ("InsertStmt", "UpdateStmt", "DeleteStmt")


@cache
def faults(sql: str) -> tuple[str, ...]:
    """What is wrong with a statement, if anything is."""
    return tuple(fault for raw in parse_sql(sql) for fault in _faults(raw.stmt(skip_none=True)))


@cache
def broadcasts(sql: str) -> tuple[str, ...]:
    """Why Citus would let each node take part in a statement that writes the rows of one tenant, if
    it would."""
    return tuple(fault for raw in parse_sql(sql) for fault in _broadcasts(raw.stmt(skip_none=True)))


@cache
def not_renamed(sql: str) -> tuple[str, ...]:
    """The tables of a read that a node would not find by the names of its parts: `run_on_node`
    renames what stands behind FROM or JOIN."""
    [raw] = parse_sql(sql)
    statement = raw.stmt(skip_none=True)
    names = [one["relname"] for one in below(statement) if one["@"] == "RangeVar"]
    made = {one["ctename"] for one in below(statement) if one["@"] == "CommonTableExpr"}
    renamed = re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql)
    left = Counter(names) - Counter(renamed)
    return tuple(sorted(({*left} | made) & {*SHARD_TABLES}))


def _broadcasts(statement: Node) -> Iterator[str]:
    inserts = [
        one
        for one in below(statement)
        if one["@"] == "InsertStmt" and one["relation"]["relname"] in SHARD_TABLES
    ]
    if len(inserts) > 1:
        yield "has more than one INSERT"
    if any(part["ctequery"] in inserts for part in parts_of(statement)):
        yield "has INSERT within WITH"
    for one in inserts:
        rows = one["selectStmt"]
        if "valuesLists" not in rows and parts_of(statement):
            yield "has WITH before INSERT ... SELECT"
        if "valuesLists" not in rows and not anchored(rows):
            yield (
                f"inserts into {one['relation']['relname']} what is not anchored on a row of"
                " the tenant"
            )


@dataclass(slots=True)
class _Level:
    """The tables of one level of a query, by alias, and what is said of their tenants."""

    distributed: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    alike: list[set[str]] = field(default_factory=list)

    def add(self, relation: Node, made: frozenset[str]) -> None:
        name = relation["relname"]
        if name in SHARD_TABLES and name not in made:
            self.distributed[relation.get("alias", {}).get("aliasname", name)] = name

    def hold(self, condition: Node) -> None:
        if (
            condition.get("@") != "A_Expr"
            or condition["name"][0].get("sval") != "="
            or "lexpr" not in condition
        ):
            return
        sides = condition["lexpr"], condition["rexpr"]
        for one, other in (sides, sides[::-1]):
            own, beside = column_of(one), column_of(other)
            if own is None or own[1] != KEY:
                continue
            if is_owner(other):
                self.known |= {own[0]} if own[0] else set(self.distributed)
            elif beside is not None and beside[1] == KEY and own[0] and beside[0]:
                self.alike.append({own[0], beside[0]})

    def unbound(self) -> list[str]:
        known = set(self.known)
        for _ in self.alike:
            for group in self.alike:
                if group & known:
                    known |= group
        return [table for alias, table in self.distributed.items() if alias not in known]


def _faults(statement: Node) -> Iterator[str]:
    named = set(tables_in(statement, frozenset()))
    spread = named & {*SHARD_TABLES}
    strange = {name for name in named - {*SHARD_TABLES, *LOCAL} if not name.startswith("pg_")}
    if strange:
        yield f"names {sorted(strange)}, which are neither distributed nor local"
    if not spread:
        return
    if named - spread:
        yield f"has {sorted(named - spread)} beside distributed tables"
    for call in _calls(statement, "v"):
        yield f"calls {call}, which is volatile, beside distributed tables"
    yield from _query(statement, frozenset())
    yield from _in_steps(statement)
    yield from _misspelt(statement)
    if statement["@"] == "SelectStmt" and not columns_of(statement):
        yield "selects no column"


def _called(one: Node) -> tuple[str, str]:
    """What a node calls, by name, and how it answers, as PostgreSQL calls that: `i`, `s` or `v`."""
    match one["@"]:
        case "FuncCall":
            name = str(one["funcname"][-1]["sval"])
            return name, "i" if name in IMMUTABLE else "s" if name in STABLE else "v"
        case "SQLValueFunction":
            return str(one["op"]["name"]), "s"
        case "A_Expr" if adds_interval(one):
            return "an interval added to a time", "s"
    return "", "i"


def _calls(node: Any, kinds: str) -> Iterator[str]:
    """The names of what a part of a statement calls that answers in one of these ways."""
    yield from (name for name, kind in map(_called, below(node)) if kind in kinds and name)


def _query(query: Node, made: frozenset[str]) -> Iterator[str]:
    """One query and those in it; `made` are the names that WITH gave around it."""
    if query.get("withClause", {}).get("recursive"):
        made |= {part["ctename"] for part in parts_of(query)}
    for part in parts_of(query):
        yield from _query(part["ctequery"], made)
        made |= {part["ctename"]}
    if "larg" in query:
        yield from _query(query["larg"], made)
        yield from _query(query["rarg"], made)
        return
    yield from _bound(query, made, _Level())
    if query["@"] == "InsertStmt":
        yield from _query(query["selectStmt"], made)
        yield from _insert(query)
    elif query["@"] in MODIFYING:
        yield from _change(query)
    for inner in queries_in(
        [part for name, part in query.items() if name not in ("withClause", "selectStmt")]
    ):
        yield from _query(inner, made)


def _bound(query: Node, made: frozenset[str], level: _Level) -> Iterator[str]:
    """Whether the tenant of every table of one level is $1; what is found out of it goes into
    `level`."""
    for item in (*query.get("fromClause", ()), *query.get("usingClause", ())):
        yield from _from(item, level, made)
    if query["@"] in ("UpdateStmt", "DeleteStmt"):
        level.add(query["relation"], made)
    for condition in conditions(query.get("whereClause")):
        level.hold(condition)
    for table in level.unbound():
        yield f"reads or changes {table} without its tenant"


def _from(item: Node, level: _Level, made: frozenset[str]) -> Iterator[str]:
    match item["@"]:
        case "RangeVar":
            level.add(item, made)
        case "JoinExpr":
            before = set(level.distributed)
            yield from _from(item["larg"], level, made)
            yield from _from(item["rarg"], level, made)
            for condition in conditions(item.get("quals")):
                level.hold(condition)
            if KEY in [one.get("sval") for one in item.get("usingClause", ())]:
                level.alike.append(set(level.distributed) - before)
        case "RangeSubselect":
            yield from _query(item["subquery"], made)


def _insert(query: Node) -> Iterator[str]:
    rows, table = query["selectStmt"], query["relation"]["relname"]
    names = [column["name"] for column in query.get("cols", ())]
    if KEY not in names:
        yield f"inserts into {table} without a tenant"
        return
    at = names.index(KEY)
    given = (
        [row[at] for row in rows["valuesLists"]]
        if "valuesLists" in rows
        else [columns_of(rows)[at]["val"]]
    )
    if not all(is_owner(one) for one in given) and not anchored(rows):
        yield f"inserts into {table} for a tenant that is not $1"
    if "valuesLists" in rows and any(one["@"] == "SubLink" for one in below(body(query))):
        yield "has a query within INSERT ... VALUES"
    conflict = query.get("onConflictClause", {})
    if any(column["name"] == KEY for column in conflict.get("targetList", ())):
        yield "changes the tenant of a row"
    for call in _calls([conflict.get("targetList"), conflict.get("whereClause")], "sv"):
        yield f"calls {call}, which is not immutable, in ON CONFLICT"
    yield from _returned(query)


def anchored(rows: Node) -> bool:
    """Whether a query takes the tenant that it selects first from a table that is read for $1
    alone: Citus then runs an INSERT of its rows on the node that has them."""
    own = column_of(columns_of(rows)[0]["val"]) if columns_of(rows) else None
    if own is None or own[1] != KEY or "larg" in rows:
        return False
    level = _Level()
    return not [*_bound(rows, frozenset(), level)] and own[0] in level.distributed


def _change(query: Node) -> Iterator[str]:
    changed = query.get("targetList", ()) if query["@"] == "UpdateStmt" else ()
    if any(column["name"] == KEY for column in changed):
        yield "changes the tenant of a row"
    for one in below([*changed, query.get("whereClause")]):
        if one["@"] in ("CaseExpr", "CoalesceExpr"):
            for call in _calls(one, "s"):
                yield f"calls {call}, which is not immutable, in CASE or COALESCE of a change"
        elif _called(one)[1] == "s" and any(inner["@"] == "ColumnRef" for inner in below(one)):
            yield f"calls {_called(one)[0]}, which is stable, with a column in a change"
    yield from _returned(query)


def _returned(query: Node) -> Iterator[str]:
    for call in _calls(query.get("returningClause"), "s"):
        yield f"calls {call}, which is not immutable, in RETURNING"


def _misspelt(statement: Node) -> Iterator[str]:
    """What Citus tells nodes in other words than it was told, or without its types."""
    changes = [one for one in below(statement) if one["@"] in MODIFYING]
    if changes and any(one["@"] == "CaseExpr" and "arg" in one for one in below(statement)):
        yield "has CASE with an operand in a change"
    for one in changes:
        for inner in below(one.get("whereClause")):
            made = [
                item
                for item in inner.get("subselect", {}).get("fromClause", ())
                if item["@"] == "RangeFunction"
            ]
            if made and inner.get("testexpr", {}).get("@") == "RowExpr":
                yield "has a row IN what a function gives in a change"
    given = any(one["@"] == "ParamRef" for one in below(statement.get("onConflictClause")))
    if given and "valuesLists" not in statement["selectStmt"]:
        yield "has a parameter in ON CONFLICT of INSERT ... SELECT"


def _in_steps(statement: Node) -> Iterator[str]:
    """What would be otherwise where each part of WITH is run by itself."""
    kinds = [part["ctequery"]["@"] for part in parts_of(statement)] + [statement["@"]]
    if len(kinds) == 1 or "InsertStmt" not in kinds:
        return
    if statement["withClause"].get("recursive"):
        yield "has WITH RECURSIVE and INSERT together"
    parts = [(part["ctename"], part["ctequery"]) for part in parts_of(statement)] + [
        ("", body(statement))
    ]
    inlined = {
        part["ctename"]: part["ctequery"]
        for part in parts_of(statement)
        if part["ctequery"]["@"] == "SelectStmt"
        and part["ctematerialized"]["name"] != "CTEMaterializeAlways"
        and times(part["ctename"], parts) == 1
    }
    changed: set[str] = set()
    for name, part in parts:
        if name in inlined:
            continue
        stale = _read(part, inlined) & changed
        if stale:
            yield (
                f"its part {name or 'that comes last'} reads {sorted(stale)}, which an earlier"
                " part changed"
            )
        if part["@"] == "SelectStmt" and name and not columns_of(part):
            yield f"its part {name} selects no column"
        if part["@"] in MODIFYING:
            changed.add(part["relation"]["relname"])


def _read(part: Node, inlined: Mapping[str, Node]) -> set[str]:
    """The tables that a part reads, with those of the parts that are read as a part of it."""
    read: set[str] = set()
    for one in below(
        [inner for name, inner in part.items() if (part["@"], name) != ("InsertStmt", "relation")]
    ):
        if one["@"] == "RangeVar":
            name = one["relname"]
            read |= _read(inlined[name], inlined) if name in inlined else {name}
    return read & {*SHARD_TABLES}
