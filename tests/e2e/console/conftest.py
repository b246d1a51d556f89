"""One server process with made-up data for all tests of the console in a browser, and a browser for
each module."""

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Self

import asyncpg
import pytest
from playwright.sync_api import sync_playwright

from memsvc.store import keys
from memsvc.store.database import Database, DatabaseOptions
from tests.e2e.console.made_up import CROWD, CROWDED, Caller, fill
from tests.e2e.console.seen import Seen, new_context
from tests.e2e.process import Served
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls, Relay, TestServer
from tests.waiting import PATIENCE_S

CHROMIUM = (
    os.environ.get("MEMSVC_TEST_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
NEVER_LIMITED = {"MEMSVC_LIMITS__RATES__ENABLED": "false"}


@dataclass(frozen=True, slots=True)
class Keys:
    """A key of a tenant that has some of everything, one of a tenant that has nothing, one that has
    expired."""

    full: str
    empty: str
    expired: str


class DatabasePath:
    """The path from the server to its database, which can be cut. It is kept open by a thread of
    its own, as the browser's has no time for it."""

    def __init__(self, url: str) -> None:
        self._relay = Relay(url)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self.url = self._relay.url

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._relay.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._relay.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Meanwhile no connection is there, and none can be made."""
        self._do(self._relay.cut())
        try:
            yield
        finally:
            self._do(self._relay.mend())

    def _do(self, doing: Coroutine[Any, Any, object]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Console:
    """A running server: where it is, who may come in, its database for another process, and the
    path to that."""

    url: str
    keys: Keys
    urls: DatabaseUrls
    path: DatabasePath

    def caller(self, key: str | None = None) -> Caller:
        """Tools, as somebody else calls them meanwhile."""
        return Caller(self.url, key or self.keys.full)


@pytest.fixture(scope="session")
def console(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    if CHROMIUM is None:
        pytest.skip("no chromium: install it, or name one in MEMSVC_TEST_CHROMIUM")
    name = asyncio.run(server.create())
    urls = server.urls(name)
    try:
        made = asyncio.run(_keys(urls))
        folder: Path = tmp_path_factory.mktemp("console") / "data"
        with (
            DatabasePath(urls.app) as path,
            Served(
                folder, **served_on(urls) | {"MEMSVC_DATABASE_URL": path.url}, **NEVER_LIMITED
            ) as served,
        ):
            console = Console(served.url, made, urls, path)
            call = console.caller()
            fill(call)
            asyncio.run(_crowd(urls))
            call.close()
            yield console
    finally:
        asyncio.run(server.drop(name))


@pytest.fixture(scope="module")
def browser(console: Console) -> Iterator[Any]:
    """Closed with each module: while it is open, nothing else in this process may run an event
    loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", NOWHERE_ELSE]
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any, console: Console) -> Iterator[Callable[..., Seen]]:
    """Makes browser contexts; whatever one of them complained of fails the test at its end."""
    made: list[Seen] = []

    def open_one(**options: Any) -> Seen:
        made.append(new_context(browser, options.pop("url", console.url), **options))
        return made[-1]

    yield open_one
    for one in made:
        one.context.close()
        assert one.complaints == []


@pytest.fixture(scope="module")
def signed_in(browser: Any, console: Console) -> Iterator[Seen]:
    """Somebody with the key of everything, in one tab."""
    seen = new_context(browser, console.url)
    seen.sign_in(console.keys.full)
    yield seen
    seen.context.close()


@pytest.fixture(scope="module")
def without_scripts(browser: Any, console: Console) -> Iterator[Seen]:
    """The same in a browser that runs no scripts."""
    seen = new_context(browser, console.url, java_script_enabled=False)
    seen.sign_in(console.keys.full)
    yield seen
    seen.context.close()


@pytest.fixture
def seen(signed_in: Seen) -> Iterator[Seen]:
    """The one tab, as it is at the beginning of a test: wide, light, without a complaint."""
    signed_in.as_new()
    yield signed_in
    assert signed_in.complaints == []


@pytest.fixture
def plain(without_scripts: Seen) -> Iterator[Seen]:
    """The tab without scripts."""
    without_scripts.as_new()
    yield without_scripts
    assert without_scripts.complaints == []


@pytest.fixture(scope="module")
def call(console: Console) -> Iterator[Caller]:
    """A program that calls tools of the same tenant meanwhile."""
    caller = console.caller()
    yield caller
    caller.close()


def served_on(urls: DatabaseUrls) -> dict[str, str]:
    """What a server process is told, so that it lets in keys of this database and nobody else."""
    return {
        "MEMSVC_DATABASE_URL": urls.app,
        "MEMSVC_DATABASE__ADMIN_URL": urls.admin,
        "MEMSVC_AUTH__MODE": "listed",
    }


async def _keys(urls: DatabaseUrls) -> Keys:
    database = await Database.open(urls.app, DatabaseOptions(pool_min=1), RecordingMeter())
    now = datetime.now(UTC)
    try:
        full = await keys.create_key(database, "full <b>key</b>", now)
        empty = await keys.create_key(database, "empty", now)
        expired = await keys.create_key(
            database, "expired", now, expires_at=now - timedelta(hours=1)
        )
    finally:
        await database.close()
    return Keys(full.text, empty.text, expired.text)


async def _crowd(urls: DatabaseUrls) -> None:
    """A directory of very many files, which all have the content of the first one."""
    connection = await asyncpg.connect(urls.superuser)
    columns = (
        "revision, stream, size_bytes, is_text, indexed_bytes, sha256, owner, created_at,"
        " updated_at"
    )
    await connection.execute(
        f"INSERT INTO files (tenant, project, incarnation, path, {columns}) SELECT tenant,"
        f" project, gen_random_uuid(), '{CROWDED}/' || lpad(n::text, 5, '0') || '.md', {columns}"
        f" FROM files, generate_series(1, {CROWD} - 1) n WHERE path = '{CROWDED}/00000.md'"
    )
    await connection.execute("ANALYZE files")
    await connection.close()
