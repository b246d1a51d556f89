"""Asked to forget, it is gone: from messages of every session, files, indexes, facts beside it."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.redaction import Redaction, changed_line
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, cells, file_paths, file_text, say, texts, values

FORGET = "memory_forget"
LIST = "memory_list_facts"


async def told(door: Door, question: str, **where: Any) -> str:
    """All that a prompt has before the question."""
    prepared = await ask(door, question, **where)
    return "\n".join(texts(prepared["input_items"][:-1]))


async def test_a_forgotten_fact_leaves_every_message_file_and_index(
    door: Door, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    await say(door, "t1", "I take canarium every day. I keep bees.", user_id="ada")
    await say(
        door,
        "t2",
        "Is canarium safe with wine? I was wondering.",
        answer="Canarium and wine do not mix. Ask a doctor.",
        session="s2",
        user_id="ada",
    )
    await say(door, "t3", "I take canarium too.", session="s3", user_id="bob")
    done = await door(FORGET, session_id="s1", user_id="ada", query="my medication", dry_run=False)
    assert [one["value"].lower() for one in done["facts"]] == ["canarium"]
    assert {(one["session_id"], one["turn_id"]) for one in done["sentences"]} == {
        ("s1", "t1"),
        ("s2", "t2"),
    }
    for session in ("new", "s1", "s2"):
        said = await told(door, "What medication do I take?", session=session, user_id="ada")
        assert "canarium" not in said.lower()
    assert "bees" in await told(door, "Do I keep bees?", session="new", user_id="ada")
    for path in await file_paths(door, "/memory/s1") + await file_paths(door, "/memory/s2"):
        assert "canarium" not in (await file_text(door, path)).lower(), path
    assert "canarium" in (await told(door, "What do I take?", session="n", user_id="bob")).lower()
    await door(FORGET, session_id="s3", user_id="bob", query="my medication", dry_run=False)
    assert await cells(admin, "canarium") == []


async def test_facts_of_the_same_sentence_stay_without_the_forgotten_value(door: Door) -> None:
    await say(door, "t1", "I live in Graz and I am allergic to peanuts.", user_id="ada")
    done = await door(FORGET, session_id="s1", user_id="ada", query="Graz", dry_run=False)
    assert [one["fact_id"] for one in done["facts"]] == ["user_home"]
    [allergy] = (await door(LIST, session_id="s1", user_id="ada"))["facts"]
    assert (allergy["fact_id"], allergy["value"]) == ("user_allergy", "peanuts")
    assert "Graz" not in allergy["statement"]
    said = await told(door, "What do you know about me?", session="new", user_id="ada")
    assert "peanuts" in said
    assert "Graz" not in said


@pytest.mark.parametrize(
    ("text", "query", "gone", "stays"),
    [
        ("My name is Ida and my phone number is 415-555-0199.", "phone number", "0199", "Ida"),
        ("My dog is called Rex and I work as a baker.", "my dog", "Rex", "baker"),
        ("The locker code is 4417. I work as a baker.", "the locker code", "4417", "baker"),
    ],
)
async def test_a_query_forgets_what_it_names_alone(
    door: Door, text: str, query: str, gone: str, stays: str
) -> None:
    await say(door, "t1", text, user_id="ada")
    await door(FORGET, session_id="new", user_id="ada", query=query, dry_run=False)
    said = await told(door, "What do you know about me?", session="s1", user_id="ada")
    assert gone not in said
    assert stays in said


async def test_a_turn_is_not_told_beside_its_neighbours_once_forgotten(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My garden has red roses.", user_id="ada")
    await say(door, "t2", "I had an affair with Janus from sales.", user_id="ada")
    await say(door, "t3", "The roses need water.", user_id="ada")
    await door(FORGET, session_id="s1", user_id="ada", turn_ids=["t2"])
    for session in ("s1", "new"):
        said = await told(door, "What grows in my garden?", session=session, user_id="ada")
        assert "roses" in said
        assert "Janus" not in said
    assert await cells(admin, "janus") == []


async def test_what_was_forgotten_is_not_stored_again_by_resent_history_or_a_retry(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "I take canarium every day.", answer="Noted.", user_id="ada")
    await say(door, "t2", "I keep bees.", answer="Fine.", user_id="ada")
    await door(FORGET, session_id="s1", user_id="ada", query="my medication", dry_run=False)
    await say(door, "t1", "I take canarium every day.", answer="Noted.", user_id="ada")
    history = [
        {"role": "user", "content": "I take canarium every day."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "I keep bees."},
        {"role": "assistant", "content": "Fine."},
        {"role": "user", "content": "How many hives?"},
    ]
    await door(
        "memory_after_turn",
        session_id="s1",
        user_id="ada",
        turn_id="t3",
        input_items=history,
        output_items=[{"role": "assistant", "content": "Three."}],
    )
    assert await cells(admin, "canarium") == []


async def test_a_query_without_a_fact_shows_the_sentences_first_and_changes_nothing(
    door: Door,
) -> None:
    await say(door, "t1", "So the gate code at Mill Lane is 4417. Anyway, hello!", user_id="ada")
    shown = await door(FORGET, session_id="new", user_id="ada", query="the gate code")
    assert [one["text"] for one in shown["sentences"]] == ["So the gate code at Mill Lane is 4417."]
    assert "4417" in await told(door, "What is the gate code?", session="n", user_id="ada")
    nothing = await door(FORGET, session_id="new", user_id="ada", query="my blood type")
    assert (nothing["facts"], nothing["sentences"]) == ([], [])
    assert "nothing was found or forgotten" in nothing["note"]
    assert (shown["note"], shown["candidates"]) == (None, [])


async def test_query_that_names_nothing_for_certain_offers_what_it_may_mean(door: Door) -> None:
    for number in range(7):
        await say(door, f"t{number}", f"The code of gate {number} is 441{number}.", user_id="ada")
    done = await door(FORGET, session_id="n", user_id="ada", query="the gate code", dry_run=False)
    offered = [one["text"] for one in done["candidates"]]
    assert (done["facts"], done["sentences"], len(offered)) == ([], [], 5)
    done = await door(FORGET, session_id="n", user_id="ada", query=offered[0], dry_run=False)
    assert [one["text"] for one in done["sentences"]] == [offered[0]]
    assert done["candidates"] == []
    nothing = await door(FORGET, session_id="n", user_id="ada", query="my blood type")
    assert nothing["candidates"] == []


@pytest.mark.parametrize("wrong", [{"dry_run": "false"}, {"dry_run": 0}, {"erase": "true"}])
async def test_only_a_boolean_decides_whether_anything_is_deleted(
    door: Door, wrong: dict[str, Any]
) -> None:
    await say(door, "t1", "I keep bees.", user_id="ada")
    await door.refuses("INVALID_ARGUMENT", FORGET, user_id="ada", query="bees", **wrong)
    assert "bees" in await told(door, "Do I keep bees?", session="n", user_id="ada")


async def test_what_is_packed_away_is_forgotten_too(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "I take canarium every day.", user_id="ada")
    clock.advance(days=40)
    await say(door, "t2", "Hello again.", user_id="ada")
    await door("memory_run_maintenance", session_id="s1")
    await door(FORGET, session_id="s1", user_id="ada", query="my medication", dry_run=False)
    assert values(await ask(door, "What medication do I take?", user_id="ada")) == []
    said = await told(door, "What medication do I take?", session="new", user_id="ada")
    assert "canarium" not in said


def test_a_line_keeps_its_length_whatever_goes() -> None:
    line = '{"id":"e","item":{"role":"user","content":"Ich wohne in Köln. 你好。"}}\n'.encode()
    for redaction in (
        Redaction(["Ich wohne in Köln."], []),
        Redaction([], ["你好"]),
        Redaction(["Ich wohne in Köln."], ["Köln", "你好"]),
        Redaction([], ["Köln"], ["Ich wohne in Köln."]),
    ):
        assert len(redaction.line(line)) == len(line)
        assert redaction.line(line) != line
    assert changed_line(line, lambda text: text) == line


ADDRESSES = [
    ("I live at 12 Elm Street, Leeds. Dentist on Tuesday.", "my address", "Elm"),
    ("Our new address is Flat 3, 22 Low Road, York.", "where I live", "Low Road"),
    ("Ich wohne in der Lindenstraße 5, 10969 Berlin.", "meine Adresse", "Linden"),
    ("Mon adresse est le 5 rue de la Paix, 69001 Lyon.", "mon adresse", "Paix"),
    ("Vivo en la calle Mayor 5, Madrid.", "mi dirección", "Mayor"),
    ("我的地址是长宁路8号。", "我的地址", "长宁路"),
    ("私の住所は神田町3-5です。", "私の住所", "神田町"),
]


@pytest.mark.parametrize(("said", "query", "word"), ADDRESSES)
async def test_an_address_is_forgotten_by_its_name_and_every_one_of_a_person(
    door: Door, admin: asyncpg.Connection, said: str, query: str, word: str
) -> None:
    await say(door, "t1", said, user_id="ada")
    await say(door, "t2", "I've moved to Bradford.", session="s2", user_id="ada")
    done = await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    assert {one["key"] for one in done["facts"]} == {"address", "home"}
    assert await cells(admin, word) == []
    assert await cells(admin, "bradford") == []
    assert ("Tuesday" in said) == ("Tuesday" in await told(door, "Tuesday?", user_id="ada"))


async def test_the_sentence_that_put_a_fact_in_doubt_is_forgotten_with_what_it_says(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "I live in Oslo.", user_id="ada")
    await say(door, "t2", "I moved out because Okafor raised the rent.", user_id="ada")

    async def doubts() -> dict[str, Any]:
        facts = (await door(LIST, session_id="s1", user_id="ada"))["facts"]
        return {fact["value"]: fact["doubt"] for fact in facts}

    assert "Okafor" in (await doubts())["Oslo"]["text"]
    await door(FORGET, session_id="s1", user_id="ada", query="Okafor", dry_run=False)
    assert await cells(admin, "okafor") == []
    assert await doubts() == {"Oslo": None}


@pytest.mark.parametrize(
    ("said", "query", "words"),
    [
        ("My right knee hurts, I've had runner's knee since March.", "my knee", ["knee", "March"]),
        ("My shoe size is 39, but 40 for running shoes.", "my shoe size", ["running"]),
        ("I take canarium and the lab says all is fine.", "my medication", ["canarium", "lab"]),
        ("We moved to Ghent, to a flat on Mill Road.", "where I live", ["Ghent", "Mill Road"]),
        ("I'm allergic to prawns, it sends me to hospital.", "my allergy", ["prawn", "hospital"]),
    ],
)
async def test_the_rest_of_a_sentence_goes_too_as_it_may_tell_what_was_forgotten(
    door: Door, admin: asyncpg.Connection, said: str, query: str, words: list[str]
) -> None:
    await say(door, "t1", said, user_id="ada")
    await door(FORGET, session_id="s1", user_id="ada", query=query, dry_run=False, erase=True)
    for word in words:
        assert await cells(admin, word) == [], word


@pytest.mark.parametrize("query", ["mum's surgery", "everything about Jonas"])
async def test_a_query_takes_nothing_that_shares_but_a_word_with_it(door: Door, query: str) -> None:
    await say(door, "t1", "The door code at my mum's building is 48273.", user_id="ada")
    await say(door, "t2", "I gave up on Notion, everything is in Obsidian.", user_id="ada")
    shown = await door(FORGET, session_id="s1", user_id="ada", query=query)
    assert not [one for one in shown["sentences"] if "48273" in one["text"]]
    assert shown["facts"] == []


async def test_nothing_of_a_forgotten_statement_is_left_in_answers_facts_or_other_clauses(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(
        door,
        "t1",
        "My locker PIN at the pool is 73914.",
        answer="Saved: the PIN is 73914.",
        user_id="ada",
    )
    await say(
        door,
        "t2",
        "My sister Philippa is getting married in June; I'm knitting her a shawl.",
        user_id="ada",
    )
    await say(door, "t3", "I work at Quillmark.", user_id="ada")
    await say(door, "t4", "I never send parcels to the office at Quillmark.", user_id="ada")
    facts = (await door(LIST, session_id="s1", user_id="ada"))["facts"]
    yard = [one["record_id"] for one in facts if "shawl" in one["statement"]]
    for arguments in (
        {"query": "my locker PIN"},
        {"fact_ids": yard},
        {"query": "Quillmark"},
    ):
        await door(FORGET, session_id="s1", user_id="ada", dry_run=False, erase=True, **arguments)
    for word in ("73914", "shawl", "quillmark"):
        assert await cells(admin, word) == [], word
    assert "Philippa" in await told(door, "Who is Philippa?", user_id="ada")


async def test_echo_of_a_short_number_is_forgotten_with_the_sentence_that_it_answers(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "My locker is number 214.", answer="Noted: locker 214.", user_id="ada")
    await say(door, "t2", "The book has 214 pages.", session="s2", user_id="ada")
    await door(FORGET, session_id="s1", user_id="ada", query="my locker", dry_run=False, erase=True)
    assert await cells(admin, "locker") == []
    assert "214 pages" in await told(door, "How long is the book?", user_id="ada")


async def test_a_kind_of_fact_is_forgotten_with_its_past_values(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "I live in Tromso.", user_id="ada")
    await say(door, "t2", "I live in Bergen now.", session="s2", user_id="ada")
    await door(FORGET, session_id="s1", user_id="ada", query="where I live", dry_run=False)
    for word in ("tromso", "bergen"):
        assert await cells(admin, word) == []


FAMILY = {
    "my brother Uwe": ("My brother Uwe is a pilot.", "pilot"),
    "what my sister does": ("My sister Anna is a nurse.", "nurse"),
    "my dog": ("I have a dog called Rex.", "Rex"),
}


@pytest.mark.parametrize("query", FAMILY)
async def test_a_query_forgets_of_its_kind_only_whom_it_names(door: Door, query: str) -> None:
    for number, (text, _) in enumerate(FAMILY.values()):
        await say(door, f"t{number}", text, session=f"s{number}", user_id="gil")
    await door(
        "memory_forget", session_id="new", user_id="gil", query=query, reach="user", dry_run=False
    )
    everything = str(await door("memory_list_facts", session_id="new", user_id="gil"))
    for other, (_, value) in FAMILY.items():
        assert (value in everything) == (other != query), other


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("I ran into my ex, Bastiaan, at the market.", "my ex's name"),
        ("My landlord's phone number is 030 5550 1234.", "my landlord's phone number"),
    ],
)
async def test_what_is_anothers_is_not_forgotten_as_ones_own(
    door: Door, said: str, query: str
) -> None:
    await say(door, "t0", "Hi, my name is Ada and my phone number is 040 5550 9999.", user_id="ada")
    await say(door, "t1", said, session="s2", user_id="ada")
    await door(
        "memory_forget", session_id="new", user_id="ada", query=query, reach="user", dry_run=False
    )
    profile = str(await door("memory_list_facts", session_id="new", user_id="ada"))
    assert "Ada" in profile
    assert "'phone'" in profile


async def test_rewritten_message_is_embedded_again_after_forget_and_undo(
    encoding_door: Door, admin: asyncpg.Connection
) -> None:
    door = encoding_door
    await say(door, "t1", "My locker is number 4711. I adopted a greyhound.", user_id="ada")
    done = await door(
        "memory_forget", session_id="s1", user_id="ada", query="locker number", dry_run=False
    )
    queued = "SELECT count(*) FROM job_refs WHERE name = 'index.embed'"
    assert await admin.fetchval(queued) == 1
    await admin.execute("DELETE FROM job_refs")
    await door("memory_forget", session_id="s1", user_id="ada", undo=done["forget_id"])
    assert await admin.fetchval(queued) == 1


async def test_no_number_is_cut_from_a_sentence_whose_fact_stays(encoding_door: Door) -> None:
    door = encoding_door
    said = "dad's been dead for 6 years, my mum turns 70 on march 3. she wants a trip to Trieste."
    await say(door, "t1", said, user_id="ada")
    found = await door("memory_forget", session_id="s2", user_id="ada", query="my father's death")
    assert not {"6", "70", "3"} & {one["text"] for one in found["sentences"]}
    assert found["facts"] or "dad's been dead" in str(found["candidates"])


NAMED = [
    ("Momo", "Momo", "Momo is our cat.", "The vet says Momo's kidneys are bad."),
    ("bruno", "Bruno", "Bruno is my ex.", "bruno still has my camping stove"),
    ("forget jess", "jess", "jess is getting married.", "dinner with jess was great"),
    ("olvida a Denise", "Denise", "Denise es mi prima.", "Denise vive en Lugo."),
    ("everything about Mr Pike", "Pike", "Mr Pike is my landlord.", "I lent my drill to Mr Pike."),
    ("alles über Petra", "Petra", "Petra ist schwanger.", "Mit Petra war ich Ski fahren."),
    ("olvida todo sobre Ana", "Ana", "Ana es mi jefa.", "Comí con Ana el jueves."),
    ("关于小红的一切", "小红", "小红是我的同事。", "周末我跟小红去爬山。"),
]


@pytest.mark.parametrize(("query", "name", "first", "second"), NAMED)
async def test_a_name_goes_in_every_sentence_that_holds_it(
    door: Door, query: str, name: str, first: str, second: str
) -> None:
    await say(door, "t1", f"{first} I live in Graz.", session="old", user_id="ada", answer=first)
    await say(door, "t2", second, session="older", user_id="ada")
    listed = await door(FORGET, session_id="new", user_id="ada", query=query)
    assert {one["session_id"] for one in listed["sentences"]} == {"old", "older"}
    done = await door(FORGET, session_id="new", user_id="ada", query=query, dry_run=False)
    for question in (f"Who is {name}?", first, second):
        said = await told(door, question, session="s1", user_id="ada")
        assert name.casefold() not in said.replace(question, "").casefold()
    assert "Graz" in await told(door, "Where do I live?", session="s1", user_id="ada")
    await door(FORGET, session_id="new", user_id="ada", undo=done["forget_id"])
    assert name in await told(door, first, session="s1", user_id="ada")


async def test_everything_about_the_person_who_asks_names_nothing(door: Door) -> None:
    await say(door, "t1", "I live in Graz. It is near me.", user_id="ada")
    for query in ("everything about me", "all of it", "My Address"):
        listed = await door(FORGET, session_id="new", user_id="ada", query=query)
        assert not {"It is near me."} & {one["text"] for one in listed["sentences"]}


WHOLE = [
    (
        "mein bruder Felix schuldet mir 3000 euro, er ruft nie zurück. bin so sauer",
        "that my brother owes me money",
        ["Felix", "3000 euro", "schuldet", "zurück"],
        "sauer",
    ),
    (
        "my sister Eva owes me 3000 euros, she is sorry. the roof of our shed leaks in May",
        "my sister's debts",
        ["Eva", "3000 euro", "sorry"],
        "the roof of our shed leaks in May",
    ),
    ("i have a dog called Rex", "my dog Rex", ["Rex", "a dog"], ""),
    ("Tengo un perro que se llama Rex.", "mi perro Rex", ["Rex", "un perro"], ""),
]


@pytest.mark.parametrize(("said", "query", "gone", "stays"), WHOLE)
async def test_forgotten_sentence_goes_as_a_whole_with_facts_that_quote_it(
    encoding_door: Door,
    admin: asyncpg.Connection,
    said: str,
    query: str,
    gone: list[str],
    stays: str,
) -> None:
    door = encoding_door
    await say(door, "t1", said, answer="OK.", session="old", user_id="ada")
    before = (await door(LIST, session_id="new", user_id="ada"))["facts"]
    who = {"session_id": "new", "user_id": "ada"}
    done = await door(FORGET, **who, query=query, dry_run=False)
    left = str((await door(LIST, **who))["facts"])
    files = "".join([await file_text(door, path) for path in await file_paths(door, "/memory/old")])
    for word in gone:
        assert word not in left
        assert word not in files
    assert stays in files
    await door(FORGET, **who, undo=done["forget_id"])
    assert (await door(LIST, **who))["facts"] == before
    await door(FORGET, **who, query=query, dry_run=False, erase=True)
    for word in gone:
        assert await cells(admin, word.lower()) == [], word


async def test_exclamations_are_the_last_candidates_and_greetings_none(encoding_door: Door) -> None:
    door = encoding_door
    for number, text in enumerate(
        [
            "hi!",
            "bin so sauer",
            "they want me!!!",
            "any ideas?",
            "My lips are sealed.",
            "they'd pay 68k, i get 59 now",
            "das dach ist undicht!!",
            "we fly to Lisbon over easter",
            "i work at the volksbank, credit dept",
        ]
    ):
        await say(door, f"t{number}", text, session=f"s{number}", user_id="ada")
    for query in ("what I earn", "my salary", "mein Gehalt"):
        found = await door(FORGET, session_id="new", user_id="ada", query=query)
        offered = [one["text"] for one in found["candidates"]]
        assert "they'd pay 68k, i get 59 now" in offered
        assert "hi!" not in offered
        is_last = [one in ("bin so sauer", "they want me!!!", "any ideas?") for one in offered]
        assert is_last == sorted(is_last)


@pytest.mark.parametrize(
    ("said", "query"),
    [("I was fired", "that I lost my job"), ("I'm pregnant!", "my pregnancy")],
)
async def test_short_sentence_that_a_query_means_is_found(
    encoding_door: Door, said: str, query: str
) -> None:
    await say(encoding_door, "t1", f"hi! {said}", session="old", user_id="ada")
    await say(encoding_door, "t2", "bin so sauer", session="old", user_id="ada")
    found = await encoding_door(FORGET, session_id="new", user_id="ada", query=query)
    assert said in {one["text"] for one in (*found["sentences"], *found["candidates"])}


NEIGHBOUR = "Remember that my neighbour Mr Pike drinks. His grandson Paul mows my lawn on Fridays."


async def test_forgetting_one_sentence_of_a_fact_keeps_its_others_and_other_facts_of_the_person(
    door: Door,
) -> None:
    await say(door, "t1", NEIGHBOUR, user_id="ada")
    await say(door, "t2", "Mr Pike has moved to Leeds, to his sister.", session="s2", user_id="ada")
    query = "that my neighbour Mr Pike drinks"
    await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    drinks = await told(door, "What about my neighbour Pike?", session="new", user_id="ada")
    assert "drinks" not in drinks
    assert "Leeds" in await told(door, "Where did Mr Pike move?", session="new", user_id="ada")
    assert "Paul" in await told(door, "Who mows my lawn?", session="new", user_id="ada")


async def test_fact_forgotten_by_its_id_is_not_told_by_a_fact_that_quotes_more(door: Door) -> None:
    await say(door, "t1", f"{NEIGHBOUR} Always call me Mrs Brandt.", user_id="ada")
    listed = (await door(LIST, session_id="s1", user_id="ada"))["facts"]
    ids = [one["record_id"] for one in listed if "drinks" in one["statement"]]
    await door(FORGET, session_id="s1", user_id="ada", fact_ids=ids[:1], dry_run=False)
    assert "drinks" not in await told(door, "What about Pike?", session="new", user_id="ada")
    assert "drinks" not in str(await door(LIST, session_id="s1", user_id="ada"))


async def test_husband_is_forgotten_and_a_friend_stays(door: Door) -> None:
    await say(door, "t1", "Mein Mann ist seit zwei Jahren tot.", user_id="ada")
    await say(door, "t2", "Meine Freundin Hedwig bleibt nun doch in Celle.", user_id="ada")
    query = "daß mein Mann tot ist"
    done = await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    assert ["tot" in one["text"] for one in done["sentences"]] == [True]
    assert "Celle" in await told(door, "Wo ist Hedwig?", session="new", user_id="ada")


async def test_everything_about_a_person_goes_from_a_long_quote_too(door: Door) -> None:
    said = (
        "Im Vertrauen gesagt: mein Nachbar, Herr Krüger, trinkt seit dem Frühjahr wieder. Sein Enkel"
        " Paul mäht mir übrigens jeden Sonnabend den Rasen."
    )
    await say(door, "t1", said, user_id="ada")
    query = "alles über Herrn Krüger"
    await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    listed = str(await door(LIST, session_id="s1", user_id="ada"))
    assert "trinkt" not in listed
    assert "Paul" in listed


async def test_health_is_forgotten_by_the_name_of_its_kind(door: Door) -> None:
    await say(door, "t1", "My doctor thinks I might be coeliac.", user_id="ada")
    query = "everything about my health"
    await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    assert "coeliac" not in str(await door(LIST, session_id="s1", user_id="ada"))


async def test_sentence_that_goes_on_about_what_is_forgotten_goes_too(door: Door) -> None:
    said = "Remember that my sister has epilepsy. Her last seizure was in May. I like tea."
    await say(door, "t1", said, user_id="ada")
    query = "that my sister has epilepsy"
    await door(FORGET, session_id="s3", user_id="ada", query=query, dry_run=False)
    left = str(await door(LIST, session_id="s1", user_id="ada"))
    left += await told(door, "What about my sister?", session="new", user_id="ada")
    assert "seizure" not in left
    assert "tea" in left


async def test_title_before_a_name_in_a_query_is_no_relative(door: Door) -> None:
    await say(door, "t1", "Meine Chefin heißt Frau Krüger. Ich wohne in Kiel.", user_id="ada")
    query = "dass Frau Krüger trinkt"
    done = await door(FORGET, session_id="s3", user_id="ada", query=query)
    assert [one["value"] for one in done["facts"]] == ["Frau Krüger"]


async def test_wife_is_no_name_that_is_cut_out_of_sentences(door: Door) -> None:
    await say(door, "t1", "妻の名前は由美です。", user_id="ada")
    done = await door(FORGET, session_id="s3", user_id="ada", query="妻のこと", dry_run=False)
    assert [one["value"] for one in done["facts"]] == ["由美"]
    assert "由美" not in str(await door(LIST, session_id="s1", user_id="ada"))


MOTHERS = [
    "My mother lives in Split.",
    "My mother is called Ada.",
    "My mother-in-law lives with us.",
    "My mother tongue is Croatian.",
    "My sister has four children.",
]


async def test_my_mother_is_all_that_is_said_of_her_and_of_nobody_else(door: Door) -> None:
    for number, text in enumerate(MOTHERS):
        await say(door, f"t{number}", text, session=f"s{number}", user_id="ada")
    done = await door(FORGET, session_id="q", user_id="ada", query="my mother")
    assert {one["text"] for one in done["sentences"]} == {*MOTHERS[:2]}
    assert {one["statement"] for one in done["facts"]} <= {*MOTHERS[:2]}
