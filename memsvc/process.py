"""What every serving process does: log, load what it needs, and end when it is told to."""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memsvc.gateway.logs import configure_logging
from memsvc.settings import Settings

QUIET_LIBRARIES = ("alembic", "mcp", "pgqueuer", "uvicorn")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Say = Callable[[str], None]
"""Who is told, in words, how far a process has come."""


def begin(settings: Settings) -> None:
    """What every serving process does first: log as it should, and let a signal undo what was started."""
    configure_logging(settings.log_level)
    for library in QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    for each in STOP_SIGNALS:  # until the process's own part takes them over, so that what was started is stopped
        signal.signal(each, signal.default_int_handler)
    gc.disable()  # until it is ready: what is loaded and put together stays, and looking through it again takes long


def ready() -> None:
    """What every serving process does when all that it stands on is there: it stays, and is looked through no more."""
    gc.collect()
    gc.freeze()
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
            signal.signal(each, signal.SIG_IGN)  # what is left is quick, and must not stop half way
