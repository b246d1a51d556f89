"""A caller may demand what a file holds by its hash, and may send a write again that it never saw
the answer of."""

from hashlib import sha256

import asyncpg
import pytest

from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("mode", ["APPEND", "OVERWRITE", "TRUNCATE"])
async def test_a_write_goes_ahead_only_over_the_content_that_it_demands(
    files: FileDoor, mode: str
) -> None:
    await files.write("/f", "one")
    version = await files.write("/f", " two")
    for wrong in (hash_of("one"), hash_of(""), "0" * 64):
        await files.refuses(
            "VERSION_CONFLICT", "write", path="/f", content="x", mode=mode, content_sha256=wrong
        )
    assert (await files("stat", path="/f"))["version"] == version
    await files.write("/f", "ONE", mode=mode, content_sha256=hash_of("one two"))
    assert (
        await files.text("/f")
        == {"APPEND": "one twoONE", "OVERWRITE": "ONE two", "TRUNCATE": "ONE"}[mode]
    )


async def test_nothing_has_no_content_not_even_an_empty_one(files: FileDoor) -> None:
    for sha in (hash_of(""), hash_of("x")):
        await files.refuses("VERSION_CONFLICT", "write", path="/f", content="x", content_sha256=sha)
        await files.refuses("VERSION_CONFLICT", "delete", path="/f", content_sha256=sha)
        await files.refuses("NOT_FOUND", "rename", from_path="/f", to_path="/g", content_sha256=sha)
    await files.write("/f", "")
    await files.write("/f", "x", content_sha256=hash_of(""))
    assert await files.text("/f") == "x"


async def test_a_hash_may_be_written_in_either_case_and_is_nothing_else(files: FileDoor) -> None:
    await files.write("/f", "one")
    await files.write("/f", "two", mode="TRUNCATE", content_sha256=hash_of("one").upper())
    for wrong in ("", "x", "0" * 63, "0" * 65, hash_of("two") + "\n", 7):
        await files.refuses(
            "INVALID_ARGUMENT", "write", path="/f", content="x", content_sha256=wrong
        )
    assert await files.text("/f") == "two"


