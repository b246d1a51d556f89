"""The tool `memory` answers each command in the words of the local file system tool of the
anthropic package."""

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.scope import Scope
from memsvc.gateway.call_accounting import shape
from memsvc.styles.files.memory_directory import MATCH_LINES_MAX, lines_of, size
from tests.door import Door, Refused

pytestmark = pytest.mark.anyio


class MemoryDoor:
    """The tool `memory`, a method a command, and the file tools beside it."""

    def __init__(self, call: Door) -> None:
        self.call = call

    async def __call__(self, command: str, **arguments: Any) -> str:
        body = await self.call("memory", command=command, **arguments)
        assert body.keys() == {"text"}
        return str(body["text"])

    async def refuses(self, code: str, command: str, **arguments: Any) -> str:
        """The sentence of a call that has to fail with this code."""
        return str(
            (await self.call.refuses(code, "memory", command=command, **arguments))["message"]
        )

    async def made(self, path: str, file_text: str) -> None:
        """Makes a file."""
        assert (
            await self("create", path=path, file_text=file_text)
            == f"File created successfully at: {path}"
        )

    async def text(self, stored: str) -> str:
        """The content of a file, by its path in the store."""
        return str((await self.call("file_read", project="default", path=stored))["content"])


@pytest.fixture
def memory(call: Door) -> MemoryDoor:
    return MemoryDoor(call)


EMPTY = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden"
    " items:\n0B\t/memories"
)


async def test_the_directory_is_there_before_anything_is_in_it(memory: MemoryDoor) -> None:
    assert await memory("view", path="/memories") == EMPTY
    await memory.made("/memories/a.md", "x")
    await memory("delete", path="/memories/a.md")
    assert await memory("view", path="/memories") == EMPTY


async def test_a_directory_is_shown_to_two_levels_with_the_sizes_of_all_below(
    memory: MemoryDoor,
) -> None:
    for path, size_bytes in (
        ("/memories/b/deep/er/x.md", 1024),
        ("/memories/b/y.md", 512),
        ("/memories/a.md", 1536),
        ("/memories/b.md", 0),
        ("/memories/.hidden/z.md", 1),
        ("/memories/b/.z", 3),
    ):
        await memory.made(path, "x" * size_bytes)
    assert (await memory("view", path="/memories")).split("\n") == [
        (
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden"
            " items:"
        ),
        "3.0K\t/memories",
        "1.5K\t/memories/a.md",
        "1.5K\t/memories/b/",
        "1K\t/memories/b/deep/",
        "512B\t/memories/b/y.md",
        "0B\t/memories/b.md",
    ]
    assert (await memory("view", path="/memories/b/deep/")).split("\n") == [
        (
            "Here're the files and directories up to 2 levels deep in /memories/b/deep/, excluding"
            " hidden items:"
        ),
        "1K\t/memories/b/deep/",
        "1K\t/memories/b/deep//er/",
        "1K\t/memories/b/deep//er/x.md",
    ]


async def test_more_files_than_a_page_holds_are_all_shown(
    memory: MemoryDoor, monkeypatch: Any
) -> None:
    monkeypatch.setattr("memsvc.styles.files.memory_directory._PAGE_ENTRIES", 7)
    for number in range(40):
        await memory.made(f"/memories/d/{number:02}", "12")
    shown = await memory("view", path="/memories")
    assert shown.split("\n")[1:] == [
        "80B\t/memories",
        "80B\t/memories/d/",
        *(f"2B\t/memories/d/{number:02}" for number in range(40)),
    ]


@pytest.mark.parametrize(
    ("size_bytes", "told"),
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1K"),
        (1536, "1.5K"),
        (1048576, "1M"),
        (5 * 2**40, "5120G"),
    ],
)
def test_sizes_are_told_in_units_of_1024(size_bytes: int, told: str) -> None:
    assert size(size_bytes) == told


