"""Where the files of a session stand, at the turns of years above all."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from memsvc.core.facts import FactTier
from memsvc.styles.turns import file_layout


@pytest.mark.parametrize(
    ("day", "directory"),
    [
        ("2026-01-05", "2026/02/facts-2026-W02"),
        ("2025-12-29", "2026/01/facts-2026-W01"),
        ("2026-12-31", "2026/53/facts-2026-W53"),
        ("2027-01-03", "2026/53/facts-2026-W53"),
        ("2027-01-04", "2027/01/facts-2027-W01"),
        ("2024-12-30", "2025/01/facts-2025-W01"),
        ("2021-01-01", "2020/53/facts-2020-W53"),
    ],
)
def test_facts_of_a_week_stand_under_its_iso_year(day: str, directory: str) -> None:
    now = datetime.fromisoformat(day).replace(tzinfo=UTC)
    assert (
        file_layout.tier_file("s1", FactTier.L2, now)
        == f"/memory/s1/memory_tiers/L2/{directory}.jsonl"
    )


def test_lasting_facts_stand_by_month_and_those_of_a_day_by_day() -> None:
    now = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert (
        file_layout.tier_file("s1", FactTier.L0, now)
        == "/memory/s1/memory_tiers/L0/2026/12/facts-202612.jsonl"
    )
    assert (
        file_layout.tier_file("s1", FactTier.L1, now)
        == "/memory/s1/memory_tiers/L1/2026/12/facts-20261231.jsonl"
    )
    assert (
        file_layout.raw_events("s1", now) == "/memory/s1/events/raw/2026/12/31/log-20261231.jsonl"
    )
    assert (
        file_layout.raw_events("s1", now + timedelta(seconds=1))
        == "/memory/s1/events/raw/2027/01/01/log-20270101.jsonl"
    )


@pytest.mark.parametrize(
    ("session", "segment"),
    [
        ("../victim", "..%2Fvictim"),
        ("..", "%2E%2E"),
        ("a/b", "a%2Fb"),
        ("メモ", "%E3%83%A1%E3%83%A2"),
        ("s_1", "s_1"),
    ],
)
def test_a_session_has_one_directory_of_its_own_whatever_it_is_called(
    session: str, segment: str
) -> None:
    # a session id must not climb into the directory of another session
    assert file_layout.session_root(session) == f"/memory/{segment}"


@pytest.mark.parametrize("turn", ["t1", "a-in-0", "turn-1-out-2", "-", "a b"])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_the_turn_of_an_event_is_known_from_its_id(turn: str, direction: str) -> None:
    assert file_layout.turn_of(file_layout.event_id(turn, direction, 12)) == turn


def test_times_are_told_in_utc() -> None:
    assert (
        file_layout.timestamp(datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))))
        == "2025-12-31T23:30:00Z"
    )
