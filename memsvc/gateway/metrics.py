"""Published metrics: a closed set of names and labels, with every series from the start.

Nothing is global.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
        description="what /metrics wants as `Authorization: Bearer TOKEN`; empty: it is open to"
        " all",
    )


OPEN_METRICS = MetricsOptions()


@frozen
class _MetricShape:
    """A metric: its kind, its labels with all their values, and the buckets of a histogram."""

    kind: Literal["counter", "histogram"]
    help: str
    labels: Mapping[str, tuple[str, ...]]
    buckets: tuple[float, ...] = ()


_TOOL = "tool"
_JOB = "job"
_METRICS: dict[str, _MetricShape] = {
    "mcp_memory_before_turn_total": _MetricShape(
        "counter", "Calls of memory_before_turn", {"status": STATUSES}
    ),
    "mcp_memory_after_turn_total": _MetricShape(
        "counter", "Calls of memory_after_turn", {"status": STATUSES}
    ),
    "mcp_memory_after_turn_duration_ms": _MetricShape(
        "histogram", "How long memory_after_turn took", {}, _MS
    ),
    "mcp_memory_maintenance_total": _MetricShape(
        "counter", "Maintenance runs", {"status": STATUSES}
    ),
    "mcp_memory_compaction_total": _MetricShape("counter", "Compactions of a session", {}),
    "mcp_memory_fact_write_total": _MetricShape(
        "counter", "Facts written", {"tier": ("L0", "L1", "L2")}
    ),
    "mcp_memory_shadow_total": _MetricShape(
        "counter", "Turns compared with a client's own memory", {"result": ("agree", "differ")}
    ),
    "mcp_memory_idempotency_conflicts_total": _MetricShape(
        "counter", "Turn ids that came again with another payload", {}
    ),
    "memsvc_calls_total": _MetricShape(
        "counter", "Calls", {_TOOL: (), "status": STATUSES, "code": _CODES}
    ),
    "memsvc_call_duration_ms": _MetricShape("histogram", "How long a call took", {_TOOL: ()}, _MS),
    "memsvc_lock_wait_ms": _MetricShape(
        "histogram", "Wait for an advisory lock", {"lock": _LOCKS}, _MS
    ),
    "memsvc_pool_wait_ms": _MetricShape(
        "histogram", "Wait for a database connection of the pool", {}, _MS
    ),
    "memsvc_round_trips": _MetricShape("histogram", "Round trips of a transaction", {}, _COUNTS),
    "memsvc_recall_candidates": _MetricShape(
        "histogram", "Entries that a recall ranked", {}, _CANDIDATES
    ),
    "memsvc_job_runs_total": _MetricShape(
        "counter", "Attempts of jobs", {_JOB: (), "status": JOB_STATUSES}
    ),
    "memsvc_job_duration_ms": _MetricShape(
        "histogram", "How long an attempt of a job took", {_JOB: ()}, _JOB_MS
    ),
    "memsvc_embedding_calls_total": _MetricShape(
        "counter", "Calls of the embedder", {"kind": _KINDS, "status": _CALL_STATUSES}
    ),
    "memsvc_embedding_duration_ms": _MetricShape(
        "histogram", "How long the embedder took", {"kind": _KINDS}, _MS
    ),
    "memsvc_embedding_texts_total": _MetricShape("counter", "Texts that got a vector", {}),
    "memsvc_embedding_cached_total": _MetricShape(
        "counter", "Questions whose vector was at hand", {}
    ),
    "memsvc_embedding_failures_total": _MetricShape(
        "counter", "Failures of the embedder", {"code": _CODES[1:]}
    ),
    "memsvc_model_calls_total": _MetricShape(
        "counter", "Calls of the model", {"purpose": _MODEL_CALLS, "status": _CALL_STATUSES}
    ),
    "memsvc_model_duration_ms": _MetricShape(
        "histogram", "How long the model took", {"purpose": _MODEL_CALLS}, _JOB_MS
    ),
    "memsvc_model_tokens_total": _MetricShape(
        "counter", "Tokens of the model", {"direction": ("input", "output")}
    ),
    "memsvc_model_refusals_total": _MetricShape(
        "counter", "Refusals of the key or the model by an endpoint", {}
    ),
    "memsvc_extracted_facts_total": _MetricShape(
        "counter", "Changes of facts by a model's word", {"outcome": _OUTCOMES}
    ),
    "memsvc_rerank_calls_total": _MetricShape(
        "counter", "Calls of the reranker", {"status": _CALL_STATUSES}
    ),
    "memsvc_rerank_duration_ms": _MetricShape("histogram", "How long the reranker took", {}, _MS),
    "memsvc_slow_calls_total": _MetricShape(
        "counter", "Calls that took longer than audit.slow_ms", {_TOOL: ()}
    ),
    "memsvc_trace_spans_total": _MetricShape(
        "counter", "Ended spans of traces", {"outcome": ("sent", "lost")}
    ),
    "memsvc_refused_total": _MetricShape(
        "counter", "Calls and requests refused for want of room", {"reason": REJECT_REASONS}
    ),
    "memsvc_slot_wait_ms": _MetricShape(
        "histogram", "Wait for a slot, of calls that waited", {"lane": LANES}, _MS
    ),
    "memsvc_loop_lag_ms": _MetricShape(
        "histogram", "How late the event loop wakes whoever sleeps", {}, _MS
    ),
    "memsvc_rates_told_total": _MetricShape(
        "counter", "Exchanges of rates with other replicas", {"status": _CALL_STATUSES}
    ),
    "memsvc_audit_dropped_total": _MetricShape(
        "counter", "Call records lost because they could not be written", {}
    ),
    "memsvc_traces_dropped_total": _MetricShape(
        "counter", "Recall traces lost because they could not be written", {}
    ),
}
_GAUGES = {
    "memsvc_audit_backlog": "Call records that wait to be written",
    "memsvc_pool_open": "Database connections open",
    "memsvc_pool_idle": "Database connections open and idle",
    "memsvc_calls_running": "Calls that hold a slot",
    "memsvc_calls_waiting": "Calls that wait for a slot",
    "memsvc_model_refused": "1 while the endpoint of a model refuses the key or the model",
    "memsvc_changes_heard": "1 while changes by other processes are heard",
    "memsvc_listeners_open": "Clients that wait for changes of resources",
    "memsvc_sse_open": "Clients on the deprecated transport at /sse",
    "memsvc_jobs_waiting": "Jobs that wait, as this process's worker counted last",
    "memsvc_jobs_failed": "Jobs that failed for good and are still there",
    "memsvc_job_oldest_s": "How long the oldest job has waited that could run",
    "memsvc_index_bytes": "Size of the search index with its vectors on disk, as this process's"
    " worker measured last",
    "memsvc_index_entries": "Entries in the search index, as the database estimates",
}

_UNITS = {"_total": "", "_ms": "milliseconds", "_s": "seconds", "_bytes": "bytes"}


@frozen
class MetricDescription:
    """A published metric for documentation.

    `labels` with all their values, empty where these are the existing tools or jobs; `unit` is ""
    for counts; `buckets` are upper bounds.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    help: str
    unit: str
    labels: Mapping[str, tuple[str, ...]]
    buckets: tuple[float, ...] = ()


