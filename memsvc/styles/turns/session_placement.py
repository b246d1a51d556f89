"""Where the items of a session are searched: with all that its user said, or in the session alone.

A session that several users share, or nobody, is found in that session alone. Where that changes,
the items that are in the wrong search index are found by nobody else from that moment, and moved by
a job."""

from collections.abc import Iterable
from typing import Final

from memsvc.core.call_context import step_done
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import jobs, placement, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_index import TurnIndex

PLACE_JOB: Final = "turns.place"
PLACE_ALL_JOB: Final = "turns.place_all"
ITEMS_A_STEP: Final = 200
SESSIONS_A_STEP: Final = 500


@frozen
class SessionPlacement:
    """Keeps the items of sessions in the search index that they belong to."""

    database: Database
    clock: Clock
    options: TurnOptions

    async def index_of_items(
        self,
        tx: Tx,
        session: str,
        users: Iterable[str],
        *,
        owner: str,
        shared: bool,
        has_items: bool,
    ) -> TurnIndex:
        """Return the search index of new items; where it is not that of earlier ones, move these.

        `users` are those who speak now. `owner` is who spoke last before, or "", `shared` whether
        others did, `has_items` whether there are earlier ones: these are withheld from the index of
        their user at once where another user speaks. The caller holds the session."""
        speakers = {owner, *users} - {""}
        becomes_shared = len(speakers) > 1 and not shared
        if becomes_shared and owner:
            before = turn_index.said(owner)
            await placement.withhold(tx, before.number, turn_index.turns(session).number)
        if has_items and (becomes_shared or (speakers and not owner)):
            await jobs.enqueue(tx, PLACE_JOB, session, now=self.clock.now())
        user = min(speakers, default="")
        return turn_index.searched(session, user, shared=shared or becomes_shared)

    async def place(self, scope: Scope, session: str) -> None:
        """Job: move the items of a session that are in another search index than they should."""
        below: int | None = ENTRY_MAX
        while below is not None:
            async with self.database.begin(
                scope,
                locks=[session_lock(session)],
                lock_timeout_ms=self.options.session_lock_timeout_ms,
            ) as tx:
                below = await self.place_next(tx, session, below=below)
            step_done()

    async def place_next(self, tx: Tx, session: str, *, below: int) -> int | None:
        """Move the next items of a session before `below`; return where to go on, None when done.

        The caller holds the session."""
        found = await sessions.find(tx, session)
        if found is None:
            return None
        index_id = turn_index.turns(session).number
        target = turn_index.searched(session, found.user_id, shared=found.shared)
        more = await placement.move(tx, index_id, target.name, below=below, limit=ITEMS_A_STEP)
        if more is None:
            await placement.release(tx, index_id)
        return more

    async def count_misplaced(self, tx: Tx, session: str) -> int:
        """Return how many items of a session are not in the search index that they belong to."""
        found = await sessions.find(tx, session)
        if found is None:
            return 0
        target = turn_index.searched(session, found.user_id, shared=found.shared)
        return await placement.count_elsewhere(tx, turn_index.turns(session).number, target.number)

    async def queue_misplaced(self, scope: Scope, _: str) -> None:
        """Job: queue the sessions of a project whose first items are not where they belong.

        After a restore of an archive that did not say where."""
        after = ""
        while True:
            async with self.database.begin(scope) as tx:
                names = [
                    row["session"]
                    for row in await sessions.names(tx, after=after, limit=SESSIONS_A_STEP)
                ]
                found = await sessions.find_all(tx, names)
                for name, session in found.items():
                    index_id = turn_index.turns(name).number
                    target = turn_index.searched(name, session.user_id, shared=session.shared)
                    first = await placement.first_search_index(tx, index_id)
                    if first not in (None, target.number):
                        await jobs.enqueue(tx, PLACE_JOB, name, now=self.clock.now())
            if len(names) < SESSIONS_A_STEP:
                return
            after = names[-1]
