"""Documents are read, written, and made and removed by their links."""

from collections.abc import Callable

import asyncpg
import pytest

from tests.fakes import FakeClock
from tests.styles.notebook.conftest import NotebookDoor

pytestmark = pytest.mark.anyio
CIRCULAR = "Error: content: cross-tree reference not allowed - circular reference detected"
MERGE = "Error: content: cross-tree reference not allowed - merge point detected"
CROSS = "Error: content: cross-tree reference not allowed"


async def test_a_notebook_that_nobody_wrote_is_its_template_and_reading_writes_nothing(
    notebook: NotebookDoor, admin: asyncpg.Connection
) -> None:
    assert await notebook("read_document") == {"id": "root", "text": "# Notes\n", "version": None}
    assert await notebook.tree() == "root\n"
    assert (await notebook("search_documents", query="notes"))["passages"] == []
    assert await notebook("document_history") == {"versions": [], "next_cursor": None}
    assert await admin.fetchval("SELECT count(*) FROM files") == 0
    assert await admin.fetchval("SELECT count(*) FROM outline_nodes") == 0


async def test_a_template_with_links_is_a_tree_before_and_after_the_first_write(
    with_options: Callable[..., NotebookDoor],
) -> None:
    notebook = with_options(root_template="# Mine\n- [[people]]\n- [[places]]\n")
    assert await notebook.tree() == "root:\n- people\n- places\n"
    assert await notebook.text("people") == "# people\n\n"
    assert await notebook.missing("things")
    assert await notebook.write("people", "# Who\n[[Ada]]") == "Succeeded\nCreated: Ada"
    assert await notebook.tree() == "root:\n- people:\n  - Ada\n- places\n"
    assert await notebook.text() == "# Mine\n- [[people]]\n- [[places]]\n"


async def test_the_first_write_keeps_the_template_as_the_past_of_the_root(
    notebook: NotebookDoor,
) -> None:
    assert await notebook.write("root", "new") == "Succeeded"
    (past,) = (await notebook("document_history"))["versions"]
    assert await notebook.text(version=past["version"]) == "# Notes\n"


async def test_markdown_is_kept_byte_for_byte(notebook: NotebookDoor) -> None:
    for text in (
        "",
        "\n",
        "# a\r\n\tb  \n\n",
        "🙂\u202e\u2028 e\u0301 é",
        "no newline",
        "a\x00b",
        "[[]] [[ ]]",
    ):
        assert await notebook.write("root", text) == "Succeeded"
        assert await notebook.text() == text


async def test_links_make_documents_in_their_order_and_each_once(notebook: NotebookDoor) -> None:
    text = "[[b]] and [[a]], [[b]] again\n```\n[[fenced]]\n```\n"
    answer = await notebook("update_document", content=text)
    assert answer["text"] == "Succeeded\nCreated: b, a, fenced"
    assert (answer["created"], answer["removed"]) == (["b", "a", "fenced"], [])
    assert await notebook.tree() == "root:\n- b\n- a\n- fenced\n"
    assert await notebook.text("fenced") == "# fenced\n\n"


async def test_what_nothing_links_any_more_goes_with_all_below_it_in_the_same_call(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "[[a1]] [[a2]]")
    await notebook.write("a1", "[[deep]]")
    answer = await notebook("update_document", content="only [[b]] and [[c]]")
    assert answer["text"] == "Succeeded\nCreated: c\nRemoved: a, a1, deep, a2"
    assert (answer["created"], answer["removed"]) == (["c"], ["a", "a1", "deep", "a2"])
    assert await notebook.tree() == "root:\n- b\n- c\n"
    for gone in ("a", "a1", "deep", "a2"):
        assert await notebook.missing(gone)


async def test_removed_document_comes_back_with_all_below_it_once_it_is_linked_again(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[a]]")
    await notebook.write("a", "the text of a, with [[b]]")
    await notebook.write("b", "the text of b")
    await notebook.write("root", "nothing")
    versions = (await notebook("document_history", id="a"))["versions"]
    assert await notebook.text("a", version=versions[0]["version"]) == "the text of a, with [[b]]"
    restoring = {"id": "a", "version": versions[0]["version"]}
    error = await notebook.call.refuses("NOT_FOUND", "restore_document", **restoring)
    assert error["message"] == "Error: id: not found"
    assert "add [[id]]" in error["recovery"]
    await notebook.write("root", "[[a]]")
    assert await notebook.text("a") == "# a\n\n"
    restored = await notebook("restore_document", **restoring)
    assert restored["text"] == "Succeeded\nCreated: b"
    assert await notebook.text("a") == "the text of a, with [[b]]"
    assert await notebook.text("b") == "the text of b"


