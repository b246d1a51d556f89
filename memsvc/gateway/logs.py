"""Logging: one line of JSON per event on standard error, without any content."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, BinaryIO, cast

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

FRAMES_MAX = 16
CHAIN_MAX = 4

# Libraries whose messages are about themselves. All others (mcp, asyncio, asyncpg, httpx2) put
# requests, headers, values and the text of exceptions into theirs, so only the place in their
# source is logged.
_TRUSTED = ("memsvc", "uvicorn", "alembic")


def locations(error: BaseException) -> list[str]:
    """Return the types and places of an exception and its causes, never their text.

    The innermost cause is last."""
    return [
        line
        for link in _chain(error)
        for line in (*_frames(link.__traceback__), type(link).__qualname__)
    ]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    links: list[BaseException] = []
    while error is not None and len(links) < CHAIN_MAX:
        links.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    yield from reversed(links)


def _frames(trace: TracebackType | None) -> list[str]:
    frames = list(traceback.walk_tb(trace))[-FRAMES_MAX:]
    return [
        f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}"
        for frame, line in frames
    ]


def _without_text(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and its places; a structlog processor."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event["error"] = type(error).__qualname__
        event["at"] = locations(error)
    return event


def _json(event: EventDict, **_: Any) -> bytes:
    return orjson.dumps(event, default=lambda value: type(value).__qualname__)


class _Bridge(logging.Handler):
    """Handler that passes records of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        trusted = record.name.split(".", 1)[0] in _TRUSTED
        event = f"{record.name}:{record.lineno} {record.funcName}"
        if trusted:
            # a traceback may follow, which `at` replaces
            event = record.getMessage().strip().split("\n", 1)[0]
        logger = structlog.get_logger(record.name)
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        logger.log(level, event, logger=record.name, exc_info=record.exc_info)


class _SafeStream:
    """Stream whose reader may go away: a line that cannot be written raises no error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: bytes) -> int:
        with suppress(BrokenPipeError):
            return self._file.write(line)
        return len(line)

    def flush(self) -> None:
        with suppress(BrokenPipeError):
            self._file.flush()


def configure_logging(level: str = "info", file: BinaryIO | None = None) -> None:
    """Send every log line of this process as JSON to stderr.

    Run uvicorn with `log_config=None, access_log=False`.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_text,
            structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(
            cast(BinaryIO, _SafeStream(file or sys.stderr.buffer))
        ),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(max(number, logging.INFO))
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        package_logger = logging.getLogger(name)
        package_logger.handlers[:] = []
        package_logger.propagate = name != "uvicorn.access"
