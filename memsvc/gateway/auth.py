"""Authentication: the caller of a request's key or token, and 401 if there is none."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import structlog
from pydantic import Field, IPvAnyNetwork
from starlette.responses import Response
from starlette.types import Scope

from memsvc.core.background import in_background, wait_for_event
from memsvc.core.errors import Code, MemsvcError, invalid, not_found, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.options import Options
from memsvc.core.paths import check_project, checked_name
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import OPEN_LABEL, Caller, ConnectionDefaults
from memsvc.core.tools import HOST_TOOLSET
from memsvc.core.urls import decode_header
from memsvc.gateway.credentials import (
    AuthFailures,
    Credentials,
    KeyCache,
    KeyRefusal,
    counted_address,
    credentials,
)
from memsvc.gateway.oauth import (
    InsufficientScopeError,
    OAuthOptions,
    OAuthScopes,
    TokenVerifier,
    is_token,
)
from memsvc.gateway.rate_limits import LatestDict
from memsvc.gateway.rest import Header, RequestState, caller_of, error_response, state_of
from memsvc.store import keys
from memsvc.store.changes import Changes
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.auth")

CallerLookup = Callable[[Sequence[str]], Awaitable[dict[str, Caller | None]]]
"""Look-up of the current callers of credentials, in one query. UNAVAILABLE when it fails."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenStream:
    """An open stream: its credentials, its caller, and the function that ends it."""

    text: str
    caller: Caller
    end: Callable[[], None]


class OpenStreams:
    """Open streams of this process, which are checked when a key changes, and periodically."""

    def __init__(self, find_all: CallerLookup, interval_s: float) -> None:
        self._find_all = find_all
        self._interval_s = interval_s
        self._streams: set[OpenStream] = set()
        self._check_now = asyncio.Event()

    def check(self) -> None:
        """Check all streams now."""
        self._check_now.set()

    @contextmanager
    def register(self, stream: OpenStream) -> Iterator[None]:
        """Register a stream until the block ends."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Check the streams in the background."""
        return in_background(self._check_loop())

    async def _check_loop(self) -> None:
        while True:
            await wait_for_event(self._check_now, self._interval_s)
            self._check_now.clear()
            if self._streams:
                await self._end_invalid()

    async def _end_invalid(self) -> None:
        streams = list(self._streams)
        try:
            current = await self._find_all(sorted({stream.text for stream in streams}))
        except MemsvcError as error:
            log.debug(
                "the keys or tokens of open streams could not be checked", code=error.code.value
            )
            return
        for stream in streams:
            if current[stream.text] != stream.caller:
                self._streams.discard(stream)
                stream.end()


STREAM_CHECK_S_MIN = 1.0
"""Minimum seconds between look-ups of the keys of open streams, without notification."""


class AuthOptions(Options):
    """Options of authentication."""

    mode: Literal["", "listed", "open"] = Field(
        "",
        description="listed or empty: only keys that were created in memsvc are valid; open: every"
        " key is valid and has its own tenant",
    )
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="networks of trusted proxies (CIDR) that may report the client's address in"
        " X-Forwarded-For or Forwarded",
    )
    key_in_query: bool = Field(
        False, description="also accept the key in the URL query, as APIKEY, apikey or api_key"
    )
    key_chars_max: int = Field(
        512, ge=16, le=8192, description="maximum length of a key, in characters"
    )
    cache_s: float = Field(
        5.0,
        ge=0,
        le=300,
        description="how long a valid key is cached; a key may still work this long after it is"
        " revoked",
    )
    cache_keys_max: int = Field(4096, ge=1, description="maximum number of keys in the cache")
    failures_a_minute: int = Field(
        60,
        ge=0,
        description="number of invalid keys that one client address may try per minute; valid keys"
        " are not affected; 0: unlimited",
    )
    last_used_every_s: float = Field(
        30.0, gt=0, description="interval at which the time of last use of each key is stored"
    )
    oauth: OAuthOptions = Field(
        OAuthOptions(), description="OAuth 2.1 access tokens, accepted in addition to keys"
    )


