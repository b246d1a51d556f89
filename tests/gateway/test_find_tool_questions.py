"""find_tool over all tools, asked by people who had not seen how it searches."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import synonym_groups, tool_words
from memsvc.runtime import all_published
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.catalogue import CALLER
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio
QUESTIONS: list[dict[str, Any]] = orjson.loads(
    Path(__file__).with_name("find_tool_questions.json").read_bytes()
)
FIRST = 3
FOUND_MIN = 36
UNTUNED_FOUND_MIN = 16
"""Of the twenty at odd places, which no word was added for."""
TOOLS = all_published().tools


async def found(question: str) -> list[str]:
    meter, clock = RecordingMeter(), FakeClock()
    dispatch = Dispatch(Catalogue(TOOLS), Recorded(meter, clock), meter, clock)
    outcome = await dispatch.call(
        CALLER,
        "find_tool",
        {"query": question, "return_references_only": True},
        surface="test",
        request_id="test",
    )
    return [tool["tool_name"] for tool in outcome.body["tool_references"]]


async def test_the_right_tool_is_among_the_first_three() -> None:
    right = [
        not {*(await found(question["question"]))[:FIRST]}.isdisjoint(question["tools"])
        for question in QUESTIONS
    ]
    assert len(right) == 40
    assert sum(right) >= FOUND_MIN
    assert sum(right[1::2]) >= UNTUNED_FOUND_MIN


def test_every_tool_has_words_and_every_line_of_words_a_tool() -> None:
    names = {tool.name for tool in TOOLS}
    assert tool_words().words_by_tool.keys() <= names
    assert names - tool_words().words_by_tool.keys() == {"find_tool"}


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("please DELETE it", "~delete"),
        ("get that thing rid of it", "~delete"),
        ("lösche das", "~delete"),
        ("bitte löschen", "~delete"),
        ("请删除这个", "~delete"),
        ("which", "~list"),
    ],
)
def test_a_concept_is_said_in_any_language_and_by_words_apart(text: str, group: str) -> None:
    assert group in synonym_groups(text)


def test_a_text_without_such_words_names_no_concept() -> None:
    assert synonym_groups("zirconium") == synonym_groups("") == []
