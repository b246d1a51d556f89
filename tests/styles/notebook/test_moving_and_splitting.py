"""Documents move with all below them, and are cut up at their headings or between paragraphs."""

from collections.abc import Callable
from time import process_time

import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.notebook.document_tree import without_links
from memsvc.styles.notebook.documents import joined, names, sections_of, split_text
from memsvc.styles.notebook.notebook_writer import TreeRebuild
from tests.fakes import FakeClock
from tests.styles.notebook.conftest import NotebookDoor

pytestmark = pytest.mark.anyio


@pytest.fixture
async def planted(notebook: NotebookDoor) -> NotebookDoor:
    """root over a and b, a over a1 over a2."""
    await notebook.write("root", "# Home\n- [[a]]\n- [[b]]\n")
    await notebook.write("a", "# A\n- [[a1]]\n- more\n")
    await notebook.write("a1", "what a1 says, see [[a2]]")
    await notebook.write("b", "# B")
    return notebook


async def test_a_document_moves_with_all_below_it_and_both_parents_say_so(
    planted: NotebookDoor,
) -> None:
    versions = {name: await planted.version(name) for name in ("a1", "a2", "b")}
    answer = await planted("move_document", id="a1", parent="b")
    assert (answer["text"], answer["created"], answer["removed"]) == ("Succeeded", [], [])
    assert await planted.tree() == "root:\n- a\n- b:\n  - a1:\n    - a2\n"
    assert await planted.text("a") == "# A\n- more\n"
    assert await planted.text("b") == "# B\n- [[a1]]\n"
    assert await planted.text("a1") == "what a1 says, see [[a2]]"
    assert answer["version"] == versions["a1"] == await planted.version("a1")
    assert versions["a2"] == await planted.version("a2")
    assert await planted("move_document", id="a1", parent="a")
    assert await planted.tree() == "root:\n- a:\n  - a1:\n    - a2\n- b\n"


async def test_renamed_document_keeps_its_history_and_place_and_its_link_is_mended(
    planted: NotebookDoor,
) -> None:
    await planted.write("a", "# A\nsee [[a1]], [[a1]] and [[a3]]")
    await planted.write("a1", "newer text, see [[a2]]")
    answer = await planted("move_document", id="a1", new_id="Å 1")
    assert (answer["text"], answer["id"]) == ("Succeeded", "Å 1")
    assert answer["version"] == await planted.version("Å 1")
    assert await planted.tree() == "root:\n- a:\n  - Å 1:\n    - a2\n  - a3\n- b\n"
    assert await planted.text("a") == "# A\nsee [[Å 1]], [[Å 1]] and [[a3]]"
    assert await planted.text("Å 1") == "newer text, see [[a2]]"
    assert await planted.missing("a1")
    history = (await planted("document_history", id="Å 1"))["versions"]
    assert len(history) == 2
    version = history[0]["version"]
    assert await planted.text("Å 1", version=version) == "what a1 says, see [[a2]]"
    await planted("restore_document", id="Å 1", version=version)
    assert await planted.text("Å 1") == "what a1 says, see [[a2]]"
    found = (await planted("search_documents", query="Å 1 says"))["passages"]
    assert found[0]["id"] == "Å 1"
    assert "a1" not in {one["id"] for one in found}


async def test_document_is_renamed_and_moved_in_one_call(planted: NotebookDoor) -> None:
    await planted("move_document", id="a1", new_id="b1", parent="b")
    assert await planted.tree() == "root:\n- a\n- b:\n  - b1:\n    - a2\n"
    assert (await planted.text("a"), await planted.text("b")) == (
        "# A\n- more\n",
        "# B\n- [[b1]]\n",
    )


