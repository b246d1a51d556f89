"""Every tool behind the real dispatch, with eyes on all tables, the log and the metrics."""

import uuid
from collections.abc import Awaitable, Callable
from itertools import count
from types import SimpleNamespace

import asyncpg
import pytest

from memsvc.store import files, kept_files
from memsvc.store.schema import TENANT_TABLES
from memsvc.styles.memories import adding

Digest = Callable[[], Awaitable[str]]


@pytest.fixture(autouse=True)
def numbered_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files have the incarnations 1, 2, 3..., those of styles 10**6 and so on, so that examples can name a version."""
    for module, numbers in ((files, count(1)), (kept_files, count(10**6))):
        named = SimpleNamespace(UUID=uuid.UUID, uuid4=lambda numbers=numbers: uuid.UUID(int=next(numbers)))
        monkeypatch.setattr(module, "uuid", named)
    memories = count(1)
    monkeypatch.setattr(adding, "new_id", lambda _: f"mem_{next(memories)}")


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
