"""Preconditions hold against concurrent writers, and limits are exact."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from tests.door import Door, Refused
from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio
WithLimits = Callable[..., FileDoor]


async def test_every_change_gives_the_file_a_new_version_of_one_incarnation(
    files: FileDoor,
) -> None:
    versions = [
        await files.write("/f", "abc"),
        await files.write("/f", "def"),
        await files.write("/f", "X", mode="OVERWRITE", offset=1),
        await files.write("/f", "new", mode="TRUNCATE"),
        await files.write("/f", "new", mode="TRUNCATE"),
    ]
    incarnations, revisions = zip(*(version.split(":") for version in versions), strict=True)
    assert len(set(incarnations)) == 1
    assert [int(revision) for revision in revisions] == [1, 2, 3, 4, 5]
    assert len(incarnations[0]) == 32
    for arguments in ({"offset": 0}, {"offset": 99}, {"length": 0}):
        assert (await files("read", path="/f", **arguments))["version"] == versions[-1]
    assert (await files("stat", path="/f"))["version"] == versions[-1]


async def test_a_stale_version_is_refused_by_reads_and_writes_and_nothing_happens(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    stale = await files.write("/f", "one")
    current = await files.write("/f", "two", mode="TRUNCATE")
    before = await admin.fetchval("SELECT count(*) FROM blocks")
    for mode in ("APPEND", "OVERWRITE", "TRUNCATE"):
        body = await files.refuses(
            "VERSION_CONFLICT", "write", path="/f", content="x", mode=mode, expected_version=stale
        )
        assert body["message"].startswith("file version changed; re-read the file")
    await files.refuses("VERSION_CONFLICT", "read", path="/f", expected_version=stale)
    await files.refuses("VERSION_CONFLICT", "write", path="/g", content="x", expected_version=stale)
    assert await admin.fetchval("SELECT count(*) FROM blocks") == before
    assert await files.text("/f", expected_version=current) == "two"
    assert await files.write("/f", "!", expected_version=current) != current


async def test_a_file_that_was_deleted_and_made_again_is_another_one(files: FileDoor) -> None:
    first = await files.write("/f", "one")
    await files("delete", path="/f")
    await files.write("/f", "one")
    await files.refuses("VERSION_CONFLICT", "write", path="/f", content="x", expected_version=first)


async def test_what_cannot_be_a_version_is_an_invalid_argument(files: FileDoor) -> None:
    version = await files.write("/f")
    noughts = "0" * 32
    tokens = [
        "",
        "1",
        "x" * 64,
        noughts + ":0",
        noughts + ":-1",
        "G" * 32 + ":1",
        "a:b:c",
        "%",
        "a" * 65,
        version + "\n",
    ]
    for token in (*tokens, version.upper(), f" {version}", 5, ["a"], True):
        for tool, arguments in (("write", {"content": "x"}), ("read", {}), ("delete", {})):
            await files.refuses(
                "INVALID_ARGUMENT", tool, path="/f", expected_version=token, **arguments
            )
    assert await files.text("/f", expected_version=version) == "x"


async def test_a_rendered_file_is_never_at_a_version(files: FileDoor, call: Door) -> None:
    await call(
        "memory_after_turn",
        session_id="s1",
        turn_id="t",
        input_items=[{"role": "user", "content": "hello"}],
    )
    version = await files.write("/f")
    await files.refuses(
        "VERSION_CONFLICT", "read", path="/memory/s1/meta/state.json", expected_version=version
    )


async def test_create_only_makes_a_file_once(files: FileDoor) -> None:
    version = await files.write("/f", "one", create_only=True)
    for mode in ("APPEND", "OVERWRITE", "TRUNCATE"):
        await files.refuses(
            "ALREADY_EXISTS", "write", path="/f", content="two", mode=mode, create_only=True
        )
    await files.refuses(
        "INVALID_ARGUMENT",
        "write",
        path="/f",
        content="two",
        create_only=True,
        expected_version=version,
    )
    await files.refuses(
        "INVALID_ARGUMENT",
        "write",
        path="/new",
        content="two",
        create_only=True,
        expected_version=version,
    )
    assert await files.text("/f") == "one"


async def test_of_many_writers_that_saw_the_same_version_one_wins(files: FileDoor) -> None:
    version = await files.write("/f", "start")
    tried = await _all_at_once(
        20, lambda number: files.write("/f", f"{number}", mode="TRUNCATE", expected_version=version)
    )
    winners = [number for number, error in enumerate(tried) if error is None]
    assert len(winners) == 1
    assert {error for error in tried if error} == {"VERSION_CONFLICT"}
    assert await files.text("/f") == f"{winners[0]}"


async def test_of_many_creators_one_wins(files: FileDoor) -> None:
    tried = await _all_at_once(
        20, lambda number: files.write("/d/f", f"{number}", create_only=True)
    )
    winners = [number for number, error in enumerate(tried) if error is None]
    assert len(winners) == 1
    assert {error for error in tried if error} == {"ALREADY_EXISTS"}
    assert await files.text("/d/f") == f"{winners[0]}"


async def test_readers_who_edit_with_versions_lose_no_update(files: FileDoor) -> None:
    await files.write("/counter", "0")

    async def count_one(_: int) -> None:
        while True:
            read = await files("read", path="/counter")
            try:
                await files.write(
                    "/counter",
                    str(int(read["content"]) + 1),
                    mode="TRUNCATE",
                    expected_version=read["version"],
                )
            except Refused as refused:
                if refused.code != "VERSION_CONFLICT":
                    raise
            else:
                return

    await asyncio.gather(*map(count_one, range(12)))
    assert await files.text("/counter") == "12"


@pytest.mark.parametrize("exists", [False, True])
async def test_two_hundred_concurrent_appends_are_all_there_and_whole(
    files: FileDoor, admin: asyncpg.Connection, exists: bool
) -> None:
    lines = [f"{number:03d}-{'é' * (number % 7)}\n" for number in range(200)]
    if exists:
        await files.write("/log", "")
    tried = await _all_at_once(200, lambda number: files.write("/log", lines[number]))
    assert [error for error in tried if error] == []
    assert sorted((await files.text("/log")).splitlines(keepends=True)) == sorted(lines)
    assert await admin.fetchval("SELECT size_bytes FROM projects") == sum(
        len(line.encode()) for line in lines
    )
    assert (await files("stat", path="/log"))["version"].endswith(f":{200 + exists}")


@pytest.mark.parametrize("mode", ["TRUNCATE", "OVERWRITE"])
async def test_concurrent_writers_of_a_new_file_all_succeed(files: FileDoor, mode: str) -> None:
    tried = await _all_at_once(20, lambda number: files.write("/f", f"{number:04d}", mode=mode))
    assert [error for error in tried if error] == []
    assert int(await files.text("/f")) in range(20)


async def test_writers_and_removers_of_a_file_leave_it_whole_or_gone(files: FileDoor) -> None:
    await files.write("/d/f", "start")

    async def either(number: int) -> None:
        if number % 2:
            await files.write("/d/f", f"{number};")
        else:
            await files("delete", path="/d", recursive=True)

    tried = await _all_at_once(40, either)
    assert {error for error in tried if error} <= {"NOT_FOUND"}
    stat = await files("stat", path="/d/f")
    size_bytes = len(await files.text("/d/f")) if stat["exists"] else 0
    assert stat["size"] == size_bytes


async def test_appends_store_what_is_appended_and_nothing_that_grows_with_the_file(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    await files.write("/log", "x" * 1_000_000)
    rows = (
        "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM streams) + (SELECT"
        " count(*) FROM projects)"
    )
    others = await admin.fetchval(rows)
    blocks = await admin.fetchval("SELECT count(*) FROM blocks")
    for number in range(1, 21):
        await files.write("/log", "line\n")
        assert await admin.fetchval("SELECT count(*) FROM blocks") == blocks + number
    assert await admin.fetchval(rows) == others
    assert await admin.fetchval("SELECT sum(length(content)) FROM blocks") == 1_000_000 + 20 * 5


async def test_a_payload_at_its_bound_is_taken_and_one_over_is_not(with_limits: WithLimits) -> None:
    files = with_limits(payload_bytes_max=10)
    await files.write("/f", "é" * 5)
    await files.refuses("PAYLOAD_TOO_LARGE", "write", path="/f", content="é" * 5 + "x")
    await files.refuses("PAYLOAD_TOO_LARGE", "write", path="/new", content="x" * 11)
    assert await files.text("/f") == "é" * 5


async def test_a_file_at_its_bound_is_kept_and_one_byte_more_is_refused(
    with_limits: WithLimits,
) -> None:
    files = with_limits(payload_bytes_max=20, file_bytes_max=10)
    await files.write("/f", "x" * 10)
    for arguments in (
        {"content": "x"},
        {"content": "xy", "mode": "OVERWRITE", "offset": 9},
        {"content": "x", "mode": "OVERWRITE", "offset": 10},
        {"content": "x" * 11, "mode": "TRUNCATE"},
    ):
        await files.refuses("PAYLOAD_TOO_LARGE", "write", path="/f", **arguments)
    await files.refuses("PAYLOAD_TOO_LARGE", "write", path="/new", content="x" * 11)
    await files.write("/f", "")
    await files.write("/f", "yz", mode="OVERWRITE", offset=8)
    assert await files.text("/f") == "x" * 8 + "yz"


async def test_the_project_is_charged_for_what_its_files_hold(
    with_limits: WithLimits, admin: asyncpg.Connection
) -> None:
    files = with_limits(project_bytes_max=10)
    await files.write("/a", "x" * 6)
    await files.write("/b", "x" * 4)
    await files.refuses("QUOTA_EXCEEDED", "write", path="/a", content="x")
    await files.refuses("QUOTA_EXCEEDED", "write", path="/c", content="x")
    await files.write("/c", "")
    await files.write("/a", "xy", mode="OVERWRITE", offset=2)
    await files.write("/a", "xyz", mode="TRUNCATE")
    assert await admin.fetchval("SELECT size_bytes FROM projects") == 7
    await files.write("/a", "xyz")
    await files.refuses("QUOTA_EXCEEDED", "write", path="/a", content="x")
    await files("delete", path="/b")
    await files.write("/d/e", "x" * 4)
    await files("delete", path="/d", recursive=True)
    assert await admin.fetchval("SELECT size_bytes FROM projects") == 6


async def test_quotas_are_exact_whoever_writes_at_the_same_time(
    with_limits: WithLimits, admin: asyncpg.Connection
) -> None:
    files = with_limits(project_bytes_max=100)
    tried = await _all_at_once(30, lambda number: files.write(f"/f{number % 15}", "x" * 7))
    assert sum(error is None for error in tried) == 14
    assert {error for error in tried if error} == {"QUOTA_EXCEEDED"}
    assert (
        await admin.fetchval("SELECT sum(size_bytes)::int FROM files WHERE deleted_at IS NULL")
        == 98
    )
    assert await admin.fetchval("SELECT size_bytes FROM projects") == 98


async def test_what_memory_keeps_is_not_charged_to_the_callers_files(
    with_limits: WithLimits, admin: asyncpg.Connection
) -> None:
    files = with_limits(project_bytes_max=10)
    await files.call(
        "memory_after_turn",
        session_id="s",
        turn_id="t",
        input_items=[{"role": "user", "content": "hello"}],
    )
    await files.write("/f", "x" * 10)
    assert await admin.fetchval("SELECT size_bytes FROM projects") == 10


async def _all_at_once(count: int, act: Callable[[int], object]) -> list[str | None]:
    """Start so many at the same moment; the code that each failed with, or None."""
    ready = asyncio.Barrier(count)

    async def one(number: int) -> str | None:
        await ready.wait()
        try:
            await act(number)
        except Refused as refused:
            return refused.code.value
        return None

    return list(await asyncio.gather(*map(one, range(count))))
