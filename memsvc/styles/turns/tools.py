"""Everything that this style publishes: tools, jobs, resources and the guide to a turn."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memsvc.core.package_texts import package_text
from memsvc.core.ports import PassageSearch
from memsvc.core.resources import Completion, Guide, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Job, Published
from memsvc.store import sessions
from memsvc.store.database import Database
from memsvc.styles.services import StyleServices
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.fact_correction import FactCorrection
from memsvc.styles.turns.facts.fact_removal import FactRemoval
from memsvc.styles.turns.facts.fact_tools import FactTools, UserProfile
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB, FollowUp
from memsvc.styles.turns.inspection import InspectionTools, RecallTraces
from memsvc.styles.turns.maintenance.compaction import Compaction
from memsvc.styles.turns.maintenance.directories import DirectoryList
from memsvc.styles.turns.maintenance.session_maintenance import SessionMaintenance
from memsvc.styles.turns.migration.session_import import ImportTools, SessionImport
from memsvc.styles.turns.migration.shadow import ShadowTools
from memsvc.styles.turns.models.model_budget import ModelCallBudget
from memsvc.styles.turns.models.model_extraction import EXTRACT_JOB, ModelExtraction
from memsvc.styles.turns.models.summary_rewrite import SUMMARISE_JOB, SummaryRewrite
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from memsvc.styles.turns.recall.recall import TurnRecall
from memsvc.styles.turns.session_placement import PLACE_ALL_JOB, PLACE_JOB, SessionPlacement
from memsvc.styles.turns.turn_tokens import OperationTools, TurnTokens
from memsvc.styles.turns.turns import TurnMemory

LIST_TOOL: Final = "memory_list_dir_with_abstract"
FACTS: Final = Resource(
    template="memsvc://{project}/sessions/{session_id}/facts",
    name="session facts",
    title="Facts of a session",
    description="Facts of a session as JSON: the first page of memory_list_facts.",
    mime_type="application/json",
)
PROFILE: Final = Resource(
    template="memsvc://{project}/users/{user_id}/profile",
    name="profile",
    title="Profile of a user",
    description="Facts about a user, one per line, as memory_profile returns them.",
    text="text",
)


def session_resource(database: Database) -> Resource:
    """Return the resource of a session: the directories of its memory, with abstracts."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin_read(scope) as tx:
            rows = await sessions.names(tx, after=after, limit=limit)
        return [
            ListedResource(
                values={"project": scope.project, "session_id": row["session"]},
                place=row["session"],
                title=row["session"],
                updated_at=row["updated_at"],
            )
            for row in rows
        ]

    async def stamps(
        scope: Scope, requests: Sequence[Any]
    ) -> Sequence[sessions.StoredSession | None]:
        """Return the sessions' counters, which every turn changes; None for unknown sessions."""
        names = [request.session_id for request in requests]
        async with database.begin_read(scope) as tx:
            found = await sessions.find_all(tx, names)
        return [found.get(name) for name in names]

    return Resource(
        template="memsvc://{project}/sessions/{session_id}",
        name="session",
        title="Session",
        description="Directories of a session's memory with a summary of each, as JSON.",
        mime_type="application/json",
        stamps=stamps,
        listing=ResourceListing(LIST_TOOL, page),
    )


def completions(database: Database) -> dict[str, Completion]:
    """Return the completion of session names."""

    async def find(scope: Scope, prefix: str, _: Mapping[str, str], limit: int) -> Sequence[str]:
        async with database.begin_read(scope) as tx:
            return [row["session"] for row in await sessions.names(tx, prefix=prefix, limit=limit)]

    return {"session_id": Completion(LIST_TOOL, find)}


