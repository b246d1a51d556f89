"""The tool mcp_pipe: several calls in one, with limits of time and size."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any, Final, NamedTuple

import orjson
from pydantic import Field
from pydantic_core import from_json

from memsvc.core.errors import MemsvcError, invalid, payload_too_large, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission
from memsvc.core.tool_methods import tool
from memsvc.core.tools import CallOutcome, ComposedArguments, Result, ToolCalls
from memsvc.core.validation_messages import position, safe_text
from memsvc.gateway.limits import LimitsOptions, check_json, is_too_deep
from memsvc.gateway.pipeline_spec import (
    NAME_CHARS_IN_ERROR,
    PIPE_TOOL,
    SPEC_FIELDS,
    ConcurrentStep,
    Pipeline,
    PipelineStep,
    PipeOptions,
    PipeStep,
    PipeValues,
    ToolStep,
    read_pipeline,
    resolve,
)

RESULT_DEPTH_MAX: Final = 128
"""Levels of a step's or pipeline's result, so that every JSON parser can read the whole."""


class PipeResult(Result):
    """Result of a pipeline."""

    ok: bool = Field(description="whether every step succeeded")
    error: str = Field(description="message of the first failed step; empty if none failed")
    result: Any = Field(
        description="return value of the pipeline, or {error} if the value cannot be returned"
    )
    steps: dict[str, JsonObject] = Field(
        description="records by step id: {id, kind, started_at, duration_ms, ok, error}; a tool"
        " adds {tool, structured, text}, parallel adds {children}, pipe adds"
        " {result, steps}"
    )


def check_size(value: Any, limits: LimitsOptions, what: str) -> bytes:
    """Return the value as JSON. Raises an error if it is larger than a request may be."""
    try:
        encoded = orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise invalid(
            f"{what} must be plain JSON: Unicode text, 64-bit integers, at most 254 nested levels"
        ) from None
    if len(encoded) > limits.request_bytes_max:
        raise payload_too_large(f"{what} is larger than {limits.request_bytes_max} bytes")
    if is_too_deep(encoded, limits.json_depth_max):
        raise invalid(f"{what} nests deeper than {limits.json_depth_max} levels")
    return encoded


class _StepOutcome(NamedTuple):
    """Outcome of a step: its record, and the error if it failed."""

    record: JsonObject
    error: MemsvcError | None


class PipeRun:
    """A running pipeline with nested ones, which share its time, result bytes and slots."""

    def __init__(
        self, calls: ToolCalls, options: PipeOptions, limits: LimitsOptions, clock: Clock
    ) -> None:
        self._calls = calls
        self._tools = {tool.name: tool for tool in calls.tools()}
        self._limits = limits
        self._clock = clock
        self._timeout_s = options.timeout_s
        self._deadline = asyncio.get_running_loop().time() + options.timeout_s
        self._slots = asyncio.Semaphore(options.parallel_max)
        self._bytes_max = self._bytes_left = options.result_bytes_max
        self._has_written = False
        self._done = self._expected = 0

    async def run(self, pipeline: Pipeline) -> PipeResult:
        """Run the pipeline and return its result.

        If a step fails, the error of the first failed step is raised, with all records in its
        details."""
        values = PipeValues(pipeline.variables)
        self._expected = _calls(pipeline.steps)
        error = await self._steps(pipeline, values)
        result = self._returned(pipeline, values)
        if error is None:
            return PipeResult(ok=True, error="", result=result, steps=values.steps)
        details = {"ok": False, "error": error.message, "result": result, "steps": values.steps}
        recovery = error.recovery
        # sending everything again would repeat what was done
        if error.retryable and self._has_written:
            details["retryable"] = False
            recovery = "some steps may already have taken effect; send only the steps that have not"
        raise MemsvcError(
            error.code,
            error.message,
            recovery=recovery,
            retry_after_s=error.retry_after_s,
            details=details,
        )

    async def _steps(self, pipeline: Pipeline, seen: PipeValues) -> MemsvcError | None:
        """Run the steps one after another; return the first error."""
        first = None
        for step in pipeline.steps:
            outcome = await self._step(step, seen)
            seen.add(outcome.record)
            first = first or outcome.error
            if outcome.error is not None and not pipeline.continue_on_error:
                break
        return first

    async def _step(self, step: PipelineStep, seen: PipeValues) -> _StepOutcome:
        match step:
            case ToolStep():
                return await self._tool(step, seen)
            case ConcurrentStep():
                return await self._parallel(step, seen)
            case PipeStep():
                return await self._pipe(step, seen)

    async def _tool(self, step: ToolStep, seen: PipeValues) -> _StepOutcome:
        async with self._slots:
            timer = _StepTimer(self._clock, step.id, "tool", {"tool": step.tool})
            try:
                outcome = await self._call(step, seen)
            except MemsvcError as refused:
                return timer.finish(refused)
            finally:
                self._done += 1
                self._calls.progress.report(self._done, self._expected, "steps")
        tool = self._tools.get(step.tool)
        error, text = outcome.error, outcome.text if tool is None else tool.text_of(outcome)
        try:
            self._keep(orjson.dumps(outcome.body), len(orjson.dumps(text)))
        except MemsvcError as too_large:
            return timer.finish(error or too_large)
        return timer.finish(error, structured=outcome.body, text=text)

    async def _call(self, step: ToolStep, seen: PipeValues) -> CallOutcome:
        """Return the tool's outcome; raise the errors of its arguments and of the deadline."""
        if asyncio.get_running_loop().time() >= self._deadline:
            raise self._late()
        writes = step.tool in self._tools and not self._tools[step.tool].read_only
        resolved = resolve(step.args, seen, self._limits.request_bytes_max)
        # a copy, so that a tool cannot modify the records
        arguments = orjson.loads(check_size(resolved, self._limits, "the arguments of this step"))
        try:
            async with asyncio.timeout_at(self._deadline):
                outcome = await self._calls.call(step.tool, arguments)
        except TimeoutError:
            self._has_written = self._has_written or writes  # it may have finished
            raise self._late() from None
        self._has_written = self._has_written or (writes and outcome.error is None)
        if step.tool in self._tools or outcome.error is None:
            return outcome
        body = outcome.body | {
            "message": f"unknown tool: {safe_text(step.tool, NAME_CHARS_IN_ERROR)}"
        }
        named = MemsvcError(outcome.error.code, body["message"], recovery=outcome.error.recovery)
        return CallOutcome(body, orjson.dumps(body).decode(), named)

    def _late(self) -> MemsvcError:
        return unavailable(f"the pipeline took longer than {self._timeout_s:g} s")

    async def _parallel(self, step: ConcurrentStep, seen: PipeValues) -> _StepOutcome:
        timer = _StepTimer(self._clock, step.id, "parallel")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._step(child, seen)) for child in step.children]
        records, errors = zip(*(task.result() for task in tasks), strict=True)
        return timer.finish(
            next(filter(None, errors), None), children={record["id"]: record for record in records}
        )

    async def _pipe(self, step: PipeStep, seen: PipeValues) -> _StepOutcome:
        del seen  # a nested pipeline sees only its own steps
        timer = _StepTimer(self._clock, step.id, "pipe")
        inner = PipeValues(step.pipe.variables)
        error = await self._steps(step.pipe, inner)
        return timer.finish(error, result=self._returned(step.pipe, inner), steps=inner.steps)

    def _returned(self, pipeline: Pipeline, seen: PipeValues) -> Any:
        """Return the pipeline's value; {error} for a broken reference or if it is too large."""
        try:
            reference = {"$ref": "last"} if pipeline.returned is None else pipeline.returned
            result = resolve(reference, seen, self._bytes_max)
            self._keep(_json(result))
        except MemsvcError as error:
            return {"error": error.message}
        return result

    def _keep(self, encoded: bytes, extra_bytes: int = 0) -> None:
        """Take capacity for a result, and for what is sent beside it."""
        if is_too_deep(encoded, RESULT_DEPTH_MAX):
            raise _too_deep()
        if len(encoded) + extra_bytes > self._bytes_left:
            raise payload_too_large(
                "the result is omitted: all results of this pipeline together would exceed"
                f" {self._bytes_max} bytes"
            )
        self._bytes_left -= len(encoded) + extra_bytes


