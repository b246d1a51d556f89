"""Edges that an agent adds or removes."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.store import edges, notions
from memsvc.store.edges import Edge
from memsvc.styles.knowledge.book import NUMBER, Book, Writing
from memsvc.styles.knowledge.links import DEFAULT_WEIGHTS, OTHER_WEIGHT, REINFORCED_BY, SIMILAR

IfExists = Literal["reinforce", "update", "skip", "error"]
CO_OCCURS: Final = "co_occurs"
DISPLACED: Final = (SIMILAR, CO_OCCURS)
"""Relations that nobody stated, which are replaced first, in this order."""


@dataclass(frozen=True, slots=True)
class Connected:
    """Edge as it is now, the action, and the edge that it replaced."""

    edge: Edge
    action: Literal["created", "reinforced", "updated", "skipped"]
    displaced: Edge | None = None


class Linking:
    """Adds and removes edges, which have no direction; an agent's own never fade or give way."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def connect(
        self, scope: Scope, source: str, target: str, *, relation: str | None, note: str | None, if_exists: IfExists
    ) -> Connected:
        """Connect two blocks that are not archived."""
        if source == target:
            raise invalid(
                f"Cannot connect block '{source[:8]}' to itself.",
                recovery="source and target must be different block IDs.",
            )
        async with self._book.written(scope) as writing:
            there = await notions.read(writing.tx, NUMBER, [source, target])
            for block_id in (source, target):
                if block_id not in there or there[block_id].status == "archived":
                    raise _not_active(block_id)
            existing = await edges.find(writing.tx, NUMBER, source, target)
            if existing is None:
                done = await self._create(writing, source, target, relation or SIMILAR, note or "")
            else:
                done = await self._meet(writing, existing, relation, note, if_exists)
            writing.change()
        return done

    async def _create(self, writing: Writing, source: str, target: str, relation: str, note: str) -> Connected:
        low, high = edges.pair(source, target)
        displaced = await self._make_room(writing, low, high)
        edge = Edge(low, high, _weight(relation), relation, "agent", 0, writing.use.active_h, note)
        await edges.put(writing.tx, NUMBER, [edge])
        return Connected(edge, "created", displaced)

    async def _make_room(self, writing: Writing, *ends: str) -> Edge | None:
        """Remove and return the weakest unstated edge of the first end that has too many."""
        most = self._book.options.edge_degree_max
        for end in ends:
            own = await edges.of(writing.tx, NUMBER, end)
            if len(own) < most:
                continue
            loose = [edge for edge in own if edge.relation in DISPLACED and edge.origin != "agent"]
            if not loose:
                raise MemsvcError(
                    Code.CONFLICT,
                    f"Block '{end[:8]}…' has {most} protected edges; no auto-edges to displace.",
                    recovery="Run elfmem_curate() to prune stale edges, or increase knowledge.edge_degree_max, or"
                    " call elfmem_disconnect() to manually remove an edge.",
                )
            weakest = min(loose, key=lambda edge: (DISPLACED.index(edge.relation), edge.weight))
            await edges.remove(writing.tx, NUMBER, [(weakest.low, weakest.high)])
            return weakest
        return None

    async def _meet(
        self, writing: Writing, was: Edge, relation: str | None, note: str | None, if_exists: IfExists
    ) -> Connected:
        """Apply `if_exists` to an existing edge."""
        between = f"Edge already exists between {was.low[:8]}… and {was.high[:8]}…"
        match if_exists:
            case "error":
                raise MemsvcError(
                    Code.ALREADY_EXISTS,
                    between,
                    recovery="Use if_exists='reinforce' or 'update' to modify existing edges.",
                )
            case "skip":
                return Connected(was, "skipped")
            case "update":
                edge = replace(
                    was,
                    relation=relation or was.relation,
                    weight=_weight(relation) if relation else was.weight,
                    note=was.note if note is None else note,
                    origin="agent",
                    touched_h=writing.use.active_h,
                )
                await edges.restate(writing.tx, NUMBER, edge)
                return Connected(edge, "updated")
            case "reinforce":
                if relation is not None and relation != was.relation:
                    raise _other_relation(between, was.relation, relation)
                weight = min(was.weight + REINFORCED_BY, 1.0)
                await edges.strengthen(writing.tx, NUMBER, [(was.low, was.high)], REINFORCED_BY, writing.use.active_h)
                return Connected(replace(was, weight=weight), "reinforced")

    async def disconnect(
        self, scope: Scope, source: str, target: str, *, guard_relation: str | None
    ) -> tuple[Literal["removed", "not_found", "guarded"], Edge | None]:
        """Remove an edge, unless its relation differs from the guard's."""
        async with self._book.written(scope) as writing:
            edge = await edges.find(writing.tx, NUMBER, source, target)
            if edge is None:
                return "not_found", None
            if guard_relation is not None and edge.relation != guard_relation:
                return "guarded", None
            await edges.remove(writing.tx, NUMBER, [(edge.low, edge.high)])
            writing.change()
        return "removed", edge


def _weight(relation: str) -> float:
    """Return the weight of an edge that an agent states."""
    return DEFAULT_WEIGHTS.get(relation, OTHER_WEIGHT)


def _not_active(block_id: str) -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND,
        f"Block '{block_id[:8]}…' not found in active memory.",
        recovery="Use elfmem_recall() to find active block IDs. If the block was archived, remember its content again.",
    )


def _other_relation(between: str, was: str, asked: str) -> MemsvcError:
    return MemsvcError(
        Code.CONFLICT,
        f"{between} with relation={was!r}, but reinforce was called with relation={asked!r}.",
        recovery=f"Use if_exists='update' to change the relation to {asked!r}, if_exists='skip' to keep the existing"
        " edge unchanged, or omit the relation argument to reinforce the existing edge without asserting a relation.",
    )
