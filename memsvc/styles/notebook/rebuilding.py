"""Comparison of a notebook's outline with its documents, and its repair."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from memsvc.core.scope import Scope
from memsvc.store import outlines, tree
from memsvc.store.database import Database, Tx
from memsvc.store.locks import outline_lock
from memsvc.styles.notebook.changing import BOOK
from memsvc.styles.notebook.links import DIRECTORY, document_at, links
from memsvc.styles.notebook.outline import Derived, derived

DOCUMENTS_A_STEP: Final = 200

Differences = Counter[str]
"""Number of different rows by table; and under `unlinked` the documents no link leads to."""


class Rebuilding:
    """Compares the outline with the documents that it is derived from, and rebuilds it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self, scope: Scope) -> Differences:
        """Compare without writing."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await _compare(tx, mend=False)

    async def run(self, scope: Scope) -> Differences:
        """Compare, and rebuild the outline.

        Return what differed. Nobody writes the notebook meanwhile.
        """
        async with self._database.begin(scope, locks=[outline_lock(BOOK)], lasting=True) as tx:
            return await _compare(tx, mend=True)


async def _compare(tx: Tx, *, mend: bool) -> Differences:
    wanted = await _derived(tx)
    stored = await outlines.whole(tx, BOOK)
    count = await outlines.count(tx, BOOK)
    wrong = {name: node for name, node in wanted.nodes.items() if stored.get(name) != node}
    surplus = stored.keys() - wanted.nodes.keys()
    found = Counter(
        outline_nodes=len(wrong) + len(surplus), outlines=int(count != len(wanted.nodes)), unlinked=len(wanted.unlinked)
    )
    if mend and (wrong or surplus or count != len(wanted.nodes)):
        await outlines.change(tx, BOOK, wrong, surplus, grown=len(wanted.nodes) - count)
    return +found


async def _derived(tx: Tx) -> Derived:
    linked: dict[str, tuple[str, ...]] = {}
    after = ""
    while paths := await tree.files_at(tx, DIRECTORY, after=after, most=DOCUMENTS_A_STEP):
        linked |= _links_of(await tree.contents(tx, paths), paths)
        after = paths[-1]
    return derived(linked)


def _links_of(contents: Mapping[str, bytes], paths: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the links of each of these documents; an empty one has no content."""
    return {
        document: links(contents.get(path, b"").decode())
        for path in paths
        if (document := document_at(path)) is not None
    }
