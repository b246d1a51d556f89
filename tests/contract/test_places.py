"""Twenty questions of where something is, by somebody who had not read the code.

`places` are the right answers, `guess` is the first guess of another who had seen only the names
of the files; `rejected` are the questions that have no one place, with the reason."""

from pathlib import Path

import orjson

ROOT = Path(__file__).parents[2]
FOUND_MIN = 18
PLACES = orjson.loads(Path(__file__).with_name("places.json").read_bytes())


def test_each_place_is_there() -> None:
    places = [place for asked in PLACES["asked"] for place in asked["places"]]
    assert [place for place in places if not (ROOT / place).is_file()] == []


def test_most_first_guesses_are_right() -> None:
    asked = PLACES["asked"]
    assert len(asked) == 20
    assert sum(one["guess"] in one["places"] for one in asked) >= FOUND_MIN
