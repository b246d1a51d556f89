"""A long text loses no turn: it is kept whole, found by its first part, and never in the way of the
next turn."""

import asyncpg
import orjson
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.items import Item
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from migrations.schema import TENANT_TABLES
from tests.administration.archived import exported, restored
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say, texts, user

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PASTE = "The walrus sleeps. " + "Line of a paste, é and 中. " * 13_950
PASTE += "z" * (348_853 - len(PASTE) - 17) + " The narwhal ends"
WHOLE = 4_000_000
FILE = "/memory/s1/events/raw/2026/01/05/log-20260105.jsonl"


async def stored(door: Door) -> list[Item]:
    """The items in the session's file of events."""
    size = (await door("file_stat", project="default", path=FILE))["size"]
    content = b""
    while len(content) < size:
        page = await door(
            "file_read", project="default", path=FILE, offset=len(content), length=2_000_000
        )
        content += page["content"].encode()
    return [orjson.loads(line).get("item") for line in content.splitlines()]


@pytest.mark.parametrize(
    "text", [PASTE, "walrus " * (WHOLE // 7)], ids=["348,853 characters", "4 MB"]
)
async def test_a_long_text_is_kept_whole_and_once(
    door: Door, text: str, admin: asyncpg.Connection
) -> None:
    first = await say(door, "t1", "I like rain.", text, answer="Noted.", user_id="u")
    assert first["stored_items"] == 3
    assert await say(door, "t1", "I like rain.", text, answer="Noted.", user_id="u") == first
    await door.refuses(
        "CONFLICT",
        "memory_after_turn",
        session_id="s1",
        turn_id="t1",
        input_items=[user(text + "!")],
    )
    assert (await stored(door))[1] == user(text)
    kept = await admin.fetchval("SELECT max(length(text)) FROM entries WHERE ref = 't1-in-1'")
    assert kept == TurnOptions().text_chars_max


async def test_a_long_text_is_found_by_its_first_part_alone(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", PASTE)
    for number in range(9):
        await say(door, f"t{number + 2}", f"Something else, number {number}.", answer="Yes.")
    found = memory(await ask(door, "Where does the walrus sleep?"))["turns"]
    assert "The walrus sleeps." in str(found)
    assert len(str(found)) < 1000
    assert memory(await ask(door, "What of the narwhal?"))["turns"] == []


async def test_a_text_that_no_prompt_holds_does_not_stand_in_the_way_of_the_next_turn(
    door: Door, tokens: O200kCounter
) -> None:
    text = "walrus " * (WHOLE // 7)
    await say(door, "t1", "I like rain.", text, answer="Noted.", user_id="u")
    prepared = await ask(door, "What do I like?", user_id="u")
    assert texts(prepared["input_items"][-2:]) == ["Noted.", "What do I like?"]
    assert "rain" in str(memory(prepared)["facts"])
    roomy = await ask(door, "What do I like?", user_id="u", max_input_tok=5_000_000)
    assert text in texts(roomy["input_items"])
    echo = [*prepared["input_items"], user("And then?")]
    assert (await door("memory_after_turn", session_id="s1", turn_id="t2", input_items=echo))[
        "stored_items"
    ] == 2


async def test_a_text_that_no_file_could_hold_is_refused_by_name_and_nothing_is_stored(
    door: Door, admin: asyncpg.Connection
) -> None:
    items = [user("I like rain."), user("x" * TurnOptions().item_bytes_max)]
    told = await door.refuses(
        "PAYLOAD_TOO_LARGE", "memory_after_turn", turn_id="t1", input_items=items
    )
    assert told["message"].startswith("input_items[1] has 10000")
    assert not [
        table for table in TENANT_TABLES if await admin.fetchval(f"SELECT count(*) FROM {table}")
    ]


async def test_a_long_text_is_carried_rebuilt_forgotten_and_purged_like_any_other(
    door: Door,
    other_call: Door,
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    scope: Scope,
    admin: asyncpg.Connection,
) -> None:
    await say(door, "t1", PASTE)
    await say(door, "t2", "walrus " * (WHOLE // 7))
    rebuilding = TurnRebuild(database, clock, tokens, TurnOptions())
    assert not await rebuilding.check(scope, "s1")
    await restored(other_call, await exported(door))
    assert await stored(other_call) == await stored(door)
    await door("memory_forget", session_id="s1", turn_ids=["t1"], dry_run=False)
    assert "walrus sleeps" not in str(memory(await ask(door, "Where does the walrus sleep?")))
    await door("tenant_purge", project="default", level="session", name="s1", confirm="s1")
    left = await admin.fetchval(
        "SELECT coalesce(sum(length(content)), 0) FROM blocks WHERE tenant = $1", scope.tenant
    )
    assert left < 1000
