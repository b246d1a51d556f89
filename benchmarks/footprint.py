"""What is stored takes of the disk, a call of the database, and a process of the memory when it has
nothing to do."""

import asyncio
import os
import sys
import tempfile
from typing import Any

import asyncpg
import orjson

from benchmarks.chatter import Chatter
from benchmarks.service import Service, another, call, process, rss_mb, until_said

BYTES_TAKEN = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class AS c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""
IDLE_S = 5.0
CALLS = 4
"""Of each of two kinds: the log of slow calls has ten lines a minute."""


async def stored_bytes(dsn: str) -> int:
    """What all tables take with their indexes."""
    connection = await asyncpg.connect(dsn)
    try:
        size: int = await connection.fetchval(BYTES_TAKEN)
        return size
    finally:
        await connection.close()


async def round_trips(running: Service, session: str) -> dict[str, int]:
    """The most waits for the database that a before_turn and an after_turn of a session and a user
    take, the latter of two items and a fact, BEGIN and COMMIT included: the log of slow calls tells
    them, where every call is slow."""
    chatter = Chatter(seed=5)
    facts = chatter.facts()
    with tempfile.TemporaryFile() as log:
        async with (
            another(running, stderr=log, MEMSVC_AUDIT__SLOW_MS="1") as slow,
            slow.client() as client,
        ):
            for number in range(CALLS):
                whose = {"session_id": session, "user_id": "ada", "turn_id": f"counted-{number}"}
                await call(client, "memory_before_turn", **whose, current_input=chatter.question())
                said = [
                    {"role": "user", "content": next(facts)},
                    {"role": "user", "content": chatter.message()},
                ]
                await call(client, "memory_after_turn", **whose, input_items=said)
        log.seek(0)
        lines: list[dict[str, Any]] = [orjson.loads(line) for line in log if b'"slow call"' in line]
    return {
        name: max(int(line["round_trips"]) for line in lines if line["tool"] == f"memory_{name}")
        for name in ("before_turn", "after_turn")
    }


async def idle_worker_mb(running: Service) -> float:
    """The resident memory of a worker on the service's database that has nothing to do."""
    environment = os.environ | {
        "MEMSVC_DATA_DIR": str(running.data_dir),
        "MEMSVC_LOG_LEVEL": "warning",
    }
    with process([sys.executable, "-m", "memsvc", "worker"], environment) as worker:
        await asyncio.to_thread(until_said, worker, b"working")
        await asyncio.sleep(IDLE_S)
        return rss_mb(worker.pid)
