"""Which items of an input are new, told from their order alone."""

import pytest

from memsvc.core.items import Item, canonical, hash_of_content
from memsvc.styles.turns import history
from memsvc.styles.turns.history import Conversation
from tests.styles.turns.talk import assistant, developer, turn_items, user

ONE, TWO, THREE = user("one"), user("two"), user("three")
FIRST, SECOND = assistant("first"), assistant("second")
YES, OK = user("yes"), assistant("ok")


def digests(*items: Item) -> list[int]:
    return [hash_of_content(canonical(item)) for item in items]


def delta(
    given: list[Item],
    stored: list[Item],
    *,
    window: int = 30,
    block: bool = False,
    older: bool = False,
) -> list[Item]:
    fresh = history.delta(
        turn_items(given), digests(*stored), window=window, block_found=block, has_more=older
    )
    return [item.item for item in fresh]


def unseen(
    recent: list[Item], before: list[Item], current: list[Item], behind: list[Item] | None = None
) -> list[int]:
    told = Conversation(turn_items(before), turn_items(current), turn_items(behind or []))
    return history.new_positions(recent, digests(*recent), told)[0]


@pytest.mark.parametrize(
    ("start", "count", "before", "now"),
    [
        (0, 0, [], [ONE, TWO, THREE]),
        (1, 0, [ONE], [TWO, THREE]),
        (1, 1, [ONE], [TWO]),
        (2, 5, [ONE, TWO], [THREE]),
        (-4, 1, [], [ONE]),
        (1, -2, [ONE], [TWO, THREE]),
        (3, 0, [ONE, TWO, THREE], []),
        (99, 99, [ONE, TWO, THREE], []),
        (1, 2**53, [ONE], [TWO, THREE]),
    ],
)
def test_a_conversation_is_cut_where_the_caller_says_with_bounds_kept(
    start: int, count: int, before: list[Item], now: list[Item]
) -> None:
    conversation = history.split_conversation(turn_items([ONE, TWO, THREE]), start, count)
    assert [item.item for item in conversation.history] == before
    assert [item.item for item in conversation.current] == now


def test_an_input_without_echo_is_new_as_a_whole() -> None:
    assert delta([ONE, TWO], []) == [ONE, TWO]
    assert delta([TWO, THREE], [ONE, FIRST]) == [TWO, THREE]
    assert delta([], [ONE]) == []


def test_the_end_of_the_store_at_the_head_of_the_input_is_an_echo() -> None:
    assert delta([ONE, FIRST, TWO], [ONE, FIRST]) == [TWO]
    assert delta([FIRST, TWO], [ONE, FIRST]) == [TWO]


def test_the_middle_of_the_store_at_the_head_is_an_echo_when_a_memory_block_came_with_it() -> None:
    stored = [ONE, FIRST, TWO, SECOND]
    assert delta([ONE, FIRST, THREE], stored, block=True) == [THREE]


def test_what_the_assistant_said_at_the_head_of_an_input_is_an_echo_though_other_turns_were_stored_meanwhile() -> (
    None
):
    assert delta([ONE, FIRST, THREE], [ONE, FIRST, TWO, SECOND]) == [THREE]


def test_a_user_who_says_the_same_again_is_heard_again() -> None:
    # a repeat is two items, not one
    assert delta([YES], [YES, OK]) == [YES]
    assert delta([YES, YES], [YES, OK]) == [YES, YES]
    assert delta([YES, OK, YES], [YES, OK]) == [YES]
    assert delta([YES, OK, YES, OK, YES], [YES, OK, YES, OK]) == [YES]
    assert delta([YES, OK, YES, OK, YES], [YES, OK, YES, OK], block=True) == [YES]
    assert delta([YES], [YES]) == [YES]


def test_the_whole_recent_context_at_the_head_is_an_echo_though_only_users_spoke() -> None:
    stored = [ONE, TWO, THREE]
    assert delta([*stored, YES], stored) == [YES]
    assert delta([*stored[1:], YES], stored, window=2) == [*stored[1:], YES]
    assert delta([*stored, YES], [YES, *stored], window=3) == [YES]
    assert delta([TWO, THREE, YES], stored) == [TWO, THREE, YES]