def _calls(steps: Sequence[PipelineStep]) -> int:
    """Return the number of tool calls in these steps."""
    inner = [
        step.pipe.steps if isinstance(step, PipeStep) else step.children
        for step in steps
        if not isinstance(step, ToolStep)
    ]
    return len(steps) - len(inner) + sum(map(_calls, inner))


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise _too_deep() from None


def _too_deep() -> MemsvcError:
    return payload_too_large(
        f"the result is omitted: it nests deeper than {RESULT_DEPTH_MAX} levels"
    )


class _StepTimer:
    """A step in progress."""

    def __init__(self, clock: Clock, name: str, kind: str, more: JsonObject | None = None) -> None:
        started_at = clock.now().isoformat().replace("+00:00", "Z")
        self._record = {"id": name, "kind": kind} | (more or {}) | {"started_at": started_at}
        self._started = perf_counter()

    def finish(self, error: MemsvcError | None, **fields: Any) -> _StepOutcome:
        """Return the outcome of the step, which has ended now."""
        duration_ms = round((perf_counter() - self._started) * 1000, 3)
        message = "" if error is None else error.message
        ended = {"duration_ms": duration_ms, "ok": error is None, "error": message}
        return _StepOutcome(self._record | ended | fields, error)


def _tool_steps(args: Any) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield the tools that a spec names, with their arguments unless these have references."""
    spec = args.spec
    if isinstance(spec, str):
        try:
            spec = from_json(spec)
        except ValueError:
            return
    pending: list[Any] = [spec, args.steps]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += [part.get(name) for name in ("steps", "parallel", "pipe")]
            if isinstance(part.get("tool"), str):
                step_args = part.get("args") or {}
                yield part["tool"].strip(), None if "$" in str(step_args) else step_args


@frozen
class PipeTool:
    """The tool that runs others.

    It can do as much harm as the tools that it calls, and each of those needs its own permission.
    """

    options: PipeOptions
    limits: LimitsOptions
    clock: Clock

    @tool(
        PIPE_TOOL,
        "Run several tools in one call",
        Permission.READ,
        toolset="agent",
        for_hosts=True,
        base=ComposedArguments,
        read_only=False,
        over_quota=True,
        idempotent=False,
        destructive=True,
        steps=_tool_steps,
        spans_projects=True,
    )
    async def run(
        self,
        calls: ToolCalls,
        spec: Annotated[
            JsonObject | str | None,
            "the whole pipeline: {vars, steps, return, continue_on_error}, or the same as"
            " JSON text",
        ] = None,
        vars_: Annotated[JsonObject | None, "values for ${vars.name}"] = None,
        steps: Annotated[
            list[JsonObject] | None,
            "each has an id and one of: tool (with args), parallel (steps to run at once),"
            " pipe (a pipeline with the same vars)",
        ] = None,
        returned: Annotated[
            Any,
            Field(alias="return"),
            "value to return; default: the last step's record",
        ] = None,
        continue_on_error: Annotated[bool | None, "continue after failures"] = None,
    ) -> PipeResult:
        """Call this to run several tools, listed or not, in sequence or in parallel.

        In args and return, ${steps.ID.structured.field}, ${last.text} and ${vars.name} insert text;
        {"$ref": "steps.ID.structured"} inserts a value. Steps in parallel:
        ${steps.GROUP.children.ID.text}; in a pipe: ${steps.PIPE.steps.ID.text}. A failure
        does not undo earlier steps."""
        values = (vars_, steps, returned, continue_on_error)
        fields = zip(SPEC_FIELDS, values, strict=True)
        given = {name: value for name, value in fields if value is not None}
        pipeline = read_pipeline(_spec(spec, given, self.limits), self.options)
        return await PipeRun(calls, self.options, self.limits, self.clock).run(pipeline)


def _spec(spec: JsonObject | str | None, fields: JsonObject, limits: LimitsOptions) -> Any:
    """Return the decoded spec; INVALID_ARGUMENT, PAYLOAD_TOO_LARGE if no request could hold it."""
    decoded: Any = fields if spec is None else spec
    if spec is not None and fields:
        raise invalid(f"pass either spec or {', '.join(fields)}, not both")
    if isinstance(spec, str):
        if not spec.strip():
            raise invalid("spec must not be empty")
        text = spec.encode()
        check_json(text, limits.json_depth_max, limits.json_values_max)
        try:
            decoded = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise invalid(f"spec is not valid JSON{position(error)}") from None
    check_size(decoded, limits, "the pipeline")
    return decoded
