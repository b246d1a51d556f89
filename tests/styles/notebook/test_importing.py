"""A folder of documents becomes a notebook, whole or not at all."""

import asyncpg
import pytest

from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.notebook.documents import NotebookDocuments
from memsvc.styles.notebook.notebook_writer import TreeRebuild
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.notebook.tools import notebook as documents_of
from memsvc.styles.services import StyleServices
from tests.styles.notebook.conftest import NotebookDoor

pytestmark = pytest.mark.anyio


@pytest.fixture
def documents(style_services: StyleServices) -> NotebookDocuments:
    options = NotebookOptions(depth_max=3, documents_max=700, document_bytes_max=99)
    return documents_of(style_services, options)


async def test_documents_that_the_root_leads_to_are_imported_and_others_reported(
    notebook: NotebookDoor, documents: NotebookDocuments, scope: Scope, database: Database
) -> None:
    texts = {
        "root": "# Home\n[[a]] [[missing]]",
        "a": "says kumquat [[b]] [[b]]",
        "b": "",
        "alone": "[[with]]",
        "with": "",
    }
    imported = await documents.import_documents(scope, texts)
    assert imported.documents == ("root", "a", "b")
    assert (imported.created, imported.orphans) == (("missing",), ("alone", "with"))
    assert await notebook.tree() == "root:\n- a:\n  - b\n- missing\n"
    assert [await notebook.text(name) for name in ("root", "a", "b")] == [
        texts[name] for name in ("root", "a", "b")
    ]
    assert await notebook.text("missing") == "# missing\n\n"
    assert (await notebook("search_documents", query="kumquat"))["passages"][0]["id"] == "a"
    assert await TreeRebuild(database).check(scope) == {}
    assert (
        await notebook.write("root", "[[a]] [[alone]]")
        == "Succeeded\nCreated: alone\nRemoved: missing"
    )


@pytest.mark.parametrize(
    ("texts", "code", "message"),
    [
        ({"a": ""}, "INVALID_ARGUMENT", "Error: root: not found"),
        ({"root": "", "[x]": ""}, "INVALID_ARGUMENT", "Error: id: is not a valid document id"),
        ({"root": "", "e\u0301": ""}, "INVALID_ARGUMENT", "Error: id: is not a valid document id"),
        (
            {"root": "x" * 100},
            "PAYLOAD_TOO_LARGE",
            "Error: content: a document is limited to 99 bytes",
        ),
        (
            {"root": "[[root]]"},
            "INVALID_CONTENT",
            "Error: content: cross-tree reference not allowed - circular reference detected",
        ),
        (
            {"root": "[[a]]", "a": "[[b]]", "b": "[[a]]"},
            "INVALID_CONTENT",
            "Error: content: cross-tree reference not allowed - circular reference detected",
        ),
        (
            {"root": "[[a]] [[b]]", "a": "[[c]]", "b": "[[c]]", "c": ""},
            "INVALID_CONTENT",
            "Error: content: cross-tree reference not allowed",
        ),
        (
            {"root": "[[a]]", "a": "[[b]]", "b": "[[c]]", "c": "[[d]]"},
            "INVALID_CONTENT",
            "Error: content: the tree is limited to 3 levels below the root",
        ),
        (
            {"root": "".join(f"[[r{a}]]" for a in range(10))}
            | {f"r{a}": "".join(f"[[{a}{b}]]" for b in range(10)) for a in range(10)}
            | {
                f"{a}{b}": "".join(f"[[{c}.{a}{b}]]" for c in range(9))
                for a in range(10)
                for b in range(10)
            },
            "QUOTA_EXCEEDED",
            "Error: content: a notebook is limited to 700 documents",
        ),
    ],
)
async def test_what_makes_no_notebook_is_refused_whole(
    documents: NotebookDocuments,
    scope: Scope,
    admin: asyncpg.Connection,
    texts: dict[str, str],
    code: str,
    message: str,
) -> None:
    with pytest.raises(MemsvcError) as refused:
        await documents.import_documents(scope, texts)
    assert (refused.value.code, refused.value.message) == (code, message)
    assert await admin.fetchval("SELECT count(*) FROM files") == 0
    assert await admin.fetchval("SELECT count(*) FROM outline_nodes") == 0


async def test_a_notebook_that_was_written_takes_no_import(
    notebook: NotebookDoor, documents: NotebookDocuments, scope: Scope
) -> None:
    await notebook.write("root", "mine")
    with pytest.raises(MemsvcError, match="this notebook is not empty"):
        await documents.import_documents(scope, {"root": "theirs"})
    assert await notebook.text() == "mine"
