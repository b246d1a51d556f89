"""The one way into a tool."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from memsvc.core.scope import Permission
from memsvc.core.tools import CallOutcome
from memsvc.gateway.dispatch import Catalogue, Dispatch
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.gateway.catalogue import CALLER, CANARY, catalogue, echo, tool
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio


@pytest.fixture
def call_log(meter: RecordingMeter, clock: FakeClock) -> Recorded:
    return Recorded(meter, clock)


@pytest.fixture
def dispatch(call_log: Recorded, meter: RecordingMeter, clock: FakeClock) -> Dispatch:
    return Dispatch(
        catalogue(), call_log, meter, clock, unlimited(meter), disabled=frozenset({"disabled"})
    )


async def call(
    dispatch: Dispatch, name: str, arguments: Any = None, caller: Any = CALLER
) -> CallOutcome:
    return await dispatch.call(caller, name, arguments, surface="test", request_id="r-1")


async def test_a_good_call_answers_logs_and_counts(
    dispatch: Dispatch, call_log: Recorded, meter: RecordingMeter
) -> None:
    outcome = await call(
        dispatch, "echo", {"project": " p ", "text": "hi", "session_id": "s1", "plugin": None}
    )
    assert outcome.error is None
    assert outcome.body == {"project": "p", "text": "hi", "items": [], "parts": []}
    assert outcome.text == '{"project":"p","text":"hi","items":[],"parts":[]}'
    [record] = call_log.records
    assert (record.tool, record.project, record.status, record.code) == (
        "echo",
        "p",
        "success",
        None,
    )
    assert (record.surface, record.key_label, record.request_id) == ("test", "test", "r-1")
    assert record.arguments["session_id"] == "s1"
    assert record.arguments["text"] == {"redacted": True, "bytes": 2}
    assert meter.total("memsvc_calls_total", tool="echo", status="success", code="") == 1
    assert meter.total("mcp_memory_before_turn_total", status="success") == 1


@pytest.mark.parametrize("name", ["nothing", "disabled", "hidden", "x" * 300, "a\nb"])
async def test_a_tool_that_is_not_there_for_the_caller_is_not_found(
    dispatch: Dispatch, name: str
) -> None:
    caller = replace(CALLER, hidden_tools=frozenset({"echo"}))
    outcome = await call(dispatch, "echo" if name == "hidden" else name, {}, caller)
    assert outcome.error is not None
    assert outcome.body["code"] == "NOT_FOUND"
    assert outcome.body["message"].startswith("Unknown tool: ")
    assert len(outcome.body["message"]) <= len("Unknown tool: ") + 64
    assert "\n" not in outcome.body["message"]


@pytest.mark.parametrize(
    ("arguments", "project"),
    [
        ({"project": " p ", "count": CANARY}, "p"),
        ({"project": "p", "odd": 1}, "p"),
        ({"project": CANARY + "/", "count": 1}, "default"),
        ({"project": "*"}, "default"),
        ({"project": [CANARY]}, "default"),
        ([CANARY], "default"),
    ],
)
async def test_a_call_with_bad_arguments_is_logged_under_its_project(
    dispatch: Dispatch, call_log: Recorded, arguments: Any, project: str
) -> None:
    assert (await call(dispatch, "echo", arguments)).error is not None
    [record] = call_log.records
    assert (record.project, record.status) == (project, "error")


async def test_an_unknown_name_is_neither_logged_nor_counted_by_itself(
    dispatch: Dispatch, call_log: Recorded, meter: RecordingMeter
) -> None:
    await call(dispatch, CANARY, {CANARY: CANARY})
    assert CANARY not in repr(call_log.records)
    assert meter.total("memsvc_calls_total", tool="unknown", status="error", code="NOT_FOUND") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": CANARY}, "count must be a whole number"),
        ({"count": 1.5}, "count must be a whole number"),
        ({"count": 11}, "count must be 10 or less"),
        ({"count": -1}, "count must be 0 or greater"),
        ({"text": [CANARY]}, "text must be a string"),
        ({"items": CANARY}, "items must be an array"),
        ({"first": CANARY}, "first must be an object"),
        ({"first": {}}, "first.title is required"),
        ({"first": {"title": "x", "tags": ["a"]}}, "first.tags.1 is required"),
        ({"count": CANARY, "text": 1}, "count must be a whole number; text must be a string"),
        ({"odd": 1}, "unknown argument odd"),
        ({"x" * 300: 1}, "unknown argument " + "x" * 64),
        ({"parts": [{"title": 1}]}, "parts.0.title must be a string"),
        ({"text": "\ud800"}, "arguments must be plain JSON"),
        ({"items": [{"\udfff": 1}]}, "arguments must be plain JSON"),
        ({"count": 10**30}, "arguments must be plain JSON"),
        ({f"n{n}": 1 for n in range(8)}, "and 3 more"),
        ([], "arguments must be an object"),
        (CANARY, "arguments must be an object"),
        ({"project": "a/b"}, "project must be"),
        ({"plugin": CANARY}, "unknown plugin; the available plugins are"),
    ],
)
async def test_bad_arguments_are_named_without_their_values(
    dispatch: Dispatch, arguments: Any, message: str
) -> None:
    outcome = await call(dispatch, "echo", arguments)
    assert message in outcome.body["message"]
    assert outcome.body["code"] in ("INVALID_ARGUMENT", "INVALID_PATH")
    assert outcome.body["retryable"] is False
    assert CANARY not in outcome.text


async def test_a_key_may_do_only_what_it_may(dispatch: Dispatch) -> None:
    reader = replace(CALLER, permissions=frozenset({Permission.READ}), projects=frozenset({"mine"}))
    assert (await call(dispatch, "write", {"project": "mine"}, reader)).body[
        "code"
    ] == "PERMISSION_DENIED"
    assert (await call(dispatch, "echo", {"project": "yours"}, reader)).body[
        "code"
    ] == "PERMISSION_DENIED"
    assert (await call(dispatch, "echo", {"project": "mine"}, reader)).error is None


async def test_a_named_error_goes_out_as_it_is(dispatch: Dispatch, meter: RecordingMeter) -> None:
    outcome = await call(dispatch, "refuse", {})
    assert outcome.body == {
        "code": "RESOURCE_BUSY",
        "message": "somebody else is at it",
        "retryable": True,
        "recovery": "wait",
        "retry_after_s": 0.5,
    }
    assert meter.total("mcp_memory_after_turn_total", status="error") == 1
    assert len(meter.amounts["mcp_memory_after_turn_duration_ms"]) == 1


@pytest.mark.parametrize("name", ["crash", "garble"])
async def test_any_other_error_is_internal_and_says_nothing(
    dispatch: Dispatch, call_log: Recorded, name: str
) -> None:
    outcome = await call(dispatch, name, {"text": CANARY})
    told = {"code": "INTERNAL_ERROR", "message": "internal error", "retryable": False}
    assert outcome.body == told | {"request_id": call_log.records[-1].request_id}
    assert CANARY not in repr(call_log.records)


async def test_a_cancelled_call_stays_cancelled_and_is_logged(
    call_log: Recorded, meter: RecordingMeter, clock: FakeClock
) -> None:
    started = asyncio.Event()

    async def wait(*_: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    dispatch = Dispatch(Catalogue([tool("wait", wait)]), call_log, meter, clock, unlimited(meter))
    task = asyncio.create_task(call(dispatch, "wait", {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.status for record in call_log.records] == ["cancelled"]


async def test_a_listing_leaves_out_what_is_disabled_or_hidden(dispatch: Dispatch) -> None:
    caller = replace(CALLER, hidden_tools=frozenset({"crash"}))
    names = [listed.name for listed in dispatch.tools_for(caller)]
    assert names == ["echo", "refuse", "garble", "write"]


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named echo"):
        Catalogue([tool("echo", echo), tool("echo", echo)])


async def test_tool_that_only_this_surface_lacks_names_the_other_one(dispatch: Dispatch) -> None:
    caller = replace(CALLER, surface_hidden_tools=frozenset({"echo"}))
    outcome = await call(dispatch, "echo", {}, caller)
    assert outcome.body["code"] == "NOT_FOUND"
    assert "REST" in outcome.body["recovery"]
    for no_key_of_it in (
        replace(caller, hidden_tools=frozenset({"echo"})),
        replace(caller, permissions=frozenset()),
    ):
        outcome = await call(dispatch, "echo", {}, no_key_of_it)
        unknown = await call(dispatch, "zzzzzzzz", {}, no_key_of_it)
        assert outcome.body.get("recovery") == unknown.body.get("recovery")
