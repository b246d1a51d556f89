"""Files are written whole or not at all, and read back as the bytes that were written."""

import base64

import pytest

from memsvc.store.files import BLOCK_BYTES
from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio


async def test_every_mode_makes_a_file_that_is_missing(files: FileDoor) -> None:
    for number, mode in enumerate(("APPEND", "OVERWRITE", "TRUNCATE", "append", " Truncate ")):
        written = await files("write", path=f"/a/{number}.txt", content="héllo", mode=mode)
        assert written["bytes_written"] == 6
        assert await files.text(f"/a/{number}.txt") == "héllo"


async def test_append_is_the_default_and_ignores_the_offset(files: FileDoor) -> None:
    await files.write("/log", "one ")
    await files.write("/log", "two ", offset=1)
    await files.write("/log", "", mode="APPEND")
    assert await files.text("/log") == "one two "


async def test_truncate_replaces_everything(files: FileDoor) -> None:
    await files.write("/f", "a long first content")
    await files.write("/f", "short", mode="TRUNCATE")
    assert await files.text("/f") == "short"
    assert (await files("stat", path="/f"))["size"] == 5


async def test_overwrite_keeps_what_is_around_and_grows_the_file(files: FileDoor) -> None:
    for offset, content, whole in (
        (0, "AB", "ABcdef"),
        (2, "XY", "abXYef"),
        (4, "WXYZ", "abcdWXYZ"),
        (6, "gh", "abcdefgh"),
        (3, "", "abcdef"),
    ):
        await files.write("/f", "abcdef", mode="TRUNCATE")
        await files.write("/f", content, mode="OVERWRITE", offset=offset)
        assert await files.text("/f") == whole


async def test_offsets_that_no_write_can_have_are_refused_and_change_nothing(
    files: FileDoor,
) -> None:
    version = await files.write("/f", "abc")
    for arguments in (
        {"mode": "OVERWRITE", "offset": 4},
        {"mode": "OVERWRITE", "offset": -1},
        {"mode": "APPEND", "offset": -1},
        {"mode": "TRUNCATE", "offset": 1},
        {"mode": "REPLACE"},
        {"mode": ""},
    ):
        await files.refuses("INVALID_OFFSET", "write", path="/f", content="x", **arguments)
    await files.refuses(
        "INVALID_OFFSET", "write", path="/new", content="x", mode="OVERWRITE", offset=1
    )
    assert (await files("stat", path="/f"))["version"] == version
    assert (await files("stat", path="/new"))["exists"] is False


async def test_a_range_is_cut_at_the_end_of_the_file(files: FileDoor) -> None:
    await files.write("/f", "0123456789")
    for offset, length, content in (
        (0, -1, "0123456789"),
        (0, 0, ""),
        (3, 0, ""),
        (3, 4, "3456"),
        (8, 100, "89"),
        (8, 2**53, "89"),
        (9, 1, "9"),
        (10, -1, ""),
        (99, 5, ""),
        (2**53, 2**53, ""),
    ):
        assert await files.text("/f", offset=offset, length=length) == content


async def test_negative_ranges_are_refused(files: FileDoor) -> None:
    await files.write("/f", "abc")
    for offset, length in ((-1, -1), (0, -2), (-(2**53), 1), (0, -(2**63))):
        await files.refuses("INVALID_OFFSET", "read", path="/f", offset=offset, length=length)


async def test_integers_beyond_what_json_carries_exactly_are_refused(files: FileDoor) -> None:
    await files.write("/f", "abc")
    for value in (2**53 + 1, 2**63, 10**30, 1.5, "one", [1], {"a": 1}):
        await files.refuses("INVALID_ARGUMENT", "read", path="/f", offset=value)
        await files.refuses("INVALID_ARGUMENT", "read", path="/f", length=value)
        await files.refuses(
            "INVALID_ARGUMENT", "write", path="/f", content="x", mode="OVERWRITE", offset=value
        )


async def test_reading_what_is_not_a_file_says_why(files: FileDoor) -> None:
    await files.write("/dir/f", "x")
    for path in ("/dir", "", "/"):
        await files.refuses("IS_DIRECTORY", "read", path=path)
    for path in ("/nothing", "/di", "/dir/g", "/dir/f/g"):
        body = await files.refuses("NOT_FOUND", "read", path=path)
        assert body["message"] == "the file does not exist"


