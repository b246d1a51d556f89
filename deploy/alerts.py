"""Makes the alert rules, deploy/prometheus/alerts.yaml and the chart's copy of it: `python
deploy/alerts.py`.

tests/deploy holds the files equal to this, and every metric to what the service exposes.
"""

from pathlib import Path
from typing import NamedTuple

import yaml

HERE = Path(__file__).parent
RUNBOOKS = "docs/runbooks.md"
"""The page with a section for each alert; the chart puts its published address in place of it."""
FILES = (HERE / "prometheus" / "alerts.yaml", HERE / "helm" / "memsvc" / "alerts.yaml")


class Rule(NamedTuple):
    """One alert: what must hold for how long, its summary, and what it means for callers."""

    name: str
    query: str
    held: str
    severity: str
    told: str
    description: str


def of_calls(codes: str) -> str:
    """The share of calls that end with these codes."""
    return (
        f'sum(rate(memsvc_calls_total{{code=~"{codes}"}}[5m])) / sum(rate(memsvc_calls_total[5m]))'
    )


def slowest(buckets: str, labels: str = "") -> str:
    """What 95 % of what a histogram observed are below."""
    return f"histogram_quantile(0.95, sum by (le) (rate({buckets}{{{labels}}}[5m])))"


def begun_or_counted(counter: str) -> str:
    """Whether a counter counted within five minutes, or its series began: it does so at 1."""
    return f"sum(rate({counter}[5m])) > 0 or count({counter} unless {counter} offset 5m) > 0"


