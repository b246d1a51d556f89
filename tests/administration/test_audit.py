"""What an audit finds, in this store and in what other programs export."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from memsvc.administration.audit import Audit, AuditReport, audit_project, exported_memories
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Scope
from tests.door import Door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

LESSON = (
    "The nightly export of the warehouse fails whenever the queue of the importer holds more than"
    " a hundred messages, so it has to be drained before the export starts"
)


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


async def report(call: Door, scope: Scope) -> tuple[AuditReport, list[tuple[str, ...]]]:
    assert call.database is not None
    found = Audit(keeps_texts=True)
    await audit_project(call.database, scope, found)
    counted, listed = found.report(), list(found.found(10))
    found.close()
    return counted, listed


async def test_what_is_stored_once_is_no_junk_and_of_one_tenant(
    call: Door, other_call: Door, scope: Scope
) -> None:
    await call("elfmem_remember", content=LESSON)
    await call(
        "file_write",
        project="default",
        path="/a",
        content="Bread needs flour and salt.",
        mode="TRUNCATE",
    )
    await other_call("elfmem_remember", content=LESSON)
    counted, listed = await report(call, scope)
    assert counted.entries == {"files": 1, "knowledge": 1}
    assert (counted.junk, counted.count("never_recalled"), listed) == (0, None, [])


async def test_duplicates_are_found_within_one_index_and_other_numbers_are_other_things(
    call: Door, scope: Scope
) -> None:
    for content in (LESSON, f"{LESSON}!", LESSON.replace("so it", "hence it"), f"{LESSON} 7"):
        await call("elfmem_remember", content=content)
    await call("update_document", id="root", content=f"# All\n\n{LESSON}\n")
    counted, listed = await report(call, scope)
    assert counted.findings == {"knowledge": {"exact": 1, "near": 1}}
    assert {finding for finding, *_ in listed} == {"exact", "near"}
    assert counted.junk == 2


async def test_what_was_recalled_and_is_stored_again_is_an_echo_but_not_of_a_user(
    call: Door, scope: Scope, clock: FakeClock
) -> None:
    turn = {"session_id": "s", "user_id": "ada"}
    await call("memory_after_turn", **turn, turn_id="t1", input_items=[said(LESSON)])
    clock.advance(timedelta(hours=1))
    asked = "When does the nightly export of the warehouse fail?"
    async with call.at_work():
        await call("memory_before_turn", session_id="s2", user_id="ada", current_input=asked)
    clock.advance(timedelta(hours=1))
    again = {"session_id": "s2", "user_id": "ada", "turn_id": "t2"}
    await call("memory_after_turn", **again, input_items=[said(LESSON)])
    counted, _ = await report(call, scope)
    assert not counted.count("echo")
    await call("elfmem_remember", content=LESSON)
    block = '<memory_reference>\n{"kind":"historical_memory","facts":[]}\n</memory_reference>'
    await call("file_write", project="default", path="/block", content=block, mode="TRUNCATE")
    counted, listed = await report(call, scope)
    assert counted.findings["knowledge"]["echo"] == counted.findings["files"]["echo"] == 1
    assert any(other.startswith("turns/s:t1") for finding, _, other, _ in listed)
    never = counted.count("never_recalled")
    assert never is not None
    assert 0 < never < counted.total


async def test_secrets_are_counted_and_listed_masked(call: Door, scope: Scope) -> None:
    await call("elfmem_remember", content="The password is hunter2 and the port is 5432")
    counted, [(finding, _, _, text)] = await report(call, scope)
    assert (finding, counted.junk) == ("secret", 1)
    assert "hunter2" not in text
    assert "[secret]" in text


async def test_a_past_fact_that_a_recall_showed_is_found_unless_it_was_asked_for(
    call: Door, scope: Scope, clock: FakeClock
) -> None:
    turn = {"session_id": "s", "user_id": "ada"}
    began = clock.now()
    await call("memory_after_turn", **turn, turn_id="t1", input_items=[said("I live in Rome.")])
    clock.advance(timedelta(days=1))
    async with call.at_work():
        await call("memory_before_turn", **turn, current_input="Where do I live?")
    clock.advance(timedelta(days=1))
    before = clock.now() - timedelta(hours=1)
    moved = said("I moved: I live in Paris now.")
    await call("memory_after_turn", **turn, turn_id="t2", input_items=[moved])
    clock.advance(timedelta(days=1))
    async with call.at_work():
        asked = {"current_input": "Where do I live?", "as_of": before.isoformat()}
        await call("memory_before_turn", **turn, **asked)
    counted, _ = await report(call, scope)
    assert counted.count("shown_after_end") == 0
    assert call.database is not None
    async with call.database.begin(scope) as tx:  # as an older server may have left it
        await tx.execute(
            "UPDATE facts SET valid_to = $3 WHERE tenant = $1 AND project = $2 AND state ="
            " 'superseded'",
            began + timedelta(minutes=1),
        )
    counted, _ = await report(call, scope)
    assert counted.count("shown_after_end") == 1


async def test_tool_answers_for_the_projects_of_its_key_alone(
    call: Door, other_call: Door, scope: Scope
) -> None:
    for content in (LESSON, f"{LESSON}!"):
        await call("elfmem_remember", content=content)
        await call("elfmem_remember", content=content, project="elsewhere")
    await other_call("elfmem_remember", content=LESSON)
    counted, listed = await report(call, scope)
    here = await call("tenant_audit", project=scope.project, show=True)
    assert here["entries"] == counted.entries
    assert here["junk"] == counted.junk == 1
    assert [
        (one["finding"], one["id"], one["like"], one["text"]) for one in here["found"]
    ] == listed
    every = await call("tenant_audit", limit=1)
    assert (every["entries"], every["junk"]) == ({"knowledge": 4}, 2)
    assert [one["text"] for one in every["found"]] == [""]
    caller = Caller(call.caller.tenant, "c", projects=frozenset({scope.project}))
    confined = call.as_caller(caller)
    assert (await confined("tenant_audit"))["entries"] == counted.entries
    await confined.refuses("PERMISSION_DENIED", "tenant_audit", project="elsewhere")
    assert (await other_call("tenant_audit"))["junk"] == 0


def audited(path: Path) -> AuditReport:
    found = Audit()
    found.add_all(exported_memories(path.read_bytes()))
    return found.report()


@pytest.mark.parametrize("wrapped", [None, "results", "memories"])
def test_mem0_is_read_by_owner(tmp_path: Path, wrapped: str | None) -> None:
    made = [
        {"id": "1", "memory": LESSON, "user_id": "ada", "created_at": "2026-01-02T03:04:05Z"},
        {"id": "2", "memory": LESSON.upper(), "user_id": "ada"},
        {"id": "3", "memory": LESSON, "user_id": "bo"},
    ]
    path = tmp_path / "export.json"
    path.write_bytes(orjson.dumps({wrapped: made} if wrapped else made))
    counted = audited(path)
    assert (counted.entries, counted.findings) == (
        {"memories": 3},
        {"memories": {"exact": 1}},
    )


def test_server_memory_is_read_by_entity(tmp_path: Path) -> None:
    lines = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": [LESSON] * 2},
        {"type": "entity", "name": "Bo", "entityType": "person", "observations": [LESSON]},
        {"type": "relation", "from": "Ada", "to": "Bo", "relationType": "knows"},
    ]
    path = tmp_path / "memory.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    counted = audited(path)
    assert counted.entries == {"observations": 3, "relations": 1}
    assert counted.junk == counted.count("exact") == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[1]", b'{"type": "entity"}', b"\xff"])
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(MemsvcError) as refused:
        audited(path)
    assert refused.value.code is Code.INVALID_CONTENT
