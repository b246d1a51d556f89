"""Vectors as they are stored: a signed byte for each number, and a bit for each sign.

A byte loses nothing of a cosine that a ranking would notice. numpy is loaded with the first vector,
as most commands need none.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

LARGEST = 127


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


def unpack(packed: bytes) -> list[float]:
    """Return a stored vector, at length 1."""
    numbers: list[float] = units(packed, len(packed))[0].tolist()
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
    np = numpy()
    found: list[float] = (vectors @ _scaled(np.asarray(vector, dtype=np.float32)[None])[0]).tolist()
    return found


def _scaled(vectors: Any) -> Any:
    np = numpy()
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.where(norms > 0, norms, np.nan)[:, None]
