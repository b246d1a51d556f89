"""Listings are sorted, complete at every page size, and show no path twice."""

from collections.abc import Callable
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio

# Names around `/` in byte order, so that `/a`, `/a-b`, `/a.txt`, `/a/b` and `/a0` interleave in
# every way.
NAMES = st.text("a-.%_0", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
TREES = st.sets(PATHS, min_size=1, max_size=14)
projects = count()


def ancestors(path: str) -> set[str]:
    """Every directory above a path but the root."""
    parts = path.split("/")[1:]
    return {"/" + "/".join(parts[:size]) for size in range(1, len(parts))}


def without_conflicts(paths: set[str]) -> set[str]:
    """The paths that can stand together: no file where another one has its directory."""
    return {path for path in paths if not any(path in ancestors(other) for other in paths)}


def listed(tree: set[str], directory: str, depth: int) -> list[tuple[str, str]]:
    """The model of a listing: paths with their types, sorted by path."""
    kinds = {above: "DIRECTORY" for path in tree for above in ancestors(path)} | dict.fromkeys(
        tree, "FILE"
    )
    level = directory.count("/") + depth
    return sorted(
        (path, kind)
        for path, kind in kinds.items()
        if path.startswith(directory + "/") and path.count("/") <= level
    )


async def pages(files: FileDoor, directory: str, depth: int, limit: int) -> list[tuple[str, str]]:
    """All entries of a listing, page by page."""
    entries: list[tuple[str, str]] = []
    cursor = ""
    while True:
        page = await files(
            "list", path=directory, depth=depth, limit=limit, cursor=cursor, directory_times=False
        )
        entries += [(entry["path"], entry["type"]) for entry in page["entries"]]
        assert len(page["entries"]) <= limit
        assert page["has_more"] == (page["next_cursor"] is not None)
        if not page["has_more"]:
            return entries
        assert len(page["entries"]) == limit
        assert page["next_cursor"] > cursor
        cursor = page["next_cursor"]


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    tree=TREES.map(without_conflicts),
    removed=st.sets(st.integers(0, 13), max_size=3),
    limit=st.integers(1, 5),
)
@example(tree={"/a/b", "/a.txt", "/a-b", "/b", "/c"}, removed=set(), limit=1)
@example(tree={"/a/x", "/a-/x", "/a--/x", "/a--b/x", "/b", "/c"}, removed=set(), limit=1)
@example(tree={"/a%/x", "/a_b/x", "/a0", "/a-0/%/_", "/a/0/a/a", "/a/0.0"}, removed={0}, limit=2)
async def test_a_listing_is_what_a_plain_model_says_at_every_depth_and_page_size(
    call: Door, tree: set[str], removed: set[int], limit: int
) -> None:
    files = FileDoor(call, f"p{next(projects)}")
    for path in tree:
        await files.write(path)
    gone = {path for number, path in enumerate(sorted(tree)) if number in removed}
    for path in gone:
        await files("delete", path=path)
    tree = tree - gone
    directories = {""} | {above for path in tree for above in ancestors(path)}
    for directory in sorted(directories)[:6]:
        for depth in (1, 2, 4):
            expected = listed(tree, directory, depth)
            whole = await files("list", path=directory, depth=depth)
            assert [(entry["path"], entry["type"]) for entry in whole["entries"]] == expected
            assert whole["has_more"] is False
            assert await pages(files, directory, depth, limit) == expected


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    tree=TREES.map(without_conflicts),
    cursor=PATHS,
    depth=st.integers(1, 3),
    limit=st.integers(1, 3),
)
async def test_any_path_is_a_cursor_even_one_that_does_not_exist(
    call: Door, tree: set[str], cursor: str, depth: int, limit: int
) -> None:
    files = FileDoor(call, f"p{next(projects)}")
    for path in tree:
        await files.write(path)
    expected = [path for path, _ in listed(tree, "", depth) if path > cursor]
    page = await files("list", depth=depth, limit=limit, cursor=cursor)
    assert [entry["path"] for entry in page["entries"]] == expected[:limit]
    assert page["has_more"] == (len(expected) > limit)


