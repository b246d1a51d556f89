"""Whatever a caller sends is answered, refused in the one shape, and never half done."""

import os
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsvc.core.errors import RETRYABLE, Code
from memsvc.core.tools import CallOutcome
from memsvc.styles.turns.options import ShadowOptions, TurnOptions
from tests.contract.catalogue import EXAMPLES, TOOLS, message
from tests.contract.conftest import Digest
from tests.door import Door, open_door

pytestmark = pytest.mark.anyio
SLOW_S = 5
PROJECTS = count()
FUZZ_EXAMPLES = int(os.environ.get("MEMSVC_FUZZ_EXAMPLES", "300"))


def nested(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


WRONG: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1,
        2**31,
        -(2**31) - 1,
        2**53,
        2**53 + 1,
        2**63,
        -(2**63),
        2**64,
        10**30,
        1.5,
        -0.0,
        1e300,
    ),
    *(
        float("nan"),
        float("inf"),
        "",
        " ",
        "x",
        "1",
        "\x00",
        "a\x00b",
        "\ud800",
        "\u202e",
        "%",
        "_",
        "'; --",
        "../x",
        "/..",
    ),
    *(
        [],
        [None],
        [[]],
        [0],
        [""],
        {},
        {"": ""},
        {"a": None},
        [{}],
        [{"type": None}],
        [{"type": []}],
        [{"role": {}}],
    ),
    *(
        [{"type": "message", "content": [{}]}],
        [{"type": "message", "content": [None]}],
        [{"content": {"text": "x"}}],
    ),
    *(
        [message("x") | {"content": [{"type": kind, "text": "x"}]}]
        for kind in ([], {}, 1, None, "\x00")
    ),
    *(
        [message("x") | {"content": [{"type": "input_text", "text": text}]}]
        for text in ([], {}, 1, "\x00", "x\x00y")
    ),
    *(
        [message("x\x00y") | {field: "x\x00y"}]
        for field in ("role", "name", "id", "type", "call_id", "status", "output")
    ),
    *(
        [message("x") | {"metadata": held}]
        for held in ([], "x", {"speaker": 1}, {"speaker": "\x00"}, {"created_at": 1})
    ),
    *(
        [message("x") | {"metadata": {"created_at": at, "item_id": at}}]
        for at in ("0001-01-01T00:00:00+14:00", "x", [])
    ),
    *(
        [message("x") | {"metadata": {"created_at": at}}]
        for at in ("9999-12-31T23:59:59-14:00", "2026-01-01", "\x00")
    ),
    *(
        {"type": "function_call_output", "output": held}
        for held in ([], {}, 1, [1], [{"text": 1}], "\x00", None)
    ),
    *(
        {"type": "image", "image_url": "data:,"},
        {"type": "message", "role": "user", "content": None},
    ),
    *(nested(depth) for depth in (10, 60, 130, 190, 210, 250, 300, 900)),
    *(
        [message("x") | {"extra": nested(depth)}]
        for depth in (10, 60, 120, 180, 195, 240, 250, 260)
    ),
    *(
        "x" * 129,
        "x" * 513,
        "é" * 64,
        "é" * 65,
        "x" * 100_000,
        "a\u0301" * 500_000,
        "\u0301" * 1_000_000,
    ),
]


async def tried(door: Door, tool: str, arguments: Any) -> CallOutcome:
    return await door.dispatch.call(door.caller, tool, arguments, surface="test", request_id="r")


