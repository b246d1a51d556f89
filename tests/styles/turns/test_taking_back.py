"""A forget can be taken back until its grace ends; then, or at once with erase, it is for good."""

from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store import index
from memsvc.store.database import Database
from memsvc.store.guard import FORGOTTEN_RESULT
from memsvc.styles.turns.facts.fact_removal import EARLIER_JOB, WIPE_JOB
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, say, texts
from tests.styles.turns.test_forgotten_words import cells
from tests.styles.turns.test_rebuild import differences

FORGET = "memory_forget"
LIST = "memory_list_facts"
MEDICATION = "What medication do I take?"
READERS: list[tuple[str, dict[str, Any]]] = [
    ("memory_before_turn", {"session_id": "new", "user_id": "ada", "current_input": MEDICATION}),
    (
        "memory_before_turn",
        {"session_id": "s1", "user_id": "ada", "current_input": "What did I say?"},
    ),
    ("memory_list_facts", {"session_id": "s1", "user_id": "ada", "state": "all"}),
    ("memory_profile", {"user_id": "ada"}),
    ("memory_list_turns", {"session_id": "s1"}),
    ("memory_list_turns", {"session_id": "s2"}),
    ("memory_list_sessions", {}),
    ("memory_list_recalls", {"session_id": "s1"}),
    ("memory_list_dir_with_abstract", {"session_id": "s1"}),
    ("search", {"query": "canarium"}),
    ("file_search", {"project": "default", "query": "canarium"}),
]
"""Tools that read memory, with arguments that would find the words."""


@pytest.fixture
def rebuilding(database: Database, clock: FakeClock, tokens: O200kCounter) -> TurnRebuild:
    """What compares rows with the files that they are made of."""
    return TurnRebuild(database, clock, tokens, TurnOptions())


async def read_all(door: Door) -> str:
    """Everything that the tools tell of the words."""
    told = [str(await door(tool, **arguments)) for tool, arguments in READERS]
    return "\n".join(told).lower()


async def told(door: Door, question: str = MEDICATION, session: str = "new") -> str:
    """What a prompt has before its question, for Ada."""
    prepared = await ask(door, question, session=session, user_id="ada")
    return "\n".join(texts(prepared["input_items"][:-1]))


async def shown(door: Door) -> list[Any]:
    """What Ada and her agent see of her two chats."""
    turns = [await door("memory_list_turns", session_id=session) for session in ("s1", "s2")]
    return [*turns, await told(door), await told(door, "wine?"), await told(door, "?", "s1")]


async def talk(door: Door) -> None:
    """Two chats that hold the same medication, and one with nothing of it."""
    await say(door, "t1", "I take canarium every day. I keep bees.", user_id="ada")
    await say(door, "t2", "Is canarium safe with wine?", session="s2", user_id="ada")
    await say(door, "t3", "We went to the lake.", session="s2", user_id="ada")


async def forget(door: Door, **arguments: Any) -> dict[str, Any]:
    return await door(
        FORGET, **{"session_id": "s1", "user_id": "ada", "dry_run": False} | arguments
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "my medication"},
        {"fact_ids": ["user_medication"]},
        {"turn_ids": ["t1"]},
    ],
)
async def test_what_was_forgotten_can_be_taken_back_whole(
    door: Door, rebuilding: TurnRebuild, scope: Scope, arguments: dict[str, Any]
) -> None:
    await talk(door)
    before = await shown(door)
    facts = await door(LIST, session_id="s1", user_id="ada", state="all")
    done = await forget(door, **arguments)
    assert "canarium" not in (await told(door)).lower()
    assert not await differences(rebuilding, scope)
    back = await door(FORGET, session_id="s1", user_id="ada", undo=done["forget_id"])
    assert back["restored"]
    assert "user_medication" in [one["fact_id"] for one in back["facts"]]
    assert await shown(door) == before
    assert await door(LIST, session_id="s1", user_id="ada", state="all") == facts
    assert not await differences(rebuilding, scope)


async def test_no_reader_shows_what_can_still_be_taken_back(
    door: Door, admin: asyncpg.Connection
) -> None:
    await talk(door)
    assert (await read_all(door)).count("canarium") > len(READERS) / 2
    await forget(door, query="my medication")
    assert "canarium" not in (await read_all(door)).replace("'query': 'canarium'", "")
    assert await cells(admin, "canarium") == []  # the words to take back are compressed
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 2