def test_the_words_of_users_alone_are_no_echo_unless_the_store_ends_with_them() -> None:
    assert delta([ONE, THREE], [ONE, FIRST, TWO, SECOND]) == [ONE, THREE]
    # a memory block may come without any recent context: then an old word said again is new
    assert delta([ONE, THREE], [ONE, FIRST, TWO, SECOND], block=True) == [ONE, THREE]
    assert delta([TWO, THREE], [ONE, FIRST, TWO], block=True) == [THREE]


def test_instructions_that_a_client_puts_before_the_echo_do_not_hide_it() -> None:
    rules = developer("Be brief.")
    new_rules = developer("Be verbose.")
    assert delta([rules, rules, ONE, FIRST, TWO], [rules, ONE, FIRST]) == [TWO]
    assert delta([rules, ONE, FIRST, TWO], [rules, ONE, FIRST]) == [TWO]
    assert delta([new_rules, ONE, FIRST, TWO], [ONE, FIRST]) == [new_rules, TWO]


def test_a_conversation_longer_than_what_is_looked_at_of_the_store_is_an_echo_up_to_its_end() -> (
    None
):
    whole = [item for number in range(60) for item in (user(f"u{number}"), assistant(f"a{number}"))]
    assert delta([*whole, ONE], whole[-68:], older=True) == [ONE]
    assert delta([YES, OK] * 60 + [YES], [YES, OK] * 34, older=True) == [YES]


def test_turns_of_a_conversation_that_were_never_stored_are_new() -> None:
    assert delta([YES, OK, YES, OK, ONE], [YES, OK]) == [YES, OK, ONE]


def test_what_follows_an_echo_is_new_though_it_repeats_what_was_said_before() -> None:
    assert delta([YES, OK, YES, YES], [YES, OK, YES, OK]) == [YES, YES]
    assert delta([YES, OK, YES, YES], [YES, OK, YES, OK], block=True) == [YES, YES]


def test_unseen_are_the_stored_items_that_the_caller_does_not_hold() -> None:
    recent = [ONE, FIRST, TWO, SECOND]
    assert unseen(recent, [], [THREE]) == [0, 1, 2, 3]
    assert unseen(recent, [ONE, FIRST], [THREE]) == [2, 3]
    assert unseen(recent, [ONE, FIRST, TWO, SECOND], [THREE]) == []


def test_one_copy_in_the_callers_history_hides_one_stored_copy_the_latest() -> None:
    assert unseen([YES, OK, YES, OK], [YES, OK], [THREE]) == [0, 1]


def test_an_end_of_the_store_that_is_the_input_itself_is_hidden() -> None:
    assert unseen([ONE, FIRST, TWO], [], [TWO]) == [0, 1]
    assert unseen([YES, OK], [], [YES]) == [0, 1]


def test_what_stands_behind_the_current_input_is_held_by_the_caller_too() -> None:
    # an answer in the middle of a conversation is asked for again
    assert unseen([ONE, FIRST, TWO, SECOND], [ONE, FIRST], [TWO], [SECOND]) == []
    assert unseen([ONE, FIRST, TWO, SECOND], [], [ONE], [FIRST, TWO, SECOND]) == []
    assert unseen([TWO, SECOND], [], [ONE], [FIRST, TWO, SECOND]) == []


def test_an_answer_in_whose_place_the_caller_has_another_is_not_shown() -> None:
    other = assistant("first, but better")
    assert unseen([ONE, FIRST, TWO, SECOND], [ONE, other, TWO, SECOND], [THREE]) == []
    assert unseen([ONE, FIRST], [ONE, other], [THREE]) == []
    assert unseen([YES, OK, YES, OK], [YES, other, YES, OK], [THREE]) == []
    assert unseen([YES, OK, YES, OK], [YES, OK, YES, other], [THREE]) == []


def test_what_somebody_said_in_the_meantime_is_shown() -> None:
    assert unseen([ONE, FIRST, TWO, SECOND], [ONE, FIRST, THREE, OK], [YES]) == [2, 3]
    assert unseen([ONE, FIRST], [THREE, OK], [YES]) == [0, 1]
    assert unseen([], [ONE], [YES]) == []


def test_a_long_history_is_brought_into_line_in_a_moment() -> None:
    held = [user(f"u{number}") for number in range(2000)]
    stored = [assistant(f"a{number}") for number in range(1000)]
    assert unseen(stored, held, [THREE]) == list(range(1000))
    assert unseen(held[-1000:], held, [THREE]) == []
