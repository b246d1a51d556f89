"""Command `memsvc doctor`: checks of all that a server needs, and how to fix what fails."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Final

import httpx
import orjson

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embeddings import embedder
from memsvc.adapters.options import EMBEDDINGS_OFF
from memsvc.cli.model_commands import check_reranker
from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import (
    Config,
    DataDir,
    Json,
    Url,
    client,
    environment_key,
    failure,
    server_of,
)
from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.urls import is_loopback
from memsvc.database_setup import database_urls, is_schema_current, migrate_database
from memsvc.folder_key import visible_key_file
from memsvc.gateway.auth import UnknownKeyError
from memsvc.gateway.metrics import Metrics
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.backlog import read_backlog
from memsvc.store.connections import CANNOT_CONNECT, Pooler, shares_by_transaction
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.variables import KEY_VARIABLE

FREE_BYTES_MIN: Final = 2**30
WAITING_S_MAX: Final = 3600.0
ROLE_TIMEOUT_S: Final = 30


@frozen
class CheckResult:
    """Result of one check; `recovery` is what to do where it is not `ok`."""

    name: str
    ok: bool
    found: str
    recovery: str = ""


def doctor(
    url: Url = None, as_json: Json = False, config: Config = None, data_dir: DataDir = None
) -> None:
    """Check the settings, the database and the models or, with --url, a running server.

    Exit code 1 where a check fails.
    """
    server = server_of(url, data_dir, config)
    results = (
        asyncio.run(_collect(_server(server)))
        if server
        else _local_checks(settings_of(config, data_dir=data_dir))
    )
    if as_json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
    else:
        for one in results:
            print(f"{'ok  ' if one.ok else 'FAIL'}  {one.name}: {one.found}")
            if not one.ok and one.recovery:
                print(f"      {one.recovery}")
    if not all(one.ok for one in results):
        sys.exit(1)


async def _collect(results: AsyncIterator[CheckResult]) -> list[CheckResult]:
    return [one async for one in results]


def _local_checks(settings: Settings) -> list[CheckResult]:
    """Check what needs no server."""
    python = ".".join(map(str, sys.version_info[:3]))
    found = [CheckResult("python", True, python), CheckResult("settings", True, "they can be read")]
    if not settings.database.url:
        folder = settings.data_dir.absolute()
        free = shutil.disk_usage(
            next(one for one in (folder, *folder.parents) if one.exists())
        ).free
        message = f"{free / 2**30:.1f} GiB free in {settings.data_dir}"
        found.append(
            CheckResult(
                "disk",
                free >= FREE_BYTES_MIN,
                message,
                "make room, or set data_dir to another folder",
            )
        )
    with database_urls(settings) as urls:
        found += asyncio.run(
            _collect(_database(settings, urls.app, migrate_database(urls, settings)))
        )
    return found + asyncio.run(_collect(_models(settings)))


async def _database(
    settings: Settings, url: str, migration: Awaitable[object]
) -> AsyncIterator[CheckResult]:
    kind = "the configured one" if settings.database.url else "the embedded one"
    try:
        await migration
        database = await Database.open(
            url, settings.database.model_copy(update={"pool_min": 1}), Metrics()
        )
    except MemsvcError as error:
        yield CheckResult("database", False, error.message, error.recovery or "")
        return
    try:
        (row,) = await database.registry("SELECT current_setting('server_version') AS version")
        yield CheckResult(
            "database",
            True,
            f"PostgreSQL {row['version']}, {kind}; the role is bound by its policies",
        )
        yield await _timeout_check(database)
        yield _pooler(database)
        yield await _listening(settings, url)
        revisions = Revisions.read_package()
        message = f"revision {revisions.head} is the newest"
        yield CheckResult(
            "migrations",
            await is_schema_current(database, revisions),
            message,
            "run `memsvc migrate`",
        )
        yield await _keys(settings, database)
        if text := environment_key():
            yield await _key(settings, database, text)
        yield await _queue(database)
        yield await _log(database)
    finally:
        await database.close()


async def _timeout_check(database: Database) -> CheckResult:
    """Check that PostgreSQL ends what hangs; migration may lack the right to set that up."""
    names = ("statement_timeout", "idle_in_transaction_session_timeout")
    rows = await database.registry(
        "SELECT name, setting FROM pg_settings WHERE name = ANY($1)", names
    )
    off = sorted(row["name"] for row in rows if row["setting"] == "0")
    message = f"{' and '.join(off)} {'are' if len(off) > 1 else 'is'} off" if off else "in force"
    advice = "; ".join(
        f"ALTER ROLE <application role> SET {name} = '{ROLE_TIMEOUT_S}s'" for name in off
    )
    return CheckResult("timeouts", not off, message, f"as a superuser: {advice}")


def _pooler(database: Database) -> CheckResult:
    messages = {
        Pooler.NONE: "none is before the database",
        Pooler.SUPPORTS_PREPARED: "one is before the database, and keeps prepared statements",
        Pooler.WITHOUT_PREPARED: "one is before the database, and does not keep prepared"
        " statements",
    }
    note = (
        ""
        if database.prepared
        else "; none are prepared, and each statement takes one more round trip"
    )
    return CheckResult("pooler", True, messages[database.pooler] + note)


async def _listening(settings: Settings, url: str) -> CheckResult:
    """Check that listeners get notifications, which a pooler in transaction mode prevents."""
    try:
        is_shared = await shares_by_transaction(settings.database.direct_url or url)
    except CANNOT_CONNECT as error:
        return CheckResult(
            "listening",
            False,
            f"no connection ({type(error).__name__})",
            "check database.direct_url",
        )
    message = (
        "a pooler in transaction mode hides notifications of changes and new jobs"
        if is_shared
        else "it hears"
    )
    return CheckResult(
        "listening", not is_shared, message, "set database.direct_url to PostgreSQL itself"
    )


async def _keys(settings: Settings, database: Database) -> CheckResult:
    now = SystemClock().now()
    usable = sum(key.is_valid(now) for key in await keys.list_keys(database))
    mode = settings.auth.mode or "listed"
    # a first start makes the first key
    ok = bool(usable) or mode == "open" or is_loopback(settings.host)
    return CheckResult("keys", ok, f"{usable} usable, mode {mode}", "run `memsvc key create`")


async def _key(settings: Settings, database: Database, text: str) -> CheckResult:
    """Check that the key of the environment opens anything."""
    key = await keys.find_key(database, keys.hash_key(text))
    if settings.auth.mode == "open" or (key is not None and key.is_valid(SystemClock().now())):
        return CheckResult("key", True, f"that of {KEY_VARIABLE} is known")
    message = UnknownKeyError(text, visible_key_file(settings)).message
    return CheckResult("key", False, message, f"set {KEY_VARIABLE} to a key of this memory")


async def _queue(database: Database) -> CheckResult:
    backlog = await read_backlog(database, SystemClock().now())
    waiting, failed = sum(backlog.waiting.values()), sum(backlog.failed.values())
    oldest_s = max(backlog.oldest_s.values(), default=0.0)
    message = f"{waiting} waiting, the oldest for {oldest_s:.0f} s; {failed} failed for good"
    return CheckResult(
        "jobs",
        oldest_s < WAITING_S_MAX and not failed,
        message,
        "see `memsvc jobs list --state failed`, and run `memsvc serve` or `memsvc worker`",
    )


async def _log(database: Database) -> CheckResult:
    """Check that PostgreSQL archives its log for backups, as far as it does that itself."""
    (row,) = await database.registry(
        "SELECT current_setting('archive_mode') <> 'off' AS kept, last_archived_time AS at,"
        " coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) AS"
        " failing FROM pg_stat_archiver"
    )
    if not row["kept"]:
        return CheckResult("log archive", True, "PostgreSQL itself keeps none: see docs/backup.md")
    until = (
        "nothing yet"
        if row["at"] is None
        else f"the last segment at {row['at']:%Y-%m-%d %H:%M:%SZ}"
    )
    message = f"{until}; the next one cannot be kept" if row["failing"] else until
    return CheckResult(
        "log archive",
        not row["failing"],
        message,
        "see PostgreSQL's log: is the folder there, and has it room?",
    )


async def _models(settings: Settings) -> AsyncIterator[CheckResult]:
    model = settings.model.model
    key_missing = bool(model) and not settings.model.key and not settings.model.base_url
    yield CheckResult(
        "model",
        not key_missing,
        f"{model or 'none: facts and summaries go by rules'}{' has no key' if key_missing else ''}",
        "set model.api_key or the provider's variable",
    )
    try:
        yield CheckResult("reranker", True, await check_reranker(settings.rerank))
    except MemsvcError as error:
        yield CheckResult("reranker", False, error.message, error.recovery or "")
    try:
        async with embedder(settings.embeddings) as embedding_client:
            if embedding_client is None:
                yield CheckResult("embeddings", True, EMBEDDINGS_OFF)
                return
            vector = await embedding_client.embed_question("Does this work?")
            yield CheckResult(
                "embeddings",
                True,
                f"{embedding_client.model} answers with {len(vector)} dimensions",
            )
    except MemsvcError as error:
        yield CheckResult("embeddings", False, error.message, error.recovery or "")


async def _server(url: str) -> AsyncIterator[CheckResult]:
    key = environment_key()
    checks: tuple[tuple[str, str, Callable[[httpx.Response], str]], ...] = (
        (
            "server",
            "/healthz",
            lambda response: f"answers in {response.elapsed.total_seconds() * 1000:.0f} ms",
        ),
        ("readiness", "/readyz", lambda response: "ready"),
        ("key", "/api/tools", lambda response: f"opens {len(response.json()['tools'])} tools"),
    )
    async with client(url, key) as http:
        for name, path, describe in checks:
            try:
                response = await http.get(path)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                yield CheckResult(
                    name,
                    False,
                    f"no answer from {url} ({type(error).__name__})",
                    "is `memsvc serve` running?",
                )
                return
            if response.is_error:
                failed = failure(response)
                yield CheckResult(name, False, failed.message, failed.recovery or "")
            else:
                yield CheckResult(name, True, describe(response))
