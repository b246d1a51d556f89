"""What was written is found by the next call, what is gone by none, and every passage cites the
bytes that it shows."""

import base64
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest

from memsvc.core.chunks import CHUNK_BYTES_MAX
from memsvc.core.scope import Caller, Scope
from memsvc.styles.files.file_summaries import SUMMARY_BYTES_MAX
from memsvc.styles.files.indexing import QUERY_BYTES_MAX
from memsvc.styles.files.options import SearchOptions
from tests.door import Door
from tests.styles.files.conftest import FileDoor, Remember

pytestmark = pytest.mark.anyio
LONG = "".join(
    f"## Part {n}\n\nThe walrus {n} said: kumquat, and marzipan. {'Etc. ' * 60}\n\n"
    for n in range(12)
)


async def found(files: FileDoor, query: str, **arguments: Any) -> list[str]:
    """The paths of the files that a search finds, best first, each once."""
    chunks = (await files("search", query=query, **arguments))["chunks"]
    return list(dict.fromkeys(chunk["file_path"] for chunk in chunks))


async def cited(files: FileDoor, chunk: dict[str, Any]) -> str:
    """The bytes of the file that a chunk says it is."""
    start, end = chunk["file_seek_start_bytes"], chunk["file_seek_end_bytes"]
    return await files.text(chunk["file_path"], offset=start, length=end - start)


async def test_what_was_written_is_found_by_the_next_call(files: FileDoor) -> None:
    await files.write("/a", "The walrus sings.")
    assert await found(files, "walrus") == ["/a"]
    await files.write("/a", " A zeppelin lands.")
    assert await found(files, "zeppelins") == ["/a"]
    assert await found(files, "walrus") == ["/a"]
    await files.write("/a", "kumquat ", mode="OVERWRITE", offset=4)
    assert await found(files, "kumquat") == ["/a"]
    await files.write("/a", "Marzipan instead.", mode="TRUNCATE")
    assert await found(files, "marzipan") == ["/a"]
    for gone in ("walrus", "zeppelin", "kumquat"):
        assert await found(files, gone) == []


async def test_an_answer_has_its_place_its_text_and_what_the_file_is_about(files: FileDoor) -> None:
    await files.write("/notes/a.md", "The walrus sings.\n")
    (chunk,) = (await files("search", query="walrus"))["chunks"]
    assert chunk.pop("score") > 0
    assert chunk.pop("file_summary").startswith('The file begins with "The walrus sings."')
    assert chunk == {
        "file_path": "/notes/a.md",
        "file_seek_start_bytes": 0,
        "file_seek_end_bytes": 18,
        "is_full_file": True,
        "chunk_content": "The walrus sings.\n",
    }


NAMES = {
    "/camel": "Call fetchUserProfile before the page.",
    "/snake": "Call parse_http_response after it.",
    "/request": "An XMLHttpRequest was aborted.",
    "/mueller": "Frau Müller hat angerufen.",
    "/words": "They fetch the profile of a user. Blue shoes, a new poem, Goethe.",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("user profile", "/camel"),
        ("fetch user", "/camel"),
        ("fetch_user_profile", "/camel"),
        ("fetchUserProfile", "/camel"),
        ("userProfile", "/camel"),
        ("parseHttpResponse", "/snake"),
        ("parse_http_response", "/snake"),
        ("HttpRequest", "/request"),
        ("Mueller", "/mueller"),
        ("MÜLLER", "/mueller"),
    ],
)
async def test_name_in_code_or_with_an_umlaut_is_found_by_its_other_spellings(
    files: FileDoor, query: str, first: str
) -> None:
    for path, text in NAMES.items():
        await files.write(path, text)
    paths = await found(files, query)
    assert first in paths
    if "_" in query or query != query.lower():  # a whole name ranks first
        assert paths[0] == first


@pytest.mark.parametrize("query", ["blu", "pom", "shos", "Gothe", "Blü"])
async def test_two_vowels_are_not_taken_for_an_umlaut(files: FileDoor, query: str) -> None:
    await files.write("/words", NAMES["/words"])
    assert await found(files, query) == []


async def test_a_deleted_file_is_found_by_nobody(files: FileDoor) -> None:
    for path in ("/a", "/d/b", "/d/e/c", "/f"):
        await files.write(path, "walrus")
    await files("delete", path="/a")
    assert sorted(await found(files, "walrus")) == ["/d/b", "/d/e/c", "/f"]
    await files("delete", path="/d", recursive=True)
    assert await found(files, "walrus") == ["/f"]
    await files.call.work()
    assert await found(files, "walrus") == ["/f"]
    await files.write("/a", "zeppelin")
    assert await found(files, "walrus") == ["/f"]


