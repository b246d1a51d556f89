"""Prompts: messages that show what tools answer. Getting one is a call of its tool, with all that a call means."""

from collections.abc import Sequence

from mcp_types import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    TextContent,
)
from mcp_types import Prompt as Listed

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Caller
from memsvc.core.tools import Prompt, Tool
from memsvc.gateway.audit import printable
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Context, Who
from memsvc.gateway.mcp.errors import protocol_error
from memsvc.gateway.validation import NAME_CHARS_MAX


class Prompts:
    """The prompts that were published, as each caller may see them: with the tool that they show."""

    def __init__(self, dispatch: Dispatch, who: Who, prompts: Sequence[Prompt]) -> None:
        self._dispatch = dispatch
        self._who = who
        shown = ((prompt, _tool(dispatch, prompt)) for prompt in prompts)
        self.offered = {prompt.name: (prompt, tool) for prompt, tool in shown if tool.name not in dispatch.disabled}

    async def list_prompts(self, context: Context, _: PaginatedRequestParams | None) -> ListPromptsResult:
        """The prompts of the tools that the caller may see."""
        caller = self._who(context).caller
        seen = [_listed(prompt, tool) for prompt, tool in self.offered.values() if self._dispatch.sees(caller, tool)]
        return ListPromptsResult(prompts=seen)

    async def get(self, context: Context, asked: GetPromptRequestParams) -> GetPromptResult:
        """One message of the user, made from what the tool answers to these arguments."""
        asking = self._who(context)
        try:
            prompt, arguments = self._find(asking.caller, asked)
        except MemsvcError as error:
            raise protocol_error(error) from None
        outcome = await self._dispatch.call(
            asking.caller, prompt.tool, arguments, surface=asking.surface, request_id=asking.request_id
        )
        if outcome.error is not None:
            raise protocol_error(outcome.error)
        message = PromptMessage(role="user", content=TextContent(text=prompt.text(outcome.body)))
        return GetPromptResult(description=prompt.description, messages=[message])

    def _find(self, caller: Caller, asked: GetPromptRequestParams) -> tuple[Prompt, dict[str, str]]:
        prompt, tool = self.offered.get(asked.name, (None, None))
        if prompt is None or tool is None or not self._dispatch.sees(caller, tool):
            raise MemsvcError(Code.NOT_FOUND, f"Unknown prompt: {printable(asked.name, NAME_CHARS_MAX)}")
        given = asked.arguments or {}
        for name in given:
            if name not in prompt.arguments:
                raise invalid(f"{printable(name, NAME_CHARS_MAX)}: there is no such argument")
        return prompt, given


def _tool(dispatch: Dispatch, prompt: Prompt) -> Tool:
    tool = dispatch.catalogue.get(prompt.tool)
    if tool is None or not {*prompt.arguments} <= {*tool.arguments.model_fields}:
        raise ValueError(f"the prompt {prompt.name} shows a tool, or names an argument of it, that is not there")
    return tool


def _listed(prompt: Prompt, tool: Tool) -> Listed:
    fields = tool.arguments.model_fields
    return Listed(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(name=name, description=fields[name].description, required=fields[name].is_required())
            for name in prompt.arguments
        ],
    )
