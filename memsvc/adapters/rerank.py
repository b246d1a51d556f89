"""Reranking by an endpoint with Cohere's rerank API: theirs, or a compatible server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import isfinite
from typing import Any, Final

from memsvc.adapters.endpoint import Endpoint
from memsvc.adapters.options import RerankOptions
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Reranker

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
    async with Endpoint(SECTION, options.endpoint, options.api_key) as endpoint:
        yield HttpReranker(endpoint, options)


class HttpReranker:
    """The `Reranker` that calls an endpoint, once, within its time limit."""

    def __init__(self, endpoint: Endpoint, options: RerankOptions) -> None:
        self._endpoint = endpoint
        self._options = options

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return scores in the order of the texts; any failure is UNAVAILABLE."""
        if not texts:
            return []
        body = {
            "model": self._options.model,
            "query": _sent(question),
            "documents": [_sent(text) for text in texts],
            "top_n": len(texts),
        }
        try:
            answer = await self._endpoint.post(
                body,
                timeout_s=self._options.timeout_ms / 1000,
                answer_bytes_max=ANSWER_BYTES_BASE + len(texts) * RESULT_BYTES_MAX,
            )
        except MemsvcError as error:
            if error.code is Code.UNAVAILABLE:
                raise
            raise MemsvcError(Code.UNAVAILABLE, error.message, recovery=error.recovery) from error
        scores = _scores(answer, len(texts))
        if scores is None:
            raise self._endpoint.unavailable("answered other results than one score for each text")
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
