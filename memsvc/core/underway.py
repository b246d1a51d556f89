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

SpanKind = Literal["request", "call", "job", "transaction", "statement", "model", "embedding", "rerank"]
Noted = str | int | float
Wait = Literal["admission", "pool", "database", "model"]
"""What a call can wait for: admission, a connection, the database, or a model."""


NOTHING_NOTED: Final[Mapping[str, Noted]] = MappingProxyType({})


class Span(Protocol):
    """A part of a trace, with a start and an end."""

    def note(self, **attributes: Noted) -> None:
        """Add attributes from the tracer's closed set of names.

        Never content, never callers' names."""
        ...


class Tracer(Protocol):
    """Maker of traces; kinds, names and attribute names are from closed sets."""

    @property
    def recording(self) -> bool:
        """Return whether a span that starts here would be part of a recorded trace."""
        ...

    def span(
        self,
        kind: SpanKind,
        name: str = "",
        attributes: Mapping[str, Noted] = NOTHING_NOTED,
        *,
        parent: str = "",
        linked: str = "",
    ) -> AbstractContextManager[Span]:
        """Return a span around a block, inside the current one.

        `parent` and `linked` are W3C traceparents: the one to continue where no span of its trace
        is open, and one to link. An invalid traceparent is ignored."""
        ...

    def traceparent(self) -> str:
        """Return the current span as a W3C traceparent; "" where none is recorded."""
        ...


class _NoSpan:
    def note(self, **attributes: Noted) -> None:
        del attributes


_NO_SPAN: Final = nullcontext(_NoSpan())


class Untraced:
    """A `Tracer` that records nothing."""

    recording = False

    def span(
        self,
        kind: SpanKind,
        name: str = "",
        attributes: Mapping[str, Noted] = NOTHING_NOTED,
        *,
        parent: str = "",
        linked: str = "",
    ) -> AbstractContextManager[Span]:
        del kind, name, parent, linked, attributes
        return _NO_SPAN

    def traceparent(self) -> str:
        return ""


UNTRACED: Final = Untraced()


@dataclass(slots=True)
class Underway:
    """A call or a job in progress, with its waiting time by kind, in milliseconds.

    Concurrent waits, as by the steps of a pipeline, count each for itself. The tenant is used for
    fair scheduling of computations only, never for access to data."""

    request_id: str = ""
    tracer: Tracer = UNTRACED
    tenant: bytes = b""
    slice_ends_at: float = inf
    waited_ms: dict[Wait, float] = field(default_factory=dict)
    round_trips: int = 0

    def wait(self, wait: Wait, ms: float) -> None:
        """Add waiting time."""
        self.waited_ms[wait] = self.waited_ms.get(wait, 0.0) + ms

    def worked(self, ms: float, waited_ms: Mapping[Wait, float]) -> None:
        """Count `ms` of the waiting since `waited_ms` as work, because work went on meanwhile."""
        for wait, now_ms in self.waited_ms.items():
            self.waited_ms[wait] = now_ms - min(ms, now_ms - waited_ms.get(wait, 0.0))

    def waiting(self, wait: Wait, kind: SpanKind | None = None, name: str = "", **attributes: Noted) -> "Waiting":
        """Return a context manager around a wait, which is counted, and a span if it has a kind."""
        if kind is None or not self.tracer.recording:
            return Waiting(self, wait, _NO_SPAN)
        return Waiting(self, wait, self.tracer.span(kind, name, attributes))

    def split(self, whole_ms: float) -> dict[str, Noted]:
        """Return where the time went: waiting by its kind, and the rest, which is our own work."""
        waited = {
            f"{wait}_ms": round(self.waited_ms.get(wait, 0.0), 2) for wait in ("admission", "pool", "database", "model")
        }
        rest_ms = round(max(0.0, whole_ms - sum(waited.values())), 2)
        return {**waited, "rest_ms": rest_ms, "round_trips": self.round_trips}


class Waiting:
    """A wait in progress."""

    __slots__ = ("_span", "_started", "_underway", "_wait")

    def __init__(self, underway: Underway, wait: Wait, span: AbstractContextManager[Span]) -> None:
        self._underway = underway
        self._wait = wait
        self._span = span

    def __enter__(self) -> Self:
        self._span.__enter__()
        self._started = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._underway.wait(self._wait, (perf_counter() - self._started) * 1000)
        self._span.__exit__(kind, error, trace)


_UNDERWAY: ContextVar[Underway] = ContextVar("memsvc_underway")


def underway() -> Underway:
    """Return the context of the current call or job, or an unused one where there is none."""
    return _UNDERWAY.get(None) or Underway()


class SliceOverError(Exception):
    """This run of a job used up its time slice.

    Its committed steps stay, the next run continues."""


def step_done() -> None:
    """Mark a step of a job as committed, where it may be interrupted.

    Raises SliceOverError when its time slice is used up, never in a call."""
    if perf_counter() > underway().slice_ends_at:
        raise SliceOverError


@contextmanager
def begun(request_id: str, tracer: Tracer, tenant: bytes = b"", *, slice_s: float = inf) -> Iterator[Underway]:
    """Run a block as a call or a job.

    Its waiting counts for the call that it is a step of as well. A job may be interrupted between
    two steps after `slice_s`."""
    outer = _UNDERWAY.get(None)
    mine = Underway(request_id, tracer, tenant, perf_counter() + slice_s)
    token = _UNDERWAY.set(mine)
    try:
        yield mine
    finally:
        _UNDERWAY.reset(token)
        if outer is not None:
            outer.round_trips += mine.round_trips
            for wait, ms in mine.waited_ms.items():
                outer.wait(wait, ms)
