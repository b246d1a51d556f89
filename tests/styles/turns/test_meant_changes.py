"""A message of change puts the statement in doubt that it means, and no other."""

from collections.abc import Sequence
from typing import Any

import asyncpg
import orjson
import pytest

from benchmarks.beliefs import FOLDER
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import (
    MEANINGS_MAX,
    items_of,
    read_meaning,
    read_statements,
)
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.talk import ask, cells, memory, say

FOUND_MIN, FALSE_MAX = 0.75, 0.1
"""Share of the changes of writers from whom nothing was learned, and of what they said before."""
ENDED = [
    ("I play the trumpet in the town band.", "I gave up the trumpet, the town band can cope."),
    ("Dienstags spiele ich Tischtennis im Verein.", "Tischtennis im Verein habe ich aufgegeben."),
    ("Los jueves doy clases de guitarra.", "Dejé las clases de guitarra de los jueves en junio."),
    ("I keep bees on the allotment.", "We gave up the bees, the allotment is all dahlias now."),
]
HOLDS = [
    ("I like green tea.", "I like black tea as well."),
    ("I play the trumpet in the town band.", "My sister gave up the trumpet and left the band."),
    ("I keep bees on the allotment.", "We gave up the lease on the office downtown."),
    ("My name is Ada.", "I gave up explaining my name to the new teacher."),
    (
        "Mia is allergic to hazelnuts, so no Nutella please.",
        "I've stopped eating meat, watched a documentary with Mia and that was it.",
    ),
]


@pytest.fixture
def door(encoding_door: Door) -> Door:
    return encoding_door


async def test_head_finds_changes_of_other_writers_and_few_other_statements(
    encoder: SentenceEncoder,
) -> None:
    people = orjson.loads((FOLDER / "people_worked.json").read_bytes())
    pairs = people["B6"] + orjson.loads((FOLDER / "worked.json").read_bytes())["B6"]
    said = {
        name: [
            encoder.log_odds("change", vector) > 0
            for vector in await encoder.embed([pair[name] for pair in pairs])
        ]
        for name in ("change", "first")
    }
    assert sum(said["change"]) / len(pairs) > FOUND_MIN
    assert sum(said["first"]) / len(pairs) < FALSE_MAX


async def test_only_latest_messages_of_a_turn_are_compared_with_earlier_ones(
    database: Database, clock: FakeClock, encoder: SentenceEncoder
) -> None:
    said = [f"I gave up the trumpet in band {number}." for number in range(MEANINGS_MAX * 3)]
    items = await items_of(
        [{"role": "user", "content": text} for text in said], "items", TurnOptions(), clock.now()
    )
    read = await read_meaning(
        await read_statements(items), Embedding(database, encoder, clock, RecordingMeter()), 1000
    )
    assert [one.item for one in read] == [one.item for one in items]
    assert [one.text for one in read if one.changing] == said[-MEANINGS_MAX:]


