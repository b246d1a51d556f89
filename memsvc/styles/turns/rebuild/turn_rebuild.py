"""Rebuild of rows derived from a session's files: a check that also repairs.

Correct rows stay, so that memory is never empty in between, and a killed rebuild is simply run
again. Each step is one transaction: a file of events, the index entries, the facts of an index.
Data written between two steps is kept: the last file and what follows from all files are one
step."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Final

from memsvc.core.errors import resource_busy
from memsvc.core.items import canonical, fingerprint
from memsvc.core.paths import decode_segment
from memsvc.core.ports import Clock, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import (
    derived,
    derived_index,
    files,
    guard,
    sessions,
    tree,
)
from memsvc.store.database import Database, Tx
from memsvc.store.derived import DoneTurn, FileSize, SessionCounts
from memsvc.store.derived_index import ExpectedEntries, compare_index
from memsvc.store.locks import index_lock
from memsvc.store.sessions import ENTRY_MAX, StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.file_layout import ROOT, turn_of
from memsvc.styles.turns.maintenance.claim import MaintenanceClaim, claimed
from memsvc.styles.turns.maintenance.raw_archive import (
    FILES_A_PAGE,
    EventFile,
    EventLine,
    event_files,
    forgotten_turns,
    lines_of,
    redacted_items,
)
from memsvc.styles.turns.migration.legacy import (
    empty_result,
    placeholder_file,
    read_placeholder_lines,
)
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilt_facts import compare_facts, users_of
from memsvc.styles.turns.session_placement import SessionPlacement
from memsvc.styles.turns.turn_index import TurnIndex
from memsvc.styles.turns.turn_items import TurnItem, entry_of, read_changes

ATTEMPTS_MAX: Final = 5
"""Attempts to read a session whose older files change meanwhile."""

DifferenceCounts = Counter[str]
"""Rows that differ from the files, by table."""


class WalkStatus(Enum):
    """State after a step. CONFLICT: files that it depends on changed, so it has to start again."""

    MORE = "more"
    DONE = "done"
    CONFLICT = "conflict"


@dataclass(slots=True)
class Walk:
    """Position of a rebuild, after the file `after`, and its results so far.

    `read` are the files that were read, by path: a change of one invalidates the whole walk."""

    refs: dict[str, int]
    forgotten: set[str]
    redacted: dict[str, int]
    after: EventFile | None = None
    read: dict[str, FileSize] = field(default_factory=dict)
    stop: int = 0
    users: list[str] = field(default_factory=list)
    turns: dict[str, DoneTurn] = field(default_factory=dict)
    items: int = 0
    facts: int = 0
    created_at: datetime | None = None

    def number(self, ref: str) -> int:
        """Return the number of the next entry: its existing one, unless that is out of order."""
        return max(self.refs.get(ref, -1), self.stop)


def _done(turn: str, lines_by_number: Sequence[tuple[int, EventLine]]) -> DoneTurn:
    """Return the guard of a turn, from its lines."""
    inputs = [canonical(line.item) for _, line in lines_by_number if line.direction == "in"]
    output_items = [canonical(line.item) for _, line in lines_by_number if line.direction == "out"]
    last = lines_by_number[-1][1]
    return DoneTurn(
        turn,
        fingerprint([inputs, output_items]),
        lines_by_number[0][0],
        last.result,
        last.message_at,
    )


def _with_result(turn_guard: DoneTurn, existing: DoneTurn | None) -> DoneTurn:
    """Return a guard with a result.

    Lines without one keep the existing result, or a minimal one."""
    if turn_guard.result is not None:
        return turn_guard
    return replace(
        turn_guard, result=existing.result if existing else empty_result(turn_guard.turn)
    )


def _as_forgotten(turn_guard: DoneTurn, walk: Walk) -> DoneTurn:
    """Return the guard of a turn as it is when it, or something of it, was forgotten."""
    if turn_guard.turn in walk.forgotten:
        return replace(
            turn_guard, fingerprint=guard.ANY_CONTENT, result=dict(guard.FORGOTTEN_RESULT)
        )
    if turn_guard.turn in {turn_of(event) for event in walk.redacted}:
        return replace(turn_guard, fingerprint=guard.ANY_CONTENT)
    return turn_guard


def _session_counts(
    walk: Walk, by_turn: dict[str, DoneTurn], before: StoredSession | None
) -> SessionCounts | None:
    """Return the session's row according to the files; None when they hold no turn.

    Where days of it were removed, the totals stay as they were `before`."""
    stored = [
        turn_guard for turn_guard in by_turn.values() if turn_guard.fingerprint != guard.ANY_CONTENT
    ]
    if not stored or walk.created_at is None:
        return None
    counters = {
        "items": walk.items,
        "facts": sum(len(turn_guard.result["fact_ids"]) for turn_guard in stored),
    }
    return SessionCounts(
        user_id=walk.users[-1] if walk.users else before.user_id if before else "",
        latest_turn=stored[-1].turn,
        turns=before.turns if before else len(stored),
        counters={name: before.counters.get(name, 0) for name in counters} if before else counters,
        created_at=before.created_at if before else walk.created_at,
        updated_at=max(turn_guard.at for turn_guard in stored),
        shared=len(set(walk.users)) > 1 or (before is not None and before.shared),
    )


class TurnRebuild:
    """Compares derived rows with their source files, and repairs them."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        tokens: TokenCounter,
        options: TurnOptions,
    ) -> None:
        self._placement = SessionPlacement(database, clock, options)
        self._database = database
        self._clock = clock
        self._costs = Costs(tokens, options)
        self._options = options

    async def sessions(self, scope: Scope) -> list[str]:
        """Return every session of a project that has files."""
        found = []
        last = ""
        async with self._database.begin_read(scope) as tx:
            while page := await tree.walk(tx, ROOT, depth=1, after=last, limit=FILES_A_PAGE):
                names = [row["path"].split("/")[2] for row in page]
                found += [name for name in map(decode_segment, names) if name is not None]
                last = f"{ROOT}/{names[-1]}/~"
        return list(dict.fromkeys(found))

    async def users(self, scope: Scope) -> dict[str, list[str]]:
        """Return the users of a project, and the sessions that they or facts of them are in."""
        found: dict[str, list[str]] = {}
        for session in await self.sessions(scope):
            async with self._database.begin_read(scope) as tx:
                row = await sessions.find(tx, session)
                last = {row.user_id} - {""} if row else set()
                for user in sorted(last.union(await users_of(tx, session))):
                    found.setdefault(user, []).append(session)
        return found

    async def check(self, scope: Scope, session: str) -> DifferenceCounts:
        """Return how a session's rows differ from its files, read in one snapshot.

        Changes nothing."""
        found: DifferenceCounts = Counter()
        async with self._database.begin_read(scope) as tx:
            event_file_list = await event_files(tx, session)
            walk = Walk(
                await derived_index.refs(tx, turn_index.turns(session).number),
                await forgotten_turns(tx, event_file_list),
                await redacted_items(tx, event_file_list),
            )
            for file in event_file_list:
                found += await self._events(tx, session, file, walk, fix=False)
            found += await self._session(tx, session, walk, fix=False)
            found += await compare_facts(tx, turn_index.facts(session, "")[0], [session], fix=False)
            for index in turn_index.of_session(session):
                found += await compare_index(tx, index.name, fix=False)
            found["entries"] += await self._placement.count_misplaced(tx, session)
        return +found

    async def check_user(
        self, scope: Scope, user: str, session_names: Sequence[str], *, fix: bool = False
    ) -> DifferenceCounts:
        """Return how the facts about a user differ from the files of their sessions.

        With `fix` they are repaired, in one transaction: no fact about the user is stored
        meanwhile."""
        index = turn_index.facts("", user)[1]
        async with self._database.begin(
            scope,
            locks=[index_lock(index.name)] if fix else (),
            lock_timeout_ms=self._options.session_lock_timeout_ms,
            read_only=not fix,
            long_running=fix,
        ) as tx:
            # newer sessions too, which the rows of the index name
            named = {
                fact.statement.evidence.session for fact in await derived.facts_of(tx, index.number)
            }
            found = await compare_facts(
                tx, index, dict.fromkeys([*session_names, *sorted(named)]), fix=fix
            )
            for one in (index, turn_index.insights("", user)[1], turn_index.said(user)):
                found += await compare_index(tx, one.name, fix=fix)
            return found

    async def check_index(
        self, scope: Scope, index_name: str, *, fix: bool = False
    ) -> DifferenceCounts:
        """Return how an index differs from its entries; with `fix` it is repaired."""
        async with self._database.begin(scope, read_only=not fix, long_running=fix) as tx:
            return await compare_index(tx, index_name, fix=fix)

    async def run(self, scope: Scope, session: str, *, renumber: bool = False) -> DifferenceCounts:
        """Repair the derived rows of a session; return the differences.

        RESOURCE_BUSY while the session is maintained. With `renumber` the entries of the session
        get new numbers in the order of its files, all or none, while writers wait; maintenance then
        recreates what depended on the old ones."""
        found = DifferenceCounts()
        async with claimed(self._database, self._clock, self._options, scope, session) as claim:
            if renumber:
                found += await self._renumber(claim)
            else:
                found += await self._fix_session(claim)
            more: int | None = ENTRY_MAX
            while more is not None:
                async with self._step(claim) as tx:
                    more = await self._placement.place_next(tx, session, below=more)
            fact_index = turn_index.facts(session, "")[0]
            async with self._step(claim, fact_index) as tx:
                found += await compare_facts(tx, fact_index, [session], fix=True)
            for index in turn_index.of_session(session):
                async with self._step(claim, index) as tx:
                    found += await compare_index(tx, index.name, fix=True)
        return found

    async def _fix_session(self, claim: MaintenanceClaim) -> DifferenceCounts:
        """Repair entries, guards and the session's row.

        RESOURCE_BUSY if older files keep changing."""
        session, found = claim.session, DifferenceCounts()
        refs: dict[str, int] = {}
        for _ in range(ATTEMPTS_MAX):
            started = f"{self._clock.now():%Y%m%d}"
            async with self._step(claim) as tx:
                refs = await derived_index.refs(tx, turn_index.turns(session).number) | refs
                every_file = await event_files(tx, session)
                walk = Walk(
                    refs,
                    await forgotten_turns(tx, every_file),
                    await redacted_items(tx, every_file),
                )
            progress = WalkStatus.MORE
            while progress is WalkStatus.MORE:
                async with self._step(claim) as tx:
                    progress = await self._fix_next(tx, session, walk, started, found)
            if progress is WalkStatus.DONE:
                return found
        raise resource_busy(
            "the call could not be completed, because other calls keep changing older"
            " events of this session",
            retry_after_s=1.0,
        )

    async def _fix_next(
        self, tx: Tx, session: str, walk: Walk, started: str, found: DifferenceCounts
    ) -> WalkStatus:
        """Repair from the next file; with the last one also the totals, in one step."""
        event_file_list = await event_files(tx, session)
        # turns forgotten meanwhile are recorded in today's files
        if (
            not await forgotten_turns(tx, [one for one in event_file_list if one.day >= started])
            <= walk.forgotten
        ):
            return WalkStatus.CONFLICT
        done_paths = [
            one.path for one in event_file_list if walk.after is not None and one <= walk.after
        ]
        pending = event_file_list[len(done_paths) :]
        last = len(pending) <= 1
        if last:
            if await derived.file_sizes(tx, done_paths) != walk.read:
                return WalkStatus.CONFLICT
            # turns stored meanwhile keep their numbers too
            walk.refs = (
                await derived_index.refs(tx, turn_index.turns(session).number, first=walk.stop)
                | walk.refs
            )
        for file in pending[:1]:
            walk.read |= await derived.file_sizes(tx, [file.path])
            found += await self._events(tx, session, file, walk, fix=True)
            walk.after = file
        if last:
            found += await self._session(tx, session, walk, fix=True)
        return WalkStatus.DONE if last else WalkStatus.MORE

    async def _renumber(self, claim: MaintenanceClaim) -> DifferenceCounts:
        """Renumber the entries of a session in order, in one transaction.

        An entry whose number is taken would not exist in between."""
        session, found = claim.session, DifferenceCounts()
        index = turn_index.turns(session)
        async with self._step(claim, index) as tx:
            event_file_list = await event_files(tx, session)
            walk = Walk(
                {},
                await forgotten_turns(tx, event_file_list),
                await redacted_items(tx, event_file_list),
            )
            for file in event_file_list:
                found += await self._events(tx, session, file, walk, fix=True)
            found += await self._session(tx, session, walk, fix=True)
            found += await compare_index(tx, index.name, fix=True)
            if found:
                # maintenance makes anew what depends on the numbers of entries
                await derived.reset_progress(tx, session)
        return found

    async def _events(
        self, tx: Tx, session: str, file: EventFile, walk: Walk, *, fix: bool
    ) -> DifferenceCounts:
        """Compare the entries of the items in one file, and record its turns in the walk."""
        expected = {}
        hidden = set()
        turns: dict[str, list[tuple[int, EventLine]]] = {}
        begin = walk.stop
        lines = await lines_of(tx, file)
        items = [TurnItem.of(line.item) for line in lines]
        items = await read_changes(await self._costs.counted(items))
        for line, item in zip(lines, items, strict=True):
            number = walk.number(line.event)
            walk.stop = number + 1
            expected[number] = entry_of(
                line.event, item, line.place, self._costs.text_chars_max, line.message_at
            )
            if line.event in walk.redacted:
                expected[number] = replace(expected[number], digest=walk.redacted[line.event])
            if line.turn in walk.forgotten or (
                line.event in walk.redacted and not expected[number].text.strip()
            ):
                hidden.add(number)
            turns.setdefault(line.turn, []).append((number, line))
        walk.items += len(expected)
        for turn, lines_by_number in turns.items():
            walk.users += [line.user for _, line in lines_by_number if line.user][-1:]
            walk.created_at = walk.created_at or lines_by_number[0][1].message_at
            walk.turns[turn] = _done(turn, lines_by_number)
        found = await derived_index.compare_rows(
            tx,
            turn_index.turns(session).number,
            begin,
            walk.stop,
            ExpectedEntries(expected, hidden, () if file.raw else expected),
            searched_elsewhere=True,
            fix=fix,
        )
        return +Counter(entries=found)

    async def _session(self, tx: Tx, session: str, walk: Walk, *, fix: bool) -> DifferenceCounts:
        """Compare guards, entries after the last event, and the session's row."""
        index_id = turn_index.turns(session).number
        found = Counter(
            entries=await derived_index.compare_rows(
                tx,
                index_id,
                walk.stop,
                ENTRY_MAX,
                ExpectedEntries(),
                searched_elsewhere=True,
                fix=fix,
            )
        )
        placeholder_found = await files.find(tx, placeholder_file(session))
        if placeholder_found is not None:
            content = await files.read(tx, placeholder_found)
            walk.turns = {
                one.turn: one for one in read_placeholder_lines(content.splitlines())
            } | walk.turns
        existing = await derived.done_turns(tx, session)
        expected = {turn: _with_result(one, existing.get(turn)) for turn, one in walk.turns.items()}
        guards = {turn: _as_forgotten(one, walk) for turn, one in expected.items()}
        wrong = [
            one for turn, one in guards.items() if not derived.same_guard(existing.get(turn), one)
        ]
        gone = [turn for turn in existing if turn not in expected]
        # turns of days that were removed since: only their guards show that they were stored
        guard_only = {
            turn for turn in gone if walk.created_at is None or existing[turn].at < walk.created_at
        }
        gone = [turn for turn in gone if turn not in guard_only]
        found["guards"] += len(wrong) + len(gone)
        row = await sessions.find(tx, session)
        count = _session_counts(walk, expected, row if guard_only else None)
        is_wrong = count is not None and not derived.same_count(row, count)
        found["sessions"] += is_wrong
        if fix:
            await derived.put_done_turns(tx, session, wrong)
            await derived.drop_done_turns(tx, session, gone)
            if is_wrong and count is not None:
                await derived.put_session(tx, session, count)
        return +found

    def _step(
        self, claim: MaintenanceClaim, index: TurnIndex | None = None
    ) -> AbstractAsyncContextManager[Tx]:
        return claim.step(*([index_lock(index.name)] if index else []), long_running=True)
