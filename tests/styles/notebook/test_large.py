"""A notebook of ten thousand documents is read in one query, and a change touches what it
changes."""

from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.store import style_files
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.styles.notebook.notebook_writer import DOCUMENTS_PER_STEP
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.notebook.tools import notebook as documents_of
from memsvc.styles.services import StyleServices
from tests.fakes import RecordingMeter
from tests.styles.notebook.conftest import NotebookDoor

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[99])
async def large(
    request: pytest.FixtureRequest,
    notebook: NotebookDoor,
    style_services: StyleServices,
    scope: Scope,
) -> NotebookDoor:
    """A root over 99 topics, or as many as a test wants, each of them over 100 documents."""
    texts = {
        "root": "# Home\n" + "".join(f"- [[topic{number}]]\n" for number in range(request.param))
    }
    for topic in range(request.param):
        texts[f"topic{topic}"] = f"# Topic {topic}\n" + "".join(
            f"- [[{topic}.{number}]]\n" for number in range(100)
        )
    documents = documents_of(style_services, NotebookOptions())
    imported = await documents.import_documents(scope, texts)
    assert len(imported.documents) + len(imported.created) == 1 + request.param * 101
    return notebook


async def test_the_tree_of_ten_thousand_documents_is_one_query_and_an_update_is_a_few_rows(
    large: NotebookDoor, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    meter.clear()
    tree = await large("get_document_tree")
    assert meter.total("memsvc_round_trips") == 3  # begin, the query, commit
    assert tree["documents"] == 10_000
    assert tree["text"].count("\n") == tree["documents"]
    meter.clear()
    before = await rows(admin)
    await large.write("topic7", "# Topic 7\n- [[7.1]]\n- [[7.2]]\n- [[new]]\n" + text_of(7, 3))
    assert meter.total("memsvc_round_trips") <= 16
    after = await rows(admin)
    assert {row[0] for row in before ^ after} == {"topic7", "7.0", "new"}


@pytest.mark.parametrize("large", [10], indirect=True)
async def test_thousand_dropped_documents_come_back_in_a_few_statements(
    large: NotebookDoor, meter: RecordingMeter
) -> None:
    before, whole = await large.tree(), await large.version()
    await large.write("root", "nothing")
    meter.clear()
    answer = await large("restore_document", id="root", version=whole)
    assert len(answer["created"]) == 1010
    assert meter.total("memsvc_round_trips") <= 60
    assert await large.tree() == before


@pytest.mark.parametrize("large", [11], indirect=True)
async def test_a_large_part_of_a_notebook_goes_in_one_call_and_its_entries_by_a_job(
    large: NotebookDoor, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    meter.clear()
    answer = await large("update_document", content="- [[topic1]]\n")
    assert len(answer["removed"]) == 1010
    assert meter.total("memsvc_round_trips") <= 14
    found = (await large("search_documents", query="topic 7", limit=100))["passages"]
    assert {one["id"].split(".")[0] for one in found} <= {"root", "topic1", "1"}
    assert await large.call.work() == [("notebook.forget", "")]
    assert await admin.fetchval("SELECT count(*) FROM entries") == 102
    assert await admin.fetchval("SELECT entries FROM books") == 102
    assert (await large("get_document_tree"))["documents"] == 102


async def test_many_new_documents_are_written_some_at_a_time(
    notebook: NotebookDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    put = style_files.put

    async def counted(tx: Tx, contents: Mapping[str, bytes], **given: Any) -> dict[str, File]:
        written.append(len(contents))
        return await put(tx, contents, **given)

    monkeypatch.setattr(style_files, "put", counted)
    linked = "".join(f"- [[d{number}]]\n" for number in range(2 * DOCUMENTS_PER_STEP))
    await notebook("update_document", content=linked)
    assert written == [1, DOCUMENTS_PER_STEP, DOCUMENTS_PER_STEP, 1]
    assert (await notebook("get_document_tree"))["documents"] == 2 * DOCUMENTS_PER_STEP + 1


def text_of(topic: int, start: int) -> str:
    return "".join(f"- [[{topic}.{number}]]\n" for number in range(start, 100))


async def rows(admin: asyncpg.Connection) -> set[tuple[str, str]]:
    """Every node with its row as it was last written."""
    return {
        (row[0], row[1])
        for row in await admin.fetch("SELECT node, xmin::text || t::text FROM outline_nodes AS t")
    }