async def test_restored_version_brings_the_dropped_subtree_back_with_its_texts_of_that_time(
    notebook: NotebookDoor, clock: FakeClock
) -> None:
    tree = {
        "root": "[[a]] [[b]]",
        "a": "[[a1]] [[a2]]",
        "a1": "first text of a1",
        "a2": "[[deep]]",
        "deep": "",
        "b": "text of b",
    }
    for name, text in tree.items():
        clock.advance(seconds=1)
        await notebook.write(name, text)
    await notebook.write("a1", "second text of a1")
    whole = await notebook.version()
    clock.advance(seconds=1)
    await notebook.write("root", "only [[b]]")
    clock.advance(seconds=1)
    await notebook.write("b", "newer text of b")
    await notebook.write("root", "[[a]]")  # made anew, with other documents below it
    await notebook.write("a", "[[a1]]")
    await notebook.write("a1", "later text of a1")
    await notebook.write("root", "only [[c]]")
    answer = await notebook("restore_document", id="root", version=whole)
    assert sorted(answer["created"]) == ["a", "a1", "a2", "b", "deep"]
    assert (answer["removed"], answer["note"]) == (["c"], None)
    assert await notebook.tree() == "root:\n- a:\n  - a1\n  - a2:\n    - deep\n- b\n"
    for name, text in (tree | {"a1": "second text of a1"}).items():
        assert await notebook.text(name) == text
    found = await notebook("search_documents", query="second text of a1")
    assert found["passages"][0]["id"] == "a1"
    again = await notebook("restore_document", id="root", version=whole)
    assert again["text"] == "Succeeded"


async def test_restored_version_leaves_documents_that_are_there_as_they_are(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "old a")
    await notebook.write("b", "old b")
    whole = await notebook.version()
    await notebook.write("root", "[[a]]")
    await notebook.write("a", "new a")
    await notebook("restore_document", id="root", version=whole)
    assert (await notebook.text("a"), await notebook.text("b")) == ("new a", "old b")


async def test_restored_version_that_makes_no_tree_brings_nothing_back(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "[[a1]]")
    whole = await notebook.version()
    await notebook.write("root", "[[b]]")
    await notebook.write("b", "[[a1]]")
    before = await notebook.tree()
    _, details = await notebook.refused(
        "INVALID_CONTENT", "restore_document", id="root", version=whole
    )
    assert details == {"link": "a1", "other_parent_id": "b"}
    assert await notebook.tree() == before


async def test_restored_version_says_which_documents_have_no_kept_text(
    notebook: NotebookDoor, admin: asyncpg.Connection
) -> None:
    await notebook.write("root", "[[a]]")
    await notebook.write("a", "kept nowhere")
    whole = await notebook.version()
    await notebook.write("root", "nothing")
    await admin.execute("DELETE FROM files WHERE path = '/notebook/a.md'")
    answer = await notebook("restore_document", id="root", version=whole)
    assert answer["note"] == "the texts of these documents are no longer available: a"
    assert answer["text"] == f"Succeeded\nCreated: a\nNote: {answer['note']}"


async def test_a_document_that_is_not_there_is_not_found_by_any_tool(
    notebook: NotebookDoor,
) -> None:
    for name in (
        "nothing",
        "",
        " root",
        "root ",
        "[x]",
        "a]]",
        "x" * 129,
        "a\nb",
        "a\x00",
        "../root",
    ):
        for tool, given in {
            "read_document": {},
            "update_document": {"content": "x"},
            "edit_document": {"old_text": "a", "new_text": "b"},
            "document_history": {},
            "split_document": {},
            "restore_document": {"version": f"{1:032x}:1"},
            "move_document": {"parent": "root"},
        }.items():
            message, details = await notebook.refused("NOT_FOUND", tool, id=name, **given)
            assert (message, details) == ("Error: id: not found", {"id": name[:128]})


async def test_a_null_id_is_the_root(notebook: NotebookDoor) -> None:
    assert (await notebook("update_document", id=None, content="mine"))["id"] == "root"
    assert (await notebook("read_document", id=None))["text"] == "mine"


