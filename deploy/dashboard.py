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
            "Calls a second. A tool's line begins with its first call.",
            "reqps",
            (rate("memsvc_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Errors by code",
            "Calls that ended in an error. INTERNAL_ERROR is a fault of memsvc; codes of"
            " wrong arguments are the callers' own.",
            "reqps",
            (rate("memsvc_calls_total", "code", "{{code}}", ',status="error"'),),
            True,
        ),
        Panel(
            "Latency of all calls",
            "From the moment a call is read until it is answered; waits for a slot and for"
            " locks included.",
            "ms",
            tuple(quantile(share, "memsvc_call_duration_ms") for share in (0.5, 0.95, 0.99)),
        ),
    ),
    "Load": (
        Panel(
            "Calls under way",
            "Running calls hold a slot. Calls that wait for a minute mean that there is too"
            " little room.",
            "short",
            (gauge("memsvc_calls_running", "running"), gauge("memsvc_calls_waiting", "waiting")),
        ),
        Panel(
            "Refused for want of room",
            "By reason: a caller's rate, or slots and connections of the server.",
            "reqps",
            (rate("memsvc_refused_total", "reason", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Lag of the event loop",
            "How late a process wakes: over 100 ms, it lacks processor or a call holds it.",
            "ms",
            tuple(quantile(share, "memsvc_loop_lag_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Wait for a slot, p95",
            "By lane, of calls that waited at all.",
            "ms",
            (quantile(0.95, "memsvc_slot_wait_ms", "lane", "{{lane}}"),),
        ),
        Panel(
            "Slow calls",
            "Calls over audit.slow_ms; the log says of each where the time went.",
            "reqps",
            (rate("memsvc_slow_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Rates told to the other replicas",
            "Exchanges of what callers used up. Errors let a caller exceed its rate for a while.",
            "ops",
            (rate("memsvc_rates_told_total", "status", "{{status}}"),),
        ),
        Panel(
            "Spans of traces",
            "Lost spans cost traces, never calls. No lines without tracing.",
            "ops",
            (rate("memsvc_trace_spans_total", "outcome", "{{outcome}}"),),
        ),
    ),
    "Turn memory": (
        Panel(
            "Turns",
            "Conflicts are turn ids that came again with other words: a client that does not"
            " keep its ids.",
            "reqps",
            (
                rate("mcp_memory_before_turn_total", "status", "before, {{status}}"),
                rate("mcp_memory_after_turn_total", "status", "after, {{status}}"),
                rate(
                    "mcp_memory_idempotency_conflicts_total", "job", "turn ids with another payload"
                ),
            ),
        ),
        Panel(
            "Latency of a turn, p95",
            "Agents wait for `before` at each prompt. Hooks of hosts give up after 0.8 s.",
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
            "Facts written by tier",
            "L0 lasts, L1 is kept by day, L2 by week.",
            "wps",
            (rate("mcp_memory_fact_write_total", "tier", "{{tier}}"),),
            stacked=True,
        ),
        Panel(
            "Entries that a recall ranked",
            "How much a search had to compare; it grows with what one user has said.",
            "short",
            tuple(quantile(share, "memsvc_recall_candidates") for share in (0.5, 0.95)),
        ),
        Panel(
            "Upkeep",
            "Maintenance of sessions, and compactions of their context.",
            "ops",
            (
                rate("mcp_memory_maintenance_total", "status", "maintenance, {{status}}"),
                rate("mcp_memory_compaction_total", "job", "compactions"),
            ),
        ),
        Panel(
            "Compared with clients' own memory",
            "How often both memories agreed, where clients send theirs for comparison.",
            "ops",
            (rate("mcp_memory_shadow_total", "result", "{{result}}"),),
        ),
    ),
    "Database": (
        Panel(
            "Connections",
            "Connections of all processes to the database; none idle for minutes means that"
            " calls queue.",
            "short",
            (gauge("memsvc_pool_open", "open"), gauge("memsvc_pool_idle", "idle")),
        ),
        Panel(
            "Wait for a connection",
            "High values mean a pool that is too small, or a database that is too slow.",
            "ms",
            tuple(quantile(share, "memsvc_pool_wait_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Search index on disk",
            "With its vectors, as a worker measured last.",
            "bytes",
            (gauge("memsvc_index_bytes", "index", "max"),),
        ),
        Panel(
            "Entries of the index",
            "As the database estimates.",
            "short",
            (gauge("memsvc_index_entries", "entries", "max"),),
        ),
        Panel(
            "Wait for locks, p95",
            "By kind: writers of the same session, project or document wait for each other.",
            "ms",
            (quantile(0.95, "memsvc_lock_wait_ms", "lock", "{{lock}}"),),
        ),
        Panel(
            "Round trips of a transaction",
            "Each costs the network's delay to the database once.",
            "short",
            tuple(quantile(share, "memsvc_round_trips") for share in (0.5, 0.95)),
        ),
    ),
    "Jobs": (
        Panel(
            "Queue",
            "Waiting jobs are work after writes. Jobs that failed for good wait for somebody"
            " to retry or drop them.",
            "short",
            (
                gauge("memsvc_jobs_waiting", "waiting", "max"),
                gauge("memsvc_jobs_failed", "failed for good", "max"),
            ),
        ),
        Panel(
            "Oldest job that could run",
            "Above minutes: no worker runs, it has too few slots, or its model does not answer.",
            "s",
            (gauge("memsvc_job_oldest_s", "waited", "max"),),
        ),
        Panel(
            "Attempts",
            "Jobs that ended well, that are tried again, and that failed for good.",
            "ops",
            (rate("memsvc_job_runs_total", "status", "{{status}}"),),
            stacked=True,
        ),
        Panel(
            "Duration by job, p95",
            "Of one attempt. A job's line begins with its first run.",
            "ms",
            (quantile(0.95, "memsvc_job_duration_ms", "job", "{{job}}"),),
        ),
    ),
    "Models": (
        Panel(
            "Calls of the model",
            "By purpose and outcome.",
            "reqps",
            (rate("memsvc_model_calls_total", "purpose, status", "{{purpose}} {{status}}"),),
        ),
        Panel(
            "Latency of the model, p95",
            "By purpose; callers wait for none of these but judgements and whiteboards.",
            "ms",
            (quantile(0.95, "memsvc_model_duration_ms", "purpose", "{{purpose}}"),),
        ),
        Panel(
            "Tokens",
            "Tokens a second that the model read and wrote: what it costs.",
            "short",
            (rate("memsvc_model_tokens_total", "direction", "{{direction}}"),),
        ),
        Panel(
            "Calls of the embedder",
            "Documents are embedded by jobs, questions within calls; failures by their code.",
            "reqps",
            (
                rate("memsvc_embedding_calls_total", "kind, status", "{{kind}}, {{status}}"),
                rate("memsvc_embedding_failures_total", "code", "failed: {{code}}"),
            ),
        ),
        Panel(
            "Latency of the embedder, p95",
            "A question's is part of the call that asks.",
            "ms",
            (quantile(0.95, "memsvc_embedding_duration_ms", "kind", "{{kind}}"),),
        ),
        Panel(
            "Refused by an endpoint",
            "Above zero: a key or a model's name is wrong, and work waits until the settings"
            " are right.",
            "short",
            (
                gauge("memsvc_model_refused", "refused now"),
                rate("memsvc_model_refusals_total", "job", "refusals a second"),
            ),
        ),
        Panel(
            "Calls of the reranker",
            "Where it fails, the order without it is used.",
            "reqps",
            (rate("memsvc_rerank_calls_total", "status", "{{status}}"),),
        ),
        Panel(
            "Latency of the reranker, p95",
            "Part of the recall that asks.",
            "ms",
            (quantile(0.95, "memsvc_rerank_duration_ms"),),
        ),
        Panel(
            "Texts embedded",
            "Texts that got a vector, and questions whose vector was at hand.",
            "ops",
            (
                rate("memsvc_embedding_texts_total", "job", "texts"),
                rate("memsvc_embedding_cached_total", "job", "at hand"),
            ),
        ),
        Panel(
            "Facts by a model's word",
            "What became of changes that a model proposed: many unknown or unfit ones mean a"
            " model that is too small.",
            "ops",
            (rate("memsvc_extracted_facts_total", "outcome", "{{outcome}}"),),
        ),
    ),
    "Clients and log": (
        Panel(
            "Who listens",
            "Clients that wait for changes, and clients on the deprecated transport.",
            "short",
            (gauge("memsvc_listeners_open", "listeners"), gauge("memsvc_sse_open", "/sse")),
        ),
        Panel(
            "Changes are heard",
            "0: some process does not hear what others change, and its subscribers hear nothing.",
            "bool",
            (gauge("memsvc_changes_heard", "all processes", "min"),),
        ),
        Panel(
            "Call log",
            "Records waiting to be written, and those lost because the database did not take them.",
            "short",
            (
                gauge("memsvc_audit_backlog", "waiting"),
                rate("memsvc_audit_dropped_total", "job", "lost a second"),
                rate("memsvc_traces_dropped_total", "job", "traces lost a second"),
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
