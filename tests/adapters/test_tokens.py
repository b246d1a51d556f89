"""Token counts are exact, and quick whatever the text."""

import base64
import gzip
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken_ext.openai_public
from hypothesis import given
from hypothesis import strategies as st

from memsvc.adapters import tokens as module
from memsvc.adapters.tokens import PATTERN, O200kCounter

MEGABYTE = 1_000_000
MEGABYTE_S_MAX = 0.6
RANDOM = random.Random(1)
WORD = "aZ1é中。、'!-/_\u0301\U0001f600 \t\u3000\u2028\r\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("1234567", 3),
        ("お誕生日おめでとう", 8),
        ("2 + 2 = 4", 7),
        ("antidisestablishmentarianism", 6),
        ("<|endoftext|>", 7),
    ],
)
def test_counts_are_those_of_the_models(tokens: O200kCounter, text: str, count: int) -> None:
    assert tokens.count(text) == count


def test_the_pattern_is_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    published = tiktoken_ext.openai_public.o200k_base()
    assert published["pat_str"] == PATTERN
    assert published["special_tokens"] == module.SPECIAL_TOKENS


def test_special_tokens_are_plain_text(tokens: O200kCounter) -> None:
    assert tokens.count("a <|endofprompt|> b") == tokens.count("a <|endofprompt") + tokens.count(
        "|> b"
    )


@given(
    st.lists(st.text(alphabet=WORD, max_size=12), max_size=12),
    st.sampled_from(["x, ", "é ", "中。", "Z9x/"]),
)
def test_reading_a_text_in_parts_does_not_change_a_count(
    tokens: O200kCounter, words: list[str], end: str
) -> None:
    text = "".join(word + end for word in words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART_CHARS_MAX", 32)
        in_parts = tokens.count(text)
    assert in_parts == tokens.count(text)


def test_a_word_without_end_costs_at_most_a_token_more_for_each_part(tokens: O200kCounter) -> None:
    word = "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=10 * module.PART_CHARS_MAX))
    assert 0 <= tokens.count(word) - len(tokens.load().encode_ordinary(word)) <= 10


@given(st.text(max_size=200))
def test_any_text_can_be_counted(tokens: O200kCounter, text: str) -> None:
    assert (tokens.count(text) == 0) is (text == "")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00 \ud83d", "\udcff" * 1000])
def test_a_lone_surrogate_counts_as_the_replacement_character(
    tokens: O200kCounter, text: str
) -> None:
    assert tokens.count(text) == tokens.count(
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(piece * (MEGABYTE // len(piece.encode())), id=name)
        for name, piece in {
            "one letter": "a",
            "one capital": "A",
            "one digit": "7",
            "one sign": "!",
            "spaces": " ",
            "wide spaces": "\u3000",
            "blank lines": " \n",
            "tabs": " \t",
            "newlines": "\n",
            "Chinese": "记忆服务保存对话",
            "emoji": "\U0001f600",
            "marks": "a\u0301",
            "words": "the memory of an agent ",
            "letters": "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=MEGABYTE)),
            "base64": base64.b64encode(RANDOM.randbytes(MEGABYTE * 3 // 4)).decode(),
            "signs": "!?.,;:-",
        }.items()
    ],
)
def test_a_megabyte_never_takes_a_second(tokens: O200kCounter, text: str) -> None:
    spent = []
    for ending in ("", "x", "\n"):
        started = time.process_time()
        assert tokens.count(text + ending) > 0
        spent.append(time.process_time() - started)
    assert max(spent) < 2
    assert min(spent) < MEGABYTE_S_MAX


def test_a_million_blanks_between_words_are_counted_exactly(tokens: O200kCounter) -> None:
    blanks = MEGABYTE * 2
    assert tokens.count(f"a{' ' * blanks}b") == 1 + tokens.count(" " * (blanks - 1)) + tokens.count(
        " b"
    )


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        pytest.param(lambda file: file.unlink(), "is missing", id="missing"),
        pytest.param(
            lambda file: (file.unlink(), file.mkdir()),
            r"cannot read .+: .+ \(errno \d+\)",
            id="unreadable",
        ),
        pytest.param(
            lambda file: file.write_bytes(file.read_bytes()[:1000]),
            "it has 1000 bytes and is not a complete gzip file",
            id="cut",
        ),
        pytest.param(
            lambda file: file.write_bytes(file.read_bytes()[1:]),
            "not a complete gzip file",
            id="shifted",
        ),
        pytest.param(lambda file: file.write_bytes(gzip.compress(b"a 1")), "SHA-256", id="another"),
    ],
)
def test_a_vocabulary_that_is_not_the_published_one_is_refused_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    damage: Callable[[Path], object],
    complaint: str,
) -> None:
    file = tmp_path / module.ENCODING_FILE
    file.write_bytes((Path(module.__file__).parent / module.ENCODING_FILE).read_bytes())
    damage(file)
    monkeypatch.setattr(module, "files", lambda _: tmp_path)
    with pytest.raises(RuntimeError, match=complaint):
        O200kCounter().load()
