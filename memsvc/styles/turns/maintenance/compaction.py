"""Compaction: one summary event replaces older context; the raw events stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from memsvc.core.background import run_in_thread
from memsvc.core.call_context import step_done
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.store import context, jobs, sessions
from memsvc.store.append_log import append
from memsvc.store.context import ContextSize, IndexedItem, StoredItem, SummaryPosition
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns import file_layout, history, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.maintenance.extractive_summary import (
    SummaryMessage,
    extract_summary,
    sentence_of,
)
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of

SUMMARY_TOK_MAX: Final = 500
SUMMARY_TOK_MIN: Final = 60
STEP_ITEMS: Final = 1000
"""Maximum number of items summarised in one step; a long history takes several steps."""
TEXT_CHARS_READ: Final = 4000


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """Current summary of a session's older context.

    Its event id, its text, its source messages, the model that wrote it ("" for none), and the
    session's own policy."""

    event: str
    text: str
    messages: list[SummaryMessage]
    model: str
    policy_stored: dict[str, Any] | None


class Compaction:
    """Summarises what no longer fits into the running context of a session.

    Each step is one transaction under the session's lock. `then` are jobs to queue for a new
    summary; their subject is the session."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        costs: Costs,
        meter: Meter,
        options: TurnOptions,
        *,
        then: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = costs
        self._meter = meter
        self._options = options
        self._then = then

    async def follow_up(self, scope: Scope, session: str) -> None:
        """Compact a session if it is too large, which one statement checks."""
        while await self._is_pending(scope, session):
            async with self._database.begin(
                scope,
                locks=[session_lock(session)],
                lock_timeout_ms=self._options.session_lock_timeout_ms,
            ) as tx:
                done = await self.step(tx, session)
            if not done:
                return
            self.count_step()
            step_done()

    def count_step(self) -> None:
        """Count a committed step."""
        self._meter.add("mcp_memory_compaction_total")

    async def step(self, tx: Tx, session: str) -> int:
        """Move the oldest items of a context that is too large into its summary; return how many.

        The caller holds the session's lock and calls again until it is 0."""
        now = self._clock.now()
        found = await sessions.find(tx, session)
        if found is None:
            return 0
        policy = policy_of(found.policy, self._options)
        index_id = turn_index.turns(session).number
        weight = await context.read_size(tx, session, index_id)
        if not self._too_large(weight, policy):
            return 0
        limit, kept_tok = max(self._options.recent_context_items, 1), self._kept_tok(policy)
        context_read = await context.read(
            tx, session, index_id, limit=limit, tokens_max=int(kept_tok)
        )
        stop = _first_entry(context_read.items, kept_tok)
        items = await context.read_items(
            tx, index_id, weight.start, stop, limit=STEP_ITEMS, chars_max=TEXT_CHARS_READ
        )
        if not items:
            return 0
        if len(items) == STEP_ITEMS:
            stop = items[-1].entry + 1
        before = orjson.loads(context_read.summary)["summary"] if context_read.summary else ""
        messages, most_tok = _summary_sources(items), summary_tok_max(policy)
        chars = sum(len(message.text) for message in messages)
        text = await run_in_thread(
            chars, extract_summary, before, messages, budget_tok=most_tok, cost=self._costs.text
        )
        await self._write(tx, found, text, _summary_range(items), (weight.start, stop), now)
        return len(items)

    async def _is_pending(self, scope: Scope, session: str) -> bool:
        async with self._database.begin(scope, read_only=True) as tx:
            weight = await context.read_size(tx, session, turn_index.turns(session).number)
            if weight.items <= 1:
                return False
            found = await sessions.find(tx, session)
        return found is not None and self._too_large(weight, policy_of(found.policy, self._options))

    def _too_large(self, weight: ContextSize, policy: SessionPolicy) -> bool:
        if not policy.compaction.enabled:
            return False
        most = 2 * max(self._options.recent_context_items, 1)
        return (
            weight.items > most
            or weight.tokens > self._options.compact_threshold * policy.max_input_tok
        )

    def _kept_tok(self, policy: SessionPolicy) -> float:
        """Return the token limit of the items that stay: half of the threshold.

        So the next compaction is not due soon."""
        return self._options.compact_threshold * policy.max_input_tok / 2

    async def _write(
        self,
        tx: Tx,
        found: StoredSession,
        text: str,
        summary_range: file_layout.SummaryRange,
        entries: tuple[int, int],
        now: datetime,
    ) -> None:
        path = file_layout.summary_events(found.session, now)
        event = f"compact-{entries[1]}"
        line = file_layout.summary_line(
            event, file_layout.turn_of(summary_range.last), found.user_id, text, summary_range, now
        )
        span = (await append(tx, {path: line}, owner=file_layout.OWNER, now=now))[path]
        place = SummaryPosition(event, path, span.stream, span.start, len(line), *entries)
        counters = {"compaction_count": 1, "compacted_items": summary_range.items}
        await context.set_compacted(tx, found.session, place, counters=counters, now=now)
        for name in self._then:
            await jobs.enqueue(tx, name, found.session, now=now)


