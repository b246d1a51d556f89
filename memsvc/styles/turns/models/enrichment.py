"""Facts that a model finds in messages, by a job after the turns; no turn depends on it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from importlib.resources import files as resources
from typing import Final
from zlib import crc32

import structlog

from memsvc.core.errors import MemsvcError, UnusableAnswerError
from memsvc.core.facts import Claim, Merge, Statement, merge
from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import context, fact_history, facts, index, jobs, reading, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.facts import Dated
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.model_budget import SpentError
from memsvc.styles.turns import books, layout
from memsvc.styles.turns.models.allowance import Allowance
from memsvc.styles.turns.models.model_facts import KEYS, PROPOSALS_MAX, Proposal, Proposals, believed
from memsvc.styles.turns.models.shown import Shown
from memsvc.styles.turns.models.window import Window, next_window
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import policy_of

log = structlog.get_logger("memsvc.enrichment")

EXTRACT_JOB: Final = "turns.extract"
PURPOSE: Final = "extraction"
WINDOWS_A_RUN: Final = 10
"""Windows that one run reads before it yields to other jobs."""
AFTER_NONSENSE_S: Final = 600.0
FORGOTTEN_FOR: Final = timedelta(days=30)
"""For this long an assistant cannot bring back forgotten facts by repeating them; a user can."""


class Enrichment:
    """Extraction of facts by a model, one window of a session after the other.

    The position is stored in the transaction that stores the result: a run that dies or is
    overtaken leaves nothing half done, and twice is the same as once."""

    def __init__(
        self,
        database: Database,
        llm: Llm,
        clock: Clock,
        tokens: TokenCounter,
        meter: Meter,
        options: TurnOptions,
        *,
        allowance: Allowance,
        embeds: bool,
    ) -> None:
        self._database = database
        self._llm = llm
        self._clock = clock
        self._tokens = tokens
        self._meter = meter
        self._options = options
        self._allowance = allowance
        self._embeds = embeds
        prompt = resources("memsvc.styles.turns.models").joinpath("prompts/extract_facts.md").read_text("utf-8")
        self._instructions = prompt.format(keys=", ".join(KEYS), proposals=PROPOSALS_MAX)
        self.job = Job(name=EXTRACT_JOB, run=self.extract, attempts_max=2)

    async def extract(self, scope: Scope, subject: str) -> None:
        """Job: read the messages of the session since the last time.

        No transaction is open while the model works. A session whose policy forbids storage is
        never sent to it, and facts forgotten meanwhile are not brought back: the rest is read
        again. If the model is out of reach or refuses, the error passes through and nothing counts
        as read. When the daily calls are used up, the rest is read the next day."""
        try:
            wait_s = await self._read_on(scope, subject)
        except SpentError:
            wait_s = self._allowance.until_tomorrow_s(crc32(subject.encode()))
            log.info("the daily model calls are used up: a session will be read tomorrow", project=scope.project)
        if wait_s is not None:
            async with self._database.begin(scope) as tx:
                await jobs.enqueue(tx, EXTRACT_JOB, subject, now=self._clock.now(), delay_s=wait_s)

    async def _read_on(self, scope: Scope, session: str) -> float | None:
        """Read some windows; return the seconds until the next run, None when all was read.

        A window without a usable answer, even for its first half, is skipped, so that no text can
        block a session."""
        for _ in range(WINDOWS_A_RUN):
            async with self._database.begin(scope, read_only=True) as tx:
                if not await self._may_keep(tx, session):
                    return None
                window = await next_window(tx, session, self._tokens, self._clock.now())
            if window is None:
                return None
            answer = await self._ask(scope, window)
            if answer is None and len(window.shown.messages) > 1:
                window = window.first_half()
                answer = await self._ask(scope, window)
            await self._keep(scope, window, answer or [])
            if answer is None:
                log.warning("a model could not process a part of a session, which is skipped", session=session)
                return AFTER_NONSENSE_S
        return 0.0

    async def _ask(self, scope: Scope, window: Window) -> Sequence[Proposal] | None:
        """Return the model's proposals; None when its output is unusable."""
        if not window.shown.messages:
            return []
        text = window.shown.text(self._clock.now())
        most = self._options.heuristic.max_output_tokens
        try:
            answer = await self._allowance.ask(
                scope,
                PURPOSE,
                lambda: self._llm.extract(self._instructions, text, Proposals, output_tokens_max=most),
            )
        except UnusableAnswerError:
            return None
        except MemsvcError as error:
            log.warning("facts were not extracted", code=error.code.value, reason=error.message)
            raise
        return answer.changes

    async def _keep(self, scope: Scope, window: Window, proposals: Sequence[Proposal]) -> None:
        """Store the result of a window and mark it as read.

        Stores nothing when another run read it meanwhile, when any of it was forgotten, or when the
        policy now forbids it."""
        shown, now = window.shown, self._clock.now()
        shelves = books.facts(shown.session, shown.user)
        locks = [session_lock(shown.session), *(book_lock(shelf.name) for shelf in shelves)]
        outcomes: Counter[str] = Counter()
        dated: Sequence[Dated] = ()
        async with self._database.begin(
            scope, locks=locks if proposals else (), lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            if proposals and not (await self._may_keep(tx, shown.session) and await _is_there(tx, shown)):
                return
            if not await reading.advance(tx, shown.session, start=window.start, stop=window.stop):
                return
            if proposals:
                merged, dated, outcomes = await self._merged(tx, shown, proposals, now)
                if merged.changes:
                    await self._write(tx, shown, merged, dated, now)
        for outcome, times in outcomes.items():
            self._meter.add("memsvc_extracted_facts_total", times, outcome=outcome)
        for one in dated:
            self._meter.add("mcp_memory_fact_write_total", tier=one.statement.tier.value)

    async def _may_keep(self, tx: Tx, session: str) -> bool:
        found = await sessions.find(tx, session)
        return policy_of(found.policy if found else None, self._options).store

    async def _merged(
        self, tx: Tx, shown: Shown, proposals: Sequence[Proposal], now: datetime
    ) -> tuple[Merge, list[Dated], Counter[str]]:
        """Return the changes that the proposals make to current facts, and outcome counts."""
        shelves = [shelf.number for shelf in books.facts(shown.session, shown.user)]
        oldest = min(message.stored_at for message in shown.messages)
        holding = await facts.holding(tx, shelves, now)
        deleted = await fact_history.deleted_since(tx, shelves, oldest - FORGOTTEN_FOR)
        claims, outcomes = believed(proposals, shown, holding=holding, deleted=deleted)
        last_days = await self._last_days(tx, shown, claims)
        in_time = [claim for claim in claims if not _is_over(claim, last_days, now)]
        known = [*await facts.concerned(tx, shelves, in_time), *holding, *deleted]
        merged = merge({(fact.book, fact.entry): fact for fact in known}.values(), in_time, now)
        outcomes["kept"] += len(merged.kept) + len(merged.deleted)
        outcomes["repeated"] += merged.repeated
        outcomes["stale"] += len(claims) - len(in_time) + merged.overruled
        return merged, [Dated(one, last_days[one.record]) for one in merged.kept], outcomes

    async def _last_days(self, tx: Tx, shown: Shown, claims: Sequence[Claim]) -> dict[str, datetime | None]:
        """Return the expiry of each statement by record; days count from the message."""
        found = await sessions.find(tx, shown.session)
        policy = policy_of(found.policy if found else None, self._options)
        stored_at = {message.event: message.stored_at for message in shown.messages}
        return {
            claim.record: policy.expires_at(claim.tier, stored_at[claim.evidence.item])
            for claim in claims
            if isinstance(claim, Statement)
        }

    async def _write(self, tx: Tx, shown: Shown, merged: Merge, dated: Sequence[Dated], now: datetime) -> None:
        """Write the lines, index entries and rows of a merge, as a turn does."""
        book = books.facts_learnt(shown.session, shown.user)
        await append(tx, layout.fact_lines(merged, dated, now), owner=layout.OWNER, now=now)
        firsts = await index.add(tx, {book.name: facts.entries(dated, now)}) if dated else {}
        await facts.apply(tx, book.number, firsts.get(book.name, 0), merged, dated, now)
        await sessions.count(tx, shown.session, {"facts": len(dated)})
        if self._embeds and dated:
            await jobs.enqueue(tx, EMBED_JOB, str(book.number), now=now)


async def _is_there(tx: Tx, shown: Shown) -> bool:
    """Return whether all messages sent to the model are still stored."""
    seen = {message.event: message.entry for message in [*shown.earlier, *shown.messages]}
    first, stop = min(seen.values()), max(seen.values()) + 1
    found = {item.ref for item in await context.said(tx, books.turns(shown.session).number, first, stop, chars_max=0)}
    return seen.keys() <= found


def _is_over(claim: Claim, last_days: Mapping[str, datetime | None], now: datetime) -> bool:
    last_day = last_days[claim.record] if isinstance(claim, Statement) else None
    return last_day is not None and last_day <= now
