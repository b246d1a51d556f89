"""With an embedder, files are found by what they mean; without it for a while, by their words."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.models import reranker
from memsvc.adapters.options import RerankOptions
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Embedder, Reranker
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.embedding import EMBED_JOB, PAUSE_S, SWEEP_JOB
from tests.door import Door, open_door
from tests.endpoints import provider
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter
from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio
Open = Callable[..., FileDoor]
MEANINGS = {"automobile": "car", "vehicle": "car"}
DOWN = MemsvcError(Code.UNAVAILABLE, "the model is down")


@pytest.fixture
async def with_ports(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    scope: Scope,
) -> Open:
    """File tools with an embedder, a reranker or both."""

    def make(*, embedder: Embedder | None = None, reranker: Reranker | None = None) -> FileDoor:
        return FileDoor(
            open_door(database, clock, tokens, meter, scope, embedder=embedder, reranker=reranker)
        )

    return make


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder(alike=MEANINGS)


@pytest.fixture
def files(with_ports: Open, embedder: FakeEmbedder) -> FileDoor:
    return with_ports(embedder=embedder)


async def found(files: FileDoor, query: str, **arguments: Any) -> list[str]:
    chunks = (await files("search", query=query, **arguments))["chunks"]
    assert [chunk["score"] for chunk in chunks] == sorted(
        (chunk["score"] for chunk in chunks), reverse=True
    )
    return [chunk["file_path"] for chunk in chunks]


async def test_a_passage_is_found_by_what_it_means(files: FileDoor) -> None:
    await files.write("/a", "my red automobile")
    await files.write("/b", "marzipan recipes")
    assert await found(files, "vehicle") == []
    assert (EMBED_JOB in {name for name, _ in await files.call.work()}) is True
    assert (await found(files, "vehicle"))[0] == "/a"
    assert (await found(files, "marzipan"))[0] == "/b"


async def test_what_is_gone_is_not_found_by_its_meaning_either(
    files: FileDoor, admin: asyncpg.Connection
) -> None:
    for path in ("/deleted", "/replaced", "/d/tree", "/moved/a", "/kept"):
        await files.write(path, "my red automobile")
    await files.call.work()
    await files("delete", path="/deleted")
    await files("delete", path="/d", recursive=True)
    await files.write("/replaced", "marzipan", mode="TRUNCATE")
    await files("rename", from_path="/moved", to_path="/new")
    for _ in range(2):
        hits = await found(files, "vehicle")
        assert set(hits) - {"/replaced"} == {"/new/a", "/kept"}
        assert hits[-1] == "/replaced" or "/replaced" not in hits
        assert await found(files, "vehicle", path_prefix="/moved") == []
        await files.call.work()
    assert await admin.fetchval("SELECT count(*) FROM embeddings") == await admin.fetchval(
        "SELECT count(*) FROM entries"
    )


async def test_an_append_asks_for_the_vector_of_the_last_piece_alone(
    files: FileDoor, embedder: FakeEmbedder
) -> None:
    await files.write(
        "/f", "".join(f"Line {number} is about nothing in particular.\n" for number in range(90))
    )
    await files.call.work()
    before = len(embedder.texts)
    assert before > 3
    await files.write("/f", "One more line.\n")
    await files.call.work()
    assert len(embedder.texts) == before + 1
    await files.write("/f", await files.text("/f"), mode="TRUNCATE")
    await files.call.work()
    assert len(embedder.texts) == before + 1


async def test_while_the_embedder_is_down_words_find_and_vectors_come_afterwards(
    files: FileDoor, embedder: FakeEmbedder, clock: FakeClock
) -> None:
    embedder.failing = DOWN
    await files.write("/a", "my red automobile")
    assert await found(files, "automobile") == ["/a"]
    assert await found(files, "vehicle") == []
    with pytest.raises(MemsvcError, match="down"):
        await files.call.jobs[EMBED_JOB].run(
            Scope(files.call.caller.tenant, files.project), await subject(files)
        )
    embedder.failing = None
    await files.call.work()
    assert await found(files, "vehicle") == []  # nobody waits for it so soon again
    clock.advance(seconds=PAUSE_S)
    assert await found(files, "vehicle") == ["/a"]


async def subject(files: FileDoor) -> str:
    """What the job that waits for vectors is about."""
    async with files.call.database.begin_tenant(
        Scope(files.call.caller.tenant, "*"), read_only=True
    ) as tx:
        return str(
            await tx.fetchval(
                "SELECT subject FROM job_refs WHERE tenant = $1 AND name = $2", EMBED_JOB
            )
        )


async def test_a_change_of_model_goes_on_by_words_until_it_is_done(with_ports: Open) -> None:
    old = with_ports(embedder=FakeEmbedder("fake/1", MEANINGS))
    await old.write("/a", "my red automobile")
    await old.call.work()
    new = with_ports(embedder=FakeEmbedder("fake/2", MEANINGS))
    assert await found(new, "vehicle") == []
    assert await found(new, "automobile") == ["/a"]
    await new.call.jobs[SWEEP_JOB].run(Scope(new.call.caller.tenant, new.project), "")
    await new.call.work()
    assert await found(new, "vehicle") == ["/a"]
    assert await found(old, "vehicle") == []


async def test_all_projects_are_searched_by_meaning(files: FileDoor) -> None:
    await FileDoor(files.call, "one").write("/a", "my red automobile")
    await FileDoor(files.call, "two").write("/b", "a green car")
    await files.call.work()
    chunks = (await FileDoor(files.call, "*")("search", query="vehicle"))["chunks"]
    assert {(chunk["project"], chunk["file_path"]) for chunk in chunks} == {
        ("one", "/a"),
        ("two", "/b"),
    }
    (one,) = (await FileDoor(files.call, "one")("search", query="vehicle"))["chunks"]
    assert one["file_path"] == "/a"


async def test_a_directory_is_searched_by_meaning_however_much_is_nearer_elsewhere(
    files: FileDoor,
) -> None:
    for number in range(30):
        await files.write(f"/near/{number}", "car")
    await files.write("/d/a", "automobile of my aunt")
    await files.call.work()
    assert await found(files, "vehicle", path_prefix="/d") == ["/d/a"]


class FakeReranker:
    """Scores a text by how early it says a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[Sequence[str]] = []
        self.failing: MemsvcError | None = None
        self.between: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        self.asked.append(texts)
        await self.between()
        if self.failing is not None:
            raise self.failing
        return [-float(text.find(self.word)) for text in texts]


