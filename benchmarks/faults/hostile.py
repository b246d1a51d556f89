"""Bodies and headers that no client of ours would send, thousands of them, to a server that serves
others meanwhile."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.faults.calling import TENANTS, mcp_request
from benchmarks.faults.serving import Ground, rss_mb
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import Writers

SENDERS = 12
WAIT_S = 15.0
GROWTH_MB_MAX = 150
METHODS = (
    "tools/call",
    "tools/list",
    "initialize",
    "resources/read",
    "prompts/get",
    "ping",
    "no/such",
    "server/discover",
)
TOOLS = (
    "memory_before_turn",
    "memory_after_turn",
    "file_read",
    "file_write",
    "find_tool",
    "mcp_pipe",
    "read_document",
)
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**400, -(2**63) - 1, 1e308, "", "\x00", "a" * 5000, "../../etc/passwd", "\ud83d", "\u202ex",
    "😀" * 200, "%00", "' OR 1=1 --", [], {}, [[]] * 50, {"a": {"b": {}}}, {"__proto__": 1}, [None] * 1000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """What goes over a connection: some bytes, and whether the client then closes its side half
    way."""

    raw: bytes
    cut: bool = False


def dumped(value: Any) -> bytes:
    """JSON that may hold what no parser likes: huge numbers, half surrogates."""
    return json.dumps(value, ensure_ascii=True).encode()


class Hostile:
    """Makes requests; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._kinds: dict[str, Callable[[], Request]] = {
            "random bytes": lambda: self._post(
                self._chance.randbytes(self._chance.randrange(1, 3000))
            ),
            "no JSON": lambda: self._post(self._mangled(self._call())),
            "wrong types": lambda: self._post(dumped(self._call())),
            "wrong envelope": lambda: self._post(dumped(self._envelope())),
            "deep": lambda: self._post(self._deep()),
            "huge numbers": lambda: self._post(
                b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}'
            ),
            "wrong headers": lambda: self._post(dumped(self._call()), self._headers()),
            "wrong method": self._wrong_method,
            "half a body": lambda: Request(
                self._post(dumped(self._call())).raw[: -self._chance.randrange(1, 20)], True
            ),
            "other encoding": lambda: self._post(dumped(self._call()).decode().encode("utf-16")),
            "no HTTP": lambda: Request(self._chance.randbytes(200) + b"\r\n\r\n", True),
            "batch": lambda: self._post(
                dumped([self._call() for _ in range(self._chance.randrange(0, 30))])
            ),
        }

    def next(self) -> tuple[str, Request]:
        """A kind of request, and one of that kind."""
        kind = self._chance.choice(list(self._kinds))
        return kind, self._kinds[kind]()

    def _odd(self) -> Any:
        return self._chance.choice(ODD)

    def _call(self) -> dict[str, Any]:
        names = (
            "session_id",
            "current_input",
            "input_items",
            "path",
            "project",
            "limit",
            "content",
            "query",
            "pipeline",
        )
        arguments = {
            name: self._odd()
            for name in self._chance.sample(names, self._chance.randrange(len(names)))
        }
        name = self._chance.choice((*TOOLS, self._odd()))
        return {"jsonrpc": "2.0", "id": self._chance.choice((1, "x")), "method": self._chance.choice(METHODS),
                "params": {"name": name, "arguments": self._chance.choice((arguments, self._odd()))}}  # fmt: skip

    def _envelope(self) -> Any:
        made = self._call()
        for member in self._chance.sample(sorted(made), self._chance.randrange(1, 4)):
            made[member] = self._odd()
        return self._chance.choice((made, made, self._odd()))

    def _mangled(self, made: Any) -> bytes:
        raw = bytearray(dumped(made))
        for _ in range(self._chance.randrange(1, 8)):
            raw[self._chance.randrange(len(raw))] = self._chance.randrange(256)
        return bytes(raw)

    def _deep(self) -> bytes:
        depth = self._chance.choice((60, 70, 500, 100_000))
        opening, closing = self._chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return opening * depth + b"1" + closing * depth

    def _headers(self) -> dict[str, str]:
        odd = (
            "",
            "x" * 4000,
            "2026-07-28",
            "1999-01-01",
            "*/*",
            "text/html",
            "application/json; charset=utf-7",
            "-1",
            "1e9",
        )
        names = ("Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id",
                 "Last-Event-ID", "Origin", "Host", "Content-Encoding", "Expect", "traceparent")  # fmt: skip
        return {name: self._chance.choice(odd) for name in self._chance.sample(names, 4)}

    def _wrong_method(self) -> Request:
        verb = self._chance.choice(
            ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "FOO")
        )
        return Request(self._post(b"{}").raw.replace(b"POST", verb.encode(), 1))

    def _post(self, body: bytes, other: dict[str, str] | None = None) -> Request:
        wire = self._chance.choice(("2026-07-28", "2025-11-25"))
        _, headers = mcp_request(wire, self._chance.choice(TOOLS), {})
        key = self._chance.choice(TENANTS).key
        headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {key}"} | headers | (other or {})
        path = self._chance.choice(
            ("/mcp", "/mcp", "/mcp", "/mcp/", "/api/tools/memory_after_turn")
        )
        head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        return Request(
            (
                head + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
            ).encode()
            + body
        )


async def bombarded(folder: Path, *, requests: int) -> Trial:
    """Send them while two writers write."""
    trial = Trial(f"{requests} malformed requests on both wires of MCP")
    ground = Ground(folder)
    answers: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    try:
        server = await ground.serve()
        writers = Writers(ground, writers=2, pause_s=0.2)
        async with writers.running() as acknowledged:
            await acknowledged.reaches(4)
            hostile = Hostile(seed=3)
            before_mb = rss_mb(server.process.pid)
            left = iter(range(requests))

            async def send() -> None:
                for _ in left:
                    kind, request = hostile.next()
                    ended = await _sent(ground.port, request)
                    answers[ended] += 1
                    if ended.startswith("5") or ended == "no end":
                        wrong[f"{kind}: {ended}"] += 1

            started = monotonic()
            await asyncio.gather(*(send() for _ in range(SENDERS)))
            took_s = monotonic() - started
            grown_mb = rss_mb(server.process.pid) - before_mb
            await ground.scrape()
        trial.note(
            "statuses", ", ".join(f"{status} {times}" for status, times in answers.most_common())
        )
        trial.note("requests a second", requests / took_s)
        trial.equal(
            "answered with 5xx",
            sum(times for what, times in wrong.items() if "no end" not in what),
            0,
        )
        trial.equal(f"without an end within {WAIT_S:.0f} s", answers["no end"], 0)
        trial.most("memory grown by, in MB", grown_mb, GROWTH_MB_MAX)
        trial.equal("errors in the log", len(ground.failures_logged()), 0)
        trial.note("turns stored meanwhile", acknowledged.count)
        trial.remarks += [f"{what}, {times} times" for what, times in wrong.most_common(10)]
        trial.remarks += ground.failures_logged()[:3]
        ground.judge_answers(trial)
    finally:
        await ground.end()
    return trial


async def _sent(port: int, request: Request) -> str:
    """The status of the answer, `closed` where there was none, `no end` where nothing came of it in
    time."""
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                with suppress(OSError):  # an answer may come before the whole request was read
                    writer.write(request.raw)
                    await writer.drain()
                    if request.cut:
                        writer.write_eof()
                answer = await reader.read()
            finally:
                writer.transport.abort()
    except TimeoutError:
        return "no end"
    except OSError:
        return "closed"
    words = answer[:40].split()
    return words[1].decode() if len(words) > 1 and words[0].startswith(b"HTTP/") else "closed"
