"""Memory of conversations: their latest entries, and those that are in no board yet."""

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from memsvc.core.scope import Scope
from memsvc.styles.whiteboard.boards import BoardId
from memsvc.styles.whiteboard.entries import BoardEntry

REMEMBERED_CHARS_MAX: Final = 2000
"""Characters of one entry in the board that are remembered."""
KEPT_CHARS_MAX: Final = 20_000_000
"""Characters of all conversations' entries that are kept though nobody waits for them.

Those of failed updates are for the next one; those whose caller had gone before they were in are
recognized when they are sent again.
"""
FAILURES_MAX: Final = 3
"""Answers of a model without a board of some entries before these are given up."""
FINISHED_MAX: Final = 16
"""Remembered batches of a conversation that are in the board, though their caller had gone."""


@dataclass(eq=False, slots=True)
class Batch:
    """The entries of one call on their way into the board.

    `parts` are the pieces that a model reads, `done` how many of these are in. Callers read `error`
    once it has `finished`. `pending` until it ended; `claimed` while somebody waits.
    """

    entries: tuple[BoardEntry, ...]
    parts: tuple[BoardEntry, ...]
    costs_tok: tuple[int, ...]
    done: int = 0
    pending: bool = True
    claimed: bool = True
    failures: int = 0
    error: BaseException | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_in(self) -> bool:
        return self.done == len(self.parts)

    @property
    def chars(self) -> int:
        return sum(len(entry.content) for entry in self.entries)

    def finish(self, error: BaseException | None) -> None:
        """Notify the waiting callers."""
        self.pending, self.error = False, error
        self.finished.set()

    def claim(self) -> None:
        """Mark the batch as waited for, and as pending again if it failed."""
        self.claimed = True
        if not self.is_in and not self.pending:
            self.pending, self.error, self.finished = True, None, asyncio.Event()


@dataclass(slots=True)
class BatchGroup:
    """Entries for one update: how many further parts of which batch."""

    batches: list[tuple[Batch, int]]

    @property
    def entries(self) -> list[BoardEntry]:
        return [part for batch, stop in self.batches for part in batch.parts[batch.done : stop]]


class ConversationWindow:
    """One conversation: a window of entries in its board, and batches of others, oldest first."""

    def __init__(self, window_entries: int) -> None:
        self.window: deque[BoardEntry] = deque(maxlen=window_entries)
        self.batches: list[Batch] = []
        self.task: asyncio.Task[None] | None = None
        self._file_id: uuid.UUID | None = None

    @property
    def kept_chars(self) -> int:
        """Return the number of characters that are kept though nobody waits for them."""
        return sum(
            one.chars for one in self.batches if not one.pending and not (one.is_in and one.claimed)
        )

    def is_pending(self) -> bool:
        """Return whether an update is pending."""
        return any(batch.pending for batch in self.batches)

    def find(self, entries: tuple[BoardEntry, ...]) -> tuple[list[Batch], tuple[BoardEntry, ...]]:
        """Return the batches that a caller sends again, and the other entries."""
        repeated: list[Batch] = []
        for batch in self.batches:
            if not batch.claimed and entries[: len(batch.entries)] == batch.entries:
                entries = entries[len(batch.entries) :]
                repeated.append(batch)
        return repeated, entries

    def release(self, batches: Iterable[Batch], *, completed: bool) -> None:
        """Release a caller's batches; drop them if it learns that all are in (`completed`)."""
        for batch in batches:
            batch.claimed = False
            if completed:
                self._remove(batch)

    def recent(self, limit: int) -> list[BoardEntry]:
        """Return the latest entries that are in the board, oldest first."""
        return list(self.window)[-limit:] if limit else []

    def share(self, tok_max: int) -> BatchGroup:
        """Return the next entries: the oldest pending parts, at least one, within the limit."""
        batches: list[tuple[Batch, int]] = []
        remaining = tok_max
        for batch in self.batches:
            stop = batch.done
            while stop < len(batch.parts) and (
                remaining >= batch.costs_tok[stop] or remaining == tok_max
            ):
                remaining -= batch.costs_tok[stop]
                stop += 1
            if stop > batch.done:
                batches.append((batch, stop))
            if stop < len(batch.parts):
                break
        return BatchGroup(batches)

    def is_of(self, file_id: uuid.UUID | None) -> None:
        """Forget all entries of a board that was deleted since."""
        if self._file_id not in (None, file_id):
            self.forget()
        self._file_id = file_id

    def forget(self) -> None:
        """Drop the window, and the entries that nobody waits for."""
        self.window.clear()
        self.batches = [batch for batch in self.batches if batch.pending]

    def integrated(self, share: BatchGroup, file_id: uuid.UUID | None) -> None:
        """Mark these entries as being in the board."""
        self._file_id = file_id
        for batch, stop in share.batches:
            self.window.extend(_remembered(part) for part in batch.parts[batch.done : stop])
            batch.done = stop
            if batch.is_in:
                batch.finish(None)
        finished = [batch for batch in self.batches if batch.is_in and not batch.claimed]
        for batch in finished[: max(0, len(finished) - FINISHED_MAX)]:
            self._remove(batch)

    def give_up(self, share: BatchGroup) -> int:
        """Count a failure to make a board of these entries, though the model answered.

        Return the number of entries that are given up for it.
        """
        given_up = 0
        for batch, _ in share.batches:
            batch.failures += 1
            if batch.failures >= FAILURES_MAX:
                self._remove(batch)
                given_up += len(batch.entries)
        return given_up

    def failed(self, share: BatchGroup, error: BaseException) -> None:
        """Notify those who wait for these entries; all that are not given up stay."""
        for batch, _ in share.batches:
            batch.finish(error)

    def _remove(self, batch: Batch) -> None:
        self.batches = [other for other in self.batches if other is not batch]


class ConversationWindows:
    """The conversations written to last; those being written to stay."""

    def __init__(self, *, limit: int, window_entries: int) -> None:
        self._limit = limit
        self._window_entries = window_entries
        self._by_key: OrderedDict[tuple[bytes, str, BoardId], ConversationWindow] = OrderedDict()

    def of(self, scope: Scope, board_id: BoardId) -> ConversationWindow:
        """Return the conversation, which now counts as the one written to last."""
        key = (scope.tenant, scope.project, board_id)
        conversation = self._by_key.setdefault(key, ConversationWindow(self._window_entries))
        self._by_key.move_to_end(key)
        self._trim()
        return conversation

    def known(self, scope: Scope, board_id: BoardId) -> ConversationWindow | None:
        """Return the conversation, if anything is remembered of it."""
        return self._by_key.get((scope.tenant, scope.project, board_id))

    def _trim(self) -> None:
        over = len(self._by_key) - self._limit
        if over > 0:
            latest = next(reversed(self._by_key))
            idle = [key for key, one in self._by_key.items() if one.task is None and key != latest]
            for key in idle[:over]:
                del self._by_key[key]

    def limit_kept(self) -> None:
        """Forget excess entries that nobody waits for, least recently used conversations first."""
        kept = [(one, chars) for one in self._by_key.values() if (chars := one.kept_chars)]
        over = sum(chars for _, chars in kept) - KEPT_CHARS_MAX
        for one, chars in kept:
            if over <= 0:
                return
            over -= chars
            one.forget()


def _remembered(entry: BoardEntry) -> BoardEntry:
    return replace(entry, content=entry.content[:REMEMBERED_CHARS_MAX])
