"""Command `memsvc doctor`: checks a server and its hosts, or the local database and models."""

import asyncio
import os
import re
import shutil
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embeddings import embedder
from memsvc.adapters.options import EMBEDDINGS_OFF
from memsvc.cli.model_commands import check_reranker
from memsvc.cli.options import check_database, settings_of
from memsvc.cli.settings_option import place_of
from memsvc.cli.tool_client import (
    Config,
    DataDir,
    Json,
    Url,
    check_url,
    client,
    environment_key,
    failure,
)
from memsvc.core.errors import MemsvcError, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.urls import is_loopback
from memsvc.database_setup import (
    database_urls,
    is_schema_current,
    migrate_database,
)
from memsvc.folder_key import visible_key_file
from memsvc.gateway.auth import UnknownKeyError
from memsvc.gateway.metrics import Metrics
from memsvc.hosts.hook_files import HookFiles
from memsvc.hosts.host_configs import NAME, parse_json
from memsvc.package_files import version
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.backlog import read_backlog
from memsvc.store.connections import CANNOT_CONNECT, Pooler, shares_by_transaction
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.variables import DATA_DIR_VARIABLE, KEY_VARIABLE, URL_VARIABLE

FREE_BYTES_MIN: Final = 2**30
WAITING_S_MAX: Final = 3600.0
ROLE_TIMEOUT_S: Final = 30
INSTALL_AGAIN: Final = "run `memsvc install` for this agent host again"
CALL_TIMEOUT_S: Final = 10.0
MCP_VERSION: Final = "2025-06-18"
READ_TOOL: Final = "memory_list_facts"
SESSION_HEADER: Final = "mcp-session-id"
WHOSE_HEADERS: Final = ("X-Memsvc-Project", "X-Memsvc-User")
VARIABLE_REFERENCE: Final = re.compile(r"\$?\{(?:env:)?((?:input:)?[\w-]+)\}|\$(\w+)")
"""How hosts write the value of a variable, or of an input that they ask for."""


@frozen
class CheckResult:
    """Result of one check; `recovery` says what to do if it is not `ok`."""

    name: str
    ok: bool
    found: str
    recovery: str = ""


def _failed(name: str, error: MemsvcError) -> CheckResult:
    return CheckResult(name, False, error.message, error.recovery or "")


def doctor(
    url: Url = None, as_json: Json = False, config: Config = None, data_dir: DataDir = None
) -> None:
    """Check a running server and the hosts connected to it, or the local database and models.

    It checks the server named by --url or MEMSVC_URL, or else the one that `memsvc install` used.
    Without a server, or with --data-dir or --config, it checks the data folder or database itself.
    It creates nothing, and exits with code 1 if a check fails.
    """
    place = place_of(url, config, data_dir)
    environment = os.environ | ({URL_VARIABLE: place.server} if place.server else {})
    hooks = HookFiles(environment)
    settings = settings_of(config, data_dir=data_dir)
    is_local = config or data_dir or settings.database.url or os.environ.get(DATA_DIR_VARIABLE)
    if place.server or (hooks.installed() and not is_local):
        results = asyncio.run(_collect(_server_and_hosts(hooks)))
    else:
        results = _local_checks(settings)
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
    found = [CheckResult("python", True, python), CheckResult("settings", True, "valid")]
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
                "free some disk space, or set data_dir to a folder on another disk",
            )
        )
    try:
        check_database(settings)
    except MemsvcError as error:
        found.append(_failed("database", error))
    else:
        with database_urls(settings) as urls:
            found += asyncio.run(
                _collect(_database(settings, urls.app, migrate_database(urls, settings)))
            )
    return found + asyncio.run(_collect(_models(settings)))