async def test_text_from_before_a_rename_is_restored_with_the_new_ids(
    planted: NotebookDoor, clock: FakeClock
) -> None:
    before = {name: await planted.version(name) for name in ("root", "a")}
    for old, new in (("a1", "a5"), ("a5", "a9"), ("a2", "a8")):
        clock.advance(seconds=1)
        await planted("move_document", id=old, new_id=new)
    clock.advance(seconds=1)
    await planted.write("a9", "latest, see [[a8]]")
    await planted("restore_document", id="a", version=before["a"])
    assert await planted.text("a") == "# A\n- [[a9]]\n- more\n"
    assert await planted.text("a9") == "latest, see [[a8]]"  # there already, so left as it is
    clock.advance(seconds=1)
    await planted.write("root", "nothing")
    answer = await planted("restore_document", id="root", version=before["root"])
    assert (sorted(answer["created"]), answer["note"]) == (["a", "a8", "a9", "b"], None)
    assert await planted.tree() == "root:\n- a:\n  - a9:\n    - a8\n- b\n"
    assert await planted.text("a9") == "latest, see [[a8]]"


async def test_id_of_a_renamed_document_can_be_used_anew(
    planted: NotebookDoor, clock: FakeClock
) -> None:
    await planted("move_document", id="b", new_id="c")
    clock.advance(seconds=1)
    await planted.write("c", "[[b]]")
    await planted.write("b", "second b")
    clock.advance(seconds=1)
    whole = await planted.version("c")
    await planted.write("c", "")
    await planted("restore_document", id="c", version=whole)
    assert await planted.text("b") == "second b"
    await planted("move_document", id="c", new_id="d")
    await planted("move_document", id="d", new_id="c")
    assert await planted.tree() == "root:\n- a:\n  - a1:\n    - a2\n- c:\n  - b\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"id": "root", "new_id": "x"}, "INVALID_ARGUMENT", "id: the root cannot be moved"),
        ({"id": "a", "new_id": "b"}, "ALREADY_EXISTS", "new_id: already exists"),
        ({"id": "a", "new_id": "root"}, "ALREADY_EXISTS", "new_id: already exists"),
        ({"id": "a", "new_id": "x]]"}, "INVALID_ARGUMENT", "new_id: is not a valid document id"),
        (
            {"id": "a", "new_id": "x" * 129},
            "INVALID_ARGUMENT",
            "new_id: is not a valid document id",
        ),
        ({"id": "none", "new_id": "x"}, "NOT_FOUND", "id: not found"),
        ({"id": "a"}, "INVALID_ARGUMENT", "parent: this argument is missing"),
        ({"id": "a", "new_id": "x", "parent": "a1"}, "INVALID_CONTENT", "circular reference"),
        ({"id": "a", "new_id": "x", "parent": "none"}, "NOT_FOUND", "parent: not found"),
    ],
)
async def test_rename_that_is_refused_changes_nothing(
    planted: NotebookDoor, arguments: dict[str, str], code: str, message: str
) -> None:
    before = await planted.tree()
    told, _ = await planted.refused(code, "move_document", **arguments)
    assert message in told
    assert await planted.tree() == before
    assert await planted.text("root") == "# Home\n- [[a]]\n- [[b]]\n"


async def test_rename_to_its_own_id_changes_nothing(planted: NotebookDoor) -> None:
    version = await planted.version("a")
    answer = await planted("move_document", id="a", new_id="a")
    assert answer["version"] == version == await planted.version("a")


async def test_renamed_document_leaves_an_outline_that_maintenance_agrees_with(
    planted: NotebookDoor, database: Database, scope: Scope
) -> None:
    await planted("move_document", id="a", new_id="x")
    assert not await TreeRebuild(database).check(scope)


async def test_a_link_within_a_sentence_leaves_its_name_behind(planted: NotebookDoor) -> None:
    await planted("move_document", id="a2", parent="root")
    assert await planted.text("a1") == "what a1 says, see a2"
    await planted.write("a1", "  * [[x]]\n1. [[y]] and [[x]]\n[[x]] [[x]]\n- Label [[x]]\n[[z]]")
    await planted("move_document", id="x", parent="a2")
    assert await planted.text("a1") == "1. [[y]] and x\n- Label x\n[[z]]"


