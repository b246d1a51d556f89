"""An abstract is a hundred to two hundred words, whatever lies in the directory."""

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.styles.turns.maintenance import directories
from memsvc.styles.turns.maintenance.directories import DirectoryStats

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ROOT = "/memory/s1"
PLACES = [
    "",
    "/events",
    "/events/raw",
    "/events/raw/2026/01/05",
    "/events/archive",
    "/memory_tiers/L0/2026/01",
    "/memory_tiers/L1",
    "/memory_tiers",
    "/meta",
    "/indexes",
    "/runtime/context",
    "/insights",
    "/of_the_user",
]


def shelf(path: str, *samples: str, size_bytes: int = 10) -> DirectoryStats:
    return DirectoryStats(path, len(samples), 0, size_bytes, NOW, NOW, samples)


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_an_abstract_of_its_own_of_the_right_length(place: str) -> None:
    text = directories.abstract(shelf(ROOT + place, ROOT + place + "/f"), ROOT, {})
    assert directories.ABSTRACT_WORDS_MIN <= len(text.split()) <= directories.ABSTRACT_WORDS_MAX
    assert "1 file, 10 bytes in all, written at 2026-01-05T12:00:00Z: f." in text
    assert len({*text.split(". ")}) == len(text.split(". "))


@given(st.dictionaries(st.sampled_from(["", "events", "meta"]), st.text()), st.sampled_from(PLACES))
def test_notes_never_make_an_abstract_too_long_or_too_short(
    notes: dict[str, str], place: str
) -> None:
    words = directories.abstract(shelf(ROOT + place, "/f", size_bytes=2**60), ROOT, notes).split()
    assert directories.ABSTRACT_WORDS_MIN <= len(words) <= directories.ABSTRACT_WORDS_MAX


def test_abstracts_say_what_is_there_and_not_the_same_of_every_place() -> None:
    told = {
        place: directories.abstract(shelf(ROOT + place, ROOT + place + "/f"), ROOT, {})
        for place in PLACES
    }
    kinds = {
        "",
        "/events",
        "/events/raw/2026/01/05",
        "/events/archive",
        "/memory_tiers/L1",
        "/meta",
        "/insights",
    }
    for place in kinds:
        others = {sentence for other in kinds - {place} for sentence in told[other].split(". ")}
        own = [sentence for sentence in told[place].split(". ") if sentence not in others]
        assert sum(len(sentence.split()) for sentence in own) >= 25, place
    assert "This directory covers 2026/01/05." in told["/events/raw/2026/01/05"]


def test_an_abstract_names_some_files_and_counts_the_others() -> None:
    names = [f"{ROOT}/events/raw/{number}" for number in range(20)]
    told = directories.abstract(shelf(f"{ROOT}/events/raw", *names), ROOT, {})
    assert ": 0, 1, 2, 3, 4, 5, 6, 7 and 12 more." in told


def test_a_note_stands_where_it_belongs_and_above_and_not_below() -> None:
    notes = {"events/raw": "Six items.", "memory_tiers/L0": "Ada."}
    told = {
        place: directories.abstract(shelf(ROOT + place, ROOT + place + "/f"), ROOT, notes)
        for place in PLACES
    }
    assert {place for place in PLACES if "Six items." in told[place]} == {
        "",
        "/events",
        "/events/raw",
    }
    assert {place for place in PLACES if "Ada." in told[place]} == {"", "/memory_tiers"}


def test_directories_count_what_lies_below_them_and_not_what_lies_beside() -> None:
    census = [
        shelf("/memory/s1/a", "/memory/s1/a/x", "/memory/s1/a/y", size_bytes=5),
        shelf("/memory/s1/a/b/c", "/memory/s1/a/b/c/z", size_bytes=7),
        shelf("/memory/s1/ab", "/memory/s1/ab/x", size_bytes=11),
    ]
    whole = directories.total_statistics(census, ROOT)
    assert set(whole) == {ROOT, *(f"{ROOT}/{place}" for place in ("a", "a/b", "a/b/c", "ab"))}
    assert {
        path.removeprefix(ROOT): (one.files, one.directories, one.size_bytes)
        for path, one in whole.items()
    } == {
        "": (4, 4, 23),
        "/a": (3, 2, 12),
        "/a/b": (1, 1, 7),
        "/a/b/c": (1, 0, 7),
        "/ab": (1, 0, 11),
    }


def test_an_overview_says_what_is_there_as_json() -> None:
    text = directories.overview(
        shelf(ROOT, "/memory/s1/f", size_bytes=3), [shelf(f"{ROOT}/a", size_bytes=2)], NOW
    )
    assert orjson.loads(text.removeprefix("Directory overview snapshot: ")) == {
        "generated_at": "2026-01-05T12:00:00Z",
        "path": ROOT,
        "stats": {"files": 1, "directories": 0, "total_bytes": 3},
        "directories": [
            {
                "path": f"{ROOT}/a",
                "files": 0,
                "total_bytes": 2,
                "updated_at": "2026-01-05T12:00:00Z",
            }
        ],
        "sample_paths": ["/memory/s1/f"],
    }
