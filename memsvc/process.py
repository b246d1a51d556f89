"""Steps that every serving process takes: configure logs, freeze the heap, stop on signals."""

import asyncio
import ctypes
import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from memsvc.gateway.logs import configure_logging
from memsvc.settings import Settings

QUIET_MODULES = ("alembic", "mcp", "pgqueuer", "uvicorn")
SWITCH_S = 0.001
"""How long a thread that computes may keep the event loop waiting for the interpreter, each time
that it wakes. A call wakes it some twenty times."""
OBJECTS_MAX: Final = 5000
"""Objects after which garbage is collected. A recall has some two thousand at once, and no
garbage."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Notify = Callable[[str], None]
"""Prints how far a process has come, in words."""


def begin(settings: Settings) -> None:
    """Configure logging, and let a signal undo what was started."""
    configure_logging(settings.log_level)
    for name in QUIET_MODULES:
        logging.getLogger(name).setLevel(logging.WARNING)
    # until the process takes them over, so that what was started is stopped
    for each in STOP_SIGNALS:
        signal.signal(each, signal.default_int_handler)
    sys.setswitchinterval(SWITCH_S)
    gc.disable()  # until ready: what is loaded now stays, and scanning it again takes long


def ready() -> None:
    """Free garbage, exempt what has been loaded from later collections, and free unused memory."""
    gc.collect()
    gc.freeze()
    with suppress(AttributeError):  # only glibc has it, and it keeps 40 MB that loading used
        ctypes.CDLL(None).malloc_trim(0)
    gc.set_threshold(OBJECTS_MAX)
    gc.enable()


@contextmanager
def taken_over(stop: Callable[[], None]) -> Iterator[None]:
    """Let the signals that end this process call `stop`."""
    loop = asyncio.get_running_loop()
    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            # what is left is quick, and must not be interrupted
            signal.signal(each, signal.SIG_IGN)
