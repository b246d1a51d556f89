"""No tool reads more of what is stored than it has to, under the policies and by the plans that its
calls get."""

from collections.abc import Iterator, Sequence

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.core.tools import Tool
from memsvc.core.vectors import MeantText, TextVector
from memsvc.store import tree, usage
from memsvc.store.database import Database
from migrations.schema import TENANT_TABLES, metadata
from tests.contract.catalogue import EXAMPLES, MARK, TOOLS, as_sent, message
from tests.door import Door, Refused
from tests.fakes import FakeClock
from tests.plans import Plan, Read, explain_bodies, record_plans

pytestmark = pytest.mark.anyio
STORED = 150
OTHERS = 12
FEW = 145
"""What a call may read of a table where it is not said why it reads more: less than a book holds
here."""

WHOLE: dict[str, dict[str, str]] = {
    "memory_before_turn": {"facts": "the facts of session and user are ranked, 2,000 at the most"},
    "memory_profile": {"facts": "the 500 latest of the user are chosen from"},
    "memory_run_turn": {"facts": "as memory_before_turn"},
    "memory_commit_turn": {"facts": "as memory_before_turn"},
    "memory_shadow_compare": {"facts": "as memory_before_turn"},
    "search": {
        "facts": "as memory_before_turn",
        "entries": "the best 80 of an index, and those up to two places beside the first 40",
    },
    "memory_run_maintenance": {"facts": "all are consolidated"},
    "memory_list_dir_with_abstract": {"facts": "counted"},
    "memory_correct_fact": {"facts": "looked through for the one that is corrected"},
    "memory_feedback": {"facts": "looked through for the one that is rated"},
    "memory_forget": {
        "facts": "looked through for what is to be forgotten",
        "entries": "the same",
        "blocks": "the event files of sessions in which it was said are read for its lines",
        "posting_lists": "those of each word of what is forgotten",
        "fresh_terms": "folded, so that every word of an entry is in one place",
        "guards": "of each turn in which it was said",
    },
    "file_list": {
        "files": "a directory says when anything below it was last written, unless told not to"
    },
    "file_delete": {"files": "all below a directory"},
    "file_rename": {"files": "all below a directory"},
    "elfmem_ls": {"notion_tags": "the surest of all that are tagged", "notions": "the same"},
    "elfmem_disconnect": {"edges": "a small table is hashed, a large one is not"},
    "elfmem_curate": dict.fromkeys(
        ("edges", "notions", "entries", "notion_tags"), "250 edges at a time"
    ),
    "memories_add": {"facts": "the same said already, in other cases", "memories": "the same"},
    "memories_list": {"facts": "sorted by when memories were made", "memories": "the same"},
    "memories_update": {"facts": "the test lists them", "memories": "the same"},
    "memories_history": {"facts": "those that hold no more have no index by what they say"},
    "memories_delete": {"facts": "as memories_history"},
    "memories_delete_all": dict.fromkeys(("facts", "memories", "entries", "posting_lists"), "all"),
}
"""What is known to read more, of which table, and why."""

ALL_BOOKS = {"memory_forget"}
"""Tools that look through the books of all users: who said something in a session may be
anybody."""

SHELVED = {table.name for table in metadata.sorted_tables if "book" in table.columns}


async def fill(call: Door, clock: FakeClock) -> None:
    """A tenant with a book of each kind that holds more than any call shows."""
    for number in range(STORED):
        clock.advance(minutes=1)
        await call(
            "memory_after_turn",
            session_id=f"{MARK}-s",
            turn_id=f"n{number}",
            user_id=f"{MARK}-u",
            input_items=[message(f"I like kumquat{number} and the {MARK} coast.")],
            output_items=[message(f"marzipan{number} and zeppelins", "assistant")],
        )
        await call(
            "file_write",
            project="default",
            path=f"/{MARK}/{number % 9}/{number}.txt",
            content=f"on {MARK}",
        )
        learnt = f"kumquat{number % 7} and zeppelin{number} meet marzipan{number % 5} in {MARK}"
        await call("elfmem_remember", content=learnt, tags=[f"tag{number % 5}", MARK])
        said = [{"role": "user", "content": f"I like place{number}."}]
        await call("memories_add", user_id=f"{MARK}-u", messages=said)
    await call("elfmem_dream", no_llm=True)
    linked = "".join(f"- [[d{number}]]\n" for number in range(STORED))
    await call("update_document", project="elsewhere", content=linked)
    for tool in EXAMPLES:
        if not TOOLS[tool].destructive and not tool.endswith("_document"):
            await send(call, tool)


async def send(call: Door, tool: str, **other: str) -> None:
    """Call a tool with its example, or with other arguments; what the examples of others left may
    let it find nothing."""
    try:
        await call(tool, **await as_sent(call, tool) | other)
    except Refused as refused:
        assert refused.body["code"] == "NOT_FOUND", refused  # noqa: PT017


async def others(admin: asyncpg.Connection) -> None:
    """As much again for each of some other tenants, and statistics of it all."""
    for table in TENANT_TABLES:
        columns = await admin.fetchval(
            """SELECT string_agg(attname, ', ') FROM pg_attribute
            WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
                AND attname <> 'tenant'""",
            table,
        )
        await admin.execute(
            f"""INSERT INTO {table} (tenant, {columns})
            SELECT sha256(n::text::bytea), {columns} FROM {table},
                generate_series(1, {OTHERS}) AS n"""
        )
        await admin.execute(f"VACUUM ANALYZE {table}")


