"""What is put into a book is counted exactly, found until it is hidden, and kept apart from every
other book."""

import asyncio
import random
from collections.abc import Sequence

import asyncpg
import pytest

from memsvc.core.analysis import terms
from memsvc.core.scope import Scope
from memsvc.store import derived_index, index
from memsvc.store.database import Database, Tx
from memsvc.store.index import FRESH_MAX, NewEntry, index_id_of
from memsvc.store.search import IndexQuery, search
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio
BOOK = "turns/s1"
WORDS = ("kumquat", "zeppelin", "obsidian", "marzipan", "the", "walrus", "")
WAITING = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND"
    " wait_event_type = 'Lock')"
)
NOTHING_TO_FIND = ("", "   ", "the and of", "\u202e", "!?", "\x00")


@pytest.fixture
def new(clock: FakeClock):
    def new(*texts: str) -> list[NewEntry]:
        return [
            NewEntry(ref=f"r{at}", text=text, message_at=clock.now())
            for at, text in enumerate(texts)
        ]

    return new


async def found(database: Database, scope: Scope, word: str, book: str = BOOK) -> list[int]:
    """The numbers of the entries that a word finds, in order."""
    async with database.begin(scope, read_only=True) as tx:
        shelves = await search(tx, [IndexQuery(index_id_of(book), 100, 0, 0)], terms(word))
    return sorted(one.entry for shelf in shelves.values() for one in shelf.candidates)


async def add(
    database: Database, scope: Scope, entries: Sequence[NewEntry], book: str = BOOK
) -> int:
    async with database.begin(scope) as tx:
        return (await index.add(tx, {book: entries}))[book]


async def counters(admin: asyncpg.Connection) -> tuple[int, int, int]:
    """What the one book says of itself: next number, entries and their length in terms."""
    return tuple(await admin.fetchrow("SELECT next_entry, entries, length FROM books"))


async def test_entries_are_numbered_in_order_without_gaps(
    database: Database, scope: Scope, new
) -> None:
    assert await add(database, scope, new("kumquat", "the", "zeppelin kumquat")) == 0
    assert await add(database, scope, new("kumquat")) == 3
    assert await add(database, scope, new("marzipan"), "turns/s10") == 0
    assert await found(database, scope, "kumquat") == [0, 2, 3]
    assert await found(database, scope, "zeppelins") == [2]
    assert await found(database, scope, "marzipan") == []


