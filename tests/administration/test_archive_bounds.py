"""What an archive may ask of the process and the database that everybody shares."""

from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.administration import archive_restore, archive_tools
from memsvc.administration.archive_format import ROWS_BYTES
from memsvc.administration.archive_restore import FileQuotas
from memsvc.core.errors import Code, MemsvcError
from memsvc.store import derived_index, export, usage
from memsvc.store.database import Tx
from memsvc.store.usage import Quota
from tests.administration.archived import (
    archives,
    exported,
    restored,
    rows,
    scope_of,
    write,
)
from tests.administration.test_archive_refusals import (
    FACTS,
    Change,
    manifest,
    member,
    memory,
    opened,
    packed,
)
from tests.door import Door

pytestmark = pytest.mark.anyio

JOBS = "projects/default/rows/job_refs/00000001.jsonl"


async def test_an_archive_of_many_projects_takes_no_lock_for_each(
    call: Door, other_call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        await write(call, "/a.md", "The heron nests.", project=f"p{number}")
    archive = await exported(call)
    monkeypatch.setattr(archive_restore, "PROJECT_LOCKS_MAX", 3)
    held: list[int] = []
    looked = export.has_rows

    async def looking(tx: Tx) -> bool:
        held.append(
            await admin.fetchval(
                """SELECT count(*) FROM pg_locks AS held JOIN pg_database AS here
                    ON here.oid = held.database AND here.datname = current_database()
                WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted"""
            )
        )
        return await looked(tx)

    monkeypatch.setattr(export, "has_rows", looking)
    done = await restored(other_call, archive)
    assert [one.written for one in done.projects] == [True] * 12
    assert len(held) == 12
    assert max(held) <= 3
    written = await other_call("file_read", project="p7", path="/a.md")
    assert written["content"] == "The heron nests."


async def test_writers_go_on_while_an_archive_is_checked(
    call: Door, other_call: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    for project in ("a", "b"):
        await write(call, "/a.md", "The heron nests.", project=project)
    archive = await exported(call)
    steps: list[str] = []

    def writing_at(module: Any, name: str) -> None:
        step = getattr(module, name)

        async def writing(*given: Any, **more: Any) -> Any:
            done = await step(*given, **more)
            steps.append(name)
            await write(other_call, f"/{len(steps)}.md", "An otter dives.", project="a")
            return done

        monkeypatch.setattr(module, name, writing)

    for module, name in (
        (derived_index, "build"),
        (export, "set_restored"),
        (usage, "quota_bytes"),
    ):
        writing_at(module, name)
    allowed = FileQuotas(10**9, 10**9, Quota(10**9))
    checked = await restored(other_call, archive, check=True, allowed=allowed)
    assert [one.written for one in checked.projects] == [True, True]
    assert steps == ["quota_bytes", "set_restored", "set_restored", "build", "build", "quota_bytes"]


async def test_no_more_of_an_archive_waits_than_a_part_of_a_table_or_a_file(
    call: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_tools, "CHUNK_BYTES", 1)
    for number in range(4):
        prompt = "{conversation}" + "p" * 10_000
        await call("memories_put_prompt", project=f"p{number}", prompt=prompt)
        await write(call, f"/{number}.md", "")
    async with archives(call).opened(scope_of(call, "*"), gzip=False, calls=False) as archive:
        chunks = [chunk async for chunk in archive.chunks]
    sizes = list(map(len, chunks))
    assert max(sizes) < 20_000
    assert sum(sizes) > 40_000
    headers = [chunk.count(b"ustar") for chunk in chunks]
    assert max(headers) <= 3 < sum(headers)


def jobs(content: bytes) -> Change:
    """Jobs that wait, told of in the end too."""

    def change(members: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        told = [(name, what) for name, what in members if name not in ("end.json", JOBS)]
        end = orjson.loads(dict(members)["end.json"])
        end["rows"]["job_refs"] = content.count(b"\n")
        return [*told, (JOBS, content), ("end.json", orjson.dumps(end))]

    return change


async def test_an_archive_brings_so_much_and_no_more(
    call: Door, other_call: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_restore, "JOBS_MAX", 10)
    members = opened(await memory(call))
    job = b'{"name":"no_such_job","subject":"%s"}\n'
    for change, code in (
        (
            manifest(projects=["default", *(f"p{number}" for number in range(1000))]),
            Code.INVALID_CONTENT,
        ),
        (
            member(FACTS, lambda content: content + b"{}\n" * (ROWS_BYTES // 3)),
            Code.INVALID_CONTENT,
        ),
        (jobs(job * 11 % tuple(b"%d" % number for number in range(11))), Code.PAYLOAD_TOO_LARGE),
        (jobs(job % (b"x" * 513)), Code.INVALID_CONTENT),
    ):
        with pytest.raises(MemsvcError) as refusal:
            await restored(other_call, packed(change(members)))
        assert refusal.value.code is code
    assert not any((await rows(admin, other_call.caller.tenant)).values())
    done: Any = await restored(
        other_call, packed(jobs(job * 10 % tuple(b"%d" % number for number in range(10)))(members))
    )
    assert done.projects[0].written
