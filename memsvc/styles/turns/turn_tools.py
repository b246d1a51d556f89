"""The tools around a turn: before and after, or one that signs a token and one that takes it."""

import binascii
import hashlib
import hmac
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import KW_ONLY, fields
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from pydantic import Field

from memsvc.core.background import others_first
from memsvc.core.errors import invalid, payload_too_large, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.items import (
    Item,
    is_empty_message,
    normalize_item,
    unread_fields,
    user_message,
)
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.core.timestamp import parse_timestamp
from memsvc.core.tool_methods import result
from memsvc.store import server_secrets
from memsvc.store.database import Database
from memsvc.styles.turns.history import Conversation, split_conversation
from memsvc.styles.turns.inspection import RecallTraces
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem
from memsvc.styles.turns.turn_models import (
    AfterTurnArguments,
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    Items,
    turn_tool,
)
from memsvc.styles.turns.turns import RecallOptions, TurnMemory

NO_TURN_ID_NOTE = (
    "no turn_id was given, so one was generated: repeating this call would store the turn a"
    " second time"
)
STORED_NOTE: Final = "both the host's hook and the model sent this turn; it is stored once"
NAMED_MAX: Final = 5
"""Fields that a note names."""

SIGNED_AS: Final = "turns.operations"
_VERSION: Final = b"\x01"
_TOKEN_KIND: Final = b"memsvc operation token"
_SIZE_BYTES: Final = 4
_HEAD_BYTES: Final = len(_VERSION) + _SIZE_BYTES
_MAC_BYTES: Final = hashlib.sha256().digest_size
_START_OVER: Final = (
    "call memory_run_turn again with the same turn_id, and commit with the new token"
)


def items_of(values: Sequence[Any], name: str, options: TurnOptions) -> list[TurnItem]:
    """Return the normalised items of the argument `name`.

    INVALID_ARGUMENT names the first invalid item, PAYLOAD_TOO_LARGE the first that no file could
    hold."""
    if len(values) > options.items_max:
        raise invalid(f"{name} is limited to {options.items_max} items, not {len(values)}")
    items = [
        TurnItem(normalize_item(item, f"{name}[{index}]")) for index, item in enumerate(values)
    ]
    bytes_max = options.item_bytes_max
    for index, item in enumerate(items):
        if (size_bytes := len(item.content)) > bytes_max:
            raise payload_too_large(
                f"{name}[{index}] has {size_bytes} bytes; the limit is {bytes_max}",
            )
    return items


def output_items_of(values: Sequence[Any], options: TurnOptions) -> list[TurnItem]:
    """Return the model's output items, as `items_of`.

    INVALID_ARGUMENT for a message without content."""
    items = items_of(values, "output_items", options)
    for index, item in enumerate(items):
        if is_empty_message(item.item):
            raise invalid(f"output_items[{index}].content is required")
    return items


def conversation_of(args: BeforeTurnArguments, options: TurnOptions) -> Conversation:
    """Return the current input and what comes before it, in whichever form they were given."""
    items = items_of(args.conversation_items, "conversation_items", options)
    if items:
        conversation = split_conversation(items, args.current_input_start, args.current_input_count)
        if not conversation.current:
            raise invalid("current_input_start leaves no current input in conversation_items")
        return conversation
    values = args.current_input
    if isinstance(values, str):
        values = [user_message(values)] if values.strip() else []
    elif isinstance(values, dict):
        values = [values]
    elif not isinstance(values, list):
        raise invalid("current_input must be an array of response items or a string")
    if not values and args.current_input_text.strip():
        values = [user_message(args.current_input_text)]
    if not values:
        raise invalid("current_input is required when conversation_items is empty")
    return Conversation([], items_of(values, "current_input", options))


def unread_note(**items_by_name: Sequence[TurnItem]) -> list[str]:
    """Return a note that names items with text in a place that memory does not read, if any."""
    unread = [
        f"{name}[{index}].{field}"
        for name, items in items_by_name.items()
        for index, item in enumerate(items)
        for field in unread_fields(item.item)
    ]
    if not unread:
        return []
    named = ", ".join(unread[:NAMED_MAX])
    more = f" and {len(unread) - NAMED_MAX} more" if len(unread) > NAMED_MAX else ""
    advice = "send text as content, with the role user or assistant"
    return [f"memory cannot read {named}{more}: {advice}"]


def new_turn_id(now: datetime) -> str:
    """Return an id for a turn whose caller gave none."""
    return f"turn-{int(now.timestamp() * 1000)}-{secrets.token_hex(3)}"


