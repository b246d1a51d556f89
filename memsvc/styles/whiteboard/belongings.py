"""Ownership of boards: those of all conversations of a user, with their history."""

from collections.abc import AsyncIterator

from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.belongings import Belongings, nothing
from memsvc.store.database import Database
from memsvc.styles.whiteboard.boards import BOOK, BoardId, directory_of
from memsvc.styles.whiteboard.tools import RESOURCE

BOARDS_A_PAGE = 1000


class BoardBelongings:
    """Ownership of boards; a board's conversation is no session, so sessions own none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """Return nothing."""
        return nothing()

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """Yield the boards of a user, deleted ones included."""
        directory = directory_of(user)
        paths: list[str] = []
        while True:
            async with self._database.begin(scope, read_only=True) as tx:
                page = await tree.files_at(tx, directory, after=paths[-1] if paths else "", most=BOARDS_A_PAGE)
            paths += page
            if len(page) < BOARDS_A_PAGE:
                break
        boards = [of for path in paths if (of := BoardId.of(path)) is not None]
        uris = tuple(RESOURCE.uri(user_id=of.user, conversation_id=of.conversation) for of in boards)
        yield Belongings(directories=(directory,), documents_in=BOOK, changed=uris)

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """Return nothing: callers store no files here."""
        return nothing()
