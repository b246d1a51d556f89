"""Passages of the files that a style keeps are found by the next call, and nothing else is."""

from collections.abc import Sequence

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import CitedPassage
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store.database import Database
from memsvc.store.index import index_id_of
from memsvc.styles.embedding import Embedding
from memsvc.styles.passage_search import CitationSearch
from tests.door import Door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter
from tests.styles.owned import Owned

pytestmark = pytest.mark.anyio


@pytest.fixture
def citing(database: Database, meter: RecordingMeter, owned: Owned) -> CitationSearch:
    return CitationSearch(database, meter, owned.book)


@pytest.fixture
def owned(database: Database, scope: Scope, clock: FakeClock) -> Owned:
    return Owned(database, scope, clock)


def paths(found: Sequence[CitedPassage]) -> list[str]:
    return [one.path for one in found]


async def test_what_was_written_is_found_by_the_next_call_with_its_bytes(
    citing: CitationSearch, owned: Owned, scope: Scope, clock: FakeClock
) -> None:
    intro = "# Plans\n\n" + "Nothing of note is said in this line.\n" * 60
    text = f"{intro}\n# Füße\n\nThe ferry to Zanzibar leaves at nine.\n"
    await owned.keep("/b/ada", text)
    [best, *_] = await citing(scope, "When does the ferry to Zanzibar leave?", 5)
    assert "leaves at nine" in best.text
    assert text.encode()[best.start_bytes : best.end_bytes].decode() == best.text
    assert (best.path, best.updated_at) == ("/b/ada", clock.now())
    assert best.score > 0


async def test_of_a_rewritten_file_only_the_new_text_is_found(
    citing: CitationSearch, owned: Owned, scope: Scope, clock: FakeClock
) -> None:
    await owned.keep("/b/ada", "The ferry leaves at nine.")
    clock.advance(hours=1)
    await owned.keep("/b/ada", "The train arrives at noon.")
    assert await citing(scope, "ferry", 5) == []
    [found] = await citing(scope, "train", 5)
    assert (found.text, found.updated_at) == ("The train arrives at noon.", clock.now())


