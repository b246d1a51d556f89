"""Prompts: messages with a tool's answer, or guides to tools.

Each answer is a full call of its tool.
"""

from collections.abc import Mapping, Sequence
from typing import Final

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
from memsvc.core.problems import printable
from memsvc.core.resources import Guide, Prompt
from memsvc.core.scope import Caller
from memsvc.core.tools import Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Context, Who
from memsvc.gateway.mcp.errors import protocol_error
from memsvc.gateway.validation import NAME_CHARS_MAX

ARGUMENT_CHARS_MAX: Final = 512


class Prompts:
    """Published prompts, visible to callers who see the tools in them."""

    def __init__(self, dispatch: Dispatch, who: Who, prompts: Sequence[Prompt], guides: Sequence[Guide]) -> None:
        self._dispatch = dispatch
        self._who = who
        shown = ((prompt, _tool(dispatch, prompt)) for prompt in prompts)
        self.offered = {prompt.name: (prompt, tool) for prompt, tool in shown if tool.name not in dispatch.disabled}
        self.guides = {guide.name: guide for guide in guides if not dispatch.disabled & {*guide.tools}}
        for guide in guides:
            if not {*guide.tools} <= {*dispatch.catalogue.names()}:
                raise ValueError(f"the guide {guide.name} names a tool that is not there")

    async def list_prompts(self, context: Context, _: PaginatedRequestParams | None) -> ListPromptsResult:
        """List the prompts whose tools the caller sees."""
        caller = self._who(context).caller
        guides = [_guide(guide) for guide in self.guides.values() if self._reads(caller, guide)]
        seen = [_listed(prompt, tool) for prompt, tool in self.offered.values() if self._dispatch.sees(caller, tool)]
        return ListPromptsResult(prompts=[*guides, *seen])

    def arguments(self, caller: Caller, name: str) -> Sequence[str]:
        """Return the arguments of a prompt; NOT_FOUND where the caller sees none of this name."""
        guide = self.guides.get(name)
        if guide is not None and self._reads(caller, guide):
            return tuple(guide.arguments)
        prompt, tool = self.offered.get(name, (None, None))
        if prompt is None or tool is None or not self._dispatch.sees(caller, tool):
            raise MemsvcError(Code.NOT_FOUND, f"Unknown prompt: {printable(name, NAME_CHARS_MAX)}")
        return prompt.arguments

    def _reads(self, caller: Caller, guide: Guide) -> bool:
        """Return whether the caller sees all tools of a guide."""
        tools = (self._dispatch.catalogue.get(name) for name in guide.tools)
        return all(tool is not None and self._dispatch.sees(caller, tool) for tool in tools)

    async def get(self, context: Context, asked: GetPromptRequestParams) -> GetPromptResult:
        """Return one user message: a guide, or the tool's answer to these arguments."""
        asking = self._who(context)
        arguments = asked.arguments or {}
        try:
            self._check(asking.caller, asked.name, arguments)
        except MemsvcError as error:
            raise protocol_error(error) from None
        if asked.name in self.guides:
            guide = self.guides[asked.name]
            return _message(guide.description, guide.message(arguments))
        prompt = self.offered[asked.name][0]
        outcome = await self._dispatch.call(
            asking.caller, prompt.tool, arguments, surface=asking.surface, request_id=asking.request_id
        )
        if outcome.error is not None:
            raise protocol_error(outcome.error)
        return _message(prompt.description, prompt.text(outcome.body))

    def _check(self, caller: Caller, name: str, given: Mapping[str, str]) -> None:
        known = self.arguments(caller, name)
        for argument, value in given.items():
            if argument not in known:
                raise invalid(f"{printable(argument, NAME_CHARS_MAX)}: there is no such argument")
            if name in self.guides and len(value) > ARGUMENT_CHARS_MAX:
                raise invalid(f"{argument}: it is longer than {ARGUMENT_CHARS_MAX} characters")


def _message(description: str, text: str) -> GetPromptResult:
    said = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=description, messages=[said])


def _tool(dispatch: Dispatch, prompt: Prompt) -> Tool:
    tool = dispatch.catalogue.get(prompt.tool)
    if tool is None or not {*prompt.arguments} <= {*tool.arguments.model_fields}:
        raise ValueError(f"the prompt {prompt.name} shows a tool, or names an argument of it, that is not there")
    return tool


def _guide(guide: Guide) -> Listed:
    return Listed(
        name=guide.name,
        title=guide.title,
        description=guide.description,
        arguments=[
            PromptArgument(name=name, description=meaning, required=False) for name, meaning in guide.arguments.items()
        ],
    )


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
