"""OAuth 2.1 resource server: verifies access tokens of one issuer (JWT, RFC 9068).

It returns their callers. Tokens are never passed on."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from memsvc.adapters.jwks import KEY_ID_CHARS_MAX, Algorithm, Jwks, PublicKey
from memsvc.core.errors import Code, MemsvcError, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.options import Options
from memsvc.core.paths import check_project
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Permission
from memsvc.core.urls import is_loopback

CLAIM_CHARS_MAX: Final = 256
PROJECTS_MAX: Final = 100
EXPIRES_MAX: Final = 2**36
_TENANT: Final = b"memsvc\x00oauth\x00"
"""Prefix of hashed tenants: no key holds a NUL, so no tenant of a key is ever the same."""


class OAuthOptions(Options):
    """OAuth access tokens, accepted in addition to keys.

    Without `issuer`, no tokens are accepted."""

    issuer: str = Field(
        "",
        description="exact value that the `iss` claim of a token must have; empty: tokens are not"
        " accepted",
    )
    resource: str = Field(
        "",
        description="public URL of /mcp; tokens must contain it as their `aud` claim, and clients"
        " use it to find the OAuth metadata",
    )
    audiences: tuple[str, ...] = Field(
        (), description="other values that are accepted as the `aud` claim"
    )
    jwks_url: str = Field("", description="URL of the issuer's signing keys (JWKS)")
    jwks_file: Path | None = Field(
        None,
        description="file that contains the issuer's signing keys (JWKS), used instead of jwks_url",
    )
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256", "EdDSA"), min_length=1, description="accepted signature algorithms"
    )
    token_types: tuple[str, ...] = Field(
        ("at+jwt", "application/at+jwt", "jwt"),
        description="accepted `typ` headers of tokens; an empty entry also accepts tokens without"
        " this header",
    )
    required_scopes: tuple[str, ...] = Field(
        (), description="OAuth scopes that every token must have"
    )
    read_scopes: tuple[str, ...] = Field(
        ("memsvc:read",),
        description="OAuth scopes, each of which gives the read permission; empty: every token has"
        " this permission",
    )
    write_scopes: tuple[str, ...] = Field(
        ("memsvc:write",),
        description="OAuth scopes, each of which gives the write permission; empty: every token has"
        " this permission",
    )
    admin_scopes: tuple[str, ...] = Field(
        ("memsvc:admin",),
        description="OAuth scopes, each of which gives the admin permission; empty: every token has"
        " this permission",
    )
    scopes_claim: str = Field(
        "scope",
        min_length=1,
        description="claim that contains the OAuth scopes, as a list or as one text with spaces"
        " between them",
    )
    tenant_claim: str = Field(
        "sub",
        min_length=1,
        description="claim that identifies the tenant of a token; the same value from another"
        " issuer identifies another tenant",
    )
    projects_claim: str = Field(
        "",
        description="claim that lists the projects that a token may use, with `*` for all projects;"
        " if this setting is empty, tokens may use all projects",
    )
    leeway_s: float = Field(
        30.0,
        ge=0,
        le=300,
        description="tolerated difference between the clocks of the issuer and of this server",
    )
    token_chars_max: int = Field(
        8192, ge=512, le=65536, description="maximum length of a token, in characters"
    )
    jwks_refresh_s: float = Field(
        600.0, ge=10, description="interval at which the issuer's keys are read"
    )
    jwks_again_s: float = Field(
        30.0,
        ge=1,
        description="minimum interval between reads of the issuer's keys after a failed read or for"
        " unknown key ids",
    )
    jwks_timeout_s: float = Field(
        3.0,
        gt=0,
        le=30,
        description="time limit for reading the issuer's keys; a request waits for the keys only if"
        " the key of its token is not known yet",
    )

    @field_validator("issuer", "resource", "jwks_url")
    @classmethod
    def _secure(cls, value: str) -> str:
        parts = urlsplit(value)
        of_the_web = (
            parts.hostname and parts.username is None and not parts.fragment and parts.port != 0
        )
        if value and not (
            of_the_web
            and (
                parts.scheme == "https"
                or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
            )
        ):
            raise ValueError(
                "must be an https URL without a user name or a fragment (http is allowed"
                " only for addresses on this machine)"
            )
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.issuer:
            return self
        if not self.resource:
            raise ValueError("if issuer is set, set resource to the public URL of /mcp")
        if bool(self.jwks_url) == (self.jwks_file is not None):
            raise ValueError("if issuer is set, set exactly one of jwks_url and jwks_file")
        return self


class InsufficientScopeError(MemsvcError):
    """A valid token without the required `scopes`."""

    def __init__(self, scopes: str) -> None:
        super().__init__(
            Code.PERMISSION_DENIED,
            "this token lacks a required scope",
            recovery=f"request these scopes from the issuer: {scopes}",
        )
        self.scopes = scopes


@frozen
class OAuthScopes:
    """The supported scopes, as clients learn them."""

    options: OAuthOptions

    @property
    def all(self) -> list[str]:
        """Every scope that this server uses."""
        listed = (self.options.required_scopes, *map(self.of, Permission))
        return list(dict.fromkeys(chain.from_iterable(listed)))

    @property
    def default(self) -> str:
        """The scopes that a new client requests: to read and to write."""
        return self._for((Permission.READ, Permission.WRITE))

    def with_permission(self, caller: Caller, missing: Permission) -> str:
        """Return the scopes for a caller's permissions and the one that it lacks."""
        return self._for(sorted({*caller.permissions, missing}))

    def of(self, permission: Permission) -> tuple[str, ...]:
        """Return the scopes that each give a permission."""
        options = self.options
        return {
            Permission.READ: options.read_scopes,
            Permission.WRITE: options.write_scopes,
            Permission.ADMIN: options.admin_scopes,
        }[permission]

    def _for(self, permissions: Iterable[Permission]) -> str:
        scopes = [scope for permission in permissions for scope in self.of(permission)[:1]]
        return " ".join(dict.fromkeys((*self.options.required_scopes, *scopes)))


