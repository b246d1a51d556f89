"""Token counts of the o200k models, by the vocabulary that ships here: no network, ever."""

import gzip
import hashlib
import re
import zlib
from binascii import a2b_base64
from importlib.resources import files
from threading import Lock
from typing import Final

import tiktoken

ENCODING_FILE: Final = "o200k_base.tiktoken.gz"
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

# A piece always ends between a letter or digit and one of these signs, and between a letter and a
# digit.
_SIGN: Final = r"""\s!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~、。「」『』！，：；？（）"""
_LAST_END: Final = re.compile(rf"(?s:.*)(?:[^\W_](?=[{_SIGN}])|[A-Za-z](?=[0-9]))")
PART_CHARS_MAX: Final = 4096
"""Characters encoded at once. The encoder takes more than linear time for a long piece, and its
stack overflows in a million blanks."""


class O200kCounter:
    """Counts of any text; special tokens count as plain text, a lone surrogate as U+FFFD.

    They are exact but for words and runs of signs or blanks that are longer than PART_CHARS_MAX:
    such a one is cut, and may cost a token more for each of its parts.
    """

    def __init__(self) -> None:
        self._encoding: tiktoken.Encoding | None = None
        self._loading = Lock()

    def load(self) -> tiktoken.Encoding:
        """Load the vocabulary on first use, from any thread: about a quarter of a second and 40 MB.

        Raises RuntimeError when it is missing, cannot be read or is not the published one.
        """
        with self._loading:
            if self._encoding is None:
                token_ids = _load_token_ids()
                self._encoding = tiktoken.Encoding(
                    "o200k_base",
                    pat_str=PATTERN,
                    mergeable_ranks=token_ids,
                    special_tokens=SPECIAL_TOKENS,
                )
                # the encoder has copied them; tiktoken would keep these 27 MB only for pickling
                token_ids.clear()
            return self._encoding

    def count(self, text: str) -> int:
        """Return the number of tokens in the text; RuntimeError as `load`."""
        encoding = self._encoding or self.load()
        total, start = 0, 0
        while len(text) - start > PART_CHARS_MAX:
            stop = start + PART_CHARS_MAX
            ending = _LAST_END.match(text, start, stop + 1)
            stop = ending.end() if ending else stop
            total += len(encoding.encode_ordinary(text[start:stop]))
            start = stop
        return total + len(encoding.encode_ordinary(text[start:]))


def _load_token_ids() -> dict[bytes, int]:
    try:
        archive_bytes = files(__package__).joinpath(ENCODING_FILE).read_bytes()
    except FileNotFoundError as error:
        raise RuntimeError(f"{ENCODING_FILE} is missing; reinstall memsvc") from error
    except OSError as error:
        raise RuntimeError(
            f"cannot read {ENCODING_FILE}: {error.strerror} (errno {error.errno})"
        ) from error
    try:
        raw = gzip.decompress(archive_bytes)
    except (OSError, EOFError, zlib.error) as error:
        raise RuntimeError(
            f"{ENCODING_FILE} is damaged: it has {len(archive_bytes)} bytes and is not a"
            " complete gzip file; reinstall memsvc"
        ) from error
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise RuntimeError(
            f"{ENCODING_FILE} is damaged: its SHA-256 checksum is wrong; reinstall memsvc"
        )
    words = raw.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
