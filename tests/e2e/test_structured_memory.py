"""`structured-memory` as hosts of the server that it replaces know it."""

import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import copied
from tests.e2e.host import Host, hosting
from tests.e2e.process import CHECKOUT, environment

pytestmark = pytest.mark.slow

TEMPLATE = "# メモ帳\n"
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
CROSS_TREE = "Error: content: cross-tree reference not allowed"


def _serving(folder: Path, *arguments: str) -> Any:
    return hosting("structured-memory", *arguments, DATA_DIR=str(folder), ROOT_TEMPLATE=TEMPLATE)


async def _said(host: Host, tool: str, **arguments: Any) -> str:
    """What a call answers: the text of its one content, or the message of its error."""
    answer = await host.call(tool, **arguments)
    if "error" in answer:
        assert answer["error"]["code"] == -32602
        return str(answer["error"]["message"])
    assert answer["result"]["isError"] is False
    (content,) = answer["result"]["content"]
    assert content["type"] == "text"
    return str(content["text"])


Step = tuple[str, dict[str, Any], str]
STEPS: dict[str, list[Step]] = {
    "the root holds its template": [("read_document", {}, TEMPLATE)],
    "a document is read": [
        ("update_document", {"content": "[[test_doc]]"}, "Succeeded\nCreated: test_doc"),
        ("update_document", {"id": "test_doc", "content": "Test content"}, "Succeeded"),
        ("read_document", {"id": "test_doc"}, "Test content"),
    ],
    "a document that is not there is not read": [
        ("read_document", {"id": "nonexistent"}, "Error: id: not found")
    ],
    "Markdown is kept byte for byte": [
        ("update_document", {"content": "# T\n\n- *a*\n\n```rs\nx\t\n```\n  \r\n"}, "Succeeded"),
        ("read_document", {"id": "root"}, "# T\n\n- *a*\n\n```rs\nx\t\n```\n  \r\n"),
    ],
    "the root is written without its id": [
        ("update_document", {"content": "Updated root content"}, "Succeeded"),
        ("read_document", {"id": None}, "Updated root content"),
    ],
    "a document is written": [
        ("update_document", {"content": "[[specific_doc]]"}, "Succeeded\nCreated: specific_doc"),
        ("update_document", {"id": "specific_doc", "content": "New"}, "Succeeded"),
        ("read_document", {"id": "specific_doc"}, "New"),
    ],
    "links make documents": [
        (
            "update_document",
            {"id": None, "content": "# Root\n[[child_doc1]]\n[[child_doc2]]"},
            "Succeeded\nCreated: child_doc1, child_doc2",
        ),
        ("read_document", {"id": "child_doc1"}, "# child_doc1\n\n"),
    ],
    "an answer names what was made, and only that": [
        ("update_document", {"content": "no links"}, "Succeeded"),
        ("update_document", {"content": "[[new_child]]"}, "Succeeded\nCreated: new_child"),
        ("update_document", {"content": "still [[new_child]]"}, "Succeeded"),
    ],
    "a document that is not there is not written": [
        ("update_document", {"id": "nonexistent", "content": "x"}, "Error: id: not found"),
    ],
    "a child of another document is not linked": [
        (
            "update_document",
            {"content": "[[parent1]] [[parent2]]"},
            "Succeeded\nCreated: parent1, parent2",
        ),
        (
            "update_document",
            {"id": "parent1", "content": "[[child1]]"},
            "Succeeded\nCreated: child1",
        ),
        (
            "update_document",
            {"id": "parent2", "content": "[[child2]]"},
            "Succeeded\nCreated: child2",
        ),
        ("update_document", {"id": "child1", "content": "[[child2]]"}, CROSS_TREE),
        ("read_document", {"id": "child1"}, "# child1\n\n"),
    ],
    "the tree of a root alone": [("get_document_tree", {}, "root\n")],
    "a tree of two levels": [
        ("update_document", {"content": "[[parent]]"}, "Succeeded\nCreated: parent"),
        (
            "update_document",
            {"id": "parent", "content": "[[child1]] [[child2]]"},
            "Succeeded\nCreated: child1, child2",
        ),
        ("get_document_tree", {}, "root:\n- parent:\n  - child1\n  - child2\n"),
    ],
    "a tree of three levels": [
        ("update_document", {"content": "[[parent]]"}, "Succeeded\nCreated: parent"),
        (
            "update_document",
            {"id": "parent", "content": "[[child1]] [[child2]]"},
            "Succeeded\nCreated: child1, child2",
        ),
        (
            "update_document",
            {"id": "child1", "content": "[[grandchild]]"},
            "Succeeded\nCreated: grandchild",
        ),
        ("get_document_tree", {}, "root:\n- parent:\n  - child1:\n    - grandchild\n  - child2\n"),
    ],
}


