"""After a change of mind the old fact is shown to nobody, and the new one to whoever asks."""

import pytest

from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, file_records, recalled_facts, say, values
from tests.styles.turns.updates import Update, updates

UPDATES = updates()


def test_there_are_two_hundred_updates() -> None:
    assert len(UPDATES) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("user", ["", "u1"])
async def test_no_stale_fact_is_shown_after_an_update_and_the_fresh_one_is(
    opened: Opened, user: str
) -> None:
    door = opened(recent_context_items=0)
    unknown: list[Update] = []
    stale: list[Update] = []
    missing: list[Update] = []
    for number, update in enumerate(UPDATES):
        who = {"session": f"s{number}", "user_id": f"{user}{number}" if user else ""}
        await say(door, "t1", update.first, **who)
        before = await recalled_facts(door, await ask(door, update.question, **who), **who)
        told = {fact_id for fact_id, value in before if value == update.old}
        unknown += [] if told else [update]
        await say(door, "t2", update.later, **who)
        shown = await recalled_facts(door, await ask(door, update.question, **who), **who)
        question = f"{update.old}? What do you know about me?"
        everything = await recalled_facts(door, await ask(door, question, **who), **who)
        # what was liked may be disliked by now: that is another fact
        stale += [
            update
            for fact_id, value in (*shown, *everything)
            if value == update.old and fact_id in told
        ]
        missing += [update] if update.new and update.new not in [v for _, v in shown] else []
    assert (stale, missing, unknown) == ([], [], [])


