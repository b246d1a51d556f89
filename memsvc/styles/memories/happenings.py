"""Events of memories found in conversations: in order, with numbers to resume from."""

from collections.abc import Sequence
from typing import Final

from memsvc.core.happenings import Happening
from memsvc.core.scope import Scope
from memsvc.store import memory_settings
from memsvc.store.database import Database
from memsvc.styles.memories.book import FOUND_URI

KIND: Final = "MemoryExtracted"
TOLD_AT_ONCE: Final = 100


class Found:
    """`Happenings` of memories: each call that added or changed some is one event."""

    uri = FOUND_URI
    tool = "memories_get_settings"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, scope: Scope) -> int:
        async with self._database.begin(scope, read_only=True) as tx:
            return await memory_settings.findings(tx)

    async def since(self, scope: Scope, number: int) -> Sequence[Happening]:
        """Return up to 100 events; texts deleted since are left out."""
        async with self._database.begin(scope, read_only=True) as tx:
            found = await memory_settings.since(tx, number, most=TOLD_AT_ONCE)
        return [
            Happening(
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
