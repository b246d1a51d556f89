"""All tools and jobs of this style."""

from importlib.resources import files as resources

from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.resources import Guide
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
from memsvc.styles.knowledge.show_tool import show_tool
from memsvc.styles.knowledge.showing import Showing
from memsvc.styles.knowledge.standing import Standings
from memsvc.styles.model_budget import ModelBudget


def published(
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: KnowledgeOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the elfmem tools, and the job that consolidates."""
    book = Book(database, clock, options, embedding)
    judging = Judging(budget or ModelBudget(database, clock, 0), tokens, meter, options, llm)
    curating = Curating(book)
    dreaming = Dreaming(book, judging, curating, tokens)
    standings, remembering = Standings(book), Remembering(book)
    return Published(
        tools=[
            *memory_tools(
                remembering,
                Recall(book, tokens, meter),
                standings,
                Outcomes(book),
                curating,
                dreaming,
                waits=llm is not None and options.judge_with_model,
            ),
            *block_tools(remembering, standings, Linking(book)),
            show_tool(Showing(book)),
        ],
        jobs=[dreaming.job],
        guides=(_guide(),),
    )


def _guide() -> Guide:
    return Guide(
        name="memsvc:knowledge",
        title="Learn from your own work",
        description="How to remember, recall and weigh what an agent learns.",
        tools=("elfmem_remember", "elfmem_recall", "elfmem_outcome", "elfmem_status"),
        text=resources(__package__).joinpath("knowledge_guide.md").read_text("utf-8"),
    )
