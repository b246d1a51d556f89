"""Ownership of boards: those of all conversations of a user, with their history."""

from collections.abc import AsyncIterator

from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.store.ownership import OwnerData, nothing
from memsvc.styles.whiteboard.boards import INDEX_NAME, BoardId, directory_of
from memsvc.styles.whiteboard.tools import RESOURCE

BOARDS_A_PAGE = 1000


class BoardOwners:
    """Ownership of boards; a board's conversation is no session, so sessions own none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Return nothing."""
        return nothing()

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the boards of a user, deleted ones included."""
        directory = directory_of(user)
        paths: list[str] = []
        while True:
            async with self._database.begin(scope, read_only=True) as tx:
                page = await tree.files_at(
                    tx, directory, after=paths[-1] if paths else "", limit=BOARDS_A_PAGE
                )
            paths += page
            if len(page) < BOARDS_A_PAGE:
                break
        boards = [board_id for path in paths if (board_id := BoardId.of(path)) is not None]
        uris = tuple(
            RESOURCE.uri(user_id=board_id.user, conversation_id=board_id.conversation)
            for board_id in boards
        )
        yield OwnerData(directories=(directory,), documents_index=INDEX_NAME, changed=uris)

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[OwnerData]:
        """Return nothing: callers store no files here."""
        return nothing()
