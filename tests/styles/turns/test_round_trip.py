"""Whatever kind of item a caller gives comes back as it was, in its place, or is refused before
anything is written."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsvc.core.items import LEVELS_MAX, Item
from tests.door import Door
from tests.styles.turns.talk import events

SESSIONS = count()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "🙂👩‍👩‍👧",
        "é",
        "e\u0301",
        "\x00",
        "\u2028",
        '{"a": 1}',
        "</memory_reference>",
        "\\u003c",
        "data:image/png;base64,AA==",
    ]
)
NUMBERS = (
    st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.just(-0.0)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FURTHER = st.dictionaries(
    st.sampled_from(["status", "phase", "x", "", "annotations", "created_by"]), JSON, max_size=2
)


def item(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Item]:
    """Items of a kind with these fields, and with some that nobody has heard of."""
    known = st.fixed_dictionaries({"type": st.just(kind)} | fields)
    return st.tuples(FURTHER, known).map(lambda both: both[0] | both[1])


def part(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind)} | fields)


PARTS = (
    part("input_text", text=TEXTS)
    | part("output_text", text=TEXTS, annotations=JSON, logprobs=JSON)
    | part("refusal", refusal=TEXTS)
    | part("input_image", image_url=TEXTS, detail=st.sampled_from(["auto", "high"]))
    | part("input_file", file_id=TEXTS, filename=TEXTS, file_data=TEXTS)
    | part("input_audio", input_audio=JSON)
    | part("not_invented_yet", payload=JSON)
)
ITEMS = (
    item(
        "message",
        role=st.sampled_from(["user", "assistant"]),
        content=st.lists(PARTS, max_size=4),
        id=TEXTS,
    )
    | item(
        "message",
        role=st.just("user"),
        content=st.lists(PARTS, max_size=2),
        metadata=st.dictionaries(TEXTS, JSON),
    )
    | item("function_call", name=TEXTS, arguments=TEXTS, call_id=TEXTS)
    | item("function_call_output", call_id=TEXTS, output=TEXTS | st.lists(PARTS, max_size=3) | JSON)
    | item(
        "reasoning",
        summary=st.lists(part("summary_text", text=TEXTS), max_size=2),
        encrypted_content=TEXTS,
    )
    | item("web_search_call", action=JSON)
    | item("custom_tool_call", name=TEXTS, input=TEXTS, call_id=TEXTS)
    | item("not_invented_yet", content=st.lists(PARTS, max_size=1), payload=JSON)
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(inputs=st.lists(ITEMS, min_size=1, max_size=4), outputs=st.lists(ITEMS, max_size=4))
async def test_items_are_stored_and_shown_as_they_were_given_in_their_order(
    door: Door, inputs: list[Item], outputs: list[Item]
) -> None:
    session = f"s{next(SESSIONS)}"
    given_items = {"conversation_items": inputs, "output_items": outputs}
    await door("memory_after_turn", session_id=session, turn_id="t1", **given_items)
    assert [record["item"] for record in await events(door, session)] == [*inputs, *outputs]
    shown = (
        await door("memory_before_turn", session_id=session, current_input="next", sources=[])
    )["input_items"]
    spoken = [*inputs, *outputs]
    assert (
        shown[:-1] == spoken[len(spoken) - len(shown) + 1 :]
    )  # an output without its call cannot begin a prompt


def deep(levels: int) -> Any:
    value: Any = "🙂"
    for _ in range(levels):
        value = [value]
    return value


async def test_an_item_may_nest_up_to_the_limit_and_no_deeper(door: Door) -> None:
    most = {"type": "x", "deep": deep(LEVELS_MAX - 1)}
    await door("memory_after_turn", session_id="s1", turn_id="t1", input_items=[most])
    assert [record["item"] for record in await events(door)] == [most]
    shown = await door("memory_before_turn", session_id="s1", current_input="next")
    assert shown["input_items"][0] == most
    more = {"type": "x", "deep": deep(LEVELS_MAX)}
    await door.refuses("INVALID_ARGUMENT", "memory_after_turn", session_id="s2", input_items=[more])


@pytest.mark.parametrize(
    "value", ["\ud800", "a\udfff", 2**64, -(2**63) - 1, {"\ud800": 1}, [["\udc00"]]]
)
@pytest.mark.parametrize("tool", ["memory_after_turn", "memory_before_turn", "memory_run_turn"])
async def test_what_is_no_json_is_refused(door: Door, tool: str, value: Any) -> None:
    name = "input_items" if tool == "memory_after_turn" else "current_input"
    await door.refuses(
        "INVALID_ARGUMENT", tool, session_id="s1", **{name: [{"type": "x", "field": value}]}
    )
    assert (await door("file_list", project="default", path=""))["entries"] == []
