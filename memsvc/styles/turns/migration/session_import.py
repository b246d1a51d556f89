"""Import of session folders: turns with their times and ids, facts with their history.

Written as turns are, to the same files and the same index, in many short transactions. Existing
data is left alone, so that an interrupted import continues when it is run again, and a repeated one
changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Annotated, Any

import orjson
from anyio import to_thread
from pydantic import BeforeValidator

from memsvc.core.errors import MemsvcError, invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.items import canonical, fingerprint
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import ProgressCallback
from memsvc.store import derived, guard, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.derived import DoneTurn
from memsvc.store.locks import Lock, index_lock, session_lock
from memsvc.store.sessions import StoredSession
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.migration import legacy, legacy_facts
from memsvc.styles.turns.migration.legacy import (
    InvalidRecord,
    LegacyKind,
    LegacyRecords,
    OldTurn,
    placeholder_file,
    placeholder_guard,
    placeholder_line,
)
from memsvc.styles.turns.migration.legacy_facts import OldFact, import_facts
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import policy_of, policy_overrides
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from memsvc.styles.turns.session_placement import SessionPlacement
from memsvc.styles.turns.turn_items import TurnItem, entry_of, read_changes
from memsvc.styles.turns.turn_models import SessionId

BATCH_EVENTS = 120
BATCH_BYTES = 4 * 1024 * 1024

FILES_MAX = 200


@frozen
class ImportReport:
    """Result of an import or its dry run.

    Places that could not be read, unknown files, counts by kind, and conflicting turns, which were
    left as they are."""

    broken: list[InvalidRecord]
    unknown: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)


ImportProgress = Callable[[int], None]
"""Callback with the number of further turns that were processed."""


@frozen
class _Run:
    """The import of one session into a project, and its result; a dry run only counts."""

    scope: Scope
    session: str
    report: ImportReport
    dry_run: bool


@frozen
class SessionImport:
    """Import of sessions that were kept elsewhere."""

    database: Database
    clock: Clock
    costs: Costs
    options: TurnOptions
    follow_up: FollowUp
    rebuilding: TurnRebuild

    async def run(
        self,
        scope: Scope,
        session: str,
        records: LegacyRecords,
        *,
        dry_run: bool = False,
        on_progress: ImportProgress = lambda _: None,
    ) -> ImportReport:
        """Import one session; what was written before an error stays."""
        now = self.clock.now()
        old_turns = await to_thread.run_sync(legacy.turns, records, now)
        facts = legacy_facts.facts_of(records, session, old_turns.order, now)
        facts_by_turn: dict[str, list[str]] = {}
        for fact in facts:
            statement = fact.statement
            facts_by_turn.setdefault(statement.evidence.turn, []).append(statement.fact_id)
        report = ImportReport(records.broken, records.unknown)
        report.counts.update(old_turns.counts)
        report.counts["files"] = records.files
        run = _Run(scope, session, report, dry_run)
        async with self.database.begin_read(scope) as tx:
            before = await sessions.find(tx, session)
        if before is not None and not policy_of(before.policy, self.options).store:
            raise permission_denied(
                "the policy of this session does not allow anything to be stored"
            )
        for batch in _batches(old_turns.turns):
            await self._store(run, batch, facts_by_turn)
            on_progress(len(batch))
        stored_only = [turn for turn in legacy.processed(records) if turn not in old_turns.order]
        await self._mark_stored(run, stored_only)
        await self._policy(run, records)
        await self._import_facts(run, facts)
        if old_turns.turns and not dry_run:
            # derived from stored data: an import that failed to do it leaves it to the next one
            async with self.database.begin_read(scope) as tx:
                ordered = await derived.in_order(tx, session)
            if not ordered:
                await self.rebuilding.run(scope, session, renumber=True)
        return report

    async def _store(
        self, run: _Run, batch: Sequence[OldTurn], facts_by_turn: dict[str, list[str]]
    ) -> None:
        """Store the turns of a batch that are not stored yet."""
        session, report = run.session, run.report
        async with self._begin(run) as tx:
            guard_by_turn = await derived.done_turns(tx, session, [turn.turn for turn in batch])
            new_turns = []
            for turn in batch:
                existing = guard_by_turn.get(turn.turn)
                if existing is None:
                    new_turns.append(turn)
                elif existing.fingerprint in (_content_hash(turn), guard.ANY_CONTENT):
                    report.counts["turns_already_here"] += 1
                else:
                    report.conflicts.append(turn.turn)
            report.counts["turns"] += len(new_turns)
            report.counts["items"] += sum(len(turn.events) for turn in new_turns)
            if new_turns and not run.dry_run:
                await self._write(tx, session, new_turns, facts_by_turn)

    async def _write(
        self, tx: Tx, session: str, turns: Sequence[OldTurn], facts_by_turn: dict[str, list[str]]
    ) -> None:
        now = self.clock.now()
        content_by_path = defaultdict[str, bytearray](bytearray)
        places = []
        results = {turn.turn: _result(turn, facts_by_turn) for turn in turns}
        for turn in turns:
            path = file_layout.raw_events(session, turn.at)
            for event in turn.events:
                line = file_layout.event_line(
                    event.event,
                    turn.turn,
                    turn.user,
                    event.direction,
                    event.item,
                    event.message_at,
                    item_id=event.item_id,
                    result=results[turn.turn] if event is turn.events[-1] else None,
                )
                places.append((path, len(content_by_path[path]), len(line)))
                content_by_path[path] += line
        contents = {path: bytes(content) for path, content in content_by_path.items()}
        spans = await append(tx, contents, owner=file_layout.OWNER, now=now)
        events = [event for turn in turns for event in turn.events]
        items = [TurnItem.of(event.item) for event in events]
        items = await read_changes(await self.costs.counted(items))
        entries = [
            entry_of(
                event.event,
                item,
                (spans[path].stream, spans[path].start + start, size_bytes),
                self.costs.text_chars_max,
                event.message_at,
            )
            for event, item, (path, start, size_bytes) in zip(events, items, places, strict=True)
        ]
        found = await sessions.find(tx, session)
        first = await self._index(tx, session, found, turns, entries)
        done_turns = []
        stop = first
        for turn in turns:
            ended_at = turn.events[-1].message_at
            done_turns.append(
                DoneTurn(turn.turn, _content_hash(turn), stop, results[turn.turn], ended_at)
            )
            stop += len(turn.events)
        await derived.put_done_turns(tx, session, done_turns)
        await self._count(
            tx,
            session,
            found,
            turns,
            len(entries),
            sum(len(turn_result["fact_ids"]) for turn_result in results.values()),
        )
        await self.follow_up.queue(tx, session, first=first, items=len(entries))

    async def _index(
        self,
        tx: Tx,
        session: str,
        found: StoredSession | None,
        turns: Sequence[OldTurn],
        entries: Sequence[index.NewEntry],
    ) -> int:
        """Add the items of turns to the session; return the first entry."""
        search_index = await SessionPlacement(
            self.database, self.clock, self.options
        ).index_of_items(
            tx,
            session,
            [turn.user for turn in turns],
            owner=found.user_id if found else "",
            shared=found is not None and found.shared,
            has_items=found is not None and found.turns > 0,
        )
        name = turn_index.turns(session).name
        search_names = {name: search_index.name}
        first_entries = await index.add(tx, {name: entries}, search_names=search_names)
        return first_entries[name]

    async def _count(
        self,
        tx: Tx,
        session: str,
        found: StoredSession | None,
        turns: Sequence[OldTurn],
        items: int,
        fact_count: int,
    ) -> None:
        latest, ended_at = turns[-1], turns[-1].events[-1].message_at
        users = [turn.user for turn in turns if turn.user]
        counters = {"items": items, "facts": fact_count}
        if found is None:
            counts = derived.SessionCounts(
                users[-1] if users else "",
                latest.turn,
                len(turns),
                counters,
                turns[0].at,
                ended_at,
                len(set(users)) > 1,
            )
        else:
            is_latest = found.updated_at <= ended_at
            counts = derived.SessionCounts(
                users[-1] if users and is_latest else found.user_id,
                latest.turn if is_latest else found.latest_turn,
                found.turns + len(turns),
                {name: found.counters.get(name, 0) + count for name, count in counters.items()},
                min(turns[0].at, found.created_at),
                max(ended_at, found.updated_at),
                found.shared or len({*users, found.user_id} - {""}) > 1,
            )
        await derived.put_session(tx, session, counts)

    async def _mark_stored(self, run: _Run, turns: Sequence[str]) -> None:
        """Mark turns as stored of which the folder has only the id; a retry stores nothing."""
        now, session = self.clock.now(), run.session
        for start in range(0, len(turns), BATCH_EVENTS):
            async with self._begin(run) as tx:
                batch = turns[start : start + BATCH_EVENTS]
                guard_by_turn = await derived.done_turns(tx, session, batch)
                new_turns = [turn for turn in batch if turn not in guard_by_turn]
                run.report.counts["turns_noted"] += len(new_turns)
                if new_turns and not run.dry_run:
                    lines = b"".join(placeholder_line(turn, now) for turn in new_turns)
                    await append(
                        tx, {placeholder_file(session): lines}, owner=file_layout.OWNER, now=now
                    )
                    await derived.put_done_turns(
                        tx, session, [placeholder_guard(turn, now) for turn in new_turns]
                    )

    async def _import_facts(self, run: _Run, facts: Sequence[OldFact]) -> None:
        """Import the facts that are not stored yet, one user after the other."""
        session = run.session
        async with self.database.begin_read(run.scope) as tx:
            found = await sessions.find(tx, session)
        policy = policy_of(found.policy if found else None, self.options)
        for user in sorted({fact.statement.evidence.user for fact in facts}):
            user_facts = [fact for fact in facts if fact.statement.evidence.user == user]
            locks = [
                index_lock(target_index.name) for target_index in turn_index.facts(session, user)
            ]
            async with self._begin(run, *locks, long_running=True) as tx:
                counts = await import_facts(
                    tx,
                    session,
                    user,
                    user_facts,
                    policy.expires_at,
                    now=self.clock.now(),
                    dry_run=run.dry_run,
                )
                run.report.counts.update(counts)
                await self.follow_up.queue(tx, session, first=0, items=0)

    async def _policy(self, run: _Run, records: LegacyRecords) -> None:
        """Import the folder's policy where it differs from the options, if the session has none."""
        for record in records.of(LegacyKind.POLICY)[-1:]:
            try:
                overrides = policy_overrides(orjson.dumps(record.body), self.options)
            except MemsvcError:
                records.broken.append(
                    InvalidRecord(record.file, record.line, "the record is not a valid policy")
                )
                return
            async with self._begin(run) as tx:
                found = await sessions.find(tx, run.session)
                if overrides and found is not None and found.policy is None:
                    run.report.counts["policies"] += 1
                    if not run.dry_run:
                        await sessions.set_policy(tx, run.session, overrides, now=found.updated_at)

    def _begin(
        self, run: _Run, *locks: Lock, long_running: bool = False
    ) -> AbstractAsyncContextManager[Tx]:
        return self.database.begin(
            run.scope,
            locks=[] if run.dry_run else [session_lock(run.session), *locks],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
            read_only=run.dry_run,
            long_running=long_running,
        )