def check_shape(outcome: CallOutcome) -> None:
    """An error is `{code, message, retryable, recovery?, ...}`, and a fault of the input is not
    worth a retry."""
    assert outcome.error is not None
    body = outcome.body
    if "steps" in body:  # a pipe tells what its steps came to as well
        body = {
            name: held
            for name, held in body.items()
            if name not in ("ok", "error", "result", "steps")
        }
    assert (
        {"code", "message", "retryable"}
        <= body.keys()
        <= {
            *(
                "code",
                "message",
                "retryable",
                "recovery",
                "retry_after_s",
                "available_plugins",
                "looked_in",
            ),
            *(
                "id",
                "parent_id",
                "link",
                "existing_link",
                "other_parent_id",
                "count",
            ),  # of documents and their links
        }
    )
    assert Code(body["code"]) not in RETRYABLE | {Code.INTERNAL_ERROR}, body
    assert body["retryable"] is False
    assert body["message"]
    assert len(outcome.text) < 3000


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
async def test_wrong_values_of_every_argument_are_refused_or_harmless(
    call: Door, stored: Digest, tool: str
) -> None:
    for name in ("memory_after_turn", "file_write"):
        await call(name, **EXAMPLES[name])
    before = await stored()
    faults = []
    for name in (*TOOLS[tool].arguments.model_fields, "surplus", ""):
        for number, value in enumerate(WRONG):
            arguments = EXAMPLES[tool] | {name: value}
            if tool == "memory_after_turn" and name != "turn_id":
                arguments["turn_id"] = f"t{name}{number}"
            started = time.process_time()
            outcome = await tried(call, tool, arguments)
            if time.process_time() - started > SLOW_S:
                faults.append(f"{name}: value {number} took too long")
            if outcome.body.get("code") == "INTERNAL_ERROR":
                faults.append(f"{name} = {_told(value)}: internal error")
            elif outcome.error is not None:
                check_shape(outcome)
            if outcome.error is None:
                before = before if TOOLS[tool].read_only else await stored()
            elif await stored() != before:
                faults.append(f"{name} = {_told(value)}: refused, but something was written")
    assert faults == []


def _told(value: Any) -> str:
    try:
        return repr(value)[:120]
    except RecursionError:
        return "deep"


@pytest.mark.parametrize("tool", TOOLS)
async def test_arguments_that_are_no_object_or_miss_what_is_required_are_refused(
    call: Door, stored: Digest, tool: str
) -> None:
    before = await stored()
    for arguments in ([], "x", 1, True, [{}], nested(2000), {"\ud800": 1}, {"project": "\ud800"}):
        outcome = await tried(call, tool, arguments)
        check_shape(outcome)
    required = [
        name for name, field in TOOLS[tool].arguments.model_fields.items() if field.is_required()
    ]
    for name in required:
        without = {key: value for key, value in EXAMPLES[tool].items() if key != name}
        for arguments in (without, without | {name: None}):
            outcome = await tried(call, tool, arguments)
            check_shape(outcome)
            assert outcome.body["code"] == "INVALID_ARGUMENT"
            assert name in outcome.body["message"]
    assert await stored() == before


LIMITS = TurnOptions(items_max=5, item_bytes_max=126, shadow=ShadowOptions(enabled=True))


def at_the_bound() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """A tool, arguments that are just right, and arguments that are one too many."""
    for tool, arguments in EXAMPLES.items():
        for name in ("session_id", "turn_id", "user_id", "conversation_id"):
            if tool == "memory_feedback" and name == "turn_id":
                continue  # it takes a turn or a record, and the example names a record
            if name in TOOLS[tool].arguments.model_fields:
                for letter in ("x", "é", "🙂"):
                    most = letter * (128 // len(letter.encode()))
                    yield tool, arguments | {name: most}, arguments | {name: most + "x"}
        if tool != "memory_commit_turn":  # its token is of another project
            yield tool, arguments | {"project": "x" * 128}, arguments | {"project": "x" * 129}
        if "path" in TOOLS[tool].arguments.model_fields and tool != "file_delete":
            path = "/" + "x" * 511
            yield (
                "file_write",
                EXAMPLES["file_write"] | {"path": path},
                EXAMPLES["file_write"] | {"path": path + "x"},
            )
    for name in ("input_items", "output_items", "conversation_items"):
        for most, more in (
            ([message(f"{number}") for number in range(5)], [message(f"{number}") for number in range(6)]),
            ([message("x" * 50)], [message("x" * 51)]),
            ([message("x") | {"content": [{"type": "input_text", "text": "é" * 25}]}],
             [message("x") | {"content": [{"type": "input_text", "text": "é" * 26}]}]),
            ([{"type": "function_call_output", "call_id": "c", "output": "x" * 69}],
             [{"type": "function_call_output", "call_id": "c", "output": "x" * 70}]),
            ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "x" * 62}],
             [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "x" * 63}]),
        ):  # fmt: skip
            short = {
                "input_items": [message("a")],
                "output_items": [],
                "turn_id": f"{name}{len(repr(most))}",
            }
            base = EXAMPLES["memory_after_turn"] | short
            yield "memory_after_turn", base | {name: most}, base | {name: more}


