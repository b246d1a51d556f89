"""A tenant's memory leaves as an archive and comes back as it was, or not at all."""

import io
import random
import tarfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import orjson
import pytest

from memsvc.administration.archive_restore import FileQuotas
from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Caller, Scope
from memsvc.store import export
from memsvc.store.database import Database, DatabaseOptions
from tests.administration.archived import (
    QUESTIONS,
    archives,
    exported,
    fill,
    hits,
    restored,
    rows,
    scope_of,
    write,
)
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import TestServer

pytestmark = pytest.mark.anyio


class Elsewhere:
    """The same service over another database, called by another tenant."""

    def __init__(self, call: Door, admin: asyncpg.Connection) -> None:
        self.call = call
        self.admin = admin


@pytest.fixture
async def elsewhere(
    server: TestServer, clock: FakeClock, tokens: object, meter: RecordingMeter
) -> AsyncIterator[Elsewhere]:
    name = await server.create()
    urls = server.urls(name)
    database = await Database.open(urls.app, DatabaseOptions(pool_min=1), meter)
    admin = await asyncpg.connect(urls.superuser)
    yield Elsewhere(
        open_door(database, clock, tokens, meter, Scope(b"\x09" * 32, "default")), admin
    )
    await admin.close()
    await database.close()
    await server.drop(name)


