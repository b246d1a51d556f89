"""Edges that an agent adds or removes, and how blocks and edges learn from reported outcomes.

The constants are elfmem's. Confidence is the mean of a Beta distribution.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.decay import DECAY_PER_H, DecayTier
from memsvc.core.errors import already_exists, conflict, invalid, not_found
from memsvc.core.frozen import frozen
from memsvc.core.scope import Permission, Scope
from memsvc.store import edges, knowledge_blocks
from memsvc.store.edges import Edge
from memsvc.store.knowledge_blocks import BlockConfidence, KnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_index import CONSTITUTIONAL, BlockIndex, BlockWrite
from memsvc.styles.knowledge.knowledge_models import (
    IDS_MAX,
    Action,
    BlockId,
    ConnectionResult,
    Disconnection,
    IgnoredBlock,
    Keywords,
    Name,
    OutcomeReport,
    ReplacedEdge,
    Skip,
    Words,
    knowledge_tool,
)

SIMILARITY_SHARE: Final = 0.55
TAGS_SHARE: Final = 0.20
CATEGORY_SHARE: Final = 0.15
TIME_SHARE: Final = 0.10
OTHER_CATEGORY: Final = 0.30
"""Score of two different categories."""
TIME_SCALE_H: Final = 8.0

PRUNE_THRESHOLD: Final = 0.10
"""Remaining weight below which an edge is removed."""
BRIDGE_PERCENTILE: Final = 80

SIMILARITY: Final = "similar"
OUTCOME: Final = "outcome"
REINFORCED_BY: Final = 0.10
"""Increase of the weight when an edge is stated again."""
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {
    SIMILARITY: 0.65,
    "co_occurs": 0.55,
    "elaborates": 0.70,
    "supports": 0.75,
    "contradicts": 0.60,
    OUTCOME: 0.80,
    "predicts": 0.70,
    "validates": 0.75,
}
OTHER_WEIGHT: Final = 0.65
"""Weight of any other relation."""


def edge_score(
    similarity: float,
    tags: tuple[Collection[str], Collection[str]],
    *,
    same_category: bool,
    distance_h: float,
) -> float:
    """Return how well two blocks go together.

    It is .55 similarity + .20 Jaccard of the tags + .15 category + .10 closeness in time.
    """
    all_tags = {*tags[0], *tags[1]}
    tag_overlap = len({*tags[0]} & {*tags[1]}) / len(all_tags) if all_tags else 0.0
    time_score = exp(-(distance_h**2) / (2 * TIME_SCALE_H**2))
    category = 1.0 if same_category else OTHER_CATEGORY
    return (
        SIMILARITY_SHARE * similarity
        + TAGS_SHARE * tag_overlap
        + CATEGORY_SHARE * category
        + TIME_SHARE * time_score
    )


def bridge_degree(weights: Collection[float]) -> float:
    """Return the weighted degree from which a block is a bridge.

    It is the 80th percentile of those above 0, so that, equals aside, a fifth of them are; infinity
    where there are none.
    """
    positive = sorted(weight for weight in weights if weight > 0)
    if not positive:
        return float("inf")
    return positive[min(len(positive) - 1, len(positive) * BRIDGE_PERCENTILE // 100)]


IfExists = Literal["reinforce", "update", "skip", "error"]
CO_OCCURRENCE: Final = "co_occurs"
AUTO_RELATION_ORDER: Final = (SIMILARITY, CO_OCCURRENCE)
"""Relations that nobody stated, which are replaced first, in this order."""


@frozen
class EdgeEditor:
    """Adds and removes edges, which have no direction; an agent's own never fade or give way."""

    index: BlockIndex

    @knowledge_tool(
        "elfmem_connect",
        "Connect two knowledge blocks",
        Permission.WRITE,
        stores=("note",),
    )
    async def connect(
        self,
        scope: Scope,
        source: Annotated[BlockId, "id of a block"],
        target: Annotated[BlockId, "id of the other block"],
        relation: Annotated[
            Name | None,
            "relation: similar, elaborates, supports, contradicts, predicts, validates, or"
            " a word of your own",
        ] = None,
        note: Annotated[Keywords | None, "why the blocks are related"] = None,
        if_exists: Annotated[
            IfExists,
            "what to do if the blocks are already connected; update sets the relation and"
            " its default weight",
        ] = "reinforce",
    ) -> ConnectionResult:
        """State that two blocks are related, so that recalling one also finds the other."""
        if source == target:
            raise invalid(
                f"Cannot connect block '{source[:8]}' to itself.",
                recovery="source and target must be different block IDs.",
            )
        async with self.index.written(scope) as writing:
            existing_blocks = await knowledge_blocks.read(writing.tx, [source, target])
            for block_id in (source, target):
                if (
                    block_id not in existing_blocks
                    or existing_blocks[block_id].status == "archived"
                ):
                    raise not_found(
                        f"Block '{block_id[:8]}…' not found in active memory.",
                        recovery="Use elfmem_recall() to find active block IDs. If the block was"
                        " archived, remember its content again.",
                    )
            existing = await edges.find(writing.tx, source, target)
            if existing is None:
                edge, replaced = await self._create(
                    writing, source, target, relation or SIMILARITY, note or ""
                )
                action: Action = "created"
            else:
                replaced = None
                edge, action = await self._update_existing(
                    writing, existing, relation, note, if_exists
                )
            writing.change()
        return ConnectionResult(
            texts.connected(source, target, action, edge, replaced),
            source,
            target,
            edge.relation,
            edge.weight,
            action,
            edge.note or None,
            replaced,
        )

    async def _create(
        self, writing: BlockWrite, source: str, target: str, relation: str, note: str
    ) -> tuple[Edge, ReplacedEdge | None]:
        """Add an edge; return it and the one that it replaced."""
        low, high = edges.pair(source, target)
        replaced = await self._evict_edge(writing, low, high)
        edge = Edge(low, high, _weight(relation), relation, "agent", 0, writing.use.active_h, note)
        await edges.put(writing.tx, [edge])
        return edge, replaced

    async def _evict_edge(self, writing: BlockWrite, *block_ids: str) -> ReplacedEdge | None:
        """Remove and return the weakest unstated edge of the first end that has too many."""
        limit = self.index.options.edge_degree_max
        for block_id in block_ids:
            existing = await edges.of(writing.tx, block_id)
            if len(existing) < limit:
                continue
            auto_edges = [
                edge
                for edge in existing
                if edge.relation in AUTO_RELATION_ORDER and edge.origin != "agent"
            ]
            if not auto_edges:
                raise conflict(
                    f"Block '{block_id[:8]}…' has {limit} protected edges; no auto-edges to"
                    " displace.",
                    recovery="Run elfmem_curate() to prune stale edges, or increase"
                    " knowledge.edge_degree_max, or call elfmem_disconnect() to manually"
                    " remove an edge.",
                )
            candidate = min(
                auto_edges, key=lambda edge: (AUTO_RELATION_ORDER.index(edge.relation), edge.weight)
            )
            await edges.remove(writing.tx, [(candidate.low, candidate.high)])
            return ReplacedEdge(candidate.low, candidate.high, candidate.relation, candidate.weight)
        return None

    async def _update_existing(
        self,
        writing: BlockWrite,
        existing: Edge,
        relation: str | None,
        note: str | None,
        if_exists: IfExists,
    ) -> tuple[Edge, Action]:
        """Apply `if_exists` to an existing edge."""
        between = f"Edge already exists between {existing.low[:8]}… and {existing.high[:8]}…"
        match if_exists:
            case "error":
                raise already_exists(
                    between,
                    recovery="Use if_exists='reinforce' or 'update' to modify existing edges.",
                )
            case "skip":
                return existing, "skipped"
            case "update":
                edge = replace(
                    existing,
                    relation=relation or existing.relation,
                    weight=_weight(relation) if relation else existing.weight,
                    note=existing.note if note is None else note,
                    origin="agent",
                    touched_h=writing.use.active_h,
                )
                await edges.update(writing.tx, edge)
                return edge, "updated"
            case "reinforce":
                if relation is not None and relation != existing.relation:
                    raise conflict(
                        f"{between} with relation={existing.relation!r}, but reinforce was called"
                        f" with relation={relation!r}.",
                        recovery=f"Use if_exists='update' to change the relation to {relation!r},"
                        " if_exists='skip' to keep the existing edge unchanged, or omit the"
                        " relation argument to reinforce the existing edge without asserting a"
                        " relation.",
                    )
                weight = min(existing.weight + REINFORCED_BY, 1.0)
                await edges.add_weight(
                    writing.tx,
                    [(existing.low, existing.high)],
                    REINFORCED_BY,
                    writing.use.active_h,
                )
                return replace(existing, weight=weight), "reinforced"

    @knowledge_tool(
        "elfmem_disconnect",
        "Disconnect two knowledge blocks",
        Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
    )
    async def disconnect(
        self,
        scope: Scope,
        source: Annotated[BlockId, "id of a block"],
        target: Annotated[BlockId, "id of the other block"],
        guard_relation: Annotated[
            Words | None, "remove the edge only if it has this relation"
        ] = None,
        reason: Annotated[Keywords, "not stored; accepted only for older clients"] = "",
    ) -> Disconnection:
        """Remove the edge between two blocks."""
        del reason
        action: Literal["removed", "not_found", "guarded"] = "removed"
        async with self.index.written(scope) as writing:
            edge = await edges.find(writing.tx, source, target)
            if edge is None:
                action = "not_found"
            elif guard_relation is not None and edge.relation != guard_relation:
                action, edge = "guarded", None
            else:
                await edges.remove(writing.tx, [(edge.low, edge.high)])
                writing.change()
        return Disconnection(
            texts.disconnected(source, target, action, edge),
            source,
            target,
            action,
            edge.relation if edge is not None else None,
            edge.weight if edge is not None else None,
        )


