"""Bridge for hosts that start servers as processes: forwards stdin to a remote server over HTTP.

It imports little so that it starts at once: neither the MCP SDK nor anything of the server.
"""

import asyncio
import base64
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson

from memsvc.adapters.standard_streams import StandardStreams, claimed_streams
from memsvc.core.errors import Code, MemsvcError
from memsvc.variables import KEY_VARIABLE, URL_VARIABLE

USAGE_STATUS: Final = 2

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
CONNECT_S_MAX: Final = 10.0
ANSWER_S_MAX: Final = 300.0
GRACE_S: Final = 25.0
KEPT_ALIVE_S: Final = 60.0

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
LISTEN: Final = "subscriptions/listen"
CANCELLED: Final = "notifications/cancelled"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN_HEADER = re.compile(r"(?!\s)(?!=\?base64\?)[\x20-\x7e]*(?<!\s)")

Message = dict[str, Any]


def main(tools: str = "") -> None:
    """Forward until stdin ends or a signal comes; list the tools of these sets, if given.

    Exits with code 2 when the environment names no server or no key.
    """
    try:
        address, key = endpoint(os.environ)
    except MemsvcError as error:
        sys.stderr.write(f"Error: {error.message}\nRecovery: {error.recovery}\n")
        sys.exit(USAGE_STATUS)
    with claimed_streams() as streams:
        asyncio.run(_forward(address, key, tools, streams))


def endpoint(environment: Any) -> tuple[str, str]:
    """Return the URL to forward to and the key to send there."""
    url = environment.get(URL_VARIABLE, "").strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not parts.query
            and not parts.fragment
        )
    except ValueError:
        usable = False
    if not usable:
        raise MemsvcError(
            Code.INVALID_ARGUMENT,
            f"{URL_VARIABLE} is no URL of a server",
            recovery="such as http://127.0.0.1:8080",
        )
    key = environment.get(KEY_VARIABLE, "").strip()
    if not key:
        raise MemsvcError(
            Code.INVALID_ARGUMENT,
            f"{KEY_VARIABLE} is not set",
            recovery=f"set it to a key of the server at {url}",
        )
    return (url if url.endswith("/mcp") else f"{url}/mcp"), key


async def _forward(address: str, key: str, tools: str, streams: StandardStreams) -> None:
    timeout = httpx.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX, pool=None)
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_ALIVE_S)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    if tools:
        headers["X-Memsvc-Tools"] = tools
    async with httpx.AsyncClient(headers=headers, timeout=timeout, limits=limits) as http:
        bridge = Bridge(address, http, streams)
        reading = asyncio.create_task(bridge.read())
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, reading.cancel)
        with suppress(asyncio.CancelledError):
            await reading
        await bridge.finish(GRACE_S)