RULES = (
    Rule(
        "MemsvcNotScraped",
        'absent(up{job=~".*memsvc.*"})',
        "5m",
        "critical",
        "Prometheus finds no process of memsvc at all.",
        "Either nothing runs, or discovery no longer finds what runs. No other alert can fire"
        " meanwhile.",
    ),
    Rule(
        "MemsvcDown",
        'up{job=~".*memsvc.*"} == 0',
        "2m",
        "critical",
        "A process of memsvc cannot be scraped.",
        "Prometheus knows the process, but its /metrics does not answer: it has ended, is"
        " stuck or is cut off. Other replicas go on serving.",
    ),
    Rule(
        "MemsvcInternalErrors",
        begun_or_counted('memsvc_calls_total{code="INTERNAL_ERROR"}'),
        "0m",
        "critical",
        "Calls end in INTERNAL_ERROR: each is a fault, with a traceback in the log under its"
        " request id.",
        "The caller got an error that it can do nothing about. What was committed before stays.",
    ),
    Rule(
        "MemsvcUnavailable",
        f"{of_calls('UNAVAILABLE')} > 0.01",
        "5m",
        "critical",
        "More than 1 % of calls end in UNAVAILABLE: the database or a model is out of reach.",
        "Callers get a retryable error; hosts keep their turns and store them later.",
    ),
    Rule(
        "MemsvcRefusesLoad",
        f"{of_calls('RATE_LIMITED|RESOURCE_BUSY')} > 0.05",
        "10m",
        "warning",
        "More than 5 % of calls are refused for load: add replicas, or find who floods.",
        "Callers are told when to retry. One tenant may have used up its share (RATE_LIMITED),"
        " or the server has no room (RESOURCE_BUSY).",
    ),
    Rule(
        "MemsvcLoopHeld",
        f"{slowest('memsvc_loop_lag_ms_bucket')} > 100",
        "5m",
        "warning",
        "The event loop wakes over 100 ms late at the 95th percentile: too little processor, or a"
        " call that holds it.",
        "Every call of the process waits that long at least, and so do its probes.",
    ),
    Rule(
        "MemsvcBeforeTurnSlow",
        slowest("memsvc_call_duration_ms_bucket", 'tool="memory_before_turn"') + " > 300",
        "10m",
        "warning",
        "memory_before_turn takes over 300 ms at the 95th percentile.",
        "Agents wait for this call before each answer. Hooks of hosts give up after 0.8 s and"
        " go on without memory.",
    ),
    Rule(
        "MemsvcAfterTurnSlow",
        f"{slowest('mcp_memory_after_turn_duration_ms_bucket')} > 500",
        "10m",
        "warning",
        "memory_after_turn takes over 500 ms at the 95th percentile.",
        "Turns are still stored. Hooks of hosts give up after 0.8 s and store the turn later.",
    ),
    Rule(
        "MemsvcCallsUnlogged",
        "sum(increase(memsvc_audit_dropped_total[15m])) > 0",
        "0m",
        "warning",
        "Call records were lost: the database did not take them in time.",
        "The calls themselves succeeded; the call log has a gap, and so has what is billed or"
        " audited by it.",
    ),
    Rule(
        "MemsvcJobsFailed",
        "max(memsvc_jobs_failed) > 0",
        "10m",
        "warning",
        "Jobs failed for good: `memsvc jobs list --state failed` names them.",
        "Jobs are not retried any more: summaries, embeddings or deletions are missing until"
        " somebody retries or drops them.",
    ),
    Rule(
        "MemsvcQueueStuck",
        "max(memsvc_job_oldest_s) > 900",
        "5m",
        "warning",
        "A job that could run has waited for a quarter of an hour: is there a worker, and does"
        " its model answer?",
        "Work after writes is late: embeddings, summaries, deletions. Calls are answered as usual.",
    ),
    Rule(
        "MemsvcChangesUnheard",
        "min(memsvc_changes_heard) == 0",
        "2m",
        "warning",
        "Clients that wait for changes are told nothing: set database.direct_url if a pooler is"
        " between.",
        "The process cannot listen to PostgreSQL. Subscribers hear nothing, revoked keys are"
        " refused only after auth.cache_s, and jobs start at worker.poll_s.",
    ),
    Rule(
        "MemsvcPoolExhausted",
        "min by (instance) (memsvc_pool_idle) == 0",
        "10m",
        "warning",
        "A process has had no idle connection for ten minutes.",
        "Calls queue for a connection and are refused when they would wait too long.",
    ),
    Rule(
        "MemsvcModelRefused",
        "max(memsvc_model_refused) == 1",
        "5m",
        "critical",
        "The endpoint of a model refuses the key or the model: what waits for it waits until the"
        " settings are right.",
        "Nothing is lost. Summaries, memories or vectors are late, and search goes by words"
        " alone where the embedder is refused.",
    ),
    Rule(
        "MemsvcModelFails",
        'sum(rate(memsvc_model_calls_total{status="error"}[15m])) /'
        " sum(rate(memsvc_model_calls_total[15m])) > 0.2",
        "15m",
        "warning",
        "A fifth of the calls of the model fail.",
        "Its jobs are retried until they succeed; what they make is late.",
    ),
    Rule(
        "MemsvcEmbedderFails",
        "sum(rate(memsvc_embedding_failures_total[15m])) > 0.1",
        "15m",
        "warning",
        "The embedder fails: search goes on by words alone.",
        "Recall misses what is said in other words. Texts get their vectors once the embedder"
        " answers again.",
    ),
)


def alerts() -> str:
    """The alert rules as Prometheus takes them."""
    rules = [
        {
            "alert": name,
            "expr": query,
            "for": held,
            "labels": {"severity": severity},
            "annotations": {
                "summary": told,
                "description": description,
                "runbook_url": f"{RUNBOOKS}#{name.lower()}",
            },
        }
        for name, query, held, severity, told, description in RULES
    ]
    head = "# Made by deploy/alerts.py.\n"
    return head + yaml.safe_dump(
        {"groups": [{"name": "memsvc", "rules": rules}]}, sort_keys=False, width=120
    )


def main() -> None:
    """Write the files."""
    for file in FILES:
        file.write_text(alerts(), "utf-8")


if __name__ == "__main__":
    main()
