"""Strict parser of signed tokens in compact form (RFC 7515, 7519): ambiguous ones are refused."""

import json
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import jwt

from memsvc.adapters.jwks import KEY_ID_CHARS_MAX, PublicKey

NESTED_MAX: Final = 200
"""Objects and lists in a header or in claims; few enough for any parser's stack."""
_PART = re.compile(r"[A-Za-z0-9_-]+\Z")
_UNSUPPORTED_HEADERS: Final = ("crit", "b64")
"""Headers that change what is signed, or must be understood: none is."""


class InvalidTokenError(Exception):
    """An invalid token. It gives no reason: only the sender could use one."""


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A token whose signature is not verified yet.

    Its header only selects which of our keys and of our algorithms to use: `jku`, `jwk`, `x5u` and
    similar name keys of the sender.
    """

    text: str = field(repr=False)
    algorithm: str
    key_id: str | None
    type: str

    def verify(self, key: PublicKey) -> dict[str, Any]:
        """Return the claims, verified with this key."""
        try:
            payload = jwt.PyJWS().decode(self.text, key.key, algorithms=[key.algorithm])
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise InvalidTokenError from error
        return _object(payload)


def read(text: str) -> SignedToken:
    """Parse a token; RefusedError where the text is none."""
    parts = text.split(".")
    if len(parts) != 3 or not all(_PART.match(part) for part in parts):
        raise InvalidTokenError
    header = _object(_bytes(parts[0]))
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
    if (
        not isinstance(algorithm, str)
        or not isinstance(kind, str)
        or any(name in header for name in _UNSUPPORTED_HEADERS)
    ):
        raise InvalidTokenError
    if key_id is not None and not (isinstance(key_id, str) and len(key_id) <= KEY_ID_CHARS_MAX):
        raise InvalidTokenError
    return SignedToken(text, algorithm, key_id, kind)


def _bytes(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError as error:
        raise InvalidTokenError from error


def _object(document: bytes) -> dict[str, Any]:
    """Parse a JSON object without duplicate names at any depth."""
    if document.count(b"{") + document.count(b"[") > NESTED_MAX:
        raise InvalidTokenError
    try:
        value = json.loads(
            document.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_reject_constant,
        )
    except ValueError as error:
        raise InvalidTokenError from error
    if not isinstance(value, dict):
        raise InvalidTokenError
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise InvalidTokenError
    return result


def _reject_constant(constant: str) -> NoReturn:
    raise InvalidTokenError(constant)
