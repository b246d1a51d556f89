"""Traces, as a collector gets them from the whole service."""

import asyncio
import io
from typing import Any

import asyncpg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memsvc.adapters.options import ModelOptions, TracingOptions
from memsvc.settings import ToolSettings
from memsvc.worker import WorkerOptions
from tests.collector import Collector, Fault, collecting
from tests.endpoints import provider
from tests.gateway.conftest import ORIGIN, WIRES
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
SECRET = "canary-77ab01"
TRACE, ABOVE = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHER_TRACE, OTHER_ABOVE = "11f7651916cd43dd8448eb211c80319c", "c7ad6b7169203331"
CALL = {"project": SECRET, "path": f"/{SECRET}", "content": SECRET}
WORKING = WorkerOptions(poll_s=0.05, sample_s=0.1, sweep_s=0.1)


def tracing(collector: Collector, **options: Any) -> TracingOptions:
    return TracingOptions(**({"endpoint": collector.url, "flush_every_s": 0.02} | options))


async def call(
    service: Service, tool: str, headers: dict[str, str] | None = None, **arguments: Any
) -> Any:
    """A call over plain HTTP: the response."""
    async with service.http() as http:
        return await http.post(f"/api/tools/{tool}", json=arguments, headers=headers or {})


async def test_a_request_joins_the_trace_of_its_client_and_all_it_does_is_inside(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        headers = {"traceparent": f"00-{TRACE}-{ABOVE}-01", "X-Request-ID": "asked-1"}
        answer = await call(service, "file_write", headers, **CALL)
        assert answer.status_code == 200
        await collector.until("request POST")
    request, called = collector.one("request POST"), collector.one("call file_write")
    assert {span.trace for span in collector.spans} == {TRACE}
    assert (request.parent, called.parent) == (ABOVE, request.id)
    assert request.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/api/tools/{name}",
        "memsvc.request_id": "asked-1",
    }
    assert called.attributes["memsvc.status"] == "success"
    assert called.attributes["memsvc.round_trips"] > 3
    assert called.attributes["memsvc.database_ms"] > 0
    statements = [span for span in collector.spans if span.name.startswith("statement ")]
    assert {"statement SELECT files", "statement SELECT create_file"} <= {
        span.name for span in statements
    }
    for span in statements:
        assert [name.split()[0] for name in collector.above(span)] == [
            "transaction",
            "call",
            "request",
        ]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_over_mcp_joins_the_trace_in_its_meta(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, wire: str
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        async with (
            service.http() as http,
            Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
        ):
            meta = {"traceparent": f"00-{OTHER_TRACE}-{OTHER_ABOVE}-01"}
            await client.call_tool("file_write", CALL, meta=meta)
        await collector.until("call file_write")
    called = collector.one("call file_write")
    assert (called.trace, called.parent) == (OTHER_TRACE, OTHER_ABOVE)
    assert called.links  # to the request that it came with


@pytest.mark.parametrize(
    "given", ["", "00-0-0-01", f"00-{'0' * 32}-{ABOVE}-01", f"ff-{TRACE}-{ABOVE}-01", SECRET]
)
async def test_what_is_no_traceparent_begins_a_trace(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, given: str
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        await call(service, "file_write", {"traceparent": given}, **CALL)
        await collector.until("request POST")
    request = collector.one("request POST")
    assert (request.parent, request.trace != TRACE) == ("", True)


async def test_a_client_that_keeps_no_trace_gets_none_kept_here(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        await call(service, "file_write", {"traceparent": f"00-{TRACE}-{ABOVE}-00"}, **CALL)
        await call(service, "file_stat", project=SECRET, path=f"/{SECRET}")
        await collector.until("call file_stat")
    assert TRACE not in {span.trace for span in collector.spans}


async def test_steps_of_a_pipeline_are_inside_its_call(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        read = {"tool": "file_read", "args": {"project": SECRET, "path": f"/{SECRET}"}}
        steps = [
            {"id": "w", "tool": "file_write", "args": CALL},
            {"id": "p", "parallel": [{"id": SECRET, **read}]},
        ]
        assert (await call(service, "mcp_pipe", steps=steps)).json()["ok"] is True
        await collector.until("call mcp_pipe", "request POST")
    for name in ("call file_write", "call file_read"):
        assert collector.above(collector.one(name)) == ["call mcp_pipe", "request POST"]


@pytest.mark.slow
async def test_a_job_is_linked_to_the_call_that_queued_it_and_its_models_are_inside(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, log_lines: io.BytesIO
) -> None:
    turn = {"project": SECRET, "session_id": SECRET, "turn_id": "t", "user_id": SECRET}
    turn["input_items"] = [{"type": "message", "role": "user", "content": f"I sail to {SECRET}."}]
    async with provider() as models, collecting() as collector:
        settings = {
            "tracing": tracing(collector),
            "model": ModelOptions(model="openai:m", base_url=models.url, api_key="k", retries=0),
            "settings": ToolSettings.model_validate(
                {"mcp": {"memory": {"heuristic": {"enabled": True}}}}
            ),
            "worker": WORKING,
        }
        async with served(database_urls, admin, **settings) as service:
            models.plan.append("busy")
            await call(service, "memory_after_turn", {"X-Request-ID": "asked-2"}, **turn)
            await collector.until("model extract", "job turns.extract", "call memory_after_turn")
    written = {
        span.id for span in collector.spans if "call memory_after_turn" in collector.above(span)
    }
    job = next(span for span in collector.spans if span.name == "job turns.extract")
    assert job.links
    assert {*job.links} <= written
    assert job.attributes["memsvc.request_id"] == "asked-2"
    assert job.trace not in {span.trace for span in collector.spans if span.id in written}
    asked = next(span for span in collector.spans if span.name == "model extract")
    assert asked.failed
    assert collector.above(asked) == ["job turns.extract"]
    assert all(SECRET.encode() not in body for body in collector.bodies)
    lines = [
        line
        for line in log_lines.getvalue().decode().splitlines()
        if "a job will be retried" in line
    ]
    assert lines
    assert all('"request_id":"asked-2"' in line and '"job_id":' in line for line in lines)


async def test_the_model_that_a_call_waits_for_is_inside_the_call(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with provider() as models, collecting() as collector:
        model = ModelOptions(model="openai:m", base_url=models.url, api_key="k", retries=0)
        entries = [{"role": "user", "content": SECRET}]
        async with served(database_urls, admin, tracing=tracing(collector), model=model) as service:
            await call(
                service, "context_update", user_id=SECRET, conversation_id=SECRET, entries=entries
            )
            await collector.until("call context_update")
    called = collector.one("call context_update")
    [asked] = [span for span in collector.spans if span.name.startswith("model ")]
    assert collector.above(asked) == ["call context_update", "request POST"]
    assert called.attributes["memsvc.model_ms"] > 0
    assert all(SECRET.encode() not in body for body in collector.bodies)


async def test_a_failed_call_is_told_by_its_code_alone(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        collecting() as collector,
        served(database_urls, admin, tracing=tracing(collector)) as service,
    ):
        await call(service, "file_delete", project="p", path=f"/{SECRET}")
        await call(service, SECRET, project="p")
        await collector.until("call file_delete", "call unknown")
    assert collector.one("call file_delete").failed
    assert collector.one("call file_delete").attributes["memsvc.code"] == "NOT_FOUND"
    assert all(SECRET.encode() not in body for body in collector.bodies)


async def test_headers_go_to_the_collector_and_health_is_not_traced(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-of-others={SECRET}")
    async with collecting() as collector:
        options = tracing(
            collector, headers=("authorization=Bearer of-the-collector",), service_name="mine"
        )
        async with served(database_urls, admin, tracing=options) as service, service.http() as http:
            for path in ("/healthz", "/readyz", "/metrics"):
                await http.get(path)
            await call(service, "file_write", **CALL)
            await collector.until("request POST")
        assert {head.split()[1] for head in collector.heads} == {"/v1/traces"}
        assert all("authorization: Bearer of-the-collector" in head for head in collector.heads)
        assert not any(SECRET in head for head in collector.heads)
        assert b"mine" in collector.bodies[0]
        assert "request GET" not in {span.name for span in collector.spans}


@pytest.mark.parametrize("fault", ["hang up", "silent", "broken", "refuses", "garbage"])
async def test_a_collector_that_takes_nothing_fails_no_call_and_is_told_of_once(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, log_lines: io.BytesIO, fault: Fault
) -> None:
    async with collecting(fault) as collector:
        options = tracing(collector, timeout_ms=200, queue_max=40)
        async with served(database_urls, admin, tracing=options) as service, service.http() as http:
            for count in range(1, 5):
                assert (await call(service, "file_write", **CALL)).status_code == 200
                await collector.until(batches=count)
            lost = (await http.get("/metrics")).text
            collector.fault = "fine"
            while "call file_stat" not in {
                span.name for span in collector.spans
            }:  # what waited goes first
                await call(service, "file_stat", project=SECRET, path=f"/{SECRET}")
                await collector.until(batches=len(collector.bodies) + 1)
    told = [
        line
        for line in log_lines.getvalue().decode().splitlines()
        if '"the trace collector' in line
    ]
    assert [("does not accept spans" in line, "again" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    assert 'memsvc_trace_spans_total{outcome="lost"}' in lost
    assert SECRET not in "".join(told)


async def test_what_waits_is_sent_at_the_end(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with collecting() as collector:
        async with served(
            database_urls, admin, tracing=tracing(collector, flush_every_s=300)
        ) as service:
            await call(service, "file_write", **CALL)
            assert collector.spans == []
        assert collector.one("call file_write").attributes["memsvc.status"] == "success"


async def test_a_share_of_the_traces_is_kept_whole_or_not_at_all(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with collecting() as collector:
        async with served(
            database_urls, admin, tracing=tracing(collector, sample_ratio=0.5)
        ) as service:
            traces = [f"{number:032x}" for number in (1, 2**63 - 1, 2**63 + 1, 2**64 - 1)]
            await asyncio.gather(
                *(
                    call(
                        service,
                        "file_stat",
                        {"traceparent": f"00-{trace}-{ABOVE}-01"},
                        project="p",
                        path="/",
                    )
                    for trace in traces
                )
            )
        assert {span.trace for span in collector.spans} == {*traces[:2]}
        assert len({span.name for span in collector.spans}) > 3
