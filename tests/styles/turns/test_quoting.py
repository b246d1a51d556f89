"""Boards and documents are quoted in a prompt that asks for them, by what they are and within what
it may cost."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import CitedPassage, PassageSearch
from memsvc.core.scope import Caller, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.gateway.call_accounting import AuditOptions, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.store.database import Database
from memsvc.styles.passage_search import CitationSearch
from memsvc.styles.services import StyleServices
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.styles.owned import Owned
from tests.styles.turns.hostile_texts import CLOSING, PLANTED
from tests.styles.turns.talk import CLOSE, OPEN, ask, counted, memory, say, texts

pytestmark = pytest.mark.anyio
QUESTION = "What do the bees in Zanzibar need in winter?"
BOARDS, NOTES = "/whiteboard/ada/c1", "/notebook/bees"
Quoting = Callable[..., Door]


@pytest.fixture
def quoting(
    style_services: StyleServices,
    database: Database,
    clock: FakeClock,
    meter: RecordingMeter,
    scope: Scope,
) -> Quoting:
    """Turn memory that quotes these sources, with turn options of its own."""

    def make(passages: dict[str, PassageSearch] | None = None, **options: Any) -> Door:
        parts = turn_tools.published(
            style_services, TurnOptions(**options), passages=passages, policy=PolicyOptions()
        )
        dispatch = Dispatch(
            Catalogue(parts.tools),
            call_log(database, meter, clock, AuditOptions()),
            meter,
            clock,
            unlimited(meter),
        )
        return Door(dispatch, Caller(scope.tenant, "test"), database, parts.jobs)

    return make


@pytest.fixture
def boards(database: Database, scope: Scope, clock: FakeClock) -> Owned:
    return Owned(database, scope, clock, "boards")


@pytest.fixture
def notes(database: Database, scope: Scope, clock: FakeClock) -> Owned:
    return Owned(database, scope, clock, "notes")


@pytest.fixture
def both(database: Database, meter: RecordingMeter) -> dict[str, PassageSearch]:
    """Boards and documents as they are found."""
    return {
        "whiteboard": CitationSearch(
            database, meter, "boards", directory_of=lambda user: f"/whiteboard/{user}"
        ),
        "notebook": CitationSearch(database, meter, "notes"),
    }


async def as_ada(door: Door, question: str, **more: Any) -> dict[str, Any]:
    """What is prepared for a question of Ada's."""
    return await ask(door, question, user_id="ada", **more)


def passage(path: str, score: float, text: str = "about bees") -> CitedPassage:
    return CitedPassage(path, 0, len(text), text, score, datetime(2026, 1, 1, tzinfo=UTC))


