"""Ports of the core: the clock, token counts, embeddings, language models and metrics."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope

Output = TypeVar("Output", bound=BaseModel)
Head = Literal["memory", "change"]
"""A judgement of a vector: whether a question is about what the user said before, and whether a
message says that something is no longer as it was."""


class Clock(Protocol):
    """The time, aware and in UTC."""

    def now(self) -> datetime: ...


class TokenCounter(Protocol):
    """Counts tokens as the models of the o200k family do."""

    def count(self, text: str) -> int: ...


class Embedder(Protocol):
    """Text embedder whose vectors have one length; their cosine is the similarity.

    `model` names provider, model and dimension: vectors of another model are never compared with
    these. `in_process` says that a vector takes milliseconds of this process and nothing else, so
    that those of what is stored are stored with it. `unrelated_cosine` is what two texts have that
    have nothing to do with each other, where it was measured. Raises UNAVAILABLE when the model is
    out of reach or too slow, and INTERNAL_ERROR for an invalid answer."""

    model: str

    @property
    def in_process(self) -> bool: ...

    @property
    def unrelated_cosine(self) -> float | None: ...

    @property
    def is_ready(self) -> bool:
        """Return whether nothing has to be loaded before the next vector."""
        ...

    async def load(self) -> None:
        """Load what has to be."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text that is stored."""
        ...

    def log_odds(self, head: Head, vector: Sequence[float]) -> float | None:
        """Return the log-odds that a text of this vector is what a head judges, if known."""
        ...

    def specific(self, vector: Sequence[float]) -> Sequence[float]:
        """Return a query's vector without what is common to all queries, for ordering texts.

        The vector itself where that is not known."""
        ...

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a query, within the time that a caller can wait."""
        ...


class Reranker(Protocol):
    """Reranker that scores how well each text answers a question.

    Slower and better than comparing vectors. Raises UNAVAILABLE when it cannot do so in time."""

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, in the order of the texts; greater is better."""
        ...


class Llm(Protocol):
    """Language model that follows instructions about a text.

    Its output is as trustworthy as the text.

    `model` names provider and model. Raises UNAVAILABLE when the model is out of reach, busy or too
    slow, or rejects the key, which an operator can fix; INTERNAL_ERROR when it refuses, as an
    `ModelOutputError` where the output has the wrong form; no message holds anything of the text
    or the answer."""

    model: str

    async def complete(self, instructions: str, text: str, *, output_tokens_max: int) -> str:
        """Return the model's text, not blank; truncated at the token limit."""
        ...

    async def extract(
        self, instructions: str, text: str, output: type[Output], *, output_tokens_max: int
    ) -> Output:
        """Return the model's findings in the requested form."""
        ...


@frozen
class CitedPassage:
    """A passage of a file that answers a question, with its byte range and last write."""

    path: str
    start_bytes: int
    end_bytes: int
    text: str
    score: float
    updated_at: datetime


class PassageSearch(Protocol):
    """Search for passages in the files of one kind in a project: callers' files, or a style's."""

    async def __call__(
        self, scope: Scope, question: str, limit: int, *, user: str | None = ""
    ) -> Sequence[CitedPassage]:
        """Return the best passages for a question, best first; none for a blank one.

        For files that belong to users, only those of this user; None means all users."""
        ...


class Meter(Protocol):
    """Metrics for operators.

    `name` is a published metric name, labels are from closed sets."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None: ...
