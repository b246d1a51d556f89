"""Who asks: what each transport has to tell of a request."""

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
    """Who sent a request, by which surface, and what the request is known by. `again` says who the same key stands for
    now: another caller when its rights were changed, None once it was revoked or has expired. It is asked before what
    happens later is told; UNAVAILABLE where nobody could say."""

    caller: Caller
    surface: str
    request_id: str
    again: Callable[[], Awaitable[Caller | None]]
    standing: Callable[[Callable[[], None]], AbstractContextManager[None]] = lambda _: nullcontext()
    """Within it, what it is given is called once, as soon as the key stands for this caller no more; for what goes on
    after the answer. Where one key is the whole process's, nothing is called."""
    failed: Callable[[MemsvcError], None] = lambda _: None
    """Told of what a call was refused for."""


Who = Callable[[Context], Asking]
"""How a transport tells who sent a request."""


def traceparent_of(context: Context) -> str:
    """The span of its client that a request belongs to, as its `_meta` has it; "" where there is none."""
    given = (context.meta or {}).get("traceparent")
    return given if isinstance(given, str) else ""


def without(who: Who, tools: frozenset[str]) -> Who:
    """Tells the same, of callers from whom these tools are hidden whatever their key may see."""

    def hiding(caller: Caller) -> Caller:
        return replace(caller, hidden_tools=caller.hidden_tools | tools)

    async def again(asked: Asking) -> Caller | None:
        caller = await asked.again()
        return None if caller is None else hiding(caller)

    def asking(context: Context) -> Asking:
        asked = who(context)
        return replace(asked, caller=hiding(asked.caller), again=partial(again, asked))

    return asking if tools else who
