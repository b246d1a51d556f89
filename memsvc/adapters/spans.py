"""Traces by OpenTelemetry, sent to a collector in the background; importing this takes a while."""

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Final

import anyio
import httpx
import structlog
from anyio import to_thread
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from memsvc.adapters.options import TracingOptions
from memsvc.core import call_context
from memsvc.core.background import wait_for_event
from memsvc.core.call_context import NO_ATTRIBUTES, AttributeValue, TraceSpan
from memsvc.core.ports import Meter

log = structlog.get_logger("memsvc.tracing")

BATCH_SPANS: Final = 512
TEXT_CHARS_MAX: Final = 256
KINDS: Final[dict[call_context.SpanKind, SpanKind]] = {
    "request": SpanKind.SERVER,
    "call": SpanKind.INTERNAL,
    "job": SpanKind.CONSUMER,
    "transaction": SpanKind.INTERNAL,
    "statement": SpanKind.CLIENT,
    "model": SpanKind.CLIENT,
    "embedding": SpanKind.CLIENT,
    "rerank": SpanKind.CLIENT,
}
ATTRIBUTES: Final = {
    "method": "http.request.method",
    "route": "http.route",
    "http_status": "http.response.status_code",
    "failure": "error.type",
    "model": "gen_ai.request.model",
    **{
        name: f"memsvc.{name}"
        for name in (
            "request_id",
            "tool",
            "surface",
            "status",
            "code",
            "job",
            "admission_ms",
            "pool_ms",
            "database_ms",
            "model_ms",
            "rest_ms",
            "round_trips",
            "texts",
        )
    },
}
"""Attributes that spans may carry, by their names here and in a trace."""

_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
)
_EMPTY_CONTEXT: Final = Context()
_TRANSIENT_STATUS: Final = frozenset({408, 429, 502, 503, 504})
_OPEN: ContextVar[Context] = ContextVar("memsvc_open_span", default=_EMPTY_CONTEXT)


