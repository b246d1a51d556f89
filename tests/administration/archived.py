"""Archives made and restored behind the door, and what of a memory they must carry."""

import io
from collections.abc import Mapping
from typing import Any

import asyncpg

from memsvc.administration.archive_restore import FileQuotas
from memsvc.administration.archive_tools import (
    ArchiveOptions,
    ArchiveTransfer,
)
from memsvc.core.scope import Scope
from memsvc.store.export import FILES, PLAIN
from tests.contract.catalogue import EXAMPLES, TOOLS, as_sent
from tests.door import Door
from tests.fakes import FakeClock

ROOMY = FileQuotas(100_000_000, 0)
CARRIED = sorted((*PLAIN, *FILES))


def archives(door: Door, *, allowed: FileQuotas = ROOMY, **options: Any) -> ArchiveTransfer:
    assert door.database is not None
    return ArchiveTransfer(
        door.database, FakeClock(), ArchiveOptions(**options), allowed, known_jobs=door.jobs
    )


async def exported(
    door: Door, project: str = "*", *, gzip: bool = False, calls: bool = False
) -> bytes:
    """A tenant's memory as an archive."""
    async with archives(door).opened(scope_of(door, project), gzip=gzip, calls=calls) as archive:
        return b"".join([piece async for piece in archive.chunks])


async def restored(
    door: Door, archive: bytes, project: str = "*", *, check: bool = False, **options: Any
) -> Any:
    """What became of an archive."""
    return await archives(door, **options).restored(
        scope_of(door, project), io.BytesIO(archive), check=check
    )


def scope_of(door: Door, project: str) -> Scope:
    """What a call of the door may touch."""
    return Scope(door.caller.tenant, project, door.caller.projects)


async def write(
    call: Door, path: str, content: str, *, mode: str = "TRUNCATE", **more: Any
) -> None:
    """Write a file."""
    await call(
        "file_write",
        **{"project": "default", "path": path, "content": content, "mode": mode} | more,
    )


async def fill(call: Door) -> None:
    """Something of every kind: what the examples of all tools leave, and files with a past."""
    for tool in EXAMPLES:
        if not (TOOLS[tool].read_only or TOOLS[tool].destructive or TOOLS[tool].is_admin):
            await call(tool, **await as_sent(call, tool))
    told = {"role": "user", "content": "The quagga grazes. " + "It rained on the veld. " * 300}
    await call("memory_after_turn", session_id="quagga", turn_id="t1", input_items=[told])
    await call("memory_before_turn", session_id="quagga", current_input_text="Where is the quagga?")
    for number in range(5):
        await write(call, "/notes/a.md", f"The heron nests, version {number}.")
    await write(call, "/notes/a.md", " It fishes too.", mode="APPEND")
    await write(call, "/notes/gone.md", "The otter left.")
    await call("file_delete", project="default", path="/notes/gone.md")
    await write(call, "/" + "deep/" * 60 + "b.md", "far\r\ndown")
    await write(call, "/empty.md", "")
    await write(call, "/other.md", "Kites wheel.", project="..")
    await call("elfmem_remember", content="A kestrel hovers.", tags=["bird"], project="aside")
    await call.work()


async def rows(
    admin: asyncpg.Connection, tenant: bytes, tables: list[str] = CARRIED
) -> dict[str, list[str]]:
    """Every row of a tenant as text, but for what says how far the index has come, which is what it
    is made of."""
    return {
        table: [
            row[0]
            for row in await admin.fetch(
                f"SELECT (to_jsonb(t) - 'tenant' - 'folded_entry')::text AS row FROM {table} AS t"
                " WHERE tenant = $1 ORDER BY 1",
                tenant,
            )
        ]
        for table in tables
    }


async def hits(admin: asyncpg.Connection, tenant: bytes) -> set[tuple[Any, ...]]:
    """Every hit of the index, wherever it stands."""
    found = await admin.fetch(
        """
        SELECT project, book, term, hit FROM posting_lists, unnest(hits) AS hit WHERE tenant = $1
        UNION ALL
        SELECT project, book, u.term, u.hit FROM fresh_terms, unnest(terms, hits) AS u (term, hit)
            WHERE tenant = $1
        """,
        tenant,
    )
    return {tuple(row.values()) for row in found}


_QUESTIONS: list[tuple[str, Mapping[str, Any]]] = [
    ("memory_before_turn", EXAMPLES["memory_before_turn"]),
    ("memory_list_facts", {"session_id": "zanzibar-s", "user_id": "zanzibar-u", "state": "all"}),
    ("memory_before_turn", EXAMPLES["memory_before_turn"] | {"as_of": "2026-01-05T12:00:00Z"}),
    ("file_search", {"query": "what does the heron do"}),
    ("file_search", {"query": "kites", "project": ".."}),
    ("file_list", {"path": "", "depth": 9}),
    ("file_list_versions", {"path": "/notes/a.md"}),
    ("file_list_versions", {"path": "/notes/gone.md"}),
    ("file_read", {"path": "/empty.md"}),
    ("search_documents", EXAMPLES["search_documents"]),
    ("get_document_tree", {}),
    ("document_history", EXAMPLES["document_history"]),
    ("whiteboard_get", EXAMPLES["whiteboard_get"]),
    ("whiteboard_history", EXAMPLES["whiteboard_history"]),
    ("memories_search", EXAMPLES["memories_search"]),
    ("memories_list", EXAMPLES["memories_list"]),
    ("memories_get_settings", {}),
    ("elfmem_recall", EXAMPLES["elfmem_recall"]),
    ("elfmem_recall", {"query": "kestrel", "project": "aside"}),
    ("elfmem_status", {}),
    ("file_projects", {}),
]
QUESTIONS = [(tool, {"project": "default"} | {**arguments}) for tool, arguments in _QUESTIONS]
"""What is asked of a memory and of its copy."""
