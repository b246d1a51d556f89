"""Maintenance of a session, safe to run at any time.

Summarises older context, archives old events, removes expired facts, derives insights and writes
summaries of directories."""

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from memsvc.core.call_context import step_done
from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.scope import Permission, Scope
from memsvc.core.time_references import midnight
from memsvc.core.tools import SILENT, Job, ProgressCallback
from memsvc.store import context, facts, files, index, jobs, sessions, tree
from memsvc.store.database import Tx
from memsvc.store.locks import TREE_LOCK, index_lock
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import fact_file, is_of, session_root
from memsvc.styles.turns.maintenance import consolidation, directories, raw_archive
from memsvc.styles.turns.maintenance.claim import MaintenanceClaim, claimed
from memsvc.styles.turns.maintenance.compaction import Compaction, current_summary, replace_summary
from memsvc.styles.turns.policy import SessionPolicy, policy_of
from memsvc.styles.turns.turn_index import TurnIndex
from memsvc.styles.turns.turn_models import (
    MaintenanceResult,
    SessionId,
    turn_tool,
)

STEP: Final = 500

_DAY: Final = re.compile(r"/(\d{4})/(\d\d)/(\d\d)/[^/]+\Z")
_SUMMARY_LINE: Final = re.compile(r"- (\d{4}-\d\d-\d\d) ")

FACTS_A_STEP = 500
MAINTAIN_JOB: Final = "turns.maintain"
MAINTAIN_ALL_JOB: Final = "turns.maintain_all"
EXPIRE_JOB: Final = "turns.expire"
EXPIRE_INTERVAL_S: Final = 3600
SESSIONS_A_STEP = 200
SETTLE_DAYS_MIN: Final = 2
STEPS: Final = ("compacting", "expiring", "sweeping", "consolidating", "archiving", "summarising")
"""Phases of a run, in this order."""


def cutoff(now: datetime, ttl_days: int) -> datetime:
    """Return midnight UTC this many days ago: older data has expired."""
    return midnight(now) - timedelta(days=ttl_days)


async def expire_step(tx: Tx, session: str, before: datetime, *, now: datetime) -> Counter[str]:
    """Remove some of a session's data from before this time; return counts, nothing when done.

    Facts of its own and their lines, items and their events, summaries and insights of those days.
    Facts about a user are shared with other sessions, and stay. The caller holds the locks of the
    session and of its own fact index."""
    counts: Counter[str] = Counter()
    expired_facts = await facts.remove_before(
        tx, turn_index.new_facts(session, "").number, before, limit=STEP
    )
    await forget_lines(tx, expired_facts, now)
    counts["expired_facts"] = len(expired_facts)
    index_id = turn_index.turns(session).number
    old = await context.written_before(tx, session, index_id, before, limit=STEP)
    await index.remove(tx, index_id, old, searched_elsewhere=True)
    counts["expired_items"] = len(old)
    if not old:  # files are deleted when no entry refers to their lines any more
        await _delete_days(tx, session, before, now)
        await _shorten_summary(tx, session, before, now)
    counts = +counts
    if counts:
        await sessions.count(tx, session, counts)
    return counts