async def test_a_link_that_cannot_be_taken_out_by_itself_is_left_to_the_caller(
    planted: NotebookDoor,
) -> None:
    for text in ("[[[[x]]]]", "[[new[[x]]]]"):
        await planted.write("a1", text)
        message, _ = await planted.refused("INVALID_CONTENT", "move_document", id="x", parent="b")
        assert message == (
            "Error: id: the link to the document cannot be removed from the old parent"
            " automatically"
        )
        assert await planted.text("a1") == text
    assert await planted("move_document", id="x", parent="b", old_parent_content="none")


async def test_the_parents_may_be_given_whole(planted: NotebookDoor) -> None:
    answer = await planted(
        "move_document",
        id="a1",
        parent="b",
        old_parent_content="old [[n1]]",
        new_parent_content="[[a1]] [[n2]]",
    )
    assert answer["text"] == "Succeeded\nCreated: n1, n2"
    assert await planted.tree() == "root:\n- a:\n  - n1\n- b:\n  - a1:\n    - a2\n  - n2\n"
    assert await planted.text("a") == "old [[n1]]"


async def test_a_move_that_would_leave_no_tree_changes_nothing(planted: NotebookDoor) -> None:
    before = await planted.tree()
    circular = "Error: parent: cross-tree reference not allowed - circular reference detected"
    for name, parent, code, message in (
        ("root", "a", "INVALID_ARGUMENT", "Error: id: the root cannot be moved"),
        ("a", "a", "INVALID_CONTENT", circular),
        ("a", "a2", "INVALID_CONTENT", circular),
        ("a", "nothing", "NOT_FOUND", "Error: parent: not found"),
        ("a", "[]", "NOT_FOUND", "Error: parent: not found"),
        ("nothing", "a", "NOT_FOUND", "Error: id: not found"),
    ):
        assert (await planted.refused(code, "move_document", id=name, parent=parent))[0] == message
    for contents, message in (
        (
            {"old_parent_content": "[[a1]]"},
            "Error: old_parent_content: must not contain a link to the moved document",
        ),
        (
            {"new_parent_content": "none"},
            "Error: new_parent_content: must link to the moved document",
        ),
    ):
        told = await planted.refused(
            "INVALID_CONTENT", "move_document", id="a1", parent="b", **contents
        )
        assert told[0] == message
    told = await planted.refused(
        "INVALID_CONTENT", "move_document", id="a1", parent="b", old_parent_content="[[root]]"
    )
    assert told[1] == {"parent_id": "a", "link": "root"}
    told = await planted.refused(
        "INVALID_CONTENT",
        "move_document",
        id="a1",
        parent="root",
        new_parent_content="[[a1]] [[b]]",
    )
    assert (
        told[0] == "Error: content: the call would remove a document whose text it has just written"
    )
    assert await planted.tree() == before


async def test_a_move_to_where_it_is_does_nothing(planted: NotebookDoor) -> None:
    version = await planted.version("a")
    assert (await planted("move_document", id="a1", parent="a"))["text"] == "Succeeded"
    assert await planted.version("a") == version
    told = await planted.refused(
        "INVALID_ARGUMENT", "move_document", id="a1", parent="a", new_parent_content="[[a1]]"
    )
    assert told[0].startswith("Error: parent: is already the parent")


async def test_the_limit_of_depth_counts_what_is_below_a_document_that_moves(
    with_options: Callable[..., NotebookDoor],
) -> None:
    notebook = with_options(depth_max=3)
    await notebook.write("root", "[[a]] [[b]]")
    await notebook.write("a", "[[a1]]")
    await notebook.write("b", "[[b1]]")
    assert (await notebook("move_document", id="b", parent="a"))["text"] == "Succeeded"
    await notebook.write("b1", "no links")
    told = await notebook.refused("INVALID_CONTENT", "move_document", id="b", parent="a1")
    assert told == ("Error: content: the tree is limited to 3 levels below the root", {"link": "b"})
    assert await notebook.tree() == "root:\n- a:\n  - a1\n  - b:\n    - b1\n"


LONG = """# Plan
Intro with [[kept]].

## Tasks
- one [[t1]]

### Detail
deep

```
## no heading
```
## Notes ##
[[n1]] and [[t1]]?
## Tasks
again
"""


