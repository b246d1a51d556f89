"""Keys and what was said are where they belong and nowhere else: not in a table that has no use for
them, a log line, a metric, an error, a job, or what an object shows of itself."""

import base64
import io
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, get_args

import asyncpg
import httpx2
import pytest
import structlog
from pydantic import BaseModel

from memsvc.adapters.options import EmbeddingOptions, ModelOptions
from memsvc.core.scope import Permission
from memsvc.gateway.logs import locations
from memsvc.settings import Settings
from memsvc.store import queue
from memsvc.worker import WorkerOptions
from tests.contract.catalogue import EXAMPLES, TOOLS
from tests.endpoints import provider
from tests.gateway.served import served
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = pytest.mark.anyio
BEARER = "sk-canary-bearer-7f3a"
WRONG = "sk-canary-wrong-7f3a"
IN_QUERY = "sk-canary-query-7f3a"
MODEL_KEY = "sk-canary-model-7f3a"
EMBEDDING_KEY = "sk-canary-embedding-7f3a"
SAID = "chrysoprase"
SAYING = (
    *("memory_after_turn", "memory_before_turn", "file_write", "context_update"),
    *("memories_add", "elfmem_remember", "elfmem_dream", "file_search"),
)
HOLDS_NO_CONTENT = (
    "calls",
    "api_keys",
    "tenants",
    "server_secrets",
    "ended_sessions",
    "job_refs",
    "allowances",
    "rates",
    "usage",
)
TAKES_NO_SECRET = ("base_url", "jwks_url", "mcp_url")
SECRET_NAMES = ("url", "key", "secret", "token", "password", "headers")


async def tables(admin: asyncpg.Connection) -> dict[str, str]:
    """Every row of every table that is not PostgreSQL's own, as text, with bytes as the characters
    that they may be."""
    names = await admin.fetch(
        """SELECT n.nspname AS schema, c.relname AS name
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE relkind IN ('r', 'm', 'p') AND NOT relispartition
        AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"""
    )
    held = {}
    for schema, name in names:
        rows = await admin.fetch(f'SELECT * FROM "{schema}"."{name}"')
        cells = (cell for row in rows for cell in row.values())
        held[name] = "\n".join(
            cell.decode("latin-1") if isinstance(cell, bytes | bytearray) else str(cell)
            for cell in cells
        )
    return held


def forms(secret: str) -> tuple[str, ...]:
    """How a secret may be written: plainly, as the driver shows bytes, as base64 would begin."""
    return secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode()[:-4]


async def said(http: httpx2.AsyncClient, about: str) -> AsyncIterator[str]:
    """What tools answer that ask a model or say something; each call says something of its own."""
    for name in SAYING:
        arguments = {**EXAMPLES[name]}
        arguments |= {
            text: f"{arguments[text]} {SAID} {about}"
            for text in ("content", "query")
            if text in arguments
        }
        arguments |= {"turn_id": about} if name == "memory_after_turn" else {}
        yield (await http.post(f"/api/tools/{name}", json=arguments)).text


async def turned_away(http: httpx2.AsyncClient) -> AsyncIterator[str]:
    """What is answered to keys that open nothing, wherever they are put."""
    for path in (
        f"/api/tools?api_key={IN_QUERY}",
        f"/nowhere?APIKEY={IN_QUERY}",
        f"/api/files/{WRONG}",
    ):
        yield (await http.get(path)).text
    for name, value in (("X-API-Key", f"{WRONG}\u00e9"), ("Authorization", f"Bearer a@{WRONG}\tx")):
        yield (await http.get("/api/tools", headers={name: value.encode()})).text


async def nothing_waits(http: httpx2.AsyncClient) -> bool:
    return not (await http.get("/api/jobs?state=waiting")).json()["jobs"]


