"""How alike texts are by their words, and what the rules take for a contradiction."""

import pytest

from memsvc.core.word_similarity import (
    has_other_numbers,
    is_contradiction,
    is_subset,
    overlap,
    word_similarity,
)


def test_the_same_words_in_the_same_order_are_alike_whatever_their_case_and_marks() -> None:
    assert word_similarity("Ada likes tea.", "ada LIKES tea!") == 1
    assert word_similarity("Ada likes tea", "Bo prefers coffee") == 0
    assert 0 < word_similarity("tea likes Ada", "Ada likes tea") < 1
    assert word_similarity("", "Ada") == 0


def test_scripts_without_spaces_are_compared_by_their_characters() -> None:
    assert word_similarity("東京に住んでいる", "東京に住んでいる") == 1
    assert 0 < word_similarity("東京に住んでいる", "大阪に住んでいる") < 1


def test_content_words_overlap_whatever_is_between_them() -> None:
    assert overlap("We deploy on Fridays", "deploying on the Friday") == pytest.approx(1)
    assert overlap("of the", "of the") == 0


def test_a_text_without_a_word_of_its_own_adds_nothing() -> None:
    assert is_subset("tea, Ada likes", "Ada likes green tea")
    assert not is_subset("Ada likes black tea", "Ada likes green tea")
    assert is_subset("Ada really likes green tea, indeed", "Ada likes green tea")
    assert not is_subset("Ada really likes cold tea", "Ada likes green tea")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cache is enabled in staging", "The cache is not enabled in staging"),
        ("I don't eat meat", "I eat meat"),
        ("Ada likes green tea", "Ada dislikes green tea"),
        ("Never deploy on Friday", "Always deploy on Friday"),
        ("The cache is enabled in staging", "The cache is disabled in staging"),
        ("The meeting is at 10", "The meeting is at 11"),
    ],
)
def test_negations_opposites_and_amounts_contradict(one: str, other: str) -> None:
    assert is_contradiction(one, other)
    assert is_contradiction(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes green tea", "Ada likes green tea and honey"),
        ("Version 1 supports x", "Version 2 supports x"),
        ("Never deploy on Friday", "Ada likes cats"),
        ("Ada does not eat meat", "The cache is enabled"),
        ("The light is on in the hall", "The report is off the table"),
        ("", "not"),
    ],
)
def test_what_can_both_be_true_does_not(one: str, other: str) -> None:
    assert not is_contradiction(one, other)


def test_other_numbers_say_something_else() -> None:
    assert has_other_numbers("Release 1.2 is out", "Release 1.3 is out")
    assert not has_other_numbers("Release 1.2 is out", "1.2 is out")
