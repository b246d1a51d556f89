"""Vectors from a model on this machine: a sentence-transformers model exported to ONNX."""

import importlib
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio import CapacityLimiter, to_thread

from memsvc.adapters.embeddings import batches
from memsvc.adapters.options import DIMENSIONS_MAX, EmbeddingOptions
from memsvc.core.errors import Code, MemsvcError

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

    def __init__(self, session: Any, tokenizer: Any, model: str, options: EmbeddingOptions) -> None:
        self.model = model
        self._array_module: Any = importlib.import_module("numpy")
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

    @classmethod
    async def load(cls, options: EmbeddingOptions) -> Self:
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
            raise _load_error(
                "the folder of the local model has no model.onnx and tokenizer.json",
                "let embeddings.folder name a sentence-transformers model that was exported to"
                " ONNX",
            )
        try:
            runtime: Any = importlib.import_module("onnxruntime")
            tokenizer_module: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise _load_error(
                "a local model needs packages that are missing", "install memsvc[local]"
            ) from error
        try:
            session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            tokenizer = tokenizer_module.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        # both libraries raise bare Exception or types of their own without a common base
        except Exception as error:
            raise _load_error(
                "the files of the local model cannot be read", "export the model again"
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
            raise _load_error(
                "the local model takes other inputs than texts: " + ", ".join(unknown),
                "let embeddings.folder name a sentence-transformers model",
            )
        try:
            (vector,) = self._run(["-"])
        # whatever the runtime raises, the model is not one that we can use
        except Exception as error:
            raise _load_error("the local model cannot be run", "export the model again") from error
        if len(vector) > DIMENSIONS_MAX or self._options.dimensions not in (0, len(vector)):
            raise _load_error(
                f"the local model has {len(vector)} dimensions, not {self._options.dimensions}",
                "set embeddings.dimensions to 0 or to what the model has",
            )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors in the order of the texts, one batch at a time."""
        vectors: list[list[float]] = []
        for batch in batches(
            [self._options.document(text) for text in texts], self._options.batch_size
        ):
            vectors += await self._in_thread(batch, self._documents)
        return vectors

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question; UNAVAILABLE when the machine is too busy."""
        try:
            with anyio.fail_after(self._options.question_timeout_ms / 1000):
                (vector,) = await self._in_thread([self._options.question(text)], self._questions)
        except TimeoutError as error:
            raise MemsvcError(
                Code.UNAVAILABLE, "the local model is too slow just now", retry_after_s=1.0
            ) from error
        return vector

    async def _in_thread(self, texts: list[str], limiter: CapacityLimiter) -> list[list[float]]:
        return await to_thread.run_sync(self._run, texts, abandon_on_cancel=True, limiter=limiter)

    def _run(self, texts: list[str]) -> list[list[float]]:
        encoded = self._tokenizer.encode_batch(texts)
        columns = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        token_weights = self._array_module.array(columns["attention_mask"], dtype="int64")
        inputs = {
            name: self._array_module.array(columns[name], dtype="int64") for name in self._inputs
        }
        (output,) = self._session.run([self._output], inputs)
        embeddings = self._array_module.asarray(output, dtype="float32")
        if embeddings.ndim == 3:  # the mean over the tokens that are no padding
            weights = token_weights[:, :, None].astype("float32")
            embeddings = (embeddings * weights).sum(axis=1) / self._array_module.maximum(
                weights.sum(axis=1), 1e-9
            )
        norm = self._array_module.linalg.norm(embeddings, axis=1, keepdims=True)
        if embeddings.ndim != 2 or not self._array_module.isfinite(norm).all() or not norm.all():
            raise MemsvcError(
                Code.INTERNAL_ERROR, "the local model made a vector that is not finite or all zero"
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


def _load_error(message: str, recovery: str) -> MemsvcError:
    return MemsvcError(Code.INVALID_ARGUMENT, message, recovery=recovery)
