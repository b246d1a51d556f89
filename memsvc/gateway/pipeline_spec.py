"""Specifications of pipelines: parsing, limits, and references to earlier results."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import Field

from memsvc.core.errors import invalid, payload_too_large
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.options import Options
from memsvc.core.validation_messages import safe_text

PIPE_TOOL: Final = "mcp_pipe"
ID_CHARS_MAX: Final = 128
NAME_CHARS_IN_ERROR: Final = 128

SPEC_FIELDS: Final = ("vars", "steps", "return", "continue_on_error")
_MODES: Final = ("tool", "pipe", "parallel")
_STEP_FIELDS: Final = ("id", "args", *_MODES)
_REFERENCE: Final = re.compile(r"\$\{([^{}]+)\}")
_INDEX: Final = re.compile(r"[0-9]{1,9}\Z")


class PipeOptions(Options):
    """Limits of mcp_pipe. The arguments of a step have the same size limit as a request."""

    enabled: bool = Field(True, description="whether the tool mcp_pipe is enabled")
    steps_max: int = Field(
        50,
        ge=1,
        le=1000,
        description="maximum number of steps in a pipeline, including nested steps",
    )
    depth_max: int = Field(
        5,
        ge=0,
        le=10,
        description="maximum nesting depth of pipelines and parallel groups",
    )
    parallel_max: int = Field(
        8,
        ge=1,
        le=100,
        description="maximum number of calls of one pipeline that run at once; further calls wait",
    )
    timeout_s: float = Field(60.0, gt=0, le=3600, description="time limit of one pipeline")
    result_bytes_max: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        description="maximum total size of the results of all steps of a pipeline, in bytes; a step"
        " whose result would exceed this total fails",
    )


@frozen
class ToolStep:
    """A call of a tool whose arguments may contain references."""

    id: str
    tool: str
    args: JsonObject


@frozen
class ConcurrentStep:
    """Steps that run at the same time and cannot refer to each other."""

    id: str
    children: tuple["PipelineStep", ...]


@frozen
class PipeStep:
    """A nested pipeline, with its own steps."""

    id: str
    pipe: "Pipeline"


PipelineStep = ToolStep | ConcurrentStep | PipeStep


@frozen
class Pipeline:
    """Steps in order, and the value to return, or None for the record of the last step."""

    variables: JsonObject
    steps: tuple[PipelineStep, ...]
    returned: Any = None
    continue_on_error: bool = False


@dataclass(slots=True)
class PipeValues:
    """Values that references name: `vars`, the records of `steps`, and the `last` record."""

    variables: JsonObject
    steps: dict[str, JsonObject] = field(default_factory=dict)
    last: JsonObject | None = None

    def add(self, record: JsonObject) -> None:
        """Add a step's record for later steps to refer to."""
        self.steps[record["id"]] = record
        self.last = record


def read_pipeline(spec: Any, limits: PipeOptions) -> Pipeline:
    """Parse a pipeline; INVALID_ARGUMENT, before anything is run, if a part is wrong.

    A step has an `id` and exactly one of `tool` with `args`, `parallel`, or `pipe`. A nested
    pipeline inherits the variables of the outer one, and may add to them. It may not contain
    anything that would have no effect."""
    return _SpecParser(limits).pipeline(spec, {}, 0, "spec")


def resolve(value: Any, seen: PipeValues, bytes_max: int) -> Any:
    """Return the value with its references replaced.

    `${path}` within a string becomes text: JSON for a value that is not a string, and nothing for
    null. An object `{"$ref": "path"}` becomes the value itself, whatever its type.

    A path is a list of names and indexes separated by dots, and begins with `vars`, `steps` or
    `last`. Raises INVALID_ARGUMENT if it leads nowhere, and PAYLOAD_TOO_LARGE if the inserted
    values exceed the limit."""
    return _Resolver(seen, bytes_max).value(value)


