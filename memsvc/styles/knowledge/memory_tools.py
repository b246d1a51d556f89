"""The tools of the memory as a whole: remember, recall, status, outcome, curate, dream, guide."""

from memsvc.core.progress import Progress
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Reporting, Tool
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.contract import (
    LOGGED,
    CurateArguments,
    CurateResult,
    DreamArguments,
    DreamHealth,
    DreamResult,
    DroppedBlock,
    GuideArguments,
    GuideResult,
    OutcomeArguments,
    OutcomeResult,
    RecallArguments,
    RecalledBlock,
    RecallResult,
    RememberArguments,
    RememberResult,
    SkippedBlock,
    StatusArguments,
    StatusResult,
    TokenUsage,
)
from memsvc.styles.knowledge.curating import Curating
from memsvc.styles.knowledge.dreaming import Dreaming, Dreamt
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.knowledge.outcomes import Outcomes
from memsvc.styles.knowledge.recall import Recall
from memsvc.styles.knowledge.remembering import Remembering
from memsvc.styles.knowledge.scored import Scored
from memsvc.styles.knowledge.standing import Standings


class MemoryTools:
    """Functions of these tools."""

    def __init__(
        self,
        remembering: Remembering,
        recall: Recall,
        standings: Standings,
        outcomes: Outcomes,
        curating: Curating,
        dreaming: Dreaming,
    ) -> None:
        self._remembering = remembering
        self._recall = recall
        self._standings = standings
        self._outcomes = outcomes
        self._curating = curating
        self._dreaming = dreaming

    async def remember(self, scope: Scope, asked: RememberArguments) -> RememberResult:
        done = await self._remembering.remember(
            scope, asked.content, tags=asked.tags, cue=asked.cue, category=asked.category
        )
        return RememberResult(
            block_id=done.block_id,
            status=done.status,
            pending_consolidation=done.pending,
            visible=True,
            should_dream=done.should_dream,
            summary=texts.remembered(done),
        )

    async def recall(self, scope: Scope, asked: RecallArguments) -> RecallResult:
        done = await self._recall.recall(scope, asked.query, top_k=asked.top_k, frame_name=asked.frame)
        return RecallResult(
            text=done.rendered.text,
            frame_name=done.frame,
            cached=done.cached,
            blocks=[_block(one) for one in done.blocks],
            dropped=[
                DroppedBlock(id=one.block.notion, content=one.text, tags=list(one.tags), reason=reason)
                for one, reason in done.dropped
            ],
            budget_used=done.rendered.used_tok,
            budget_total=done.budget_tok,
            excluded_by_filter=done.excluded,
            summary=texts.recalled(done),
        )

    async def status(self, scope: Scope, _: StatusArguments) -> StatusResult:
        now = await self._standings.status(scope)
        return StatusResult(
            session_active=now.session_h is not None,
            session_hours=now.session_h,
            inbox_count=now.inbox,
            inbox_threshold=now.threshold,
            active_count=now.active,
            archived_count=now.archived,
            total_active_hours=now.active_h,
            last_consolidated=now.consolidated_at.isoformat() if now.consolidated_at is not None else "never",
            health=now.health,
            suggestion=now.suggestion,
            session_tokens=TokenUsage(**now.session_tokens),
            lifetime_tokens=TokenUsage(**now.lifetime_tokens),
            summary=texts.status(now),
        )

    async def outcome(self, scope: Scope, asked: OutcomeArguments) -> OutcomeResult:
        done = await self._outcomes.tell(
            scope, asked.block_ids, signal=asked.signal, weight=asked.weight, source=asked.source
        )
        return OutcomeResult(
            blocks_updated=done.updated,
            mean_confidence_delta=done.confidence_delta,
            edges_reinforced=done.edges_reinforced,
            blocks_penalized=done.penalised,
            outcome_edges_created=done.edges_created,
            skipped=[SkippedBlock(id=block_id, reason=reason) for block_id, reason in done.skipped],
            summary=texts.outcome(done),
        )

    async def curate(self, scope: Scope, _: CurateArguments) -> CurateResult:
        done = await self._curating.curate(scope)
        return CurateResult(
            archived=done.archived,
            edges_pruned=done.edges_pruned,
            edges_decayed=done.edges_decayed,
            reinforced=done.reinforced,
            constitutional_reinforced=done.constitutional,
            total_edges_after=done.edges_after,
            summary=texts.curated(done),
        )

    async def dream(self, scope: Scope, asked: DreamArguments, progress: Progress) -> DreamResult:
        done = await self._dreaming.dream(scope, by_rules=asked.no_llm, progress=progress)
        return DreamResult(
            status="done" if done.processed else "idle",
            message=None if done.processed or done.inbox_remaining else texts.IDLE,
            processed=done.processed,
            promoted=done.promoted,
            deduplicated=done.deduplicated,
            edges_created=done.edges_created,
            contradictions=done.contradictions,
            near_duplicates=done.near_duplicates,
            scored_by_rules=done.by_rules,
            health=_health(done),
            inbox_remaining=done.inbox_remaining,
            curated=done.curated,
            summary=texts.dreamt(done),
        )

    async def guide(self, scope: Scope, asked: GuideArguments) -> GuideResult:
        del scope
        return GuideResult(text=guide(asked.method))