async def test_a_file_cannot_stand_where_a_directory_is_nor_below_a_file(files: FileDoor) -> None:
    await files.write("/a/b", "x")
    for mode in ("APPEND", "OVERWRITE", "TRUNCATE"):
        await files.refuses("IS_DIRECTORY", "write", path="/a", content="x", mode=mode)
        await files.refuses("NOT_DIRECTORY", "write", path="/a/b/c", content="x", mode=mode)
        await files.refuses("NOT_DIRECTORY", "write", path="/a/b/c/d/e", content="x", mode=mode)
        for root in ("", "/"):
            await files.refuses("INVALID_PATH", "write", path=root, content="x", mode=mode)
    assert await files.paths(depth=9) == ["/a", "/a/b"]


async def test_a_sibling_whose_name_begins_alike_is_no_parent(files: FileDoor) -> None:
    for path in ("/a", "/a.txt", "/a-b", "/a0", "/aa/b", "/a_b/c", "/axb"):
        await files.write(path, path)
    for path in ("/a", "/a.txt", "/a-b", "/a0", "/aa/b", "/a_b/c", "/axb"):
        assert await files.text(path) == path


async def test_a_path_outside_the_rules_is_refused_by_every_tool(files: FileDoor) -> None:
    hostile = [
        "a",
        "a/b",
        "/a/",
        "//",
        "/a//b",
        "/.",
        "/..",
        "/a/../b",
        "/a/.",
        "/a b",
        "/a\n",
        "/é",
        "/メモ",
        "/a\\b",
    ]
    hostile += [
        "/a\u202eb",
        "/a\u0000",
        "/" + "x" * 512,
        "/a?b",
        "/a*",
        "\u0000",
        " /a",
        "/😀",
        "/a\n\n",
        "/" * 600,
    ]
    for path in hostile:
        for tool, arguments in (
            ("stat", {}),
            ("read", {}),
            ("write", {"content": "x"}),
            ("delete", {}),
            ("list", {}),
        ):
            await files.refuses("INVALID_PATH", tool, path=path, **arguments)
        await files.refuses("INVALID_PATH", "list", cursor=path)


async def test_a_path_of_512_bytes_is_a_path_like_any_other(files: FileDoor) -> None:
    path = "/" + "/".join("abcdefg%2E-_.9"[:7] for _ in range(64))[:511].rstrip("/")
    await files.write(path, "deep")
    assert await files.text(path) == "deep"
    assert (await files("stat", path="/abcdefg"))["type"] == "DIRECTORY"
    assert (await files.paths(depth=64))[-1] == path


async def test_text_comes_back_character_for_character(files: FileDoor) -> None:
    for content in (
        "",
        "a",
        "naïve",
        "メモ帳",
        "🙂" * 3,
        "e\u0301",
        "\u0000\u0001",
        "\r\n",
        "\ufeffx",
        "\u202e",
    ):
        await files.write("/f", content, mode="TRUNCATE")
        assert await files.text("/f") == content
        assert (await files("stat", path="/f"))["size"] == len(content.encode())


async def test_a_range_never_splits_a_character(files: FileDoor) -> None:
    await files.write("/f", "aé🙂z")  # borders at 0, 1, 3, 7, 8
    borders = (0, 1, 3, 7, 8)
    for start in range(9):
        for stop in range(start, 10):
            asked = {"offset": start, "length": stop - start}
            if start in borders and stop in (*borders, 9):
                assert await files.text("/f", **asked) == "aé🙂z".encode()[start:stop].decode()
            elif start != stop or start not in borders:
                await files.refuses("INVALID_OFFSET", "read", path="/f", **asked)


async def test_an_overwrite_that_would_split_a_character_is_refused(files: FileDoor) -> None:
    version = await files.write("/f", "aé🙂z")
    for offset, content in ((2, "x"), (1, "x"), (3, "xyz"), (4, "x"), (0, "xy")):
        await files.refuses(
            "INVALID_OFFSET", "write", path="/f", content=content, mode="OVERWRITE", offset=offset
        )
    assert await files.text("/f", expected_version=version) == "aé🙂z"
    await files.write("/f", "xy", mode="OVERWRITE", offset=1)
    await files.write("/f", "ü", mode="OVERWRITE", offset=1)
    assert await files.text("/f") == "aü🙂z"


