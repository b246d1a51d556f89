"""Entries come by their vectors in the background, and a question goes without one rather than
fail."""

import asyncio
from collections.abc import Sequence
from math import ceil

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Head
from memsvc.core.scope import Scope
from memsvc.store import index, vectors
from memsvc.store.database import Database
from memsvc.store.index import NewEntry, index_id_of
from memsvc.styles.embedding import (
    BATCH_ENTRIES,
    EMBED_JOB,
    PAUSE_S,
    QUESTIONS_KEPT,
    SENTENCES_MAX,
    SWEEP_S,
    Embedding,
)
from tests.endpoints import vector_of
from tests.fakes import FakeClock, RecordingMeter
from tests.store.vectors import nearest

pytestmark = pytest.mark.anyio
NAME = "turns/s1"
BOOK = index_id_of(NAME)


class FakeEmbedder:
    """Makes vectors of words; `failing` is what it raises instead."""

    def __init__(self, model: str = "fake/1") -> None:
        self.model = model
        self.in_process = False
        self.is_ready = True
        self.unrelated_cosine: float | None = None
        self.batches: list[list[str]] = []
        self.questions: list[str] = []
        self.failing: MemsvcError | None = None
        self.fails_after = 0
        self.between = lambda: asyncio.sleep(0)

    async def load(self) -> None:
        self.is_ready = True

    def log_odds(self, head: Head, vector: Sequence[float]) -> None:
        pass

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        return vector

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await self.between()
        if self.failing is not None and len(self.batches) >= self.fails_after:
            raise self.failing
        self.batches.append(list(texts))
        return [vector_of(text) for text in texts]

    async def embed_question(self, text: str) -> list[float]:
        self.questions.append(text)
        if self.failing is not None:
            raise self.failing
        return vector_of(text)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def embedding(
    database: Database, embedder: FakeEmbedder, clock: FakeClock, meter: RecordingMeter
) -> Embedding:
    return Embedding(database, embedder, clock, meter)


@pytest.fixture
def add(database: Database, scope: Scope, clock: FakeClock):
    async def add(*texts: str, name: str = NAME, role: str = "user") -> int:
        new = [
            NewEntry(ref=f"r{at}", text=text, message_at=clock.now(), role=role)
            for at, text in enumerate(texts)
        ]
        async with database.begin(scope) as tx:
            return (await index.add(tx, {name: new}))[name]

    return add


async def found(
    database: Database, scope: Scope, embedding: Embedding, question: str, best: int = 1
) -> list[int]:
    vector = await embedding.question(question)
    assert vector is not None
    async with database.begin(scope, read_only=True) as tx:
        return list(await nearest(tx, BOOK, embedding.model, vector, best))


async def queued(admin: asyncpg.Connection) -> list[tuple[str, str]]:
    rows = await admin.fetch(
        "SELECT name, subject FROM job_refs WHERE NOT started ORDER BY subject"
    )
    return [tuple(row) for row in rows]


async def test_a_book_is_embedded_in_batches_until_nothing_is_missing(
    database: Database,
    scope: Scope,
    embedding: Embedding,
    embedder: FakeEmbedder,
    add,
    meter,
) -> None:
    await add(*[f"word{number}" for number in range(2 * BATCH_ENTRIES)], "the", "trains to Vienna")
    await embedding.job.run(scope, str(BOOK))
    assert [len(batch) for batch in embedder.batches] == [BATCH_ENTRIES, BATCH_ENTRIES, 1]
    assert await found(database, scope, embedding, "Which train goes to Vienna?") == [
        2 * BATCH_ENTRIES + 1
    ]
    assert meter.total("memsvc_embedding_texts_total") == 2 * BATCH_ENTRIES + 1
    assert meter.total("memsvc_embedding_calls_total", kind="document", status="success") == 3
    assert (embedding.job.name, embedding.sweep.interval_s) == (EMBED_JOB, SWEEP_S)


async def test_running_again_asks_for_what_is_new_alone(
    scope: Scope, embedding: Embedding, embedder: FakeEmbedder, add
) -> None:
    await add("walrus", "kumquat")
    await embedding.embed(scope, str(BOOK))
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == ["walrus", "kumquat"]
    await add("zeppelin")
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == ["walrus", "kumquat", "zeppelin"]


