"""Updates of boards: read, think, write, one at a time for each conversation of this process.

Whoever calls while a board is being thought of joins the next round, so that many calls make few. A round is a task of
its own: a caller that goes away takes nothing from the others, and its entries go in all the same.
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
    """Brings entries into boards. What is not in a board yet, and the latest of what is, stands in memory alone: it is
    gone with the process, and other replicas have their own."""

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
        """Returns when these entries are in the board, and that is committed; no entries change nothing.

        UNAVAILABLE when the model or the database failed or was too slow, RESOURCE_BUSY when others kept writing the
        board: then it is what it was, the entries are kept for the next update, and whoever sends them again does not
        send them twice. No transaction is open while the model thinks.
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
        """Delete a board for good, and forget what is remembered of its conversation; whether there was a board."""
        deleted = await self._boards.delete(scope, of)
        self._forget(scope, of)
        return deleted

    async def restore(self, scope: Scope, of: BoardId, version: str) -> Board:
        """As `Past.restore`; entries that came since are in the board no more, and forgotten."""
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
        """Rounds, as long as anybody wants one."""
        try:
            while conversation.is_due():
                await self._round(scope, of, conversation)
                if conversation.kept_chars:
                    self._conversations.limit_kept()
        except BaseException as error:  # whoever waits must hear of it, whatever it was
            told = error if isinstance(error, Exception) else _unavailable("the server is stopping")
            waiting = [(batch, batch.done) for batch in conversation.batches if batch.due]
            conversation.failed(Share(waiting), told, unusable=False)
            raise
        finally:
            conversation.task = None

    async def _round(self, scope: Scope, of: BoardId, conversation: Conversation) -> None:
        """Bring what waits into the board, or as much of it as goes in at once; or fail for all of that."""
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
        """The board with these entries in it. UNAVAILABLE, or an `UnusableAnswerError` where these entries are what the
        model may never make a board of."""
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
    """What callers are told of a failure: that the same call may succeed later, unless there is no room for a board."""
    if error.code is Code.QUOTA_EXCEEDED:
        return error
    if error.retryable:
        return MemsvcError(error.code, error.message, recovery=_RECOVERY, retry_after_s=error.retry_after_s)
    return _unavailable(f"the board could not be updated: {error.message}")


def _unavailable(message: str) -> MemsvcError:
    return MemsvcError(Code.UNAVAILABLE, message, recovery=_RECOVERY, retry_after_s=RETRY_AFTER_S)


def _retrieved(task: asyncio.Task[None]) -> None:
    """What a task raised was told to those who waited for it."""
    if not task.cancelled():
        task.exception()
