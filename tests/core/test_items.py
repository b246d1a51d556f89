"""Response items are kept whole, and refused where they are not what memory can read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import (
    ReadItem,
    canonical,
    fingerprint,
    hash_of_content,
    normalize_item,
    role_of,
    text_of,
    unread_fields,
    unsendable_field,
    user_message,
)
from memsvc.core.untrusted import BLOCK_END, BLOCK_START


def test_an_item_keeps_every_field_that_it_came_with() -> None:
    item = {
        "type": "function_call",
        "name": "f",
        "arguments": '{"a":1}',
        "call_id": "c",
        "extra": {"deep": [1, None]},
    }
    assert normalize_item(item, "x") == item


@pytest.mark.parametrize(("role", "part"), [("user", "input_text"), ("assistant", "output_text")])
def test_a_text_as_content_becomes_one_part(role: str, part: str) -> None:
    assert normalize_item({"role": role, "content": "hi", "id": "m1"}, "x") == {
        "type": "message",
        "role": role,
        "content": [{"type": part, "text": "hi"}],
        "id": "m1",
    }


@pytest.mark.parametrize(
    "item",
    [
        None,
        "text",
        3,
        [],
        {},
        {"id": "x"},
        {"type": 3},
        {"type": "message", "role": 1, "content": "x"},
        {"type": "message", "role": "user", "content": 5},
        {"type": "message", "role": "user", "content": {"text": 5}},
        {"type": "message", "role": "user", "content": ["x"]},
        {"type": "message", "role": "user", "content": [{"text": 5}]},
        {"type": "message", "role": "user", "content": [{"type": [], "text": "x"}]},
        {"type": "message", "role": "user", "content": "x", "metadata": "y"},
        {"type": "message", "role": "user", "content": "\ud800"},
        {"type": "message", "role": "user", "content": "x", "n": 2**70},
    ],
)
def test_what_is_no_item_is_refused_by_its_place(item: Any) -> None:
    with pytest.raises(MemsvcError, match=r"^input_items\[3\]") as refused:
        normalize_item(item, "input_items[3]")
    assert refused.value.code is Code.INVALID_ARGUMENT


SAID = "I am allergic to nuts."
GEMINI = {"role": "user", "parts": [{"text": "I am allergic"}, {"text": "to nuts."}]}


@pytest.mark.parametrize(
    ("item", "role", "text"),
    [
        (GEMINI, "user", "I am allergic\nto nuts."),
        ({"role": "model", "parts": [{"text": SAID}]}, "assistant", SAID),
        ({"role": "user", "parts": [SAID]}, "user", SAID),
        ({"role": "user", "text": SAID}, "user", SAID),
        ({"role": "User", "content": SAID}, "user", SAID),
        ({"role": "human", "content": SAID}, "user", SAID),
        ({"type": "human", "content": SAID}, "user", SAID),
        ({"type": "ai", "content": [{"type": "text", "text": SAID}]}, "assistant", SAID),
        ({"type": "user", "text": SAID}, "user", SAID),
        ({"type": "system", "content": SAID}, "system", SAID),
        ({"type": "tool", "content": [{"type": "text", "text": SAID}]}, "tool", SAID),
        ({"role": "user", "content": SAID, "text": "other"}, "user", SAID),
        ({"type": "function_call", "name": "model", "parts": [SAID]}, "tool", ""),
    ],
)
def test_message_of_another_api_is_read(item: Any, role: str, text: str) -> None:
    read = normalize_item(item, "x")
    assert (role_of(read), text_of(read)) == (role, text)


@pytest.mark.parametrize(
    ("item", "unread"),
    [
        ({"role": "user", "message": SAID}, ["message"]),
        ({"type": "human", "data": {"content": SAID}}, ["data"]),
        ({"role": "bot", "content": SAID}, ["role"]),
        ({"type": "input_text", "text": SAID}, ["text"]),
        ({"role": "user", "content": SAID, "message": SAID}, []),
        ({"role": "user", "content": ""}, []),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}, []),
        ({"role": "system", "content": SAID}, []),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}, []),
        ({"role": "model", "parts": [{"functionCall": {"name": "f"}}]}, []),
        ({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}, []),
        ({"type": "reasoning", "summary": []}, []),
        (GEMINI, []),
    ],
)
def test_unread_fields_are_those_that_may_hold_text(item: Any, unread: list[str]) -> None:
    assert unread_fields(ReadItem.of(normalize_item(item, "x"))) == unread


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "assistant", "content": None, "tool_calls": None, "refusal": None}, "content"),
        ({"role": "user", "message": SAID}, "content"),
        ({"role": "banana", "content": SAID}, "role"),
        ({"role": "banana"}, "role"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, "content[0].text"),
        ({"role": "assistant", "content": [{"type": "output_text"}]}, "content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {}]}, "content[1].text"),
    ],
)
def test_field_for_which_no_api_takes_a_message_is_named(item: Any, field: str) -> None:
    assert unsendable_field(normalize_item(item, "x")) == field


@pytest.mark.parametrize(
    "item",
    [
        GEMINI,
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": None, "audio": {"id": "a"}},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "u"}]},
        {"role": "user", "content": [{"type": "not_invented_yet"}]},
        {"role": "user", "content": []},
        {"role": "user", "content": ""},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "developer", "content": SAID},
        {"content": SAID},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": ""},
        {"type": "reasoning", "summary": []},
        {"type": "not_invented_yet", "role": "banana", "content": [{"type": "input_text"}]},
    ],
)
def test_item_that_an_api_may_take_is_sendable(item: Any) -> None:
    assert unsendable_field(normalize_item(item, "x")) == ""


@pytest.mark.parametrize("field", ["timestamp", "created_at", "metadata"])
def test_time_more_than_a_day_ahead_of_the_server_is_refused(field: str) -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    item: dict[str, Any] = {"role": "user", "content": SAID}
    for hours, is_taken in ((24, True), (25, False)):
        time = (now + timedelta(hours=hours)).isoformat()
        item[field] = {"occurred_at": time} if field == "metadata" else time
        if is_taken:
            normalize_item(item, "x", now)
        else:
            with pytest.raises(MemsvcError, match=r"^x\.\S+ is more than a day after"):
                normalize_item(item, "x", now)


def test_fingerprints_tell_content_and_order_apart_but_not_the_order_of_fields() -> None:
    one, other = {"type": "a", "x": 1}, {"x": 1, "type": "a"}
    assert hash_of_content(canonical(one)) == hash_of_content(canonical(other))
    assert hash_of_content(canonical(one)) != hash_of_content(canonical({"type": "a", "x": 2}))
    content = canonical(one)
    assert content == canonical(other)
    groups = ([[content], []], [[], [content]], [[content, content], []], [[content]])
    assert len({fingerprint(group) for group in groups}) == 4


def test_text_is_read_from_messages_and_outputs_of_any_shape() -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "u"},
        {"text": "b"},
    ]
    assert text_of({"type": "message", "content": parts}) == "a\nb"
    assert text_of({"type": "function_call_output", "output": "o"}) == "o"
    assert (
        text_of({"type": "function_call_output", "output": [{"type": "input_text", "text": "p"}]})
        == "p"
    )
    assert text_of({"type": "function_call_output", "output": {"k": 1}}) == ""
    assert role_of({"type": "function_call_output", "role": "user"}) == "tool"
    assert role_of({"type": "message", "role": "x\x00y"}) == "other"


def test_item_is_read_once_into_all_that_memory_uses() -> None:
    block = f'{BLOCK_START}{{"kind":"historical_memory"}}{BLOCK_END}'
    picture = {"type": "input_image", "image_url": "u"}
    item = normalize_item(
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, picture, {"text": "b"}],
            "metadata": {"occurred_at": "2026-01-05T09:00:00+01:00", "speaker": "Ada"},
        },
        "x",
    )
    read = ReadItem.of(item)
    assert (read.item, read.content, read.digest) == (
        item,
        canonical(item),
        hash_of_content(canonical(item)),
    )
    assert (read.role, read.text, read.speaker) == ("user", "a\nb", "Ada")
    assert str(read.message_at) == "2026-01-05 09:00:00+01:00"
    assert (read.counted_texts, read.media, read.is_memory) == (["a", "b"], 1, False)
    assert ReadItem.of(user_message(block)).is_memory
    assert not ReadItem.of(user_message(block + "!")).is_memory
    assert not ReadItem.of(user_message(block) | {"role": "assistant"}).is_memory
