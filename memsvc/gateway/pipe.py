"""mcp_pipe: several calls in one, each with the results of earlier ones, all through dispatch."""

from typing import Any

from pydantic import Field
from pydantic_core import from_json

from memsvc.core.errors import invalid
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission
from memsvc.core.tools import ComposedArguments, ComposedFunction, Tool, ToolCalls
from memsvc.core.validation_messages import position
from memsvc.gateway.json_checks import check_json
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.pipe_run import PipeOptions, PipeResult, PipeRun, check_size
from memsvc.gateway.pipeline_spec import PIPE_TOOL, PipeLimits, read_pipeline


class PipeArguments(ComposedArguments):
    """Fields of a pipeline, or all of them in `spec`."""

    spec: dict[str, Any] | str | None = Field(
        None,
        description="the whole pipeline, {vars, steps, return, continue_on_error}, as an object"
        " or as JSON text",
    )
    vars: dict[str, Any] | None = Field(
        None, description="values that steps refer to as ${vars.name}"
    )
    steps: list[dict[str, Any]] | None = Field(
        None,
        description="each is an id and one of: tool with args; parallel, an array of steps that"
        " run at the same time; pipe, a pipeline of its own with the same vars",
    )
    returned: Any = Field(
        None,
        alias="return",
        description="what to return, with references in it; without it, the last step's record",
    )
    continue_on_error: bool | None = Field(None, description="run the steps after one that failed")


def pipe_tool(options: PipeOptions, limits: LimitsOptions, clock: Clock) -> Tool:
    """Return the tool.

    It can do as much harm as the tools that it calls, and each of those needs its own permission.
    """

    async def run(calls: ToolCalls, args: PipeArguments) -> PipeResult:
        spec = _spec(args, limits)
        pipeline = read_pipeline(spec, PipeLimits(options.steps_max, options.depth_max))
        return await PipeRun(calls, options, limits, clock).run(pipeline)

    return Tool(
        name=PIPE_TOOL,
        title="Run several tools in one call",
        description=(
            "Run tools one after another or at the same time and return what they came to. In"
            " args and return,"
            " ${steps.ID.structured.field} puts in what an earlier step answered, ${last.text}"
            " the text of the latest"
            ' one, ${vars.name} a variable; {"$ref": "steps.ID.structured"} puts in the value'
            " itself; what ran in"
            " parallel or in a pipe is below it: ${steps.GROUP.children.ID.text},"
            " ${steps.PIPE.steps.ID.text}."
            " Each step is checked and logged as a call of its own. Nothing is undone when a step"
            " fails."
        ),
        arguments=PipeArguments,
        result=PipeResult,
        run=ComposedFunction(run),
        permission=Permission.READ,
        read_only=False,
        over_quota=True,
        idempotent=False,
        destructive=True,
        logged=frozenset({"project"}),
        spans_projects=True,
    )


def _spec(args: PipeArguments, limits: LimitsOptions) -> Any:
    """Return the decoded spec; INVALID_ARGUMENT, PAYLOAD_TOO_LARGE if no request could hold it."""
    pairs = (
        ("vars", args.vars),
        ("steps", args.steps),
        ("return", args.returned),
        ("continue_on_error", args.continue_on_error),
    )
    fields = {name: value for name, value in pairs if value is not None}
    if args.spec is None:
        spec: Any = fields
    elif fields:
        raise invalid(f"give spec or its fields, not both: {', '.join(fields)}")
    elif isinstance(args.spec, str):
        if not args.spec.strip():
            raise invalid("spec cannot be empty")
        text = args.spec.encode()
        check_json(text, limits.json_depth_max, limits.json_values_max)
        try:
            spec = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise invalid(f"spec is not JSON{position(error)}") from None
    else:
        spec = args.spec
    check_size(spec, limits, "the pipeline")
    return spec
