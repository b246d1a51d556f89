"""What is moved is in one place, with all that it was, or has not moved at all."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import asyncpg
import pytest

from memsvc.core.paths import PATH_BYTES_MAX
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.files.conftest import FileDoor, Remember

pytestmark = pytest.mark.anyio
WithLimits = Callable[..., FileDoor]


async def tree(files: FileDoor) -> dict[str, str]:
    """Every file of the project that is text, with its content."""
    paths = [
        entry["path"]
        for entry in (await files("list", depth=64))["entries"]
        if entry["type"] == "FILE"
    ]
    return {path: await files.text(path) for path in paths}


async def move(files: FileDoor, source: str, destination: str, **arguments: Any) -> int:
    moved = await files("rename", from_path=source, to_path=destination, **arguments)
    assert moved.keys() == {"moved_count"}
    return int(moved["moved_count"])


async def test_a_file_moves_with_its_content_and_its_times(
    files: FileDoor, clock: FakeClock
) -> None:
    version = await files.write("/a/f", "walrus")
    before = await files("stat", path="/a/f")
    clock.advance(hours=1)
    assert await move(files, "/a/f", "/b/c/g") == 1
    after = await files("stat", path="/b/c/g")
    assert after["version"] != version
    assert after["version"].split(":") == [version.split(":")[0], "2"]
    assert after | {"version": version} == before
    assert (await files("stat", path="/a/f"))["exists"] is False
    assert (await files("stat", path="/a"))["exists"] is False
    assert await files.paths(depth=9) == ["/b", "/b/c", "/b/c/g"]
    assert await files.text("/b/c/g") == "walrus"
    await files.refuses("NOT_FOUND", "read", path="/a/f")


async def test_a_directory_moves_with_all_that_is_in_it(files: FileDoor) -> None:
    paths = ("/d/1", "/d/e/2", "/d/e/f/3", "/d/e/f/4", "/d.txt", "/d0", "/de/5")
    for path in paths:
        await files.write(path, path)
    assert await move(files, "/d", "/x/y") == 4
    assert await tree(files) == {
        "/d.txt": "/d.txt",
        "/d0": "/d0",
        "/de/5": "/de/5",
        "/x/y/1": "/d/1",
        "/x/y/e/2": "/d/e/2",
        "/x/y/e/f/3": "/d/e/f/3",
        "/x/y/e/f/4": "/d/e/f/4",
    }
    assert (await files("stat", path="/d"))["exists"] is False
    assert (await files("stat", path="/x/y/e"))["type"] == "DIRECTORY"
    assert await move(files, "/x/y/e", "/d") == 3
    assert await move(files, "/x", "/z") == 1
    assert sorted(await tree(files)) == [
        "/d.txt",
        "/d/2",
        "/d/f/3",
        "/d/f/4",
        "/d0",
        "/de/5",
        "/z/y/1",
    ]


@pytest.mark.parametrize(
    ("source", "destination"), [("/a_b", "/c"), ("/a%b", "/c"), ("/a%", "/c"), ("/a_", "/c_%")]
)
async def test_the_characters_of_a_path_mean_themselves(
    files: FileDoor, source: str, destination: str
) -> None:
    directories = ("/a_b", "/axb", "/a%b", "/aab", "/a%", "/a_", "/ab")
    for directory in directories:
        await files.write(f"{directory}/f", directory)
    assert await move(files, source, destination) == 1
    assert await tree(files) == {
        f"{destination if one == source else one}/f": one for one in directories
    }


async def test_a_path_moved_to_itself_stays_as_it_is(files: FileDoor) -> None:
    version = await files.write("/d/f", "walrus")
    for path in ("/d/f", "/d"):
        assert await move(files, path, path) == 0
        assert await move(files, path, path, overwrite=True) == 0
    assert (await files("stat", path="/d/f"))["version"] == version
    await files.refuses("NOT_FOUND", "rename", from_path="/none", to_path="/none")
    await files.refuses(
        "VERSION_CONFLICT", "rename", from_path="/d/f", to_path="/d/f", content_sha256="0" * 64
    )


async def test_what_is_not_there_cannot_be_moved(
    files: FileDoor, in_project: Callable[[str], FileDoor]
) -> None:
    await files.write("/deleted")
    await files("delete", path="/deleted")
    await in_project("two").write("/f")
    for path in ("/none", "/deleted", "/f"):
        await files.refuses("NOT_FOUND", "rename", from_path=path, to_path="/g")


async def test_the_root_stays_where_it_is(files: FileDoor) -> None:
    await files.write("/f")
    for root in ("", "/"):
        await files.refuses("INVALID_PATH", "rename", from_path=root, to_path="/x")
        await files.refuses("INVALID_PATH", "rename", from_path="/f", to_path=root)
        await files.refuses("INVALID_PATH", "rename", from_path="/f", to_path=root, overwrite=True)


@pytest.mark.parametrize("destination", ["/d/x", "/d/e/x", "/d/e/f", "/d/d"])
async def test_a_directory_cannot_be_moved_into_itself(files: FileDoor, destination: str) -> None:
    await files.write("/d/e/f", "walrus")
    await files.refuses(
        "INVALID_PATH", "rename", from_path="/d", to_path=destination, overwrite=True
    )
    assert await tree(files) == {"/d/e/f": "walrus"}


@pytest.mark.parametrize(
    ("source", "destination", "code"),
    [
        ("/f", "/g", "ALREADY_EXISTS"),
        ("/f", "/d", "ALREADY_EXISTS"),
        ("/d", "/g", "ALREADY_EXISTS"),
        ("/d", "/e", "ALREADY_EXISTS"),
        ("/e/in", "/e", "ALREADY_EXISTS"),
        ("/f", "/g/h", "NOT_DIRECTORY"),
        ("/f", "/g/h/i", "NOT_DIRECTORY"),
        ("/d", "/g/h", "NOT_DIRECTORY"),
        ("/f", "/f/h", "NOT_DIRECTORY"),
    ],
)
async def test_what_stands_in_the_way_is_told_and_stays(
    files: FileDoor, source: str, destination: str, code: str
) -> None:
    for path in ("/f", "/g", "/d/in", "/e/in"):
        await files.write(path, path)
    before = await files("list", depth=9)
    await files.refuses(code, "rename", from_path=source, to_path=destination)
    if (source, destination) != ("/f", "/g"):
        await files.refuses(code, "rename", from_path=source, to_path=destination, overwrite=True)
    assert await files("list", depth=9) == before


async def test_a_file_may_take_the_place_of_a_file(files: FileDoor, clock: FakeClock) -> None:
    await files.write("/f", "new walrus")
    first = await files.write("/g", "old")
    second = await files.write("/g", " zeppelin")
    clock.advance(hours=1)
    assert await move(files, "/f", "/g", overwrite=True) == 1
    assert await tree(files) == {"/g": "new walrus"}
    versions = (await files("list_versions", path="/g"))["versions"]
    assert [one["id"] for one in versions] == [second, first]
    for version, content in ((second, "old zeppelin"), (first, "old")):
        assert (await files("read_version", path="/g", history_id=version))["content"] == content
    assert (await files("search", query="zeppelin"))["chunks"] == []
    await files.write("/f", "again")
    assert await move(files, "/f", "/free", overwrite=True) == 1


async def test_history_goes_along(files: FileDoor, clock: FakeClock) -> None:
    versions = [await files.write("/d/f", "one"), await files.write("/d/f", "two", mode="TRUNCATE")]
    await files.write("/d/f", "three", mode="TRUNCATE")
    clock.advance(minutes=1)
    await move(files, "/d/f", "/d/g")
    await move(files, "/d", "/e")
    listed = (await files("list_versions", path="/e/g"))["versions"]
    assert [one["id"] for one in listed] == versions[::-1]
    for version, content in zip(versions, ("one", "two"), strict=True):
        assert (await files("read_version", path="/e/g", history_id=version))["content"] == content
    await files("restore_version", path="/e/g", history_id=versions[0])
    assert await tree(files) == {"/e/g": "one"}
    await files.refuses("NOT_FOUND", "list_versions", path="/d/f")


async def test_a_version_from_before_a_move_is_stale(files: FileDoor) -> None:
    stale = await files.write("/f", "walrus")
    await move(files, "/f", "/g")
    await files.refuses("VERSION_CONFLICT", "write", path="/g", content="x", expected_version=stale)
    await files.refuses(
        "VERSION_CONFLICT", "rename", from_path="/g", to_path="/h", expected_version=stale
    )
    current = (await files("stat", path="/g"))["version"]
    assert await files.write("/g", "!", expected_version=current) != current


async def test_a_move_may_demand_what_it_moves(files: FileDoor) -> None:
    stale = await files.write("/f", "walr")
    version = await files.write("/f", "us")  # by an append, so that its hash is not at hand
    right, wrong = (sha256(text).hexdigest() for text in (b"walrus", b"walr"))
    for demand in ({"expected_version": stale}, {"content_sha256": wrong}):
        await files.refuses("VERSION_CONFLICT", "rename", from_path="/f", to_path="/g", **demand)
    demands = {"expected_version": version, "content_sha256": wrong}
    await files.refuses("VERSION_CONFLICT", "rename", from_path="/f", to_path="/g", **demands)
    assert await move(files, "/f", "/g", expected_version=version, content_sha256=right) == 1
    assert await move(files, "/g", "/h", content_sha256=right.upper()) == 1


async def test_only_a_file_can_be_demanded(files: FileDoor) -> None:
    version = await files.write("/d/f", "walrus")
    for demand in (
        {"expected_version": version},
        {"content_sha256": sha256(b"walrus").hexdigest()},
    ):
        await files.refuses("VERSION_CONFLICT", "rename", from_path="/d", to_path="/e", **demand)
    assert await tree(files) == {"/d/f": "walrus"}


async def test_a_move_may_demand_what_is_in_its_way(files: FileDoor) -> None:
    await files.write("/f", "new")
    stale = await files.write("/g", "old")
    version = await files.write("/g", "er")
    to_there = {"from_path": "/f", "to_path": "/g", "overwrite": True}
    await files.refuses(
        "VERSION_CONFLICT", "rename", **to_there, expected_destination_version=stale
    )
    await files.refuses("ALREADY_EXISTS", "rename", **to_there, destination_must_not_exist=True)
    free = to_there | {"to_path": "/free"}
    await files.refuses("VERSION_CONFLICT", "rename", **free, expected_destination_version=version)
    assert await tree(files) == {"/f": "new", "/g": "older"}
    both = {"expected_destination_version": version, "destination_must_not_exist": True}
    for destination in (to_there, free):
        await files.refuses("INVALID_ARGUMENT", "rename", **destination, **both)
    await files.refuses(
        "ALREADY_EXISTS",
        "rename",
        from_path="/f",
        to_path="/g",
        expected_destination_version=version,
    )
    assert await move(files, "/f", "/g", overwrite=True, expected_destination_version=version) == 1
    assert await move(files, "/g", "/free", overwrite=True, destination_must_not_exist=True) == 1
    assert await tree(files) == {"/free": "new"}


async def test_what_the_memory_itself_keeps_is_moved_neither_away_nor_to(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    await files.write("/d/f")
    (session, *_) = await files.paths("/memory")
    for kept in ("/memory", session, "/memory/new", "/whiteboard", "/notebook/x"):
        await files.refuses("PERMISSION_DENIED", "rename", from_path=kept, to_path="/x")
        for source in ("/d", "/d/f"):
            await files.refuses("PERMISSION_DENIED", "rename", from_path=source, to_path=kept)
    assert await move(files, "/d", "/memory2") == 1


@pytest.mark.parametrize("path", ["no-slash", "/a/", "/a//b", "/a/../b", "/a b", "/é"])
async def test_what_is_no_path_is_refused(files: FileDoor, path: str) -> None:
    await files.write("/f")
    await files.refuses("INVALID_PATH", "rename", from_path=path, to_path="/x")
    await files.refuses("INVALID_PATH", "rename", from_path="/f", to_path=path)


async def test_nothing_moves_when_one_path_would_be_too_long(files: FileDoor) -> None:
    long = "/" + "x" * (PATH_BYTES_MAX - 10)
    await files.write("/d/short", "1")
    await files.write(f"/d{long}", "2")
    fits, too_long = "/" + "e" * 8, "/" + "e" * 9
    version = (await files("stat", path="/d/short"))["version"]
    body = await files.refuses("INVALID_PATH", "rename", from_path="/d", to_path=too_long)
    assert str(PATH_BYTES_MAX) in body["message"]
    assert await tree(files) == {"/d/short": "1", f"/d{long}": "2"}
    assert (await files("stat", path="/d/short"))["version"] == version
    assert await move(files, "/d", fits) == 2
    assert await files.text(fits + long) == "2"


async def test_a_move_takes_no_room_and_what_it_replaces_gives_room(
    with_limits: WithLimits,
) -> None:
    files = with_limits(project_bytes_max=10, tenant_bytes_max=10)
    await files.write("/f", "12345")
    await files.write("/g", "12345")
    await move(files, "/f", "/d/f")
    await files.refuses("QUOTA_EXCEEDED", "write", path="/x", content="x")
    await move(files, "/d/f", "/g", overwrite=True)
    await files.write("/x", "12345")
    await files.refuses("QUOTA_EXCEEDED", "write", path="/x", content="x")


async def test_what_moved_is_found_by_its_new_name_soon(files: FileDoor) -> None:
    await files.write("/old/walrus", "sings")
    await files.write("/old/deep/seal", "sings")
    await files.write("/single", "sings")
    await move(files, "/old", "/zeppelin")
    await move(files, "/single", "/kumquat")
    await files.call.work()
    for query, paths in (
        ("zeppelin", {"/zeppelin/walrus", "/zeppelin/deep/seal"}),
        ("seal", {"/zeppelin/deep/seal"}),
        ("kumquat", {"/kumquat"}),
        ("old", set()),
        ("single", set()),
    ):
        chunks = (await files("search", query=query))["chunks"]
        assert {chunk["file_path"] for chunk in chunks} == paths


async def test_of_two_moves_in_a_row_the_last_name_finds(files: FileDoor) -> None:
    for number in range(55):
        await files.write(f"/first/{number}", "sings")
    await move(files, "/first", "/second")
    await move(files, "/second", "/third")
    assert {name for name, _ in await files.call.work()} == {"files.retitle"}
    for query, count in (("third", 20), ("second", 0), ("first", 0)):
        assert len((await files("search", query=query))["chunks"]) == count


async def test_tenants_and_projects_move_their_own_files(
    files: FileDoor,
    in_project: Callable[[str], FileDoor],
    other_call: Door,
    admin: asyncpg.Connection,
) -> None:
    others = (in_project("two"), FileDoor(other_call))
    for one in (files, *others):
        await one.write("/d/f", "walrus")
    assert await move(files, "/d", "/e") == 1
    for one in others:
        assert await tree(one) == {"/d/f": "walrus"}
    assert await admin.fetchval("SELECT count(*) FROM files WHERE path = '/e/f'") == 1
