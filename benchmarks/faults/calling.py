"""Clients that look at every answer before they hand it on: its code, its time, and whose words are
in it."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import httpx2
import orjson

WIRES = ("rest", "2026-07-28", "2025-11-25")
TEMPORARY = frozenset({"RATE_LIMITED", "RESOURCE_BUSY", "UNAVAILABLE"})
OK, LOST, CLOSED = "ok", "lost", "closed"
REMARKS_MAX = 20


@dataclass(frozen=True, slots=True)
class Tenant:
    """A key of its own, and a word that only this tenant ever says."""

    key: str
    canary: str


TENANTS = (
    Tenant("tenant-of-the-kestrel", "kestrelquartz"),
    Tenant("tenant-of-the-marble", "marblefinch"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended, and what it said: `ok`, `closed` (nobody listened), `lost` (no answer came,
    or half of one), or an error code."""

    code: str
    body: Mapping[str, Any]
    took_s: float

    @property
    def again(self) -> bool:
        """Whether the same call is to be sent once more."""
        return self.code in {LOST, CLOSED} or self.code in TEMPORARY


@dataclass
class Seen:
    """What all clients of a part saw."""

    codes: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    slowest_s: float = 0.0

    def add(self, answer: Answer) -> None:
        self.codes[answer.code] += 1
        self.slowest_s = max(self.slowest_s, answer.took_s)

    def told(self) -> str:
        """Codes and how often each came."""
        return ", ".join(f"{code} {count}" for code, count in self.codes.most_common())


class Caller:
    """One client of one tenant on one wire."""

    def __init__(
        self, url: str, tenant: Tenant, wire: str, seen: Seen, *, timeout_s: float = 60.0
    ) -> None:
        self._url = url
        self._tenant = tenant
        self._wire = wire
        self._seen = seen
        self._others = [other.canary.encode() for other in TENANTS if other != tenant]
        # there is no TLS here, and to load certificates for each client would take longer than many
        # calls
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {tenant.key}"},
            timeout=timeout_s,
            verify=False,
            trust_env=False,
        )
        self.tenant = tenant

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool once."""
        started = perf_counter()
        try:
            if self._wire == "rest":
                response = await self._http.post(f"{self._url}/api/tools/{tool}", json=arguments)
            else:
                content, headers = mcp_request(self._wire, tool, arguments)
                response = await self._http.post(
                    f"{self._url}/mcp", content=content, headers=headers
                )
        except httpx2.ConnectError:
            return self._ended(CLOSED, {}, started)
        except (httpx2.HTTPError, OSError):
            return self._ended(LOST, {}, started)
        return self._read(tool, response, started)

    async def until_answered(
        self, tool: str, *, patience_s: float = 180.0, **arguments: Any
    ) -> Answer:
        """Call a tool until it says something that is not worth another try. TimeoutError when that
        takes too long."""
        async with asyncio.timeout(patience_s):
            while (answer := await self.call(tool, **arguments)).again:  # noqa: ASYNC110 - another process is at fault
                await asyncio.sleep(min(1.0, answer.body.get("retry_after_s", 0.05)))
        return answer

    async def used(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        """The body of a call that has to succeed, if need be after some tries."""
        answer = await self.until_answered(tool, **arguments)
        if answer.code != OK:
            raise RuntimeError(f"{tool}: {answer.code} {answer.body}")
        return answer.body

    def _read(self, tool: str, response: httpx2.Response, started: float) -> Answer:
        raw = response.content.lower()
        self._seen.leaks += any(canary in raw for canary in self._others)
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            return self._strange(tool, response, "no JSON", started)
        if not isinstance(body, dict):
            return self._strange(tool, response, "no object", started)
        if "result" in body and "jsonrpc" in body:
            result = body["result"]
            body = orjson.loads(result["content"][0]["text"])
            failed = bool(result.get("isError"))
        else:
            failed = response.status_code != 200
        if not failed:
            return self._ended(OK, body, started)
        code = body.get("code")
        if not isinstance(code, str):
            return self._strange(tool, response, "no code", started)
        if code == "INTERNAL_ERROR" or (
            response.status_code >= 500
            and code not in {"UNAVAILABLE", "RESOURCE_BUSY", "QUOTA_EXCEEDED"}
        ):
            self._wrong(f"{tool}: {response.status_code} {code}")
        if code in {"RATE_LIMITED", "RESOURCE_BUSY"} and "retry_after_s" not in body:
            self._wrong(f"{tool}: {code} without retry_after_s")
        return self._ended(code, body, started)

    def _strange(self, tool: str, response: httpx2.Response, what: str, started: float) -> Answer:
        self._wrong(f"{tool}: {response.status_code}, {what}: {response.text[:80]!r}")
        return self._ended("strange", {}, started)

    def _wrong(self, what: str) -> None:
        if len(self._seen.wrong) < REMARKS_MAX or what in self._seen.wrong:
            self._seen.wrong[what] += 1

    def _ended(self, code: str, body: Mapping[str, Any], started: float) -> Answer:
        answer = Answer(code, body, perf_counter() - started)
        self._seen.add(answer)
        return answer


class Connection:
    """One kept connection of HTTP/1.1, written by hand: it takes little of the processor that the
    server is on."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
    ) -> None:
        self._reader = reader
        self.writer = writer
        self._key = key

    @classmethod
    async def open(cls, port: int, key: str) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port), key)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool once."""
        return await self.send(tool, orjson.dumps(arguments))

    async def send(self, tool: str, body: bytes) -> Answer:
        """Call a tool once with this JSON."""
        started = perf_counter()
        head = (
            f"POST /api/tools/{tool} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer"
            f" {self._key}\r\n"
        )
        sent = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(sent.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answered.partition(b"content-length:")[2].partition(b"\r\n")[0])
        told = orjson.loads(await self._reader.readexactly(length))
        return Answer(
            OK if answered[9:12] == b"200" else told["code"], told, perf_counter() - started
        )


def mcp_request(wire: str, tool: str, arguments: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a tool call on a wire of MCP, with nothing before it."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": wire,
    }
    if wire == "2026-07-28":
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {
            f"{prefix}/protocolVersion": wire,
            f"{prefix}/clientCapabilities": {},
            f"{prefix}/clientInfo": {"name": "faults", "version": "1"},
        }
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return orjson.dumps(body), headers
