"""Updates come one at a time, many in few calls of the model; none is lost, and none is in the
board twice."""

import asyncio
import re
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.models import llm as model_of
from memsvc.adapters.options import ModelOptions
from memsvc.core.errors import Code, MemsvcError, ModelOutputError
from memsvc.store.changes import change_key
from memsvc.store.database import Database
from tests.door import Door, Refused
from tests.endpoints import Fault, provider
from tests.fakes import Question, RecordingMeter, ScriptedLlm
from tests.styles.whiteboard.conftest import Opened
from tests.styles.whiteboard.pages import WHO, Gate, entry, note, read, through

pytestmark = pytest.mark.anyio
OUT_OF_REACH = MemsvcError(
    Code.UNAVAILABLE, "the model endpoint cannot be reached", retry_after_s=7.0
)
UNUSABLE = ModelOutputError(
    Code.INTERNAL_ERROR, "the model endpoint returned an answer without text"
)


def gathers(question: Question) -> str:
    """A model that keeps every word of the board and of the new events that begins with `word`,
    once."""
    told = question.text.partition("Recent context")[0] + question.text.partition("New events:")[2]
    return " ".join(dict.fromkeys(re.findall(r"word\d+", told))) or "nothing"


async def refused(door: Door, *said: str) -> dict[str, Any]:
    """The error of an update that has to fail."""
    with pytest.raises(Refused) as error:
        await note(door, *said)
    return error.value.body


def events(question: Question) -> list[str]:
    """The new events that the model was given."""
    listed = question.text.partition("New events:\n")[2].partition("\n\nUpdate the memory")[0]
    return [line.removeprefix("- user: ") for line in listed.split("\n")]


