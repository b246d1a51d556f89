"""Everything that this style publishes, assembled."""

from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.memories.memory_extraction import MemoryExtraction
from memsvc.styles.memories.memory_writer import MemoryEvents, MemoryWriter, index_for
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.project_settings import ProjectSettings
from memsvc.styles.memories.user_memories import MemorySearch, UserMemories
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.passage_search import EntrySearch


def published(
    database: Database,
    clock: Clock,
    meter: Meter,
    options: MemoriesOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the tools over memories.

    A model finds memories in conversations; without one, rules do.
    """
    settings = ProjectSettings(database, options)
    writer = MemoryWriter(per_user_max=options.per_user_max, users_max=options.users_max)
    search = MemorySearch(meter, embedding)
    budget = budget or ModelBudget(database, clock, 0)
    extraction = MemoryExtraction(
        database,
        clock,
        meter,
        options,
        writer=writer,
        search=search,
        settings=settings,
        llm=llm,
        budget=budget,
    )
    memories = UserMemories(database, clock, writer, search, settings, options)
    return Published(
        tools=[
            *tools_of(extraction, has_model=llm is not None),
            *tools_of(memories),
            *tools_of(settings),
        ],
        jobs=[],
        events=MemoryEvents(database),
        passages=EntrySearch(database, lambda user: index_for(user).name),
    )
