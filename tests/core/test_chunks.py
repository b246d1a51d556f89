"""Chunks end where a reader would pause, lose nothing, and stay as they are when a text grows."""

import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memsvc.core.chunks import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, OVERLAP_BYTES_MAX, Chunk, chunks

SENTENCE = "The quick brown fox jumps over the lazy dog once more. "
PIECES = st.one_of(
    st.sampled_from(
        [
            "# Heading\n",
            "## Ü 二\n\n",
            "\n\n",
            "\r\n",
            "\r\n\r\n",
            "\n",
            "```python\n",
            "```\n",
            "~~~~ text\n",
            "~~~~\n",
            "    indented = 1\n",
            "\u3000",
            "\u00a0\n",
            "e\u0301",
            "👩\u200d👩\u200d👧",
            "漢字とかな。",
            "這是什麼？",
            "ما هذا؟ ",
            "Is it? ",
            "# ",
            "```",
        ]
    ),
    st.sampled_from(
        [
            SENTENCE * 5,
            "word " * 60,
            "漢字" * 70,
            "x" * 400,
            " " * 250,
            "\n" * 900,
            "`" * 90,
            "#\t" * 200,
        ]
    ),
    st.text(max_size=30),
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


def check(text: str, found: list[Chunk]) -> None:
    """What holds for the chunks of any text."""
    data = text.encode()
    covered = bytearray(len(data))
    for chunk in found:
        content = chunk.text.encode()
        assert data[chunk.start : chunk.start + len(content)] == content
        assert len(content) <= CHUNK_BYTES_MAX
        assert chunk.text.strip()
        assert len(chunk.context) <= 201
        covered[chunk.start : chunk.start + len(content)] = b"\x01" * len(content)
    missed = bytes(byte for byte, seen in zip(data, covered, strict=True) if not seen)
    assert not missed.decode().strip()
    for former, latter in pairwise(found):
        assert former.start + CHUNK_BYTES_MIN - OVERLAP_BYTES_MAX <= latter.start
        assert former.start + len(former.text.encode()) - OVERLAP_BYTES_MAX <= latter.start


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_every_character_but_whitespace_is_in_a_chunk(text: str) -> None:
    check(text, chunks(text))


@settings(max_examples=500, deadline=None)
@given(TEXTS, TEXTS)
@example("a" + "\n" * 3000, "b")
@example("\n" * 3000, "b")
@example("```\n" + "x\n" * 900, "```\nafter\n")
def test_after_an_append_only_the_last_chunk_is_cut_again(text: str, added: str) -> None:
    before = chunks(text)
    if not before:
        assert not text.strip()
        return
    last = before[-1]
    rest = (text + added).encode()[last.start :].decode()
    assert chunks(text + added) == before[:-1] + chunks(
        rest, start=last.start, context=last.context
    )


@given(TEXTS)
def test_the_rest_of_a_text_is_cut_as_within_the_whole(text: str) -> None:
    found = chunks(text)
    for index, chunk in enumerate(found):
        rest = text.encode()[chunk.start :].decode()
        assert chunks(rest, start=chunk.start, context=chunk.context) == found[index:]


@pytest.mark.parametrize(
    "text", ["", " ", "\n" * 5000, "\r\n\t \u3000\u00a0\u2003\u2028\x1c" * 500]
)
def test_whitespace_makes_no_chunk(text: str) -> None:
    assert chunks(text) == []


def test_a_short_text_is_one_chunk() -> None:
    assert chunks("  Grüße\n\n", start=7, context="# A") == [Chunk(7, "  Grüße\n\n", "# A")]


def test_a_section_begins_a_chunk_and_names_the_heading_before() -> None:
    text = "# One\n\n" + SENTENCE * 15 + "\n\n# Two\n\n" + SENTENCE * 45
    first, second, *rest = chunks(text)
    assert first.text.startswith("# One")
    assert second.text.startswith("# Two\n")
    assert (first.context, second.context) == ("", "# One")
    assert {chunk.context for chunk in rest} == {"# Two"}


def test_paragraphs_stay_whole() -> None:
    paragraph = SENTENCE * 8 + "\n\n"
    found = chunks(paragraph * 9)
    assert all(
        chunk.text.startswith("The quick") and chunk.text.endswith("more. \n")
        for chunk in found[:-1]
    )
    assert [chunk.start % len(paragraph) for chunk in found] == [0] * len(found)


def test_a_heading_is_not_parted_from_what_it_is_about() -> None:
    # the heading is too early to be a boundary, and the blank line below it is none
    text = SENTENCE * 8 + "\n\n## " + "Long title " * 8 + "\n\n" + SENTENCE * 30
    assert not chunks(text)[0].text.rstrip().endswith("title")


def test_code_stays_whole_if_it_can_and_names_its_fence_if_not() -> None:
    code = "```python\n" + "value = compute(value)\n" * 30 + "```\n"
    first, second, *_ = chunks("Intro.\n" + code + (SENTENCE + "\n") * 40)
    assert first.text.endswith("```\n")
    assert second.text.startswith("The quick")
    long = chunks(
        "# Code\n```python\n" + "value = compute(value)\n" * 200 + "```\n" + "After.\n" * 300
    )
    assert long[1].context == "# Code\n```python"
    assert long[1].text.startswith("value = ")
    assert long[-1].context == "# Code"


def test_a_heading_in_a_fence_is_code() -> None:
    found = chunks("```sh\n" + "# not a heading\n" * 200 + "```\n")
    assert {chunk.context for chunk in found[1:]} == {"```sh"}


def test_a_fence_closes_with_at_least_its_own_marker() -> None:
    inner = "````md\n" + "```\ncode\n```\n" * 200
    found = chunks(inner + "````\n" + "After.\n" * 200)
    assert found[1].context == "````md"
    assert found[-1].context == ""


def test_sentences_of_any_script_end_a_chunk() -> None:
    for sentence in (
        SENTENCE,
        "吾輩は猫である。",
        "這是真的嗎？」",
        "ما هذا الشيء الغريب؟ ",
        "यह एक वाक्य है। ",
    ):
        for chunk in chunks(sentence * 200)[:-1]:
            assert chunk.text.strip().endswith(sentence.strip()), sentence
            assert chunk.text.startswith(sentence.split(" ", maxsplit=1)[0].strip())


def test_lines_overlap_but_not_across_a_paragraph() -> None:
    line = "A line of a log that goes on for quite a while\n"
    first, second, *_ = chunks(line * 60)
    assert first.start + len(first.text) - second.start == 4 * len(line)
    found = chunks((SENTENCE * 15 + "\n\n") * 4)
    assert [chunk.start for chunk in found[1:]] == [
        former.start + len(former.text) + 1 for former in found[:-1]
    ]


def test_characters_that_belong_together_stay_together() -> None:
    for whole in ("e\u0301\u0323", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "각"):
        for chunk in chunks("a" + whole * 900):
            assert chunk.text.removeprefix("a").startswith(whole)


def test_windows_lines_are_not_torn() -> None:
    for chunk in chunks("A line.\r\n" * 800):
        assert chunk.text.startswith("A line.\r\n")
        assert chunk.text.endswith("\r\n")


def test_markers_within_a_line_open_nothing() -> None:
    text = ("word " * 10 + "``` # not a heading ") * 60
    assert {chunk.context for chunk in chunks(text)} == {""}


@pytest.mark.parametrize(
    "text",
    [
        "word " * 400_000,
        "\n" * 2_000_000,
        "x" + " " * 2_000_000 + "y",
        "`" * 2_000_000,
        "\u0301" * 1_000_000,
        "a" * 2_000_000,
        "漢" * 700_000,
        "\u3000" * 700_000,
        "a\n" * 1_000_000,
        "# a\n" * 500_000,
        "```\n" * 500_000,
        "a\n\n" * 700_000,
        "。" * 700_000,
    ],
    ids=lambda text: repr(text[:3]),
)
def test_time_grows_with_the_length_alone(text: str) -> None:
    started = time.process_time()
    check_size = sum(len(chunk.text.encode()) for chunk in chunks(text))
    assert check_size <= 1.5 * len(text.encode())
    # two megabytes; quadratic time would be minutes
    assert time.process_time() - started < 5
