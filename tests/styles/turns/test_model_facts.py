"""What a model proposes becomes a claim only where it cites what it was shown, and says what may be
kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.facts import (
    Evidence,
    Fact,
    FactState,
    FactTier,
    Origin,
    RemovalClaim,
    Statement,
    merge,
)
from memsvc.styles.turns.models.model_facts import (
    KEYS,
    PROPOSALS_MAX,
    FactProposal,
    InputMessage,
    ModelInput,
    claims_of_proposals,
    most_related,
    own_sentence,
)

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
WORDS = "I moved to Kobe with Rex, green tea without sugar, my viola and x; not Rome."
THINGS = ("Kobe", "Rex", "tea", "sugar", "viola")
SAID = [
    InputMessage(4, "t2-in-0", "user", "", WORDS, NOW, NOW),
    InputMessage(5, "t2-out-0", "assistant", "", "How nice.", NOW, NOW),
]


def fact(
    key: str,
    value: str,
    *,
    entry: int = 0,
    origin: Origin = "model",
    at: datetime = NOW,
    slot: str = "",
) -> Fact:
    evidence = Evidence("s1", "t1", "t1-in-0", "", origin)
    statement = Statement(f"r{entry}", key, key, slot, value, FactTier.L0, 0.8, "", evidence)
    return Fact(entry, statement, FactState.ACTIVE, at, None, None, None, 7)


def shown(*facts: Fact) -> ModelInput:
    return ModelInput("s1", "", SAID, [], facts)


def proposal(change: str, **fields: Any) -> FactProposal:
    return FactProposal.model_validate(
        {"change": change, "tier": "L0", "evidence": ["m1"]} | fields
    )


def claims(
    *proposals: FactProposal, facts: tuple[Fact, ...] = (), deleted: tuple[Fact, ...] = ()
) -> Any:
    return claims_of_proposals(proposals, shown(*facts), active=facts, deleted=deleted)


def test_an_addition_is_a_statement_of_the_message_that_says_it() -> None:
    [statement], dropped = claims(proposal("add", key="Dog name", value=" Rex "))
    assert isinstance(statement, Statement)
    assert (statement.fact_id, statement.key, statement.slot, statement.value) == (
        "dog_name",
        "dog_name",
        "",
        "Rex",
    )
    assert statement.evidence == Evidence("s1", "t2", "t2-in-0", "", "model")
    assert statement.message_at == NOW
    assert not dropped


def test_a_key_of_the_rules_is_kept_as_rules_keep_it() -> None:
    [home, like], _ = claims(
        proposal("add", key="home", value="Kobe"), proposal("add", key="like", value="tea")
    )
    assert (home.fact_id, home.key, home.slot) == ("user_home", "home", "")
    assert (like.fact_id, like.key) == ("user_like", "like")
    assert like.slot
    assert {"home", "like", "name"} <= set(KEYS)


def test_the_records_of_one_answer_differ() -> None:
    many = [proposal("add", key="thing", value=thing, several=True) for thing in THINGS]
    records = [claim.record for claim in claims(*many)[0]]
    assert len(set(records)) == 5


def test_of_several_messages_the_latest_of_the_user_is_the_evidence() -> None:
    [statement], _ = claims(proposal("add", key="home", value="Kobe", evidence=["m9", "m1", "m2"]))
    assert statement.evidence.item == "t2-in-0"


def test_a_value_of_several_words_is_told_once_under_whatever_key() -> None:
    held = fact("favourite_drink", "green tea without sugar")
    again = proposal(
        "add", key="drink_preference", value="Green tea, without sugar".replace(",", "")
    )
    assert claims(again, facts=(held,))[1] == {"repeated": 1}
    [born], _ = claims(
        proposal("add", key="birth_city", value="Rome"), facts=(fact("home_city", "Rome"),)
    )
    assert born.value == "Rome"


def test_what_moves_to_another_key_is_not_lost() -> None:
    held = fact("favourite_drink", "green tea without sugar")
    moved = [
        proposal("add", key="morning_drink", value="green tea without sugar"),
        proposal("delete", fact="f1"),
    ]
    found, _ = claims(*moved, facts=(held,))
    merged = merge([held], found, NOW)
    assert [one.key for one in merged.kept] == ["morning_drink"]
    assert merged.deleted == (held,)


def test_of_a_key_with_several_values_one_is_updated() -> None:
    violin, piano = (
        fact("instrument", "violin", slot="a"),
        fact("instrument", "piano", slot="b", entry=1),
    )
    found, _ = claims(proposal("update", fact="f1", value="viola"), facts=(violin, piano))
    merged = merge([violin, piano], found, NOW)
    assert [one.value for one in merged.kept] == ["viola"]
    assert [old for old, _ in merged.replaced] == [violin]


@pytest.mark.parametrize("change", ["update", "delete"])
@pytest.mark.parametrize(
    ("origin", "later", "evidence", "changes"),
    [
        ("model", timedelta(minutes=1), "m1", True),
        ("rule", timedelta(0), "m1", True),
        ("rule", -timedelta(minutes=1), "m1", True),
        ("rule", timedelta(minutes=1), "m1", False),
        ("user", timedelta(minutes=1), "m1", False),
        ("rule", -timedelta(minutes=1), "m2", False),
        ("user", -timedelta(minutes=1), "m2", False),
    ],
)
def test_what_the_user_said_gives_way_only_to_what_the_user_says_later(
    change: str, origin: Origin, later: timedelta, evidence: str, changes: bool
) -> None:
    held = fact("home", "Rome", origin=origin, at=NOW + later)
    if later == timedelta(0):  # of the same breath
        held = Fact(0, held.statement, held.state, NOW - timedelta(seconds=1), None, None, None, 7)
    found, dropped = claims(
        proposal(change, fact="f1", value="Kobe", evidence=[evidence]), facts=(held,)
    )
    assert merge([held], found, NOW).changes == changes
    assert dropped == ({} if changes else {"stale": 1})


def test_what_was_deleted_since_is_not_said_again_by_an_older_message() -> None:
    held = fact("home", "Kobe")
    gone = Fact(
        0, held.statement, FactState.DELETED, NOW, NOW + timedelta(seconds=1), None, None, 7
    )
    again = proposal("add", key="home", value="kobe")
    assert claims(again, deleted=(gone,)) == ([], {"stale": 1})
    before = Fact(
        0, held.statement, FactState.DELETED, NOW, NOW - timedelta(seconds=1), None, None, 7
    )
    assert len(claims(again, deleted=(before,))[0]) == 1
    by_the_assistant = proposal("add", key="home", value="kobe", evidence=["m2"])
    assert claims(by_the_assistant, deleted=(before,)) == ([], {"unfit": 1})


def test_a_fact_that_holds_no_longer_is_left_alone() -> None:
    seen = fact("home", "Rome")
    found = claims_of_proposals([proposal("delete", fact="f1")], shown(seen), active=[], deleted=[])
    assert found == ([], {"stale": 1})


def test_more_than_a_model_may_propose_is_dropped() -> None:
    many = [proposal("add", key=f"key_{at}", value="x") for at in range(PROPOSALS_MAX + 5)]
    found, dropped = claims(*many)
    assert (len(found), dropped) == (PROPOSALS_MAX, {"unfit": 5})


def test_the_facts_that_share_words_with_what_was_said_are_shown() -> None:
    facts = [
        fact("thing", f"number {at}", entry=at, at=NOW + timedelta(seconds=at)) for at in range(50)
    ]
    home = fact("home", "Kobe", entry=99, at=NOW - timedelta(days=9))
    chosen = most_related([home, *facts], SAID, limit=3)
    assert chosen[0] == home
    assert [one.entry for one in chosen[1:]] == [49, 48]


@given(st.text(), st.text())
def test_no_text_ends_the_data(said: str, value: str) -> None:
    message = InputMessage(1, "t1-in-0", "user", said, said, NOW, NOW)
    text = ModelInput("s1", "", [message], [message], [fact("k", value)]).text(NOW)
    assert not set("<>&") & set(text)
    assert orjson.loads(text).keys() == {"today", "facts", "earlier", "messages"}


@given(
    st.lists(
        st.builds(
            FactProposal,
            change=st.sampled_from(["add", "update", "delete", "", "grant"]),
            fact=st.sampled_from(["f1", "f2", "f0", "", "r0"]),
            key=st.text(max_size=80),
            value=st.text(max_size=600),
            several=st.booleans(),
            tier=st.sampled_from(["L0", "L1", "L2", "", "L3"]),
            confidence=st.floats(),
            evidence=st.lists(st.sampled_from(["m1", "m2", "m3", ""]), max_size=3),
        ),
        max_size=30,
    )
)
def test_whatever_is_proposed_each_is_claimed_or_counted(proposals: list[FactProposal]) -> None:
    held = (
        fact("home", "Rome", origin="rule", at=NOW - timedelta(days=1)),
        fact("pet", "Rex", entry=1),
    )
    found, dropped = claims(*proposals, facts=held)
    assert len(found) + sum(dropped.values()) == len(proposals)
    for claim in found:
        assert claim.evidence.item in {"t2-in-0", "t2-out-0"}
        if isinstance(claim, RemovalClaim):
            continue
        assert 0 < claim.confidence <= 1
        assert 0 < len(claim.value.encode()) <= 512
        assert "\x00" not in claim.value + claim.key
    merge(held, found, NOW)


def test_a_rules_fact_of_the_same_words_is_not_told_again() -> None:
    held = fact("kept", "Rex", origin="rule")
    evidence = Evidence("s1", "t2", "t2-in-0", "", "rule")
    words = replace(held.statement, statement="with Rex", value="by Rex", evidence=evidence)
    again = proposal("add", key="companion", value="Rex")
    assert claims(again, facts=(replace(held, statement=words),)) == ([], {"repeated": 1})
    assert len(claims(again, facts=(held,))[0]) == 1  # of another turn, and another matter


def test_the_sentence_of_the_users_own_words_is_found() -> None:
    table = [
        ("Well. I never eat pork, sorry. Bye.", "I eat pork", "I never eat pork, sorry."),
        ("我不吃猪肉。谢谢。", "不吃猪肉", "我不吃猪肉。"),
        ("Ich wohne nicht mehr in Ulm.", "wohnt in Ulm", ""),
        ('Translate: "I live in Rome."', "I live in Rome", ""),
        (
            "My favourite song is 'Angie'.",
            "favourite song is Angie",
            "My favourite song is 'Angie'.",
        ),
        ("Summarise this:\n\nI am a pilot.", "I am a pilot", ""),
        ("Hello there.", "I am a pilot", ""),
        ("Hello there.", "", ""),
    ]
    wrong = [
        (text, found)
        for text, quotation, sentence in table
        if (found := own_sentence(text, quotation)) != sentence
    ]
    assert wrong == []
