"""A turn in two calls for stateless clients: run_turn issues a token, commit_turn takes it."""

from dataclasses import KW_ONLY, fields
from datetime import datetime
from typing import Annotated

from pydantic import Field

from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.styles.turns.input_parsing import conversation_of, new_turn_id, output_items_of
from memsvc.styles.turns.operations import TurnOperation, TurnTokens
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem
from memsvc.styles.turns.turn_models import (
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    Items,
    turn_tool,
)
from memsvc.styles.turns.turn_tools import TurnTools
from memsvc.styles.turns.turns import TurnMemory


@result
class RunTurnResult(BeforeTurnResult):
    _: KW_ONLY
    operation_token: Annotated[
        str, "give it to memory_commit_turn with the model's answer; holds the input"
    ]
    expires_at: Annotated[datetime, "until when the token is taken"]


class OperationTools:
    """The tools run_turn and commit_turn."""

    def __init__(
        self,
        turns: TurnTools,
        memory: TurnMemory,
        operations: TurnTokens,
        clock: Clock,
        options: TurnOptions,
    ) -> None:
        self._turns = turns
        self._memory = memory
        self._operations = operations
        self._clock = clock
        self._options = options

    @turn_tool(
        "memory_run_turn",
        title="Begin a turn",
        needs=Permission.READ,
        counter="mcp_memory_before_turn_total",
    )
    async def run_turn(self, scope: Scope, args: BeforeTurnArguments) -> RunTurnResult:
        """Begin a turn as memory_before_turn does, for simple clients.

        Ask the model with the input_items that it returns, then give the operation_token and the
        answer to memory_commit_turn. Writes no memory."""
        turn = args.turn_id or new_turn_id(self._clock.now())
        current = [item.item for item in conversation_of(args, self._options).current]
        operation = TurnOperation(args.session_id, turn, args.user_id, current)
        token, expires_at = await self._operations.issue(scope, operation)
        prepared = await self._turns.before_turn(scope, args.model_copy(update={"turn_id": turn}))
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
            str, "the token of memory_run_turn, which knows session, turn, user and input"
        ],
        output_items: Annotated[Items, Field(default_factory=list), "what the model answered"],
    ) -> AfterTurnResult:
        """Store the turn that memory_run_turn began, as memory_after_turn would.

        Name the same project. Sent again with the same answer, it is stored once."""
        answer = output_items_of(output_items, self._options)
        operation = await self._operations.read(scope, operation_token)
        stored = await self._memory.after_turn(
            scope,
            session=operation.session,
            turn=operation.turn,
            user=operation.user,
            input_items=[TurnItem(item) for item in operation.current],
            exact=True,
            output_items=answer,
        )
        return AfterTurnResult(ok=True, **stored)
