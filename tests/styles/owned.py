"""Files as a style keeps them: made or rewritten by it, and indexed in the same transaction in a
book of its own."""

from dataclasses import dataclass

from memsvc.core.scope import Scope
from memsvc.store import documents, files
from memsvc.store.database import Database
from tests.fakes import FakeClock


@dataclass(frozen=True)
class Owned:
    """The files of one book."""

    database: Database
    scope: Scope
    clock: FakeClock
    book: str = "boards"

    async def keep(
        self, path: str, text: str, *, scope: Scope | None = None, title: str = ""
    ) -> None:
        """Write a file, whether it is there or not."""
        content, now = text.encode(), self.clock.now()
        async with self.database.begin(scope or self.scope) as tx:
            file = await files.find(tx, path, for_update=True)
            file = await files.put(tx, path, file, content, is_text=True, owner=self.book, now=now)
            await documents.put(tx, self.book, file, text, title=title or path, now=now)

    async def drop(self, path: str, *, forget: bool = False) -> None:
        """Delete a file; without `forget` the index still holds what it said."""
        async with self.database.begin(self.scope) as tx:
            file = await files.find(tx, path, for_update=True)
            assert file is not None
            await files.delete(tx, path, now=self.clock.now(), keep_style_files=False)
            if forget:
                await documents.forget(tx, self.book, file.incarnation)
