"""Clients that call again at once whatever they are told: those of one key are served about as often as those of four.

They read and write sockets themselves, so that the clients take little of the processor that the server is measured on.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import orjson

from benchmarks import table
from benchmarks.faults.calling import OK, TEMPORARY, Answer
from benchmarks.faults.serving import Ground
from benchmarks.faults.trial import Trial

KEYS = 4
ROUNDS = 2
SERVED_SHARE_MIN = 0.5
REFUSAL_MS_MAX = 1000


async def insisted(folder: Path, *, clients: int, seconds: float) -> Trial:
    """So many connections, with one key and with four in turns, for so many seconds in all."""
    trial = Trial(f"{clients} clients that never wait, with one key and with {KEYS}")
    ground = Ground(folder)
    found: dict[int, list[Answer]] = {KEYS: [], 1: []}
    each_s = seconds / len(found)
    try:
        await ground.serve()
        await _insisting(ground.port, KEYS, KEYS, 1.0)  # the first calls of tenants
        for _ in range(ROUNDS):
            for keys in found:
                found[keys] += await _insisting(ground.port, keys, clients, each_s / ROUNDS)
        for keys, answers in found.items():
            _judge(trial, "one key" if keys == 1 else f"{keys} keys", answers, each_s)
        served = {keys: sum(one.code == OK for one in answers) for keys, answers in found.items()}
        trial.least(f"calls served of one key, beside {KEYS}", served[1] / served[KEYS], SERVED_SHARE_MIN)
    finally:
        await ground.end()
    return trial


def _judge(trial: Trial, whose: str, answers: Sequence[Answer], seconds: float) -> None:
    took_ms = [[one.took_s * 1000 for one in answers if (one.code == OK) is served] for served in (True, False)]
    served, refused = (sorted(each) or [0.0] for each in took_ms)
    trial.note(
        f"{whose}: calls served and refused a second", f"{len(served) / seconds:.0f}, {len(refused) / seconds:.0f}"
    )
    trial.note(f"{whose}: p99 of calls served, in ms", table.percentile(served, 0.99))
    trial.most(f"{whose}: p99 of refusals, in ms", table.percentile(refused, 0.99), REFUSAL_MS_MAX)
    trial.note(f"{whose}: longest refusal, in ms", refused[-1])
    trial.equal(f"{whose}: calls that failed otherwise", sum(one.code not in {OK, *TEMPORARY} for one in answers), 0)


async def _insisting(port: int, keys: int, clients: int, seconds: float) -> list[Answer]:
    """The answers to turns of as many clients."""
    until = monotonic() + seconds
    found: list[Answer] = []

    async def insist(number: int) -> None:
        client = await _Connection.open(port, f"tenant-that-insists-{number % keys}")
        who = {"session_id": f"s{number}", "user_id": f"u{number}"}
        for turn in count():
            if monotonic() >= until:
                break
            found.append(await client.call("memory_before_turn", who | {"current_input": "What tea do I like?"}))
            said = {"input_items": [{"role": "user", "content": f"I like tea number {turn}."}], "output_items": []}
            found.append(await client.call("memory_after_turn", who | said | {"turn_id": f"{until}-{turn}"}))
        client.writer.close()

    await asyncio.gather(*(insist(number) for number in range(clients)))
    return found


class _Connection:
    """One kept connection of HTTP/1.1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self._reader = reader
        self.writer = writer
        self._key = key

    @classmethod
    async def open(cls, port: int, key: str) -> "_Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port), key)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        """Call a tool over REST."""
        started = perf_counter()
        body = orjson.dumps(arguments)
        head = f"POST /api/tools/{tool} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._key}\r\n"
        sent = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(sent.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answered.partition(b"content-length:")[2].partition(b"\r\n")[0])
        told = orjson.loads(await self._reader.readexactly(length))
        return Answer(OK if answered[9:12] == b"200" else told["code"], told, perf_counter() - started)
