"""find_tool: the tools that fit a question, of those that the caller may see."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import tools_of
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import ToolEmbedder, ToolSearch
from memsvc.gateway.mcp.server import listed
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from tests.door import Door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter, unlimited
from tests.gateway.catalogue import CALLER, CANARY, echo, tool
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio
DESCRIPTIONS = {
    "file_read": "Read a file, or a byte range of it.",
    "file_write": "Append to a file, overwrite a range, or replace it.",
    "file_delete": "Delete a file, or a directory with all in it.",
    "memory_before_turn": "Recall what is known before the model is asked.",
    "memory_after_turn": "Remember a turn of the conversation.",
    "weather": "Tell whether it rains tomorrow.",
    "sun": "Tell when the sun rises.",
}


def door(
    meter: RecordingMeter,
    clock: FakeClock,
    meaning: ToolEmbedder | None = None,
    **descriptions: str,
) -> Door:
    """A gateway whose tools have these descriptions."""
    tools = [
        tool(name, echo, title=name, description=told)
        for name, told in (descriptions or DESCRIPTIONS).items()
    ]
    dispatch = Dispatch(
        Catalogue([*tools, *tools_of(ToolSearch(meaning))]),
        Recorded(meter, clock),
        meter,
        clock,
        unlimited(meter),
    )
    return Door(dispatch, CALLER)


@pytest.fixture
def find(meter: RecordingMeter, clock: FakeClock) -> Door:
    return door(meter, clock)


async def names(find: Door, query: str, **more: Any) -> list[str]:
    """The names of what is found, best first."""
    return [found["name"] for found in (await find("find_tool", query=query, **more))["tools"]]


async def test_a_found_tool_is_shown_as_it_is_listed(find: Door) -> None:
    body = await find("find_tool", query="rain")
    shown = listed(next(tool for tool in find.dispatch.catalogue if tool.name == "weather"))
    assert body == {
        "tools": [
            {"name": "weather", "description": shown.description, "inputSchema": shown.input_schema}
        ]
    }


async def test_references_are_names_alone(find: Door) -> None:
    body = await find("find_tool", query="rain", return_references_only=True)
    assert body == {"tool_references": [{"type": "tool_reference", "tool_name": "weather"}]}


@pytest.mark.parametrize("mode", ["auto", "bm25"])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("replace the content of a file", "file_write"),
        ("recall what is known", "memory_before_turn"),
        ("remembering conversations", "memory_after_turn"),
        ("deleting directories", "file_delete"),
        ("will it rain tomorrow", "weather"),
    ],
)
async def test_words_and_their_stems_find_the_tool_that_they_describe(
    find: Door, mode: str, query: str, first: str
) -> None:
    assert (await names(find, query, mode=mode))[0] == first


async def test_the_names_and_descriptions_of_arguments_count(find: Door) -> None:
    found = await names(find, "session", mode="bm25")
    assert len(found) == 5
    assert await names(find, "session_id", mode="regex") == sorted(DESCRIPTIONS)[:5]


@pytest.mark.parametrize("mode", ["auto", "regex", "bm25"])
async def test_at_most_five_are_found_and_none_where_nothing_fits(find: Door, mode: str) -> None:
    assert (
        len(await names(find, "file|turn|tell" if mode == "regex" else "file turn tell", mode=mode))
        == 5
    )
    assert await names(find, "quantum", mode=mode) == []
    assert await find("find_tool", query="quantum", mode=mode, return_references_only=True) == {
        "tool_references": []
    }


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^file_", ["file_delete", "file_read", "file_write"]),
        ("^FILE_(read|write)$", ["file_read", "file_write"]),
        ("memory_.*_turn", ["memory_after_turn", "memory_before_turn"]),
        ("rains?", ["weather"]),
        ("su[n]", ["sun"]),
        (r"\bsun\b", ["sun"]),
        ("(?<name>sun)", ["sun"]),
        ("(?=sun)s.{2}", ["sun"]),
        ("memory_|tomorrow", ["memory_after_turn", "memory_before_turn", "weather"]),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "regex"])
async def test_a_pattern_finds_names_first_in_either_case(
    find: Door, mode: str, pattern: str, found: list[str]
) -> None:
    assert await names(find, pattern, mode=mode) == found


async def test_a_bare_name_with_an_underscore_is_taken_as_one(find: Door) -> None:
    assert await names(find, "memory_after_turn") == ["memory_after_turn"]
    assert await names(find, "_turn") == ["memory_after_turn", "memory_before_turn"]


@pytest.mark.parametrize(
    "query", ["will it rain tomorrow?", "rain (tomorrow", "[rain", "rain {x}", "C++ and rain"]
)
async def test_a_question_that_only_looks_like_a_pattern_is_found_by_its_words(
    find: Door, query: str
) -> None:
    assert await names(find, query) == ["weather"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "the query is not a valid regular expression"),
        ("[a", "the query is not a valid regular expression"),
        ("*", "the query is not a valid regular expression"),
        ("a" * 201, "the pattern is longer than 200 characters"),
        (
            "(?R)",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
        (
            "(?&x)",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
        (
            "((a{50}){50}){50}",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
        (
            "a{99999999999}",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
        (
            "(?:rain){e<=9}",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
        (
            "(?i)rain",
            "the regular expression repeats too much, or uses features that are not supported",
        ),
    ],
)
async def test_what_is_no_pattern_or_no_small_one_is_refused(
    find: Door, pattern: str, message: str
) -> None:
    assert (await find.refuses("INVALID_QUERY", "find_tool", query=pattern, mode="regex"))[
        "message"
    ] == message


async def test_a_pattern_that_backtracks_without_end_is_cut_short(
    meter: RecordingMeter, clock: FakeClock
) -> None:
    find = door(meter, clock, slow="a" * 4000 + "!", weather="rain")
    started = time.process_time()
    refused = await find.refuses("INVALID_QUERY", "find_tool", query="(a|aa)+$", mode="regex")
    assert refused["message"] == "matching the regular expression takes too long"
    assert time.process_time() - started < 5
    assert await names(find, "(a|aa)+$ rain") == ["weather"]


@pytest.mark.parametrize("query", ["", "   ", "\n"])
async def test_an_empty_query_is_refused(find: Door, query: str) -> None:
    assert (await find.refuses("INVALID_QUERY", "find_tool", query=query))[
        "message"
    ] == "query must not be empty"


@pytest.mark.parametrize(
    "arguments", [{}, {"query": 1}, {"query": "x", "mode": "best"}, {"query": "x" * 2001}]
)
async def test_other_arguments_are_refused(find: Door, arguments: dict[str, Any]) -> None:
    await find.refuses("INVALID_ARGUMENT", "find_tool", **arguments)


@pytest.mark.parametrize("query", ["rain", "^weather$", "weather|find_tool"])
async def test_what_a_caller_may_not_see_is_never_found(find: Door, query: str) -> None:
    assert await names(find, query) == ["weather"]
    blind = find.as_caller(replace(CALLER, hidden_tools=frozenset({"weather"})))
    assert await names(blind, query) == []
    assert await names(find, query) == ["weather"]


async def test_a_hidden_tool_does_not_even_weigh_in_what_is_found(
    meter: RecordingMeter, clock: FakeClock
) -> None:
    shown = {"first": "red", "second": "red blue blue blue blue blue"}
    alone = door(meter, clock, **shown)
    beside = door(meter, clock, **shown | {f"hidden{number}": "blue" for number in range(9)})
    blind = beside.as_caller(
        replace(CALLER, hidden_tools=frozenset(f"hidden{number}" for number in range(9)))
    )
    for query in ("red", "blue", "red blue"):
        assert await names(blind, query) == await names(alone, query)


async def test_the_call_log_has_the_mode_and_only_the_length_of_the_query(find: Door) -> None:
    await find("find_tool", query=CANARY, mode="bm25")
    [record] = find.dispatch.call_log.records
    assert record.arguments == {"query": {"redacted": True, "bytes": len(CANARY)}, "mode": "bm25"}


class Meanings:
    """Gives what `Embedding` gives, without a database."""

    def __new__(cls, embedder: FakeEmbedder, clock: FakeClock, meter: RecordingMeter) -> Any:
        return Embedding(SimpleNamespace(encoder=None), embedder, clock, meter)


ALIKE = {"umbrella": "rains", "shower": "rains"}


async def test_meaning_finds_what_shares_no_word_with_the_question(
    meter: RecordingMeter, clock: FakeClock
) -> None:
    find = door(meter, clock, Meanings(FakeEmbedder(alike=ALIKE), clock, meter))
    assert (await names(find, "umbrella", mode="embedding"))[0] == "weather"
    assert (await names(find, "umbrella", mode="auto"))[0] == "weather"
    assert await names(find, "umbrella", mode="bm25") == []


async def test_meaning_and_words_are_added_up(meter: RecordingMeter, clock: FakeClock) -> None:
    find = door(
        meter,
        clock,
        Meanings(FakeEmbedder(alike={"x": "y"}), clock, meter),
        one="x x x x",  # which its name in the text, unlike the other's, does not outweigh
        other="y y y y",
        third="z z z",
    )
    assert (await names(find, "x", mode="embedding"))[:2] == ["one", "other"]


async def test_descriptions_are_embedded_once_and_only_those_that_are_seen(
    meter: RecordingMeter, clock: FakeClock
) -> None:
    embedder = FakeEmbedder()
    find = door(meter, clock, Meanings(embedder, clock, meter))
    blind = find.as_caller(replace(CALLER, hidden_tools=frozenset({"sun"})))
    for _ in range(2):
        await names(blind, "rain", mode="embedding")
    assert len(embedder.texts) == len(DESCRIPTIONS) - 1
    await names(find, "rain", mode="embedding")
    await names(find, "snow", mode="embedding")
    assert len(embedder.texts) == len(DESCRIPTIONS)


async def test_without_an_embedder_only_its_own_mode_is_refused(find: Door) -> None:
    refused = await find.refuses("INVALID_ARGUMENT", "find_tool", query="rain", mode="embedding")
    assert refused["recovery"] == "use mode auto, bm25 or regex"


async def test_an_embedder_that_is_away_is_an_outage_and_no_empty_answer(
    meter: RecordingMeter, clock: FakeClock
) -> None:
    embedder = FakeEmbedder()
    find = door(meter, clock, Meanings(embedder, clock, meter))
    embedder.failing = MemsvcError(Code.UNAVAILABLE, "away")
    outcome = await find.dispatch.call(
        CALLER, "find_tool", {"query": "rain", "mode": "embedding"}, surface="test", request_id="r"
    )
    assert (outcome.body["code"], outcome.body["retryable"]) == ("UNAVAILABLE", True)
    assert await names(find, "rain") == ["weather"]


async def test_it_finds_the_tools_of_the_service(
    door: Door, database: Database, scope: Scope
) -> None:
    del database, scope
    assert "file_rename" in (await names(door, "rename a file"))[:3]
    assert (await names(door, "restore an old version"))[0] == "file_restore_version"
    assert "memory_after_turn" in await names(door, "store what the model answered after a turn")
    assert (await names(door, "several tools in one call"))[0] == "mcp_pipe"
    assert (await names(door, "^file_read$")) == ["file_read"]


PIECES = st.sampled_from(
    [
        *(
            "a",
            "file",
            "(",
            ")",
            "(?:",
            "*",
            "+",
            "?",
            "{2}",
            "{0,9}",
            "|",
            ".",
            "[a-z]",
            "[^",
            "]",
            "\\w",
            "\\",
            "^",
            "$",
        ),
        *(
            "(?=",
            "(?<!",
            "(?P<x>",
            "\\1",
            "\\p{L}",
            "\\X",
            "*+",
            "{,5}",
            "ſ",
            "İ",
            "&&",
            "\\N{DIGIT ONE}",
            "\\K",
            "🙂",
        ),
    ]
)


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(
    query=st.lists(PIECES, min_size=1, max_size=20).map("".join) | st.text(min_size=1, max_size=20)
)
async def test_no_query_is_a_fault_of_ours(find: Door, query: str) -> None:
    for mode in ("regex", "auto", "bm25"):
        arguments = {"query": query, "mode": mode}
        outcome = await find.dispatch.call(
            CALLER, "find_tool", arguments, surface="test", request_id="r"
        )
        assert outcome.body.get("code") in (None, "INVALID_QUERY"), outcome.text
        assert mode == "regex" or outcome.error is None or not query.strip()
