"""One-paragraph summary of a file from its start, without a model."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import regex

from memsvc.core.analysis import is_stop_word

SUMMARY_WORDS_MAX: Final = 300
SUMMARY_BYTES_MAX: Final = 2048
OPENING_CHARACTERS_MAX: Final = 160
TERM_LIMIT: Final = 5
TERM_CHARACTERS_MAX: Final = 40
HEAD_CHARACTERS_MAX: Final = 64 * 1024
"""Characters of a longer start that are read."""
EMPTY: Final = "Empty file."

_NO_SPACE_CHARACTERS: Final = 64
_SHARE_CHARACTERS: Final = 32
_ALPHA_SHARE_MIN: Final = 0.3
_RUN_CHARACTERS: Final = 4
"""Characters of a run of Han that is likely one word; a longer one is counted by its pairs."""
_TAG: Final = regex.compile(r"<[^<>]*>")
_BRACKET_MAP: Final = str.maketrans("<>", "‹›")
_FENCE: Final = regex.compile(r"`{3,}|~{3,}")
_NO_TEXT: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]")
_HIDDEN: Final = regex.compile(r"[\p{Cf}\p{Cs}\p{Co}\p{Cn}]")
_CJK_LIKE: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々"
_CJK_CHARACTER: Final = regex.compile(rf"[{_CJK_LIKE}]")
_WORD: Final = regex.compile(
    r"(?V1)(?P<run>[\p{Han}々]{2,}+)|(?P<name>[\p{Katakana}ー]{2,}+)|[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{M}]{2,}+"
    rf"|[\p{{L}}--[{_CJK_LIKE}]][[\p{{L}}\p{{N}}\p{{M}}_]--[{_CJK_LIKE}]]*+(?:['’]\p{{L}}++)?"
)


def summary(head: str, *, size_bytes: int, is_text: bool) -> str:
    """Return one English paragraph about a file of `size_bytes` that begins with `head`.

    It quotes the opening and gives the approximate number of lines and the most frequent words: at
    most SUMMARY_WORDS_MAX words and SUMMARY_BYTES_MAX bytes, without fences, HTML tags and control
    characters."""
    if size_bytes == 0:
        return EMPTY
    text = head[:HEAD_CHARACTERS_MAX]
    if not is_text or _is_opaque(text.strip()):
        return f"Opaque content of {size_bytes} bytes that does not read as text."
    lines = _lines(text, size_bytes)
    length = f"approximately {lines} {'line' if lines == 1 else 'lines'}"
    opening = next((line for line in map(_clean, text.splitlines()) if line), "")
    text_summary = (
        f'The file opens with "{opening}" and has {length}.'
        if opening
        else f"A text file of {length}."
    )
    terms = _top_words(text)
    return f"{text_summary} Frequent terms include {', '.join(terms)}." if terms else text_summary


def _is_opaque(text: str) -> bool:
    alpha_min = len(text) * _ALPHA_SHARE_MIN
    has_no_space = len(text) > _NO_SPACE_CHARACTERS and not any(
        character.isspace() for character in text
    )
    # scripts without spaces may fill a paragraph without any
    if has_no_space and len(_CJK_CHARACTER.findall(text)) < alpha_min:
        return True
    return (
        len(text) >= _SHARE_CHARACTERS
        and sum(character.isalpha() for character in text) < alpha_min
    )


def _lines(text: str, size_bytes: int) -> int:
    count = text.count("\n")
    text_bytes = len(text.encode("utf-8", "surrogatepass"))
    if 0 < text_bytes < size_bytes:
        return max(1, round(count * size_bytes / text_bytes))
    return max(1, count + (not text.endswith("\n")))


def _clean(line: str) -> str:
    visible = _HIDDEN.sub("", _NO_TEXT.sub(" ", line))
    # text between angle brackets after that is not a tag
    plain = _FENCE.sub(" ", _TAG.sub(" ", visible)).translate(_BRACKET_MAP)
    return " ".join(plain.split())[:OPENING_CHARACTERS_MAX].strip()


def _top_words(text: str) -> list[str]:
    counts = Counter(word for word in _words(text) if len(word) <= TERM_CHARACTERS_MAX)
    return sorted(counts, key=lambda word: (-counts[word], word))[:TERM_LIMIT]


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(_HIDDEN.sub("", _TAG.sub(" ", text))):
        word = match[0].lower()
        if match["run"] is not None and len(word) > _RUN_CHARACTERS:
            yield from (first + second for first, second in pairwise(word))
        elif match["run"] is not None or match["name"] is not None:
            yield word
        elif len(word) > 1 and not is_stop_word(word):
            yield word.replace("’", "'").removesuffix("'s")