@pytest.fixture(scope="module")
def a_folder(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the notebook is emptied between the tests that share it."""
    folder = tmp_path_factory.mktemp("structured")
    copied(migrated, folder / ".memsvc")
    return folder


@pytest.fixture
def folder(migrated: Path, tmp_path: Path) -> Path:
    """A folder with a database and no document, as where the first start was interrupted."""
    copied(migrated, tmp_path / ".memsvc")
    return tmp_path


async def test_it_answers_as_the_server_that_it_replaces(a_folder: Path) -> None:
    async with _serving(a_folder) as host:
        await host.shake_hands("2024-11-05")
        for behaviour, steps in STEPS.items():
            await host.call("update_document", content=TEMPLATE)
            for tool, arguments, expected in steps:
                said = await _said(host, tool, **arguments)
                assert said == expected or (
                    expected == CROSS_TREE and said.startswith(CROSS_TREE)
                ), behaviour


async def test_it_offers_three_tools_and_says_how_to_use_them(a_folder: Path) -> None:
    async with _serving(a_folder) as host:
        hello = await host.shake_hands("2025-03-26")
        assert hello["serverInfo"]["name"] == "structured-memory"
        assert hello["capabilities"].keys() == {"tools"}
        assert "[[subdocument_id]]" in hello["instructions"]
        tools = (await host.ask("tools/list"))["result"]["tools"]
        assert {tool["name"] for tool in tools} == {
            "read_document",
            "update_document",
            "get_document_tree",
        }
        assert {tool["inputSchema"]["type"] for tool in tools} == {"object"}
        refused = await host.call("memory_before_turn", current_input="hi")
        assert refused["result"]["isError"]
        missing = (await host.call("read_document", id="none"))["error"]
        assert missing["data"]["id"] == "none"
        host.close()
        assert await host.ended() == 0
        lines = (await host.errors()).splitlines()
        assert [line for line in lines if '"event":"slow call"' not in line] == [
            "start server, connect to standard input/output",
            "MCP server stopped: closed",
        ]
    async with _serving(a_folder, "--all-tools") as host:
        await host.shake_hands()
        tools = {tool["name"] for tool in (await host.ask("tools/list"))["result"]["tools"]}
        assert {"edit_document", "move_document", "search_documents"} < tools
        assert "file_read" not in tools


@pytest.mark.parametrize("missing", ["DATA_DIR", "ROOT_TEMPLATE"])
async def test_both_variables_are_needed(tmp_path: Path, missing: str) -> None:
    variables = {"DATA_DIR": str(tmp_path / "data"), "ROOT_TEMPLATE": TEMPLATE}
    del variables[missing]
    async with hosting("structured-memory", **variables) as host:
        assert await host.ended() == 1
        assert f"Environment variable {missing} is required but not found" in await host.errors()
        assert await host.process.stdout.read() == b""
    assert not (tmp_path / "data").exists()


async def test_documents_are_files_that_follow_every_change_and_outlive_the_server(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    async with _serving(folder) as host:
        await host.shake_hands()
        assert (folder / "root.md").read_text() == TEMPLATE
        await _said(host, "update_document", content="[[a]] [[メモ]] [[x/y]]")
        await _said(host, "update_document", id="a", content="about a [[b]]")
        names = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
        assert names == {"root.md", "a.md", "b.md", "メモ.md", "x%2Fy.md"}
        assert (folder / "a.md").read_text() == "about a [[b]]"
        assert (await _said(host, "update_document", content="alone")).startswith(
            "Succeeded\nRemoved: "
        )
        assert {file.name for file in folder.iterdir()} == {".memsvc", "root.md"}
        await _said(host, "update_document", content="[[kept]]")
        host.process.kill()
        await host.ended()
    assert stat.S_IMODE((folder / ".memsvc").stat().st_mode) & 0o077 in (0, 0o001)
    (folder / "kept.md").unlink()
    async with _serving(folder) as host:
        await host.shake_hands()
        assert await _said(host, "read_document") == "[[kept]]"
        assert await _said(host, "read_document", id="kept") == "# kept\n\n"
        assert (folder / "kept.md").read_text() == "# kept\n\n"


async def test_the_files_of_an_old_server_are_taken_over_once(folder: Path) -> None:
    files = {
        "root.md": "# mine\n[[old]]\n",
        "old.md": "old text, \r\n",
        "lost.md": "nobody links me",
    }
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    (folder / "binary.md").write_bytes(b"\xff\xfe")
    (folder / "notes.txt").write_text("no document")
    async with _serving(folder) as host:
        await host.shake_hands()
        assert await _said(host, "get_document_tree") == "root:\n- old\n"
        assert await _said(host, "read_document", id="old") == "old text, \r\n"
        assert await _said(host, "read_document", id="lost") == "Error: id: not found"
        await _said(host, "update_document", content="[[old]] again")
        host.close()
        await host.ended()
        said = await host.errors()
    assert "lost.md is not linked from root and was skipped" in said
    assert "binary.md is not UTF-8 and was skipped" in said
    assert (folder / "lost.md").read_text() == "nobody links me"
    assert (folder / "root.md").read_text() == "[[old]] again"
    assert (folder / "binary.md").read_bytes() == b"\xff\xfe"


async def test_a_file_that_somebody_else_changed_is_left_as_it_is(folder: Path) -> None:
    async with _serving(folder) as host:
        await host.shake_hands()
        await _said(host, "update_document", content="[[a]] [[b]]")
        (folder / "a.md").write_text("mine")
        assert await _said(host, "update_document", id="a", content="theirs") == "Succeeded"
        assert await _said(host, "read_document", id="a") == "theirs"
        await _said(host, "update_document", content="[[b]]")
        host.close()
        await host.ended()
        said = await host.errors()
    assert (folder / "a.md").read_text() == "mine"
    assert said.count("a.md was changed by another program and was not overwritten") == 1
    assert said.count("a.md was changed by another program and was not removed") == 1


async def test_files_that_make_no_tree_stop_the_start_and_stay(folder: Path) -> None:
    (folder / "root.md").write_text("[[a]]")
    (folder / "a.md").write_text("[[root]]")
    async with _serving(folder) as host:
        assert await host.ended() == 1
        said = await host.errors()
    assert "Error: cannot load the documents in the folder that DATA_DIR names: Error: " in said
    assert "cross-tree reference" in said
    assert "Recovery: " in said
    assert "Traceback" not in said
    (folder / "a.md").write_text("mended")
    async with _serving(folder) as host:
        await host.shake_hands()
        assert await _said(host, "read_document", id="a") == "mended"


async def test_two_hosts_share_one_folder(folder: Path) -> None:
    async with _serving(folder) as one, _serving(folder) as other:
        await one.shake_hands()
        await other.shake_hands()
        await _said(one, "update_document", content="[[a]] [[b]]")
        assert await _said(other, "update_document", id="a", content="of the other") == "Succeeded"
        assert await _said(one, "read_document", id="a") == "of the other"
        assert (folder / "a.md").read_text() == "of the other"
        other.process.send_signal(signal.SIGTERM)
        assert await other.ended() == 0
        assert await _said(one, "update_document", id="b", content="of one") == "Succeeded"


def test_the_executable_of_that_name_is_it() -> None:
    module, _, function = PROJECT["scripts"]["structured-memory"].partition(":")
    command = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == "Error: Environment variable DATA_DIR is required but not found\n"
    assert ended.stdout == ""