class _SpecParser:
    """Parser of one spec, which counts its steps."""

    def __init__(self, limits: PipeOptions) -> None:
        self._limits = limits
        self._steps = 0

    def pipeline(self, spec: Any, outer: JsonObject, depth: int, where: str) -> Pipeline:
        _check_members(spec, SPEC_FIELDS, where)
        variables, go_on = spec.get("vars"), spec.get("continue_on_error")
        if not isinstance(variables, dict | None):
            raise invalid(f"{where}.vars must be an object")
        if not isinstance(go_on, bool | None):
            raise invalid(f"{where}.continue_on_error must be true or false")
        variables = outer | (variables or {})
        steps = self._parse_steps(spec.get("steps"), variables, depth, f"{where}.steps")
        return Pipeline(variables, steps, spec.get("return"), bool(go_on))

    def _parse_steps(
        self, steps: Any, variables: JsonObject, depth: int, where: str
    ) -> tuple[PipelineStep, ...]:
        if depth > self._limits.depth_max:
            raise invalid(
                "pipeline nesting too deep",
                recovery=f"nest at most {self._limits.depth_max} levels",
            )
        if not isinstance(steps, list | None):
            raise invalid(f"{where} must be an array")
        if not steps:
            raise invalid("steps cannot be empty")
        self._steps += len(steps)
        if self._steps > self._limits.steps_max:
            raise invalid(
                "pipeline exceeds maximum step limit",
                recovery=f"use at most {self._limits.steps_max} steps",
            )
        read = tuple(
            self._step(step, variables, depth, f"{where}.{number}")
            for number, step in enumerate(steps)
        )
        known: set[str] = set()
        for step in read:
            if step.id in known:
                raise invalid(f"duplicate step id: {safe_text(step.id, NAME_CHARS_IN_ERROR)}")
            known.add(step.id)
        return read

    def _step(self, step: Any, variables: JsonObject, depth: int, where: str) -> PipelineStep:
        _check_members(step, _STEP_FIELDS, where)
        name = step.get("id")
        if name is None or (isinstance(name, str) and not name.strip()):
            raise invalid("step.id cannot be empty")
        if not isinstance(name, str) or len(name) > ID_CHARS_MAX:
            raise invalid(f"{where}.id must be a string of at most {ID_CHARS_MAX} characters")
        modes = {mode: step[mode] for mode in _MODES if step.get(mode) not in (None, "", [])}
        if len(modes) != 1:
            raise invalid("step must have exactly one of tool, pipe, or parallel")
        [(mode, value)] = modes.items()
        if mode == "tool":
            return _tool_step(name, value, step.get("args"), where)
        if step.get("args") is not None:
            raise invalid(f"{where}.args: only a step with a tool has arguments")
        if mode == "parallel":
            return ConcurrentStep(
                name, self._parse_steps(value, variables, depth + 1, f"{where}.parallel")
            )
        return PipeStep(name, self.pipeline(value, variables, depth + 1, f"{where}.pipe"))


def _check_members(value: Any, names: Sequence[str], where: str) -> None:
    """Raise INVALID_ARGUMENT unless a part is an object with only members of these names."""
    if not isinstance(value, Mapping):
        raise invalid(f"{where} must be an object")
    if not value.keys() <= {*names}:
        raise invalid(f"{where} can have only the members {', '.join(names)}")


def _tool_step(name: str, tool: Any, args: Any, where: str) -> ToolStep:
    if not isinstance(tool, str):
        raise invalid(f"{where}.tool must be a string")
    if not isinstance(args, dict | None):
        raise invalid(f"{where}.args must be an object")
    if tool.strip() == PIPE_TOOL:
        raise invalid(
            f"{PIPE_TOOL} cannot invoke itself",
            recovery="to run a pipeline inside a pipeline, use a step with `pipe`",
        )
    return ToolStep(name, tool, args or {})


class _Resolver:
    """Resolver of one value's references, which counts the inserted characters."""

    def __init__(self, seen: PipeValues, bytes_max: int) -> None:
        self._roots = {"vars": seen.variables, "steps": seen.steps} | (
            {} if seen.last is None else {"last": seen.last}
        )
        self._bytes_max = bytes_max
        self._bytes = 0

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return _REFERENCE.sub(self._text, value)
            case {"$ref": path} if len(value) == 1:
                if not isinstance(path, str):
                    raise invalid("$ref must be a string")
                found = self._at(path)
                self._text_of(found)
                return found
            case dict():
                return {name: self.value(inner) for name, inner in value.items()}
            case list():
                return [self.value(inner) for inner in value]
            case _:
                return value

    def _text(self, reference: re.Match[str]) -> str:
        found = self._at(reference[1])
        return "" if found is None else self._text_of(found)

    def _text_of(self, found: Any) -> str:
        """Return a value as text, and count it."""
        text = found if isinstance(found, str) else _json(found).decode()
        self._bytes += len(text)  # characters, of which there are no more than bytes
        if self._bytes > self._bytes_max:
            raise payload_too_large(
                f"the references in this pipeline insert more than {self._bytes_max} bytes"
            )
        return text

    def _at(self, path: str) -> Any:
        found: Any = self._roots
        for segment in path.strip().split("."):
            name = segment.strip()
            if isinstance(found, list) and _INDEX.match(name) and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise invalid(
                    f"reference not found: {safe_text(path.strip(), NAME_CHARS_IN_ERROR)}"
                )
        return found


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise invalid("the referenced value is too deeply nested") from None
