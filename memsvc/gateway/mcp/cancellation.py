"""Cancellation of calls over HTTP, where each message is a request of its own.

On the newer wire a client cancels by closing the connection. On the older one it sends
`notifications/cancelled` with a request id, which each client counts from zero: a session id, given
to the client at the start, tells clients apart. It is only a name for the calls in progress, so any
process may get any request; a notification that reaches another process than the call cancels
nothing, as the protocol allows.
"""

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import orjson
from mcp_types import CancelledNotificationParams
from starlette.requests import Request
from starlette.types import Message, Receive, Send

from memsvc.core.scope import Caller
from memsvc.gateway.mcp.sender import Context, SenderOf

SESSION_HEADER: Final = b"mcp-session-id"
WATCH_AFTER_S: Final = 0.25
"""A call that takes longer is ended when its client disconnects; most are shorter, and pay nothing
for it."""
_SESSION = re.compile(r"[!-~]{1,128}")

_CallKey = tuple[Caller, str, str]


class Cancellation:
    """Calls of the older wire that are in progress in this process."""

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
        """Cancel a call of the same key and session, if there still is one."""
        session = _session_of(context)
        if session is None:
            return
        scope = self._active.get((self._sender_of(context).caller, session, str(params.request_id)))
        if scope is not None:
            scope.cancel()


def has_session(context: Context) -> bool:
    """Return whether a request came over HTTP with the session id that its client was given."""
    return _session_of(context) is not None


def _session_of(context: Context) -> str | None:
    if not isinstance(context.request, Request):
        return None
    header = context.request.headers.get("mcp-session-id", "")
    return header if _SESSION.fullmatch(header) else None


def is_initialize(body: bytes) -> bool:
    """Return whether this is the body of an `initialize` request."""
    if b'"initialize"' not in body:
        return False
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"


def with_session(session_id: str, send: Send) -> Send:
    """Return a `send` that adds a session id to the answer."""

    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            headers = [*message.get("headers", ()), (SESSION_HEADER, session_id.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return send_named


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
