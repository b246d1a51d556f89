"""Every published metric moves when that happens which it tells of, and no caller can make a
series."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.options import EmbeddingOptions, ModelOptions, RerankOptions, TracingOptions
from memsvc.core.errors import Code
from memsvc.gateway.call_accounting import AuditOptions
from memsvc.gateway.metrics import Metrics, MetricsOptions, describe_metrics
from memsvc.settings import ToolSettings
from memsvc.worker import WorkerOptions
from tests.collector import collecting
from tests.endpoints import Provider, provider
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FED_ELSEWHERE = {
    # what is under way, which other tests hold open, and what is refused or lost when there is too
    # much of it
    "memsvc_calls_running",
    "memsvc_calls_waiting",
    "memsvc_listeners_open",
    "memsvc_model_refusals_total",
    "memsvc_model_refused",
    "memsvc_rates_told_total",
    "memsvc_refused_total",
    "memsvc_slot_wait_ms",
    "memsvc_sse_open",
    "memsvc_traces_dropped_total",
}
LEFT_JOBS = """
    INSERT INTO memsvc_queue (priority, entrypoint, status, created, updated, execute_after,
        heartbeat)
    SELECT 0, entrypoint, status::memsvc_queue_status, now(), now(), now() - interval '1 hour',
        now()
    FROM (VALUES ('nobody', 'queued'), ('nobody', 'failed')) AS jobs (entrypoint, status)
