"""`memsvc serve` as an operator meets it: ready, restarted, joined, refused, misconfigured,
drained."""

import asyncio
import json
import signal
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.serve import ready_message
from tests.e2e.process import Served, call, free_port, on, run, typed
from tests.endpoints import provider
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

WAITING = (
    "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
    " WHERE NOT granted AND datname = current_database()"
)
HEURISTIC = "MEMSVC_SETTINGS__MCP__MEMORY__HEURISTIC__"
TURN = {"turn_id": "t1", "input_items": [{"role": "user", "content": "I live in Kobe."}]}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e2e") / "data"


@pytest.fixture(scope="module")
def first(data_dir: Path) -> Iterator[Served]:
    """The first server on a new data folder."""
    with Served(data_dir) as served:
        yield served


def _key(data_dir: Path) -> str:
    return (data_dir / "api-key").read_text().strip()


def _client(served: Served) -> Any:
    return json.loads(served.greeting[served.greeting.index("{") :])["mcpServers"]["memsvc"]


async def test_the_first_start_shows_a_key_that_works(first: Served, data_dir: Path) -> None:
    assert first.greeting.splitlines()[0] == f"ready http://127.0.0.1:{first.port}/mcp"
    client = _client(first)
    assert client["url"] == f"{first.url}/mcp"
    assert client["headers"]["Authorization"] == f"Bearer {_key(data_dir)}"
    assert stat.S_IMODE((data_dir / "api-key").stat().st_mode) == 0o600
    result = await call(first.url, _key(data_dir), "memory_before_turn", current_input="hello")
    assert not result["isError"]
    assert _key(data_dir) not in first.log()


def test_the_greeting_names_addresses_that_work_and_warns_of_an_open_door(first: Served) -> None:
    assert f"Web console: {first.url}/console\n" in first.greeting
    exposed = ready_message("0.0.0.0", 8080, "k", "About the key.", console=False, is_open=True)
    assert exposed.startswith("ready http://127.0.0.1:8080/mcp\n\nWARNING: auth.mode is open")
    assert "/console" not in exposed
    for host, is_open in (("127.0.0.1", True), ("::", False)):
        assert "WARNING" not in ready_message(
            host, 8080, "k", "About the key.", console=True, is_open=is_open
        )


def test_it_is_healthy_and_ready_and_counts(first: Served) -> None:
    assert first.get("/healthz").json() == {"status": "ok"}
    ready = first.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "ready",
        "database": True,
        "migrations": True,
        "row_security": True,
        "worker": True,
        "draining": False,
    }
    assert "memsvc_calls_total" in first.get("/metrics").text


@pytest.mark.slow
def test_a_second_server_on_the_folder_joins_and_outlives_the_first(data_folder: Path) -> None:
    data_dir = data_folder
    with Served(data_dir) as one, Served(data_dir) as two:
        assert _key(data_dir) in one.greeting
        assert _key(data_dir) not in two.greeting
        assert str(data_dir / "api-key") in two.greeting
        assert one.stop() == 0
        assert two.get("/readyz").status_code == 200
        assert two.stop() == 0
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


@pytest.mark.slow
def test_a_restart_keeps_the_key_and_does_not_show_it(data_folder: Path) -> None:
    data_dir = data_folder
    with Served(data_dir) as served:
        key = _key(data_dir)
        assert served.stop() == 0
    with Served(data_dir) as again:
        assert _key(data_dir) == key
        assert key not in again.greeting
        assert str(data_dir / "api-key") in again.greeting
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(60) == 0
        assert key not in again.log()


def test_a_taken_port_is_refused_before_anything_is_touched(first: Served, tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path / "data"), "--port", str(first.port))
    assert refused.returncode == 1
    assert f"Error: 127.0.0.1:{first.port} is in use by another process" in refused.stderr
    assert "Recovery: " in refused.stderr
    assert not (tmp_path / "data").exists()


def test_a_port_that_somebody_is_about_to_serve_is_taken(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        refused = run(
            "serve", "--data-dir", str(tmp_path / "data"), "--port", str(held.getsockname()[1])
        )
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_wrong_settings_stop_the_start_with_every_path(tmp_path: Path) -> None:
    config = tmp_path / "memsvc.yaml"
    config.write_text("auth: {oauth: 5}\nsettings: {mcp: {memory: {recent_items: 3}}}\n")
    refused = typed(
        "serve",
        "--config",
        str(config),
        "--data-dir",
        str(tmp_path / "data"),
        MEMSVC_PORT="http",
        MEMSVC_DATABASE_URL="postgresql://app:secret-word@db/memsvc",
        MEMSVC_DATABASE__POOL_MAX="secret-word",
    )
    assert refused.returncode == 2
    for path in ("auth.oauth", "settings.mcp.memory.recent_items", "port", "database.pool_max"):
        assert f"Error: {path}: " in refused.stderr
    assert "secret-word" not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "data").exists()


