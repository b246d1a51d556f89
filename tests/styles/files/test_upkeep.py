"""What is past its time goes for good, whoever is at work meanwhile and wherever a purge is killed;
the rest stays."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Caller, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tools import Job
from memsvc.gateway.call_accounting import AuditOptions, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.store import file_gc
from memsvc.store.database import Database, Tx
from memsvc.styles.files import file_writer
from memsvc.styles.services import StyleServices
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.styles.files.past import Past, open_past, orphans

pytestmark = pytest.mark.anyio


@pytest.fixture
def past(database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope) -> Past:
    return open_past(database, clock, meter, scope)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few writes are enough for many steps of a purge."""
    monkeypatch.setattr(file_gc, "BLOCK_BYTES", 40)
    monkeypatch.setattr(file_gc, "MERGE_BYTES", 100)
    monkeypatch.setattr(file_gc, "MERGE_BLOCKS", 5)
    monkeypatch.setattr(file_writer, "BLOCKS_A_STEP", 2)
    monkeypatch.setattr(file_writer, "FILES_A_STEP", 2)


async def test_the_job_looks_after_every_project_four_times_a_day(past: Past) -> None:
    assert past.upkeep.jobs == [Job("files.purge", past.upkeep.run, interval_s=6 * 3600)]


async def test_the_newest_three_versions_stay_however_old(past: Past, clock: FakeClock) -> None:
    versions = await past.write("/f", *"abcdefg")
    await past.purge()
    assert await past.contents("/f") == list("fedcba")
    clock.advance(days=400)
    await past.purge()
    assert await past.contents("/f") == list("fed")
    assert await past.files.text("/f") == "g"
    for version in versions[:3]:
        await past.refuses("NOT_FOUND", "read_version", path="/f", history_id=version)
        await past.refuses("NOT_FOUND", "restore_version", path="/f", history_id=version)


async def test_versions_of_the_last_seven_days_stay_however_many(
    past: Past, clock: FakeClock
) -> None:
    await past.write("/f", *"abcdefghij")
    clock.advance(days=7, seconds=-1)
    await past.purge()
    assert await past.contents("/f") == list("ihgfedcba")
    clock.advance(seconds=1)
    await past.purge()
    assert await past.contents("/f") == list("ihg")


async def test_old_and_young_versions_are_told_apart_by_when_they_were_replaced(
    past: Past, clock: FakeClock
) -> None:
    await past.write("/f", *"abc")
    clock.advance(days=8)
    await past.write("/f", *"defgh")
    await past.purge()
    assert await past.contents("/f") == list("gfedc"), (
        "what was true until today can be had back for a week"
    )
    clock.advance(days=8)
    await past.purge()
    assert await past.contents("/f") == list("gfe")


@pytest.mark.parametrize(
    ("limits", "kept"), [({"versions_kept": 1}, "e"), ({"versions_kept": 0}, "")]
)
async def test_how_much_is_kept_is_settable(
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
    limits: dict[str, int],
    kept: str,
) -> None:
    past = open_past(
        database, clock, meter, scope, versions_days=2, delete_retention_days=4, **limits
    )
    await past.write("/f", *"abcdef")
    await past.write("/g", "deleted")
    await past("delete", path="/g")
    clock.advance(days=2)
    await past.purge()
    assert await past.contents("/f") == list(kept)
    assert await past.contents("/g") == ["deleted"]
    clock.advance(days=2, seconds=1)
    await past.purge()
    await past.refuses("NOT_FOUND", "list_versions", path="/g")
    assert await past.files.text("/f") == "f"