def _weight(relation: str) -> float:
    """Return the weight of an edge that an agent states."""
    return DEFAULT_WEIGHTS.get(relation, OTHER_WEIGHT)


@frozen
class OutcomeService:
    """Applies outcomes, which need no session and count once for each call."""

    index: BlockIndex

    @knowledge_tool(
        "elfmem_outcome",
        "Record the outcome of using knowledge",
        Permission.WRITE,
        over_quota=True,
    )
    async def apply(
        self,
        scope: Scope,
        block_ids: Annotated[
            list[BlockId], Field(max_length=IDS_MAX), "ids of the recalled blocks that you used"
        ],
        signal: Annotated[
            float,
            "outcome, from 0 (failed) to 1 (succeeded)",
        ],
        weight: Annotated[
            float, Field(le=1e6), "how much this outcome counts, above 0; normally 1"
        ] = 1.0,
        source: Annotated[Words, "what reported this outcome, such as test_pass"] = "",
    ) -> OutcomeReport:
        """Record how well recalled blocks worked.

        A signal above 0.5 reinforces them; one below 0.2 makes them fade faster."""
        check(signal, weight)
        requested = list(dict.fromkeys(block_ids))
        if not requested:
            return _report()
        async with self.index.written(scope) as writing:
            existing = await knowledge_blocks.read(writing.tx, requested)
            reasons = [(block_id, _reason(existing.get(block_id))) for block_id in requested]
            skipped = [
                IgnoredBlock(block_id, reason) for block_id, reason in reasons if reason is not None
            ]
            blocks = [existing[block_id] for block_id, reason in reasons if reason is None]
            if not blocks:
                return _report(skipped=skipped)
            updates = [_confidence_update(block, signal, weight) for block in blocks]
            await knowledge_blocks.add_outcome(
                writing.tx,
                updates,
                signal=signal,
                weight=weight,
                source=source,
                now=writing.now,
            )
            created = reinforced = 0
            if signal > REINFORCED_FROM:
                created, reinforced = await self._add_uses(
                    writing, [block.block_id for block in blocks], signal
                )
            writing.change()
        changes = [update.confidence - update.before for update in updates]
        penalized = [
            new.decay_per_h > old.decay_per_h for new, old in zip(updates, blocks, strict=True)
        ]
        return _report(
            len(blocks),
            sum(changes) / len(changes),
            reinforced,
            sum(penalized) if signal < BAD_SIGNAL_MAX else 0,
            created,
            skipped,
        )

    async def _add_uses(
        self, writing: BlockWrite, ids: Sequence[str], signal: float
    ) -> tuple[int, int]:
        """Reinforce blocks and the edges between them, adding missing ones; return both counts."""
        tx, now_h = writing.tx, writing.use.active_h
        await knowledge_blocks.add_use(tx, ids, now_h)
        pairs = list(combinations(sorted(ids), 2))
        reinforced = await edges.add_weight(tx, pairs, signal * EDGE_STEP, now_h)
        missing = [
            Edge(low, high, signal * EDGE_SHARE, OUTCOME, "outcome", 0, now_h)
            for low, high in pairs
        ]
        return await edges.put(tx, missing), reinforced


