"""Maintenance of a session, safe to run at any time.

Summarises older context, archives old events, removes expired facts, derives insights and writes
summaries of directories."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import anyio

from memsvc.core.ports import Clock
from memsvc.core.progress import SILENT, Progress
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.core.underway import step_done
from memsvc.store import facts, guard, jobs, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.locks import Lock, book_lock, session_lock
from memsvc.store.sessions import Session
from memsvc.styles.turns import books
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import Policy, policy_of
from memsvc.styles.turns.upkeep import archive, consolidation, expiry, shelving
from memsvc.styles.turns.upkeep.compaction import Compaction

# Maintenance has a guard like a turn, under the one turn id that no caller can use.
GUARDED_AS = ""
FACTS_A_STEP = 500
MAINTAIN_JOB: Final = "turns.maintain"
MAINTAIN_ALL_JOB: Final = "turns.maintain_all"
EXPIRE_JOB: Final = "turns.expire"
EXPIRE_EVERY_S: Final = 3600
SESSIONS_A_STEP = 200
SETTLE_DAYS_MIN: Final = 2
PARTS: Final = ("compacting", "expiring", "sweeping", "consolidating", "archiving", "summarising")
"""Phases of a run, in this order."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """Counts of a maintenance run."""

    compacted_items: int = 0
    archived_files: int = 0
    archived_bytes: int = 0
    expired_facts: int = 0
    expired_items: int = 0
    insights_written: int = 0
    insights_withdrawn: int = 0
    summaries_written: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """A run in progress: its session, its claim, and its counts so far."""

    scope: Scope
    found: Session
    policy: Policy
    token: UUID
    done: Counter[str]


class Maintenance:
    """Runs in short transactions, each of which verifies the run's claim.

    A run that was killed or overtaken leaves nothing half done, and the next one continues there.
    Counts are stored with each step. A time slice ends only after a step that changed something:
    else a run of slow checks would restart for ever."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions, compaction: Compaction) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._compaction = compaction

    def jobs(self) -> list[Job]:
        """Return the jobs that maintain a session and queue maintenance.

        One queues it where a policy has a time to live, and optionally one for all sessions."""
        wanted = [
            Job(name=MAINTAIN_JOB, run=self._maintain),
            Job(name=EXPIRE_JOB, run=self.queue_outliving, every_s=EXPIRE_EVERY_S),
        ]
        if hours := self._options.maintenance_every_hours:
            wanted.append(Job(name=MAINTAIN_ALL_JOB, run=self.queue_all, every_s=hours * 3600))
        return wanted

    async def run(self, scope: Scope, session: str, progress: Progress = SILENT) -> Maintained:
        """Maintain one session; RESOURCE_BUSY while another run does.

        A session without turns has nothing to do."""
        async with self._database.begin(scope) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return Maintained()
            claim = await guard.claim(tx, session, GUARDED_AS, fingerprint=b"", now=self._clock.now())
        run = _Run(scope, found, policy_of(found.policy, self._options), claim.token, Counter())
        try:
            parts = (self._compact, self._expire, self._sweep, self._consolidate, self._archive, self._summarise)
            for done, part in enumerate(parts):
                progress.report(done, len(parts), PARTS[done])
                await part(run)
            progress.report(len(parts), len(parts))
            async with self._step(run) as tx:
                await sessions.maintained(tx, session, counters={"maintenance_runs": 1}, now=self._clock.now())
        finally:
            with anyio.CancelScope(shield=True):  # a call that is cancelled must not leave its claim behind
                async with self._database.begin(scope) as tx:
                    await guard.release(tx, session, GUARDED_AS, claim.token)
        return Maintained(**run.done)

    async def queue_all(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance for every session of the project that may need it."""
        del subject
        policy = policy_of(None, self._options)
        days = max(policy.tiers.L1.retention_days, policy.tiers.L2.retention_days, SETTLE_DAYS_MIN)
        settled = timedelta(days=days, hours=policy.compaction.min_shard_age_hours + 24)
        after = ""
        while True:
            async with self._database.begin(scope) as tx:
                due = await sessions.unmaintained(tx, after=after, settled_after=settled, most=SESSIONS_A_STEP)
                for session in due:
                    await jobs.enqueue(tx, MAINTAIN_JOB, session, now=self._clock.now())
            if not due:
                return
            after = due[-1]

    async def queue_outliving(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance daily for sessions whose policy has a time to live.

        At midnight UTC another day expires."""
        del subject
        after = ""
        while True:
            now = self._clock.now()
            async with self._database.begin(scope) as tx:
                since = expiry.moment(now, 0)
                due = await sessions.outliving(tx, after=after, since=since, limit=SESSIONS_A_STEP)
                for session in due:
                    await jobs.enqueue(tx, MAINTAIN_JOB, session, now=now)
            if not due:
                return
            after = due[-1]

    async def _maintain(self, scope: Scope, subject: str) -> None:
        await self.run(scope, subject)

    @asynccontextmanager
    async def _step(self, run: _Run, *more: Lock) -> AsyncIterator[Tx]:
        """Open a transaction under these locks that verifies the run's claim."""
        async with self._database.begin(
            run.scope,
            locks=[session_lock(run.found.session), *more],
            lock_timeout_ms=self._options.session_lock_timeout_ms,
        ) as tx:
            await guard.hold(tx, run.found.session, GUARDED_AS, run.token, now=self._clock.now())
            yield tx

    async def _compact(self, run: _Run) -> None:
        while True:
            async with self._step(run) as tx:
                moved = await self._compaction.step(tx, run.found.session)
            if not moved:
                return
            self._compaction.counted()
            run.done["compacted_items"] += moved
            step_done()

    async def _expire(self, run: _Run) -> None:
        """Remove data older than the session's time to live, if it has one."""
        if run.policy.ttl_days is None:
            return
        before = expiry.moment(self._clock.now(), run.policy.ttl_days)
        own = book_lock(books.facts_learnt(run.found.session, "").name)
        while True:
            async with self._step(run, own) as tx:
                gone = await expiry.step(tx, run.found.session, before, now=self._clock.now())
            run.done.update(gone)
            if not gone:
                return
            step_done()

    async def _sweep(self, run: _Run) -> None:
        for book in await self._shelves(run):
            while True:
                now = self._clock.now()
                async with self._step(run, book_lock(book.name)) as tx:
                    swept = await facts.sweep(tx, book.number, now, most=FACTS_A_STEP)
                    await expiry.forget_lines(tx, swept, now)
                    if swept:
                        await sessions.count(tx, run.found.session, {"expired_facts": len(swept)})
                run.done["expired_facts"] += len(swept)
                if not swept:
                    break
                step_done()

    async def _shelves(self, run: _Run) -> list[Book]:
        """Return the fact indexes of the session and its user, plus expired ones."""
        async with self._database.begin(run.scope, read_only=True) as tx:
            others = await facts.expired_books(tx, run.found.session, self._clock.now())
        own = books.facts(run.found.session, run.found.user_id)
        return list(dict.fromkeys([*own, *map(books.named, others)]))

    async def _consolidate(self, run: _Run) -> None:
        locks = consolidation.locks(run.found)
        while True:
            async with self._step(run, *locks) as tx:
                shelves = books.insights(run.found.session, run.found.user_id)
                withdrawn = await consolidation.withdraw(tx, run.found.session, shelves, now=self._clock.now())
            run.done["insights_withdrawn"] += withdrawn
            if not withdrawn:
                break
            step_done()
        while True:
            async with self._step(run, *locks) as tx:
                written, left = await consolidation.step(tx, run.found, now=self._clock.now())
            run.done["insights_written"] += written
            if not left:
                return
            step_done()

    async def _archive(self, run: _Run) -> None:
        if not run.policy.compaction.enabled:
            return
        recent_items, session = self._options.recent_context_items, run.found.session
        async with self._database.begin(run.scope, read_only=True) as tx:
            now = self._clock.now()
            paths = await archive.due(tx, session, run.policy, recent_items=recent_items, now=now)
        for path in paths:
            async with self._step(run) as tx:
                packed = await archive.pack(tx, path, now=self._clock.now())
                if packed is not None:
                    counters = {"archived_files": 1, "archived_bytes": packed.raw_bytes}
                    await sessions.count(tx, session, counters)
                    run.done.update(counters)
            if packed is not None:
                step_done()

    async def _summarise(self, run: _Run) -> None:
        """Write the summaries that are older than the refresh interval and out of date."""
        fresh = timedelta(minutes=run.policy.summary.refresh_interval_minutes)
        async with self._step(run) as tx:
            written = await shelving.refresh(tx, run.found.session, fresh=fresh, now=self._clock.now())
            if written:
                await sessions.count(tx, run.found.session, {"summaries_written": written})
        run.done["summaries_written"] += written