class Authenticator:
    """Resolves keys to callers.

    Keys are looked up by their SHA-256, so no comparison depends on the bytes of a key. If tokens
    are accepted, a text that looks like a token is never treated as a key."""

    def __init__(
        self,
        database: Database,
        options: AuthOptions,
        clock: Clock,
        meter: Meter,
        changes: Changes | None = None,
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._database = database
        self.options = options
        self._is_open = options.mode == "open"
        self._clock = clock
        self._meter = meter
        self._tokens = tokens
        self._streams = OpenStreams(self._find_all, max(options.cache_s, STREAM_CHECK_S_MIN))
        self._key_cache = KeyCache(
            database,
            keep_s=options.cache_s,
            keys_max=options.cache_keys_max,
            changes=changes,
            changed=self._streams.check,
        )
        self._failures = AuthFailures(options.failures_a_minute)
        self._tenants = LatestDict[bytes, None](options.cache_keys_max)
        self._new_tenants: set[bytes] = set()
        self._uses: dict[UUID, datetime] = {}
        self._refusals: Counter[KeyRefusal] = Counter()

    async def resolve(self, text: str) -> Caller | None:
        """Return the caller of this key, or None if the key is not valid.

        Raises UNAVAILABLE if the look-up fails."""
        if not self._can_be_key(text):
            return None
        key_hash = keys.hash_key(text)
        is_new = self._is_open and not self._key_cache.is_absent(key_hash)
        key = await self._key_cache.find(key_hash)
        if key is None and is_new and key_hash not in self._new_tenants:
            self._new_tenants.add(key_hash)
            try:
                await self._remember_tenant(key_hash)
            finally:
                self._new_tenants.discard(key_hash)
        now = self._clock.now()
        caller = self._caller(key_hash, key, now)
        if caller is not None and caller.key_id is not None:
            self._uses[caller.key_id] = now
        return caller

    async def caller_of_hash(self, key_hash: bytes) -> Caller | None:
        """Return the caller of the key with this hash, or None.

        Raises UNAVAILABLE if the look-up fails."""
        return self._caller(key_hash, await self._key_cache.find(key_hash), self._clock.now())

    async def caller(self, scope: Scope) -> Caller | None:
        """Return the caller of a request's key or token, or None.

        Raises UNAVAILABLE if the look-up fails, and PERMISSION_DENIED for a valid token with too
        few scopes."""
        received = self.received(scope)
        return None if received is None else await self.caller_of(received)

    def received(self, scope: Scope) -> Credentials | None:
        """Return the credentials of a request, or None."""
        return credentials(
            state_of(scope).headers, scope["query_string"], key_in_query=self.options.key_in_query
        )

    async def caller_of(self, received: Credentials) -> Caller | None:
        """Return the caller of these credentials, as `caller` does."""
        tokens = self._tokens
        if tokens is None or not is_token(received.text):
            return await self.resolve(received.text)
        caller = await tokens.caller(received.text) if received.as_bearer else None
        if caller is not None and caller.tenant not in self._tenants:
            await self._remember_tenant(caller.tenant)
            self._tenants.put(caller.tenant, None)
        return caller

    async def authenticate_request(self, scope: Scope) -> Caller:
        """Return the caller of a request, with what its headers name.

        Raises as `authenticate` does, and INVALID_ARGUMENT or INVALID_PATH for an invalid name in a
        header."""
        received = self.received(scope)
        if received is None:
            self._refuse("missing")
            raise UnknownKeyError(None, tokens=self._tokens is not None)
        caller = await self.authenticate(scope, received)
        if _CONNECTION_HEADERS.isdisjoint(state_of(scope).headers):
            return caller
        return _connected(caller, scope["headers"])

    async def authenticate(self, scope: Scope, received: Credentials) -> Caller:
        """Return the caller of a request with these credentials, over any interface.

        Raises PERMISSION_DENIED for invalid credentials, or RATE_LIMITED if the address has sent
        too many of them. Since a valid key is looked up first, it is never refused because of other
        keys from its address."""
        caller = await self.caller_of(received)
        if caller is not None:
            return caller
        address = counted_address(scope, self.options.trusted_proxies)
        refusal = self._refusal_of(received.text)
        if refusal == "unknown" and (wait_s := self._failures.wait_s(address)) > 0:
            self._refuse("limited")
            raise MemsvcError(
                Code.RATE_LIMITED,
                "too many invalid keys came from this address",
                retry_after_s=wait_s,
            )
        self._refuse(refusal)
        raise UnknownKeyError(received.text, tokens=self._tokens is not None)

    def _refusal_of(self, text: str) -> KeyRefusal:
        """Return why these credentials are refused.

        An unknown key may have been an attempt to guess one. Nobody guesses a token, and where
        every key opens a tenant there is nothing to guess.
        """
        if self._is_token(text):
            return "token"
        listed = self._can_be_key(text) and self._key_cache.was_listed(keys.hash_key(text))
        return "expired" if self._is_open or listed else "unknown"

    def _refuse(self, reason: KeyRefusal) -> None:
        self._meter.add("memsvc_keys_refused_total", reason=reason)
        if reason != "missing":  # probes and browsers send none
            self._refusals[reason] += 1

    def watch_validity(self, scope: Scope, end: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `end` once, when the request's credentials are no longer valid for the caller.

        This happens at once if a change of the key is announced, otherwise within `auth.cache_s`.
        """
        received = self.received(scope)
        if received is None:
            raise RuntimeError("a stream was opened without credentials")
        return self._streams.register(OpenStream(received.text, caller_of(scope), end))

    async def _find_all(self, texts: Sequence[str]) -> dict[str, Caller | None]:
        tokens = set(filter(self._is_token, texts))
        hash_by_text = {text: keys.hash_key(text) for text in texts if text not in tokens}
        found = await self._key_cache.refresh(hash_by_text.values()) if hash_by_text else {}
        now = self._clock.now()
        by_text = {
            text: self._caller(key_hash, found.get(key_hash), now)
            for text, key_hash in hash_by_text.items()
        }
        if self._tokens is not None:
            by_text |= {text: await self._tokens.caller_or_none(text) for text in tokens}
        return by_text

    def _can_be_key(self, text: str) -> bool:
        fits = 0 < len(text) <= self.options.key_chars_max and text.isprintable()
        return fits and (self._tokens is None or not is_token(text))

    def _is_token(self, text: str) -> bool:
        return self._tokens is not None and is_token(text)

    def _caller(self, key_hash: bytes, api_key: keys.ApiKey | None, now: datetime) -> Caller | None:
        if api_key is None:
            return Caller(tenant=key_hash, key_label=OPEN_LABEL) if self._is_open else None
        if not api_key.is_valid(now):
            return None
        return Caller(
            tenant=api_key.tenant,
            key_label=api_key.label,
            permissions=api_key.permissions,
            projects=api_key.projects,
            hidden_tools=api_key.hidden_tools,
            key_id=api_key.key_id,
            expires_at=api_key.expires_at,
            toolsets=api_key.toolsets,
            user=api_key.user_id,
        )

    async def _remember_tenant(self, tenant: bytes) -> None:
        if await keys.remember_tenant(self._database, tenant, self._clock.now()):
            log.warning(
                "an unknown key was used, and a tenant was created for it (auth.mode is open)"
            )

    async def write_last_used(self) -> None:
        """Write the last uses of keys since the previous time; after an outage, with the next."""
        uses, self._uses = self._uses, {}
        try:
            await keys.set_last_used(self._database, uses)
        except MemsvcError as error:
            self._uses = uses | self._uses
            log.warning(
                "the time of last use of some keys could not be stored", code=error.code.value
            )

    def log_refusals(self) -> None:
        """Log the number of refused keys by reason since the last such line."""
        if refusals := dict(self._refusals):
            self._refusals.clear()
            log.warning("requests were refused because of their keys", **refusals)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Save when keys were last used, log refused keys, and end streams, in the background.

        Both are done once more at the end."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._streams.running())
            if self._tokens is not None:
                await stack.enter_async_context(self._tokens.running())
            stack.callback(self.log_refusals)
            stack.push_async_callback(self.write_last_used)
            await stack.enter_async_context(in_background(self._keep_writing()))
            yield

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(self.options.last_used_every_s)
            await self.write_last_used()
            self.log_refusals()


PROJECT_HEADER: Final = b"x-memsvc-project"
USER_HEADER: Final = b"x-memsvc-user"
TOOLSETS_HEADER: Final = b"x-memsvc-tools"
_CONNECTION_HEADERS: Final = frozenset({PROJECT_HEADER, USER_HEADER, TOOLSETS_HEADER})


def connection_of(caller: Caller, project: str, user: str) -> ConnectionDefaults:
    """Return the project and user for calls that do not name one themselves.

    Raises INVALID_PATH or INVALID_ARGUMENT for an invalid name, and PERMISSION_DENIED for a name
    that the key may not use."""
    project = project.strip() and check_project(project.strip())
    user = checked_name(user, "the user")
    if project and not caller.can_access(project):
        raise permission_denied(
            "this key does not have access to the project that is set for this connection"
        )
    if user and caller.user not in ("", user):
        raise permission_denied(
            "this key is bound to one user, but this connection is set to a different user"
        )
    return ConnectionDefaults(project, user)


def _connected(caller: Caller, headers: Sequence[tuple[bytes, bytes]]) -> Caller:
    """Return the caller of a request, with the project and the user in its headers."""
    project, user = _header(headers, PROJECT_HEADER), _header(headers, USER_HEADER)
    has_hooks = any(
        name == TOOLSETS_HEADER and HOST_TOOLSET in value.decode("latin-1").split(",")
        for name, value in headers
    )
    if not (project or user or has_hooks):
        return caller
    connection = connection_of(caller, project, user)
    return replace(caller, connection=replace(connection, has_hooks=has_hooks))


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the text of a header; "" without one. INVALID_ARGUMENT where it has several values."""
    try:
        [value] = {value.strip() for each, value in headers if each == name} or {b""}
        return decode_header(value)
    except ValueError:
        raise invalid(
            f"the header {name.decode()} must occur only once and contain a single name"
        ) from None


UNAUTHORIZED_STATUS: Final = 401
FORBIDDEN_STATUS: Final = 403
_PLACEHOLDERS: Final = ("YOUR_", "<", "$")
"""Prefixes of placeholders for a key in the snippets of documentation, ours and others'."""
SEND_KEY: Final = "send the header Authorization: Bearer KEY"
DISCOVERY_PREFIXES: Final = ("/.well-known/", "/mcp/.well-known/", "/sse/.well-known/")
DISCOVERY_PATHS: Final = frozenset({"/authorize", "/register", "/token", "/favicon.ico"})
"""Where clients without a key look for an authorization server or an icon."""


class UnknownKeyError(MemsvcError):
    """The key is invalid or missing.

    The message never repeats the key that was sent. It names the `file` with the right key, which
    only processes of this machine give that read the file themselves."""

    def __init__(
        self,
        key: str | None,
        file: Path | None = None,
        *,
        tokens: bool = False,
        recovery: str = SEND_KEY,
    ) -> None:
        self.is_given = key is not None
        message = (
            "this API key is unknown, revoked or expired"
            if key is not None
            else "an API key is required"
        )
        if key is not None and key.startswith(_PLACEHOLDERS):
            message = "the request contains a placeholder instead of the API key"
        if tokens:
            message = message.replace("API key", "API key or access token")
        if file is not None and file.exists():
            message += f"; the key of this data folder is in {file}"
        super().__init__(Code.PERMISSION_DENIED, message, recovery=recovery)


@frozen
class Challenge:
    """The required credentials: a key or, with the metadata URL, also a token with scopes."""

    metadata_url: str = ""
    scopes: OAuthScopes | None = None

    def not_found(self, scope: Scope) -> Response:
        """Return the 404 for a client that looks for an authorization server.

        OAuth clients show `error` and `error_description` to their users."""
        message = (
            "this server does not use an authorization server: an API key is required"
            if self.scopes is None
            else (
                "this is not an authorization server; the OAuth metadata of this server names"
                " the authorization server to use"
            )
        )
        details = {"error": "invalid_request", "error_description": f"{message}; {SEND_KEY}"}
        return error_response(not_found(message, recovery=SEND_KEY, details=details), scope)

    def error(self, error: MemsvcError, scope: Scope) -> Response:
        """Return the response to a failed authentication: 401 if the credentials are not valid."""
        if isinstance(error, UnknownKeyError):
            status, scopes = UNAUTHORIZED_STATUS, "" if self.scopes is None else self.scopes.default
            fault = "invalid_token" if error.is_given and self.scopes is not None else ""
        elif isinstance(error, InsufficientScopeError):
            status, scopes, fault = None, error.scopes, "insufficient_scope"
        else:
            return error_response(error, scope)
        header = {"WWW-Authenticate": self._header(fault, scopes)}
        return error_response(error, scope, status=status, headers=header)

    def missing_scope(self, state: RequestState) -> Header | None:
        """Return the header that names the scope a caller's token lacks, or None.

        A call that is refused because of a missing scope gets 403 with the scopes that it needs, so
        that a client can request a token that has them."""
        scopes, caller, missing = self.scopes, state.caller, state.missing_permission
        if scopes is None or caller is None or caller.key_id is not None or missing is None:
            return None
        header = self._header("insufficient_scope", scopes.with_permission(caller, missing))
        return b"www-authenticate", header.encode("latin-1")

    def _header(self, error: str, scopes: str) -> str:
        parts = {"error": error, "scope": scopes, "resource_metadata": self.metadata_url}
        params = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return f"Bearer {params}".rstrip()