async def test_no_key_is_in_a_table_a_log_line_a_metric_or_an_answer_and_no_content_where_none_belongs(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, log_lines: io.BytesIO
) -> None:
    told: list[str] = []
    async with provider() as model:
        options = {
            "model": ModelOptions(
                model="openai-chat:m", base_url=model.url, api_key=MODEL_KEY, retries=0
            ),
            "embeddings": EmbeddingOptions(
                provider="openai", base_url=model.url, api_key=EMBEDDING_KEY, retries=0
            ),
            "worker": WorkerOptions(enabled=True, poll_s=0.05),
        }
        async with served(database_urls, admin, **options) as service:
            narrow = await service.key(
                BEARER, permissions=frozenset(Permission), projects=["default"]
            )
            keys = [BEARER, WRONG, IN_QUERY, MODEL_KEY, EMBEDDING_KEY, narrow]
            async with service.http(BEARER) as http, service.http(narrow) as less:
                for fault in ("fine", "refuses the key", "broken", "garbage", "says why not"):
                    model.always = fault
                    told += [one async for one in said(http, fault)] + [
                        one async for one in said(less, fault)
                    ]
                await until(lambda: nothing_waits(less))
                told += [(await less.get(path)).text for path in ("/api/jobs", "/metrics")]
            async with service.http(None) as nobody:
                told += [one async for one in turned_away(nobody)]
            vectors = await admin.fetchval("SELECT to_regclass('embeddings') IS NOT NULL")
            sent = {MODEL_KEY, EMBEDDING_KEY} if vectors else {MODEL_KEY}
            assert sent <= {str(key).removeprefix("Bearer ") for key in model.keys}
    held = await tables(admin)
    assert SAID in held["entries"]
    assert {*HOLDS_NO_CONTENT} - {"rates"} <= held.keys()
    lines = log_lines.getvalue().decode()
    assert len(lines.splitlines()) > 30
    places = held | {"an answer or metric": "\n".join(told), "a log line": lines}
    for place, text in places.items():
        for key in keys:
            assert not [form for form in forms(key) if form in text], (place, key)
    for place in ("a log line", *HOLDS_NO_CONTENT, *queue.TABLES):
        assert SAID not in places.get(place, ""), place


def secret_fields(
    options: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Where in the options a secret stands: fields of texts whose names end in one."""
    for name, field in options.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from secret_fields(kind, (*path, name))
        elif kind in (str, tuple[str, ...]) and name.rpartition("_")[2] in SECRET_NAMES:
            yield (*path, name)
        for one in get_args(kind):
            if isinstance(one, type) and issubclass(one, BaseModel):
                yield from secret_fields(one, (*path, name))


def test_no_options_show_their_secrets() -> None:
    found = [path for path in secret_fields(Settings) if path[-1] not in TAKES_NO_SECRET]
    assert len(found) >= 8
    for path in found:
        scheme = "postgresql" if path[0] == "database" else "https"
        value: Any = (
            (f"NAME={BEARER}",)
            if path[-1] == "headers"
            else f"{scheme}://u:{BEARER}@127.0.0.1/{BEARER}"
        )
        whole: Any = value
        for name in reversed(path):
            whole = {name: whole}
        if path[0] == "database":
            whole = {"database": {"url": "postgresql://127.0.0.1/x"} | whole["database"]}
        settings = Settings.model_validate(whole)
        for shown in (repr(settings), str(settings)):
            assert BEARER not in shown, path
        part: Any = settings
        for name in path[:-1]:
            part = getattr(part, name)
            assert BEARER not in repr(part), path


def test_an_exception_is_logged_without_what_it_or_its_causes_say(log_lines: io.BytesIO) -> None:
    try:
        try:
            try:
                raise KeyError(SAID)
            except KeyError as first:
                raise ValueError(f"Key (value)=({SAID}) already exists") from first
        except ValueError as second:
            second.add_note(SAID)
            raise ExceptionGroup(SAID, [second, OSError(SAID)]) from None
    except ExceptionGroup as error:
        structlog.get_logger("memsvc.x").error("it failed", exc_info=error, held={SAID: 1}.keys())
        logging.getLogger("asyncpg.pool").error("said %s", SAID, exc_info=error)
        logging.getLogger("memsvc.y").error("it failed", exc_info=error)
        told = "".join(locations(error))
    assert SAID not in told
    text = log_lines.getvalue().decode()
    assert len(text.splitlines()) == 3
    assert SAID not in text


def test_everything_that_may_be_logged_of_arguments_names_something() -> None:
    """No tool lets an argument be logged that holds what somebody said."""
    said = {
        "content",
        "query",
        "current_input",
        "messages",
        "text",
        "prompt",
        "note",
        "cue",
        "memory",
        "old_text",
    }
    assert [name for name, tool in TOOLS.items() if tool.logged & said] == []