def faults(tool: Tool, read: Read) -> Iterator[str]:
    """What is wrong with a read of a call."""
    if read.kind == "Seq Scan":
        yield "reads the whole table"
    elif "(tenant = " not in read.condition:
        yield "begins with nobody's tenant"
    known = read.table in WHOLE.get(tool.name, {})
    if tool.is_admin or (known and tool.name in ALL_BOOKS):
        return
    if (
        read.table in SHELVED
        and "book = " not in read.condition
        and not tool.spans_projects
        and read.found > 1
    ):
        yield "reads all books"
    if known:
        return
    if read.thrown_away > FEW or read.found > FEW:
        yield f"reads {read.found + read.thrown_away} rows, and keeps {read.found}"


class AtOnce:
    """Makes a vector of each text at once."""

    model = "fake/at-once"

    async def encode(self, texts: Sequence[MeantText]) -> list[TextVector | None]:
        return [TextVector([1.0, float(len(one.text))]) for one in texts]


@pytest.mark.slow
async def test_every_statement_of_every_tool_finds_its_rows_by_an_index_that_begins_with_the_tenant(
    call: Door, admin: asyncpg.Connection, clock: FakeClock, database: Database, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if admin.get_server_version().major < 17:
        pytest.skip(
            "reads a tenant's few hundred rows rather than look up each of a list, as it would of"
            " many rows"
        )
    await fill(call, clock)
    await others(admin)
    unseen = await explain_bodies(admin)
    plans: list[Plan] = record_plans(monkeypatch)
    wrong, silent, read_of = [], [], set()
    for name in EXAMPLES:
        tool = TOOLS[name]
        plans.clear()
        # what a tool stores has its vectors beside it, which what was stored before lacks
        database.encoder = AtOnce() if name == "memory_after_turn" else None
        await send(call, name)
        if name == "memory_after_turn":
            await send(call, name, turn_id=f"{MARK}-new")
            await send(call, name, session_id=f"{MARK}-new")
        if name == "calls_summary":
            async with database.begin_tenant(Scope(call.caller.tenant, "*")) as tx:
                await usage.add_rate_usage(tx, {"calls": 1.0})
        if not plans:
            silent.append(name)
        for plan in plans:
            unseen.discard(plan.sql)
            read_of |= {read.table for read in plan.reads}
            wrong += [f"{name}: {read.table}: {told}: {read}\n{plan.sql}" for read in plan.reads
                      for told in faults(tool, read)]  # fmt: skip
    assert wrong == [], "\n\n".join(wrong)
    assert {name for name in silent if not TOOLS[name].is_admin} <= {"elfmem_guide", "find_tool"}
    assert len(read_of) >= 22
    assert unseen == set(), "statements of functions that no tool ran"


async def test_a_walk_and_the_files_at_a_path_cost_what_they_return(
    call: Door, admin: asyncpg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(STORED):
        await call(
            "file_write", project="default", path=f"/{MARK}/{number % 5}/{number}.txt", content=MARK
        )
    await others(admin)
    plans: list[Plan] = record_plans(monkeypatch)
    listed = await call("file_list", project="default", path=f"/{MARK}", directory_times=False)
    assert len(listed["entries"]) == 5
    assert sum(read.found + read.thrown_away for plan in plans for read in plan.reads) < STORED / 2
    plans.clear()
    async with database.begin(Scope(call.caller.tenant, "default"), read_only=True) as tx:
        assert len(await tree.files_at(tx, f"/{MARK}/4", after="", limit=10)) == 10
    assert sum(read.found + read.thrown_away for plan in plans for read in plan.reads) < STORED / 2


async def test_a_statement_without_an_index_is_found_out(
    call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    await send(call, "file_write")
    for number in range(STORED):
        await call("file_write", project="default", path=f"/{number}.txt", content=f"on {MARK}")
    await admin.execute("DROP INDEX files_path; ANALYZE")
    plans: list[Plan] = record_plans(monkeypatch)
    await send(call, "file_stat")
    assert [
        fault for plan in plans for read in plan.reads for fault in faults(TOOLS["file_stat"], read)
    ]


async def test_a_statement_of_a_function_without_an_index_is_found_out(
    call: Door, admin: asyncpg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.execute(
        """CREATE TABLE bare (tenant bytea, project text); GRANT SELECT ON bare TO PUBLIC;
        CREATE FUNCTION count_bare(tenant bytea, project text, names text[]) RETURNS SETOF bigint
        LANGUAGE plpgsql AS $$
        #variable_conflict use_column
        DECLARE
            one text;
            held bigint;
        BEGIN
            FOR one IN SELECT name FROM unnest($3) AS name LOOP
                SELECT count(*) FROM bare WHERE tenant = $1 AND project = $2 AND project <> one
                INTO held;
                RETURN NEXT held;
            END LOOP;
        END
        $$"""
    )
    await explain_bodies(admin)
    plans: list[Plan] = record_plans(monkeypatch)
    async with database.begin(Scope(call.caller.tenant, "default")) as tx:
        assert len(await tx.call("count_bare", ["a", "b"])) == 2
    found = [fault for plan in plans for read in plan.reads
             for fault in faults(TOOLS["file_stat"], read)]  # fmt: skip
    assert found == ["reads the whole table"] * 2


async def test_what_runs_for_each_row_is_seen(
    call: Door, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = record_plans(monkeypatch)
    async with database.begin(Scope(call.caller.tenant, "default")) as tx:
        await tx.execute_each(
            "DELETE FROM files WHERE tenant = $1 AND project = $2 AND path = $3", [("/a",), ("/b",)]
        )
    [plan] = plans
    assert [read.table for read in plan.reads] == ["files"]
