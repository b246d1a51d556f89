"""Waits for the database, counted and traced for the running call or job.

A trace names a transaction or a statement by our calling function, never by its SQL.
"""

from contextlib import AbstractContextManager
from inspect import currentframe
from typing import Final

from memsvc.core.call_context import NO_TRACER, CallContext, TraceSpan, WaitTimer

_BETWEEN: Final = frozenset({"memsvc.store.database_trace", "memsvc.store.database"})


def round_trip(call: CallContext, name: str = "") -> WaitTimer:
    """Return the context of one round trip."""
    call.round_trips += 1
    return call.timer(
        "database", "statement", (name or _operation()) if call.tracer.is_enabled else ""
    )


def transaction(call: CallContext) -> AbstractContextManager[TraceSpan]:
    """Return the context of a transaction."""
    tracer = call.tracer
    return (
        tracer.span("transaction", _operation())
        if tracer.is_enabled
        else NO_TRACER.span("transaction")
    )


def _operation() -> str:
    frame = currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("memsvc.") and module not in _BETWEEN:
            return f"{module.removeprefix('memsvc.')}.{frame.f_code.co_name}"
        frame = frame.f_back
    return ""
