"""Cookies of those who signed in to the console with a key.

A cookie holds the hash of the key, which opens nothing by itself, the start of its session and its
expiry. Each tab has its own slot, in the path of its pages and of its cookie, so that two tabs can
be two tenants. A key that is revoked ends its sessions: it is looked up again with each request,
and so is whether the session was closed.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from hashlib import sha256
from importlib import import_module
from typing import Final

from memsvc.core.frozen import frozen

COOKIE: Final = "memsvc_console"
_ALGORITHM: Final = "HS256"
_FORM_LABEL: Final = b"memsvc console form\0"
SESSION_MAX: Final = timedelta(days=7)
"""Lifetime of a session, however much is done in it."""


@frozen
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
        times = {"iat": int(started_at.timestamp()), "exp": int(until.timestamp())}
        claims = {"aud": slot, "key": key_hash.hex()} | times
        secret = await self._shared_secret()
        import jwt  # noqa: PLC0415 - most servers have nobody signed in, and it takes long to load

        return jwt.encode(claims, secret, _ALGORITHM)

    async def verify(self, slot: str, cookie: str, now: datetime) -> SessionCookie | None:
        """Return the content of a cookie.

        None for one that is not of this slot, was not made here, or has expired.
        """
        secret = await self._shared_secret()
        import jwt  # noqa: PLC0415 - most servers have nobody signed in, and it takes long to load

        try:
            claims = jwt.decode(
                cookie,
                secret,
                [_ALGORITHM],
                {"verify_exp": False, "verify_iat": False},  # the times are checked here, by `now`
                audience=slot,
            )
        except jwt.InvalidTokenError:
            return None
        started_at, valid_until = (
            datetime.fromtimestamp(claims[name], tz=now.tzinfo) for name in ("iat", "exp")
        )
        if valid_until <= now:
            return None
        return SessionCookie(
            bytes.fromhex(claims["key"]),
            sha256(slot.encode()).digest(),
            started_at,
            valid_until,
            hmac.digest(secret, _FORM_LABEL + cookie.encode(), sha256).hex(),
        )

    def is_old(self, seal: SessionCookie, now: datetime) -> bool:
        """Return whether a cookie is to be renewed, so that an active user stays signed in."""
        return seal.valid_until - now < self._lifetime / 2 and seal.valid_until < seal.expires_at

    async def _shared_secret(self) -> bytes:
        if self._secret is None:
            await asyncio.to_thread(import_module, "jwt")  # it would keep the loop waiting
            self._secret = await self._load_secret()
        return self._secret