def _block(one: Scored) -> RecalledBlock:
    return RecalledBlock(
        id=one.block.notion,
        content=one.text,
        score=round(one.score, 3),
        tags=list(one.tags),
        similarity=one.parts.similarity,
        confidence=one.parts.confidence,
        recency=one.parts.recency,
        centrality=one.parts.centrality,
        reinforcement=one.parts.reinforcement,
        was_expanded=one.expanded,
        status=one.block.status,
    )


def _health(done: Dreamt) -> DreamHealth | None:
    if not done.processed:
        return None
    return DreamHealth(
        edge_creation_rate=done.edges_created / max(1, done.promoted),
        promotion_rate=done.promoted / done.processed,
        deduplication_rate=done.deduplicated / done.processed,
    )


def memory_tools(
    remembering: Remembering,
    recall: Recall,
    standings: Standings,
    outcomes: Outcomes,
    curating: Curating,
    dreaming: Dreaming,
    *,
    waits: bool,
) -> list[Tool]:
    """Return these tools. `waits`: consolidation calls a model."""
    functions = MemoryTools(remembering, recall, standings, outcomes, curating, dreaming)
    return [*_use(functions), *_upkeep(functions, waits=waits)]


def _use(functions: MemoryTools) -> list[Tool]:
    return [
        Tool(
            name="elfmem_remember",
            title="Remember",
            description="Store a fact, preference, decision or observation worth keeping across sessions. It can be"
            " recalled at once; sessions and consolidation are automatic.",
            arguments=RememberArguments,
            result=RememberResult,
            run=functions.remember,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_recall",
            title="Recall",
            description="Find knowledge, rendered for a prompt. What is shown is reinforced, and the rest fades. Block"
            " ids can be passed to elfmem_outcome.",
            arguments=RecallArguments,
            result=RecallResult,
            run=functions.recall,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=False,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_status",
            title="Status of the memory",
            description="How the memory stands; its suggestion says what to do.",
            arguments=StatusArguments,
            result=StatusResult,
            run=functions.status,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_outcome",
            title="Tell an outcome",
            description="Tell how it went when recalled blocks were used: above 0.5 they are reinforced, below 0.2 they"
            " fade faster, and confidence follows.",
            arguments=OutcomeArguments,
            result=OutcomeResult,
            run=functions.outcome,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=False,
            logged=LOGGED,
        ),
    ]


def _upkeep(functions: MemoryTools, *, waits: bool) -> list[Tool]:
    return [
        Tool(
            name="elfmem_curate",
            title="Curate",
            description="Archive blocks that have faded, prune weak edges, reinforce the strongest blocks. Runs by"
            " itself behind consolidation; call it only if recall gets worse.",
            arguments=CurateArguments,
            result=CurateResult,
            run=functions.curate,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=False,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_dream",
            title="Consolidate",
            description="Consolidate what waits in the inbox: duplicates, contradictions, alignment with the identity,"
            " edges. Takes up to half a minute where a model is configured.",
            arguments=DreamArguments,
            result=DreamResult,
            run=Reporting(functions.dream),
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            logged=LOGGED,
            waits_for_model=waits,
        ),
        Tool(
            name="elfmem_guide",
            title="Guide",
            description="Documentation of one operation, or an overview.",
            arguments=GuideArguments,
            result=GuideResult,
            run=functions.guide,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
            told_as="text",
        ),
    ]
