"""Files that many change at once: nothing is lost, nothing is torn, nothing is in two places, and
search keeps up."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from memsvc.core.analysis import terms
from memsvc.core.chunks import chunks
from memsvc.core.scope import Scope
from memsvc.store import files as store
from memsvc.store.database import Database
from memsvc.store.locks import TREE_LOCK
from tests.door import Door, Refused
from tests.fakes import FakeClock
from tests.styles.files.conftest import FileDoor

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PATIENCE = 200


@pytest.fixture
def files(door: Door) -> FileDoor:
    return FileDoor(door)


async def at_once(calls: list[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
    """Start all calls from one barrier."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        await barrier.wait()
        return await call()

    return await asyncio.gather(*map(run, calls))


async def patiently(call: Callable[[], Awaitable[Any]]) -> Any:
    """The answer, however often the service is busy before it."""
    for _ in range(PATIENCE):
        try:
            return await call()
        except Refused as refused:
            if not refused.body["retryable"]:
                raise
    raise AssertionError("the service stays busy")


async def code_of(call: Callable[[], Awaitable[Any]]) -> str:
    """The code of a call that is refused, "" of one that succeeds."""
    try:
        await patiently(call)
    except Refused as refused:
        return refused.code.value
    return ""


async def tree(files: FileDoor) -> dict[str, str]:
    listed = (await files("list", depth=64, limit=1024))["entries"]
    return {
        entry["path"]: await files.text(entry["path"])
        for entry in listed
        if entry["type"] == "FILE"
    }


async def check_index(files: FileDoor, admin: asyncpg.Connection) -> None:
    """Once all jobs are done, the index holds the pieces of what the files hold now, and counts
    them rightly."""
    await files.call.work()
    contents = await tree(files)
    wanted = sorted(
        (path, one.start, one.text, f"{path}\n{one.context}".rstrip("\n"))
        for path, text in contents.items()
        for one in chunks(text)
    )
    rows = await admin.fetch(
        """SELECT f.path, e.start, e.text, e.cues FROM entries AS e
        LEFT JOIN files AS f ON f.incarnation = e.ref::uuid AND f.stream = e.stream
            AND f.deleted_at IS NULL
        WHERE e.role = 'document'"""
    )
    assert sorted(map(tuple, rows), key=str) == sorted(wanted, key=str)
    lengths = [len(terms(f"{text}\n{cues}")) for _, _, text, cues in wanted]
    book = await admin.fetchrow("SELECT entries, length FROM books")
    assert book is None or tuple(book) == (len(lengths), sum(lengths))
    held = sum(len(text.encode()) for text in contents.values())
    assert await admin.fetchval("SELECT size_bytes FROM projects") == held


