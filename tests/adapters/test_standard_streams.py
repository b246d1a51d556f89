"""Lines on descriptors: split wherever the pipe splits them, bounded, written whole."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from memsvc.adapters.standard_streams import StandardStreams

LONG_S = 30


class Pipes:
    """Two pipes: what comes in by `into` is read, and what is written comes out of `out`.

    The other ends stay open, as `claimed_streams` leaves them: a thread that comes to read late
    would take the bytes of whichever file has been opened under the number meanwhile.
    """

    def __init__(self) -> None:
        source, self.into = os.pipe()
        self.out, sink = os.pipe()
        self.streams = StandardStreams(source, sink)
        self.open = {self.into, self.out}

    def close(self, *descriptors: int) -> None:
        for one in descriptors:
            self.open.discard(one)
            os.close(one)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    pipes = Pipes()
    yield pipes
    pipes.close(*pipes.open)


async def _lines(pipes: Pipes, *pieces: bytes, line_bytes_max: int = 10) -> list[bytes | None]:
    for piece in pieces:
        os.write(pipes.into, piece)
    pipes.close(pipes.into)
    async with asyncio.timeout(LONG_S):
        return [line async for line in pipes.streams.lines(line_bytes_max)]


async def test_lines_come_out_as_they_went_in(pipes: Pipes) -> None:
    assert await _lines(pipes, b"one\ntw", b"o\n", b"\n\xff\xfe\nend") == [
        b"one",
        b"two",
        b"",
        b"\xff\xfe",
        b"end",
    ]


async def test_a_line_that_is_too_long_is_told_once_and_the_next_one_is_read(pipes: Pipes) -> None:
    long = b"x" * 200_000
    reading = asyncio.create_task(
        asyncio.to_thread(os.write, pipes.into, b"1234567890\n" + long[:50_000])
    )
    await reading
    assert await _lines(pipes, b"yyy\nok\n12345678901\n") == [b"1234567890", None, b"ok", None]


async def test_a_line_is_written_whole_however_slowly_it_is_read(pipes: Pipes) -> None:
    line = os.urandom(200_000).replace(b"\n", b" ")

    def read() -> bytes:
        whole = b""
        while len(whole) <= len(line):
            whole += os.read(pipes.out, 1000)
        return whole

    async with asyncio.timeout(LONG_S):
        read_all, _ = await asyncio.gather(asyncio.to_thread(read), pipes.streams.write(line))
    assert read_all == line + b"\n"


async def test_writing_to_nobody_is_an_error(pipes: Pipes) -> None:
    pipes.close(pipes.out)
    with pytest.raises(BrokenPipeError):
        await pipes.streams.write(b"line")


async def test_who_waits_for_a_silent_client_can_be_stopped(pipes: Pipes) -> None:
    waiting = asyncio.create_task(anext(aiter(pipes.streams.lines(10))))
    os.write(pipes.into, b"a\n")
    assert await waiting == b"a"
    lines = pipes.streams.lines(10)
    waiting = asyncio.create_task(anext(aiter(lines)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
