"""Credentials in requests: keys, their look-up, and the addresses that requests come from."""

import asyncio
import ipaddress
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Final, Literal, get_args
from urllib.parse import parse_qsl

from starlette.types import Scope

from memsvc.core.errors import unavailable
from memsvc.core.frozen import frozen
from memsvc.gateway.rate_limits import LatestDict, Rate
from memsvc.store import keys
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.keys import KEY_PREFIX

QUERY_S_MAX: Final = 5.0
"""Seconds that a look-up may take, waiting for its turn included."""
CONCURRENT_QUERIES: Final = 4
"""Concurrent look-ups: the rest of the pool is for authenticated callers."""

KeyRefusal = Literal["missing", "unknown", "expired", "token", "limited"]
KEY_REFUSALS: Final[tuple[KeyRefusal, ...]] = get_args(KeyRefusal)
"""Why a key is refused: missing, unknown, revoked or expired, an invalid access token, or too many
invalid keys from the same address."""

QUERY_NAMES = ("APIKEY", "apikey", "api_key")

_KEY_PREFIXES = ("sk-", "rk-", "pk-", "ak-", KEY_PREFIX)
_OTHER_SCHEMES = frozenset(
    {"apikey", "aws4-hmac-sha256", "basic", "digest", "dpop", "hawk", "negotiate", "ntlm", "token"}
)


@dataclass(slots=True)
class _CachedKey:
    """Cached look-up of a listed key, and until when it is valid.

    `told` counts the announced changes.
    """

    key: keys.ApiKey | None = None
    valid_until: float = 0.0
    change_count: int = 0
    end: Callable[[], None] | None = None


