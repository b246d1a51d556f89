"""Public keys of an issuer of tokens, from its JWKS document (RFC 7517): at a URL, or in a file.

They are fetched in the background. A token with a known key never waits; only an unknown key id
triggers another fetch, at limited intervals and for a limited time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

import httpx2
import orjson
import structlog

from memsvc.core.frozen import frozen

log = structlog.get_logger("memsvc.oauth")

Algorithm = Literal["RS256", "ES256", "EdDSA"]
DOCUMENT_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
KEY_SIZE_MIN: Final = 2048
KEY_ID_CHARS_MAX: Final = 256
HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


@frozen
class PublicKey:
    """A key, and the one algorithm that it verifies."""

    algorithm: Algorithm
    key: Any


class NoKeysError(Exception):
    """The document could not be read, or holds no usable key; the message quotes nothing of it."""


def keys_of(document: bytes) -> dict[str, PublicKey]:
    """Return the keys of a JWKS document that can verify signatures, by id; "" stands for none."""
    try:
        listed = orjson.loads(document)["keys"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise NoKeysError(
            "the document with the issuer's signing keys is not a JWKS document"
        ) from error
    found: dict[str, PublicKey] = {}
    for one in listed[:KEYS_MAX] if isinstance(listed, list) else ():
        key = _usable(one)
        key_id = one.get("kid", "") if isinstance(one, dict) else ""
        if key is not None and isinstance(key_id, str) and len(key_id) <= KEY_ID_CHARS_MAX:
            found[key_id] = key
    if not found:
        raise NoKeysError(
            "the JWKS document does not contain a key for any of the algorithms RS256,"
            " ES256 and EdDSA"
        )
    return found


def _usable(one: Any) -> PublicKey | None:
    """Return a usable key; None for every other kind: secrets, encryption keys, weak ones."""
    match one:
        case {"kty": "RSA"}:
            algorithm: Algorithm = "RS256"
        case {"kty": "EC", "crv": "P-256"}:
            algorithm = "ES256"
        case {"kty": "OKP", "crv": "Ed25519"}:
            algorithm = "EdDSA"
        case _:
            return None
    if one.get("use", "sig") != "sig" or one.get("alg", algorithm) != algorithm:
        return None
    public = {
        name: value for name, value in one.items() if name in ("kty", "crv", "n", "e", "x", "y")
    }
    import jwt  # noqa: PLC0415 - few have an issuer, and it takes long to load

    try:
        key = jwt.PyJWK(public, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if algorithm == "RS256" and key.key_size < KEY_SIZE_MIN:
        return None
    return PublicKey(algorithm, key)


class Jwks:
    """Keys of one issuer, as last read.

    A document that cannot be read, or holds nothing of use, changes nothing: the known keys stay.
    """

    def __init__(
        self, location: str | Path, *, timeout_s: float, refresh_s: float, retry_s: float
    ) -> None:
        self._location = location
        self._timeout_s = timeout_s
        self._refresh_s = refresh_s
        self._retry_s = retry_s
        self._keys: dict[str, PublicKey] = {}
        self._last_attempt_at = -retry_s
        self._reading: asyncio.Task[None] | None = None
        self._outage = False

    @property
    def is_known(self) -> bool:
        """Return whether the keys were ever read."""
        return bool(self._keys)

    async def find(self, key_id: str | None) -> PublicKey | None:
        """Return the key of this id, or without one the only key; None where there is none.

        An unknown id triggers another fetch, unless there was one just now.
        """
        found = self._known(key_id)
        if found is None and await self._reload():
            found = self._known(key_id)
        return found

    def _known(self, key_id: str | None) -> PublicKey | None:
        if key_id is not None:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _reload(self) -> bool:
        """Wait for a running fetch, or start one if the last is long enough ago.

        Return whether it did.
        """
        if self._reading is None and monotonic() - self._last_attempt_at < self._retry_s:
            return False
        await asyncio.shield(self._start_fetch())
        return True

    def _start_fetch(self) -> asyncio.Task[None]:
        if self._reading is None:
            self._last_attempt_at = monotonic()
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        try:
            # what reads keys is loaded with the first, and would keep the loop waiting
            self._keys = await asyncio.to_thread(keys_of, await self._document())
            if self._outage:
                log.info("the signing keys of the OAuth issuer can be read again")
            self._outage = False
        except (NoKeysError, OSError, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            if not self._outage:
                log.warning(
                    "the signing keys of the OAuth issuer cannot be read",
                    error=type(error).__name__,
                )
            self._outage = True
        finally:
            self._reading = None

    async def _document(self) -> bytes:
        async with asyncio.timeout(self._timeout_s):
            if isinstance(self._location, Path):
                return await asyncio.to_thread(_bytes_of, self._location)
            async with (
                httpx2.AsyncClient(
                    timeout=self._timeout_s, follow_redirects=False, trust_env=False
                ) as http,
                http.stream("GET", self._location, headers=HEADERS) as response,
            ):
                if response.status_code != httpx2.codes.OK:
                    raise NoKeysError(
                        "the JWKS document could not be fetched: the server did not answer"
                        " with status 200"
                    )
                content = b""
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > DOCUMENT_BYTES_MAX:
                        raise NoKeysError(
                            "the JWKS document is larger than 256 KiB, which is the limit"
                        )
                return content

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the keys in the background, now and at intervals."""
        task = asyncio.create_task(self._keep_reading())
        try:
            yield
        finally:
            for pending in (task, self._reading):
                if pending is not None:
                    pending.cancel()
                    with suppress(asyncio.CancelledError):
                        await pending

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.shield(self._start_fetch())
            await asyncio.sleep(
                self._refresh_s if self._keys and not self._outage else self._retry_s
            )


def _bytes_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        document = opened.read(DOCUMENT_BYTES_MAX + 1)
    if len(document) > DOCUMENT_BYTES_MAX:
        raise NoKeysError("the JWKS document is larger than 256 KiB, which is the limit")
    return document
