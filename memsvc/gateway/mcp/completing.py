"""Completion of arguments of resources and prompts with values of the caller's project."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import CompleteRequestParams, CompleteResult, PromptReference
from mcp_types import Completion as Found

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.problems import printable
from memsvc.core.resources import Completion
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Context, Who
from memsvc.gateway.mcp.errors import protocol_error, unknown_resource
from memsvc.gateway.mcp.prompts import Prompts
from memsvc.gateway.mcp.resources import Resources
from memsvc.gateway.validation import NAME_CHARS_MAX

VALUES_MAX: Final = 100
"""Values of one answer, by the protocol."""
BEGINNING_CHARS_MAX: Final = 1024
SURFACE: Final = "completion"


class Completing:
    """Completes arguments, by their names."""

    def __init__(
        self,
        dispatch: Dispatch,
        who: Who,
        resources: Resources,
        prompts: Prompts,
        completions: Mapping[str, Completion],
    ) -> None:
        self._dispatch = dispatch
        self._who = who
        self._resources = resources
        self._prompts = prompts
        self._completions = completions

    async def complete(self, context: Context, asked: CompleteRequestParams) -> CompleteResult:
        """Return the values with the argument's prefix.

        None for an argument of free text, and none that the caller may not read.
        """
        asking = self._who(context)
        try:
            name, beginning = asked.argument.name, asked.argument.value
            if name not in self._arguments(asking.caller, asked):
                raise invalid(f"{printable(name, NAME_CHARS_MAX)}: there is no such argument")
            completion = self._completions.get(name)
            if completion is None or len(beginning) > BEGINNING_CHARS_MAX or "\0" in beginning:
                return CompleteResult(completion=Found(values=[], has_more=False))
            others = (asked.context.arguments if asked.context is not None else None) or {}
            values = await self._values(asking.caller, completion, beginning, others, asking.request_id)
        except MemsvcError as error:
            raise protocol_error(error) from None
        return CompleteResult(completion=Found(values=list(values[:VALUES_MAX]), has_more=len(values) > VALUES_MAX))

    def _arguments(self, caller: Caller, asked: CompleteRequestParams) -> Sequence[str]:
        """Return the arguments of a prompt or resource; NOT_FOUND where the caller sees none."""
        if isinstance(asked.ref, PromptReference):
            return self._prompts.arguments(caller, asked.ref.name)
        for one in self._resources.offered:
            if one.resource.template == asked.ref.uri and self._dispatch.sees(caller, one.tool):
                return one.template.variables
        raise unknown_resource(asked.ref.uri)

    async def _values(
        self, caller: Caller, completion: Completion, beginning: str, others: Mapping[str, str], request_id: str
    ) -> Sequence[str]:
        async def find(scope: Scope, _: Any) -> Sequence[str]:
            return await completion.find(scope, beginning, others, VALUES_MAX + 1)

        project = others.get("project") or DEFAULT_PROJECT
        try:
            return await self._dispatch.perform(
                caller, completion.tool, {"project": project}, find, surface=SURFACE, request_id=request_id
            )
        except MemsvcError as error:
            if error.code in (Code.NOT_FOUND, Code.PERMISSION_DENIED):
                return []
            raise
