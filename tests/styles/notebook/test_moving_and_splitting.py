"""Documents move with all below them, and are cut up at their headings or between paragraphs."""

from collections.abc import Callable
from time import process_time

import pytest

from memsvc.styles.notebook.documents import joined, names, split_text
from memsvc.styles.notebook.links import without_links
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
        assert message == "Error: id: its link cannot be taken out of the old parent by itself"
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
        ({"old_parent_content": "[[a1]]"}, "Error: old_parent_content: must not link the document"),
        ({"new_parent_content": "none"}, "Error: new_parent_content: must link the document"),
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
    assert told[0] == "Error: content: a document that is given a text would be removed"
    assert await planted.tree() == before


async def test_a_move_to_where_it_is_does_nothing(planted: NotebookDoor) -> None:
    version = await planted.version("a")
    assert (await planted("move_document", id="a1", parent="a"))["text"] == "Succeeded"
    assert await planted.version("a") == version
    told = await planted.refused(
        "INVALID_ARGUMENT", "move_document", id="a1", parent="a", new_parent_content="[[a1]]"
    )
    assert told[0].startswith("Error: parent: the document is there already")


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
    assert told == ("Error: content: the tree may be 3 levels deep below the root", {"link": "b"})
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
    assert suggested["text"].startswith("It would be cut into these documents:\n- Tasks: ")
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
    joined(found, names(found.new_documents, lambda _: False))
    assert process_time() - began_s < 15
