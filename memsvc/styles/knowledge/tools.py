"""All tools and jobs of this style."""

from typing import Final

from memsvc.core.package_texts import package_text
from memsvc.core.resources import Guide
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Job, Published
from memsvc.store.knowledge_blocks import INDEX_NAME
from memsvc.styles.knowledge.block_edges import EdgeEditor, OutcomeService
from memsvc.styles.knowledge.block_index import CONSOLIDATION_JOB, BlockIndex, BlockStore
from memsvc.styles.knowledge.block_recall import RecallService
from memsvc.styles.knowledge.curate import BlockDetailsReader, CurateService, StatusReader
from memsvc.styles.knowledge.dream import DreamService
from memsvc.styles.knowledge.judge import JudgeService
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.passage_search import EntrySearch
from memsvc.styles.services import StyleServices

GUIDE: Final = Guide(
    name="memsvc:knowledge",
    title="Learn from your own work",
    description="How to remember, recall and rate what an agent learns.",
    tools=("elfmem_remember", "elfmem_recall", "elfmem_outcome", "elfmem_status"),
    text=package_text(__package__, "knowledge_guide.md"),
)


def published(services: StyleServices, options: KnowledgeOptions) -> Published:
    """Return the elfmem tools, and the job that consolidates."""
    tokens, meter = services.tokens, services.meter
    index = BlockIndex(services.database, services.clock, options, services.embedding)
    judge_llm = services.llm if options.judge_with_model else None
    judge_service = JudgeService(services.budget, tokens, meter, options, judge_llm)
    curate_service = CurateService(index)
    dream_service = DreamService(index, judge_service, curate_service, tokens)
    return Published(
        tools=[
            *tools_of(BlockStore(index)),
            *tools_of(RecallService(index, tokens, meter)),
            *tools_of(StatusReader(index)),
            *tools_of(OutcomeService(index)),
            *tools_of(curate_service),
            *tools_of(dream_service, has_model=judge_llm is not None),
            *tools_of(EdgeEditor(index)),
            *tools_of(BlockDetailsReader(index)),
        ],
        jobs=[Job(CONSOLIDATION_JOB, dream_service.run_job)],
        guides=(GUIDE,),
        passages=EntrySearch(services.database, lambda _: INDEX_NAME),
    )
