"""All that this style publishes, put together."""

from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.listing import Listing
from memsvc.styles.turns.maintenance import Maintenance
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_tools import turn_tools
from memsvc.styles.turns.turns import TurnMemory


def published(
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: TurnOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
) -> Published:
    """The memory tools, and the jobs that follow turns. `llm` is the model that reads them, if one shall."""
    del llm
    follow_up = FollowUp([], clock, embeds=embedding is not None)
    memory = TurnMemory(database, clock, tokens, meter, options, follow_up=follow_up, embedding=embedding)
    maintenance = Maintenance(database, clock, options)
    return Published(
        tools=turn_tools(memory, maintenance, Listing(database), clock, options),
        jobs=[*follow_up.jobs],
    )