async def forget_lines(tx: Tx, gone: Sequence[Fact], now: datetime) -> None:
    """Remove the lines of these facts from their tier files; an empty file is deleted."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for fact in gone:
        path = fact_file(fact)
        by_file[path].add(fact.statement.record)
    for path, records in sorted(by_file.items()):
        file = await files.find(tx, path, for_update=True)
        if file is None:
            continue
        lines = (await files.read(tx, file)).splitlines(keepends=True)
        kept = b"".join(line for line in lines if not is_of(line, records))
        if kept:
            await files.rewrite(tx, file, kept, is_text=True, now=now)
        else:
            await tx.lock(TREE_LOCK)
            await files.delete(tx, path, now=now, keep_style_files=False)


async def _delete_days(tx: Tx, session: str, before: datetime, now: datetime) -> None:
    for place in ("events/raw", "events/archive", "events/compact", "insights"):
        for path in await tree.files_at(
            tx, f"{session_root(session)}/{place}", after="", limit=STEP
        ):
            found = _DAY.search(path)
            if found is not None and "-".join(found.groups()) < f"{before:%Y-%m-%d}":
                await tx.lock(TREE_LOCK)
                await files.delete(tx, path, recursive=False, now=now, keep_style_files=False)


async def _shorten_summary(tx: Tx, session: str, before: datetime, now: datetime) -> None:
    current = await current_summary(tx, session)
    if current is None:
        return
    lines = current.text.splitlines()
    kept = [
        line
        for line in lines
        if (day := _SUMMARY_LINE.match(line)) and day[1] >= f"{before:%Y-%m-%d}"
    ]
    if kept != lines:
        await replace_summary(tx, session, current.event, "\n".join(kept), now=now)


@frozen
class _Run:
    """A run in progress: its session, its claim, and its counts so far."""

    claim: MaintenanceClaim
    found: StoredSession
    policy: SessionPolicy
    done: Counter[str]


@frozen
class SessionMaintenance:
    """Runs in short transactions, each of which verifies the run's claim.

    A run that was killed or overtaken leaves nothing half done, and the next one continues there.
    Counts are stored with each step. A time slice ends only after a step that changed something:
    else a run of slow checks would restart for ever."""

    compaction: Compaction

    def jobs(self) -> list[Job]:
        """Return the jobs that maintain a session and queue maintenance.

        One queues it where a policy has a time to live, and optionally one for all sessions."""
        result = [
            Job(MAINTAIN_JOB, self._maintain),
            Job(EXPIRE_JOB, self.queue_expiry, interval_s=EXPIRE_INTERVAL_S),
        ]
        if hours := self.compaction.options.maintenance_every_hours:
            result.append(Job(MAINTAIN_ALL_JOB, self.queue_all, interval_s=hours * 3600))
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
        session_id: SessionId = "",
    ) -> MaintenanceResult:
        """Call about once a day, or when idle.

        Summarises older context, archives old events, deletes expired facts. Safe to repeat."""
        async with self.compaction.database.begin_read(scope) as tx:
            found = await sessions.find(tx, session_id)
        done: Counter[str] = Counter()
        if found is None:
            return _result(done)
        at = self.compaction
        async with claimed(at.database, at.clock, at.options, scope, session_id) as claim:
            run = _Run(claim, found, policy_of(found.policy, self.compaction.options), done)
            parts = (
                self._run_compaction,
                self._expire,
                self._expire_facts,
                self._run_consolidation,
                self._archive,
                self._summarise,
            )
            for number, part in enumerate(parts):
                progress.report(number, len(parts), STEPS[number])
                await part(run)
            progress.report(len(parts), len(parts))
            async with claim.step() as tx:
                await sessions.set_maintenance_time(
                    tx,
                    session_id,
                    counters={"maintenance_runs": 1},
                    now=self.compaction.clock.now(),
                )
        return _result(done)

    async def queue_all(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance for every session of the project that may need it."""
        del subject
        policy = policy_of(None, self.compaction.options)
        days = max(policy.tiers.L1.retention_days, policy.tiers.L2.retention_days, SETTLE_DAYS_MIN)
        settle_time = timedelta(days=days, hours=policy.compaction.min_shard_age_hours + 24)
        await self._queue(
            scope, partial(sessions.list_pending_maintenance, settle_time=settle_time)
        )

    async def queue_expiry(self, scope: Scope, subject: str) -> None:
        """Job: queue maintenance daily for sessions whose policy has a time to live.

        At midnight UTC another day expires."""
        del subject
        await self._queue(
            scope, partial(sessions.with_expiry, since=cutoff(self.compaction.clock.now(), 0))
        )

    async def _queue(
        self, scope: Scope, list_sessions: Callable[..., Awaitable[Sequence[str]]]
    ) -> None:
        after = ""
        while True:
            async with self.compaction.database.begin(scope) as tx:
                session_names = await list_sessions(tx, after=after, limit=SESSIONS_A_STEP)
                for session in session_names:
                    await jobs.enqueue(tx, MAINTAIN_JOB, session, now=self.compaction.clock.now())
            if not session_names:
                return
            after = session_names[-1]

    async def _maintain(self, scope: Scope, subject: str) -> None:
        await self.run(scope, session_id=subject)

    async def _run_compaction(self, run: _Run) -> None:
        while True:
            async with run.claim.step() as tx:
                moved = await self.compaction.step(tx, run.found.session)
            if not moved:
                return
            self.compaction.count_step()
            run.done["compacted_items"] += moved
            step_done()

    async def _expire(self, run: _Run) -> None:
        """Remove data older than the session's time to live, if it has one."""
        if run.policy.ttl_days is None:
            return
        before = cutoff(self.compaction.clock.now(), run.policy.ttl_days)
        fact_lock = index_lock(turn_index.new_facts(run.found.session, "").name)
        while True:
            async with run.claim.step(fact_lock) as tx:
                counts = await expire_step(
                    tx, run.found.session, before, now=self.compaction.clock.now()
                )
            run.done.update(counts)
            if not counts:
                return
            step_done()

    async def _expire_facts(self, run: _Run) -> None:
        for fact_index in await self._fact_indexes(run):
            while True:
                now = self.compaction.clock.now()
                async with run.claim.step(index_lock(fact_index.name)) as tx:
                    expired = await facts.sweep(tx, fact_index.number, now, limit=FACTS_A_STEP)
                    await forget_lines(tx, expired, now)
                    if expired:
                        await sessions.count(tx, run.found.session, {"expired_facts": len(expired)})
                run.done["expired_facts"] += len(expired)
                if not expired:
                    break
                step_done()

    async def _fact_indexes(self, run: _Run) -> list[TurnIndex]:
        """Return the fact indexes of the session and its user, plus expired ones."""
        async with self.compaction.database.begin_read(run.claim.scope) as tx:
            others = await facts.expired_indexes(tx, run.found.session, self.compaction.clock.now())
        session_indexes = turn_index.facts(run.found.session, run.found.user_id)
        return list(dict.fromkeys([*session_indexes, *map(turn_index.named, others)]))

    async def _run_consolidation(self, run: _Run) -> None:
        locks = consolidation.locks(run.found)
        while True:
            async with run.claim.step(*locks) as tx:
                indexes = turn_index.insights(run.found.session, run.found.user_id)
                removed = await consolidation.remove_invalid(
                    tx, run.found.session, indexes, now=self.compaction.clock.now()
                )
            run.done["insights_withdrawn"] += len(removed)
            if not removed:
                break
            step_done()
        while True:
            async with run.claim.step(*locks) as tx:
                written, left = await consolidation.step(
                    tx, run.found, now=self.compaction.clock.now()
                )
            run.done["insights_written"] += written
            if not left:
                return
            step_done()

    async def _archive(self, run: _Run) -> None:
        if not run.policy.compaction.enabled:
            return
        recent_items, session = self.compaction.options.recent_context_items, run.found.session
        async with self.compaction.database.begin_read(run.claim.scope) as tx:
            now = self.compaction.clock.now()
            paths = await raw_archive.archive_candidates(
                tx, session, run.policy, recent_items=recent_items, now=now
            )
        for path in paths:
            async with run.claim.step() as tx:
                raw_bytes = await raw_archive.archive_events(
                    tx, path, now=self.compaction.clock.now()
                )
                if raw_bytes is not None:
                    counters = {"archived_files": 1, "archived_bytes": raw_bytes}
                    await sessions.count(tx, session, counters)
                    run.done.update(counters)
            if raw_bytes is not None:
                step_done()

    async def _summarise(self, run: _Run) -> None:
        """Write the summaries that are older than the refresh interval and out of date."""
        fresh = timedelta(minutes=run.policy.summary.refresh_interval_minutes)
        async with run.claim.step() as tx:
            written = await directories.refresh(
                tx, run.found.session, age_max=fresh, now=self.compaction.clock.now()
            )
            if written:
                await sessions.count(tx, run.found.session, {"summaries_written": written})
        run.done["summaries_written"] += written


def _result(done: Counter[str]) -> MaintenanceResult:
    return MaintenanceResult(True, *(done[field.name] for field in fields(MaintenanceResult)[1:]))