async def test_a_document_is_cut_at_its_headings_when_asked_and_nothing_is_lost(
    notebook: NotebookDoor,
) -> None:
    await notebook.write("root", "[[plan]]")
    await notebook.write("plan", LONG)
    await notebook.write("t1", "[[t2]]")
    suggested = await notebook("split_document", id="plan")
    assert suggested["applied"] is False
    assert [part["id"] for part in suggested["parts"]] == ["Tasks", "Notes", "Tasks 2"]
    assert await notebook.text("plan") == LONG
    content = "# Plan\nIntro with [[kept]].\n\n- [[Tasks]]\n- [[Notes]]\n- [[Tasks 2]]\n"
    assert suggested["content"] == content
    assert suggested["text"].startswith("The document would be split into:\n- Tasks: ")
    done = await notebook("split_document", id="plan", apply=True)
    assert (done["applied"], done["created"]) == (True, ["Tasks", "Notes", "Tasks 2"])
    assert done["text"] == "Succeeded\nCreated: Tasks, Notes, Tasks 2"
    assert await notebook.text("plan") == content
    assert (
        await notebook.text("Tasks")
        == "# Tasks\n- one [[t1]]\n\n### Detail\ndeep\n\n```\n## no heading\n```\n"
    )
    assert await notebook.text("Notes") == "# Notes\n[[n1]] and t1?\n"
    assert await notebook.tree() == (
        "root:\n- plan:\n  - kept\n  - Tasks:\n    - t1:\n      - t2\n  - Notes:\n    - n1\n  -"
        " Tasks 2\n"
    )
    assert done["version"] == await notebook.version("plan")


async def test_parts_take_no_name_that_a_document_has(notebook: NotebookDoor) -> None:
    await notebook.write("root", "[[x]] [[root 2]]\n# root\na\n# [x]\nb\n# x\nc\n#  \n# ##\nd")
    parts = (await notebook("split_document", apply=True))["parts"]
    assert [part["id"] for part in parts] == ["root 3", "x 2", "x 3"]
    assert await notebook.tree() == "root:\n- x\n- root 2\n- root 3\n- x 2\n- x 3\n"


async def test_a_long_document_without_headings_is_cut_between_paragraphs(
    with_options: Callable[..., NotebookDoor],
) -> None:
    notebook = with_options(oversized_bytes=200)
    paragraphs = [f"{number}: {'word ' * 12}\n\n" for number in range(5)]
    await notebook.write("root", "# Log\n\n" + "".join(paragraphs))
    parts = (await notebook("split_document", apply=True))["parts"]
    assert [part["id"] for part in parts] == ["root 1", "root 2", "root 3", "root 4", "root 5"]
    assert await notebook.text() == "# Log\n" + "".join(
        f"- [[root {number}]]\n" for number in range(1, 6)
    )
    for number, paragraph in enumerate(paragraphs, 1):
        assert await notebook.text(f"root {number}") == f"# root {number}\n\n{paragraph}"


async def test_there_may_be_nothing_to_split(notebook: NotebookDoor) -> None:
    await notebook.write("root", "# One heading\nshort")
    for apply in (False, True):
        answer = await notebook("split_document", apply=apply)
        assert (answer["applied"], answer["parts"], answer["content"]) == (
            False,
            [],
            "# One heading\nshort",
        )
        assert answer["text"].startswith("Nothing to split")


@pytest.mark.parametrize(
    "text",
    [
        "[[a]]" * 200_000,
        f"[[a]]{' ' * 990_000}x",
        "\n" * 1_000_000,
        f"# a{' ' * 990_000}b\n# c\n",
        "# a\n" * 100_000,
        f"# a{' ' * 1000}b\n" * 900,
    ],
    ids=[
        "links in one line",
        "blanks behind a link",
        "blank lines",
        "blanks in a heading",
        "one title",
        "long headings",
    ],
)
async def test_no_document_takes_long_to_be_moved_out_of_or_to_be_cut(text: str) -> None:
    began_s = process_time()
    assert "[[a]]" not in without_links(text, {"a"})
    found = split_text(text, "a", bytes_max=16_000)
    joined(found, names(sections_of(found), lambda _: False))
    assert process_time() - began_s < 15
