"""What every style is given."""

from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.model_budget import ModelBudget


@frozen
class StyleServices:
    """Services that the tools and jobs of a style are made of; the models are optional."""

    database: Database
    clock: Clock
    tokens: TokenCounter
    meter: Meter
    budget: ModelBudget
    embedding: Embedding | None = None
    llm: Llm | None = None
