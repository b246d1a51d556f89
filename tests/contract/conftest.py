"""Every tool behind the real dispatch, with eyes on all tables, the log and the metrics."""

import io
import logging
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
import pytest
import structlog

from memsvc.gateway.logs import configure_logging
from memsvc.store.schema import TENANT_TABLES

Digest = Callable[[], Awaitable[str]]


@pytest.fixture
def log_lines() -> Iterator[io.BytesIO]:
    """Everything that the process logs, as it would reach stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    file = io.BytesIO()
    configure_logging("debug", file)
    structlog.configure(cache_logger_on_first_use=False)
    yield file
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def stored(admin: asyncpg.Connection) -> Digest:
    """A digest of every row of every tenant, whom no policy hides from a superuser."""
    # blocks never change, so that their places and sizes say enough
    shown = dict.fromkeys(TENANT_TABLES, "t::text") | {
        "blocks": "(tenant, project, stream, start, length(content))::text"
    }
    parts = " || ".join(
        f"coalesce((SELECT md5(string_agg({row}, '' ORDER BY {row})) FROM {table} AS t), '-')"
        for table, row in shown.items()
    )

    async def digest() -> str:
        return str(await admin.fetchval(f"SELECT {parts}"))

    return digest