def _report(
    updated: int = 0,
    confidence_delta: float = 0.0,
    edges_reinforced: int = 0,
    penalized: int = 0,
    edges_created: int = 0,
    skipped: Sequence[IgnoredBlock] = (),
) -> OutcomeReport:
    report = OutcomeReport(
        "", updated, confidence_delta, edges_reinforced, penalized, edges_created, skipped
    )
    return replace(report, summary=texts.outcome(report))


def _reason(block: KnowledgeBlock | None) -> Skip | None:
    """Return why a block learns nothing, or None."""
    if block is None:
        return "unmatched"
    if block.status == "inbox":
        return "pending_inbox"
    if block.status == "archived":
        return "archived"
    return "constitutional" if CONSTITUTIONAL in block.tags else None


def _confidence_update(block: KnowledgeBlock, signal: float, weight: float) -> BlockConfidence:
    after = BetaConfidence(block.alpha, block.beta).after(signal, weight)
    decay_per_h = decay_after(block.decay_per_h, signal)
    return BlockConfidence(
        block.block_id, after.alpha, after.beta, after.confidence, block.confidence, decay_per_h
    )


PRIOR_CONFIDENCE: Final = 0.50
"""Confidence of a block about which nothing is known."""
REINFORCED_FROM: Final = 0.5
"""A signal above this reinforces the used blocks, and the edges between them."""
BAD_SIGNAL_MAX: Final = 0.20
DECAY_FACTOR: Final = 2.0
DECAY_MAX_PER_H: Final = DECAY_PER_H[DecayTier.EPHEMERAL]
"""A penalty never increases the decay beyond this."""
PROTECTED_DECAY_PER_H: Final = DECAY_PER_H[DecayTier.DURABLE]
"""A decay this slow or slower gets no penalty."""
EDGE_SHARE: Final = 0.8
"""Weight of an edge that a good outcome makes, as a share of the signal."""
EDGE_STEP: Final = 0.10
"""Increase of an edge's weight by a good outcome, as a share of the signal."""