async def test_what_came_before_an_error_stays_and_the_next_run_goes_on(
    scope: Scope,
    embedding: Embedding,
    embedder: FakeEmbedder,
    add,
    admin: asyncpg.Connection,
    meter,
) -> None:
    await add(*[f"word{number}" for number in range(2 * BATCH_ENTRIES)])
    embedder.failing, embedder.fails_after = MemsvcError(Code.UNAVAILABLE, "down"), 1
    with pytest.raises(MemsvcError, match="down"):
        await embedding.embed(scope, str(BOOK))
    assert await admin.fetchval("SELECT count(*) FROM embeddings") == BATCH_ENTRIES
    assert meter.total("memsvc_embedding_failures_total", code="UNAVAILABLE") == 1
    embedder.failing = None
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == [f"word{number}" for number in range(2 * BATCH_ENTRIES)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The walrus sleeps.", 0),
        ("The walrus sleeps. A kumquat is ripe! Zeppelins fly", 3),
        ("walrus. " * 20, SENTENCES_MAX),
    ],
)
async def test_first_sentences_of_a_text_have_vectors_of_their_own(
    scope: Scope, embedding: Embedding, embedder: FakeEmbedder, add, admin, text: str, count: int
) -> None:
    embedder.in_process = True
    await add(text)
    await embedding.embed(scope, str(BOOK))
    size, bits = await admin.fetchrow("SELECT octet_length(vector), length(signs) FROM embeddings")
    assert size == bits + count * ceil(bits / 8)
    assert len(embedder.texts) == 1 + count


async def test_only_messages_are_read_by_their_sentences(
    scope: Scope, embedding: Embedding, embedder: FakeEmbedder, add
) -> None:
    embedder.in_process = True
    await add("drink: tea\nI drink tea.\ndrinks beverage", role="fact")
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == ["drink: tea\nI drink tea.\ndrinks beverage"]


async def test_remote_embedder_is_not_asked_for_sentences(
    scope: Scope, embedding: Embedding, embedder: FakeEmbedder, add
) -> None:
    await add("The walrus sleeps. A kumquat is ripe!")
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == ["The walrus sleeps. A kumquat is ripe!"]


async def test_no_transaction_is_open_while_the_embedder_thinks(
    database: Database, scope: Scope, embedding: Embedding, embedder: FakeEmbedder, add
) -> None:
    await add("walrus", "kumquat")
    seen: list[tuple[int, int]] = []

    async def between() -> None:
        seen.append(database.usage())
        async with database.begin(scope) as tx:
            await index.remove(tx, BOOK, {0: "walrus"})

    embedder.between = between
    await embedding.embed(scope, str(BOOK))
    assert seen
    assert all(opened == idle for opened, idle in seen)
    async with database.begin(scope) as tx:
        assert await vectors.progress(tx, embedding.model) == {BOOK: vectors.VectorProgress(1, 1)}


async def test_holes_are_filled_and_what_nobody_forgot_is_pruned(
    database: Database,
    scope: Scope,
    embedding: Embedding,
    embedder: FakeEmbedder,
    add,
    admin,
) -> None:
    await add("walrus", "kumquat", "zeppelin")
    await embedding.embed(scope, str(BOOK))
    async with database.begin(scope) as tx:
        await vectors.forget(tx, BOOK, [1])
    await embedding.embed(scope, str(BOOK))
    assert embedder.texts == ["walrus", "kumquat", "zeppelin", "kumquat"]
    async with database.begin(scope) as tx:
        await index.hide(tx, BOOK, {0: "walrus"})
    await embedding.embed(scope, str(BOOK))
    assert await admin.fetchval("SELECT array_agg(entry ORDER BY entry) FROM embeddings") == [1, 2]
    assert len(embedder.texts) == 4


