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
        "Prometheus does not find any memsvc processes.",
        "Either memsvc is not running, or service discovery does not find it. Until this is"
        " fixed, no other alert can fire.",
    ),
    Rule(
        "MemsvcDown",
        'up{job=~".*memsvc.*"} == 0',
        "2m",
        "critical",
        "Prometheus cannot scrape a memsvc process.",
        "The process is known, but its /metrics endpoint does not answer: the process has"
        " ended, is stuck, or cannot be reached. Other replicas continue to serve.",
    ),
    Rule(
        "MemsvcInternalErrors",
        begun_or_counted('memsvc_calls_total{code="INTERNAL_ERROR"}'),
        "0m",
        "critical",
        "Calls fail with INTERNAL_ERROR. Each of these errors is a fault in memsvc; the log"
        " has a traceback under the request id.",
        "Callers cannot fix the error. Data that was committed earlier is not affected.",
    ),
    Rule(
        "MemsvcUnavailable",
        f"{of_calls('UNAVAILABLE')} > 0.01",
        "5m",
        "critical",
        "More than 1 % of calls fail with UNAVAILABLE: the database or a model cannot be reached.",
        "Callers get a retryable error. Agent hosts keep their turns and store them later.",
    ),
    Rule(
        "MemsvcRefusesLoad",
        f"{of_calls('RATE_LIMITED|RESOURCE_BUSY')} > 0.05",
        "10m",
        "warning",
        "More than 5 % of calls are refused because of load: add replicas, or find the"
        " caller that sends too many calls.",
        "The refusal tells callers when to retry. Either one tenant has used up its share"
        " of the capacity (RATE_LIMITED), or the whole server is at capacity"
        " (RESOURCE_BUSY).",
    ),
    Rule(
        "MemsvcKeysRefused",
        'sum(rate(memsvc_keys_refused_total{reason!="missing"}[5m])) > 1',
        "10m",
        "warning",
        "More than one request per second is refused because of an invalid key: a client has an old"
        " key, or somebody guesses keys.",
        "Clients with valid keys are not affected. Clients with a revoked or expired key have no"
        " memory until they get another key.",
    ),
    Rule(
        "MemsvcLoopHeld",
        f"{slowest('memsvc_loop_lag_ms_bucket')} > 100",
        "5m",
        "warning",
        "The event loop is delayed by more than 100 ms at the 95th percentile: the CPU is"
        " too slow, or a call blocks the loop.",
        "Every call to the process waits at least this long, and so does every health probe.",
    ),
    Rule(
        "MemsvcBeforeTurnSlow",
        slowest("memsvc_call_duration_ms_bucket", 'tool="memory_before_turn"') + " > 300",
        "10m",
        "warning",
        "memory_before_turn takes more than 300 ms at the 95th percentile.",
        "Agents wait for this call before each answer. The hooks in agent hosts give up"
        " after 0.8 s, and the agent continues without memory.",
    ),
    Rule(
        "MemsvcAfterTurnSlow",
        f"{slowest('mcp_memory_after_turn_duration_ms_bucket')} > 500",
        "10m",
        "warning",
        "memory_after_turn takes more than 500 ms at the 95th percentile.",
        "Turns are still stored. The hooks in agent hosts give up after 0.8 s and store the"
        " turn later.",
    ),
    Rule(
        "MemsvcCallsUnlogged",
        "sum(increase(memsvc_audit_dropped_total[15m])) > 0",
        "0m",
        "warning",
        "Call records were lost because the database did not accept them in time.",
        "The calls themselves succeeded. The call log has a gap, which also affects any"
        " billing and audits based on it.",
    ),
    Rule(
        "MemsvcJobsFailed",
        "max(memsvc_jobs_failed) > 0",
        "10m",
        "warning",
        "Jobs have failed permanently. `memsvc jobs list --state failed` lists them.",
        "These jobs are not retried automatically. Until somebody retries them, their work"
        " (summaries, embeddings or deletions) is not done.",
    ),
    Rule(
        "MemsvcQueueStuck",
        "max(memsvc_job_oldest_s) > 900",
        "5m",
        "warning",
        "A job has been ready to run for 15 minutes. Check that a worker is running and"
        " that its model answers.",
        "Background work (embeddings, summaries, deletions) is late. Calls are answered as usual.",
    ),
    Rule(
        "MemsvcChangesUnheard",
        "min(memsvc_changes_heard) == 0",
        "2m",
        "warning",
        "A process is not receiving change notifications. If the database is behind a"
        " pooler, set database.direct_url.",
        "The process cannot listen for PostgreSQL notifications. Subscribers are not"
        " notified, revoked keys work until auth.cache_s has passed, and jobs start only"
        " when the queue is polled (worker.poll_s).",
    ),
    Rule(
        "MemsvcPoolExhausted",
        "min by (instance) (memsvc_pool_idle) == 0",
        "10m",
        "warning",
        "A process has had no idle database connection for ten minutes.",
        "Calls wait for a connection, and are refused if they would have to wait too long.",
    ),
    Rule(
        "MemsvcModelRefused",
        "max(memsvc_model_refused) == 1",
        "5m",
        "critical",
        "A model endpoint rejects the API key or the model name. Work that needs the model"
        " waits until the settings are corrected.",
        "Nothing is lost. Summaries, memories or vectors are late; if the embedder is"
        " rejected, search uses keywords only.",
    ),
    Rule(
        "MemsvcModelFails",
        'sum(rate(memsvc_model_calls_total{status="error"}[15m])) /'
        " sum(rate(memsvc_model_calls_total[15m])) > 0.2",
        "15m",
        "warning",
        "More than one in five calls to the language model fail.",
        "Jobs are retried until they succeed, so their results are late.",
    ),
    Rule(
        "MemsvcEmbedderFails",
        "sum(rate(memsvc_embedding_failures_total[15m])) > 0.1",
        "15m",
        "warning",
        "The embedder is failing, so search uses keywords only.",
        "Recall misses texts that say the same thing in other words. Texts get their"
        " vectors once the embedder works again.",
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
    head = "# Generated by deploy/alerts.py.\n"
    return head + yaml.safe_dump(
        {"groups": [{"name": "memsvc", "rules": rules}]}, sort_keys=False, width=120
    )


def main() -> None:
    """Write the files."""
    for file in FILES:
        file.write_text(alerts(), "utf-8")


if __name__ == "__main__":
    main()
