"""Recall is measured by what a prompt tells: whole messages, or quotes that can answer."""

import pytest

from benchmarks.locomo import Question
from benchmarks.recall import told_of
from benchmarks.scores import IN_FULL, IN_TIGHT, Result, Scores, Shown, by_fold, is_shown

HEAD = "We talked for a while about the old harbour and who had owned it before the war. "
TEXT = f"{HEAD}{HEAD}Its lighthouse was painted red in 1931. {HEAD}"


@pytest.mark.parametrize(
    ("told", "answer", "expected"),
    [
        (TEXT, "red, in 1931", True),
        (f"{HEAD}{HEAD}Its lighthouse was painted red in 1931.\u2026", "red, in 1931", True),
        (f"{HEAD}{HEAD}\u2026", "red, in 1931", False),
        (f"{HEAD}{HEAD}\u2026", "", True),
        (f"{HEAD}{HEAD}\u2026", "by Oyelaran", True),
        ("\u2026Its lighthouse was painted red in 1931.\u2026", "red, in 1931", False),
        (HEAD * 2 + "Nobody remembers who.", "", False),
    ],
)
def test_a_message_counts_as_shown_whole_or_by_a_quote_that_can_answer(
    told: str, answer: str, expected: bool
) -> None:
    assert is_shown(TEXT, told, answer) is expected


def test_what_a_block_tells_is_found_by_session_and_turn() -> None:
    said = {
        "turn-0": {"user": "a", "assistant": ["b", "c"]},
        "turn-1": {"items": [{"user": "d"}, {"assistant": "e", "superseded_by": "f"}]},
    }
    assert told_of({"turns": [{"session": "s", "said": said}]}) == {
        ("s", "turn-0"): ["a", "b", "c"],
        ("s", "turn-1"): ["d", "e"],
    }


def test_a_message_that_a_quote_does_not_show_takes_its_place_all_the_same() -> None:
    scores = Scores()
    question = Question("which?", frozenset({"D1:1", "D2:1"}), 1, "")
    full = Shown(["D1:1", "D1:2", "D2:1"], {"D1:2", "D2:1"})
    scores.results.append(Result("one", question, full, Shown(["D1:1"], {"D1:1"})))
    assert scores.mean("recall@5", 1) == scores.mean(IN_FULL) == scores.mean(IN_TIGHT) == 0.5
    assert scores.mean("MRR") == 1 / 3
    assert ["sessions@10", 1.0, None] in by_fold(scores).rows