async def test_another_model_embeds_anew_and_then_drops_the_old_vectors(
    database: Database,
    scope: Scope,
    embedding: Embedding,
    clock: FakeClock,
    meter,
    add,
    admin,
) -> None:
    await add("walrus", "kumquat")
    await embedding.embed(scope, str(BOOK))
    newer = FakeEmbedder("fake/2")
    other = Embedding(database, newer, clock, meter)
    newer.failing = MemsvcError(Code.UNAVAILABLE, "down")
    with pytest.raises(MemsvcError):
        await other.embed(scope, str(BOOK))
    assert await found(database, scope, embedding, "walrus") == [0]
    newer.failing = None
    await other.sweep.run(scope, "")
    assert await queued(admin) == [(EMBED_JOB, str(BOOK))]
    await other.embed(scope, str(BOOK))
    assert newer.texts == ["walrus", "kumquat"]
    assert await admin.fetchval("SELECT count(DISTINCT model) FROM embeddings") == 1
    assert await found(database, scope, other, "kumquat") == [1]


async def test_the_sweep_queues_the_books_that_lack_vectors_and_no_others(
    scope: Scope, embedding: Embedding, add, admin: asyncpg.Connection
) -> None:
    await add("walrus")
    await add("kumquat", name="turns/s2")
    await add("the", name="turns/s3")
    await embedding.sweep.run(scope, "")
    both = sorted(
        [(EMBED_JOB, str(BOOK)), (EMBED_JOB, str(index_id_of("turns/s2")))],
        key=lambda pair: pair[1],
    )
    assert sorted(await queued(admin), key=lambda pair: pair[1]) == both
    await admin.execute("DELETE FROM job_refs")
    await embedding.embed(scope, str(BOOK))
    await embedding.sweep.run(scope, "")
    assert await queued(admin) == [(EMBED_JOB, str(index_id_of("turns/s2")))]


async def test_a_question_is_asked_once_and_remembered_for_everybody(
    embedding: Embedding, embedder: FakeEmbedder, meter: RecordingMeter
) -> None:
    first = await embedding.question("Where is Vienna?")
    assert first == vector_of("Where is Vienna?") == await embedding.question("Where is Vienna?")
    assert embedder.questions == ["Where is Vienna?"]
    assert meter.total("memsvc_embedding_cached_total") == 1
    for number in range(QUESTIONS_KEPT):
        await embedding.question(f"question {number}")
    await embedding.question("Where is Vienna?")
    assert embedder.questions.count("Where is Vienna?") == 2
    assert await embedding.question(" ") is None
    assert await embedding.question("\ud800") is not None


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.INTERNAL_ERROR])
async def test_without_the_embedder_a_question_has_no_vector(
    embedding: Embedding,
    embedder: FakeEmbedder,
    meter: RecordingMeter,
    clock: FakeClock,
    code: Code,
) -> None:
    embedder.failing = MemsvcError(code, "no")
    assert await embedding.question("one") is None
    assert meter.total("memsvc_embedding_failures_total", code=code.value) == 1
    assert meter.total("memsvc_embedding_calls_total", kind="question", status="error") == 1
    embedder.failing = None
    clock.advance(seconds=PAUSE_S)
    assert await embedding.question("one") is not None


async def test_after_a_failure_nobody_waits_for_a_while(
    embedding: Embedding, embedder: FakeEmbedder, clock: FakeClock
) -> None:
    assert await embedding.question("known") is not None
    embedder.failing = MemsvcError(Code.UNAVAILABLE, "too slow")
    for _ in range(5):
        assert await embedding.question("one") is None
    assert embedder.questions == ["known", "one"]
    assert await embedding.question("known") is not None
    clock.advance(seconds=PAUSE_S)
    assert await embedding.question("one") is None
    assert embedder.questions == ["known", "one", "one"]


async def test_a_fault_of_ours_is_not_hidden(embedding: Embedding, embedder: FakeEmbedder) -> None:
    embedder.failing = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await embedding.question("one")


async def test_question_waits_for_an_embedder_that_loads_only_if_told_to(
    embedding: Embedding, embedder: FakeEmbedder
) -> None:
    embedder.is_ready = False
    assert await embedding.question("gale warning") is None
    embedding.wait_for_loading()
    assert await embedding.question("gale warning") == vector_of("gale warning")
