"""No style lets a project grow without a limit: what would be too much is refused, and nothing of
it is kept."""

import asyncio
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.whiteboard.options import WhiteboardOptions
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def small(database: Database, clock: FakeClock, tokens: Any, meter: Any, scope: Scope) -> Door:
    """A service in which a project may have two of everything."""
    return open_door(
        database,
        clock,
        tokens,
        meter,
        scope,
        knowledge=KnowledgeOptions(blocks_max=2),
        memories=MemoriesOptions(users_max=2, per_user_max=2),
        notebook=NotebookOptions(documents_max=2),
        whiteboard=WhiteboardOptions(boards_max=2),
    )


def one(kind: str, number: int) -> tuple[str, dict[str, Any]]:
    """The call that makes one more of a kind."""
    match kind:
        case "board":
            entries = [{"role": "user", "content": f"We decided on plan {number}."}]
            return "context_update", {
                "user_id": "u",
                "conversation_id": f"c{number}",
                "entries": entries,
            }
        case "user":
            said = [{"role": "user", "content": "I live in Rome."}]
            return "memories_add", {"user_id": f"u{number}", "messages": said}
        case "block":
            return "elfmem_remember", {
                "content": f"Thing {number} is like no other of the {number * 7}."
            }
        case _:
            links = "".join(f"- [[d{each}]]\n" for each in range(number))
            return "update_document", {"id": "root", "content": f"# All\n{links}"}


@pytest.mark.parametrize("kind", ["board", "user", "block", "document"])
async def test_what_would_be_too_much_is_refused_and_nothing_of_it_is_kept(
    small: Door, admin: asyncpg.Connection, kind: str
) -> None:
    for number in range(2):
        tool, asked = one(kind, number)
        await small(tool, **asked)
    before = await admin.fetch("SELECT path FROM files ORDER BY path")
    held = await admin.fetchval("SELECT count(*) FROM entries")
    tool, asked = one(kind, 2)
    await small.refuses("QUOTA_EXCEEDED", tool, **asked)
    assert await admin.fetch("SELECT path FROM files ORDER BY path") == before
    assert await admin.fetchval("SELECT count(*) FROM entries") == held


@pytest.mark.parametrize("kind", ["board", "user"])
async def test_of_many_that_are_made_at_once_no_more_stay_than_may(
    small: Door, admin: asyncpg.Connection, kind: str
) -> None:
    async def make(number: int) -> bool:
        tool, asked = one(kind, number)
        try:
            await small(tool, **asked)
        except Refused as refused:
            if refused.code is not Code.QUOTA_EXCEEDED:
                raise
            return False
        return True

    made = await asyncio.gather(*(make(number) for number in range(6)))
    assert sum(made) == 2