async def test_links_that_make_no_tree_are_refused_in_the_order_of_the_checks_and_change_nothing(
    notebook: NotebookDoor, admin: asyncpg.Connection
) -> None:
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "[[a1]]")
    await notebook.write("a1", "[[a2]]")
    before = await rows(admin)
    for document, text, expected in (
        ("root", "[[root]]", (CIRCULAR, {"parent_id": "root", "link": "root"})),
        ("a", "[[root]]", (CIRCULAR, {"parent_id": "a", "link": "root"})),
        ("a2", "[[new]] [[root]]", (CIRCULAR, {"parent_id": "a2", "link": "root"})),
        ("a2", "[[a2]]", (CIRCULAR, {"parent_id": "a2", "link": "a2"})),
        ("a2", "[[a]]", (CIRCULAR, {"parent_id": "a2", "link": "a"})),
        ("a1", "[[a]]", (CIRCULAR, {"parent_id": "a1", "link": "a"})),
        ("root", "[[a]] [[a1]]", (MERGE, {"link": "a", "existing_link": "a1"})),
        ("root", "[[a1]] [[a]]", (CROSS, {"link": "a1", "other_parent_id": "a"})),
        ("a", "[[a1]] [[a2]]", (MERGE, {"link": "a1", "existing_link": "a2"})),
        ("b", "[[a1]]", (CROSS, {"link": "a1", "other_parent_id": "a"})),
        ("b", "[[new]] [[a]]", (CROSS, {"link": "a", "other_parent_id": "root"})),
        ("b", "[[a]] [[a1]]", (MERGE, {"link": "a", "existing_link": "a1"})),
    ):
        assert (
            await notebook.refused("INVALID_CONTENT", "update_document", id=document, content=text)
            == expected
        )
    assert await rows(admin) == before


async def rows(admin: asyncpg.Connection) -> list[str]:
    """All that is stored of the notebook."""
    tables = ("files", "streams", "outlines", "outline_nodes", "entries", "books", "job_refs")
    return [
        row[0]
        for table in tables
        for row in await admin.fetch(f"SELECT t::text FROM {table} AS t ORDER BY 1")
    ]


async def test_the_same_text_again_makes_no_version(notebook: NotebookDoor) -> None:
    first = await notebook("update_document", content="a [[b]]")
    again = await notebook("update_document", content="a [[b]]")
    assert (again["text"], again["version"]) == ("Succeeded", first["version"])


async def test_an_update_that_expects_another_version_changes_nothing(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "one")
    version = await notebook.version()
    assert await notebook.write("root", "two", expected_version=version) == "Succeeded"
    message, details = await notebook.refused(
        "VERSION_CONFLICT", "update_document", content="three [[c]]", expected_version=version
    )
    assert message.startswith("Error: expected_version: ")
    assert details == {"id": "root"}
    for tool, given in (
        ("edit_document", {"old_text": "two", "new_text": "x"}),
        ("restore_document", {"version": version}),
    ):
        await notebook.refused("VERSION_CONFLICT", tool, expected_version=version, **given)
    assert (await notebook.text(), await notebook.tree()) == ("two", "root\n")


async def test_a_notebook_that_nobody_wrote_is_at_no_version(
    notebook: NotebookDoor, admin: asyncpg.Connection
) -> None:
    await notebook.refused(
        "VERSION_CONFLICT", "update_document", content="x", expected_version=f"{1:032x}:1"
    )
    assert await admin.fetchval("SELECT count(*) FROM files") == 0


async def test_an_edit_replaces_what_stands_there_exactly_once(notebook: NotebookDoor) -> None:
    await notebook.write("root", "one two two aaa [[a]]")
    assert (await notebook("edit_document", old_text="one", new_text="1"))["text"] == "Succeeded"
    for old, count in (("two", 2), ("three", 0), ("aa", 2)):
        message, details = await notebook.refused(
            "INVALID_ARGUMENT", "edit_document", old_text=old, new_text=""
        )
        assert (f"{count} times" in message, details) == (True, {"id": "root", "count": count})
    answer = await notebook("edit_document", old_text="[[a]]", new_text="[[b]] \\1")
    assert answer["text"] == "Succeeded\nCreated: b\nRemoved: a"
    assert await notebook.text() == "1 two two aaa [[b]] \\1"


