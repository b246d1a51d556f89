"""Updates of boards: read, write anew, store; one at a time per conversation of this process.

A caller that comes while a board is being written joins the next round, so that many calls make
few. A round is a task of its own: a caller that disconnects takes nothing from the others, and its
entries are stored all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from memsvc.core.errors import Code, MemsvcError, UnusableAnswerError
from memsvc.core.ports import TokenCounter
from memsvc.core.scope import Scope
from memsvc.styles.whiteboard.boards import Board, BoardId, Boards, OvertakenError
from memsvc.styles.whiteboard.entries import Entry, parts
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.past import Past
from memsvc.styles.whiteboard.thinking import Thinking, Thought
from memsvc.styles.whiteboard.window import Batch, Conversation, Conversations, Share

log = structlog.get_logger("memsvc.whiteboard")

RETRY_AFTER_S: Final = 1.0
_RECOVERY: Final = "send the same call again: its entries are kept and go in once"


class Updates:
    """Adds entries to boards.

    Entries that are not in a board yet, and the latest of those that are, live in memory alone:
    they are lost with the process, and other replicas have their own.
    """

    def __init__(
        self, boards: Boards, past: Past, thinking: Thinking, tokens: TokenCounter, options: WhiteboardOptions
    ) -> None:
        self._boards = boards
        self._past = past
        self._thinking = thinking
        self._tokens = tokens
        self._options = options
        self._conversations = Conversations(most=options.conversations_kept, window_entries=options.window_entries)

    async def update(self, scope: Scope, of: BoardId, entries: Sequence[Entry]) -> None:
        """Add these entries to the board, and return when that is committed; none change nothing.

        UNAVAILABLE when the model or the database failed or was too slow, RESOURCE_BUSY when others
        kept writing the board: then the board is unchanged, the entries are kept for the next
        update, and sending them again does not add them twice. No transaction is open while the
        model writes.
        """
        if not entries:
            return
        conversation = self._conversations.of(scope, of)
        batches = self._claim(conversation, tuple(entries))
        if conversation.task is None and conversation.is_due():
            conversation.task = asyncio.create_task(self._work(scope, of, conversation))
            conversation.task.add_done_callback(_retrieved)
        heard = False
        try:
            async with asyncio.timeout(self._options.deadline_s):
                for batch in batches:
                    await batch.ended.wait()
                    if batch.error is not None:
                        raise batch.error
            heard = True
        except TimeoutError:
            raise _unavailable("the board is still being written") from None
        finally:
            conversation.leave(batches, heard=heard)

    async def delete(self, scope: Scope, of: BoardId) -> bool:
        """Delete a board for good, and forget its conversation; return whether it existed."""
        deleted = await self._boards.delete(scope, of)
        self._forget(scope, of)
        return deleted

    async def restore(self, scope: Scope, of: BoardId, version: str) -> Board:
        """Restore as `Past.restore`, and forget entries that came since."""
        board = await self._past.restore(scope, of, version)
        self._forget(scope, of)
        return board

    def _forget(self, scope: Scope, of: BoardId) -> None:
        conversation = self._conversations.known(scope, of)
        if conversation is not None:
            conversation.forget()

    def _claim(self, conversation: Conversation, entries: tuple[Entry, ...]) -> list[Batch]:
        batches, rest = conversation.find(entries)
        if rest:
            tok_max = self._options.round_tok_max
            shown = tuple(part for entry in rest for part in parts(entry, tokens_max=tok_max, count=self._tokens.count))
            batches.append(Batch(rest, shown, tuple(self._tokens.count(part.lines) for part in shown)))
            conversation.batches.append(batches[-1])
        for batch in batches:
            batch.claim()
        return batches

    async def _work(self, scope: Scope, of: BoardId, conversation: Conversation) -> None:
        """Run rounds as long as entries are pending."""
        try:
            while conversation.is_due():
                await self._round(scope, of, conversation)
                if conversation.kept_chars:
                    self._conversations.limit_kept()
        except BaseException as error:  # every waiting caller must get it, whatever it was
            told = error if isinstance(error, Exception) else _unavailable("the server is stopping")
            waiting = [(batch, batch.done) for batch in conversation.batches if batch.due]
            conversation.failed(Share(waiting), told, unusable=False)
            raise
        finally:
            conversation.task = None

    async def _round(self, scope: Scope, of: BoardId, conversation: Conversation) -> None:
        """Add the pending entries to the board, or as many as fit; or fail for all of these."""
        share = conversation.share(self._options.round_tok_max)
        try:
            for _ in range(self._options.attempts_max):
                board = await self._boards.read(scope, of)
                conversation.is_of(board.incarnation)
                share = conversation.share(self._options.round_tok_max)
                thought = await self._think(scope, board.text, conversation, share)
                try:
                    board = await self._boards.write(scope, of, thought.text, thought.made_by, expected=board.version)
                except OvertakenError:
                    continue
                conversation.integrated(share, board.incarnation)
                return
            raise MemsvcError(
                Code.RESOURCE_BUSY,
                "others kept writing this board",
                recovery=_RECOVERY,
                retry_after_s=RETRY_AFTER_S,
            )
        except MemsvcError as error:
            log.warning("a board stays as it was", code=error.code.value, reason=error.message)
            conversation.failed(share, _told(error), unusable=isinstance(error, UnusableAnswerError))

    async def _think(self, scope: Scope, board: str, conversation: Conversation, share: Share) -> Thought:
        """Return the board with these entries in it.

        Raises UNAVAILABLE, or an `UnusableAnswerError` where the model may never make a board of
        them.
        """
        recent = conversation.recent(self._options.lead_in_entries)
        try:
            async with asyncio.timeout(self._options.deadline_s):
                return await self._thinking(scope, board, recent, share.entries)
        except TimeoutError as error:
            raise _unavailable("the model was too slow") from error
        except MemsvcError as error:
            if error.retryable:
                raise
            raise UnusableAnswerError(error.code, error.message) from error


def _told(error: MemsvcError) -> MemsvcError:
    """Return the error for callers: the same call may succeed later, unless a quota is exceeded."""
    if error.code is Code.QUOTA_EXCEEDED:
        return error
    if error.retryable:
        return MemsvcError(error.code, error.message, recovery=_RECOVERY, retry_after_s=error.retry_after_s)
    return _unavailable(f"the board could not be updated: {error.message}")


def _unavailable(message: str) -> MemsvcError:
    return MemsvcError(Code.UNAVAILABLE, message, recovery=_RECOVERY, retry_after_s=RETRY_AFTER_S)


def _retrieved(task: asyncio.Task[None]) -> None:
    """Mark a task's error as retrieved; those who waited for it have got it."""
    if not task.cancelled():
        task.exception()
