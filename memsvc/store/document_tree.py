"""Trees of document names, one for each index that has one, kept as one row a node.

Names hold no line breaks. A writer holds the tree's lock (`locks.document_tree_lock`) and keeps it
a tree: these functions do not check.
"""

from collections.abc import Collection, Mapping

from memsvc.core.frozen import frozen
from memsvc.core.paths import prefix_range
from memsvc.store.database import Row, Tx
from memsvc.store.index import index_id_of


@frozen
class DocumentNode:
    """Node with its parent, None for the root, and its children in order."""

    parent: str | None
    children: tuple[str, ...]


def _nodes(rows: list[Row]) -> dict[str, DocumentNode]:
    return {row["node"]: DocumentNode(row["parent"], tuple(row["children"])) for row in rows}


async def find(tx: Tx, index_name: str, names: Collection[str]) -> dict[str, DocumentNode]:
    """Return these nodes; those that do not exist are left out."""
    rows = await tx.fetch(
        """
        SELECT node, parent, children FROM outline_nodes
        WHERE tenant = $1 AND project = $2 AND book = $3 AND node = ANY($4::text[])
        """,
        index_id_of(index_name),
        list(names),
    )
    return _nodes(rows)


async def with_ancestors(
    tx: Tx, index_name: str, names: Collection[str]
) -> tuple[dict[str, DocumentNode], dict[str, str | None]]:
    """Return these nodes, and the parent of each of them and of all nodes above them.

    One step a level.
    """
    rows = await tx.fetch(
        """
        WITH RECURSIVE line AS (
            SELECT node, parent, children FROM outline_nodes
            WHERE tenant = $1 AND project = $2 AND book = $3 AND node = ANY($4::text[])
            UNION
            SELECT above.node, above.parent, NULL FROM line CROSS JOIN LATERAL (
                SELECT node, parent FROM outline_nodes
                WHERE tenant = $1 AND project = $2 AND book = $3
                    AND node = line.parent OFFSET 0) AS above
        )
        SELECT node, parent, children FROM line
        """,
        index_id_of(index_name),
        list(names),
    )
    requested = [row for row in rows if row["children"] is not None]
    return _nodes(requested), {row["node"]: row["parent"] for row in rows}


async def with_descendants(
    tx: Tx, index_name: str, names: Collection[str]
) -> dict[str, DocumentNode]:
    """Return these nodes and all nodes below them. One step a level."""
    rows = await tx.fetch(
        """
        WITH RECURSIVE line AS (
            SELECT node, parent, children FROM outline_nodes
            WHERE tenant = $1 AND project = $2 AND book = $3 AND node = ANY($4::text[])
            UNION
            SELECT below.node, below.parent, below.children FROM line CROSS JOIN LATERAL (
                SELECT node, parent, children FROM outline_nodes
                WHERE tenant = $1 AND project = $2 AND book = $3
                    AND node = ANY(line.children) OFFSET 0) AS below
        )
        SELECT node, parent, children FROM line
        """,
        index_id_of(index_name),
        list(names),
    )
    return _nodes(rows)


async def read_all(tx: Tx, index_name: str) -> dict[str, DocumentNode]:
    """Return all nodes of a tree, in one query; none where there is none."""
    rows = await tx.fetch(
        """
        SELECT node, parent, children FROM outline_nodes WHERE tenant = $1 AND project = $2
            AND book = $3
        """,
        index_id_of(index_name),
    )
    return _nodes(rows)


async def change(
    tx: Tx,
    index_name: str,
    put: Mapping[str, DocumentNode],
    removed: Collection[str],
    *,
    added_nodes: int,
) -> int:
    """Add or replace nodes and remove others, in one round trip; return the new number of nodes.

    `added_nodes` is by how many the number grows.
    """
    (row,) = await tx.call(
        "change_outline",
        index_id_of(index_name),
        list(put),
        [node.parent for node in put.values()],
        ["\n".join(node.children) for node in put.values()],
        list(removed),
        added_nodes,
    )
    nodes: int = row["change_outline"]
    return nodes


async def names(
    tx: Tx, index_name: str, *, prefix: str = "", after: str = "", limit: int
) -> list[str]:
    """Return the next nodes after `after`, in byte order, whose names begin with `prefix`."""
    return await tx.fetch_column(
        """
        SELECT node FROM outline_nodes
        WHERE tenant = $1 AND project = $2 AND book = $3 AND node >= $4 AND node < $5 AND node > $6
        ORDER BY node LIMIT $7
        """,
        index_id_of(index_name),
        *prefix_range(prefix),
        after,
        limit,
    )


async def count(tx: Tx, index_name: str) -> int:
    """Return the stored number of nodes of a tree."""
    nodes = await tx.fetchval(
        "SELECT nodes FROM outlines WHERE tenant = $1 AND project = $2 AND book = $3",
        index_id_of(index_name),
    )
    return nodes or 0
