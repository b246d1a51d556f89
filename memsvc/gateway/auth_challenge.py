"""Responses to callers without sufficient credentials: the status, and the header clients act on.

Where tokens are accepted the header follows RFC 6750 and names the metadata of RFC 9728, from which
a client learns who issues tokens, and the scopes that it needs.
"""

from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller, Permission
from memsvc.gateway.oauth import InsufficientScopeError, OAuthScopes
from memsvc.gateway.rest import MISSING_PERMISSION, error_response

UNAUTHORIZED_STATUS: Final = 401
FORBIDDEN_STATUS: Final = 403
_PLACEHOLDERS: Final = ("YOUR_", "<", "$")
"""Prefixes of placeholders for a key in the snippets of documentation, ours and others'."""
SEND_KEY: Final = "send the header Authorization: Bearer KEY"
DISCOVERY_PREFIXES: Final = ("/.well-known/", "/mcp/.well-known/", "/sse/.well-known/")
DISCOVERY_PATHS: Final = frozenset({"/authorize", "/register", "/token", "/favicon.ico"})


def is_discovery(path: str) -> bool:
    """Return whether clients without a key look here for an authorization server or an icon."""
    return path in DISCOVERY_PATHS or path.startswith(DISCOVERY_PREFIXES)


class UnknownKeyError(MemsvcError):
    """An invalid key, or none.

    The message names the `file` with the right one; it never repeats the key.
    """

    def __init__(
        self,
        key: str | None,
        file: Path | None = None,
        *,
        tokens: bool = False,
        recovery: str = SEND_KEY,
    ) -> None:
        self.is_given = key is not None
        message = (
            "this API key is unknown, was revoked, or has expired"
            if key is not None
            else "an API key is required"
        )
        if key is not None and key.startswith(_PLACEHOLDERS):
            message = "a placeholder stands where the API key belongs"
        if tokens:
            message = message.replace("API key", "API key or access token")
        if file is not None and file.exists():
            message += f"; the key of this data folder is in {file}"
        super().__init__(Code.PERMISSION_DENIED, message, recovery=recovery)


@frozen
class Challenge:
    """Required credentials: a key or, with the metadata URL, also a token with scopes."""

    metadata_url: str = ""
    scopes: OAuthScopes | None = None

    def not_found(self, scope: Scope) -> Response:
        """Return 404, where a client looks for an authorization server.

        OAuth clients show `error` and `error_description` to their users.
        """
        message = "this server has no authorization server: an API key is required"
        if self.scopes is not None:
            message = (
                "this server has no authorization server of its own: its metadata names the"
                " issuer of tokens"
            )
        details = {"error": "invalid_request", "error_description": f"{message}; {SEND_KEY}"}
        return error_response(
            MemsvcError(Code.NOT_FOUND, message, recovery=SEND_KEY, details=details), scope
        )

    def error(self, error: MemsvcError, scope: Scope) -> Response:
        """Return the response to a failed authentication: 401 without valid credentials."""
        if isinstance(error, UnknownKeyError):
            scopes = "" if self.scopes is None else self.scopes.default
            header = self._header(
                "invalid_token" if error.is_given and self.scopes is not None else "", scopes
            )
            return error_response(
                error, scope, status=UNAUTHORIZED_STATUS, headers={"WWW-Authenticate": header}
            )
        if not isinstance(error, InsufficientScopeError):
            return error_response(error, scope)
        header = self._header("insufficient_scope", error.scopes)
        return error_response(error, scope, headers={"WWW-Authenticate": header})

    def with_missing_scope(self, scope: Scope, send: Send, caller: Caller) -> Send:
        """Return a `send` that names the missing scope to a caller with a token.

        A call refused for lack of a scope gets 403 with the scopes that it needs, so that a client
        can request a token that has it.
        """
        scopes = self.scopes
        if scopes is None or caller.key_id is not None:
            return send

        async def send_challenge(message: Message) -> None:
            missing = scope.get(MISSING_PERMISSION)
            if message["type"] == "http.response.start" and isinstance(missing, Permission):
                header = self._header("insufficient_scope", scopes.with_permission(caller, missing))
                headers = [
                    *message.get("headers", ()),
                    (b"www-authenticate", header.encode("latin-1")),
                ]
                message = {**message, "status": FORBIDDEN_STATUS, "headers": headers}
            await send(message)

        return send_challenge

    def _header(self, error: str, scopes: str) -> str:
        parts = {"error": error, "scope": scopes, "resource_metadata": self.metadata_url}
        params = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return f"Bearer {params}".rstrip()
