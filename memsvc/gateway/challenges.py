"""What whoever is not let in, or not far enough, is told: the status, and the header that clients act on.

Where tokens are taken the header follows RFC 6750 and names the metadata of RFC 9728, from which a client learns whom
to ask for a token, and the scopes that it needs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Permission
from memsvc.gateway.oauth import InsufficientScopeError, Scopes
from memsvc.gateway.rest import LACKING, error_response

UNAUTHENTICATED_STATUS: Final = 401
FORBIDDEN_STATUS: Final = 403
_PLACEHOLDERS: Final = ("YOUR_", "<", "$")
"""How what the snippets of our pages, and of others, have in the place of a key begins."""
ASK_WITH_KEY: Final = "send the header Authorization: Bearer KEY"
DISCOVERY_PREFIXES: Final = ("/.well-known/", "/mcp/.well-known/", "/sse/.well-known/")
DISCOVERY_PATHS: Final = frozenset({"/authorize", "/register", "/token", "/favicon.ico"})


def is_discovery(path: str) -> bool:
    """Whether clients look there for an authorization server, or browsers for an icon, before anybody has a key."""
    return path in DISCOVERY_PATHS or path.startswith(DISCOVERY_PREFIXES)


class UnknownKeyError(MemsvcError):
    """A key that opens nothing, or none. `file` is told where the right one is; the key itself is not told again."""

    def __init__(
        self, key: str | None, file: Path | None = None, *, tokens: bool = False, recovery: str = ASK_WITH_KEY
    ) -> None:
        self.given = key is not None
        message = (
            "this API key is unknown, was revoked, or has expired" if key is not None else "an API key is required"
        )
        if key is not None and key.startswith(_PLACEHOLDERS):
            message = "a placeholder stands where the API key belongs"
        if tokens:
            message = message.replace("API key", "API key or access token")
        if file is not None and file.exists():
            message += f"; the key of this data folder is in {file}"
        super().__init__(Code.PERMISSION_DENIED, message, recovery=recovery)


@dataclass(frozen=True, slots=True)
class Challenge:
    """What is asked of callers: a key, or, with the URL of metadata, a token with scopes as well."""

    metadata_url: str = ""
    scopes: Scopes | None = None

    def nothing(self, scope: Scope) -> Response:
        """404, where a client looks for an authorization server. `error` and `error_description` are what clients of
        OAuth show their users."""
        message = "this server has no authorization server: an API key is required"
        if self.scopes is not None:
            message = "this server has no authorization server of its own: its metadata names the issuer of tokens"
        details = {"error": "invalid_request", "error_description": f"{message}; {ASK_WITH_KEY}"}
        return error_response(MemsvcError(Code.NOT_FOUND, message, recovery=ASK_WITH_KEY, details=details), scope)

    def error(self, error: MemsvcError, scope: Scope) -> Response:
        """An error that came up while somebody was to be let in: 401 for whoever showed nothing, or nothing that opens
        anything."""
        if isinstance(error, UnknownKeyError):
            wanted = "" if self.scopes is None else self.scopes.usual
            told = self._header("invalid_token" if error.given and self.scopes is not None else "", wanted)
            return error_response(error, scope, status=UNAUTHENTICATED_STATUS, headers={"WWW-Authenticate": told})
        if not isinstance(error, InsufficientScopeError):
            return error_response(error, scope)
        told = self._header("insufficient_scope", error.scopes)
        return error_response(error, scope, headers={"WWW-Authenticate": told})

    def stepping_up(self, scope: Scope, send: Send, caller: Caller) -> Send:
        """What answers a caller who came with a token: 403 with the scopes that it needs where its call was refused for
        want of one, so that a client can ask for a token that has it."""
        scopes = self.scopes
        if scopes is None or caller.key_id is not None:
            return send

        async def sending(message: Message) -> None:
            lacking = scope.get(LACKING)
            if message["type"] == "http.response.start" and isinstance(lacking, Permission):
                told = self._header("insufficient_scope", scopes.with_permission(caller, lacking))
                headers = [*message.get("headers", ()), (b"www-authenticate", told.encode("latin-1"))]
                message = {**message, "status": FORBIDDEN_STATUS, "headers": headers}
            await send(message)

        return sending

    def _header(self, error: str, scopes: str) -> str:
        parts = {"error": error, "scope": scopes, "resource_metadata": self.metadata_url}
        told = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return f"Bearer {told}".rstrip()
