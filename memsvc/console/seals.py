"""Signed session cookies: the server stores nothing of them, and they do not hold the key.

A cookie holds the hash of the key, which opens nothing by itself, the start of its session and its
expiry. Each tab has its own slot, in the path of its pages and of its cookie, so that two tabs can
be two tenants. A key that is revoked ends its sessions: it is looked up again with each request,
and so is whether the session was closed.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

COOKIE: Final = "memsvc_console"
_PURPOSE: Final = b"memsvc console session\0"
_FORMS: Final = b"memsvc console form\0"
_HASH_BYTES: Final = 32
_TIME_BYTES: Final = 8
_BODY_BYTES: Final = _HASH_BYTES + 2 * _TIME_BYTES
_MAC_BYTES: Final = 32
SESSION_MAX: Final = timedelta(days=7)
"""Lifetime of a session, however much is done in it."""


@dataclass(frozen=True, slots=True)
class Seal:
    """A verified cookie: the hash of its key, its session, start and expiry, and its form token."""

    key_hash: bytes
    session: bytes
    began: datetime
    good_until: datetime
    form_token: str

    @property
    def ends(self) -> datetime:
        """Return when the last cookie of this session expires."""
        return self.began + SESSION_MAX


class Seals:
    """Signs and verifies cookies; `secret` is the same for all replicas."""

    def __init__(self, secret: Callable[[], Awaitable[bytes]], lasting: timedelta) -> None:
        self._obtain = secret
        self._lasting = lasting
        self._secret: bytes | None = None

    async def made(self, slot: str, key_hash: bytes, now: datetime, began: datetime | None = None) -> str:
        """Return the cookie of a slot for a key's hash, in a session that began now or before."""
        began = began or now
        until = min(now + self._lasting, began + SESSION_MAX)
        body = key_hash + b"".join(int(at.timestamp()).to_bytes(_TIME_BYTES, "big") for at in (began, until))
        return urlsafe_b64encode(body + self._mac(await self._shared(), _PURPOSE, slot, body)).decode()

    async def opened(self, slot: str, cookie: str, now: datetime) -> Seal | None:
        """Return the content of a cookie.

        None for one that is not of this slot, was not made here, or has expired.
        """
        try:
            whole = urlsafe_b64decode(cookie.encode("ascii"))
        except (NotBase64, ValueError):
            return None
        if len(whole) != _BODY_BYTES + _MAC_BYTES:
            return None
        body, mac = whole[:-_MAC_BYTES], whole[-_MAC_BYTES:]
        secret = await self._shared()
        if not hmac.compare_digest(mac, self._mac(secret, _PURPOSE, slot, body)):
            return None
        times = (body[_HASH_BYTES:-_TIME_BYTES], body[-_TIME_BYTES:])
        began, good_until = (datetime.fromtimestamp(int.from_bytes(one, "big"), tz=now.tzinfo) for one in times)
        if good_until <= now:
            return None
        session = sha256(slot.encode()).digest()
        return Seal(body[:_HASH_BYTES], session, began, good_until, self._mac(secret, _FORMS, slot, body).hex())

    def is_old(self, seal: Seal, now: datetime) -> bool:
        """Return whether a cookie is to be renewed, so that an active user stays signed in."""
        return seal.good_until - now < self._lasting / 2 and seal.good_until < seal.ends

    async def _shared(self) -> bytes:
        if self._secret is None:
            self._secret = await self._obtain()
        return self._secret

    @staticmethod
    def _mac(secret: bytes, purpose: bytes, slot: str, body: bytes) -> bytes:
        return hmac.digest(secret, purpose + slot.encode() + b"\0" + body, sha256)
