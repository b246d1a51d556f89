"""Vectors as they are stored: a signed byte for each number, then the signs of each sentence.

A byte loses nothing of a cosine that a ranking would notice. Of a sentence of a longer text a bit
for each number is enough. numpy is loaded with the first vector, as most commands need none.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from math import isfinite, pi, sqrt
from typing import Any, Final, NamedTuple

LARGEST = 127
SIGN_COSINE: Final = sqrt(2 / pi)
"""Expected cosine of a vector to its signs, taken as 1 and -1."""
NEIGHBOUR_WEIGHT: Final = 0.6
SENTENCE_WEIGHT: Final = 0.4
"""Share of the message alone, or of its nearest sentence, in the cosine by which it is ordered."""


class MeantText(NamedTuple):
    """Text of an entry that gets a vector, and the role of the entry."""

    text: str
    role: str = ""


class TextVector(NamedTuple):
    """Vector of a text, and the signs of those of its first sentences, if it has several."""

    whole: Sequence[float]
    sentences: bytes = b""


@cache
def numpy() -> Any:
    """Return numpy, whose products of matrices run in the thread that asks for them.

    Threads of its own would make a short text ten times as dear."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return import_module("numpy")


def pack(vectors: Sequence[Sequence[float]]) -> list[bytes]:
    """Return vectors of one length as signed bytes, each scaled by its greatest number."""
    np = numpy()
    array = np.asarray(vectors, dtype=np.float32)
    greatest = np.abs(array).max(axis=1, keepdims=True)
    scaled = np.rint(array * (LARGEST / np.where(greatest > 0, greatest, 1.0)))
    return [row.tobytes() for row in scaled.astype(np.int8)]


def pack_texts(vectors: Sequence[TextVector]) -> list[bytes]:
    """Return vectors of one length as they are stored."""
    packed = pack([vector.whole for vector in vectors])
    return [whole + vector.sentences for whole, vector in zip(packed, vectors, strict=True)]


def unpack(packed: bytes, length: int) -> list[float]:
    """Return a stored vector of `length` numbers, scaled to length 1."""
    numbers: list[float] = units(packed[:length], length)[0].tolist()
    return numbers


def signs_of(vector: Sequence[float]) -> bytes:
    """Return a bit for each number of a vector, 1 where it is positive, filled up with zeros."""
    np = numpy()
    signs: bytes = np.packbits(np.asarray(vector) > 0).tobytes()
    return signs


def units(packed: bytes, length: int) -> Any:
    """Return stored vectors of a length, each at length 1: an array with a row for each."""
    np = numpy()
    return _scaled(np.frombuffer(packed, dtype=np.int8).reshape(-1, length).astype(np.float32))


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors, 0 if one of them is all zeros."""
    size = sqrt(sum(a * a for a in first) * sum(b * b for b in second))
    return sum(a * b for a, b in zip(first, second, strict=True)) / size if size else 0.0


def cosines(vector: Sequence[float], vectors: Any) -> list[float]:
    """Return the cosine of a vector to each row of vectors of length 1.

    It is not a number where either has no direction, being all zeros."""
    found: list[float] = (vectors @ _unit(vector)).tolist()
    return found


def stored_cosines(
    vector: Sequence[float],
    ordering: Sequence[float],
    packed: bytes,
    sizes: Sequence[int],
    neighbours: Sequence[tuple[int, int, int]],
) -> tuple[list[float | None], list[float | None]]:
    """Return the cosines of stored vectors to a vector, and those by which they are ordered.

    `packed` are the stored vectors one after the other, `sizes` the bytes of each. `neighbours` are
    some and their two neighbours each, -1 for one that is not there: the mean of the three counts.
    In what orders them the cosine of a text alone, or of its nearest sentence, has a share. None
    stands for one that has no direction, being all zeros, and behind the others."""
    np = numpy()
    length, size_bytes, ends = len(vector), np.array(sizes), np.cumsum(sizes)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(packed, np.int8), length)
    vectors = _scaled(windows[np.append(ends - size_bytes, 0)].astype(np.float32))
    vectors[-1] = 0
    asked = np.stack([_unit(vector), _unit(ordering)], axis=1)
    found = vectors @ asked
    best, unit = found[:, 1].copy(), asked[:, 1]
    if signs := b"".join(
        packed[end - size + length : end] for end, size in zip(ends.tolist(), sizes, strict=True)
    ):
        bits = np.unpackbits(np.frombuffer(signs, np.uint8)).reshape(-1, -(-length // 8) * 8)
        nearest = (2 * (bits[:, :length] @ unit) - unit.sum()) / (SIGN_COSINE * sqrt(length))
        counts = (size_bytes - length) // (bits.shape[1] // 8)
        np.maximum.at(best, np.repeat(np.arange(len(sizes)), counts), nearest)
    if beside := [one for one in neighbours if max(one[1:]) >= 0]:
        own, before, after = np.array(beside).T
        sums = vectors[before]
        sums += vectors[after]
        sums *= NEIGHBOUR_WEIGHT
        sums += vectors[own]
        found[own] = sums @ asked / np.linalg.norm(sums, axis=1, keepdims=True)
    found = found.astype(float)
    found[:, 1] += SENTENCE_WEIGHT * (best - found[:, 1])
    found[-1] = np.nan
    cosine, specific = (
        [value if isfinite(value) else None for value in column] for column in found.T.tolist()
    )
    return cosine, specific


def _unit(vector: Sequence[float]) -> Any:
    np = numpy()
    return _scaled(np.array([vector], dtype=np.float32))[0]


def _scaled(vectors: Any) -> Any:
    """Scale the rows to length 1 and return them; in place, as new memory takes longer."""
    np = numpy()
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    vectors /= np.where(norms > 0, norms, np.nan)[:, None]
    return vectors