async def test_every_limit_is_taken_at_its_bound_and_refused_one_over(
    database: Any, clock: Any, tokens: Any, meter: Any, scope: Any, stored: Digest
) -> None:
    door = open_door(database, clock, tokens, meter, scope, turns=LIMITS)
    await door("file_write", **EXAMPLES["file_write"])
    for number, (tool, right, wrong) in enumerate(at_the_bound()):
        for arguments in (right, wrong):
            for name in ("input_items", "output_items", "current_input"):
                if name in arguments and number < 30 and name in EXAMPLES[tool]:
                    arguments[name] = [message("hello")]
        before = await stored()
        outcome = await tried(door, tool, wrong)
        check_shape(outcome)
        assert outcome.body["code"] in ("INVALID_ARGUMENT", "INVALID_PATH", "PAYLOAD_TOO_LARGE"), (
            outcome.body
        )
        assert await stored() == before
        if tool != "file_delete":
            outcome = await tried(door, tool, right)
            assert outcome.body.get("code") in (None, "NOT_FOUND"), outcome.body


HOSTILE = [
    "../x",
    "..",
    ".",
    "a/b",
    "a\\b",
    "メモ",
    "%2e%2e",
    "%2E%2E",
    "%",
    "s1",
    "s10",
    "s_1",
    "sx1",
    "s%1",
    "S1",
    "/",
    "//",
]
HOSTILE += [
    "\u202ereversed",
    "\u200b",
    "🙂",
    "👩‍👩‍👧",
    "e\u0301",
    "nul",
    "con",
    "a b",
    "'; DROP TABLE files; --",
    "~",
    "x" * 128,
]
HOSTILE += ["\u2028", "İ", "ß", "ﬁ", "-", "__", "meta", "memory", "{}", '"', "default.", "ſ1"]
REFUSED = [
    "\x00",
    "a\x00b",
    "a\x1fb",
    "\x7f",
    "x\x85x",
    "x" * 129,
    "é" * 65,
    "\ud800",
    "a\udfff",
    "\u0301" * 1_000_000,
]


async def test_hostile_identifiers_are_sessions_of_their_own(call: Door) -> None:
    for number, name in enumerate(HOSTILE):
        await call(
            "memory_after_turn",
            session_id=name,
            turn_id=name,
            input_items=[message(f"My name is Number{number}.")],
        )
    for number, name in enumerate(HOSTILE):
        text = str(
            await call(
                "memory_before_turn", session_id=name, current_input="What is my name? Who am I?"
            )
        )
        assert f"Number{number}." in text, name
        assert [other for other in range(len(HOSTILE)) if f"Number{other}." in text] == [number], (
            name
        )
        listed = await call("memory_list_dir_with_abstract", session_id=name)
        assert {one["path"].split("/")[2] for one in listed["summaries"]} == {
            listed["summaries"][0]["path"].split("/")[2]
        }
    sessions = await call("file_list", project="default", path="/memory", limit=500)
    assert len(sessions["entries"]) == len(HOSTILE)


