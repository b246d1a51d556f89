"""The search in SQL gives each entry the score that the plain formula gives it."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from memsvc.core.analysis import terms
from memsvc.core.ranking import bm25_constants, bm25_idf, bm25_scores, bm25_term_score
from memsvc.core.scope import Scope
from memsvc.store import index
from memsvc.store.database import Database
from memsvc.store.index import NewEntry, index_id_of
from memsvc.store.search import IndexMatches, IndexQuery, search
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio
VOCABULARY = [
    f"{first}{second}{third}"
    for first in "bdkz"
    for second in ("or", "ip", "um")
    for third in "gnvx"
]


def corpus(dice: random.Random, size: int, length_max: int) -> list[str]:
    """Texts with few words that are frequent and many that are rare, some empty, some the same."""
    weights = [1 / (rank + 1) for rank in range(len(VOCABULARY))]
    texts = [
        " ".join(dice.choices(VOCABULARY, weights, k=dice.randrange(length_max)))
        for _ in range(size)
    ]
    return [
        texts[dice.randrange(at + 1)] if dice.random() < 0.2 else text
        for at, text in enumerate(texts)
    ]


async def fill(
    database: Database, scope: Scope, name: str, texts: Sequence[str], clock: FakeClock
) -> None:
    entries = [
        NewEntry(
            ref=f"{name}-{at}",
            text=text,
            message_at=clock.now() + timedelta(minutes=at),
            role="user" if at % 2 else "assistant",
            speaker=f"speaker {at % 3}",
        )
        for at, text in enumerate(texts)
    ]
    async with database.begin(scope) as tx:
        await index.add(tx, {name: entries})


async def searched(
    database: Database,
    scope: Scope,
    names: Sequence[str],
    asked: Sequence[str],
    best: int = 1000,
    reach: int = 0,
) -> dict[str, IndexMatches]:
    async with database.begin(scope, read_only=True) as tx:
        found = await search(
            tx, [IndexQuery(index_id_of(name), best, reach, best) for name in names], asked
        )
    return {name: found[index_id_of(name)] for name in names if index_id_of(name) in found}


def expected(texts: dict[int, str], asked: Sequence[str]) -> dict[int, dict[str, float]]:
    """By entry and term, what the reference formula gives; entries without words do not count."""
    counts = {entry: Counter(terms(text)) for entry, text in texts.items() if terms(text)}
    average = sum(count.total() for count in counts.values()) / max(1, len(counts))
    k1, b = bm25_constants(average)
    idf = {
        term: bm25_idf(sum(term in count for count in counts.values()), len(counts))
        for term in asked
    }
    return {
        entry: {
            term: bm25_term_score(idf[term], count[term], count.total(), average, k1, b)
            for term in asked
            if term in count
        }
        for entry, count in counts.items()
        if any(term in count for term in asked)
    }


@pytest.mark.parametrize(("size", "length_max"), [(1, 4), (40, 10), (150, 60), (60, 400)])
async def test_scores_equal_the_reference_term_by_term_through_hiding_and_removing(
    database: Database, scope: Scope, clock: FakeClock, size: int, length_max: int
) -> None:
    dice = random.Random(size)
    books = {
        name: dict(enumerate(corpus(dice, size, length_max))) for name in ("one", "two", "three")
    }
    for name, texts in books.items():
        await fill(database, scope, name, list(texts.values()), clock)
    for change in (None, index.hide, index.remove):
        for name, texts in books.items():
            gone = dice.sample(sorted(texts), len(texts) // 5) if change else []
            async with database.begin(scope) as tx:
                if change:
                    await change(tx, index_id_of(name), {entry: texts[entry] for entry in gone})
            books[name] = {entry: text for entry, text in texts.items() if entry not in gone}
        for asked_count in (1, 3, 12):
            asked = [
                *dict.fromkeys(terms(" ".join(dice.sample(VOCABULARY, asked_count)))),
                "nowhere",
            ]
            found = await searched(database, scope, list(books), asked)
            for name, texts in books.items():
                by_entry = expected(texts, asked)
                assert (name in found) == bool(by_entry)
                if name not in found:
                    continue
                assert {one.entry for one in found[name].candidates} == by_entry.keys()
                for one in found[name].candidates:
                    assert one.term_scores == pytest.approx(by_entry[one.entry], rel=1e-9)
                    assert one.length == len(terms(texts[one.entry]))
                worded = [words for text in texts.values() if (words := terms(text))]
                assert found[name].entries == len(worded)
                held = {term: sum(term in words for words in worded) for term in asked}
                assert found[name].counts_by_term == {
                    term: count for term, count in held.items() if count
                }


async def test_the_sum_over_terms_is_the_reference_score(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    texts = [text for text in corpus(random.Random(3), 80, 20) if terms(text)]
    await fill(database, scope, "one", texts, clock)
    asked = list(dict.fromkeys(terms(" ".join(VOCABULARY[:6]))))
    documents = [terms(text) for text in texts]
    scores = bm25_scores(
        asked, documents, *bm25_constants(sum(map(len, documents)) / len(documents))
    )
    found = (await searched(database, scope, ["one"], asked))["one"]
    assert {one.entry: sum(one.term_scores.values()) for one in found.candidates} == pytest.approx(
        {entry: score for entry, score in enumerate(scores) if score}, rel=1e-9
    )


async def test_the_best_entries_are_the_best_and_among_equals_the_latest(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    texts = dict(enumerate(corpus(random.Random(11), 120, 8)))
    await fill(database, scope, "one", list(texts.values()), clock)
    asked = terms(" ".join(VOCABULARY[:4]))
    totals = {
        entry: round(sum(scores.values()), 9) for entry, scores in expected(texts, asked).items()
    }
    ranked = sorted(totals, key=lambda entry: (-totals[entry], -entry))
    assert len(set(totals.values())) < len(totals)  # there are equals
    for best in (1, 2, 5, 17, 60):
        found = await searched(database, scope, ["one"], asked, best=best)
        assert {one.entry for one in found["one"].candidates} == set(ranked[:best])


async def test_neighbours_come_without_scores_and_with_who_said_them_when(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    await fill(
        database,
        scope,
        "one",
        ["bog?", "", "kumquat ", "kumquat bog\uff1f ", "nothing here", "bog"],
        clock,
    )
    found = (await searched(database, scope, ["one"], terms("kumquat"), reach=2))["one"]
    shown = {
        one.entry: (set(one.term_scores), one.role, one.speaker, one.is_question)
        for one in found.candidates
    }
    assert shown == {
        0: (set(), "assistant", "speaker 0", True),
        1: (set(), "user", "speaker 1", False),
        2: ({terms("kumquat")[0]}, "assistant", "speaker 2", False),
        3: ({terms("kumquat")[0]}, "user", "speaker 0", True),
        4: (set(), "assistant", "speaker 1", False),
        5: (set(), "user", "speaker 2", False),
    }
    assert {one.entry: one.message_at for one in found.candidates} == {
        entry: clock.now() + timedelta(minutes=entry) for entry in range(6)
    }


async def test_a_hidden_entry_does_not_come_back_as_somebodys_neighbour(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    await fill(database, scope, "one", ["zeppelin", "kumquat", "marzipan"], clock)
    async with database.begin(scope) as tx:
        await index.hide(tx, index_id_of("one"), {0: "zeppelin"})
    found = (await searched(database, scope, ["one"], terms("kumquat"), reach=1))["one"]
    assert {one.entry for one in found.candidates} == {1, 2}


async def test_nothing_is_found_in_books_that_have_none_of_the_terms(
    database: Database, scope: Scope, other_scope: Scope, clock: FakeClock
) -> None:
    await fill(database, scope, "one", ["kumquat"], clock)
    await fill(database, scope, "none", ["", "the"], clock)
    for asked in ([], ["nowhere"], ["%"], ["kumquat'; --"], ["k_mquat"]):
        assert await searched(database, scope, ["one", "none", "missing"], asked) == {}
    for elsewhere in (other_scope, Scope(scope.tenant, "elsewhere")):
        assert await searched(database, elsewhere, ["one"], terms("kumquat")) == {}
    assert list(
        await searched(database, scope, ["none", "one", "missing"], terms("kumquat"), reach=3)
    ) == ["one"]
