"""Events of memories found in conversations: in order, with numbers to resume from."""

from collections.abc import Sequence
from typing import Final

from memsvc.core.project_events import ProjectEvent
from memsvc.core.scope import Scope
from memsvc.store import memory_settings
from memsvc.store.database import Database
from memsvc.styles.memories.memory_index import FOUND_URI

KIND: Final = "MemoryExtracted"
EVENTS_MAX: Final = 100


class MemoryEvents:
    """`ProjectEventSource` of memories: each call that added or changed some is one event."""

    uri = FOUND_URI
    tool = "memories_get_settings"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, scope: Scope) -> int:
        async with self._database.begin(scope, read_only=True) as tx:
            return await memory_settings.latest_event(tx)

    async def since(self, scope: Scope, number: int) -> Sequence[ProjectEvent]:
        """Return up to 100 events; texts deleted since are left out."""
        async with self._database.begin(scope, read_only=True) as tx:
            found = await memory_settings.events_since(tx, number, limit=EVENTS_MAX)
        return [
            ProjectEvent(
                one.number,
                KIND,
                {
                    "event_type": KIND,
                    "facts": one.texts,
                    "count": len(one.texts),
                    "timestamp": one.found_at.isoformat().replace("+00:00", "Z"),
                },
            )
            for one in found
        ]
