"""Everything that this style publishes."""

from collections.abc import Mapping

from memsvc.core.ports import Clock, Llm, Meter, PassageSearch, TokenCounter
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Job, Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.fact_correction import FactCorrection
from memsvc.styles.turns.facts.fact_removal import FactRemoval
from memsvc.styles.turns.facts.fact_tools import FactTools
from memsvc.styles.turns.facts.user_profile import UserProfile
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.inspection.inspection_tools import InspectionTools
from memsvc.styles.turns.inspection.recall_traces import RecallTraces
from memsvc.styles.turns.maintenance.compaction import Compaction
from memsvc.styles.turns.maintenance.directory_list import DirectoryList
from memsvc.styles.turns.maintenance.session_maintenance import SessionMaintenance
from memsvc.styles.turns.migration.import_tools import ImportTools
from memsvc.styles.turns.migration.session_import import SessionImport
from memsvc.styles.turns.migration.shadow_tools import ShadowTools
from memsvc.styles.turns.models.model_budget import ModelCallBudget
from memsvc.styles.turns.models.model_extraction import EXTRACT_JOB, ModelExtraction
from memsvc.styles.turns.models.summary_rewrite import SUMMARISE_JOB, SummaryRewrite
from memsvc.styles.turns.operation_tools import OperationTools
from memsvc.styles.turns.operations import TurnTokens
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.fact_rereading import FactRereading
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from memsvc.styles.turns.recall.digests import SessionDigests
from memsvc.styles.turns.recall.recall import TurnRecall
from memsvc.styles.turns.turn_resources import FACTS, PROFILE, completions, guide, session_resource
from memsvc.styles.turns.turn_tools import TurnTools
from memsvc.styles.turns.turns import TurnMemory


def published(  # noqa: PLR0913 - one argument a dependency, most by keyword
    database: Database,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    options: TurnOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
    passages: Mapping[str, PassageSearch] | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the memory tools, and the jobs that follow turns.

    `llm` is the model that reads turns, if any; `passages` search files, boards and documents, by
    source."""
    costs, embeds = Costs(tokens, options), embedding is not None
    budget = budget or ModelBudget(database, clock, 0)
    model_jobs = []
    if llm is not None:
        model_jobs = _model_jobs(
            database, clock, tokens, meter, options, llm, embeds=embeds, budget=budget
        )
    job_names = {
        name: [job.name for job in model_jobs if job.name == name]
        for name in (EXTRACT_JOB, SUMMARISE_JOB)
    }
    compaction = Compaction(database, clock, costs, meter, options, then=job_names[SUMMARISE_JOB])
    follow_up = FollowUp(
        [compaction.follow_up, SessionDigests(database, clock, options).follow_up],
        clock,
        embeds=embeds,
        after_each_turn=job_names[EXTRACT_JOB],
    )
    recall = TurnRecall(meter, options, costs, embedding=embedding, passages=passages)
    memory = TurnMemory(database, clock, tokens, meter, options, follow_up=follow_up, recall=recall)
    maintenance = SessionMaintenance(database, clock, options, compaction)
    traces = RecallTraces(database, clock, meter, options.trace)
    functions = TurnTools(memory, traces, clock, options)
    operations = TurnTokens(database, clock, options)
    rebuilding = TurnRebuild(database, clock, tokens, options)
    session_import = SessionImport(database, clock, tokens, options, follow_up, rebuilding)
    shadow = ShadowTools(database, functions, rebuilding, clock, meter, options, costs=costs)
    removal = FactRemoval(database, clock, options, recall)
    correction = FactCorrection(database, clock, options, embeds=embeds)
    rereading = FactRereading(database, clock, options)
    return Published(
        tools=[
            *tools_of(functions),
            *tools_of(UserProfile(database, clock, costs, options), {"memory_profile": PROFILE}),
            *tools_of(maintenance),
            *tools_of(
                DirectoryList(database, clock),
                {"memory_list_dir_with_abstract": session_resource(database)},
            ),
            *tools_of(OperationTools(functions, memory, operations, clock, options)),
            *tools_of(FactTools(removal, correction, clock), {"memory_list_facts": FACTS}),
            *tools_of(InspectionTools(database, traces)),
            *tools_of(ImportTools(session_import)),
            *(tools_of(shadow) if options.shadow.enabled else []),
        ],
        jobs=[*follow_up.jobs, *maintenance.jobs(), *model_jobs, traces.job, rereading.job],
        guides=(guide(),),
        completions=completions(database),
        background=(traces.writer.running,),
    )


def _model_jobs(
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
    allowance = ModelCallBudget(budget, clock, meter, options.heuristic.calls_a_day)
    costs = Costs(tokens, options)
    model_jobs = [SummaryRewrite(database, llm, clock, costs, options, allowance).job]
    if options.heuristic.enabled:
        fact_extraction = ModelExtraction(
            database, llm, clock, tokens, meter, options, allowance=allowance, embeds=embeds
        )
        model_jobs.append(fact_extraction.job)
    return model_jobs
