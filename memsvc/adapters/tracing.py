"""The tracer that the settings name."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, field_validator

from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Meter
from memsvc.core.urls import absolute_url

if TYPE_CHECKING:
    from memsvc.adapters.spans import OtelTracer

SIGNAL_PATH: Final = "/v1/traces"
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[\x21-\x7e][\x20-\x7e]*")


class TracingOptions(BaseModel):
    """Options of traces."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = Field(
        "",
        description=f"URL of an OTLP collector over HTTP, {SIGNAL_PATH} left out or not; empty:"
        " none",
    )
    headers: tuple[str, ...] = Field(
        (), repr=False, description="headers for the collector, each NAME=VALUE; a secret"
    )
    service_name: str = Field(
        "memsvc", min_length=1, max_length=200, description="what this service is called in them"
    )
    sample_ratio: float = Field(1.0, ge=0, le=1, description="share of the traces that are kept")
    timeout_ms: int = Field(
        5000, ge=1, description="how long the collector may take for a batch, and at the end"
    )
    flush_every_s: float = Field(2.0, gt=0, le=300, description="how often what waits is sent")
    queue_max: int = Field(
        4096, ge=1, le=1_000_000, description="spans that wait at the most; further ones are lost"
    )

    @field_validator("endpoint")
    @classmethod
    def _absolute(cls, value: str) -> str:
        return absolute_url(value)

    @field_validator("headers")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_HEADER.fullmatch(header) for header in value):
            raise ValueError("each must be NAME=VALUE")
        return value

    @property
    def url(self) -> str:
        """Return the URL that batches are sent to."""
        return self.endpoint + ("" if urlsplit(self.endpoint).path else SIGNAL_PATH)


@asynccontextmanager
async def opened_tracer(
    options: TracingOptions, meter: Meter, version: str
) -> AsyncIterator[Tracer]:
    """Open the tracer; its queue is sent at the end. Without an endpoint nothing is traced.

    Raises SettingsError where the packages for traces are missing. They are imported here and not
    before; the collector is not called before there is something to send.
    """
    if not options.endpoint:
        yield NO_TRACER
        return
    traces = await to_thread.run_sync(_traces, options, meter, version)
    async with traces.running():
        yield traces


def _traces(options: TracingOptions, meter: Meter, version: str) -> "OtelTracer":
    try:
        from memsvc.adapters.spans import OtelTracer  # noqa: PLC0415
    except ImportError as error:
        missing = (
            "tracing.endpoint: traces need packages that are missing; install"
            " memsvc[tracing], or leave it empty"
        )
        raise SettingsError([missing]) from error
    return OtelTracer(options, meter, version)
