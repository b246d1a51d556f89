"""Maintenance of a session, safe to run at any time.

Summarises older context, archives old events, removes expired facts, derives insights and writes
summaries of directories."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final
from uuid import UUID

import anyio

from memsvc.core.call_context import step_done
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import SILENT, Job, ProgressCallback
from memsvc.store import facts, guard, jobs, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.locks import Lock, index_lock, session_lock
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.maintenance import consolidation, directory_index, expiry, raw_archive
from memsvc.styles.turns.maintenance.compaction import Compaction
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of
from memsvc.styles.turns.turn_index import TurnIndex
from memsvc.styles.turns.turn_models import (
    DEFAULT_SESSION,
    MaintenanceResult,
    SessionId,
    turn_tool,
)

# Maintenance has a guard like a turn, under the one turn id that no caller can use.
MAINTENANCE_TURN = ""
FACTS_A_STEP = 500
MAINTAIN_JOB: Final = "turns.maintain"
MAINTAIN_ALL_JOB: Final = "turns.maintain_all"
EXPIRE_JOB: Final = "turns.expire"
EXPIRE_INTERVAL_S: Final = 3600
SESSIONS_A_STEP = 200
SETTLE_DAYS_MIN: Final = 2
STEPS: Final = ("compacting", "expiring", "sweeping", "consolidating", "archiving", "summarising")
"""Phases of a run, in this order."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A run in progress: its session, its claim, and its counts so far."""

    scope: Scope
    found: StoredSession
    policy: SessionPolicy
    token: UUID
    done: Counter[str]