async def test_an_entry_tells_name_size_and_times(files: FileDoor, clock: FakeClock) -> None:
    await files.write("/d/f.txt", "é")
    entries = (await files("list", depth=2))["entries"]
    assert [
        {name: entry[name] for name in ("name", "path", "type", "size")} for entry in entries
    ] == [
        {"name": "d", "path": "/d", "type": "DIRECTORY", "size": 0},
        {"name": "f.txt", "path": "/d/f.txt", "type": "FILE", "size": 2},
    ]
    now = clock.now().isoformat().replace("+00:00", "Z")
    assert [(entry["created_at"], entry["updated_at"]) for entry in entries] == [
        ("0001-01-01T00:00:00Z", now),
        (now, now),
    ]
    untimed = (await files("list", depth=2, directory_times=False))["entries"]
    assert [entry["updated_at"] for entry in untimed] == ["0001-01-01T00:00:00Z", now]


async def test_depth_nought_is_the_path_itself(files: FileDoor) -> None:
    await files.write("/d/f")
    assert await files.paths("/d", depth=0) == ["/d"]
    assert await files.paths("/d/f", depth=0) == ["/d/f"]
    assert await files.paths("/d/f", depth=5) == ["/d/f"]
    for root in ("", "/"):
        assert await files.paths(root, depth=0) == ["/"]


async def test_an_empty_root_has_no_entries_and_a_missing_directory_is_not_found(
    files: FileDoor,
) -> None:
    for root in ("", "/"):
        assert await files("list", path=root) == {
            "entries": [],
            "has_more": False,
            "next_cursor": None,
        }
    await files.write("/dir/f")
    for path in ("/nothing", "/di", "/dir/f/g", "/dir/"[:3]):
        for depth in (0, 1, 5):
            await files.refuses("NOT_FOUND", "list", path=path, depth=depth)


async def test_limits_and_depths_outside_their_bounds_are_refused(files: FileDoor) -> None:
    await files.write("/f")
    for depth in (-1, -(2**53), -(2**63)):
        await files.refuses("INVALID_OFFSET", "list", depth=depth)
    for arguments in (
        {"depth": 65},
        {"depth": 2**63},
        {"limit": 0},
        {"limit": -1},
        {"limit": -(2**63)},
        {"limit": 1.5},
    ):
        await files.refuses("INVALID_ARGUMENT", "list", **arguments)
    for arguments in ({"depth": 64}, {"limit": 2**63}, {"limit": None}, {"depth": None}):
        assert await files.paths(**arguments) == ["/f"]


async def test_a_page_has_256_entries_unless_asked_and_never_more_than_1024(
    with_limits: Callable[..., FileDoor],
    files: FileDoor,
    database: Database,
    scope: Scope,
    clock: FakeClock,
) -> None:
    small = with_limits(list_limit_default=3, list_limit_max=5)
    for number in range(7):
        await small.write(f"/f{number}")
    for arguments, most in (
        ({}, 3),
        ({"limit": 4}, 4),
        ({"limit": 5}, 5),
        ({"limit": 6}, 5),
        ({"limit": 2**53}, 5),
    ):
        page = await small("list", **arguments)
        assert (len(page["entries"]), page["has_more"]) == (most, True)
    async with database.begin(scope) as tx:
        await tx.execute_each(
            "INSERT INTO files VALUES ($1, $2, $3, $4, 1, $5, 0, true, '', $6, $6, NULL)",
            [(uuid4(), f"/many/{number}", number, clock.now()) for number in range(1100)],
        )
    for arguments, most in (({}, 256), ({"limit": 1024}, 1024), ({"limit": 1025}, 1024)):
        page = await files("list", path="/many", **arguments)
        assert (len(page["entries"]), page["has_more"]) == (most, True)


async def test_a_session_is_listed_completely_whatever_the_page_size(
    files: FileDoor, call: Door
) -> None:
    await call(
        "memory_after_turn",
        session_id="s",
        turn_id="t",
        input_items=[{"role": "user", "content": "I like tea"}],
    )
    whole = [
        (entry["path"], entry["type"])
        for entry in (await files("list", path="/memory/s", depth=9))["entries"]
    ]
    assert len(whole) > 12
    for limit in (1, 2, 3, 7):
        assert await pages(files, "/memory/s", 9, limit) == whole
    meta = [(path, kind) for path, kind in whole if path.startswith("/memory/s/meta/")]
    assert await pages(files, "/memory/s/meta", 1, 1) == meta
