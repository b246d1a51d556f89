"""Vectors as they are stored: a signed byte for each number, then the signs of each sentence.

A byte loses nothing of a cosine that a ranking would notice. Of a sentence of a longer text a bit
for each number is enough. numpy is loaded with the first vector, as most commands need none.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from math import pi, sqrt
from typing import Any, Final, NamedTuple

LARGEST = 127
SIGN_COSINE: Final = sqrt(2 / pi)
"""Expected cosine of a vector to its signs, taken as 1 and -1."""


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


def parts(packed: bytes, sizes: Sequence[int], length: int) -> tuple[bytes, bytes, list[int]]:
    """Split stored vectors into whole vectors, signs of sentences, and the sentences' counts.

    `packed` are stored vectors one after the other, `sizes` the bytes of each."""
    np = numpy()
    numbers = np.frombuffer(packed, dtype=np.uint8)
    ends = np.cumsum(sizes)
    is_whole = np.zeros(len(numbers), bool)
    is_whole[(ends - sizes)[:, None] + np.arange(length)] = True
    counts = [(size - length) // -(-length // 8) for size in sizes]
    return numbers[is_whole].tobytes(), numbers[~is_whole].tobytes(), counts


def signs_of(vector: Sequence[float]) -> bytes:
    """Return a bit for each number of a vector, 1 where it is positive, filled up with zeros."""
    np = numpy()
    signs: bytes = np.packbits(np.asarray(vector) > 0).tobytes()
    return signs


def units(packed: bytes, length: int) -> Any:
    """Return stored vectors of a length, each at length 1: an array with a row for each."""
    np = numpy()
    return _scaled(np.frombuffer(packed, dtype=np.int8).reshape(-1, length).astype(np.float32))


def with_neighbours(vectors: Any, neighbours: Sequence[tuple[int, int, int]], weight: float) -> Any:
    """Return the rows, some as the mean of themselves and, by `weight`, of two others.

    `neighbours` are a row and its two others each, -1 for one that is not there. The rows stay at
    length 1."""
    np = numpy()
    if not neighbours:
        return vectors
    padded = np.vstack([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
    rows, before, after = np.array(neighbours).T
    sums = vectors.copy()
    sums[rows] += weight * (padded[before] + padded[after])
    return _scaled(sums)


def cosines(vector: Sequence[float], vectors: Any) -> list[float]:
    """Return the cosine of a vector to each row of vectors of length 1.

    It is not a number where either has no direction, being all zeros."""
    found: list[float] = (vectors @ _unit(vector)).tolist()
    return found


def best_cosines(
    vector: Sequence[float], vectors: Any, sentences: bytes, counts: Sequence[int]
) -> list[float]:
    """Return the greater cosine of a vector to each row or to the row's nearest sentence.

    `sentences` are the signs of all sentences, `counts` says how many each row has."""
    np = numpy()
    unit = _unit(vector)
    best = vectors @ unit
    if sentences:
        signs = np.unpackbits(
            np.frombuffer(sentences, np.uint8).reshape(sum(counts), -1), axis=1, count=len(unit)
        )
        found = (2 * (signs @ unit) - unit.sum()) / (SIGN_COSINE * sqrt(len(unit)))
        np.maximum.at(best, np.repeat(np.arange(len(best)), counts), found)
    result: list[float] = best.tolist()
    return result


def _unit(vector: Sequence[float]) -> Any:
    np = numpy()
    return _scaled(np.asarray(vector, dtype=np.float32)[None])[0]


def _scaled(vectors: Any) -> Any:
    np = numpy()
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.where(norms > 0, norms, np.nan)[:, None]
