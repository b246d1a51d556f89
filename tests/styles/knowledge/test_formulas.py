"""The formulas, without a database: their worked examples and their bounds."""

from datetime import UTC, datetime, timedelta
from math import exp, isclose, log, sqrt

import pytest

from memsvc.core.decay import DECAY_PER_H, DecayTier, edge_decay_per_h, hours_to, remaining
from memsvc.core.errors import MemsvcError
from memsvc.styles.knowledge.block_edges import (
    BetaConfidence,
    bridge_degree,
    check,
    decay_after,
    edge_score,
    prior,
)
from memsvc.styles.knowledge.block_index import add_token_usage, is_open, tier_of, usage_at
from memsvc.styles.knowledge.block_recall import rerank
from memsvc.styles.knowledge.curate import health
from memsvc.styles.knowledge.scoring import (
    FRAMES,
    ScoreComponents,
    ScoreWeights,
    centrality,
    exploration,
    frame_named,
    merge_scores,
    reinforcement,
    score,
)

HOUR = timedelta(hours=1)
NOW = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("frame", "weights"),
    [
        ("self", ScoreWeights(0.10, 0.30, 0.05, 0.25, 0.30)),
        ("attention", ScoreWeights(0.35, 0.15, 0.25, 0.15, 0.10)),
        ("task", ScoreWeights(0.20, 0.20, 0.20, 0.20, 0.20)),
        ("simulate", ScoreWeights(0.25, 0.25, 0.15, 0.20, 0.15)),
    ],
)
def test_a_frame_has_its_weights(frame: str, weights: ScoreWeights) -> None:
    assert FRAMES[frame].weights == weights


