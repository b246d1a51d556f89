"""Consolidation: blocks of the inbox are compared, judged and linked to others, one at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.decay import DECAY_PER_H
from memsvc.core.errors import MemsvcError
from memsvc.core.likeness import adds_nothing, contradict, numbers_differ
from memsvc.core.ports import TokenCounter
from memsvc.core.progress import SILENT, Progress
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import edges, jobs, judged, notion_lists, notions, search, vectors
from memsvc.store.database import Tx
from memsvc.store.edges import Conflict, Edge
from memsvc.store.judged import Promotion
from memsvc.store.notions import Notion
from memsvc.store.search import Meaning, Shelf
from memsvc.styles.knowledge.beta import PRIOR_CONFIDENCE, prior
from memsvc.styles.knowledge.book import CONSOLIDATE_JOB, NUMBER, Book, Writing, likeness
from memsvc.styles.knowledge.curating import Curating
from memsvc.styles.knowledge.hours import spend
from memsvc.styles.knowledge.judging import Judgement, Judging
from memsvc.styles.knowledge.links import SIMILAR, edge_score
from memsvc.styles.knowledge.tiers import SELF, tier_of

DREAM_BLOCKS: Final = 50
"""Most blocks that one call consolidates; the job goes on until none is left."""
DREAM_S: Final = 30.0
"""How long a call waits for models."""
JOB_BLOCKS: Final = 200
COMPARED_MAX: Final = 20
"""Blocks that a new one is compared with by words, and as many by meaning."""
IDENTITY_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Dreamt:
    """Result of a consolidation."""

    processed: int = 0
    promoted: int = 0
    deduplicated: int = 0
    edges_created: int = 0
    contradictions: int = 0
    near_duplicates: int = 0
    by_rules: int = 0
    inbox_remaining: int = 0
    curated: bool = False

    def plus(self, step: "Dreamt") -> "Dreamt":
        """Add the result of one more block."""
        return Dreamt(
            self.processed + step.processed,
            self.promoted + step.promoted,
            self.deduplicated + step.deduplicated,
            self.edges_created + step.edges_created,
            self.contradictions + step.contradictions,
            self.near_duplicates + step.near_duplicates,
            self.by_rules + step.by_rules,
        )


@dataclass(frozen=True, slots=True)
class _Pending:
    """Block of the inbox, with what it is compared with."""

    block: Notion
    vector: list[float] | None
    identity: Sequence[Notion]
    others: Sequence[Notion]
    likeness: dict[str, float]
    spent: dict[str, int]


class Dreaming:
    """Consolidates, every block in one transaction that checks that it still waits.

    An interrupted consolidation goes on where it was, and of two at once one does each block.
    Models are called with no transaction open.
    """

    def __init__(self, book: Book, judging: Judging, curating: Curating, tokens: TokenCounter) -> None:
        self._book = book
        self._judging = judging
        self._curating = curating
        self._tokens = tokens
        self.job = Job(name=CONSOLIDATE_JOB, run=self.consolidate)

    async def consolidate(self, scope: Scope, _: str) -> None:
        """Run the job: consolidate the inbox, and curate if that is due."""
        done = await self._run(scope, most=JOB_BLOCKS, by_rules=False, until=None)
        if done.inbox_remaining:
            async with self._book.written(scope) as writing:
                await jobs.enqueue(writing.tx, CONSOLIDATE_JOB, "", now=writing.now)

    async def dream(self, scope: Scope, *, by_rules: bool, progress: Progress = SILENT) -> Dreamt:
        """Consolidate what is possible within half a minute; the progress is in blocks."""
        until = asyncio.get_running_loop().time() + DREAM_S
        return await self._run(scope, most=DREAM_BLOCKS, by_rules=by_rules, until=until, progress=progress)

    async def _run(
        self, scope: Scope, *, most: int, by_rules: bool, until: float | None, progress: Progress = SILENT
    ) -> Dreamt:
        done = Dreamt()
        for _ in range(most):
            try:
                async with asyncio.timeout_at(until):
                    pending = await self._next(scope)
                    if pending is None:
                        break
                    judgement = await self._judging.judge(
                        scope, pending.block, pending.identity, pending.others, by_rules=by_rules
                    )
            except TimeoutError:
                break
            done = done.plus(await self._settle(scope, pending, judgement))
            progress.report(done.processed, doing="blocks")
        async with self._book.read(scope) as (_tx, use):
            due = done.processed > 0 and use is not None and self._curating.is_due(use)
            left = use.inbox if use is not None else 0
        curated = due and await self._curating.curate_if_due(scope)
        return replace(done, inbox_remaining=left, curated=curated)

    async def _next(self, scope: Scope) -> _Pending | None:
        """Return the longest waiting block, with its vector and what it is to be compared with."""
        async with self._book.read(scope) as (tx, _):
            waiting = await notion_lists.pending(tx, NUMBER, most=1)
            if not waiting:
                return None
            [block] = waiting
            vector = (await self._book.vectors(tx, waiting)).get(block.notion)
        spent: dict[str, int] = {}
        embedding = self._book.embedding
        if vector is None and embedding is not None:
            text = f"{block.text}\n{block.cue}" if block.cue else block.text
            try:
                [vector] = await embedding.embed_texts([text])
                spent = {"embedding_calls": 1, "embedding_tokens": self._tokens.count(text)}
            except MemsvcError:
                vector = None  # its words are compared instead
        async with self._book.read(scope) as (tx, _):
            own = await notion_lists.tagged(tx, NUMBER, [f"{SELF}%"], most=IDENTITY_MAX)
            near = await self._near(tx, block, vector)
            blocks = await notions.read(tx, NUMBER, [*own, *near])
            active = {key: one for key, one in blocks.items() if one.status == "active" and key != block.notion}
            others = [active[key] for key in near if key in active]
            held = await self._book.vectors(tx, others)
        alike = {one.notion: likeness(vector, held.get(one.notion), (block.text, one.text)) for one in others}
        others.sort(key=lambda one: -alike[one.notion])
        identity = sorted((active[key] for key in own if key in active), key=lambda one: -one.confidence)
        return _Pending(block, vector, identity, others, alike, spent)

    async def _near(self, tx: Tx, block: Notion, vector: list[float] | None) -> list[str]:
        embedding = self._book.embedding
        meaning = Meaning(vector, embedding.model) if embedding is not None and vector is not None else None
        terms = query_terms(block.text)
        if not terms and meaning is None:
            return []
        shelf = Shelf(NUMBER, COMPARED_MAX, reach=0, reaching=0, near=COMPARED_MAX if meaning is not None else 0)
        found = (await search.search(tx, [shelf], terms, meaning)).get(NUMBER)
        return [one.ref for one in found.candidates if one.ref != block.notion] if found is not None else []

    async def _settle(self, scope: Scope, pending: _Pending, judgement: Judgement) -> Dreamt:
        """Promote a block, or archive it for one that says the same; skip it if it has changed."""
        async with self._book.written(scope) as writing:
            writing.use = spend(spend(writing.use, pending.spent), judgement.spent)
            ids = [pending.block.notion, *(one.notion for one in pending.others)]
            now = await notions.read(writing.tx, NUMBER, ids)
            block = now.get(pending.block.notion)
            if block is None or block.status != "inbox" or block.entry != pending.block.entry:
                return Dreamt()
            others = [now[one.notion] for one in pending.others if _same(one, now.get(one.notion))]
            twin = self._twin(pending, others, judgement)
            done = (
                await self._supersede(writing, block, twin)
                if twin is not None
                else await self._promote(writing, block, pending, judgement, others)
            )
            writing.use = replace(writing.use, consolidated_at=writing.now)
        return replace(done, by_rules=int(not judgement.spent))

    async def _keep_vector(self, writing: Writing, pending: _Pending) -> None:
        if pending.spent and pending.vector is not None and self._book.embedding is not None:
            model = self._book.embedding.model
            await vectors.put(writing.tx, NUMBER, model, {pending.block.entry: pending.vector})

    def _twin(self, pending: _Pending, others: Sequence[Notion], judgement: Judgement) -> Notion | None:
        """Return the block that says the same as this one, or None.

        One that differs in a number or a negation says something else, however similar; by words
        alone, so does one that adds a word.
        """
        for other in others:
            if pending.likeness[other.notion] < self._book.options.duplicate_similarity_min:
                return None
            texts = (pending.block.text, other.text)
            differs = other.notion in judgement.contradicts or contradict(*texts) or numbers_differ(*texts)
            by_words = pending.vector is None and not adds_nothing(pending.block.text, other.text)
            if not differs and not by_words:
                return other
        return None

    async def _supersede(self, writing: Writing, block: Notion, twin: Notion) -> Dreamt:
        """Archive a block for one that says the same, which gets its tags."""
        tags = {*twin.tags, *block.tags}
        await self._book.archive(writing, [block], "superseded", by=twin.notion)
        await notions.tag(writing.tx, NUMBER, twin.notion, block.tags)
        tier = tier_of(tags, twin.category)
        if tier is not twin.tier:
            await judged.retier(writing.tx, NUMBER, twin.notion, tier, min(twin.decay_per_h, DECAY_PER_H[tier]))
        use = writing.use
        writing.change(inbox=use.inbox - 1, archived=use.archived + 1)
        return Dreamt(processed=1, deduplicated=1)

    async def _promote(
        self, writing: Writing, block: Notion, pending: _Pending, judgement: Judgement, others: Sequence[Notion]
    ) -> Dreamt:
        options = self._book.options
        tags = (*block.tags, *(tag for tag in judgement.tags if tag not in block.tags))
        tier = tier_of(tags, block.category)
        sure = judgement.alignment >= options.alignment_min
        belief = prior(judgement.alignment if sure else PRIOR_CONFIDENCE, options.prior_strength)
        promotion = Promotion(
            block.notion,
            tier,
            DECAY_PER_H[tier],
            belief.alpha,
            belief.beta,
            belief.confidence,
            judgement.alignment,
            judgement.scored_by,
        )
        await self._keep_vector(writing, pending)
        await judged.promote(writing.tx, NUMBER, promotion, writing.use.active_h)
        await notions.tag(writing.tx, NUMBER, block.notion, judgement.tags)
        disagree, near = await self._note_conflicts(writing, block, pending, judgement, others)
        tied = self._ties(block, tags, pending, others, writing.use.active_h)
        made = await edges.put(writing.tx, NUMBER, tied)
        use = writing.use
        writing.change(inbox=use.inbox - 1, active=use.active + 1)
        return Dreamt(processed=1, promoted=1, edges_created=made, contradictions=disagree, near_duplicates=near)

    async def _note_conflicts(
        self, writing: Writing, block: Notion, pending: _Pending, judgement: Judgement, others: Sequence[Notion]
    ) -> tuple[int, int]:
        """Store conflicts with a block; return the number of contradictions and near duplicates."""
        conflicts = []
        for other in others:
            alike = pending.likeness[other.notion]
            if (sure := judgement.contradicts.get(other.notion)) is not None:
                conflicts.append(Conflict(block.notion, other.notion, "contradiction", sure))
            elif alike >= self._book.options.near_similarity_min:
                conflicts.append(Conflict(block.notion, other.notion, "near_duplicate", alike))
        await edges.contradict(writing.tx, NUMBER, conflicts, writing.now)
        disagree = sum(conflict.kind == "contradiction" for conflict in conflicts)
        return disagree, len(conflicts) - disagree

    def _ties(
        self, block: Notion, tags: Sequence[str], pending: _Pending, others: Sequence[Notion], now_h: float
    ) -> list[Edge]:
        """Return the edges of a new block to the blocks that go with it best."""
        options = self._book.options
        scores = []
        for other in others:
            alike = pending.likeness[other.notion]
            if alike < options.edge_similarity_min:
                continue
            same_category = other.category == block.category
            apart_h = block.created_h - other.created_h
            score = edge_score(alike, (tags, other.tags), same_category=same_category, apart_h=apart_h)
            if score >= options.edge_score_min:
                scores.append((score, other.notion))
        best = sorted(scores, reverse=True)[: options.edges_max]
        return [
            Edge(*edges.pair(block.notion, other), min(score, 1.0), SIMILAR, "similarity", 0, now_h)
            for score, other in best
        ]


def _same(was: Notion, now: Notion | None) -> bool:
    """Return whether a block is unchanged since it was compared."""
    return now is not None and now.status == "active" and now.entry == was.entry
