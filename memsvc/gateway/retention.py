"""Retention of the call log: partitions are created ahead of time and dropped when it is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from memsvc.core.background import in_background
from memsvc.core.errors import MemsvcError
from memsvc.store.call_partitions import roll
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.audit")

INTERVAL_S: Final = 6 * 3600.0
RETRY_S: Final = 300.0


class Retention:
    """Maintains the partitions, now and a few times a day.

    Any number of processes may run it: the first of them does the work.
    """

    def __init__(self, database: Database, keep_days: int) -> None:
        self._database = database
        self._keep_days = keep_days

    async def roll(self) -> bool:
        """Maintain the partitions; return whether that succeeded. A failure is logged."""
        try:
            rolled = await roll(self._database, self._keep_days)
        except MemsvcError as error:
            log.warning("the partitions of the call log were not maintained", code=error.code.value)
            return False
        if rolled.made or rolled.dropped:
            log.info(
                "the partitions of the call log were maintained",
                made=rolled.made,
                dropped=rolled.dropped,
            )
        if rolled.kept_days > self._keep_days > 0:
            log.warning(
                "the owner of the database keeps the call log longer", days=rolled.kept_days
            )
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it in the background."""
        async with in_background(self._roll_loop()):
            yield

    async def _roll_loop(self) -> None:
        while True:
            rolled = await self.roll()
            await asyncio.sleep(INTERVAL_S if rolled else RETRY_S)
