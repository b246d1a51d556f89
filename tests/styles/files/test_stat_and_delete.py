"""What stands at a path, and how it goes away."""

from collections.abc import Callable

import asyncpg
import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.files.conftest import FileDoor, Remember

pytestmark = pytest.mark.anyio
NEVER = "0001-01-01T00:00:00Z"


async def test_nothing_has_no_type_no_size_and_no_times(files: FileDoor) -> None:
    assert await files("stat", path="/nothing") == {
        "exists": False,
        "type": "",
        "size": 0,
        "created_at": NEVER,
        "updated_at": NEVER,
        "version": None,
        "content_sha256": None,
    }


async def test_the_root_is_a_directory_even_when_empty(files: FileDoor, clock: FakeClock) -> None:
    for root in ("", "/"):
        stat = await files("stat", path=root)
        assert (stat["exists"], stat["type"], stat["updated_at"]) == (True, "DIRECTORY", NEVER)
    await files.write("/a/b/c")
    for root in ("", "/"):
        assert (await files("stat", path=root))["updated_at"] == _json_time(clock)


async def test_a_file_tells_when_it_was_made_and_last_changed(
    files: FileDoor, clock: FakeClock
) -> None:
    made = _json_time(clock)
    await files.write("/f", "abc")
    clock.advance(hours=1)
    version = await files.write("/f", "défg")
    assert await files("stat", path="/f") == {
        "exists": True,
        "type": "FILE",
        "size": 8,
        "created_at": made,
        "updated_at": _json_time(clock),
        "version": version,
        "content_sha256": None,  # it was appended to
    }


async def test_a_directory_is_as_new_as_the_newest_file_inside_it(
    files: FileDoor, clock: FakeClock
) -> None:
    await files.write("/d/old/f")
    clock.advance(hours=1)
    newest = _json_time(clock)
    await files.write("/d/new/f")
    clock.advance(hours=1)
    await files.write("/d.txt")
    await files.write("/d0/f")
    assert await files("stat", path="/d") == {
        "exists": True,
        "type": "DIRECTORY",
        "size": 0,
        "created_at": NEVER,
        "updated_at": newest,
        "version": None,
        "content_sha256": None,
    }
    assert (await files("stat", path="/d/old"))["updated_at"] < newest


async def test_a_directory_goes_with_its_last_file(files: FileDoor) -> None:
    await files.write("/d/f")
    assert (await files("delete", path="/d/f"))["deleted_count"] == 1
    assert (await files("stat", path="/d"))["exists"] is False
    assert await files.paths() == []


async def test_deleting_what_is_not_there_says_so(files: FileDoor) -> None:
    await files.write("/a/f")
    for path in ("/b", "/a/g", "/a/f/g", "/a/"[:2] + "b"):
        for recursive in (False, True):
            await files.refuses("NOT_FOUND", "delete", path=path, recursive=recursive)


async def test_the_root_cannot_be_deleted(files: FileDoor) -> None:
    for arguments in (
        {"path": ""},
        {"path": "/"},
        {"path": "/", "recursive": True},
        {"recursive": True},
        {},
    ):
        body = await files.refuses("PERMISSION_DENIED", "delete", **arguments)
        assert body["message"] == "the root directory cannot be deleted"
    await files.write("/f")
    await files.refuses("PERMISSION_DENIED", "delete", path="/", recursive=True)
    assert await files.paths() == ["/f"]


async def test_a_directory_goes_only_when_it_is_said_to(files: FileDoor) -> None:
    for path in ("/d/a", "/d/b/c", "/d.txt", "/d0", "/d-", "/dd"):
        await files.write(path)
    await files.refuses("NOT_EMPTY", "delete", path="/d")
    assert (await files("delete", path="/d", recursive=True))["deleted_count"] == 2
    assert await files.paths() == ["/d-", "/d.txt", "/d0", "/dd"]


async def test_wildcards_of_sql_are_letters_like_any_other(files: FileDoor) -> None:
    for path in ("/a_b/f", "/axb/f", "/a%b/f", "/aab/f", "/a_bc/f"):
        await files.write(path)
    assert await files.paths("/a_b") == ["/a_b/f"]
    assert await files.paths("/a%b") == ["/a%b/f"]
    assert (await files("delete", path="/a_b", recursive=True))["deleted_count"] == 1
    assert (await files("delete", path="/a%b", recursive=True))["deleted_count"] == 1
    assert await files.paths() == ["/a_bc", "/aab", "/axb"]


