"""Consolidation: blocks of the inbox are compared, judged and linked to others, one at a time."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

from memsvc.core.decay import DECAY_PER_H
from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.ports import TokenCounter
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import SILENT, ProgressCallback
from memsvc.core.vectors import TextVector
from memsvc.core.word_similarity import (
    has_other_numbers,
    is_contradiction,
    is_subset,
    may_both_hold,
)
from memsvc.store import edges, jobs, knowledge_blocks, vectors
from memsvc.store.edges import Conflict, Edge
from memsvc.store.knowledge_blocks import INDEX_ID, ActiveBlockValues, KnowledgeBlock
from memsvc.store.search import QueryEmbedding
from memsvc.styles.knowledge.block_edges import PRIOR_CONFIDENCE, SIMILARITY, edge_score, prior
from memsvc.styles.knowledge.block_index import (
    CONSOLIDATION_JOB,
    SELF,
    BlockIndex,
    BlockWrite,
    add_token_usage,
    find_matches,
    similarity,
    tier_of,
)
from memsvc.styles.knowledge.curate import CurateService
from memsvc.styles.knowledge.judge import JudgeService, Verdict
from memsvc.styles.knowledge.knowledge_models import DreamHealth, DreamResult, knowledge_tool

DREAM_BLOCKS: Final = 50
"""Most blocks that one call consolidates; the job goes on until none is left."""
DREAM_S: Final = 30.0
"""How long a call waits for models."""
JOB_BLOCKS: Final = 200
COMPARED_MAX: Final = 20
"""Blocks that a new one is compared with by words, and as many by meaning."""
IDENTITY_MAX: Final = 20


_COUNTED: Final = (
    "processed",
    "promoted",
    "deduplicated",
    "edges_created",
    "contradictions",
    "near_duplicates",
    "scored_by_rules",
)


@frozen
class _Pending:
    """Block of the inbox, with what it is compared with."""

    block: KnowledgeBlock
    vector: list[float] | None
    identity: Sequence[KnowledgeBlock]
    compared: Sequence[KnowledgeBlock]
    similarity: dict[str, float]
    token_usage: dict[str, int]


@frozen
class DreamService:
    """Consolidates, every block in one transaction that checks that it still waits.

    An interrupted consolidation goes on where it was, and of two at once one does each block.
    Models are called with no transaction open.
    """

    index: BlockIndex
    judge_service: JudgeService
    curate_service: CurateService
    tokens: TokenCounter

    async def run_job(self, scope: Scope, _: str) -> None:
        """Run the job: consolidate the inbox, and curate if that is due."""
        done = await self._run(scope, limit=JOB_BLOCKS, by_rules=False, until=None)
        if done.inbox_remaining:
            async with self.index.written(scope) as writing:
                await jobs.enqueue(writing.tx, CONSOLIDATION_JOB, "", now=writing.now)

    @knowledge_tool(
        "elfmem_dream",
        "Consolidate",
        Permission.WRITE,
        over_quota=True,
        idempotent=True,
        uses_model=True,
    )
    async def dream(
        self,
        scope: Scope,
        progress: ProgressCallback,
        no_llm: Annotated[bool, "judge the blocks by rules instead of by the model"] = False,
    ) -> DreamResult:
        """Consolidate the inbox: find duplicates and contradictions, rate new blocks, add edges.

        May take half a minute with a model."""
        until = asyncio.get_running_loop().time() + DREAM_S
        return await self._run(
            scope, limit=DREAM_BLOCKS, by_rules=no_llm, until=until, progress=progress
        )

    async def _run(
        self,
        scope: Scope,
        *,
        limit: int,
        by_rules: bool,
        until: float | None,
        progress: ProgressCallback = SILENT,
    ) -> DreamResult:
        counts: Counter[str] = Counter()
        is_late = False
        for _ in range(limit):
            try:
                async with asyncio.timeout_at(until):
                    pending = await self._next(scope)
                    if pending is None:
                        break
                    verdict = await self.judge_service.judge(
                        scope, pending.block, pending.identity, pending.compared, by_rules=by_rules
                    )
            except TimeoutError:
                is_late = True
                break
            # a model that is too slow for one block must not keep the others waiting
            by_rules = by_rules or verdict.model_was_late
            counts += await self._apply(scope, pending, verdict)
            progress.report(counts["processed"], step="blocks")
        async with self.index.read(scope) as (_tx, use):
            is_pending = (
                counts["processed"] > 0 and use is not None and self.curate_service.is_pending(use)
            )
            remaining = use.inbox if use is not None else 0
        curated = is_pending and await self.curate_service.curate_if_pending(scope)
        is_idle = not (counts["processed"] or remaining)
        result = DreamResult(
            "",
            status="out_of_time" if is_late and remaining else "idle" if is_idle else "done",
            message="No pending blocks to consolidate" if is_idle else None,
            **{name: counts[name] for name in _COUNTED},
            health=_health(counts),
            inbox_remaining=remaining,
            curated=curated,
        )
        return replace(result, summary=_summary(result))

    async def _next(self, scope: Scope) -> _Pending | None:
        """Return the longest waiting block, with its vector and what it is to be compared with."""
        async with self.index.read(scope) as (tx, _):
            waiting = await knowledge_blocks.pending(tx, limit=1)
            if not waiting:
                return None
            [block] = waiting
            vector = (await self.index.vectors(tx, waiting)).get(block.block_id)
        token_usage = {}
        embedding = self.index.embedding
        if vector is None and embedding is not None:
            text = f"{block.text}\n{block.keywords}" if block.keywords else block.text
            try:
                [vector] = await embedding.embed_texts([text])
                token_usage = {"embedding_calls": 1, "embedding_tokens": self.tokens.count(text)}
            except MemsvcError:
                vector = None  # its words are compared instead
        embedding_query = (
            QueryEmbedding(vector, embedding.model) if embedding and vector is not None else None
        )
        async with self.index.read(scope) as (tx, _):
            identity_ids = await knowledge_blocks.tagged(tx, [f"{SELF}%"], limit=IDENTITY_MAX)
            matches = await find_matches(tx, block.text, embedding_query, COMPARED_MAX)
            match_ids = [match.ref for match in matches if match.ref != block.block_id]
            blocks = await knowledge_blocks.read(tx, [*identity_ids, *match_ids])
            active = {
                key: block_item
                for key, block_item in blocks.items()
                if block_item.status == "active" and key != block.block_id
            }
            others = [active[key] for key in match_ids if key in active]
            vectors_by_id = await self.index.vectors(tx, others)
        similarities = {
            block_item.block_id: similarity(
                vector, vectors_by_id.get(block_item.block_id), (block.text, block_item.text)
            )
            for block_item in others
        }
        others.sort(key=lambda block_item: -similarities[block_item.block_id])
        identity = sorted(
            (active[key] for key in identity_ids if key in active),
            key=lambda block_item: -block_item.confidence,
        )
        return _Pending(block, vector, identity, others, similarities, token_usage)

    async def _apply(self, scope: Scope, pending: _Pending, verdict: Verdict) -> Counter[str]:
        """Promote a block, or archive it for one that says the same; skip it if it has changed."""
        async with self.index.written(scope) as writing:
            writing.use = add_token_usage(
                add_token_usage(writing.use, pending.token_usage), verdict.token_usage
            )
            ids = [pending.block.block_id, *(compared.block_id for compared in pending.compared)]
            current = await knowledge_blocks.read(writing.tx, ids)
            block = current.get(pending.block.block_id)
            if block is None or block.status != "inbox" or block.entry != pending.block.entry:
                return Counter()
            others = [
                current[compared.block_id]
                for compared in pending.compared
                if _same(compared, current.get(compared.block_id))
            ]
            duplicate = self._find_duplicate(pending, others, verdict)
            counts = (
                await self._archive_duplicate(writing, block, duplicate)
                if duplicate is not None
                else await self._promote(writing, block, pending, verdict, others)
            )
            writing.use = replace(writing.use, consolidated_at=writing.now)
        return counts + Counter(scored_by_rules=int(not verdict.token_usage))

    def _find_duplicate(
        self, pending: _Pending, others: Sequence[KnowledgeBlock], verdict: Verdict
    ) -> KnowledgeBlock | None:
        """Return the block that says the same as this one, or None.

        One that differs in a number, a negation or its subject says something else, however
        similar; by words alone, so does one that adds a word.
        """
        for other in others:
            if pending.similarity[other.block_id] < self.index.options.duplicate_similarity_min:
                return None
            texts = (pending.block.text, other.text)
            is_different = (
                other.block_id in verdict.conflict_scores
                or is_contradiction(*texts)
                or has_other_numbers(*texts)
                or may_both_hold(*texts)
            )
            by_words = pending.vector is None and not is_subset(pending.block.text, other.text)
            if not is_different and not by_words:
                return other
        return None

    async def _archive_duplicate(
        self, writing: BlockWrite, block: KnowledgeBlock, duplicate: KnowledgeBlock
    ) -> Counter[str]:
        """Archive a block for one that says the same, which gets its tags."""
        tags = {*duplicate.tags, *block.tags}
        await self.index.archive(writing, [block], "superseded", by=duplicate.block_id)
        await knowledge_blocks.tag(writing.tx, duplicate.block_id, block.tags)
        tier = tier_of(tags, duplicate.category)
        if tier is not duplicate.tier:
            await knowledge_blocks.set_tier(
                writing.tx,
                duplicate.block_id,
                tier,
                min(duplicate.decay_per_h, DECAY_PER_H[tier]),
            )
        use = writing.use
        writing.change(inbox=use.inbox - 1, archived=use.archived + 1)
        return Counter(processed=1, deduplicated=1)

    async def _promote(
        self,
        writing: BlockWrite,
        block: KnowledgeBlock,
        pending: _Pending,
        verdict: Verdict,
        others: Sequence[KnowledgeBlock],
    ) -> Counter[str]:
        options = self.index.options
        tags = (*block.tags, *(tag for tag in verdict.tags if tag not in block.tags))
        tier = tier_of(tags, block.category)
        is_identity = verdict.alignment >= options.alignment_min
        confidence = prior(
            verdict.alignment if is_identity else PRIOR_CONFIDENCE, options.prior_strength
        )
        values = ActiveBlockValues(
            block.block_id,
            tier,
            DECAY_PER_H[tier],
            confidence.alpha,
            confidence.beta,
            confidence.confidence,
            verdict.alignment,
            verdict.scored_by,
        )
        if pending.token_usage and pending.vector is not None and self.index.embedding is not None:
            model = self.index.embedding.model
            made = {pending.block.entry: TextVector(pending.vector)}
            await vectors.put(writing.tx, INDEX_ID, model, made)
        await knowledge_blocks.promote(writing.tx, values, writing.use.active_h)
        await knowledge_blocks.tag(writing.tx, block.block_id, verdict.tags)
        contradiction_count, duplicate_count = await self._note_conflicts(
            writing, block, pending, verdict, others
        )
        new_edges = self._new_edges(block, tags, pending, others, writing.use.active_h)
        edge_count = await edges.put(writing.tx, new_edges)
        use = writing.use
        writing.change(inbox=use.inbox - 1, active=use.active + 1)
        return Counter(
            processed=1,
            promoted=1,
            edges_created=edge_count,
            contradictions=contradiction_count,
            near_duplicates=duplicate_count,
        )

    async def _note_conflicts(
        self,
        writing: BlockWrite,
        block: KnowledgeBlock,
        pending: _Pending,
        verdict: Verdict,
        others: Sequence[KnowledgeBlock],
    ) -> tuple[int, int]:
        """Store conflicts with a block; return the number of contradictions and near duplicates."""
        conflicts = []
        for other in others:
            similarity = pending.similarity[other.block_id]
            if (confidence := verdict.conflict_scores.get(other.block_id)) is not None:
                conflicts.append(
                    Conflict(block.block_id, other.block_id, "contradiction", confidence)
                )
            elif similarity >= self.index.options.near_similarity_min and not may_both_hold(
                block.text, other.text
            ):
                conflicts.append(
                    Conflict(block.block_id, other.block_id, "near_duplicate", similarity)
                )
        await edges.add_conflicts(writing.tx, conflicts, writing.now)
        contradiction_count = sum(conflict.kind == "contradiction" for conflict in conflicts)
        return contradiction_count, len(conflicts) - contradiction_count

    def _new_edges(
        self,
        block: KnowledgeBlock,
        tags: Sequence[str],
        pending: _Pending,
        others: Sequence[KnowledgeBlock],
        now_h: float,
    ) -> list[Edge]:
        """Return the edges of a new block to the blocks that go with it best."""
        options = self.index.options
        scores = []
        for other in others:
            similarity = pending.similarity[other.block_id]
            if similarity < options.edge_similarity_min:
                continue
            same_category = other.category == block.category
            distance_h = block.created_h - other.created_h
            score = edge_score(
                similarity, (tags, other.tags), same_category=same_category, distance_h=distance_h
            )
            if score >= options.edge_score_min:
                scores.append((score, other.block_id))
        best = sorted(scores, reverse=True)[: options.edges_max]
        return [
            Edge(
                *edges.pair(block.block_id, other),
                min(score, 1.0),
                SIMILARITY,
                "similarity",
                0,
                now_h,
            )
            for score, other in best
        ]


def _same(before: KnowledgeBlock, after: KnowledgeBlock | None) -> bool:
    """Return whether a block is unchanged since it was compared."""
    return after is not None and after.status == "active" and after.entry == before.entry


def _health(counts: Counter[str]) -> DreamHealth | None:
    processed, promoted = counts["processed"], counts["promoted"]
    if not processed:
        return None
    return DreamHealth(
        counts["edges_created"] / max(1, promoted),
        promoted / processed,
        counts["deduplicated"] / processed,
    )


def _summary(result: DreamResult) -> str:
    remaining = f"{result.inbox_remaining} remaining, run dream() again to continue."
    if not result.processed:
        if result.status == "out_of_time":
            return f"Ran out of time, {remaining}"
        if result.inbox_remaining:
            return f"Nothing consolidated, {remaining}"
        return "Nothing to consolidate. Inbox was empty."
    parts = [f"{result.promoted} promoted"]
    if result.deduplicated:
        parts.append(f"{result.deduplicated} deduped")
    parts.append(f"{result.edges_created} edges")
    if result.near_duplicates:
        pairs = "pair" if result.near_duplicates == 1 else "pairs"
        parts.append(f"{result.near_duplicates} near-duplicate {pairs} kept and flagged")
    late = "ran out of time, " if result.status == "out_of_time" else ""
    end = f" — {late}{remaining}" if result.inbox_remaining else "."
    return f"Consolidated {result.processed}: {', '.join(parts)}{end}"
