"""Comparison of a client's own memory with this one: facts, tokens and files of a turn.

Only ids, paths and counts are stored: values are compared by their hashes, and neither is
stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memsvc.core.errors import invalid
from memsvc.core.facts import normalized_value
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.store import fact_history, files, tree
from memsvc.store.database import Database, Tx
from memsvc.store.style_files import append
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.file_layout import OWNER, exact_timestamp, json_line, session_root
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilt_facts import records
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from memsvc.styles.turns.turn_items import items_of
from memsvc.styles.turns.turn_models import BeforeTurnArguments, Items, turn_tool
from memsvc.styles.turns.turns import TurnMemory

TOKEN_DIFFERENCE_MAX: Final = 0.05
"""Token counts are equal when they differ by at most this share of the larger one."""
LINES_BYTES_MAX: Final = 8 * 1024 * 1024
_COMPARED_PATHS: Final = ("events/raw/", "memory_tiers/", "insights/")
"""Folders that both sides write alike; the rest of a session is not compared."""

CLIENT_ITEMS_MAX = 2000
_FACT_COUNTS: Final = ("only_there", "only_here", "same", "different")
_FILE_DIFFERENCES: Final = ("missing_here", "missing_there", "different")


class ClientFile(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    path: str = Field(max_length=1024, description="path of the file")
    size: int | None = Field(None, ge=0, description="size of the file in bytes")
    lines: int | None = Field(None, ge=0, description="number of lines in the file")


@result
class FactComparison:
    only_there: Annotated[list[str], "facts that only your own memory recalled"]
    only_here: Annotated[list[str], "facts that only memsvc recalled"]
    same: Annotated[list[str], "facts that both memories recalled"]
    different: Annotated[list[str], "facts that both memories recalled with different values"]


@result
class FileComparison:
    missing_here: Annotated[list[str], "files that only your own memory has"]
    missing_there: Annotated[list[str], "files that only memsvc has"]
    different: Annotated[list[str], "files with different numbers of lines in the two memories"]
    same: Annotated[int, "number of files that are in both memories and do not differ"]


@result
class ShadowResult:
    agrees: Annotated[bool, "true if the two memories do not differ"]
    facts: Annotated[FactComparison, "comparison of the recalled facts, by fact_id"]
    tokens_there: Annotated[
        int | None,
        "number of tokens in own_input_items: own_token_count if given, otherwise counted by"
        " memsvc",
    ]
    tokens_here: Annotated[int, "number of tokens in the input that memsvc would prepare"]
    tokens_agree: Annotated[
        bool | None,
        "whether the two token counts differ by at most 5 %; null if they were not compared",
    ]
    files: Annotated[
        FileComparison | None,
        "how your files of events, facts and insights differ from memsvc's; null if you sent none",
    ]


def value_hash(value: str) -> str:
    """Return a hash of a value that ignores case and white space."""
    return blake2b(normalized_value(value).encode(), digest_size=8).hexdigest()


def compare_facts(client: Mapping[str, str | None], server: Mapping[str, str]) -> FactComparison:
    """Compare facts by id and hash of their value.

    None is an unknown value and counts as the same."""
    both = sorted(client.keys() & server.keys())
    return FactComparison(
        only_there=sorted(client.keys() - server.keys()),
        only_here=sorted(server.keys() - client.keys()),
        same=[name for name in both if client[name] in (None, server[name])],
        different=[name for name in both if client[name] not in (None, server[name])],
    )


def comparison(
    facts: FactComparison,
    tokens_there: int | None,
    tokens_here: int,
    kept: FileComparison | None,
) -> ShadowResult:
    """Return whether both sides agree, where tokens may be TOKEN_DIFFERENCE_MAX apart.

    Tokens are as each side counts them; None is unknown. Without a list of files none differ."""
    tokens_agree = None
    if tokens_there is not None:
        difference = abs(tokens_there - tokens_here)
        tokens_agree = difference <= TOKEN_DIFFERENCE_MAX * max(tokens_there, tokens_here)
    different = (
        facts.only_there
        or facts.only_here
        or facts.different
        or tokens_agree is False
        or (kept is not None and (kept.missing_here or kept.missing_there or kept.different))
    )
    return ShadowResult(not different, facts, tokens_there, tokens_here, tokens_agree, kept)


async def compare_files(tx: Tx, session: str, client_files: Sequence[ClientFile]) -> FileComparison:
    """Compare the client's files with ours, in the folders that both sides write alike.

    Lines of events and facts are only counted, as their members differ."""
    root = session_root(session)
    client = {
        name: file
        for file in client_files
        if (name := file.path.removeprefix(root + "/")).startswith(_COMPARED_PATHS)
    }
    server = {
        name: path
        async for path in tree.all_files_at(tx, root)
        if (name := path.removeprefix(root + "/")).startswith(_COMPARED_PATHS)
        and not path.endswith((".abstract", ".overview"))
    }
    different = []
    both = sorted(client.keys() & server.keys())
    for name in both:
        file = await files.find(tx, server[name])
        lines = client[name].lines
        if file is not None and lines is not None and file.size_bytes <= LINES_BYTES_MAX:
            content = await files.read(tx, file)
            if content.count(b"\n") != lines:
                different.append(name)
    return FileComparison(
        missing_here=sorted(client.keys() - server.keys()),
        missing_there=sorted(server.keys() - client.keys()),
        different=different,
        same=len(both) - len(different),
    )


async def keep(tx: Tx, session: str, turn: str, found: ShadowResult, now: datetime) -> None:
    """Append a comparison to the session's reports of the day."""
    record = {
        "ts": exact_timestamp(now),
        "type": "shadow_comparison",
        "turn_id": turn,
    } | asdict(found)
    path = f"{session_root(session)}/shadow/{now:%Y/%m/%d}/report-{now:%Y%m%d}.jsonl"
    await append(tx, {path: json_line(record)}, owner=OWNER, now=now)


