"""Command `memsvc doctor`: checks of all that a server needs, and how to fix what fails."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final

import httpx
import orjson

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embedder import embedder
from memsvc.cli.calls import Config, DataDir, Json, Url, client, failure, given_key, server_of
from memsvc.cli.options import settings_of
from memsvc.core.errors import MemsvcError
from memsvc.core.urls import is_loopback
from memsvc.databases import bring_up_to_date, database_urls, is_migrated
from memsvc.gateway.challenges import UnknownKeyError
from memsvc.gateway.metrics import Metrics
from memsvc.own_key import told_file
from memsvc.settings import Settings
from memsvc.store import keys, vectors
from memsvc.store.backlog import read_backlog
from memsvc.store.database import Database
from memsvc.store.poolers import CANNOT_CONNECT, Pooler, hands_out
from memsvc.store.revisions import Revisions
from memsvc.variables import KEY_VARIABLE

ROOM_BYTES_MIN: Final = 2**30
WAITING_S_MAX: Final = 3600.0
ROLE_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; `recovery` is what to do where it is not `ok`."""

    name: str
    ok: bool
    found: str
    recovery: str = ""


def doctor(url: Url = None, as_json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Check the settings, the database and the models or, with --url, a running server.

    Exit code 1 where a check fails.
    """
    server = server_of(url, data_dir, config)
    findings = asyncio.run(_gathered(_server(server))) if server else _here(settings_of(config, data_dir=data_dir))
    if as_json:
        print(orjson.dumps([asdict(one) for one in findings], option=orjson.OPT_INDENT_2).decode())
    else:
        for one in findings:
            print(f"{'ok  ' if one.ok else 'FAIL'}  {one.name}: {one.found}")
            if not one.ok and one.recovery:
                print(f"      {one.recovery}")
    if not all(one.ok for one in findings):
        sys.exit(1)


async def _gathered(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [one async for one in findings]


def _here(settings: Settings) -> list[Finding]:
    """Check what needs no server."""
    python = ".".join(map(str, sys.version_info[:3]))
    found = [Finding("python", True, python), Finding("settings", True, "they can be read")]
    if not settings.database.url:
        folder = settings.data_dir.absolute()
        free = shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists())).free
        told = f"{free / 2**30:.1f} GiB free in {settings.data_dir}"
        found.append(Finding("disk", free >= ROOM_BYTES_MIN, told, "make room, or set data_dir to another folder"))
    with database_urls(settings) as urls:
        found += asyncio.run(_gathered(_database(settings, urls.app, bring_up_to_date(urls, settings))))
    return found + asyncio.run(_gathered(_models(settings)))


async def _database(settings: Settings, url: str, migrated: Awaitable[object]) -> AsyncIterator[Finding]:
    kind = "the configured one" if settings.database.url else "the embedded one"
    try:
        await migrated
        database = await Database.open(url, settings.database.model_copy(update={"pool_min": 1}), Metrics())
    except MemsvcError as error:
        yield Finding("database", False, error.message, error.recovery or "")
        return
    try:
        (row,) = await database.registry("SELECT current_setting('server_version') AS version")
        yield Finding("database", True, f"PostgreSQL {row['version']}, {kind}; the role is bound by its policies")
        yield await _timeouts(database)
        yield _pooler(database)
        yield await _listening(settings, url)
        revisions = Revisions.shipped()
        told = f"revision {revisions.head} is the newest"
        yield Finding("migrations", await is_migrated(database, revisions), told, "run `memsvc migrate`")
        yield await _vectors(settings, database)
        yield await _keys(settings, database)
        if text := given_key():
            yield await _key(settings, database, text)
        yield await _queue(database)
        yield await _log(database)
    finally:
        await database.close()


async def _timeouts(database: Database) -> Finding:
    """Check that PostgreSQL ends what hangs; migration may lack the right to set that up."""
    names = ("statement_timeout", "idle_in_transaction_session_timeout")
    rows = await database.registry("SELECT name, setting FROM pg_settings WHERE name = ANY($1)", names)
    off = sorted(row["name"] for row in rows if row["setting"] == "0")
    told = f"{' and '.join(off)} {'are' if len(off) > 1 else 'is'} off" if off else "in force"
    advice = "; ".join(f"ALTER ROLE <application role> SET {name} = '{ROLE_TIMEOUT_S}s'" for name in off)
    return Finding("timeouts", not off, told, f"as a superuser: {advice}")


def _pooler(database: Database) -> Finding:
    told = {
        Pooler.NONE: "none is before the database",
        Pooler.KEEPS: "one is before the database, and keeps prepared statements",
        Pooler.LOSES: "one is before the database, and does not keep prepared statements",
    }
    how = "" if database.prepares else "; none are prepared, and each statement takes one more round trip"
    return Finding("pooler", True, told[database.pooler] + how)


async def _listening(settings: Settings, url: str) -> Finding:
    """Check that listeners get notifications, which a pooler in transaction mode prevents."""
    try:
        deaf = await hands_out(settings.database.direct_url or url)
    except CANNOT_CONNECT as error:
        return Finding("listening", False, f"no connection ({type(error).__name__})", "check database.direct_url")
    told = "a pooler in transaction mode hides notifications of changes and new jobs" if deaf else "it hears"
    return Finding("listening", not deaf, told, "set database.direct_url to PostgreSQL itself")


async def _vectors(settings: Settings, database: Database) -> Finding:
    if await vectors.ready(database):
        return Finding("vectors", True, "pgvector keeps them")
    wanted = bool(settings.embeddings.provider)
    told = "this database keeps none: search goes by words"
    return Finding("vectors", not wanted, told, "install pgvector 0.7 or newer, then run `memsvc migrate`")


async def _keys(settings: Settings, database: Database) -> Finding:
    now = SystemClock().now()
    usable = sum(key.opens(now) for key in await keys.list_keys(database))
    mode = settings.auth.mode or "listed"
    # a first start makes the first key
    ok = bool(usable) or mode == "open" or is_loopback(settings.host)
    return Finding("keys", ok, f"{usable} usable, mode {mode}", "run `memsvc key create`")


async def _key(settings: Settings, database: Database, text: str) -> Finding:
    """Check that the key of the environment opens anything."""
    key = await keys.find_key(database, keys.hash_key(text))
    if settings.auth.mode == "open" or (key is not None and key.opens(SystemClock().now())):
        return Finding("key", True, f"that of {KEY_VARIABLE} is known")
    told = UnknownKeyError(text, told_file(settings)).message
    return Finding("key", False, told, f"set {KEY_VARIABLE} to a key of this memory")


async def _queue(database: Database) -> Finding:
    backlog = await read_backlog(database, SystemClock().now())
    waiting, failed = sum(backlog.waiting.values()), sum(backlog.failed.values())
    oldest_s = max(backlog.oldest_s.values(), default=0.0)
    told = f"{waiting} waiting, the oldest for {oldest_s:.0f} s; {failed} failed for good"
    return Finding(
        "jobs",
        oldest_s < WAITING_S_MAX and not failed,
        told,
        "see `memsvc jobs list --state failed`, and run `memsvc serve` or `memsvc worker`",
    )


async def _log(database: Database) -> Finding:
    """Check that PostgreSQL archives its log for backups, as far as it does that itself."""
    (row,) = await database.registry(
        "SELECT current_setting('archive_mode') <> 'off' AS kept, last_archived_time AS at, "
        "coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) AS failing FROM pg_stat_archiver"
    )
    if not row["kept"]:
        return Finding("log archive", True, "PostgreSQL itself keeps none: see docs/backup.md")
    until = "nothing yet" if row["at"] is None else f"the last segment at {row['at']:%Y-%m-%d %H:%M:%SZ}"
    told = f"{until}; the next one cannot be kept" if row["failing"] else until
    return Finding(
        "log archive", not row["failing"], told, "see PostgreSQL's log: is the folder there, and has it room?"
    )


async def _models(settings: Settings) -> AsyncIterator[Finding]:
    model = settings.model.model
    lacks_key = bool(model) and not settings.model.key and not settings.model.base_url
    yield Finding(
        "model",
        not lacks_key,
        f"{model or 'none: facts and summaries go by rules'}{' has no key' if lacks_key else ''}",
        "set model.api_key or the provider's variable",
    )
    try:
        async with embedder(settings.embeddings) as embeds:
            if embeds is None:
                yield Finding("embeddings", True, "none: search goes by words")
                return
            vector = await embeds.embed_question("Does this work?")
            yield Finding("embeddings", True, f"{embeds.model} answers with {len(vector)} dimensions")
    except MemsvcError as error:
        yield Finding("embeddings", False, error.message, error.recovery or "")


async def _server(url: str) -> AsyncIterator[Finding]:
    key = given_key()
    checks: tuple[tuple[str, str, Callable[[httpx.Response], str]], ...] = (
        ("server", "/healthz", lambda response: f"answers in {response.elapsed.total_seconds() * 1000:.0f} ms"),
        ("readiness", "/readyz", lambda response: "ready"),
        ("key", "/api/tools", lambda response: f"opens {len(response.json()['tools'])} tools"),
    )
    async with client(url, key) as http:
        for name, path, told in checks:
            try:
                response = await http.get(path)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                yield Finding(
                    name, False, f"no answer from {url} ({type(error).__name__})", "is `memsvc serve` running?"
                )
                return
            if response.is_error:
                refusal = failure(response)
                yield Finding(name, False, refusal.message, refusal.recovery or "")
            else:
                yield Finding(name, True, told(response))