async def test_a_write_by_content_can_be_sent_again(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    await files.write("/f", "one")
    demands = {"mode": "TRUNCATE", "content_sha256": hash_of("one")}
    version = await files.write("/f", "two", **demands)
    before = await admin.fetch("SELECT path, revision, stream, updated_at FROM files")
    blocks = await admin.fetchval("SELECT count(*) FROM blocks")
    for _ in range(2):
        assert await files("write", path="/f", content="two", **demands) == {
            "bytes_written": 3,
            "version": version,
        }
    assert await admin.fetch("SELECT path, revision, stream, updated_at FROM files") == before
    assert await admin.fetchval("SELECT count(*) FROM blocks") == blocks
    assert await admin.fetchval("SELECT size_bytes FROM projects") == 3
    await files.refuses("VERSION_CONFLICT", "write", path="/f", content="three", **demands)


async def test_equal_content_that_was_appended_answers_too(files: FileDoor) -> None:
    await files.write("/f", "tw")
    version = await files.write("/f", "o")
    demands = {"mode": "TRUNCATE", "content_sha256": hash_of("one")}
    assert await files.write("/f", "two", **demands) == version
    await files.refuses("VERSION_CONFLICT", "write", path="/f", content="owt", **demands)


@pytest.mark.parametrize("mode", ["APPEND", "OVERWRITE"])
async def test_a_write_of_a_part_by_content_is_never_taken_for_done(
    files: FileDoor, mode: str
) -> None:
    await files.write("/f", "two")
    await files.refuses(
        "VERSION_CONFLICT",
        "write",
        path="/f",
        content="two",
        mode=mode,
        content_sha256=hash_of("one"),
    )
    assert await files.text("/f") == "two"


async def test_a_demanded_version_is_stricter_and_is_there_or_not(files: FileDoor) -> None:
    stale = await files.write("/f", "one")
    arguments = {"path": "/f", "content": "two", "mode": "TRUNCATE", "expected_version": stale}
    await files("write", **arguments)
    await files.refuses("VERSION_CONFLICT", "write", **arguments)
    await files.refuses("VERSION_CONFLICT", "write", **arguments, content_sha256=hash_of("one"))
    await files.refuses("VERSION_CONFLICT", "write", **arguments, content_sha256=hash_of("two"))


async def test_both_demands_must_hold(files: FileDoor) -> None:
    version = await files.write("/f", "one")
    both = {"path": "/f", "content": "x", "expected_version": version}
    await files.refuses("VERSION_CONFLICT", "write", **both, content_sha256=hash_of("two"))
    await files("write", **both, content_sha256=hash_of("one"))
    assert await files.text("/f") == "onex"


@pytest.mark.parametrize("exists", [True, False])
async def test_what_must_not_exist_can_be_demanded_to_be_nothing_else(
    files: FileDoor, exists: bool
) -> None:
    version = await files.write("/f", "one")
    path = "/f" if exists else "/g"
    for demand in ({"expected_version": version}, {"content_sha256": hash_of("one")}):
        await files.refuses(
            "INVALID_ARGUMENT", "write", path=path, content="x", create_only=True, **demand
        )
    assert await files.paths() == ["/f"]
    assert await files.text("/f") == "one"


async def test_only_a_new_file_is_made_where_none_may_be(files: FileDoor) -> None:
    for mode in ("APPEND", "OVERWRITE", "TRUNCATE"):
        await files.write(f"/{mode}", "one", mode=mode, create_only=True)
        await files.refuses(
            "ALREADY_EXISTS", "write", path=f"/{mode}", content="", mode=mode, create_only=True
        )
        await files("delete", path=f"/{mode}")
        await files.write(f"/{mode}", "two", mode=mode, create_only=True)


async def test_a_delete_may_demand_what_it_deletes(files: FileDoor) -> None:
    await files.write("/f", "on")
    stale = (await files("stat", path="/f"))["version"]
    version = await files.write("/f", "e")
    for demand in ({"expected_version": stale}, {"content_sha256": hash_of("on")}):
        await files.refuses("VERSION_CONFLICT", "delete", path="/f", **demand)
        await files.refuses("VERSION_CONFLICT", "delete", path="/f", recursive=True, **demand)
    assert await files(
        "delete", path="/f", expected_version=version, content_sha256=hash_of("one")
    ) == {"deleted_count": 1}
    await files.refuses("VERSION_CONFLICT", "delete", path="/f", expected_version=version)


async def test_a_directory_has_neither_version_nor_content(files: FileDoor) -> None:
    version = await files.write("/d/f", "one")
    for demand in ({"expected_version": version}, {"content_sha256": hash_of("one")}):
        await files.refuses("VERSION_CONFLICT", "delete", path="/d", recursive=True, **demand)
        await files.refuses("VERSION_CONFLICT", "write", path="/d", content="x", **demand)
    assert await files.text("/d/f") == "one"


async def test_the_hash_of_a_file_is_told_where_it_is_at_hand_or_asked_for(files: FileDoor) -> None:
    await files.write("/f", "one")
    assert (await files("stat", path="/f"))["content_sha256"] == hash_of("one")
    await files.write("/f", " two")
    assert (await files("stat", path="/f"))["content_sha256"] is None
    assert (await files("stat", path="/f", content_sha256=True))["content_sha256"] == hash_of(
        "one two"
    )
    assert (await files("stat", path="/f"))["content_sha256"] is None  # a look changes nothing
    await files.write("/f", "ONE", mode="OVERWRITE", offset=0)
    assert (await files("stat", path="/f"))["content_sha256"] == hash_of("ONE two")
    await files("rename", from_path="/f", to_path="/d/g")
    assert (await files("stat", path="/d/g"))["content_sha256"] == hash_of("ONE two")
    for path in ("/d", "", "/none"):
        assert (await files("stat", path=path, content_sha256=True))["content_sha256"] is None


async def test_the_hash_is_of_the_bytes_even_if_they_are_no_text(files: FileDoor) -> None:
    await files.write("/f", "//8=", content_encoding="base64")
    assert (await files("stat", path="/f"))["content_sha256"] == sha256(b"\xff\xff").hexdigest()
    await files.write("/f", "", content_sha256=sha256(b"\xff\xff").hexdigest(), mode="TRUNCATE")
    assert (await files("stat", path="/f"))["content_sha256"] == hash_of("")


async def test_an_append_of_nothing_changes_nothing(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    version = await files.write("/f", "one")
    before = await admin.fetch("SELECT * FROM files")
    assert await files("write", path="/f", content="") == {"bytes_written": 0, "version": version}
    assert await admin.fetch("SELECT * FROM files") == before
    assert (await files("list_versions", path="/f"))["versions"] == []
    await files.refuses(
        "VERSION_CONFLICT", "write", path="/f", content="", expected_version=version[:-1] + "9"
    )
    await files.refuses("ALREADY_EXISTS", "write", path="/f", content="", create_only=True)
    made = await files.write("/empty", "")
    assert await files.text("/empty") == ""
    assert await files.write("/empty", "") == made
