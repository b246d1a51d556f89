"""Edges that an agent adds or removes."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.store import edges, knowledge_blocks
from memsvc.store.edges import Edge
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex, BlockWrite
from memsvc.styles.knowledge.links import DEFAULT_WEIGHTS, OTHER_WEIGHT, REINFORCED_BY, SIMILARITY

IfExists = Literal["reinforce", "update", "skip", "error"]
CO_OCCURRENCE: Final = "co_occurs"
AUTO_RELATION_ORDER: Final = (SIMILARITY, CO_OCCURRENCE)
"""Relations that nobody stated, which are replaced first, in this order."""


@dataclass(frozen=True, slots=True)
class ConnectionResult:
    """Edge as it is now, the action, and the edge that it replaced."""

    edge: Edge
    action: Literal["created", "reinforced", "updated", "skipped"]
    replaced: Edge | None = None


class EdgeEditor:
    """Adds and removes edges, which have no direction; an agent's own never fade or give way."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    async def connect(
        self,
        scope: Scope,
        source: str,
        target: str,
        *,
        relation: str | None,
        note: str | None,
        if_exists: IfExists,
    ) -> ConnectionResult:
        """Connect two blocks that are not archived."""
        if source == target:
            raise invalid(
                f"Cannot connect block '{source[:8]}' to itself.",
                recovery="source and target must be different block IDs.",
            )
        async with self._index.written(scope) as writing:
            existing_blocks = await knowledge_blocks.read(writing.tx, INDEX_ID, [source, target])
            for block_id in (source, target):
                if (
                    block_id not in existing_blocks
                    or existing_blocks[block_id].status == "archived"
                ):
                    raise _not_active(block_id)
            existing = await edges.find(writing.tx, INDEX_ID, source, target)
            if existing is None:
                result = await self._create(
                    writing, source, target, relation or SIMILARITY, note or ""
                )
            else:
                result = await self._update_existing(writing, existing, relation, note, if_exists)
            writing.change()
        return result

    async def _create(
        self, writing: BlockWrite, source: str, target: str, relation: str, note: str
    ) -> ConnectionResult:
        low, high = edges.pair(source, target)
        replaced = await self._evict_edge(writing, low, high)
        edge = Edge(low, high, _weight(relation), relation, "agent", 0, writing.use.active_h, note)
        await edges.put(writing.tx, INDEX_ID, [edge])
        return ConnectionResult(edge, "created", replaced)

    async def _evict_edge(self, writing: BlockWrite, *block_ids: str) -> Edge | None:
        """Remove and return the weakest unstated edge of the first end that has too many."""
        limit = self._index.options.edge_degree_max
        for block_id in block_ids:
            existing = await edges.of(writing.tx, INDEX_ID, block_id)
            if len(existing) < limit:
                continue
            auto_edges = [
                edge
                for edge in existing
                if edge.relation in AUTO_RELATION_ORDER and edge.origin != "agent"
            ]
            if not auto_edges:
                raise MemsvcError(
                    Code.CONFLICT,
                    f"Block '{block_id[:8]}…' has {limit} protected edges; no auto-edges to"
                    " displace.",
                    recovery="Run elfmem_curate() to prune stale edges, or increase"
                    " knowledge.edge_degree_max, or call elfmem_disconnect() to manually"
                    " remove an edge.",
                )
            candidate = min(
                auto_edges, key=lambda edge: (AUTO_RELATION_ORDER.index(edge.relation), edge.weight)
            )
            await edges.remove(writing.tx, INDEX_ID, [(candidate.low, candidate.high)])
            return candidate
        return None

    async def _update_existing(
        self,
        writing: BlockWrite,
        existing: Edge,
        relation: str | None,
        note: str | None,
        if_exists: IfExists,
    ) -> ConnectionResult:
        """Apply `if_exists` to an existing edge."""
        between = f"Edge already exists between {existing.low[:8]}… and {existing.high[:8]}…"
        match if_exists:
            case "error":
                raise MemsvcError(
                    Code.ALREADY_EXISTS,
                    between,
                    recovery="Use if_exists='reinforce' or 'update' to modify existing edges.",
                )
            case "skip":
                return ConnectionResult(existing, "skipped")
            case "update":
                edge = replace(
                    existing,
                    relation=relation or existing.relation,
                    weight=_weight(relation) if relation else existing.weight,
                    note=existing.note if note is None else note,
                    origin="agent",
                    touched_h=writing.use.active_h,
                )
                await edges.update(writing.tx, INDEX_ID, edge)
                return ConnectionResult(edge, "updated")
            case "reinforce":
                if relation is not None and relation != existing.relation:
                    raise _other_relation(between, existing.relation, relation)
                weight = min(existing.weight + REINFORCED_BY, 1.0)
                await edges.add_weight(
                    writing.tx,
                    INDEX_ID,
                    [(existing.low, existing.high)],
                    REINFORCED_BY,
                    writing.use.active_h,
                )
                return ConnectionResult(replace(existing, weight=weight), "reinforced")

    async def disconnect(
        self, scope: Scope, source: str, target: str, *, guard_relation: str | None
    ) -> tuple[Literal["removed", "not_found", "guarded"], Edge | None]:
        """Remove an edge, unless its relation differs from the guard's."""
        async with self._index.written(scope) as writing:
            edge = await edges.find(writing.tx, INDEX_ID, source, target)
            if edge is None:
                return "not_found", None
            if guard_relation is not None and edge.relation != guard_relation:
                return "guarded", None
            await edges.remove(writing.tx, INDEX_ID, [(edge.low, edge.high)])
            writing.change()
        return "removed", edge


def _weight(relation: str) -> float:
    """Return the weight of an edge that an agent states."""
    return DEFAULT_WEIGHTS.get(relation, OTHER_WEIGHT)


def _not_active(block_id: str) -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND,
        f"Block '{block_id[:8]}…' not found in active memory.",
        recovery="Use elfmem_recall() to find active block IDs. If the block was archived,"
        " remember its content again.",
    )


def _other_relation(between: str, existing: str, requested: str) -> MemsvcError:
    return MemsvcError(
        Code.CONFLICT,
        f"{between} with relation={existing!r}, but reinforce was called with"
        f" relation={requested!r}.",
        recovery=f"Use if_exists='update' to change the relation to {requested!r},"
        " if_exists='skip' to keep the existing edge unchanged, or omit the relation"
        " argument to reinforce the existing edge without asserting a relation.",
    )
