"""Compaction: one summary event replaces older context; the raw events stay."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from math import log, sqrt
from typing import Any, Final

import orjson
import regex

from memsvc.core.analysis import is_question, terms
from memsvc.core.background import run_in_thread
from memsvc.core.call_context import step_done
from memsvc.core.chunks import sentences
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.store import context, jobs, sessions
from memsvc.store.context import ContextSize, IndexedItem, StoredItem, SummaryPosition
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.store.sessions import StoredSession
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, history, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of

SENTENCE_CHARS_MIN: Final = 8
SENTENCE_CHARS_MAX: Final = 320
SENTENCES_MAX: Final = 4000
"""Sentences that are compared; of more, the latest."""
TERMS_MIN: Final = 3
SCORE_SHARE_MIN: Final = 0.35
"""Minimum share of the best sentence's score, even where more tokens are left."""
DUPLICATE_SHARE: Final = 0.6
"""Share of common words from which two sentences are duplicates."""

_NAME: Final = regex.compile(r"(?<!^)(?<![.!?]\s)\b\p{Lu}\p{L}+")
_DIGIT: Final = regex.compile(r"\p{N}")
_USER_WORD: Final = re.compile(
    r"\b(i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi)\b", re.IGNORECASE
)
_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ([^:]{1,128}): (.+)")
_WEIGHT_BY_ROLE: Final = {"user": 1.0, "assistant": 0.75}
_PREVIOUS_WEIGHT: Final = 1.15

SUMMARY_TOK_MAX: Final = 500
SUMMARY_TOK_MIN: Final = 60
STEP_ITEMS: Final = 1000
"""Maximum number of items summarised in one step; a long history takes several steps."""
TEXT_CHARS_READ: Final = 4000


@frozen
class SummaryMessage:
    """A message: its day as YYYY-MM-DD, speaker and role.

    Only `user` and `assistant` are summarised."""

    day: str
    who: str
    role: str
    text: str


@frozen
class _Sentence:
    order: int
    day: str
    who: str
    text: str
    terms: frozenset[str]
    weight: float

    @property
    def line(self) -> str:
        return f"- {self.day} {self.who}: {self.text}" if self.day else f"- {self.text}"


def extract_summary(
    before: str, messages: Sequence[SummaryMessage], *, budget_tok: int, cost: Callable[[str], int]
) -> str:
    """Return the most informative sentences of `messages` with day and speaker, oldest first.

    The lines have at most `budget_tok` tokens together. `before` is the previous summary: its lines
    compete like messages. A sentence scores for words that others use too but not all of them do,
    for names and figures, and for the first person; questions score less, and of two near
    duplicates one is left out."""
    sentences = [*_previous_sentences(before), *_sentences(messages, start=len(before))][
        -SENTENCES_MAX:
    ]
    term_counts = Counter(term for sentence in sentences for term in sentence.terms)
    ranked = sorted(
        ((_score(sentence, term_counts, len(sentences)), sentence) for sentence in sentences),
        key=lambda pair: (-pair[0], pair[1].order),
    )
    chosen: list[_Sentence] = []
    left = budget_tok
    score_min = ranked[0][0] * SCORE_SHARE_MIN if ranked else 0.0
    for score, sentence in ranked:
        if (
            score <= 0
            or score < score_min
            or any(_is_duplicate(sentence, other) for other in chosen)
        ):
            continue
        line_cost = cost(sentence.line + "\n")
        if line_cost <= left:
            chosen.append(sentence)
            left -= line_cost
    return "\n".join(
        sentence.line for sentence in sorted(chosen, key=lambda sentence: sentence.order)
    )


def sentence_of(line: str) -> str:
    """Return the text of a summary line, without its day, speaker and the mark of a cut."""
    found = _LINE.fullmatch(line)
    return (found[3] if found else line.removeprefix("- ")).removesuffix("…").strip()


def _previous_sentences(before: str) -> list[_Sentence]:
    sentences = []
    for at, line in enumerate(before.splitlines()):
        found = _LINE.fullmatch(line)
        day, who, text = found.groups() if found else ("", "", line.removeprefix("- ").strip())
        if text:
            sentences.append(
                _Sentence(at, day, who, text, frozenset(terms(text)), _PREVIOUS_WEIGHT)
            )
    return sentences


def _sentences(messages: Sequence[SummaryMessage], *, start: int) -> list[_Sentence]:
    found = []
    for at, message in enumerate(messages):
        weight = _WEIGHT_BY_ROLE.get(message.role, 0.0)
        if not weight:
            continue
        for plain in sentences(message.text):
            if len(plain) >= SENTENCE_CHARS_MIN:
                short_text = (
                    plain
                    if len(plain) <= SENTENCE_CHARS_MAX
                    else plain[: SENTENCE_CHARS_MAX - 1] + "…"
                )
                found.append(
                    _Sentence(
                        start + at,
                        message.day,
                        message.who,
                        short_text,
                        frozenset(terms(short_text)),
                        weight,
                    )
                )
    return found


def _score(sentence: _Sentence, term_counts: Counter[str], sentences: int) -> float:
    """Return the score of a sentence: the weight of its words over the root of their number."""
    if len(sentence.terms) < TERMS_MIN:
        return 0.0
    term_score = sum(
        log(1 + term_counts[term]) * log(1 + sentences / term_counts[term])
        for term in sentence.terms
    )
    score = term_score / sqrt(len(sentence.terms)) * sentence.weight
    score *= (
        1 + 0.25 * bool(_NAME.search(sentence.text)) + 0.25 * bool(_DIGIT.search(sentence.text))
    )
    score *= 1 + 0.25 * bool(_USER_WORD.search(sentence.text))
    return score * (0.4 if is_question(sentence.text) else 1.0)


