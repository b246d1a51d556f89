"""What the core asks of the outside world: the time, how long a text is for a model, and what it is like."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from pydantic import BaseModel

from memsvc.core.scope import Scope

Output = TypeVar("Output", bound=BaseModel)


class Clock(Protocol):
    """The time, aware and in UTC."""

    def now(self) -> datetime: ...


class TokenCounter(Protocol):
    """Counts tokens as the models of the o200k family do."""

    def count(self, text: str) -> int: ...


class Embedder(Protocol):
    """Turns texts into vectors of one length, whose cosine says how alike they are.

    `model` names provider, model and dimension: vectors of another model are never compared with these. Raises
    UNAVAILABLE when the model is out of reach or too slow, and INTERNAL_ERROR when it answers something else.
    """

    model: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text that is stored."""
        ...

    async def embed_question(self, text: str) -> list[float]:
        """The vector of what is asked, within the time that a caller can wait."""
        ...


class Reranker(Protocol):
    """Reads a question and a few texts together and says how well each text answers it.

    Slower and better than comparing vectors. Raises UNAVAILABLE when it cannot do so in time.
    """

    async def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """A score for each text, in the order of the texts; greater is better."""
        ...


class Llm(Protocol):
    """A language model that is told what to do with a text. What it answers is as trustworthy as the text.

    `model` names provider and model. Raises UNAVAILABLE when the model is out of reach, busy or too slow, or does not
    take the key, which an operator can mend; INTERNAL_ERROR when it refuses, as an `UnusableAnswerError` where it
    answers something else than it was asked for; no message holds anything of the text or the answer.
    """

    model: str

    async def complete(self, instructions: str, text: str, *, output_tokens_max: int) -> str:
        """What it writes about a text, not blank; cut off where it came to the limit of tokens."""
        ...

    async def extract(self, instructions: str, text: str, output: type[Output], *, output_tokens_max: int) -> Output:
        """What it finds in a text, in the shape asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage of a file that answers a question, with the bytes of the file that it is, and when that was last
    written."""

    path: str
    start_bytes: int
    end_bytes: int
    text: str
    score: float
    updated_at: datetime


class Passages(Protocol):
    """Finds passages of the files of one kind in a project: those of callers, or those that a style keeps."""

    async def __call__(self, scope: Scope, question: str, limit: int, *, user: str = "") -> Sequence[Cited]:
        """The best passages for a question, best first; none for a blank one. Of files that are somebody's, only those
        of this user."""
        ...


class Meter(Protocol):
    """Counts what operators watch; `name` is one of the published metric names, labels are from closed sets."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None: ...
