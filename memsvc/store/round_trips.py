"""Waits for the database, counted and traced for the running call or job.

A trace names a transaction or a statement by our calling function, never by its SQL.
"""

from contextlib import AbstractContextManager
from inspect import currentframe
from typing import Final

from memsvc.core.underway import UNTRACED, Span, Underway, Waiting

_BETWEEN: Final = frozenset({"memsvc.store.round_trips", "memsvc.store.database"})


def round_trip(asking: Underway, name: str = "") -> Waiting:
    """Return the context of one round trip."""
    asking.round_trips += 1
    return asking.waiting("database", "statement", (name or _operation()) if asking.tracer.recording else "")


def transaction(asking: Underway) -> AbstractContextManager[Span]:
    """Return the context of a transaction."""
    tracer = asking.tracer
    return tracer.span("transaction", _operation()) if tracer.recording else UNTRACED.span("transaction")


def _operation() -> str:
    frame = currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("memsvc.") and module not in _BETWEEN:
            return f"{module.removeprefix('memsvc.')}.{frame.f_code.co_name}"
        frame = frame.f_back
    return ""