async def test_after_the_grace_nothing_is_left_to_take_back(
    door: Door, admin: asyncpg.Connection, clock: FakeClock, scope: Scope
) -> None:
    await talk(door)
    done = await forget(door, query="my medication")
    waiting = await admin.fetchval("SELECT count(*) FROM job_refs WHERE name = $1", WIPE_JOB)
    assert waiting == 1
    clock.advance(hours=24)
    await door.refuses("NOT_FOUND", FORGET, session_id="s1", user_id="ada", undo=done["forget_id"])
    await door.jobs[WIPE_JOB].run(scope, done["forget_id"])
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 0


async def test_erase_leaves_nothing_to_take_back(door: Door, admin: asyncpg.Connection) -> None:
    await talk(door)
    done = await forget(door, query="my medication", erase=True)
    assert (done["forget_id"], done["undo_until"]) == (None, None)
    assert "backups" in done["note"]
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 0
    assert await cells(admin, "canarium") == []


async def test_a_forget_can_be_made_one_for_good(door: Door, admin: asyncpg.Connection) -> None:
    await talk(door)
    done = await forget(door, query="my medication")
    await forget(door, undo=done["forget_id"], erase=True, dry_run=None)
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 0
    await door.refuses("NOT_FOUND", FORGET, session_id="s1", user_id="ada", undo=done["forget_id"])