async def _database(
    settings: Settings, url: str, migration: Awaitable[object]
) -> AsyncIterator[CheckResult]:
    kind = "configured" if settings.database.url else "embedded"
    try:
        await migration
        database = await Database.open(
            url, settings.database.model_copy(update={"pool_min": 1}), Metrics()
        )
    except MemsvcError as error:
        yield _failed("database", error)
        return
    try:
        (row,) = await database.registry("SELECT current_setting('server_version') AS version")
        yield CheckResult(
            "database",
            True,
            f"PostgreSQL {row['version']} ({kind}); row-level security applies to the"
            " database role",
        )
        yield await _timeout_check(database)
        yield _pooler(database)
        yield await _listening(settings, url)
        revisions = Revisions.read_package()
        is_current = await is_schema_current(database, revisions)
        yield CheckResult(
            "migrations",
            is_current,
            f"the database is {'' if is_current else 'not '}at the newest revision"
            f" ({revisions.head})",
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
    message = f"disabled: {' and '.join(off)}" if off else "all enabled"
    advice = "; ".join(
        f"ALTER ROLE <application role> SET {name} = '{ROLE_TIMEOUT_S}s'" for name in off
    )
    return CheckResult("timeouts", not off, message, f"run this SQL as a superuser: {advice}")


def _pooler(database: Database) -> CheckResult:
    messages = {
        Pooler.NONE: "no connection pooler is in use",
        Pooler.SUPPORTS_PREPARED: (
            "the database is behind a connection pooler that supports prepared statements"
        ),
        Pooler.WITHOUT_PREPARED: (
            "the database is behind a connection pooler that does not support prepared statements"
        ),
    }
    note = (
        ""
        if database.prepared
        else "; SQL statements are not prepared, so each costs one additional round trip"
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
            f"cannot connect ({type(error).__name__})",
            "check database.direct_url",
        )
    message = (
        "memsvc is not notified of changes and new jobs, because the pooler is in transaction mode"
        if is_shared
        else "received"
    )
    return CheckResult(
        "listening",
        not is_shared,
        message,
        "set database.direct_url to PostgreSQL itself, not to the pooler",
    )


async def _keys(settings: Settings, database: Database) -> CheckResult:
    now = SystemClock().now()
    usable = sum(key.is_valid(now) for key in await keys.list_keys(database))
    mode = settings.auth.mode or "listed"
    # a first start makes the first key
    ok = bool(usable) or mode == "open" or is_loopback(settings.host)
    return CheckResult(
        "keys", ok, f"{usable} API keys can be used; auth.mode is {mode}", "run `memsvc key create`"
    )


async def _key(settings: Settings, database: Database, text: str) -> CheckResult:
    """Check that the key of the environment opens anything."""
    key = await keys.find_key(database, keys.hash_key(text))
    if settings.auth.mode == "open" or (key is not None and key.is_valid(SystemClock().now())):
        return CheckResult("key", True, f"the key in {KEY_VARIABLE} is valid")
    message = UnknownKeyError(text, visible_key_file(settings)).message
    return CheckResult(
        "key", False, message, f"set {KEY_VARIABLE} to a valid key; `memsvc key create` creates one"
    )


async def _queue(database: Database) -> CheckResult:
    backlog = await read_backlog(database, SystemClock().now())
    waiting, failed = sum(backlog.waiting.values()), sum(backlog.failed.values())
    oldest_s = max(backlog.oldest_s.values(), default=0.0)
    message = (
        f"{waiting} jobs are waiting, the oldest for {oldest_s:.0f} s; {failed} jobs failed"
        " permanently"
    )
    return CheckResult(
        "jobs",
        oldest_s < WAITING_S_MAX and not failed,
        message,
        "list failed jobs with `memsvc jobs list --state failed`, and check that `memsvc"
        " serve` or `memsvc worker` is running",
    )


async def _log(database: Database) -> CheckResult:
    """Check that PostgreSQL archives its log for backups, as far as it does that itself."""
    (row,) = await database.registry(
        "SELECT current_setting('archive_mode') <> 'off' AS kept, last_archived_time AS at,"
        " coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) AS"
        " failing FROM pg_stat_archiver"
    )
    if not row["kept"]:
        return CheckResult(
            "log archive", True, "PostgreSQL does not archive its log: see docs/backup.md"
        )
    until = (
        "PostgreSQL has not archived any log segment yet"
        if row["at"] is None
        else f"PostgreSQL last archived a log segment at {row['at']:%Y-%m-%d %H:%M:%SZ}"
    )
    message = f"{until}; archiving the next log segment fails" if row["failing"] else until
    return CheckResult(
        "log archive",
        not row["failing"],
        message,
        "read the PostgreSQL log, and check that the archive folder exists and has free space",
    )


async def _models(settings: Settings) -> AsyncIterator[CheckResult]:
    model = settings.model.model
    key_missing = bool(model) and not settings.model.key and not settings.model.base_url
    yield CheckResult(
        "model",
        not key_missing,
        (model or "no language model; built-in rules extract facts and write summaries")
        + (" has no API key" if key_missing else ""),
        "set model.api_key or the provider's environment variable for the API key",
    )
    try:
        yield CheckResult("reranker", True, await check_reranker(settings.rerank))
    except MemsvcError as error:
        yield _failed("reranker", error)
    try:
        async with embedder(settings.embeddings) as embedding_client:
            if embedding_client is None:
                yield CheckResult("embeddings", True, EMBEDDINGS_OFF)
                return
            await embedding_client.load()
            vector = await embedding_client.embed_question("Does this work?")
            yield CheckResult(
                "embeddings",
                True,
                f"{embedding_client.model} returned a vector with {len(vector)} dimensions",
            )
    except MemsvcError as error:
        yield _failed("embeddings", error)


async def _server_and_hosts(hooks: HookFiles) -> AsyncIterator[CheckResult]:
    """Check a server, its hosts, and how many turns still wait to be stored."""
    found = hooks.settings()
    async for result in _server(found.url.rstrip("/").removesuffix("/mcp"), found.key):
        yield result
    installed = hooks.installed().get("installed", {})
    if installed:
        yield _spool(hooks)
    for file in installed:
        call = _host_call(Path(file))
        yield call if isinstance(call, CheckResult) else await _called(f"host {file}", *call)


def _spool(hooks: HookFiles) -> CheckResult:
    """Check that no turn waits for long to be stored."""
    waiting = [path for path, _ in hooks.spool_files()]
    if not waiting:
        return CheckResult("waiting turns", True, "none")
    age_s = time.time() - int(waiting[0].name.partition("-")[0]) / 10**9
    return CheckResult(
        "waiting turns",
        age_s < WAITING_S_MAX,
        f"{len(waiting)} turns have not been sent yet, the oldest for {age_s:.0f} s",
        "check that the server is running; the next prompt in an agent host then sends these turns",
    )


def _host_call(file: Path) -> CheckResult | tuple[str, dict[str, str]]:
    """Return the URL and the headers of a host's calls, as they are in a file of its settings.

    Returns a result for a file without them, and where they cannot be known.
    """
    name, again = f"host {file}", INSTALL_AGAIN
    try:
        text = file.read_text("utf-8")
        entry = _server_entry(file, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file cannot be read"
        return CheckResult(name, False, reason or "the file cannot be read", again)
    if NAME not in text:
        return CheckResult(
            name, False, "the file no longer contains any memsvc configuration", again
        )
    if entry is None:
        return CheckResult(name, True, "the file contains the hooks or instructions of memsvc")
    try:
        return _connection(entry)
    except KeyError as error:
        variable = error.args[0]
        if variable.startswith("input:"):
            return CheckResult(
                name,
                True,
                "the connection was not tested, because the host itself asks for the key",
            )
        advice = "set this variable in the environment in which the agent host is started"
        return CheckResult(name, False, f"{variable} is not set", advice)


async def _called(name: str, url: str, headers: dict[str, str]) -> CheckResult:
    """Check that calls as a host makes them are answered."""
    try:
        return CheckResult(name, True, await _round_trip(url, headers))
    except MemsvcError as error:
        return CheckResult(name, False, error.message, error.recovery or INSTALL_AGAIN)


def _server_entry(file: Path, text: str) -> dict[str, Any] | None:
    """Return what a file says of our server; None for a file of hooks or instructions.

    Raises ValueError for a file that cannot be read.
    """
    if file.suffix == ".toml":
        content = tomllib.loads(text)
    elif file.suffix in (".json", ".jsonc"):
        content = parse_json(text).value
    else:
        return None
    servers = (content.get(name) for name in ("mcpServers", "mcp_servers", "servers", "mcp"))
    return next((one[NAME] for one in servers if isinstance(one, dict) and NAME in one), None)


def _connection(entry: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the URL and the headers with which a host calls the server.

    Raises KeyError for a variable that is not set here, or an input that the host asks for.
    """
    variables = entry.get("env", {})
    if URL_VARIABLE in variables:  # the host starts a bridge
        headers = {"Authorization": f"Bearer {variables.get(KEY_VARIABLE, '')}"}
        return f"{variables[URL_VARIABLE]}/mcp", headers
    url = next(value for name, value in entry.items() if name.lower().endswith("url"))
    headers = dict(entry.get("headers") or entry.get("http_headers") or {})
    if variable := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    return _filled_in(url), {name: _filled_in(value) for name, value in headers.items()}


def _filled_in(text: str) -> str:
    """Return a text with its references to variables filled in."""

    def value(found: re.Match[str]) -> str:
        return os.environ[next(filter(None, found.groups()))]

    return VARIABLE_REFERENCE.sub(value, text)


async def _round_trip(url: str, headers: dict[str, str]) -> str:
    """Begin as a host begins, call a tool that reads, and return how that went.

    Raises the error that a call failed with.
    """
    check_url(url)
    started = time.monotonic()
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        (
            "initialize",
            {
                "protocolVersion": MCP_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "memsvc doctor", "version": version()},
            },
        ),
        ("tools/call", {"name": READ_TOOL, "arguments": {"limit": 1}}),
    )
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=headers | accept, timeout=CALL_TIMEOUT_S) as http:
        for number, (method, params) in enumerate(calls, 1):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            try:
                response = await http.post(url, json=request)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise unavailable(
                    f"no answer from {url} ({type(error).__name__})",
                    recovery="start the server; if its address has changed, " + INSTALL_AGAIN,
                ) from error
            if response.is_error:
                raise failure(response)
            if session := response.headers.get(SESSION_HEADER):
                http.headers[SESSION_HEADER] = session
            answer = response.json()
            if "error" in answer or answer["result"].get("isError"):
                raise unavailable(f"the MCP request {method} failed at {url}")
        if SESSION_HEADER in http.headers:
            await http.delete(url)
    whose = [headers[name] for name in WHOSE_HEADERS if name in headers]
    in_ms = (time.monotonic() - started) * 1000
    return ", ".join([f"a test call with the host's configuration took {in_ms:.0f} ms", *whose])


async def _server(url: str, key: str) -> AsyncIterator[CheckResult]:
    checks: tuple[tuple[str, str, Callable[[httpx2.Response], str]], ...] = (
        (
            "server",
            "/healthz",
            lambda response: f"answered in {response.elapsed.total_seconds() * 1000:.0f} ms",
        ),
        ("readiness", "/readyz", lambda response: "ready"),
        (
            "key",
            "/api/tools",
            lambda response: f"gives access to {len(response.json()['tools'])} tools",
        ),
    )
    async with client(url, key) as http:
        for name, path, describe in checks:
            try:
                response = await http.get(path)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                yield CheckResult(
                    name,
                    False,
                    f"no answer from {url} ({type(error).__name__})",
                    "start the server with `memsvc serve`, or see `memsvc service status` if it is"
                    " installed as a service; after a crash, a start needs no repair and loses"
                    " nothing that was acknowledged",
                )
                return
            if response.is_error:
                yield _failed(name, failure(response))
            else:
                yield CheckResult(name, True, describe(response))
