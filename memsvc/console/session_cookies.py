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
_SESSION_LABEL: Final = b"memsvc console session\0"
_FORM_LABEL: Final = b"memsvc console form\0"
_HASH_BYTES: Final = 32
_TIME_BYTES: Final = 8
_BODY_BYTES: Final = _HASH_BYTES + 2 * _TIME_BYTES
_MAC_BYTES: Final = 32
SESSION_MAX: Final = timedelta(days=7)
"""Lifetime of a session, however much is done in it."""


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """A verified cookie: the hash of its key, its session, start and expiry, and its form token."""

    key_hash: bytes
    session: bytes
    started_at: datetime
    valid_until: datetime
    form_token: str

    @property
    def expires_at(self) -> datetime:
        """Return when the last cookie of this session expires."""
        return self.started_at + SESSION_MAX


class CookieFactory:
    """Signs and verifies cookies; `secret` is the same for all replicas."""

    def __init__(self, secret: Callable[[], Awaitable[bytes]], lifetime: timedelta) -> None:
        self._load_secret = secret
        self._lifetime = lifetime
        self._secret: bytes | None = None

    async def create(
        self, slot: str, key_hash: bytes, now: datetime, started_at: datetime | None = None
    ) -> str:
        """Return the cookie of a slot for a key's hash, in a session that began now or before."""
        started_at = started_at or now
        until = min(now + self._lifetime, started_at + SESSION_MAX)
        body = key_hash + b"".join(
            int(at.timestamp()).to_bytes(_TIME_BYTES, "big") for at in (started_at, until)
        )
        return urlsafe_b64encode(
            body + self._mac(await self._shared_secret(), _SESSION_LABEL, slot, body)
        ).decode()

    async def verify(self, slot: str, cookie: str, now: datetime) -> SessionCookie | None:
        """Return the content of a cookie.

        None for one that is not of this slot, was not made here, or has expired.
        """
        try:
            signed = urlsafe_b64decode(cookie.encode("ascii"))
        except (NotBase64, ValueError):
            return None
        if len(signed) != _BODY_BYTES + _MAC_BYTES:
            return None
        body, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        secret = await self._shared_secret()
        if not hmac.compare_digest(mac, self._mac(secret, _SESSION_LABEL, slot, body)):
            return None
        times = (body[_HASH_BYTES:-_TIME_BYTES], body[-_TIME_BYTES:])
        started_at, valid_until = (
            datetime.fromtimestamp(int.from_bytes(one, "big"), tz=now.tzinfo) for one in times
        )
        if valid_until <= now:
            return None
        session = sha256(slot.encode()).digest()
        return SessionCookie(
            body[:_HASH_BYTES],
            session,
            started_at,
            valid_until,
            self._mac(secret, _FORM_LABEL, slot, body).hex(),
        )

    def is_old(self, seal: SessionCookie, now: datetime) -> bool:
        """Return whether a cookie is to be renewed, so that an active user stays signed in."""
        return seal.valid_until - now < self._lifetime / 2 and seal.valid_until < seal.expires_at

    async def _shared_secret(self) -> bytes:
        if self._secret is None:
            self._secret = await self._load_secret()
        return self._secret

    @staticmethod
    def _mac(secret: bytes, label: bytes, slot: str, body: bytes) -> bytes:
        return hmac.digest(secret, label + slot.encode() + b"\0" + body, sha256)