@frozen
class BetaConfidence:
    """Beta distribution of a block's confidence: `alpha` for, `beta` against."""

    alpha: float
    beta: float

    @property
    def confidence(self) -> float:
        """Mean of the distribution."""
        return self.alpha / (self.alpha + self.beta)

    def after(self, signal: float, weight: float) -> "BetaConfidence":
        """Return the distribution after an outcome between 0 (failed) and 1 (succeeded)."""
        return BetaConfidence(self.alpha + weight * signal, self.beta + weight * (1 - signal))


def prior(confidence: float, weight: float) -> BetaConfidence:
    """Return the distribution of this mean before any outcome, worth `weight` outcomes."""
    return BetaConfidence(confidence * weight, (1 - confidence) * weight)


def check(signal: float, weight: float) -> None:
    """Raise INVALID_ARGUMENT for a signal or a weight that no outcome can have."""
    if not 0.0 <= signal <= 1.0:
        raise invalid(f"signal must be in [0.0, 1.0], got {signal}")
    if not weight > 0.0:
        raise invalid(f"weight must be > 0.0, got {weight}")


def decay_after(decay_per_h: float, signal: float) -> float:
    """Return a block's decay after an outcome: doubled after a bad one, unless it is durable."""
    if signal >= BAD_SIGNAL_MAX or decay_per_h <= PROTECTED_DECAY_PER_H:
        return decay_per_h
    return min(decay_per_h * DECAY_FACTOR, max(DECAY_MAX_PER_H, decay_per_h))
