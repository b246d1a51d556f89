"""The tools that begin a turn with a signed token, and complete it with that token."""

import binascii
import hashlib
import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import KW_ONLY, fields
from datetime import datetime
from typing import Annotated, Final

import orjson
from pydantic import Field

from memsvc.core.errors import invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.items import Item
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.store import server_secrets
from memsvc.store.database import Database
from memsvc.styles.turns.history import conversation_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem, items_of, unread_note
from memsvc.styles.turns.turn_models import (
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    Items,
    search_tools,
    turn_tool,
)
from memsvc.styles.turns.turns import TurnMemory, new_turn_id, with_notes

SIGNED_AS: Final = "turns.operations"
_VERSION: Final = b"\x01"
_TOKEN_KIND: Final = b"memsvc operation token"
_SIZE_BYTES: Final = 4
_HEAD_BYTES: Final = len(_VERSION) + _SIZE_BYTES
_MAC_BYTES: Final = hashlib.sha256().digest_size
_START_OVER: Final = (
    "call memory_run_turn again with the same turn_id, and commit with the new token"
)


@frozen
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
                f"the current input is too long: it takes {len(body)} bytes in the operation token,"
                f" and the limit is {bytes_max} bytes",
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
            raise permission_denied(
                "this operation token was not issued for this key and project",
                recovery="send the token unchanged, with the key and project for which it was"
                " issued",
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
        "operation_token is not valid or not complete",
        recovery="send the token as memory_run_turn returned it",
    )


@result
class RunTurnResult(BeforeTurnResult):
    _: KW_ONLY
    operation_token: Annotated[
        str, "token to pass to memory_commit_turn with the model's answer; it contains the input"
    ]
    expires_at: Annotated[datetime, "time when the token expires"]


@frozen
class OperationTools:
    """The tools run_turn and commit_turn."""

    memory: TurnMemory
    operations: TurnTokens
    clock: Clock
    options: TurnOptions

    @turn_tool(
        "memory_run_turn",
        "Begin a turn",
        Permission.READ,
        wraps="memory_before_turn",
        parts=search_tools,
        counter="mcp_memory_before_turn_total",
    )
    async def run_turn(self, scope: Scope, args: BeforeTurnArguments) -> RunTurnResult:
        """Begin a turn as memory_before_turn does, for simple clients.

        Send the returned input_items to the model, then pass operation_token and the answer to
        memory_commit_turn. Stores nothing."""
        turn = args.turn_id or new_turn_id(self.clock.now())
        conversation = await conversation_of(args, self.options, self.clock.now())
        current = [item.item for item in conversation.current]
        operation = TurnOperation(args.session_id, turn, args.user_id, current)
        token, expires_at = await self.operations.issue(scope, operation)
        prepared = await self.memory.before_turn(scope, args.model_copy(update={"turn_id": turn}))
        return RunTurnResult(
            *(getattr(prepared, field.name) for field in fields(prepared)),
            operation_token=token,
            expires_at=expires_at,
        )

    @turn_tool(
        "memory_commit_turn",
        "Complete a turn",
        Permission.WRITE,
        wraps="memory_after_turn",
        idempotent=True,
        counter="mcp_memory_after_turn_total",
        duration_ms="mcp_memory_after_turn_duration_ms",
    )
    async def commit_turn(
        self,
        scope: Scope,
        operation_token: Annotated[str, "operation_token from memory_run_turn"],
        output_items: Annotated[Items, Field(default_factory=list), "the model's answer"],
    ) -> AfterTurnResult:
        """Store the turn that memory_run_turn began, as memory_after_turn would.

        Pass the same project. A turn that is sent again with the same answer is stored once."""
        answer = await items_of(output_items, "output_items", self.options, self.clock.now())
        operation = await self.operations.read(scope, operation_token)
        stored = await self.memory.store(
            scope,
            session=operation.session,
            turn=operation.turn,
            user=operation.user,
            inputs=[TurnItem.of(item) for item in operation.current],
            exact=True,
            output_items=answer,
        )
        return with_notes(stored, "", unread_note(output_items=answer))