async def test_a_path_can_be_used_again_after_its_file_was_deleted(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    first = await files.write("/f", "one")
    await files("delete", path="/f")
    await files.refuses("NOT_FOUND", "read", path="/f")
    second = await files.write("/f", "two")
    assert await files.text("/f") == "two"
    assert first.split(":")[0] != second.split(":")[0]
    await files("delete", path="/f")
    await files.write("/f/now/a/directory")
    assert await files.paths(depth=3) == ["/f", "/f/now", "/f/now/a"]
    assert await admin.fetchval("SELECT count(*) FROM files WHERE deleted_at IS NOT NULL") == 2
    assert (
        await admin.fetchval("SELECT string_agg(content, '' ORDER BY content) FROM blocks")
        == b"onetwox"
    )


async def test_files_of_other_tenants_and_projects_do_not_exist(
    files: FileDoor, in_project: Callable[[str], FileDoor], other_call: Door
) -> None:
    version = await files.write("/d/f", "mine")
    for stranger in (in_project("default2"), in_project("defaul"), FileDoor(other_call)):
        assert (await stranger("stat", path="/d/f"))["exists"] is False
        assert (await stranger("stat", path="/d"))["exists"] is False
        await stranger.refuses("NOT_FOUND", "read", path="/d/f")
        await stranger.refuses("NOT_FOUND", "delete", path="/d", recursive=True)
        await stranger.refuses("NOT_FOUND", "list", path="/d")
        assert await stranger.paths(depth=9) == []
        await stranger.refuses(
            "VERSION_CONFLICT", "write", path="/d/f", content="x", expected_version=version
        )
        await stranger.write("/d/f", "theirs", create_only=True)
        await stranger("delete", path="/d", recursive=True)
    assert await files.text("/d/f", expected_version=version) == "mine"


async def test_what_memory_keeps_is_read_but_neither_written_nor_deleted(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    listed = await files("list", path="/memory/s1", depth=20)
    kept = [entry for entry in listed["entries"] if entry["type"] == "FILE"]
    assert len(kept) >= 6
    for entry in kept:
        read = await files("read", path=entry["path"])
        assert (len(read["content"].encode()), read["content_encoding"]) == (entry["size"], "utf-8")
        ours = (
            entry["path"] == "/memory/s1/meta/policy.json"
        )  # the one that callers write, as a whole
        for mode in ("APPEND", "OVERWRITE", "TRUNCATE"):
            code = (
                ("INVALID_CONTENT" if mode == "TRUNCATE" else "INVALID_ARGUMENT")
                if ours
                else "PERMISSION_DENIED"
            )
            await files.refuses(code, "write", path=entry["path"], content="x", mode=mode)
        await files.refuses("PERMISSION_DENIED", "delete", path=entry["path"])
    for directory in [
        entry["path"] for entry in listed["entries"] if entry["type"] == "DIRECTORY"
    ] + ["/memory"]:
        await files.refuses("PERMISSION_DENIED", "delete", path=directory, recursive=True)
    assert await files("list", path="/memory/s1", depth=20) == listed


async def test_rendered_files_stand_in_the_tree_beside_the_stored_ones(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    await remember("s10")
    assert await files.paths("/memory") == ["/memory/s1", "/memory/s10"]
    paths = await files.paths("/memory/s1", depth=20)
    assert {
        "/memory/s1/meta",
        "/memory/s1/meta/state.json",
        "/memory/s1/runtime/context/current.jsonl",
    } <= set(paths)
    assert paths == sorted(paths)
    assert await files.paths("/memory/s1/meta") == [
        f"/memory/s1/meta/{name}.json" for name in ("metrics", "policy", "state", "watermarks")
    ]
    stat = await files("stat", path="/memory/s1/meta/state.json")
    assert (stat["exists"], stat["type"], stat["version"]) == (True, "FILE", None)
    assert stat["size"] == len((await files.text("/memory/s1/meta/state.json")).encode())
    assert await files.text("/memory/s1/meta/state.json", offset=0, length=1) == "{"
    assert await files.text("/memory/s1/meta/state.json", offset=10**6) == ""
    assert (await files("stat", path="/memory/s1/meta"))["type"] == "DIRECTORY"
    await files.refuses("IS_DIRECTORY", "read", path="/memory/s1/meta")


async def test_a_listing_from_above_the_sessions_shows_their_stored_files(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    inside = await files("list", path="/memory/s1", depth=20)
    stored = [
        entry
        for entry in inside["entries"]
        if entry["type"] == "FILE" and (await files("stat", path=entry["path"]))["version"]
    ]
    above = (await files("list", path="/", depth=20))["entries"]
    assert stored
    assert [entry for entry in above if entry["type"] == "FILE"] == stored


async def test_nothing_can_be_planted_where_the_engine_keeps_its_files(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    for path in (
        "/memory",
        "/memory/s2",
        "/memory/s1/notes",
        "/memory/s1/events/raw/2026/01/06/log-20260106.jsonl",
        "/whiteboard/u/c.md",
        "/notebook",
    ):
        await files.refuses("PERMISSION_DENIED", "write", path=path, content="planted")
        assert (await files("stat", path=path))["type"] != "FILE"
    await remember("s2")
    for path in ("/memories", "/memory2/a", "/a/memory/b"):
        await files.write(path)


async def test_a_delete_can_be_pinned_to_a_version(files: FileDoor) -> None:
    stale = await files.write("/d/f", "one")
    current = await files.write("/d/f", "two")
    await files.refuses("VERSION_CONFLICT", "delete", path="/d/f", expected_version=stale)
    await files.refuses(
        "VERSION_CONFLICT", "delete", path="/d", recursive=True, expected_version=current
    )
    await files.refuses("VERSION_CONFLICT", "delete", path="/nothing", expected_version=current)
    assert (await files("delete", path="/d/f", expected_version=current))["deleted_count"] == 1


def _json_time(clock: FakeClock) -> str:
    return clock.now().isoformat().replace("+00:00", "Z")
