"""What a pipeline may look like, and what its references reach."""

from typing import Any

import pytest

from memsvc.core.errors import MemsvcError
from memsvc.gateway.pipeline_spec import (
    ConcurrentStep,
    PipeOptions,
    PipeStep,
    PipeValues,
    ToolStep,
    read_pipeline,
    resolve,
)

LIMITS = PipeOptions(steps_max=50, depth_max=5)


def step(name: Any = "a", **held: Any) -> dict[str, Any]:
    return {"id": name} | (held or {"tool": "t"})


def within(levels: int, kind: str) -> dict[str, Any]:
    """A spec whose deepest step stands inside so many others."""
    inner = step()
    for _ in range(levels):
        inner = step(pipe={"steps": [inner]}) if kind == "pipe" else step(parallel=[inner])
    return {"steps": [inner]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "steps cannot be empty"),
        ({"steps": []}, "steps cannot be empty"),
        ({"steps": None}, "steps cannot be empty"),
        ({"steps": [step(pipe={})]}, "steps cannot be empty"),
        ({"steps": [step(pipe={"steps": []})]}, "steps cannot be empty"),
        ({"steps": [{"tool": "t"}]}, "step.id cannot be empty"),
        ({"steps": [step("")]}, "step.id cannot be empty"),
        ({"steps": [step("  ")]}, "step.id cannot be empty"),
        ({"steps": [step(None)]}, "step.id cannot be empty"),
        ({"steps": [step(7)]}, "spec.steps.0.id must be a string of at most 128 characters"),
        (
            {"steps": [step("x" * 129)]},
            "spec.steps.0.id must be a string of at most 128 characters",
        ),
        ({"steps": [step(), step()]}, "duplicate step id: a"),
        ({"steps": [step("p", parallel=[step(), step()])]}, "duplicate step id: a"),
        ({"steps": [step(args={})]}, "step must have exactly one of tool, pipe, or parallel"),
        ({"steps": [step(tool="")]}, "step must have exactly one of tool, pipe, or parallel"),
        ({"steps": [step(parallel=[])]}, "step must have exactly one of tool, pipe, or parallel"),
        (
            {"steps": [step(tool="t", pipe={"steps": [step()]})]},
            "step must have exactly one of tool, pipe, or parallel",
        ),
        (
            {"steps": [step(tool="t", parallel=[step()])]},
            "step must have exactly one of tool, pipe, or parallel",
        ),
        ({"steps": [step(tool="mcp_pipe")]}, "mcp_pipe cannot invoke itself"),
        ({"steps": [step(tool=" mcp_pipe ")]}, "mcp_pipe cannot invoke itself"),
        ({"steps": [step(parallel=[step(tool="mcp_pipe")])]}, "mcp_pipe cannot invoke itself"),
        (
            {"steps": [step(str(number)) for number in range(51)]},
            "pipeline exceeds maximum step limit",
        ),
        (
            {"steps": [step("p", parallel=[step(str(number)) for number in range(50)])]},
            "pipeline exceeds maximum step limit",
        ),
        (
            {"steps": [step("p", pipe={"steps": [step(str(number)) for number in range(50)]})]},
            "pipeline exceeds maximum step limit",
        ),
        (within(6, "pipe"), "pipeline nesting too deep"),
        (within(6, "parallel"), "pipeline nesting too deep"),
        ([], "spec must be an object"),
        ({"steps": {}}, "spec.steps must be an array"),
        ({"steps": ["x"]}, "spec.steps.0 must be an object"),
        ({"steps": [step()], "vars": []}, "spec.vars must be an object"),
        (
            {"steps": [step()], "continue_on_error": "yes"},
            "spec.continue_on_error must be true or false",
        ),
        ({"steps": [step(tool=1)]}, "spec.steps.0.tool must be a string"),
        ({"steps": [step(tool="t", args=[])]}, "spec.steps.0.args must be an object"),
        (
            {"steps": [step(pipe={"steps": [step()]}, args={})]},
            "spec.steps.0.args: only a step with a tool has arguments",
        ),
        ({"steps": [step(pipe=[1])]}, "spec.steps.0.pipe must be an object"),
        (
            {"steps": [step(tool="t", secret="x")]},
            "spec.steps.0 can have only the members id, args, tool, pipe, parallel",
        ),
        (
            {"steps": [step()], "secret": 1},
            "spec can have only the members vars, steps, return, continue_on_error",
        ),
    ],
)
def test_what_is_no_pipeline_is_refused_before_anything_runs(spec: Any, message: str) -> None:
    with pytest.raises(MemsvcError) as raised:
        read_pipeline(spec, LIMITS)
    assert (raised.value.message, raised.value.code) == (message, "INVALID_ARGUMENT")


