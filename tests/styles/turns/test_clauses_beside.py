"""A clause beside a forgotten code, long number or birthday stays where it tells nothing of it."""

import asyncpg
import pytest

from tests.door import Door
from tests.styles.turns.talk import cells, file_paths, file_text, say

pytestmark = pytest.mark.anyio
FORGET = "memory_forget"

# what was said, the request, a word of what goes, and the clause that stays
STAYS = [
    (
        "Wifi password's tangerine-moped-12 and the router's behind the telly, in case guests ask.",
        "please lose the wifi password",
        "tangerine",
        "and the router's behind the telly, in case guests ask.",
    ),
    (
        "My bank PIN is 5521, and the dentist moved my appointment to Friday.",
        "my bank PIN",
        "5521",
        "and the dentist moved my appointment to Friday.",
    ),
    (
        "Martas Geburtstag ist am 17. Februar und sie mag nur Geschenke, die man essen kann.",
        "Martas Geburtstag",
        "Februar",
        "und sie mag nur Geschenke, die man essen kann.",
    ),
    (
        "La clave del wifi es HigoChumbo88, y si se cae, el router está en la despensa.",
        "la clave del wifi",
        "HigoChumbo88",
        "y si se cae, el router está en la despensa.",
    ),
    (
        "Mon numéro c'est le 06 39 98 12 47, et si ça ne répond pas, appelle Zoé à l'agence.",
        "Oublie mon numéro de téléphone.",
        "06 39 98",
        "et si ça ne répond pas, appelle Zoé à l'agence.",
    ),
    (
        "快递填我手机号就行 13870046215，备注写放丰巢，别敲门",
        "我的手机号",
        "13870046215",
        "备注写放丰巢，别敲门",
    ),
]

# what was said, the request, and words that go although they are in another clause
GOES = [
    ("My salary is 52,000 and the bonus adds six thousand.", "my salary", "bonus"),
    ("My debts are 12,000 and the bailiff rings every week.", "my debts", "bailiff"),
    ("The miscarriage was on 12 June and the clinic was kind.", "my miscarriage", "clinic"),
    ("My therapist is in room 12 and the sessions help a lot.", "my therapist", "sessions"),
    ("I'm pregnant and the baby is due in May.", "that I am pregnant", "baby"),
    ("The alarm code is easy and 4417 opens the whole house.", "the alarm code", "4417"),
    ("The alarm code is 4417 and it is my birthday too.", "the alarm code", "birthday"),
    ("The alarm codes are 4417 and the back door takes 9921.", "the alarm codes", "9921"),
    ("Das Passwort ist Katze123 und das Passwort gilt überall.", "mein Passwort", "überall"),
    ("我的密码很简单，就是生日倒过来 880412", "我的密码", "880412"),
]


@pytest.mark.parametrize(("said", "query", "gone", "stays"), STAYS)
async def test_clause_beside_a_forgotten_number_stays(
    encoding_door: Door, admin: asyncpg.Connection, said: str, query: str, gone: str, stays: str
) -> None:
    door = encoding_door
    answer = f"Noted. {said}"
    await say(
        door, "t1", f"We had soup for lunch. {said}", answer=answer, session="s1", user_id="ada"
    )
    await door("memory_run_maintenance", session_id="s1")
    done = await door(
        FORGET, session_id="new", user_id="ada", query=query, dry_run=False, erase=True
    )
    assert all(gone in one["text"] and stays not in one["text"] for one in done["sentences"])
    assert await cells(admin, gone.lower()) == []
    files = [await file_text(door, path) for path in await file_paths(door, "/memory/s1")]
    assert any(f"We had soup for lunch. …{stays}" in text for text in files)
    assert not any(gone in text for text in files)


@pytest.mark.parametrize(("said", "query", "gone"), GOES)
async def test_rest_of_a_sentence_that_may_tell_what_was_forgotten_goes(
    encoding_door: Door, admin: asyncpg.Connection, said: str, query: str, gone: str
) -> None:
    door = encoding_door
    await say(door, "t1", said, answer="OK.", session="s1", user_id="ada")
    who = {"session_id": "new", "user_id": "ada", "dry_run": False, "erase": True}
    done = await door(FORGET, query=query, **who)
    if not done["sentences"]:
        await door(FORGET, query=done["candidates"][0]["text"], **who)
    assert await cells(admin, gone.lower()) == []


async def test_clause_that_the_query_means_is_not_left_for_one_that_shares_a_word_with_it(
    encoding_door: Door, admin: asyncpg.Connection
) -> None:
    said = "The wifi password is tangerine-moped-12 and the router is behind the telly."
    await say(encoding_door, "t1", said, answer="OK.", session="s1", user_id="ada")
    who = {"session_id": "new", "user_id": "ada", "dry_run": False, "erase": True}
    await encoding_door(FORGET, query="where the box for the wifi stands", **who)
    assert await cells(admin, "telly") == []