async def test_what_stays_when_a_file_is_rewritten_is_found_where_it_stands_now(
    citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    filler = "Nothing of note is said in this line.\n" * 60
    await owned.keep(
        "/b/ada", f"The ferry leaves at nine.\n\n{filler}\n# End\n\nThe lighthouse is red.\n"
    )
    await owned.keep(
        "/b/ada", f"The ferry leaves at ten.\n\n{filler}\n# End\n\nThe lighthouse is red.\n"
    )
    assert ["ten" in one.text for one in await citing(scope, "ferry", 5)] == [True]
    assert len(await citing(scope, "lighthouse", 5)) == 1


async def test_a_deleted_file_is_never_found_whatever_the_index_still_holds(
    citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    await owned.keep("/b/ada", "The ferry leaves at nine.")
    await owned.keep("/b/bob", "The ferry was late.")
    await owned.drop("/b/ada")
    assert paths(await citing(scope, "ferry", 5)) == ["/b/bob"]
    await owned.keep("/b/ada", "The train arrives at noon.")  # the same path, another file
    assert paths(await citing(scope, "ferry", 5)) == ["/b/bob"]


async def test_a_forgotten_file_leaves_nothing_in_the_index(
    database: Database, citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    await owned.keep("/b/ada", "The ferry leaves at nine.")
    await owned.drop("/b/ada", forget=True)
    async with database.begin(scope) as tx:
        left = await tx.fetchval(
            "SELECT count(*) FROM entries WHERE tenant = $1 AND project = $2 AND length >= 0"
        )
    assert left == 0
    assert await citing(scope, "ferry", 5) == []


async def test_nothing_of_another_tenant_or_project_is_found(
    citing: CitationSearch, owned: Owned, scope: Scope, other_scope: Scope
) -> None:
    elsewhere = Scope(scope.tenant, "other")
    await owned.keep("/b/ada", "The ferry leaves at nine.", scope=other_scope)
    await owned.keep("/b/ada", "The ferry leaves at ten.", scope=elsewhere)
    assert await citing(scope, "ferry", 5) == []
    assert await citing(Scope(scope.tenant, ALL_PROJECTS), "ferry", 5) == []
    assert [one.text for one in await citing(elsewhere, "ferry", 5)] == ["The ferry leaves at ten."]


async def test_a_path_means_the_file_there_and_those_inside_and_no_neighbour(
    citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    for path in ("/b/a_b/1", "/b/a_b/2/3", "/b/axb/1", "/b/a_bc", "/other"):
        await owned.keep(path, f"The ferry at {path}.")
    inside = {"/b/a_b/1", "/b/a_b/2/3"}
    for path, at in (
        ("/b/a_b", inside),
        ("/b", {*inside, "/b/axb/1", "/b/a_bc"}),
        ("/b/a_bc", {"/b/a_bc"}),
    ):
        assert {one.path for one in await citing(scope, "ferry", 9, path=path)} == at


async def test_where_each_file_is_somebodys_only_those_of_who_asks_are_found(
    database: Database, meter: RecordingMeter, owned: Owned, scope: Scope
) -> None:
    citing = CitationSearch(database, meter, owned.book, directory_of=lambda user: f"/b/{user}")
    for user in ("ada", "adam", "bob"):
        await owned.keep(f"/b/{user}/1", f"The ferry of {user}.")
    assert paths(await citing(scope, "ferry", 9, user="ada")) == ["/b/ada/1"]
    assert paths(await citing(scope, "ferry", 9, user="eve")) == []
    assert paths(await citing(scope, "ferry", 9)) == []


async def test_the_title_of_a_file_finds_it(
    citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    await owned.keep("/b/1", "It leaves at nine.", title="Ferry to Zanzibar")
    await owned.keep("/b/2", "It arrives at noon.", title="Train to Vienna")
    assert paths(await citing(scope, "Zanzibar", 5)) == ["/b/1"]
    await owned.keep("/b/1", "It leaves at nine.", title="Bus to Nairobi")
    assert await citing(scope, "Zanzibar", 5) == []
    assert paths(await citing(scope, "Nairobi", 5)) == ["/b/1"]


@pytest.mark.parametrize("question", ["", " \n\t", "the of and", "?!"])
async def test_a_question_without_a_word_that_tells_anything_finds_nothing(
    citing: CitationSearch, owned: Owned, scope: Scope, question: str
) -> None:
    await owned.keep("/b/ada", "The ferry leaves at nine of the clock and then?!")
    assert await citing(scope, question, 5) == []


async def test_no_more_than_asked_for_come_best_first(
    citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    for number in range(9):
        await owned.keep(f"/b/{number}", f"The ferry {'ferry ' * number} leaves pier {number}.")
    found = await citing(scope, "ferry", 4)
    assert len(found) == 4
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


async def test_what_a_style_keeps_is_not_found_among_the_files_of_callers(
    call: Door, citing: CitationSearch, owned: Owned, scope: Scope
) -> None:
    await owned.keep("/b/ada", "The ferry leaves at nine.")
    await call("file_write", project="default", path="/notes", content="The ferry was late.")
    found = await call("file_search", project="default", query="ferry")
    assert [one["file_path"] for one in found["chunks"]] == ["/notes"]
    assert paths(await citing(scope, "ferry", 5)) == ["/b/ada"]


async def test_with_an_embedder_meaning_finds_and_while_it_is_down_words_do(
    database: Database,
    owned: Owned,
    scope: Scope,
    clock: FakeClock,
    meter: RecordingMeter,
) -> None:
    embedder = FakeEmbedder(alike={"vehicle": "car", "automobile": "car"})
    embedding = Embedding(database, embedder, clock, meter)
    citing = CitationSearch(database, meter, owned.book, embedding=embedding)
    await owned.keep("/b/ada", "my red automobile")
    await owned.keep("/b/bob", "marzipan recipes")
    assert paths(await citing(scope, "automobile", 5)) == ["/b/ada"]
    await embedding.embed(scope, str(index_id_of(owned.book)))
    assert paths(await citing(scope, "vehicle", 1)) == ["/b/ada"]
    embedder.failing = MemsvcError(Code.UNAVAILABLE, "the model is down")
    assert await citing(scope, "a vehicle", 5) == []
    assert paths(await citing(scope, "red automobile", 5)) == ["/b/ada"]
