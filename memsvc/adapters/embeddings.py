"""Vectors from an endpoint with OpenAI's embeddings API: theirs, or a compatible server."""

import random
from collections.abc import Iterator, Sequence
from math import isfinite, sqrt
from time import monotonic
from typing import Any, Final

import anyio

from memsvc.adapters.endpoint import Endpoint
from memsvc.adapters.options import DIMENSIONS_MAX, EmbeddingOptions
from memsvc.core.errors import Code, MemsvcError

SECTION: Final = "embeddings"
BATCH_CHARS_MAX: Final = 100_000
"""Maximum characters of one request, to stay within the tokens that providers accept."""
NUMBER_BYTES_MAX: Final = 32
ANSWER_BYTES_BASE: Final = 2**20
BACKOFF_S: Final = 0.5
BACKOFF_S_MAX: Final = 8.0


class HttpEmbedder:
    """The `Embedder` that calls an endpoint; vectors always have length 1."""

    def __init__(
        self, endpoint: Endpoint, options: EmbeddingOptions, *, backoff_s: float = BACKOFF_S
    ) -> None:
        self.model = options.model_name(options.model, options.dimensions)
        self._endpoint = endpoint
        self._options = options
        self._backoff_s = backoff_s
        self._dimensions = options.dimensions

    @classmethod
    def endpoint(cls, options: EmbeddingOptions) -> Endpoint:
        """Return the endpoint of the options; the caller closes it."""
        return Endpoint(SECTION, f"{options.base_url}/embeddings", options.api_key)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors in the order of the texts, in batches, each with retries."""
        vectors: list[list[float]] = []
        for batch in batches(
            [self._options.document(text) for text in texts], self._options.batch_size
        ):
            vectors += await self._with_retries(batch)
        return vectors

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question, from one attempt within the time that a search waits."""
        (vector,) = await self._once(
            [self._options.question(text)], self._options.question_timeout_ms / 1000
        )
        return vector

    async def _with_retries(self, texts: list[str]) -> list[list[float]]:
        deadline = monotonic() + self._options.timeout_ms / 1000
        for attempt in range(self._options.retries + 1):
            try:
                return await self._once(texts, deadline - monotonic())
            except MemsvcError as error:
                if error.code is not Code.UNAVAILABLE or attempt == self._options.retries:
                    raise
                wait_s = self._wait_s(attempt, error)
                if monotonic() + wait_s >= deadline:
                    raise
            await anyio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def _wait_s(self, attempt: int, error: MemsvcError) -> float:
        """Return the wait before a retry: exponential backoff with jitter, or Retry-After."""
        backoff_s = min(self._backoff_s * 2.0**attempt, BACKOFF_S_MAX) * random.uniform(0.5, 1.0)  # noqa: S311
        return max(backoff_s, error.retry_after_s or 0.0)

    async def _once(self, texts: list[str], timeout_s: float) -> list[list[float]]:
        body: dict[str, Any] = {
            "model": self._options.model,
            "input": texts,
            "encoding_format": "float",
        }
        if self._options.dimensions:
            body["dimensions"] = self._options.dimensions
        numbers = len(texts) * (self._dimensions or DIMENSIONS_MAX)
        answer = await self._endpoint.post(
            body,
            timeout_s=timeout_s,
            answer_bytes_max=ANSWER_BYTES_BASE + numbers * NUMBER_BYTES_MAX,
        )
        vectors = [self._vector(one) for one in self._in_order(answer, len(texts))]
        dimensions = self._dimensions or len(vectors[0])
        if any(len(vector) != dimensions for vector in vectors):
            raise self._endpoint.wrong(f"answered vectors without {dimensions} dimensions")
        self._dimensions = dimensions
        return vectors

    def _in_order(self, answer: Any, count: int) -> list[Any]:
        """Return the embeddings sorted by their index; each index must occur once."""
        found = answer.get("data") if isinstance(answer, dict) else None
        if (
            not isinstance(found, list)
            or len(found) != count
            or not all(isinstance(one, dict) for one in found)
        ):
            raise self._endpoint.wrong("answered an unexpected number of vectors")
        numbers = [one.get("index", at) for at, one in enumerate(found)]
        if any(type(number) is not int for number in numbers) or sorted(numbers) != list(
            range(count)
        ):
            raise self._endpoint.wrong("numbered its vectors wrongly")
        by_index = dict(zip(numbers, found, strict=True))
        return [by_index[at].get("embedding") for at in range(count)]

    def _vector(self, numbers: Any) -> list[float]:
        if not isinstance(numbers, list) or not 0 < len(numbers) <= DIMENSIONS_MAX:
            raise self._endpoint.wrong("answered a vector that is not a list of numbers")
        if not all(type(number) in (int, float) for number in numbers):
            raise self._endpoint.wrong("answered a vector that is not a list of numbers")
        vector = unit([float(number) for number in numbers])
        if vector is None:
            raise self._endpoint.wrong("answered a vector whose numbers are not finite or all zero")
        return vector


def unit(vector: Sequence[float]) -> list[float] | None:
    """Return the vector of length 1 in the same direction; None where there is none."""
    max_value = max(map(abs, vector))
    if not (isfinite(sum(vector)) and 0 < max_value < float("inf")):
        return None
    normalized = [number / max_value for number in vector]
    length = sqrt(sum(number * number for number in normalized))
    return [number / length for number in normalized]


def batches(
    texts: Sequence[str], count_max: int, chars_max: int = BATCH_CHARS_MAX
) -> Iterator[list[str]]:
    """Yield the texts in order, in batches of limited count and, if possible, length."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == count_max or chars + len(text) > chars_max):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch
