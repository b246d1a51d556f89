"""What the rules find in what users say, and what they leave alone."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from memsvc.core.facts import FactTier, Statement
from memsvc.core.items import Item, text_of
from memsvc.core.rules import extraction
from memsvc.core.rules.extraction import NOTHING, STATEMENTS_MAX, TEXT_CHARS_READ, TURN_CHARS_READ
from memsvc.core.rules.sentences import Message
from memsvc.styles.turns import block
from memsvc.styles.turns.turn_items import Turn, read_statements
from tests.styles.turns.talk import assistant, developer, recalled, turn_items, user

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def found(*items: Item) -> list[Statement]:
    read = asyncio.run(read_statements(turn_items(items)))
    return Turn.of("s1", "t1", "u1", read, []).claims(NOW)


def pairs(*texts: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in found(*map(user, texts))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "My name is Ada Lovelace.",
            ("user_name", "name", "Ada Lovelace", FactTier.L0, 0.95, "t1-fact-name"),
        ),
        (
            "I prefer dark mode",
            ("user_preference", "preference", "dark mode", FactTier.L0, 0.92, "t1-fact-prefer"),
        ),
        ("I like jazz!", ("user_like", "like", "jazz", FactTier.L2, 0.85, "t1-fact-like")),
        (
            "Today I need milk, bread",
            ("today_task", "today_task", "milk", FactTier.L1, 0.80, "t1-fact-today-task"),
        ),
        (
            "This week I need a plan",
            ("weekly_task", "weekly_task", "a plan", FactTier.L2, 0.82, "t1-fact-week-task"),
        ),
    ],
)
def test_each_rule_finds_its_fact_with_tier_confidence_and_evidence(
    text: str, expected: tuple[Any, ...]
) -> None:
    [one] = found(user("Hello."), user(text))
    assert (one.fact_id, one.key, one.value, one.tier, one.confidence, one.record) == expected
    evidence = one.evidence
    assert (evidence.session, evidence.turn, evidence.item, evidence.user) == (
        "s1",
        "t1",
        "t1-in-1",
        "u1",
    )


def test_the_case_of_a_value_is_kept_and_that_of_its_marker_does_not_count() -> None:
    assert pairs("MY NAME IS McDonald") == [("name", "McDonald")]


def test_every_occurrence_counts_with_a_record_of_its_own() -> None:
    statements = found(user("I like Tea. I like Jazz!\ni like chess"), user("I like rain"))
    assert [one.value for one in statements] == ["Tea", "Jazz", "chess", "rain"]
    assert len({one.record for one in statements}) == 4
    assert len({one.identity for one in statements}) == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("my name is Ada, by the way", "Ada"),
        ("my name is Ada; yours?", "Ada"),
        ("my name is Ada\nand more", "Ada"),
        ("my name is Ada? yes", "Ada"),
        ("my name is Ada.", "Ada"),
        ("my name is Ada...", "Ada"),
        ("I prefer Python 3.11. Really", "Python 3.11"),
        ("I prefer example.org.", "example.org"),
        ("my  name\tis   Ada", "Ada"),
    ],
)
def test_a_value_ends_with_its_clause(text: str, value: str) -> None:
    assert [one for _, one in pairs(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "my name is",
        "my name is .",
        "my name is  , so",
        "dummy name is Bob",
        "wi like it",
        "I likely go",
        "hi prefer x",
    ],
)
def test_no_value_or_no_whole_word_is_no_fact(text: str) -> None:
    assert pairs(text) == []


def test_a_value_longer_than_128_bytes_is_no_fact() -> None:
    assert pairs("my name is " + "é" * 64) == [("name", "é" * 64)]
    assert pairs("my name is " + "é" * 65) == []


@pytest.mark.parametrize(
    "item",
    [
        assistant("my name is Bot"),
        developer("my name is Policy"),
        {
            "type": "message",
            "role": "system",
            "content": [{"type": "input_text", "text": "my name is System"}],
        },
        {"type": "function_call_output", "call_id": "c", "output": "my name is Tool"},
        {
            "type": "function_call_output",
            "role": "user",
            "call_id": "c",
            "output": "my name is Tool",
        },
        {
            "type": "function_call",
            "name": "f",
            "call_id": "c",
            "arguments": '{"x": "my name is Call"}',
        },
        user("", metadata={"note": "my name is Metadata"}),
        block.build([recalled("fact", id="x", value="my name is Recalled")])[1],
        block.build([recalled("turn", text="well\nmy name is Recalled")])[1],
    ],
    ids=[
        "assistant",
        "developer",
        "system",
        "output",
        "output as user",
        "call",
        "metadata",
        "block",
        "block turn",
    ],
)
def test_only_what_users_say_is_learnt(item: Item) -> None:
    assert found(item) == []


def test_a_turn_states_so_many_facts_at_the_most() -> None:
    assert (
        len(found(user(". ".join(f"I like thing {n}" for n in range(STATEMENTS_MAX + 9)))))
        == STATEMENTS_MAX
    )


def test_a_huge_text_of_markers_alone_takes_no_time_to_speak_of() -> None:
    assert found(user("i like " * 40_000)) == []


def test_of_more_than_a_turn_is_read_of_the_newest_texts_are() -> None:
    pasted = "\nThis was pasted." * 450
    texts = [f"{pasted}\nI like drink{number}.{pasted}" for number in range(4)]
    assert [one.value for one in found(*map(user, texts), user("I like rain"))] == [
        "drink2",
        "drink3",
        "rain",
    ]
    assert len(texts[0]) * 2 < TURN_CHARS_READ < len(texts[0]) * 3


@pytest.mark.parametrize("rest", [0, 1, 2, 3, 500, TEXT_CHARS_READ])
def test_no_more_is_read_of_a_turn_whatever_is_left_for_its_oldest_texts(
    rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chars: list[int] = []
    findings = extraction._reading_of

    def counted(message: Message, *, certain: bool) -> extraction.Reading:
        chars.append(len(message.text))
        return findings(message, certain=certain)

    monkeypatch.setattr(extraction, "_reading_of", counted)
    middle = "so it is. " * 2000
    old = user(f"{middle}\nI like tea.{middle}")
    assert found(old, old, *[user("x " * 10_000)] * 3) == []
    assert sum(chars) <= TURN_CHARS_READ
    chars.clear()
    assert extraction.read([text_of(old), text_of(old)], rest) == [NOTHING, NOTHING]
    assert sum(chars) <= rest


@pytest.mark.parametrize(
    "told",
    [
        ["i have asthma", "my boss is called Gerda", "i'm vegan"],
        ["we have two kids", "i live in graz", "my boss is called Gerda"],
        ["ich habe Asthma", "meine Chefin heißt Gerda", "ich bin vegan"],
    ],
)
def test_a_list_of_statements_in_small_letters_is_no_text_that_is_worked_on(
    told: list[str],
) -> None:
    alone = {pair for text in told for pair in pairs(text)}
    assert len(alone) >= len(told) - 1
    assert alone <= set(pairs(". ".join(told)))


@pytest.mark.parametrize(
    "text",
    [
        "her name's Ines btw, she's marrying a guy called Duarte",
        "his name's Rufus, everyone calls him Ru",
        "they call her Bee",
        "Ihr Name ist Ines",
    ],
)
def test_what_somebody_else_is_called_is_no_name_of_the_speaker(text: str) -> None:
    assert {key for key, _ in pairs(text)} == {"statement"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("new address is brockmanngasse 41", "brockmanngasse 41"),
        ("My address is Brockmanngasse 41, 8010 Graz.", "Brockmanngasse 41, 8010 Graz"),
        ("mi nueva dirección es Calle Mayor 5", "Calle Mayor 5"),
        ("ma nouvelle adresse est 5 rue Victor Hugo", "5 rue Victor Hugo"),
    ],
)
def test_an_address_may_end_with_its_number(text: str, address: str) -> None:
    assert pairs(text) == [("address", address)]