def describe_metrics() -> Iterator[MetricDescription]:
    """Yield every published metric, in order."""
    for name, shape in _METRICS.items():
        yield MetricDescription(
            name, shape.kind, shape.help, _unit(name), shape.labels, shape.buckets
        )
    for name, text in _GAUGES.items():
        yield MetricDescription(name, "gauge", text, _unit(name), {})


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


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
    """`Meter` of one process; a name or label outside the published set raises KeyError."""

    media_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = _Registry(auto_describe=False)
        self._metrics: dict[str, Counter | Histogram] = {}
        self._add: dict[_LabeledName, Callable[[float], None]] = {}
        self._gauge_metrics = {
            name: Gauge(name, text, registry=self._registry) for name, text in _GAUGES.items()
        }
        for name, shape in _METRICS.items():
            if shape.kind == "counter":
                self._metrics[name] = Counter(
                    name, shape.help, tuple(shape.labels), registry=self._registry
                )
            else:
                self._metrics[name] = Histogram(
                    name,
                    shape.help,
                    tuple(shape.labels),
                    buckets=shape.buckets,
                    registry=self._registry,
                )
            self._open(name, shape.labels)

    def add_tools(self, tools: Iterable[Tool]) -> None:
        """Open the series of these tools, and of calls without a tool.

        KeyError for a tool whose metric is unknown.
        """
        names = [UNKNOWN_TOOL]
        for tool in tools:
            names.append(tool.name)
            if tool.counter is not None:
                self.add(tool.counter, 0, status="success")
            if tool.duration_ms is not None and tool.duration_ms not in _METRICS:
                raise KeyError(tool.duration_ms)
        for name, shape in _METRICS.items():
            if _TOOL in shape.labels:
                self._open(name, {**shape.labels, _TOOL: tuple(names)})

    def add_jobs(self, jobs: Iterable[Job]) -> None:
        """Open the series of these jobs."""
        names = tuple(job.name for job in jobs)
        for name, shape in _METRICS.items():
            if _JOB in shape.labels:
                self._open(name, {**shape.labels, _JOB: names})

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Read a gauge by this function whenever the metrics are read."""
        self._gauge_metrics[name].set_function(read)

    def watch_pool(self, usage: Callable[[], tuple[int, int]]) -> None:
        """Read the pool's gauges by `Database.usage`."""
        self.watch("memsvc_pool_open", lambda: usage()[0])
        self.watch("memsvc_pool_idle", lambda: usage()[1])

    def watch_jobs(self, backlog: Callable[[], Backlog]) -> None:
        """Read the gauges of jobs from the worker's last count."""
        self.watch("memsvc_jobs_waiting", lambda: sum(backlog().waiting.values()))
        self.watch("memsvc_jobs_failed", lambda: sum(backlog().failed.values()))
        self.watch("memsvc_job_oldest_s", lambda: max(backlog().oldest_s.values(), default=0.0))

    def watch_index(self, size: Callable[[], IndexSize]) -> None:
        """Read the gauges of the search index from the worker's last measurement."""
        self.watch("memsvc_index_bytes", lambda: size().size_bytes)
        self.watch("memsvc_index_entries", lambda: size().entries)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Count, or observe a value of a histogram; KeyError for an unpublished series."""
        self._add[name, tuple(sorted(labels.items()))](amount)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _open(self, name: str, labels: Mapping[str, tuple[str, ...]]) -> None:
        """Open every series of these labels; none where a label's values are not known yet."""
        family = self._metrics[name]
        for values in product(*labels.values()):
            label_values = dict(zip(labels, values, strict=True))
            if _is_possible(label_values):
                child = family.labels(*values) if labels else family
                add = child.inc if isinstance(child, Counter) else child.observe
                self._add[name, tuple(sorted(label_values.items()))] = add
