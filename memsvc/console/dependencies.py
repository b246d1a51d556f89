"""Options and dependencies of the console, which knows no other part of the service."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from pydantic import Field
from starlette.types import Scope as Request

from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.options import Options
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller
from memsvc.core.tools import Tool, ToolCalls


class ConsoleOptions(Options):
    """Options of the web console at /console."""

    enabled: bool = Field(True, description="whether the web console at /console is enabled")
    session_hours: float = Field(
        12.0,
        gt=0,
        le=720,
        description="number of hours without activity after which a person is signed out of the"
        " console",
    )


@frozen
class SignedIn:
    """The caller of a key, and the hash by which the key is known from then on."""

    caller: Caller
    key_hash: bytes


@frozen_by_keyword
class ConsoleDependencies:
    """Functions of the service that the console calls.

    `sign_in` takes the request and the key that somebody typed; PERMISSION_DENIED when it opens
    nothing, RATE_LIMITED for an address that tried too often. `resolve_caller` returns the current
    caller of a key's hash. Both raise UNAVAILABLE while the database is away. `body_slot` reserves
    a slot for a body in transit; RESOURCE_BUSY where none is free. `calls` are the tools as that
    caller may use them, for one request. `schema` is the JSON schema of a tool's arguments.
    `health` returns which checks pass. `secret` is shared by all replicas, and so are the sessions
    closed by `close_session`, until their cookies expire, and `is_closed`. `notices` tell what is
    off, and how to turn it on.
    """

    sign_in: Callable[[Request, str], Awaitable[SignedIn]]
    resolve_caller: Callable[[bytes], Awaitable[Caller | None]]
    body_slot: Callable[[Caller], AbstractAsyncContextManager[None]]
    calls: Callable[[Caller, str], ToolCalls]
    schema: Callable[[Tool], Mapping[str, Any]]
    health: Callable[[], Awaitable[Mapping[str, bool]]]
    secret: Callable[[], Awaitable[bytes]]
    close_session: Callable[[bytes, datetime], Awaitable[None]]
    is_closed: Callable[[bytes], Awaitable[bool]]
    clock: Clock
    version: str
    notices: tuple[str, ...]