def _batches(turns: Sequence[OldTurn]) -> Iterator[list[OldTurn]]:
    batch = []
    events = size_bytes = 0
    for turn in turns:
        batch.append(turn)
        events += len(turn.events)
        size_bytes += sum(len(orjson.dumps(event.item)) for event in turn.events)
        if events >= BATCH_EVENTS or size_bytes >= BATCH_BYTES:
            yield batch
            batch, events, size_bytes = [], 0, 0
    if batch:
        yield batch


def _content_hash(turn: OldTurn) -> bytes:
    return fingerprint([list(map(canonical, turn.items(side))) for side in ("in", "out")])


def _result(turn: OldTurn, facts_by_turn: dict[str, list[str]]) -> dict[str, Any]:
    fact_ids = list(dict.fromkeys(facts_by_turn.get(turn.turn, [])))
    return {"turn_id": turn.turn, "stored_items": len(turn.events), "fact_ids": fact_ids}


def _checked_files(value: Any) -> Any:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise invalid("files must be an object with file names as keys and texts as values")
    if not 0 < len(value) <= FILES_MAX:
        raise invalid(f"the argument files must have 1 to {FILES_MAX} entries")
    return {legacy.check_name(name): text for name, text in value.items()}


@result
class SessionImportResult:
    ok: Annotated[bool, "true if everything that could be read was imported"]
    counts: Annotated[dict[str, int], "number of imported, existing and skipped records, by kind"]
    broken: Annotated[list[legacy.InvalidRecord], "the first lines or files that could not be read"]
    broken_count: Annotated[int, "number of lines or files that could not be read"]
    conflicts: Annotated[
        list[str],
        "ids of turns that are already stored with different items; these turns were"
        " left unchanged",
    ]
    unknown_files: Annotated[list[str], "files that do not belong to a session"]


