"""The tools of the memory as a whole: remember, recall, status, outcome, curate, dream, guide."""

from typing import Literal

from memsvc.core.progress import ProgressCallback
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import ProgressFunction, Tool
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_outcomes import OutcomeService
from memsvc.styles.knowledge.block_recall import RecallService
from memsvc.styles.knowledge.block_store import BlockStore
from memsvc.styles.knowledge.curate import CurateService
from memsvc.styles.knowledge.dream import DreamReport, DreamService
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.knowledge.knowledge_models import (
    LOGGED,
    CurateArguments,
    CurateResult,
    DreamArguments,
    DreamHealth,
    DreamResult,
    DroppedBlock,
    GuideArguments,
    GuideResult,
    IgnoredBlock,
    KnowledgeRecallArguments,
    KnowledgeRecallResult,
    OutcomeArguments,
    OutcomeResult,
    RecalledBlock,
    RememberArguments,
    RememberResult,
    StatusArguments,
    StatusResult,
    TokenUsage,
)
from memsvc.styles.knowledge.memory_status import StatusReader
from memsvc.styles.knowledge.scored_blocks import ScoredBlock


class KnowledgeMemoryTools:
    """Functions of these tools."""

    def __init__(
        self,
        block_store: BlockStore,
        recall: RecallService,
        status_reader: StatusReader,
        outcomes: OutcomeService,
        curate_service: CurateService,
        dream_service: DreamService,
    ) -> None:
        self._block_store = block_store
        self._recall = recall
        self._status_reader = status_reader
        self._outcomes = outcomes
        self._curate_service = curate_service
        self._dream_service = dream_service

    async def remember(self, scope: Scope, args: RememberArguments) -> RememberResult:
        result = await self._block_store.remember(
            scope, args.content, tags=args.tags, keywords=args.cue, category=args.category
        )
        return RememberResult(
            block_id=result.block_id,
            status=result.status,
            pending_consolidation=result.pending,
            visible=True,
            should_dream=result.should_dream,
            summary=texts.remembered(result),
        )

    async def recall(self, scope: Scope, args: KnowledgeRecallArguments) -> KnowledgeRecallResult:
        result = await self._recall.recall(
            scope, args.query, top_k=args.top_k, frame_name=args.frame
        )
        return KnowledgeRecallResult(
            text=result.rendered.text,
            frame_name=result.frame,
            cached=result.cached,
            blocks=[_block(one) for one in result.blocks],
            dropped=[
                DroppedBlock(
                    id=one.block.block_id, content=one.text, tags=list(one.tags), reason=reason
                )
                for one, reason in result.dropped
            ],
            budget_used=result.rendered.used_tok,
            budget_total=result.budget_tok,
            excluded_by_filter=result.excluded,
            summary=texts.recalled(result),
        )

    async def status(self, scope: Scope, _: StatusArguments) -> StatusResult:
        now = await self._status_reader.status(scope)
        return StatusResult(
            session_active=now.session_h is not None,
            session_hours=now.session_h,
            inbox_count=now.inbox,
            inbox_threshold=now.threshold,
            active_count=now.active,
            archived_count=now.archived,
            total_active_hours=now.active_h,
            last_consolidated=now.consolidated_at.isoformat()
            if now.consolidated_at is not None
            else "never",
            health=now.health,
            suggestion=now.suggestion,
            session_tokens=TokenUsage(**now.session_tokens),
            lifetime_tokens=TokenUsage(**now.lifetime_tokens),
            summary=texts.status(now),
        )

    async def outcome(self, scope: Scope, args: OutcomeArguments) -> OutcomeResult:
        result = await self._outcomes.apply(
            scope, args.block_ids, signal=args.signal, weight=args.weight, source=args.source
        )
        return OutcomeResult(
            blocks_updated=result.updated,
            mean_confidence_delta=result.confidence_delta,
            edges_reinforced=result.edges_reinforced,
            blocks_penalized=result.decay_change_count,
            outcome_edges_created=result.edges_created,
            skipped=[
                IgnoredBlock(id=block_id, reason=reason) for block_id, reason in result.ignored
            ],
            summary=texts.outcome(result),
        )

    async def curate(self, scope: Scope, _: CurateArguments) -> CurateResult:
        result = await self._curate_service.curate(scope)
        return CurateResult(
            archived=result.archived,
            edges_pruned=result.edges_pruned,
            edges_decayed=result.edges_decayed,
            reinforced=result.reinforced,
            constitutional_reinforced=result.constitutional,
            total_edges_after=result.edges_after,
            summary=texts.curated(result),
        )

    async def dream(
        self, scope: Scope, args: DreamArguments, progress: ProgressCallback
    ) -> DreamResult:
        report = await self._dream_service.dream(scope, by_rules=args.no_llm, progress=progress)
        return DreamResult(
            status=_dream_status(report),
            message=None if report.processed or report.inbox_remaining else texts.IDLE,
            processed=report.processed,
            promoted=report.promoted,
            deduplicated=report.deduplicated,
            edges_created=report.edges_created,
            contradictions=report.contradictions,
            near_duplicates=report.near_duplicates,
            scored_by_rules=report.by_rules,
            health=_health(report),
            inbox_remaining=report.inbox_remaining,
            curated=report.curated,
            summary=texts.dream_summary(report),
        )

    async def guide(self, scope: Scope, args: GuideArguments) -> GuideResult:
        del scope
        return GuideResult(text=guide(args.method))


