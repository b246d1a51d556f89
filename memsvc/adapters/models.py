"""Models that the settings name: their openers, reranking, and measurement of their time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from anyio import to_thread

from memsvc.adapters.endpoint import Endpoint
from memsvc.adapters.options import KEYS, ModelOptions, RerankOptions, read_key
from memsvc.core.call_context import current_call
from memsvc.core.errors import Code, MemsvcError, invalid, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.ports import Embedder, Head, Meter, Reranker

if TYPE_CHECKING:
    from memsvc.adapters.model_client import ModelClient

_DEFAULT_HOSTS: Final = frozenset(("", "api.openai.com", "api.anthropic.com"))


@asynccontextmanager
async def llm(
    options: ModelOptions, meter: Meter, section: str = "model"
) -> AsyncIterator["ModelClient | None"]:
    """Open the model, or None without a name; its connections are closed with the block.

    `section` is its section of the settings, for messages. Raises INVALID_ARGUMENT where the
    packages that it needs are missing, or the key that a provider's own endpoint always requires;
    an endpoint is not called before it is needed. The model packages are imported here and not
    before: they take seconds and tens of megabytes.
    """
    if not options.model:
        yield None
        return
    if not options.key and (urlsplit(options.base_url).hostname or "") in _DEFAULT_HOSTS:
        variable = KEYS[options.model.partition(":")[0]]
        raise invalid(
            f"the model in section {section} has no API key",
            recovery=f"set {section}.api_key or {variable}",
        )
    async with await to_thread.run_sync(_client, options, meter, section) as client:
        yield client


def _client(options: ModelOptions, meter: Meter, section: str) -> "ModelClient":
    try:
        from memsvc.adapters.model_client import ModelClient  # noqa: PLC0415
    except ImportError as error:
        raise invalid(
            "packages for language models are not installed",
            recovery="install memsvc[model]",
        ) from error
    return ModelClient(options, meter, section)


SECTION: Final = "rerank"
TEXT_CHARS_MAX: Final = 8000
"""Characters of a question or text that are sent; models of this kind read less."""
ANSWER_BYTES_BASE: Final = 2**20
RESULT_BYTES_MAX: Final = 16 * TEXT_CHARS_MAX
"""Bytes for one result of an endpoint that repeats the text."""


@asynccontextmanager
async def reranker(options: RerankOptions) -> AsyncIterator[Reranker | None]:
    """Open the reranker, or None without an endpoint; it is closed with the block."""
    if not options.endpoint:
        yield None
        return
    key = read_key(SECTION, options.api_key)
    async with Endpoint(SECTION, options.endpoint, key) as endpoint:
        yield HttpReranker(endpoint, options)


@frozen
class HttpReranker:
    """The `Reranker` that calls an endpoint, once, within its time limit."""

    endpoint: Endpoint
    options: RerankOptions

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return scores in the order of the texts; any failure is UNAVAILABLE."""
        if not texts:
            return []
        body = {
            "model": self.options.model,
            "query": _sent(question),
            "documents": [_sent(text) for text in texts],
            "top_n": len(texts),
        }
        try:
            answer = await self.endpoint.post(
                body,
                timeout_s=self.options.timeout_ms / 1000,
                answer_bytes_max=ANSWER_BYTES_BASE + len(texts) * RESULT_BYTES_MAX,
            )
        except MemsvcError as error:
            if error.code is Code.UNAVAILABLE:
                raise
            raise unavailable(error.message, recovery=error.recovery) from error
        scores = _scores(answer, len(texts))
        if scores is None:
            raise self.endpoint.unavailable("did not return one score for each text")
        return scores


def _scores(answer: Any, count: int) -> list[float] | None:
    """Return the scores by index; None unless each text has one finite score."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if (
        not isinstance(results, list)
        or len(results) != count
        or not all(isinstance(one, dict) for one in results)
    ):
        return None
    scores: dict[int, float] = {}
    for one in results:
        index, score = one.get("index"), one.get("relevance_score")
        if type(index) is not int or type(score) not in (int, float) or not isfinite(score):
            return None
        scores[index] = float(score)
    return [scores[at] for at in range(count)] if scores.keys() == set(range(count)) else None


def _sent(text: str) -> str:
    return text[:TEXT_CHARS_MAX].encode(errors="replace").decode()


class InstrumentedEmbedder:
    """The same embedder, measured."""

    def __init__(self, embedder: Embedder) -> None:
        self.model = embedder.model
        self.in_process = embedder.in_process
        self.unrelated_cosine = embedder.unrelated_cosine
        self._embedder = embedder

    @property
    def is_ready(self) -> bool:
        """Return whether nothing has to be loaded before the next vector."""
        return self._embedder.is_ready

    async def load(self) -> None:
        """Load what has to be."""
        await self._embedder.load()

    def log_odds(self, head: Head, vector: Sequence[float]) -> float | None:
        """Return the log-odds that a text of this vector is what a head judges, if known."""
        return self._embedder.log_odds(head, vector)

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        """Return a query's vector without what is common to all queries."""
        return self._embedder.specific(vector)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        with current_call().timer(
            "model", "embedding", "document", model=self.model, texts=len(texts)
        ):
            return await self._embedder.embed(texts)

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question."""
        with current_call().timer("model", "embedding", "question", model=self.model, texts=1):
            return await self._embedder.embed_question(text)


@frozen
class InstrumentedReranker:
    """The same reranker, measured and counted."""

    reranker: Reranker
    meter: Meter

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text."""
        started, status = perf_counter(), "error"
        try:
            with current_call().timer("model", "rerank", texts=len(texts)):
                scores = await self.reranker(question, texts)
            status = "success"
        finally:
            self.meter.add("memsvc_rerank_calls_total", status=status)
            self.meter.add("memsvc_rerank_duration_ms", (perf_counter() - started) * 1000)
        return scores