class SessionMaintenance:
    """Runs in short transactions, each of which verifies the run's claim.

    A run that was killed or overtaken leaves nothing half done, and the next one continues there.
    Counts are stored with each step. A time slice ends only after a step that changed something:
    else a run of slow checks would restart for ever."""

    def __init__(
        self, database: Database, clock: Clock, options: TurnOptions, compaction: Compaction
    ) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._compaction = compaction

    def jobs(self) -> list[Job]:
        """Return the jobs that maintain a session and queue maintenance.

        One queues it where a policy has a time to live, and optionally one for all sessions."""
        result = [
            Job(name=MAINTAIN_JOB, run=self._maintain),
            Job(name=EXPIRE_JOB, run=self.queue_expiry, interval_s=EXPIRE_INTERVAL_S),
        ]
        if hours := self._options.maintenance_every_hours:
            result.append(Job(name=MAINTAIN_ALL_JOB, run=self.queue_all, interval_s=hours * 3600))
        return result

    @turn_tool(
        "memory_run_maintenance",
        title="Maintain a session",
        for_agents=True,
        needs=Permission.WRITE,
        over_quota=True,
        idempotent=True,
        counter="mcp_memory_maintenance_total",
    )
    async def run(
        self,
        scope: Scope,
        progress: ProgressCallback = SILENT,
        session_id: SessionId = DEFAULT_SESSION,
    ) -> MaintenanceResult:
        """Call about daily, or when idle.

        Summarises older context, packs old events, drops expired facts, works out insights. Safe to
        repeat."""
        session = session_id
        async with self._database.begin(scope) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return _result(Counter())
            claim = await guard.claim(
                tx, session, MAINTENANCE_TURN, fingerprint=b"", now=self._clock.now()
            )
        run = _Run(scope, found, policy_of(found.policy, self._options), claim.token, Counter())
        try:
            parts = (
                self._run_compaction,
                self._expire,
                self._expire_facts,
                self._run_consolidation,
                self._archive,
                self._summarise,
            )
            for done, part in enumerate(parts):
                progress.report(done, len(parts), STEPS[done])
                await part(run)
            progress.report(len(parts), len(parts))
            async with self._step(run) as tx:
                await sessions.set_maintenance_time(
                    tx, session, counters={"maintenance_runs": 1}, now=self._clock.now()
                )
        finally:
            with anyio.CancelScope(
                shield=True
            ):  # a call that is cancelled must not leave its claim behind
                async with self._database.begin(scope) as tx:
                    await guard.release(tx, session, MAINTENANCE_TURN, claim.token)
        return _result(run.done)

    async def queue_all(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance for every session of the project that may need it."""
        del subject
        policy = policy_of(None, self._options)
        days = max(policy.tiers.L1.retention_days, policy.tiers.L2.retention_days, SETTLE_DAYS_MIN)
        settle_time = timedelta(days=days, hours=policy.compaction.min_shard_age_hours + 24)
        after = ""
        while True:
            async with self._database.begin(scope) as tx:
                session_names = await sessions.list_pending_maintenance(
                    tx, after=after, settle_time=settle_time, limit=SESSIONS_A_STEP
                )
                for session in session_names:
                    await jobs.enqueue(tx, MAINTAIN_JOB, session, now=self._clock.now())
            if not session_names:
                return
            after = session_names[-1]

    async def queue_expiry(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance daily for sessions whose policy has a time to live.

        At midnight UTC another day expires."""
        del subject
        after = ""
        while True:
            now = self._clock.now()
            async with self._database.begin(scope) as tx:
                since = expiry.cutoff(now, 0)
                session_names = await sessions.with_expiry(
                    tx, after=after, since=since, limit=SESSIONS_A_STEP
                )
                for session in session_names:
                    await jobs.enqueue(tx, MAINTAIN_JOB, session, now=now)
            if not session_names:
                return
            after = session_names[-1]

    async def _maintain(self, scope: Scope, subject: str) -> None:
        await self.run(scope, session_id=subject)

    @asynccontextmanager
    async def _step(self, run: _Run, *more: Lock) -> AsyncIterator[Tx]:
        """Open a transaction under these locks that verifies the run's claim."""
        async with self._database.begin(
            run.scope,
            locks=[session_lock(run.found.session), *more],
            lock_timeout_ms=self._options.session_lock_timeout_ms,
        ) as tx:
            await guard.hold(
                tx, run.found.session, MAINTENANCE_TURN, run.token, now=self._clock.now()
            )
            yield tx

    async def _run_compaction(self, run: _Run) -> None:
        while True:
            async with self._step(run) as tx:
                moved = await self._compaction.step(tx, run.found.session)
            if not moved:
                return
            self._compaction.count_step()
            run.done["compacted_items"] += moved
            step_done()

    async def _expire(self, run: _Run) -> None:
        """Remove data older than the session's time to live, if it has one."""
        if run.policy.ttl_days is None:
            return
        before = expiry.cutoff(self._clock.now(), run.policy.ttl_days)
        fact_lock = index_lock(turn_index.new_facts(run.found.session, "").name)
        while True:
            async with self._step(run, fact_lock) as tx:
                counts = await expiry.step(tx, run.found.session, before, now=self._clock.now())
            run.done.update(counts)
            if not counts:
                return
            step_done()

    async def _expire_facts(self, run: _Run) -> None:
        for index in await self._fact_indexes(run):
            while True:
                now = self._clock.now()
                async with self._step(run, index_lock(index.name)) as tx:
                    expired = await facts.sweep(tx, index.number, now, limit=FACTS_A_STEP)
                    await expiry.forget_lines(tx, expired, now)
                    if expired:
                        await sessions.count(tx, run.found.session, {"expired_facts": len(expired)})
                run.done["expired_facts"] += len(expired)
                if not expired:
                    break
                step_done()

    async def _fact_indexes(self, run: _Run) -> list[TurnIndex]:
        """Return the fact indexes of the session and its user, plus expired ones."""
        async with self._database.begin(run.scope, read_only=True) as tx:
            others = await facts.expired_indexes(tx, run.found.session, self._clock.now())
        session_indexes = turn_index.facts(run.found.session, run.found.user_id)
        return list(dict.fromkeys([*session_indexes, *map(turn_index.named, others)]))

    async def _run_consolidation(self, run: _Run) -> None:
        locks = consolidation.locks(run.found)
        while True:
            async with self._step(run, *locks) as tx:
                indexes = turn_index.insights(run.found.session, run.found.user_id)
                removed = await consolidation.remove_invalid(
                    tx, run.found.session, indexes, now=self._clock.now()
                )
            run.done["insights_withdrawn"] += removed
            if not removed:
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
            paths = await raw_archive.archive_candidates(
                tx, session, run.policy, recent_items=recent_items, now=now
            )
        for path in paths:
            async with self._step(run) as tx:
                archive_result = await raw_archive.archive_events(tx, path, now=self._clock.now())
                if archive_result is not None:
                    counters = {"archived_files": 1, "archived_bytes": archive_result.raw_bytes}
                    await sessions.count(tx, session, counters)
                    run.done.update(counters)
            if archive_result is not None:
                step_done()

    async def _summarise(self, run: _Run) -> None:
        """Write the summaries that are older than the refresh interval and out of date."""
        fresh = timedelta(minutes=run.policy.summary.refresh_interval_minutes)
        async with self._step(run) as tx:
            written = await directory_index.refresh(
                tx, run.found.session, age_max=fresh, now=self._clock.now()
            )
            if written:
                await sessions.count(tx, run.found.session, {"summaries_written": written})
        run.done["summaries_written"] += written


def _result(done: Counter[str]) -> MaintenanceResult:
    return MaintenanceResult(True, *(done[field.name] for field in fields(MaintenanceResult)[1:]))
