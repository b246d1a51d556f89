"""The sentences of the beliefs benchmark can be judged, and a part of a block is told apart."""

from typing import Any

import orjson
import pytest

from benchmarks.beliefs import FOLDER, HALVES, ROWS, Outcomes, holds, pieces

ITEMS_MIN = 60
QUESTIONS_MIN = {"B9": 70, "B10": 100, "B11": 70}


def unjudged(row: str, item: dict[str, Any]) -> list[str]:
    """The words of an item that its own text does not hold."""
    match row:
        case "B1" | "B7" | "B8":
            pairs = [(item["text"], word) for word in item["holds"]]
        case "B4":
            pairs = [(item["text"], word) for word in [*item["pasted"], *item["own"]]]
        case "B5":
            pairs = [(item["text"], word) for word in [item["about"], *item["negation"]]]
        case "B6":
            pairs = [(item["first"], item["old"])]
            pairs += [(item["change"], word) for word in item["told"]]
        case "B13":
            pairs = [(item["first"], item["holds"])]
        case "B14" | "B15":
            pairs = [(item["say"], item["answer"])]
        case "forget":
            pairs = [(item["say"], item["value"]), (item["beside"], item["beside_answer"])]
        case "B9":
            said = "\n".join(item["messages"])
            pairs = [(said, word) for asked in item["questions"] for word in asked["holds"]]
        case "B10":
            pairs = [
                (" ".join(item["turns"][asked["turn"]].values()), word)
                for asked in item["questions"]
                for word in asked["holds"]
            ]
        case _:
            pairs = []
    return [word for text, word in pairs if not holds(text, [word])]


@pytest.mark.parametrize("half", HALVES)
def test_every_row_has_enough_items_that_can_be_judged(half: str) -> None:
    data = orjson.loads((FOLDER / f"{half}.json").read_bytes())
    people = orjson.loads((FOLDER / f"people_{half}.json").read_bytes())
    assert {*data, *people} >= ROWS.keys()
    for row, items in people.items():
        wrong = [word for item in items for word in unjudged(row, item)]
        assert not wrong, (row, len(wrong))
    for row, items in data.items():
        if row in QUESTIONS_MIN:
            assert sum(len(item["questions"]) for item in items) >= QUESTIONS_MIN[row]
        else:
            assert len(items) >= ITEMS_MIN
        wrong = [word for item in items for word in unjudged(row, item)]
        assert not wrong, (row, len(wrong))


def test_a_part_of_a_block_is_told_with_all_that_it_says() -> None:
    body = {
        "kind": "historical_memory",
        "facts": [{"id": "a", "statement": "Never page the night shift."}],
        "turns": [
            {"turn": "t1", "items": [{"role": "user", "text": "Page Ada."}, {"text": "Ok."}]}
        ],
    }
    assert pieces([body["facts"], body["turns"]]) == [
        "a\nNever page the night shift.",
        "user\nPage Ada.",
        "Ok.",
    ]


def test_the_interval_of_a_share_is_within_its_bounds() -> None:
    none, half = Outcomes(0, 60), Outcomes(30, 60)
    assert (none.interval, half.interval) == ("0.0 to 6.0", "37.7 to 62.3")
