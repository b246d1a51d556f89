"""Completion of arguments of resources and prompts with values of the caller's project."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import CompleteRequestParams, CompleteResult, PromptReference
from mcp_types import Completion as Found

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.resources import Completion
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.core.validation_messages import safe_text
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.errors import protocol_error, unknown_resource
from memsvc.gateway.mcp.prompt_handlers import PromptHandlers
from memsvc.gateway.mcp.resource_handlers import ResourceHandlers
from memsvc.gateway.mcp.sender import Context, SenderOf
from memsvc.gateway.validation import NAME_CHARS_MAX

VALUES_MAX: Final = 100
"""Values of one answer, by the protocol."""
PREFIX_CHARS_MAX: Final = 1024
SURFACE: Final = "completion"


class CompletionHandler:
    """Completes arguments, by their names."""

    def __init__(
        self,
        dispatch: Dispatch,
        sender_of: SenderOf,
        resources: ResourceHandlers,
        prompts: PromptHandlers,
        completions: Mapping[str, Completion],
    ) -> None:
        self._dispatch = dispatch
        self._sender_of = sender_of
        self._resources = resources
        self._prompts = prompts
        self._completions = completions

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        """Return the values with the argument's prefix.

        None for an argument of free text, and none that the caller may not read.
        """
        sender = self._sender_of(context)
        try:
            name, prefix = params.argument.name, params.argument.value
            if name not in self._arguments(sender.caller, params):
                raise invalid(f"{safe_text(name, NAME_CHARS_MAX)}: there is no such argument")
            completion = self._completions.get(name)
            if completion is None or len(prefix) > PREFIX_CHARS_MAX or "\0" in prefix:
                return CompleteResult(completion=Found(values=[], has_more=False))
            others = (params.context.arguments if params.context is not None else None) or {}
            values = await self._values(
                sender.caller, completion, prefix, others, sender.request_id
            )
        except MemsvcError as error:
            raise protocol_error(error) from None
        return CompleteResult(
            completion=Found(values=list(values[:VALUES_MAX]), has_more=len(values) > VALUES_MAX)
        )

    def _arguments(self, caller: Caller, params: CompleteRequestParams) -> Sequence[str]:
        """Return the arguments of a prompt or resource; NOT_FOUND where the caller sees none."""
        if isinstance(params.ref, PromptReference):
            return self._prompts.arguments(caller, params.ref.name)
        for one in self._resources.tool_resources:
            if one.resource.template == params.ref.uri and self._dispatch.is_visible(
                caller, one.tool
            ):
                return one.template.variables
        raise unknown_resource(params.ref.uri)

    async def _values(
        self,
        caller: Caller,
        completion: Completion,
        prefix: str,
        others: Mapping[str, str],
        request_id: str,
    ) -> Sequence[str]:
        async def find(scope: Scope, _: Any) -> Sequence[str]:
            return await completion.find(scope, prefix, others, VALUES_MAX + 1)

        project = others.get("project") or DEFAULT_PROJECT
        try:
            return await self._dispatch.perform(
                caller,
                completion.tool,
                {"project": project},
                find,
                surface=SURFACE,
                request_id=request_id,
            )
        except MemsvcError as error:
            if error.code in (Code.NOT_FOUND, Code.PERMISSION_DENIED):
                return []
            raise
