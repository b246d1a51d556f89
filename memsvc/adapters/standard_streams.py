"""Lines on standard input and output for one protocol; other prints go to stderr."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final

READ_BYTES: Final = 65_536
STDIN, STDOUT, STDERR = 0, 1, 2

_Written = tuple[bytes, Callable[[OSError | None], None]]


class StandardStreams:
    """The two streams while they are claimed, used by one event loop, once.

    Two threads read and write them, as nothing else works on pipes, terminals and files alike. They
    are daemons and use the descriptors directly: one that waits for a silent client keeps neither
    the loop nor the process from ending.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._to_write: SimpleQueue[_Written] | None = None

    async def lines(self, line_bytes_max: int) -> AsyncIterator[bytes | None]:
        """Yield each input line, without its end, until the input ends.

        None for one that is too long.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[bytes | None, bool, Event]] = asyncio.Queue()

        def deliver(line: bytes | None, *, more: bool = True) -> None:
            taken = Event()
            loop.call_soon_threadsafe(queue.put_nowait, (line, more, taken))
            taken.wait()

        def read() -> None:
            with suppress(RuntimeError):  # the loop has ended: nobody reads more
                for line in _lines(self._source, line_bytes_max):
                    deliver(line)
                deliver(None, more=False)

        Thread(target=read, daemon=True, name="stdin").start()
        while True:
            line, more, taken = await queue.get()
            taken.set()
            if not more:
                return
            yield line

    async def write(self, line: bytes) -> None:
        """Write a line, and return when it is written; OSError when nobody reads any more."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: OSError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def notify(error: OSError | None) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, error)

        if self._to_write is None:
            self._to_write = SimpleQueue()
            Thread(
                target=self._keep_writing, args=(self._to_write,), daemon=True, name="stdout"
            ).start()
        self._to_write.put((line + b"\n", notify))
        await done

    def _keep_writing(self, to_write: SimpleQueue[_Written]) -> None:
        while True:
            rest, notify = to_write.get()
            try:
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
            except OSError as error:
                notify(error)
            else:
                notify(None)


def _lines(source: int, line_bytes_max: int) -> Iterator[bytes | None]:
    buffer = bytearray()
    too_long = False
    while chunk := os.read(source, READ_BYTES):
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            buffer += part
            yield None if too_long or len(buffer) > line_bytes_max else bytes(buffer)
            buffer.clear()
            too_long = False
        if too_long or len(buffer) + len(rest) > line_bytes_max:
            buffer.clear()
            too_long = True
        else:
            buffer += rest
    if buffer or too_long:
        yield None if too_long else bytes(buffer)


@contextmanager
def claimed_streams() -> Iterator[StandardStreams]:
    """Yield the streams; meanwhile the process reads nothing and prints to stderr."""
    sys.stdout.flush()
    source, sink = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, STDIN, inheritable=True)
        os.dup2(STDERR, STDOUT, inheritable=True)
        yield StandardStreams(source, sink)
    finally:
        os.close(nothing)
        sys.stdout.flush()
        os.dup2(source, STDIN, inheritable=True)
        os.dup2(sink, STDOUT, inheritable=True)
