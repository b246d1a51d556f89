"""Directories of memory with their abstracts; reading writes nothing."""

from dataclasses import dataclass
from datetime import datetime

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.styles.turns.layout import session_root
from memsvc.styles.turns.upkeep import summaries
from memsvc.styles.turns.upkeep.shelving import notes_on, read_shelves


@dataclass(frozen=True, slots=True)
class Directory:
    """One listed directory."""

    path: str
    abstract: str
    updated_at: datetime
    has_overview: bool


class Listing:
    """Lists directories with the stored abstract, or one made on the fly."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def directories(self, scope: Scope, session: str, path: str, *, depth: int, limit: int) -> list[Directory]:
        """Return the directories at and below `path` (default: the session's), sorted by path.

        Returns none when nothing is there."""
        root = session_root(session)
        top = path or root
        async with self._database.begin(scope, read_only=True) as tx:
            shelves = await read_shelves(tx, top)
            level = top.count("/") + depth
            shown = sorted(place for place in shelves if place.count("/") <= level)[:limit]
            stored = await tree.contents(tx, [f"{place}/{summaries.ABSTRACT_NAME}" for place in shown])
            notes = await notes_on(tx, session, self._clock.now())
            overviews = await tree.contents(tx, [f"{place}/{summaries.OVERVIEW_NAME}" for place in shown])
        return [
            Directory(
                place,
                stored.get(f"{place}/{summaries.ABSTRACT_NAME}", b"").decode().strip()
                or summaries.abstract(shelves[place], root, notes),
                shelves[place].updated_at,
                f"{place}/{summaries.OVERVIEW_NAME}" in overviews,
            )
            for place in shown
        ]
