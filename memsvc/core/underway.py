"""What is under way in this task, a call or a job: what its time goes to, and the trace that it is part of.

This alone is not handed from function to function: whoever begins a call or a job says so here, and whoever waits for
the database or a model finds here what it waits for. Tasks that are begun meanwhile belong to it.
"""

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
"""What a call can wait for: to be let in, for a connection, for an answer of the database, or of a model."""


NOTHING_NOTED: Final[Mapping[str, Noted]] = MappingProxyType({})


class Span(Protocol):
    """A part of a trace, with a beginning and an end."""

    def note(self, **attributes: Noted) -> None:
        """Add attributes from the tracer's closed set of names; never content, and never names that callers gave."""
        ...


class Tracer(Protocol):
    """Makes traces of what is under way. Kinds and names are from closed sets, as are those of attributes."""

    @property
    def recording(self) -> bool:
        """Whether a span that is begun here would be part of a trace that is kept."""
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
        """A span around a block, inside the one that is open here. `parent` and `linked` are W3C traceparents: the one
        to go on from where no span of its trace is open, and one to point at. What is no traceparent counts as none."""
        ...

    def traceparent(self) -> str:
        """The span that is open here as a W3C traceparent; "" where none is kept."""
        ...


class _NoSpan:
    def note(self, **attributes: Noted) -> None:
        del attributes


_NO_SPAN: Final = nullcontext(_NoSpan())


class Untraced:
    """The `Tracer` that makes none."""

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
    """A call or a job under way, and for how long it has waited for what, in milliseconds. What is waited for at the
    same time, as by the steps of a pipeline, counts each for itself. Its tenant decides whose turn it is to compute,
    and nothing about data."""

    request_id: str = ""
    tracer: Tracer = UNTRACED
    tenant: bytes = b""
    slice_ends_at: float = inf
    waited_ms: dict[Wait, float] = field(default_factory=dict)
    round_trips: int = 0

    def wait(self, wait: Wait, ms: float) -> None:
        """Add to what was waited."""
        self.waited_ms[wait] = self.waited_ms.get(wait, 0.0) + ms

    def worked(self, ms: float, waited_ms: Mapping[Wait, float]) -> None:
        """Count so much of what was waited since (`waited_ms` before) as our own work: it went on meanwhile."""
        for wait, now_ms in self.waited_ms.items():
            self.waited_ms[wait] = now_ms - min(ms, now_ms - waited_ms.get(wait, 0.0))

    def waiting(self, wait: Wait, kind: SpanKind | None = None, name: str = "", **attributes: Noted) -> "Waiting":
        """Around a wait: counted, and a span if it is of a kind."""
        if kind is None or not self.tracer.recording:
            return Waiting(self, wait, _NO_SPAN)
        return Waiting(self, wait, self.tracer.span(kind, name, attributes))

    def split(self, whole_ms: float) -> dict[str, Noted]:
        """Where the time went: what was waited for by its kind, and the rest, which is our own work."""
        waited = {
            f"{wait}_ms": round(self.waited_ms.get(wait, 0.0), 2) for wait in ("admission", "pool", "database", "model")
        }
        rest_ms = round(max(0.0, whole_ms - sum(waited.values())), 2)
        return {**waited, "rest_ms": rest_ms, "round_trips": self.round_trips}


class Waiting:
    """A wait under way."""

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
    """What is under way here; where nothing is, something that nobody looks at."""
    return _UNDERWAY.get(None) or Underway()


class SliceOverError(Exception):
    """This run of a job has lasted as long as one may. What it did is committed; the next run goes on from there."""


def step_done() -> None:
    """Say that a step of a job is committed, so that it may be interrupted here. Raise SliceOverError where its time is
    over, never in a call."""
    if perf_counter() > underway().slice_ends_at:
        raise SliceOverError


@contextmanager
def begun(request_id: str, tracer: Tracer, tenant: bytes = b"", *, slice_s: float = inf) -> Iterator[Underway]:
    """A call or a job, under way for as long as the block. What it waited for counts for the one that it is a step of
    as well. A job may be interrupted between two steps when `slice_s` are over."""
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
