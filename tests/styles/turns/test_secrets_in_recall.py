"""Passwords, PINs and codes are quoted only for questions that ask for them or are about them."""

from typing import Any

import pytest

from memsvc.core.secrets import NOT_ASKED_FOR
from tests.door import Door
from tests.styles.turns.talk import ask, say, texts

SAID = {
    "a1": ("We want to go to Lisbon over Easter, any ideas?", "Lisbon is lovely in spring."),
    "a2": ("My new boss is Tom Reiter, I started in January.", "Congratulations!"),
    "a3": ("wifi pw is Kirsche77! in case I ask again", "Okay, Kirsche77! it is."),
    "a4": ("Our street is Ahornweg 12, the builders need it. door code 4417", "Got it."),
    "a5": ("netflix password is Sonne!2024 and the pin of my card is 8830", "Use a manager."),
    "a6": ("I run with my friend Sabine on Sundays.", "Nice."),
}
SECRETS = ("Kirsche77", "Sonne!2024", "8830", "4417")
UNRELATED = {
    "Who is my boss now?": "Tom Reiter",
    "Wer ist meine Chefin oder mein Chef?": "Tom Reiter",
    "Where are we going at Easter?": "Lisbon",
    "Who do I run with?": "Sabine",
}
ASKED = {
    "What's the PIN of my card?": "8830",
    "Wie lautet die Geheimzahl meiner Karte?": "8830",
    "¿Cuál es la contraseña de Netflix?": "Sonne!2024",
    "C'est quoi le mot de passe de Netflix ?": "Sonne!2024",
    "我的Netflix密码是什么？": "Sonne!2024",
    "Netflixのパスワードは何？": "Sonne!2024",
    "what's the wifi pw": "Kirsche77",
}


@pytest.fixture
async def door(encoding_door: Door) -> Door:
    """A service that knows a person's secrets, each told in a session of its own."""
    for session, (said, answer) in SAID.items():
        await say(encoding_door, "t1", said, answer=answer, session=session, user_id="ada")
    return encoding_door


async def told(door: Door, question: str, **more: Any) -> tuple[str, set[str]]:
    """The prompt of a question, and the reasons of what it leaves out."""
    prepared = await ask(door, question, session="asking", user_id="ada", explain=True, **more)
    candidates = (prepared["explanation"] or {}).get("candidates", [])
    return "\n".join(texts(prepared["input_items"])), {one.get("reason", "") for one in candidates}


async def test_unrelated_question_quotes_no_secret_and_no_answer_that_repeats_it(
    door: Door,
) -> None:
    for question, answer in UNRELATED.items():
        prompt, reasons = await told(door, question)
        assert answer in prompt, question
        assert not [secret for secret in SECRETS if secret in prompt], question
        assert NOT_ASKED_FOR in reasons, question


async def test_secret_is_quoted_where_the_question_asks_for_one(door: Door) -> None:
    for question, answer in ASKED.items():
        assert answer in (await told(door, question))[0], question


async def test_secret_is_quoted_where_its_message_answers_by_itself(door: Door) -> None:
    prompt, _ = await told(door, "netflix login please")
    assert "Sonne!2024" in prompt
    assert not [secret for secret in ("Kirsche77", "4417") if secret in prompt]


async def test_what_is_said_before_a_secret_is_quoted_without_it(door: Door) -> None:
    await say(
        door,
        "t2",
        "I get my bread at the corner shop. The safe there has the PIN 5190. It is small.",
        session="a6",
        user_id="ada",
    )
    prompt, _ = await told(door, "What do I do on Sundays, and with whom?")
    assert "corner shop" in prompt
    assert "5190" not in prompt
    assert "It is small" not in prompt


async def test_code_that_was_to_be_remembered_is_no_answer_to_another_question(door: Door) -> None:
    await say(
        door,
        "t1",
        "Remember that the code of the garage is 5512.",
        session="a7",
        user_id="ada",
    )
    assert "5512" not in (await told(door, "Who is my boss now?"))[0]
    assert "5512" in (await told(door, "What is the code of the garage?"))[0]


async def test_later_change_of_a_code_is_not_quoted_beside_something_else(door: Door) -> None:
    await say(
        door,
        "t2",
        "We do not go to Lisbon any more, and the door code changed, the code is now 9031.",
        session="a1",
        user_id="ada",
    )
    assert "9031" not in (await told(door, "Who do I run with?"))[0]


async def test_search_shows_no_secret_in_the_title_of_a_turn_unless_asked(door: Door) -> None:
    titles = [one["title"] for one in (await door("search", query="my boss"))["results"]]
    assert titles
    assert not [secret for secret in SECRETS if secret in str(titles)]
    assert "Kirsche77" in str(await door("search", query="wifi password"))


async def test_word_secret_alone_withholds_nothing(door: Door) -> None:
    said = "Nan's gingerbread: it's a spoonful of cold tea. That's the secret!"
    await say(door, "t2", said, session="a6", user_id="ada")
    assert "cold tea" in (await told(door, "What makes the biscuits of my grandmother special?"))[0]