def members(archive: bytes) -> dict[str, bytes]:
    """What any tar tool finds in an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {one.name: file.read() for one in tar if (file := tar.extractfile(one)) is not None}


async def refused(
    call: Door, archive: bytes, code: str, project: str = "*", **options: object
) -> MemsvcError:
    with pytest.raises(MemsvcError) as refusal:
        await restored(call, archive, project, **options)
    assert refusal.value.code == code
    return refusal.value


@pytest.mark.parametrize("gzip", [False, True], ids=["plain", "compressed"])
async def test_what_was_exported_answers_as_before_in_another_database(
    call: Door, admin: asyncpg.Connection, elsewhere: Elsewhere, gzip: bool
) -> None:
    await fill(call)
    archive = await exported(call, gzip=gzip)
    there = elsewhere.call
    outcome = await restored(there, archive)
    assert {one.into: one.written for one in outcome.projects} == {
        "..": True,
        "aside": True,
        "default": True,
    }
    mine, theirs = call.caller.tenant, there.caller.tenant
    assert await rows(elsewhere.admin, theirs) == await rows(admin, mine)
    assert await rows(elsewhere.admin, theirs, ["usage"]) == await rows(admin, mine, ["usage"])
    assert await hits(elsewhere.admin, theirs) == await hits(admin, mine)
    for tool, arguments in QUESTIONS:
        assert await there(tool, **arguments) == await call(tool, **arguments), tool
    for version in (await call("file_list_versions", project="default", path="/notes/a.md"))[
        "versions"
    ]:
        asked = {"project": "default", "path": "/notes/a.md", "history_id": version["id"]}
        assert await there("file_read_version", **asked) == await call("file_read_version", **asked)


async def test_any_tar_tool_reads_the_files_of_an_archive_and_finds_neither_tenant_nor_key_in_it(
    call: Door,
) -> None:
    await fill(call)
    archive = await exported(call)
    found = members(archive)
    assert (
        found["projects/default/files/notes/a.md"] == b"The heron nests, version 4. It fishes too."
    )
    assert found["projects/%2E%2E/files/other.md"] == b"Kites wheel."
    past = {
        name: content
        for name, content in found.items()
        if name.startswith("projects/default/versions/notes/a")
    }
    assert b"The heron nests, version 3." in past.values()
    facts = [
        orjson.loads(line)
        for line in found["projects/default/rows/facts/00000001.jsonl"].splitlines()
    ]
    assert {"fact_id", "value", "evidence"} <= facts[0].keys()
    assert not {"tenant", "project"} & facts[0].keys()
    assert call.caller.tenant not in archive
    assert call.caller.tenant.hex().encode() not in archive
    assert not [name for name in found if "calls" in name]


async def test_an_archive_comes_back_once_and_is_known_when_it_is_sent_again(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    await fill(call)
    archive = await exported(call)
    await restored(other_call, archive)
    held = await rows(admin, other_call.caller.tenant)
    again = await restored(other_call, archive)
    assert not any(one.written for one in again.projects)
    assert await rows(admin, other_call.caller.tenant) == held


async def test_nothing_is_restored_over_what_is_there(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    await fill(call)
    archive = await exported(call)
    await write(other_call, "/mine.md", "mine")
    held = await rows(admin, other_call.caller.tenant)
    error = await refused(other_call, archive, "CONFLICT")
    assert "default" in error.message
    assert await rows(admin, other_call.caller.tenant) == held


async def test_one_project_goes_under_another_name(call: Door, other_call: Door) -> None:
    await fill(call)
    archive = await exported(call, "aside")
    outcome = await restored(other_call, archive, "birds")
    assert [(one.project, one.into) for one in outcome.projects] == [("aside", "birds")]
    found = await other_call("elfmem_recall", query="kestrel", project="birds")
    assert "kestrel" in str(found)
    await refused(other_call, await exported(call), "INVALID_ARGUMENT", "birds")


async def test_a_check_writes_nothing_and_says_the_same(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    await fill(call)
    archive = await exported(call)
    checked = await restored(other_call, archive, check=True)
    assert not any((await rows(admin, other_call.caller.tenant)).values())
    assert checked.projects == (await restored(other_call, archive)).projects


async def test_a_check_says_of_an_archive_that_it_is_good_where_it_came_from(
    call: Door, admin: asyncpg.Connection
) -> None:
    await fill(call)
    archive, held = await exported(call), await rows(admin, call.caller.tenant)
    checked = await restored(call, archive, check=True, allowed=FileQuotas(100_000_000, 1))
    assert [one.occupied for one in checked.projects] == [True] * len(checked.projects)
    assert await rows(admin, call.caller.tenant) == held
    assert not await admin.fetchval("SELECT count(*) FROM restores")


async def test_what_is_no_archive_is_called_that(call: Door) -> None:
    for nothing in (b"", b"no archive", b"x" * 2000):
        error = await refused(call, nothing, "INVALID_CONTENT")
        assert error.message.startswith("this is not a memsvc archive")


async def test_an_archive_is_one_moment_whatever_is_written_meanwhile(
    call: Door, other_call: Door
) -> None:
    await write(call, "/a.md", "before")
    async with archives(call).opened(scope_of(call, "*"), gzip=False, calls=False) as archive:
        await write(call, "/a.md", "after")
        await write(call, "/b.md", "after")
        whole = b"".join([piece async for piece in archive.chunks])
    await restored(other_call, whole)
    assert (await other_call("file_read", project="default", path="/a.md"))["content"] == "before"
    await other_call.refuses("NOT_FOUND", "file_read", project="default", path="/b.md")


async def test_what_was_to_be_done_is_queued_again(call: Door, other_call: Door) -> None:
    await write(call, "/a.md", "The heron nests. " * 9000)
    archive = await exported(call)
    await restored(other_call, archive)
    assert await other_call.work() == await call.work() != []
    assert (await other_call("file_search", project="default", query="heron"))["chunks"]


async def test_quotas_count_what_comes_back(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    await write(call, "/a.md", "x" * 1000)
    archive = await exported(call)
    for allowed in (FileQuotas(999, 0), FileQuotas(10**6, 999)):
        await refused(other_call, archive, "QUOTA_EXCEEDED", allowed=allowed)
        assert not any(
            (
                await rows(admin, other_call.caller.tenant, [*export.PLAIN, "files", "usage"])
            ).values()
        )
    await restored(other_call, archive, allowed=FileQuotas(1000, 1000))


async def test_a_confined_key_exports_and_restores_its_own_projects(
    call: Door, other_call: Door
) -> None:
    await fill(call)
    confined = call.as_caller(Caller(call.caller.tenant, "narrow", projects=frozenset({"aside"})))
    archive = await exported(confined)
    assert [one.project for one in (await restored(other_call, archive)).projects] == ["aside"]
    elsewhere_confined = other_call.as_caller(
        Caller(b"\x08" * 32, "narrow", projects=frozenset({"default"}))
    )
    await refused(elsewhere_confined, archive, "PERMISSION_DENIED")


async def test_the_call_log_goes_along_where_it_is_asked_for_and_never_comes_back(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    await write(call, "/a.md", "x")
    await admin.execute(
        "INSERT INTO calls (tenant, called_at, call, project, surface, tool, key_label, status,"
        " duration_ms, arguments, request_id) VALUES ($1, now(), gen_random_uuid(), 'default',"
        " 'rest', 'file_read', 'k', 'success', 1, '{}', 'r')",
        call.caller.tenant,
    )
    archive = await exported(call, calls=True)
    assert b'"tool":"file_read"' in members(archive)["projects/default/rows/calls/00000001.jsonl"]
    await restored(other_call, archive)
    assert not (await rows(admin, other_call.caller.tenant, ["calls"]))["calls"]


async def test_there_is_nothing_to_export_where_nothing_is(call: Door) -> None:
    with pytest.raises(MemsvcError, match="no data to export"):
        await exported(call)
    assert (await call("archive_export"))["projects"] == []


async def test_the_tools_tell_what_an_archive_would_hold_and_where_to_send_one(call: Door) -> None:
    await fill(call)
    told = await call("archive_export", project="default")
    (project,) = told["projects"]
    counted = (
        await restored(
            call.as_tenant(Scope(b"\x07" * 32, "default")), await exported(call, "default")
        )
    ).projects
    assert {name: held for name, held in counted[0].rows.items() if name != "job_refs"} == project[
        "rows"
    ]
    assert (await call("archive_import"))["path"] == told["path"] == "/api/archive"


async def test_an_archive_of_format_1_still_restores(call: Door, admin: asyncpg.Connection) -> None:
    """The fixture is never made anew: a schema in which it does not fit has to be taught what it
    lacks."""
    archive = (Path(__file__).parent / "fixtures" / "format-1.tar.gz").read_bytes()
    await restored(call, archive)
    assert (await call("file_read", project="default", path="/notes/birds.md"))[
        "content"
    ] == "A heron fishes at dusk."
    (past,) = (await call("file_list_versions", project="default", path="/notes/birds.md"))[
        "versions"
    ]
    asked = {"project": "default", "path": "/notes/birds.md", "history_id": past["id"]}
    assert (await call("file_read_version", **asked))["content"] == "A heron fishes at dawn."
    before = {"project": "default", "session_id": "walk", "user_id": "ada", "turn_id": "t3"}
    for question, known in (("Where do I live?", "Lisbon"), ("What is my name?", "Ada")):
        assert known in str(await call("memory_before_turn", current_input=question, **before))
    assert "Grey and patient" in str(
        await call("search_documents", project="default", query="heron grey")
    )
    assert "colonies" in str(
        await call("elfmem_recall", project="default", query="where do herons nest")
    )
    assert "Sunday" in str(
        await call("whiteboard_get", project="default", user_id="ada", conversation_id="c")
    )
    assert "coast" in str(
        await call("memories_search", project="default", user_id="ada", query="coast")
    )
    assert (await rows(admin, call.caller.tenant, ["restores"]))["restores"]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_was_forgotten_expired_or_purged_the_rest_comes_back_and_goes_on(
    call: Door, elsewhere: Elsewhere, admin: asyncpg.Connection, clock: FakeClock, seed: int
) -> None:
    """Newest entries may be gone, so that a book counts further than its entries reach."""
    chance = random.Random(seed)
    there = elsewhere.call
    sessions, turns = ["s0", "s1", "s2"], 0

    async def tell(door: Door, session: str, turn: str) -> None:
        items = [
            {"type": "message", "role": "user", "content": f"I like heron {turn} number {n}."}
            for n in range(9)
        ]
        told = {
            "project": "default",
            "session_id": session,
            "turn_id": turn,
            "user_id": "ada",
            "input_items": items,
        }
        await door("memory_after_turn", **told)
        await door.work()

    for session in sessions:
        await tell(call, session, f"t{(turns := turns + 1)}")
    for _ in range(8):
        session = chance.choice(sessions)
        what = chance.choice(["tell", "tell", "forget", "expire", "purge", "delete"])
        if what == "tell":
            await tell(call, session, f"t{(turns := turns + 1)}")
        elif what == "forget":
            latest = await admin.fetchval(
                "SELECT latest_turn FROM sessions WHERE session = $1", session
            )
            if latest is not None:
                await call(
                    "memory_forget", project="default", session_id=session, turn_ids=[latest]
                )
        elif what == "expire":
            await admin.execute(
                "UPDATE sessions SET policy = '{\"ttl_days\": 1}' WHERE session = $1", session
            )
            ago = clock.now() - timedelta(days=9)
            await admin.execute("UPDATE guards SET claimed_at = $1 WHERE done", ago)
            await call("memory_run_maintenance", project="default", session_id=session)
            await admin.execute("UPDATE sessions SET policy = NULL")
        elif what == "purge":
            await call(
                "tenant_purge", project="default", level="session", name=session, confirm=session
            )
        else:
            await write(call, "/a.md", f"Kites wheel {turns}.")
            await call("file_delete", project="default", path="/a.md")
        await call.work()
    await restored(there, await exported(call))
    mine, theirs = call.caller.tenant, there.caller.tenant
    assert await rows(elsewhere.admin, theirs) == await rows(admin, mine)
    for door in (call, there):
        await tell(door, sessions[0], "last")
    assert await rows(elsewhere.admin, theirs, ["books"]) == await rows(admin, mine, ["books"])
