"""Makes the dashboard, deploy/grafana/memsvc.json: `python deploy/dashboard.py`.

tests/deploy holds the file equal to this, and every metric to what the service exposes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent / "grafana" / "memsvc.json"
SELECT = 'job=~"$job",instance=~"$instance"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, WIDTH, HEIGHT = 3, 8, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: queries, each with the legend of its lines, in one unit, and how to read it."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False


def rate(metric: str, by: str, legend: str, extra: str = "") -> tuple[str, str]:
    """How often something is counted, for each value of a label."""
    return f"sum by ({by}) (rate({metric}{{{SELECT}{extra}}}[$__rate_interval]))", legend


def quantile(
    share: float, metric: str, by: str = "", legend: str = "", extra: str = ""
) -> tuple[str, str]:
    """The value below which so many of what a histogram observed are."""
    labels = f"le, {by}" if by else "le"
    inner = f"sum by ({labels}) (rate({metric}_bucket{{{SELECT}{extra}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {inner})", legend or f"p{round(share * 100)}"


def gauge(metric: str, legend: str, how: str = "sum") -> tuple[str, str]:
    """A gauge over all processes."""
    return f"{how}({metric}{{{SELECT}}})", legend


ROWS: dict[str, tuple[Panel, ...]] = {
    "Calls": (
        Panel(
            "Calls by tool",
            "Calls per second. A tool appears here after its first call.",
            "reqps",
            (rate("memsvc_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Errors by code",
            "Failed calls. INTERNAL_ERROR is a fault in memsvc; errors about arguments are"
            " caused by the callers.",
            "reqps",
            (rate("memsvc_calls_total", "code", "{{code}}", ',status="error"'),),
            True,
        ),
        Panel(
            "Latency of all calls",
            "Time from receiving a call to answering it, including the time that the call"
            " waited for a free slot and for locks.",
            "ms",
            tuple(quantile(share, "memsvc_call_duration_ms") for share in (0.5, 0.95, 0.99)),
        ),
    ),
    "Load": (
        Panel(
            "Running and waiting calls",
            "Each running call occupies one of the server's slots for calls. If calls wait"
            " for minutes, there are too few slots.",
            "short",
            (gauge("memsvc_calls_running", "running"), gauge("memsvc_calls_waiting", "waiting")),
        ),
        Panel(
            "Calls refused because of load",
            "Refused calls by reason: the caller's rate limit, or a lack of free call slots"
            " or database connections on the server.",
            "reqps",
            (rate("memsvc_refused_total", "reason", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Refused keys",
            "Requests and sign-ins refused because of their key. Many unknown keys come from a"
            " client with an old key, or from somebody who guesses keys.",
            "reqps",
            (rate("memsvc_keys_refused_total", "reason", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Event loop delay",
            "If this delay exceeds 100 ms, the process needs more CPU, or a call is"
            " blocking the loop.",
            "ms",
            tuple(quantile(share, "memsvc_loop_lag_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Wait for a free call slot, p95",
            "Waiting time for each kind of slot (lane). Calls that did not have to wait are"
            " not counted.",
            "ms",
            (quantile(0.95, "memsvc_slot_wait_ms", "lane", "{{lane}}"),),
        ),
        Panel(
            "Slow calls",
            "Calls slower than audit.slow_ms. The log shows where each call spent its time.",
            "reqps",
            (rate("memsvc_slow_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Call rates exchanged with other replicas",
            "Exchanges of call counts between replicas. While these exchanges fail, a"
            " caller can exceed its rate limit.",
            "ops",
            (rate("memsvc_rates_told_total", "status", "{{status}}"),),
        ),
        Panel(
            "Trace spans",
            "Spans are the timed steps of traced calls. If spans are lost, the traces are"
            " incomplete, but calls are not affected. The panel is empty if tracing is off.",
            "ops",
            (rate("memsvc_trace_spans_total", "outcome", "{{outcome}}"),),
        ),
    ),
    "Turn memory": (
        Panel(
            "Turns",
            "Conflicts are turn ids that were reused with different content, which means"
            " that the client does not generate unique ids.",
            "reqps",
            (
                rate("mcp_memory_before_turn_total", "status", "before, {{status}}"),
                rate("mcp_memory_after_turn_total", "status", "after, {{status}}"),
                rate(
                    "mcp_memory_idempotency_conflicts_total",
                    "job",
                    "turn ids reused with different content",
                ),
            ),
        ),
        Panel(
            "Latency of memory_before_turn and memory_after_turn, p95",
            "Agents wait for memory_before_turn at each prompt. The hooks in agent hosts"
            " give up after 0.8 s.",
            "ms",
            (
                quantile(
                    0.95,
                    "memsvc_call_duration_ms",
                    legend="before",
                    extra=',tool="memory_before_turn"',
                ),
                quantile(0.95, "mcp_memory_after_turn_duration_ms", legend="after"),
            ),
        ),
        Panel(
            "Facts written, by tier",
            "Facts of tier L0 are permanent. By default, facts of tier L1 are kept for a"
            " day and facts of tier L2 for a week.",
            "wps",
            (rate("mcp_memory_fact_write_total", "tier", "{{tier}}"),),
            stacked=True,
        ),
        Panel(
            "Entries ranked per recall or search",
            "Number of stored entries that a recall or search compared before it chose the"
            " best. The number grows with the amount of text stored for a user.",
            "short",
            tuple(quantile(share, "memsvc_recall_candidates") for share in (0.5, 0.95)),
        ),
        Panel(
            "Upkeep",
            "How often sessions are maintained, and how often the oldest items of a"
            " session's context are moved into its summary.",
            "ops",
            (
                rate("mcp_memory_maintenance_total", "status", "maintenance, {{status}}"),
                rate("mcp_memory_compaction_total", "job", "compactions"),
            ),
        ),
        Panel(
            "Agreement with clients' own memory",
            "How often memsvc and a client's own memory agreed, for clients that send their"
            " own result for comparison.",
            "ops",
            (rate("mcp_memory_shadow_total", "result", "{{result}}"),),
        ),
    ),
    "Database": (
        Panel(
            "Connections",
            "Database connections of all processes. If none is idle for minutes, calls have"
            " to wait.",
            "short",
            (gauge("memsvc_pool_open", "open"), gauge("memsvc_pool_idle", "idle")),
        ),
        Panel(
            "Wait for a database connection",
            "If this wait is long, the connection pool is too small or the database is too slow.",
            "ms",
            tuple(quantile(share, "memsvc_pool_wait_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Size of the search index on disk",
            "Size of the index including its vectors, as last measured by a worker.",
            "bytes",
            (gauge("memsvc_index_bytes", "index", "max"),),
        ),
        Panel(
            "Entries in the search index",
            "Number of entries, as estimated by the database.",
            "short",
            (gauge("memsvc_index_entries", "entries", "max"),),
        ),
        Panel(
            "Wait for locks, p95",
            "Waiting time by kind of lock. Calls that write to the same session, project or"
            " document wait for each other.",
            "ms",
            (quantile(0.95, "memsvc_lock_wait_ms", "lock", "{{lock}}"),),
        ),
        Panel(
            "Database round trips per transaction",
            "Each round trip to the database makes a transaction longer by the network latency.",
            "short",
            tuple(quantile(share, "memsvc_round_trips") for share in (0.5, 0.95)),
        ),
    ),
    "Jobs": (
        Panel(
            "Queue",
            "Waiting jobs are background work after writes. Permanently failed jobs stay in"
            " the queue until somebody retries or drops them.",
            "short",
            (
                gauge("memsvc_jobs_waiting", "waiting", "max"),
                gauge("memsvc_jobs_failed", "failed permanently", "max"),
            ),
        ),
        Panel(
            "Waiting time of the oldest runnable job",
            "If this exceeds a few minutes, no worker is running, the worker can run too"
            " few jobs at once, or its model does not answer.",
            "s",
            (gauge("memsvc_job_oldest_s", "waited", "max"),),
        ),
        Panel(
            "Attempts",
            "Attempts to run jobs, by result: the job succeeded, will be retried, or failed"
            " permanently.",
            "ops",
            (rate("memsvc_job_runs_total", "status", "{{status}}"),),
            stacked=True,
        ),
        Panel(
            "Duration of jobs by kind, p95",
            "Duration of one attempt. A kind of job appears here after its first run.",
            "ms",
            (quantile(0.95, "memsvc_job_duration_ms", "job", "{{job}}"),),
        ),
    ),
    "Models": (
        Panel(
            "Calls to the language model",
            "Calls by purpose and outcome.",
            "reqps",
            (rate("memsvc_model_calls_total", "purpose, status", "{{purpose}} {{status}}"),),
        ),
        Panel(
            "Latency of the language model, p95",
            "Latency by purpose of the call. Clients only wait for the model when it"
            " extracts memories, judges knowledge blocks or updates whiteboards.",
            "ms",
            (quantile(0.95, "memsvc_model_duration_ms", "purpose", "{{purpose}}"),),
        ),
        Panel(
            "Tokens",
            "Tokens per second that the model reads and writes; these determine its cost.",
            "short",
            (rate("memsvc_model_tokens_total", "direction", "{{direction}}"),),
        ),
        Panel(
            "Calls to the embedder",
            "Jobs request vectors for stored texts, and calls request vectors for"
            " questions. Failures are shown by error code.",
            "reqps",
            (
                rate("memsvc_embedding_calls_total", "kind, status", "{{kind}}, {{status}}"),
                rate("memsvc_embedding_failures_total", "code", "failed: {{code}}"),
            ),
        ),
        Panel(
            "Latency of the embedder, p95",
            "A call that needs the vector of a question waits for the embedder.",
            "ms",
            (quantile(0.95, "memsvc_embedding_duration_ms", "kind", "{{kind}}"),),
        ),
        Panel(
            "Requests rejected by a model endpoint",
            "If this number is above zero, an API key or a model name is wrong, and work"
            " waits until the settings are corrected.",
            "short",
            (
                gauge("memsvc_model_refused", "rejected now"),
                rate("memsvc_model_refusals_total", "job", "rejected requests per second"),
            ),
        ),
        Panel(
            "Calls to the reranker",
            "If the reranker fails, results keep their original order.",
            "reqps",
            (rate("memsvc_rerank_calls_total", "status", "{{status}}"),),
        ),
        Panel(
            "Latency of the reranker, p95",
            "Every search in files waits for the reranker to answer, so this latency is"
            " part of the duration of the search.",
            "ms",
            (quantile(0.95, "memsvc_rerank_duration_ms"),),
        ),
        Panel(
            "Texts embedded",
            "Texts that were embedded, and questions whose vector was already cached.",
            "ops",
            (
                rate("memsvc_embedding_texts_total", "job", "texts"),
                rate("memsvc_embedding_cached_total", "job", "cached"),
            ),
        ),
        Panel(
            "Facts changed by a model",
            "Outcomes of the changes to facts that a model proposed. If many outcomes are"
            " `unknown` (the change cites a message or fact that does not exist) or `unfit`"
            " (the change cannot be used), the model is too small.",
            "ops",
            (rate("memsvc_extracted_facts_total", "outcome", "{{outcome}}"),),
        ),
    ),
    "Clients and call log": (
        Panel(
            "Subscribers",
            "Clients subscribed to changes, and clients on the deprecated transport at /sse.",
            "short",
            (gauge("memsvc_listeners_open", "listeners"), gauge("memsvc_sse_open", "/sse")),
        ),
        Panel(
            "Change notifications",
            "1 means that every process is notified of changes made by other processes. 0"
            " means that at least one process is not, so its own subscribers are not"
            " notified either.",
            "bool",
            (gauge("memsvc_changes_heard", "all processes", "min"),),
        ),
        Panel(
            "Call log",
            "Call records waiting to be written, and records lost because the database did"
            " not accept them in time.",
            "short",
            (
                gauge("memsvc_audit_backlog", "waiting"),
                rate("memsvc_audit_dropped_total", "job", "call records lost per second"),
                rate("memsvc_traces_dropped_total", "job", "recall traces lost per second"),
            ),
        ),
    ),
}


def queries() -> Iterator[str]:
    """Every query of every panel."""
    for panels in ROWS.values():
        for panel in panels:
            yield from (query for query, _ in panel.queries)


def dashboard() -> str:
    """The dashboard as Grafana takes it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "type": "row",
                "title": title,
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": top},
                "panels": [],
            }
        )
        for place, panel in enumerate(row):
            at = {
                "h": HEIGHT,
                "w": WIDTH,
                "x": WIDTH * (place % COLUMNS),
                "y": top + 1 + HEIGHT * (place // COLUMNS),
            }
            panels.append(_panel(panel, at))
        top += 1 + HEIGHT * -(-len(row) // COLUMNS)
    whole = {
        "uid": "memsvc",
        "title": "memsvc",
        "tags": ["memsvc"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                _datasource(),
                _variable("job", "up"),
                _variable("instance", 'up{job=~"$job"}'),
            ]
        },
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, 1)],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _panel(panel: Panel, at: dict[str, int]) -> dict[str, Any]:
    lines = {
        "stacking": {"mode": "normal" if panel.stacked else "none"},
        "fillOpacity": 20 if panel.stacked else 0,
    }
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "gridPos": at,
        "datasource": DATASOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": lines},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Data source",
    }


def _variable(label: str, series: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": f"label_values({series}, {label})",
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def main() -> None:
    """Write the file."""
    DASHBOARD.write_text(dashboard(), "utf-8")


if __name__ == "__main__":
    main()
