"""The published metrics, whose names and labels are fixed.

The series of a tool or job begins with its first use. Nothing is global."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import product
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from pydantic import Field

from memsvc.core.errors import Code
from memsvc.core.frozen import frozen
from memsvc.core.options import Options
from memsvc.core.tools import Job, Tool
from memsvc.gateway.admission import LANES, REJECT_REASONS
from memsvc.gateway.credentials import KEY_REFUSALS
from memsvc.store.backlog import Backlog
from memsvc.store.locks import LockKind
from memsvc.store.usage import IndexSize

STATUSES = ("success", "error", "cancelled")
JOB_STATUSES = ("success", "retried", "failed")
NO_CODE = ""
UNKNOWN_TOOL = "unknown"

_CODES = (NO_CODE, *(code.value for code in Code))
_KINDS = ("document", "question")
_MODEL_CALLS = ("memories", "summary", "extraction", "compaction", "judgement", "whiteboard")
_OUTCOMES = ("kept", "repeated", "unknown", "unfit", "secret", "stale")
_CALL_STATUSES = ("success", "error")
_LOCKS: tuple[str, ...] = get_args(LockKind)
_MS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10000, 30000)
_COUNTS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50)
_JOB_MS = (10, 50, 100, 500, 1000, 5000, 10000, 30000, 60000, 300000, 900000)
_CANDIDATES = (0, 1, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000)


class MetricsOptions(Options):
    """Access to the metrics."""

    token: str = Field(
        "",
        repr=False,
        description="token that /metrics requires as `Authorization: Bearer TOKEN`; empty: /metrics"
        " is open to everyone",
    )


_UNITS = {"_total": "", "_ms": "milliseconds", "_s": "seconds", "_bytes": "bytes"}


@frozen
class MetricDescription:
    """A published metric and its documentation.

    `labels` has all values of each label, or none if these are the existing tools or jobs;
    `buckets` are the upper bounds of a histogram."""

    name: str
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> Literal["counter", "histogram", "gauge"]:
        """Return the type of the metric."""
        if self.name in _GAUGES:
            return "gauge"
        return "histogram" if self.buckets else "counter"

    @property
    def unit(self) -> str:
        """Return the unit of the metric, "" for counts."""
        return next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")


_TOOL = "tool"
_JOB = "job"
_METRICS = (
    MetricDescription(
        "mcp_memory_before_turn_total", "Calls to memory_before_turn", {"status": STATUSES}
    ),
    MetricDescription(
        "mcp_memory_after_turn_total", "Calls to memory_after_turn", {"status": STATUSES}
    ),
    MetricDescription(
        "mcp_memory_after_turn_duration_ms", "Duration of memory_after_turn", {}, _MS
    ),
    MetricDescription(
        "mcp_memory_maintenance_total",
        "Runs of session maintenance, which summarises older context, packs old events"
        " and deletes expired facts",
        {"status": STATUSES},
    ),
    MetricDescription(
        "mcp_memory_compaction_total",
        "Compactions, each of which replaces older context of a session with a summary",
    ),
    MetricDescription("mcp_memory_fact_write_total", "Facts written", {"tier": ("L0", "L1", "L2")}),
    MetricDescription(
        "mcp_memory_shadow_total",
        "Turns for which the client's own memory was compared with the memory of memsvc"
        " (shadow mode)",
        {"result": ("agree", "differ")},
    ),
    MetricDescription(
        "mcp_memory_idempotency_conflicts_total", "Turn ids that were reused with different content"
    ),
    MetricDescription(
        "memsvc_calls_total", "Calls", {_TOOL: (), "status": STATUSES, "code": _CODES}
    ),
    MetricDescription("memsvc_call_duration_ms", "Duration of a call", {_TOOL: ()}, _MS),
    MetricDescription(
        "memsvc_lock_wait_ms",
        "Time that calls waited for an advisory lock of PostgreSQL",
        {"lock": _LOCKS},
        _MS,
    ),
    MetricDescription(
        "memsvc_pool_wait_ms",
        "Time that calls waited for a database connection from the pool",
        {},
        _MS,
    ),
    MetricDescription(
        "memsvc_round_trips", "Round trips to the database per transaction", {}, _COUNTS
    ),
    MetricDescription(
        "memsvc_recall_candidates",
        "Number of entries that one recall or search scored and ordered",
        {},
        _CANDIDATES,
    ),
    MetricDescription(
        "memsvc_job_runs_total",
        "Attempts to run background jobs",
        {_JOB: (), "status": JOB_STATUSES},
    ),
    MetricDescription(
        "memsvc_job_duration_ms",
        "Duration of one attempt to run a background job",
        {_JOB: ()},
        _JOB_MS,
    ),
    MetricDescription(
        "memsvc_embedding_calls_total",
        "Calls to the embedder",
        {"kind": _KINDS, "status": _CALL_STATUSES},
    ),
    MetricDescription(
        "memsvc_embedding_duration_ms", "Duration of embedder calls", {"kind": _KINDS}, _MS
    ),
    MetricDescription(
        "memsvc_embedding_texts_total", "Texts for which the embedder computed vectors"
    ),
    MetricDescription(
        "memsvc_embedding_cached_total", "Questions whose vectors were found in the cache"
    ),
    MetricDescription(
        "memsvc_embedding_failures_total", "Failed calls to the embedder", {"code": _CODES[1:]}
    ),
    MetricDescription(
        "memsvc_model_calls_total",
        "Calls to the language model",
        {"purpose": _MODEL_CALLS, "status": _CALL_STATUSES},
    ),
    MetricDescription(
        "memsvc_model_duration_ms",
        "Duration of calls to the language model",
        {"purpose": _MODEL_CALLS},
        _JOB_MS,
    ),
    MetricDescription(
        "memsvc_model_tokens_total",
        "Tokens read and written by the model",
        {"direction": ("input", "output")},
    ),
    MetricDescription(
        "memsvc_model_refusals_total",
        "Requests that a model endpoint rejected because of the API key or the model name",
    ),
    MetricDescription(
        "memsvc_extracted_facts_total",
        "Fact changes that a language model proposed, by the outcome of the proposal",
        {"outcome": _OUTCOMES},
    ),
    MetricDescription(
        "memsvc_rerank_calls_total",
        "Calls to the reranker, the model that reorders search results",
        {"status": _CALL_STATUSES},
    ),
    MetricDescription("memsvc_rerank_duration_ms", "Duration of reranker calls", {}, _MS),
    MetricDescription(
        "memsvc_slow_calls_total", "Calls that took longer than audit.slow_ms", {_TOOL: ()}
    ),
    MetricDescription(
        "memsvc_trace_spans_total",
        "Trace spans that were sent or lost",
        {"outcome": ("sent", "lost")},
    ),
    MetricDescription(
        "memsvc_refused_total",
        "Calls and requests refused because the server was at capacity",
        {"reason": REJECT_REASONS},
    ),
    MetricDescription(
        "memsvc_keys_refused_total",
        "Requests and sign-ins refused because of their key: it was missing, not known, revoked or"
        " expired, an invalid access token, or one of too many invalid keys from its address",
        {"reason": KEY_REFUSALS},
    ),
    MetricDescription(
        "memsvc_slot_wait_ms",
        "Time that calls waited for a free call slot; calls that did not have to wait are"
        " not counted",
        {"lane": LANES},
        _MS,
    ),
    MetricDescription(
        "memsvc_loop_lag_ms", "Delay of the event loop: how late it wakes a sleeping task", {}, _MS
    ),
    MetricDescription(
        "memsvc_rates_told_total",
        "Exchanges of call counts with other replicas; the rate limits apply to the sum over"
        " all replicas",
        {"status": _CALL_STATUSES},
    ),
    MetricDescription(
        "memsvc_audit_dropped_total", "Call records lost because they could not be written"
    ),
    MetricDescription(
        "memsvc_traces_dropped_total", "Recall traces lost because they could not be written"
    ),
)
_GAUGES = {
    "memsvc_audit_backlog": "Call records waiting to be written",
    "memsvc_pool_open": "Open database connections",
    "memsvc_pool_idle": "Idle database connections",
    "memsvc_calls_running": "Running calls, each of which occupies a call slot",
    "memsvc_calls_waiting": "Calls waiting for a free call slot",
    "memsvc_model_refused": (
        "1 while a model endpoint rejects the API key or model name, otherwise 0"
    ),
    "memsvc_changes_heard": (
        "1 while this process receives notifications of changes by other processes, otherwise 0"
    ),
    "memsvc_listeners_open": "Clients subscribed to changes of resources",
    "memsvc_sse_open": "Clients on the deprecated transport at /sse",
    "memsvc_jobs_waiting": "Waiting jobs, as last counted by the worker of this process",
    "memsvc_jobs_failed": "Jobs that failed permanently and are still in the queue",
    "memsvc_job_oldest_s": "Waiting time of the oldest job that is ready to run",
    "memsvc_index_bytes": (
        "Size of the search index on disk, including its vectors, as last measured by the"
        " worker of this process"
    ),
    "memsvc_index_entries": "Entries in the search index, as estimated by the database",
}


def describe_metrics() -> Iterator[MetricDescription]:
    """Yield every published metric, in order."""
    yield from _METRICS
    for name, text in _GAUGES.items():
        yield MetricDescription(name, text)


_LabeledName = tuple[str, tuple[tuple[str, str], ...]]


class _Registry(CollectorRegistry):
    """Registry without creation times, which would double the series for no use."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric


