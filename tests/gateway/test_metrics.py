"""The published metrics."""

import pytest

from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.gateway.metrics import Metrics
from memsvc.store.backlog import Backlog
from tests.gateway.catalogue import catalogue, echo, tool

SEED = {
    'mcp_memory_before_turn_total{status="success"}',
    'mcp_memory_after_turn_total{status="error"}',
    "mcp_memory_after_turn_duration_ms_count",
    'mcp_memory_maintenance_total{status="success"}',
    "mcp_memory_compaction_total",
    'mcp_memory_fact_write_total{tier="L1"}',
    "mcp_memory_idempotency_conflicts_total",
}


async def nothing(_: Scope, __: str) -> None:
    pass


def series(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_series_without_a_tool_or_job_are_there_from_the_start_at_zero() -> None:
    metrics = Metrics()
    metrics.add_tools(catalogue())
    metrics.add_jobs([Job("tidy", nothing)])
    exposed = series(metrics)
    assert exposed.keys() >= SEED
    assert exposed.keys() >= {
        'memsvc_embedding_failures_total{code="UNAVAILABLE"}',
        'memsvc_lock_wait_ms_count{lock="session"}',
        "memsvc_round_trips_sum",
        "memsvc_recall_candidates_count",
        "memsvc_audit_dropped_total",
        "memsvc_audit_backlog",
        "memsvc_pool_open",
        "memsvc_pool_idle",
        "memsvc_jobs_waiting",
        "memsvc_jobs_failed",
        "memsvc_job_oldest_s",
    }
    assert set(exposed.values()) == {0.0}
    assert not any("_created" in name for name in exposed)
    assert not any("tool=" in name or "job=" in name for name in exposed)


def test_series_of_a_tool_or_job_begin_with_its_first_use() -> None:
    metrics = Metrics()
    metrics.add_tools(catalogue())
    metrics.add_jobs([Job("tidy", nothing)])
    before = series(metrics).keys()
    metrics.add("memsvc_calls_total", tool="echo", status="error", code="INVALID_ARGUMENT")
    metrics.add("memsvc_calls_total", tool="unknown", status="success", code="")
    metrics.add("memsvc_job_runs_total", 2, job="tidy", status="retried")
    begun = {name: value for name, value in series(metrics).items() if name not in before}
    assert begun == {
        'memsvc_calls_total{code="INVALID_ARGUMENT",status="error",tool="echo"}': 1,
        'memsvc_calls_total{code="",status="success",tool="unknown"}': 1,
        'memsvc_job_runs_total{job="tidy",status="retried"}': 2,
    }


def test_counters_count_and_histograms_observe() -> None:
    metrics = Metrics()
    metrics.add("mcp_memory_compaction_total")
    metrics.add("mcp_memory_fact_write_total", 3, tier="L2")
    metrics.add("memsvc_lock_wait_ms", 7.5, lock="tree")
    metrics.watch_pool(lambda: (5, 2))
    exposed = series(metrics)
    assert exposed["mcp_memory_compaction_total"] == 1
    assert exposed['mcp_memory_fact_write_total{tier="L2"}'] == 3
    assert exposed['memsvc_lock_wait_ms_bucket{le="5.0",lock="tree"}'] == 0
    assert exposed['memsvc_lock_wait_ms_bucket{le="10.0",lock="tree"}'] == 1
    assert (exposed["memsvc_pool_open"], exposed["memsvc_pool_idle"]) == (5, 2)


def test_the_gauges_of_jobs_are_sums_and_the_oldest() -> None:
    metrics = Metrics()
    metrics.watch_jobs(lambda: Backlog({"a": 2, "b": 3}, {"b": 1}, {"a": 7.5, "b": 4}))
    exposed = series(metrics)
    assert [
        exposed[f"memsvc_{name}"] for name in ("jobs_waiting", "jobs_failed", "job_oldest_s")
    ] == [5, 1, 7.5]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("memsvc_nothing_total", {}),
        ("mcp_memory_compaction_total", {"status": "success"}),
        ("mcp_memory_before_turn_total", {}),
        ("mcp_memory_before_turn_total", {"status": "odd"}),
        ("memsvc_lock_wait_ms", {"lock": "table"}),
        ("memsvc_job_runs_total", {"job": "nobody's", "status": "success"}),
        ("memsvc_calls_total", {"tool": "nobody's", "status": "success", "code": ""}),
        ("memsvc_calls_total", {"tool": "unknown", "status": "success", "code": "NOT_FOUND"}),
        ("memsvc_calls_total", {"tool": "unknown", "status": "error", "code": ""}),
        ("memsvc_calls_total", {"tool": "unknown", "status": "success"}),
    ],
)
def test_a_name_or_label_outside_the_published_set_raises(
    name: str, labels: dict[str, str]
) -> None:
    metrics = Metrics()
    metrics.add_tools(catalogue())
    with pytest.raises(KeyError):
        metrics.add(name, 1.0, **labels)


def test_a_tool_with_an_unpublished_metric_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().add_tools([tool("echo", echo, counter="mcp_odd_total")])
    with pytest.raises(KeyError):
        Metrics().add_tools([tool("echo", echo, duration_ms="mcp_odd_ms")])


def test_two_processes_metrics_share_nothing() -> None:
    one, two = Metrics(), Metrics()
    one.add("mcp_memory_compaction_total")
    assert series(two)["mcp_memory_compaction_total"] == 0
