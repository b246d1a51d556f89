"""Vectors are kept for entries that can be found, found by how alike they are, and stay with their
tenant."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.core.scope import Scope
from memsvc.core.vectors import TextVector, signs_of
from memsvc.store import index, search, vectors
from memsvc.store.database import Database
from memsvc.store.index import NewEntry, index_id_of
from memsvc.store.policies import TENANT_IS_CURRENT
from tests.fakes import FakeClock
from tests.servers import DatabaseUrls, TestServer
from tests.store.vectors import nearest as nearest_of

pytestmark = pytest.mark.anyio
NAME = "turns/s1"
BOOK = index_id_of(NAME)
MODEL = "openai/m"
LEFT, UP, BACK = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]


@pytest.fixture
def add(database: Database, scope: Scope, clock: FakeClock):
    async def add(*texts: str, where: Scope = scope, name: str = NAME, cues: str = "") -> int:
        new = [
            NewEntry(ref=f"r{at}", text=text, message_at=clock.now(), keywords=cues)
            for at, text in enumerate(texts)
        ]
        async with database.begin(where) as tx:
            return (await index.add(tx, {name: new}))[name]

    return add


async def put(
    database: Database, scope: Scope, given: Mapping[int, Sequence[float]], model: str = MODEL
) -> int:
    async with database.begin(scope) as tx:
        made = {entry: TextVector(vector) for entry, vector in given.items()}
        return await vectors.put(tx, BOOK, model, made)


async def nearest(
    database: Database, scope: Scope, vector: Sequence[float], best: int = 10, model: str = MODEL
) -> dict[int, float]:
    async with database.begin(scope, read_only=True) as tx:
        return await nearest_of(tx, BOOK, model, vector, best)


async def missing(
    database: Database, scope: Scope, model: str = MODEL, after: int = -1, limit: int = 100
):
    async with database.begin(scope, read_only=True) as tx:
        found = await vectors.missing(tx, BOOK, model, after=after, limit=limit)
    return {entry: text for entry, (text, _) in found.items()}


async def test_entry_ranks_by_its_nearest_sentence(database: Database, scope: Scope, add) -> None:
    await add("one", "two", "three")
    query = [1.0] * 8
    given = {
        0: TextVector([*[1.0] * 6, -1.0, -1.0], signs_of([-1.0] * 8) + signs_of(query)),
        1: TextVector([*[1.0] * 7, -1.0]),
        2: TextVector([*[1.0] * 6, -1.0, -1.0], signs_of([-1.0] * 8)),
    }
    async with database.begin(scope) as tx:
        await vectors.put(tx, BOOK, MODEL, given)
    wanted = search.IndexQuery(BOOK, 0, best_by_embedding=3)
    async with database.begin(scope, read_only=True) as tx:
        found = await search.search(tx, [wanted], [], search.QueryEmbedding(query, MODEL))
        kept = await vectors.of(tx, BOOK, MODEL, [0])
    by_entry = {one.entry: one for one in found[BOOK].candidates}
    assert [by_entry[at].cosine for at in range(3)] == pytest.approx([0.5, 0.75, 0.5], abs=1e-2)
    specific = [by_entry[at].specific_cosine or 0.0 for at in range(3)]
    assert specific[0] > specific[1] > specific[2] == pytest.approx(0.5, abs=1e-2)
    assert len(kept[0]) == 8


async def test_the_nearest_entries_come_with_their_cosines(
    database: Database, scope: Scope, add
) -> None:
    await add("one", "two", "three")
    assert await put(database, scope, {0: LEFT, 1: [2.0, 2.0, 0.0], 2: BACK}) == 3
    found = await nearest(database, scope, LEFT)
    assert found == pytest.approx({0: 1.0, 1: sqrt(0.5), 2: -1.0}, abs=1e-3)
    assert list(found) == [0, 1, 2]
    assert list(await nearest(database, scope, UP, best=1)) == [1]
    assert await nearest(database, scope, LEFT, model="openai/other") == {}


async def test_what_has_words_and_no_vector_is_missing_with_its_cues(
    database: Database, scope: Scope, add
) -> None:
    await add("one", "the", "", "two")
    await add("three", cues="drei")
    assert await missing(database, scope) == {0: "one", 3: "two", 4: "three\ndrei"}
    assert await missing(database, scope, limit=1) == {0: "one"}
    assert await missing(database, scope, after=0, limit=1) == {3: "two"}
    await put(database, scope, {0: LEFT, 3: UP})
    assert await missing(database, scope) == {4: "three\ndrei"}
    assert list(await missing(database, scope, "openai/other")) == [0, 3, 4]


async def test_a_vector_that_is_there_already_stays(database: Database, scope: Scope, add) -> None:
    await add("one")
    assert await put(database, scope, {0: LEFT}) == 1
    assert await put(database, scope, {0: UP}) == 0
    assert await put(database, scope, {}) == 0
    assert await nearest(database, scope, LEFT) == pytest.approx({0: 1.0})


@pytest.mark.parametrize("take_out", [index.hide, index.remove])
async def test_entries_that_went_are_neither_found_nor_given_vectors(
    database: Database, scope: Scope, add, admin: asyncpg.Connection, take_out
) -> None:
    await add("one", "two", "three")
    await put(database, scope, {0: LEFT})
    async with database.begin(scope) as tx:
        await take_out(tx, BOOK, {0: "one", 1: "two"})
    assert await put(database, scope, {1: LEFT, 2: UP, 7: UP}) == 1
    assert list(await nearest(database, scope, LEFT)) == [2]
    async with database.begin(scope) as tx:
        await vectors.forget(tx, BOOK, [0])
    assert await admin.fetchval("SELECT array_agg(entry) FROM embeddings") == [2]


@pytest.mark.one_server("waits on nodes are not seen")
async def test_a_vector_that_comes_while_its_entry_is_removed_is_not_kept(
    database: Database, scope: Scope, add, admin: asyncpg.Connection
) -> None:
    await add("one", "two")
    async with database.begin(scope) as tx:
        await index.remove(tx, BOOK, {0: "one"})
        late = asyncio.create_task(put(database, scope, {0: LEFT, 1: UP}))
        while not await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
            " wait_event_type = 'Lock'"
        ):
            assert not late.done()
    assert await late == 1


async def test_forgetting_takes_the_vectors_of_every_model(
    database: Database, scope: Scope, add, admin: asyncpg.Connection
) -> None:
    await add("one", "two")
    for model in ("a", "b"):
        await put(database, scope, {0: LEFT, 1: UP}, model)
    async with database.begin(scope) as tx:
        await vectors.forget(tx, BOOK, [0, 9])
        await vectors.forget(tx, BOOK, [])
    assert await admin.fetchval("SELECT array_agg(entry) FROM embeddings") == [1, 1]


async def test_pruning_takes_what_nobody_forgot(database: Database, scope: Scope, add) -> None:
    await add("one", "two", "three")
    await put(database, scope, {0: LEFT, 1: UP, 2: BACK})
    async with database.begin(scope) as tx:
        await index.hide(tx, BOOK, {0: "one"})
        await index.remove(tx, BOOK, {1: "two"})
        assert await vectors.prune(tx, BOOK) == 2
        assert await vectors.prune(tx, BOOK) == 0


async def test_the_vectors_of_other_models_can_be_dropped(
    database: Database, scope: Scope, add
) -> None:
    await add("one")
    for model in ("a", "b", "c", "d"):
        await put(database, scope, {0: LEFT}, model)
    async with database.begin(scope) as tx:
        assert await vectors.drop_other_models(tx, BOOK, "b") == 3
        assert await vectors.drop_other_models(tx, BOOK, "b") == 0
    assert await nearest(database, scope, LEFT, model="b") == pytest.approx({0: 1.0})


async def test_progress_and_what_is_unfinished(database: Database, scope: Scope, add) -> None:
    await add("one", "two", "the")
    await add("kumquat", name="turns/s2")
    await add("", name="turns/s3")
    await put(database, scope, {0: LEFT})
    async with database.begin(scope) as tx:
        assert await vectors.progress(tx, MODEL) == {
            BOOK: vectors.VectorProgress(2, 1),
            index_id_of("turns/s2"): vectors.VectorProgress(1, 0),
        }
        assert await vectors.progress(tx, MODEL, [BOOK]) == {BOOK: vectors.VectorProgress(2, 1)}
        assert sorted(await vectors.list_incomplete(tx, MODEL, limit=9)) == sorted(
            [BOOK, index_id_of("turns/s2")]
        )
        assert len(await vectors.list_incomplete(tx, MODEL, limit=1)) == 1
        assert await vectors.latest(tx, BOOK, MODEL) == 0
        assert await vectors.latest(tx, BOOK, "openai/other") == -1
    await put(database, scope, {1: UP})
    async with database.begin(scope) as tx:
        assert await vectors.list_incomplete(tx, MODEL, limit=9) == [index_id_of("turns/s2")]
    await put(database, scope, {1: UP}, "openai/older")
    async with database.begin(scope) as tx:
        assert BOOK in await vectors.list_incomplete(tx, MODEL, limit=9)


async def test_a_vector_of_another_length_is_left_out(
    database: Database, scope: Scope, add
) -> None:
    await add("one", "two")
    await put(database, scope, {0: LEFT})
    await put(database, scope, {1: [1.0, 0.0]})
    assert list(await nearest(database, scope, LEFT)) == [0]
    assert list(await nearest(database, scope, [1.0, 0.0])) == [1]


async def test_a_vector_of_nothing_is_near_to_nothing(
    database: Database, scope: Scope, add
) -> None:
    await add("one", "two")
    await put(database, scope, {0: LEFT, 1: [0.0, 0.0, 0.0]})
    assert list(await nearest(database, scope, LEFT)) == [0]
    assert await nearest(database, scope, [0.0, 0.0, 0.0]) == {}


@pytest.mark.one_server("rows are on nodes")
@pytest.mark.parametrize(("dimensions", "inline"), [(1536, True), (3072, True), (8192, False)])
async def test_a_long_vector_stays_in_its_row_while_a_page_has_room(
    database: Database,
    scope: Scope,
    add,
    admin: asyncpg.Connection,
    dimensions: int,
    inline: bool,
) -> None:
    dice = random.Random(dimensions)
    given = {number: [dice.gauss(0, 1) for _ in range(dimensions)] for number in range(3)}
    await add("one", "two", "three")
    await put(database, scope, given)
    assert await nearest(database, scope, given[1], best=1) == pytest.approx({1: 1.0}, abs=1e-3)
    outside = await admin.fetchval(
        "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'embeddings'::regclass"
    )
    assert (outside == 0) is inline


async def test_the_vectors_of_a_tenant_and_of_a_project_are_theirs(
    database: Database,
    scope: Scope,
    other_scope: Scope,
    add,
    server: TestServer,
    admin: Any,
) -> None:
    for where in (scope, other_scope, Scope(scope.tenant, "elsewhere")):
        await add("one", where=where)
    await put(database, scope, {0: LEFT})
    for where in (other_scope, Scope(scope.tenant, "elsewhere")):
        assert await nearest(database, where, LEFT) == {}
        assert list(await missing(database, where)) == [0]
        async with database.begin(where) as tx:
            await vectors.forget(tx, BOOK, [0])
            assert await vectors.drop_other_models(tx, BOOK, "other") == 0
    assert list(await nearest(database, scope, LEFT)) == [0]
    async with database.begin(
        other_scope
    ) as tx:  # the second wall: rows of others are not there, whatever is asked
        assert await tx.unbound("SELECT * FROM embeddings") == []
    walled = await admin.fetchrow(
        """
        SELECT c.relrowsecurity, c.relforcerowsecurity, p.polname,
            pg_get_expr(p.polqual, c.oid) AS seen,
               pg_get_expr(p.polwithcheck, c.oid) AS written, p.polcmd
        FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid WHERE c.relname = 'embeddings'
        """
    )
    like = await admin.fetchval(
        "SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE polrelid = 'entries'::regclass"
    )
    assert tuple(walled) == (True, True, "tenant_only", like, like, b"*")
    assert "memsvc.tenant" in TENANT_IS_CURRENT
    for privilege, has in {
        "SELECT": True,
        "INSERT": True,
        "UPDATE": True,
        "DELETE": True,
        "TRUNCATE": False,
    }.items():
        assert (
            await admin.fetchval(
                "SELECT has_table_privilege($1, 'embeddings', $2)", server.app, privilege
            )
            is has
        )


async def test_the_first_pass_hardly_ever_misses_what_is_near(
    database: Database, scope: Scope, add
) -> None:
    dice = random.Random(11)
    size, dimensions, clusters = 3000, 96, 60
    centres = [[dice.gauss(0, 1) for _ in range(dimensions)] for _ in range(clusters)]
    given = {
        number: unit([one + dice.gauss(0, 0.8) for one in centres[dice.randrange(clusters)]])
        for number in range(size)
    }
    await add(*["word"] * size)
    await put(database, scope, given)
    hits = asked = 0
    for _ in range(20):
        question = unit([one + dice.gauss(0, 0.8) for one in centres[dice.randrange(clusters)]])
        exact = sorted(
            given,
            key=lambda number: -sum(a * b for a, b in zip(given[number], question, strict=True)),
        )
        found = await nearest(database, scope, question, best=40)
        assert len(found) == 40
        hits += len(found.keys() & set(exact[:40]))
        asked += 40
    assert hits / asked > 0.97


def unit(vector: Sequence[float]) -> list[float]:
    length = sqrt(sum(number * number for number in vector))
    return [number / length for number in vector]


@pytest.mark.one_server("plans are those of one server")
async def test_the_nearest_are_read_by_indexes_that_begin_with_the_tenant(
    database: Database,
    database_urls: DatabaseUrls,
    scope: Scope,
    add,
    admin: asyncpg.Connection,
) -> None:
    dice = random.Random(3)
    await add(*["word"] * 600)
    await put(
        database, scope, {number: [dice.gauss(0, 1) for _ in range(32)] for number in range(600)}
    )
    await admin.execute(
        """
        INSERT INTO embeddings SELECT sha256(n::text::bytea), project, book, model, entry, signs,
            vector
        FROM embeddings, generate_series(1, 10) AS n
        """
    )
    await admin.execute("VACUUM ANALYZE embeddings")
    statement = search._statement(with_embedding=True, with_first=False, filter_kind="none")
    connection = await asyncpg.connect(database_urls.app)
    try:
        for mode in ("force_custom_plan", "force_generic_plan"):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL memsvc.tenant = '\\x{scope.tenant.hex()}'")
                for kind in ("seqscan", "bitmapscan"):  # which a small table is cheaper to read by
                    await connection.execute(f"SET LOCAL enable_{kind} = off")
                await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
                raw = await connection.fetchval(
                    f"EXPLAIN (FORMAT JSON) {statement}",
                    *(
                        scope.tenant,
                        scope.project,
                        *([BOOK], [0], [0], [], 10.0, 100.0, [0]),
                        *(
                            [10],
                            vectors.signs_of_vector([1.0] * 32),
                            vectors.model_number(MODEL),
                            32,
                        ),
                    ),
                )
            read = list(scans(orjson.loads(raw)[0]["Plan"]))
            assert all("tenant =" in condition for _, _, condition in read), read
            assert ("embeddings", "Index Only Scan") in [
                (table, kind) for table, kind, _ in read
            ], read
    finally:
        await connection.close()


def scans(plan: dict[str, Any]):
    """The table, the kind and the index condition of every node that reads a table."""
    if "Relation Name" in plan:
        yield plan["Relation Name"], plan["Node Type"], plan.get("Index Cond", "")
    for below in plan.get("Plans", []):
        yield from scans(below)
