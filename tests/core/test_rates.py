"""A bucket lets through what its rate allows, whoever fills it."""

from hypothesis import given
from hypothesis import strategies as st

from memsvc.gateway.rate_limits import Rate

gaps = st.lists(st.floats(0, 3), min_size=1, max_size=300)
rates = st.builds(Rate, per_s=st.floats(0.1, 50), burst_s=st.floats(0.01, 20))


def let_through(rate: Rate, moments: list[float]) -> list[float]:
    """Which of these moments a bucket that was empty lets through."""
    empty_at, through = 0.0, []
    for now in moments:
        if rate.wait_s(empty_at, now) == 0:
            empty_at = rate.used(empty_at, now)
            through.append(now)
    return through


def moments_of(gaps: list[float]) -> list[float]:
    now, moments = 1000.0, []
    for gap in gaps:
        now += gap
        moments.append(now)
    return moments


def test_an_empty_bucket_takes_its_burst_at_once_and_then_one_each_interval() -> None:
    rate = Rate(per_s=4, burst_s=2)
    assert let_through(rate, [100.0] * 50) == [100.0] * 8
    after = [100.0] * 8 + [100.1, 100.25, 100.3, 100.5]
    assert let_through(rate, after) == [100.0] * 8 + [100.25, 100.5]


def test_what_is_refused_uses_nothing_and_is_told_how_long_to_wait() -> None:
    rate = Rate(per_s=2, burst_s=1)
    empty_at = rate.used(rate.used(0.0, 10.0), 10.0)
    assert rate.wait_s(empty_at, 10.0) == 0.5
    assert rate.wait_s(empty_at, 10.4) > 0
    assert rate.wait_s(empty_at, 10.5) == 0


def test_a_rate_of_less_than_one_in_its_burst_still_lets_one_through() -> None:
    assert let_through(Rate(per_s=0.5, burst_s=0.1), [10.0, 11.0, 12.0]) == [10.0, 12.0]


@given(rates, gaps)
def test_no_stretch_of_time_sees_more_than_the_burst_and_the_rate(
    rate: Rate, gaps: list[float]
) -> None:
    through = let_through(rate, moments_of(gaps))
    for at, first in enumerate(through):
        for number, last in enumerate(through[at:], 1):
            assert number <= (last - first + rate.depth_s) * rate.per_s + 1e-6 * number + 1e-3


@given(rates, gaps)
def test_waiting_as_long_as_told_is_enough(rate: Rate, gaps: list[float]) -> None:
    empty_at = 0.0
    for now in moments_of(gaps):
        at = now + rate.wait_s(empty_at, now)
        assert rate.wait_s(empty_at, at) < 1e-9
        empty_at = rate.used(empty_at, at)


@given(rates, st.integers(1, 50), st.integers(1, 50))
def test_what_others_used_counts_as_one_s_own(rate: Rate, mine: int, theirs: int) -> None:
    apart = rate.used(rate.used(0.0, 10.0, mine), 10.0, theirs)
    assert abs(apart - rate.used(0.0, 10.0, mine + theirs)) < 1e-6
