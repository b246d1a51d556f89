"""The cookie of somebody who signed in: sealed, so that the server keeps nothing of it, and without the key.

It holds the hash of the key, which opens nothing by itself, and until when it is good. Each tab has a slot of its
own, in the path of its pages and of its cookie, so that two tabs can be two tenants. A key that is revoked ends its
sessions: it is looked up again with each request.
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
_MAC_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Seal:
    """An opened cookie: whose key it is of, until when it is good, and what its forms have to bring."""

    key_hash: bytes
    good_until: datetime
    form_token: str


class Seals:
    """Makes cookies and opens them. `secret` is the same for all replicas."""

    def __init__(self, secret: Callable[[], Awaitable[bytes]], lasting: timedelta) -> None:
        self._obtain = secret
        self._lasting = lasting
        self._secret: bytes | None = None

    async def made(self, slot: str, key_hash: bytes, now: datetime) -> str:
        """The cookie of a slot for whoever has the key of this hash."""
        until = int((now + self._lasting).timestamp())
        body = key_hash + until.to_bytes(_TIME_BYTES, "big")
        return urlsafe_b64encode(body + self._mac(await self._shared(), _PURPOSE, slot, body)).decode()

    async def opened(self, slot: str, cookie: str, now: datetime) -> Seal | None:
        """What a cookie says; None for one that is not of this slot, was not made here, or is no longer good."""
        try:
            whole = urlsafe_b64decode(cookie.encode("ascii"))
        except (NotBase64, ValueError):
            return None
        if len(whole) != _HASH_BYTES + _TIME_BYTES + _MAC_BYTES:
            return None
        body, mac = whole[:-_MAC_BYTES], whole[-_MAC_BYTES:]
        secret = await self._shared()
        if not hmac.compare_digest(mac, self._mac(secret, _PURPOSE, slot, body)):
            return None
        good_until = datetime.fromtimestamp(int.from_bytes(body[_HASH_BYTES:], "big"), tz=now.tzinfo)
        if good_until <= now:
            return None
        return Seal(body[:_HASH_BYTES], good_until, self._mac(secret, _FORMS, slot, body).hex())

    def is_old(self, seal: Seal, now: datetime) -> bool:
        """Whether a cookie is to be made anew, so that whoever goes on stays signed in."""
        return seal.good_until - now < self._lasting / 2

    async def _shared(self) -> bytes:
        if self._secret is None:
            self._secret = await self._obtain()
        return self._secret

    @staticmethod
    def _mac(secret: bytes, purpose: bytes, slot: str, body: bytes) -> bytes:
        return hmac.digest(secret, purpose + slot.encode() + b"\0" + body, sha256)
