"""Many who write one notebook at once: it is one tree at every moment, and nothing is lost, doubled
or torn."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest
import yaml

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.notebook.notebook_writer import TreeRebuild
from tests.door import Door, Refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PATIENCE = 200


async def at_once(calls: list[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
    """Start all calls from one barrier."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        await barrier.wait()
        return await call()

    return await asyncio.gather(*map(run, calls))


async def patiently(door: Door, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer, however often the service is busy before it."""
    for _ in range(PATIENCE):
        try:
            return await door(tool, **arguments)
        except Refused as refused:
            if not refused.body["retryable"]:
                raise
    raise AssertionError("the service stays busy")


def names_in(tree: Any) -> list[str]:
    """Every id of a tree as YAML tells it."""
    if isinstance(tree, str):
        return [tree]
    if isinstance(tree, list):
        return [name for part in tree for name in names_in(part)]
    return [name for key, below in tree.items() for name in (key, *names_in(below))]


async def check(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> list[str]:
    """That texts, outline and index agree and each document is there once; the ids."""
    names = names_in(yaml.safe_load((await door("get_document_tree"))["text"]))
    assert len(names) == len(set(names))
    assert await TreeRebuild(database).check(scope) == {}
    await door.work()
    live = await admin.fetch(
        "SELECT path FROM files WHERE owner = 'notebook' AND deleted_at IS NULL"
    )
    assert len(live) == len(names)
    stale = await admin.fetchval(
        """SELECT count(*) FROM entries AS e LEFT JOIN files AS f
        ON f.incarnation = e.ref::uuid AND f.stream = e.stream AND f.deleted_at IS NULL
            WHERE f.path IS NULL"""
    )
    assert stale == 0
    return names


async def test_fifty_updates_of_fifty_documents_at_once_are_all_there(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await door("update_document", content="".join(f"[[d{number}]]" for number in range(50)))

    async def update(number: int) -> dict[str, Any]:
        return await patiently(
            door, "update_document", id=f"d{number}", content=f"I am {number} [[d{number}.1]]"
        )

    answers = await at_once([lambda number=number: update(number) for number in range(50)])
    assert [answer["created"] for answer in answers] == [[f"d{number}.1"] for number in range(50)]
    for number in range(50):
        read = await door("read_document", id=f"d{number}")
        assert (read["text"], read["version"]) == (
            f"I am {number} [[d{number}.1]]",
            answers[number]["version"],
        )
    assert len(await check(door, database, scope, admin)) == 101


async def test_of_fifty_who_want_the_same_document_one_gets_it(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await door("update_document", content="".join(f"[[d{number}]]" for number in range(50)))

    async def take(number: int) -> str:
        try:
            answer = await patiently(door, "update_document", id=f"d{number}", content="[[prize]]")
        except Refused as refused:
            return str(refused.body["message"])
        return str(answer["text"])

    told = await at_once([lambda number=number: take(number) for number in range(50)])
    assert told.count("Succeeded\nCreated: prize") == 1
    assert told.count("Error: content: cross-tree reference not allowed") == 49
    assert "prize" in await check(door, database, scope, admin)


async def test_edits_that_expect_a_version_are_never_lost(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await door("update_document", content="0")
    codes = set()

    async def increment() -> int:
        lost = 0
        while True:
            read = await patiently(door, "read_document")
            try:
                await patiently(
                    door,
                    "update_document",
                    content=f"{int(read['text'].split()[0]) + 1}"
                    f" [[n{int(read['text'].split()[0])}]]",
                    expected_version=read["version"],
                )
                return lost
            except Refused as refused:
                codes.add(refused.code)
                lost += 1

    await at_once([increment for _ in range(16)])
    assert codes <= {"VERSION_CONFLICT"}
    assert (await door("read_document"))["text"] == "16 [[n15]]"
    assert await check(door, database, scope, admin) == ["root", "n15"]


async def test_the_first_writers_of_a_notebook_make_one_root(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await at_once(
        [
            lambda number=number: patiently(door, "update_document", content=f"[[d{number}]]")
            for number in range(12)
        ]
    )
    names = await check(door, database, scope, admin)
    assert names[0] == "root"
    assert len(names) == 2
    assert len((await door("document_history"))["versions"]) == 12


async def test_moves_removals_and_updates_at_once_leave_one_tree(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await door("update_document", content="".join(f"- [[d{number}]]\n" for number in range(10)))

    codes = set()

    async def change(number: int) -> None:
        other = (number * 3 + 1) % 10
        steps: list[tuple[str, dict[str, Any]]] = [
            ("move_document", {"id": f"d{number % 10}", "parent": f"d{other}"}),
            ("update_document", {"id": f"d{other}", "content": f"[[x{number % 4}]]"}),
            (
                "edit_document",
                {"id": "root", "old_text": f"[[d{other}]]", "new_text": f"[[y{number}]]"},
            ),
            ("move_document", {"id": f"x{number % 4}", "parent": "root"}),
            ("split_document", {"id": "root", "apply": True}),
        ]
        for tool, given in steps[number % 5 :] + steps[: number % 5]:
            try:
                await patiently(door, tool, **given)
            except Refused as refused:
                codes.add(refused.code)

    await at_once([lambda number=number: change(number) for number in range(20)])
    assert codes <= {"NOT_FOUND", "INVALID_CONTENT", "INVALID_ARGUMENT"}
    assert "root" in await check(door, database, scope, admin)
