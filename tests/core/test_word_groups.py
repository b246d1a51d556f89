"""Groups of everyday words: phrases that share words, beginnings and endings of words."""

import pytest

from memsvc.core.rules.word_groups import word_hits


@pytest.mark.parametrize(
    ("language", "sentence", "group", "places"),
    [
        ("en", "hay fever, no high blood pressure, hay fever", "condition", [0, 3, 6]),
        ("en", "it swelled, swells and is swelling", "ill", [1, 2, 5]),
        ("fr", "interdites, proscrite", "ill", [0, 1]),
        ("de", "pfirsiche und haselnüsse", "food", [0, 2]),
        ("zh", "英语或者西班牙文", "language", [0, 4]),
    ],
)
def test_words_of_a_group_are_found_where_they_stand(
    language: str, sentence: str, group: str, places: list[int]
) -> None:
    assert word_hits(language, sentence)[group] == places


@pytest.mark.parametrize("sentence", ["hay", "fever hay", "hard of", "high blood"])
def test_a_part_of_a_phrase_is_none(sentence: str) -> None:
    assert "condition" not in word_hits("en", sentence)
