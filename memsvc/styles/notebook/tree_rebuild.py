"""Comparison of a notebook's outline with its documents, and its repair."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from memsvc.core.scope import Scope
from memsvc.store import document_tree, tree
from memsvc.store.database import Database, Tx
from memsvc.store.locks import document_tree_lock
from memsvc.styles.notebook.document_tree import DerivedTree, tree_of
from memsvc.styles.notebook.links import DIRECTORY, document_at, links
from memsvc.styles.notebook.notebook_writer import INDEX_NAME

DOCUMENTS_PER_STEP: Final = 200

DiffCounts = Counter[str]
"""Number of different rows by table; and under `orphans` the documents no link leads to."""


class TreeRebuild:
    """Compares the outline with the documents that it is derived from, and rebuilds it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self, scope: Scope) -> DiffCounts:
        """Compare without writing."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await _compare(tx, fix=False)

    async def run(self, scope: Scope) -> DiffCounts:
        """Compare, and rebuild the outline.

        Return what differed. Nobody writes the notebook meanwhile.
        """
        async with self._database.begin(
            scope, locks=[document_tree_lock(INDEX_NAME)], long_running=True
        ) as tx:
            return await _compare(tx, fix=True)


async def _compare(tx: Tx, *, fix: bool) -> DiffCounts:
    expected = await _derived(tx)
    stored = await document_tree.read_all(tx, INDEX_NAME)
    count = await document_tree.count(tx, INDEX_NAME)
    wrong = {name: node for name, node in expected.nodes.items() if stored.get(name) != node}
    extra = stored.keys() - expected.nodes.keys()
    found = Counter(
        outline_nodes=len(wrong) + len(extra),
        outlines=int(count != len(expected.nodes)),
        unlinked=len(expected.orphans),
    )
    if fix and (wrong or extra or count != len(expected.nodes)):
        await document_tree.change(
            tx, INDEX_NAME, wrong, extra, added_nodes=len(expected.nodes) - count
        )
    return +found


async def _derived(tx: Tx) -> DerivedTree:
    linked: dict[str, tuple[str, ...]] = {}
    after = ""
    while paths := await tree.files_at(tx, DIRECTORY, after=after, limit=DOCUMENTS_PER_STEP):
        linked |= _links_of(await tree.contents(tx, paths), paths)
        after = paths[-1]
    return tree_of(linked)


def _links_of(contents: Mapping[str, bytes], paths: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the links of each of these documents; an empty one has no content."""
    return {
        document: links(contents.get(path, b"").decode())
        for path in paths
        if (document := document_at(path)) is not None
    }
