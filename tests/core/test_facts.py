"""What a new statement does to the facts that hold."""

from datetime import UTC, datetime, timedelta

import pytest

from memsvc.core.facts import Evidence, Fact, Identity, State, Statement, Tier, expires_at, merge, slot_of

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def statement(value: str, *, record: str = "r2", key: str = "name", slot: str = "", tier: Tier = Tier.L0) -> Statement:
    return Statement(record, "user_name", key, slot, value, tier, 0.9, "", Evidence("s", "t", "t-in-0", ""))


def holding(value: str, *, tier: Tier = Tier.L0, until: datetime | None = None) -> dict[Identity, Fact]:
    old = statement(value, record="r1", tier=tier)
    return {old.identity: Fact(7, old, State.ACTIVE, NOW - timedelta(days=1), None, until, None)}


def test_a_first_statement_is_kept() -> None:
    merged = merge({}, [statement("Ada")], NOW)
    assert ([one.value for one in merged.kept], merged.replaced, merged.repeated) == (["Ada"], (), 0)


@pytest.mark.parametrize("again", ["Ada Lovelace", "ada lovelace", "  ADA   Lovelace "])
def test_the_same_value_again_changes_nothing(again: str) -> None:
    merged = merge(holding("Ada Lovelace"), [statement(again)], NOW)
    assert (merged.kept, merged.replaced, merged.repeated) == ((), (), 1)


def test_another_value_supersedes() -> None:
    active = holding("Ada")
    merged = merge(active, [statement("Grace")], NOW)
    assert [one.value for one in merged.kept] == ["Grace"]
    assert merged.replaced == ((active["user_name", "name", ""], "r2"),)


def test_the_same_value_for_longer_supersedes() -> None:
    merged = merge(holding("Ada", tier=Tier.L1, until=NOW + timedelta(days=1)), [statement("Ada")], NOW)
    assert (len(merged.kept), len(merged.replaced)) == (1, 1)


@pytest.mark.parametrize(("until", "kept"), [(NOW, 1), (NOW - timedelta(1), 1), (NOW + timedelta(seconds=1), 0)])
def test_a_fact_past_its_day_is_renewed_by_saying_it_again(until: datetime, kept: int) -> None:
    merged = merge(holding("Ada", tier=Tier.L1, until=until), [statement("Ada", tier=Tier.L1)], NOW)
    assert len(merged.kept) == len(merged.replaced) == kept


def test_the_last_of_several_statements_wins() -> None:
    merged = merge(holding("Ada"), [statement("Grace", record="r2"), statement("Mary", record="r3")], NOW)
    assert [one.value for one in merged.kept] == ["Mary"]
    assert [by for _, by in merged.replaced] == ["r3"]
    assert merge(holding("Ada"), [statement("Grace"), statement("Ada", record="r3")], NOW).kept == ()


def test_values_of_different_slots_hold_side_by_side() -> None:
    teas = [statement("tea", slot=slot_of("tea")), statement("jazz", slot=slot_of("jazz"))]
    assert merge({}, teas, NOW).kept == tuple(teas)
    assert slot_of("Tea ") == slot_of("tea") != slot_of("jazz")


@pytest.mark.parametrize(
    ("tier", "expected"),
    [(Tier.L0, None), (Tier.L1, datetime(2026, 1, 6, tzinfo=UTC)), (Tier.L2, datetime(2026, 1, 12, tzinfo=UTC))],
)
def test_facts_end_at_a_midnight_or_never(tier: Tier, expected: datetime | None) -> None:
    assert expires_at(tier, NOW, l1_days=1, l2_days=7) == expected