async def test_two_hundred_appends_at_once_are_all_there_and_whole(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    async def append(number: int) -> str:
        return await patiently(
            lambda: files.write("/log", f"<line {number} kumquat{number} {'é' * 20}>\n")
        )

    versions = await at_once([lambda number=number: append(number) for number in range(200)])
    lines = (await files.text("/log")).splitlines()
    assert Counter(lines) == Counter(
        f"<line {number} kumquat{number} {'é' * 20}>" for number in range(200)
    )
    assert sorted(int(version.split(":")[1]) for version in versions) == list(range(1, 201))
    await check_index(files, admin)
    (chunk, *_) = (await files("search", query="kumquat137"))["chunks"]
    assert "kumquat137 " in chunk["chunk_content"]


async def test_of_edits_that_expect_a_version_none_is_lost(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    await files.write("/counter", "0")
    won = 0

    async def increment() -> None:
        nonlocal won
        while True:
            read = await patiently(lambda: files("read", path="/counter"))
            update = {
                "content": str(int(read["content"]) + 1),
                "mode": "TRUNCATE",
                "expected_version": read["version"],
            }
            code = await code_of(lambda update=update: files("write", path="/counter", **update))
            if not code:
                won += 1
                return
            assert code == "VERSION_CONFLICT"

    await at_once([increment for _ in range(24)])
    assert (await files.text("/counter"), won) == ("24", 24)
    await check_index(files, admin)


async def test_of_those_who_make_one_path_at_once_one_does(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    def make(number: int) -> Callable[[], Coroutine[Any, Any, str]]:
        return lambda: code_of(lambda: files.write("/new", f"by {number}", create_only=True))

    codes = await at_once([make(number) for number in range(40)])
    assert Counter(codes) == {"": 1, "ALREADY_EXISTS": 39}
    assert await files.text("/new") == f"by {codes.index('')}"
    await check_index(files, admin)


async def test_a_path_is_never_both_a_file_and_a_directory(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    paths = ["/a", "/a/b", "/a/b/c", "/a/d"] * 6
    codes = await at_once(
        [lambda path=path: code_of(lambda: files.write(path, "x")) for path in paths]
    )
    assert set(codes) <= {"", "IS_DIRECTORY", "NOT_DIRECTORY"}
    live = sorted(await tree(files))
    assert live
    assert not any(other.startswith(path + "/") for path in live for other in live)
    await check_index(files, admin)


async def test_a_directory_that_moves_to_and_fro_loses_nothing_that_is_written_into_it(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    for number in range(8):
        await files.write(f"/here/{number}", "")
    writing = True

    async def write(number: int) -> None:
        for line in range(12):
            await patiently(lambda line=line: files.write(f"/here/{number}", f"<{number}:{line}>"))

    async def move() -> int:
        moves = 0
        while writing:
            for source, destination in (("/here", "/there"), ("/there", "/here")):
                code = await code_of(
                    lambda s=source, d=destination: files("rename", from_path=s, to_path=d)
                )
                assert code in ("", "NOT_FOUND", "ALREADY_EXISTS")
                moves += not code
        return moves

    async def write_all() -> None:
        nonlocal writing
        try:
            await asyncio.gather(*(write(number) for number in range(8)))
        finally:
            writing = False

    _, *moves = await at_once([write_all, move, move])
    assert sum(moves) > 0
    contents = await tree(files)
    found = Counter(re.findall(r"<\d+:\d+>", "".join(contents.values())))
    assert found == Counter(f"<{number}:{line}>" for number in range(8) for line in range(12))
    assert "".join(re.findall(r"<\d+:\d+>", "".join(contents.values()))) == "".join(
        contents.values()
    )
    live = await admin.fetch("SELECT path FROM files WHERE deleted_at IS NULL")
    assert len(live) == len({row["path"] for row in live}) == len(contents)
    await check_index(files, admin)


async def test_of_those_who_move_files_to_one_place_all_or_one_get_there(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    for number in range(16):
        await files.write(f"/from/{number}", f"walrus {number}")

    def move(number: int, *, overwrite: bool, to: str) -> Callable[[], Coroutine[Any, Any, str]]:
        return lambda: code_of(
            lambda: files("rename", from_path=f"/from/{number}", to_path=to, overwrite=overwrite)
        )

    codes = await at_once([move(number, overwrite=False, to="/one") for number in range(8)])
    assert Counter(codes) == {"": 1, "ALREADY_EXISTS": 7}
    codes = await at_once([move(number, overwrite=True, to="/last") for number in range(8, 16)])
    assert Counter(codes) == {"": 8}
    contents = await tree(files)
    assert len(contents) == 1 + 7 + 1
    assert await admin.fetchval("SELECT count(*) FROM files WHERE path = '/last'") == 8
    await check_index(files, admin)


async def test_two_files_that_change_places_with_each_other_meet_nobody(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    for name in ("a", "b", "c"):
        await files.write(f"/{name}", f"walrus {name}")

    async def turn(*path: str) -> None:
        for _ in range(8):
            for source, destination in pairwise(path):
                move = {"from_path": source, "to_path": destination, "overwrite": True}
                assert await code_of(lambda move=move: files("rename", **move)) in ("", "NOT_FOUND")

    async def write(path: str) -> None:
        for number in range(15):
            await patiently(lambda number=number: files.write(path, f" {number}"))

    await at_once(
        [
            lambda: turn("/a", "/b", "/c", "/a"),
            lambda: turn("/c", "/b", "/a", "/c"),
            lambda: turn("/b", "/a", "/b"),
        ]
        + [lambda path=path: write(path) for path in ("/a", "/b", "/c")]
    )
    await check_index(files, admin)


async def test_deleting_a_directory_takes_what_was_there_and_leaves_what_comes_after(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    written, deleted = 0, 0

    async def write(number: int) -> None:
        nonlocal written
        for line in range(8):
            await patiently(
                lambda line=line: files.write(f"/d/{number % 5}/{number}.{line}", "walrus")
            )
            written += 1

    async def delete() -> None:
        nonlocal deleted
        for _ in range(6):
            with suppress(Refused):  # nothing is there just now
                answer = await patiently(lambda: files("delete", path="/d", recursive=True))
                deleted += answer["deleted_count"]

    await at_once([*(lambda number=number: write(number) for number in range(15)), delete, delete])
    assert deleted + len(await tree(files)) == written == 120
    await check_index(files, admin)
    await files("delete", path="/d", recursive=True)
    await check_index(files, admin)


class Tide:
    """Files that come, move, and go: which words are in some file for sure, and which in none any
    more."""

    def __init__(self, files: FileDoor) -> None:
        self.files = files
        self.present: set[str] = set()
        self.gone: set[str] = set()
        self.changing = 0

    async def change(self, number: int) -> None:
        self.changing += 1
        for round_ in range(8):
            await self._come_and_go(f"walrus{number}x{round_}", number, round_)
        self.changing -= 1

    async def _come_and_go(self, word: str, number: int, round_: int) -> None:
        directory, name = f"/d{number}", f"f{round_ % 2}"
        text = f"{word} zeppelin {'etc ' * 500}"
        await patiently(lambda: self.files.write(f"{directory}/{name}", text, mode="TRUNCATE"))
        self.present.add(word)
        if round_ % 3 == 0:
            await patiently(
                lambda: self.files("rename", from_path=directory, to_path=f"/m{number}x{round_}")
            )
            directory = f"/m{number}x{round_}"
        self.present.discard(word)
        if round_ % 2:
            await patiently(lambda: self.files("delete", path=directory, recursive=True))
        else:
            await patiently(
                lambda: self.files.write(f"{directory}/{name}", "zeppelin", mode="TRUNCATE")
            )
        self.gone.add(word)

    async def search(self) -> int:
        """How often it was searched while files changed."""
        searches = 0
        while self.changing:
            gone, present = set(self.gone), set(self.present)
            chunks = (await self.files("search", query="zeppelin"))["chunks"]
            assert (
                not set(
                    re.findall(
                        r"walrus\d+x\d+", " ".join(chunk["chunk_content"] for chunk in chunks)
                    )
                )
                & gone
            )
            for word in sorted(present)[:1]:
                assert (await self.files("search", query=word))[
                    "chunks"
                ] or word not in self.present
            searches += 1
        return searches

    async def work(self) -> None:
        while self.changing:
            await patiently(self.files.call.work)


async def test_search_never_errs_and_never_shows_what_was_gone_before_it_began(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    tide = Tide(files)
    changes = [lambda number=number: tide.change(number) for number in range(3)]
    outcomes = await at_once([*changes, tide.search, tide.search, tide.work])
    assert outcomes[3] > 5
    await check_index(files, admin)


async def waiting(admin: asyncpg.Connection, calls: int) -> None:
    """Until so many calls wait for a lock in this database."""
    waiting = """SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'
                     AND state = 'active'"""
    while await admin.fetchval(waiting) < calls:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_writer_whose_file_went_is_not_in_the_way_of_the_next_mover(
    files: FileDoor,
    database: Database,
    scope: Scope,
    clock: FakeClock,
    admin: asyncpg.Connection,
    deleted: bool,
) -> None:
    await files.write("/a", "one")
    await files.write("/x", "other")
    async with database.begin(scope, locks=[TREE_LOCK]) as tx:
        if deleted:
            await store.delete(tx, "/a", now=clock.now(), keep_style_files=True)
        else:
            await store.move(tx, "/a", "/b")
        writing = asyncio.create_task(files.write("/a", "two"))
        await waiting(admin, 1)
        source = "/x" if deleted else "/b"
        moving = asyncio.create_task(files("rename", from_path=source, to_path="/c"))
        await waiting(admin, 2)
    await asyncio.gather(writing, moving)
    assert await tree(files) == (
        {"/a": "two", "/c": "other"} if deleted else {"/a": "two", "/c": "one", "/x": "other"}
    )


async def test_the_job_for_new_names_and_a_writer_do_not_wait_for_each_other_in_a_ring(
    files: FileDoor, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    for number in range(3):
        await files.write(f"/d/{number}", "walrus")
    await files("rename", from_path="/d", to_path="/e")
    async with database.begin(scope) as tx:  # a writer has its file, then the book
        assert await store.find(tx, "/e/1", for_update=True)
        working = asyncio.create_task(files.call.work())
        await waiting(admin, 1)
        assert await tx.fetch("SELECT FROM books WHERE tenant = $1 AND project = $2 FOR UPDATE")
    await working
    await check_index(files, admin)