class Bridge:
    """Forwarder of one client's messages, each request on its own.

    The server keeps nothing between two of them, so that its restart goes unnoticed.
    """

    def __init__(self, address: str, http: httpx.AsyncClient, streams: StandardStreams) -> None:
        self._address = address
        self._http = http
        self._streams = streams
        self._version: str | None = None
        self._session: str | None = None
        self._requests: dict[str, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._notifications: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        """Forward whatever comes in, until the input ends."""
        async for line in self._streams.lines(LINE_BYTES_MAX):
            if line is None:
                await self._reject(
                    None,
                    INVALID_REQUEST,
                    f"Invalid Request: a message may have {LINE_BYTES_MAX} bytes",
                )
            elif line.strip():
                await self._receive(line)

    async def finish(self, grace_s: float) -> None:
        """Wait for pending requests except subscriptions, and cancel what takes longer."""
        pending = {*self._requests.values(), *self._notifications}
        if pending - self._listening:
            await asyncio.wait(pending - self._listening, timeout=grace_s)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _receive(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            await self._reject(None, PARSE_ERROR, "Parse error: this line is not JSON")
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                await self._reject(
                    None, INVALID_REQUEST, "Invalid Request: this is no JSON-RPC 2.0 message"
                )
            return  # an answer: the server sends no requests, so it waits for none
        if "id" not in message:
            self._notify(line, message)
            return
        request_id = str(message["id"])
        task = asyncio.create_task(self._send_request(line, message))
        self._requests[request_id] = task
        if method == LISTEN:
            self._listening.add(task)
        task.add_done_callback(lambda done: self._done(request_id, done))

    def _done(self, request_id: str, task: asyncio.Task[None]) -> None:
        self._listening.discard(task)
        if self._requests.get(request_id) is task:
            del self._requests[request_id]

    def _notify(self, line: bytes, message: Message) -> None:
        if message["method"] == CANCELLED:
            params = message.get("params")
            request_task = (
                self._requests.get(str(params.get("requestId")))
                if isinstance(params, dict)
                else None
            )
            if request_task is None:
                return
            # on the newer wire that is all: the server sees the closed connection
            request_task.cancel()
            if self._session is None:
                return
        task = asyncio.create_task(self._send_notification(line, message))
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def _send_notification(self, line: bytes, message: Message) -> None:
        with suppress(httpx.HTTPError):  # nobody waits for an answer, so nobody can get the error
            await self._http.post(self._address, content=line, headers=self._headers(message))

    async def _send_request(self, line: bytes, message: Message) -> None:
        """Forward a request and write what comes back; the last message is always its answer."""
        timeout: Any = httpx.USE_CLIENT_DEFAULT
        if message["method"] == LISTEN:
            timeout = httpx.Timeout(None, connect=CONNECT_S_MAX)
        try:
            async with self._http.stream(
                "POST", self._address, content=line, headers=self._headers(message), timeout=timeout
            ) as response:
                await self._pass_on(message, response)
        except httpx.TimeoutException:
            await self._fail(message, f"{self._address} does not answer in time")
        except httpx.HTTPError:
            await self._fail(message, f"cannot reach {self._address}")
        except OSError:
            return  # nobody reads the answers any more

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        # each request names its version; the server compares headers and body
        if isinstance(version, str):
            headers |= {
                "MCP-Protocol-Version": _header(version),
                "Mcp-Method": _header(message["method"]),
            }
            named = params.get(NAMED_BY.get(message["method"], ""))
            if isinstance(named, str):
                headers["Mcp-Name"] = _header(named)
        elif self._version is not None and message["method"] != "initialize":
            headers["MCP-Protocol-Version"] = self._version
            if self._session is not None:
                headers["Mcp-Session-Id"] = self._session
        return headers

    async def _pass_on(self, request: Message, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and response.is_success:
            async for answer in _events(response.aiter_bytes()):
                if self._is_answer(answer):
                    await self._write(answer)
                    return
                await self._write(answer)
            await self._fail(request, f"{self._address} ended its answer early")
            return
        body = await response.aread()
        if response.is_success and kind == "application/json":
            self._store_version(request, body)
            self._store_session(request, response)
            await self._write(body)
            return
        error = _error_in(body)
        if error is None:
            await self._fail(
                request, f"{self._address} answers with HTTP status {response.status_code}"
            )
        else:
            await self._write(orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))

    def _store_version(self, request: Message, body: bytes) -> None:
        if request["method"] != "initialize":
            return
        with suppress(orjson.JSONDecodeError, KeyError, TypeError):
            version = orjson.loads(body)["result"]["protocolVersion"]
            self._version = version if isinstance(version, str) and version.isascii() else None

    def _store_session(self, request: Message, response: httpx.Response) -> None:
        if request["method"] == "initialize":
            self._session = response.headers.get("mcp-session-id")

    @staticmethod
    def _is_answer(message: bytes) -> bool:
        try:
            read = orjson.loads(message)
        except orjson.JSONDecodeError:
            return False
        return isinstance(read, dict) and ("result" in read or "error" in read)

    async def _fail(self, request: Message, message: str) -> None:
        error = MemsvcError(Code.UNAVAILABLE, message)
        error_body = {"code": INTERNAL_ERROR, "message": message, "data": error.body()}
        with suppress(OSError):
            await self._write(
                orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error_body})
            )

    async def _reject(self, request_id: str | int | None, code: int, message: str) -> None:
        with suppress(OSError):
            await self._write(
                orjson.dumps(
                    {
                        "jsonrpc": "2.0",
                        "id": request_id,
                        "error": {"code": code, "message": message},
                    }
                )
            )

    async def _write(self, message: bytes) -> None:
        # white space, between JSON tokens
        await self._streams.write(message.replace(b"\r", b" ").replace(b"\n", b" "))


def _header(value: str) -> str:
    """Return a text as a header can carry it, encoded as the protocol asks."""
    if _PLAIN_HEADER.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _error_in(body: bytes) -> Message | None:
    with suppress(orjson.JSONDecodeError):
        read = orjson.loads(body)
        if (
            isinstance(read, dict)
            and isinstance(read.get("error"), dict)
            and "code" in read["error"]
        ):
            error: Message = read["error"]
            return error
    return None


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event of a stream of server-sent events."""
    rest = b""
    lines: list[bytes] = []
    async for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        for line in (one.removesuffix(b"\r") for one in complete):
            if line.startswith(b"data:"):
                lines.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and lines:
                yield b"\n".join(lines)
                lines = []