async def test_a_long_file_is_read_across_its_blocks(files: FileDoor) -> None:
    for size_bytes in (BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 1):
        whole = "".join(f"{number:07d}\n" for number in range(size_bytes // 8 + 1))[:size_bytes]
        await files.write("/f", whole, mode="TRUNCATE")
        await files.write("/f", "the end")
        whole += "the end"
        assert await files.text("/f") == whole
        for border in (BLOCK_BYTES, size_bytes):
            assert (
                await files.text("/f", offset=border - 3, length=7)
                == whole[border - 3 : border + 4]
            )
            assert await files.text("/f", offset=border, length=3) == whole[border : border + 3]
        await files.write("/f", "XXXXXX", mode="OVERWRITE", offset=BLOCK_BYTES - 3)
        assert (
            await files.text("/f") == whole[: BLOCK_BYTES - 3] + "XXXXXX" + whole[BLOCK_BYTES + 3 :]
        )


async def test_binary_content_goes_both_ways_as_base64(files: FileDoor) -> None:
    raw = bytes(range(256))
    written = await files(
        "write", path="/b", content=base64.b64encode(raw).decode(), content_encoding=" BASE64 "
    )
    assert written["bytes_written"] == 256
    read = await files("read", path="/b")
    assert (base64.b64decode(read["content"]), read["content_encoding"]) == (raw, "base64")
    part = await files("read", path="/b", offset=128, length=3)
    assert base64.b64decode(part["content"]) == raw[128:131]
    await files.write("/b", "now text", mode="TRUNCATE")
    assert await files.text("/b") == "now text"


async def test_text_with_binary_appended_is_binary_and_loses_no_byte(files: FileDoor) -> None:
    await files.write("/f", "é")
    await files(
        "write",
        path="/f",
        content=base64.b64encode(b"\xff\xc3").decode(),
        content_encoding="base64",
    )
    read = await files("read", path="/f")
    assert (base64.b64decode(read["content"]), read["content_encoding"]) == (
        b"\xc3\xa9\xff\xc3",
        "base64",
    )


async def test_base64_that_is_text_is_read_as_text(files: FileDoor) -> None:
    await files(
        "write",
        path="/f",
        content=base64.b64encode("é".encode()).decode(),
        content_encoding="base64",
    )
    assert await files.text("/f") == "é"


async def test_content_that_is_not_in_its_encoding_is_refused(files: FileDoor) -> None:
    for content in ("not base64!", "YWJ", "YQ==YQ==", "é", "YW Jj", "\u0000"):
        await files.refuses(
            "INVALID_CONTENT", "write", path="/f", content=content, content_encoding="base64"
        )
    for encoding in ("latin-1", "utf8", "", "utf-16", "base64url", "\ud800"):
        code = "INVALID_ARGUMENT" if encoding == "\ud800" else "INVALID_QUERY"
        await files.refuses(code, "write", path="/f", content="x", content_encoding=encoding)
    await files.refuses("INVALID_ARGUMENT", "write", path="/f", content="\ud800")
    assert (await files("stat", path="/f"))["exists"] is False


async def test_writing_and_reading_need_their_arguments(files: FileDoor) -> None:
    await files.write("/f")
    for tool, arguments in (
        ("write", {"path": "/f"}),
        ("write", {"content": "x"}),
        ("write", {"path": "/f", "content": None}),
        ("write", {"path": None, "content": "x"}),
        ("write", {"path": "/f", "content": 5}),
        ("write", {"path": "/f", "content": "x", "create_only": "maybe"}),
        ("read", {}),
        ("read", {"path": 5}),
        ("delete", {"path": "/f", "recursive": {}}),
        ("list", {"path": ["/f"]}),
        ("stat", {"path": "/f", "surplus": 1}),
    ):
        await files.refuses("INVALID_ARGUMENT", tool, **arguments)
    for tool in ("stat", "read", "write", "delete", "list"):
        await files.call.refuses("INVALID_ARGUMENT", f"file_{tool}", path="/f", content="x")
        content = {"content": "x"} if tool == "write" else {}
        for project in ("a/b", "..\u0000", "x" * 129, "é", "a b", "*"):
            await files.call.refuses(
                "INVALID_PATH", f"file_{tool}", path="/f", project=project, **content
            )