async def test_no_piece_of_a_deleted_directory_stays_in_the_index(
    files: FileDoor, admin: Any
) -> None:
    for number in range(60):
        await files.write(f"/d/{number}", f"walrus {number}")
    await files.write("/keep", "walrus")
    await files("delete", path="/d", recursive=True)
    await files.call.work()
    assert await admin.fetchval("SELECT count(*) FROM entries") == 1
    assert await admin.fetchval("SELECT entries FROM books") == 1
    folded = await admin.fetchval(
        "SELECT coalesce(sum(cardinality(hits)), 0) FROM posting_lists WHERE term = 'walrus'"
    )
    assert (
        folded
        + await admin.fetchval("SELECT count(*) FROM fresh_terms WHERE 'walrus' = ANY (terms)")
        == 1
    )


async def test_a_file_that_becomes_binary_is_found_by_nobody_until_it_is_text_again(
    files: FileDoor,
) -> None:
    broken = base64.b64encode(b"\xff\xfe").decode()
    for path, mode in (("/appended", "APPEND"), ("/replaced", "TRUNCATE")):
        await files.write(path, "walrus")
        await files.write(path, broken, content_encoding="base64", mode=mode)
    assert await found(files, "walrus") == []
    await files.call.work()
    assert await found(files, "walrus") == []
    await files.write("/appended", "walrus again", mode="TRUNCATE")
    assert await found(files, "walrus") == ["/appended"]
    await files.write(
        "/binary", base64.b64encode(b"walrus \xff").decode(), content_encoding="base64"
    )
    assert await found(files, "walrus") == ["/appended"]


async def test_a_moved_file_is_found_in_its_new_place_alone(files: FileDoor) -> None:
    await files.write("/old/a", "walrus")
    await files.write("/old/deep/b", "walrus")
    assert sorted(await found(files, "walrus", path_prefix="/old")) == ["/old/a", "/old/deep/b"]
    await files("rename", from_path="/old", to_path="/new")
    for _ in range(2):
        assert await found(files, "walrus", path_prefix="/old") == []
        assert sorted(await found(files, "walrus", path_prefix="/new")) == ["/new/a", "/new/deep/b"]
        await files.call.work()


@pytest.mark.parametrize(
    ("prefix", "paths"),
    [
        ("", ["/a%b/1", "/a_b/1", "/a_b/c/2", "/axb/1", "/notes/1", "/notes2", "/notesx/1"]),
        ("/", ["/a%b/1", "/a_b/1", "/a_b/c/2", "/axb/1", "/notes/1", "/notes2", "/notesx/1"]),
        ("/a_b", ["/a_b/1", "/a_b/c/2"]),
        ("/a_b/", ["/a_b/1", "/a_b/c/2"]),
        ("/a%b", ["/a%b/1"]),
        ("/notes", ["/notes/1"]),
        ("/notes2", ["/notes2"]),
        ("/note", []),
        ("/a_b/c/2", ["/a_b/c/2"]),
        ("/a_b/c/2/d", []),
    ],
)
async def test_a_prefix_names_a_file_or_directory_and_means_its_characters(
    files: FileDoor, prefix: str, paths: list[str]
) -> None:
    for path in ("/a_b/1", "/a_b/c/2", "/axb/1", "/a%b/1", "/notes/1", "/notesx/1", "/notes2"):
        await files.write(path, "walrus")
    assert sorted(await found(files, "walrus", path_prefix=prefix)) == paths


@pytest.mark.parametrize(
    "prefix", ["notes", "/a\\b", "/a//b", "/../a", "/a b", "/" + "x" * 512, "*"]
)
async def test_a_prefix_that_can_be_no_path_is_refused(files: FileDoor, prefix: str) -> None:
    await files.refuses("INVALID_PATH", "search", query="walrus", path_prefix=prefix)


async def test_a_directory_is_searched_whole_though_better_files_stand_elsewhere(
    files: FileDoor,
) -> None:
    await files.write(
        "/better", "\n\n".join(f"# Walrus {n}\n\nWalrus {'walrus ' * 150}" for n in range(450))
    )
    await files.write("/d/worse", f"A walrus, {'and other things that nobody asked about. ' * 10}")
    await files.call.work()
    assert "/d/worse" not in await found(files, "walrus")
    assert await found(files, "walrus", path_prefix="/d") == ["/d/worse"]