def import_result(report: ImportReport) -> SessionImportResult:
    """Return the result of an import."""
    return SessionImportResult(
        True,
        dict(sorted((+report.counts).items())),
        report.broken[: legacy.REPORT_LIMIT],
        len(report.broken),
        report.conflicts,
        report.unknown,
    )


@frozen
class ImportTools:
    """The tool that imports a session."""

    session_import: SessionImport

    @tool(
        "memory_import_session",
        "Import a session",
        Permission.WRITE,
        toolset="turns",
        idempotent=True,
        logs=("session_id",),
    )
    async def run(
        self,
        scope: Scope,
        progress: ProgressCallback,
        *,
        session_id: SessionId = "",
        files: Annotated[
            dict[str, str],
            BeforeValidator(_checked_files),
            "texts of the session's files, with paths such as log.jsonl as keys",
        ],
        dry_run: Annotated[bool, "only report what would be imported"] = False,
    ) -> SessionImportResult:
        """Import a session that a client stored itself.

        Pass its files in memsvc's layout, or log.jsonl, context.jsonl, memory_facts.jsonl,
        meta.json. Importing twice changes nothing."""
        contents = {name: text.encode("utf-8", "replace") for name, text in files.items()}
        records = await to_thread.run_sync(legacy.read, contents)
        turns = 0

        def add_progress(more: int) -> None:
            nonlocal turns
            turns += more
            progress.report(turns, step="turns")

        return import_result(
            await self.session_import.run(
                scope, session_id, records, dry_run=dry_run, on_progress=add_progress
            )
        )
