"""An MCP request: its sender, progress, cancellation, and errors in the form of the protocol."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final

import anyio
import orjson
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CancelledNotificationParams,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import Request
from starlette.types import Receive

from memsvc.core.errors import Code, MemsvcError, invalid, not_found
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.scope import Caller
from memsvc.core.tools import SILENT, ProgressCallback

NO_SUCH_RESOURCE: Final = -32002
"""Up to 2025-11-25; later versions of the protocol use INVALID_PARAMS and never this number."""

Context = ServerRequestContext[Any, Any]

INTERVAL_S: Final = 0.1
"""Minimum seconds between notifications; those in between are left out."""
WRITE_S_MAX: Final = 5.0
"""Seconds that a client may take to read one notification before they stop."""

INITIALIZE: Final = "initialize"
SESSION_HEADER: Final = b"mcp-session-id"
WATCH_AFTER_S: Final = 0.25
"""A call that takes longer is ended when its client disconnects; most are shorter, and pay nothing
for it."""
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_SESSION = re.compile(r"[!-~]{1,128}")

_CallKey = tuple[Caller, str, str]


def protocol_error(error: MemsvcError) -> MCPError:
    """Return the error in the form of the protocol, with its body as data.

    The code is -32602 if the caller can correct it, and -32603 if only time or an operator can."""
    is_internal = error.retryable or error.code is Code.INTERNAL_ERROR
    return MCPError(INTERNAL_ERROR if is_internal else INVALID_PARAMS, error.message, error.body())


def resource_error(error: MemsvcError, protocol_version: str, uri: str) -> MCPError:
    """Return the error of a resource as `protocol_error` does, with the URI if it is not found.

    Older versions of the protocol have a separate number for that.
    """
    named = protocol_error(error)
    if error.code is not Code.NOT_FOUND:
        return named
    code = NO_SUCH_RESOURCE if protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else named.code
    return MCPError(code, named.message, error.body() | {"uri": uri})


def unknown_resource(uri: str) -> MemsvcError:
    """Return the error for a URI of no resource that is visible to this caller."""
    return not_found(f"Unknown resource: {uri}")


@frozen
class RequestSender:
    """Caller, surface and id of a request.

    `current_caller` looks up the current caller of the same key: another one when its rights were
    changed, None once it was revoked or has expired; UNAVAILABLE when the look-up fails. It is
    called before later events are sent.
    """

    caller: Caller
    surface: str
    request_id: str
    current_caller: Callable[[], Awaitable[Caller | None]]
    watch_validity: Callable[[Callable[[], None]], AbstractContextManager[None]] = lambda _: (
        nullcontext()
    )
    """Context for what goes on after the response: calls its argument once, as soon as the key is
    no longer valid for this caller. Where one key belongs to the whole process, it is never
    called."""
    on_error: Callable[[MemsvcError], None] = lambda _: None
    """Called with the error of a refused call."""
    toolsets: frozenset[str] = frozenset()
    """Toolsets that the request asks for."""
    session: bytes | None = None
    """Session of the request over HTTP, by the hash of its id."""
    send_request: Callable[[JsonObject], Awaitable[None]] | None = None
    """Sends a request in the response, before the result, to a client that shows its user forms."""


async def is_valid(sender: RequestSender) -> bool:
    """Return whether the key is still valid for the same caller; False if the look-up fails."""
    try:
        return await sender.current_caller() == sender.caller
    except MemsvcError:
        return False


SenderOf = Callable[[Context], RequestSender]
"""Function of a transport that returns the sender of a request."""


class _LatestProgress:
    """Latest progress of a tool until it is sent. A step back is left out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: tuple[float, float | None, str | None] | None = None
        self._done = -1.0
        self._changed = anyio.Event()

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        if done > self._done:
            self._done, self._latest = done, (done, total, step)
            self._changed.set()

    async def send_all(self) -> None:
        """Send progress as it comes, until this is cancelled or the client does not read it."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if not await self.send_latest():
                return
            await anyio.sleep(INTERVAL_S)

    async def send_latest(self) -> bool:
        """Send the latest progress, if any; return whether the client read it."""
        if self._latest is None:
            return True
        latest, self._latest = self._latest, None
        with anyio.move_on_after(WRITE_S_MAX):
            try:
                await self._context.session.report_progress(*latest)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return False
            return True
        return False


def wants_progress(context: Context) -> bool:
    """Return whether the client requested progress notifications."""
    return context.meta is not None and context.meta.get("progress_token") is not None


@asynccontextmanager
async def progress_for(context: Context) -> AsyncIterator[ProgressCallback]:
    """Provide the progress of a tool: sent to the client if it gave a progress token.

    The last is sent before this ends, so that no notification follows the response.
    """
    if not wants_progress(context):
        yield SILENT
        return
    progress = _LatestProgress(context)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(progress.send_all)
        yield progress
        tasks.cancel_scope.cancel()
    await progress.send_latest()


class Cancellation:
    """Running calls of clients with older protocol versions in this process."""

    def __init__(self, sender_of: SenderOf) -> None:
        self._sender_of = sender_of
        self._active: dict[_CallKey, anyio.CancelScope] = {}

    @contextmanager
    def cancel_scope(self, context: Context, caller: Caller) -> Iterator[anyio.CancelScope | None]:
        """Cancel the block when the client cancels its request: then `cancelled_caught` is true.

        Yields None for a request without a session: its transport does it, or the sender is
        unknown.
        """
        session = _session_of(context)
        if session is None or context.request_id is None:
            yield None
            return
        key = (caller, session, str(context.request_id))
        with anyio.CancelScope() as scope:
            self._active[key] = scope
            try:
                yield scope
            finally:
                if self._active.get(key) is scope:
                    del self._active[key]

    async def cancel(self, context: Context, params: CancelledNotificationParams) -> None:
        """Cancel a call of the same key and session, if it is still running."""
        session = _session_of(context)
        if session is None:
            return
        scope = self._active.get((self._sender_of(context).caller, session, str(params.request_id)))
        if scope is not None:
            scope.cancel()


def _session_of(context: Context) -> str | None:
    if not isinstance(context.request, Request):
        return None
    header = context.request.headers.get("mcp-session-id", "")
    return header if _SESSION.fullmatch(header) else None


NO_DETAILS: Final[Mapping[str, Any]] = MappingProxyType({})


class InvalidMessageError(Exception):
    """A body or a line that is no message of JSON-RPC, with its code and the id it may have.

    `data` goes beside the body of the `error`, whose HTTP status is another with `status`.
    """

    def __init__(
        self,
        error: MemsvcError,
        code: int = INVALID_REQUEST,
        request_id: str | int | None = None,
        *,
        status: int | None = None,
        data: Mapping[str, Any] = NO_DETAILS,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.code = code
        self.request_id = request_id
        self.status = status
        self.data = data


@frozen
class PostedMessage:
    """A valid message that came over HTTP, and the version in its header, if there is one."""

    body: bytes
    message: JsonObject
    version: str | None
    method: str | None
    """None for the response to a request."""
    is_newer: bool
    """Whether it is of the wire without a handshake."""

    @property
    def wants_progress(self) -> bool:
        """Return whether it wants progress notifications in its response."""
        meta = (self.message.get("params") or {}).get("_meta")
        return isinstance(meta, dict) and "progressToken" in meta


def parse_message(body: bytes, name: str = "the body") -> JsonObject:
    """Return the message in a body. Raises InvalidMessageError if it is not a valid message.

    The SDK would treat a request with an invalid id as a notification, and repeat the input in its
    errors. `name` is the name of the body in the error."""
    if not body.strip():
        raise InvalidMessageError(
            invalid(f"{name} is empty: send one JSON-RPC message"), PARSE_ERROR
        )
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}"
        refusal = invalid(f"{name} is not valid JSON: the error is at {at}")
        raise InvalidMessageError(refusal, PARSE_ERROR) from None
    if _LONG_NUMBER.search(body) is not None:
        message = from_json(body)  # orjson rounds integers of more than 64 bits
    if isinstance(message, list):
        raise InvalidMessageError(
            invalid("JSON-RPC batches are not supported: send one message per request")
        )
    if not isinstance(message, dict):
        raise InvalidMessageError(invalid(f"{name} must be a JSON-RPC message, which is an object"))
    _check_envelope(message)
    return message


def _check_envelope(message: JsonObject) -> None:
    request_id = message.get("id")
    is_id = isinstance(request_id, str) or (type(request_id) is int and abs(request_id) < 2**63)
    known_id = request_id if is_id else None
    if message.get("jsonrpc") != "2.0":
        raise InvalidMessageError(invalid('jsonrpc must be "2.0"'), request_id=known_id)
    if "method" not in message:
        try:
            jsonrpc_message_adapter.validate_python(message, by_name=False)
        except ValidationError:  # its text contains the input
            raise InvalidMessageError(
                invalid("the message is neither a request with a method nor a valid response"),
                request_id=known_id,
            ) from None
        return
    if "id" in message and not is_id:
        raise InvalidMessageError(
            invalid("id must be a string or an integer; a notification has no id")
        )
    if not isinstance(message["method"], str):
        raise InvalidMessageError(invalid("method must be a string"), request_id=known_id)
    if not isinstance(message.get("params"), dict | None):
        raise InvalidMessageError(
            invalid("params must be an object"), INVALID_PARAMS, request_id=known_id
        )


async def cancel_on_disconnect(receive: Receive, response: Awaitable[None]) -> None:
    """Await this until it is done or the client closes the connection, which cancels it.

    Nobody else may receive meanwhile: the request is already read.
    """
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []
    with anyio.CancelScope() as call:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            call.cancel()

        timer = loop.call_later(WATCH_AFTER_S, lambda: tasks.append(loop.create_task(watch())))
        try:
            await response
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()
