"""A request for all of a kind forgets all of it; a request for everything forgets nothing."""

import asyncpg
import pytest

from tests.door import Door
from tests.styles.turns.talk import cells, say

FORGET = "memory_forget"

KINDS = [
    (
        "all my passwords",
        ["wifi pw is Kirsche77!", "netflix password is Sonne!2024", "the alarm code is 5521"],
        ["My code review is at 5.", "I forgot my password again."],
    ),
    (
        "forget all my codes and PINs",
        ["the alarm code is 5521", "The PIN of my card is 8830."],
        ["netflix password is Sonne", "My zip is in Graz."],
    ),
    (
        "alle meine Passwörter",
        ["das WLAN-Passwort lautet Katze123", "mein Kennwort ist Hund99"],
        ["Ich wohne in Graz."],
    ),
    (
        "todas mis contraseñas",
        ["la contraseña del wifi es HigoChumbo88", "la clave de casa es 4417"],
        ["Vivo en Graz."],
    ),
    ("tous mes mots de passe", ["Le mot de passe est Chat123."], ["J'habite à Graz."]),
    ("我的所有密码", ["我的密码是880412", "门的密码是4417"], ["我住在格拉茨。"]),
    ("私のパスワードをすべて", ["パスワードはneko123です。"], ["グラーツに住んでいます。"]),
    (
        "all my phone numbers",
        ["my phone number is 0171 5551234", "My mobile: 0660 123 4567."],
        ["the insurance number is WG-4471-882", "I have 2 phones."],
    ),
    (
        "meine Adressen",
        ["Meine Adresse ist Lindenweg 5, Berlin.", "Ich wohne in Bergen."],
        ["Meine Katze ist 12."],
    ),
]


@pytest.mark.parametrize(("query", "gone", "stays"), KINDS)
async def test_request_for_a_kind_takes_all_of_it(
    door: Door, admin: asyncpg.Connection, query: str, gone: list[str], stays: list[str]
) -> None:
    for number, text in enumerate([*gone, *stays]):
        session = f"s{number}"
        await say(door, "t1", text, answer=f"OK: {text}", session=session, user_id="ada")
    who = {"session_id": "new", "user_id": "ada", "query": query}
    listed = await door(FORGET, **who)
    assert {one["text"].removeprefix("OK: ") for one in listed["sentences"]} == {*gone}
    done = await door(FORGET, **who, dry_run=False, erase=True)
    assert done["sentences"] == listed["sentences"]
    for text in gone:
        assert await cells(admin, text.lower()) == [], text
    for text in stays:
        assert await cells(admin, text.lower()), text


@pytest.mark.parametrize(
    "query", ["the door codes", "my brother's phone numbers", "all passwords of the office"]
)
async def test_request_with_more_words_names_only_what_these_say(door: Door, query: str) -> None:
    await say(door, "t1", "the alarm code is 5521", user_id="ada")
    await say(door, "t2", "my phone number is 0171 5551234", user_id="ada")
    listed = await door(FORGET, session_id="s1", user_id="ada", query=query)
    assert (listed["facts"], listed["sentences"]) == ([], [])


@pytest.mark.parametrize(
    "query",
    [
        "everything",
        "forget everything",
        "All of it!",
        "everything about me",
        "alles über mich",
        "todo",
        "tout",
        "一切",
        "すべて忘れて",
    ],
)
async def test_request_for_everything_is_answered_with_the_purge(door: Door, query: str) -> None:
    await say(door, "t1", f"i have to organise everything. {query}", user_id="ada")
    done = await door(FORGET, session_id="s1", user_id="ada", query=query, dry_run=False)
    assert (done["facts"], done["sentences"], done["candidates"]) == ([], [], [])
    assert "purging the user" in done["note"]
