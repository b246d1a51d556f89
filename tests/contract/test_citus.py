"""Every statement is one that Citus could run on the node of its tenant, by what its planner is
known to refuse."""

import re

import asyncpg
import pytest
from pglast import parse_plpgsql

from tests.citus_rules import IMMUTABLE, STABLE, broadcasts, faults, not_renamed
from tests.statements import written

IMMUTABLE_SINCE_PGVECTOR = {"binary_quantize"}

WRONG = {
    "SELECT path FROM files WHERE project = $2": "reads or changes files without its tenant",
    "SELECT path FROM files WHERE tenant = $3": "reads or changes files without its tenant",
    "SELECT path FROM files WHERE tenant = $1 OR true": "reads or changes files without its tenant",
    "SELECT 1 FROM files AS f JOIN streams AS s ON s.stream = f.stream WHERE f.tenant = $1": "changes streams without",
    "SELECT (SELECT count(*) FROM blocks) FROM files WHERE tenant = $1": "changes blocks without",
    "WITH b AS (SELECT stream FROM blocks) SELECT path FROM files JOIN b USING (stream) WHERE"
    " tenant = $1": "blocks",
    "SELECT path FROM files WHERE tenant = $1 UNION SELECT path FROM files": "changes files without",
    "UPDATE files SET size_bytes = 0 WHERE project = $2": "changes files without",
    "UPDATE files SET tenant = $2 WHERE tenant = $1": "changes the tenant of a row",
    "INSERT INTO usage (size_bytes) VALUES ($1)": "inserts into usage without a tenant",
    "INSERT INTO usage (tenant, size_bytes) VALUES ($2, $1)": "for a tenant that is not $1",
    "INSERT INTO usage (tenant, size_bytes) SELECT b.tenant, 1 FROM books AS b": "for a tenant that is not $1",
    "INSERT INTO usage (tenant, size_bytes) VALUES ($1, (SELECT 1))": "a query within INSERT ..."
    " VALUES",
    "INSERT INTO usage (tenant, size_bytes) VALUES ($1, 1) ON CONFLICT (tenant) DO UPDATE SET"
    " size_bytes = extract(epoch FROM now())": "calls now, which is not immutable, in ON CONFLICT",
    "INSERT INTO usage (tenant, size_bytes) VALUES ($1, random())": "calls random, which is"
    " volatile",
    "DELETE FROM rates WHERE tenant = $1 RETURNING now()": "calls now, which is not immutable, in"
    " RETURNING",
    "DELETE FROM files WHERE tenant = $1 AND updated_at + interval '1 day' < $2": "an interval added to a time",
    "UPDATE files SET owner = coalesce(owner, now()::text) WHERE tenant = $1": "in CASE or COALESCE of a"
    " change",
    "SELECT pg_notify('c', path) FROM files WHERE tenant = $1": "calls pg_notify, which is"
    " volatile",
    "SELECT path FROM files JOIN job_refs AS j ON j.tenant = $1 WHERE files.tenant = $1": "has ['job_refs'] beside",
    "SELECT 1 FROM newcomers WHERE tenant = $1": "neither distributed nor local",
    "SELECT FROM files WHERE tenant = $1 FOR UPDATE": "selects no column",
    "WITH was AS (SELECT unit FROM purges WHERE tenant = $1), now AS (INSERT INTO purges (tenant)"
    " VALUES ($1)) SELECT unit FROM was": "that comes last reads ['purges'], which an earlier part changed",
    "UPDATE files SET size_bytes = CASE owner WHEN '' THEN 1 ELSE 0 END WHERE tenant = $1": "CASE with an operand",
    "UPDATE facts SET forgotten = true WHERE tenant = $1 AND (book, entry) IN (SELECT * FROM"
    " unnest($2::int8[], $3::int4[]))": "a row IN what a function gives",
    "INSERT INTO usage (tenant, size_bytes) SELECT b.tenant, 1 FROM books AS b WHERE b.tenant = $1"
    " ON CONFLICT (tenant) DO UPDATE SET size_bytes = $2": "a parameter in ON CONFLICT",
    "WITH RECURSIVE w AS (SELECT 1) INSERT INTO usage (tenant) SELECT $1 FROM w": "WITH RECURSIVE and INSERT",
}
BROADCASTS = {
    "WITH a AS (INSERT INTO usage (tenant, size_bytes) VALUES ($1, 1) RETURNING 1) SELECT * FROM"
    " a": "within WITH",
    "INSERT INTO usage (tenant, size_bytes) SELECT $1, n FROM unnest($2::int8[]) AS n RETURNING 1": "not anchored",
    "WITH b AS (DELETE FROM books WHERE tenant = $1) INSERT INTO usage (tenant, size_bytes)"
    " SELECT b.tenant, 1 FROM books AS b WHERE b.tenant = $1": "WITH before INSERT ... SELECT",
    "WITH b AS (INSERT INTO books (tenant, book) VALUES ($1, 1))"
    " INSERT INTO usage (tenant, size_bytes) VALUES ($1, 1)": "more than one INSERT",
}
RIGHT = (
    "SELECT 1 FROM files AS f JOIN streams AS s ON s.tenant = f.tenant WHERE f.tenant = $1",
    "SELECT 1 FROM files JOIN streams USING (tenant, project) WHERE tenant = $1",
    "SELECT 1 FROM files AS f LEFT JOIN streams AS s ON s.tenant = $1 WHERE f.tenant = $1",
    (
        "WITH was AS MATERIALIZED (SELECT unit FROM purges WHERE tenant = $1),"
        " now AS (INSERT INTO purges (tenant) VALUES ($1)) SELECT unit FROM was"
    ),
    "DELETE FROM rates WHERE tenant = $1 AND empty_at < extract(epoch FROM now())",
    "SELECT tenant FROM tenants",
    (
        "INSERT INTO usage (tenant, size_bytes) SELECT b.tenant, $3 FROM books AS b WHERE b.tenant ="
        " $1 AND b.book = $2"
    ),
)


