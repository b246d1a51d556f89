"""Exact token counts of the o200k models, by the vocabulary that ships here: no network, ever."""

import gzip
import hashlib
import re
import zlib
from binascii import a2b_base64
from importlib.resources import files
from threading import Lock
from typing import Final

import tiktoken

VOCABULARY: Final = "o200k_base.tiktoken.gz"
SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
SPECIAL_TOKENS: Final = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}

_LEAD = r"[^\r\n\p{L}\p{N}]?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN: Final = "|".join(
    (
        f"{_LEAD}{_UPPER}*{_LOWER}+{_SUFFIX}",
        f"{_LEAD}{_UPPER}+{_LOWER}*{_SUFFIX}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""Pattern by which o200k_base splits text before it merges bytes, as published with tiktoken."""

# The pattern's lookahead overflows its matcher's stack in about a million blanks. A run of blanks
# that no line break follows always begins a token group, which ends one blank before whatever
# follows: such a run can be cut out beforehand.
_BLANK: Final = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
BLANK_RUN_MAX: Final = 100_000


class O200kCounter:
    """Exact counts of any text; special tokens count as plain text, a lone surrogate as U+FFFD."""

    def __init__(self, *, blank_run_max: int = BLANK_RUN_MAX) -> None:
        self._blank_run_max = blank_run_max
        self._long_blank = re.compile(f"[{_BLANK}]{{{blank_run_max},}}")
        self._encoding: tiktoken.Encoding | None = None
        self._loading = Lock()

    def load(self) -> tiktoken.Encoding:
        """Load the vocabulary on first use, from any thread: about a quarter of a second and 40 MB.

        Raises RuntimeError when it is missing, cannot be read or is not the published one.
        """
        with self._loading:
            if self._encoding is None:
                ranks = _load_ranks()
                self._encoding = tiktoken.Encoding(
                    "o200k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL_TOKENS
                )
                # the encoder has copied them; tiktoken would keep these 27 MB only for pickling
                ranks.clear()
            return self._encoding

    def count(self, text: str) -> int:
        """Return the number of tokens in the text; RuntimeError as `load`."""
        encoding = self._encoding or self.load()
        if len(text) < self._blank_run_max:
            return len(encoding.encode_ordinary(text))
        total, start = 0, 0
        for run in self._long_blank.finditer(text):
            following = text[run.end() : run.end() + 1]
            if following in ("\r", "\n"):
                continue
            cut = run.end() - 1 if following else run.end()
            total += len(encoding.encode_ordinary(text[start : run.start()]))
            total += len(encoding._encode_single_piece(text[run.start() : cut]))  # noqa: SLF001
            start = cut
        return total + len(encoding.encode_ordinary(text[start:]))


def _load_ranks() -> dict[bytes, int]:
    try:
        packed = files(__package__).joinpath(VOCABULARY).read_bytes()
    except FileNotFoundError as error:
        raise RuntimeError(f"{VOCABULARY} is missing; install memsvc anew") from error
    except OSError as error:
        raise RuntimeError(f"{VOCABULARY} cannot be read: {error.strerror} (errno {error.errno})") from error
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise RuntimeError(
            f"{VOCABULARY} is damaged: {len(packed)} bytes, not whole gzip; install memsvc anew"
        ) from error
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise RuntimeError(f"{VOCABULARY} is damaged: its SHA-256 is not the published one; install memsvc anew")
    words = raw.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