def finding(*found: CitedPassage) -> PassageSearch:
    async def find(
        scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        return found[:limit]

    return find


async def test_a_passage_says_which_source_and_file_it_is_of_and_since_when(
    quoting: Quoting, boards: Owned, notes: Owned, both: dict[str, PassageSearch], clock: FakeClock
) -> None:
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    clock.advance(hours=1)
    await notes.keep(NOTES, "# Bees\n\nIn winter the bees of Zanzibar need quiet.\n")
    door = quoting(both)
    quoted = memory(await as_ada(door, QUESTION, sources=["whiteboard", "notebook"]))["chunks"]
    assert sorted((one["source"], one["path"], one["time"]) for one in quoted) == [
        ("notebook", NOTES, "2026-01-05 13:00Z"),
        ("whiteboard", BOARDS, "2026-01-05 12:00Z"),
    ]
    [board] = memory(await as_ada(door, QUESTION, sources=["whiteboard"]))["chunks"]
    assert board == {
        "source": "whiteboard",
        "path": BOARDS,
        "start_bytes": 0,
        "end_bytes": 48,
        "time": "2026-01-05 12:00Z",
        "text": "The bees in Zanzibar need sugar water in winter.",
    }


async def test_boards_and_documents_are_quoted_only_where_they_are_asked_for(
    quoting: Quoting, boards: Owned, both: dict[str, PassageSearch]
) -> None:
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    door = quoting(both)
    for more in ({}, {"sources": ["turns", "facts", "insights"]}, {"sources": ["notebook"]}):
        assert "chunks" not in memory(await as_ada(door, QUESTION, **more))


async def test_another_tenant_or_project_is_quoted_nothing(
    quoting: Quoting, boards: Owned, both: dict[str, PassageSearch], other_scope: Scope
) -> None:
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    door, sources = quoting(both), ["whiteboard", "notebook"]
    assert "chunks" not in memory(await as_ada(door, QUESTION, sources=sources, project="other"))
    assert "chunks" not in memory(
        await as_ada(door.as_tenant(other_scope), QUESTION, sources=sources)
    )
    assert "chunks" in memory(await as_ada(door, QUESTION, sources=sources))


@pytest.mark.parametrize("other", ["bob", "ad", "adaa", "Ada", "ada%", "ad_"])
async def test_a_board_is_quoted_to_its_own_user_alone(
    quoting: Quoting, boards: Owned, both: dict[str, PassageSearch], other: str
) -> None:
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    door = quoting(both)
    assert "chunks" not in memory(await ask(door, QUESTION, user_id=other, sources=["whiteboard"]))
    refused = await door.refuses(
        "INVALID_ARGUMENT", "memory_before_turn", current_input=QUESTION, sources=["whiteboard"]
    )
    assert (
        refused["message"]
        == "sources: whiteboard needs user_id, because each whiteboard belongs to a user"
    )


async def test_what_the_tools_of_boards_and_documents_wrote_is_quoted_by_the_next_call(
    door: Door,
) -> None:
    entry = {
        "role": "user",
        "content": "We decided that the bees in Zanzibar get sugar water in winter.",
    }
    await door("context_update", user_id="ada", conversation_id="c1", entries=[entry])
    text = "# Bees\n\nIn winter the bees of Zanzibar need quiet.\n"
    await door("update_document", id="root", content=text)
    await door(
        "file_write", project="default", path="/bees.md", content="The bees in Zanzibar are mine.\n"
    )
    sources = ["files", "whiteboard", "notebook"]
    quoted = memory(await as_ada(door, QUESTION, sources=sources))["chunks"]
    assert sorted(one["source"] for one in quoted) == sorted(sources)
    told = {one["source"]: one for one in quoted}
    assert "sugar water" in told["whiteboard"]["text"]
    assert "need quiet" in told["notebook"]["text"]
    for source in sources:
        read = await door("file_read", project="default", path=told[source]["path"])
        content = (
            read["content"]
            .encode()[told[source]["start_bytes"] : told[source]["end_bytes"]]
            .decode()
        )
        assert content == told[source]["text"]
    found = await door("file_search", project="default", query=QUESTION)
    assert [one["file_path"] for one in found["chunks"]] == ["/bees.md"]
    await door("whiteboard_delete", user_id="ada", conversation_id="c1")
    await door("update_document", id="root", content="# Nothing\n")
    left = memory(await as_ada(door, QUESTION, sources=sources))["chunks"]
    assert [one["source"] for one in left] == ["files"]
    assert "chunks" not in memory(
        await as_ada(door, QUESTION, sources=["whiteboard"], project="other")
    )


async def test_a_source_that_is_not_kept_here_is_refused_and_those_that_are_named(
    quoting: Quoting,
) -> None:
    door = quoting({"notebook": finding()})
    refused = await door.refuses(
        "INVALID_ARGUMENT", "memory_before_turn", current_input="x", sources=["turns", "whiteboard"]
    )
    assert refused["message"] == (
        "sources: this service does not provide whiteboard; it provides turns, facts,"
        " insights, notebook"
    )


async def test_a_rewritten_board_is_quoted_as_it_is_now(
    quoting: Quoting, boards: Owned, both: dict[str, PassageSearch]
) -> None:
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    await boards.keep(BOARDS, "The bees in Zanzibar need nothing in winter.")
    [board] = memory(await as_ada(quoting(both), QUESTION, sources=["whiteboard"]))["chunks"]
    assert board["text"] == "The bees in Zanzibar need nothing in winter."


async def test_as_of_a_moment_nothing_that_was_written_later_is_quoted(
    quoting: Quoting, boards: Owned, notes: Owned, both: dict[str, PassageSearch], clock: FakeClock
) -> None:
    await notes.keep(NOTES, "The bees in Zanzibar need quiet in winter.")
    clock.advance(hours=2)
    await boards.keep(BOARDS, "The bees in Zanzibar need sugar water in winter.")
    prepared = await as_ada(
        quoting(both),
        QUESTION,
        sources=["whiteboard", "notebook"],
        as_of="2026-01-05 13:00",
        explain=True,
    )
    assert [one["path"] for one in memory(prepared)["chunks"]] == [NOTES]
    [why] = [one for one in prepared["explanation"]["candidates"] if not one["shown"]]
    assert (why["ref"], why["reason"]) == (f"{BOARDS}:0", "written after as_of")


async def test_the_best_of_each_source_comes_before_the_second_of_any(quoting: Quoting) -> None:
    door = quoting(
        {
            "files": finding(passage("/f1", 90.0), passage("/f2", 80.0), passage("/f3", 70.0)),
            "whiteboard": finding(passage("/w1", 0.4)),
            "notebook": finding(passage("/n1", 7.0), passage("/n2", 6.0)),
        }
    )
    prepared = await as_ada(door, QUESTION, sources=["notebook", "whiteboard", "files"])
    assert [one["path"] for one in memory(prepared)["chunks"]] == [
        "/f1",
        "/w1",
        "/n1",
        "/f2",
        "/n2",
        "/f3",
    ]


async def test_search_limit_bounds_each_source(quoting: Quoting) -> None:
    many = [passage(f"/p{number}", 1.0 / (number + 1)) for number in range(9)]
    door = quoting({"files": finding(*many), "notebook": finding(*many)}, search_limit=2)
    quoted = memory(await as_ada(door, QUESTION, sources=["files", "notebook"]))["chunks"]
    assert [(one["source"], one["path"]) for one in quoted] == [
        ("files", "/p0"),
        ("notebook", "/p0"),
        ("files", "/p1"),
        ("notebook", "/p1"),
    ]


async def test_sources_are_looked_up_at_the_same_time(quoting: Quoting) -> None:
    together = asyncio.Barrier(3)

    async def find(
        scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        await together.wait()
        return [passage("/p", 1.0)]

    door = quoting({"files": find, "whiteboard": find, "notebook": find})
    async with asyncio.timeout(20):
        prepared = await as_ada(door, QUESTION, sources=["files", "whiteboard", "notebook"])
    assert len(memory(prepared)["chunks"]) == 3


async def test_an_error_of_one_source_is_the_error_of_the_call_and_stops_the_others(
    quoting: Quoting,
) -> None:
    stopped = asyncio.Event()

    async def fail(
        scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        raise MemsvcError(Code.INVALID_QUERY, "no such question")

    async def hang(
        scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        try:
            return await asyncio.Future[Sequence[CitedPassage]]()
        finally:
            stopped.set()

    door = quoting({"files": fail, "notebook": hang})
    async with asyncio.timeout(20):
        refused = await door.refuses(
            "INVALID_QUERY", "memory_before_turn", current_input="x", sources=["files", "notebook"]
        )
    assert refused["message"] == "no such question"
    assert stopped.is_set()


async def test_a_source_is_asked_with_the_end_of_a_long_question(quoting: Quoting) -> None:
    asked: list[str] = []

    async def find(
        scope: Scope, question: str, limit: int, *, user: str = ""
    ) -> Sequence[CitedPassage]:
        asked.append(question)
        return []

    await as_ada(
        quoting({"whiteboard": find}), "ü" * 9_000 + " and the bees?", sources=["whiteboard"]
    )
    assert len(asked[0].encode()) <= 8_000
    assert asked[0].endswith("ü and the bees?")


@pytest.mark.parametrize("room", [60, 140, 260, 500, 1_000, 5_000])
async def test_with_quotes_the_count_is_exact_and_the_limit_holds(
    quoting: Quoting, room: int
) -> None:
    found = [
        passage(f"/p{number}", 9.0 - number, f"Bees {number}: {'honey ' * 90}")
        for number in range(5)
    ]
    door = quoting(
        {name: finding(*found) for name in ("files", "whiteboard", "notebook")},
        recent_context_items=4,
    )
    for turn in range(6):
        await say(door, f"t{turn}", f"The bees in Zanzibar have {turn} queens.")
    prepared = await as_ada(
        door,
        QUESTION,
        max_input_tok=room,
        explain=True,
        sources=["turns", "files", "whiteboard", "notebook"],
    )
    assert prepared["context_token_count"] == counted(prepared["input_items"]) <= room
    quoted = memory(prepared).get("chunks", [])
    told = [one for one in prepared["explanation"]["candidates"] if one["kind"] == "chunk"]
    assert len(told) == 15
    assert sum(one["shown"] for one in told) == len(quoted)
    assert all(one["shown"] or one["reason"] for one in told)
    assert {name for one in told for name in one.get("parts", {})} <= {
        "files search",
        "whiteboard search",
        "notebook search",
    }


@pytest.mark.parametrize("text", [*CLOSING, *PLANTED])
async def test_a_quoted_text_does_not_leave_its_block(
    quoting: Quoting, boards: Owned, notes: Owned, both: dict[str, PassageSearch], text: str
) -> None:
    await boards.keep("/whiteboard/ada/%3C%2Fmemory_reference%3E", text)
    await notes.keep("/notebook/a", f"# Zanzibar\n\n{text}\n", title=text)
    door = quoting(both)
    prepared = await as_ada(door, "What about Zanzibar?", sources=["whiteboard", "notebook"])
    policy, block, question = prepared["input_items"]
    assert [policy["role"], block["role"], texts([question])] == [
        "developer",
        "user",
        ["What about Zanzibar?"],
    ]
    [shown] = texts([block])
    assert (shown.startswith(OPEN), shown.endswith(CLOSE)) == (True, True)
    assert (shown.count("<"), shown.count(">")) == (2, 2)
    assert {one["source"] for one in memory(prepared)["chunks"]} == {"whiteboard", "notebook"}
    stored = await door(
        "memory_after_turn",
        session_id="s1",
        turn_id="t1",
        user_id="ada",
        input_items=prepared["input_items"],
    )
    assert (stored["stored_items"], stored["fact_ids"]) == (1, [])