async def test_a_file_is_shown_with_the_numbers_of_its_lines(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "one\ntwo\r\n\nfour\n")
    whole = "Here's the content of /memories/a.md with line numbers:\n"
    lines = ["     1\tone", "     2\ttwo\r", "     3\t", "     4\tfour", "     5\t"]
    for view_range, shown in (
        (None, lines),
        ([], lines),
        ([2], lines),
        ([2, 3], lines[1:3]),
        ([2, -1], lines[1:]),
        ([0, 1], lines[:1]),
        ([-5, 2], lines[:2]),
        ([4, 99], lines[3:]),
        ([9, 12], []),
        ([3, 2], []),
        ([1, -2], lines[:-2]),
    ):
        assert await memory(
            "view", path="/memories/a.md", view_range=view_range
        ) == whole + "\n".join(shown)


async def test_an_empty_file_is_one_empty_line(memory: MemoryDoor) -> None:
    await memory.made("/memories/a", "")
    assert await memory("view", path="/memories/a") == (
        "Here's the content of /memories/a with line numbers:\n     1\t"
    )


async def test_a_file_of_too_many_lines_is_not_shown(memory: MemoryDoor) -> None:
    await memory.made("/memories/most", "\n" * 999_998)
    await memory.made("/memories/more", "\n" * 999_999)
    assert (await memory("view", path="/memories/most", view_range=[999_999, -1])).endswith(
        "\n999999\t"
    )
    assert await memory.refuses(
        "INVALID_CONTENT", "view", path="/memories/more", view_range=[1, 2]
    ) == ("File /memories/more exceeds maximum line limit of 999,999 lines.")


async def test_what_is_not_there_cannot_be_shown_or_changed(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "x")
    for path in ("/memories/b.md", "/memories/a.md/b"):
        missing = f"The path {path} does not exist. Please provide a valid path."
        assert await memory.refuses("NOT_FOUND", "view", path=path) == missing
        assert await memory.refuses("NOT_FOUND", "str_replace", path=path, old_str="a") == missing
        assert (
            await memory.refuses("NOT_FOUND", "insert", path=path, insert_line=0, insert_text="a")
            == missing
        )
        gone = f"The path {path} does not exist"
        assert await memory.refuses("NOT_FOUND", "delete", path=path) == gone
        assert (
            await memory.refuses("NOT_FOUND", "rename", old_path=path, new_path="/memories/c")
            == gone
        )


async def test_a_directory_is_not_a_file(memory: MemoryDoor) -> None:
    await memory.made("/memories/d/a.md", "x")
    for path in ("/memories", "/memories/d"):
        told = f"The path {path} is not a file."
        assert (
            await memory.refuses("IS_DIRECTORY", "str_replace", path=path, old_str="a", new_str="b")
            == told
        )
        assert (
            await memory.refuses(
                "IS_DIRECTORY", "insert", path=path, insert_line=0, insert_text="a"
            )
            == told
        )
        exists = f"File {path} already exists"
        assert await memory.refuses("ALREADY_EXISTS", "create", path=path, file_text="a") == exists


async def test_a_file_is_made_once(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "x")
    for text in ("x", "y"):
        assert await memory.refuses(
            "ALREADY_EXISTS", "create", path="/memories/a.md", file_text=text
        ) == ("File /memories/a.md already exists")
    assert await memory.text("/memories/a.md") == "x"


async def test_a_text_is_replaced_and_shown_among_its_neighbours(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "1\n2\n3\n4\n5\n6\n7\n")
    edited = (
        "The memory file has been edited. Here is the snippet showing the change (with line"
        " numbers):\n"
    )
    assert await memory(
        "str_replace", path="/memories/a.md", old_str="4\n", new_str="four\nfour and a half\n"
    ) == (edited + "     2\t2\n     3\t3\n     4\tfour\n     5\tfour and a half\n     6\t5")
    assert await memory("str_replace", path="/memories/a.md", old_str="1\n") == edited + (
        "     1\t2\n     2\t3\n     3\tfour"
    )
    assert await memory.text("/memories/a.md") == "2\n3\nfour\nfour and a half\n5\n6\n7\n"