@pytest.mark.parametrize(
    "wrong", [(0.5, 0.5, 0.5, 0, 0), (1.2, -0.2, 0, 0, 0), (0.2, 0.2, 0.2, 0.2, 0.1998)]
)
def test_weights_sum_to_one_and_are_not_negative(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weight"):
        ScoreWeights(*wrong)


def test_weights_may_miss_one_by_a_ten_thousandth() -> None:
    ScoreWeights(0.2, 0.2, 0.2, 0.2, 0.20005)


def test_without_a_question_the_other_weights_are_rescaled() -> None:
    rest = FRAMES["attention"].weights.without_question()
    assert rest.similarity == 0
    assert isclose(rest.recency, 0.25 / 0.65)
    assert isclose(rest.confidence + rest.recency + rest.centrality + rest.reinforcement, 1)
    with pytest.raises(ValueError, match="similarity"):
        ScoreWeights(1, 0, 0, 0, 0).without_question()


@pytest.mark.parametrize(
    ("tags", "category", "tier", "decay_per_h"),
    [
        (["self/constitutional", "self/goal"], "observation", DecayTier.PERMANENT, 0.00001),
        (["self/value"], "knowledge", DecayTier.DURABLE, 0.001),
        (["self/constraint"], "observation", DecayTier.DURABLE, 0.001),
        (["self/goal"], "knowledge", DecayTier.DURABLE, 0.001),
        ([], "mind", DecayTier.DURABLE, 0.001),
        (["self/style"], "knowledge", DecayTier.STANDARD, 0.010),
        ([], "observation", DecayTier.EPHEMERAL, 0.050),
    ],
)
def test_tags_and_category_decide_how_fast_a_block_fades(
    tags: list[str], category: str, tier: DecayTier, decay_per_h: float
) -> None:
    assert tier_of(tags, category) is tier
    assert DECAY_PER_H[tier] == decay_per_h


def test_what_is_unused_fades_exponentially() -> None:
    assert remaining(0.010, 0) == 1
    assert isclose(remaining(0.050, 60), exp(-3))
    assert isclose(remaining(0.00001, 1000), 0.990049834, abs_tol=1e-9)
    assert remaining(0.010, -5) == 1


def test_a_twentieth_is_left_after_60_300_and_3000_hours() -> None:
    hours = [
        round(hours_to(0.05, DECAY_PER_H[tier]), 1)
        for tier in (DecayTier.EPHEMERAL, DecayTier.STANDARD, DecayTier.DURABLE)
    ]
    assert hours == [59.9, 299.6, 2995.7]


def test_an_edge_fades_half_as_fast_as_its_more_lasting_end_and_slower_once_it_is_established() -> (
    None
):
    assert edge_decay_per_h(DecayTier.STANDARD, DecayTier.EPHEMERAL) == 0.005
    assert edge_decay_per_h(DecayTier.EPHEMERAL, DecayTier.DURABLE, reinforcements=9) == 0.0005
    assert edge_decay_per_h(DecayTier.EPHEMERAL, DecayTier.DURABLE, reinforcements=10) == 0.00025


def test_the_score_is_the_weighted_sum_and_a_bonus_for_what_is_uncertain() -> None:
    parts = ScoreComponents(
        similarity=0.8, confidence=0.6, recency=0.5, centrality=0.4, reinforcement=0.2
    )
    plain = 0.35 * 0.8 + 0.15 * 0.6 + 0.25 * 0.5 + 0.15 * 0.4 + 0.10 * 0.2
    assert isclose(
        score(parts, FRAMES["attention"].weights, alpha=0.5, beta=0.5), plain + 0.05 * sqrt(0.125)
    )
    assert round(exploration(0.5, 0.5), 5) == 0.01768
    assert exploration(50, 50) < exploration(1, 1) < exploration(0.5, 0.5)


def test_the_same_block_is_worth_another_thing_in_each_frame() -> None:
    parts = ScoreComponents(
        similarity=0.9, confidence=0.35, recency=0.7, centrality=0.1, reinforcement=0.5
    )
    assert len({score(parts, frame.weights, alpha=1, beta=1) for frame in FRAMES.values()}) == len(
        FRAMES
    )


def test_attention_looks_at_similarity_first() -> None:
    near, sure = ScoreComponents(1, 0, 0, 0, 0), ScoreComponents(0, 1, 0, 0, 0)
    attention, identity = FRAMES["attention"].weights, FRAMES["self"].weights
    assert score(near, attention, alpha=1, beta=1) > score(sure, attention, alpha=1, beta=1)
    assert score(near, identity, alpha=1, beta=1) < score(sure, identity, alpha=1, beta=1)


def test_use_counts_by_its_logarithm() -> None:
    assert reinforcement(0, 0) == 0
    assert reinforcement(7, 7) == 1
    assert isclose(reinforcement(3, 15), log(4) / log(16))


@pytest.mark.parametrize(
    ("degree", "greatest", "recency", "expected"),
    [
        (0, 0, 1, 0.5),
        (0, 10, 0.8, 0.4),
        (0.99, 10, 0.71, 0.355),
        (1, 10, 1, 0.1),
        (0, 10, 0.70, 0),
        (5, 10, 0.1, 0.5),
    ],
)
def test_what_is_fresh_is_not_beaten_for_having_no_edges(
    degree: float, greatest: float, recency: float, expected: float
) -> None:
    assert isclose(centrality(degree, greatest, recency), expected)


def test_words_and_meaning_are_fused_by_their_ranks() -> None:
    both = merge_scores({"a": 3.0, "b": 1.0}, {"b": 0.9, "c": 0.2})
    assert both["b"] == 1
    assert isclose(both["a"], (1 / 61) / (1 / 61 + 1 / 62))
    assert isclose(both["c"], (1 / 62) / (1 / 61 + 1 / 62))
    assert merge_scores({}, {"a": 0.4, "b": -0.1}) == {"a": 0.4, "b": 0.0}
    assert merge_scores({"a": 4.0, "b": 1.0, "c": 0.0}, {}) == {"a": 1.0, "b": 0.25}


def test_what_says_the_same_thing_comes_later() -> None:
    likeness = {("b", "a"): 1.0, ("c", "a"): 0.0, ("c", "b"): 0.0, ("b", "c"): 0.0}
    order = rerank({"a": 0.9, "b": 0.8, "c": 0.6}, lambda one, other: likeness[one, other])
    assert list(order) == ["a", "c", "b"]
    assert list(rerank({}, lambda *_: 0.0)) == []


def test_an_outcome_moves_confidence_as_in_the_examples() -> None:
    assert round(prior(0.5, 2.0).after(1, 1).confidence, 4) == 0.6667
    assert isclose(BetaConfidence(0.4, 0.6).after(0.9, 1).confidence, 0.65)


def test_the_prior_rules_early_and_outcomes_in_the_end() -> None:
    belief = prior(0.5, 2.0)
    assert belief.after(1, 1).confidence < 0.7
    for _ in range(200):
        belief = belief.after(0, 1)
    assert belief.confidence < 0.01
    assert prior(0.5, 2.0).after(1, 10).confidence > prior(0.5, 2.0).after(1, 1).confidence


@pytest.mark.parametrize(
    ("decay_per_h", "signal", "after"),
    [
        (0.010, 0.20, 0.010),
        (0.010, 0.199, 0.020),
        (0.040, 0.0, 0.050),
        (0.050, 0.0, 0.050),
        (0.001, 0.0, 0.001),
        (0.00001, 0.0, 0.00001),
    ],
)
def test_a_bad_outcome_makes_what_is_not_durable_fade_faster_up_to_a_limit(
    decay_per_h: float, signal: float, after: float
) -> None:
    assert isclose(decay_after(decay_per_h, signal), after)


@pytest.mark.parametrize(
    ("signal", "weight", "message"),
    [
        (1.5, 1.0, "signal must be in [0.0, 1.0], got 1.5"),
        (-0.1, 1.0, "signal must be in [0.0, 1.0], got -0.1"),
        (0.5, 0.0, "weight must be > 0.0, got 0.0"),
    ],
)
def test_an_outcome_that_is_none_is_refused(signal: float, weight: float, message: str) -> None:
    with pytest.raises(MemsvcError) as refused:
        check(signal, weight)
    assert refused.value.message == message


def test_an_edge_is_scored_by_likeness_tags_category_and_time() -> None:
    assert isclose(edge_score(1, (["a"], ["a"]), same_category=True, distance_h=0), 1.0)
    assert isclose(
        edge_score(0.6, (["a", "b"], ["b", "c"]), same_category=False, distance_h=8),
        0.55 * 0.6 + 0.20 / 3 + 0.15 * 0.30 + 0.10 * exp(-0.5),
    )
    assert isclose(edge_score(0, ([], []), same_category=False, distance_h=1000), 0.045)


def test_a_bridge_has_a_degree_at_the_80th_percentile_of_those_above_zero() -> None:
    assert bridge_degree([0, 0, 1, 2, 3, 4, 5]) == 5
    assert bridge_degree([1, 1, 1, 1, 4]) == 4
    assert bridge_degree([2.5]) == 2.5
    assert bridge_degree([0]) == float("inf")


@pytest.mark.parametrize(
    ("inbox", "stored", "expected"),
    [
        (10, 10, ("attention", "Inbox full. Call elfmem_dream() to process pending blocks.")),
        (8, 8, ("good", "Inbox nearly full (8/10). Consolidation approaching.")),
        (0, 0, ("good", "Memory is empty. Call elfmem_remember() to add knowledge.")),
        (7, 20, ("good", "Memory healthy. No action required.")),
    ],
)
def test_health_follows_from_how_full_the_inbox_is(
    inbox: int, stored: int, expected: tuple[str, str]
) -> None:
    assert health(inbox, 10, stored) == expected


def test_the_clock_runs_while_somebody_works_and_stands_still_otherwise() -> None:
    idle = HOUR / 2
    use = usage_at(None, NOW, idle)
    assert use.active_h == 0
    use = usage_at(use, NOW + idle, idle)
    assert (use.active_h, use.session_from_h) == (0.5, 0)
    assert is_open(use, NOW + 2 * idle, idle)
    use = add_token_usage(use, {"llm_calls": 1, "llm_input_tokens": 7})
    later = usage_at(use, NOW + 100 * HOUR, idle)
    assert (later.active_h, later.session_from_h, later.session_tokens) == (0.5, 0.5, {})
    assert later.lifetime_tokens["llm_input_tokens"] == 7
    assert not is_open(use, NOW + 100 * HOUR, idle)
    assert usage_at(later, NOW, idle).active_h == 0.5


def test_an_unknown_frame_is_refused_with_those_there_are() -> None:
    with pytest.raises(MemsvcError) as refused:
        frame_named("bad")
    assert (
        refused.value.message
        == "Unknown frame: 'bad'. Available: ['self', 'attention', 'task', 'simulate']"
    )
    assert refused.value.recovery == "Valid frames: 'self', 'attention', 'task', 'simulate'."


def test_boosts_lift_identity_over_minds_over_decisions() -> None:
    simulate = FRAMES["simulate"]
    assert [
        simulate.factor(category, tags)
        for category, tags in [("x", ("self/a",)), ("mind", ()), ("decision", ())]
    ] == [
        10,
        6,
        5,
    ]
    assert simulate.factor("knowledge", ("mind/ada",)) == 1