def is_token(text: str) -> bool:
    """Return whether a text has the form of a JWT, which keys never have."""
    return text.startswith("ey") and text.count(".") == 2


def tenant_of(issuer: str, name: str) -> bytes:
    """Return the tenant of an issuer's name, distinct for each issuer, name and key."""
    words = (issuer.encode(), name.encode())
    return sha256(
        _TENANT + b"".join(len(word).to_bytes(4, "big") + word for word in words)
    ).digest()


class TokenVerifier:
    """Verifies tokens and returns their callers."""

    def __init__(self, options: OAuthOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._scopes = OAuthScopes(options)
        self._keys = Jwks(
            options.jwks_file or options.jwks_url,
            timeout_s=options.jwks_timeout_s,
            refresh_s=options.jwks_refresh_s,
            retry_s=options.jwks_again_s,
        )

    async def caller(self, text: str) -> Caller | None:
        """Return the caller of a token, or None if the token is invalid.

        Raises InsufficientScopeError for a valid token without permissions, and UNAVAILABLE if the
        issuer's keys have never been read."""
        try:
            return self._caller(await self._claims(text))
        except InvalidTokenError:
            return None

    async def caller_or_none(self, text: str) -> Caller | None:
        """Return the caller as `caller` does, but None for a token without permissions."""
        try:
            return await self.caller(text)
        except InsufficientScopeError:
            return None

    def running(self) -> AbstractAsyncContextManager[None]:
        """Read the issuer's keys in the background."""
        return self._keys.running()

    async def _claims(self, text: str) -> JsonObject:
        """Return the claims of a token that is valid now."""
        if len(text) > self._options.token_chars_max:
            raise InvalidTokenError
        token, types = read(text), map(str.lower, self._options.token_types)
        if token.algorithm not in self._options.algorithms or token.type.lower() not in types:
            raise InvalidTokenError
        key = await self._keys.find(token.key_id)
        if key is None and not self._keys.is_known:
            raise unavailable("the token issuer's keys are not available yet", retry_after_s=1.0)
        if key is None or key.algorithm != token.algorithm:
            raise InvalidTokenError
        claims = token.verify(key)
        self._check(claims)
        return claims

    def _check(self, claims: JsonObject) -> None:
        """Check the issuer, audience and lifetime of the claims.

        Raises InvalidTokenError otherwise."""
        audience = claims.get("aud")
        claimed = audience if isinstance(audience, list) else [audience]
        audiences = (self._options.resource, *self._options.audiences)
        now, leeway_s = self._clock.now().timestamp(), self._options.leeway_s
        if (
            claims.get("iss") != self._options.issuer
            or not any(one in audiences for one in claimed)
            or _time(claims, "exp") <= now - leeway_s
            or any(_time(claims, name) > now + leeway_s for name in {"nbf", "iat"} & claims.keys())
        ):
            raise InvalidTokenError

    def _caller(self, claims: JsonObject) -> Caller:
        granted = _words(claims.get(self._options.scopes_claim, ""))
        missing = not {*self._options.required_scopes} <= granted
        permissions = frozenset(
            permission
            for permission in Permission
            if not self._scopes.of(permission) or granted & {*self._scopes.of(permission)}
        )
        if missing or not permissions:
            raise InsufficientScopeError(self._scopes.default)
        client = _name(claims, "client_id") or _name(claims, "azp")
        tenant = _name(claims, self._options.tenant_claim)
        if not tenant:
            raise InvalidTokenError
        return Caller(
            tenant=tenant_of(self._options.issuer, tenant),
            key_label=f"oauth:{client}" if client else "oauth",
            permissions=permissions,
            projects=self._projects(claims),
            expires_at=datetime.fromtimestamp(_time(claims, "exp"), UTC),
        )

    def _projects(self, claims: JsonObject) -> frozenset[str] | None:
        """Return the projects that a token may touch; None for all.

        A token without the required claim may touch none.
        """
        if not self._options.projects_claim:
            return None
        named = _words(claims.get(self._options.projects_claim, ""))
        if ALL_PROJECTS in named:
            return None
        if len(named) > PROJECTS_MAX:
            raise InvalidTokenError
        try:
            return frozenset(map(check_project, named))
        except MemsvcError as error:
            raise InvalidTokenError from error


def _time(claims: JsonObject, name: str) -> float:
    """Return a timestamp of a claim, in seconds since 1970."""
    value: Any = claims.get(name)
    if type(value) not in (int, float) or not 0 <= value <= EXPIRES_MAX:
        raise InvalidTokenError
    return float(value)


def _words(value: Any) -> frozenset[str]:
    """Return the words of a claim, which may be a list of them or one text."""
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return frozenset(value)
    raise InvalidTokenError


def _name(claims: JsonObject, claim: str) -> str:
    """Return a name of a claim; "" for one that cannot be logged, or none."""
    value = claims.get(claim)
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        return ""
    return value if len(value) <= CLAIM_CHARS_MAX else ""


NESTED_MAX: Final = 200
"""Objects and lists in a header or in claims; few enough for any parser's stack."""
_PART = re.compile(r"[A-Za-z0-9_-]+\Z")
_UNSUPPORTED_HEADERS: Final = ("crit", "b64")
"""Headers that change what is signed, or must be understood: none is."""


class InvalidTokenError(Exception):
    """The token is invalid. The error gives no reason, since only an attacker could use one."""


@frozen
class SignedToken:
    """A token whose signature has not been verified yet.

    Its header only selects which of the issuer's keys and allowed algorithms to use; `jku`, `jwk`,
    `x5u` and similar fields, with which a sender could name a key, are ignored."""

    text: str = field(repr=False)
    algorithm: str
    key_id: str | None
    type: str

    def verify(self, key: PublicKey) -> JsonObject:
        """Return the claims after verifying the signature with this key."""
        import jwt  # noqa: PLC0415 - few have an issuer, and it takes long to load

        try:
            payload = jwt.PyJWS().decode(self.text, key.key, algorithms=[key.algorithm])
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise InvalidTokenError from error
        return _object(payload)


def read(text: str) -> SignedToken:
    """Parse a token. Raises InvalidTokenError for text that is not a token."""
    parts = text.split(".")
    if len(parts) != 3 or not all(_PART.match(part) for part in parts):
        raise InvalidTokenError
    header = _object(_bytes(parts[0]))
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
    if (
        not (isinstance(algorithm, str) and isinstance(kind, str))
        or not isinstance(key_id, str | None)
        or len(key_id or "") > KEY_ID_CHARS_MAX
        or any(name in header for name in _UNSUPPORTED_HEADERS)
    ):
        raise InvalidTokenError
    return SignedToken(text, algorithm, key_id, kind)


def _bytes(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError as error:
        raise InvalidTokenError from error


def _object(document: bytes) -> JsonObject:
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


def _without_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise InvalidTokenError
    return result


def _reject_constant(constant: str) -> NoReturn:
    raise InvalidTokenError(constant)
