"""A server as somebody finds it who has no key: whatever is sent goes on with one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

HEAD_BYTES_MAX = 64 * 1024


@asynccontextmanager
async def keyed(port: int, key: str) -> AsyncIterator[int]:
    """The port of this machine that hands requests on to another port, byte by byte but for the key
    in each."""

    async def serve(reads: asyncio.StreamReader, writes: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", port, limit=HEAD_BYTES_MAX)
        asked = asyncio.create_task(_requests(reads, to_there, key))
        try:
            while part := await there.read(65536):
                writes.write(part)
                await writes.drain()
        finally:
            asked.cancel()
            for stream in (writes, to_there):
                stream.close()
            with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
                await asked

    async def contained(reads: asyncio.StreamReader, writes: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one of the two went away
            await serve(reads, writes)

    server = await asyncio.start_server(contained, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def _requests(reads: asyncio.StreamReader, writes: asyncio.StreamWriter, key: str) -> None:
    """Hand one request on after another, until the client has no more; a server sees then that it
    has gone."""
    try:
        while True:
            head = await reads.readuntil(b"\r\n\r\n")
            first, _, headers = head.partition(b"\r\n")
            writes.write(first + b"\r\nAuthorization: Bearer " + key.encode() + b"\r\n" + headers)
            named = [line.partition(b":") for line in headers.lower().split(b"\r\n")]
            if any(name == b"transfer-encoding" for name, _, _ in named):
                await _chunks(reads, writes)
            length = next((int(value) for name, _, value in named if name == b"content-length"), 0)
            writes.write(await reads.readexactly(length))
            await writes.drain()
    except (asyncio.IncompleteReadError, OSError):
        writes.close()


async def _chunks(reads: asyncio.StreamReader, writes: asyncio.StreamWriter) -> None:
    while True:
        line = await reads.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        writes.write(line + await reads.readexactly(size + 2))
        if not size:
            return
