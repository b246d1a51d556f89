"""Dispatch of tool calls for every surface: find, validate, permit, run, map errors, log, count."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import orjson
import structlog

from memsvc.core.errors import Code, LacksPermissionError, MemsvcError
from memsvc.core.ports import Clock, Meter
from memsvc.core.problems import did_you_mean, printable
from memsvc.core.progress import SILENT, Progress
from memsvc.core.scope import ALL_PROJECTS, Caller, Scope
from memsvc.core.tools import Arguments, ByCaller, Calls, Composed, Outcome, Reporting, Tool
from memsvc.core.underway import UNTRACED, Tracer, begun
from memsvc.gateway.accounts import Accounts, Call, Raw
from memsvc.gateway.admission import Admission
from memsvc.gateway.audit import CallLog
from memsvc.gateway.catalogue import Catalogue
from memsvc.gateway.metrics import UNKNOWN_TOOL
from memsvc.gateway.rates import RefusedError
from memsvc.gateway.stored import StoredQuota
from memsvc.gateway.validation import NAME_CHARS_MAX, named_project, validated

log = structlog.get_logger("memsvc.calls")

STEP_SURFACE = "pipe"
"""Surface of calls that a tool makes for its caller."""

_Done = TypeVar("_Done")


class Dispatch:
    """Runs calls. No exception of a tool escapes it but cancellation."""

    def __init__(  # noqa: PLR0913 - one name a part, most of them by keyword
        self,
        catalogue: Catalogue,
        call_log: CallLog,
        meter: Meter,
        clock: Clock,
        disabled: frozenset[str] = frozenset(),
        *,
        admission: Admission | None = None,
        tracer: Tracer = UNTRACED,
        slow_ms: int = 0,
        quota: StoredQuota | None = None,
    ) -> None:
        """Set the limits: none on calls without `admission`, none on storage without `quota`.

        Calls that take longer than `slow_ms` are logged as slow, unless that is 0.
        """
        self.catalogue = catalogue
        self.disabled = disabled
        self.admission = admission
        self.quota = quota
        self._tracer = tracer
        self._accounts = Accounts(call_log, meter, clock, slow_ms)
        self.call_log = call_log

    def tools_for(self, caller: Caller) -> list[Tool]:
        """Return the tools visible to this caller."""
        return [tool for tool in self.catalogue if self.sees(caller, tool)]

    def calls(self, caller: Caller, *, surface: str, request_id: str) -> Calls:
        """Return the tools as a caller may use them, for code that makes several calls for it."""
        return _Further(self, caller, request_id, surface=surface)

    def sees(self, caller: Caller, tool: Tool) -> bool:
        """Return False if the tool is disabled or hidden by the caller's key.

        To the caller it then does not exist.
        """
        return tool.name not in self.disabled and tool.name not in caller.hidden_tools

    async def call(
        self,
        caller: Caller,
        name: str,
        arguments: Any,
        *,
        surface: str,
        request_id: str,
        progress: Progress = SILENT,
        traceparent: str = "",
    ) -> Outcome:
        """Run a tool by name.

        Never raises but for cancellation: every other end is an outcome, logged and counted. A slow
        tool reports its `progress`. `traceparent` names the client's trace.
        """

        async def run(tool: Tool, scope: Scope, asked: Arguments) -> Outcome:
            if isinstance(tool.run, Composed):
                result = await tool.run.run(_Further(self, caller, request_id, progress), asked)
            elif isinstance(tool.run, Reporting):
                result = await tool.run.run(scope, asked, progress)
            elif isinstance(tool.run, ByCaller):
                result = await tool.run.run(caller, asked)
            else:
                result = await tool.run(scope, asked)
            body = result.model_dump(mode="json")
            return Outcome(body, orjson.dumps(body).decode())

        call = Call(caller, surface, request_id, arguments, traceparent=traceparent)
        ended = await self._run(call, name, run)
        return _failure(ended) if isinstance(ended, MemsvcError) else ended

    async def perform(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        operation: Callable[[Scope, Any], Awaitable[_Done]],
        *,
        surface: str,
        request_id: str,
        raw: Raw | None = None,
    ) -> _Done:
        """Run an operation that does not fit into JSON as if it were the tool of this name.

        It is found, validated, permitted, logged and counted as a call of it, and gets the same
        parameters as the tool's function. With `raw`, that argument is empty, and the log has the
        number of bytes sent in its place. Raises nothing but MemsvcError.
        """

        async def run(_: Tool, scope: Scope, asked: Arguments) -> _Done:
            return await operation(scope, asked)

        ended = await self._run(Call(caller, surface, request_id, arguments, raw), name, run)
        if isinstance(ended, MemsvcError):
            raise ended
        return ended

    async def _run(
        self, call: Call, name: str, run: Callable[[Tool, Scope, Any], Awaitable[_Done]]
    ) -> _Done | MemsvcError:
        """Return the outcome of a call, or the error that it ends with."""
        known = UNKNOWN_TOOL if self.catalogue.get(name) is None else name
        told = {"surface": call.surface, "request_id": call.request_id}
        with (
            structlog.contextvars.bound_contextvars(request_id=call.request_id),
            self._tracer.span("call", known, told, parent=call.traceparent) as span,
            begun(call.request_id, self._tracer, call.caller.tenant) as call.underway,
        ):
            try:
                return await self._settled(call, name, run)
            finally:
                span.note(status=call.status, **await self._accounts.close(call))

    async def _settled(
        self, call: Call, name: str, run: Callable[[Tool, Scope, Any], Awaitable[_Done]]
    ) -> _Done | MemsvcError:
        try:
            done = await self._ended(call, name, run)
            call.status = "success"
            return done
        except MemsvcError as error:
            return call.failed(error)
        except Exception as error:  # any other exception is our fault, and its text may be content
            log.error("a tool failed", tool=call.tool_name, request_id=call.request_id, exc_info=error)
            return call.failed(MemsvcError(Code.INTERNAL_ERROR, "internal error"))

    async def _ended(self, call: Call, name: str, run: Callable[[Tool, Scope, Any], Awaitable[_Done]]) -> _Done:
        """Return the outcome of a call, once it is admitted and has a slot."""
        if self.admission is None:
            return await run(*self._admitted(call, name))
        begun_at = perf_counter()
        try:
            with self.admission.under_way(call.caller):
                tool, scope, asked = self._admitted(call, name)
                async with self.admission.running(call.caller, tool, uploads=call.raw is not None):
                    return await run(tool, scope, asked)
        except RefusedError:
            await self.admission.delay_refusal(begun_at)
            raise

    def _admitted(self, call: Call, name: str) -> tuple[Tool, Scope, Arguments]:
        """Return a call's tool, its scope and its arguments.

        Every call counts, whatever it requests.
        """
        tool = self.catalogue.get(name)
        if tool is not None and self.sees(call.caller, tool):
            call.tool, call.project = tool, named_project(tool, call.given)
        if self.admission is not None:
            self.admission.count(call.caller, "calls")
        if call.tool is None or tool is None:
            raise self._unknown(call.caller, printable(name, NAME_CHARS_MAX))
        arguments = validated(tool, call.given if call.raw is None else call.given | {call.raw.argument: ""})
        call.project = arguments.project
        if tool.permission not in call.caller.permissions:
            raise LacksPermissionError(tool.permission)
        spans = tool.spans_projects and arguments.project == ALL_PROJECTS
        if not spans and not call.caller.may_touch(arguments.project):
            raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch this project")
        if self.quota is not None:
            self.quota.check(call.caller.tenant, tool)
        return tool, Scope(call.caller.tenant, arguments.project, call.caller.projects), arguments

    def _unknown(self, caller: Caller, name: str) -> MemsvcError:
        """Return the error for an unknown or hidden tool, with the closest visible names."""
        near = did_you_mean(name, (tool.name for tool in self.tools_for(caller)))
        return MemsvcError(Code.NOT_FOUND, f"Unknown tool: {name}", recovery=near or None)


@dataclass(frozen=True, slots=True)
class _Further:
    """`Calls` of one caller: within another call, or of a page."""

    dispatch: Dispatch
    caller: Caller
    request_id: str
    progress: Progress = SILENT
    surface: str = STEP_SURFACE

    def tools(self) -> list[Tool]:
        return self.dispatch.tools_for(self.caller)

    async def call(self, name: str, arguments: Any) -> Outcome:
        return await self.dispatch.call(self.caller, name, arguments, surface=self.surface, request_id=self.request_id)


def _failure(error: MemsvcError) -> Outcome:
    body = error.body()
    return Outcome(body, orjson.dumps(body).decode(), error)
