"""All that this style publishes, put together."""

from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.knowledge.block_tools import block_tools
from memsvc.styles.knowledge.book import Book
from memsvc.styles.knowledge.curating import Curating
from memsvc.styles.knowledge.dreaming import Dreaming
from memsvc.styles.knowledge.judging import Judging
from memsvc.styles.knowledge.linking import Linking
from memsvc.styles.knowledge.memory_tools import memory_tools
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.knowledge.outcomes import Outcomes
from memsvc.styles.knowledge.recall import Recall
from memsvc.styles.knowledge.remembering import Remembering
from memsvc.styles.knowledge.standing import Standings


def published(
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: KnowledgeOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
) -> Published:
    """The elfmem tools, and the job that consolidates."""
    book = Book(database, clock, options, embedding)
    judging = Judging(database, clock, tokens, meter, options, llm)
    curating = Curating(book)
    dreaming = Dreaming(book, judging, curating, tokens)
    standings, remembering = Standings(book), Remembering(book)
    return Published(
        tools=[
            *memory_tools(remembering, Recall(book, tokens, meter), standings, Outcomes(book), curating, dreaming),
            *block_tools(remembering, standings, Linking(book)),
        ],
        jobs=[dreaming.job],
    )
