"""What calls are compared with: a tool that does nothing on the same SDK stack, a raw commit in the
same database."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
from mcp import Client

from benchmarks.service import Service, free_port


@asynccontextmanager
async def null_service() -> AsyncIterator[Service]:
    """A server whose one tool does nothing."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.null_tool", str(port)])
    try:
        for _ in range(400):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield Service(f"http://127.0.0.1:{port}/mcp", "null")
    finally:
        process.terminate()
        process.wait(timeout=10)


@asynccontextmanager
async def null_tool(wire: str) -> AsyncIterator[Client]:
    """A client of a server whose tool does nothing."""
    async with null_service() as running, running.client(wire=wire) as client:
        yield client


@asynccontextmanager
async def raw_commits(running: Service) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """A function that commits one row to the same server by the bare driver."""
    connection = await asyncpg.connect(running.superuser_dsn())
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS benchmark_commits (id bigserial PRIMARY KEY, body text)"
    )
    try:
        yield lambda: connection.execute(
            "INSERT INTO benchmark_commits (body) VALUES ($1)", "x" * 130
        )
    finally:
        await connection.execute("DROP TABLE benchmark_commits")
        await connection.close()
