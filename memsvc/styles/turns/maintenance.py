"""Maintenance of a session: facts past their day go, and directories get their summaries; safe to run at any time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import anyio
import orjson

from memsvc.core.facts import Fact
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import facts, files, guard, moves, sessions, tree
from memsvc.store.database import Database, Tx
from memsvc.store.locks import TREE_LOCK, book_lock, session_lock
from memsvc.store.sessions import Session
from memsvc.styles.turns import books, summaries
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.layout import OWNER, session_root, tier_file
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.views import RENDERED, split

# Maintenance is guarded like a turn, under the one turn id that no caller can have.
GUARDED_AS = ""
FACTS_A_STEP = 500


@dataclass(frozen=True, slots=True)
class Maintained:
    """What a run of maintenance did."""

    expired_facts: int
    summaries_written: int


class Maintenance:
    """Runs in short transactions with a claim that is proven in each, so that a run that was killed or overtaken
    leaves nothing half done and the next one goes on where it stood."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options

    async def run(self, scope: Scope, session: str) -> Maintained:
        """Maintain one session; RESOURCE_BUSY while somebody else does. A session without turns has nothing to do."""
        async with self._database.begin(scope) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return Maintained(0, 0)
            claim = await guard.claim(tx, session, GUARDED_AS, fingerprint=b"", now=self._clock.now())
        try:
            expired = 0
            for book in await self._shelves(scope, found):
                while swept := await self._sweep(scope, session, book, claim.token):
                    expired += swept
            written = await self._summarise(scope, session, claim.token)
            async with self._database.begin(scope, locks=[session_lock(session)]) as tx:
                await guard.hold(tx, session, GUARDED_AS, claim.token, now=self._clock.now())
                counters = {"maintenance_runs": 1, "expired_facts": expired, "summaries_written": written}
                await sessions.maintained(tx, session, counters=counters, now=self._clock.now())
        finally:
            with anyio.CancelScope(shield=True):  # a call that is cancelled must not leave its claim behind
                async with self._database.begin(scope) as tx:
                    await guard.release(tx, session, GUARDED_AS, claim.token)
        return Maintained(expired, written)

    async def _shelves(self, scope: Scope, found: Session) -> list[Book]:
        """The books of facts of this session and its latest user, and of others whose facts expired in it."""
        async with self._database.begin(scope, read_only=True) as tx:
            others = await facts.expired_books(tx, found.session, self._clock.now())
        return list(dict.fromkeys([*books.facts(found.session, found.user_id), *map(books.named, others)]))

    async def _sweep(self, scope: Scope, session: str, book: Book, token: UUID) -> int:
        """Remove some facts past their day from rows, index and files in one transaction; how many went."""
        now = self._clock.now()
        async with self._database.begin(
            scope,
            locks=[session_lock(session), book_lock(book.name)],
            lock_timeout_ms=self._options.session_lock_timeout_ms,
        ) as tx:
            await guard.hold(tx, session, GUARDED_AS, token, now=now)
            swept = await facts.sweep(tx, book.number, now, most=FACTS_A_STEP)
            await _forget(tx, swept, now)
        return len(swept)

    async def _summarise(self, scope: Scope, session: str, token: UUID) -> int:
        """Write the summaries that are older than the refresh interval and no longer true; how many."""
        now = self._clock.now()
        async with self._database.begin(
            scope, locks=[session_lock(session)], lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            await guard.hold(tx, session, GUARDED_AS, token, now=now)
            root = session_root(session)
            shelves = await read_shelves(tx, root)
            written = 0
            for path, shelf in shelves.items():
                for name, text in (
                    (summaries.ABSTRACT_NAME, summaries.abstract(shelf, root, {})),
                    (summaries.OVERVIEW_NAME, summaries.overview(shelf, now)),
                ):
                    written += await self._refresh(tx, f"{path}/{name}", text.encode() + b"\n", shelf.updated_at, now)
        return written

    async def _refresh(self, tx: Tx, path: str, content: bytes, changed_at: datetime, now: datetime) -> int:
        file = await files.find(tx, path, for_update=True)
        if file is None:
            await files.create(tx, path, content, is_text=True, owner=OWNER, now=now)
            return 1
        fresh = timedelta(minutes=self._options.summary_refresh_interval_minutes)
        if file.updated_at >= changed_at or now - file.updated_at < fresh:
            return 0
        await files.rewrite(tx, file, content, is_text=True, now=now)
        return 1


async def read_shelves(tx: Tx, directory: str) -> dict[str, summaries.Shelf]:
    """What each directory at or below this one holds, summaries themselves not counted."""
    census = [
        summaries.Shelf(held.directory, held.files, 0, held.size_bytes, held.created_at, held.updated_at, held.samples)
        for held in await tree.census(
            tx,
            directory,
            samples=summaries.SAMPLE_PATHS_MAX,
            leave_out=(summaries.ABSTRACT_NAME, summaries.OVERVIEW_NAME),
        )
    ]
    return summaries.shelves([*census, *await _rendered_shelves(tx, directory)], directory)


async def _rendered_shelves(tx: Tx, directory: str) -> list[summaries.Shelf]:
    """What a session's directories hold of files that are made when somebody reads them, and so have no size yet."""
    session, _ = split(directory)
    found = await sessions.find(tx, session) if session is not None else None
    if found is None:
        return []
    samples: dict[str, list[str]] = defaultdict(list)
    for name in RENDERED:
        path = f"{session_root(found.session)}/{name}"
        if path.startswith(directory + "/"):
            samples[path.rpartition("/")[0]].append(path)
    return [
        summaries.Shelf(place, len(paths), 0, 0, found.created_at, found.updated_at, tuple(paths))
        for place, paths in samples.items()
    ]


async def _forget(tx: Tx, swept: Sequence[Fact], now: datetime) -> None:
    """Take the lines of facts that are gone out of their tier files; a file that is left empty is deleted."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for fact in swept:
        path = tier_file(fact.statement.evidence.session, fact.statement.tier, fact.valid_from)
        by_file[path].add(fact.statement.record)
    for path, records in sorted(by_file.items()):
        file = await files.find(tx, path, for_update=True)
        if file is None:
            continue
        lines = (await files.read(tx, file, 0, file.size_bytes)).splitlines(keepends=True)
        kept = b"".join(line for line in lines if not _speaks_of(line, records))
        if kept:
            await files.rewrite(tx, file, kept, is_text=True, now=now)
        else:
            await tx.lock(TREE_LOCK)
            await moves.delete(tx, path, now=now, keep_owned=False)


def _speaks_of(line: bytes, records: set[str]) -> bool:
    record = orjson.loads(line)
    return record["id"] in records or record.get("of") in records
