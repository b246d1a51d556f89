"""History of boards: their versions listed, read as of a point in time, and restored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import files, versions
from memsvc.store.database import Database, Tx
from memsvc.store.files import File, GoneMeanwhileError
from memsvc.store.versions import Position, State
from memsvc.styles.whiteboard.boards import NO_BOARD, Board, BoardId, Boards, board_of, read_content


@dataclass(frozen=True, slots=True)
class Version:
    """A board at one time; `current` when it has not changed since."""

    board: Board
    size_bytes: int
    current: bool


class Past:
    """History of existing boards; a deleted board has none."""

    def __init__(self, database: Database, boards: Boards, *, history_kept: int) -> None:
        self._database = database
        self._boards = boards
        self._history_kept = history_kept

    async def listing(self, scope: Scope, of: BoardId, *, before: str, most: int) -> Sequence[Version]:
        """Return the newest `most` versions, the current one first, or those before `before`.

        None of a missing board; NOT_FOUND where it never was at `before`.
        """
        position = _position(before) if before else None
        async with self._database.begin(scope, read_only=True) as tx:
            file = await files.find(tx, of.path)
            if file is None:
                if before:
                    raise _no_such_version()
                return []
            past = await versions.history(tx, of.path, before=position, limit=most)
            if past is None:
                raise _no_such_version()
            now = [Version(await board_of(tx, file), file.size_bytes, current=True)] if not before else []
            found = [*now, *(await _told(tx, past))]
        return found[:most]

    async def as_of(self, scope: Scope, of: BoardId, moment: datetime) -> Board:
        """Return the board as of a time: "" before there was one.

        NOT_FOUND when that version is no longer kept.
        """
        async with self._database.begin(scope, read_only=True) as tx:
            file = await files.find(tx, of.path)
            if file is None or moment < file.created_at:
                return NO_BOARD
            if moment >= file.updated_at:
                return await board_of(tx, file)
            past = await versions.history(tx, of.path, before=None, limit=self._history_kept + 1)
            state = next((one for one in past or () if one.created_at <= moment), None)
            if state is None:
                raise MemsvcError(
                    Code.NOT_FOUND,
                    "the versions of the board that are kept do not go back that far",
                    recovery="list them with whiteboard_history",
                )
            return _board(state, await versions.content(tx, state))

    async def restore(self, scope: Scope, of: BoardId, version: str) -> Board:
        """Restore the board to a version.

        The current text becomes a version, unless it is the same. NOT_FOUND where the board never
        was at that version, or no longer has it.
        """
        position = _position(version)
        try:
            async with self._database.begin(scope) as tx:
                file = await files.find(tx, of.path, for_update=True)
                state = await versions.state(tx, of.path, position) if file is not None else None
                if file is None or state is None:
                    raise _no_such_version()
                content = await versions.content(tx, state)
                if content == await files.read(tx, file, 0, file.size_bytes):
                    return _present(file, content)
                return await self._boards.put(tx, of, file, content)
        except GoneMeanwhileError as error:
            raise _no_such_version() from error


async def _told(tx: Tx, past: Sequence[State]) -> list[Version]:
    contents = await versions.contents(tx, past)
    return [
        Version(_board(state, content), state.size_bytes, current=False)
        for state, content in zip(past, contents, strict=True)
    ]


def _board(state: State, content: bytes) -> Board:
    text, made_by = read_content(content)
    return Board(text, made_by, state.version, state.incarnation, state.created_at)


def _present(file: File, content: bytes) -> Board:
    text, made_by = read_content(content)
    return Board(text, made_by, file.version, file.incarnation, file.updated_at)


def _position(version: str) -> Position:
    position = Position.parse(version)
    if position is None:
        raise _no_such_version()
    return position


def _no_such_version() -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND, "the board has no such version", recovery="list its versions with whiteboard_history"
    )
