"""Calls a second of many clients at once, beside those of a tool that does nothing under as many
processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, cycle
from time import perf_counter

from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.service import Service, call

CLIENTS = 16
ROUNDS = 3
PROJECT, PATH = "busy", "/notes.md"

Next = Callable[[], Awaitable[object]]


async def compared(
    servers: Sequence[Service], nulls: Sequence[Service], wire: str, seconds: float
) -> tuple[float, float]:
    """Calls a second of the service and of the null tool, each so many seconds a round,
    interleaved. The mix is equal parts of before_turn, after_turn, file_read, file_stat and
    file_write; each client is a tenant of its own."""
    async with _clients(servers, wire) as ours, _clients(nulls, wire) as theirs:
        mixed = [_mix(client, number) for number, client in enumerate(ours)]
        idle = [_null(client) for client in theirs]
        await _rate(mixed, seconds / 4)  # warm
        await _rate(idle, seconds / 4)
        found = [(await _rate(mixed, seconds), await _rate(idle, seconds)) for _ in range(ROUNDS)]
    return table.p50([one for one, _ in found]), table.p50([other for _, other in found])


@asynccontextmanager
async def _clients(servers: Sequence[Service], wire: str) -> AsyncIterator[list[Client]]:
    """So many clients, each of the next server in turn."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(server.client(key=f"busy-{number}", wire=wire))
            for number, server in zip(range(CLIENTS), cycle(servers), strict=False)
        ]


async def _rate(clients: Sequence[Next], seconds: float) -> float:
    """Calls a second of all clients, each with the next call as soon as the last one is
    answered."""
    started = perf_counter()

    async def busy(following: Next) -> int:
        for made in count(1):
            await following()
            if perf_counter() - started >= seconds:
                return made
        raise AssertionError("counting does not end")

    made = await asyncio.gather(*(busy(following) for following in clients))
    return sum(made) / (perf_counter() - started)


def _null(client: Client) -> Next:
    return lambda: client.call_tool("null", {"session_id": "busy"})


def _mix(client: Client, number: int) -> Next:
    chatter, turns = Chatter(seed=100 + number), count()
    whose = {"project": PROJECT, "session_id": f"busy-{number}", "user_id": "ada"}
    file = {"project": PROJECT, "path": PATH}

    def write() -> Awaitable[object]:
        content = " ".join(chatter.message() for _ in range(8))
        return call(client, "file_write", **file, content=content, mode="TRUNCATE")

    def after() -> Awaitable[object]:
        said = [
            {"role": "user", "content": f"I like {chatter.question()[:-1]}. {chatter.message()}"}
        ]
        answered = [{"role": "assistant", "content": chatter.message()}]
        turn = f"turn-{next(turns)}"
        return call(
            client,
            "memory_after_turn",
            **whose,
            turn_id=turn,
            input_items=said,
            output_items=answered,
        )

    kinds = cycle(
        (
            write,
            lambda: call(client, "memory_before_turn", **whose, current_input=chatter.question()),
            lambda: call(client, "file_stat", **file),
            after,
            lambda: call(client, "file_read", **file),
        )
    )

    def following() -> Awaitable[object]:
        return next(kinds)()

    return following