async def test_history_is_listed_in_pages_newest_first(notebook: NotebookDoor) -> None:
    for text in ("one", "two", "three"):
        await notebook.write("root", text)
    seen, cursor = [], None
    while True:
        page = await notebook("document_history", limit=1, cursor=cursor)
        seen += [await notebook.text(version=one["version"]) for one in page["versions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["two", "one", "# Notes\n"]
    message, _ = await notebook.refused("NOT_FOUND", "read_document", version=f"{7:032x}:1")
    assert message == "Error: version: not found"
    message, _ = await notebook.refused("NOT_FOUND", "document_history", cursor=f"{7:032x}:2")
    assert message == "Error: cursor: not found"


async def test_limits_of_depth_number_and_size_are_named_and_nothing_is_half_written(
    with_options: Callable[..., NotebookDoor],
) -> None:
    notebook = with_options(depth_max=2, documents_max=4, document_bytes_max=20)
    await notebook.write("root", "[[a]]")
    await notebook.write("a", "[[b]]")
    message, details = await notebook.refused(
        "INVALID_CONTENT", "update_document", id="b", content="[[c]]"
    )
    assert (message, details) == (
        "Error: content: the tree is limited to 2 levels below the root",
        {"link": "c"},
    )
    message, _ = await notebook.refused(
        "QUOTA_EXCEEDED", "update_document", content="[[a]] [[x]] [[y]]"
    )
    assert message == "Error: content: a notebook is limited to 4 documents"
    assert await notebook.write("root", "[[a]] [[x]]") == "Succeeded\nCreated: x"
    assert await notebook.write("root", "[[a]] [[z]]") == "Succeeded\nCreated: z\nRemoved: x"
    message, _ = await notebook.refused(
        "PAYLOAD_TOO_LARGE", "update_document", content="é" * 10 + "!"
    )
    assert message == "Error: content: a document is limited to 20 bytes"
    assert await notebook.write("z", "é" * 10) == "Succeeded"
    assert await notebook.tree() == "root:\n- a:\n  - b\n- z\n"


async def test_a_document_of_a_megabyte_is_kept_whole_and_found_by_its_end(
    notebook: NotebookDoor,
) -> None:
    lines = [f"{number}: some words that stand in line {number}" for number in range(25_000)]
    text = "\n".join(lines)[:999_900] + "\n[[last]] the kumquat"
    assert (await notebook.write("root", text)).startswith("Succeeded\nCreated: last\nNote: ")
    assert await notebook.text() == text
    (found,) = (await notebook("search_documents", query="kumquat"))["passages"]
    assert found["end_bytes"] == len(text)
    await notebook("edit_document", old_text="the kumquat", new_text="the zeppelin")
    assert (await notebook("search_documents", query="kumquat"))["passages"] == []
    assert (await notebook("search_documents", query="zeppelin"))["passages"][0]["id"] == "root"


async def test_a_long_document_is_told_to_be_one(with_options: Callable[..., NotebookDoor]) -> None:
    notebook = with_options(oversized_bytes=100)
    assert await notebook.write("root", "x" * 100) == "Succeeded"
    answer = await notebook("update_document", content="x" * 101)
    assert answer["note"] == "this document has 101 bytes; split_document shows how to split it"
    assert answer["text"] == "Succeeded\nNote: " + answer["note"]


async def test_search_finds_documents_by_what_they_hold_now(notebook: NotebookDoor) -> None:
    await notebook.write("root", "[[birds]] [[fish]]")
    await notebook.write("birds", "# Birds\nThe kumquat heron fishes at dawn.\n")
    await notebook.write("fish", "# Fish\nCarp.\n")
    (found,) = (await notebook("search_documents", query="kumquat"))["passages"]
    assert found["id"] == "birds"
    held = (await notebook.text("birds")).encode()
    assert held[found["start_bytes"] : found["end_bytes"]].decode() == found["text"]
    assert (await notebook("search_documents", query="carp", limit=1))["passages"][0][
        "id"
    ] == "fish"
    await notebook.write("birds", "The zeppelin.")
    await notebook.write("root", "[[birds]]")
    for query in ("kumquat", "carp", "", "the"):
        assert (await notebook("search_documents", query=query))["passages"] == []
    assert (await notebook("search_documents", query="zeppelin"))["passages"][0]["id"] == "birds"


async def test_each_project_has_a_notebook_of_its_own(notebook: NotebookDoor) -> None:
    other = NotebookDoor(notebook.call, "other")
    await notebook.write("root", "[[a]]")
    assert await other.tree() == "root\n"
    await other.write("root", "[[b]]")
    assert await notebook.tree() == "root:\n- a\n"


async def test_callers_may_read_the_files_of_the_notebook_and_not_write_them(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[a/b]]")
    listed = await notebook("file_list", path="/notebook")
    assert [entry["path"] for entry in listed["entries"]] == [
        "/notebook/a%2Fb.md",
        "/notebook/root.md",
    ]
    assert (await notebook("file_read", path="/notebook/root.md"))["content"] == "[[a/b]]"
    for path in ("/notebook/root.md", "/notebook/x.md", "/notebook"):
        await notebook.refused("PERMISSION_DENIED", "file_write", path=path, content="x")
        await notebook.refused("PERMISSION_DENIED", "file_delete", path=path, recursive=True)