def _is_possible(labels: Mapping[str, str]) -> bool:
    """Return whether labels can occur: only an error has a code, and every error has one."""
    if "code" not in labels or "status" not in labels:
        return True
    return (labels["code"] != NO_CODE) == (labels["status"] == "error")


class Metrics:
    """The `Meter` of one process. A name or label that is not published raises KeyError."""

    media_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = _Registry(auto_describe=False)
        self._metrics: dict[str, Counter | Histogram] = {}
        self._values: dict[str, dict[str, set[str]]] = {}
        self._add: dict[_LabeledName, Callable[[float], None]] = {}
        self._gauge_metrics = {
            name: Gauge(name, text, registry=self._registry) for name, text in _GAUGES.items()
        }
        for metric in _METRICS:
            family = partial(Histogram, buckets=metric.buckets) if metric.buckets else Counter
            self._metrics[metric.name] = family(
                metric.name, metric.help, tuple(metric.labels), registry=self._registry
            )
            self._values[metric.name] = {
                label: set(values) for label, values in metric.labels.items()
            }
            for values in product(*metric.labels.values()):  # none for a tool or a job
                self._open(metric.name, dict(zip(metric.labels, values, strict=True)))

    def add_tools(self, tools: Iterable[Tool]) -> None:
        """Publish these tools, and calls without a tool, as values of labels.

        Raises KeyError for a tool with an unknown metric."""
        names = [UNKNOWN_TOOL]
        for tool in tools:
            names.append(tool.name)
            if tool.counter is not None:
                self.add(tool.counter, 0, status="success")
            if tool.duration_ms is not None and tool.duration_ms not in self._metrics:
                raise KeyError(tool.duration_ms)
        self._publish(_TOOL, names)

    def add_jobs(self, jobs: Iterable[Job]) -> None:
        """Publish these jobs as values of labels."""
        self._publish(_JOB, [job.name for job in jobs])

    def _publish(self, label: str, values: Sequence[str]) -> None:
        for known in self._values.values():
            if label in known:
                known[label].update(values)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Set the function that returns the value of a gauge whenever metrics are read."""
        self._gauge_metrics[name].set_function(read)

    def watch_pool(self, usage: Callable[[], tuple[int, int]]) -> None:
        """Take the gauges of the connection pool from `Database.usage`."""
        self.watch("memsvc_pool_open", lambda: usage()[0])
        self.watch("memsvc_pool_idle", lambda: usage()[1])

    def watch_jobs(self, backlog: Callable[[], Backlog]) -> None:
        """Take the gauges of jobs from the worker's last count."""
        self.watch("memsvc_jobs_waiting", lambda: sum(backlog().waiting.values()))
        self.watch("memsvc_jobs_failed", lambda: sum(backlog().failed.values()))
        self.watch("memsvc_job_oldest_s", lambda: max(backlog().oldest_s.values(), default=0.0))

    def watch_index(self, size: Callable[[], IndexSize]) -> None:
        """Take the gauges of the search index from the worker's last measurement."""
        self.watch("memsvc_index_bytes", lambda: size().size_bytes)
        self.watch("memsvc_index_entries", lambda: size().entries)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Increase a counter, or observe a value of a histogram.

        Raises KeyError for an unpublished series."""
        key = name, tuple(sorted(labels.items()))
        if key not in self._add:
            known = self._values[name]
            if {label for label, value in labels.items() if value in known[label]} != known.keys():
                raise KeyError(key)
            self._open(name, labels)
        self._add[key](amount)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _open(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a series, if it can occur."""
        if _is_possible(labels):
            family = self._metrics[name]
            child = family.labels(**labels) if labels else family
            add = child.inc if isinstance(child, Counter) else child.observe
            self._add[name, tuple(sorted(labels.items()))] = add