async def test_fifty_calls_at_once_make_a_handful_of_model_calls_and_a_board_that_has_all(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.always = gathers
    gate = Gate()
    llm.meanwhile = gate
    first = asyncio.create_task(note(board, "word0"))
    await gate.begun.wait()
    others = [asyncio.create_task(note(board, f"word{number}")) for number in range(1, 50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.opened.set()
    await asyncio.gather(first, *others)
    assert len(llm.asked) == 2
    assert sorted((await read(board)).split()) == sorted(f"word{number}" for number in range(50))
    assert len((await board("whiteboard_history", **WHO))["versions"]) == 2


async def test_a_call_is_answered_when_its_own_entries_are_in(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.always = gathers
    first, second = Gate(), Gate()
    llm.meanwhile = through(first, second)
    one = asyncio.create_task(note(board, "word1"))
    await first.begun.wait()
    two = asyncio.create_task(note(board, "word2"))
    first.opened.set()
    await one
    await second.begun.wait()
    assert not two.done()
    assert await read(board) == "word1"
    second.opened.set()
    await two
    assert await read(board) == "word1 word2"


async def test_conversations_do_not_wait_for_each_other(board: Door, llm: ScriptedLlm) -> None:
    llm.always = gathers
    gate = Gate()
    llm.meanwhile = through(gate)
    slow = asyncio.create_task(note(board, "word1"))
    await gate.begun.wait()
    await note(board, "word2", conversation_id="another")
    assert await read(board, conversation_id="another") == "word2"
    assert not slow.done()
    gate.opened.set()
    await slow


LOCKS_HERE = """
    SELECT count(*) FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND here.datname = current_database()
"""
"""Citus has locks of other kinds for itself."""


async def test_no_transaction_is_open_while_the_model_thinks(
    board: Door, llm: ScriptedLlm, database: Database, admin: asyncpg.Connection
) -> None:
    seen: list[Any] = []

    async def look() -> None:
        opened, idle = database.usage()
        seen.append(opened - idle)
        seen.append(await admin.fetchval(LOCKS_HERE))

    llm.meanwhile = look
    llm.always = "a board"
    await note(board, "x")
    await note(board, "y")
    assert seen == [0, 0, 0, 0]


async def test_two_servers_write_one_board_and_nothing_is_lost(opened: Opened) -> None:
    models = [ScriptedLlm(), ScriptedLlm()]
    servers = [opened(model) for model in models]
    barrier = asyncio.Barrier(2)
    for model in models:
        model.always = gathers
        model.meanwhile = through(barrier.wait)
    await asyncio.gather(*(note(server, f"word{number}") for number, server in enumerate(servers)))
    assert sorted((await read(servers[0])).split()) == ["word0", "word1"]
    assert sorted(len(model.asked) for model in models) == [1, 2]  # who came too late thought again
    again = next(model for model in models if len(model.asked) == 2)
    assert "No existing memory" in again.asked[0].text
    assert re.search(r"Current memory:\nword\d\n", again.asked[1].text)


async def test_two_servers_without_a_model_lose_nothing_either(opened: Opened) -> None:
    servers = [opened(attempts_max=20), opened(attempts_max=20)]
    places = ["Kyoto", "Vienna", "Lisbon", "Oslo", "Quito", "Hanoi"]
    said = [f"Ada went to {place} in {2000 + number}." for number, place in enumerate(places)]
    await asyncio.gather(*(note(servers[number % 2], text) for number, text in enumerate(said)))
    assert [place for place in places if place not in await read(servers[0])] == []


async def test_a_board_that_others_keep_writing_is_busy_and_the_entries_are_kept(
    opened: Opened,
) -> None:
    model = ScriptedLlm()
    model.always = gathers
    board, other = opened(model, attempts_max=3), opened()
    numbers = iter(range(100))

    async def overtake() -> None:
        await note(other, f"The figure is {next(numbers)}.")

    model.meanwhile = overtake
    body = await refused(board, "word1")
    assert (body["code"], body["retryable"], len(model.asked)) == ("RESOURCE_BUSY", True, 3)
    model.meanwhile = lambda: asyncio.sleep(0)
    await note(board, "word2")
    assert events(model.asked[-1]) == ["word1", "word2"]


@pytest.mark.parametrize(
    "failure", [OUT_OF_REACH, UNUSABLE, " ", "```\n```", "New events:\n- user: word2"]
)
async def test_a_failure_of_the_model_keeps_the_board_and_the_entries(
    board: Door, llm: ScriptedLlm, failure: Any
) -> None:
    llm.answers += ["word1", failure]
    await note(board, "word1")
    before = await board("whiteboard_get", **WHO)
    if failure == "New events:\n- user: word2":
        failure = llm.answers[0] = "Current memory:\nword1\n\n" + failure
    body = await refused(board, "word2")
    assert (body["code"], body["retryable"]) == ("UNAVAILABLE", True)
    assert "word" not in body["message"]
    assert await board("whiteboard_get", **WHO) == before
    llm.always = gathers
    await note(board, "word3")
    assert events(llm.asked[-1]) == ["word2", "word3"]
    assert await read(board) == "word1 word2 word3"


async def test_a_retry_of_what_failed_is_not_in_the_board_twice(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += [OUT_OF_REACH, OUT_OF_REACH]
    body = await refused(board, "yes", "no")
    assert body["retry_after_s"] == 7.0
    await refused(board, "yes", "no")
    llm.always = "a board"
    await note(board, "yes", "no", "yes")  # the retry, and what was said since
    assert [events(question) for question in llm.asked] == [
        ["yes", "no"],
        ["yes", "no"],
        ["yes", "no", "yes"],
    ]


async def test_a_retry_of_what_somebody_else_brought_in_meanwhile_is_answered_at_once(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += [OUT_OF_REACH, "a board"]
    await refused(board, "lost")
    await note(board, "another")
    assert [events(question) for question in llm.asked] == [["lost"], ["lost", "another"]]
    await note(board, "lost")
    assert len(llm.asked) == 2
    llm.answers += ["another board"]
    await note(board, "lost")  # said again
    assert events(llm.asked[-1]) == ["lost"]


async def test_what_a_model_will_never_make_a_board_of_is_given_up_and_that_is_said(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.answers += [UNUSABLE] * 3
    bodies = [await refused(board, text) for text in ("poison", "two", "three")]
    assert [body.get("entries_given_up") for body in bodies] == [None, None, 1]
    assert bodies[2]["message"].endswith("; 1 entry was dropped")
    assert "kept" not in bodies[2]["recovery"]
    llm.always = "a board"
    await note(board, "four")
    assert events(llm.asked[-1]) == ["two", "three", "four"]


async def test_all_that_was_sent_during_an_outage_is_in_the_first_prompt_after_it(
    opened: Opened, meter: RecordingMeter
) -> None:
    faults: list[tuple[Fault, bool]] = [
        ("busy", True),
        ("broken", True),
        ("refuses", False),
        ("refuses the key", False),
        ("garbage", True),
        ("another object", True),
    ]
    async with provider() as there:
        options = ModelOptions(model="openai:m", base_url=there.url, api_key="k", retries=0)
        async with model_of(options, meter) as model:
            board = opened(model)
            for fault, may_pass in faults:
                there.plan.append(fault)
                body = await refused(board, f"lost-entry {fault}")
                assert (body["code"], body["retryable"]) == ("UNAVAILABLE", may_pass), fault
                assert "entries are kept" in body["recovery"]
            await note(board, "after the outage")
        prompt = str(there.calls[-1].body)
    assert len(there.calls) == len(faults) + 1
    assert [fault for fault, _ in faults if f"lost-entry {fault}" not in prompt] == []


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(
    board: Door, llm: ScriptedLlm
) -> None:
    llm.always = gathers
    gate = Gate()
    llm.meanwhile = gate
    gone = asyncio.create_task(note(board, "word1"))
    await gate.begun.wait()
    others = [asyncio.create_task(note(board, f"word{number}")) for number in (2, 3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in (gone, others[0]):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.opened.set()
    await others[1]
    assert await read(board) == "word1 word2 word3"
    await note(board, "word1")  # who did not hear that it is in sends it again
    assert len(llm.asked) == 2


async def test_what_nobody_heard_of_is_known_again_only_as_long_as_there_is_room(
    board: Door, llm: ScriptedLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.styles.whiteboard.updates.KEPT_CHARS_MAX", 10)
    llm.always = gathers
    for said in ("word1", "word2 and more"):
        gate = Gate()
        llm.meanwhile = gate
        gone = asyncio.create_task(note(board, said))
        await gate.begun.wait()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        gate.opened.set()
        llm.meanwhile = through()
        await note(board, "word0")
        before = len(llm.asked)
        await note(board, said)
        assert len(llm.asked) - before == (0 if said == "word1" else 1)


async def test_a_model_that_is_too_slow_is_not_waited_for(opened: Opened, llm: ScriptedLlm) -> None:
    board = opened(llm, deadline_s=0.05)
    gate = Gate()
    llm.meanwhile = gate
    body = await refused(board, "word1")
    assert (body["code"], body["retryable"]) == ("UNAVAILABLE", True)
    gate.opened.set()
    llm.always = gathers
    for _ in range(100):  # the round that nobody waits for may end a moment later than the call
        try:
            await note(board, "word1")
            break
        except Refused:
            continue
    assert await read(board) == "word1"


async def test_a_failure_to_store_keeps_the_entries(
    board: Door, llm: ScriptedLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.always = gathers
    await note(board, "word1")

    def away(*_: Any, **__: Any) -> Any:
        raise MemsvcError(
            Code.UNAVAILABLE, "the database cannot be reached at the moment", retry_after_s=1.0
        )

    with monkeypatch.context() as patch:
        patch.setattr("memsvc.store.files.rewrite", away)
        assert (await refused(board, "word2"))["code"] == "UNAVAILABLE"
    assert await read(board) == "word1"
    await note(board, "word2")
    assert await read(board) == "word1 word2"


async def test_a_project_that_is_full_for_long_keeps_the_entries_all_the_same(
    board: Door, llm: ScriptedLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.always = gathers
    await note(board, "word0")

    def full(*_: Any, **__: Any) -> Any:
        raise MemsvcError(Code.QUOTA_EXCEEDED, "the project is full")

    with monkeypatch.context() as patch:
        patch.setattr("memsvc.store.files.rewrite", full)
        for number in range(1, 5):
            await refused(board, f"word{number}")
    await note(board, "word5")
    assert await read(board) == "word0 word1 word2 word3 word4 word5"


async def test_a_fault_of_ours_is_told_to_all_who_wait(
    board: Door, llm: ScriptedLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.always = gathers

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("memsvc.store.documents.put", broken)
        results = await asyncio.gather(
            *(note(board, f"word{number}") for number in range(3)), return_exceptions=True
        )
    assert [result.code for result in results if isinstance(result, Refused)] == [
        "INTERNAL_ERROR"
    ] * 3
    await note(board, "word3")
    assert await read(board) == "word0 word1 word2 word3"


async def test_the_model_sees_the_last_entries_before_the_new_ones(
    opened: Opened, llm: ScriptedLlm
) -> None:
    board = opened(llm, window_entries=4, lead_in_entries=3)
    llm.always = "a board"
    await note(board, "one", "two")
    assert "Recent context" not in llm.asked[-1].text
    await note(board, *"abcde")
    assert (
        "Recent context (already in the memory):\n- user: one\n- user: two\n\nNew events:"
        in llm.asked[-1].text
    )
    await note(board, "new")
    assert (
        "(already in the memory):\n- user: c\n- user: d\n- user: e\n\nNew events:\n- user: new\n"
        in llm.asked[-1].text
    )
    await note(board, "x", conversation_id="another")
    assert "Recent context" not in llm.asked[-1].text
    restarted = opened(llm, window_entries=4, lead_in_entries=3)
    await note(restarted, "after")
    assert "Recent context" not in llm.asked[-1].text


async def test_the_window_is_of_the_board_that_is_there(opened: Opened, llm: ScriptedLlm) -> None:
    here, there = opened(llm), opened(llm)
    llm.always = "a board"
    await note(here, "about the quokka")
    await there("whiteboard_delete", **WHO)
    await note(there, "about the walrus")
    await note(here, "about the lemur")
    assert "quokka" not in llm.asked[-1].text


async def test_only_so_many_conversations_are_remembered(opened: Opened, llm: ScriptedLlm) -> None:
    board = opened(llm, conversations_kept=2)
    llm.always = "a board"
    for name in ("a", "b", "a", "c", "a", "b"):
        await note(board, f"about {name}", conversation_id=name)
    assert ["Recent context" in question.text for question in llm.asked] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]


async def test_too_much_for_one_round_goes_in_in_several_and_nothing_is_lost(
    opened: Opened, llm: ScriptedLlm
) -> None:
    board = opened(llm, round_tok_max=200, tokens_max=5000)
    llm.always = gathers
    await note(board, *(f"word{number} is said beside some other words" for number in range(60)))
    assert len(llm.asked) > 2
    assert sorted((await read(board)).split()) == sorted(f"word{number}" for number in range(60))


async def test_one_long_entry_is_shown_in_parts(
    opened: Opened, llm: ScriptedLlm, tokens: Any
) -> None:
    board = opened(llm, round_tok_max=200, tokens_max=5000)
    llm.always = gathers
    await note(board, " ".join(f"word{number} and so on." for number in range(200)))
    assert len(llm.asked) > 3
    assert all(tokens.count("\n".join(events(question))) < 240 for question in llm.asked)
    assert len((await read(board)).split()) == 200


async def test_what_went_in_before_a_failure_is_not_sent_again(
    opened: Opened, llm: ScriptedLlm
) -> None:
    board = opened(llm, round_tok_max=200)
    said = [f"word{number} is said beside some other words, and these" for number in range(30)]
    llm.answers += [gathers, OUT_OF_REACH]
    await refused(board, *said)
    llm.always = gathers
    await note(board, *said)
    assert [
        line for question in (llm.asked[0], *llm.asked[2:]) for line in events(question)
    ] == said


async def test_a_retry_of_what_got_in_in_part_brings_in_the_rest(
    opened: Opened, llm: ScriptedLlm
) -> None:
    board = opened(llm, round_tok_max=200)
    first, second = ("the first " * 80).strip(), ("the second " * 80).strip()
    llm.answers += [OUT_OF_REACH, "has the first", OUT_OF_REACH, "has both"]
    await refused(board, first)
    await refused(board, first, second)
    await note(board, first, second)
    assert [events(question) for question in llm.asked] == [[first], [first], [second], [second]]


async def test_every_change_is_announced_when_it_is_committed(
    board: Door, llm: ScriptedLlm, admin: asyncpg.Connection, scope: Any
) -> None:
    told: list[str] = []
    await admin.add_listener("memsvc_changes", lambda *args: told.append(args[-1]))
    llm.answers += ["one", OUT_OF_REACH, "two"]
    await note(board, "x", user_id="a b")
    with pytest.raises(Refused):
        await note(board, "y", user_id="a b")
    await note(board, "z", user_id="a b")
    first = (await board("whiteboard_history", **WHO | {"user_id": "a b"}))["versions"][-1][
        "version"
    ]
    await board("whiteboard_restore", **WHO | {"user_id": "a b"}, version=first)
    await board("whiteboard_delete", **WHO | {"user_id": "a b"})
    await board("whiteboard_delete", **WHO | {"user_id": "a b"})
    await admin.execute("SELECT 1")
    assert told == [change_key(scope, "memory://a%20b/123")] * 4


async def test_calls_of_the_model_are_counted(board: Door, llm: ScriptedLlm, meter: Any) -> None:
    llm.answers += ["a board", OUT_OF_REACH]
    await board("context_update", **WHO, entries=[entry("x")])
    await refused(board, "y")
    for status in ("success", "error"):
        assert meter.total("memsvc_model_calls_total", purpose="whiteboard", status=status) == 1
