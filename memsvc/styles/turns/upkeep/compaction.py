"""Compaction: one summary event replaces older context; the raw events stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from memsvc.core.background import computed
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.core.underway import step_done
from memsvc.store import context, jobs, sessions
from memsvc.store.context import SaidItem, StoredItem, SummaryPlace, Weight
from memsvc.store.database import Database, Tx
from memsvc.store.journals import append
from memsvc.store.locks import session_lock
from memsvc.store.sessions import Session
from memsvc.styles.turns import books, history, layout
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import Policy, policy_of
from memsvc.styles.turns.upkeep.condensing import Said, condensed, sentence_of

SUMMARY_TOK_MAX: Final = 500
SUMMARY_TOK_MIN: Final = 60
STEP_ITEMS: Final = 1000
"""Maximum number of items summarised in one step; a long history takes several steps."""
TEXT_CHARS_READ: Final = 4000


@dataclass(frozen=True, slots=True)
class Standing:
    """Current summary of a session's older context.

    Its event id, its text, its source messages, the model that wrote it ("" for none), and the
    session's own policy."""

    event: str
    text: str
    said: list[Said]
    worded_by: str
    own_policy: dict[str, Any] | None


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
        while await self._is_due(scope, session):
            async with self._database.begin(
                scope, locks=[session_lock(session)], lock_timeout_ms=self._options.session_lock_timeout_ms
            ) as tx:
                done = await self.step(tx, session)
            if not done:
                return
            self.counted()
            step_done()

    def counted(self) -> None:
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
        book = books.turns(session).number
        weight = await context.weigh(tx, session, book)
        if not self._too_large(weight, policy):
            return 0
        most, kept_tok = max(self._options.recent_context_items, 1), self._kept_tok(policy)
        running = await context.read(tx, session, book, most=most, tokens_max=int(kept_tok))
        stop = _cut(running.items, kept_tok)
        said = await context.said(tx, book, weight.start, stop, most=STEP_ITEMS, chars_max=TEXT_CHARS_READ)
        if not said:
            return 0
        if len(said) == STEP_ITEMS:
            stop = said[-1].entry + 1
        before = orjson.loads(running.summary)["summary"] if running.summary else ""
        heard, most_tok = _heard(said), summary_tok_max(policy)
        chars = sum(len(one.text) for one in heard)
        text = await computed(chars, condensed, before, heard, budget_tok=most_tok, cost=self._costs.text)
        await self._write(tx, found, text, _covers(said), (weight.start, stop), now)
        return len(said)

    async def _is_due(self, scope: Scope, session: str) -> bool:
        async with self._database.begin(scope, read_only=True) as tx:
            weight = await context.weigh(tx, session, books.turns(session).number)
            if weight.items <= 1:
                return False
            found = await sessions.find(tx, session)
        return found is not None and self._too_large(weight, policy_of(found.policy, self._options))

    def _too_large(self, weight: Weight, policy: Policy) -> bool:
        if not policy.compaction.enabled:
            return False
        most = 2 * max(self._options.recent_context_items, 1)
        return weight.items > most or weight.tokens > self._options.compact_threshold * policy.max_input_tok

    def _kept_tok(self, policy: Policy) -> float:
        """Return the token limit of the items that stay: half of the threshold.

        So the next compaction is not due soon."""
        return self._options.compact_threshold * policy.max_input_tok / 2

    async def _write(
        self, tx: Tx, found: Session, text: str, covers: layout.Covers, entries: tuple[int, int], now: datetime
    ) -> None:
        path = layout.compact_events(found.session, now)
        event = f"compact-{entries[1]}"
        line = layout.summary_line(event, layout.turn_of(covers.last), found.user_id, text, covers, now)
        span = (await append(tx, {path: line}, owner=layout.OWNER, now=now))[path]
        place = SummaryPlace(event, path, span.stream, span.start, len(line), *entries)
        counters = {"compaction_count": 1, "compacted_items": covers.items}
        await context.compacted(tx, found.session, place, counters=counters, now=now)
        for name in self._then:
            await jobs.enqueue(tx, name, found.session, now=now)