@pytest.mark.parametrize("sql", WRONG)
def test_what_citus_refuses_or_would_do_otherwise_is_found(sql: str) -> None:
    assert any(WRONG[sql] in fault for fault in faults(sql)), faults(sql)


@pytest.mark.parametrize("sql", RIGHT)
def test_what_citus_runs_is_let_through(sql: str) -> None:
    assert faults(sql) == ()


def test_every_statement_of_the_store_is_for_one_node_and_nothing_that_citus_refuses() -> None:
    """Those that are made of arguments are looked at wherever a test runs them
    (`statements_for_citus`)."""
    found = list(written())
    assert [f"{place}: {fault}: {sql}" for place, sql in found for fault in faults(sql)] == []
    assert len(found) > 250


def test_no_write_lets_every_node_take_part() -> None:
    assert [place for place, sql in written() if broadcasts(sql)] == []


@pytest.mark.parametrize(("sql", "why"), BROADCASTS.items())
def test_what_lets_every_node_take_part_is_found(sql: str, why: str) -> None:
    assert any(why in one for one in broadcasts(sql)), broadcasts(sql)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1 FROM files AS f JOIN streams AS s USING (tenant) WHERE f.tenant = $1", ()),
        ("SELECT 1 FROM (SELECT 1 FROM\n files WHERE tenant = $1) AS files", ()),
        ("SELECT 1 FROM files AS f, streams AS s WHERE f.tenant = $1", ("streams",)),
        ("SELECT 1 FROM ONLY files WHERE tenant = $1", ("files",)),
        ("WITH books AS (SELECT 1 FROM files WHERE tenant = $1) SELECT 1 FROM books", ("books",)),
    ],
)
def test_a_read_that_a_node_runs_names_its_tables_where_they_are_renamed(
    sql: str, tables: tuple[str, ...]
) -> None:
    """Those that run while tests do are looked at then (`statements_for_citus`)."""
    assert not_renamed(sql) == tables


async def test_functions_are_as_immutable_as_they_are_taken_for(admin: asyncpg.Connection) -> None:
    rows = await admin.fetch(
        """SELECT proname, array_agg(DISTINCT provolatile::text) AS kinds FROM pg_proc
        WHERE (proname, pronargs) <> ('length', 2)
            GROUP BY 1"""  # of a text in an encoding that is named
    )
    kinds = {row["proname"]: set(row["kinds"]) for row in rows}
    assert {name for name in IMMUTABLE if kinds.get(name, {"i"}) != {"i"}} == set()
    assert {name for name in STABLE if "s" not in kinds[name]} == set()
    assert {name for name in IMMUTABLE if name not in kinds} <= IMMUTABLE_SINCE_PGVECTOR


async def test_every_function_that_writes_for_a_tenant_is_for_one_node(
    admin: asyncpg.Connection,
) -> None:
    """Those that take the tenant first: their statements are held to what the store's are."""
    functions = await admin.fetch(
        """SELECT pg_get_functiondef(oid) AS body FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proargnames[1] = 'tenant'
            AND proname <> 'set_tenant'"""
    )
    found = [
        one["query"]
        for function in functions
        for one in below_json(parse_plpgsql(function["body"]))
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", one["query"])
    ]
    assert len(functions) >= 9
    assert len(found) >= 24
    assert [f"{fault}: {sql}" for sql in found for fault in (*faults(sql), *broadcasts(sql))] == []


@pytest.mark.parametrize("name", ["admit_writer", "memsvc_roll_calls"])
async def test_functions_of_the_schema_compare_the_tenant_with_a_value(
    admin: asyncpg.Connection, name: str
) -> None:
    """By an expression, Citus would ask every node."""
    body = await admin.fetchval(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1", name
    )
    queries = [one["query"] for one in below_json(parse_plpgsql(body))]
    assert [query for query in queries if re.search(r"\bFROM purges\b", query)] == [
        query for query in queries if re.search(r"\btenant = writer\b", query)
    ]
    assert not [query for query in queries if re.search(r"\bWITH\b", query)]


def below_json(node: object) -> list[dict[str, str]]:
    """The queries of a function."""
    found: list[dict[str, str]] = []
    if isinstance(node, dict):
        found += [node] if isinstance(node.get("query"), str) else []
        for inner in node.values():
            found += below_json(inner)
    elif isinstance(node, list):
        for inner in node:
            found += below_json(inner)
    return found
