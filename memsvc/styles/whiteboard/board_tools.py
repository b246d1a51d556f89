"""Functions behind the whiteboard tools: arguments to boards, boards to results."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from memsvc.core.background import run_in_thread
from memsvc.core.errors import invalid
from memsvc.core.ports import TokenCounter
from memsvc.core.progress import SILENT, ProgressCallback
from memsvc.core.scope import Scope
from memsvc.core.timestamp import parse_timestamp
from memsvc.styles.whiteboard.board_history import BoardHistory, BoardRevision
from memsvc.styles.whiteboard.boards import Boards
from memsvc.styles.whiteboard.entries import BoardEntry, clean, one_line
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.styles.whiteboard.updates import BoardUpdates
from memsvc.styles.whiteboard.whiteboard_models import (
    BoardDeleteResult,
    BoardGetArguments,
    BoardHistoryArguments,
    BoardHistoryResult,
    BoardListArguments,
    BoardListResult,
    BoardRestoreArguments,
    BoardRestoreResult,
    BoardResult,
    BoardUpdateArguments,
    BoardUpdateResult,
    BoardVersion,
    ContextEntry,
    ListedBoard,
    WhiteboardArguments,
)

REPORT_INTERVAL_S: Final = 1.0


@asynccontextmanager
async def _wait_reported(progress: ProgressCallback, max_s: float) -> AsyncIterator[None]:
    """Report for how many seconds a call has waited for its board, as long as it does."""
    if progress is SILENT:
        yield
        return
    loop = asyncio.get_running_loop()
    started_s = loop.time()

    async def report() -> None:
        while True:
            progress.report(round(loop.time() - started_s, 1), max_s, "waiting for the board")
            await asyncio.sleep(REPORT_INTERVAL_S)

    report_task = asyncio.create_task(report())
    try:
        yield
    finally:
        report_task.cancel()


class BoardTools:
    """Functions behind these tools."""

    def __init__(
        self,
        boards: Boards,
        past: BoardHistory,
        updates: BoardUpdates,
        tokens: TokenCounter,
        options: WhiteboardOptions,
    ) -> None:
        self._boards = boards
        self._past = past
        self._updates = updates
        self._tokens = tokens
        self._options = options

    async def update(
        self, scope: Scope, args: BoardUpdateArguments, progress: ProgressCallback
    ) -> BoardUpdateResult:
        chars = sum(len(one.content) for one in args.entries)
        entries = await run_in_thread(chars, entries_of, args.entries, self._options)
        async with _wait_reported(progress, self._options.deadline_s):
            await self._updates.update(scope, args.board, entries)
        return BoardUpdateResult(result=True)

    async def get(self, scope: Scope, args: BoardGetArguments) -> BoardResult:
        timestamp = parse_timestamp(args.as_of, "as_of")
        if timestamp is None:
            board = await self._boards.read(scope, args.board)
        else:
            board = await self._past.as_of(scope, args.board, timestamp)
        return BoardResult(
            text=board.text,
            exists=board.file_id is not None,
            made_by=board.made_by,
            version=board.version,
            updated_at=board.updated_at,
            tokens=self._tokens.count(board.text),
        )

    async def delete(self, scope: Scope, args: WhiteboardArguments) -> BoardDeleteResult:
        return BoardDeleteResult(deleted=await self._updates.delete(scope, args.board))

    async def history(self, scope: Scope, args: BoardHistoryArguments) -> BoardHistoryResult:
        found = await self._past.listing(
            scope, args.board, before=args.cursor or "", limit=args.limit + 1
        )
        page = [_listed(one) for one in found[: args.limit]]
        return BoardHistoryResult(
            versions=page, next_cursor=page[-1].version if len(found) > args.limit else None
        )

    async def restore(self, scope: Scope, args: BoardRestoreArguments) -> BoardRestoreResult:
        board = await self._updates.restore(scope, args.board, args.version)
        return BoardRestoreResult(version=board.version, updated_at=_known(board.updated_at))

    async def listing(self, scope: Scope, args: BoardListArguments) -> BoardListResult:
        found = await self._boards.listing(
            scope, args.user_id or None, after=args.cursor, limit=args.limit + 1
        )
        page = [
            ListedBoard(
                user_id=one.board_id.user,
                conversation_id=one.board_id.conversation,
                path=one.board_id.path,
                updated_at=one.updated_at,
                size_bytes=one.size_bytes,
            )
            for one in found[: args.limit]
        ]
        return BoardListResult(
            boards=page, next_cursor=page[-1].path if len(found) > args.limit else None
        )


def entries_of(entries: Sequence[ContextEntry], options: WhiteboardOptions) -> list[BoardEntry]:
    """Return the entries with content, cleaned; INVALID_ARGUMENT for what is too long."""
    if len(entries) > options.entries_max:
        raise invalid(f"entries may hold at most {options.entries_max} entries, not {len(entries)}")
    for index, entry in enumerate(entries):
        if len(entry.content) > options.content_chars_max:
            raise invalid(
                f"entries[{index}].content may have {options.content_chars_max} characters at the"
                " most"
            )
    if sum(len(entry.content) for entry in entries) > options.call_chars_max:
        raise invalid(
            f"the entries of one call may have {options.call_chars_max} characters at the most",
            recovery="send them in several calls",
        )
    found = []
    for one in entries:
        role, content = one_line(one.role) or "unknown", clean(one.content)
        if content:
            found.append(BoardEntry(role, content, one.timestamp, one_line(one.type or "")))
    return found


def _listed(version: BoardRevision) -> BoardVersion:
    board = version.board
    assert board.made_by
    return BoardVersion(
        version=board.version,
        updated_at=_known(board.updated_at),
        made_by=board.made_by,
        size_bytes=version.size_bytes,
        current=version.current,
    )


def _known(timestamp: datetime | None) -> datetime:
    assert timestamp is not None
    return timestamp