async def test_without_a_grace_every_forget_is_for_good(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(forget_grace_hours=0)
    await talk(door)
    assert (await forget(door, query="my medication"))["forget_id"] is None
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 0


async def test_another_person_takes_nothing_back(door: Door) -> None:
    await talk(door)
    done = await forget(door, query="my medication")
    for undo in ("0123456789abcdef", "\0", "x'"):
        await door.refuses("NOT_FOUND", FORGET, session_id="s1", user_id="ada", undo=undo)
    for user in ("bob", ""):
        await door.refuses(
            "NOT_FOUND", FORGET, session_id="s1", user_id=user, undo=done["forget_id"]
        )
    assert "canarium" not in (await told(door)).lower()


async def test_what_was_forgotten_once_more_is_not_taken_back_with_the_first(door: Door) -> None:
    await say(door, "t1", "I live in Graz and I am allergic to peanuts.", user_id="ada")
    first = await forget(door, query="Graz")
    await forget(door, turn_ids=["t1"])
    await forget(door, undo=first["forget_id"], dry_run=None)
    said = await told(door, "Where do I live, and what am I allergic to?")
    assert "Graz" not in said
    assert "peanuts" not in said


async def test_two_forgets_of_a_message_are_taken_back_one_after_the_other(
    door: Door, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await say(door, "t1", "I live in Graz and I am allergic to peanuts.", user_id="ada")
    before = await told(door, "Where do I live?")
    first = await forget(door, query="Graz")
    second = await forget(door, turn_ids=["t1"])
    for done in (second, first):
        await forget(door, undo=done["forget_id"], dry_run=None)
        assert not await differences(rebuilding, scope)
    assert await told(door, "Where do I live?") == before


async def test_what_was_said_anew_holds_after_the_old_one_is_back(
    door: Door, rebuilding: TurnRebuild, scope: Scope, clock: FakeClock
) -> None:
    await say(door, "t1", "My name is Ada.", user_id="ada")
    done = await forget(door, fact_ids=["user_name"])
    clock.advance(minutes=5)
    await say(door, "t2", "My name is Ada.", session="s2", user_id="ada")
    await forget(door, undo=done["forget_id"], dry_run=None)
    facts = (await door(LIST, session_id="s1", user_id="ada", state="all"))["facts"]
    assert [(one["state"], one["evidence"]["turn_id"]) for one in facts] == [
        ("active", "t2"),
        ("superseded", "t1"),
    ]
    assert not await differences(rebuilding, scope)


async def test_resent_history_is_known_after_a_forget_and_after_it_was_taken_back(
    door: Door,
) -> None:
    await say(door, "t1", "I take canarium every day.", answer="Noted.", user_id="ada")
    await say(door, "t2", "I keep bees.", answer="Fine.", user_id="ada")
    done = await forget(door, query="my medication")
    history = ["I take canarium every day.", "Noted.", "I keep bees.", "Fine."]
    roles = ["user", "assistant"] * 2

    async def resend(turn: str) -> int:
        new = {"role": "user", "content": f"How many hives, {turn}?"}
        sent = [{"role": role, "content": text} for role, text in zip(roles, history, strict=True)]
        stored = await door(
            "memory_after_turn",
            session_id="s1",
            user_id="ada",
            turn_id=turn,
            input_items=[*sent, new],
            output_items=[{"role": "assistant", "content": "Three."}],
        )
        history.extend([new["content"], "Three."])
        roles.extend(["user", "assistant"])
        return int(stored["stored_items"])

    assert await resend("t3") == 2
    await forget(door, undo=done["forget_id"], dry_run=None)
    assert await resend("t4") == 2


async def test_a_summary_keeps_no_version_of_what_was_forgotten(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=1)
    await say(door, "t1", "I take canarium every day, as the doctor said.", user_id="ada")
    for number in range(2, 6):
        await say(door, f"t{number}", f"The lake is {number} miles away.", user_id="ada")
    await door("memory_run_maintenance", session_id="s1")
    await say(door, "t9", "The canoe is green.", user_id="ada")
    await door("memory_run_maintenance", session_id="s1")
    assert await cells(admin, "canarium") != []
    await forget(door, query="my medication", erase=True)
    assert await cells(admin, "canarium") == []


async def test_the_answer_names_what_else_holds_the_value(door: Door) -> None:
    await talk(door)
    await door(
        "file_write", project="default", path="/notes/health.md", content="Ada takes canarium."
    )
    said = [{"role": "user", "content": "I take canarium every day."}]
    await door("memories_add", user_id="ada", messages=said)
    await door("elfmem_remember", content="Canarium is taken in the morning.")
    await door("file_write", project="default", path="/notes/bees.md", content="Bees like clover.")
    shown = await door(FORGET, session_id="s1", user_id="ada", query="my medication")
    found = {(one["kind"], one["id"].split("_")[0]) for one in shown["also_in"]}
    assert ("files", "/notes/health.md") in found
    assert {kind for kind, _ in found} == {"files", "memories", "knowledge"}


@pytest.mark.parametrize(
    "arguments",
    [{}, {"undo": "x", "query": "y"}, {"undo": "x", "turn_ids": ["t1"]}],
)
async def test_undo_stands_alone(door: Door, arguments: dict[str, Any]) -> None:
    await door.refuses("INVALID_ARGUMENT", FORGET, session_id="s1", user_id="ada", **arguments)


async def test_what_an_older_version_only_hid_loses_its_words(
    opened: Opened, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    door = opened(recent_context_items=0)
    await talk(door)
    await say(door, "t4", "Zebulon came to tea.", session="s2", user_id="ada")
    await admin.execute(
        "UPDATE facts SET state = 'deleted', forgotten = true, valid_to = now()"
        " WHERE fact_id = 'user_medication'"
    )
    await admin.execute(
        "UPDATE guards SET fingerprint = '', result = $1 WHERE turn = 't4'",
        orjson.dumps(dict(FORGOTTEN_RESULT)).decode(),
    )
    assert door.database is not None
    async with door.database.begin(scope) as tx:
        for row in await admin.fetch(
            "SELECT e.book, e.entry, e.text, e.cues FROM entries AS e LEFT JOIN facts AS f"
            " ON f.book = e.book AND f.entry = e.entry WHERE e.ref = 't4-in-0' OR f.forgotten"
        ):
            indexed = index.indexed_text(row["text"], row["cues"])
            await index.hide(tx, row["book"], {row["entry"]: indexed}, searched_elsewhere=True)
    await door.jobs[EARLIER_JOB].run(scope, "")
    for word in ("canarium", "zebulon"):
        assert await cells(admin, word) == []
    assert await admin.fetchval("SELECT count(*) FROM forgets") == 0
    assert not await differences(rebuilding, scope)
    assert "bees" in await told(door, "Do I keep bees?")
