"""Claim of a session for maintenance or a rebuild, of which one runs at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import anyio

from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import guard
from memsvc.store.database import Database, Tx
from memsvc.store.locks import Lock, session_lock
from memsvc.styles.turns.options import TurnOptions

# Maintenance has a guard like a turn, under the one turn id that no caller can use.
MAINTENANCE_TURN = ""


@frozen
class MaintenanceClaim:
    """A claim in short transactions, each of which verifies that it was not taken over."""

    database: Database
    clock: Clock
    options: TurnOptions
    scope: Scope
    session: str
    token: UUID

    @asynccontextmanager
    async def step(self, *locks: Lock, long_running: bool = False) -> AsyncIterator[Tx]:
        """Open a transaction under the session's lock and these that verifies the claim."""
        async with self.database.begin(
            self.scope,
            locks=[session_lock(self.session), *locks],
            lock_timeout_ms=self.options.session_lock_timeout_ms,
            long_running=long_running,
        ) as tx:
            await guard.hold(tx, self.session, MAINTENANCE_TURN, self.token, now=self.clock.now())
            yield tx


@asynccontextmanager
async def claimed(
    database: Database, clock: Clock, options: TurnOptions, scope: Scope, session: str
) -> AsyncIterator[MaintenanceClaim]:
    """Claim a session; RESOURCE_BUSY while another run has it."""
    async with database.begin(scope) as tx:
        claim = await guard.claim(tx, session, MAINTENANCE_TURN, fingerprint=b"", now=clock.now())
    try:
        yield MaintenanceClaim(database, clock, options, scope, session, claim.token)
    finally:
        with anyio.CancelScope(shield=True):  # a cancelled call must not leave its claim behind
            async with database.begin(scope) as tx:
                await guard.release(tx, session, MAINTENANCE_TURN, claim.token)
