"""Import of session folders: turns with their times and ids, facts with their history.

Written as turns are, to the same files and the same index, in many short transactions. Existing
data is left alone, so that an interrupted import continues when it is run again, and a repeated one
changes nothing."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from anyio import to_thread

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import fingerprint
from memsvc.core.ports import Clock, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import derived, guard, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.derived import Done
from memsvc.store.index import NewEntry
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.styles.turns import books, budget, layout
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.migration import legacy_facts, legacy_turns
from memsvc.styles.turns.migration.imported_facts import import_facts
from memsvc.styles.turns.migration.legacy import Broken, Kind, Reading
from memsvc.styles.turns.migration.legacy_facts import OldFact
from memsvc.styles.turns.migration.legacy_turns import OldTurn, OldTurns
from memsvc.styles.turns.migration.noted import noted, noted_file, noted_line
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import own_policy, policy_of
from memsvc.styles.turns.rebuild.rebuilding import Rebuilding
from memsvc.styles.turns.turn import entry_of

BATCH_EVENTS = 200
BATCH_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Imported:
    """Result of an import or its dry run.

    Counts by kind, places that could not be read, conflicting turns, which were left as they are,
    and unknown files."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


Advance = Callable[[int], None]
"""Callback with the number of further turns that were processed."""


class Importing:
    """Import of sessions that were kept elsewhere."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        tokens: TokenCounter,
        options: TurnOptions,
        follow_up: FollowUp,
        rebuilding: Rebuilding,
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = budget.Costs(tokens, options)
        self._options = options
        self._follow_up = follow_up
        self._rebuilding = rebuilding

    async def run(
        self, scope: Scope, session: str, reading: Reading, *, dry_run: bool = False, advance: Advance = lambda _: None
    ) -> Imported:
        """Import one session; what was written before an error stays."""
        now = self._clock.now()
        old = await to_thread.run_sync(legacy_turns.turns, reading, now)
        facts = legacy_facts.facts(reading, old.order, now)
        done = Imported(broken=reading.broken, unknown=reading.unknown)
        done.counts.update(_told(reading, old))
        async with self._database.begin(scope, read_only=True) as tx:
            before = await sessions.find(tx, session)
        if before is not None and not policy_of(before.policy, self._options).store:
            raise MemsvcError(Code.PERMISSION_DENIED, "the policy of this session is to store nothing")
        for batch in _batches(old.turns):
            await self._store(scope, session, batch, facts, done, dry_run=dry_run)
            advance(len(batch))
        bare = [turn for turn in legacy_turns.processed(reading) if turn not in old.order]
        await self._note(scope, session, bare, done, dry_run=dry_run)
        await self._policy(scope, session, reading, done, dry_run=dry_run)
        await self._learn(scope, session, facts, done, dry_run=dry_run)
        if old.turns and not dry_run:
            await self._put_in_order(scope, session)
        return done

    async def _put_in_order(self, scope: Scope, session: str) -> None:
        """Put turns in the order of their days.

        The need is derived from stored data, so that an import that failed to do it leaves it to
        the next one."""
        async with self._database.begin(scope, read_only=True) as tx:
            ordered = await derived.in_order(tx, session)
        if not ordered:
            await self._rebuilding.run(scope, session, renumber=True)

    async def _store(
        self,
        scope: Scope,
        session: str,
        batch: Sequence[OldTurn],
        facts: Sequence[OldFact],
        done: Imported,
        *,
        dry_run: bool,
    ) -> None:
        """Store the turns of a batch that are not stored yet."""
        learnt: dict[str, list[str]] = {}
        for fact in facts:
            learnt.setdefault(fact.turn, []).append(fact.fact_id)
        async with self._begin(scope, session, dry_run=dry_run) as tx:
            there = await derived.guards(tx, session, [turn.turn for turn in batch])
            fresh = []
            for turn in batch:
                held = there.get(turn.turn)
                if held is None:
                    fresh.append(turn)
                elif held.fingerprint in (_mark(turn), guard.ANY_CONTENT):
                    done.counts["turns_already_here"] += 1
                else:
                    done.conflicts.append(turn.turn)
            done.counts["turns"] += len(fresh)
            done.counts["items"] += sum(len(turn.events) for turn in fresh)
            if fresh and not dry_run:
                await self._write(tx, session, fresh, learnt)

    async def _write(self, tx: Tx, session: str, turns: Sequence[OldTurn], learnt: dict[str, list[str]]) -> None:
        now = self._clock.now()
        lines: dict[str, list[bytes]] = {}
        placed: list[tuple[str, int, OldTurn, int]] = []
        results = {turn.turn: _result(turn, learnt) for turn in turns}
        for turn in turns:
            path = layout.raw_events(session, turn.at)
            for at, event in enumerate(turn.events):
                last = at == len(turn.events) - 1
                line = layout.event_line(
                    event.event,
                    turn.turn,
                    turn.user,
                    event.way,
                    event.item,
                    event.said_at,
                    item_id=event.item_id,
                    result=results[turn.turn] if last else None,
                )
                placed.append((path, len(lines.setdefault(path, [])), turn, at))
                lines[path].append(line)
        journals = {path: b"".join(some) for path, some in lines.items()}
        spans = await append(tx, journals, owner=layout.OWNER, now=now)
        costs = await self._costs.counted([event.item for turn in turns for event in turn.events])
        entries: list[NewEntry] = []
        firsts: dict[str, int] = {}
        starts = {path: span.start for path, span in spans.items()}
        for path, number, turn, at in placed:
            event, line = turn.events[at], lines[path][number]
            firsts.setdefault(turn.turn, len(entries))
            place = (spans[path].stream, starts[path], len(line))
            entries.append(entry_of(event.event, event.item, place, costs, event.said_at))
            starts[path] += len(line)
        shelf = books.turns(session)
        first = (await index.add(tx, {shelf.name: entries}))[shelf.name]
        noted = [
            Done(turn.turn, _mark(turn), first + firsts[turn.turn], results[turn.turn], turn.events[-1].said_at)
            for turn in turns
        ]
        await derived.put_guards(tx, session, noted)
        await self._count(tx, session, turns, len(entries), sum(len(one["fact_ids"]) for one in results.values()))
        await self._follow_up.queue(tx, session, first=first, items=len(entries), books=[shelf.number])

    async def _count(self, tx: Tx, session: str, turns: Sequence[OldTurn], items: int, learnt: int) -> None:
        found = await sessions.find(tx, session)
        held = found.counters if found else {}
        latest = turns[-1]
        newer = found is None or found.updated_at <= latest.events[-1].said_at
        users = [turn.user for turn in turns if turn.user]
        await derived.put_session(
            tx,
            session,
            derived.Count(
                user_id=(users[-1] if users and (newer or found is None) else found.user_id if found else ""),
                latest_turn=latest.turn if found is None or newer else found.latest_turn,
                turns=(found.turns if found else 0) + len(turns),
                counters={"items": held.get("items", 0) + items, "facts": held.get("facts", 0) + learnt},
                created_at=min(turns[0].at, found.created_at) if found else turns[0].at,
                updated_at=max(latest.events[-1].said_at, found.updated_at) if found else latest.events[-1].said_at,
                shared=(found is not None and found.shared) or len({*users, found.user_id if found else ""} - {""}) > 1,
            ),
        )

    async def _note(self, scope: Scope, session: str, turns: Sequence[str], done: Imported, *, dry_run: bool) -> None:
        """Mark turns as stored of which the folder has only the id; a retry stores nothing."""
        now = self._clock.now()
        for start in range(0, len(turns), BATCH_EVENTS):
            async with self._begin(scope, session, dry_run=dry_run) as tx:
                some = turns[start : start + BATCH_EVENTS]
                there = await derived.guards(tx, session, some)
                fresh = [turn for turn in some if turn not in there]
                done.counts["turns_noted"] += len(fresh)
                if fresh and not dry_run:
                    lines = b"".join(noted_line(turn, now) for turn in fresh)
                    await append(tx, {noted_file(session): lines}, owner=layout.OWNER, now=now)
                    await derived.put_guards(tx, session, [noted(turn, now) for turn in fresh])

    async def _learn(
        self, scope: Scope, session: str, facts: Sequence[OldFact], done: Imported, *, dry_run: bool
    ) -> None:
        """Import the facts that are not stored yet, one user after the other."""
        async with self._database.begin(scope, read_only=True) as tx:
            found = await sessions.find(tx, session)
        policy = policy_of(found.policy if found else None, self._options)
        for user in sorted({fact.user for fact in facts}):
            own = [fact for fact in facts if fact.user == user]
            locks = [book_lock(book.name) for book in books.facts(session, user)]
            async with self._database.begin(
                scope,
                locks=[] if dry_run else [session_lock(session), *locks],
                lock_timeout_ms=self._options.session_lock_timeout_ms,
                read_only=dry_run,
                lasting=True,
            ) as tx:
                counts, shelf = await import_facts(
                    tx, session, user, own, policy.expires_at, now=self._clock.now(), dry_run=dry_run
                )
                done.counts.update(counts)
                if shelf is not None:
                    await self._follow_up.queue(tx, session, first=0, items=0, books=[shelf])

    async def _policy(self, scope: Scope, session: str, reading: Reading, done: Imported, *, dry_run: bool) -> None:
        """Import the folder's policy where it differs from the options, if the session has none."""
        for record in reading.of(Kind.POLICY)[-1:]:
            try:
                own = own_policy(orjson.dumps(record.body), self._options)
            except MemsvcError:
                reading.broken.append(Broken(record.file, record.line, "not a policy"))
                return
            async with self._begin(scope, session, dry_run=dry_run) as tx:
                found = await sessions.find(tx, session)
                if own and found is not None and found.policy is None:
                    done.counts["policies"] += 1
                    if not dry_run:
                        await sessions.set_policy(tx, session, own, now=found.updated_at)

    def _begin(self, scope: Scope, session: str, *, dry_run: bool) -> Any:
        if dry_run:
            return self._database.begin(scope, read_only=True)
        wait_ms = self._options.session_lock_timeout_ms
        return self._database.begin(scope, locks=[session_lock(session)], lock_timeout_ms=wait_ms)


def _batches(turns: Sequence[OldTurn]) -> Iterator[list[OldTurn]]:
    batch: list[OldTurn] = []
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


def _mark(turn: OldTurn) -> bytes:
    return fingerprint([turn.items("in"), turn.items("out")])


def _result(turn: OldTurn, learnt: dict[str, list[str]]) -> dict[str, Any]:
    fact_ids = list(dict.fromkeys(learnt.get(turn.turn, [])))
    return {"turn_id": turn.turn, "stored_items": len(turn.events), "fact_ids": fact_ids}


def _told(reading: Reading, old: OldTurns) -> dict[str, int]:
    """Return counts of what was read but not imported, by reason."""
    told = {
        "files": reading.files,
        "events_repeated": old.repeated,
        "events_conflicting": old.conflicting,
        "memory_blocks_left_out": old.memory_blocks,
        "summaries_left_out": old.summaries,
        "turns_renamed": old.renamed,
    }
    return {name: count for name, count in told.items() if count}
