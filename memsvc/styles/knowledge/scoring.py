"""Score of a block: five components between 0 and 1, weighted by the frame.

The constants are elfmem's, as are the weights, budgets and guarantees of the frames.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from math import log, sqrt
from typing import Final, Literal, NamedTuple

from memsvc.core.decay import remaining
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.block_index import CONSTITUTIONAL, GOAL

WEIGHT_ERROR_MAX: Final = 1e-4
EXPLORATION: Final = 0.05
"""Share of the standard deviation of a block's confidence that is added, a chance for new
blocks."""
RANK_CONSTANT: Final = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)."""
FLOOR_CENTRALITY: Final = 0.10
"""A block that is less central than this and fresher than FLOOR_RECENCY counts as FLOOR_STRENGTH x
its recency central, so that a new block does not lose for having no edges yet."""
FLOOR_RECENCY: Final = 0.70
FLOOR_FACTOR: Final = 0.50


@frozen
class ScoreWeights:
    """Weights of the components; ValueError unless none is negative and they sum to 1."""

    similarity: float
    confidence: float
    recency: float
    centrality: float
    reinforcement: float

    def __post_init__(self) -> None:
        if any(weight < 0 for weight in self.all):
            raise ValueError("the weight of a score component must not be negative")
        if abs(sum(self.all) - 1) > WEIGHT_ERROR_MAX:
            raise ValueError(
                f"the weights of the score components must add up to 1, not to {sum(self.all):.6f}"
            )

    @property
    def all(self) -> tuple[float, ...]:
        """Return the weights in the order of the components."""
        return self.similarity, self.confidence, self.recency, self.centrality, self.reinforcement

    def without_question(self) -> "ScoreWeights":
        """Return the weights without similarity: the other four rescaled to sum to 1."""
        rest = sum(self.all) - self.similarity
        if rest == 0:
            raise ValueError(
                "without a question, blocks cannot be scored if similarity is the only"
                " score component with a weight"
            )
        return ScoreWeights(0.0, *(weight / rest for weight in self.all[1:]))


class ScoreComponents(NamedTuple):
    """Components of a block's score."""

    similarity: float
    confidence: float
    recency: float
    centrality: float
    reinforcement: float


def score(parts: ScoreComponents, weights: ScoreWeights, *, alpha: float, beta: float) -> float:
    """Return the weighted sum of the components and a bonus for uncertainty.

    The bonus is at most 0.0177, for alpha = beta = 0.5.
    """
    total = sum(weight * part for weight, part in zip(weights.all, parts, strict=True))
    return total + exploration(alpha, beta)


def exploration(alpha: float, beta: float) -> float:
    """Return EXPLORATION x the standard deviation of Beta(alpha, beta)."""
    total = alpha + beta
    return EXPLORATION * sqrt(alpha * beta / (total * total * (total + 1)))


def reinforcement(times: int, max_uses: int) -> float:
    """Return a block's use relative to the most used candidate: ln(1 + times) / ln(1 + most)."""
    return log(1 + times) / log(1 + max_uses) if max_uses > 0 else 0.0


def centrality(degree: float, max_degree: float, recency: float) -> float:
    """Return a block's weighted degree over the greatest of all candidates, or the floor."""
    share = degree / max_degree if max_degree > 0 else 0.0
    if share < FLOOR_CENTRALITY and recency > FLOOR_RECENCY:
        return max(share, FLOOR_FACTOR * recency)
    return share


