"""The tools of shadow mode, in which a client compares its own memory with this one."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memsvc.core.errors import invalid
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.store import fact_history
from memsvc.store.database import Database
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.input_parsing import items_of
from memsvc.styles.turns.migration import shadow
from memsvc.styles.turns.migration.shadow import (
    ClientFile,
    Comparison,
    FactComparison,
    FileComparison,
)
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from memsvc.styles.turns.turn_models import BeforeTurnArguments, Items, turn_tool
from memsvc.styles.turns.turn_tools import TurnTools

CLIENT_ITEMS_MAX = 2000


class ClientFact(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    id: str = Field(max_length=256, description="its fact_id")
    value: str | None = Field(
        None, max_length=4096, description="its value; compared by its words, never kept"
    )


class ListedClientFile(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    path: str = Field(max_length=1024, description="its path, from the session on or from the root")
    size: int | None = Field(None, ge=0, description="its bytes")
    lines: int | None = Field(None, ge=0, description="its lines")


class ShadowArguments(BeforeTurnArguments):
    own_input_items: Items = Field(
        default_factory=list, description="what your own memory prepared for the model"
    )
    own_facts: list[ClientFact] = Field(
        default_factory=list, description="the facts that your own memory recalled"
    )
    own_fact_ids: list[str] = Field(
        default_factory=list, description="the same by id alone, without values"
    )
    own_token_count: int | None = Field(None, ge=0, description="tokens as your side counted them")
    own_files: list[ListedClientFile] | None = Field(
        None, description="the files of the session on your side"
    )

    @field_validator("own_facts", "own_fact_ids", "own_files")
    @classmethod
    def _check_length(cls, value: list[object] | None) -> list[object] | None:
        if value is not None and len(value) > CLIENT_ITEMS_MAX:
            raise invalid(f"own_facts, own_fact_ids and own_files may hold {CLIENT_ITEMS_MAX} each")
        return value


@result
class ShadowResult:
    agrees: Annotated[bool, "true: nothing differs"]
    facts: Annotated[FactComparison, "recalled facts, by id"]
    tokens_there: Annotated[int | None, "tokens of your input: own_token_count, else counted here"]
    tokens_here: Annotated[int, "tokens of the input that this side would prepare"]
    tokens_agree: Annotated[
        bool | None, "whether they differ by 5 % at the most; null if not compared"
    ]
    files: Annotated[FileComparison | None, "events, facts and insights as files; null if not told"]


@result
class ShadowReport:
    sessions: Annotated[int, "sessions with comparisons"]
    turns: Annotated[int, "turns that were compared; of each the last comparison counts"]
    agreement: Annotated[float | None, "share of turns in which nothing differs"]
    facts_agreement: Annotated[
        float | None, "share of facts that both sides recalled with one value"
    ]
    tokens_agreement: Annotated[
        float | None, "share of turns whose tokens agree, where they were told"
    ]
    files_agreement: Annotated[float | None, "share of files that are alike, where they were told"]
    counts: Annotated[dict[str, int], "what these shares are made of"]


class ShadowTools:
    """The tools of shadow mode."""

    def __init__(
        self,
        database: Database,
        functions: TurnTools,
        rebuilding: TurnRebuild,
        clock: Clock,
        meter: Meter,
        options: TurnOptions,
        *,
        costs: Costs,
    ) -> None:
        self._database = database
        self._functions = functions
        self._rebuilding = rebuilding
        self._clock = clock
        self._meter = meter
        self._options = options
        self._costs = costs

    @turn_tool(
        "memory_shadow_compare", title="Compare with your own memory", needs=Permission.WRITE
    )
    async def compare(self, scope: Scope, args: ShadowArguments) -> ShadowResult:
        """Compare, in shadow mode, what a client's own memory came to with memory_before_turn.

        Takes its arguments too and returns what differs. The comparison is kept without values."""
        client_items = items_of(args.own_input_items, "own_input_items", self._options)
        prepared = await self._functions.before_turn(scope, args)
        client_facts: dict[str, str | None] = dict.fromkeys(args.own_fact_ids)
        client_facts |= {
            client_fact.id: None
            if client_fact.value is None
            else shadow.value_hash(client_fact.value)
            for client_fact in args.own_facts
        }
        client_tokens = args.own_token_count
        if client_tokens is None and client_items:
            client_tokens = sum(self._costs.item(item.item) for item in client_items)
        server_tokens = prepared.context_token_count
        listed = [
            ClientFile(client_fact.path, client_fact.size, client_fact.lines)
            for client_fact in args.own_files or []
        ]
        now = self._clock.now()
        index_ids = [index.number for index in turn_index.facts(args.session_id, args.user_id)]
        async with self._database.begin(scope) as tx:
            server_facts = await fact_history.find_by_names(
                tx, index_ids, names=prepared.recall_fact_ids, session=args.session_id, turns=()
            )
            kept = (
                None
                if args.own_files is None
                else await shadow.compare_files(tx, args.session_id, listed)
            )
            found = Comparison(
                shadow.compare_facts(
                    client_facts,
                    {
                        fact.statement.fact_id: shadow.value_hash(fact.statement.value)
                        for fact in server_facts
                    },
                ),
                client_tokens,
                server_tokens,
                shadow.tokens_match(client_tokens, server_tokens),
                kept,
            )
            await shadow.keep(tx, args.session_id, prepared.turn_id, found, now)
        self._meter.add("mcp_memory_shadow_total", result="agree" if found.agrees else "differ")
        return ShadowResult(
            found.agrees,
            found.facts,
            found.tokens_there,
            found.tokens_here,
            found.tokens_agree,
            found.files,
        )

    @turn_tool("memory_shadow_report", title="Sum up comparisons", needs=Permission.READ)
    async def report(self, scope: Scope) -> ShadowReport:
        """Say how far, in shadow mode, your own memory and this one agreed over all sessions."""
        return await report(self._database, scope, await self._rebuilding.sessions(scope))


async def report(database: Database, scope: Scope, sessions: list[str]) -> ShadowReport:
    """Return figures over the comparisons of these sessions."""
    counts: dict[str, int] = {}
    compared = 0
    for session in sessions:
        async with database.begin(scope, read_only=True) as tx:
            found = await shadow.count_comparisons(tx, session)
        compared += bool(found["turns"])
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count
    facts = sum(
        counts.get(f"facts_{name}", 0) for name in ("only_there", "only_here", "same", "different")
    )
    files = sum(
        counts.get(f"files_{name}", 0)
        for name in ("missing_here", "missing_there", "same", "different")
    )
    return ShadowReport(
        compared,
        counts.get("turns", 0),
        _share(counts.get("turns_agreeing", 0), counts.get("turns", 0)),
        _share(counts.get("facts_same", 0), facts),
        _share(counts.get("turns_with_tokens_agreeing", 0), counts.get("turns_with_tokens", 0)),
        _share(counts.get("files_same", 0), files),
        counts,
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
