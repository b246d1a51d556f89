"""The turn memory tools."""

from dataclasses import asdict
from typing import Final

from memsvc.core.errors import invalid
from memsvc.core.ports import Clock
from memsvc.core.progress import ProgressCallback
from memsvc.core.resources import Resource
from memsvc.core.scope import Permission, Scope
from memsvc.core.timestamp import parse_timestamp
from memsvc.core.tools import ProgressFunction, Tool
from memsvc.styles.turns.history import split_conversation
from memsvc.styles.turns.input_parsing import (
    conversation_of,
    items_of,
    new_turn_id,
    output_items_of,
)
from memsvc.styles.turns.inspection.recall_traces import RecallTraces
from memsvc.styles.turns.maintenance.directory_list import DirectoryList
from memsvc.styles.turns.maintenance.session_maintenance import SessionMaintenance
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_models import (
    AfterTurnArguments,
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    DirectorySummary,
    ListDirArguments,
    ListDirResult,
    MaintenanceResult,
    SessionArguments,
)
from memsvc.styles.turns.turns import RecallOptions, TurnMemory

NO_TURN_ID_NOTE = (
    "no turn_id was given, so one was made: sending this call again would store the"
    " turn a second time"
)


class TurnTools:
    """Functions of the turn memory tools."""

    def __init__(
        self,
        memory: TurnMemory,
        maintenance: SessionMaintenance,
        listing: DirectoryList,
        traces: RecallTraces,
        clock: Clock,
        options: TurnOptions,
    ) -> None:
        self._memory = memory
        self._maintenance = maintenance
        self._listing = listing
        self._traces = traces
        self._clock = clock
        self._options = options

    async def before_turn(self, scope: Scope, args: BeforeTurnArguments) -> BeforeTurnResult:
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
            turn_id=turn,
            input_items=prepared.input_items,
            recall_fact_ids=prepared.fact_ids,
            recall_insight_ids=prepared.insight_ids,
            context_token_count=prepared.tokens,
            explanation=prepared.details if args.explain else None,
        )

    async def after_turn(self, scope: Scope, args: AfterTurnArguments) -> AfterTurnResult:
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

    async def run_maintenance(
        self, scope: Scope, args: SessionArguments, progress: ProgressCallback
    ) -> MaintenanceResult:
        done = await self._maintenance.run(scope, args.session_id, progress)
        return MaintenanceResult(ok=True, **asdict(done))

    async def list_dir(self, scope: Scope, args: ListDirArguments) -> ListDirResult:
        found = await self._listing.directories(
            scope,
            args.session_id,
            args.path,
            depth=args.depth if args.depth > 0 else 8,
            limit=args.limit if args.limit > 0 else 200,
        )
        return ListDirResult(
            summaries=[
                DirectorySummary(
                    path=directory.path,
                    abstract=directory.abstract,
                    updated_at=directory.updated_at,
                    has_overview=directory.has_overview,
                )
                for directory in found
            ]
        )


BEFORE_TURN: Final = (
    "Call before asking the model. Give the user's new input; get back input_items to send to the"
    " model: what memory recalls, recent context and the input itself, within max_input_tok."
    " Writes no memory. If it fails, go on without memory."
)
LOGGED: Final = frozenset({"project", "session_id", "turn_id", "user_id", "path"})


def turn_tools(functions: TurnTools, resource: Resource) -> list[Tool]:
    """Return the tools of a turn and a session, which `resource` serves under a URI."""
    return [
        Tool(
            name="memory_before_turn",
            title="Recall before a turn",
            description=BEFORE_TURN,
            arguments=BeforeTurnArguments,
            result=BeforeTurnResult,
            run=functions.before_turn,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
            counter="mcp_memory_before_turn_total",
        ),
        Tool(
            name="memory_after_turn",
            title="Store a turn",
            description=(
                "Call after the model has answered, with the same turn_id as before_turn. Stores"
                " what was said and the facts in it, once, however often it is retried. Retry"
                " with the same turn_id when retryable."
            ),
            arguments=AfterTurnArguments,
            result=AfterTurnResult,
            run=functions.after_turn,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=LOGGED,
            counter="mcp_memory_after_turn_total",
            duration_ms="mcp_memory_after_turn_duration_ms",
        ),
        Tool(
            name="memory_run_maintenance",
            title="Maintain a session",
            description=(
                "Summarise older context, pack events of days gone by, remove facts that are past"
                " their day, work out insights, and refresh the summaries of a session's"
                " directories. Call it about daily, or when the agent is idle. Safe to repeat."
            ),
            arguments=SessionArguments,
            result=MaintenanceResult,
            run=ProgressFunction(functions.run_maintenance),
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            logged=LOGGED,
            counter="mcp_memory_maintenance_total",
        ),
        Tool(
            name="memory_list_dir_with_abstract",
            title="Look into memory",
            description="List the directories of a session's memory with an abstract of what each"
            " holds.",
            arguments=ListDirArguments,
            result=ListDirResult,
            resource=resource,
            run=functions.list_dir,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
    ]