async def test_a_text_that_is_not_there_just_once_is_not_replaced(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "ab\nb\n\nab ab\n")
    assert await memory.refuses(
        "INVALID_ARGUMENT", "str_replace", path="/memories/a.md", old_str="zz"
    ) == ("No replacement was performed, old_str `zz` did not appear verbatim in /memories/a.md.")
    assert await memory.refuses(
        "INVALID_ARGUMENT", "str_replace", path="/memories/a.md", old_str="ab"
    ) == (
        "No replacement was performed. Multiple occurrences of old_str `ab` in lines: 1, 4, 4. "
        "Please ensure it is unique"
    )
    long = await memory.refuses(
        "INVALID_ARGUMENT", "str_replace", path="/memories/a.md", old_str="z" * 100_000
    )
    assert len(long) < 1200
    assert await memory.text("/memories/a.md") == "ab\nb\n\nab ab\n"


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=3))
def test_the_lines_of_a_text_are_those_where_it_begins(content: str, text: str) -> None:
    starts = [at for at in range(len(content) + 1) if content.startswith(text, at)]
    assert lines_of(content, text) == [content[:at].count("\n") + 1 for at in starts]


def test_of_very_many_places_some_are_told() -> None:
    assert lines_of("a" * 1_000_000, "a") == [1] * MATCH_LINES_MAX


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        ("a\nb\n", 0, "x", "x\na\nb\n"),
        ("a\nb\n", 1, "x\ny\n\n", "a\nx\ny\nb\n"),
        ("a\nb\n", 2, "x\n", "a\nb\nx\n"),
        ("a\nb", 2, "x", "a\nb\nx\n"),
        ("a\r\nb\r\n", 1, "x\r\n", "a\r\nx\r\nb\r\n"),
        ("", 0, "x", "x\n"),
        ("", 0, "", "\n"),
        ("\n", 1, "x", "\nx\n"),
        ("a\n\n", 2, "", "a\n\n"),
    ],
)
async def test_text_is_inserted_behind_a_line(
    memory: MemoryDoor, before: str, line: int, text: str, after: str
) -> None:
    await memory.made("/memories/a.md", before)
    assert await memory("insert", path="/memories/a.md", insert_line=line, insert_text=text) == (
        "The file /memories/a.md has been edited."
    )
    assert await memory.text("/memories/a.md") == after


@pytest.mark.parametrize("line", [-1, 3])
async def test_text_is_not_inserted_where_there_is_no_line(memory: MemoryDoor, line: int) -> None:
    await memory.made("/memories/a.md", "a\nb\n")
    assert await memory.refuses(
        "INVALID_ARGUMENT", "insert", path="/memories/a.md", insert_line=line, insert_text="x"
    ) == (f"Invalid `insert_line` parameter: {line}. It should be within the range [0, 2].")


