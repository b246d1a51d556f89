"""Whatever is done to a notebook, it is one tree afterwards, texts and outline agree, and a refusal
changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, takewhile
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsvc.cli.maintenance_commands import _Maintenance
from memsvc.core.scope import Scope
from memsvc.settings import Settings
from memsvc.store.database import Database
from memsvc.styles.notebook.document_tree import links
from memsvc.styles.notebook.notebook_reader import block_style
from memsvc.styles.notebook.notebook_writer import TreeRebuild
from tests.fakes import FakeClock
from tests.styles.notebook.conftest import NotebookDoor

pytestmark = pytest.mark.anyio
PROJECTS = count()
IDS = ("root", "a", "b", "c", "d", "é")
SAID = ("words", "other words", "")


@dataclass
class Model:
    """A notebook as simple as may be: texts by id, all of them checked after each step."""

    texts: dict[str, str] = field(default_factory=lambda: {"root": "# Notes\n"})

    def after(self, changes: dict[str, str]) -> "tuple[Model, list[str], list[str]] | None":
        """What there would be, who came and who went; None where that is no tree."""
        texts = self.texts | changes
        created = [name for name in changes if name not in self.texts]
        for name in list(changes):
            for link in links(texts[name]):
                if link not in texts:
                    texts[link] = f"# {link}\n\n"
                    created.append(link)
        if any(len(set(parents)) > 1 for parents in self.parents(texts).values()):
            return None
        reached = list(self.walk(texts))
        if any(link in self.line(texts, name) for name in texts for link in links(texts[name])):
            return None
        removed = [name for name in self.texts if name not in reached]
        return Model({name: texts[name] for name in reached}), created, removed

    @staticmethod
    def parents(texts: dict[str, str]) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        for name, text in texts.items():
            for link in links(text):
                held.setdefault(link, []).append(name)
        return held

    @staticmethod
    def walk(texts: dict[str, str]) -> Iterator[str]:
        waiting, seen = ["root"], set()
        while waiting:
            name = waiting.pop(0)
            if name not in seen and name in texts:
                seen.add(name)
                yield name
                waiting += links(texts[name])

    def line(self, texts: dict[str, str], name: str) -> set[str]:
        held, line = self.parents(texts), {name}
        above = held.get(name)
        while above and above[0] not in line:
            line.add(above[0])
            above = held.get(above[0])
        return line

    def tree(self) -> str:
        return block_style("root", {name: links(text) for name, text in self.texts.items()})


def with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


NAMES = st.sampled_from(IDS)
TEXTS = st.lists(NAMES.map(lambda name: f"[[{name}]]") | st.sampled_from(SAID), max_size=4).map(
    "\n".join
)
STEPS = st.one_of(
    st.tuples(st.just("update"), NAMES, TEXTS),
    st.tuples(st.just("update"), NAMES, TEXTS),
    st.tuples(st.just("edit"), NAMES, NAMES),
    st.tuples(st.just("move"), NAMES, NAMES),
    st.tuples(st.just("restore"), NAMES, st.integers(0, 50)),
)


class Walk:
    """Does to a notebook and to its model the same."""

    def __init__(self, notebook: NotebookDoor, clock: FakeClock) -> None:
        self.notebook = notebook
        self.clock = clock
        self.model = Model()
        self.past: list[tuple[datetime, dict[str, str]]] = []

    async def step(self, kind: str, name: str, what: Any) -> None:
        self.clock.advance(seconds=1)
        await self.take(kind, name, what)
        self.past.append((self.clock.now(), dict(self.model.texts)))

    async def take(self, kind: str, name: str, what: Any) -> None:
        text = self.model.texts.get(name)
        match kind:
            case "update":
                await self.expect("update_document", {"content": what}, name, {name: what})
            case "edit":
                old, new = f"[[{what}]]", "[[d]]"
                once = text is not None and text.count(old) == 1
                await self.expect(
                    "edit_document",
                    {"old_text": old, "new_text": new},
                    name,
                    {name: text.replace(old, new)} if once and text is not None else None,
                )
            case "move":
                await self.move(name, what)
            case _:
                versions = await self.versions(name)
                version, changes = f"{1:032x}:1", None
                if versions:
                    version, begun_at = versions[what % len(versions)]
                    past = await self.notebook.text(name, version=version)
                    changes = self.restored(name, past, begun_at)
                await self.expect("restore_document", {"version": version}, name, changes)

    async def versions(self, name: str) -> list[tuple[str, datetime]]:
        if name not in self.model.texts:
            return []
        history = await self.notebook("document_history", id=name, limit=50)
        return [
            (one["version"], datetime.fromisoformat(one["created_at"]))
            for one in history["versions"]
            if one["size_bytes"]
        ]

    def restored(self, name: str, text: str, begun_at: datetime) -> dict[str, str]:
        """What a version of a document brings back: its text, and the missing ones below it."""
        later = [texts for at, texts in self.past if at >= begun_at]
        held = list(takewhile(lambda texts: texts.get(name) == text, later))
        then = held[-1] if held else {}  # the template was replaced as soon as it was stored
        back, waiting = {name: text}, [name]
        while waiting:
            for link in links(back[waiting.pop()]):
                if link not in self.model.texts and link not in back:
                    back[link] = then[link]
                    waiting.append(link)
        return back

    async def move(self, name: str, parent: str) -> None:
        texts = self.model.texts
        changes: dict[str, str] | None = None
        if name in texts and parent in texts and name != "root":
            (old,) = Model.parents(texts)[name]
            changes = {}
            if old != parent:
                lines = texts[old].split("\n")
                taken = "\n".join(line for line in lines if line != f"[[{name}]]")
                added = (
                    texts[parent]
                    + ("\n" if texts[parent] and texts[parent][-1] != "\n" else "")
                    + f"- [[{name}]]\n"
                )
                changes = {old: taken, parent: added}
                if name in self.model.line(texts, parent):
                    changes = None
        before = dict(texts)
        await self.expect("move_document", {"parent": parent}, name, changes, loosely=True)
        if (
            self.model.texts != before and changes
        ):  # what exactly is left of the old text is tested elsewhere
            self.model.texts[old] = await self.notebook.text(old)

    async def expect(
        self,
        tool: str,
        given: dict[str, Any],
        name: str,
        changes: dict[str, str] | None,
        *,
        loosely: bool = False,
    ) -> None:
        known = name in self.model.texts
        after = self.model.after(changes) if known and changes is not None else None
        outcome = await self.notebook.call.dispatch.call(
            self.notebook.call.caller,
            tool,
            {"project": self.notebook.project, "id": name, **given},
            surface="test",
            request_id="r",
        )
        assert (outcome.error is None) == (after is not None), (
            tool,
            name,
            given,
            outcome.text,
            self.model.texts,
        )
        if after is not None:
            model, created, removed = after
            assert sorted(outcome.body["created"]) == sorted(created)
            assert sorted(outcome.body["removed"]) == sorted(removed)
            self.model = model
        await self.check(loosely=loosely)

    async def check(self, *, loosely: bool) -> None:
        assert await self.notebook.tree() == self.model.tree()
        for name in IDS:
            if name not in self.model.texts:
                assert await self.notebook.missing(name)
            elif not loosely:
                assert await self.notebook.text(name) == self.model.texts[name]


@pytest.mark.slow
@settings(
    max_examples=50,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
async def test_random_steps_lead_to_the_same_tree_as_in_a_simple_model(
    notebook: NotebookDoor,
    database: Database,
    scope: Scope,
    clock: FakeClock,
    steps: list[tuple[str, str, Any]],
) -> None:
    project = f"p{next(PROJECTS)}"
    walk = Walk(NotebookDoor(notebook.call, project), clock)
    for name, text in (("root", "[[a]]\n[[b]]"), ("a", "[[c]]\nwords"), ("c", "[[d]]")):
        await walk.step("update", name, text)
    for step in steps:
        await walk.step(*step)
    assert not await TreeRebuild(database).check(Scope(scope.tenant, project))


async def test_an_outline_that_was_damaged_is_found_out_and_made_anew_from_the_texts(
    notebook: NotebookDoor, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "[[c]] [[メモ]]")
    await notebook.write("c", "")
    rebuilding = TreeRebuild(database)
    assert await rebuilding.check(scope) == {}
    rows = await admin.fetch("SELECT * FROM outline_nodes ORDER BY node")
    await admin.execute("DELETE FROM outline_nodes WHERE node = 'c'")
    await admin.execute("UPDATE outline_nodes SET children = '{b,a}' WHERE node = 'root'")
    await admin.execute("UPDATE outlines SET nodes = 77")
    assert await rebuilding.check(scope) == {"outline_nodes": 2, "outlines": 1}
    assert await rebuilding.check(scope, fix=True) == {"outline_nodes": 2, "outlines": 1}
    assert await rebuilding.check(scope) == {}
    assert await admin.fetch("SELECT * FROM outline_nodes ORDER BY node") == rows
    assert await admin.fetchval("SELECT nodes FROM outlines") == 5
    await admin.execute("DELETE FROM outline_nodes; DELETE FROM outlines")
    assert await rebuilding.check(scope, fix=True) == {"outline_nodes": 5, "outlines": 1}
    assert await admin.fetch("SELECT * FROM outline_nodes ORDER BY node") == rows


async def test_maintenance_compares_and_rebuilds_the_notebook_of_a_project(
    notebook: NotebookDoor, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    await notebook.write("root", "[[a]] walrus")
    await admin.execute(
        "DELETE FROM outline_nodes WHERE node = 'a'; DELETE FROM posting_lists; DELETE FROM fresh_terms"
    )
    upkeep = _Maintenance(database, Settings())
    found = (await upkeep.project(scope, None, check=True, rebuild=False))["differences"]
    assert found["outline_nodes"] == 1
    assert found["postings"] >= 1
    assert (await upkeep.project(scope, None, check=False, rebuild=True))["differences"] == found
    assert (await upkeep.project(scope, None, check=True, rebuild=False))["differences"] == {}
    assert await notebook.tree() == "root:\n- a\n"
    assert (await notebook("search_documents", query="walrus"))["passages"][0]["id"] == "root"


async def test_a_notebook_that_nobody_wrote_has_nothing_to_rebuild(
    database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    assert await TreeRebuild(database).check(scope, fix=True) == {}
    assert await admin.fetchval("SELECT count(*) FROM outlines") == 0
