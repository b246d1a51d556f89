"""Credentials of a request: a key or a token, as clients of many kinds send them."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from memsvc.store.keys import KEY_PREFIX

QUERY_NAMES = ("APIKEY", "apikey", "api_key")

_KEY_PREFIXES = ("sk-", "rk-", "pk-", "ak-", KEY_PREFIX)
_OTHER_SCHEMES = frozenset(
    {"apikey", "aws4-hmac-sha256", "basic", "digest", "dpop", "hawk", "negotiate", "ntlm", "token"}
)


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
    return without_identity(words[0])


def without_identity(token: str) -> str:
    """Return `identity@key` without its identity.

    A token that merely looks like an email address is unchanged.
    """
    identity, at, key = token.partition("@")
    if not at or not key or "@" in key:
        return token
    is_key = key.startswith(_KEY_PREFIXES)
    if is_key or (":" in identity and "." not in key):
        return key
    return token


@dataclass(frozen=True, slots=True)
class Credentials:
    """Key or token of a request, and whether it was sent as a bearer token."""

    text: str = field(repr=False)
    as_bearer: bool


def credentials(
    headers: Iterable[tuple[bytes, bytes]], query_string: bytes, *, key_in_query: bool
) -> Credentials | None:
    """Return a request's credentials: from Authorization, else X-API-Key, else the query; or None.

    The query only where allowed.
    """
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in (b"authorization", b"x-api-key") and name not in found:
            with suppress(UnicodeDecodeError):
                found[name] = value.decode("utf-8")
    for name in (b"authorization", b"x-api-key"):
        if name in found and (key := key_of(found[name])):
            return Credentials(
                key, name == b"authorization" and found[name].lstrip().lower().startswith("bearer")
            )
    if key_in_query:
        with suppress(UnicodeError):
            for parameter, text in parse_qsl(query_string.decode("ascii"), errors="strict"):
                if parameter in QUERY_NAMES and (key := key_of(text)):
                    return Credentials(key, as_bearer=False)
    return None
