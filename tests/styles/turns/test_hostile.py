"""What a fresh reader of the code found could go wrong, each as a test that it does not."""

from datetime import UTC, datetime
from time import process_time

from memsvc.core.analysis import parse_date_names
from memsvc.core.items import user_message
from memsvc.core.rules.extraction import STATEMENTS_MAX, extract
from memsvc.styles.turns.maintenance.directories import DirectoryStats, total_statistics
from tests.door import Door
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, say, values

NOW = datetime(2026, 1, 5, tzinfo=UTC)

QUICK_S = 5.0
"""What takes seconds when it is quadratic takes milliseconds when it is not."""


async def test_a_newer_name_hides_the_older_one_even_where_only_the_older_one_shares_words_with_the_question(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My name is Bob Paris.")
    await say(door, "t2", "My name is Alice Berlin.", user_id="u1")
    assert values(await ask(door, "What about Paris, Bob?", user_id="u1")) == []


async def test_what_the_budget_drops_from_the_recent_context_is_recalled_instead(
    door: Door,
) -> None:
    await say(door, "t1", "The vault combination is walrus kumquat.")
    for number in range(2, 11):
        await say(door, f"t{number}", f"Tale {number}: " + "blah " * 120)
    prepared = await ask(door, "What is the vault combination?", max_input_tok=1000)
    assert "walrus kumquat" in str(prepared["input_items"])
    assert prepared["context_token_count"] <= 1000


async def test_nothing_is_shown_both_in_the_block_and_in_the_recent_context(door: Door) -> None:
    for number in range(6):
        await say(door, f"t{number}", f"The vault number {number} holds kumquat {number}.")
    for limit in range(150, 2500, 150):
        shown = str(
            (await ask(door, "Which vault holds kumquat?", max_input_tok=limit))["input_items"]
        )
        for number in range(6):
            assert shown.count(f"The vault number {number} holds") <= 1


async def test_a_question_behind_a_long_paste_is_found(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "The vault combination is walrus kumquat.")
    for number in range(2, 12):
        await say(door, f"t{number}", "The paste speaks of blah and blub.")
    question = "paste speaks blah blub. " * 1000 + "What is the vault combination?"
    assert "walrus kumquat" in str((await ask(door, question))["input_items"][:-1])


async def test_a_user_who_says_yes_again_is_not_taken_for_an_echo(door: Door) -> None:
    await say(door, "t1", "yes")
    items = [user_message("yes"), user_message("go on with it")]
    stored = await door("memory_after_turn", session_id="s1", turn_id="t2", input_items=items)
    assert stored["stored_items"] == 2


async def test_why_nothing_was_recalled_is_explained(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    for number in range(30):
        await say(door, f"t{number}", f"The garden party number {number} was fun.")
    prepared = await ask(
        door, "What does the word garden zyzzyva qwyjibo frobnicate mean?", explain=True
    )
    assert len(prepared["input_items"]) == 1
    reasons = {one["reason"] for one in prepared["explanation"]["candidates"]}
    assert reasons == {"nothing of its session is relevant enough"}


def test_hostile_texts_are_read_in_a_moment() -> None:
    started = process_time()
    assert parse_date_names("may " * 250_000) == []
    likes = [("e", "i like a," * 100_000)]
    assert len(extract(likes, session="s", turn="t", user="")) == STATEMENTS_MAX
    assert process_time() - started < QUICK_S


def test_many_directories_are_summed_up_in_a_moment() -> None:
    census = [
        DirectoryStats(f"/memory/s{number}/events/raw", 1, 0, 1, NOW, NOW, ())
        for number in range(3000)
    ]
    started = process_time()
    assert total_statistics(census, "/memory")["/memory"].directories == 9000
    assert process_time() - started < QUICK_S
