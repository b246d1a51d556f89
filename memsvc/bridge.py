"""Bridge for hosts that start servers as processes: forwards stdin to a remote server over HTTP.

It imports little so that it starts at once: neither the MCP SDK nor anything of the server.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import orjson

from memsvc.adapters.standard_streams import StandardStreams, claimed_streams
from memsvc.core.errors import InDoubtError, MemsvcError, invalid, unavailable
from memsvc.core.json_text import replace_half_characters
from memsvc.core.urls import encode_header
from memsvc.variables import KEY_VARIABLE, PROJECT_VARIABLE, URL_VARIABLE, USER_VARIABLE

USAGE_STATUS: Final = 2

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
CONNECT_S_MAX: Final = 10.0
ANSWER_S_MAX: Final = 300.0
GRACE_S: Final = 25.0
KEPT_ALIVE_S: Final = 60.0
IDLE_S_MAX: Final = 60.0
"""Seconds without even a comment after which a stream of events is considered broken."""
RETRY_S: Final = 1.0
RESUME_S_MAX: Final = 30.0
"""Seconds in which a server has to be there again for the rest of an answer."""
END_S_MAX: Final = 2.0
TOO_MANY_REQUESTS: Final = 429

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
LISTEN: Final = "subscriptions/listen"
CANCELLED: Final = "notifications/cancelled"
SUBSCRIBE: Final = "resources/subscribe"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_SECONDS = re.compile("[0-9]{1,9}")

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
        raise invalid(
            f"{URL_VARIABLE} is not the URL of a server",
            recovery=f"set {URL_VARIABLE} to a URL such as http://127.0.0.1:8080",
        )
    key = environment.get(KEY_VARIABLE, "").strip()
    if not key:
        raise invalid(
            f"{KEY_VARIABLE} is not set",
            recovery=f"set {KEY_VARIABLE} to a key of the server at {url}",
        )
    return (url if url.endswith("/mcp") else f"{url}/mcp"), key


async def _forward(address: str, key: str, tools: str, streams: StandardStreams) -> None:
    timeout = httpx2.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX, pool=None)
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEPT_ALIVE_S)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    own = {
        "X-Memsvc-Tools": tools,
        "X-Memsvc-Project": os.environ.get(PROJECT_VARIABLE, ""),
        "X-Memsvc-User": os.environ.get(USER_VARIABLE, ""),
    }
    headers |= {name: encode_header(value) for name, value in own.items() if value}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits) as http:
        bridge = Bridge(address, http, streams)
        reading = asyncio.create_task(bridge.read())
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, reading.cancel)
        with suppress(asyncio.CancelledError):
            await reading
        await bridge.finish(GRACE_S)


@dataclass(slots=True)
class _Position:
    """Position in a stream of events, from which it resumes when the connection breaks."""

    event_id: str = ""
    retry_s: float = RETRY_S
    retry_after_s: float = 0.0

    async def wait(self) -> None:
        """Wait until the server may be asked again."""
        await asyncio.sleep(max(self.retry_s, self.retry_after_s))
        self.retry_after_s = 0.0


class Bridge:
    """Forwarder of one client's messages, each request on its own.

    The server keeps nothing between two of them but the subscriptions of a session, which any
    replica resumes, so that its restart goes unnoticed.
    """

    def __init__(self, address: str, http: httpx2.AsyncClient, streams: StandardStreams) -> None:
        self._address = address
        self._http = http
        self._streams = streams
        self._version: str | None = None
        self._session: str | None = None
        self._requests: dict[str, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._notifications: set[asyncio.Task[None]] = set()
        self._events_task: asyncio.Task[None] | None = None

    async def read(self) -> None:
        """Forward whatever comes in, until the input ends."""
        async for line in self._streams.lines(LINE_BYTES_MAX):
            if line is None:
                await self._reject(
                    INVALID_REQUEST,
                    f"Invalid Request: the message is larger than {LINE_BYTES_MAX} bytes, which is"
                    " the limit",
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
        if self._events_task is not None:
            self._events_task.cancel()
            pending.add(self._events_task)
        await asyncio.gather(*pending, return_exceptions=True)
        if self._events_task is not None:
            with suppress(httpx2.HTTPError):
                await self._http.delete(
                    self._address, headers=self._session_headers(), timeout=END_S_MAX
                )

    async def _receive(self, line: bytes) -> None:
        line = replace_half_characters(line)
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            await self._reject(PARSE_ERROR, "Parse error: this line is not JSON")
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                await self._reject(
                    INVALID_REQUEST, "Invalid Request: this is not a JSON-RPC 2.0 message"
                )
            else:
                self._start_notification(line, message)  # an answer, which has none itself
            return
        if "id" not in message:
            self._notify(line, message)
            return
        if method == SUBSCRIBE and self._session is not None:
            self._start_events()
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
        self._start_notification(line, message)

    def _start_events(self) -> None:
        """Hear of changes, which the server tells only who subscribed."""
        if self._events_task is None or self._events_task.done():
            self._events_task = asyncio.create_task(self._read_events())

    def _start_notification(self, line: bytes, message: Message) -> None:
        task = asyncio.create_task(self._send_notification(line, message))
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def _send_notification(self, line: bytes, message: Message) -> None:
        with suppress(httpx2.HTTPError):  # nobody waits for an answer, so nobody can get the error
            await self._http.post(self._address, content=line, headers=self._headers(message))

    async def _send_request(self, line: bytes, message: Message) -> None:
        """Forward a request and write what comes back; the last message is always its answer."""
        timeout: Any = httpx2.USE_CLIENT_DEFAULT
        if message["method"] == LISTEN:
            timeout = httpx2.Timeout(None, connect=CONNECT_S_MAX)
        try:
            async with self._http.stream(
                "POST", self._address, content=line, headers=self._headers(message), timeout=timeout
            ) as response:
                await self._pass_on(message, response)
        except _NOT_SENT:
            await self._fail(message, unavailable(f"cannot reach {self._address}"))
        except httpx2.TimeoutException:
            await self._fail(message, InDoubtError(f"{self._address} did not answer in time"))
        except httpx2.HTTPError:
            await self._fail(message, InDoubtError(f"{self._address} closed the connection"))
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
                "MCP-Protocol-Version": encode_header(version),
                "Mcp-Method": encode_header(message["method"]),
            }
            named = params.get(NAMED_BY.get(message["method"], ""))
            if isinstance(named, str):
                headers["Mcp-Name"] = encode_header(named)
        elif message.get("method") != "initialize":
            headers |= self._session_headers()
        return headers

    def _session_headers(self) -> dict[str, str]:
        headers = {} if self._version is None else {"MCP-Protocol-Version": self._version}
        if headers and self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        return headers

    async def _pass_on(self, request: Message, response: httpx2.Response) -> None:
        if _is_stream(response):
            await self._pass_on_stream(request, response)
            return
        body = await response.aread()
        if response.is_success and _kind(response) == "application/json":
            if request["method"] == "initialize":
                self._start_session(response, body)
            await self._write(body)
            return
        error = _error_in(body)
        if error is None:
            await self._fail(
                request,
                unavailable(f"{self._address} answered with HTTP status {response.status_code}"),
            )
        else:
            await self._write_error(request["id"], error)

    async def _pass_on_stream(self, request: Message, response: httpx2.Response) -> None:
        """Write the messages of an answer, also when the connection breaks and is made again."""
        position = _Position()
        if await self._write_until_answer(response, position):
            return
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RESUME_S_MAX
        while position.event_id and loop.time() < give_up_at:
            await position.wait()
            try:
                async with self._open_events(position) as resumed:
                    if _is_stream(resumed):
                        give_up_at = loop.time() + RESUME_S_MAX
                        if await self._write_until_answer(resumed, position):
                            return
                    elif _is_final(resumed):
                        break
            except httpx2.HTTPError:
                continue  # as long as the server restarts
        await self._fail(
            request,
            InDoubtError(f"{self._address} closed the connection before its answer was complete"),
        )

    async def _write_until_answer(self, response: httpx2.Response, position: _Position) -> bool:
        """Write the messages of a stream; return whether the last of them was the answer."""
        try:
            async for message in _events(response.aiter_bytes(), position):
                await self._write(message)
                if self._is_answer(message):
                    return True
        except httpx2.HTTPError:
            if not position.event_id:
                raise
        return False

    async def _read_events(self) -> None:
        """Write what the server sends outside of answers, as long as there is the session."""
        position = _Position()
        while True:
            try:
                async with self._open_events(position) as response:
                    if _is_stream(response):
                        async for message in _events(response.aiter_bytes(), position):
                            await self._write(message)
                    elif _is_final(response):
                        return
            except httpx2.HTTPError:
                pass  # the server restarts, or its stream is over
            except OSError:
                return  # nobody reads any more
            await position.wait()

    @asynccontextmanager
    async def _open_events(self, position: _Position) -> AsyncIterator[httpx2.Response]:
        headers = self._session_headers() | {"Accept": "text/event-stream"}
        if position.event_id:
            headers["Last-Event-ID"] = position.event_id
        timeout = httpx2.Timeout(IDLE_S_MAX, connect=CONNECT_S_MAX)
        async with self._http.stream(
            "GET", self._address, headers=headers, timeout=timeout
        ) as response:
            retry_after = response.headers.get("retry-after", "")
            if _SECONDS.fullmatch(retry_after):
                position.retry_after_s = min(float(retry_after), RESUME_S_MAX)
            yield response

    def _start_session(self, response: httpx2.Response, body: bytes) -> None:
        self._session = response.headers.get("mcp-session-id")
        with suppress(orjson.JSONDecodeError, KeyError, TypeError):
            version = orjson.loads(body)["result"]["protocolVersion"]
            self._version = version if isinstance(version, str) and version.isascii() else None

    @staticmethod
    def _is_answer(message: bytes) -> bool:
        try:
            read = orjson.loads(message)
        except orjson.JSONDecodeError:
            return False
        return isinstance(read, dict) and ("result" in read or "error" in read)

    async def _fail(self, request: Message, error: MemsvcError) -> None:
        error_body = {"code": INTERNAL_ERROR, "message": error.message, "data": error.body()}
        await self._write_error(request["id"], error_body)

    async def _reject(self, code: int, message: str) -> None:
        await self._write_error(None, {"code": code, "message": message})

    async def _write_error(self, request_id: Any, error: Message) -> None:
        with suppress(OSError):
            await self._write(orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))

    async def _write(self, message: bytes) -> None:
        # white space, between JSON tokens
        await self._streams.write(message.replace(b"\r", b" ").replace(b"\n", b" "))


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


def _kind(response: httpx2.Response) -> str:
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def _is_stream(response: httpx2.Response) -> bool:
    return response.is_success and _kind(response) == "text/event-stream"


def _is_final(response: httpx2.Response) -> bool:
    """Return whether a refusal stays the same however often one asks."""
    return response.is_client_error and response.status_code != TOO_MANY_REQUESTS


async def _events(chunks: AsyncIterator[bytes], position: _Position) -> AsyncIterator[bytes]:
    """Yield the messages of a stream of server-sent events, and note where it is."""
    rest = b""
    event_id = position.event_id
    lines: list[bytes] = []
    async for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        for line in (one.removesuffix(b"\r") for one in complete):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                lines.append(value)
            elif name == b"id":
                event_id = value.decode("latin-1")
            elif name == b"retry" and value.isdigit():
                position.retry_s = min(int(value) / 1000, RESUME_S_MAX)
            elif not line:
                message, lines = b"\n".join(lines), []
                if message:
                    yield message
                position.event_id = event_id