@pytest.mark.parametrize(
    ("first", "later", "question", "fact_id", "shown"),
    [
        ("I like jazz.", "I hate jazz.", "What do I like?", "user_like", []),
        ("I like jazz.", "I hate jazz.", "What do I dislike?", "user_dislike", ["jazz"]),
        ("I hate jazz.", "I love jazz.", "What do I like?", "user_like", ["jazz"]),
        ("I hate jazz.", "I love jazz.", "What do I dislike?", "user_dislike", []),
        (
            "I like jazz. I like tea.",
            "I no longer like jazz.",
            "What do I like?",
            "user_like",
            ["tea"],
        ),
        ("I live in Paris.", "I don't live in Berlin.", "Where do I live?", "user_home", ["Paris"]),
        (
            "I live in Paris.",
            "I moved: I live in Vienna now.",
            "Where do I live?",
            "user_home",
            ["Vienna"],
        ),
        (
            "I live in Paris.",
            "Ich bin umgezogen: Ich wohne jetzt in Wien.",
            "Wo wohne ich?",
            "user_home",
            ["Wien"],
        ),
        (
            "I live in Paris.",
            "Bob moved: I live in Vienna now.",
            "Where do I live?",
            "user_home",
            ["Paris"],
        ),
        (
            "I'm allergic to nuts and eggs.",
            "I'm not allergic to eggs.",
            "My allergies?",
            "user_allergy",
            ["nuts"],
        ),
        ("Hello.", "I no longer like jazz.", "What do I like?", "user_like", []),
        ("I work at Shell.", "I quit my job at Shell.", "Where do I work?", "user_employer", []),
        ("I work at Shell.", "I quit my job last week.", "Where do I work?", "user_employer", []),
        ("I work at Shell.", "I left Shell last month.", "Where do I work?", "user_employer", []),
        (
            "I work at Shell.",
            "I left Paris last month.",
            "Where do I work?",
            "user_employer",
            ["Shell"],
        ),
        ("My dog is called Rex.", "Rex died last week.", "What is my dog called?", "user_pet", []),
        (
            "My dog is called Rex.",
            "Elvis died in 1977.",
            "What is my dog called?",
            "user_pet",
            ["Rex"],
        ),
        ("I live in Rome.", "Forget that I live in Rome.", "Where do I live?", "user_home", []),
        (
            "I live in Rome.",
            "Forget that I live in Oslo.",
            "Where do I live?",
            "user_home",
            ["Rome"],
        ),
        ("I live in Rome.", "Please forget where I live.", "Where do I live?", "user_home", []),
        ("My name is Ada.", "Forget my name", "What is my name?", "user_name", []),
        ("Ich wohne in Rom.", "Vergiss bitte, wo ich wohne.", "Wo wohne ich?", "user_home", []),
        (
            "J'habite à Rome.",
            "Oublie que j'habite à Rome.",
            "Où est-ce que j'habite ?",
            "user_home",
            [],
        ),
        ("Me llamo Ada.", "Olvida mi nombre.", "¿Cómo me llamo?", "user_name", []),
        (
            "東京に住んでいます。",
            "東京に住んでいることは忘れて。",
            "私はどこに住んでいますか？",
            "user_home",
            [],
        ),
        (
            "東京に住んでいます。",
            "大阪に住んでいることは忘れて。",
            "私はどこに住んでいますか？",
            "user_home",
            ["東京"],
        ),
        ("私の名前は花子です。", "私の名前を忘れてください。", "私の名前は？", "user_name", []),
        (
            "私の名前は花子です。",
            "私の名前を忘れないでください。",
            "私の名前は？",
            "user_name",
            ["花子"],
        ),
        (
            "私の名前は花子です。",
            "犬を飼っています。名前はポチです。",
            "私の名前は？",
            "user_name",
            ["花子"],
        ),
    ],
)
async def test_what_cannot_hold_together_does_not(
    opened: Opened, first: str, later: str, question: str, fact_id: str, shown: list[str]
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", first)
    await say(door, "t2", later)
    facts = await recalled_facts(door, await ask(door, question))
    assert sorted(value for found, value in facts if found == fact_id) == shown


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Where do I live?", {"user_home"}),
        ("What is my name?", {"user_name"}),
        ("What is my job?", {"user_job"}),
        ("What is my daughter's name?", {"user_kin"}),
        ("What is my dog called?", {"user_pet"}),
        ("What is my dog called, and what is my name?", {"user_name", "user_pet"}),
        ("What is my dog called, and which city is home?", {"user_pet", "user_home"}),
        ("What is the name of my dog?", {"user_pet"}),
        (
            "Who am I, and what is my dog called?",
            {"user_name", "user_home", "user_job", "user_kin", "user_pet"},
        ),
        ("Does my dog like Paris?", {"user_pet", "user_home"}),
        ("Do I have any pets?", {"user_pet"}),
    ],
)
async def test_a_question_brings_the_facts_that_it_asks_for_and_no_others(
    opened: Opened, question: str, shown: set[str]
) -> None:
    door = opened(recent_context_items=0)
    said = (
        "My name is Ada. I live in Paris. I work as a nurse. My daughter is called Eve. My dog"
        " is called Rex."
    )
    await say(door, "t1", said)
    facts = await recalled_facts(door, await ask(door, question))
    assert {fact_id for fact_id, _ in facts} == shown


async def test_what_was_taken_back_has_a_record_and_can_be_said_again(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Paris.")
    stored = await say(door, "t2", "I don't live in Paris any more.")
    assert stored["fact_ids"] == ["user_home"]
    records = await file_records(door, "/memory/s1/memory_tiers/L0/2026/01/facts-202601.jsonl")
    assert [(one["type"], one["state"], one.get("of")) for one in records] == [
        ("fact_upsert", "active", None),
        ("fact_delete", "deleted", "t1-fact-home"),
    ]
    assert records[1]["deleted_at"] == "2026-01-05T12:00:00Z"
    assert (await say(door, "t3", "I don't live in Paris."))["fact_ids"] == []
    await say(door, "t4", "I live in Paris.")
    assert values(await ask(door, "Where do I live?")) == ["Paris"]


async def test_what_a_user_takes_back_is_gone_from_the_book_of_the_session_too(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Paris.")
    await say(door, "t2", "I no longer live in Paris.", user_id="u1")
    for user in ("", "u1"):
        assert values(await ask(door, "Where do I live?", user_id=user)) == []
