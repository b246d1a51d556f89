"""Models whose waiting time counts for the call or job, and shows in its trace."""

from collections.abc import Sequence
from time import perf_counter

from memsvc.core.call_context import current_call
from memsvc.core.ports import Embedder, Llm, Meter, Output, Reranker


class InstrumentedLlm:
    """The same model, measured."""

    def __init__(self, llm: Llm) -> None:
        self.model = llm.model
        self._llm = llm

    async def complete(self, instructions: str, text: str, *, output_tokens_max: int) -> str:
        """Return what the model writes."""
        with current_call().timer("model", "model", "complete", model=self.model):
            return await self._llm.complete(instructions, text, output_tokens_max=output_tokens_max)

    async def extract(
        self, instructions: str, text: str, output: type[Output], *, output_tokens_max: int
    ) -> Output:
        """Return what the model finds."""
        with current_call().timer("model", "model", "extract", model=self.model):
            return await self._llm.extract(
                instructions, text, output, output_tokens_max=output_tokens_max
            )


class InstrumentedEmbedder:
    """The same embedder, measured."""

    def __init__(self, embedder: Embedder) -> None:
        self.model = embedder.model
        self._embedder = embedder

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


class InstrumentedReranker:
    """The same reranker, measured and counted."""

    def __init__(self, reranker: Reranker, meter: Meter) -> None:
        self._reranker = reranker
        self._meter = meter

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text."""
        started, status = perf_counter(), "error"
        try:
            with current_call().timer("model", "rerank", texts=len(texts)):
                scores = await self._reranker(question, texts)
            status = "success"
        finally:
            self._meter.add("memsvc_rerank_calls_total", status=status)
            self._meter.add("memsvc_rerank_duration_ms", (perf_counter() - started) * 1000)
        return scores
