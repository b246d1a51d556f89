"""What is left out of a prompt that would be too long, and what an item costs."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code, MemsvcError
from memsvc.styles.turns import budget
from memsvc.styles.turns.options import TurnOptions
from tests.styles.turns.talk import counted, user

COSTS = st.lists(st.integers(0, 400), max_size=12)


@given(
    room=st.integers(0, 4000),
    pieces=COSTS,
    history=COSTS,
    recent=COSTS,
    last=st.integers(0, 4),
)
def test_what_is_kept_never_exceeds_the_room_and_goes_in_the_order_of_its_worth(
    room: int, pieces: list[int], history: list[int], recent: list[int], last: int
) -> None:
    last = min(last, len(recent))
    blocks = [0, *accumulate(pieces)]

    def block_cost(room: int) -> int:
        return max((cost for cost in blocks if cost <= room), default=0)

    fit = budget.split_capacity(
        room,
        history=line(history),
        recent=line(recent),
        last_exchange=last,
        block_cost=block_cost,
    )
    kept_history = history[len(history) - fit.history :]
    kept_recent = recent[len(recent) - fit.recent :]
    shown = block_cost(fit.block_max)
    assert sum(kept_history) + shown + sum(kept_recent) <= room
    spare = room - sum(kept_history) - shown - sum(kept_recent)
    if fit.recent < len(recent):  # recent goes first, oldest first
        assert recent[len(recent) - fit.recent - 1] > spare
    if shown < blocks[-1]:  # recalled goes when none but the last exchange could make room
        exchange = sum(kept_recent[len(kept_recent) - min(last, fit.recent) :])
        assert min(cost for cost in blocks if cost > shown) + exchange + sum(kept_history) > room
    # the last exchange is kept before anything recalled
    assert fit.recent >= line(recent).kept_last(room - sum(kept_history), last)
    if fit.history < len(history):  # history goes last
        assert history[len(history) - fit.history - 1] + sum(kept_history) > room


def line(costs: list[int]) -> budget.ItemSequence:
    """A line that may be cut anywhere."""
    return budget.ItemSequence(costs, range(len(costs)))


@given(costs=COSTS, room=st.integers(0, 4000), starts=st.sets(st.integers(0, 11)))
def test_a_line_is_cut_only_where_it_may_begin(
    costs: list[int], room: int, starts: set[int]
) -> None:
    kept = budget.ItemSequence(costs, sorted(starts)).kept(room)
    assert kept == 0 or len(costs) - kept in starts
    assert sum(costs[len(costs) - kept :]) <= room


def test_an_input_that_fits_exactly_fits() -> None:
    budget.check_limit(100, 100)
    assert budget.split_capacity(
        6,
        history=line([1, 2]),
        recent=line([3]),
        last_exchange=0,
        block_cost=lambda room: 0,
    ) == budget.BudgetResult(2, 3, 1)


def test_an_input_over_the_limit_is_told_by_how_much() -> None:
    with pytest.raises(
        MemsvcError, match=r"130 tokens, which is 30 more than max_input_tok \(100\)"
    ) as refused:
        budget.check_limit(130, 100)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert not refused.value.retryable


@given(text=st.text())
def test_an_item_costs_the_tokens_of_its_text_and_four(tokens: O200kCounter, text: str) -> None:
    assert budget.Costs(tokens, TurnOptions(media_tok=1000)).item(user(text)) == counted(
        [user(text)]
    )


def test_a_call_costs_its_name_and_arguments_and_an_output_its_text(tokens: O200kCounter) -> None:
    costs = budget.Costs(tokens, TurnOptions(media_tok=1000))
    call = {
        "type": "function_call",
        "name": "get_weather",
        "call_id": "c1",
        "arguments": '{"city":"Vienna"}',
    }
    outputs = [
        {"type": "function_call_output", "call_id": "c1", "output": "sunny, 21 degrees"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "sunny"}],
        },
    ]
    for item in (call, *outputs):
        assert costs.item(item) == counted([item])
    assert costs.item(call) == 4 + costs.text("get_weather") + costs.text('{"city":"Vienna"}')


def test_a_picture_costs_a_flat_sum_and_not_the_letters_of_its_data(tokens: O200kCounter) -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 3000
    picture = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": url}],
    }
    assert budget.Costs(tokens, TurnOptions(media_tok=700)).item(picture) == 704


@pytest.mark.parametrize(
    "text", ["data: short", "data:" + "word " * 5000, "data:image/png;base64," + "ab " * 4000]
)
def test_a_text_that_begins_like_a_picture_is_counted_as_text(
    tokens: O200kCounter, text: str
) -> None:
    assert budget.Costs(tokens, TurnOptions(media_tok=1000)).item(user(text)) == counted(
        [user(text)]
    )