async def test_twenty_passages_are_an_answer_unless_fewer_are_asked_for(files: FileDoor) -> None:
    for number in range(25):
        await files.write(f"/{number}", "walrus")
    for limit, length in ((None, 20), (1, 1), (7, 7), (20, 20), (21, 20), (10_000, 20)):
        assert len((await files("search", query="walrus", limit=limit))["chunks"]) == length
    for limit in (0, -1):
        await files.refuses("INVALID_ARGUMENT", "search", query="walrus", limit=limit)


async def test_the_operator_sets_how_many_passages_an_answer_has(
    with_limits: Callable[..., FileDoor],
) -> None:
    files = with_limits(search=SearchOptions(limit_default=2, limit_max=3))
    for number in range(5):
        await files.write(f"/{number}", "walrus")
    assert len((await files("search", query="walrus"))["chunks"]) == 2
    assert len((await files("search", query="walrus", limit=100))["chunks"]) == 3


async def test_the_operator_can_do_without_search(with_limits: Callable[..., FileDoor]) -> None:
    files = with_limits(search=SearchOptions(enabled=False))
    await files.write("/a", "walrus")
    await files.refuses("NOT_FOUND", "search", query="walrus")


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\n\t\u3000", "x" * (QUERY_BYTES_MAX + 1), "é" * (QUERY_BYTES_MAX // 2 + 1)],
)
async def test_a_query_that_is_blank_or_too_long_is_refused(files: FileDoor, query: str) -> None:
    await files.refuses("INVALID_QUERY", "search", query=query)


@pytest.mark.parametrize(
    "query",
    [
        "walrus",
        "the",
        "?!",
        "\x00",
        "'; DROP TABLE files; --",
        "%",
        "a" * QUERY_BYTES_MAX,
        " & | ! :* <->",
    ],
)
async def test_a_query_without_hits_has_an_empty_answer(files: FileDoor, query: str) -> None:
    assert await files("search", query=query) == {"chunks": []}
    await files.write("/f", "zeppelin")
    assert await files("search", query=query) == {"chunks": []}


async def test_a_very_long_query_is_answered_by_its_first_and_last_words(files: FileDoor) -> None:
    await files.write("/a", "walrus")
    await files.write("/b", "zeppelin")
    pasted = " ".join(f"word{number}" for number in range(1500))
    assert sorted(await found(files, f"walrus {pasted} zeppelin")) == ["/a", "/b"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我养了一只猫，也喜欢喝茶。", "猫"),
        ("我养了一只猫，也喜欢喝茶。", "茶"),
        ("我养了一只猫，也喜欢喝茶。", "我的猫"),
        ("犬を飼っている。", "犬"),
        ("本を読む。", "本"),
        ("저는 차를 좋아해요.", "차"),
        ("Die Wohnung in Linz kostet 900 Euro.", "Was kosten die Wohnungen?"),
        ("Wir haben zwei Häuser.", "Haus"),
        ("Elle monte à cheval.", "les chevaux"),
    ],
)
async def test_word_of_one_character_or_in_its_plural_is_found(
    files: FileDoor, text: str, query: str
) -> None:
    await files.write("/a", text)
    await files.write("/b", "北京的天气 東京の天気 날씨가 좋다 the weather")
    assert await found(files, query) == ["/a"]


async def test_all_projects_are_searched_at_once_and_named(
    files: FileDoor, in_project: Callable[[str], FileDoor], other_call: Door
) -> None:
    for project, path in (("default", "/a"), ("one", "/a"), ("two", "/b/c")):
        await in_project(project).write(path, "walrus")
    await FileDoor(other_call, "default").write("/theirs", "walrus")
    chunks = (await in_project("*")("search", query="walrus"))["chunks"]
    assert sorted((chunk["project"], chunk["file_path"]) for chunk in chunks) == [
        ("default", "/a"),
        ("one", "/a"),
        ("two", "/b/c"),
    ]
    (only,) = (await in_project("*")("search", query="walrus", path_prefix="/b"))["chunks"]
    assert only["project"] == "two"
    (own,) = (await files("search", query="walrus"))["chunks"]
    assert "project" not in own


async def test_the_best_passage_is_best_whichever_project_it_is_in(
    in_project: Callable[[str], FileDoor],
) -> None:
    for number in range(3):
        await in_project("big").write(
            f"/{number}", f"walrus and other things, {number}: {'etc. ' * 80}"
        )
    await in_project("small").write("/walrus", "zeppelin walrus")
    chunks = (await in_project("*")("search", query="zeppelin walrus"))["chunks"]
    assert (chunks[0]["project"], chunks[0]["file_path"]) == ("small", "/walrus")
    assert [chunk["score"] for chunk in chunks] == sorted(
        (chunk["score"] for chunk in chunks), reverse=True
    )