async def test_files_and_directories_are_deleted(memory: MemoryDoor) -> None:
    for path in ("/memories/a.md", "/memories/d/b.md", "/memories/d/e/c.md"):
        await memory.made(path, "x")
    assert await memory("delete", path="/memories/a.md") == "Successfully deleted /memories/a.md"
    assert await memory("delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert await memory("view", path="/memories") == EMPTY
    assert await memory.refuses("PERMISSION_DENIED", "delete", path="/memories") == (
        "Cannot delete the /memories directory itself"
    )


async def test_files_and_directories_are_renamed(memory: MemoryDoor) -> None:
    for path in ("/memories/a.md", "/memories/d/b.md", "/memories/d/e/c.md"):
        await memory.made(path, path)
    assert await memory("rename", old_path="/memories/a.md", new_path="/memories/n/a.md") == (
        "Successfully renamed /memories/a.md to /memories/n/a.md"
    )
    assert await memory("rename", old_path="/memories/d", new_path="/memories/f") == (
        "Successfully renamed /memories/d to /memories/f"
    )
    assert await memory.text("/memories/n/a.md") == "/memories/a.md"
    assert await memory.text("/memories/f/e/c.md") == "/memories/d/e/c.md"


async def test_nothing_is_renamed_onto_something(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "x")
    await memory.made("/memories/d/b.md", "x")
    for taken in ("/memories/d/b.md", "/memories/d", "/memories/a.md", "/memories"):
        for source in ("/memories/a.md", "/memories/nothing"):
            assert await memory.refuses(
                "ALREADY_EXISTS", "rename", old_path=source, new_path=taken
            ) == (f"The destination {taken} already exists")
    assert await memory.refuses(
        "PERMISSION_DENIED", "rename", old_path="/memories", new_path="/memories/c"
    ) == ("Cannot rename the /memories directory itself")
    await memory.refuses("INVALID_PATH", "rename", old_path="/memories/d", new_path="/memories/d/e")


@pytest.mark.parametrize(
    "path", ["/memories/../etc/passwd", "/memories/a/../b", "/memories//a", "/memories/./a"]
)
async def test_a_path_stays_inside(memory: MemoryDoor, path: str) -> None:
    assert (
        await memory.refuses("INVALID_PATH", "view", path=path)
        == f"Path {path} would escape /memories directory"
    )
    await memory.refuses("INVALID_PATH", "create", path=path, file_text="x")
    await memory.refuses("INVALID_PATH", "rename", old_path="/memories/a", new_path=path)


@pytest.mark.parametrize("path", ["", "/", "memories/a", "/memory/a", "/memoriesa", "/etc/passwd"])
async def test_a_path_starts_with_memories(memory: MemoryDoor, path: str) -> None:
    assert (
        await memory.refuses("INVALID_PATH", "view", path=path)
        == f"Path must start with /memories, got: {path}"
    )


async def test_a_path_is_not_longer_than_others(memory: MemoryDoor) -> None:
    most = "/memories/" + "x" * (512 - len("/memories/"))
    await memory.made(most, "x")
    await memory.refuses("INVALID_PATH", "view", path=most + "x")
    await memory.refuses("INVALID_PATH", "create", path="/memories/" + "漢" * 56, file_text="x")
    await memory.refuses("INVALID_PATH", "create", path="/memories/a\nb", file_text="x")


async def test_names_in_any_script_are_told_as_they_were_given(memory: MemoryDoor) -> None:
    await memory.made("/memories/旅行 計画/東京.md", "新幹線\n")
    assert (await memory("view", path="/memories")).split("\n")[1:] == [
        "10B\t/memories",
        "10B\t/memories/旅行 計画/",
        "10B\t/memories/旅行 計画/東京.md",
    ]
    assert await memory("view", path="/memories/旅行 計画/東京.md") == (
        "Here's the content of /memories/旅行 計画/東京.md with line numbers:\n     1\t新幹線\n     2\t"
    )
    assert await memory("rename", old_path="/memories/旅行 計画", new_path="/memories/100% ü") == (
        "Successfully renamed /memories/旅行 計画 to /memories/100% ü"
    )
    assert await memory.text("/memories/100%25%20%C3%BC/%E6%9D%B1%E4%BA%AC.md") == "新幹線\n"


async def test_a_file_that_is_no_text_is_not_shown(memory: MemoryDoor) -> None:
    await memory.call(
        "file_write",
        project="default",
        path="/memories/a.bin",
        content=base64.b64encode(b"\xff\x00").decode(),
        content_encoding="base64",
    )
    assert await memory.refuses("INVALID_CONTENT", "view", path="/memories/a.bin") == (
        "Unsupported file type for /memories/a.bin"
    )


async def test_concurrent_edits_of_one_file_are_all_there(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "".join(f"line {number}: old\n" for number in range(20)))
    await asyncio.gather(
        *(
            memory(
                "str_replace",
                path="/memories/a.md",
                old_str=f"line {number}: old",
                new_str=f"line {number}: new",
            )
            for number in range(20)
        )
    )
    assert await memory.text("/memories/a.md") == "".join(
        f"line {number}: new\n" for number in range(20)
    )


async def test_concurrent_inserts_of_the_same_text_are_all_there(memory: MemoryDoor) -> None:
    await memory.made("/memories/a.md", "# Log\n")
    await asyncio.gather(
        *(
            memory("insert", path="/memories/a.md", insert_line=1, insert_text="- done")
            for _ in range(8)
        ),
        *(
            memory(
                "str_replace", path="/memories/a.md", old_str="# Log\n", new_str="# Log\n- note\n"
            )
            for _ in range(8)
        ),
    )
    assert sorted((await memory.text("/memories/a.md")).split()) == sorted(
        ["#", "Log", *["-", "done"] * 8, *["-", "note"] * 8]
    )


async def test_of_concurrent_creates_one_succeeds(memory: MemoryDoor) -> None:
    answers = await asyncio.gather(
        *(memory("create", path="/memories/a.md", file_text=f"{number}") for number in range(8)),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert len(refused) == 7
    assert {answer.body["message"] for answer in refused} == {"File /memories/a.md already exists"}


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("view", "path"),
        ("create", "path"),
        ("create", "file_text"),
        ("str_replace", "old_str"),
        ("insert", "insert_line"),
        ("insert", "insert_text"),
        ("delete", "path"),
        ("rename", "old_path"),
        ("rename", "new_path"),
    ],
)
async def test_what_a_command_needs_is_asked_for(
    memory: MemoryDoor, command: str, missing: str
) -> None:
    whole = {
        "path": "/memories/a",
        "file_text": "x",
        "old_str": "x",
        "insert_line": 0,
        "insert_text": "x",
    }
    whole |= {"old_path": "/memories/a", "new_path": "/memories/b"}
    del whole[missing]
    assert await memory.refuses("INVALID_ARGUMENT", command, **whole) == (
        f"the command {command} needs the argument {missing}"
    )


