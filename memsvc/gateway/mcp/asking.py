"""Who asks: what each transport has to tell of a request."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from mcp.server.context import ServerRequestContext

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


Who = Callable[[Context], Asking]
"""How a transport tells who sent a request."""


def without(who: Who, tools: frozenset[str]) -> Who:
    """Tells the same, of callers from whom these tools are hidden whatever their key may see."""

    def asking(context: Context) -> Asking:
        asked = who(context)
        return replace(asked, caller=replace(asked.caller, hidden_tools=asked.caller.hidden_tools | tools))

    return asking if tools else who