async def count_comparisons(tx: Tx, session: str) -> Counter[str]:
    """Return counts over the comparisons of a session, of each turn the last one."""
    latest: dict[str, dict[str, Any]] = {}
    async for record in records(tx, f"{session_root(session)}/shadow"):
        latest[record["turn_id"]] = record
    found: Counter[str] = Counter()
    for record in latest.values():
        facts, kept = record["facts"], record["files"] or {}
        found["turns"] += 1
        found["turns_agreeing"] += record["agrees"]
        found["turns_with_tokens"] += record["tokens_agree"] is not None
        found["turns_with_tokens_agreeing"] += bool(record["tokens_agree"])
        for name in _FACT_COUNTS:
            found[f"facts_{name}"] += len(facts[name])
        for name in _FILE_DIFFERENCES:
            found[f"files_{name}"] += len(kept.get(name, ()))
        found["files_same"] += kept.get("same", 0)
    return found


class ClientFact(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    id: str = Field(max_length=256, description="fact_id of the fact")
    value: str | None = Field(
        None, max_length=4096, description="value of the fact, which is compared but not stored"
    )


class ShadowArguments(BeforeTurnArguments):
    own_input_items: Items = Field(
        default_factory=list, description="input items that your own memory prepared"
    )
    own_facts: list[ClientFact] = Field(
        default_factory=list, description="facts that your own memory recalled"
    )
    own_fact_ids: list[str] = Field(
        default_factory=list,
        description="ids in memsvc of the facts that your own memory recalled; an alternative to"
        " own_facts",
    )
    own_token_count: int | None = Field(
        None, ge=0, description="number of tokens in own_input_items, as counted by you"
    )
    own_files: list[ClientFile] | None = Field(
        None, description="files of the session, as stored by your own memory"
    )

    @field_validator("own_facts", "own_fact_ids", "own_files")
    @classmethod
    def _check_length(cls, value: list[object] | None) -> list[object] | None:
        if value is not None and len(value) > CLIENT_ITEMS_MAX:
            raise invalid(
                f"own_facts, own_fact_ids and own_files are limited to {CLIENT_ITEMS_MAX}"
                " entries each"
            )
        return value


@result
class ShadowReport:
    sessions: Annotated[int, "number of sessions in which memories were compared"]
    turns: Annotated[int, "number of compared turns; only the last comparison of a turn counts"]
    agreement: Annotated[float | None, "share of compared turns for which both memories agreed"]
    facts_agreement: Annotated[
        float | None, "share of facts that both memories recalled with the same value"
    ]
    tokens_agreement: Annotated[
        float | None, "among turns with both token counts, the share whose counts agree"
    ]
    files_agreement: Annotated[
        float | None, "share of the compared files that are equal in both memories"
    ]
    counts: Annotated[dict[str, int], "counts from which the shares are computed"]


@frozen
class ShadowTools:
    """The tools of shadow mode."""

    database: Database
    memory: TurnMemory
    rebuilding: TurnRebuild
    clock: Clock
    meter: Meter
    options: TurnOptions
    costs: Costs

    @turn_tool("memory_shadow_compare", "Compare with your own memory", Permission.WRITE)
    async def compare(self, scope: Scope, args: ShadowArguments) -> ShadowResult:
        """Compare your own memory with memory_before_turn, in shadow mode.

        Takes that tool's arguments and your own results; returns the differences. Fact values are
        not stored."""
        now = self.clock.now()
        client_items = await items_of(args.own_input_items, "own_input_items", self.options, now)
        prepared = await self.memory.before_turn(scope, args)
        client_facts: dict[str, str | None] = dict.fromkeys(args.own_fact_ids)
        client_facts |= {
            client_fact.id: None if client_fact.value is None else value_hash(client_fact.value)
            for client_fact in args.own_facts
        }
        client_tokens = args.own_token_count
        if client_tokens is None and client_items:
            client_tokens = sum(self.costs.item(item.item) for item in client_items)
        index_ids = turn_index.fact_ids(args.session_id, args.user_id)
        async with self.database.begin(scope) as tx:
            server_facts = await fact_history.find_by_names(
                tx, index_ids, names=prepared.recall_fact_ids, session=args.session_id, turns=()
            )
            kept = None
            if args.own_files is not None:
                kept = await compare_files(tx, args.session_id, args.own_files)
            found = comparison(
                compare_facts(
                    client_facts,
                    {
                        fact.statement.fact_id: value_hash(fact.statement.value)
                        for fact in server_facts
                    },
                ),
                client_tokens,
                prepared.context_token_count,
                kept,
            )
            await keep(tx, args.session_id, prepared.turn_id, found, now)
        self.meter.add("mcp_memory_shadow_total", result="agree" if found.agrees else "differ")
        return found

    @turn_tool("memory_shadow_report", "Report on memory comparisons", Permission.READ)
    async def report(self, scope: Scope) -> ShadowReport:
        """Report how often your own memory and memsvc agreed in shadow mode, in all sessions."""
        return await report(self.database, scope, await self.rebuilding.sessions(scope))


async def report(database: Database, scope: Scope, sessions: list[str]) -> ShadowReport:
    """Return figures over the comparisons of these sessions."""
    counts: Counter[str] = Counter()
    compared = 0
    for session in sessions:
        async with database.begin_read(scope) as tx:
            found = await count_comparisons(tx, session)
        compared += bool(found["turns"])
        counts.update(found)
    facts = sum(counts[f"facts_{name}"] for name in _FACT_COUNTS)
    files = sum(counts[f"files_{name}"] for name in (*_FILE_DIFFERENCES, "same"))
    return ShadowReport(
        compared,
        counts["turns"],
        _share(counts["turns_agreeing"], counts["turns"]),
        _share(counts["facts_same"], facts),
        _share(counts["turns_with_tokens_agreeing"], counts["turns_with_tokens"]),
        _share(counts["files_same"], files),
        counts,
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