def _is_duplicate(one: _Sentence, other: _Sentence) -> bool:
    shared = len(one.terms & other.terms)
    return (
        shared >= DUPLICATE_SHARE * min(len(one.terms), len(other.terms))
        and one.terms != frozenset()
    )


@frozen
class ContextSummary:
    """Current summary of a session's older context.

    Its event id, its text, its source messages, the model that wrote it ("" for none), and the
    session's own policy."""

    event: str
    text: str
    messages: list[SummaryMessage]
    model: str
    policy_stored: dict[str, Any] | None


@frozen
class Compaction:
    """Summarises what no longer fits into the running context of a session.

    Each step is one transaction under the session's lock. `then` are jobs to queue for a new
    summary; their subject is the session."""

    database: Database
    clock: Clock
    costs: Costs
    meter: Meter
    options: TurnOptions
    then: Sequence[str]

    async def follow_up(self, scope: Scope, session: str) -> None:
        """Compact a session if it is too large, which one statement checks."""
        while await self._is_pending(scope, session):
            async with self.database.begin(
                scope,
                locks=[session_lock(session)],
                lock_timeout_ms=self.options.session_lock_timeout_ms,
            ) as tx:
                done = await self.step(tx, session)
            if not done:
                return
            self.count_step()
            step_done()

    def count_step(self) -> None:
        """Count a committed step."""
        self.meter.add("mcp_memory_compaction_total")

    async def step(self, tx: Tx, session: str) -> int:
        """Move the oldest items of a context that is too large into its summary; return how many.

        The caller holds the session's lock and calls again until it is 0."""
        now = self.clock.now()
        found = await sessions.find(tx, session)
        if found is None:
            return 0
        policy = policy_of(found.policy, self.options)
        index_id = turn_index.turns(session).number
        weight = await context.read_size(tx, session, index_id)
        if not self._too_large(weight, policy):
            return 0
        limit = max(self.options.recent_context_items, 1)
        # half of the threshold stays, so that the next compaction is not due soon
        kept_tok = self.options.compact_threshold * policy.max_input_tok / 2
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
        messages, most_tok = summary_sources(items), summary_tok_max(policy)
        chars = sum(len(message.text) for message in messages)
        text = await run_in_thread(
            chars, extract_summary, before, messages, budget_tok=most_tok, cost=self.costs.text
        )
        await self._write(tx, found, text, items, (weight.start, stop), now)
        return len(items)

    async def _is_pending(self, scope: Scope, session: str) -> bool:
        async with self.database.begin_read(scope) as tx:
            weight = await context.read_size(tx, session, turn_index.turns(session).number)
            if weight.items <= 1:
                return False
            found = await sessions.find(tx, session)
        return found is not None and self._too_large(weight, policy_of(found.policy, self.options))

    def _too_large(self, weight: ContextSize, policy: SessionPolicy) -> bool:
        if not policy.compaction.enabled:
            return False
        most = 2 * max(self.options.recent_context_items, 1)
        return (
            weight.items > most
            or weight.tokens > self.options.compact_threshold * policy.max_input_tok
        )

    async def _write(
        self,
        tx: Tx,
        found: StoredSession,
        text: str,
        items: Sequence[IndexedItem],
        entries: tuple[int, int],
        now: datetime,
    ) -> None:
        event, last, times = f"compact-{entries[1]}", items[-1].ref, [one.said_at for one in items]
        line = file_layout.json_line(
            {
                "id": event,
                "ts": file_layout.timestamp(now),
                "type": "compact_summary",
                "turn_id": file_layout.turn_of(last),
                "user_id": found.user_id,
                "summary": text,
                "covers": {
                    "items": len(items),
                    "first": items[0].ref,
                    "last": last,
                    "from": file_layout.timestamp(min(times)),
                    "to": file_layout.timestamp(max(times)),
                },
            }
        )
        place = await _append(tx, found.session, event, line, entries, now)
        counters = {"compaction_count": 1, "compacted_items": len(items)}
        await context.set_compacted(tx, found.session, place, counters=counters, now=now)
        for name in self.then:
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
        summary_sources(items),
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
    line = file_layout.json_line(record)
    was = SummaryPosition(**found.summary)
    place = await _append(tx, session, event, line, (was.first, was.next_entry), now)
    return await context.replace_summary(tx, session, place)


async def _append(
    tx: Tx, session: str, event: str, line: bytes, entries: tuple[int, int], now: datetime
) -> SummaryPosition:
    """Append the line of a summary of these entries; return where it is."""
    path = file_layout.summary_events(session, now)
    span = (await append(tx, {path: line}, owner=file_layout.OWNER, now=now))[path]
    return SummaryPosition(event, path, span.stream, span.start, len(line), *entries)


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


def summary_sources(items: Sequence[IndexedItem]) -> list[SummaryMessage]:
    """Return items as messages that `extract_summary` reads."""
    return [
        # without a colon, which ends the name in a line of a summary
        SummaryMessage(
            f"{item.said_at:%Y-%m-%d}",
            " ".join((item.speaker or item.role).replace(":", " ").split()) or item.role,
            item.role,
            item.text,
        )
        for item in items
    ]
