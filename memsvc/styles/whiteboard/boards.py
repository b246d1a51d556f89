"""Boards: a file each, rewritten only by who read its current text, with all its versions."""

import hashlib
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from memsvc.core.errors import Code, MemsvcError, not_found, quota_exceeded
from memsvc.core.frozen import frozen
from memsvc.core.paths import USERS_ROOT, decode_segment, encode_segment
from memsvc.core.ports import Clock
from memsvc.core.resources import Resource
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import result
from memsvc.store import changes, documents, file_gc, files, tree, vectors, versions
from memsvc.store.database import Database, Tx
from memsvc.store.files import File, FileMovedError
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK
from memsvc.store.versions import FileState
from memsvc.styles.embedding import queue_embedding

OWNER: Final = "whiteboard"
INDEX_NAME: Final = "whiteboard"
ROOT: Final = USERS_ROOT
BLOCKS_A_STEP: Final = 1000

MadeBy = Literal["model", "rules"]
_SUFFIX: Final = ".md"
_MAKER_SUFFIXES: Final[dict[MadeBy, str]] = {
    "model": "\n\n<!-- written by a model -->\n",
    "rules": "\n\n<!-- written by rules -->\n",
}
"""End of a file, which names the maker of each version and is no part of the board."""


class BoardChangedError(Exception):
    """Somebody else wrote or deleted the board since it was read."""


@frozen
class BoardId:
    """Key of a board; both parts are identifiers as core/paths.py checks them."""

    user: str
    conversation: str

    @property
    def path(self) -> str:
        """Return the path of the file, unique for each pair."""
        return f"{directory_of(self.user)}/{encode_segment(self.conversation)}{_SUFFIX}"

    @property
    def title(self) -> str:
        """Return the words by which the board is found, besides its own."""
        return f"{self.user} {self.conversation}"

    @classmethod
    def of(cls, path: str) -> "BoardId | None":
        """Return the key of the board at a path; None for a path of no board."""
        steps = path.removeprefix(f"{ROOT}/").split("/")
        if not path.startswith(f"{ROOT}/") or len(steps) != 2 or not steps[1].endswith(_SUFFIX):
            return None
        user, conversation = (
            decode_segment(steps[0]),
            decode_segment(steps[1].removesuffix(_SUFFIX)),
        )
        return cls(user, conversation) if user and conversation else None


def directory_of(user: str) -> str:
    """Return the directory of a user's boards."""
    return f"{ROOT}/{encode_segment(user)}"


@frozen
class BoardContent:
    """Content of a board, now or at a version; a missing one has "" as text, maker and version."""

    text: str = ""
    made_by: MadeBy | Literal[""] = ""
    version: str = ""
    file_id: uuid.UUID | None = None
    updated_at: datetime | None = None


NO_BOARD: Final = BoardContent()


@result
class ListedBoard:
    user_id: Annotated[str, "user to whom the whiteboard belongs"]
    conversation_id: Annotated[str, "conversation to which the whiteboard belongs"]
    path: Annotated[str, "path of the whiteboard's file, for file_read"]
    updated_at: Annotated[datetime, "time of the last write"]
    size_bytes: Annotated[int, "size of the file in bytes"]


@result
class BoardVersion:
    version: Annotated[str, "version token of the whiteboard"]
    updated_at: Annotated[datetime, "time when the version was written"]
    made_by: Annotated[MadeBy, "who wrote the version"]
    size_bytes: Annotated[int, "size of the whiteboard's file in bytes"]
    current: Annotated[bool, "whether this is the current version"]


def read_content(content: bytes) -> tuple[str, MadeBy]:
    """Return the text of a board, and its maker."""
    text = content.decode()
    for made_by, suffix in _MAKER_SUFFIXES.items():
        if text.endswith(suffix):
            return text.removesuffix(suffix), made_by
    raise MemsvcError(
        Code.INTERNAL_ERROR,
        "the last line of a whiteboard's file does not state who wrote the whiteboard",
    )


