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
from memsvc.core.resources import Guide, Prompt
from memsvc.core.scope import Caller
from memsvc.core.tools import Tool
from memsvc.core.validation_messages import safe_text
from memsvc.gateway.dispatch import NAME_CHARS_MAX, Dispatch
from memsvc.gateway.mcp.errors import protocol_error
from memsvc.gateway.mcp.sender import Context, SenderOf

ARGUMENT_CHARS_MAX: Final = 512


class PromptHandlers:
    """Published prompts, visible to callers who see the tools in them."""

    def __init__(
        self,
        dispatch: Dispatch,
        sender_of: SenderOf,
        prompts: Sequence[Prompt],
        guides: Sequence[Guide],
    ) -> None:
        self._dispatch = dispatch
        self._sender_of = sender_of
        with_tools = ((prompt, _tool(dispatch, prompt)) for prompt in prompts)
        self.prompts = {
            prompt.name: (prompt, tool)
            for prompt, tool in with_tools
            if tool.name not in dispatch.disabled
        }
        self.guides = {
            guide.name: guide for guide in guides if not dispatch.disabled & {*guide.tools}
        }
        for guide in guides:
            if not {*guide.tools} <= {*dispatch.catalogue.names()}:
                raise ValueError(f"the guide {guide.name} names a tool that is not there")

    async def list_prompts(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """List the prompts whose tools the caller sees."""
        caller = self._sender_of(context).caller
        guides = [
            _listed_guide(guide)
            for guide in self.guides.values()
            if self._is_visible(caller, guide)
        ]
        seen = [
            _listed_prompt(prompt, tool)
            for prompt, tool in self.prompts.values()
            if self._dispatch.is_visible(caller, tool)
        ]
        return ListPromptsResult(prompts=[*guides, *seen])

    def arguments(self, caller: Caller, name: str) -> Sequence[str]:
        """Return the arguments of a prompt; NOT_FOUND where the caller sees none of this name."""
        guide = self.guides.get(name)
        if guide is not None and self._is_visible(caller, guide):
            return tuple(guide.arguments)
        prompt, tool = self.prompts.get(name, (None, None))
        if prompt is None or tool is None or not self._dispatch.is_visible(caller, tool):
            raise MemsvcError(Code.NOT_FOUND, f"Unknown prompt: {safe_text(name, NAME_CHARS_MAX)}")
        return prompt.arguments

    def _is_visible(self, caller: Caller, guide: Guide) -> bool:
        """Return whether the caller sees all tools of a guide."""
        tools = (self._dispatch.catalogue.get(name) for name in guide.tools)
        return all(tool is not None and self._dispatch.is_visible(caller, tool) for tool in tools)

    async def get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Return one user message: a guide, or the tool's answer to these arguments."""
        sender = self._sender_of(context)
        arguments = params.arguments or {}
        try:
            self._check(sender.caller, params.name, arguments)
        except MemsvcError as error:
            raise protocol_error(error) from None
        if params.name in self.guides:
            guide = self.guides[params.name]
            return _message(guide.description, guide.message(arguments))
        prompt = self.prompts[params.name][0]
        outcome = await self._dispatch.call(
            sender.caller,
            prompt.tool,
            arguments,
            surface=sender.surface,
            request_id=sender.request_id,
        )
        if outcome.error is not None:
            raise protocol_error(outcome.error)
        return _message(prompt.description, prompt.text(outcome.body))

    def _check(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> None:
        known = self.arguments(caller, name)
        for argument, value in arguments.items():
            if argument not in known:
                raise invalid(f"{safe_text(argument, NAME_CHARS_MAX)}: there is no such argument")
            if name in self.guides and len(value) > ARGUMENT_CHARS_MAX:
                raise invalid(f"{argument}: it is longer than {ARGUMENT_CHARS_MAX} characters")


def _message(description: str, text: str) -> GetPromptResult:
    message = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=description, messages=[message])


def _tool(dispatch: Dispatch, prompt: Prompt) -> Tool:
    tool = dispatch.catalogue.get(prompt.tool)
    if tool is None or not {*prompt.arguments} <= {*tool.arguments.model_fields}:
        raise ValueError(
            f"the prompt {prompt.name} shows a tool, or names an argument of it, that is not there"
        )
    return tool


def _listed_guide(guide: Guide) -> Listed:
    return Listed(
        name=guide.name,
        title=guide.title,
        description=guide.description,
        arguments=[
            PromptArgument(name=name, description=description, required=False)
            for name, description in guide.arguments.items()
        ],
    )


def _listed_prompt(prompt: Prompt, tool: Tool) -> Listed:
    fields = tool.arguments.model_fields
    return Listed(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(
                name=name, description=fields[name].description, required=fields[name].is_required()
            )
            for name in prompt.arguments
        ],
    )
