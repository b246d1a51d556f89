"""What a file was can be listed, read and brought back, for as long as it is kept."""

import asyncio
import base64
from typing import Any

import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from tests.door import Refused
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.files.past import Past, open_past

pytestmark = pytest.mark.anyio


@pytest.fixture
def past(database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope) -> Past:
    return open_past(database, clock, meter, scope)


async def test_a_first_write_makes_no_version(past: Past) -> None:
    await past.write("/f", "one")
    assert await past("list_versions", path="/f") == {
        "versions": [],
        "has_more": False,
        "next_cursor": None,
    }


async def test_every_change_of_content_makes_what_was_there_a_version(
    past: Past, clock: FakeClock
) -> None:
    first = await past.files.write("/f", "one")
    clock.advance(minutes=1)
    second = await past.files.write("/f", " two")
    clock.advance(minutes=1)
    third = await past.files.write("/f", "ONE", mode="OVERWRITE", offset=0)
    clock.advance(minutes=1)
    await past.files.write("/f", "new", mode="TRUNCATE")
    answer = await past("list_versions", path="/f")
    assert answer["versions"] == [
        {"id": third, "size": 7, "created_at": "2026-01-05T12:02:00Z"},
        {"id": second, "size": 7, "created_at": "2026-01-05T12:01:00Z"},
        {"id": first, "size": 3, "created_at": "2026-01-05T12:00:00Z"},
    ]
    assert await past.contents("/f") == ["ONE two", "one two", "one"]
    assert await past("read_version", path="/f", history_id=second) == {
        "history_id": second,
        "content": "one two",
        "content_encoding": "utf-8",
        "size": 7,
        "created_at": "2026-01-05T12:01:00Z",
    }


async def test_empty_content_is_a_version_too(past: Past) -> None:
    await past.write("/f", "")
    await past.write("/f", "one", "", "two")
    await past.files.write("/f", "!")
    assert await past.contents("/f") == ["two", "", "one", ""]
    await past.files.write("/g", "")
    await past.files.write("/g", "appended")
    assert await past.contents("/g") == [""]


async def test_a_version_of_many_blocks_is_one_version(past: Past) -> None:
    wholes = [letter * 100_000 for letter in "abc"]
    versions = await past.write("/f", wholes[0] * 6, wholes[1] * 6, wholes[2])
    assert await past.listed("/f") == versions[1::-1]
    assert await past.contents("/f") == [wholes[1] * 6, wholes[0] * 6]


async def test_what_was_deleted_stays_in_the_history_of_its_path(
    past: Past, clock: FakeClock
) -> None:
    versions = await past.write("/d/f", "one", "two")
    await past("delete", path="/d", recursive=True)
    assert await past.listed("/d/f") == versions[::-1]
    clock.advance(minutes=1)
    again = await past.write("/d/f", "three", "four")
    await past("delete", path="/d/f")
    assert await past.listed("/d/f") == [*again[::-1], *versions[::-1]]
    await past.write("/d/f", "five")
    assert await past.contents("/d/f") == ["four", "three", "two", "one"]


@pytest.mark.parametrize(("source", "target"), [("/a/f", "/b/g"), ("/a", "/c/d")])
async def test_a_moved_file_takes_its_history_along(past: Past, source: str, target: str) -> None:
    versions = await past.write("/a/f", "one", "two")
    await past("rename", from_path=source, to_path=target)
    path = target if source == "/a/f" else target + "/f"
    assert await past.listed(path) == versions[:1]
    await past.refuses("NOT_FOUND", "list_versions", path="/a/f")
    await past.refuses("NOT_FOUND", "read_version", path="/a/f", history_id=versions[0])
    await past.write(path, "three")
    assert await past.contents(path) == ["two", "one"]
    await past("restore_version", path=path, history_id=versions[0])
    assert await past.files.text(path) == "one"


async def test_a_move_is_no_change_of_content_and_its_token_still_names_what_was_there(
    past: Past,
) -> None:
    await past.write("/a", "one")
    await past("rename", from_path="/a", to_path="/b")
    moved = (await past("stat", path="/b"))["version"]
    await past.write("/b", "two")
    assert await past.contents("/b") == ["one"]
    assert (await past("read_version", path="/b", history_id=moved))["content"] == "one"


async def test_a_file_that_was_overwritten_by_a_move_is_in_the_history_of_its_path(
    past: Past,
) -> None:
    await past.write("/a", "one")
    await past.write("/b", "old", "two")
    await past("rename", from_path="/a", to_path="/b", overwrite=True)
    assert await past.contents("/b") == ["two", "old"]


