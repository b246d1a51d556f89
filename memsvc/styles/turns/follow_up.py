"""What follows a turn: steps that nobody waits for, run by jobs that the turn's own transaction queues."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import jobs
from memsvc.store.database import Tx
from memsvc.styles.embedding import EMBED_JOB

FOLLOW_UP_JOB: Final = "turns.follow_up"
EVERY_ITEMS: Final = 16
"""A session is followed up when its book passes a multiple of so many items, not after each turn."""
SETTLE_S: Final = 5.0

Step = Callable[[Scope, str], Awaitable[None]]
"""Takes a session one step on; run again, it finds what it did and does nothing."""


class FollowUp:
    """Queues the jobs that a turn calls for. `steps` are taken one after the other for a session."""

    def __init__(
        self, steps: Sequence[Step], clock: Clock, *, embeds: bool, after_each_turn: Sequence[str] = ()
    ) -> None:
        self._steps = steps
        self._clock = clock
        self._embeds = embeds
        self._after_each_turn = after_each_turn
        self.jobs = (Job(name=FOLLOW_UP_JOB, run=self.run),)

    async def queue(
        self, tx: Tx, session: str, *, first: int, items: int, books: Collection[int], at_once: bool = False
    ) -> None:
        """Queue what follows a turn whose `items` begin with the entry `first` of its session, and which added to
        these `books`; the last statements of its transaction. `at_once`: the session is followed up after this turn."""
        now = self._clock.now()
        if self._embeds:
            for book in sorted(books):
                await jobs.enqueue(tx, EMBED_JOB, str(book), now=now)
        if self._steps and (at_once or first // EVERY_ITEMS != (first + items) // EVERY_ITEMS):
            await jobs.enqueue(tx, FOLLOW_UP_JOB, session, now=now, delay_s=SETTLE_S)
        for name in self._after_each_turn:
            await jobs.enqueue(tx, name, session, now=now, delay_s=SETTLE_S)

    async def run(self, scope: Scope, subject: str) -> None:
        """Job: take every step for a session."""
        for step in self._steps:
            await step(scope, subject)