def test_a_pipeline_is_taken_at_its_limits() -> None:
    assert (
        len(read_pipeline({"steps": [step(str(number)) for number in range(50)]}, LIMITS).steps)
        == 50
    )
    for kind in ("pipe", "parallel"):
        read_pipeline(within(5, kind), LIMITS)


def test_a_pipeline_inside_has_the_variables_around_it_and_its_own() -> None:
    inner = {"steps": [step()], "vars": {"b": 3}}
    spec = {
        "vars": {"a": 1, "b": 2},
        "steps": [step("p", pipe=inner), step("q", parallel=[step()])],
        "return": 0,
    }
    read = read_pipeline(spec, LIMITS)
    pipe, parallel = read.steps
    assert isinstance(pipe, PipeStep)
    assert isinstance(parallel, ConcurrentStep)
    assert (read.variables, pipe.pipe.variables, read.returned) == (
        {"a": 1, "b": 2},
        {"a": 1, "b": 3},
        0,
    )
    assert parallel.children == (ToolStep("a", "t", {}),)


SEEN = PipeValues(
    {
        "name": "Ada",
        "n": 7,
        "none": None,
        "yes": True,
        "list": [{"x": [1, "two"]}],
        "0": {"1": "digits"},
    }
)
SEEN.add({"id": "s", "structured": {"count": 2.5, "items": []}, "text": "two and a half"})


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("no reference", "no reference"),
        ("${vars.name}", "Ada"),
        ("I am ${vars.name}, ${ vars.n }.", "I am Ada, 7."),
        ("<${vars.none}>", "<>"),
        ("${vars.yes}", "true"),
        ("${vars.list}", '[{"x":[1,"two"]}]'),
        ("${vars.list.0.x.1}", "two"),
        ("${vars.0.1}", "digits"),
        ("${steps.s.structured.count}", "2.5"),
        ("${last.text}", "two and a half"),
        (
            "${} $vars.name {vars.name} ${vars.${vars.name}}",
            "${} $vars.name {vars.name} ${vars.Ada}",
        ),
        ({"$ref": "vars.n"}, 7),
        ({"$ref": " vars.none "}, None),
        ({"$ref": "vars.list"}, [{"x": [1, "two"]}]),
        ({"$ref": "steps.s.structured"}, {"count": 2.5, "items": []}),
        ({"a": [{"$ref": "vars.n"}, "${vars.n}", 1, None]}, {"a": [7, "7", 1, None]}),
        ({"$ref": "vars.n", "more": 1}, {"$ref": "vars.n", "more": 1}),
        ({"${vars.name}": 1}, {"${vars.name}": 1}),
    ],
)
def test_references_bring_in_texts_and_values(value: Any, resolved: Any) -> None:
    assert resolve(value, SEEN, 1000) == resolved


@pytest.mark.parametrize(
    "path",
    [
        "vars.other",
        "vars.list.1",
        "vars.list.-1",
        "vars.list.x",
        "vars.name.0",
        "other",
        "steps.t",
        "",
        "vars.",
    ],
)
def test_a_reference_to_nothing_is_named(path: str) -> None:
    for value in ({"$ref": path}, f"${{{path}}}" if path else {"$ref": ""}):
        with pytest.raises(MemsvcError) as raised:
            resolve(value, SEEN, 1000)
        assert (raised.value.message, raised.value.code) == (
            f"reference not found: {path}",
            "INVALID_ARGUMENT",
        )


def test_the_first_step_has_no_last_one() -> None:
    with pytest.raises(MemsvcError, match="reference not found: last"):
        resolve("${last}", PipeValues({}), 1000)


def test_what_references_bring_in_is_bounded_while_it_grows() -> None:
    seen = PipeValues({"long": "x" * 1000, "list": ["y"] * 500})
    assert len(resolve("${vars.long}", seen, 1000)) == 1000
    for value in ("${vars.long}" * 1_000_000, [{"$ref": "vars.list"}] * 1_000_000):
        with pytest.raises(MemsvcError) as raised:
            resolve(value, seen, 10_000)
        assert raised.value.code == "PAYLOAD_TOO_LARGE"


def test_text_that_is_full_of_openings_is_read_in_one_go() -> None:
    text = "${" * 200_000 + "${vars.n" * 100_000
    assert resolve(text, SEEN, 10) == text
