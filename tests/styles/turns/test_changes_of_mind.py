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


REPLACED = [
    ("my boss is Anna Keller", "my new boss is called Tom", {"boss": "Tom"}),
    ("mein chef heißt Tom", "mein chef heißt jetzt Petra", {"boss": "Petra"}),
    ("Mi jefa es Ana.", "Mi nueva jefa se llama Eva.", {"boss": "Eva"}),
    ("Mon chef s'appelle Tom.", "Mon nouveau chef s'appelle Luc.", {"boss": "Luc"}),
    ("我老板叫安娜。", "我老板现在叫玛丽。", {"boss": "玛丽"}),
    ("i work at the volksbank", "i left the bank", {}),
    ("I work for Deutsche Bank.", "I've just left the bank.", {}),
    ("ich arbeite bei der sparkasse", "ich arbeite nicht mehr bei der kasse", {}),
    ("I work for Random House.", "I left the house.", {"employer": "Random House"}),
    ("I'm allergic to walnuts.", "I'm not allergic to nuts.", {"allergy": "walnuts"}),
    (
        "we want to go to Lisbon over easter",
        "we're not going to Lisbon, it's Porto now",
        {"statement": "we're not going to Lisbon, it's Porto now"},
    ),
]


@pytest.mark.parametrize(("first", "then", "told"), REPLACED)
async def test_value_that_another_one_replaces_ends(
    door: Door, clock: FakeClock, first: str, then: str, told: dict[str, str]
) -> None:
    await say(door, "t1", first, session="a", user_id="ada")
    assert len(await facts_of(door, "ada")) == 1
    clock.advance(days=1)
    await say(door, "t2", then, session="b", user_id="ada")
    assert await facts_of(door, "ada") == told


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (
            "im vegetarian since i was 19 but since last month i eat fish sometimes",
            "no more fish for me, im vegetarian again",
        ),
        (
            "Ich bin vegan, aber seit Mai esse ich manchmal Fisch.",
            "Kein Fisch mehr für mich, ich bin wieder vegan.",
        ),
    ],
)
async def test_diet_that_is_taken_up_again_is_told_in_the_new_words(
    door: Door, clock: FakeClock, first: str, then: str
) -> None:
    await say(door, "t1", first, session="a", user_id="ada")
    clock.advance(days=1)
    assert (await say(door, "t2", then, session="b", user_id="ada"))["fact_ids"] == ["user_diet"]
    told = await door("memory_profile", user_id="ada")
    assert then.rstrip(".") in told["text"]
    assert first.rstrip(".") not in told["text"]


@pytest.mark.parametrize(
    ("first", "then", "is_doubted"),
    [
        ("Lia hat Asthma.", "lia hat doch kein asthma", True),
        ("Lia has asthma.", "lia doesn't have asthma after all", True),
        ("Lia hat Asthma.", "Max hat doch keine Grippe.", False),
    ],
)
async def test_illness_of_another_that_is_denied_is_in_doubt(
    door: Door, clock: FakeClock, first: str, then: str, *, is_doubted: bool
) -> None:
    await say(door, "t1", first, session="a", user_id="ada")
    clock.advance(days=1)
    await say(door, "t2", then, session="b", user_id="ada")
    listed = await door(LIST, session_id="new", user_id="ada")
    current = [one for one in listed["facts"] if first.startswith(one["statement"].rstrip("."))]
    assert all(one["doubt"] for one in current) is is_doubted


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


async def doubted(door: Door, clock: FakeClock, user: str, *said: str) -> dict[str, bool]:
    """Say this in a session each; return whether the values before the last one no longer hold.

    They are in doubt or have ended."""
    for number, text in enumerate(said):
        await say(door, f"{user}-{number}", text, session=f"{user}-{number}", user_id=user)
        clock.advance(days=1)
    listed = await door(LIST, session_id="new", user_id=user, state="all")
    last = f"{user}-{len(said) - 1}"
    return {
        fact["value"]: fact["state"] != "active"
        for fact in listed["facts"]
        if fact["evidence"]["session_id"] != last
    }


