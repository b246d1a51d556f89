"""What a deletion promises to be gone is in no column of any table, whoever planted it and
whichever way it went."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Caller, Scope
from memsvc.styles.files.file_writer import PURGE_JOB
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.turns.maintenance.session_maintenance import EXPIRE_JOB
from tests.administration.erased import Garden, places
from tests.contract.catalogue import block_id
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder

pytestmark = pytest.mark.anyio

Act = Callable[[Garden], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """A deletion: what is planted before it, how it goes, of which of the garden's words nothing
    may be left, and in which columns its promise lets the content stand all the same."""

    plant: Act
    delete: Act
    gone: tuple[str, ...] = ("content",)
    kept: frozenset[str] = field(default=frozenset())


@pytest.fixture
def door(database: Any, clock: FakeClock, tokens: Any, meter: Any, scope: Scope) -> Door:
    """A service with an embedder, so that there are vectors to go."""
    return open_door(database, clock, tokens, meter, scope, embedder=FakeEmbedder())


async def all_gone(
    call: Door, admin: asyncpg.Connection, gardens: dict[str, tuple[Way, Garden]]
) -> None:
    """Nothing is left of what each way promises."""
    await call.dispatch.call_log.flush()
    wanted = {
        getattr(one, word): (name, way) for name, (way, one) in gardens.items() for word in way.gone
    }
    found = await places(admin, wanted)
    left = {
        (wanted[word][0], word): sorted(where - wanted[word][1].kept)
        for word, where in found.items()
    }
    assert {name: where for name, where in left.items() if where} == {}


def purged(level: str, name: Callable[[Garden], str]) -> Act:
    async def purge(one: Garden) -> None:
        await one("tenant_purge", level=level, name=name(one), confirm=name(one) or one.project)

    return purge


async def tenant_purged(one: Garden) -> None:
    name = one.call.caller.tenant.hex()
    await one.call("tenant_purge", project="*", level="tenant", confirm=name)


async def alone(one: Garden) -> None:
    await one.turns(shared=False)
    await one.board()
    turn = [{"role": "user", "content": f"I live in {one.content}."}]
    await one("memories_add", user_id=one.user, messages=turn)


PURGES = {
    "session": Way(
        Garden.turns, purged("session", lambda one: one.session), ("content", "session")
    ),
    "user": Way(alone, purged("user", lambda one: one.user), ("content", "session", "user")),
    "path": Way(Garden.file, purged("path", lambda one: f"/{one.path}"), ("content", "path")),
    "project": Way(
        Garden.everything, purged("project", lambda _: ""), ("content", "session", "user", "path")
    ),
    "tenant": Way(
        Garden.everything, tenant_purged, ("content", "session", "user", "friend", "path")
    ),
}


async def test_a_purge_leaves_no_word_of_what_it_took_and_no_name(
    call: Door, admin: asyncpg.Connection
) -> None:
    gardens = {}
    for name, way in PURGES.items():
        door = call.as_caller(Caller(b"\x07" * 32, "test")) if name == "tenant" else call
        gardens[name] = way, Garden(door, name[:2])
        await way.plant(gardens[name][1])
        await door.work()
    await call.dispatch.call_log.flush()
    planted = await places(admin, {one.content for _, one in gardens.values()})
    assert planted.keys() == {one.content for _, one in gardens.values()}
    assert {
        *(
            "blocks.content",
            "entries.text",
            "facts.value",
            "insights.summary",
            "posting_lists.term",
        ),
        *("fresh_terms.terms", "notion_tags.tag", "memory_settings.prompt"),
    } <= set().union(*planted.values())
    async with call.dispatch.call_log.running():
        for way, one in gardens.values():
            # logged behind the answer, when the purge may have begun
            await one(
                "memory_before_turn",
                session_id=one.session,
                user_id=one.user,
                current_input="Hello?",
            )
            await one("file_stat", path=f"/{one.path}/f.md")
            await way.delete(one)
    await all_gone(call, admin, gardens)


async def forgotten(one: Garden) -> None:
    for user in (one.user, one.friend):  # each their own
        turns = ["t0", "t1", "t2"]
        await one("memory_forget", session_id=one.session, user_id=user, turn_ids=turns)


async def outlived(one: Garden) -> None:
    """Said before the time to live of the session begins, facts about its users apart."""
    await one.talk("t0", one.user, *(f"Plan {n} is {one.content}." for n in range(70)))
    await one.call.work()
    await one("memory_run_maintenance", session_id=one.session)
    policy = '{"ttl_days": 1}'
    where = f"/memory/{one.session}/meta/policy.json"
    await one("file_write", path=where, content=policy, mode="TRUNCATE")


async def outlived_by_two(one: Garden) -> None:
    await outlived(one)
    await one.talk("t1", one.friend, "Hello.")


async def nothing(one: Garden) -> None:
    """It goes by itself."""


async def deleted_memories(one: Garden) -> None:
    turn = [{"role": "user", "content": f"I live in {one.content}."}]
    await one("memories_add", user_id=one.user, messages=turn)


DELETIONS = {
    "forgotten": Way(
        Garden.turns,
        forgotten,
        # the session's files keep the record of what was said, and rows of it are kept as they are,
        # to be found by none
        kept=frozenset({"blocks.content", "entries.text", "facts.value", "facts.statement"}),
    ),
    "ttl": Way(outlived, nothing),
    "ttl of two": Way(outlived_by_two, nothing),
    "file": Way(Garden.file, lambda one: one("file_delete", path=f"/{one.path}", recursive=True)),
    "board": Way(
        Garden.board, lambda one: one("whiteboard_delete", user_id=one.user, conversation_id="c")
    ),
    "document": Way(
        Garden.document, lambda one: one("update_document", id="root", content="# Notes\n")
    ),
    "block": Way(
        lambda one: one("elfmem_remember", content=f"Of {one.content}.", tags=[one.content]),
        lambda one: one("elfmem_forget", block_id=block_id(f"Of {one.content}.")),
    ),
    "memories": Way(
        deleted_memories,
        lambda one: one("memories_delete_all", user_id=one.user),
        kept=frozenset({"entries.text", "facts.value"}),  # the history of each
    ),
}


async def test_what_is_deleted_is_gone_after_its_retention(
    call: Door, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    gardens = {
        name: (way, Garden(call, f"d{at}")) for at, (name, way) in enumerate(DELETIONS.items())
    }
    for way, one in gardens.values():
        await way.plant(one)
    await call.work()
    for way, one in gardens.values():
        await way.delete(one)
    clock.advance(days=2)
    for _, one in gardens.values():
        await call.jobs[EXPIRE_JOB].run(Scope(call.caller.tenant, one.project), "")
    await call.work()
    clock.advance(days=FilesOptions().delete_retention_days + 1)
    for _, one in gardens.values():
        await call.jobs[PURGE_JOB].run(Scope(call.caller.tenant, one.project), "")
    await all_gone(call, admin, gardens)
