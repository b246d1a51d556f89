"""The tracer that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio import to_thread

from memsvc.adapters.options import TracingOptions
from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Meter

if TYPE_CHECKING:
    from memsvc.adapters.spans import OtelTracer


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
    try:
        yield traces
    finally:
        await traces.stop()


def _traces(options: TracingOptions, meter: Meter, version: str) -> "OtelTracer":
    try:
        from memsvc.adapters.spans import OtelTracer  # noqa: PLC0415
    except ImportError as error:
        missing = (
            "tracing.endpoint: the packages for tracing are not installed; install"
            " memsvc[tracing], or leave the setting empty"
        )
        raise SettingsError([missing]) from error
    return OtelTracer(options, meter, version)