async def current_summary(tx: Tx, session: str) -> ContextSummary | None:
    """Return the current summary of a session's older context, with its last source items."""
    found = await sessions.find(tx, session)
    if found is None or found.summary is None:
        return None
    place = SummaryPosition(**found.summary)
    index_id = turn_index.turns(session).number
    context_read = await context.read(tx, session, index_id, limit=0)
    if context_read.summary is None:
        return None
    items = await context.read_items(
        tx, index_id, place.first, place.next_entry, limit=STEP_ITEMS, chars_max=TEXT_CHARS_READ
    )
    record = orjson.loads(context_read.summary)
    return ContextSummary(
        place.event,
        record["summary"],
        _summary_sources(items),
        record.get("worded_by", ""),
        found.policy,
    )


async def replace_summary(
    tx: Tx, session: str, event: str, text: str, *, now: datetime, model: str = ""
) -> bool:
    """Replace the text of the current summary event, naming the model that wrote it, if any.

    Returns False, and writes nothing, when another event is current. The caller holds the session's
    lock."""
    found = await sessions.find(tx, session)
    if found is None or found.summary is None or found.summary["event"] != event:
        return False
    running = await context.read(tx, session, turn_index.turns(session).number, limit=0)
    if running.summary is None:
        return False
    record: dict[str, Any] = orjson.loads(running.summary) | {
        "ts": file_layout.timestamp(now),
        "summary": text,
    }
    record |= {"worded_by": model} if model else {}
    line = orjson.dumps(record) + b"\n"
    path = file_layout.summary_events(session, now)
    span = (await append(tx, {path: line}, owner=file_layout.OWNER, now=now))[path]
    was = SummaryPosition(**found.summary)
    place = SummaryPosition(
        event, path, span.stream, span.start, len(line), was.first, was.next_entry
    )
    return await context.replace_summary(tx, session, place)


async def remove_from_summary(
    tx: Tx, session: str, texts: Sequence[str], values: Sequence[str], *, now: datetime
) -> None:
    """Remove items with these texts or values from the summary of a session.

    A model's text cannot be separated, and is removed as a whole. The caller holds the session's
    lock."""
    current = await current_summary(tx, session)
    if current is None or not (texts or values):
        return
    removed_texts = [" ".join(text.split()) for text in texts]
    removed_values = [value.casefold() for value in values if value]
    lines = current.text.splitlines()
    kept = [
        line
        for line in ([] if current.model else lines)
        if not any(sentence_of(line) in text for text in removed_texts)
        and not any(one in line.casefold() for one in removed_values)
    ]
    if kept != lines:
        await replace_summary(tx, session, current.event, "\n".join(kept), now=now)


def summary_tok_max(policy: SessionPolicy) -> int:
    """Return the token limit of a summary."""
    return min(SUMMARY_TOK_MAX, max(SUMMARY_TOK_MIN, policy.max_input_tok // 10))


def _first_entry(items: Sequence[StoredItem], tokens_max: float) -> int:
    """Return the entry that the context should start with: the latest items that fit.

    At least one, only items that can be read at once; neither an output without its call nor a call
    without its reasoning."""
    kept, used = 0, 0
    for item in reversed(items):
        used += item.tokens
        if kept and (used > tokens_max or not item.line):
            break
        kept += 1
    if not kept:
        return 0
    first = len(items) - kept
    start_positions = history.start_positions(history.load_items(items), truncated=True)
    return items[next((at for at in start_positions if at >= first), first)].entry


def _summary_sources(items: Sequence[IndexedItem]) -> list[SummaryMessage]:
    return [
        SummaryMessage(f"{item.said_at:%Y-%m-%d}", _who(item), item.role, item.text)
        for item in items
    ]


def _who(one: IndexedItem) -> str:
    """Return the speaker without a colon, which ends the name in a line of a summary."""
    return " ".join((one.speaker or one.role).replace(":", " ").split()) or one.role


def _summary_range(items: Sequence[IndexedItem]) -> file_layout.SummaryRange:
    times = [item.said_at for item in items]
    return file_layout.SummaryRange(len(items), items[0].ref, items[-1].ref, min(times), max(times))
