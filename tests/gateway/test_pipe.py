"""mcp_pipe through the one way into a tool."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import CallOutcome, Tool
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import ToolSearch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.pipe_run import PipeTool
from memsvc.gateway.pipeline_spec import PipeOptions
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.gateway.catalogue import CALLER, CANARY, EchoArguments, EchoResult, catalogue, tool
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio
Spec = dict[str, Any]
Piping = Callable[..., "Pipe"]


class Pipe:
    """A gateway with mcp_pipe, called as one caller; `records` is what its call log was told."""

    def __init__(self, dispatch: Dispatch, records: list[Any], caller: Any = CALLER) -> None:
        self.dispatch = dispatch
        self.records = records
        self.caller = caller

    async def outcome(self, **arguments: Any) -> CallOutcome:
        return await self.dispatch.call(
            self.caller, "mcp_pipe", arguments, surface="test", request_id="r-1"
        )

    async def __call__(self, *steps: Spec, **more: Any) -> dict[str, Any]:
        """The body of a pipeline that succeeds."""
        outcome = await self.outcome(spec={"steps": list(steps)} | more)
        assert outcome.error is None, outcome.text
        assert (outcome.body["ok"], outcome.body["error"]) == (True, "")
        return outcome.body

    async def fails(self, *steps: Spec, **more: Any) -> dict[str, Any]:
        """The body of a pipeline that does not."""
        outcome = await self.outcome(spec={"steps": list(steps)} | more)
        assert outcome.error is not None, outcome.text
        assert (outcome.body["ok"], outcome.body["error"]) == (False, outcome.body["message"])
        return outcome.body


@pytest.fixture
def piping(meter: RecordingMeter, clock: FakeClock) -> Piping:
    """Makes a `Pipe`, with further tools and other options."""

    def make(
        *tools: Tool, caller: Any = CALLER, limits: LimitsOptions | None = None, **options: Any
    ) -> Pipe:
        log = Recorded(meter, clock)
        pipe = PipeTool(PipeOptions(**options), limits or LimitsOptions(), clock)
        whole = Catalogue([*catalogue(), *tools, *tools_of(pipe), *tools_of(ToolSearch(None))])
        return Pipe(
            Dispatch(whole, log, meter, clock, unlimited(meter), frozenset({"disabled"})),
            log.records,
            caller,
        )

    return make


@pytest.fixture
def pipe(piping: Piping) -> Pipe:
    return piping()


def echo(name: str, text: Any = "", **args: Any) -> Spec:
    return {"id": name, "tool": "echo", "args": {"text": text} | args}


async def test_a_pipeline_answers_with_a_record_for_each_step_and_returns_the_last(
    pipe: Pipe,
) -> None:
    body = await pipe(echo("a", "one"), echo("b", "two"))
    assert body.keys() == {"ok", "error", "result", "steps"}
    assert list(body["steps"]) == ["a", "b"]
    assert body["result"] == body["steps"]["b"]
    record = body["steps"]["a"]
    assert record.pop("duration_ms") >= 0
    structured = {"project": "default", "text": "one", "items": [], "parts": []}
    assert record == {
        "id": "a",
        "kind": "tool",
        "tool": "echo",
        "started_at": "2026-01-05T12:00:00Z",
        "ok": True,
        "error": "",
        "structured": structured,
        "text": json.dumps(structured, separators=(",", ":")),
    }


@pytest.mark.parametrize("form", ["object", "text", "fields"])
async def test_a_pipeline_is_given_as_an_object_as_text_or_by_its_fields(
    pipe: Pipe, form: str
) -> None:
    spec = {
        "vars": {"v": "x"},
        "steps": [echo("a", "${vars.v}")],
        "return": "${last.structured.text}!",
    }
    whole: dict[str, Any] = {
        "object": {"spec": spec},
        "text": {"spec": json.dumps(spec)},
        "fields": spec,
    }
    outcome = await pipe.outcome(**whole[form])
    assert outcome.body["result"] == "x!"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "steps cannot be empty"),
        ({"spec": {}}, "steps cannot be empty"),
        ({"spec": ""}, "spec must not be empty"),
        ({"spec": "  "}, "spec must not be empty"),
        ({"spec": "{"}, "spec is not valid JSON, at line 1 column 1"),
        ({"spec": '{"steps": NaN}'}, "spec is not valid JSON, at line 1 column 11"),
        ({"spec": '"\\ud800"'}, "spec is not valid JSON, at line 1 column 8"),
        ({"spec": "[]"}, "spec must be an object"),
        (
            {"spec": '{"vars": {"n": 99999999999999999999}}'},
            "the pipeline must be plain JSON: Unicode text, 64-bit integers, at most 254 nested levels",
        ),
        ({"spec": "[" * 65 + "]" * 65}, "the request body nests deeper than 64 levels"),
        ({"spec": {"steps": []}, "steps": []}, "pass either spec or steps, not both"),
        ({"steps": [{"id": "a", "tool": "mcp_pipe"}]}, "mcp_pipe cannot invoke itself"),
        ({"steps": [echo("a")] * 2}, "duplicate step id: a"),
    ],
)
async def test_what_is_no_pipeline_runs_nothing(
    pipe: Pipe, arguments: dict[str, Any], message: str
) -> None:
    outcome = await pipe.outcome(**arguments)
    assert outcome.body["message"] == message
    assert (outcome.body["code"], outcome.body["retryable"]) == ("INVALID_ARGUMENT", False)
    assert [record.tool for record in pipe.records] == ["mcp_pipe"]


async def test_a_spec_is_no_larger_and_no_deeper_than_a_request(piping: Piping) -> None:
    pipe = piping(limits=LimitsOptions(request_bytes_max=2000, json_depth_max=10))
    deep: Any = []
    for _ in range(9):
        deep = [deep]
    for spec in (
        {"steps": [echo("a")], "return": deep},
        {"steps": [echo("a")], "vars": {"v": "x" * 2000}},
    ):
        for form in (spec, json.dumps(spec)):
            assert (await pipe.outcome(spec=form)).body["code"] in (
                "PAYLOAD_TOO_LARGE",
                "INVALID_ARGUMENT",
            )
    assert {record.tool for record in pipe.records} == {"mcp_pipe"}


async def test_values_keep_their_type_where_they_are_referred_to(pipe: Pipe) -> None:
    parts = [{"title": "t", "tags": ["x", 1]}]
    body = await pipe(
        echo("a", "one", parts=parts, items=[1, None, {"deep": [True]}]),
        echo("b", "${steps.a.structured.parts}", items={"$ref": "steps.a.structured.items"}),
        echo(
            "c",
            "${last.structured.items.2.deep.0} ${vars.none}",
            parts={"$ref": "steps.a.structured.parts"},
        ),
        vars={"none": None},
        **{
            "return": {
                "text": "${last.structured.text}",
                "all": [{"$ref": "steps.b.structured.items"}],
            }
        },
    )
    assert json.loads(body["steps"]["b"]["structured"]["text"]) == parts
    assert body["steps"]["c"]["structured"]["parts"] == parts
    assert body["result"] == {"text": "true ", "all": [[1, None, {"deep": [True]}]]}


async def test_a_return_that_leads_nowhere_says_so_beside_the_steps(pipe: Pipe) -> None:
    body = await pipe(echo("a"), **{"return": {"$ref": "steps.b"}})
    assert body["result"] == {"error": "reference not found: steps.b"}


async def test_the_first_failure_stops_a_pipeline(pipe: Pipe) -> None:
    body = await pipe.fails(echo("a"), {"id": "b", "tool": "refuse"}, echo("c"))
    assert list(body["steps"]) == ["a", "b"]
    assert body["message"] == "somebody else is at it"
    assert (body["code"], body["retryable"], body["retry_after_s"]) == ("RESOURCE_BUSY", True, 0.5)
    failed = body["steps"]["b"]
    assert (failed["ok"], failed["error"], failed["structured"]["code"]) == (
        False,
        "somebody else is at it",
        "RESOURCE_BUSY",
    )
    assert body["result"] == failed


async def test_a_pipeline_may_go_on_after_a_failure_and_is_none_the_better_for_it(
    pipe: Pipe,
) -> None:
    body = await pipe.fails(
        {"id": "a", "tool": "refuse"},
        {"id": "b", "tool": "echo", "args": {"count": "x"}},
        echo("c", "${steps.a.error}: ${steps.b.structured.code}"),
        continue_on_error=True,
        **{"return": "${last.structured.text}"},
    )
    assert body["result"] == "somebody else is at it: INVALID_ARGUMENT"
    assert body["message"] == "somebody else is at it"
    assert [body["steps"][name]["ok"] for name in "abc"] == [False, False, True]


async def test_a_failure_after_a_write_is_not_worth_sending_it_all_again(pipe: Pipe) -> None:
    body = await pipe.fails({"id": "a", "tool": "write"}, {"id": "b", "tool": "refuse"})
    assert (body["code"], body["retryable"]) == ("RESOURCE_BUSY", False)
    assert "already have taken effect" in body["recovery"]


async def test_a_reference_to_nothing_fails_its_step_alone(pipe: Pipe) -> None:
    body = await pipe.fails(echo("a", "${steps.b.text}"), echo("b", "fine"), continue_on_error=True)
    assert body["message"] == "reference not found: steps.b.text"
    assert body["steps"]["b"]["ok"] is True
    assert [record.tool for record in pipe.records] == ["echo", "mcp_pipe"]


async def test_a_pipeline_inside_has_fresh_steps_and_the_same_variables(pipe: Pipe) -> None:
    inner = {"steps": [echo("a", "inner ${vars.v}"), echo("b", "${steps.a.structured.text}!")]}
    body = await pipe(
        echo("a", "outer"),
        {"id": "p", "pipe": inner | {"return": "${last.structured.text}"}},
        echo("b", "${steps.a.structured.text} ${steps.p.result} ${steps.p.steps.a.ok}"),
        vars={"v": "x"},
    )
    record = body["steps"]["p"]
    assert record.keys() == {
        "id",
        "kind",
        "started_at",
        "duration_ms",
        "ok",
        "error",
        "result",
        "steps",
    }
    assert (record["kind"], record["result"], list(record["steps"])) == (
        "pipe",
        "inner x!",
        ["a", "b"],
    )
    assert body["steps"]["b"]["structured"]["text"] == "outer inner x! true"
    for reach in ("${steps.o.text}", "${last.text}"):
        outer = await pipe.fails(echo("o"), {"id": "p", "pipe": {"steps": [echo("a", reach)]}})
        assert outer["message"] == f"reference not found: {reach[2:-1]}"


async def test_the_children_of_a_parallel_step_are_found_below_it(pipe: Pipe) -> None:
    body = await pipe(
        echo("a", "one"),
        {
            "id": "p",
            "parallel": [
                echo("x", "${last.structured.text}"),
                {"id": "y", "pipe": {"steps": [echo("z")]}},
            ],
        },
        echo("b", "${steps.p.children.x.structured.text} ${last.children.y.steps.z.ok}"),
    )
    record = body["steps"]["p"]
    assert record.keys() == {"id", "kind", "started_at", "duration_ms", "ok", "error", "children"}
    assert (record["kind"], list(record["children"])) == ("parallel", ["x", "y"])
    assert body["steps"]["b"]["structured"]["text"] == "one true"


async def test_a_child_that_fails_leaves_the_others_alone_and_fails_the_group(pipe: Pipe) -> None:
    children = [{"id": "x", "tool": "refuse"}, echo("y"), echo("z", "${steps.p.children.y.text}")]
    body = await pipe.fails({"id": "p", "parallel": children}, echo("after"))
    assert list(body["steps"]) == ["p"]
    assert [child["ok"] for child in body["steps"]["p"]["children"].values()] == [
        False,
        True,
        False,
    ]
    assert body["steps"]["p"]["children"]["z"]["error"].startswith("reference not found")
    assert body["message"] == body["steps"]["p"]["error"] == "somebody else is at it"


class Meeting:
    """A tool whose calls wait for each other: it answers once `together` of them are
    there at the same time."""

    def __init__(self, together: int) -> None:
        self.barrier = asyncio.Barrier(together)
        self.running = self.most = 0
        self.all_but_one = asyncio.Event()

    async def __call__(self, _: Scope, arguments: EchoArguments) -> EchoResult:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.barrier.parties - 1:
            self.all_but_one.set()
        await self.barrier.wait()
        self.running -= 1
        return EchoResult(project="p", text=arguments.text, items=[], parts=[])


@pytest.mark.parametrize("together", [2, 8])
async def test_parallel_steps_really_run_together_and_never_more_than_allowed(
    piping: Piping, together: int
) -> None:
    meeting = Meeting(together)
    pipe = piping(tool("meet", meeting), parallel_max=together)
    groups = [
        {
            "id": f"g{group}",
            "parallel": [{"id": str(number), "tool": "meet"} for number in range(4)],
        }
        for group in range(4)
    ]
    body = await pipe({"id": "all", "parallel": groups})
    assert all(group["ok"] for group in body["steps"]["all"]["children"].values())
    assert meeting.most == together


async def wait(*_: Any) -> Any:
    await asyncio.Event().wait()


async def test_a_pipeline_ends_when_its_time_is_over_and_tells_what_was_done(
    piping: Piping,
) -> None:
    pipe = piping(tool("wait", wait), timeout_s=0.05)
    both = [{"id": "x", "tool": "wait"}, echo("y")]
    body = await pipe.fails(
        echo("a"), {"id": "p", "parallel": both}, echo("late"), continue_on_error=True
    )
    assert (body["code"], body["retryable"]) == ("UNAVAILABLE", True)
    assert body["message"] == "the pipeline took longer than 0.05 s"
    children = body["steps"]["p"]["children"]
    assert (children["x"]["error"], children["y"]["ok"]) == (body["message"], True)
    assert body["steps"]["late"]["error"] == body["message"]
    ends = [(record.tool, record.status) for record in pipe.records]
    assert ends == [
        ("echo", "success"),
        ("echo", "success"),
        ("wait", "cancelled"),
        ("mcp_pipe", "error"),
    ]


async def test_a_write_that_was_cut_off_is_not_called_worth_a_retry(piping: Piping) -> None:
    pipe = piping(tool("wait", wait, permission=Permission.WRITE, read_only=False), timeout_s=0.05)
    assert (await pipe.fails({"id": "a", "tool": "wait"}))["retryable"] is False


async def test_a_pipeline_that_is_cancelled_stops_its_steps(piping: Piping) -> None:
    meeting = Meeting(3)
    pipe = piping(tool("meet", meeting))
    steps = [
        {"id": "p", "parallel": [{"id": "x", "tool": "meet"}, {"id": "y", "tool": "meet"}]},
        echo("z"),
    ]
    task = asyncio.create_task(pipe.outcome(steps=steps))
    await meeting.all_but_one.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ends = [(record.tool, record.status) for record in pipe.records]
    assert ends == [("meet", "cancelled"), ("meet", "cancelled"), ("mcp_pipe", "cancelled")]


async def test_every_step_is_a_call_of_its_own_in_the_log_and_the_metrics(
    pipe: Pipe, meter: RecordingMeter
) -> None:
    await pipe.fails(
        echo("a", CANARY, project="p", session_id="s"),
        {"id": "p", "parallel": [{"id": "x", "pipe": {"steps": [echo("y")]}}]},
        {"id": "b", "tool": "refuse"},
    )
    told = [
        (record.tool, record.surface, record.project, record.status, record.code)
        for record in pipe.records
    ]
    assert told == [
        ("echo", "pipe", "p", "success", None),
        ("echo", "pipe", "default", "success", None),
        ("refuse", "pipe", "default", "error", "RESOURCE_BUSY"),
        ("mcp_pipe", "test", "*", "error", "RESOURCE_BUSY"),
    ]
    assert {(record.request_id, record.key_label, record.tenant) for record in pipe.records} == {
        ("r-1", "test", CALLER.tenant)
    }
    assert pipe.records[0].arguments == {
        "project": "p",
        "session_id": "s",
        "text": {"redacted": True, "bytes": len(CANARY)},
    }
    assert meter.total("memsvc_calls_total", tool="echo", status="success") == 2
    assert (
        meter.total("memsvc_calls_total", tool="mcp_pipe", status="error", code="RESOURCE_BUSY")
        == 1
    )


@pytest.mark.parametrize("form", ["object", "text", "fields"])
async def test_nothing_of_a_spec_reaches_the_call_log_but_its_size(pipe: Pipe, form: str) -> None:
    spec = {
        "vars": {CANARY: CANARY},
        "steps": [
            echo(CANARY, CANARY, items=[CANARY]),
            {"id": "b", "tool": CANARY, "args": {CANARY: CANARY}},
        ],
        "return": [CANARY, "${vars." + CANARY + "}"],
    }
    whole: dict[str, Any] = {
        "object": {"spec": spec},
        "text": {"spec": json.dumps(spec)},
        "fields": spec,
    }
    outcome = await pipe.outcome(**whole[form])
    assert outcome.body["message"] == f"unknown tool: {CANARY}"
    assert outcome.body["result"] == [CANARY, CANARY]
    assert [record.tool for record in pipe.records] == ["echo", "unknown", "mcp_pipe"]
    assert CANARY not in repr(pipe.records)
    shapes = pipe.records[-1].arguments
    assert all(shape["redacted"] and shape["bytes"] > 0 for shape in shapes.values())


async def test_a_step_may_do_what_its_caller_may_and_nothing_else(piping: Piping) -> None:
    reader = replace(CALLER, permissions=frozenset({Permission.READ}), projects=frozenset({"mine"}))
    pipe = piping(caller=reader)
    await pipe(echo("a", project="mine"))
    for step, message in (
        (
            {"id": "a", "tool": "write", "args": {"project": "mine"}},
            "this key lacks the write permission",
        ),
        (echo("a", project="yours"), "this key does not have access to this project"),
    ):
        body = await pipe.fails(step)
        assert (body["code"], body["message"]) == ("PERMISSION_DENIED", message)


@pytest.mark.parametrize("name", ["nothing", "hidden", "disabled", "x" * 300])
async def test_a_tool_that_the_caller_does_not_see_is_unknown_to_a_step(
    piping: Piping, name: str
) -> None:
    caller = replace(CALLER, hidden_tools=frozenset({"hidden"}))
    body = await piping(tool("hidden", wait), caller=caller).fails({"id": "a", "tool": name})
    assert (body["code"], body["message"]) == ("NOT_FOUND", f"unknown tool: {name[:128]}")
    assert (
        await piping(caller=replace(CALLER, hidden_tools=frozenset({"mcp_pipe"}))).outcome()
    ).body["message"] == ("Unknown tool: mcp_pipe")


async def test_a_found_tool_can_be_called_but_not_the_pipe_itself(pipe: Pipe) -> None:
    body = await pipe(
        {"id": "find", "tool": "find_tool", "args": {"query": "run several tools in one call"}},
        echo("a", "${last.structured.tools.0.name}"),
    )
    assert body["steps"]["a"]["structured"]["text"] == "mcp_pipe"
    for name in ("${steps.find.structured.tools.0.name}", "${vars.t}", {"$ref": "vars.t"}):
        outcome = await pipe.outcome(steps=[{"id": "a", "tool": name}], vars={"t": "mcp_pipe"})
        assert outcome.error is not None
        assert outcome.body["code"] in ("NOT_FOUND", "INVALID_ARGUMENT")


async def test_a_fault_of_a_tool_is_internal_and_says_nothing(pipe: Pipe) -> None:
    body = await pipe.fails({"id": "a", "tool": "crash", "args": {"text": "x"}})
    assert (body["code"], body["message"]) == ("INTERNAL_ERROR", "internal error")
    assert CANARY not in json.dumps(body)


async def test_a_tool_of_plain_text_gives_its_text_or_its_error(piping: Piping) -> None:
    async def refuse(*_: Any) -> Any:
        raise MemsvcError(Code.NOT_FOUND, "there is no such page")

    async def say(_: Scope, arguments: EchoArguments) -> EchoResult:
        return EchoResult(project="p", text=arguments.text, items=[], parts=[])

    pipe = piping(
        tool("say", say, text_member="text", bare_errors=True),
        tool("deny", refuse, text_member="text", bare_errors=True),
    )
    body = await pipe(
        {"id": "a", "tool": "say", "args": {"text": "two\nlines"}}, echo("b", "${last.text}!")
    )
    assert body["steps"]["b"]["structured"]["text"] == "two\nlines!"
    assert (await pipe.fails({"id": "a", "tool": "deny"}))["steps"]["a"][
        "text"
    ] == "there is no such page"


async def test_text_that_doubles_at_each_step_ends_at_the_size_of_a_request(piping: Piping) -> None:
    pipe = piping(limits=LimitsOptions(request_bytes_max=50_000), result_bytes_max=10**7)
    twice = "${last.structured.text}${last.structured.text}"
    body = await pipe.fails(
        echo("0", "x" * 10), *(echo(str(number), twice) for number in range(1, 50))
    )
    assert body["code"] == "PAYLOAD_TOO_LARGE"
    assert 10 < len(body["steps"]) < 16
    typed = [{"$ref": "last.structured.items"}] * 2
    body = await pipe.fails(
        echo("0", items=["x"]), *(echo(str(number), items=typed) for number in range(1, 50))
    )
    assert body["code"] == "PAYLOAD_TOO_LARGE"


async def test_values_that_nest_deeper_at_each_step_end_at_the_depth_of_a_request(
    pipe: Pipe,
) -> None:
    deeper = [{"$ref": "last.structured.items"}]
    steps = [
        echo("0", items=["x"]),
        *(echo(str(number), items=deeper * 1) for number in range(1, 40)),
    ]
    await pipe(*steps)
    wide = [[[[[{"$ref": "last.structured.items"}]]]]]
    body = await pipe.fails(
        echo("0", items=["x"]), *(echo(str(number), items=wide) for number in range(1, 40))
    )
    assert body["message"] == "the arguments of this step nests deeper than 64 levels"


async def test_what_the_steps_answer_together_is_bounded(piping: Piping) -> None:
    pipe = piping(result_bytes_max=10_000)
    body = await pipe.fails(
        *(echo(str(number), "x" * 1000) for number in range(20)), continue_on_error=True
    )
    kept = [record for record in body["steps"].values() if "text" in record]
    assert len(kept) == 4
    assert len(body["steps"]) == 20
    assert body["code"] == "PAYLOAD_TOO_LARGE"
    assert len(json.dumps(body)) < 2 * 10_000
    alone = await piping(result_bytes_max=10_000)(
        echo("a", "x" * 3000), **{"return": ["${last.text}"] * 3}
    )
    assert alone["result"]["error"].startswith("the result is omitted")


async def test_a_pipeline_of_pipelines_does_not_grow_by_what_each_returns(piping: Piping) -> None:
    pipe = piping(result_bytes_max=20_000)
    spec: Spec = {"steps": [echo("a", "x" * 1000)]}
    for _ in range(5):
        spec = {
            "steps": [{"id": "p", "pipe": spec}],
            "return": [{"$ref": "steps"}, {"$ref": "last"}],
        }
    outcome = await pipe.outcome(spec=spec)
    assert len(outcome.text) < 50_000


NAMES = st.sampled_from(["a", "b", "c", ""])
PATHS = st.sampled_from(
    [
        "last",
        "last.text",
        "steps",
        "steps.a",
        "steps.a.structured.items",
        "steps.b.children.a",
        "vars.v",
        "x",
        "vars.0",
    ]
)
TEXTS = st.text(max_size=5) | PATHS.map(lambda path: f"<${{{path}}}>")
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(-9, 9) | PATHS.map(lambda path: {"$ref": path}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)
ARGS = st.fixed_dictionaries(
    {}, optional={"text": TEXTS, "items": st.lists(VALUES, max_size=3), "count": VALUES}
)
TOOLS = st.sampled_from(["echo", "echo", "write", "refuse", "find_tool", "nothing", "mcp_pipe"])
CALLED = st.fixed_dictionaries({"id": NAMES, "tool": TOOLS}, optional={"args": ARGS | VALUES})


def specs(steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"steps": st.lists(steps, max_size=4, unique_by=lambda step: str(step.get("id")))},
        optional={
            "vars": st.dictionaries(NAMES, VALUES, max_size=2),
            "return": VALUES,
            "continue_on_error": st.booleans(),
        },
    )


STEPS = st.recursive(
    CALLED,
    lambda inner: (
        st.fixed_dictionaries({"id": NAMES, "parallel": st.lists(inner, max_size=4)})
        | st.fixed_dictionaries({"id": NAMES, "pipe": specs(inner)})
    ),
    max_leaves=12,
)


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(spec=specs(STEPS) | VALUES)
async def test_no_spec_is_a_fault_of_ours_or_gets_past_a_limit(piping: Piping, spec: Any) -> None:
    pipe = piping(steps_max=8, depth_max=2, result_bytes_max=5_000)
    outcome = await pipe.outcome(spec=spec if isinstance(spec, dict | str) else {"steps": spec})
    assert outcome.body.get("code") != "INTERNAL_ERROR", outcome.text
    assert outcome.error is None or outcome.body["message"]
    assert len(pipe.records) <= 1 + 8
    assert len(outcome.text) < 5_000 + 8 * 1_000
    json.loads(outcome.text)
