"""Dependencies of the console, which knows no other part of the service."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.types import Scope as Request

from memsvc.core.ports import Clock
from memsvc.core.scope import Caller
from memsvc.core.tools import Calls, Tool


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The caller of a key, and the hash by which the key is known from then on."""

    caller: Caller
    key_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Functions of the service that the console calls.

    `sign_in` takes the request and the key that somebody typed; PERMISSION_DENIED when it opens
    nothing, RATE_LIMITED for an address that tried too often. `recognise` returns the current
    caller of a key's hash. Both raise UNAVAILABLE while the database is away. `receiving` reserves
    a slot for a body in transit; RESOURCE_BUSY where none is free. `calls` are the tools as that
    caller may use them, for one request. `schema` is the JSON schema of a tool's arguments.
    `health` returns which checks pass. `secret` is shared by all replicas, and so are the sessions
    closed by `end_session`, until their cookies expire, and `has_ended`.
    """

    sign_in: Callable[[Request, str], Awaitable[SignedIn]]
    recognise: Callable[[bytes], Awaitable[Caller | None]]
    receiving: Callable[[Caller], AbstractAsyncContextManager[None]]
    calls: Callable[[Caller, str], Calls]
    schema: Callable[[Tool], Mapping[str, Any]]
    health: Callable[[], Awaitable[Mapping[str, bool]]]
    secret: Callable[[], Awaitable[bytes]]
    end_session: Callable[[bytes, datetime], Awaitable[None]]
    has_ended: Callable[[bytes], Awaitable[bool]]
    clock: Clock
    version: str