async def test_vectors_of_a_turn_are_made_before_its_transaction(
    door: Door, database: Database, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    made: list[str] = []
    embed = encoder.embed

    async def watched(texts: Sequence[str]) -> list[list[float]]:
        seen.append(database.usage())
        made.extend(texts)
        return await embed(texts)

    monkeypatch.setattr(encoder, "embed", watched)
    text = "My name is Ada and I live in Turin. I gave up the trumpet."
    await say(door, "t1", text, session="a", user_id="ada")
    assert seen
    assert all(opened == idle for opened, idle in seen)
    assert text in made
    assert any("Turin" in one for one in made if one != text), "the vectors of facts are made too"


async def doubts(door: Door, first: str, then: str, clock: FakeClock, user: str) -> list[str]:
    """Return the doubts about the facts of a first message, after another one."""
    await say(door, f"{user}-1", first, session=f"{user}-a", user_id=user)
    clock.advance(days=1)
    await say(door, f"{user}-2", then, session=f"{user}-b", user_id=user)
    listed = await door("memory_list_facts", session_id="new", user_id=user)
    facts = [one for one in listed["facts"] if one["evidence"]["session_id"] == f"{user}-a"]
    assert facts, "the first message is a fact"
    return [fact["doubt"]["text"] for fact in facts if fact["doubt"]]


async def test_change_puts_what_it_means_in_doubt_and_nothing_else(
    door: Door, clock: FakeClock
) -> None:
    for number, (first, then) in enumerate(ENDED):
        assert await doubts(door, first, then, clock, f"ended-{number}") == [then], then
    for number, (first, then) in enumerate(HOLDS):
        assert not await doubts(door, first, then, clock, f"holds-{number}"), then


async def test_statement_that_a_change_means_is_marked_but_not_as_of_before(
    door: Door, clock: FakeClock
) -> None:
    first, then = ENDED[0]
    await say(door, "t1", first, session="a", user_id="ada")
    before = clock.advance(days=1)
    clock.advance(days=1)
    await say(door, "t2", then, session="b", user_id="ada")
    question: dict[str, Any] = {"question": "Do I play the trumpet?", "session": "c"}
    now = memory(await ask(door, **question, user_id="ada"))
    assert "superseded_by" in str(now) or "questioned" in str(now)
    past = memory(await ask(door, **question, user_id="ada", as_of=before.isoformat()))
    assert "trumpet" in str(past)
    assert "superseded_by" not in str(past)
    assert "questioned" not in str(past)


async def test_change_that_might_mean_either_of_two_statements_ends_neither(
    door: Door, clock: FakeClock
) -> None:
    for name in ("first", "second"):
        await say(door, name, f"I play the {name} trumpet.", session=name, user_id="ada")
        clock.advance(days=1)
    await say(door, "t3", "I gave my instruments away.", session="b", user_id="ada")
    listed = await door("memory_list_facts", session_id="new", user_id="ada")
    assert not [fact for fact in listed["facts"] if fact["doubt"]]


async def test_forgetting_offers_sentences_by_their_meaning_where_none_stands_out(
    door: Door,
) -> None:
    raised = "They've put me up to 52,300 from april AND i get a parking space."
    for number, text in enumerate((raised, "I play the trumpet.", "Jonas is my boss.")):
        await say(door, f"t{number}", text, session=f"s{number}", user_id="ada")
    forget: dict[str, Any] = {"session_id": "new", "user_id": "ada", "dry_run": False}
    done = await door("memory_forget", query="wipe my salary", **forget)
    assert (done["facts"], done["sentences"]) == ([], [])
    assert {"session_id": "s0", "turn_id": "t0", "text": raised} in done["candidates"]
    done = await door("memory_forget", query=raised, **forget)
    assert [one["text"] for one in done["sentences"]] == [raised]
    asked = memory(await ask(door, "How much do I earn?", session="c", user_id="ada"))
    assert "52,300" not in str(asked)


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("I have insomnia.", "Please forget my insomnia"),
        ("I'm pregnant.", "forget my pregnancy"),
        ("Please remember that my locker at work is number 214.", "forget my locker"),
        ("Remember my dentist appointment on 9 May 2027 with Dr. Vogel.", "forget the dentist"),
        ("My boss is Mr. Smith Jr. from accounting.", "forget my boss"),
        ("Ich wohne in Halle.", "Vergiss, wo ich wohne"),
        ("Meine Schwester Lena heiratet am 5. Juni in Jena.", "vergiss die Hochzeit von Lena"),
        ("I play the cello.", "forget my cello"),
    ],
)
async def test_sentence_that_a_query_means_goes_whole_with_the_fact_that_it_states(
    door: Door, admin: asyncpg.Connection, said: str, query: str
) -> None:
    await say(door, "t1", said, user_id="ada")
    forget: dict[str, Any] = {"session_id": "new", "user_id": "ada", "dry_run": False}
    done = await door("memory_forget", query=query, erase=True, **forget)
    assert [one["text"] for one in done["sentences"]] == [said]
    assert (await door("memory_list_facts", session_id="new", user_id="ada"))["facts"] == []
    for word in said.rstrip(".").split()[-2:]:
        assert len(word) < 5 or await cells(admin, word) == []


async def test_fact_that_a_query_does_not_mean_stays_and_its_sentence_is_offered(
    door: Door,
) -> None:
    said = "I keep bees and I live in Graz."
    await say(door, "t1", said, user_id="ada")
    forget: dict[str, Any] = {"session_id": "new", "user_id": "ada", "dry_run": False}
    done = await door("memory_forget", query="forget my bees", **forget)
    assert (done["facts"], done["sentences"]) == ([], [])
    assert [one["text"] for one in done["candidates"]] == [said]
    [home] = (await door("memory_list_facts", session_id="new", user_id="ada"))["facts"]
    assert home["fact_id"] == "user_home"
    done = await door("memory_forget", query=said, **forget)
    assert [one["text"] for one in done["sentences"]] == [said]
    asked = memory(await ask(door, "Do I keep bees?", session="c", user_id="ada"))
    assert "bees" not in str(asked)


async def test_what_has_nothing_to_do_with_a_query_is_not_offered(door: Door) -> None:
    for number, text in enumerate(("tell me a joke", "haha ok good night", "   ")):
        await say(door, f"t{number}", text, session=f"s{number}", user_id="ada")
    done = await door("memory_forget", query="forget my car", user_id="ada")
    assert "" not in [one["text"] for one in done["candidates"]]
    assert done["facts"] == done["sentences"] == []
