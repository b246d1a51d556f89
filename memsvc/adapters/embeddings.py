"""Vectors from an endpoint with OpenAI's embeddings API: theirs, or a compatible server."""

import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import isfinite, sqrt
from time import monotonic
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from memsvc.adapters.endpoint import Endpoint
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.urls import absolute_url

SECTION: Final = "embeddings"
DEFAULT_API_HOST: Final = "api.openai.com"
DIMENSIONS_MAX: Final = 8192
BATCH_CHARS_MAX: Final = 100_000
"""Maximum characters of one request, to stay within the tokens that providers accept."""
NUMBER_BYTES_MAX: Final = 32
ANSWER_BYTES_BASE: Final = 2**20
BACKOFF_S: Final = 0.5
BACKOFF_S_MAX: Final = 8.0


class EmbeddingOptions(BaseModel):
    """Options of embeddings; without a provider, recall and search go by words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["", "openai", "local"] = Field(
        "",
        description="openai: an endpoint that speaks OpenAI's embeddings; local: a model in"
        " folder; empty: none",
    )
    base_url: str = Field(
        "https://api.openai.com/v1", description="URL of the endpoint, /embeddings left out"
    )
    api_key: str = Field("", repr=False, description="key of the endpoint; empty: none is sent")
    model: str = Field(
        "text-embedding-3-small", min_length=1, max_length=200, description="model to ask for"
    )
    dimensions: int = Field(
        0, ge=0, le=DIMENSIONS_MAX, description="length of a vector; 0: as the model has it"
    )
    batch_size: int = Field(32, ge=1, le=2048, description="texts in one request at the most")
    chars_max: int = Field(
        8000, ge=100, le=100_000, description="characters of a text that are read; the rest is cut"
    )
    timeout_ms: int = Field(
        60_000, ge=1, description="how long the vectors of one request may take, retries included"
    )
    question_timeout_ms: int = Field(
        1500, ge=1, description="how long a search waits for the vector of its question"
    )
    retries: int = Field(
        4, ge=0, le=20, description="further attempts when the endpoint is busy or out of reach"
    )
    document_prefix: str = Field(
        "", max_length=1000, description="put before each stored text, such as `passage: `"
    )
    question_prefix: str = Field(
        "", max_length=1000, description="put before each question, such as `query: `"
    )
    folder: str = Field("", description="folder of the local model: tokenizer.json and model.onnx")

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, value: str) -> str:
        return absolute_url(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "openai" and not self.base_url:
            raise ValueError("provider openai needs base_url")
        if (
            self.provider == "openai"
            and not self.api_key
            and urlsplit(self.base_url).hostname == DEFAULT_API_HOST
        ):
            raise ValueError(f"provider openai at {DEFAULT_API_HOST} needs api_key")
        if self.provider == "local" and not self.folder:
            raise ValueError("provider local needs folder")
        return self

    def document(self, text: str) -> str:
        """Return a stored text as the model reads it."""
        return _clean(f"{self.document_prefix}{text[: self.chars_max]}")

    def question(self, text: str) -> str:
        """Return a question as the model reads it."""
        return _clean(f"{self.question_prefix}{text[: self.chars_max]}")

    def model_name(self, name: str, dimensions: int) -> str:
        """Return what marks vectors as comparable: provider, model, length, and text prefix."""
        parts = [self.provider, name, str(dimensions)] if dimensions else [self.provider, name]
        if self.document_prefix:
            parts.append(blake2b(self.document_prefix.encode(), digest_size=4).hexdigest())
        return "/".join(parts)


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


def _clean(text: str) -> str:
    """Remove what JSON cannot carry; never return an empty text, which providers reject."""
    return text.encode(errors="replace").decode() if text.strip() else "-"
