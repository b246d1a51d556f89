"""A summary tells what a file is in one short paragraph, whatever the file holds."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memsvc.styles.files.file_summaries import (
    EMPTY,
    OPENING_CHARACTERS_MAX,
    SUMMARY_BYTES_MAX,
    SUMMARY_WORDS_MAX,
    rule_summary,
)

NOTES = """
# Trains

Trains to Vienna leave at noon. The trains are never late, and Vienna's station is large.
Buy tickets at the station; tickets don't cost much.
"""


def of(text: str) -> str:
    """The summary of a whole text file."""
    return rule_summary(text.encode(), size_bytes=len(text.encode()), is_text=True)


def test_a_text_is_told_by_its_opening_its_length_and_its_words() -> None:
    assert of(NOTES) == (
        'The file begins with "# Trains" and has approximately 5 lines. Frequent terms'
        " include trains, station, tickets, vienna, buy."
    )


def test_the_length_is_extrapolated_from_the_beginning() -> None:
    head = "one line\n" * 100
    assert "approximately 5000 lines" in rule_summary(
        head.encode(), size_bytes=len(head) * 50, is_text=True
    )
    assert "approximately 100 lines" in of(head)
    assert "approximately 1 line." in of("just this")


def test_an_empty_file_is_empty() -> None:
    assert rule_summary(b"", size_bytes=0, is_text=True) == EMPTY
    assert rule_summary(b"", size_bytes=0, is_text=False) == EMPTY


@pytest.mark.parametrize("text", ["QUJD" * 30, "QUJD" * 30 + "\n", "1,2;3 " * 10, "x" * 65])
def test_what_does_not_read_as_text_is_called_opaque(text: str) -> None:
    assert of(text) == f"Binary content of {len(text)} bytes that cannot be read as text."


@pytest.mark.parametrize("text", ["x" * 64, "1,2;3", "4711 " * 6])
def test_a_short_text_is_not_opaque(text: str) -> None:
    assert of(text).startswith("The file begins with")


def test_what_is_no_text_is_called_opaque() -> None:
    assert (
        rule_summary(b"", size_bytes=9, is_text=False)
        == "Binary content of 9 bytes that cannot be read as text."
    )


def test_whitespace_opens_with_nothing() -> None:
    assert of("\n\n  \n") == "A text file with approximately 3 lines."


def test_markup_is_left_out_of_the_opening() -> None:
    assert of("```html\n<p>Hello <b>Ada</b> < 3</p>\n").startswith('The file begins with "html"')
    assert of("<html>\n<p>Hello <b>Ada</b> < 3</p>\n").startswith(
        'The file begins with "Hello Ada ‹ 3"'
    )
    assert of("\x1b[31mred\u202e\x00\tline\n").startswith('The file begins with "[31mred line"')


def test_a_long_line_is_cut() -> None:
    assert f'begins with "{("word " * 32).strip()}"' in of("word " * 1000)
    assert len("word " * 32) == OPENING_CHARACTERS_MAX


def test_stop_words_are_left_out_in_any_case() -> None:
    assert of("The AND Für También don’t It's Ada’s Grüße").endswith(
        "Frequent terms include ada, für, grüße."
    )


def test_chinese_and_japanese_have_frequent_words_too() -> None:
    japanese = of("東京の天気は晴れ。東京のホテルを予約する。ホテルは東京駅の近く。" * 3)
    assert japanese.split("include ")[1].split(", ")[:2] == ["ホテル", "東京"]
    chinese = of("我们公司的数据库今天升级，数据库管理员备份数据库。" * 3)
    assert "数据" in chinese.split("include ")[1]


def test_words_with_marks_stay_whole() -> None:
    assert of("हिन्दी भाषा हिन्दी").endswith("Frequent terms include हिन्दी, भाषा.")
    assert of("서울에서 부산까지 서울에서").endswith("Frequent terms include 서울에서, 부산까지.")


ANY = st.one_of(
    st.text(),
    st.text(alphabet="`~<>a/ \n\"'", max_size=400),
    st.lists(
        st.sampled_from(["<b>", "```", "~~~", "𠮷" * 50, "\u0301" * 30, "a\n", "<<b>b>", "word "])
    ).map("".join),
    st.text(alphabet=st.characters(), max_size=50),
)


@settings(deadline=None)
@given(ANY, st.integers(0, 2**40), st.booleans())
@example("".join(chr(0x20000 + at) * 40 + "\n" for at in range(20)), 10**9, True)
@example("`" * 2 + "<b>" + "`" * 2, 7, True)
@example("a\ud800b", 7, True)
def test_the_limits_hold_for_anything(head: str, size_bytes: int, is_text: bool) -> None:
    told = rule_summary(
        head.encode("utf-8", "surrogatepass"), size_bytes=size_bytes, is_text=is_text
    )
    assert told
    assert len(told.split()) <= SUMMARY_WORDS_MAX
    assert len(told.encode()) <= SUMMARY_BYTES_MAX
    assert not {"<", ">"} & set(told)
    assert "```" not in told
    assert "~~~" not in told
    assert {unicodedata.category(character) for character in told}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )
