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
class Asking:
    """Caller, surface and id of a request.

    `again` looks up the current caller of the same key: another one when its rights were changed,
    None once it was revoked or has expired; UNAVAILABLE when the look-up fails. It is called before
    later events are sent.
    """

    caller: Caller
    surface: str
    request_id: str
    again: Callable[[], Awaitable[Caller | None]]
    standing: Callable[[Callable[[], None]], AbstractContextManager[None]] = lambda _: nullcontext()
    """Context for what goes on after the response: calls its argument once, as soon as the key is
    no longer valid for this caller. Where one key belongs to the whole process, it is never
    called."""
    failed: Callable[[MemsvcError], None] = lambda _: None
    """Called with the error of a refused call."""


Who = Callable[[Context], Asking]
"""Function of a transport that returns the sender of a request."""


def traceparent_of(context: Context) -> str:
    """Return the client's span from a request's `_meta`; "" without one."""
    given = (context.meta or {}).get("traceparent")
    return given if isinstance(given, str) else ""


def without(who: Who, tools: frozenset[str]) -> Who:
    """Return a function like `who`, which also hides these tools from the callers."""

    def hiding(caller: Caller) -> Caller:
        return replace(caller, hidden_tools=caller.hidden_tools | tools)

    async def again(asked: Asking) -> Caller | None:
        caller = await asked.again()
        return None if caller is None else hiding(caller)

    def asking(context: Context) -> Asking:
        asked = who(context)
        return replace(asked, caller=hiding(asked.caller), again=partial(again, asked))

    return asking if tools else who
