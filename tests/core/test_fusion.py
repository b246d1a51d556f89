"""Two rankings become one whose scores can be followed by hand."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core import ranking
from memsvc.core.ranking import COSINE_WEIGHT, cosine_floor

fuse = partial(ranking.merge_scores, cosine_weight=0.5)
UNRELATED = dict.fromkeys(range(100, 110), 0.7)


def test_each_side_counts_by_its_share_of_its_best() -> None:
    fused = fuse({1: 8.0, 2: 4.0}, {2: 0.6, 3: 0.3})
    assert fused == pytest.approx({2: 0.5 * 0.5 + 0.5 * 1.0, 1: 0.5 * 1.0, 3: 0.5 * 0.5})
    assert list(fused) == [2, 1, 3]


def test_the_weight_is_the_share_of_the_cosine() -> None:
    assert ranking.merge_scores({1: 1.0}, {2: 0.6}) == pytest.approx(
        {1: 1 - COSINE_WEIGHT, 2: COSINE_WEIGHT}
    )
    assert fuse({1: 8.0, 2: 4.0}, {2: 0.6}, cosine_weight=0.25) == pytest.approx(
        {1: 0.75, 2: 0.75 * 0.5 + 0.25}
    )
    assert fuse({1: 8.0}, {2: 0.6}, cosine_weight=0.0) == {1: 1.0, 2: 0.0}
    assert fuse({1: 8.0}, {2: 0.6}, cosine_weight=1.0) == {2: 1.0, 1: 0.0}
    with pytest.raises(ValueError, match="between 0 and 1"):
        fuse({1: 8.0}, {2: 0.6}, cosine_weight=1.5)


def test_what_all_candidates_have_counts_as_nothing() -> None:
    cosine = UNRELATED | {1: 0.9, 2: 0.75}
    assert cosine_floor(cosine) == 0.7
    fused = fuse({2: 5.0, 100: 1.0}, cosine)
    assert fused[1] == pytest.approx(0.5)
    assert fused[2] == pytest.approx(0.5 + 0.5 * 0.05 / 0.2)
    assert fused[100] == pytest.approx(0.1)
    assert fused[101] == 0


def test_a_best_that_hardly_stands_out_is_no_match() -> None:
    fused = fuse({100: 5.0}, UNRELATED | {1: 0.71})
    assert fused[1] == pytest.approx(0.5 * 0.01 / 0.1)


def test_few_candidates_keep_their_cosines() -> None:
    assert cosine_floor({1: 0.7, 2: 0.8}) == 0
    assert fuse({}, {1: 0.4, 2: 0.8}) == pytest.approx({2: 1.0, 1: 0.5})


def test_a_side_that_has_nothing_to_say_leaves_the_order_of_the_other() -> None:
    assert fuse({1: 2.0, 2: 4.0}, {}) == {2: 1.0, 1: 0.5}
    assert fuse({}, {}) == {}
    assert fuse({1: 0.0}, {1: -0.3}) == {1: 0.0}
    assert fuse({1: 2.0, 2: 1.0}, dict.fromkeys(range(3, 20), 0.7)) == pytest.approx(
        {1: 1.0, 2: 0.5, **dict.fromkeys(range(3, 20), 0.0)}
    )


def test_of_equals_the_later_one_comes_first() -> None:
    assert list(fuse({(1, 1): 2.0, (1, 3): 2.0, (2, 2): 2.0}, {})) == [(2, 2), (1, 3), (1, 1)]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_counts_as_none(broken: float) -> None:
    assert fuse({1: broken, 2: 3.0}, {1: 0.5, 3: broken}) == pytest.approx({2: 0.5, 1: 0.5, 3: 0.0})


NUMBERS = st.dictionaries(st.integers(0, 30), st.floats(), max_size=30)


@given(NUMBERS, NUMBERS)
def test_any_two_sides_give_a_total_order_between_0_and_1(
    bm25: dict[int, float], cosine: dict[int, float]
) -> None:
    fused = fuse(bm25, cosine)
    assert fused.keys() == bm25.keys() | cosine.keys()
    assert all(0 <= score <= 1 for score in fused.values())
    assert list(fused) == sorted(fused, key=lambda key: (-fused[key], -key))
