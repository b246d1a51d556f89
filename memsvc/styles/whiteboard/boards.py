"""Storage of boards: a file each, rewritten only by a caller that has read its current text."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import USERS_ROOT, decode_segment, encode_segment
from memsvc.core.ports import Clock
from memsvc.core.resources import Resource
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import result
from memsvc.store import changes, documents, file_gc, file_move, files, jobs, tree, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.files import File, FileMovedError
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.embedding import EMBED_JOB

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    user_id: Annotated[str, "whose board it is"]
    conversation_id: Annotated[str, "the conversation that it is about"]
    path: Annotated[str, "the file that holds it, for file_read"]
    updated_at: Annotated[datetime, "when it was last written"]
    size_bytes: Annotated[int, "bytes of the file"]


def content_of(text: str, made_by: MadeBy) -> bytes:
    """Return the content of a board's file."""
    return f"{text}{_MAKER_SUFFIXES[made_by]}".encode()


def read_content(content: bytes) -> tuple[str, MadeBy]:
    """Return the text of a board, and its maker."""
    text = content.decode()
    for made_by, suffix in _MAKER_SUFFIXES.items():
        if text.endswith(suffix):
            return text.removesuffix(suffix), made_by
    raise MemsvcError(Code.INTERNAL_ERROR, "the file of a board does not end as one")


class Boards:
    """Reads, writes and deletes boards, each in one transaction.

    A change is announced under the board's URI.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        resource: Resource,
        *,
        history_kept: int,
        boards_max: int,
        embeds: bool,
    ) -> None:
        self._database = database
        self._clock = clock
        self._resource = resource
        self._history_kept = history_kept
        self._boards_max = boards_max
        self._embeds = embeds

    async def read(self, scope: Scope, board_id: BoardId) -> BoardContent:
        """Return the current board."""
        async with self._database.begin(scope, read_only=True) as tx:
            file = await files.find(tx, board_id.path)
            return await board_of(tx, file) if file is not None else NO_BOARD

    async def versions(self, scope: Scope, board_ids: Sequence[BoardId]) -> list[str | None]:
        """Return the boards' versions; None for a missing one."""
        paths = [board_id.path for board_id in board_ids]
        async with self._database.begin(scope, read_only=True) as tx:
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
            async with self._database.begin(scope) as tx:
                file = await files.find(tx, board_id.path, for_update=True)
                if (file.version if file is not None else "") != expected:
                    raise BoardChangedError
                if file is None and not text:
                    return NO_BOARD
                content = content_of(text, made_by)
                if file is not None and file.sha256 == hashlib.sha256(content).digest():
                    return BoardContent(
                        text, made_by, file.version, file.incarnation, file.updated_at
                    )
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
        now = self._clock.now()
        text, made_by = read_content(content)
        if file is None:
            file = await files.create(
                tx, board_id.path, content, is_text=True, owner=OWNER, now=now
            )
            await self._check_quota(tx)
        else:
            file = await files.rewrite(tx, file, content, is_text=True, now=now)
            await self._prune(tx, file)
        indexed = await documents.put(tx, INDEX_NAME, file, text, title=board_id.title, now=now)
        await self._publish_change(tx, board_id)
        if indexed and self._embeds:
            await jobs.enqueue(tx, EMBED_JOB, str(index_id_of(INDEX_NAME)), now=now)
        return BoardContent(text, made_by, file.version, file.incarnation, file.updated_at)

    async def delete(self, scope: Scope, board_id: BoardId) -> bool:
        """Delete a board with its versions and index entries for good.

        Return whether there was one.
        """
        async with self._database.begin(scope, locks=[TREE_LOCK]) as tx:
            file = await files.find(tx, board_id.path, for_update=True)
            if file is None:
                return False
            await file_move.delete(
                tx, board_id.path, recursive=False, now=self._clock.now(), keep_style_files=False
            )
            await file_gc.hide_all(tx, file.incarnation)
            await _sweep(tx, file.incarnation)
            await file_gc.forget(tx, file.incarnation)
            await documents.forget(tx, INDEX_NAME, file.incarnation)
            if await vectors.available(tx):  # also where no embedder is configured any more
                await vectors.prune(tx, index_id_of(INDEX_NAME))
            await self._publish_change(tx, board_id)
            return True

    async def listing(
        self, scope: Scope, user: str | None, *, after: str, limit: int
    ) -> list[ListedBoard]:
        """Return the next boards, of one user or of all, in the order of their paths."""
        directory, depth = (ROOT, 2) if user is None else (directory_of(user), 1)
        async with self._database.begin(scope, read_only=True) as tx:
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

    async def _check_quota(self, tx: Tx) -> None:
        """Raise QUOTA_EXCEEDED where there are too many boards, including the new one.

        The transaction has locked the tree, so that two new boards at once are not both the last.
        """
        if await tree.count(tx, ROOT, limit=self._boards_max + 1) > self._boards_max:
            raise MemsvcError(
                Code.QUOTA_EXCEEDED,
                f"a project may have {self._boards_max} whiteboards",
                recovery="delete some, or raise whiteboard.boards_max",
            )

    async def _publish_change(self, tx: Tx, board_id: BoardId) -> None:
        await changes.notify(
            tx, self._resource.uri(user_id=board_id.user, conversation_id=board_id.conversation)
        )

    async def _prune(self, tx: Tx, file: File) -> None:
        if file.revision <= self._history_kept + 1:
            return
        now = self._clock.now()
        keep = file_gc.FileRetention(
            cutoff=now,
            past_states=0,
            deleted_before=now,
            style_past_states={OWNER: self._history_kept},
        )
        await file_gc.hide_old(tx, file.incarnation, keep)
        await _sweep(tx, file.incarnation)


async def board_of(tx: Tx, file: File) -> BoardContent:
    """Return the board in a file."""
    text, made_by = read_content(await files.read(tx, file, 0, file.size_bytes))
    return BoardContent(text, made_by, file.version, file.incarnation, file.updated_at)


async def _sweep(tx: Tx, file_id: uuid.UUID) -> None:
    while not await file_gc.sweep(tx, file_id, limit=BLOCKS_A_STEP):
        pass
