"""Directories of memory with their abstracts; reading writes nothing."""

from dataclasses import dataclass
from datetime import datetime

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.maintenance import directory_summaries
from memsvc.styles.turns.maintenance.directory_index import notes_on, read_statistics


@dataclass(frozen=True, slots=True)
class MemoryDirectoryEntry:
    """One listed directory."""

    path: str
    abstract: str
    updated_at: datetime
    has_overview: bool


class DirectoryList:
    """Lists directories with the stored abstract, or one made on the fly."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def directories(
        self, scope: Scope, session: str, path: str, *, depth: int, limit: int
    ) -> list[MemoryDirectoryEntry]:
        """Return the directories at and below `path` (default: the session's), sorted by path.

        Returns none when nothing is there."""
        root = session_root(session)
        top = path or root
        async with self._database.begin(scope, read_only=True) as tx:
            statistics = await read_statistics(tx, top)
            level = top.count("/") + depth
            listed_paths = sorted(place for place in statistics if place.count("/") <= level)[
                :limit
            ]
            stored = await tree.contents(
                tx, [f"{place}/{directory_summaries.ABSTRACT_NAME}" for place in listed_paths]
            )
            notes = await notes_on(tx, session, self._clock.now())
            overview_by_path = await tree.contents(
                tx, [f"{place}/{directory_summaries.OVERVIEW_NAME}" for place in listed_paths]
            )
        return [
            MemoryDirectoryEntry(
                place,
                stored.get(f"{place}/{directory_summaries.ABSTRACT_NAME}", b"").decode().strip()
                or directory_summaries.abstract(statistics[place], root, notes),
                statistics[place].updated_at,
                f"{place}/{directory_summaries.OVERVIEW_NAME}" in overview_by_path,
            )
            for place in listed_paths
        ]
