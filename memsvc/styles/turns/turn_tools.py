"""The turn memory tools."""

from memsvc.core.errors import invalid
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.timestamp import parse_timestamp
from memsvc.styles.turns.history import split_conversation
from memsvc.styles.turns.input_parsing import (
    conversation_of,
    items_of,
    new_turn_id,
    output_items_of,
)
from memsvc.styles.turns.inspection.recall_traces import RecallTraces
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_models import (
    AfterTurnArguments,
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    turn_tool,
)
from memsvc.styles.turns.turns import RecallOptions, TurnMemory

NO_TURN_ID_NOTE = (
    "no turn_id was given, so one was made: sending this call again would store the"
    " turn a second time"
)


class TurnTools:
    """The tools around a turn."""

    def __init__(
        self,
        memory: TurnMemory,
        traces: RecallTraces,
        clock: Clock,
        options: TurnOptions,
    ) -> None:
        self._memory = memory
        self._traces = traces
        self._clock = clock
        self._options = options

    @turn_tool(
        "memory_before_turn",
        title="Recall before a turn",
        for_agents=True,
        needs=Permission.READ,
        counter="mcp_memory_before_turn_total",
    )
    async def before_turn(self, scope: Scope, args: BeforeTurnArguments) -> BeforeTurnResult:
        """Call before you answer, with the user's new input.

        Send the model the input_items that it returns: what memory recalls, recent context and the
        input. If it fails, go on without memory."""
        conversation = conversation_of(args, self._options)
        prepared = await self._memory.before_turn(
            scope,
            session=args.session_id,
            turn=args.turn_id,
            user=args.user_id,
            conversation=conversation,
            instructions=args.base_instructions,
            max_input_tok=args.max_input_tok
            if args.max_input_tok > 0
            else self._options.max_input_tok,
            recall_options=RecallOptions(
                parse_timestamp(args.as_of, "as_of"), frozenset(args.sources), args.explain
            ),
        )
        turn = args.turn_id or new_turn_id(self._clock.now())
        self._traces.note(
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
    async def after_turn(self, scope: Scope, args: AfterTurnArguments) -> AfterTurnResult:
        """Call after you answered, with before_turn's turn_id.

        Stores what was said and the facts in it, once, however often you retry."""
        output_items = output_items_of(args.output_items, self._options)
        inputs = items_of(args.input_items, "input_items", self._options)
        conversation = items_of(args.conversation_items, "conversation_items", self._options)
        current = (
            split_conversation(
                conversation, args.current_input_start, args.current_input_count
            ).current
            if conversation
            else None
        )
        if not (inputs or output_items or current):
            raise invalid("a turn needs input_items, conversation_items or output_items")
        stored = await self._memory.after_turn(
            scope,
            session=args.session_id,
            turn=args.turn_id or new_turn_id(self._clock.now()),
            user=args.user_id,
            input_items=inputs if current is None else current,
            exact=current is not None,
            output_items=output_items,
        )
        return AfterTurnResult(ok=True, note=None if args.turn_id else NO_TURN_ID_NOTE, **stored)