class OtelTracer:
    """The `Tracer` of one process.

    A trace is sampled by its id and `sample_ratio`, even if a client samples its own, but never if
    the client says that it does not. Nothing of the environment or of other libraries is used.
    """

    def __init__(self, options: TracingOptions, meter: Meter, version: str) -> None:
        # errors are logged here, once
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._export = _Export(options, meter)
        rate = TraceIdRatioBased(options.sample_ratio)
        provider = TracerProvider(
            sampler=ParentBased(
                root=rate,
                remote_parent_sampled=rate,
                remote_parent_not_sampled=ALWAYS_OFF,
            ),
            resource=Resource({"service.name": options.service_name, "service.version": version}),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=TEXT_CHARS_MAX),
        )
        provider.add_span_processor(self._export)
        self._tracer = provider.get_tracer("memsvc", version)

    @property
    def is_enabled(self) -> bool:
        """Return whether the current span is sampled."""
        return get_current_span(_OPEN.get()).is_recording()

    def traceparent(self) -> str:
        """Return the current span as a W3C traceparent, if it is sampled."""
        current = get_current_span(_OPEN.get()).get_span_context()
        is_active = current.is_valid and current.trace_flags.sampled
        return f"00-{current.trace_id:032x}-{current.span_id:016x}-01" if is_active else ""

    def span(
        self,
        kind: call_context.SpanKind,
        name: str = "",
        attributes: Mapping[str, AttributeValue] = NO_ATTRIBUTES,
        *,
        parent: str = "",
        linked: str = "",
    ) -> AbstractContextManager[TraceSpan]:
        """Open a span around a block; KeyError for an unknown kind or attribute."""
        return self._opened(kind, name, _read(parent), _read(linked), attributes)

    @contextmanager
    def _opened(
        self,
        kind: call_context.SpanKind,
        name: str,
        parent: SpanContext | None,
        linked: SpanContext | None,
        attributes: Mapping[str, AttributeValue],
    ) -> Iterator[TraceSpan]:
        parent_context, links = _OPEN.get(), [Link(linked)] if linked else []
        current = get_current_span(parent_context).get_span_context()
        if parent is not None and parent.trace_id != current.trace_id:
            links += [Link(current)] if current.is_valid else []
            parent_context = set_span_in_context(NonRecordingSpan(parent), _EMPTY_CONTEXT)
        otel_kind = KINDS[kind]
        span = self._tracer.start_span(
            f"{kind} {name}" if name else kind,
            parent_context,
            otel_kind,
            {ATTRIBUTES[key]: value for key, value in attributes.items()},
            links,
            record_exception=False,
            set_status_on_exception=False,
        )
        token = _OPEN.set(set_span_in_context(span, parent_context))
        try:
            yield _SpanAttributes(span)
        except BaseException as error:
            span.set_attribute(ATTRIBUTES["failure"], type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            # a generator may be closed from another task than the one it began in
            with suppress(ValueError):
                _OPEN.reset(token)
            span.end()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send in the background, and once more at the end."""
        async with self._export.running():
            yield


class _SpanAttributes:
    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def note(self, **attributes: AttributeValue) -> None:
        for key, value in attributes.items():
            self._span.set_attribute(ATTRIBUTES[key], value)
        if attributes.get("status") == "error":
            self._span.set_status(Status(StatusCode.ERROR))


def _read(traceparent: str) -> SpanContext | None:
    found = _TRACEPARENT.match(traceparent) if traceparent else None
    if found is None or (len(traceparent) != found.end() and traceparent.startswith("00")):
        return None
    trace, span, flags = (int(part, 16) for part in found.groups())
    return SpanContext(
        trace, span, is_remote=True, trace_flags=TraceFlags(flags & TraceFlags.SAMPLED)
    )


class _Export(SpanProcessor):
    """Queues ended spans up to a limit, and sends them in batches.

    A collector that is down is logged once, and so is its return; its batch is retried like a new
    one. Of its answers only the status is read.
    """

    def __init__(self, options: TracingOptions, meter: Meter) -> None:
        self._options = options
        self._meter = meter
        self._waiting: deque[ReadableSpan] = deque()
        self._batch_ready = asyncio.Event()
        self._stopped = False
        self._is_down = False

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, if there is space."""
        if len(self._waiting) >= self._options.queue_max:
            self._meter.add("memsvc_trace_spans_total", outcome="lost")
            return
        self._waiting.append(span)
        if len(self._waiting) == BATCH_SPANS and not self._is_down:
            self._batch_ready.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send in the background, and the rest at the end, within the time limit of a batch."""
        headers = dict(header.partition("=")[::2] for header in self._options.headers)
        async with httpx.AsyncClient(
            headers={
                **headers,
                "Content-Type": "application/x-protobuf",
                "Accept-Encoding": "identity",
            },
            timeout=None,  # noqa: S113 a whole request has its time limit
            trust_env=False,
        ) as client:
            task = asyncio.create_task(self._send_until_stopped(client))
            try:
                yield
            finally:
                self._stopped = True
                self._batch_ready.set()
                with (
                    anyio.CancelScope(shield=True),
                    anyio.move_on_after(self._options.timeout_ms / 1000),
                ):
                    await asyncio.wait({task})
                task.cancel()
                await asyncio.wait({task})
                if self._waiting:
                    self._meter.add("memsvc_trace_spans_total", len(self._waiting), outcome="lost")
                    log.warning("spans were lost at the end", spans=len(self._waiting))

    async def _send_until_stopped(self, client: httpx.AsyncClient) -> None:
        while not self._stopped:
            await wait_for_event(self._batch_ready, self._options.flush_every_s)
            self._batch_ready.clear()
            await self._flush(client)
        await self._flush(client)

    async def _flush(self, client: httpx.AsyncClient) -> None:
        while batch := [
            self._waiting.popleft() for _ in range(min(BATCH_SPANS, len(self._waiting)))
        ]:
            try:
                reason, transient = await self._send(client, batch)
            except asyncio.CancelledError:
                self._waiting.extendleft(reversed(batch))
                raise
            self._log_status(reason)
            if reason and transient:
                capacity = self._options.queue_max - len(self._waiting)
                self._waiting.extendleft(reversed(batch[:capacity]))
                batch = batch[max(0, capacity) :]
            outcome = "lost" if reason else "sent"
            self._meter.add("memsvc_trace_spans_total", len(batch), outcome=outcome)
            if reason or len(self._waiting) < BATCH_SPANS:
                return

    async def _send(
        self, client: httpx.AsyncClient, batch: Sequence[ReadableSpan]
    ) -> tuple[str, bool]:
        """Send a batch; return why it failed ("" for success), and whether a retry may help."""
        body = await to_thread.run_sync(_encoded, batch)
        try:
            with anyio.fail_after(self._options.timeout_ms / 1000):
                async with client.stream("POST", self._options.url, content=body) as response:
                    status = response.status_code
        except TimeoutError:
            return "too slow", True
        except httpx.HTTPError as error:
            return f"out of reach ({type(error).__name__})", True
        return (
            "" if status in (200, 202) else f"answered with status {status}"
        ), status in _TRANSIENT_STATUS

    def _log_status(self, reason: str) -> None:
        if reason and not self._is_down:
            log.warning("the collector of traces takes none", reason=reason)
        elif not reason and self._is_down:
            log.info("the collector of traces takes them again")
        self._is_down = bool(reason)


def _encoded(batch: Sequence[ReadableSpan]) -> bytes:
    return bytes(encode_spans(batch).SerializeToString())
