"""Tables of document trees."""

from sqlalchemy import ARRAY, BigInteger, Column, Integer

from memsvc.store.schema_columns import Name, tenant_table

# A tree of the documents of an index, with how many nodes it has: the row that a limit is kept on.
tree_table = tenant_table(
    "outlines",
    Column("book", BigInteger, nullable=False),
    Column("nodes", Integer, nullable=False),
    key=("book",),
)

# One node of such a tree: what it is below (NULL for the root) and, in order, what is below it. So
# a change of what one document links touches the row of that document, and those of the nodes that
# come, go or move.
document_nodes = tenant_table(
    "outline_nodes",
    Column("book", BigInteger, nullable=False),
    Column("node", Name, nullable=False),
    Column("parent", Name, nullable=True),
    Column("children", ARRAY(Name), nullable=False),
    key=("book", "node"),
)