def test_model_extraction_needs_a_model_and_its_key(tmp_path: Path) -> None:
    command = ("serve", "--data-dir", str(tmp_path / "data"))
    refused = typed(*command, **{f"{HEURISTIC}ENABLED": "true"})
    assert refused.returncode == 2
    assert "if settings.mcp.memory.heuristic.enabled is true, either " in refused.stderr
    own = {
        f"{HEURISTIC}ENABLED": "true",
        f"{HEURISTIC}BASE_URL": "https://api.openai.com",
        "OPENAI_API_KEY": "",
    }
    refused = run(*command, **own)
    assert refused.returncode == 1
    assert (
        "Error: the model in section settings.mcp.memory.heuristic has no API key" in refused.stderr
    )
    assert "Recovery: set settings.mcp.memory.heuristic.api_key or OPENAI_API_KEY" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
async def test_facts_are_found_by_the_model_that_the_settings_name(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    change = {"change": "add", "key": "dog_name", "value": "Rex", "tier": "L0", "evidence": ["m1"]}
    async with provider() as endpoint:
        endpoint.finds = {"changes": [change]}
        names = {
            f"{HEURISTIC}ENABLED": "true",
            f"{HEURISTIC}BASE_URL": endpoint.url,
            f"{HEURISTIC}API_KEY": "sk-1",
        }
        names |= on(database_urls)
        served = await asyncio.to_thread(lambda: Served(tmp_path / "data", **names))
        with served:
            key = _key(tmp_path / "data")
            said = [{"role": "user", "content": "Rex ate the sofa."}]
            await call(served.url, key, "memory_after_turn", turn_id="t1", input_items=said)
            await asyncio.wait_for(endpoint.called.wait(), 30)
            recalled: list[str] = []
            async with asyncio.timeout(60):
                while not recalled:
                    question = "What is the dog's name?"
                    prepared = await call(
                        served.url, key, "memory_before_turn", current_input=question
                    )
                    recalled = prepared["structuredContent"]["recall_fact_ids"]
            listed = await call(served.url, key, "memory_list_facts")
            [dog] = listed["structuredContent"]["facts"]
            assert (dog["fact_id"], [dog["record_id"]]) == ("dog_name", recalled)
            assert await asyncio.to_thread(served.stop) == 0
    assert {asked.path for asked in endpoint.calls} == {"/v1/responses"}
    assert set(endpoint.keys) == {"Bearer sk-1"}
    assert endpoint.calls[0].body["model"] == "openai/gpt-oss-120b"


@asynccontextmanager
async def _held_up(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Holds up every write of a turn while it is entered; the connection is the owner's."""
    owner = await asyncpg.connect(url)
    try:
        async with owner.transaction():
            await owner.execute("LOCK TABLE sessions, guards, entries IN ACCESS EXCLUSIVE MODE")
            yield owner
    finally:
        await owner.close()


async def _until_waiting(connection: asyncpg.Connection) -> None:
    while not await connection.fetchval(WAITING):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def _until_refused(port: int) -> None:
    with suppress(OSError):
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await asyncio.sleep(0.01)


async def _rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, of all tenants."""
    connection = await asyncpg.connect(url)
    rows = [tuple(row) for row in await connection.fetch(query)]
    await connection.close()
    return rows


@pytest.mark.slow
async def test_a_call_that_has_begun_is_answered_and_logged_after_sigterm(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    with Served(data_dir, **on(database_urls)) as served:
        async with _held_up(database_urls.admin) as owner:
            answer = asyncio.create_task(
                call(served.url, _key(data_dir), "memory_after_turn", **TURN)
            )
            await _until_waiting(owner)
            served.process.send_signal(signal.SIGTERM)
            await _until_refused(served.port)
        assert not (await answer)["isError"]
        assert await asyncio.to_thread(served.process.wait, 60) == 0
    assert await _rows(database_urls.superuser, "SELECT tool, status FROM calls") == [
        ("memory_after_turn", "success")
    ]


@pytest.mark.slow
async def test_a_call_that_outlives_the_grace_is_cut_off_and_leaves_nothing(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    with Served(data_dir, **on(database_urls), MEMSVC_SHUTDOWN_GRACE_S="0") as served:
        async with _held_up(database_urls.admin) as owner:
            answer = asyncio.create_task(
                call(served.url, _key(data_dir), "memory_after_turn", **TURN)
            )
            await _until_waiting(owner)
            served.process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx2.HTTPError):
                await answer
        assert await asyncio.to_thread(served.process.wait, 60) == 0
    assert await _rows(database_urls.superuser, "SELECT turns FROM sessions") == []


@pytest.mark.slow
async def test_a_turn_is_stored_once_although_the_server_is_killed(data_folder: Path) -> None:
    embedded = EmbeddedPostgres(data_folder)
    urls = await asyncio.to_thread(embedded.start)
    with Served(data_folder) as served:
        async with _held_up(urls.admin_url) as owner:
            answer = asyncio.create_task(
                call(served.url, _key(data_folder), "memory_after_turn", **TURN)
            )
            await _until_waiting(owner)
            served.process.kill()
            with pytest.raises(httpx2.HTTPError):
                await answer
    await asyncio.to_thread(embedded.stop)
    for killed_again in (True, False):
        with Served(data_folder) as again:
            assert not (await call(again.url, _key(data_folder), "memory_after_turn", **TURN))[
                "isError"
            ]
            if killed_again:
                again.process.kill()
    url = (await asyncio.to_thread(embedded.start)).superuser_url.replace("/postgres?", "/memsvc?")
    assert await _rows(url, "SELECT session, turns FROM sessions") == [("default", 1)]
    assert await _rows(url, "SELECT turn, done FROM guards") == [("t1", True)]
    await asyncio.to_thread(embedded.stop)


@pytest.mark.slow
async def test_a_server_of_ones_own_is_migrated_and_served(
    empty_urls: DatabaseUrls, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    unmigrated = run(
        "serve",
        "--data-dir",
        str(data_dir),
        "--port",
        str(free_port()),
        MEMSVC_DATABASE_URL=empty_urls.app,
    )
    assert unmigrated.returncode == 1
    assert "set database.admin_url" in unmigrated.stderr
    own = {"MEMSVC_DATABASE_URL": empty_urls.app, "MEMSVC_DATABASE__ADMIN_URL": empty_urls.admin}
    with Served(data_dir, **own) as served:
        assert not (data_dir / "postgres").exists()
        result = await call(served.url, _key(data_dir), "memory_before_turn", current_input="hello")
        assert not result["isError"]
        assert served.stop() == 0
        assert empty_urls.app.split("@")[0] not in served.log()
    privileged = run("serve", "--port", "0", MEMSVC_DATABASE_URL=empty_urls.admin)
    assert privileged.returncode == 1
    assert "Error: the application role has too many rights" in privileged.stderr


async def test_keys_are_made_listed_adopted_and_revoked(first: Served, data_dir: Path) -> None:
    folder = ("--data-dir", str(data_dir))
    made = typed("key", "create", "--label", "ci", "--permission", "read", *folder)
    key, key_id, tenant, _, _ = (line.split()[-1] for line in made.stdout.splitlines())
    assert not (await call(first.url, key, "memory_before_turn", current_input="hello"))["isError"]
    denied = await call(
        first.url, key, "memory_after_turn", turn_id="t1", output_items=[{"role": "assistant"}]
    )
    assert json.loads(denied["content"][0]["text"])["code"] == "PERMISSION_DENIED"
    listed = typed("key", "list", *folder).stdout
    assert key not in listed
    lines = {line.split("\t")[0]: line.split("\t")[1:] for line in listed.splitlines()}
    assert lines[key_id][:3] == ["ci", "valid", "read"]
    assert lines["key id"][3:8] == ["projects", "user", "hidden tools", "expires", "last used"]
    assert lines[key_id][3:7] == ["all", "-", "-", "never"]
    other = next(
        columns[-1] for each, columns in lines.items() if each != key_id and columns[-1] != "tenant"
    )
    assert typed("key", "adopt", key_id, "--tenant", other, *folder).returncode == 0
    assert other != tenant
    assert typed("key", "revoke", key_id, *folder).returncode == 0
    assert f"{key_id}\tci\trevoked" in typed("key", "list", *folder).stdout
    unknown = typed("key", "revoke", "00000000-0000-0000-0000-000000000000", *folder)
    recovery = "Recovery: list the keys with `memsvc key list`\n"
    assert unknown.returncode == 1
    assert unknown.stderr == f"Error: the key does not exist\n{recovery}"


@pytest.mark.slow
def test_migrate_goes_down_and_up(tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    assert run("migrate", *folder).stdout.startswith("applied: 0001")
    assert typed("migrate", *folder).stdout.startswith("applied: nothing")
    assert typed("migrate", "--down-to", "base", *folder).stdout.startswith("revisions undone: ")


@pytest.mark.slow
async def test_a_server_that_was_told_to_stop_answers_on_while_it_gives_notice(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    with Served(tmp_path / "data", **on(database_urls), MEMSVC_SHUTDOWN_NOTICE_S="600") as served:
        assert served.get("/readyz").headers.get("connection") != "close"
        served.process.send_signal(signal.SIGTERM)
        while (answer := served.get("/readyz")).status_code == 200:
            pass
        assert (answer.status_code, answer.json()["checks"]["draining"]) == (503, True)
        assert answer.headers["connection"] == "close"
        stored = await call(served.url, _key(tmp_path / "data"), "memory_after_turn", **TURN)
        assert not stored["isError"]
        assert served.stop() == 0


async def test_meaning_works_from_the_first_call_and_after_a_kill(data_folder: Path) -> None:
    bundled = {"MEMSVC_EMBEDDINGS__PROVIDER": "bundled"}
    question = "Wo liegt der Schlüssel vom Gewächshaus?"
    said = {"role": "user", "content": "The key to the greenhouse is under the blue pot."}
    place = {"user_id": "ada", "session_id": "spring"}
    with Served(data_folder, **bundled) as served:
        key = _key(data_folder)
        stored = await call(
            served.url, key, "memory_after_turn", turn_id="t1", input_items=[said], **place
        )
        assert not stored["isError"]
        served.process.kill()
    with Served(data_folder, **bundled) as served:
        found = await call(
            served.url, key, "memory_before_turn", current_input=question, user_id="ada"
        )
        assert "blue pot" in json.dumps(found)