async def test_identifiers_that_no_one_can_have_are_refused_quickly(
    call: Door, stored: Digest
) -> None:
    before = await stored()
    for name in ("session_id", "turn_id", "user_id"):
        for value in REFUSED:
            started = time.process_time()
            await call.refuses(
                "INVALID_ARGUMENT",
                "memory_after_turn",
                **EXAMPLES["memory_after_turn"] | {name: value},
            )
            assert time.process_time() - started < 2
    assert await stored() == before


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS | st.just("\x00"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        "My name is Ada.",
        "I like tea\x00",
        "data:,x",
        "<memory_reference>\n",
        "who am i?",
        "I prefer \x00\ufffe",
        "\x85",
    ]
)
ROLES = st.sampled_from(["user", "assistant", "system", "developer", "tool", "u\x00"])
PARTS = st.fixed_dictionaries(
    {"text": TEXTS},
    optional={
        "type": st.sampled_from(["input_text", "text", "refusal"]) | JSON,
        "annotations": JSON,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "speaker": TEXTS | JSON,
        "created_at": TEXTS | JSON,
        "occurred_at": TEXTS | JSON,
        "item_id": JSON,
    },
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES, "content": TEXTS | st.lists(PARTS, max_size=3)},
    optional={
        "type": st.sampled_from(["message", None]),
        "id": TEXTS,
        "name": TEXTS,
        "metadata": METADATA,
        "x": JSON,
    },
)
OTHERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "function_call_output", "reasoning", "", "x\x00"])},
    optional={
        "output": TEXTS | JSON,
        "arguments": TEXTS | JSON,
        "content": TEXTS | JSON,
        "summary": JSON,
        "x": JSON,
    },
)
WILD = st.dictionaries(
    st.sampled_from(["type", "role", "content", "id", "metadata", "text"]), JSON, max_size=4
)
ITEMS = MESSAGES | MESSAGES | OTHERS | WILD
PATH_TEXTS = st.sampled_from(
    [
        "",
        "/",
        "/a",
        "/a/b",
        "/a/b/c",
        "/memory",
        "/memory/s1",
        "/memory/zanzibar-s/meta/state.json",
        "/a%",
        "/zanzibar",
    ]
)
IDENTIFIERS = st.sampled_from([name for name in HOSTILE if len(name) < 99])
SMALL = st.integers(-3, 40) | st.integers(-(2**53), 2**53)
ANYTHING = (
    IDENTIFIERS
    | TEXTS
    | st.integers()
    | st.lists(ITEMS, max_size=3)
    | JSON
    | st.sampled_from(["\ud800"])
)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("session_id", "turn_id", "user_id", "conversation_id"), IDENTIFIERS),
    **dict.fromkeys(
        ("conversation_items", "input_items", "output_items"), st.lists(ITEMS, max_size=4)
    ),
    "current_input": st.lists(ITEMS, max_size=3) | ITEMS | TEXTS,
    **dict.fromkeys(("path", "cursor"), PATH_TEXTS),
    **dict.fromkeys(("explain", "recursive", "create_only"), st.booleans()),
    "mode": st.sampled_from(["APPEND", "OVERWRITE", "TRUNCATE"]),
    "content_encoding": st.sampled_from(["utf-8", "utf-8", "base64"]),
    "expected_version": st.sampled_from(
        ["0" * 32 + ":1", "f" * 32 + ":9223372036854775807", "0" * 32 + ":9" + "9" * 18]
    ),
}


def arguments_of(tool: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of the right types with strange values, and now and then one of a wrong type."""
    fields = {
        name: field
        for name, field in TOOLS[tool].arguments.model_fields.items()
        if name not in ("project", "plugin")
    }
    by_name = {
        name: BY_NAME.get(name, SMALL if field.annotation in (int, int | None) else TEXTS)
        for name, field in fields.items()
    }
    right = st.fixed_dictionaries({}, optional=by_name).map(lambda given: EXAMPLES[tool] | given)
    wrong = (
        st.dictionaries(st.sampled_from(list(fields)), ANYTHING, max_size=1)
        if fields
        else st.just({})
    )
    return st.tuples(right, st.just({}) | wrong).map(lambda both: both[0] | both[1])


CALLS = st.sampled_from(list(TOOLS)).flatmap(
    lambda tool: st.tuples(st.just(tool), arguments_of(tool))
)


@pytest.mark.slow
@settings(
    max_examples=FUZZ_EXAMPLES,
    deadline=None,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # the first example that fails is small enough
    derandomize="MEMSVC_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(wanted=CALLS)
async def test_no_arguments_are_an_internal_error(
    call: Door, wanted: tuple[str, dict[str, Any]]
) -> None:
    tool, arguments = wanted
    project = {
        "project": f"p{next(PROJECTS)}"
    }  # so that an example means the same whenever it is tried
    for name in ("memory_after_turn", "file_write"):
        if name != tool:
            await call(name, **EXAMPLES[name] | project)
    outcome = await tried(call, tool, arguments | project)
    if outcome.error is not None:
        check_shape(outcome)
