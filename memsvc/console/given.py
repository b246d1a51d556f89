"""What the console is given: it knows no other part of the service."""

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
    """Whom a key stands for, and the hash by which the key is known from then on."""

    caller: Caller
    key_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The rest of the service, as the console needs it.

    `sign_in` takes the request and the key that somebody typed; PERMISSION_DENIED when it opens nothing,
    RATE_LIMITED for an address that tried too often. `recognise` says who the key of a hash stands for now. Both
    raise UNAVAILABLE when nobody can say. `receiving` holds one of the places of bodies that are on their way;
    RESOURCE_BUSY where none is free. `calls` are the tools as that caller may use them, for one request. `schema`
    is the JSON schema of a tool's arguments. `health` says which checks hold. `secret` is shared by all replicas,
    and so is what `end_session` ends, until its cookies expire, and `has_ended`.
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
