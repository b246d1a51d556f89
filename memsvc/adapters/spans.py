"""Traces by OpenTelemetry, sent to a collector in the background; importing this takes a while."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import anyio
import requests
import structlog
from anyio import to_thread
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memsvc.adapters.options import TracingOptions
from memsvc.core import call_context
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

_TRACE_CONTEXT: Final = TraceContextTextMapPropagator()
_EMPTY_CONTEXT: Final = Context()
_OPEN: ContextVar[Context] = ContextVar("memsvc_open_span", default=_EMPTY_CONTEXT)


class OtelTracer:
    """The `Tracer` of one process.

    A trace is sampled by its id and `sample_ratio`, even if a client samples its own, but never if
    the client says that it does not. Nothing of the environment or of other libraries is used but
    the certificates that OTEL_EXPORTER_OTLP_CERTIFICATE and the variables beside it name.
    """

    def __init__(self, options: TracingOptions, meter: Meter, version: str) -> None:
        # errors are logged here, once
        for name in ("opentelemetry", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._processor = _Processor(options, meter)
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
        provider.add_span_processor(self._processor)
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

    async def stop(self) -> None:
        """Send the remaining spans and stop the thread that sends them."""
        await self._processor.stop()


class _SpanAttributes:
    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def note(self, **attributes: AttributeValue) -> None:
        for key, value in attributes.items():
            self._span.set_attribute(ATTRIBUTES[key], value)
        if attributes.get("status") == "error":
            self._span.set_status(Status(StatusCode.ERROR))


def _read(traceparent: str) -> SpanContext | None:
    if not traceparent:
        return None
    context = _TRACE_CONTEXT.extract({"traceparent": traceparent})
    found = get_current_span(context).get_span_context()
    return found if found.is_valid else None


class _Session(requests.Session):
    """A session without the environment's proxies and headers that reads only the status."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.trust_env = False
        self.stream = True
        self.outcome = ""
        self._own_headers = {"Content-Type": "application/x-protobuf", **headers}

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, and keep in words what came of it."""
        try:
            response = super().request(*args, **kwargs | {"headers": self._own_headers})
        except requests.RequestException as error:
            self.outcome = f"cannot be reached ({type(error).__name__})"
            raise
        self.outcome = f"answered with status {response.status_code}"
        return response


class _Exporter(SpanExporter):
    """The exporter of OTLP over HTTP, with metrics of what it sent and lost.

    A collector that takes nothing is logged once, and so is its return.
    """

    def __init__(self, options: TracingOptions, meter: Meter) -> None:
        self.exported = 0
        self._meter = meter
        self._is_down = False
        self._session = _Session(dict(header.partition("=")[::2] for header in options.headers))
        self._client = OTLPSpanExporter(
            options.url,
            timeout=options.timeout_ms / 1000,
            compression=Compression.NoCompression,
            session=self._session,
        )
        self._close: Callable[[], None] = self._client.shutdown

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch, with retries within its time limit."""
        self.exported += len(spans)
        result: SpanExportResult = self._client.export(spans)
        is_down = result is not SpanExportResult.SUCCESS
        if is_down and not self._is_down:
            log.warning("the trace collector does not accept spans", reason=self._session.outcome)
        elif self._is_down and not is_down:
            log.info("the trace collector accepts spans again")
        self._is_down = is_down
        outcome = "lost" if is_down else "sent"
        self._meter.add("memsvc_trace_spans_total", len(spans), outcome=outcome)
        return result

    def shutdown(self) -> None:
        """Close the connections, and send nothing more."""
        self._close()


class _Processor(BatchSpanProcessor):
    """The batch processor, whose full queue loses its oldest span, with a metric of these."""

    def __init__(self, options: TracingOptions, meter: Meter) -> None:
        self._options = options
        self._meter = meter
        self._exporter = _Exporter(options, meter)
        self._ended = 0
        super().__init__(
            self._exporter,
            max_queue_size=options.queue_max,
            schedule_delay_millis=options.flush_every_s * 1000,
            max_export_batch_size=min(BATCH_SPANS, options.queue_max),
        )

    @property
    def waiting(self) -> int:
        """Return the number of spans in the queue."""
        return self._ended - self._exporter.exported

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span."""
        if self.waiting >= self._options.queue_max:
            self._meter.add("memsvc_trace_spans_total", outcome="lost")
        else:
            self._ended += 1
        super().on_end(span)

    async def stop(self) -> None:
        """Send what waits, within the time limit of a batch."""
        thread = threading.Thread(target=self.shutdown, daemon=True)
        thread.start()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(thread.join, self._options.timeout_ms / 1000)
        if self.waiting:
            self._meter.add("memsvc_trace_spans_total", self.waiting, outcome="lost")
            log.warning("trace spans were lost at shutdown", spans=self.waiting)