async def test_deleted_files_go_for_good_after_their_retention(
    past: Past, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    versions = await past.write(
        "/d/f", "canary one", "canary two", "canary three", "canary four", "canary five"
    )
    await past.write("/kept", "x")
    await past("delete", path="/d", recursive=True)
    clock.advance(days=30)
    await past.purge()
    assert await past.listed("/d/f") == versions[:1:-1]
    await past("restore_version", path="/d/f", history_id=versions[-1])
    await past("delete", path="/d/f")
    clock.advance(seconds=1)
    await past.purge()
    assert len(await past.listed("/d/f")) == 1, "the one that was deleted a second ago"
    clock.advance(days=31)
    await past.purge()
    await past.refuses("NOT_FOUND", "list_versions", path="/d/f")
    await past.refuses("NOT_FOUND", "read_version", path="/d/f", history_id=versions[-1])
    assert await past.files.paths() == ["/kept"]
    assert await orphans(admin) == (0, 0)
    held = (
        "SELECT count(*) FROM {} AS t WHERE position('canary' IN t::text) > 0 OR position($1"
        " IN t::text) > 0"
    )
    for table in ("files", "streams", "blocks", "entries", "posting_lists", "fresh_terms"):
        assert await admin.fetchval(held.format(table), b"canary".hex()) == 0, table


async def test_only_the_project_that_is_asked_for_is_purged(
    past: Past, clock: FakeClock, scope: Scope, other_scope: Scope
) -> None:
    others = [past.elsewhere(other_scope), past.elsewhere(Scope(scope.tenant, "elsewhere"))]
    for one in (past, *others):
        await one.write("/f", *"abcdef")
        await one.write("/g", "x")
        await one("delete", path="/g")
    clock.advance(days=40)
    await past.purge()
    for one in others:
        assert len(await one.listed("/f")) == 5
        assert len(await one.listed("/g")) == 1


async def test_a_styles_own_files_keep_no_old_versions(
    past: Past, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    await past.write("/f", *"abc")
    await past.write("/g", *"abc")
    await admin.execute("UPDATE files SET owner = 'turns'")
    await past("list_versions", path="/f")
    await admin.execute(
        "UPDATE files SET deleted_at = $1, revision = revision + 1 WHERE path = '/g'", clock.now()
    )
    clock.advance(days=7)
    await past.purge()
    assert await past.listed("/f") == []
    assert await past.files.text("/f") == "c"
    assert await past.contents("/g") == ["c"], "until it goes as all deleted files do"
    clock.advance(days=24)
    await past.purge()
    await past.refuses("NOT_FOUND", "list_versions", path="/g")
    assert await orphans(admin) == (0, 0)


async def test_appends_become_few_blocks_once_their_versions_are_gone(
    past: Past, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    lines = [f"{number:04d} é {'x' * (number % 90)}\n" for number in range(60)]
    versions = [await past.files.write("/log", line) for line in lines]
    clock.advance(days=8)
    await past.purge()
    assert (
        await admin.fetchval("SELECT count(*) FROM blocks") == 4
    )  # three versions end between them
    assert await past.listed("/log") == versions[-2:-5:-1]
    assert await past.files.text("/log") == "".join(lines)
    assert await past.contents("/log") == [
        "".join(lines[:-1]),
        "".join(lines[:-2]),
        "".join(lines[:-3]),
    ]
    at = len("".join(lines[:30]).encode())
    assert await past.files.text("/log", offset=at, length=4) == "0030"
    written = await admin.fetch("SELECT ctid FROM blocks")
    await past.purge()
    assert await admin.fetch("SELECT ctid FROM blocks") == written, "nothing is left to do"
    await past.files.write("/log", "more")
    assert await past.files.text("/log") == "".join(lines) + "more"


async def test_merged_blocks_are_no_larger_than_blocks_are(
    past: Past, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    for letter in "abcdefghijklmnop":
        await past.files.write("/log", letter * 60_000)
    whole = await past.files.text("/log")
    clock.advance(days=8)
    await past.purge()
    sizes = [
        row[0] for row in await admin.fetch("SELECT length(content) FROM blocks ORDER BY start")
    ]
    assert sizes == [240_000] * 3 + [60_000] * 4
    assert await past.files.text("/log") == whole


@dataclass
class Life:
    """One incarnation in the model: its states as (version, content, written at), and when it was
    deleted."""

    states: list[tuple[str, str, datetime]] = field(default_factory=list)
    deleted_at: datetime | None = None

    def replaced_at(self, number: int) -> datetime | None:
        return self.states[number + 1][2] if number + 1 < len(self.states) else self.deleted_at

    def purge(self, now: datetime, kept: int, days: int) -> list[str]:
        """Drop what may go; the versions of it."""
        last = len(self.states) - 1
        newest = last - kept if self.deleted_at is None else last - kept + 1
        stays = [
            number == last
            or number >= newest
            or (replaced := self.replaced_at(number)) is None
            or replaced > now - timedelta(days=days)
            for number in range(len(self.states))
        ]
        gone = [state[0] for state, stay in zip(self.states, stays, strict=True) if not stay]
        self.states = [state for state, stay in zip(self.states, stays, strict=True) if stay]
        return gone


class Model:
    """What a few paths should hold."""

    def __init__(self, past: Past, clock: FakeClock, seed: int) -> None:
        self.past, self.clock, self.random = past, clock, random.Random(seed)
        self.lives: dict[str, list[Life]] = {path: [] for path in ("/a", "/b", "/c")}
        self.gone: list[tuple[str, str]] = []

    async def step(self) -> None:
        path = self.random.choice(list(self.lives))
        live = self.live(path)
        text = self.random.choice("xyzé") * self.random.choice((0, 1, 5, 30, 60))
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                await self.write(path, "APPEND", text or "-")
            case 5 | 6 | 7:
                await self.write(path, "TRUNCATE", text)
            case 8 if live is not None:
                await self.past("delete", path=path)
                live.deleted_at = self.clock.now()
            case 9:
                known = [state for life in self.lives[path] for state in life.states]
                if known:
                    version, content, _ = self.random.choice(known)
                    restored = await self.past("restore_version", path=path, history_id=version)
                    self.note(path, restored["version"], content)
            case _:
                self.clock.advance(hours=self.random.choice((1, 12, 24, 72)))

    def live(self, path: str) -> Life | None:
        lives = self.lives[path]
        return lives[-1] if lives and lives[-1].deleted_at is None else None

    async def write(self, path: str, mode: str, text: str) -> None:
        live = self.live(path)
        before = live.states[-1][1] if live is not None and mode == "APPEND" else ""
        self.note(path, await self.past.files.write(path, text, mode=mode), before + text)

    def note(self, path: str, version: str, content: str) -> None:
        live = self.live(path)
        if live is None:
            live = Life()
            self.lives[path].append(live)
        if not live.states or live.states[-1][0] != version:
            live.states.append((version, content, self.clock.now()))

    def purge(self) -> None:
        for path, lives in self.lives.items():
            for life in list(lives):
                if life.deleted_at is not None and life.deleted_at < self.clock.now() - timedelta(
                    days=12
                ):
                    self.gone += [(path, state[0]) for state in life.states]
                    lives.remove(life)
                else:
                    self.gone += [
                        (path, version) for version in life.purge(self.clock.now(), kept=3, days=7)
                    ]

    async def kept_as_expected(self) -> None:
        """Every state that must be there reads back as it was, whether or not more is there."""
        for path, lives in self.lives.items():
            live = self.live(path)
            if live is not None:
                assert await self.past.files.text(path) == live.states[-1][1]
            for life in lives:
                for version, content, written_at in life.states:
                    read = await self.past("read_version", path=path, history_id=version)
                    assert (read["content"], read["size"]) == (content, len(content.encode()))
                    assert datetime.fromisoformat(read["created_at"]) == written_at

    async def exactly_as_expected(self) -> None:
        """And nothing else is there, and the lists say so."""
        await self.kept_as_expected()
        for path, version in self.gone:
            await self.past.refuses("NOT_FOUND", "read_version", path=path, history_id=version)
        for path, lives in self.lives.items():
            past = [state[0] for life in lives for state in life.states]
            if self.live(path) is not None:
                past.pop()
            if lives:
                assert sorted(await self.past.listed(path, limit=200)) == sorted(past)
            else:
                await self.past.refuses("NOT_FOUND", "list_versions", path=path)


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happened_a_purge_takes_exactly_what_is_past_its_time(
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
    admin: asyncpg.Connection,
    small_steps: None,
    seed: int,
) -> None:
    past = open_past(database, clock, meter, scope, delete_retention_days=12)
    model = Model(past, clock, seed)
    for _ in range(5):
        for _ in range(30):
            await model.step()
        await past.purge()
        model.purge()
        await model.exactly_as_expected()
        assert await orphans(admin) == (0, 0)


async def test_a_purge_that_is_killed_at_any_statement_harms_nothing_and_is_finished_by_the_next_one(
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
    admin: asyncpg.Connection,
    small_steps: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    past = open_past(database, clock, meter, scope, delete_retention_days=12)
    model = Model(past, clock, seed=99)
    for _ in range(60):
        await model.step()
    clock.advance(days=9)
    for _ in range(20):
        await model.step()
    clock.advance(days=5)
    model.purge()
    answered, left = Tx._request, [0]

    def mortal(tx: Tx, sql: str) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return answered(tx, sql)

    statements = 0
    while True:
        statements += 1
        left[0] = statements
        monkeypatch.setattr(Tx, "_request", mortal)
        try:
            await past.purge()
        except Killed:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(Tx, "_request", answered)
        await model.kept_as_expected()
    assert statements > 10
    await model.exactly_as_expected()
    assert await orphans(admin) == (0, 0)


class Killed(Exception):
    """The end of a process, as far as its transactions can tell."""


async def test_appends_and_rewrites_beside_a_purge_lose_nothing(
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
    admin: asyncpg.Connection,
    small_steps: None,
) -> None:
    past = open_past(database, clock, meter, scope, versions_days=0, versions_kept=0)
    lines = [f"{number:04d};" for number in range(120)]
    writing = True

    async def write(start: int) -> None:
        for line in lines[start::4]:
            await past.files.write("/log", line)
            await past.write("/page", line)

    async def purge_on() -> int:
        runs = 0
        while writing:
            await past.purge()
            runs += 1
        return runs

    purges = [asyncio.create_task(purge_on()) for _ in range(2)]
    await asyncio.gather(*map(write, range(4)))
    writing = False
    assert sum(await asyncio.gather(*purges)) > 2
    assert sorted((await past.files.text("/log")).split(";")[:-1]) == [line[:-1] for line in lines]
    assert await past.files.text("/page") in lines
    await past.purge()
    assert await past.listed("/log") == await past.listed("/page") == []
    assert await admin.fetchval("SELECT count(*) FROM blocks") < 40
    assert await orphans(admin) == (0, 0)


async def test_the_value_of_a_fact_that_expired_leaves_its_tier_files(
    past: Past,
    style_services: StyleServices,
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
    admin: asyncpg.Connection,
) -> None:
    tools = turn_tools.published(style_services, TurnOptions(), policy=PolicyOptions()).tools
    door = Door(
        Dispatch(
            Catalogue(tools),
            call_log(database, meter, clock, AuditOptions()),
            meter,
            clock,
            unlimited(meter),
        ),
        Caller(scope.tenant, "test"),
    )

    async def say(turn: str, text: str) -> None:
        said: list[Any] = [{"role": "user", "content": text}]
        await door(
            "memory_after_turn", session_id="s1", turn_id=turn, input_items=said, output_items=[]
        )

    async def where() -> set[str]:
        """The directories of a session whose files ever held the word."""
        rows = await admin.fetch(
            """SELECT DISTINCT f.path FROM blocks AS b JOIN streams AS s
                USING (tenant, project, stream)
            JOIN files AS f USING (tenant, project, incarnation)
                WHERE position('zanzibar'::bytea IN b.content) > 0"""
        )
        return {row["path"].split("/")[3] for row in rows}

    await say("t1", "Today I need zanzibar.")
    clock.advance(hours=1)
    await say("t2", "Today I need milk. This week I need a plan.")
    assert await where() == {"events", "memory_tiers"}
    clock.advance(days=2)
    assert (await door("memory_run_maintenance", session_id="s1"))["expired_facts"] > 0
    await past.purge()
    assert await where() == {"events", "memory_tiers"}, "its file can still be had back"
    clock.advance(days=31)
    await past.purge()
    assert await where() == {"events"}, "what was said stays said"
    assert await orphans(admin) == (0, 0)
