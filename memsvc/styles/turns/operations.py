"""Operation tokens: a turn in progress, signed and given to the client.

The server keeps nothing of it."""

import binascii
import hashlib
import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.items import Item
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import server_secrets
from memsvc.store.database import Database
from memsvc.styles.turns.options import TurnOptions

SIGNED_AS: Final = "turns.operations"
_VERSION: Final = b"\x01"
_TOKEN_KIND: Final = b"memsvc operation token"
_SIZE_BYTES: Final = 4
_HEAD_BYTES: Final = len(_VERSION) + _SIZE_BYTES
_MAC_BYTES: Final = hashlib.sha256().digest_size
_START_OVER: Final = (
    "call memory_run_turn again with the same turn_id, and commit with the token that it returns"
)


@dataclass(frozen=True, slots=True)
class TurnOperation:
    """A turn before its answer: its owner and its input."""

    session: str
    turn: str
    user: str
    current: list[Item]


class TurnTokens:
    """Issuer and reader of operation tokens.

    A token is bound to its tenant, project and lifetime; its holder can read the input in it, which
    they sent themselves, but not change it."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._shared_secret: bytes | None = None

    async def issue(self, scope: Scope, operation: TurnOperation) -> tuple[str, datetime]:
        """Return the token of a turn and its expiry.

        INVALID_ARGUMENT for an input that is too large for one."""
        issued_at = int(self._clock.now().timestamp())
        expires_at = issued_at + self._options.operation_token_ttl_s
        fields = [
            operation.session,
            operation.turn,
            operation.user,
            issued_at,
            expires_at,
            operation.current,
        ]
        body = zlib.compress(orjson.dumps(fields))
        bytes_max = self._options.operation_token_bytes_max
        if len(body) > bytes_max:
            raise invalid(
                f"the current input fills an operation token with {len(body)} bytes; {bytes_max}"
                " at the most",
                recovery="use memory_before_turn and memory_after_turn for this turn",
            )
        head = _VERSION + len(body).to_bytes(_SIZE_BYTES, "big")
        signed = head + body + _mac(await self._secret(), scope, head + body)
        token = urlsafe_b64encode(signed).decode().rstrip("=")
        return token, datetime.fromtimestamp(expires_at, self._clock.now().tzinfo)

    async def read(self, scope: Scope, token: str) -> TurnOperation:
        """Return the turn that a token was issued for.

        INVALID_ARGUMENT for a malformed, truncated or expired token; PERMISSION_DENIED for one that
        was not issued in this form to this tenant in this project, whatever the reason."""
        signed = _decoded(token, self._options.operation_token_bytes_max)
        content, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, _mac(await self._secret(), scope, content)):
            raise MemsvcError(
                Code.PERMISSION_DENIED,
                "this operation token was not issued for this key and project",
                recovery="send it as it was issued, with the same key and project",
            )
        session, turn, user, _, expires_at, current = orjson.loads(
            zlib.decompress(content[_HEAD_BYTES:])
        )
        if self._clock.now().timestamp() >= expires_at:
            raise invalid("this operation token has expired", recovery=_START_OVER)
        return TurnOperation(session, turn, user, current)

    async def _secret(self) -> bytes:
        if self._options.operation_token_secret:
            return self._options.operation_token_secret.encode()
        if self._shared_secret is None:
            self._shared_secret = await server_secrets.get_or_create(
                self._database, SIGNED_AS, self._clock.now()
            )
        return self._shared_secret


def _mac(secret: bytes, scope: Scope, content: bytes) -> bytes:
    words = (_TOKEN_KIND, scope.tenant, scope.project.encode(), content)
    whole = b"".join(len(word).to_bytes(4, "big") + word for word in words)
    return hmac.digest(secret, whole, "sha256")


def _decoded(token: str, body_bytes_max: int) -> bytes:
    """Return the bytes of a token, whose length must match its header."""
    bytes_max = _HEAD_BYTES + body_bytes_max + _MAC_BYTES
    if len(token) <= bytes_max * 4 // 3 + 3:
        try:
            signed = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except (binascii.Error, UnicodeEncodeError):
            signed = b""
        size = int.from_bytes(signed[len(_VERSION) : _HEAD_BYTES], "big")
        if signed.startswith(_VERSION) and len(signed) == _HEAD_BYTES + size + _MAC_BYTES:
            return signed
    raise invalid(
        "operation_token is not a whole operation token",
        recovery="send it as memory_run_turn returned it",
    )
