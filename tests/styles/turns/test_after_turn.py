"""A turn is stored once and whole, and what came out of memory does not go in again."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code
from memsvc.styles.turns import turn_items
from memsvc.styles.turns.turns import SHARED_NOTE
from tests.door import Door, Refused
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    assistant,
    developer,
    events,
    file_paths,
    file_records,
    file_text,
    memory,
    say,
    snapshot,
    texts,
    unblocked,
    user,
    values,
)

AFTER = "memory_after_turn"
WHOLE: list[dict[str, Any]] = [
    developer("Be brief."),
    user(
        "Look at this.",
        metadata={"item_id": "client-7", "speaker": "Ada"},
        id="msg_1",
        status="completed",
    ),
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "A picture:"},
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0KGgo=",
                "detail": "low",
            },
            {"type": "input_file", "file_id": "file-1", "filename": "メモ.pdf"},
            {"type": "from_the_future", "payload": {"a": [1, 2.5, None, True, "x"]}},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "look",
        "arguments": '{"q": "bees",  "n": 1}',
    },
    {"type": "function_call_output", "call_id": "c1", "output": "three\u2028bees\u0000"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "listed"}],
    },
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "bees"}},
]


async def test_whole_items_come_back_as_they_were_in_their_order(door: Door) -> None:
    # a function call keeps its name and arguments
    outputs = [
        assistant("Done.", id="msg_2"),
        {"type": "mcp_call", "name": "x", "arguments": "{}", "output": None},
    ]
    stored = await door(
        AFTER, session_id="s1", turn_id="t1", input_items=WHOLE, output_items=outputs
    )
    assert (stored["ok"], stored["turn_id"], stored["stored_items"], stored["note"]) == (
        True,
        "t1",
        10,
        None,
    )
    prepared = await ask(door, "next")
    assert unblocked(prepared)[:-1] == WHOLE + outputs
    records = await events(door)
    assert [record["item"] for record in records] == WHOLE + outputs
    assert [record["id"] for record in records] == [
        *(f"t1-in-{n}" for n in range(8)),
        "t1-out-0",
        "t1-out-1",
    ]
    assert [record["type"] for record in records] == ["input_item"] * 8 + ["output_item"] * 2
    assert records[1]["item_id"] == "client-7"


async def test_texts_as_content_come_back_as_parts(door: Door) -> None:
    given = [{"role": "user", "content": "hi"}]
    await door(
        AFTER,
        session_id="s1",
        turn_id="t1",
        input_items=given,
        output_items=[{"role": "assistant", "content": "ho"}],
    )
    assert (await ask(door, "next"))["input_items"][:2] == [user("hi"), assistant("ho")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "input_items"),
        ({"input_items": [], "output_items": []}, "input_items"),
        ({"input_items": None, "output_items": None, "conversation_items": None}, "input_items"),
        ({"input_items": "hello"}, "input_items"),
        ({"input_items": [user("a")], "output_items": "hello"}, "output_items"),
        ({"input_items": [{"role": "user", "content": 5}]}, "input_items[0].content"),
        ({"input_items": [user("a")], "output_items": [None]}, "output_items[0]"),
        ({"input_items": [user("a")], "turn_id": "x" * 129}, "turn_id"),
        ({"input_items": [user("a")], "user_id": "a\tb"}, "user_id"),
        ({"input_items": [user("a")], "current_input": []}, "current_input"),
        ({"input_items": [user("a")] * 2001}, "2000"),
        ({"input_items": [user("a"), {"role": "user"}]}, "input_items[1].content is required"),
        (
            {"input_items": [{"role": "user", "content": None}]},
            "input_items[0].content is required",
        ),
        (
            {"input_items": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input_items[0].content[0].text is required",
        ),
        ({"input_items": [{"role": "banana", "content": "x"}]}, "input_items[0].role must be one"),
        (
            {"input_items": [user("a", metadata={"occurred_at": "9998-12-31"})]},
            "input_items[0].metadata.occurred_at is more than a day after the server's time",
        ),
    ],
)
async def test_what_is_no_turn_is_refused_and_nothing_is_written(
    door: Door, admin: asyncpg.Connection, given: dict[str, Any], said: str
) -> None:
    before = await snapshot(admin)
    assert said in (await door.refuses("INVALID_ARGUMENT", AFTER, **given))["message"]
    assert await snapshot(admin) == before


async def test_a_turn_without_an_id_gets_one_and_is_told_that_it_cannot_be_retried(
    door: Door,
) -> None:
    first = await door(AFTER, session_id="s1", input_items=[user("hi")])
    second = await door(AFTER, session_id="s1", input_items=[user("hi")])
    assert first["turn_id"].startswith("turn-")
    assert first["turn_id"] != second["turn_id"]
    assert "no turn_id was given" in first["note"]
    assert len(await events(door)) == 2


async def test_a_whole_conversation_stores_its_current_input_alone(door: Door) -> None:
    conversation = [
        user("old"),
        assistant("older"),
        user("new one"),
        user("new two"),
        user("beyond"),
    ]
    stored = await door(
        AFTER,
        session_id="s1",
        turn_id="t1",
        conversation_items=conversation,
        current_input_start=2,
        current_input_count=2,
        input_items=[user("ignored")],
        output_items=[assistant("answer")],
    )
    assert stored["stored_items"] == 3
    assert texts([record["item"] for record in await events(door)]) == [
        "new one",
        "new two",
        "answer",
    ]


async def test_outputs_alone_are_a_turn(door: Door) -> None:
    assert (await door(AFTER, session_id="s1", turn_id="t1", output_items=[assistant("ping")]))[
        "stored_items"
    ] == 1


async def test_recalled_context_and_memory_that_come_back_are_not_stored_again(
    opened: Opened,
) -> None:
    # what is persisted does not echo, however often the client sends everything it was given
    door = opened(recent_context_items=4)
    for turn in range(9):
        question = f"My name is Ada{turn}. Do bees number {turn} live in Zanzibar?"
        prepared = await door("memory_before_turn", session_id="s1", current_input=question)
        await door(
            AFTER,
            session_id="s1",
            turn_id=f"t{turn}",
            input_items=prepared["input_items"],
            output_items=[assistant(f"Bees {turn} do.")],
        )
        assert texts([record["item"] for record in await events(door)])[-2:] == [
            question,
            f"Bees {turn} do.",
        ]
    assert len(await events(door)) == 18


async def test_an_echo_is_known_though_other_turns_were_stored_since_it_was_prepared(
    door: Door,
) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello Ada.")
    prepared = await door(
        "memory_before_turn", session_id="s1", current_input="Anything on chromodynamics?"
    )
    assert "My name is Ada." in texts(prepared["input_items"])
    await say(door, "t2", "My name is Grace.", answer="Hello Grace.")
    await door(
        AFTER,
        session_id="s1",
        turn_id="t3",
        input_items=prepared["input_items"],
        output_items=[assistant("No.")],
    )
    assert len(await events(door)) == 6
    assert values(await ask(door, "What is my name?")) == ["Grace"]


async def test_instructions_before_a_prepared_input_are_stored_once(door: Door) -> None:
    rules = developer("Be brief.")
    for turn in range(5):
        prepared = await door(
            "memory_before_turn", session_id="s1", current_input=f"Bees number {turn}?"
        )
        given = [rules, *prepared["input_items"]]
        await door(
            AFTER,
            session_id="s1",
            turn_id=f"t{turn}",
            input_items=given,
            output_items=[assistant(f"Yes {turn}")],
        )
    assert texts([record["item"] for record in await events(door)]).count("Be brief.") == 1
    assert len(await events(door)) == 11


async def test_a_client_that_always_sends_its_whole_conversation_grows_the_store_by_what_is_new(
    door: Door,
) -> None:
    conversation: list[Any] = []
    for turn in range(60):
        conversation.append(user(f"Question {turn}"))
        prepared = await door(
            "memory_before_turn",
            session_id="s1",
            conversation_items=conversation,
            current_input_start=len(conversation) - 1,
        )
        await door(
            AFTER, session_id="s1", turn_id=f"t{turn}", input_items=prepared["input_items"],
            output_items=[assistant(f"Answer {turn}")],
        )  # fmt: skip
        conversation.append(assistant(f"Answer {turn}"))
    assert [record["item"] for record in await events(door)] == conversation


async def test_what_is_said_again_is_stored_again(door: Door) -> None:
    # "yes" and "yes" are two items
    for turn in ("t1", "t2", "t3"):
        await say(door, turn, "yes", "yes", answer="ok")
    assert texts([record["item"] for record in await events(door)]) == ["yes", "yes", "ok"] * 3


async def test_an_input_of_nothing_but_recalled_memory_is_refused(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My name is Ada.")
    prepared = await ask(door, "What is my name?")
    blocked = prepared["input_items"][:2]
    await door.refuses(
        "INVALID_ARGUMENT", AFTER, session_id="s1", turn_id="t2", input_items=blocked
    )
    await door.refuses(
        "INVALID_ARGUMENT", AFTER, session_id="s1", turn_id="t2", output_items=blocked
    )
    assert len(await events(door)) == 1


async def test_the_same_turn_again_gets_the_same_answer_and_changes_nothing(
    door: Door, admin: asyncpg.Connection, clock: FakeClock, meter: RecordingMeter
) -> None:
    first = await say(door, "t1", "My name is Ada.", answer="Hello.", user_id="u1")
    rows = await snapshot(admin)
    clock.advance(hours=5)
    assert await say(door, "t1", "My name is Ada.", answer="Hello.", user_id="u1") == first
    await say(door, "t2", "Then more.")
    assert await say(door, "t1", "My name is Ada.", answer="Hello.", user_id="u1") == first
    assert {name: len(held) for name, held in rows.items()}["facts"] == 1
    assert len(await events(door)) == 3
    assert meter.total("mcp_memory_idempotency_conflicts_total") == 0


@pytest.mark.parametrize(
    "other",
    [
        {"input_items": [user("My name is Bob.")], "output_items": [assistant("Hello.")]},
        {"input_items": [user("My name is Ada.")], "output_items": [assistant("Hello!")]},
        {"input_items": [user("My name is Ada.")]},
        {"input_items": [user("My name is Ada."), assistant("Hello.")]},
        {"input_items": [user("My name is Ada.", id="new")], "output_items": [assistant("Hello.")]},
    ],
)
async def test_the_same_turn_with_other_items_is_a_conflict(
    door: Door, admin: asyncpg.Connection, meter: RecordingMeter, other: dict[str, Any]
) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello.")
    rows = await snapshot(admin)
    await door.refuses("CONFLICT", AFTER, session_id="s1", turn_id="t1", **other)
    assert meter.total("mcp_memory_idempotency_conflicts_total") == 1
    assert await snapshot(admin) == rows


async def test_a_retry_that_echoes_what_was_recalled_is_the_same_turn(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello Ada.")
    prepared = await ask(door, "What is my name?", turn_id="t2")
    given = {"session_id": "s1", "turn_id": "t2", "output_items": [assistant("Ada.")]}
    first = await door(AFTER, **given, input_items=prepared["input_items"])
    assert await door(AFTER, **given, input_items=prepared["input_items"]) == first
    assert await door(AFTER, **given, input_items=unblocked(prepared)) == first
    assert await door(AFTER, **given, input_items=[user("What is my name?")]) == first
    await say(door, "t3", "More.", answer="Yes.")
    assert await door(AFTER, **given, input_items=prepared["input_items"]) == first
    assert len(await events(door)) == 6


async def test_a_client_that_starts_its_turn_over_after_a_lost_answer_is_answered_from_memory(
    door: Door,
) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello Ada.")
    given = {"session_id": "s1", "turn_id": "t2", "output_items": [assistant("Ada.")]}
    lost = await door(AFTER, **given, input_items=[user("What is my name?")])
    prepared = await ask(door, "What is my name?", turn_id="t2")
    assert await door(AFTER, **given, input_items=prepared["input_items"]) == lost


async def test_the_same_turn_id_in_two_sessions_is_two_turns(door: Door) -> None:
    await say(door, "t1", "My name is Ada. I like tea.", session="one", user_id="u1")
    await say(door, "t1", "My name is Grace. I like jazz.", session="two", user_id="u1")
    assert len(await events(door, "one")) == len(await events(door, "two")) == 1
    prepared = await ask(door, "What is my name and what are my favourite things?", user_id="u1")
    assert sorted(values(prepared)) == ["Grace", "jazz", "tea"]


async def test_a_turn_is_found_the_moment_it_is_stored(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "The zebra crossed in Zanzibar.", answer="Striking.")
    [first, *_] = memory(await ask(door, "Where did the zebra cross?"))["turns"]
    assert (first["turn"], first["role"], first["text"]) == (
        "t1",
        "user",
        "The zebra crossed in Zanzibar.",
    )


async def test_long_items_are_shown_around_what_was_asked(opened: Opened) -> None:
    door = opened(recent_context_items=0, snippet_chars_max=100)
    await say(door, "t1", f"{'blah ' * 200}the zebra crossed in Zanzibar {'blub ' * 200}")
    [shown] = memory(await ask(door, "Where did the zebra cross?"))["turns"]
    assert "zebra crossed" in shown["text"]
    assert len(shown["text"]) <= 102
    assert shown["text"][0] == shown["text"][-1] == "…"


async def test_the_best_of_long_items_are_shown_at_most_length(opened: Opened) -> None:
    door = opened(recent_context_items=0, recall_tok_max=4000)
    for number in range(8):
        words = " ".join(f"Word{number}of{at} and its zebra." for at in range(60))
        await say(door, f"t{number}", f"{words} {'Zanzibar ' * number}")
    shown = memory(await ask(door, "Which zebra crossed in Zanzibar?"))["turns"]
    lengths = sorted((len(one["text"].replace("…", "")) for one in shown), reverse=True)
    for length, chars in zip(lengths, (900, 600, 450, 450, 450, 300, 300, 300), strict=True):
        assert 0.9 * chars < length < 1.05 * chars


async def test_files_that_the_engine_keeps_are_never_recalled(opened: Opened) -> None:
    # summaries and state are no memories
    door = opened(recent_context_items=0)
    await say(door, "t1", "Zebras.", answer="Yes.")
    await door("memory_run_maintenance", session_id="s1")
    prepared = await ask(
        door, "directory overview snapshot of raw events, watermarks and policy in force"
    )
    assert len(prepared["input_items"]) == 1


async def test_the_rendered_files_tell_the_state_of_the_session(opened: Opened) -> None:
    door = opened(recent_context_items=3, max_processed_turns=2)
    for turn in ("t1", "t2", "t3"):
        await say(door, turn, f"Hello {turn}. I like {turn}.", answer="Hi.", user_id="u1")
    root = "/memory/s1"
    assert {path.removeprefix(root) for path in await file_paths(door, root)} == {
        "/events/raw/2026/01/05/log-20260105.jsonl",
        "/indexes/active_facts.json",
        "/memory_tiers/L2/2026/02/facts-2026-W02.jsonl",
        "/meta/metrics.json",
        "/meta/policy.json",
        "/meta/state.json",
        "/meta/watermarks.json",
        "/runtime/context/current.jsonl",
    }
    state = await file_text(door, f"{root}/meta/state.json")
    assert '"t3"' in state
    assert '"t1"' not in state
    context = await file_records(door, f"{root}/runtime/context/current.jsonl")
    assert [record["id"] for record in context] == ["t2-out-0", "t3-in-0", "t3-out-0"]
    assert '"active_fact_count": 3' in await file_text(door, f"{root}/meta/watermarks.json")


async def test_hostile_names_are_sessions_of_their_own(door: Door) -> None:
    names = [
        "s1",
        "s10",
        "s_1",
        "sx1",
        "s%1",
        "../s1",
        "..",
        ".",
        "a/b",
        "a%2Fb",
        "メモ",
        "x" * 128,
        "' OR 1=1 --",
    ]
    for number, name in enumerate(names):
        await say(door, "t1", f"My name is Name{number}.", session=name)
    for number, name in enumerate(names):
        assert values(await ask(door, "What is my name?", session=name)) == [f"Name{number}"]
    assert len((await door("file_list", project="default", path="/memory"))["entries"]) == len(
        names
    )


async def test_names_that_look_the_same_are_the_same(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", session="caf\u00e9")
    assert values(await ask(door, "What is my name?", session="cafe\u0301")) == ["Ada"]


@pytest.mark.parametrize(
    "path",
    [
        "/memory/s1/events/raw/2026/01/05/log-20260105.jsonl",
        "/memory/s1/events",
        "/memory/s1/notes.txt",
        "/memory/s1/meta/state.json",
        "/memory",
    ],
)
async def test_callers_cannot_write_where_memory_keeps_its_files_even_before_it_does(
    door: Door, path: str
) -> None:
    with pytest.raises(Refused) as refused:
        await door(
            "file_write", project="default", path=path, content="garbage without an end of line"
        )
    assert refused.value.code is Code.PERMISSION_DENIED
    await say(door, "t1", "My name is Ada.")
    assert len(await events(door)) == 1


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "parts": [{"text": "I am allergic to nuts."}]},
        {"role": "user", "text": "I am allergic to nuts."},
        {"type": "human", "content": "I am allergic to nuts."},
    ],
)
async def test_message_of_another_api_is_learned_from(door: Door, item: dict[str, Any]) -> None:
    stored = await door("memory_after_turn", session_id="s1", turn_id="t1", input_items=[item])
    assert (stored["fact_ids"], stored["note"]) == (["user_allergy"], None)


async def test_text_that_is_not_read_is_named_in_the_note(door: Door) -> None:
    items = [{"role": "user", "content": "Hi."}, {"role": "user", "message": "I am a baker."}]
    said = {"session_id": "s1", "turn_id": "t1", "input_items": items}
    stored = await door("memory_after_turn", **said)
    assert (stored["stored_items"], stored["fact_ids"]) == (2, [])
    assert "input_items[1].message" in stored["note"]
    many = [{"role": "user", "message": "I am a baker."}] * 9
    stored = await door("memory_after_turn", session_id="s1", turn_id="t2", input_items=many)
    assert "input_items[4].message and 4 more" in stored["note"]


async def test_message_without_a_role_is_of_the_side_that_it_is_given_for(door: Door) -> None:
    await door(
        AFTER,
        session_id="s1",
        turn_id="t1",
        input_items=[{"content": "I live in Graz."}],
        output_items=[{"content": "A fine town."}],
    )
    expected = [user("I live in Graz."), assistant("A fine town."), user("Where do I live?")]
    assert unblocked(await ask(door, "Where do I live?")) == expected


async def test_message_that_no_api_takes_is_not_sent_to_the_model(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(door, "t1", "Hello.", answer="Good morning.")
    monkeypatch.setattr(turn_items, "check_sendable", lambda *_: None)  # as older versions did
    unsendable = [
        {"role": "user", "message": "I am a baker."},
        {"role": "banana", "content": "x"},
        {"role": "user", "content": [{"type": "input_text"}]},
    ]
    await door(AFTER, session_id="s1", turn_id="t2", input_items=unsendable)
    await say(door, "t3", "It rained.", answer="Then stay in.")
    prepared = await ask(door, "What now?")
    said = [
        user("Hello."),
        assistant("Good morning."),
        user("It rained."),
        assistant("Then stay in."),
    ]
    assert unblocked(prepared) == [*said, user("What now?")]


async def test_the_turn_of_a_second_user_says_that_the_session_is_shared_from_then_on(
    door: Door,
) -> None:
    first = await say(door, "t1", "Good morning.", session="room", user_id="ada")
    nobody = await say(door, "t2", "Good morning.", session="room")
    second = await say(door, "t3", "Good morning to you.", session="room", user_id="bo")
    again = await say(door, "t3", "Good morning to you.", session="room", user_id="bo")
    third = await say(door, "t4", "It is me again.", session="room", user_id="ada")
    assert [one["note"] for one in (first, nobody, second, again, third)] == [
        *(None, None, SHARED_NOTE, SHARED_NOTE, None),
    ]
    [listed] = (await door("memory_list_sessions", q="room"))["sessions"]
    assert listed["shared"]