@frozen
class Boards:
    """Reads, writes, restores and deletes boards, each in one transaction.

    A change is announced under the board's URI. A deleted board has no history.
    """

    database: Database
    clock: Clock
    resource: Resource
    history_kept: int
    boards_max: int

    async def read(self, scope: Scope, board_id: BoardId) -> BoardContent:
        """Return the current board."""
        async with self.database.begin_read(scope) as tx:
            file = await files.find(tx, board_id.path)
            return await board_of(tx, file) if file is not None else NO_BOARD

    async def versions(self, scope: Scope, board_ids: Sequence[BoardId]) -> list[str | None]:
        """Return the boards' versions; None for a missing one."""
        paths = [board_id.path for board_id in board_ids]
        async with self.database.begin_read(scope) as tx:
            found = await files.versions(tx, paths)
        return [found.get(path) for path in paths]

    async def write(
        self, scope: Scope, board_id: BoardId, text: str, made_by: MadeBy, *, expected: str
    ) -> BoardContent:
        """Write the board if it is at the version `expected` ("": if there is none).

        Raises OvertakenError otherwise. An unchanged text makes no new version, and "" no new
        board.
        """
        try:
            async with self.database.begin(scope) as tx:
                file = await files.find(tx, board_id.path, for_update=True)
                if (file.version if file is not None else "") != expected:
                    raise BoardChangedError
                if file is None and not text:
                    return NO_BOARD
                content = f"{text}{_MAKER_SUFFIXES[made_by]}".encode()
                if file is not None and file.sha256 == hashlib.sha256(content).digest():
                    return _board(file, content)
                return await self.put(tx, board_id, file, content)
        except FileMovedError as error:
            raise BoardChangedError from error
        except MemsvcError as error:
            if error.code is Code.ALREADY_EXISTS:
                raise BoardChangedError from error
            raise

    async def put(
        self, tx: Tx, board_id: BoardId, file: File | None, content: bytes
    ) -> BoardContent:
        """Write the file of a board, which `files.find(for_update=True)` has locked if it exists.

        The old content becomes a version, and versions beyond the limit are removed.
        """
        now = self.clock.now()
        written = await files.put(
            tx, board_id.path, file, content, is_text=True, owner=OWNER, now=now
        )
        if file is None:
            await self._check_quota(tx)
        else:
            await self._prune(tx, written)
        board = _board(written, content)
        await documents.put(tx, INDEX_NAME, written, board.text, title=board_id.title, now=now)
        await self._publish_change(tx, board_id)
        await queue_embedding(tx, now)
        return board

    async def delete(self, scope: Scope, board_id: BoardId) -> bool:
        """Delete a board with its versions and index entries for good.

        Return whether there was one.
        """
        async with self.database.begin(scope, locks=[TREE_LOCK]) as tx:
            file = await files.find(tx, board_id.path, for_update=True)
            if file is None:
                return False
            await files.delete(
                tx, board_id.path, recursive=False, now=self.clock.now(), keep_style_files=False
            )
            await file_gc.hide_all(tx, file.incarnation)
            await _sweep(tx, file.incarnation)
            await file_gc.forget(tx, file.incarnation)
            await documents.forget(tx, INDEX_NAME, file.incarnation)
            await vectors.prune(tx, index_id_of(INDEX_NAME))
            await self._publish_change(tx, board_id)
            return True

    async def listing(
        self, scope: Scope, user: str | None, *, after: str, limit: int
    ) -> list[ListedBoard]:
        """Return the next boards, of one user or of all, in the order of their paths."""
        directory, depth = (ROOT, 2) if user is None else (directory_of(user), 1)
        async with self.database.begin_read(scope) as tx:
            rows = await tree.walk(tx, directory, depth=depth, after=after, limit=limit)
        return [
            ListedBoard(
                board_id.user,
                board_id.conversation,
                row["path"],
                row["updated_at"],
                row["size_bytes"],
            )
            for row in rows
            if (board_id := BoardId.of(row["path"])) is not None
        ]

    async def history(
        self, scope: Scope, board_id: BoardId, *, before: str, limit: int
    ) -> list[BoardVersion]:
        """Return the newest `limit` versions, the current one first, or those before `before`.

        None of a missing board; NOT_FOUND where it never was at `before`.
        """
        async with self.database.begin_read(scope) as tx:
            file = await files.find(tx, board_id.path)
            if file is None:
                if before:
                    raise _no_such_version()
                return []
            past = await versions.history(tx, board_id.path, before=before or None, limit=limit)
            if past is None:
                raise _no_such_version()
            found = [] if before else [_version(file, await files.read(tx, file), True)]
            contents = await versions.contents(tx, past)
            found += [
                _version(state, content, False)
                for state, content in zip(past, contents, strict=True)
            ]
        return found[:limit]

    async def as_of(self, scope: Scope, board_id: BoardId, timestamp: datetime) -> BoardContent:
        """Return the board as of a time: "" before there was one.

        NOT_FOUND when that version is no longer kept.
        """
        async with self.database.begin_read(scope) as tx:
            file = await files.find(tx, board_id.path)
            if file is None or timestamp < file.created_at:
                return NO_BOARD
            if timestamp >= file.updated_at:
                return await board_of(tx, file)
            past = await versions.history(
                tx, board_id.path, before=None, limit=self.history_kept + 1
            )
            state = next((one for one in past or () if one.created_at <= timestamp), None)
            if state is None:
                raise not_found(
                    "the version of the whiteboard at the time as_of is no longer kept",
                    recovery="list the available versions with whiteboard_history",
                )
            return _board(state, await versions.content(tx, state))

    async def restore(self, scope: Scope, board_id: BoardId, version: str) -> BoardContent:
        """Restore the board to a version.

        The current text becomes a version, unless it is the same. NOT_FOUND where the board never
        was at that version, or no longer has it.
        """
        try:
            async with self.database.begin(scope) as tx:
                file = await files.find(tx, board_id.path, for_update=True)
                state = await versions.state(tx, board_id.path, version) if file else None
                if file is None or state is None:
                    raise _no_such_version()
                content = await versions.content(tx, state)
                if content == await files.read(tx, file):
                    return _board(file, content)
                return await self.put(tx, board_id, file, content)
        except FileMovedError as error:
            raise _no_such_version() from error

    async def _check_quota(self, tx: Tx) -> None:
        """Raise QUOTA_EXCEEDED where there are too many boards, including the new one.

        The transaction has locked the tree, so that two new boards at once are not both the last.
        """
        if await tree.count(tx, ROOT, limit=self.boards_max + 1) > self.boards_max:
            raise quota_exceeded(
                f"a project is limited to {self.boards_max} whiteboards",
                recovery="delete some whiteboards, or ask the operator to raise"
                " whiteboard.boards_max",
            )

    async def _publish_change(self, tx: Tx, board_id: BoardId) -> None:
        await changes.notify(
            tx, self.resource.uri(user_id=board_id.user, conversation_id=board_id.conversation)
        )

    async def _prune(self, tx: Tx, file: File) -> None:
        if file.revision <= self.history_kept + 1:
            return
        now = self.clock.now()
        keep = file_gc.FileRetention(
            cutoff=now,
            past_states=0,
            deleted_before=now,
            style_past_states={OWNER: self.history_kept},
        )
        await file_gc.hide_old(tx, file.incarnation, keep)
        await _sweep(tx, file.incarnation)


async def board_of(tx: Tx, file: File) -> BoardContent:
    """Return the board in a file."""
    return _board(file, await files.read(tx, file))


async def _sweep(tx: Tx, file_id: uuid.UUID) -> None:
    while not await file_gc.sweep(tx, file_id, limit=BLOCKS_A_STEP):
        pass


def _version(of: File | FileState, content: bytes, current: bool) -> BoardVersion:
    board = _board(of, content)
    assert board.made_by
    return BoardVersion(
        board.version, known(board.updated_at), board.made_by, of.size_bytes, current
    )


def known(timestamp: datetime | None) -> datetime:
    """Return the time at which an existing board was written."""
    assert timestamp is not None
    return timestamp


def _board(of: File | FileState, content: bytes) -> BoardContent:
    text, made_by = read_content(content)
    updated_at = of.updated_at if isinstance(of, File) else of.created_at
    return BoardContent(text, made_by, of.version, of.incarnation, updated_at)


def _no_such_version() -> MemsvcError:
    return not_found(
        "the whiteboard does not have this version",
        recovery="list the versions of the whiteboard with whiteboard_history",
    )
