"""The whole service behind PgBouncer in transaction mode, with two connections of PostgreSQL for
all that it does."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from memsvc.adapters.clock import SystemClock
from memsvc.cli.check_commands import doctor
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import jobs
from memsvc.store.database import Database, DatabaseOptions
from memsvc.worker import Worker, WorkerOptions
from tests.e2e.sdk import connected
from tests.fakes import RecordingMeter
from tests.gateway.served import Service, served
from tests.gateway.wired import told, wired
from tests.pooler import PgBouncer, needs_pgbouncer
from tests.servers import DatabaseUrls
from tests.styles.turns.talk import assistant, user, values
from tests.styles.whiteboard.pages import WHO, entry
from tests.waiting import until

pytestmark = [pytest.mark.anyio, needs_pgbouncer]

KEYS = {"key-one": "peanuts", "key-two": "walnuts"}
SESSIONS = 4


@pytest.fixture
def pooler(database_urls: DatabaseUrls) -> Iterator[PgBouncer]:
    with PgBouncer(database_urls) as pooler:
        yield pooler


@pytest.fixture
async def service(pooler: PgBouncer, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    """What listens goes around the pooler."""
    database = DatabaseOptions(url=pooler.urls.app, direct_url=pooler.direct.app)
    async with served(pooler.urls, admin, database=database) as service:
        yield service


async def call(http: httpx2.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a call that has to succeed."""
    answer = await http.post(f"/api/tools/{tool}", json=arguments)
    body: dict[str, Any] = answer.json()
    assert answer.status_code == 200, body
    return body


async def live(service: Service, key: str, session: str) -> None:
    """A session of somebody who is allergic to something, keeps a file and has a whiteboard, and
    asks for all of it."""
    allergen = KEYS[key]
    who = {"session_id": session, "user_id": f"ada-{session}"}
    async with service.http(key) as http:
        said = [user(f"My name is Ada. I am allergic to {allergen}.")]
        turn = {"turn_id": "t1", "input_items": said, "output_items": [assistant("Noted.")]}
        assert await call(http, "memory_after_turn", **who, **turn) == await call(
            http, "memory_after_turn", **who, **turn
        )
        asked = await call(
            http, "memory_before_turn", **who, current_input="What am I allergic to?"
        )
        assert any(allergen in told for told in values(asked))
        await call(http, "file_write", project="p", path=f"/{session}.md", content=allergen)
        read = await call(http, "file_read", project="p", path=f"/{session}.md")
        assert read["content"] == allergen
        told = entry(f"I cannot eat {allergen}.")
        await call(http, "context_update", user_id="ada", conversation_id=session, entries=[told])
        board = await call(http, "whiteboard_get", user_id="ada", conversation_id=session)
        assert allergen in board["text"]


async def test_two_tenants_at_once_have_all_that_is_theirs_and_nothing_else(
    service: Service,
) -> None:
    lives = (live(service, key, f"s{number}") for key in KEYS for number in range(SESSIONS))
    await asyncio.gather(*lives)
    for key, allergen in KEYS.items():
        async with service.http(key) as http:
            found = (await call(http, "file_search", project="*", query=allergen))["chunks"]
            assert len(found) >= SESSIONS
            [other] = set(KEYS.values()) - {allergen}
            assert (await call(http, "file_search", project="*", query=other))["chunks"] == []
            users = (await call(http, "memory_list_sessions"))["sessions"]
            assert len(users) == SESSIONS


@pytest.mark.parametrize("around", [True, False])
async def test_jobs_are_done_whether_the_worker_goes_around_the_pooler_or_not(
    pooler: PgBouncer, scope: Scope, meter: RecordingMeter, around: bool
) -> None:
    done: set[str] = set()

    async def note(_: Scope, subject: str) -> None:
        done.add(subject)

    database = await Database.open(pooler.urls.app, DatabaseOptions(), meter)
    url = (pooler.direct if around else pooler.urls).app
    worker = Worker(
        url, database, [Job("note", note)], SystemClock(), meter, WorkerOptions(poll_s=0.1)
    )
    async with worker.running():
        for number in range(20):
            async with database.begin(scope) as tx:
                await jobs.enqueue(tx, "note", str(number), now=SystemClock().now())
        await until(lambda: len(done) == 20)
        await until(worker.alive)
    await database.close()


async def test_a_change_behind_the_pooler_is_told(service: Service) -> None:
    async with (
        wired(service.app) as url,
        connected(url, "key-one") as client,
        client.listen(resource_subscriptions=["memory://alice/123"]) as subscription,
    ):
        async with service.http() as http:
            await call(http, "context_update", **WHO, entries=[entry("We leave on Friday.")])
        assert await told(subscription) == "memory://alice/123"


async def test_calls_go_on_when_the_pooler_was_away(service: Service, pooler: PgBouncer) -> None:
    written: list[str] = []
    refused: set[tuple[int, str]] = set()
    away, again = asyncio.Event(), asyncio.Event()

    async def write(number: int) -> None:
        async with service.http() as http:
            for part in range(1000):
                path = f"/{number}-{part}"
                answer = await http.post(
                    "/api/tools/file_write", json={"project": "p", "path": path, "content": "x"}
                )
                if answer.status_code != 200:
                    refused.add((answer.status_code, answer.json()["code"]))
                    away.set()
                    await again.wait()
                    continue
                written.append(path)
                if again.is_set():
                    return

    async def restart() -> None:
        await until(lambda: len(written) > 8)
        pooler.stop()
        await away.wait()
        async with service.http() as http:
            assert (await http.get("/readyz")).status_code == 503
        pooler.start()
        again.set()

    async with asyncio.TaskGroup() as tasks:
        for doing in (restart(), *(write(number) for number in range(4))):
            tasks.create_task(doing)
    assert refused == {(503, "UNAVAILABLE")}
    async with service.http() as http:
        there = (await call(http, "file_list", project="p", path="/", limit=1000))["entries"]
        assert {f"/{one['name']}" for one in there} >= set(written)
        assert (await http.get("/readyz")).status_code == 200


async def test_the_doctor_tells_what_the_pooler_costs_and_what_it_takes_away(
    pooler: PgBouncer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def found(*, amiss: bool = False, **options: str) -> dict[str, Any]:
        for name, value in {"URL": pooler.urls.app, **options}.items():
            monkeypatch.setenv(f"MEMSVC_DATABASE__{name}", value)
        with pytest.raises(SystemExit) if amiss else nullcontext():
            await asyncio.to_thread(doctor, as_json=True, data_dir=tmp_path)
        return {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    behind = await found(amiss=True)
    assert "round trip" in behind["pooler"]["found"]
    assert not behind["listening"]["ok"]
    assert "direct_url" in behind["listening"]["recovery"]
    well = await found(DIRECT_URL=pooler.direct.app)
    assert all(one["ok"] for one in well.values())
    wrong = await found(amiss=True, PREPARED_STATEMENTS="always")
    assert "prepared statements" in wrong["database"]["found"]
    assert "max_prepared_statements" in wrong["database"]["recovery"]
