"""A turn in two calls for stateless clients: run_turn issues a token, commit_turn takes it."""

from datetime import datetime

from pydantic import Field

from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Arguments, Tool
from memsvc.styles.turns.input_parsing import conversation_of, new_turn_id, output_items_of
from memsvc.styles.turns.operations import TurnOperation, TurnTokens
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem
from memsvc.styles.turns.turn_models import (
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    Items,
)
from memsvc.styles.turns.turn_tools import TurnTools
from memsvc.styles.turns.turns import TurnMemory


class RunTurnResult(BeforeTurnResult):
    operation_token: str = Field(
        description="give it to memory_commit_turn with the model's answer; holds the input"
    )
    expires_at: datetime = Field(description="until when the token is taken")


class CommitTurnArguments(Arguments):
    operation_token: str = Field(
        description="the token of memory_run_turn, which knows session, turn, user and input"
    )
    output_items: Items = Field(default_factory=list, description="what the model answered")


class OperationTools:
    """Functions of run_turn and commit_turn."""

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

    async def run_turn(self, scope: Scope, args: BeforeTurnArguments) -> RunTurnResult:
        turn = args.turn_id or new_turn_id(self._clock.now())
        current = [item.item for item in conversation_of(args, self._options).current]
        operation = TurnOperation(args.session_id, turn, args.user_id, current)
        token, expires_at = await self._operations.issue(scope, operation)
        prepared = await self._turns.before_turn(scope, args.model_copy(update={"turn_id": turn}))
        return RunTurnResult(**dict(prepared), operation_token=token, expires_at=expires_at)

    async def commit_turn(self, scope: Scope, args: CommitTurnArguments) -> AfterTurnResult:
        output_items = output_items_of(args.output_items, self._options)
        operation = await self._operations.read(scope, args.operation_token)
        stored = await self._memory.after_turn(
            scope,
            session=operation.session,
            turn=operation.turn,
            user=operation.user,
            input_items=[TurnItem(item) for item in operation.current],
            exact=True,
            output_items=output_items,
        )
        return AfterTurnResult(ok=True, **stored)


def operation_tools(functions: OperationTools) -> list[Tool]:
    """Return the tools of a turn in two calls."""
    return [
        Tool(
            name="memory_run_turn",
            title="Begin a turn",
            description=(
                "memory_before_turn for simple clients: takes and answers the same, and a token"
                " with it. Ask the model with input_items, then give the token and the answer to"
                " memory_commit_turn. Writes no memory."
            ),
            arguments=BeforeTurnArguments,
            result=RunTurnResult,
            run=functions.run_turn,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=frozenset({"project", "session_id", "turn_id", "user_id"}),
            counter="mcp_memory_before_turn_total",
        ),
        Tool(
            name="memory_commit_turn",
            title="Complete a turn",
            description=(
                "Store the turn that memory_run_turn began, as memory_after_turn would: give its"
                " operation_token, the same project and the model's answer. Sent again with the"
                " same answer, it is stored once."
            ),
            arguments=CommitTurnArguments,
            result=AfterTurnResult,
            run=functions.commit_turn,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=frozenset({"project"}),
            counter="mcp_memory_after_turn_total",
            duration_ms="mcp_memory_after_turn_duration_ms",
        ),
    ]