async def test_pages_of_any_size_make_the_same_history(past: Past, clock: FakeClock) -> None:
    for _ in range(3):
        for number in range(4):
            await past.files.write("/f", f"{number}", mode="TRUNCATE" if number == 2 else "APPEND")
        await past.files.write("/f", "", mode="TRUNCATE")
        await past.files.write("/f", "x")
        await past("delete", path="/f")
    await past.files.write("/f", "now")
    whole = await past.listed("/f")
    assert len(whole) == len(set(whole)) == 18
    for limit in (1, 2, 5, 17, 18):
        pages: list[str] = []
        before: dict[str, Any] = {}
        while True:
            page = await past("list_versions", path="/f", limit=limit, **before)
            pages += [one["id"] for one in page["versions"]]
            assert page["has_more"] == (page["next_cursor"] is not None)
            if not page["has_more"]:
                break
            before = {"before_id": page["next_cursor"]}
        assert pages == whole
    clock.advance(days=1)
    assert await past.listed("/f", before_id=whole[-1]) == []


async def test_a_page_goes_on_where_the_last_one_ended_whatever_was_written_meanwhile(
    past: Past,
) -> None:
    versions = await past.write("/f", *"abcdef")
    page = await past("list_versions", path="/f", limit=2)
    await past.write("/f", "g", "h")
    assert await past.listed("/f", before_id=page["next_cursor"]) == versions[2::-1]
    await past("delete", path="/f")
    assert await past.listed("/f", before_id=page["next_cursor"]) == versions[2::-1]
    present = await past.files.write("/f", "new")
    assert await past.listed("/f", before_id=present) == await past.listed("/f")


async def test_limits_are_checked_and_the_default_is_fifty(past: Past) -> None:
    await past.write("/f", *(f"{number}" for number in range(53)))
    page = await past("list_versions", path="/f")
    assert (len(page["versions"]), page["has_more"], page["next_cursor"]) == (
        50,
        True,
        page["versions"][-1]["id"],
    )
    assert len(await past.listed("/f", limit=200)) == 52
    for limit in (0, -1, 201, "x", 1.5):
        await past.refuses("INVALID_ARGUMENT", "list_versions", path="/f", limit=limit)


async def test_restoring_writes_the_old_content_and_keeps_what_it_replaces(past: Past) -> None:
    first, second = await past.write("/f", "one", "two")
    restored = await past("restore_version", path="/f", history_id=first)
    assert restored == {"bytes_written": 3, "version": (await past("stat", path="/f"))["version"]}
    assert await past.files.text("/f") == "one"
    assert await past.listed("/f") == [second, first]
    await past(
        "restore_version", path="/f", history_id=second, expected_version=restored["version"]
    )
    assert await past.contents("/f") == ["one", "two", "one"]


async def test_restoring_what_is_there_already_leaves_it_there(past: Past) -> None:
    first, second, third = await past.write("/f", "one", "two", "one")
    await past("restore_version", path="/f", history_id=first)
    await past("restore_version", path="/f", history_id=third)
    assert await past.files.text("/f") == "one"
    assert (await past.listed("/f"))[-2:] == [second, first]


@pytest.mark.parametrize("create_only", [True, False])
async def test_a_deleted_file_is_restored_as_a_new_one(past: Past, create_only: bool) -> None:
    version = await past.files.write("/d/f", "one")
    await past("delete", path="/d/f")
    restored = await past(
        "restore_version", path="/d/f", history_id=version, create_only=create_only
    )
    assert restored["version"].split(":")[0] != version.split(":")[0]
    assert await past.files.text("/d/f") == "one"
    assert await past.listed("/d/f") == [version]


async def test_restoring_heeds_preconditions(past: Past) -> None:
    first, second = await past.write("/f", "one", "two")
    asked = {"path": "/f", "history_id": first}
    await past.refuses("VERSION_CONFLICT", "restore_version", **asked, expected_version=first)
    await past.refuses("ALREADY_EXISTS", "restore_version", **asked, create_only=True)
    both = {"expected_version": second, "create_only": True}
    await past.refuses("INVALID_ARGUMENT", "restore_version", **asked, **both)
    await past("delete", path="/f")
    await past.refuses("VERSION_CONFLICT", "restore_version", **asked, expected_version=second)
    await past.files.write("/f/g", "now a directory")
    await past.refuses("IS_DIRECTORY", "restore_version", **asked)


async def test_binary_versions_are_read_as_base64_and_restored(past: Past) -> None:
    raw = bytes(range(256)) * 3
    binary = await past.files.write("/f", base64.b64encode(raw).decode(), content_encoding="base64")
    await past.write("/f", "text")
    read = await past("read_version", path="/f", history_id=binary)
    assert (read["content_encoding"], base64.b64decode(read["content"]), read["size"]) == (
        "base64",
        raw,
        len(raw),
    )
    assert (await past("restore_version", path="/f", history_id=binary))["bytes_written"] == len(
        raw
    )
    assert (await past("read", path="/f"))["content"] == read["content"]


