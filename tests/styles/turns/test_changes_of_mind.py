"""What a user takes back or says anew ends what was said before, and nothing beside it."""

import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.talk import ask, memory, say

LIST = "memory_list_facts"


@pytest.fixture
def door(encoding_door: Door) -> Door:
    return encoding_door


async def facts_of(door: Door, user: str, state: str = "active") -> dict[str, str]:
    """Return the values of a user's facts by key."""
    listed = await door(LIST, session_id="new", user_id=user, state=state)
    return {fact["key"]: fact["value"] for fact in listed["facts"]}


RELATIONS = [
    ("My sister is called Marta.", "No, Marta is my manager, not my sister.", "manager"),
    ("My sister is called Marta.", "Marta isn't my sister.", ""),
    (
        "Meine Schwester heißt Marta.",
        "Nein, Marta ist meine Chefin, nicht meine Schwester.",
        "boss",
    ),
    ("Mi hermana se llama Marta.", "No, Marta es mi jefa, no mi hermana.", "boss"),
    ("Ma sœur s'appelle Marta.", "Non, Marta est ma colocataire, pas ma sœur.", "roommate"),
    ("我姐姐叫玛尔塔。", "玛尔塔是我的老板，不是我姐姐。", "boss"),
    ("姉の名前はマルタです。", "マルタは姉ではなく上司です。", "boss"),
]


@pytest.mark.parametrize(("first", "then", "key"), RELATIONS)
async def test_relation_that_is_denied_ends_and_the_true_one_is_learned(
    door: Door, clock: FakeClock, first: str, then: str, key: str
) -> None:
    await say(door, "t1", first, session="a", user_id="ada")
    [(known, name)] = (await facts_of(door, "ada")).items()
    assert known == "sister"
    clock.advance(days=1)
    await say(door, "t2", then, session="b", user_id="ada")
    assert await facts_of(door, "ada") == ({key: name} if key else {})
    assert await facts_of(door, "ada", state="past") == {"sister": name}
    told = memory(await ask(door, "Who is Marta?", session="c", user_id="ada"))
    assert not [fact for fact in told["facts"] if fact.get("key") == "sister"]


async def test_denied_relation_ends_only_for_the_person_who_is_named(door: Door) -> None:
    said = "My sister is called Marta. My sister is called Lena."
    await say(door, "t1", said, session="a", user_id="ada")
    await say(door, "t2", "Marta is my cousin, not my sister.", session="b", user_id="ada")
    assert await facts_of(door, "ada") == {"cousin": "Marta", "sister": "Lena"}


@pytest.mark.parametrize(
    "said",
    [
        "Ana is my sister's friend.",
        "She is my sister.",
        "If Marta is my sister, we share a mother.",
        "Si Marta es mi hermana, ven.",
        "如果安娜是我姐姐，就告诉我。",
        "Coffee is my best friend.",
        "Heute ist meine Schwester dran.",
    ],
)
async def test_words_beside_a_relation_make_nobody_a_relation(door: Door, said: str) -> None:
    await say(door, "t1", said, session="a", user_id="ada")
    assert not {"sister", "best friend"} & set(await facts_of(door, "ada"))
