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
    """One picture: queries, each with the legend of its lines, in one unit."""

    title: str
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
            "reqps",
            (rate("memsvc_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Errors by code",
            "reqps",
            (rate("memsvc_calls_total", "code", "{{code}}", ',status="error"'),),
            True,
        ),
        Panel(
            "Latency of all calls",
            "ms",
            tuple(quantile(share, "memsvc_call_duration_ms") for share in (0.5, 0.95, 0.99)),
        ),
    ),
    "Load": (
        Panel(
            "Calls under way",
            "short",
            (gauge("memsvc_calls_running", "running"), gauge("memsvc_calls_waiting", "waiting")),
        ),
        Panel(
            "Refused for want of room",
            "reqps",
            (rate("memsvc_refused_total", "reason", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Lag of the event loop",
            "ms",
            tuple(quantile(share, "memsvc_loop_lag_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Wait for a slot, p95",
            "ms",
            (quantile(0.95, "memsvc_slot_wait_ms", "lane", "{{lane}}"),),
        ),
        Panel(
            "Slow calls",
            "reqps",
            (rate("memsvc_slow_calls_total", "tool", "{{tool}}"),),
            stacked=True,
        ),
        Panel(
            "Rates told to the other replicas",
            "ops",
            (rate("memsvc_rates_told_total", "status", "{{status}}"),),
        ),
        Panel(
            "Spans of traces", "ops", (rate("memsvc_trace_spans_total", "outcome", "{{outcome}}"),)
        ),
    ),
    "Turn memory": (
        Panel(
            "Turns",
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
            "wps",
            (rate("mcp_memory_fact_write_total", "tier", "{{tier}}"),),
            stacked=True,
        ),
        Panel(
            "Entries that a recall ranked",
            "short",
            tuple(quantile(share, "memsvc_recall_candidates") for share in (0.5, 0.95)),
        ),
        Panel(
            "Upkeep",
            "ops",
            (
                rate("mcp_memory_maintenance_total", "status", "maintenance, {{status}}"),
                rate("mcp_memory_compaction_total", "job", "compactions"),
            ),
        ),
        Panel(
            "Compared with clients' own memory",
            "ops",
            (rate("mcp_memory_shadow_total", "result", "{{result}}"),),
        ),
    ),
    "Database": (
        Panel(
            "Connections",
            "short",
            (gauge("memsvc_pool_open", "open"), gauge("memsvc_pool_idle", "idle")),
        ),
        Panel(
            "Wait for a connection",
            "ms",
            tuple(quantile(share, "memsvc_pool_wait_ms") for share in (0.5, 0.95)),
        ),
        Panel(
            "Search index on disk",
            "bytes",
            (gauge("memsvc_index_bytes", "index", "max"),),
        ),
        Panel("Entries of the index", "short", (gauge("memsvc_index_entries", "entries", "max"),)),
        Panel(
            "Wait for locks, p95",
            "ms",
            (quantile(0.95, "memsvc_lock_wait_ms", "lock", "{{lock}}"),),
        ),
        Panel(
            "Round trips of a transaction",
            "short",
            tuple(quantile(share, "memsvc_round_trips") for share in (0.5, 0.95)),
        ),
    ),
    "Jobs": (
        Panel(
            "Queue",
            "short",
            (
                gauge("memsvc_jobs_waiting", "waiting", "max"),
                gauge("memsvc_jobs_failed", "failed for good", "max"),
            ),
        ),
        Panel("Oldest job that could run", "s", (gauge("memsvc_job_oldest_s", "waited", "max"),)),
        Panel(
            "Attempts",
            "ops",
            (rate("memsvc_job_runs_total", "status", "{{status}}"),),
            stacked=True,
        ),
        Panel(
            "Duration by job, p95",
            "ms",
            (quantile(0.95, "memsvc_job_duration_ms", "job", "{{job}}"),),
        ),
    ),
    "Models": (
        Panel(
            "Calls of the model",
            "reqps",
            (rate("memsvc_model_calls_total", "purpose, status", "{{purpose}} {{status}}"),),
        ),
        Panel(
            "Latency of the model, p95",
            "ms",
            (quantile(0.95, "memsvc_model_duration_ms", "purpose", "{{purpose}}"),),
        ),
        Panel(
            "Tokens", "short", (rate("memsvc_model_tokens_total", "direction", "{{direction}}"),)
        ),
        Panel(
            "Calls of the embedder",
            "reqps",
            (
                rate("memsvc_embedding_calls_total", "kind, status", "{{kind}}, {{status}}"),
                rate("memsvc_embedding_failures_total", "code", "failed: {{code}}"),
            ),
        ),
        Panel(
            "Latency of the embedder, p95",
            "ms",
            (quantile(0.95, "memsvc_embedding_duration_ms", "kind", "{{kind}}"),),
        ),
        Panel(
            "Refused by an endpoint",
            "short",
            (
                gauge("memsvc_model_refused", "refused now"),
                rate("memsvc_model_refusals_total", "job", "refusals a second"),
            ),
        ),
        Panel(
            "Calls of the reranker",
            "reqps",
            (rate("memsvc_rerank_calls_total", "status", "{{status}}"),),
        ),
        Panel("Latency of the reranker, p95", "ms", (quantile(0.95, "memsvc_rerank_duration_ms"),)),
        Panel(
            "Texts embedded",
            "ops",
            (
                rate("memsvc_embedding_texts_total", "job", "texts"),
                rate("memsvc_embedding_cached_total", "job", "at hand"),
            ),
        ),
        Panel(
            "Facts by a model's word",
            "ops",
            (rate("memsvc_extracted_facts_total", "outcome", "{{outcome}}"),),
        ),
    ),
    "Clients and log": (
        Panel(
            "Who listens",
            "short",
            (gauge("memsvc_listeners_open", "listeners"), gauge("memsvc_sse_open", "/sse")),
        ),
        Panel(
            "Changes are heard", "bool", (gauge("memsvc_changes_heard", "all processes", "min"),)
        ),
        Panel(
            "Call log",
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