async def test_concurrent_writers_of_a_book_leave_no_gap(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    ready = asyncio.Barrier(10)

    async def one(size: int) -> range:
        await ready.wait()
        first = await add(database, scope, new(*["kumquat zeppelin"] * size))
        return range(first, first + size)

    numbers = [number for part in await asyncio.gather(*map(one, range(1, 11))) for number in part]
    assert sorted(numbers) == list(range(55))
    assert await found(database, scope, "zeppelin") == list(range(55))
    assert await counters(admin) == (55, 55, 110)


async def test_a_transaction_that_fails_leaves_the_book_as_it_was(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new("kumquat"))
    before = await counters(admin)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with database.begin(scope) as tx:
            await index.add(tx, {BOOK: new("kumquat", "kumquat")})
            raise ZeroDivisionError
    assert await counters(admin) == before
    assert await add(database, scope, new("kumquat")) == 1


async def test_cues_find_an_entry_that_does_not_show_them(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    await add(
        database,
        scope,
        [NewEntry(ref="f", text="name: Ada", keywords="who am i called", message_at=clock.now())],
    )
    assert await found(database, scope, "called") == [0]
    async with database.begin(scope, read_only=True) as tx:
        assert (await index.texts(tx, index_id_of(BOOK), [0, 7], chars_max=6))[0].text == "name: "


async def test_an_entry_without_words_is_kept_in_order_but_not_counted(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new(*NOTHING_TO_FIND))
    assert await counters(admin) == (len(NOTHING_TO_FIND), 0, 0)
    assert await add(database, scope, new("walrus")) == len(NOTHING_TO_FIND)
    async with database.begin(scope, read_only=True) as tx:
        texts = await index.texts(tx, index_id_of(BOOK), range(20), chars_max=99)
    assert sorted(texts) == list(range(len(NOTHING_TO_FIND) + 1))


async def test_counters_stay_exact_through_any_adding_hiding_and_removing(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    dice = random.Random(7)
    book = index_id_of(BOOK)
    findable: dict[int, list[str]] = {}
    texts_ever: dict[int, str] = {}
    last = 0
    for _ in range(60):
        numbers = [dice.randrange(last + 3) for _ in range(dice.randrange(5))]
        chosen = {number: texts_ever.get(number, "kumquat walrus") for number in numbers}
        async with database.begin(scope) as tx:
            match dice.choice(("add", "add", "hide", "remove")):
                case "add":
                    texts = [
                        " ".join(dice.choices(WORDS, k=dice.randrange(6)))
                        for _ in range(dice.randrange(1, 5))
                    ]
                    first = (await index.add(tx, {BOOK: new(*texts)}))[BOOK]
                    findable |= {first + at: terms(text) for at, text in enumerate(texts)}
                    texts_ever |= {first + at: text for at, text in enumerate(texts)}
                    last = first + len(texts)
                case "hide":
                    await index.hide(tx, book, chosen)
                    findable = {
                        number: words for number, words in findable.items() if number not in chosen
                    }
                case _:
                    await index.remove(tx, book, chosen)
                    findable = {
                        number: words for number, words in findable.items() if number not in chosen
                    }
        lengths = [len(words) for words in findable.values() if words]
        assert await counters(admin) == (last, len(lengths), sum(lengths))
    for word in WORDS:
        expected = sorted(
            number for number, words in findable.items() if terms(word) and terms(word)[0] in words
        )
        assert await found(database, scope, word) == expected


async def test_concurrent_hiders_of_the_same_entries_count_them_once(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new(*["kumquat zeppelin"] * 10))
    ready = asyncio.Barrier(6)

    async def hide() -> None:
        await ready.wait()
        async with database.begin(scope) as tx:
            await index.hide(tx, index_id_of(BOOK), dict.fromkeys(range(2, 9), "kumquat zeppelin"))

    await asyncio.gather(*[hide() for _ in range(6)])
    assert await counters(admin) == (10, 3, 6)
    assert await found(database, scope, "kumquat") == [0, 1, 9]


async def test_a_hidden_entry_can_be_read_by_number_and_a_removed_one_is_gone(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new("kumquat one", "kumquat two", "kumquat three"))
    async with database.begin(scope) as tx:
        await index.hide(tx, index_id_of(BOOK), {0: "kumquat one"})
        await index.remove(tx, index_id_of(BOOK), {1: "kumquat two"})
        texts = await index.texts(tx, index_id_of(BOOK), [0, 1, 2], chars_max=99)
    assert {number: text.text for number, text in texts.items()} == {
        0: "kumquat one",
        2: "kumquat three",
    }
    for table in ("entries", "posting_lists", "fresh_terms"):
        rows = await admin.fetch(f"SELECT t::text FROM {table} AS t")
        assert not any("kumquat two" in row[0] for row in rows)


async def test_books_of_other_tenants_and_projects_are_other_books(
    database: Database, scope: Scope, other_scope: Scope, new
) -> None:
    elsewhere = Scope(scope.tenant, "elsewhere")
    for where in (scope, other_scope, elsewhere):
        assert await add(database, where, new("kumquat")) == 0
    await add(database, scope, new("kumquat zeppelin"))
    async with database.begin(other_scope) as tx:
        await index.remove(tx, index_id_of(BOOK), {0: "kumquat", 1: "kumquat zeppelin"})
    assert await found(database, scope, "kumquat") == [0, 1]
    assert await found(database, other_scope, "kumquat") == []
    assert await found(database, elsewhere, "zeppelin") == []
    assert await found(database, elsewhere, "kumquat") == [0]


async def test_extreme_texts_are_indexed_and_found(database: Database, scope: Scope, new) -> None:
    long = " ".join(f"word{number}" for number in range(10_000))
    await add(
        database,
        scope,
        new(
            long,
            "kumquat " * 70_000,
            "x" * 100_000,
            "メモ帳を書いた",
            "a\x00kumquat\x00b",
            "é" * 500,
        ),
    )
    assert await found(database, scope, "word17") == [0]
    assert 1 in await found(database, scope, "kumquat")
    assert await found(database, scope, "メモ") == [3]
    assert await found(database, scope, "x" * 100_000) == [2]


@pytest.mark.one_server("waits on nodes are not seen")
@pytest.mark.parametrize("first", ["add", "hide"])
@pytest.mark.parametrize("second", ["add", "hide"])
async def test_two_writers_of_a_book_that_overlap_lose_nothing_of_each_other(
    database: Database, scope: Scope, new, admin: asyncpg.Connection, first: str, second: str
) -> None:
    await add(database, scope, new(*["kumquat zeppelin"] * 4))
    gone = {"first": {0: "kumquat zeppelin"}, "second": {1: "kumquat zeppelin"}}

    async def change(tx: Tx, which: str, kind: str) -> None:
        if kind == "add":
            await index.add(tx, {BOOK: new("kumquat walrus")})
        else:
            await index.hide(tx, index_id_of(BOOK), gone[which])

    async def follow() -> None:
        async with database.begin(scope) as tx:
            await change(tx, "second", second)

    async with database.begin(scope) as tx:
        await change(tx, "first", first)
        follower = asyncio.create_task(follow())
        while not await admin.fetchval(WAITING):
            assert not follower.done(), "the second writer did not wait for the first one"
            await asyncio.sleep(0)
    await follower
    hidden = ({0} if first == "hide" else set()) | ({1} if second == "hide" else set())
    added = [first, second].count("add")
    left = sorted(set(range(4 + added)) - hidden)
    assert await found(database, scope, "kumquat") == left
    assert await found(database, scope, "zeppelin") == [number for number in left if number < 4]
    assert await counters(admin) == (4 + added, len(left), 2 * len(left))


async def test_terms_wait_beside_the_postings_and_are_found_and_taken_back_on_either_side(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    waiting = "SELECT count(*) FROM fresh_terms"
    folded = "SELECT coalesce(sum(cardinality(hits)), 0) FROM posting_lists WHERE term = 'kumquat'"
    for number in range(FRESH_MAX - 1):
        await add(database, scope, new(f"kumquat {number}"))
    assert (await admin.fetchval(waiting), await admin.fetchval(folded)) == (FRESH_MAX - 1, 0)
    await add(database, scope, new("kumquat zeppelin"))
    assert (await admin.fetchval(waiting), await admin.fetchval(folded)) == (0, FRESH_MAX)
    await add(database, scope, new("kumquat obsidian", "marzipan"))
    assert await found(database, scope, "kumquat") == list(range(FRESH_MAX + 1))
    async with database.begin(scope) as tx:
        await index.remove(tx, index_id_of(BOOK), {0: "kumquat 0", FRESH_MAX: "kumquat obsidian"})
    assert (await admin.fetchval(waiting), await admin.fetchval(folded)) == (1, FRESH_MAX - 1)
    assert await found(database, scope, "kumquat") == list(range(1, FRESH_MAX))
    await add(database, scope, new(*(f"walrus {number}" for number in range(3 * FRESH_MAX))))
    assert await admin.fetchval(waiting) == 0
    assert len(await found(database, scope, "walrus")) == 3 * FRESH_MAX


async def until_somebody_waits(admin: asyncpg.Connection) -> None:
    while True:
        if await admin.fetchval(WAITING):
            return
        await asyncio.sleep(0.01)


@pytest.mark.one_server("waits on nodes are not seen")
async def test_an_entry_that_is_taken_out_while_its_terms_become_postings_leaves_none(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new("kumquat walrus"))
    folded = asyncio.Event()

    async def fold() -> None:
        async with database.begin(scope) as tx:
            await index.add(tx, {BOOK: new(*["zeppelin"] * FRESH_MAX)})
            folded.set()
            await until_somebody_waits(admin)

    async def take_out() -> None:
        await folded.wait()
        async with database.begin(scope) as tx:
            await index.hide(tx, index_id_of(BOOK), {0: "kumquat walrus"})

    async with asyncio.timeout(30):
        await asyncio.gather(fold(), take_out())
    assert await found(database, scope, "kumquat") == []
    assert await found(database, scope, "zeppelin") == list(range(1, FRESH_MAX + 1))
    assert (
        await admin.fetchval(
            "SELECT count(*) FROM posting_lists WHERE term LIKE 'kumquat%' OR term LIKE 'walrus%'"
        )
        == 0
    )


@pytest.mark.one_server("waits on nodes are not seen")
async def test_a_repair_waits_for_who_adds_and_leaves_none_of_its_terms_fresh(
    database: Database, scope: Scope, new, admin: asyncpg.Connection
) -> None:
    await add(database, scope, new("kumquat"))

    async def repair() -> None:
        async with database.begin(scope) as tx:
            await derived_index.put_segment(
                tx, index_id_of(BOOK), 0, {"zeppelin": [0 << 32 | 1 << 16 | 1]}
            )

    async with asyncio.timeout(30):
        async with database.begin(scope) as tx:
            await index.add(tx, {BOOK: new("walrus")})
            repairing = asyncio.create_task(repair())
            await until_somebody_waits(admin)
        await repairing
    assert await found(database, scope, "zeppelin") == [0]
    assert await found(database, scope, "walrus") == []
    assert await admin.fetchval("SELECT count(*) FROM fresh_terms") == 0
    assert await admin.fetchval("SELECT folded_entry FROM books") == 2
