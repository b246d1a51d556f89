"""find_tool over all tools, asked by people who had not seen how it searches."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.core.tool_methods import tools_of
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import ToolEmbedder, ToolSearch, words_by_tool
from memsvc.runtime import all_published
from memsvc.styles.embedding import Embedding
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.gateway.catalogue import CALLER
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio
QUESTIONS: list[dict[str, Any]] = orjson.loads(
    Path(__file__).with_name("find_tool_questions.json").read_bytes()
)
FIRST = 3
TOOLS = all_published().tools


async def rights(embedder: ToolEmbedder | None) -> list[bool]:
    """Whether a right tool is among the first three, for each question."""
    meter, clock = RecordingMeter(), FakeClock()
    others = [tool for tool in TOOLS if tool.name != "find_tool"]
    catalogue = Catalogue([*others, *tools_of(ToolSearch(embedder))])
    door = Door(Dispatch(catalogue, Recorded(meter, clock), meter, clock, unlimited(meter)), CALLER)
    found = [
        await door("find_tool", query=question["question"], return_references_only=True)
        for question in QUESTIONS
    ]
    names = [[tool["tool_name"] for tool in body["tool_references"]] for body in found]
    return [
        not {*first[:FIRST]}.isdisjoint(question["tools"])
        for first, question in zip(names, QUESTIONS, strict=True)
    ]


async def test_right_tool_is_among_the_first_three_by_meaning_and_words() -> None:
    clock = FakeClock()
    encoder = SentenceEncoder(EmbeddingOptions())
    await encoder.load()
    database: Any = SimpleNamespace(encoder=None)
    right = await rights(Embedding(database, encoder, clock, RecordingMeter()))
    assert len(right) == 40
    assert sum(right) >= 36
    assert sum(right[1::2]) >= 16  # of the twenty at odd places, which no word was added for


async def test_right_tool_is_among_the_first_three_by_words_alone() -> None:
    right = await rights(None)
    assert sum(right) >= 27
    assert sum(right[1::2]) >= 11


def test_every_tool_has_words_and_every_line_of_words_a_tool() -> None:
    names = {tool.name for tool in TOOLS}
    assert words_by_tool().keys() <= names
    assert names - words_by_tool().keys() == {"find_tool"}
