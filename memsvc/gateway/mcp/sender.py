"""Sender of an MCP request, as each transport knows it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp.server.context import ServerRequestContext

from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Caller

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
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


SenderOf = Callable[[Context], RequestSender]
"""Function of a transport that returns the sender of a request."""


def traceparent_of(context: Context) -> str:
    """Return the client's span from a request's `_meta`; "" without one."""
    value = (context.meta or {}).get("traceparent")
    return value if isinstance(value, str) else ""


def without(sender_of: SenderOf, tools: frozenset[str]) -> SenderOf:
    """Return a function like `sender_of`, which also hides these tools from the callers."""

    def with_hidden(caller: Caller) -> Caller:
        return replace(caller, hidden_tools=caller.hidden_tools | tools)

    async def current_caller(sender: RequestSender) -> Caller | None:
        caller = await sender.current_caller()
        return None if caller is None else with_hidden(caller)

    def sender_with_hidden(context: Context) -> RequestSender:
        sender = sender_of(context)
        return replace(
            sender,
            caller=with_hidden(sender.caller),
            current_caller=partial(current_caller, sender),
        )

    return sender_with_hidden if tools else sender_of
