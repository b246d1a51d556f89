"""The tracer that the settings ask for."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from memsvc.adapters.options import TracingOptions
from memsvc.adapters.tracing import opened_tracer
from memsvc.core.call_context import NO_TRACER
from memsvc.core.errors import SettingsError
from tests.fakes import RecordingMeter

pytestmark = pytest.mark.anyio


async def test_without_an_endpoint_nothing_is_traced(meter: RecordingMeter) -> None:
    async with opened_tracer(TracingOptions(), meter, "1") as tracer:
        assert tracer is NO_TRACER
        with tracer.span("call", "echo") as span:
            span.note(status="error")
            assert (tracer.is_enabled, tracer.traceparent()) == (False, "")


@pytest.mark.slow
def test_a_server_that_traces_nothing_does_not_load_what_traces_need() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, memsvc.app; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = told.stdout.split()
    assert "memsvc.adapters.tracing" in loaded
    assert [
        name for name in loaded if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))
    ] == []


async def test_an_endpoint_without_the_packages_stops_the_start(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "memsvc.adapters.spans", None)
    with pytest.raises(SettingsError, match=r"tracing\.endpoint: .*memsvc\[tracing\]"):
        async with opened_tracer(TracingOptions(endpoint="http://127.0.0.1:1"), meter, "1"):
            pass


async def test_a_kind_or_an_attribute_outside_the_closed_sets_is_a_fault(
    meter: RecordingMeter,
) -> None:
    async with opened_tracer(TracingOptions(endpoint="http://127.0.0.1:1"), meter, "1") as tracer:
        with pytest.raises(KeyError), tracer.span("thought"):
            pass
        with pytest.raises(KeyError), tracer.span("call", "echo", {"project": "p"}):
            pass
        with pytest.raises(KeyError), tracer.span("call", "echo") as span:
            span.note(session_id="s")


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector/v1/traces", "https://collector/v1/traces"),
        ("https://collector/otlp/of/ours", "https://collector/otlp/of/ours"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(endpoint: str, url: str) -> None:
    assert TracingOptions(endpoint=endpoint).url == url


@pytest.mark.parametrize(
    "header", ["no value", "=value", "name=", "na me=value", "name=va\nlue", "name=v\u00e4lue"]
)
def test_a_header_that_is_none_is_refused_and_none_is_shown(header: str) -> None:
    with pytest.raises(ValidationError):
        TracingOptions(headers=(header,))
    assert "s3cret" not in repr(TracingOptions(headers=("authorization=s3cret",)))
