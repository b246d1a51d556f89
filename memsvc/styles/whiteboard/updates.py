"""Updates of boards: read, write anew, store; one at a time per conversation of this process.

A caller that comes while a board is being written joins the next round, so that many calls make
few. A round is a task of its own: a caller that disconnects takes nothing from the others, and its
entries are stored all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from memsvc.core.errors import Code, MemsvcError, ModelOutputError, ModelRefusalError
from memsvc.core.ports import TokenCounter
from memsvc.core.scope import Scope
from memsvc.styles.whiteboard.board_history import BoardHistory
from memsvc.styles.whiteboard.board_writers import BoardWriter, WrittenBoard
from memsvc.styles.whiteboard.boards import BoardChangedError, BoardContent, BoardId, Boards
from memsvc.styles.whiteboard.entries import BoardEntry, split_entry
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.window import (
    FAILURES_MAX,
    Batch,
    BatchGroup,
    ConversationWindow,
    ConversationWindows,
)

log = structlog.get_logger("memsvc.whiteboard")

RETRY_AFTER_S: Final = 1.0
_RECOVERY: Final = "send the same call again: its entries are kept and go in once"


class BoardUpdates:
    """Adds entries to boards.

    Entries that are not in a board yet, and the latest of those that are, live in memory alone:
    they are lost with the process, and other replicas have their own.
    """

    def __init__(
        self,
        boards: Boards,
        past: BoardHistory,
        writer: BoardWriter,
        tokens: TokenCounter,
        options: WhiteboardOptions,
    ) -> None:
        self._boards = boards
        self._past = past
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
            raise _unavailable("the board is still being written") from None
        finally:
            conversation.release(batches, completed=completed)

    async def delete(self, scope: Scope, board_id: BoardId) -> bool:
        """Delete a board for good, and forget its conversation; return whether it existed."""
        deleted = await self._boards.delete(scope, board_id)
        self._forget(scope, board_id)
        return deleted

    async def restore(self, scope: Scope, board_id: BoardId, version: str) -> BoardContent:
        """Restore as `Past.restore`, and forget entries that came since."""
        board = await self._past.restore(scope, board_id, version)
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
            raise MemsvcError(
                Code.RESOURCE_BUSY,
                "others kept writing this board",
                recovery=_RECOVERY,
                retry_after_s=RETRY_AFTER_S,
            )
        except MemsvcError as error:
            given_up = conversation.give_up(share) if isinstance(error, ModelOutputError) else 0
            log.warning(
                "a board stays as it was",
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
            raise _unavailable("the model was too slow") from error


def _caller_error(error: MemsvcError, given_up: int) -> MemsvcError:
    """Return the error for callers: whether the same call may succeed later, and what was given up.

    Of the entries only those are given up of which the model often made no board, though it
    answered.
    """
    if error.code is Code.QUOTA_EXCEEDED:
        return error
    message = f"the board could not be updated: {error.message}"
    if isinstance(error, ModelRefusalError):
        return ModelRefusalError(
            Code.UNAVAILABLE,
            message,
            recovery=f"{error.recovery}: the entries are kept and go in with the next update",
        )
    if given_up:
        return MemsvcError(
            Code.UNAVAILABLE,
            f"{message}; {given_up} {'entry was' if given_up == 1 else 'entries were'} given up",
            recovery=f"the model made no board of them {FAILURES_MAX} times: send what matters in"
            " other words",
            retry_after_s=RETRY_AFTER_S,
            details={"entries_given_up": given_up},
        )
    if error.retryable:
        return MemsvcError(
            error.code, error.message, recovery=_RECOVERY, retry_after_s=error.retry_after_s
        )
    return _unavailable(message)


def _unavailable(message: str) -> MemsvcError:
    return MemsvcError(Code.UNAVAILABLE, message, recovery=_RECOVERY, retry_after_s=RETRY_AFTER_S)


def _consume_error(task: asyncio.Task[None]) -> None:
    """Mark a task's error as retrieved; those who waited for it have got it."""
    if not task.cancelled():
        task.exception()
