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
        toolset="agent",
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
            "the whole pipeline: {vars, steps, return, continue_on_error}, or that as JSON text",
        ] = None,
        vars_: Annotated[dict[str, Any] | None, "values for ${vars.name}"] = None,
        steps: Annotated[
            list[dict[str, Any]] | None,
            "each has an id and one of: tool and args; parallel: steps to run at once; pipe: a"
            " pipeline with the same vars",
        ] = None,
        returned: Annotated[
            Any,
            Field(alias="return"),
            "what to return; the last step's record if not given",
        ] = None,
        continue_on_error: Annotated[bool | None, "go on after a failure"] = None,
    ) -> PipeResult:
        """Call to run tools, listed or not, in order or at once.

        In args and return, ${steps.ID.structured.field}, ${last.text} and ${vars.name} insert a
        text, {"$ref": "steps.ID.structured"} a value; inside a group:
        ${steps.GROUP.children.ID.text}, inside a pipe: ${steps.PIPE.steps.ID.text}. Nothing is
        undone when a step fails."""
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
