"""What can be read in what a model wrote."""

from time import perf_counter

import pytest

from memsvc.styles.memories.memory_changes import (
    InvalidAnswerError,
    MemoryProposal,
    facts_in,
    proposals_in,
)


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ('{"facts": ["a", "b"]}', ["a", "b"]),
        ('```json\n{"facts": ["a", "b"]}\n```', ["a", "b"]),
        ('Here they are: {"facts": ["a", "b"]} I hope that helps!', ["a", "b"]),
        ('{"note": {"x": 1}} {"facts": ["z"]}', ["z"]),
        ('{"facts": ["a", "b",]}', ["a", "b"]),
        ('["a"]', ["a"]),
        ('{"facts": [{"fact": "a  b"}, {"text": "c"}]}', ["a b", "c"]),
        ('{"facts": ["a", "a", "", null, 3]}', ["a"]),
        ('{"facts": ["a, [b] {c", "d\\"}"]}', ["a, [b] {c", 'd"}']),
        ('{"facts": []}', []),
        ('{"facts": {}}', []),
    ],
)
def test_facts_are_found_in_whatever_surrounds_them(answer: str, facts: list[str]) -> None:
    assert facts_in(answer) == facts


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ('{"facts": ["a", "b"', ["a", "b"]),
        ('{"facts": ["a", "b",', ["a", "b"]),
        ('{"facts": ["Allergic to nuts", "Is vegeta', ["Allergic to nuts"]),
        ('{"facts": ["a \\"q\\" b", "c\\', ['a "q" b']),
    ],
)
def test_of_an_answer_that_was_cut_off_what_is_whole_counts(answer: str, facts: list[str]) -> None:
    assert facts_in(answer) == facts


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot",
        "null",
        "3",
        '{"facts": "x"}',
        '{"facts": [',
        '{"facts": [1]}',
        "[[[[",
        "{}",
        '{"a": []}',
    ],
)
def test_what_holds_no_facts_is_no_empty_list_of_them(answer: str) -> None:
    with pytest.raises(InvalidAnswerError):
        facts_in(answer)


def test_proposals_are_read_in_their_order() -> None:
    answer = """{"memory": [
        {"id": "m1", "text": "x", "event": "update", "old_memory": "w"}, {"id": 7, "text": "y", "event": "ADD"},
        {"id": "m2", "event": "DELETE"}, {"id": "m3", "text": "z", "event": "EXPLODE"}, "noise", {"event": ["ADD"]}]}"""
    assert proposals_in(answer) == [
        MemoryProposal("UPDATE", "m1", "x", "w"),
        MemoryProposal("ADD", "7", "y", ""),
        MemoryProposal("DELETE", "m2", "", ""),
    ]


def test_a_proposal_that_was_cut_off_is_left_out() -> None:
    answer = '{"memory": [{"id": "m1", "text": "x", "event": "ADD"}, {"id": "m2", "text": "y", "ev'
    assert proposals_in(answer) == [MemoryProposal("ADD", "m1", "x", "")]


@pytest.mark.parametrize(
    "answer", ["no", '{"memory": "x"}', '{"memory": [{"event": "BOOM"}]}', '{"memory": [[]]}']
)
def test_what_holds_no_proposals_is_no_empty_list_of_them(answer: str) -> None:
    with pytest.raises(InvalidAnswerError):
        proposals_in(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 200_000,
        '{"a":"' * 40_000,
        '"' * 200_000,
        '{"facts":["' + "\\" * 200_000,
        '{"facts":[' + '{"a":' * 40_000,
    ],
)
def test_no_answer_takes_long_to_read(answer: str) -> None:
    started = perf_counter()
    with pytest.raises(InvalidAnswerError):
        facts_in(answer)
    assert perf_counter() - started < 2
