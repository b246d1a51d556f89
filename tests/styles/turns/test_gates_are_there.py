"""What a memory of turns is judged by, and the test of each: nothing on the list may lose its test
unnoticed."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = {
    "fact_recall_recall": "test_rates.test_fact_recall_recall_and_precision_are_one",
    "fact_recall_precision": "test_rates.test_fact_recall_recall_and_precision_are_one",
    "expired_fact_suppression_rate": (
        "test_rates.test_expired_fact_suppression_rate_and_durable_fact_survival_rate_are_one"
    ),
    "durable_fact_survival_rate": (
        "test_rates.test_expired_fact_suppression_rate_and_durable_fact_survival_rate_are_one"
    ),
    "idempotency_score": "test_rates.test_idempotency_score_is_one",
    "session_isolation_leak_rate": "test_rates.test_session_isolation_leak_rate_is_zero",
    "compaction_guard_score": "test_rates.test_compaction_guard_score_is_one",
    "exact_dedup_score": (
        "test_rates.test_exact_dedup_score_and_duplicate_growth_ratio_hold_when_all_is_said_again"
    ),
    "duplicate_growth_ratio": (
        "test_rates.test_exact_dedup_score_and_duplicate_growth_ratio_hold_when_all_is_said_again"
    ),
    "prompt_duplicate_rate": (
        "test_rates.test_prompt_duplicate_rate_and_persisted_history_echo_rate_are_zero_and_history_equivalence_score_one"
    ),
    "persisted_history_echo_rate": (
        "test_rates.test_prompt_duplicate_rate_and_persisted_history_echo_rate_are_zero_and_history_equivalence_score_one"
    ),
    "history_equivalence_score": (
        "test_rates.test_prompt_duplicate_rate_and_persisted_history_echo_rate_are_zero_and_history_equivalence_score_one"
    ),
    "a turn is stored once": "test_after_turn.test_the_same_turn_again_gets_the_same_answer_and_changes_nothing",
    "a stated name comes back, memory first": "test_facts.test_a_fact_comes_back_with_where_it_was_learnt",
    "no recalled value closes its block": "test_facts.test_recalled_words_that_try_to_leave_their_block_stay_in_it",
    "long items are cut around what was asked": "test_after_turn.test_long_items_are_shown_around_what_was_asked",
    "too much context becomes a summary": (
        "test_compaction.test_six_turns_over_a_small_limit_leave_a_summary_and_the_latest_items"
    ),
    "maintenance archives": "test_archive.test_events_of_a_day_gone_by_are_packed_byte_for_byte",
    "maintenance sweeps": "test_facts.test_after_two_days_what_was_for_the_day_is_gone_and_the_name_is_not",
    "only what is new in a turn is stored": (
        "test_after_turn.test_recalled_context_and_memory_that_come_back_are_not_stored_again"
    ),
    "only changed facts are written": "test_facts.test_the_same_value_again_is_not_written_again",
    "facts are ranked by the question": "test_facts.test_facts_that_do_not_bear_on_the_question_are_not_shown",
    "history is not shown twice": "test_before_turn.test_nothing_is_shown_twice",
    "directories are listed with abstracts": (
        "test_listing.test_each_directory_has_its_path_abstract_time_and_whether_there_is_an_overview"
    ),
    "names that lead elsewhere are names": "test_after_turn.test_hostile_names_are_sessions_of_their_own",
    "faults of the input are final": "test_before_turn.test_what_cannot_be_right_is_refused_for_good",
    "every way to give an input": "test_before_turn.test_every_way_to_give_an_input_is_taken",
    "defaults of blank arguments": "test_before_turn.test_blank_names_are_the_defaults_and_null_is_absent",
    "the form of a turn id": "test_before_turn.test_a_turn_id_is_made_when_none_is_given_and_kept_when_one_is",
    "spoofed memory is not learnt": "test_facts.test_half_a_memory_block_teaches_nothing",
    "items come back whole": "test_round_trip.test_items_are_stored_and_shown_as_they_were_given_in_their_order",
    "six equal extractions are one write": (
        "models/test_proposed_facts.test_six_equal_answers_among_distractors_are_one_write"
    ),
}


@pytest.mark.parametrize("promise", TESTS)
def test_what_memory_is_judged_by_has_a_test(promise: str) -> None:
    file, _, name = TESTS[promise].partition(".")
    tree = ast.parse((HERE / f"{file}.py").read_text("utf-8"))
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name == name
    ]
    assert len(tests) == 1
    assert any(
        isinstance(node, ast.Assert) for node in ast.walk(tests[0])
    ) or "refuses" in ast.dump(tests[0])
