"""Who is calling: the key that a request presents, the caller that it stands for, and 401 for everybody else."""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Literal
from urllib.parse import parse_qsl
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller
from memsvc.gateway.rest import PUBLIC_PATHS, error_response
from memsvc.store import keys
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.auth")

Mode = Literal["listed", "open"]
OPEN_LABEL = "open"
CALLER = "memsvc.caller"
UNAUTHENTICATED_STATUS = 401
QUERY_NAMES = ("APIKEY", "apikey", "api_key")

_KEY_STARTS = ("sk-", "rk-", "pk-", "ak-", keys.KEY_PREFIX)
_OTHER_SCHEMES = frozenset(
    {"apikey", "aws4-hmac-sha256", "basic", "digest", "dpop", "hawk", "negotiate", "ntlm", "token"}
)


class AuthOptions(BaseModel):
    """How callers are known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["", "listed", "open"] = Field(
        "", description="listed: keys that were made; open: any key is a tenant; empty: open on loopback, else listed"
    )
    key_in_query: bool = Field(False, description="also take the key from the query, as APIKEY, apikey or api_key")
    key_chars_max: int = Field(512, ge=16, le=8192, description="longest key that is looked at")
    cache_s: float = Field(5.0, ge=0, le=300, description="how long a key is remembered, and so outlives being revoked")
    cache_keys_max: int = Field(4096, ge=1, description="how many looked-up keys are remembered")
    last_used_every_s: float = Field(30.0, gt=0, description="how often the last use of keys is written")


def is_loopback(host: str) -> bool:
    """True when only this machine can connect to a server bound to this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def effective_mode(options: AuthOptions, host: str) -> Mode:
    """The configured mode, or the one that the bind address calls for."""
    return options.mode or ("open" if is_loopback(host) else "listed")


def key_of(text: str) -> str | None:
    """The key in an Authorization value: after any number of `Bearer`, the first word, without a legacy identity.

    None when there is none, or when the value belongs to another scheme: `Basic ...` must not make everybody who sends
    it one tenant, named "Basic".
    """
    words = text.split()
    while words and words[0].lower() == "bearer":
        words = words[1:]
    if not words or (len(words) > 1 and words[0].lower() in _OTHER_SCHEMES):
        return None
    return without_identity(words[0])


def without_identity(token: str) -> str:
    """`identity@key` without its identity; a token that merely looks like an email address stays whole."""
    identity, at, key = token.partition("@")
    if not at or not key or "@" in key:
        return token
    looks_like_key = key.startswith(_KEY_STARTS)
    if looks_like_key or (":" in identity and "." not in key):
        return key
    return token


def presented_key(headers: Iterable[tuple[bytes, bytes]], query_string: bytes, *, key_in_query: bool) -> str | None:
    """The key of a request: from Authorization, else X-API-Key, else, where allowed, the query; None without one."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in (b"authorization", b"x-api-key") and name not in found:
            with suppress(UnicodeDecodeError):
                found[name] = value.decode("utf-8")
    for name in (b"authorization", b"x-api-key"):
        if name in found and (key := key_of(found[name])):
            return key
    if key_in_query:
        with suppress(UnicodeError):
            for parameter, text in parse_qsl(query_string.decode("ascii"), errors="strict"):
                if parameter in QUERY_NAMES and (key := key_of(text)):
                    return key
    return None


@dataclass(frozen=True, slots=True)
class _Known:
    """What the registry said about a key, and until when that is believed."""

    key: keys.ApiKey | None
    believed_until: float


class Authenticator:
    """Resolves keys to callers. Keys are looked up by their SHA-256, so no comparison sees a byte of a key."""

    def __init__(self, database: Database, options: AuthOptions, mode: Mode, clock: Clock) -> None:
        self._database = database
        self.options = options
        self.mode = mode
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._uses: dict[UUID, datetime] = {}

    async def resolve(self, text: str) -> Caller | None:
        """Whoever this key stands for; None when it stands for nobody. UNAVAILABLE when nobody could say."""
        if not text or len(text) > self.options.key_chars_max or not text.isprintable():
            return None
        key_hash = keys.hash_key(text)
        key = await self._look_up(key_hash)
        if key is not None:
            return self._listed(key)
        if self.mode == "open":
            return Caller(tenant=key_hash, key_label=OPEN_LABEL)
        return None

    async def caller(self, scope: Scope) -> Caller | None:
        """Whoever the key of a request stands for, if it has one. UNAVAILABLE when nobody could say."""
        text = presented_key(scope["headers"], scope["query_string"], key_in_query=self.options.key_in_query)
        return None if text is None else await self.resolve(text)

    def _listed(self, key: keys.ApiKey) -> Caller | None:
        now = self._clock.now()
        if not key.opens(now):
            return None
        self._uses[key.key_id] = now
        return Caller(
            tenant=key.tenant,
            key_label=key.label,
            permissions=key.permissions,
            projects=key.projects,
            hidden_tools=key.hidden_tools,
        )

    async def _look_up(self, key_hash: bytes) -> keys.ApiKey | None:
        known = self._known.get(key_hash)
        if known is not None and monotonic() < known.believed_until:
            self._known.move_to_end(key_hash)
            return known.key
        key = await keys.find_key(self._database, key_hash)
        if (
            key is None
            and known is None
            and self.mode == "open"
            and await keys.remember_tenant(self._database, key_hash, self._clock.now())
        ):
            log.warning("a key was seen for the first time and became a tenant", mode=self.mode)
        self._known[key_hash] = _Known(key, monotonic() + self.options.cache_s)
        self._known.move_to_end(key_hash)
        while len(self._known) > self.options.cache_keys_max:
            self._known.popitem(last=False)
        return key

    async def write_last_used(self) -> None:
        """Write the last uses seen since the last time; on an outage they wait for the next time."""
        uses, self._uses = self._uses, {}
        try:
            await keys.touch_last_used(self._database, uses)
        except MemsvcError as error:
            self._uses = uses | self._uses
            log.warning("last uses of keys were not written", code=error.code.value)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write last uses in the background, and once more at the end."""
        task = asyncio.create_task(self._keep_writing())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.write_last_used()

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(self.options.last_used_every_s)
            await self.write_last_used()


def caller_of(scope: Scope) -> Caller:
    """The caller of a request that came through `RequireCaller`."""
    caller: Caller = scope[CALLER]
    return caller


def _refusal(scope: Scope, *, given: bool) -> Response:
    message = "this API key is unknown, was revoked, or has expired" if given else "an API key is required"
    error = MemsvcError(Code.PERMISSION_DENIED, message, recovery="send the header Authorization: Bearer KEY")
    return error_response(error, scope, status=UNAUTHENTICATED_STATUS, headers={"WWW-Authenticate": "Bearer"})


class RequireCaller:
    """ASGI: puts the Caller into `scope["memsvc.caller"]`, or answers 401; 503 when the registry is out of reach."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, public_paths: frozenset[str] = PUBLIC_PATHS) -> None:
        self.app = app
        self._authenticator = authenticator
        self._public_paths = public_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._public_paths:
            await self.app(scope, receive, send)
            return
        options = self._authenticator.options
        text = presented_key(scope["headers"], scope["query_string"], key_in_query=options.key_in_query)
        try:
            caller = None if text is None else await self._authenticator.resolve(text)
        except MemsvcError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        if caller is None:
            await _refusal(scope, given=text is not None)(scope, receive, send)
            return
        scope[CALLER] = caller
        await self.app(scope, receive, send)
