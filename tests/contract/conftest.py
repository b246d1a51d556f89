"""Every tool behind the real dispatch, with eyes on all tables, the log and the metrics."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import asyncpg
import pytest

from memsvc.store import files, style_files
from memsvc.styles.memories import memory_extraction
from migrations.schema import TENANT_TABLES

Digest = Callable[[], Awaitable[str]]


@dataclass
class Numbers:
    """What files and memories are called next: files have the incarnations 1, 2, 3..., those of
    styles 10**6 and so on, memories mem_1 and so on, so that examples can name them."""

    next: dict[str, int] = field(
        default_factory=lambda: {"files": 1, "kept_files": 10**6, "memories": 1}
    )

    def take(self, kind: str) -> int:
        self.next[kind] += 1
        return self.next[kind] - 1


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> Numbers:
    """Files and memories are numbered."""
    numbers = Numbers()
    for module, kind in ((files, "files"), (style_files, "kept_files")):
        named = SimpleNamespace(
            UUID=uuid.UUID, uuid4=lambda kind=kind: uuid.UUID(int=numbers.take(kind))
        )
        monkeypatch.setattr(module, "uuid", named)
    monkeypatch.setattr(memory_extraction, "new_id", lambda _: f"mem_{numbers.take('memories')}")
    return numbers


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