async def test_what_grew_beyond_one_payload_is_restored_whole(
    database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope
) -> None:
    past = open_past(database, clock, meter, scope, payload_bytes_max=10, file_bytes_max=30)
    for _ in range(3):
        grown = await past.files.write("/f", "x" * 10)
    await past.write("/f", "short")
    await past("restore_version", path="/f", history_id=grown)
    assert await past.files.text("/f") == "x" * 30


async def test_unknown_versions_and_those_of_others_are_not_found(
    past: Past, scope: Scope, other_scope: Scope
) -> None:
    version = (await past.write("/f", "one", "two", "three"))[0]
    other_path = (await past.write("/g", "one", "two"))[0]
    incarnation = version.split(":")[0]
    unknown = (
        other_path,
        f"{'0' * 32}:1",
        f"{incarnation}:4",
        f"{incarnation}:9999999999999999999",
    )
    strangers = past.elsewhere(other_scope), past.elsewhere(Scope(scope.tenant, "elsewhere"))
    for stranger in strangers:
        await stranger.write("/f", "mine")
    for tool in ("read_version", "restore_version"):
        for history_id in unknown:
            body = await past.refuses("NOT_FOUND", tool, path="/f", history_id=history_id)
            assert body["message"] == "the version does not exist"
        for stranger in strangers:
            await stranger.refuses("NOT_FOUND", tool, path="/f", history_id=version)
            assert await stranger.listed("/f") == []
    for history_id in unknown[:2] + unknown[3:]:
        await past.refuses("NOT_FOUND", "list_versions", path="/f", before_id=history_id)
    for token in ("", "1", "x", version.upper() + "G", f"{incarnation}:0", 7):
        await past.refuses("INVALID_ARGUMENT", "read_version", path="/f", history_id=token)
        await past.refuses("INVALID_ARGUMENT", "list_versions", path="/f", before_id=token)


async def test_history_is_of_exactly_one_path(past: Past) -> None:
    version = (await past.write("/d/f", "one", "two"))[0]
    for tool, more in (("list_versions", {}), ("read_version", {"history_id": version})):
        for root in ("", "/"):
            body = await past.refuses("INVALID_PATH", tool, path=root, **more)
            assert body["message"] == "the path must name a file, not the root"
        await past.refuses("NOT_FOUND", tool, path="/d", **more)
        await past.refuses("NOT_FOUND", tool, path="/d/ff", **more)
    await past.refuses("INVALID_PATH", "restore_version", path="", history_id=version)


async def test_nothing_is_restored_where_the_memory_keeps_its_files(past: Past) -> None:
    version = await past.files.write("/f", "one")
    for path in ("/memory", "/memory/s1/f", "/whiteboard/x", "/notebook/y"):
        await past.refuses("PERMISSION_DENIED", "restore_version", path=path, history_id=version)


async def test_of_concurrent_writes_each_makes_the_one_before_it_a_version(past: Past) -> None:
    await past.write("/f", "start")
    contents = [f"{number:02d}" for number in range(20)]
    await asyncio.gather(*(past.write("/f", content) for content in contents))
    assert sorted([await past.files.text("/f"), *await past.contents("/f")]) == sorted(
        [*contents, "start"]
    )


async def test_of_concurrent_appends_every_prefix_is_a_version(past: Past) -> None:
    await asyncio.gather(*(past.files.write("/f", f"{number};") for number in range(20)))
    whole = await past.files.text("/f")
    history = await past.contents("/f")
    assert len(history) == 19
    assert all(whole.startswith(content) for content in history)
    assert [len(content) for content in history] == sorted(
        {len(content) for content in history}, reverse=True
    )


async def test_of_concurrent_restores_that_saw_one_version_one_wins(past: Past) -> None:
    first, second = await past.write("/f", "one", "two")

    async def restore() -> str | None:
        try:
            await past("restore_version", path="/f", history_id=first, expected_version=second)
        except Refused as refused:
            return refused.code.value
        return None

    tried = await asyncio.gather(*(restore() for _ in range(10)))
    assert sorted(map(str, tried)) == ["None", *["VERSION_CONFLICT"] * 9]
    assert await past.contents("/f") == ["two", "one"]


async def test_a_write_that_fails_makes_no_version(past: Past) -> None:
    versions = await past.write("/f", "one", "two")
    await past.refuses(
        "VERSION_CONFLICT", "write", path="/f", content="x", expected_version=versions[0]
    )
    await past.refuses(
        "INVALID_OFFSET", "write", path="/f", content="x", mode="OVERWRITE", offset=99
    )
    assert await past.listed("/f") == versions[:1]