def merge_scores(
    by_words: Mapping[str, float], by_embedding: Mapping[str, float]
) -> dict[str, float]:
    """Return the match of blocks to a question, 0 to 1, from BM25 and cosines.

    Both: reciprocal rank fusion over the greatest. Cosines alone: as they are. BM25 alone: over the
    best.
    """
    words = {key: value for key, value in by_words.items() if value > 0}
    if not words:
        return {key: max(0.0, value) for key, value in by_embedding.items()}
    if not by_embedding:
        best = max(words.values())
        return {key: value / best for key, value in words.items()}
    scores: dict[str, float] = {}
    for side in (by_embedding, words):
        for rank, key in enumerate(sorted(side, key=lambda key: (-side[key], key)), 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
    best = max(scores.values())
    return {key: value / best for key, value in scores.items()}


Name = Literal["self", "attention", "task", "simulate"]
PEER: Final = "peer/"
"""Prefix of the tags of blocks by another agent: knowledge, whatever they claim to be."""


@frozen
class RecallFrame:
    """Frame of a recall: weights, budget, and blocks that it includes or excludes.

    `only` and `required_tags` are tags, or beginnings of tags and `%`; with `without_identity`,
    constitutional blocks stay out; one without `question` ignores the query. `scale_by_name`
    multiply the score by category or, as `tag:`, by the beginning of a tag.
    """

    name: Name
    weights: ScoreWeights
    budget_tok: int
    required_tags: tuple[str, ...] = ()
    only: str = ""
    without_identity: bool = False
    question: bool = True
    scale_by_name: Mapping[str, float] = field(default_factory=dict)

    def factor(self, category: str, tags: tuple[str, ...]) -> float:
        """Return the factor of a block's score."""
        tag_values = [
            factor
            for key, factor in self.scale_by_name.items()
            if key.startswith("tag:")
            and any(tag.startswith(key.removeprefix("tag:")) for tag in tags)
        ]
        return max([self.scale_by_name.get(category, 1.0), *tag_values])

    def excludes(self, tags: tuple[str, ...]) -> bool:
        """Return whether blocks with these tags are left out, unless they are guaranteed."""
        return self.without_identity and CONSTITUTIONAL in tags and not of_peer(tags)


FRAMES: Final[dict[str, RecallFrame]] = {
    frame.name: frame
    for frame in (
        RecallFrame(
            "self",
            ScoreWeights(0.10, 0.30, 0.05, 0.25, 0.30),
            600,
            required_tags=(CONSTITUTIONAL,),
            only="self/%",
            question=False,
        ),
        RecallFrame(
            "attention", ScoreWeights(0.35, 0.15, 0.25, 0.15, 0.10), 2000, without_identity=True
        ),
        RecallFrame(
            "task",
            ScoreWeights(0.20, 0.20, 0.20, 0.20, 0.20),
            800,
            required_tags=(GOAL,),
            without_identity=True,
        ),
        RecallFrame(
            "simulate",
            ScoreWeights(0.25, 0.25, 0.15, 0.20, 0.15),
            2000,
            required_tags=(CONSTITUTIONAL, "mind/%"),
            scale_by_name={"tag:self/": 10.0, "mind": 6.0, "decision": 5.0},
        ),
    )
}


def frame_named(name: str) -> RecallFrame:
    """Return the frame of this name; INVALID_ARGUMENT when there is none."""
    if name not in FRAMES:
        valid = ", ".join(f"'{one}'" for one in FRAMES)
        raise invalid(
            f"Unknown frame: '{name}'. Available: {list(FRAMES)}",
            recovery=f"Valid frames: {valid}.",
        )
    return FRAMES[name]


def of_peer(tags: tuple[str, ...]) -> bool:
    """Return whether another agent wrote a block with these tags."""
    return any(tag.startswith(PEER) for tag in tags)


@frozen
class ScoredBlock:
    """Block with its components and score; `expanded` when an edge led to it."""

    block: KnowledgeBlock
    parts: ScoreComponents
    score: float
    expanded: bool

    @property
    def text(self) -> str:
        return self.block.text

    @property
    def tags(self) -> tuple[str, ...]:
        return self.block.tags


def score_blocks(
    blocks: Collection[KnowledgeBlock],
    similarity: Mapping[str, float],
    weights: ScoreWeights,
    now_h: float,
    *,
    frame: RecallFrame | None = None,
    expanded: Iterable[str] = (),
) -> list[ScoredBlock]:
    """Return blocks best first; use and edges count relative to these blocks."""
    max_uses = max((block.reinforcements for block in blocks), default=0)
    max_degree = max((block.degree for block in blocks), default=0.0)
    from_edges = set(expanded)
    found = []
    for block in blocks:
        recency = remaining(block.decay_per_h, now_h - block.reinforced_h)
        parts = ScoreComponents(
            similarity=similarity.get(block.block_id, 0.0),
            confidence=block.confidence,
            recency=recency,
            centrality=centrality(block.degree, max_degree, recency),
            reinforcement=reinforcement(block.reinforcements, max_uses),
        )
        value = score(parts, weights, alpha=block.alpha, beta=block.beta)
        value *= frame.factor(block.category, block.tags) if frame is not None else 1.0
        found.append(ScoredBlock(block, parts, value, block.block_id in from_edges))
    return sorted(found, key=lambda item: (-item.score, item.block.block_id))