async def test_a_key_confined_to_projects_searches_no_others(
    call: Door, in_project: Callable[[str], FileDoor]
) -> None:
    for project in ("one", "two", "three"):
        await in_project(project).write("/a", "walrus")
    confined = call.as_caller(
        Caller(call.caller.tenant, "k", projects=frozenset({"one", "three", "empty"}))
    )
    chunks = (await confined("file_search", project="*", query="walrus"))["chunks"]
    assert sorted(chunk["project"] for chunk in chunks) == ["one", "three"]
    await confined.refuses("PERMISSION_DENIED", "file_search", project="two", query="walrus")


async def test_a_tenant_without_files_finds_nothing_in_all_its_projects(
    other_call: Door, files: FileDoor
) -> None:
    await files.write("/a", "walrus")
    assert await other_call("file_search", project="*", query="walrus") == {"chunks": []}
    assert await other_call("file_search", project="default", query="walrus") == {"chunks": []}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("stat", {}),
        ("read", {"path": "/a"}),
        ("write", {"path": "/a", "content": "x"}),
        ("delete", {"path": "/a"}),
        ("rename", {"from_path": "/a", "to_path": "/b"}),
        ("list", {}),
        ("list_versions", {"path": "/a"}),
    ],
)
async def test_no_other_tool_spans_projects(
    in_project: Callable[[str], FileDoor], tool: str, arguments: dict[str, Any]
) -> None:
    await in_project("*").refuses("INVALID_PATH", tool, **arguments)


@pytest.mark.parametrize(
    "text", [LONG, LONG.replace("\n", "\r\n"), LONG.replace("Etc.", "Ünïcödé 漢字 🦭.")]
)
async def test_a_passage_is_the_bytes_that_it_cites(files: FileDoor, text: str) -> None:
    half = len(text) // 2
    await files.write("/f", text[:half])
    await files.write("/f", text[half:])
    chunks = (await files("search", query="walrus kumquat"))["chunks"]
    assert len(chunks) >= 4
    for chunk in chunks:
        assert chunk["chunk_content"] == await cited(files, chunk)
        assert len(chunk["chunk_content"].encode()) <= CHUNK_BYTES_MAX
        assert chunk["is_full_file"] is False
    covered = sorted(
        (chunk["file_seek_start_bytes"], chunk["file_seek_end_bytes"]) for chunk in chunks
    )
    assert all(after[0] <= before[1] + 8 for before, after in pairwise(covered))


async def test_a_passage_is_the_full_file_only_when_nothing_is_left_out(files: FileDoor) -> None:
    await files.write("/whole", "walrus\n")
    await files.write("/indented", "\n\n  walrus")
    await files.write("/long", LONG)
    chunks = (await files("search", query="walrus"))["chunks"]
    assert {chunk["file_path"] for chunk in chunks if chunk["is_full_file"]} == {"/whole"}
    await files.write("/whole", "!")
    whole = [
        chunk
        for chunk in (await files("search", query="walrus"))["chunks"]
        if chunk["file_path"] == "/whole"
    ]
    assert [(chunk["is_full_file"], chunk["chunk_content"]) for chunk in whole] == [
        (True, "walrus\n!")
    ]


async def test_a_file_is_found_by_its_name_and_a_passage_by_its_heading(files: FileDoor) -> None:
    await files.write("/journal/obsidian-report.md", "Nothing of note.")
    await files.write("/long.md", "# Zeppelins\n\n" + "They are slow, and do not mind. " * 100)
    assert await found(files, "obsidian report") == ["/journal/obsidian-report.md"]
    assert await found(files, "journal") == ["/journal/obsidian-report.md"]
    assert len((await files("search", query="zeppelin"))["chunks"]) >= 3


async def test_scripts_without_spaces_are_found(files: FileDoor) -> None:
    await files.write("/ja", "東京タワーは東京都港区にある。高さは三百三十三メートルです。")
    await files.write("/ru", "Морж поёт песню.")
    assert await found(files, "東京タワー") == ["/ja"]
    assert await found(files, "моржи") == ["/ru"]
    (chunk,) = (await files("search", query="港区"))["chunks"]
    assert chunk["chunk_content"] == await cited(files, chunk)


async def test_a_nul_is_shown_as_a_space_and_moves_no_other_byte(files: FileDoor) -> None:
    await files.write("/f", "\x00\x00 walrus\x00zeppelin \x00")
    assert await found(files, "walrus zeppelin") == ["/f"]
    await files.write("/f", "\x00kumquat")
    (chunk,) = (await files("search", query="kumquat walrus"))["chunks"]
    assert chunk["chunk_content"] == (await cited(files, chunk)).replace("\x00", " ")
    assert chunk["chunk_content"].strip() == "walrus zeppelin   kumquat"