"""
"""A job that nobody here runs, so that it waits, and one that failed."""
TURNS = ToolSettings.model_validate(
    {
        "mcp": {
            "memory": {
                "shadow": {"enabled": True},
                "heuristic": {"enabled": True},
                "recent_context_items": 1,
                "max_input_tok": 100,
            }
        }
    }
)


async def exposed(service: Service, token: str = "") -> dict[str, float]:
    """Every series with its value."""
    async with service.http() as http:
        answer = await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def moved(series: dict[str, float]) -> set[str]:
    """The metrics of which some series is not zero, a histogram by its count."""
    names = {
        name.partition("{")[0] for name, value in series.items() if value and "_bucket" not in name
    }
    return {name.removesuffix("_count") for name in names} | names


@asynccontextmanager
async def everything(
    urls: DatabaseUrls, admin: asyncpg.Connection, models: Provider, **settings: Any
) -> AsyncIterator[Service]:
    """The service with all that it can have."""
    async with collecting() as collector:
        given = {
            "settings": TURNS,
            "model": ModelOptions(model="openai:m", base_url=models.url, api_key="k", retries=0),
            "embeddings": EmbeddingOptions(
                provider="openai", base_url=f"{models.url}/v1", model="m", retries=0
            ),
            "rerank": RerankOptions(endpoint=f"{models.url}/rerank"),
            "tracing": TracingOptions(endpoint=collector.url, flush_every_s=0.02),
            "worker": WorkerOptions(poll_s=0.05, sample_s=0.05),
            "audit": AuditOptions(slow_ms=1, backlog_max=1, flush_every_s=300, batch_records=1000),
        }
        async with served(urls, admin, **(given | settings)) as service:
            yield service


def turn(number: int, says: str) -> dict[str, Any]:
    said = [{"type": "message", "role": "user", "content": says}]
    answered = [{"type": "message", "role": "assistant", "content": f"Noted: {says}"}]
    named = {"session_id": "s", "turn_id": f"t{number}", "user_id": "u"}
    return named | {"input_items": said, "output_items": answered}


@pytest.mark.one_server("sizes are those of the coordinator")
async def test_every_metric_moves(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> None:
    async with (
        provider() as models,
        everything(database_urls, admin, models) as service,
        service.http() as http,
    ):

        async def call(tool: str, **arguments: Any) -> Any:
            return (await http.post(f"/api/tools/{tool}", json={"project": "p"} | arguments)).json()

        models.finds = {
            "changes": [{"change": "add", "key": "home", "value": "Kobe", "evidence": ["t1-in-0"]}]
        }
        for number in range(1, 5):
            await call(
                "memory_after_turn",
                **turn(number, f"My name is Ada. I live by coast {number} of Kobe."),
            )
        conflict = await call("memory_after_turn", **turn(1, "Something else."))
        assert conflict["code"] == "CONFLICT"
        async with service.http(None) as nobody:
            assert (await nobody.get("/api/tools")).status_code == 401
        asked = {
            "session_id": "s",
            "turn_id": "t9",
            "user_id": "u",
            "current_input": "Where is the coast of Kobe?",
            "max_input_tok": 9000,
        }
        await call("memory_before_turn", **asked)
        own = {
            "own_input_items": [],
            "own_facts": [{"id": "user_name", "value": "Eve"}],
            "own_files": [],
        }
        await call("memory_shadow_compare", **(asked | own))
        await call("memory_run_maintenance", session_id="s")
        await call(
            "file_write", path="/a.md", content="The coast of Kobe is steep. Trains go there."
        )
        await call("file_write", path="/b.md", content="Another coast, which is flat, of Kobe.")
        for name in ("/a.md", "/b.md"):
            await call("file_stat", path=name)
        await call(
            "context_update",
            user_id="u",
            conversation_id="c",
            entries=[{"role": "user", "content": "Hello"}],
        )
        await admin.execute("ANALYZE entries")
        missing = {one.name for one in describe_metrics()} - FED_ELSEWHERE
        late = {"memsvc_embedding_failures_total", "memsvc_jobs_failed"}
        for _ in range(100):  # the worker and what is behind the answers take their time
            await call("file_search", query="steep coast of Kobe")
            missing -= moved(await exposed(service))
            if missing <= late:
                break
            await asyncio.sleep(0.05)
        models.always = "refuses"
        await call("file_search", query="another question")
        await admin.execute(LEFT_JOBS)
        for _ in range(100):
            missing -= moved(await exposed(service))
            if not missing:
                break
            await asyncio.sleep(0.05)
        assert missing == set(), "feed it here, or name it among those that another test feeds"


HOSTILE = ["x" * 300, 'a"} 1\nmemsvc_calls_total{tool="b', "../..", "échec", "unknown", ""]


async def test_no_name_of_a_caller_makes_a_series(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, service.http() as http:
        before = await exposed(service)
        for name in HOSTILE:
            request = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": name, "arguments": {}},
            }
            await http.post(
                "/mcp", json=request, headers={"Accept": "application/json, text/event-stream"}
            )
            await http.post(
                "/api/tools/file_stat", json={"project": name, "path": f"/{name}", "plugin": name}
            )
            await http.post(
                "/api/tools/memory_after_turn",
                json=turn(1, name) | {"session_id": name, "user_id": name},
            )
            await http.request(
                "GET", "/api/tools", headers={"X-Request-ID": "r" * 100, "traceparent": "odd"}
            )
        after = await exposed(service)
    begun = " ".join(after.keys() - before.keys())
    # a tool that is used begins series, whose labels take the published values alone
    assert set(re.findall(r'tool="(.*?)"', begun)) <= {
        "file_stat",
        "memory_after_turn",
        "unknown",
    }
    assert set(re.findall(r'code="(.*?)"', begun)) <= {"", *(code.value for code in Code)}
    assert set(re.findall(r"([a-z]+)=", begun)) <= {"tool", "status", "code", "job", "le"}
    assert after != before


async def test_a_scrape_before_the_first_call_is_small(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, service.http() as http:
        page = (await http.get("/metrics")).content
    assert len(page) < 50_000, len(page)


async def test_metrics_want_the_token_that_is_set(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin, metrics=MetricsOptions(token="s3cret")) as service,
        service.http() as http,
    ):
        for given in ("", "Bearer", "Bearer s3cre", "Bearer s3cret2", "s3cret", "Bearer key-one"):
            refused = await http.get("/metrics", headers={"Authorization": given})
            assert (refused.status_code, refused.json()["code"]) == (401, "PERMISSION_DENIED")
        assert "memsvc_pool_open" in await exposed(service, "s3cret")
        assert (await http.get("/healthz")).status_code == 200


def test_a_name_says_its_unit_and_every_help_is_a_sentence_of_its_own() -> None:
    all_of_them = list(describe_metrics())
    assert len({one.help for one in all_of_them}) == len(all_of_them)
    for one in all_of_them:
        if one.kind == "counter":
            assert one.name.endswith("_total")
        if one.kind == "histogram":
            assert list(one.buckets) == sorted({*one.buckets})
            assert one.name.endswith("_ms") or one.unit == ""
    page = Metrics().text().decode()
    assert all(f"# HELP {one.name} {one.help}" in page for one in all_of_them)
