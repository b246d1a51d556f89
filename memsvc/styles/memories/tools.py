"""Everything that this style publishes, assembled."""

from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Published
from memsvc.styles.memories.memory_extraction import MemoryExtraction
from memsvc.styles.memories.memory_writer import MemoryEvents, MemoryWriter, index_for
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.user_memories import MemorySearch, ProjectSettings, UserMemories
from memsvc.styles.passage_search import EntrySearch
from memsvc.styles.services import StyleServices


def published(services: StyleServices, options: MemoriesOptions) -> Published:
    """Return the tools over memories.

    A model finds memories in conversations; without one, rules do.
    """
    database, clock, meter = services.database, services.clock, services.meter
    settings = ProjectSettings(database, options)
    writer = MemoryWriter(per_user_max=options.per_user_max, users_max=options.users_max)
    search = MemorySearch(meter, services.embedding)
    extraction = MemoryExtraction(
        database,
        clock,
        meter,
        options,
        writer=writer,
        search=search,
        settings=settings,
        llm=services.llm,
        budget=services.budget,
    )
    memories = UserMemories(database, clock, writer, search, settings, options)
    return Published(
        tools=[
            *tools_of(extraction, has_model=services.llm is not None),
            *tools_of(memories),
            *tools_of(settings),
        ],
        jobs=[],
        events=MemoryEvents(database),
        users_found=memories.users_found,
        passages=EntrySearch(database, lambda user: index_for(user).name),
    )