async def test_a_text_with_nuls_that_is_written_again_keeps_its_pieces(
    files: FileDoor, admin: Any
) -> None:
    text = LONG.replace("walrus", "\x00walrus\x00") + "\x00"
    await files.write("/f", text[:2000])
    await files.write("/f", text[2000:])
    before = await admin.fetch("SELECT entry, start, text FROM entries ORDER BY start")
    await files.write("/f", text, mode="TRUNCATE")
    assert await admin.fetch("SELECT entry, start, text FROM entries ORDER BY start") == before


@pytest.mark.parametrize("text", ["", " \n\t \n", "\u3000\u2003"])
async def test_a_file_without_words_is_no_obstacle(files: FileDoor, text: str) -> None:
    await files.write("/walrus", text)
    assert await found(files, "walrus") == []
    await files.write("/walrus", "zeppelin")
    assert await found(files, "walrus zeppelin") == ["/walrus"]
    (chunk,) = (await files("search", query="zeppelin"))["chunks"]
    assert chunk["chunk_content"] == await cited(files, chunk)


async def test_of_files_the_one_that_says_more_of_the_question_comes_first(files: FileDoor) -> None:
    await files.write("/one", "The walrus sings. Nobody listens to it at all, for it is late.")
    await files.write("/both", "The walrus sings on a zeppelin.")
    await files.write("/none", "Marzipan.")
    chunks = (await files("search", query="Which walrus was on the zeppelin?"))["chunks"]
    assert [chunk["file_path"] for chunk in chunks] == ["/both", "/one"]
    assert chunks[0]["score"] > chunks[1]["score"] > 0


async def test_an_answer_stays_within_its_size_whatever_the_files_hold(files: FileDoor) -> None:
    fillings = [
        "The walrus, it is said, sings. ",
        "漢字とかな交じりの文章です、 walrus 。",
        '"walrus" <b> & \\ ',
        "🦭 walrus é ",
    ]
    for number in range(20):
        filling = fillings[number % len(fillings)]
        await files.write(f"/{'d' * 100}/{number}", filling * (3000 // len(filling.encode())))
    answer = await files("search", query="walrus")
    assert len(answer["chunks"]) == 20
    for chunk in answer["chunks"]:
        assert 0 < len(chunk["file_summary"].encode()) <= SUMMARY_BYTES_MAX
    text = orjson.dumps(answer)
    assert len(text) + len(orjson.dumps(text.decode())) <= 128 * 1024


async def test_what_the_memory_itself_keeps_is_no_file_to_be_found(
    files: FileDoor, remember: Remember
) -> None:
    await remember("s1")
    assert await files.paths("/memory")
    for query in ("Ada", "name", "memory s1"):
        assert await found(files, query) == []
        for path in ("/memory", "/memory/s1/", "/whiteboard", "/notebook/root.md"):
            answer = await files("search", query=query, path_prefix=path)
            assert answer["chunks"] == []
            assert "/memory, /whiteboard, /notebook" in answer["note"]
        for path in ("", "/memory.md", "/notes"):
            assert "note" not in await files("search", query=query, path_prefix=path)


async def test_a_long_file_is_found_by_its_beginning_at_once_and_whole_soon(
    files: FileDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("indexing", "file_writer"):
        monkeypatch.setattr(f"memsvc.styles.files.{module}.AT_ONCE_BYTES", 4000)
    await files.write("/f", f"walrus {LONG.replace('walrus', 'seal')} zeppelin")
    assert await found(files, "walrus") == ["/f"]
    assert await found(files, "zeppelin") == []
    await files.write("/f", " obsidian")
    await files.call.work()
    for word in ("walrus", "zeppelin", "obsidian"):
        assert await found(files, word) == ["/f"]
    await files.write("/f", "marzipan", mode="TRUNCATE")
    assert await found(files, "zeppelin obsidian walrus") == []
    assert await found(files, "marzipan") == ["/f"]


async def test_projects_and_tenants_never_see_each_other(
    files: FileDoor, in_project: Callable[[str], FileDoor], other_call: Door, other_scope: Scope
) -> None:
    await files.write("/a", "walrus")
    await in_project("two").write("/b", "walrus zeppelin")
    await FileDoor(other_call).write("/c", "walrus")
    assert await found(files, "walrus zeppelin") == ["/a"]
    assert await found(in_project("two"), "walrus") == ["/b"]
    assert await found(FileDoor(other_call), "walrus") == ["/c"]
    assert other_call.caller.tenant == other_scope.tenant
