"""What a new statement does to the facts that hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memsvc.core.facts import (
    Evidence,
    Fact,
    FactExpiry,
    FactState,
    FactTier,
    RemovalClaim,
    Statement,
    merge,
    slot_of,
)

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def statement(
    value: str,
    *,
    record: str = "r2",
    key: str = "name",
    slot: str = "",
    tier: FactTier = FactTier.L0,
) -> Statement:
    return Statement(
        record, "user_name", key, slot, value, tier, 0.9, "", Evidence("s", "t", "t-in-0", "")
    )


def holding(
    value: str, *, tier: FactTier = FactTier.L0, until: datetime | None = None
) -> list[Fact]:
    old = statement(value, record="r1", tier=tier)
    return [Fact(7, old, FactState.ACTIVE, NOW - timedelta(days=1), None, until, None)]


def test_a_first_statement_is_kept() -> None:
    merged = merge([], [statement("Ada")], NOW)
    assert ([one.value for one in merged.kept], merged.replaced, merged.repeated) == (
        ["Ada"],
        (),
        0,
    )


@pytest.mark.parametrize("again", ["Ada Lovelace", "ada lovelace", "  ADA   Lovelace "])
def test_the_same_value_again_changes_nothing(again: str) -> None:
    merged = merge(holding("Ada Lovelace"), [statement(again)], NOW)
    assert (merged.kept, merged.replaced, merged.repeated) == ((), (), 1)


def test_another_value_supersedes() -> None:
    active = holding("Ada")
    merged = merge(active, [statement("Grace")], NOW)
    assert [one.value for one in merged.kept] == ["Grace"]
    assert merged.replaced == ((active[0], "r2"),)


def test_the_same_value_for_longer_supersedes() -> None:
    merged = merge(
        holding("Ada", tier=FactTier.L1, until=NOW + timedelta(days=1)), [statement("Ada")], NOW
    )
    assert (len(merged.kept), len(merged.replaced)) == (1, 1)


@pytest.mark.parametrize(
    ("until", "kept"), [(NOW, 1), (NOW - timedelta(1), 1), (NOW + timedelta(seconds=1), 0)]
)
def test_a_fact_past_its_day_is_renewed_by_saying_it_again(until: datetime, kept: int) -> None:
    merged = merge(
        holding("Ada", tier=FactTier.L1, until=until), [statement("Ada", tier=FactTier.L1)], NOW
    )
    assert len(merged.kept) == len(merged.replaced) == kept


def test_the_last_of_several_statements_wins() -> None:
    merged = merge(
        holding("Ada"), [statement("Grace", record="r2"), statement("Mary", record="r3")], NOW
    )
    assert [one.value for one in merged.kept] == ["Mary"]
    assert [by for _, by in merged.replaced] == ["r3"]
    assert (
        merge(holding("Ada"), [statement("Grace"), statement("Ada", record="r3")], NOW).kept == ()
    )


def test_values_of_different_slots_hold_side_by_side() -> None:
    teas = [statement("tea", slot=slot_of("tea")), statement("jazz", slot=slot_of("jazz"))]
    assert merge([], teas, NOW).kept == tuple(teas)
    assert slot_of("Tea ") == slot_of("tea") != slot_of("jazz")


def proposed(value: str, *, said_at: datetime, confidence: float = 0.99) -> Statement:
    """What a model proposes, resting on words of that moment."""
    evidence = Evidence("s", "t", "t-in-0", "", "model")
    return replace(statement(value), evidence=evidence, message_at=said_at, confidence=confidence)


OLDER, NEWER = NOW - timedelta(days=2), NOW - timedelta(hours=1)


def test_a_proposal_overrules_the_users_words_only_when_it_rests_on_newer_ones() -> None:
    merged = merge(holding("Ada"), [proposed("Eve", said_at=OLDER)], NOW)
    assert (merged.kept, merged.replaced, merged.ignored) == ((), (), 1)
    assert [
        one.value for one in merge(holding("Ada"), [proposed("Eve", said_at=NEWER)], NOW).kept
    ] == ["Eve"]


def test_of_two_proposals_the_surer_one_holds_unless_the_other_rests_on_newer_words() -> None:
    [fact] = holding("Ada")
    guessed = replace(fact, statement=proposed("Ada", said_at=OLDER, confidence=0.8))
    assert merge([guessed], [proposed("Eve", said_at=OLDER, confidence=0.7)], NOW).ignored == 1
    for said_at, confidence in ((OLDER, 0.9), (NEWER, 0.7)):
        kept = merge([guessed], [proposed("Eve", said_at=said_at, confidence=confidence)], NOW).kept
        assert [one.value for one in kept] == ["Eve"]


def test_what_was_deleted_comes_back_by_the_users_words_or_newer_ones_only() -> None:
    [fact] = holding("Ada")
    deleted = replace(fact, state=FactState.DELETED, valid_to=NOW - timedelta(hours=3))
    assert merge([deleted], [proposed("Ada", said_at=OLDER)], NOW).ignored == 1
    assert len(merge([deleted], [proposed("Ada", said_at=NEWER)], NOW).kept) == 1
    assert len(merge([deleted], [statement("Ada")], NOW).kept) == 1


def test_a_retraction_deletes_what_holds_and_nothing_else() -> None:
    taken_back = RemovalClaim(
        (FactExpiry("user_name", "name", "ADA"),), Evidence("s", "t", "t-in-0", "")
    )
    active = holding("Ada")
    assert merge(active, [taken_back], NOW).deleted == tuple(active)
    assert not merge(holding("Grace"), [taken_back], NOW).changes
    assert not merge(holding("Ada", until=NOW), [taken_back], NOW).changes
    again = merge(active, [taken_back, statement("Ada")], NOW)
    assert (again.deleted, again.repeated) == ((), 1)
    assert not merge([], [statement("Ada"), taken_back], NOW).kept


def test_the_newest_of_two_books_decides_whether_a_value_is_news() -> None:
    [older] = holding("Ada")
    newer = replace(
        older,
        index_id=1,
        statement=statement("Grace", record="r3"),
        valid_from=NOW - timedelta(hours=1),
    )
    merged = merge([older, newer], [statement("Ada", record="r4")], NOW)
    assert [one.value for one in merged.kept] == ["Ada"]
    assert {by for _, by in merged.replaced} == {"r4"}
    assert merge([older, newer], [statement("Grace", record="r4")], NOW).repeated == 1
