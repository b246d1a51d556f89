"""mcp_pipe: several calls in one, each with the results of earlier ones, all through dispatch."""

from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from memsvc.core.errors import invalid
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission
from memsvc.core.tool_methods import tool
from memsvc.core.tools import ComposedArguments, ToolCalls
from memsvc.core.validation_messages import position
from memsvc.gateway.json_checks import check_json
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.pipe_run import PipeOptions, PipeResult, PipeRun, check_size
from memsvc.gateway.pipeline_spec import PIPE_TOOL, PipeLimits, read_pipeline


class PipeTool:
    """The tool that runs others.

    It can do as much harm as the tools that it calls, and each of those needs its own permission.
    """

    def __init__(self, options: PipeOptions, limits: LimitsOptions, clock: Clock) -> None:
        self._options = options
        self._limits = limits
        self._clock = clock

    @tool(
        PIPE_TOOL,
        title="Run several tools in one call",
        needs=Permission.READ,
        base=ComposedArguments,
        read_only=False,
        over_quota=True,
        idempotent=False,
        destructive=True,
        spans_projects=True,
    )
    async def run(
        self,
        calls: ToolCalls,
        spec: Annotated[
            dict[str, Any] | str | None,
            "the whole pipeline, {vars, steps, return, continue_on_error}, as an object or as JSON"
            " text",
        ] = None,
        vars_: Annotated[
            dict[str, Any] | None, "values that steps refer to as ${vars.name}"
        ] = None,
        steps: Annotated[
            list[dict[str, Any]] | None,
            "each is an id and one of: tool with args; parallel, an array of steps that run at the"
            " same time; pipe, a pipeline of its own with the same vars",
        ] = None,
        returned: Annotated[
            Any,
            Field(alias="return"),
            "what to return, with references in it; without it, the last step's record",
        ] = None,
        continue_on_error: Annotated[bool | None, "run the steps after one that failed"] = None,
    ) -> PipeResult:
        """Run tools one after another or at the same time and return what they came to.

        In args and return, ${steps.ID.structured.field} puts in what an earlier step answered,
        ${last.text} the text of the latest one, ${vars.name} a variable; {"$ref":
        "steps.ID.structured"} puts in the value itself; what ran in parallel or in a pipe is below
        it: ${steps.GROUP.children.ID.text}, ${steps.PIPE.steps.ID.text}. Each step is checked and
        logged as a call of its own. Nothing is undone when a step fails."""
        fields = {
            "vars": vars_,
            "steps": steps,
            "return": returned,
            "continue_on_error": continue_on_error,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        limits = PipeLimits(self._options.steps_max, self._options.depth_max)
        pipeline = read_pipeline(_spec(spec, given, self._limits), limits)
        return await PipeRun(calls, self._options, self._limits, self._clock).run(pipeline)


def _spec(spec: dict[str, Any] | str | None, fields: dict[str, Any], limits: LimitsOptions) -> Any:
    """Return the decoded spec; INVALID_ARGUMENT, PAYLOAD_TOO_LARGE if no request could hold it."""
    decoded: Any = fields if spec is None else spec
    if spec is not None and fields:
        raise invalid(f"give spec or its fields, not both: {', '.join(fields)}")
    if isinstance(spec, str):
        if not spec.strip():
            raise invalid("spec cannot be empty")
        text = spec.encode()
        check_json(text, limits.json_depth_max, limits.json_values_max)
        try:
            decoded = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise invalid(f"spec is not JSON{position(error)}") from None
    check_size(decoded, limits, "the pipeline")
    return decoded
