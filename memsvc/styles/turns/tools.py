"""Everything that this style publishes."""

from collections.abc import Mapping

from memsvc.core.ports import Clock, Llm, Meter, Passages, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.fact_tools import FactTools, fact_tools
from memsvc.styles.turns.facts.forgetting import Forgetting
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.looking.looking_tools import LookingTools, looking_tools
from memsvc.styles.turns.looking.traces import Traces
from memsvc.styles.turns.migration.import_tools import import_tools
from memsvc.styles.turns.migration.importing import Importing
from memsvc.styles.turns.migration.shadow_tools import ShadowTools, shadow_tools
from memsvc.styles.turns.models.allowance import Allowance
from memsvc.styles.turns.models.enrichment import EXTRACT_JOB, Enrichment
from memsvc.styles.turns.models.rewording import SUMMARISE_JOB, Rewording
from memsvc.styles.turns.offering import completions, guide, session_resource
from memsvc.styles.turns.operation_tools import OperationTools, operation_tools
from memsvc.styles.turns.operations import Operations
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilding import Rebuilding
from memsvc.styles.turns.recall.digests import Digests
from memsvc.styles.turns.recall.recall import Recall
from memsvc.styles.turns.turn_tools import TurnTools, turn_tools
from memsvc.styles.turns.turns import TurnMemory
from memsvc.styles.turns.upkeep.compaction import Compaction
from memsvc.styles.turns.upkeep.listing import Listing
from memsvc.styles.turns.upkeep.maintenance import Maintenance


def published(  # noqa: PLR0913 - one argument a dependency, most by keyword
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: TurnOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
    passages: Mapping[str, Passages] | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the memory tools, and the jobs that follow turns.

    `llm` is the model that reads turns, if any; `passages` search files, boards and documents, by
    source."""
    costs, embeds = Costs(tokens, options), embedding is not None
    budget = budget or ModelBudget(database, clock, 0)
    asking = []
    if llm is not None:
        asking = _asking(database, clock, tokens, meter, options, llm, embeds=embeds, budget=budget)
    asked_after = {name: [job.name for job in asking if job.name == name] for name in (EXTRACT_JOB, SUMMARISE_JOB)}
    compaction = Compaction(database, clock, costs, meter, options, then=asked_after[SUMMARISE_JOB])
    follow_up = FollowUp(
        [compaction.follow_up, Digests(database, clock, options).follow_up],
        clock,
        embeds=embeds,
        after_each_turn=asked_after[EXTRACT_JOB],
    )
    recall = Recall(meter, options, embedding=embedding, passages=passages)
    memory = TurnMemory(database, clock, tokens, meter, options, follow_up=follow_up, recall=recall)
    maintenance = Maintenance(database, clock, options, compaction)
    traces = Traces(database, clock, meter, options.trace)
    functions = TurnTools(memory, maintenance, Listing(database, clock), traces, clock, options)
    operations = Operations(database, clock, options)
    rebuilding = Rebuilding(database, clock, tokens, options)
    importing = Importing(database, clock, tokens, options, follow_up, rebuilding)
    shadows = ShadowTools(database, functions, rebuilding, clock, meter, options, costs=costs)
    return Published(
        tools=[
            *turn_tools(functions, session_resource(database)),
            *operation_tools(OperationTools(functions, memory, operations, clock, options)),
            *fact_tools(FactTools(Forgetting(database, clock, options, recall), clock)),
            *looking_tools(LookingTools(database, traces)),
            *import_tools(importing),
            *(shadow_tools(shadows) if options.shadow.enabled else []),
        ],
        jobs=[*follow_up.jobs, *maintenance.jobs(), *asking, traces.job],
        guides=(guide(),),
        completions=completions(database),
        background=(traces.behind.running,),
    )


def _asking(
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: TurnOptions,
    llm: Llm,
    *,
    embeds: bool,
    budget: ModelBudget,
) -> list[Job]:
    """Return the jobs that call a model, which share the daily budget of a tenant."""
    allowance = Allowance(budget, clock, meter, options.heuristic.calls_a_day)
    costs = Costs(tokens, options)
    asking = [Rewording(database, llm, clock, costs, options, allowance).job]
    if options.heuristic.enabled:
        enrichment = Enrichment(database, llm, clock, tokens, meter, options, allowance=allowance, embeds=embeds)
        asking.append(enrichment.job)
    return asking
