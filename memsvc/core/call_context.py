"""Context of the current call or job: where its time goes, and its trace.

Unlike everything else this is not passed from function to function: a call or job sets it, and code
that waits for the database or a model reads it. Tasks that start meanwhile belong to it."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import Final, Literal, Protocol, Self

SpanKind = Literal[
    "request", "call", "job", "transaction", "statement", "model", "embedding", "rerank"
]
AttributeValue = str | int | float
Wait = Literal["admission", "pool", "database", "model"]
"""What a call can wait for: admission, a connection, the database, or a model."""


NO_ATTRIBUTES: Final[Mapping[str, AttributeValue]] = MappingProxyType({})


class TraceSpan(Protocol):
    """A part of a trace, with a start and an end."""

    def note(self, **attributes: AttributeValue) -> None:
        """Add attributes from the tracer's closed set of names.

        Never content, never callers' names."""
        ...


class Tracer(Protocol):
    """Maker of traces; kinds, names and attribute names are from closed sets."""

    @property
    def is_enabled(self) -> bool:
        """Return whether a span that starts here would be part of a recorded trace."""
        ...

    def span(
        self,
        kind: SpanKind,
        name: str = "",
        attributes: Mapping[str, AttributeValue] = NO_ATTRIBUTES,
        *,
        parent: str = "",
        linked: str = "",
    ) -> AbstractContextManager[TraceSpan]:
        """Return a span around a block, inside the current one.

        `parent` and `linked` are W3C traceparents: the one to continue where no span of its trace
        is open, and one to link. An invalid traceparent is ignored."""
        ...

    def traceparent(self) -> str:
        """Return the current span as a W3C traceparent; "" where none is recorded."""
        ...


class _NoSpan:
    def note(self, **attributes: AttributeValue) -> None:
        del attributes


_NO_SPAN: Final = nullcontext(_NoSpan())


class NoTracer:
    """A `Tracer` that records nothing."""

    is_enabled = False

    def span(self, *_: object, **__: object) -> AbstractContextManager[TraceSpan]:
        return _NO_SPAN

    def traceparent(self) -> str:
        return ""


NO_TRACER: Final = NoTracer()


@dataclass(slots=True)
class CallContext:
    """A call or a job in progress, with its waiting time by kind, in milliseconds.

    Concurrent waits, as by the steps of a pipeline, count each for itself. The tenant is used for
    fair scheduling of computations only, never for access to data."""

    request_id: str = ""
    tracer: Tracer = NO_TRACER
    tenant: bytes = b""
    deadline: float = inf
    wait_ms: dict[Wait, float] = field(default_factory=dict)
    round_trips: int = 0

    def wait(self, wait: Wait, ms: float) -> None:
        """Add waiting time."""
        self.wait_ms[wait] = self.wait_ms.get(wait, 0.0) + ms

    def add_work(self, ms: float, before_ms: Mapping[Wait, float]) -> None:
        """Count `ms` of the waiting since `waited_ms` as work, because work went on meanwhile."""
        for wait, now_ms in self.wait_ms.items():
            self.wait_ms[wait] = now_ms - min(ms, now_ms - before_ms.get(wait, 0.0))

    def timer(
        self, wait: Wait, kind: SpanKind | None = None, name: str = "", **attributes: AttributeValue
    ) -> "WaitTimer":
        """Return a context manager around a wait, which is counted, and a span if it has a kind."""
        if kind is None or not self.tracer.is_enabled:
            return WaitTimer(self, wait, _NO_SPAN)
        return WaitTimer(self, wait, self.tracer.span(kind, name, attributes))

    def time_by_kind(self, whole_ms: float) -> dict[str, AttributeValue]:
        """Return where the time went: waiting by its kind, and the rest, which is our own work."""
        times = {
            f"{wait}_ms": round(self.wait_ms.get(wait, 0.0), 2)
            for wait in ("admission", "pool", "database", "model")
        }
        rest_ms = round(max(0.0, whole_ms - sum(times.values())), 2)
        return {**times, "rest_ms": rest_ms, "round_trips": self.round_trips}


@dataclass(slots=True)
class WaitTimer:
    """A wait in progress."""

    context: CallContext
    wait: Wait
    span: AbstractContextManager[TraceSpan]
    _started: float = 0.0

    def __enter__(self) -> Self:
        self.span.__enter__()
        self._started = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.context.wait(self.wait, (perf_counter() - self._started) * 1000)
        self.span.__exit__(kind, error, trace)


_CURRENT: ContextVar[CallContext] = ContextVar("memsvc_underway")


def current_call() -> CallContext:
    """Return the context of the current call or job, or an unused one where there is none."""
    return _CURRENT.get(None) or CallContext()


class TimeSliceError(Exception):
    """This run of a job used up its time slice.

    Its committed steps stay, the next run continues."""


def step_done() -> None:
    """Mark a step of a job as committed, where it may be interrupted.

    Raises SliceOverError when its time slice is used up, never in a call."""
    if perf_counter() > current_call().deadline:
        raise TimeSliceError


@contextmanager
def call_scope(
    request_id: str, tracer: Tracer, tenant: bytes = b"", *, slice_s: float = inf
) -> Iterator[CallContext]:
    """Run a block as a call or a job.

    Its waiting counts for the call that it is a step of as well. A job may be interrupted between
    two steps after `slice_s`."""
    outer = _CURRENT.get(None)
    context = CallContext(request_id, tracer, tenant, perf_counter() + slice_s)
    token = _CURRENT.set(context)
    try:
        yield context
    finally:
        _CURRENT.reset(token)
        if outer is not None:
            outer.round_trips += context.round_trips
            for wait, ms in context.wait_ms.items():
                outer.wait(wait, ms)