@pytest.fixture
async def three(with_ports: Open) -> tuple[FileDoor, FakeReranker]:
    """Three files of which the reranker likes the first best."""
    judge = FakeReranker("walrus")
    files = with_ports(reranker=judge)
    await files.write("/1", "walrus and several other things that are not asked about here")
    await files.write("/2", "and a walrus, and others")
    await files.write("/3", "other one, walrus walrus")
    return files, judge


async def test_a_reranker_has_the_last_word_on_the_order(
    three: tuple[FileDoor, FakeReranker],
) -> None:
    files, judge = three
    assert await found(files, "walrus") == ["/1", "/2", "/3"]
    assert await found(files, "walrus", limit=1) == ["/1"]
    assert [len(texts) for texts in judge.asked] == [3, 3]
    assert await found(files, "obsidian") == []
    assert len(judge.asked) == 2


async def test_a_reranker_that_fails_leaves_the_order_as_it_was(
    three: tuple[FileDoor, FakeReranker],
) -> None:
    files, judge = three
    judge.failing = DOWN
    assert (await found(files, "walrus"))[0] == "/3"
    assert len(await found(files, "walrus", limit=2)) == 2


async def test_a_reranker_that_is_slow_leaves_the_order_as_it_was(with_ports: Open) -> None:
    async with provider() as there:
        there.always = "slow"
        async with reranker(RerankOptions(endpoint=f"{there.url}/rerank", timeout_ms=50)) as slow:
            files = with_ports(reranker=slow)
            await files.write("/1", "walrus and several other things that are not asked about here")
            await files.write("/2", "walrus walrus")
            assert await found(files, "walrus") == ["/2", "/1"]


async def test_a_file_that_goes_while_the_reranker_thinks_does_no_harm(
    three: tuple[FileDoor, FakeReranker],
) -> None:
    files, judge = three
    judge.between = lambda: files("delete", path="/1")
    assert await found(files, "walrus") == ["/1", "/2", "/3"]  # it was there when the search began
    judge.between = lambda: asyncio.sleep(0)
    assert await found(files, "walrus") == ["/2", "/3"]


NOTES = {
    "/pump.md": "Our neighbours complain that the heat pump is too noisy.",
    "/puppy.md": "The puppy is afraid of thunder and hides under the bed.",
    "/bus.md": "The bus line 14 does not run on Sundays.",
    "/cake.md": "Grandma's recipe for plum cake needs a kilo of plums.",
}


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("too loud", ["/pump.md"]),
        ("public transport at the weekend", ["/bus.md"]),
        ("fruit dessert", ["/cake.md"]),
        ("Hund hat Angst vor Gewitter", ["/puppy.md"]),
        ("capital of Mongolia", []),
        ("history of the Roman empire", []),
    ],
)
async def test_passage_that_stands_out_is_found_in_other_words(
    encoding_door: Door, query: str, paths: list[str]
) -> None:
    files = FileDoor(encoding_door)
    for path, text in NOTES.items():
        await files.write(path, text)
    assert await found(files, query) == paths