BESIDE = [
    (
        "My cat Momo eats Royal Canin. I have an appointment on 9 May 2027. My name is Ada.",
        "The vet says Momo has to lose weight, so no more treats.",
        set(),
    ),
    (
        "I play the cello in a quartet. I live in Graz. My brother Tom is a baker.",
        "I gave up the cello.",
        {"I play the cello in a quartet"},
    ),
    (
        "I keep bees on the allotment and I work at Shell.",
        "We gave up the bees, the allotment is all dahlias now.",
        set(),
    ),
    (
        "I work at Brightwell as a clerk and my boss is called Karin. I like jazz.",
        "Big news: I handed in my notice on Friday.",
        {"Brightwell"},
    ),
    (
        "My boyfriend Tom is vegan, so we cook without butter.",
        "We broke up, Tom and me.",
        {"Tom"},
    ),
    ("I work at Shell.", "I quit smoking.", set()),
    (
        "Ich spiele Cello im Quartett. Ich wohne in Graz. Mein Bruder heißt Tom.",
        "Das Cello habe ich aufgegeben.",
        {"Ich spiele Cello im Quartett"},
    ),
    (
        "Toco el violonchelo en un cuarteto. Vivo en Graz. Mi hermano se llama Tom.",
        "Dejé el violonchelo.",
        {"Toco el violonchelo en un cuarteto"},
    ),
]
"""What was said, a change of one thing, and the values that are in doubt then."""


async def test_change_puts_only_what_it_ends_in_doubt(door: Door, clock: FakeClock) -> None:
    for number, (first, then, expected) in enumerate(BESIDE):
        values = await doubted(door, clock, f"beside-{number}", first, then)
        assert {value for value, is_doubted in values.items() if is_doubted} == expected, values
        assert len(values) > len(expected), values


CHANGED = [
    ("My dentist is Dr. Vogel on Main Street.", "The dentist now is Dr. Yilmaz."),
    ("Our landlord is Mr. Huber.", "Mrs. Lang is our landlord now."),
    ("Mein Zahnarzt ist Dr. Vogel.", "Mein Zahnarzt ist jetzt Dr. Yilmaz."),
    ("Mi dentista es el doctor Ruiz.", "Mi dentista ahora es la doctora Peña."),
    ("Mon dentiste est le docteur Vogel.", "Mon dentiste est maintenant le docteur Petit."),
    ("我的牙医是王医生。", "我的牙医现在是李医生。"),
    ("My flight to Oslo leaves on 3 May at 7:40.", "My flight to Oslo now leaves at 9:15."),
    ("We meet for choir on Tuesdays at the parish hall.", "Choir is on Wednesdays now."),
    ("My deadline for the thesis is 1 June.", "The thesis deadline was extended to 15 June."),
    ("I take 50 mg of sertraline.", "My sertraline was raised to 100 mg."),
    ("I go to the gym on Mondays.", "I stopped going to the gym."),
    ("We're planning a trip to Portugal in May.", "We're not flying to Portugal after all."),
    ("I play tennis on Sundays with Paul.", "We don't play tennis any more."),
]
UNCHANGED = [
    ("My dentist is Dr. Vogel.", "My brother's dentist is Dr. Yilmaz now."),
    ("My dentist is Dr. Vogel.", "My doctor is Dr. Yilmaz now."),
    ("My dentist is Dr. Vogel.", "Is my dentist Dr. Yilmaz now?"),
    ("Dinner is at seven on Sundays.", "Dinner is ready now."),
    ("My dentist is Dr. Vogel.", "Dr. Vogel is my dentist now."),
    ("We meet for choir on Tuesdays.", "I'm off to choir now."),
    ("I go to the gym on Mondays.", "The cinema next to the gym is no longer open."),
    ("My dog Rex sleeps on the sofa.", "Rex has a bad paw, so no more long walks."),
]


async def test_ordinary_change_of_mind_is_marked(door: Door, clock: FakeClock) -> None:
    wrong = []
    for number, (first, then) in enumerate([*CHANGED, *UNCHANGED]):
        values = await doubted(door, clock, f"user-{number}", first, then)
        if not values or any(values.values()) is not (number < len(CHANGED)):
            wrong.append((first, then, values))
    assert wrong == [], "\n".join(map(str, wrong))
