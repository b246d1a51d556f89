"""Vectors from an endpoint with OpenAI's embeddings API or from a model on this machine."""

import importlib
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from hashlib import file_digest
from math import isfinite, sqrt
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self, assert_never

import anyio
from anyio import CapacityLimiter, to_thread

from memsvc.adapters.endpoint import Endpoint
from memsvc.adapters.options import DIMENSIONS_MAX, EmbeddingOptions, read_key
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.core.errors import Code, MemsvcError, invalid, unavailable
from memsvc.core.ports import Embedder, Head

SECTION: Final = "embeddings"
BATCH_CHARS_MAX: Final = 100_000
"""Maximum characters of one request, to stay within the tokens that providers accept."""
NUMBER_BYTES_MAX: Final = 32
ANSWER_BYTES_BASE: Final = 2**20
BACKOFF_S: Final = 0.5
BACKOFF_S_MAX: Final = 8.0


class HttpEmbedder:
    """The `Embedder` that calls an endpoint; vectors always have length 1."""

    in_process = False
    is_ready = True
    unrelated_cosine = None

    def __init__(self, endpoint: Endpoint, options: EmbeddingOptions) -> None:
        self.model = options.model_name(options.model, options.dimensions)
        self._endpoint = endpoint
        self._options = options
        self._dimensions = options.dimensions

    async def load(self) -> None:
        """Nothing has to be loaded."""

    @classmethod
    def endpoint(cls, options: EmbeddingOptions) -> Endpoint:
        """Return the endpoint of the options; the caller closes it."""
        key = read_key(SECTION, options.api_key)
        return Endpoint(SECTION, f"{options.base_url}/embeddings", key)

    def log_odds(self, head: Head, vector: Sequence[float]) -> None:
        """No head was trained on this model's vectors."""

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        """Return the vector: nothing is known of this model's questions."""
        return vector

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors in the order of the texts, in batches, each with retries."""
        vectors: list[list[float]] = []
        for batch in batches(texts, self._options):
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
        raise AssertionError("the last attempt always returns or raises")

    def _wait_s(self, attempt: int, error: MemsvcError) -> float:
        """Return the wait before a retry: exponential backoff with jitter, or Retry-After."""
        backoff_s = min(BACKOFF_S * 2.0**attempt, BACKOFF_S_MAX) * random.uniform(0.5, 1.0)  # noqa: S311
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
            raise self._endpoint.wrong(f"returned vectors that do not have {dimensions} dimensions")
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
            raise self._endpoint.wrong("did not return one vector for each text")
        numbers = [one.get("index", at) for at, one in enumerate(found)]
        if any(type(number) is not int for number in numbers) or sorted(numbers) != list(
            range(count)
        ):
            raise self._endpoint.wrong("returned vectors whose indexes do not match the texts")
        by_index = dict(zip(numbers, found, strict=True))
        return [by_index[at].get("embedding") for at in range(count)]

    def _vector(self, numbers: Any) -> list[float]:
        if not (
            isinstance(numbers, list)
            and 0 < len(numbers) <= DIMENSIONS_MAX
            and all(type(number) in (int, float) for number in numbers)
        ):
            raise self._endpoint.wrong("returned a vector that is not a list of numbers")
        vector = unit([float(number) for number in numbers])
        if vector is None:
            raise self._endpoint.wrong("returned a vector with infinite values or only zeros")
        return vector


def unit(vector: Sequence[float]) -> list[float] | None:
    """Return the vector of length 1 in the same direction; None where there is none."""
    max_value = max(map(abs, vector))
    if not (isfinite(sum(vector)) and 0 < max_value < float("inf")):
        return None
    normalized = [number / max_value for number in vector]
    length = sqrt(sum(number * number for number in normalized))
    return [number / length for number in normalized]


def batches(texts: Sequence[str], options: EmbeddingOptions) -> Iterator[list[str]]:
    """Yield the texts as the model reads them, in batches of limited count and size if possible."""
    batch: list[str] = []
    chars = 0
    for text in map(options.document, texts):
        if batch and (len(batch) == options.batch_size or chars + len(text) > BATCH_CHARS_MAX):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch


MODEL_FILES: Final = (
    "model.onnx",
    "model_quantized.onnx",
    "onnx/model.onnx",
    "onnx/model_quantized.onnx",
)
TOKENIZER_FILE: Final = "tokenizer.json"
TOKENS_MAX: Final = 512
"""Default for tokenizers without a limit of their own."""
INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
SENTENCE_OUTPUT: Final = "sentence_embedding"
TOKENS_OUTPUT: Final = "last_hidden_state"


class LocalEmbedder:
    """The `Embedder` that runs a model in threads.

    The event loop stays free, and questions do not wait for documents.
    """

    in_process = False
    is_ready = True
    unrelated_cosine = None

    def __init__(self, session: Any, tokenizer: Any, model: str, options: EmbeddingOptions) -> None:
        self.model = model
        self._numpy: Any = importlib.import_module("numpy")
        self._session = session
        self._tokenizer = tokenizer
        self._options = options
        self._inputs = [one.name for one in session.get_inputs()]
        output_names = [one.name for one in session.get_outputs()]
        self._output = next(
            (name for name in (SENTENCE_OUTPUT, TOKENS_OUTPUT) if name in output_names),
            output_names[0],
        )
        self._documents = CapacityLimiter(1)
        self._questions = CapacityLimiter(2)

    async def load(self) -> None:
        """Nothing is left to be loaded."""

    @classmethod
    async def open(cls, options: EmbeddingOptions) -> Self:
        """Read the model of the options' folder.

        INVALID_ARGUMENT, with advice, when it is unusable.
        """
        return await to_thread.run_sync(cls._load, options)

    @classmethod
    def _load(cls, options: EmbeddingOptions) -> Self:
        folder = Path(options.folder)
        path = next((path for name in MODEL_FILES if (path := folder / name).is_file()), None)
        path = path or next(iter(sorted((folder / "onnx").glob("*.onnx"))), None)
        if path is None or not (folder / TOKENIZER_FILE).is_file():
            raise invalid(
                "the folder of the local model lacks model.onnx or tokenizer.json",
                recovery="set embeddings.folder to the folder of a sentence-transformers model"
                " that was exported to ONNX",
            )
        try:
            runtime: Any = importlib.import_module("onnxruntime")
            tokenizer_module: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise invalid(
                "packages for local models are not installed", recovery="install memsvc[local]"
            ) from error
        try:
            session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            tokenizer = tokenizer_module.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        # both libraries raise bare Exception or types of their own without a common base
        except Exception as error:
            raise invalid(
                "cannot read the files of the local model",
                recovery="export the local model to ONNX again",
            ) from error
        _prepare(tokenizer)
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()[:12]
        embedder = cls(
            session,
            tokenizer,
            options.model_name(f"{folder.name}@{digest}", options.dimensions),
            options,
        )
        embedder._check()
        return embedder

    def _check(self) -> None:
        """Run it once, so that an unsuitable model is found at the start and not by a job."""
        unknown = sorted(set(self._inputs) - INPUTS)
        if unknown or "input_ids" not in self._inputs:
            raise invalid(
                "the local model requires inputs that memsvc does not supply: "
                + ", ".join(unknown),
                recovery="set embeddings.folder to the folder of a sentence-transformers model",
            )
        try:
            (vector,) = self._run(["-"])
        # whatever the runtime raises, the model is not one that we can use
        except Exception as error:
            raise invalid(
                "the local model failed in a test run",
                recovery="export the local model to ONNX again",
            ) from error
        if len(vector) > DIMENSIONS_MAX or self._options.dimensions not in (0, len(vector)):
            raise invalid(
                f"the vectors of the local model have {len(vector)} dimensions, but"
                f" embeddings.dimensions is {self._options.dimensions}",
                recovery="set embeddings.dimensions to the model's number of dimensions, or to 0"
                " to accept any number",
            )

    def log_odds(self, head: Head, vector: Sequence[float]) -> None:
        """No head was trained on this model's vectors."""

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        """Return the vector: nothing is known of this model's questions."""
        return vector

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors in the order of the texts, one batch at a time."""
        vectors: list[list[float]] = []
        for batch in batches(texts, self._options):
            vectors += await self._in_thread(batch, self._documents)
        return vectors

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question; UNAVAILABLE when the machine is too busy."""
        try:
            with anyio.fail_after(self._options.question_timeout_ms / 1000):
                (vector,) = await self._in_thread([self._options.question(text)], self._questions)
        except TimeoutError as error:
            raise unavailable(
                "the local model did not return a vector within embeddings.question_timeout_ms",
                retry_after_s=1.0,
            ) from error
        return vector

    async def _in_thread(self, texts: list[str], limiter: CapacityLimiter) -> list[list[float]]:
        return await to_thread.run_sync(self._run, texts, abandon_on_cancel=True, limiter=limiter)

    def _run(self, texts: list[str]) -> list[list[float]]:
        numpy = self._numpy
        encoded = self._tokenizer.encode_batch(texts)
        columns = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        token_weights = numpy.array(columns["attention_mask"], dtype="int64")
        inputs = {name: numpy.array(columns[name], dtype="int64") for name in self._inputs}
        (output,) = self._session.run([self._output], inputs)
        embeddings = numpy.asarray(output, dtype="float32")
        if embeddings.ndim == 3:  # the mean over the tokens that are no padding
            weights = token_weights[:, :, None].astype("float32")
            embeddings = (embeddings * weights).sum(axis=1) / numpy.maximum(
                weights.sum(axis=1), 1e-9
            )
        norm = numpy.linalg.norm(embeddings, axis=1, keepdims=True)
        if embeddings.ndim != 2 or not numpy.isfinite(norm).all() or not norm.all():
            raise MemsvcError(
                Code.INTERNAL_ERROR,
                "the local model returned a vector with infinite values or only zeros",
            )
        vectors: list[list[float]] = (embeddings / norm).tolist()
        return vectors


def _prepare(tokenizer: Any) -> None:
    """Pad to the longest of a batch, as many tokenizers pad to a fixed length; cut at the limit."""
    padding = tokenizer.padding or {}
    tokenizer.enable_padding(
        **{
            name: padding[name]
            for name in ("pad_id", "pad_type_id", "pad_token")
            if name in padding
        }
    )
    limit = (tokenizer.truncation or {}).get("max_length", TOKENS_MAX)
    tokenizer.enable_truncation(limit)


@asynccontextmanager
async def embedder(
    options: EmbeddingOptions, data_dir: Path | None = None
) -> AsyncIterator[Embedder | None]:
    """Open the embedder, or None without a provider; its resources are closed with the block.

    Processes that share a `data_dir` share the memory of the bundled one.

    Raises INVALID_ARGUMENT when a local model cannot be loaded or a key read; an endpoint is not
    called before it is needed.
    """
    match options.provider:
        case "":
            yield None
        case "bundled":
            yield SentenceEncoder(options, data_dir)
        case "openai":
            async with HttpEmbedder.endpoint(options) as endpoint:
                yield HttpEmbedder(endpoint, options)
        case "local":
            yield await LocalEmbedder.open(options)
        case _:
            assert_never(options.provider)
