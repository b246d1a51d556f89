"""All tools and jobs of this style."""

from importlib.resources import files as resources

from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.resources import Guide
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.knowledge.block_details import BlockDetailsReader
from memsvc.styles.knowledge.block_index import BlockIndex
from memsvc.styles.knowledge.block_outcomes import OutcomeService
from memsvc.styles.knowledge.block_recall import RecallService
from memsvc.styles.knowledge.block_store import BlockStore
from memsvc.styles.knowledge.block_tools import block_tools
from memsvc.styles.knowledge.curate import CurateService
from memsvc.styles.knowledge.dream import DreamService
from memsvc.styles.knowledge.edge_editor import EdgeEditor
from memsvc.styles.knowledge.judge import JudgeService
from memsvc.styles.knowledge.memory_status import StatusReader
from memsvc.styles.knowledge.memory_tools import memory_tools
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.knowledge.show_tool import show_tool
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
    index = BlockIndex(database, clock, options, embedding)
    judge_service = JudgeService(
        budget or ModelBudget(database, clock, 0), tokens, meter, options, llm
    )
    curate_service = CurateService(index)
    dream_service = DreamService(index, judge_service, curate_service, tokens)
    status_reader, block_store = StatusReader(index), BlockStore(index)
    return Published(
        tools=[
            *memory_tools(
                block_store,
                RecallService(index, tokens, meter),
                status_reader,
                OutcomeService(index),
                curate_service,
                dream_service,
                uses_model=llm is not None and options.judge_with_model,
            ),
            *block_tools(block_store, status_reader, EdgeEditor(index)),
            show_tool(BlockDetailsReader(index)),
        ],
        jobs=[dream_service.job],
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