@frozen
class TurnTools:
    """The tools around a turn."""

    memory: TurnMemory
    traces: RecallTraces
    clock: Clock
    options: TurnOptions

    @turn_tool(
        "memory_before_turn",
        title="Recall before a turn",
        for_agents=True,
        needs=Permission.READ,
        counter="mcp_memory_before_turn_total",
    )
    async def before_turn(self, scope: Scope, args: BeforeTurnArguments) -> BeforeTurnResult:
        """Call before you answer, with the user's new input.

        Send the model the returned input_items: recalled memory, recent context and the input. If
        it fails, continue without memory."""
        conversation = conversation_of(args, self.options)
        prepared = await self.memory.before_turn(
            scope,
            session=args.session_id,
            turn=args.turn_id,
            user=args.user_id,
            conversation=conversation,
            instructions=args.base_instructions,
            max_input_tok=args.max_input_tok
            if args.max_input_tok > 0
            else self.options.max_input_tok,
            recall_options=RecallOptions(
                parse_timestamp(args.as_of, "as_of"), frozenset(args.sources), args.explain
            ),
        )
        turn = args.turn_id or new_turn_id(self.clock.now())
        self.traces.note(
            scope, session=args.session_id, turn=turn, user=args.user_id, prepared=prepared
        )
        return BeforeTurnResult(
            turn,
            prepared.input_items,
            prepared.fact_ids,
            prepared.insight_ids,
            prepared.tokens,
            prepared.details if args.explain else None,
        )

    @turn_tool(
        "memory_after_turn",
        title="Store a turn",
        for_agents=True,
        needs=Permission.WRITE,
        idempotent=True,
        counter="mcp_memory_after_turn_total",
        duration_ms="mcp_memory_after_turn_duration_ms",
    )
    async def after_turn(
        self, scope: Scope, caller: Caller, args: AfterTurnArguments
    ) -> AfterTurnResult:
        """Call after you answered, with before_turn's turn_id.

        Stores the turn and its facts, once, however often you retry."""
        output_items = output_items_of(args.output_items, self.options)
        inputs = items_of(args.input_items, "input_items", self.options)
        conversation = items_of(args.conversation_items, "conversation_items", self.options)
        current = (
            split_conversation(
                conversation, args.current_input_start, args.current_input_count
            ).current
            if conversation
            else None
        )
        if not (inputs or output_items or current):
            raise invalid("a turn needs input_items, conversation_items or output_items")
        items = [*inputs, *output_items, *(current or ())]
        await others_first(sum(len(item.content) for item in items))
        if caller.connection.has_hooks and args.turn_id and args.user_id:
            session = await self.memory.session_of(scope, args.turn_id, args.user_id)
            if session not in (None, args.session_id):
                return AfterTurnResult(True, args.turn_id, 0, [], STORED_NOTE)
        stored = await self.memory.after_turn(
            scope,
            session=args.session_id,
            turn=args.turn_id or new_turn_id(self.clock.now()),
            user=args.user_id,
            input_items=inputs if current is None else current,
            exact=current is not None,
            output_items=output_items,
        )
        notes = [*(() if args.turn_id else (NO_TURN_ID_NOTE,)), *filter(None, [stored.get("note")])]
        notes += unread_note(
            input_items=inputs, conversation_items=conversation, output_items=output_items
        )
        return AfterTurnResult(**stored | {"ok": True, "note": "; ".join(notes) or None})


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
                f"the current input takes {len(body)} bytes of an operation token; the limit"
                f" is {bytes_max}",
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
                recovery="send it unchanged, with the key and project for which it was issued",
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
        "operation_token is not a complete operation token",
        recovery="send it as memory_run_turn returned it",
    )


@result
class RunTurnResult(BeforeTurnResult):
    _: KW_ONLY
    operation_token: Annotated[
        str, "pass it to memory_commit_turn with the model's answer; contains the input"
    ]
    expires_at: Annotated[datetime, "expiry of the token"]


@frozen
class OperationTools:
    """The tools run_turn and commit_turn."""

    turns: TurnTools
    memory: TurnMemory
    operations: TurnTokens
    clock: Clock
    options: TurnOptions

    @turn_tool(
        "memory_run_turn",
        title="Begin a turn",
        needs=Permission.READ,
        counter="mcp_memory_before_turn_total",
    )
    async def run_turn(self, scope: Scope, args: BeforeTurnArguments) -> RunTurnResult:
        """Begin a turn as memory_before_turn does, for simple clients.

        Send the model the returned input_items, then pass operation_token and the answer to
        memory_commit_turn. Stores nothing."""
        turn = args.turn_id or new_turn_id(self.clock.now())
        current = [item.item for item in conversation_of(args, self.options).current]
        operation = TurnOperation(args.session_id, turn, args.user_id, current)
        token, expires_at = await self.operations.issue(scope, operation)
        prepared = await self.turns.before_turn(scope, args.model_copy(update={"turn_id": turn}))
        return RunTurnResult(
            *(getattr(prepared, field.name) for field in fields(prepared)),
            operation_token=token,
            expires_at=expires_at,
        )

    @turn_tool(
        "memory_commit_turn",
        title="Complete a turn",
        needs=Permission.WRITE,
        idempotent=True,
        counter="mcp_memory_after_turn_total",
        duration_ms="mcp_memory_after_turn_duration_ms",
    )
    async def commit_turn(
        self,
        scope: Scope,
        operation_token: Annotated[
            str, "token of memory_run_turn; contains session, turn, user and input"
        ],
        output_items: Annotated[Items, Field(default_factory=list), "the model's answer"],
    ) -> AfterTurnResult:
        """Store the turn that memory_run_turn began, as memory_after_turn would.

        Pass the same project. Repeated with the same answer, it is stored once."""
        answer = output_items_of(output_items, self.options)
        operation = await self.operations.read(scope, operation_token)
        stored = await self.memory.after_turn(
            scope,
            session=operation.session,
            turn=operation.turn,
            user=operation.user,
            input_items=[TurnItem(item) for item in operation.current],
            exact=True,
            output_items=answer,
        )
        notes = unread_note(output_items=answer)
        return AfterTurnResult(ok=True, note=notes[0] if notes else None, **stored)
