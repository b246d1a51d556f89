"""Runs tool calls for every interface: validates, checks permissions, runs and logs them."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, TypeVar

import orjson
import structlog
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memsvc.core.call_context import NO_TRACER, Tracer, call_scope
from memsvc.core.errors import (
    Code,
    InDoubtError,
    MemsvcError,
    MissingPermissionError,
    invalid,
    not_found,
    permission_denied,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import is_at, roots_of
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import ALL_PROJECTS, Caller, Permission, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tools import (
    SILENT,
    Accepted,
    Arguments,
    CallOutcome,
    ProgressCallback,
    Tool,
    ToolCalls,
    ToolContext,
    removes_nothing,
)
from memsvc.core.validation_messages import safe_text, suggest_name, validation_message
from memsvc.gateway.admission import Admission
from memsvc.gateway.call_accounting import Call, CallAccounting, CallLog, Elicit, Raw, shape
from memsvc.gateway.metrics import UNKNOWN_TOOL
from memsvc.gateway.rate_limits import LimitError, StorageQuota
from memsvc.gateway.schemas import input_schema


class Catalogue:
    """The tools by name. Raises ValueError for a duplicate name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name}")
            self._tools[tool.name] = tool
        self.get: Callable[[str], Tool | None] = self._tools.get
        """Returns the tool of a name, or None."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def names(self) -> tuple[str, ...]:
        """Return the names of all tools, in the order in which they were published."""
        return tuple(self._tools)


NAME_CHARS_MAX = 64
ERRORS_MAX = 5
_NOT_OVER_MCP: Final = (
    "call the tool over REST; MCP offers administrative tools only with"
    " settings.mcp.tools.admin.over_mcp"
)
REMOVALS_MAX: Final = 20
"""Removals of one call that its user is shown."""


def validate(tool: Tool, arguments: Any) -> Arguments:
    """Return the validated arguments of a call.

    INVALID_ARGUMENT names the invalid arguments, but not their values."""
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, Mapping):
        raise invalid("arguments must be an object")
    try:
        orjson.dumps(arguments)
    # some parsers accept what neither a database nor a response can hold
    except orjson.JSONEncodeError:
        raise invalid(
            "arguments must be plain JSON: Unicode text, 64-bit integers, at most 254 nested levels"
        ) from None
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True, include_input=False)
        messages = [_message(detail) for detail in details[:ERRORS_MAX]]
        if len(details) > ERRORS_MAX:
            messages.append(f"and {len(details) - ERRORS_MAX} more")
        raise invalid("; ".join(messages), recovery=_recovery(tool, details)) from None


def _recovery(tool: Tool, details: Sequence[ErrorDetails]) -> str | None:
    """Return the names of all arguments, if an unknown one was given."""
    unknown = [
        str(detail["loc"][0])[:NAME_CHARS_MAX]
        for detail in details
        if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1
    ]
    if not unknown:
        return None
    names = list(input_schema(tool)["properties"])
    return f"{suggest_name(unknown[0], names)} The arguments are {', '.join(names)}".strip()


def _message(detail: ErrorDetails) -> str:
    """Return the argument and what is wrong with it, without its value."""
    where = ".".join(safe_text(str(part), NAME_CHARS_MAX) for part in detail["loc"]) or "arguments"
    if detail["type"] == "extra_forbidden":
        return f"unknown argument {where}"
    return f"{where} {validation_message(detail)}"


log = structlog.get_logger("memsvc.calls")
DEFAULT_POLICY: Final = PolicyOptions()

STEP_SURFACE = "pipe"
"""Surface of calls that a tool makes for its caller."""

_Done = TypeVar("_Done")
_Run = Callable[[Tool, Scope, Any], Awaitable[_Done]]


class Dispatch:
    """Runs calls. Its callers never see an exception of a tool, except cancellation."""

    def __init__(  # noqa: PLR0913 - one name a part, most of them by keyword
        self,
        catalogue: Catalogue,
        call_log: CallLog,
        meter: Meter,
        clock: Clock,
        admission: Admission,
        disabled: frozenset[str] = frozenset(),
        *,
        tracer: Tracer = NO_TRACER,
        slow_ms: int = 0,
        quota: StorageQuota | None = None,
        policy: PolicyOptions = DEFAULT_POLICY,
    ) -> None:
        """Set the limits: none on storage without `quota`.

        Calls that take longer than `slow_ms` are logged as slow, unless that is 0.
        """
        self.catalogue = catalogue
        self._readers = [tool for tool in catalogue if tool.permission is Permission.READ]
        self.disabled = disabled
        self.admission = admission
        self.quota = quota
        self._policy = policy
        self._tracer = tracer
        self._accounting = CallAccounting(call_log, meter, clock, slow_ms)
        self.call_log = call_log

    def tools_for(self, caller: Caller) -> list[Tool]:
        """Return the tools visible to this caller."""
        return [tool for tool in self.catalogue if self.is_visible(caller, tool)]

    def offered_to(self, caller: Caller) -> list[Tool]:
        """Return the tools that are listed for this caller: those visible that its key may call."""
        return [tool for tool in self.tools_for(caller) if caller.is_offered(tool.permission)]

    def calls(self, caller: Caller, *, surface: str, request_id: str) -> ToolCalls:
        """Return the tools as a caller may use them, for code that makes several calls for it."""
        return _CallerTools(self, caller, request_id, surface=surface)

    def is_visible(self, caller: Caller, tool: Tool) -> bool:
        """Return False if the tool, or that which it wraps, is disabled or hidden from the caller.

        For the caller, such a tool does not exist."""
        names = {tool.name, tool.wraps}
        return names.isdisjoint(self.disabled | caller.hidden_tools | caller.surface_hidden_tools)

    async def rejection(self, caller: Caller, name: Any) -> MemsvcError | None:
        """Return the error of a call that is refused now, before it is parsed, or None."""
        tool = self.catalogue.get(name) if isinstance(name, str) else None
        return None if tool is None else await self.admission.rejection(caller, tool)

    async def call(
        self,
        caller: Caller,
        name: str,
        arguments: Any,
        *,
        surface: str,
        request_id: str,
        progress: ProgressCallback = SILENT,
        traceparent: str = "",
        elicit: Elicit | None = None,
    ) -> CallOutcome:
        """Run a tool by name.

        It only raises when it is cancelled; every other end is an outcome, which is logged and
        counted. A slow tool reports its `progress`. `traceparent` names the client's trace. Before
        anything is removed for good, `elicit` asks the user, while the call holds nothing that
        other calls need."""

        async def run(tool: Tool, scope: Scope, args: Arguments) -> CallOutcome:
            calls = _CallerTools(self, caller, request_id, progress)
            context = ToolContext(scope, progress, caller, calls, Accepted(call.accepted))
            try:
                body = tool.body(await tool.run(context, args))
            except InDoubtError as error:
                if tool.idempotent:  # done twice it is done once
                    raise unavailable(error.message, retry_after_s=1.0) from error
                raise
            return CallOutcome(body, orjson.dumps(body).decode())

        call = Call(caller, surface, request_id, arguments, traceparent=traceparent, elicit=elicit)
        outcome = await self._run(call, name, run)
        return _failure(outcome) if isinstance(outcome, MemsvcError) else outcome

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

        The tool is found, validated, permitted, logged and counted as in a call of it, and the
        operation gets the same parameters as the tool's function. With `raw`, that argument is
        empty, and the log has the number of bytes sent in its place. Raises only MemsvcError."""

        async def run(_: Tool, scope: Scope, args: Arguments) -> _Done:
            return await operation(scope, args)

        outcome = await self._run(Call(caller, surface, request_id, arguments, raw), name, run)
        if isinstance(outcome, MemsvcError):
            raise outcome
        return outcome

    async def _run(self, call: Call, name: str, run: _Run[_Done]) -> _Done | MemsvcError:
        """Return the outcome of a call, or the error that it ends with."""
        known = UNKNOWN_TOOL if self.catalogue.get(name) is None else name
        attributes = {"surface": call.surface, "request_id": call.request_id}
        with (
            structlog.contextvars.bound_contextvars(request_id=call.request_id),
            self._tracer.span("call", known, attributes, parent=call.traceparent) as span,
            call_scope(call.request_id, self._tracer, call.caller.tenant) as call.context,
        ):
            try:
                done = await self._execute(call, name, run)
                call.status = "success"
                return done
            except MemsvcError as error:
                return call.failed(error)
            except Exception as error:  # it is our fault, and its text may be content
                log.error(
                    "a tool call failed because of an internal error",
                    tool=call.tool_name,
                    request_id=call.request_id,
                    exc_info=error,
                )
                return call.failed(MemsvcError(Code.INTERNAL_ERROR, "internal error"))
            finally:
                span.note(status=call.status, **await self._accounting.close(call))

    async def _execute(self, call: Call, name: str, run: _Run[_Done]) -> _Done:
        """Return the outcome of a call, once it is admitted, its user accepts and it has a slot."""
        started_at = perf_counter()
        try:
            tool, scope, args = self._prepare(call, name)
            if call.elicit is not None and tool.destructive:
                await self._confirm(call, tool, args)
            uploads = call.raw is not None
            async with self.admission.running(call.caller, tool, uploads=uploads):
                if tool.stores:
                    args = await self._with_policy(call, tool, scope, args)
                return await run(tool, scope, args)
        except LimitError:
            await self.admission.delay_rejection(started_at)
            raise

    async def _with_policy(
        self, call: Call, tool: Tool, scope: Scope, args: Arguments
    ) -> Arguments:
        """Return arguments with secrets as the project's policy says; SECRET_REFUSED."""
        sent = call.arguments or {}
        given = {name: sent[name] for name in tool.stores if name in sent}
        if given:
            stored = await self._policy.applied(scope.project, given)
            if stored != given:
                return validate(tool, sent | stored)
        return args

    async def _confirm(self, call: Call, tool: Tool, args: Arguments) -> None:
        """Ask the user about what a call would remove for good."""
        assert call.elicit is not None  # only then there is somebody to ask
        removals = list(self._removals(call.caller, tool, args, call.arguments))
        if removals:
            more = len(removals) - REMOVALS_MAX
            shown = removals[:REMOVALS_MAX] + ([f"and {more} more"] if more > 0 else [])
            await call.elicit("\n".join(shown))
            call.accepted = True

    def _removals(
        self, caller: Caller, tool: Tool, args: Arguments, arguments: Any
    ) -> Iterator[str]:
        """Yield what a call would remove, by its tool and its identifiers; nothing of content."""
        if tool.steps is None:
            if tool.removes is None or tool.removes(args):
                yield _removal(tool, args.project, arguments)
            return
        for name, step_arguments in tool.steps(args):
            step = self.catalogue.get(name)
            if step is None or not step.destructive or step.removes is removes_nothing:
                continue
            if step_arguments is None:
                yield step.title
                continue
            with suppress(MemsvcError):  # such a step will be refused
                given = step.addressed(step_arguments, caller)
                yield from self._removals(caller, step, validate(step, given), given)

    def _prepare(self, call: Call, name: str) -> tuple[Tool, Scope, Arguments]:
        """Return a call's tool, its scope and its arguments.

        Every call counts, whatever it requests.
        """
        caller, rates = call.caller, self.admission.rates
        tool = self.catalogue.get(name)
        if tool is not None and self.is_visible(caller, tool):
            call.tool, call.arguments = tool, tool.addressed(call.arguments, caller)
        refused = rates.over_limit(caller)
        if refused is not None:
            raise refused
        rates.count(caller, "calls")
        if call.tool is None or tool is None:
            raise self._unknown(caller, safe_text(name, NAME_CHARS_MAX))
        arguments = validate(
            tool, call.arguments if call.raw is None else call.arguments | {call.raw.argument: ""}
        )
        project = call.project = arguments.project
        if tool.permission not in caller.permissions:
            raise MissingPermissionError(tool.permission)
        if not (caller.can_access(project) or (project == ALL_PROJECTS and tool.spans_projects)):
            raise permission_denied(
                "this key does not have access to this project",
                recovery="use one of the projects that file_projects lists",
            )
        if hidden := caller.hidden_tools.intersection(tool.parts(arguments)):
            raise permission_denied(
                f"this call does the work of {min(hidden)}, which is hidden from this key"
            )
        user = getattr(arguments, "user_id", caller.user) if caller.user else ""
        if user != caller.user and tool.takes_own("user_id"):
            raise permission_denied(
                "this key is bound to one user, but user_id names a different user",
                recovery="omit user_id, or set it to the user of the key",
            )
        if self.quota is not None:
            self.quota.check(caller.tenant, tool)
        return tool, self._scope(caller, tool, arguments), arguments

    def _scope(self, caller: Caller, tool: Tool, arguments: Arguments) -> Scope:
        """Return the scope of a call.

        NOT_FOUND for a path in files of a memory whose reading tools are all hidden."""
        hidden: frozenset[str] = frozenset()
        if caller.hidden_tools:
            visible = {one.toolset for one in self._readers if self.is_visible(caller, one)}
            hidden = frozenset(one.toolset for one in self._readers) - visible
        if hidden and tool.toolset not in hidden:
            paths = (str(getattr(arguments, name, "")) for name in tool.logged)
            if any(is_at(path, roots_of(hidden)) for path in paths):
                raise not_found("the file or directory does not exist")
        return Scope(caller.tenant, arguments.project, caller.projects, hidden, caller.user)

    def _unknown(self, caller: Caller, name: str) -> MemsvcError:
        """Return the error for an unknown or hidden tool, with the closest visible names.

        None takes the place of a hidden tool: it may do something else. Of one that the key may
        call elsewhere, the error says where."""
        tool, hint = self.catalogue.get(name), ""
        anywhere = replace(caller, surface_hidden_tools=frozenset())
        if tool is None:
            hint = suggest_name(name, (one.name for one in self.tools_for(caller)))
        elif self.is_visible(anywhere, tool) and tool.permission in caller.permissions:
            hint = _NOT_OVER_MCP
        return not_found(f"Unknown tool: {name}", recovery=hint or None)


@frozen
class _CallerTools:
    """`Calls` of one caller: within another call, or of a page."""

    dispatch: Dispatch
    caller: Caller
    request_id: str
    progress: ProgressCallback = SILENT
    surface: str = STEP_SURFACE

    def tools(self) -> list[Tool]:
        return self.dispatch.tools_for(self.caller)

    async def call(self, name: str, arguments: Any) -> CallOutcome:
        return await self.dispatch.call(
            self.caller, name, arguments, surface=self.surface, request_id=self.request_id
        )


def _removal(tool: Tool, project: str, arguments: Any) -> str:
    parts = [tool.title, f"project: {project}"]
    for name, value in (shape(arguments, tool, tool.shown) | {"project": None}).items():
        if isinstance(value, dict):
            sizes = (f"{size} {unit}" for unit, size in value.items() if unit != "redacted")
            parts.append(f"{name}: {', '.join(sizes)}")
        elif value is not None:
            parts.append(f"{name}: {value}")
    return "; ".join(parts)


def _failure(error: MemsvcError) -> CallOutcome:
    body = error.body()
    return CallOutcome(body, orjson.dumps(body).decode(), error)
