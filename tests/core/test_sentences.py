"""Sentences end where a reader sees them end, in scripts with and without spaces."""

import pytest

from memsvc.core.chunks import sentence_boundary_positions, sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello there. How are you?  Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        (
            "Dr. Who met Mr. Bean at 3.5 km, e.g. here. Yes.",
            ["Dr. Who met Mr. Bean at 3.5 km, e.g. here.", "Yes."],
        ),
        ("one\n\n- two\n  three", ["one", "- two", "three"]),
        ("決定です。次は？はい！", ["決定です。", "次は？", "はい！"]),
        ("「はい。」と言った。", ["「はい。」", "と言った。"]),
        ("他说：“好。”然后走了", ["他说：“好。”", "然后走了"]),
        ("ええ。。。そうですか。", ["ええ。。。", "そうですか。"]),
        ("  no  end\there ", ["no end here"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_a_text_is_its_sentences(text: str, found: list[str]) -> None:
    assert list(sentences(text)) == found


def test_the_ends_leave_the_white_space_behind_them() -> None:
    text = "One. Two.\nThree"
    assert [text[:end] for end in sentence_boundary_positions(text)] == ["One.", "One. Two."]


def test_a_long_text_without_an_end_is_read_quickly() -> None:
    assert list(sentences("." * 200_000)) == ["." * 200_000]
    assert len(list(sentences("。" * 100_000 + "x"))) == 2
