"""What tenant_usage tells is what is there, by project and in sum, at a cost that indexes bound."""

from typing import Any

import asyncpg
import pytest

from memsvc.administration import usage_tools as counting
from memsvc.core.scope import Caller, Scope
from memsvc.store import usage
from memsvc.store.database import Database
from tests.door import Door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes here, nothing takes long to count."""
    monkeypatch.setattr(counting, "UNCACHED_S_MAX", 3600.0)


async def keep(call: Door, project: str) -> None:
    await call("file_write", project=project, path="/a", content="12345", mode="TRUNCATE")
    await call("file_write", project=project, path="/a", content="1234567", mode="TRUNCATE")
    turn = {"type": "message", "role": "user", "content": "My name is Ann."}
    await call(
        "memory_after_turn",
        project=project,
        session_id="s",
        turn_id="t",
        user_id="u",
        input_items=[turn],
    )
    await call(
        "memories_add",
        project=project,
        user_id="u",
        messages=[{"role": "user", "content": "I live in Rome."}],
    )
    await call(
        "context_update",
        project=project,
        user_id="u",
        conversation_id="c",
        entries=[{"role": "user", "content": "We decided to sail."}],
    )
    await call("elfmem_remember", project=project, content="The sea is salty.")
    await call("update_document", project=project, id="root", content="# All\n- [[one]]\n")


async def test_each_project_is_told_and_all_together(call: Door, other_call: Door) -> None:
    for project in ("a", "b"):
        await keep(call, project)
    await keep(other_call, "a")
    told = await call("tenant_usage")
    assert [one["project"] for one in told["projects"]] == ["a", "b"]
    (one, other), total = told["projects"], told["total"]
    assert {name: one[name] for name in one if name != "project"} == {
        name: other[name] for name in other if name != "project"
    }
    expected = {
        "files": 1, "file_bytes": 7, "sessions": 1, "turns": 1, "facts": 2, "memories": 1, "boards": 1, "documents": 2,
        "blocks": 1, "vectors": 0, "calls": {},
    }  # fmt: skip
    assert {name: one[name] for name in expected} == expected
    assert one["contents"] > 2
    assert one["stored_bytes"] >= 12 + one["memory_file_bytes"]
    assert all(total[name] == 2 * one[name] for name in one if name not in ("project", "calls"))


async def test_one_project_is_told_alone_and_a_key_sees_none_but_its_own(call: Door) -> None:
    for project in ("a", "b"):
        await keep(call, project)
    assert [one["project"] for one in (await call("tenant_usage", project="b"))["projects"]] == [
        "b"
    ]
    confined = call.as_caller(Caller(call.caller.tenant, "c", projects=frozenset({"a"})))
    assert [one["project"] for one in (await confined("tenant_usage"))["projects"]] == ["a"]
    await confined.refuses("PERMISSION_DENIED", "tenant_usage", project="b")
    of_none = call.as_caller(Caller(call.caller.tenant, "c", projects=frozenset()))
    assert (await of_none("tenant_usage"))["projects"] == []


async def test_nothing_is_told_of_a_tenant_without_anything(call: Door) -> None:
    told = await call("tenant_usage")
    assert told["projects"] == []
    assert told["total"]["files"] == 0


async def test_what_took_long_to_count_is_told_again_for_a_while(
    call: Door, other_call: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "UNCACHED_S_MAX", 0.0)
    monkeypatch.setattr(counting, "CACHE_FACTOR", 1_000_000)
    before = await call("tenant_usage", project="a")
    await call("file_write", project="a", path="/a", content="12345")
    clock.advance(seconds=59)
    assert await call("tenant_usage", project="a") == before
    assert (await call("tenant_usage"))["total"][
        "files"
    ] == 1  # of all projects nobody asked before
    clock.advance(seconds=1)
    after = await call("tenant_usage", project="a")
    assert (after["total"]["files"], after["counted_at"] > before["counted_at"]) == (1, True)
    assert (await other_call("tenant_usage", project="a"))["total"]["files"] == 0


async def test_jobs_that_wait_count(call: Door) -> None:
    many = [
        {"type": "message", "role": "assistant", "content": f"number {number}"}
        for number in range(20)
    ]
    await call("memory_after_turn", project="a", session_id="s", turn_id="t", output_items=many)
    (one,) = (await call("tenant_usage"))["projects"]
    assert one["jobs"] == 1


@pytest.mark.parametrize("whole", [True, False], ids=["of a tenant", "of a project"])
async def test_every_statement_goes_by_an_index_that_leads_with_the_tenant(
    call: Door, database: Database, admin: asyncpg.Connection, clock: FakeClock, whole: bool
) -> None:
    await keep(call, "a")
    async with database.begin(
        Scope(call.caller.tenant, "a"), read_only=True, whole_tenant=whole
    ) as tx:
        await tx.unbound("SET LOCAL enable_seqscan = off")
        for sql in await usage.statements(tx):
            plan: Any = "\n".join(row["QUERY PLAN"] for row in await tx.fetch(f"EXPLAIN {sql}"))
            assert "Seq Scan" not in plan, plan
            assert "tenant = " in plan, plan
