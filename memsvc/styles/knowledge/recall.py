"""Recall: the blocks for a question, or for a frame without one, as text for a prompt."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations
from typing import Final, Literal

from memsvc.core.analysis import query_terms
from memsvc.core.likeness import Counts, cosine, counts_of
from memsvc.core.ports import Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import edges, notion_lists, notions, search
from memsvc.store.activity import Activity
from memsvc.store.database import Tx
from memsvc.store.notions import Notion
from memsvc.store.search import Meaning, Shelf
from memsvc.styles.knowledge.book import NUMBER, Book, likeness
from memsvc.styles.knowledge.diversity import diverse
from memsvc.styles.knowledge.frames import Frame, Name, frame_named, of_peer
from memsvc.styles.knowledge.hours import now_of, spend
from memsvc.styles.knowledge.rendering import Rendered, rendered
from memsvc.styles.knowledge.scored import Scored, scored
from memsvc.styles.knowledge.scoring import similarities
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL

SEEDS: Final = 4
"""Candidates by words, and as many by meaning, for each requested block (elfmem)."""
SPARE: Final = 2
"""Candidates that are kept for each requested block, as some may drop out (elfmem)."""
TAGGED_MAX: Final = 200
"""Most blocks that a frame takes by their tags."""
BESIDE_MAX: Final = 5
"""Blocks that edges add for each seed."""
STRONGEST_MAX: Final = 50
CACHED_FOR: Final = timedelta(hours=1)
CACHED_MAX: Final = 500
Reason = Literal["top_k", "token_budget", "contradiction"]


@dataclass(frozen=True, slots=True)
class Recalled:
    """Result of a recall, with what was found and dropped, and why."""

    frame: Name
    rendered: Rendered
    blocks: Sequence[Scored]
    dropped: Sequence[tuple[Scored, Reason]]
    budget_tok: int
    excluded: int
    cached: bool = False


@dataclass(slots=True)
class _Found:
    blocks: list[Notion]
    guaranteed: set[str]
    similarity: dict[str, float] = field(default_factory=dict)
    expanded: set[str] = field(default_factory=set)
    excluded: int = 0


class Recall:
    """Recalls blocks, and reinforces them with the edges between them.

    This process caches a frame without a question for an hour, as long as nothing changes but use.
    """

    def __init__(self, book: Book, tokens: TokenCounter, meter: Meter) -> None:
        self._book = book
        self._tokens = tokens
        self._meter = meter
        self._cached: OrderedDict[tuple[bytes, str, str, int | None], tuple[int, datetime, Recalled]] = OrderedDict()

    async def recall(self, scope: Scope, question: str, *, top_k: int | None, frame_name: str) -> Recalled:
        """Return the best `top_k` blocks of a frame.

        Without `top_k`, as many as are guaranteed and at least as the options say. Nothing is
        written when nothing is returned.
        """
        frame = frame_named(frame_name)
        asked = question.strip() if frame.question else ""
        embedding = self._book.embedding
        vector = await embedding.question(asked) if embedding is not None and asked else None
        meaning = Meaning(vector, embedding.model) if embedding is not None and vector is not None else None
        key = (scope.tenant, scope.project, frame.name, top_k)
        async with self._book.read(scope) as (tx, was):
            if was is None:
                return _nothing(frame)
            use = now_of(was, self._book.now(), self._book.idle)
            if not frame.question and (kept := self._kept(key, use)) is not None:
                return kept
            recalled = await self._recalled(tx, use, frame, asked, meaning, top_k)
        if recalled.blocks:
            await self._note(scope, recalled, asked if meaning is not None else "")
        if not frame.question:
            self._keep(key, use, recalled)
        return recalled

    async def _recalled(
        self, tx: Tx, use: Activity, frame: Frame, asked: str, meaning: Meaning | None, top_k: int | None
    ) -> Recalled:
        found = await self._found(tx, frame, asked, meaning, top_k)
        self._meter.add("memsvc_recall_candidates", len(found.blocks))
        most = top_k or max(self._book.options.top_k, len(found.guaranteed))
        weights = frame.weights if asked else frame.weights.without_question()
        ranked = scored(found.blocks, found.similarity, weights, use.active_h, frame=frame, expanded=found.expanded)
        first = [one for one in ranked if one.block.notion in found.guaranteed]
        rest = [one for one in ranked if one.block.notion not in found.guaranteed][: SPARE * most]
        ordered = await self._ordered(tx, [*first, *rest], asked)
        ordered.sort(key=lambda one: one.block.notion not in found.guaranteed)
        beaten = _beaten(ordered, await edges.contradictions(tx, NUMBER, [one.block.notion for one in ordered]))
        standing = [one for one in ordered if one.block.notion not in beaten]
        shown = standing[:most]
        text = rendered(frame, shown, self._book.options.agent_name)
        dropped: list[tuple[Scored, Reason]] = [
            *((one, "contradiction") for one in ordered if one.block.notion in beaten),
            *((one, "top_k") for one in standing[most:]),
            *((one, "token_budget") for one in shown[text.shown :]),
        ]
        return Recalled(frame.name, text, shown[: text.shown], dropped, frame.budget_tok, found.excluded)

    async def _found(self, tx: Tx, frame: Frame, asked: str, meaning: Meaning | None, top_k: int | None) -> _Found:
        """Return the candidates: guaranteed ones, and those by words, meaning, tags or use."""
        guaranteed = (
            await notion_lists.tagged(tx, NUMBER, frame.guaranteed, most=TAGGED_MAX) if frame.guaranteed else {}
        )
        apart: dict[str, list[str]] = {}
        if frame.identity_apart:
            apart = await notion_lists.tagged(tx, NUMBER, [CONSTITUTIONAL], most=TAGGED_MAX)
        similarity: dict[str, float] = {}
        beside: list[str] = []
        if asked:
            best = SEEDS * (top_k or max(self._book.options.top_k, len(guaranteed))) + len(apart)
            similarity = await _similar(tx, asked, meaning, best)
            if similarity:
                beside = await edges.beside(tx, NUMBER, list(similarity), most=BESIDE_MAX)
            others = [*similarity, *beside]
        elif frame.only:
            others = list(await notion_lists.tagged(tx, NUMBER, [frame.only], most=TAGGED_MAX))
        else:
            others = await notion_lists.strongest(tx, NUMBER, most=STRONGEST_MAX)
        blocks = await notions.read(tx, NUMBER, [*guaranteed, *others, *apart])
        # no block of another agent is guaranteed a place, whatever its tags say
        sure = {one for one in guaranteed if one in blocks and not of_peer(blocks[one].tags)}
        out = {one for one, block in blocks.items() if one not in sure and frame.excludes(block.tags)}
        wanted = ({*guaranteed, *others}) - out
        live = [block for one, block in blocks.items() if one in wanted and block.status != "archived"]
        return _Found(live, sure, similarity, set(beside) - similarity.keys(), len(out))

    async def _ordered(self, tx: Tx, ranked: list[Scored], asked: str) -> list[Scored]:
        """Return the blocks with similar ones apart; unchanged without a question."""
        if not asked or len(ranked) < 2:
            return ranked
        by_id = {one.block.notion: one for one in ranked}
        vectors = await self._book.vectors(tx, [one.block for one in ranked])
        words = {} if len(vectors) == len(by_id) else {key: counts_of(one.text) for key, one in by_id.items()}
        alike = partial(_alike, vectors, words)
        return [by_id[key] for key in diverse({key: one.score for key, one in by_id.items()}, alike)]

    async def _note(self, scope: Scope, recalled: Recalled, embedded: str) -> None:
        """Reinforce the recalled blocks."""
        ids = sorted(one.block.notion for one in recalled.blocks)
        spent = {"embedding_calls": 1, "embedding_tokens": self._tokens.count(embedded)} if embedded else {}
        async with self._book.written(scope) as writing:
            writing.use = spend(writing.use, spent)
            await notions.reinforce(writing.tx, NUMBER, ids, writing.use.active_h)
            await edges.strengthen(writing.tx, NUMBER, list(combinations(ids, 2)), 0.0, writing.use.active_h)

    def _kept(self, key: tuple[bytes, str, str, int | None], use: Activity) -> Recalled | None:
        revision, until, recalled = self._cached.get(key, (-1, use.seen_at, None))
        if recalled is None or revision != use.revision or until <= use.seen_at:
            return None
        self._cached.move_to_end(key)
        return replace(recalled, cached=True)

    def _keep(self, key: tuple[bytes, str, str, int | None], use: Activity, recalled: Recalled) -> None:
        self._cached[key] = (use.revision, use.seen_at + CACHED_FOR, recalled)
        if len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)


async def _similar(tx: Tx, asked: str, meaning: Meaning | None, best: int) -> dict[str, float]:
    """Return blocks that match a question, by id, and how well."""
    terms = query_terms(asked)
    if not terms and meaning is None:
        return {}
    shelf = Shelf(NUMBER, best=best, reach=0, reaching=0, near=best if meaning is not None else 0)
    found = (await search.search(tx, [shelf], terms, meaning)).get(NUMBER)
    if found is None:
        return {}
    by_words = {one.ref: sum(one.term_scores.values()) for one in found.candidates if one.term_scores}
    by_meaning = {one.ref: one.cosine for one in found.candidates if one.cosine is not None}
    return similarities(by_words, by_meaning)


def _alike(vectors: dict[str, list[float]], words: dict[str, Counts], one: str, other: str) -> float:
    if one in vectors and other in vectors:
        return likeness(vectors[one], vectors[other], ("", ""))
    return cosine(words[one], words[other])


def _beaten(ordered: Sequence[Scored], pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the less sure one of each conflicting pair.

    Of equals the one that was used less lately, then the earlier one. A dropped block conflicts
    with nothing.
    """
    by_id = {one.block.notion: one for one in ordered}
    beaten: set[str] = set()
    for low, high in pairs:
        if low in beaten or high in beaten:
            continue
        beaten.add(min((by_id[low], by_id[high]), key=_standing).block.notion)
    return beaten


def _standing(one: Scored) -> tuple[float, float, int]:
    return one.block.confidence, one.parts.recency, one.block.entry


def _nothing(frame: Frame) -> Recalled:
    return Recalled(frame.name, Rendered("", 0, 0), (), (), frame.budget_tok, 0)