def guide() -> Guide:
    """Return the prompt that explains a turn to agents and their authors."""
    return Guide(
        name="memsvc:turn-lifecycle",
        title="How a turn uses memory",
        description="What to call before and after each answer, and what to do when a call fails.",
        tools=("memory_before_turn", "memory_after_turn", "memory_run_maintenance"),
        text=package_text(__package__, "turn_lifecycle.md"),
        arguments={
            "session_id": "session id of the conversation",
            "user_id": "user id of the person",
        },
    )


def published(
    services: StyleServices,
    options: TurnOptions,
    *,
    passages: Mapping[str, PassageSearch] | None = None,
    policy: PolicyOptions,
) -> Published:
    """Return the memory tools, and the jobs that follow turns.

    The model reads turns; `passages` search files, boards and documents, by source."""
    database, clock, embedding = services.database, services.clock, services.embedding
    tokens, meter = services.tokens, services.meter
    costs = Costs(tokens, options)
    model_jobs = _model_jobs(services, options, costs)
    after_compaction, after_each_turn = (
        [job.name for job in model_jobs if job.name == name]
        for name in (SUMMARISE_JOB, EXTRACT_JOB)
    )
    compaction = Compaction(database, clock, costs, meter, options, then=after_compaction)
    follow_up = FollowUp([compaction.follow_up], clock, after_each_turn=after_each_turn)
    recall = TurnRecall(meter, options, costs, embedding=embedding, passages=passages)
    placement = SessionPlacement(database, clock, options)
    traces = RecallTraces(database, clock, meter, options.trace)
    memory = TurnMemory(
        database,
        clock,
        tokens,
        meter,
        options,
        follow_up=follow_up,
        recall=recall,
        policy=policy,
        traces=traces,
        embedding=embedding,
    )
    rebuilding = TurnRebuild(database, clock, tokens, options)
    session_import = SessionImport(database, clock, costs, options, follow_up, rebuilding)
    shadow = ShadowTools(database, memory, rebuilding, clock, meter, options, costs=costs)
    removal = FactRemoval(database, clock, costs, options, recall, embedding)
    correction = FactCorrection(database, clock, options)
    fact_tools = FactTools(removal, correction, clock, passages or {})
    return Published(
        tools=[
            *tools_of(memory),
            *tools_of(UserProfile(database, clock, costs, options), {"memory_profile": PROFILE}),
            *tools_of(maintenance := SessionMaintenance(compaction)),
            *tools_of(
                DirectoryList(database, clock),
                {"memory_list_dir_with_abstract": session_resource(database)},
            ),
            *tools_of(OperationTools(memory, TurnTokens(database, clock, options), clock, options)),
            *tools_of(fact_tools, {"memory_list_facts": FACTS}),
            *tools_of(InspectionTools(database)),
            *tools_of(ImportTools(session_import)),
            *(tools_of(shadow) if options.shadow.enabled else []),
        ],
        jobs=[
            Job(FOLLOW_UP_JOB, follow_up.run),
            Job(PLACE_JOB, placement.place),
            Job(PLACE_ALL_JOB, placement.queue_misplaced),
            *(*maintenance.jobs(), *model_jobs, traces.job, *removal.jobs),
        ],
        guides=(guide(),),
        completions=completions(database),
        background=(traces.writer.running,),
    )


def _model_jobs(services: StyleServices, options: TurnOptions, costs: Costs) -> list[Job]:
    """Return the jobs that call the model, if any, which share the daily budget of a tenant."""
    database, clock, meter, llm = services.database, services.clock, services.meter, services.llm
    if llm is None:
        return []
    allowance = ModelCallBudget(services.budget, clock, meter, options.heuristic.calls_a_day)
    rewrite = SummaryRewrite(database, llm, clock, costs, options, allowance)
    model_jobs = [Job(SUMMARISE_JOB, rewrite.summarise, attempts_max=2)]
    if options.heuristic.enabled:
        extraction = ModelExtraction(
            database, llm, clock, services.tokens, meter, options, allowance=allowance
        )
        model_jobs.append(Job(EXTRACT_JOB, extraction.extract, attempts_max=2))
    return model_jobs