def _block(item: ScoredBlock) -> RecalledBlock:
    return RecalledBlock(
        id=item.block.block_id,
        content=item.text,
        score=round(item.score, 3),
        tags=list(item.tags),
        similarity=item.parts.similarity,
        confidence=item.parts.confidence,
        recency=item.parts.recency,
        centrality=item.parts.centrality,
        reinforcement=item.parts.reinforcement,
        was_expanded=item.expanded,
        status=item.block.status,
    )


def _dream_status(report: DreamReport) -> Literal["done", "idle", "out_of_time"]:
    if report.timed_out:
        return "out_of_time"
    return "done" if report.processed or report.inbox_remaining else "idle"


def _health(report: DreamReport) -> DreamHealth | None:
    if not report.processed:
        return None
    return DreamHealth(
        edge_creation_rate=report.edges_created / max(1, report.promoted),
        promotion_rate=report.promoted / report.processed,
        deduplication_rate=report.deduplicated / report.processed,
    )


def memory_tools(
    block_store: BlockStore,
    recall: RecallService,
    status_reader: StatusReader,
    outcomes: OutcomeService,
    curate_service: CurateService,
    dream_service: DreamService,
    *,
    uses_model: bool,
) -> list[Tool]:
    """Return these tools. `uses_model`: consolidation calls a model."""
    functions = KnowledgeMemoryTools(
        block_store, recall, status_reader, outcomes, curate_service, dream_service
    )
    return [*_usage_tools(functions), *_maintenance_tools(functions, uses_model=uses_model)]


def _usage_tools(functions: KnowledgeMemoryTools) -> list[Tool]:
    return [
        Tool(
            name="elfmem_remember",
            title="Remember",
            description="Store a fact, preference, decision or observation worth keeping across"
            " sessions. It can be recalled at once; sessions and consolidation are automatic.",
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
            description="Find knowledge, rendered for a prompt. What is shown is reinforced, and"
            " the rest fades. Block ids can be passed to elfmem_outcome.",
            arguments=KnowledgeRecallArguments,
            result=KnowledgeRecallResult,
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
            description="Tell how it went when recalled blocks were used: above 0.5 they are"
            " reinforced, below 0.2 they fade faster, and confidence follows.",
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


def _maintenance_tools(functions: KnowledgeMemoryTools, *, uses_model: bool) -> list[Tool]:
    return [
        Tool(
            name="elfmem_curate",
            title="Curate",
            description="Archive blocks that have faded, prune weak edges, reinforce the"
            " strongest blocks. Runs by itself behind consolidation; call it only if recall"
            " gets worse.",
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
            description="Consolidate what waits in the inbox: duplicates, contradictions,"
            " alignment with the identity, edges. Takes up to half a minute where a model is"
            " configured.",
            arguments=DreamArguments,
            result=DreamResult,
            run=ProgressFunction(functions.dream),
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            logged=LOGGED,
            uses_model=uses_model,
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
            text_member="text",
        ),
    ]