class KeyCache:
    """A cache of listed keys by hash.

    Keys that are not listed are cached separately, so that guesses do not evict listed ones.
    `changed` is called when anybody, in any process, changes a cached key."""

    def __init__(
        self,
        database: Database,
        *,
        keep_s: float,
        keys_max: int,
        changes: Changes | None,
        changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._keep_s = keep_s
        self._keys_max = keys_max
        self._changes = changes
        self._changed = changed
        self._listed: OrderedDict[bytes, _CachedKey] = OrderedDict()
        self._absent = LatestDict[bytes, float](keys_max)
        self._query_slots = asyncio.Semaphore(CONCURRENT_QUERIES)
        self._pending: dict[tuple[bytes, int], asyncio.Task[keys.ApiKey | None]] = {}

    async def find(self, key_hash: bytes) -> keys.ApiKey | None:
        """Return the listed key with this hash, even if it is revoked or expired, or None.

        Raises UNAVAILABLE if the look-up fails."""
        cached = self._listed.get(key_hash)
        if cached is not None and monotonic() < cached.valid_until:
            self._listed.move_to_end(key_hash)
            return cached.key
        if monotonic() < self._absent.get(key_hash, 0.0):
            return None
        query = (key_hash, 0 if cached is None else cached.change_count)
        if query not in self._pending:  # concurrent requests of a client share one look-up
            self._pending[query] = asyncio.create_task(self._query(key_hash, cached))
            self._pending[query].add_done_callback(lambda _: self._pending.pop(query))
        return await asyncio.shield(self._pending[query])

    async def _query(self, key_hash: bytes, cached: _CachedKey | None) -> keys.ApiKey | None:
        cached = cached or self._watch(key_hash)
        change_count = cached.change_count
        try:
            async with _in_time(), self._query_slots:
                found = await keys.find_key(self._database, key_hash)
            # else the key may have been read before the change: later look-ups know better
            if cached.change_count == change_count:
                cached.key = found
        finally:
            if cached.key is None:
                self._forget(key_hash)
        if found is None:
            self._absent.put(key_hash, monotonic() + self._keep_s)
        # else it was evicted meanwhile
        elif cached.change_count == change_count and self._listed.get(key_hash) is cached:
            cached.valid_until = monotonic() + self._keep_s
            self._listed.move_to_end(key_hash)
        return found

    def is_absent(self, key_hash: bytes) -> bool:
        """Return whether the cache says that this key is not listed."""
        return key_hash in self._absent

    def was_listed(self, key_hash: bytes) -> bool:
        """Return whether this is known as a listed key, valid or not."""
        cached = self._listed.get(key_hash)
        return cached is not None and cached.key is not None

    async def refresh(self, key_hashes: Collection[bytes]) -> dict[bytes, keys.ApiKey]:
        """Look up these keys again, all in one query."""
        change_counts = {
            key_hash: cached.change_count
            for key_hash in key_hashes
            if (cached := self._listed.get(key_hash)) is not None
        }
        found = await keys.find_keys(self._database, key_hashes)
        for key_hash, key in found.items():
            cached = self._listed.get(key_hash)
            if cached is not None and cached.change_count == change_counts.get(key_hash):
                cached.key = key
        return found

    def _watch(self, key_hash: bytes) -> _CachedKey:
        cached = _CachedKey()
        if self._changes is not None:
            cached.end = self._changes.watch(
                keys.change_of(key_hash), partial(self._invalidate, cached)
            )
        self._listed[key_hash] = cached
        while len(self._listed) > self._keys_max:
            self._forget(next(iter(self._listed)))
        return cached

    def _invalidate(self, cached: _CachedKey) -> None:
        cached.change_count += 1
        cached.valid_until = 0.0
        self._changed()

    def _forget(self, key_hash: bytes) -> None:
        cached = self._listed.pop(key_hash, None)
        if cached is not None and cached.end is not None:
            cached.end()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raise UNAVAILABLE where a look-up takes too long, as behind others in a stalled database."""
    try:
        async with asyncio.timeout(QUERY_S_MAX):
            yield
    except TimeoutError as error:
        raise unavailable(
            "the database cannot be reached at the moment", retry_after_s=1.0
        ) from error


def key_of(text: str) -> str | None:
    """Return the key of an Authorization value: the first word after any number of `Bearer`.

    Without a legacy identity. None when there is no key, or when the value belongs to another
    scheme: `Basic ...` must not make everybody who sends it one tenant, named "Basic".
    """
    words = text.split()
    while words and words[0].lower() == "bearer":
        words = words[1:]
    if not words or (len(words) > 1 and words[0].lower() in _OTHER_SCHEMES):
        return None
    return without_identity(words[0]) if "@" in words[0] else words[0]


def without_identity(token: str) -> str:
    """Return `identity@key` without its identity.

    A token that merely looks like an email address is unchanged.
    """
    identity, at, key = token.partition("@")
    if not at or not key or "@" in key:
        return token
    is_key = key.startswith(_KEY_PREFIXES) or (":" in identity and "." not in key)
    return key if is_key else token


@frozen
class Credentials:
    """Key or token of a request, and whether it was sent as a bearer token."""

    text: str = field(repr=False)
    as_bearer: bool


def credentials(
    headers: Mapping[bytes, bytes], query_string: bytes, *, key_in_query: bool
) -> Credentials | None:
    """Return a request's credentials: from Authorization, else X-API-Key, else the query; or None.

    The query only where allowed.
    """
    for name in (b"authorization", b"x-api-key"):
        try:
            text = headers.get(name, b"").decode("utf-8")
        except UnicodeDecodeError:
            continue
        if key := key_of(text):
            is_bearer = name == b"authorization" and text.lstrip().lower().startswith("bearer")
            return Credentials(key, is_bearer)
    if key_in_query:
        with suppress(UnicodeError):
            for parameter, text in parse_qsl(query_string.decode("ascii"), errors="strict"):
                if parameter in QUERY_NAMES and (key := key_of(text)):
                    return Credentials(key, as_bearer=False)
    return None


ADDRESSES_MAX: Final = 10_000
MINUTE_S: Final = 60.0


class AuthFailures:
    """Counts invalid keys by address, and limits them per minute and at once."""

    def __init__(self, per_minute: int) -> None:
        self._rate = Rate(per_minute / MINUTE_S, MINUTE_S) if per_minute else None
        self._empty_at = LatestDict[str, float](ADDRESSES_MAX)

    def wait_s(self, address: str) -> float:
        """Count an invalid key of this address; return 0, or how long it should have waited.

        A key that came too early does not count.
        """
        if self._rate is None:
            return 0.0
        empty_at, now = self._empty_at.get(address, 0.0), monotonic()
        wait_s = self._rate.wait_s(empty_at, now)
        if wait_s == 0:
            self._empty_at.put(address, self._rate.used(empty_at, now))
        return wait_s


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORWARDED_BY: Final = (b"x-forwarded-for", b"forwarded")
_FOR = re.compile(r"(?:^|[;,])\s*for=(\"[^\"]*\"|[^;,\s]*)", re.IGNORECASE)


def client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the right-most hop of X-Forwarded-For (else Forwarded) that is no trusted proxy.

    Without a trusted peer, the peer. No trusted proxy wrote a hop that is no address: the hop
    before it counts.
    """
    found = _peer(scope)
    for hop in reversed(_hops(scope)):
        if not _is_trusted(found, trusted) or _parsed(hop) is None:
            break
        found = hop
    return found


def counted_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the address under which a client is counted; for IPv6, its /64 network."""
    host = client_address(scope, trusted)
    address = _parsed(host)
    if address is None:
        return host
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def _peer(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _hops(scope: Scope) -> list[str]:
    for header in _FORWARDED_BY:
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == header]
        if lines:
            text = ",".join(lines)
            hops = text.split(",") if header == _FORWARDED_BY[0] else _FOR.findall(text)
            return [_without_port(hop.strip().strip('"')) for hop in hops]
    return []


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _is_trusted(host: str, trusted: Sequence[Network]) -> bool:
    address = _parsed(host)
    return address is not None and any(address in network for network in trusted)


def _parsed(host: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address