async def test_projects_and_tenants_keep_memories_apart(
    memory: MemoryDoor, other_scope: Scope
) -> None:
    await memory.made("/memories/a.md", "x")
    assert await memory("view", path="/memories", project="other") == EMPTY
    assert await MemoryDoor(memory.call.as_tenant(other_scope))("view", path="/memories") == EMPTY


async def test_the_log_keeps_paths_and_no_content(memory: MemoryDoor) -> None:
    tool = memory.call.dispatch.catalogue.get("memory")
    assert tool is not None
    names = ("file_text", "old_str", "new_str", "insert_text")
    kept = shape(
        {"command": "create", "path": "/memories/a", **dict.fromkeys(names, "secret")}, tool
    )
    assert kept == {"command": "create", "path": "/memories/a"} | {
        name: {"redacted": True, "bytes": 6} for name in names
    }


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("a\nb\n", "a\nb", "x\ny", "x\ny\n"),
        ("a\nb\n", "b", "b\r\nc", "a\nb\r\nc\n"),
        ("a\r\nb\nc\n", "b\nc", "x", "a\r\nx\n"),
    ],
)
async def test_replaced_text_has_the_line_ends_of_the_file(
    memory: MemoryDoor, content: str, old: str, new: str, expected: str
) -> None:
    await memory.made("/memories/a.md", content)
    await memory("str_replace", path="/memories/a.md", old_str=old, new_str=new)
    assert await memory.text("/memories/a.md") == expected


@pytest.mark.parametrize(
    ("content", "line", "text", "expected"),
    [
        ("a\r\nb\r\n", 1, "x\ny\n", "a\r\nx\r\ny\r\nb\r\n"),
        ("a\r\nb", 2, "x", "a\r\nb\r\nx\r\n"),
        ("a\r\nb", 0, "x", "x\r\na\r\nb\r\n"),
    ],
)
async def test_inserted_text_has_the_line_ends_of_the_file(
    memory: MemoryDoor, content: str, line: int, text: str, expected: str
) -> None:
    await memory.made("/memories/a.md", content)
    await memory("insert", path="/memories/a.md", insert_line=line, insert_text=text)
    assert await memory.text("/memories/a.md") == expected


async def test_text_that_differs_in_its_line_ends_alone_is_refused_with_the_cause(
    memory: MemoryDoor,
) -> None:
    await memory.made("/memories/a.md", "a\r\nb\nc\n")
    for old, is_told in (("a\nb", True), ("a\nx", False)):
        call = {"command": "str_replace", "path": "/memories/a.md", "old_str": old}
        error = await memory.call.refuses("INVALID_ARGUMENT", "memory", **call)
        assert ("line endings differ" in error.get("recovery", "")) == is_told
