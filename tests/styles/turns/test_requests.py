"""Requests for a text: one that names something of the memory is told it, another nothing."""

from collections.abc import Sequence

import pytest

from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say

SAID = (
    "Halina turns 69 on 28 December, she loves orchids.",
    "Invoices to Huber go out with 30 days and the reference HB-22.",
    "Priya wants the Vega launch date moved to the 3rd of May.",
    "The garden fence was painted green in spring.",
    "We ate pasta with pesto for dinner.",
)


async def _told(opened: Opened, request: str, said: Sequence[str] = SAID) -> list[str]:
    door = opened(recent_context_items=0)
    for number, text in enumerate(said):
        await say(door, "t1", text, session=f"s{number}", user_id="u1")
    prepared = await ask(door, request, "new", user_id="u1")
    return [turn["text"] for turn in memory(prepared)["turns"]]


@pytest.mark.parametrize(
    ("request_text", "place"),
    [
        ("Write a birthday card for Halina.", 0),
        ("Describe Halina.", 0),
        ("Tell me about Halina.", 0),
        ("Write the invoice for Huber.", 1),
        ("List what Priya wants.", 2),
        ("Write a mail to Priya about the Vega launch date.", 2),
        ("Summarise what Priya said about the launch.", 2),
        ("Schreib eine Geburtstagskarte für Halina.", 0),
        ("Beschreibe Halina.", 0),
        ("Erzähl mir etwas über Halina.", 0),
        ("Écris une carte pour Halina.", 0),
        ("Raconte-moi quelque chose sur Halina.", 0),
        ("Escribe una tarjeta para Halina.", 0),
        ("Describe a Halina.", 0),
        ("为 Halina 写一张生日卡。", 0),
        ("Halina に誕生日カードを書いて。", 0),
    ],
)
async def test_request_that_names_something_known_is_told_it(
    opened: Opened, request_text: str, place: int
) -> None:
    assert SAID[place] in await _told(opened, request_text)


@pytest.mark.parametrize(
    "request_text",
    [
        "Write a haiku about spring.",
        "Write a story about a dragon in spring.",
        "Write a story about Napoleon in spring.",
        "List five kinds of pasta.",
        "List the rivers of Europe.",
        "Tell me a joke about dinner.",
        "Beschreibe die Farbe Grün.",
        "Décris la Révolution.",
        "Raconte-moi une blague.",
        "Describe la primavera.",
        "翻译一首诗。",
    ],
)
async def test_request_about_the_world_is_told_nothing(opened: Opened, request_text: str) -> None:
    assert await _told(opened, request_text) == []


CODES = (
    "The build stopped with E0308, the branches had different types.",
    "Ticket BENCH-100821 is about the slow start of the runner.",
    "We ate pasta with pesto for dinner.",
)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("what does E0308 mean", 0),
        ("What does E0308 mean?", 0),
        ("explain E0308 again", 0),
        ("Was bedeutet E0308?", 0),
        ("que significa E0308", 0),
        ("explain BENCH-100821", 1),
        ("what is BENCH-100821", 1),
        ("E0308是什么意思", 0),
    ],
)
async def test_question_about_a_code_of_the_memory_is_told_it(
    opened: Opened, question: str, place: int
) -> None:
    assert CODES[place] in await _told(opened, question, CODES)


@pytest.mark.parametrize(
    "question",
    [
        "what does E0501 mean",
        "explain BENCH-100822 again",
        "explain the types",
        "what does pesto mean",
    ],
)
async def test_question_about_what_the_memory_does_not_name_is_told_nothing(
    opened: Opened, question: str
) -> None:
    assert await _told(opened, question, CODES) == []
