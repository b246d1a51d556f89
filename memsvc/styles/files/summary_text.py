"""Text of file summaries: prompts, the parts of a file that are read, and cleanup of answers."""

from dataclasses import astuple, dataclass
from hashlib import sha256
from importlib.resources import files as resources
from itertools import pairwise
from typing import Final, Self

import regex

from memsvc.core.rule_summary import SUMMARY_BYTES_MAX, SUMMARY_WORDS_MAX, summary

WORDS_TARGET: Final = 160
CALLS_MAX: Final = 8
CALL_INPUT_TOKENS_MAX: Final = 16_000
FILE_INPUT_TOKENS_MAX: Final = 64_000
FILE_OUTPUT_TOKENS_MAX: Final = 4096
PROMPT_TOKENS_MAX: Final = 500
PART_TOKENS: Final = 14_000
PARTS_MAX: Final = 4
"""This many parts, and the notes on them, stay within the budget of one file."""
WHOLE_BYTES_MAX: Final = 4 * (CALL_INPUT_TOKENS_MAX - PROMPT_TOKENS_MAX - 1)
"""Size that one call can read of a file that needs no parts."""
PART_BYTES: Final = 4 * (PART_TOKENS - 1)

_WRAPPER: Final = "untrusted_document"
_WRAPPERS: Final = regex.compile(rf"<(?=[\s/]*{_WRAPPER})", regex.IGNORECASE)
_NO_TEXT: Final = regex.compile(r"[\p{Cc}--[\n\t]]", regex.V1)
_FENCE: Final = regex.compile(r"(?:`{3,}|~{3,})[^\S\n]*[\w+-]*")
_LINK: Final = regex.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_TAG: Final = regex.compile(r"<[^<>]*>")
_BRACKET_MAP: Final = str.maketrans("<>", "‹›")
_HIDDEN_CHARACTERS: Final = regex.compile(r"[\p{Cf}\p{Cs}\p{Co}\p{Cn}]")
_SEGMENTS: Final = regex.compile(r"\b", regex.WORD | regex.V1)
_WORD_CHARACTER: Final = regex.compile(r"[\p{L}\p{N}]")
_SENTENCE_END: Final = regex.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|[。！？][」』”）]*")


@dataclass(frozen=True, slots=True)
class SummaryPrompts:
    """Prompts about a whole file, about a part of one, and about the notes on all parts."""

    whole: str
    part: str
    notes: str

    @classmethod
    def load(cls) -> Self:
        """Load the prompts of this version."""
        folder = resources("memsvc.styles.files")
        return cls(
            *(
                folder.joinpath(f"summarise_{name}.md").read_text("utf-8")
                for name in ("file", "part", "notes")
            )
        )

    @property
    def version(self) -> bytes:
        """Return a hash of the prompts and the limits, which changes with them."""
        limits = (WORDS_TARGET, WHOLE_BYTES_MAX, PART_BYTES, PARTS_MAX, FILE_OUTPUT_TOKENS_MAX)
        return sha256(repr((astuple(self), limits)).encode()).digest()


def windows(size_bytes: int) -> list[tuple[int, int]]:
    """Return the byte ranges of a text that are read: all of it, or parts of about equal size.

    Where those would be more than PARTS_MAX, that many parts at equal distances, the start and the
    end included."""
    if size_bytes <= WHOLE_BYTES_MAX:
        return [(0, size_bytes)]
    parts = min(-(-size_bytes // PART_BYTES), PARTS_MAX)
    if size_bytes > parts * PART_BYTES:
        start_positions = [at * (size_bytes - PART_BYTES) // (parts - 1) for at in range(parts)]
        return [(start, start + PART_BYTES) for start in start_positions]
    bounds = [at * size_bytes // parts for at in range(parts + 1)]
    return list(pairwise(bounds))


def rule_summary(head: bytes, *, size_bytes: int, is_text: bool) -> str:
    """Return a summary without a model, from a file's start; it may be cut within a character."""
    return summary(head.decode("utf-8", "ignore"), size_bytes=size_bytes, is_text=is_text)


def wrap_document(text: str) -> str:
    """Return a text wrapped as untrusted data; nothing in it can read as the end of the wrapper."""
    return f"<{_WRAPPER}>\n{_WRAPPERS.sub('‹', _NO_TEXT.sub(' ', text))}\n</{_WRAPPER}>"


def count_words(text: str) -> int:
    """Count words by Unicode UAX #29: segments that have a letter or a number."""
    return sum(
        1 for segment in _SEGMENTS.split(text) if segment and _WORD_CHARACTER.search(segment)
    )


def clean_summary(answer: str) -> str:
    """Return an answer cleaned up as a summary; empty when nothing meaningful is left.

    One paragraph of at most SUMMARY_WORDS_MAX words and SUMMARY_BYTES_MAX bytes that ends with a
    sentence where it has one, without fences, links, HTML and invisible characters."""
    plain = _HIDDEN_CHARACTERS.sub("", _NO_TEXT.sub(" ", answer))
    plain = _LINK.sub(r"\1", _FENCE.sub(" ", plain))
    text = " ".join(_TAG.sub(" ", plain).translate(_BRACKET_MAP).split())
    text = _first_words(text).encode()[:SUMMARY_BYTES_MAX].decode("utf-8", "ignore").strip()
    bounds = [match.end() for match in _SENTENCE_END.finditer(text)]
    if bounds:
        text = text[: bounds[-1]]
    return text if _WORD_CHARACTER.search(text) else ""


def _first_words(text: str) -> str:
    words = 0
    first: list[str] = []
    for segment in _SEGMENTS.split(text):
        words += bool(segment and _WORD_CHARACTER.search(segment))
        if words > SUMMARY_WORDS_MAX:
            break
        first.append(segment)
    return "".join(first)
