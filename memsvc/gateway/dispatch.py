"""The one way into a tool, for every surface: find it, validate, permit, run, name the error, log, count."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar
from uuid import uuid4

import orjson
import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import ALL_PROJECTS, Caller, Scope
from memsvc.core.tools import DEFAULT_PROJECT, Arguments, Composed, Outcome, Tool
from memsvc.gateway.audit import CallLog, printable, shape
from memsvc.gateway.catalogue import Catalogue
from memsvc.gateway.metrics import NO_CODE, UNKNOWN_TOOL
from memsvc.gateway.validation import NAME_CHARS_MAX, named_project, validated
from memsvc.store.calls import CallRecord

log = structlog.get_logger("memsvc.calls")

STEP_SURFACE = "pipe"
"""The surface of calls that a tool makes for its caller."""

_Done = TypeVar("_Done")


@dataclass(slots=True)
class Raw:
    """Bytes that come beside the arguments of a call: which argument they stand for, and how many came so far."""

    argument: str
    size_bytes: int = 0


@dataclass(slots=True)
class _Call:
    """One call under way: what is known of it so far, for the log."""

    caller: Caller
    surface: str
    request_id: str
    given: Any
    raw: Raw | None = None
    started: float = field(default_factory=perf_counter)
    tool: Tool | None = None
    project: str = DEFAULT_PROJECT
    status: str = "cancelled"
    code: str = NO_CODE

    @property
    def tool_name(self) -> str:
        return UNKNOWN_TOOL if self.tool is None else self.tool.name

    def failed(self, error: MemsvcError) -> MemsvcError:
        """Note that the call ended with this error."""
        self.status, self.code = "error", error.code.value
        return error

    def shape(self) -> dict[str, Any]:
        """What the call log keeps of the arguments."""
        if self.tool is None:
            return {}
        raw = {} if self.raw is None else {self.raw.argument: {"redacted": True, "bytes": self.raw.size_bytes}}
        return shape(self.given, self.tool) | raw

    def identifier(self, name: str) -> str | None:
        """An identifier among the given arguments, if the tool says that it may be logged."""
        if self.tool is None or name not in self.tool.logged or not isinstance(self.given, Mapping):
            return None
        value = self.given.get(name)
        return printable(value, 128) if isinstance(value, str) else None


class Dispatch:
    """Runs calls. Nothing that a tool raises gets past it but cancellation."""

    def __init__(
        self,
        catalogue: Catalogue,
        call_log: CallLog,
        meter: Meter,
        clock: Clock,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        self.catalogue = catalogue
        self._call_log = call_log
        self._meter = meter
        self._clock = clock
        self.disabled = disabled

    def tools_for(self, caller: Caller) -> list[Tool]:
        """The tools that this caller may see."""
        return [tool for tool in self.catalogue if self.sees(caller, tool)]

    def sees(self, caller: Caller, tool: Tool) -> bool:
        """True unless the tool is switched off or the caller's key hides it: then it is as if it were not there."""
        return tool.name not in self.disabled and tool.name not in caller.hidden_tools

    async def call(self, caller: Caller, name: str, arguments: Any, *, surface: str, request_id: str) -> Outcome:
        """Run a tool by name. Never raises but for cancellation: every other end is an outcome, logged and counted."""

        async def run(tool: Tool, scope: Scope, asked: Arguments) -> Outcome:
            if isinstance(tool.run, Composed):
                result = await tool.run.run(_Further(self, caller, request_id), asked)
            else:
                result = await tool.run(scope, asked)
            body = result.model_dump(mode="json")
            return Outcome(body, orjson.dumps(body).decode())

        ended = await self._run(_Call(caller, surface, request_id, arguments), name, run)
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
        """Run an operation that does not fit into JSON as if it were the tool of this name: found, validated,
        permitted, logged and counted as a call of it. The operation gets what the tool's function would get; with
        `raw`, that argument is empty, and the log tells how many bytes came in its place. Raises nothing but
        MemsvcError."""

        async def run(_: Tool, scope: Scope, asked: Arguments) -> _Done:
            return await operation(scope, asked)

        ended = await self._run(_Call(caller, surface, request_id, arguments, raw), name, run)
        if isinstance(ended, MemsvcError):
            raise ended
        return ended

    async def _run(
        self, call: _Call, name: str, run: Callable[[Tool, Scope, Any], Awaitable[_Done]]
    ) -> _Done | MemsvcError:
        """What a call comes to, or the error that it ends with."""
        try:
            done = await run(*self._admitted(call, name))
            call.status = "success"
            return done
        except MemsvcError as error:
            return call.failed(error)
        except Exception as error:  # the one door: whatever else a tool raises is ours, and its text may be content
            log.error("a tool failed", tool=call.tool_name, request_id=call.request_id, exc_info=error)
            return call.failed(MemsvcError(Code.INTERNAL_ERROR, "internal error"))
        finally:
            self._account(call)

    def _admitted(self, call: _Call, name: str) -> tuple[Tool, Scope, Arguments]:
        """The tool of a call, the scope that it may touch, and its arguments."""
        tool = self.catalogue.get(name)
        if tool is None or not self.sees(call.caller, tool):
            raise MemsvcError(Code.NOT_FOUND, f"Unknown tool: {printable(name, NAME_CHARS_MAX)}")
        call.tool, call.project = tool, named_project(tool, call.given)
        arguments = validated(tool, call.given if call.raw is None else call.given | {call.raw.argument: ""})
        call.project = arguments.project
        if tool.permission not in call.caller.permissions:
            raise MemsvcError(Code.PERMISSION_DENIED, f"this key lacks the {tool.permission.value} permission")
        spans = tool.spans_projects and arguments.project == ALL_PROJECTS
        if not spans and not call.caller.may_touch(arguments.project):
            raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch this project")
        return tool, Scope(call.caller.tenant, arguments.project, call.caller.projects), arguments

    def _account(self, call: _Call) -> None:
        """Log and count a call that has ended, whichever way."""
        duration_ms = (perf_counter() - call.started) * 1000
        tool = call.tool
        self._meter.add("memsvc_calls_total", tool=call.tool_name, status=call.status, code=call.code)
        self._meter.add("memsvc_call_duration_ms", duration_ms, tool=call.tool_name)
        if tool is not None and tool.counter is not None:
            self._meter.add(tool.counter, status=call.status)
        if tool is not None and tool.duration_ms is not None:
            self._meter.add(tool.duration_ms, duration_ms)
        self._call_log.record(
            CallRecord(
                tenant=call.caller.tenant,
                project=call.project,
                call=uuid4(),
                called_at=self._clock.now(),
                surface=call.surface,
                tool=call.tool_name,
                key_label=call.caller.key_label,
                status=call.status,
                code=call.code or None,
                duration_ms=duration_ms,
                arguments=call.shape(),
                request_id=call.request_id,
            )
        )
        log.info(
            "call",
            request_id=call.request_id,
            surface=call.surface,
            tool=call.tool_name,
            project=call.project,
            session_id=call.identifier("session_id"),
            turn_id=call.identifier("turn_id"),
            latency_ms=round(duration_ms, 2),
            status=call.status,
            code=call.code or None,
        )


@dataclass(frozen=True, slots=True)
class _Further:
    """The `Calls` of one call under way."""

    dispatch: Dispatch
    caller: Caller
    request_id: str

    def tools(self) -> list[Tool]:
        return self.dispatch.tools_for(self.caller)

    async def call(self, name: str, arguments: Any) -> Outcome:
        return await self.dispatch.call(self.caller, name, arguments, surface=STEP_SURFACE, request_id=self.request_id)


def _failure(error: MemsvcError) -> Outcome:
    body = error.body()
    return Outcome(body, orjson.dumps(body).decode(), error)
