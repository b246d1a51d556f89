"""Updates of boards: read, write anew, store; one at a time per conversation of this process.

A caller that comes while a board is being written joins the next round, so that many calls make
few. A round is a task of its own: a caller that disconnects takes nothing from the others, and its
entries are stored all the same.
"""

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from memsvc.core.errors import (
    Code,
    MemsvcError,
    ModelOutputError,
    ModelRefusalError,
    resource_busy,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.core.ports import TokenCounter
from memsvc.core.scope import Scope
from memsvc.styles.whiteboard.board_writers import BoardWriter, WrittenBoard
from memsvc.styles.whiteboard.boards import (
    BoardChangedError,
    BoardContent,
    BoardId,
    Boards,
)
from memsvc.styles.whiteboard.entries import BoardEntry, split_entry
from memsvc.styles.whiteboard.options import WhiteboardOptions

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
        repeated = []
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
        batches = []
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
            self.window.extend(
                replace(part, content=part.content[:REMEMBERED_CHARS_MAX])
                for part in batch.parts[batch.done : stop]
            )
            batch.done = stop
            if batch.is_in:
                batch.finish(None)
        finished = [batch for batch in self.batches if batch.is_in and not batch.claimed]
        for batch in finished[: max(0, len(finished) - FINISHED_MAX)]:
            self._remove(batch)

    def abandon(self, share: BatchGroup) -> int:
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


@frozen
class ConversationWindows:
    """The conversations written to last; those being written to stay."""

    limit: int
    window_entries: int
    by_key: OrderedDict[tuple[bytes, str, BoardId], ConversationWindow] = field(
        default_factory=OrderedDict
    )

    def of(self, scope: Scope, board_id: BoardId) -> ConversationWindow:
        """Return the conversation, which now counts as the one written to last."""
        key = (scope.tenant, scope.project, board_id)
        conversation = self.by_key.setdefault(key, ConversationWindow(self.window_entries))
        self.by_key.move_to_end(key)
        self._trim()
        return conversation

    def known(self, scope: Scope, board_id: BoardId) -> ConversationWindow | None:
        """Return the conversation, if anything is remembered of it."""
        return self.by_key.get((scope.tenant, scope.project, board_id))

    def _trim(self) -> None:
        over = len(self.by_key) - self.limit
        if over > 0:
            latest = next(reversed(self.by_key))
            idle = [key for key, one in self.by_key.items() if one.task is None and key != latest]
            for key in idle[:over]:
                del self.by_key[key]

    def limit_kept(self) -> None:
        """Forget excess entries that nobody waits for, least recently used conversations first."""
        kept = [(one, chars) for one in self.by_key.values() if (chars := one.kept_chars)]
        over = sum(chars for _, chars in kept) - KEPT_CHARS_MAX
        for one, chars in kept:
            if over <= 0:
                return
            over -= chars
            one.forget()


log = structlog.get_logger("memsvc.whiteboard")

RETRY_AFTER_S: Final = 1.0
_RECOVERY: Final = "the entries are kept; send the same call again to include them"


class BoardUpdates:
    """Adds entries to boards.

    Entries that are not in a board yet, and the latest of those that are, live in memory alone:
    they are lost with the process, and other replicas have their own.
    """

    def __init__(
        self,
        boards: Boards,
        writer: BoardWriter,
        tokens: TokenCounter,
        options: WhiteboardOptions,
    ) -> None:
        self._boards = boards
        self._writer = writer
        self._tokens = tokens
        self._options = options
        self._conversations = ConversationWindows(
            limit=options.conversations_kept, window_entries=options.window_entries
        )

    async def update(self, scope: Scope, board_id: BoardId, entries: Sequence[BoardEntry]) -> None:
        """Add these entries to the board, and return when that is committed; none change nothing.

        UNAVAILABLE when the model or the database failed or was too slow, RESOURCE_BUSY when others
        kept writing the board: then the board is unchanged, the entries are kept for the next
        update unless the error says that they are given up, and sending them again does not add
        them twice. No transaction is open while the model writes.
        """
        if not entries:
            return
        conversation = self._conversations.of(scope, board_id)
        batches = self._claim(conversation, tuple(entries))
        if conversation.task is None and conversation.is_pending():
            conversation.task = asyncio.create_task(self._work(scope, board_id, conversation))
            conversation.task.add_done_callback(_consume_error)
        completed = False
        try:
            async with asyncio.timeout(self._options.deadline_s):
                for batch in batches:
                    await batch.finished.wait()
                    if batch.error is not None:
                        raise batch.error
            completed = True
        except TimeoutError:
            raise _unavailable("the whiteboard is still being written") from None
        finally:
            conversation.release(batches, completed=completed)

    async def delete(self, scope: Scope, board_id: BoardId) -> bool:
        """Delete a board for good, and forget its conversation; return whether it existed."""
        deleted = await self._boards.delete(scope, board_id)
        self._forget(scope, board_id)
        return deleted

    async def restore(self, scope: Scope, board_id: BoardId, version: str) -> BoardContent:
        """Restore as `Boards.restore`, and forget entries that came since."""
        board = await self._boards.restore(scope, board_id, version)
        self._forget(scope, board_id)
        return board

    def _forget(self, scope: Scope, board_id: BoardId) -> None:
        conversation = self._conversations.known(scope, board_id)
        if conversation is not None:
            conversation.forget()

    def _claim(
        self, conversation: ConversationWindow, entries: tuple[BoardEntry, ...]
    ) -> list[Batch]:
        batches, rest = conversation.find(entries)
        if rest:
            tok_max = self._options.round_tok_max
            entry_parts = tuple(
                part
                for entry in rest
                for part in split_entry(entry, tokens_max=tok_max, count=self._tokens.count)
            )
            batches.append(
                Batch(
                    rest, entry_parts, tuple(self._tokens.count(part.lines) for part in entry_parts)
                )
            )
            conversation.batches.append(batches[-1])
        for batch in batches:
            batch.claim()
        return batches

    async def _work(
        self, scope: Scope, board_id: BoardId, conversation: ConversationWindow
    ) -> None:
        """Run rounds as long as entries are pending."""
        try:
            while conversation.is_pending():
                await self._round(scope, board_id, conversation)
                if conversation.kept_chars:
                    self._conversations.limit_kept()
        except BaseException as error:  # every waiting caller must get it, whatever it was
            failure = (
                error if isinstance(error, Exception) else _unavailable("the server is stopping")
            )
            waiting = [(batch, batch.done) for batch in conversation.batches if batch.pending]
            conversation.failed(BatchGroup(waiting), failure)
            raise
        finally:
            conversation.task = None

    async def _round(
        self, scope: Scope, board_id: BoardId, conversation: ConversationWindow
    ) -> None:
        """Add the pending entries to the board, or as many as fit; or fail for all of these."""
        share = conversation.share(self._options.round_tok_max)
        try:
            for _ in range(self._options.attempts_max):
                board = await self._boards.read(scope, board_id)
                conversation.is_of(board.file_id)
                share = conversation.share(self._options.round_tok_max)
                written = await self._write_board(scope, board.text, conversation, share)
                try:
                    board = await self._boards.write(
                        scope, board_id, written.text, written.made_by, expected=board.version
                    )
                except BoardChangedError:
                    continue
                conversation.integrated(share, board.file_id)
                return
            raise resource_busy(
                "this whiteboard was not updated, because other calls kept changing it at"
                " the same time",
                recovery=_RECOVERY,
                retry_after_s=RETRY_AFTER_S,
            )
        except MemsvcError as error:
            given_up = conversation.abandon(share) if isinstance(error, ModelOutputError) else 0
            log.warning(
                "a whiteboard was not updated",
                code=error.code.value,
                reason=error.message,
                entries_given_up=given_up,
            )
            conversation.failed(share, _caller_error(error, given_up))

    async def _write_board(
        self, scope: Scope, board: str, conversation: ConversationWindow, share: BatchGroup
    ) -> WrittenBoard:
        """Return the board with these entries in it; UNAVAILABLE when the model is too slow."""
        recent = conversation.recent(self._options.lead_in_entries)
        try:
            async with asyncio.timeout(self._options.deadline_s):
                return await self._writer(scope, board, recent, share.entries)
        except TimeoutError as error:
            raise _unavailable(
                "the model did not write the whiteboard within the time limit"
            ) from error


def _caller_error(error: MemsvcError, given_up: int) -> MemsvcError:
    """Return the error for callers: whether the same call may succeed later, and what was given up.

    Of the entries only those are given up of which the model often made no board, though it
    answered.
    """
    if error.code is Code.QUOTA_EXCEEDED:
        return error
    message = f"the whiteboard could not be updated: {error.message}"
    if isinstance(error, ModelRefusalError):
        return ModelRefusalError(
            Code.UNAVAILABLE,
            message,
            recovery=f"{error.recovery}; the entries are kept and will be included in the next"
            " update",
        )
    if given_up:
        return unavailable(
            f"{message}; {given_up} {'entry was' if given_up == 1 else 'entries were'} dropped",
            recovery=f"the model failed {FAILURES_MAX} times to write a whiteboard from these"
            " entries; reword the important parts of these entries and send them again",
            retry_after_s=RETRY_AFTER_S,
            details={"entries_given_up": given_up},
        )
    if error.retryable:
        return MemsvcError(
            error.code, error.message, recovery=_RECOVERY, retry_after_s=error.retry_after_s
        )
    return _unavailable(message)


def _unavailable(message: str) -> MemsvcError:
    return unavailable(message, recovery=_RECOVERY, retry_after_s=RETRY_AFTER_S)


def _consume_error(task: asyncio.Task[None]) -> None:
    """Mark a task's error as retrieved; those who waited for it have got it."""
    if not task.cancelled():
        task.exception()
