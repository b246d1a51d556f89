"""History of boards: their versions listed, read as of a point in time, and restored."""

from datetime import datetime
from typing import Annotated

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import result
from memsvc.store import files, versions
from memsvc.store.database import Database
from memsvc.store.files import File, FileMovedError
from memsvc.store.versions import FileRevision, FileState
from memsvc.styles.whiteboard.boards import (
    NO_BOARD,
    BoardContent,
    BoardId,
    Boards,
    MadeBy,
    board_of,
    read_content,
)


@result
class BoardVersion:
    version: Annotated[str, "token of the version"]
    updated_at: Annotated[datetime, "when it was written"]
    made_by: Annotated[MadeBy, "who wrote it"]
    size_bytes: Annotated[int, "bytes of its file"]
    current: Annotated[bool, "whether it is what the board is now"]


class BoardHistory:
    """History of existing boards; a deleted board has none."""

    def __init__(self, database: Database, boards: Boards, *, history_kept: int) -> None:
        self._database = database
        self._boards = boards
        self._history_kept = history_kept

    async def listing(
        self, scope: Scope, board_id: BoardId, *, before: str, limit: int
    ) -> list[BoardVersion]:
        """Return the newest `limit` versions, the current one first, or those before `before`.

        None of a missing board; NOT_FOUND where it never was at `before`.
        """
        position = _position(before) if before else None
        async with self._database.begin(scope, read_only=True) as tx:
            file = await files.find(tx, board_id.path)
            if file is None:
                if before:
                    raise _no_such_version()
                return []
            past = await versions.history(tx, board_id.path, before=position, limit=limit)
            if past is None:
                raise _no_such_version()
            found = [] if before else [_version(await board_of(tx, file), file.size_bytes, True)]
            contents = await versions.contents(tx, past)
            found += [
                _version(_board(state, content), state.size_bytes, False)
                for state, content in zip(past, contents, strict=True)
            ]
        return found[:limit]

    async def as_of(self, scope: Scope, board_id: BoardId, timestamp: datetime) -> BoardContent:
        """Return the board as of a time: "" before there was one.

        NOT_FOUND when that version is no longer kept.
        """
        async with self._database.begin(scope, read_only=True) as tx:
            file = await files.find(tx, board_id.path)
            if file is None or timestamp < file.created_at:
                return NO_BOARD
            if timestamp >= file.updated_at:
                return await board_of(tx, file)
            past = await versions.history(
                tx, board_id.path, before=None, limit=self._history_kept + 1
            )
            state = next((one for one in past or () if one.created_at <= timestamp), None)
            if state is None:
                raise MemsvcError(
                    Code.NOT_FOUND,
                    "the versions of the board that are kept do not go back that far",
                    recovery="list them with whiteboard_history",
                )
            return _board(state, await versions.content(tx, state))

    async def restore(self, scope: Scope, board_id: BoardId, version: str) -> BoardContent:
        """Restore the board to a version.

        The current text becomes a version, unless it is the same. NOT_FOUND where the board never
        was at that version, or no longer has it.
        """
        position = _position(version)
        try:
            async with self._database.begin(scope) as tx:
                file = await files.find(tx, board_id.path, for_update=True)
                state = (
                    await versions.state(tx, board_id.path, position) if file is not None else None
                )
                if file is None or state is None:
                    raise _no_such_version()
                content = await versions.content(tx, state)
                if content == await files.read(tx, file, 0, file.size_bytes):
                    return _present(file, content)
                return await self._boards.put(tx, board_id, file, content)
        except FileMovedError as error:
            raise _no_such_version() from error


def _version(board: BoardContent, size_bytes: int, current: bool) -> BoardVersion:
    assert board.made_by
    return BoardVersion(board.version, known(board.updated_at), board.made_by, size_bytes, current)


def known(timestamp: datetime | None) -> datetime:
    """Return the time at which an existing board was written."""
    assert timestamp is not None
    return timestamp


def _board(state: FileState, content: bytes) -> BoardContent:
    text, made_by = read_content(content)
    return BoardContent(text, made_by, state.version, state.incarnation, state.created_at)


def _present(file: File, content: bytes) -> BoardContent:
    text, made_by = read_content(content)
    return BoardContent(text, made_by, file.version, file.incarnation, file.updated_at)


def _position(version: str) -> FileRevision:
    position = FileRevision.parse(version)
    if position is None:
        raise _no_such_version()
    return position


def _no_such_version() -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND,
        "the board has no such version",
        recovery="list its versions with whiteboard_history",
    )
