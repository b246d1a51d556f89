"""Functions behind the whiteboard tools: arguments to boards, boards to results."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from memsvc.core.background import computed
from memsvc.core.errors import invalid
from memsvc.core.moments import moment_of
from memsvc.core.ports import TokenCounter
from memsvc.core.progress import SILENT, Progress
from memsvc.core.scope import Scope
from memsvc.styles.whiteboard.boards import Boards
from memsvc.styles.whiteboard.contract import (
    BoardResult,
    BoardVersion,
    ContextEntry,
    DeleteResult,
    GetArguments,
    HistoryArguments,
    HistoryResult,
    ListArguments,
    ListedBoard,
    ListResult,
    RestoreArguments,
    RestoreResult,
    UpdateArguments,
    UpdateResult,
    WhiteboardArguments,
)
from memsvc.styles.whiteboard.entries import Entry, clean, one_line
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.past import Past, Version
from memsvc.styles.whiteboard.updates import Updates

WAITING_TOLD_EVERY_S: Final = 1.0


@asynccontextmanager
async def _told_waiting(progress: Progress, most_s: float) -> AsyncIterator[None]:
    """Report for how many seconds a call has waited for its board, as long as it does."""
    if progress is SILENT:
        yield
        return
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def tell() -> None:
        while True:
            progress.report(round(loop.time() - began_s, 1), most_s, "waiting for the board")
            await asyncio.sleep(WAITING_TOLD_EVERY_S)

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


class BoardTools:
    """Functions behind these tools."""

    def __init__(
        self, boards: Boards, past: Past, updates: Updates, tokens: TokenCounter, options: WhiteboardOptions
    ) -> None:
        self._boards = boards
        self._past = past
        self._updates = updates
        self._tokens = tokens
        self._options = options

    async def update(self, scope: Scope, asked: UpdateArguments, progress: Progress) -> UpdateResult:
        chars = sum(len(one.content) for one in asked.entries)
        entries = await computed(chars, entries_of, asked.entries, self._options)
        async with _told_waiting(progress, self._options.deadline_s):
            await self._updates.update(scope, asked.board, entries)
        return UpdateResult(result=True)

    async def get(self, scope: Scope, asked: GetArguments) -> BoardResult:
        moment = moment_of(asked.as_of, "as_of")
        if moment is None:
            board = await self._boards.read(scope, asked.board)
        else:
            board = await self._past.as_of(scope, asked.board, moment)
        return BoardResult(
            text=board.text,
            exists=board.incarnation is not None,
            made_by=board.made_by,
            version=board.version,
            updated_at=board.updated_at,
            tokens=self._tokens.count(board.text),
        )

    async def delete(self, scope: Scope, asked: WhiteboardArguments) -> DeleteResult:
        return DeleteResult(deleted=await self._updates.delete(scope, asked.board))

    async def history(self, scope: Scope, asked: HistoryArguments) -> HistoryResult:
        found = await self._past.listing(scope, asked.board, before=asked.cursor or "", most=asked.limit + 1)
        page = [_listed(one) for one in found[: asked.limit]]
        return HistoryResult(versions=page, next_cursor=page[-1].version if len(found) > asked.limit else None)

    async def restore(self, scope: Scope, asked: RestoreArguments) -> RestoreResult:
        board = await self._updates.restore(scope, asked.board, asked.version)
        return RestoreResult(version=board.version, updated_at=_known(board.updated_at))

    async def listing(self, scope: Scope, asked: ListArguments) -> ListResult:
        found = await self._boards.listing(scope, asked.user_id or None, after=asked.cursor, most=asked.limit + 1)
        page = [
            ListedBoard(
                user_id=one.of.user,
                conversation_id=one.of.conversation,
                path=one.of.path,
                updated_at=one.updated_at,
                size_bytes=one.size_bytes,
            )
            for one in found[: asked.limit]
        ]
        return ListResult(boards=page, next_cursor=page[-1].path if len(found) > asked.limit else None)


def entries_of(given: Sequence[ContextEntry], options: WhiteboardOptions) -> list[Entry]:
    """Return the entries with content, cleaned; INVALID_ARGUMENT for what is too long."""
    if len(given) > options.entries_max:
        raise invalid(f"entries may hold at most {options.entries_max} entries, not {len(given)}")
    for index, entry in enumerate(given):
        if len(entry.content) > options.content_chars_max:
            raise invalid(f"entries[{index}].content may have {options.content_chars_max} characters at the most")
    if sum(len(entry.content) for entry in given) > options.call_chars_max:
        raise invalid(
            f"the entries of one call may have {options.call_chars_max} characters at the most",
            recovery="send them in several calls",
        )
    found = []
    for one in given:
        role, content = one_line(one.role) or "unknown", clean(one.content)
        if content:
            found.append(Entry(role, content, one.timestamp, one_line(one.type or "")))
    return found


def _listed(version: Version) -> BoardVersion:
    board = version.board
    assert board.made_by
    return BoardVersion(
        version=board.version,
        updated_at=_known(board.updated_at),
        made_by=board.made_by,
        size_bytes=version.size_bytes,
        current=version.current,
    )


def _known(moment: datetime | None) -> datetime:
    assert moment is not None
    return moment
