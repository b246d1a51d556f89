"""How long the call log is kept: behind all calls, its parts are made ahead of time and dropped when theirs is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from memsvc.core.background import in_background
from memsvc.core.errors import MemsvcError
from memsvc.store.call_parts import roll
from memsvc.store.database import Database

log = structlog.get_logger("memsvc.audit")

EVERY_S: Final = 6 * 3600.0
AGAIN_S: Final = 300.0


class Retention:
    """Rolls the call log on, now and a few times a day. Any number of processes may: the first of them does it."""

    def __init__(self, database: Database, keep_days: int) -> None:
        self._database = database
        self._keep_days = keep_days

    async def roll(self) -> bool:
        """Whether it was done; what was not is told in the log, and costs no call."""
        try:
            rolled = await roll(self._database, self._keep_days)
        except MemsvcError as error:
            log.warning("the call log was not rolled on", code=error.code.value)
            return False
        if rolled.made or rolled.dropped:
            log.info("the call log was rolled on", made=rolled.made, dropped=rolled.dropped)
        if rolled.kept_days > self._keep_days > 0:
            log.warning("the owner of the database keeps the call log longer", days=rolled.kept_days)
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do it in the background."""
        async with in_background(self._keep_rolling()):
            yield

    async def _keep_rolling(self) -> None:
        while True:
            rolled = await self.roll()
            await asyncio.sleep(EVERY_S if rolled else AGAIN_S)