async def standing_summary(tx: Tx, session: str) -> Standing | None:
    """Return the current summary of a session's older context, with its last source items."""
    found = await sessions.find(tx, session)
    if found is None or found.summary is None:
        return None
    place = SummaryPlace(**found.summary)
    book = books.turns(session).number
    running = await context.read(tx, session, book, most=0)
    if running.summary is None:
        return None
    said = await context.said(tx, book, place.first, place.next_entry, most=STEP_ITEMS, chars_max=TEXT_CHARS_READ)
    record = orjson.loads(running.summary)
    return Standing(place.event, record["summary"], _heard(said), record.get("worded_by", ""), found.policy)


async def replace_summary(tx: Tx, session: str, event: str, text: str, *, now: datetime, worded_by: str = "") -> bool:
    """Replace the text of the current summary event, naming the model that wrote it, if any.

    Returns False, and writes nothing, when another event is current. The caller holds the session's
    lock."""
    found = await sessions.find(tx, session)
    if found is None or found.summary is None or found.summary["event"] != event:
        return False
    running = await context.read(tx, session, books.turns(session).number, most=0)
    if running.summary is None:
        return False
    record: dict[str, Any] = orjson.loads(running.summary) | {"ts": layout.timestamp(now), "summary": text}
    record |= {"worded_by": worded_by} if worded_by else {}
    line = orjson.dumps(record) + b"\n"
    path = layout.compact_events(session, now)
    span = (await append(tx, {path: line}, owner=layout.OWNER, now=now))[path]
    was = SummaryPlace(**found.summary)
    place = SummaryPlace(event, path, span.stream, span.start, len(line), was.first, was.next_entry)
    return await context.resummarise(tx, session, place)


async def unsay(tx: Tx, session: str, texts: Sequence[str], values: Sequence[str], *, now: datetime) -> None:
    """Remove items with these texts or values from the summary of a session.

    A model's text cannot be separated, and is removed as a whole. The caller holds the session's
    lock."""
    standing = await standing_summary(tx, session)
    if standing is None or not (texts or values):
        return
    gone = [" ".join(text.split()) for text in texts]
    unwanted = [value.casefold() for value in values if value]
    lines = standing.text.splitlines()
    kept = [
        line
        for line in ([] if standing.worded_by else lines)
        if not any(sentence_of(line) in text for text in gone) and not any(one in line.casefold() for one in unwanted)
    ]
    if kept != lines:
        await replace_summary(tx, session, standing.event, "\n".join(kept), now=now)


def summary_tok_max(policy: Policy) -> int:
    """Return the token limit of a summary."""
    return min(SUMMARY_TOK_MAX, max(SUMMARY_TOK_MIN, policy.max_input_tok // 10))


def _cut(items: Sequence[StoredItem], room_tok: float) -> int:
    """Return the entry that the context should start with: the latest items that fit.

    At least one, only items that can be read at once; neither an output without its call nor a call
    without its reasoning."""
    kept, spent = 0, 0
    for item in reversed(items):
        spent += item.tokens
        if kept and (spent > room_tok or not item.line):
            break
        kept += 1
    if not kept:
        return 0
    first = len(items) - kept
    starts = history.starts(history.as_said(items), cut=True)
    return items[next((at for at in starts if at >= first), first)].entry


def _heard(said: Sequence[SaidItem]) -> list[Said]:
    return [Said(f"{one.said_at:%Y-%m-%d}", _who(one), one.role, one.text) for one in said]


def _who(one: SaidItem) -> str:
    """Return the speaker without a colon, which ends the name in a line of a summary."""
    return " ".join((one.speaker or one.role).replace(":", " ").split()) or one.role


def _covers(said: Sequence[SaidItem]) -> layout.Covers:
    moments = [one.said_at for one in said]
    return layout.Covers(len(said), said[0].ref, said[-1].ref, min(moments), max(moments))
