"""People who introduce themselves in small letters are learned by their names and homes."""

import pytest

from tests.styles.turns.test_rules import stated

INTRODUCTIONS = [
    (
        "hi! im nora, 41, i live in freiburg with my two kids, Lia (9) and Max (13), and a cat",
        [("user_name", "nora"), ("user_home", "freiburg")],
    ),
    ("hello, i'm priya, 29, from leeds", [("user_name", "priya")]),
    ("im jonas, i work nights at the hospital", [("user_name", "jonas")]),
    (
        "hallo! ich bin tomke, 33, ich wohne in kiel mit meinen kindern, Lia (9) und Max (13)",
        [("user_name", "tomke"), ("user_home", "kiel")],
    ),
    ("ich heiße nora und wohne in bonn", [("user_name", "nora"), ("user_home", "bonn")]),
    ("hola! me llamo nora, vivo con mis dos hijos", [("user_name", "nora")]),
    ("salut, je m'appelle nora, j'ai deux enfants", [("user_name", "nora")]),
    ("I'm Jan, I live in Leeds", [("user_name", "Jan"), ("user_home", "Leeds")]),
]
NO_NAMES = [
    "im tired",
    "i'm vegan",
    "im nora's mum",
    "im vegan, 41",
    "im pregnant, 31, first child",
    "im late, i work nights",
    "im tired, 41 emails today",
    "hi, im female, 30, and i live in york",
    "he said im nora, 41",
    "ich bin vegetarierin, 33, aus kiel",
    "ich bin verheiratet, 33, zwei kinder",
    "ich heiße nicht so",
    "me llamo así",
]


@pytest.mark.parametrize(("said", "told"), INTRODUCTIONS)
def test_introduction_in_small_letters_tells_the_name(said: str, told: list[object]) -> None:
    assert [one for one in stated(said) if one in told] == told


@pytest.mark.parametrize("said", NO_NAMES)
def test_word_that_is_no_name_is_none(said: str) -> None:
    assert not [value for fact_id, value in stated(said) if fact_id == "user_name"]


def test_letter_that_only_begins_with_a_greeting_is_not_the_speaker_s_own() -> None:
    assert stated("Hi! I hope you're well. The rent is late, I live in flat 3. Thanks!") == []
