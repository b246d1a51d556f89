"""Directories of memory with their abstracts; reading writes nothing."""

from typing import Annotated, Final

from pydantic import AfterValidator

from memsvc.core.paths import check_path
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.maintenance import directory_summaries
from memsvc.styles.turns.maintenance.directory_index import notes_on, read_statistics
from memsvc.styles.turns.turn_models import (
    DEFAULT_SESSION,
    DirectorySummaries,
    DirectorySummary,
    SessionId,
    Whole,
    turn_tool,
)

DEPTH: Final = 8
LIMIT: Final = 200


class DirectoryList:
    """Lists directories with the stored abstract, or one made on the fly."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @turn_tool(
        "memory_list_dir_with_abstract",
        title="Look into memory",
        needs=Permission.READ,
        for_agents=True,
    )
    async def directories(
        self,
        scope: Scope,
        session_id: SessionId = DEFAULT_SESSION,
        path: Annotated[
            str,
            AfterValidator(check_path),
            "directory; the session's if not given",
        ] = "",
        depth: Annotated[Whole, "levels below"] = DEPTH,
        limit: Annotated[Whole, "directories at the most"] = LIMIT,
    ) -> DirectorySummaries:
        """Call to see what memory holds: a session's directories, with abstracts."""
        depth, limit = depth if depth > 0 else DEPTH, limit if limit > 0 else LIMIT
        root = session_root(session_id)
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
            notes = await notes_on(tx, session_id, self._clock.now())
            overview_by_path = await tree.contents(
                tx, [f"{place}/{directory_summaries.OVERVIEW_NAME}" for place in listed_paths]
            )
        return DirectorySummaries(
            [
                DirectorySummary(
                    place,
                    stored.get(f"{place}/{directory_summaries.ABSTRACT_NAME}", b"").decode().strip()
                    or directory_summaries.abstract(statistics[place], root, notes),
                    statistics[place].updated_at,
                    f"{place}/{directory_summaries.OVERVIEW_NAME}" in overview_by_path,
                )
                for place in listed_paths
            ]
        )
