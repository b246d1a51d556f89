"""Follow-up of a turn: background jobs that the turn's own transaction queues."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import jobs
from memsvc.store.database import Tx
from memsvc.styles.embedding import queue_embedding

FOLLOW_UP_JOB: Final = "turns.follow_up"
ITEM_INTERVAL: Final = 16
"""A session is followed up when its index passes a multiple of this many items, not after each
turn."""
SETTLE_S: Final = 5.0

Step = Callable[[Scope, str], Awaitable[None]]
"""Advances a session by one step; run again, it finds its own result and does nothing."""


@frozen
class FollowUp:
    """Queue of the jobs that follow a turn; `steps` run one after the other for a session."""

    steps: Sequence[Step]
    clock: Clock
    after_each_turn: Sequence[str] = ()

    async def queue(
        self,
        tx: Tx,
        session: str,
        *,
        first: int,
        items: int,
    ) -> None:
        """Queue the jobs after a turn, as the last statements of its transaction.

        The turn's `items` begin with the entry `first` of its session."""
        now = self.clock.now()
        await queue_embedding(tx, now)
        if self.steps and first // ITEM_INTERVAL != (first + items) // ITEM_INTERVAL:
            await jobs.enqueue(tx, FOLLOW_UP_JOB, session, now=now, delay_s=SETTLE_S)
        for name in self.after_each_turn:
            await jobs.enqueue(tx, name, session, now=now, delay_s=SETTLE_S)

    async def run(self, scope: Scope, subject: str) -> None:
        """Job: run every step for a session."""
        for step in self.steps:
            await step(scope, subject)
