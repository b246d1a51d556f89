"""Composition root: settings in, runtime out.

The one file that knows every style, and the models that the settings name.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embeddings import embedder
from memsvc.adapters.models import (
    InstrumentedEmbedder,
    InstrumentedReranker,
    llm,
    reranker,
)
from memsvc.adapters.options import ModelOptions
from memsvc.adapters.tokens import O200kCounter
from memsvc.adapters.tracing import opened_tracer
from memsvc.administration.archive_restore import FileQuotas
from memsvc.administration.archive_tools import ArchiveTransfer
from memsvc.administration.audit import AuditTool
from memsvc.administration.purge import Purge, PurgeLevel
from memsvc.administration.tenant_keys import TOOLS_HINT, KeyTools
from memsvc.administration.usage_tools import (
    CallLogReader,
    EffectiveLimits,
    JobTools,
    Kind,
    LimitReader,
    TenantLimit,
    UsageTools,
)
from memsvc.core.analysis import content_terms
from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.errors import SettingsError
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Llm, Meter, PassageSearch, Reranker
from memsvc.core.rules.changes import changes_in
from memsvc.core.rules.extraction import LANGUAGES, extract
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Job, Published
from memsvc.core.validation_messages import suggest_name
from memsvc.database_setup import is_schema_current, opened_database
from memsvc.folder_key import list_legacy_keys
from memsvc.gateway import rest
from memsvc.gateway.admission import Admission
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.call_accounting import CallLog, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import ToolSearch
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.oauth import TokenVerifier
from memsvc.gateway.pipe_run import PipeTool
from memsvc.gateway.rate_limits import RateLimits, StorageQuota
from memsvc.gateway.schemas import input_schema, listed_output_schema
from memsvc.gateway.search_tools import SearchTools
from memsvc.package_files import version
from memsvc.settings import Settings
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.ownership import Owners
from memsvc.store.revisions import Revisions
from memsvc.styles.embedding import Embedding
from memsvc.styles.files import tools as file_tools
from memsvc.styles.files.file_writer import files_at
from memsvc.styles.knowledge import tools as knowledge_tools
from memsvc.styles.memories import tools as memories_tools
from memsvc.styles.memories.memory_writer import MemoryOwners
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.services import StyleServices
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.session_placement import PLACE_ALL_JOB
from memsvc.styles.turns.turn_purge import TurnOwners
from memsvc.styles.turns.views import TurnViews
from memsvc.styles.whiteboard import tools as whiteboard_tools
from memsvc.styles.whiteboard.boards import OWNER as WHITEBOARD
from memsvc.worker import Worker

if TYPE_CHECKING:
    from memsvc.adapters.model_client import ModelClient


@frozen
class Models:
    """Models that the settings name, as the styles use them; memsvc works without any."""

    embedding: Embedding | None = None
    reranker: Reranker | None = None
    llm: Llm | None = None
    turn_llm: Llm | None = None
    memories_llm: Llm | None = None
    refused: Callable[[], bool] = lambda: False
    """Returns whether a model's last call failed because of its key or its name."""

    @property
    def has_llm(self) -> bool:
        """Return whether there is a language model at all."""
        return any(one is not None for one in (self.llm, self.turn_llm, self.memories_llm))


@frozen
class Services:
    """Services that every process needs, whether it serves or only runs jobs."""

    settings: Settings
    database: Database
    clock: Clock
    tokens: O200kCounter
    metrics: Metrics
    models: Models
    tracer: Tracer = NO_TRACER


def style_services(services: Services) -> StyleServices:
    """Return what each style is given, with the general model."""
    database, clock = services.database, services.clock
    return StyleServices(
        database,
        clock,
        services.tokens,
        services.metrics,
        ModelBudget(database, clock, services.settings.limits.model_calls_a_day),
        services.models.embedding,
        services.models.llm,
    )


def published(services: Services) -> Published:
    """Return the tools of enabled styles and the gateway, and all jobs, always those of files."""
    settings, models = services.settings, services.models
    options, on = settings.settings.mcp, settings.settings.mcp.tools
    shared = style_services(services)
    styles = {"files": _files(services, shared)}
    if on.whiteboard.enabled:
        styles["whiteboard"] = whiteboard_tools.published(shared, settings.whiteboard)
    if on.notebook.enabled:
        styles["notebook"] = notebook_tools.published(shared, settings.notebook)
    if on.knowledge.enabled:
        styles["knowledge"] = knowledge_tools.published(shared, settings.knowledge)
    if on.memories.enabled:
        styles["memories"] = memories_tools.published(
            replace(shared, llm=models.memories_llm), settings.memories
        )
    passages = {
        source: style.passages for source, style in styles.items() if style.passages is not None
    }
    if on.memory.enabled:
        styles["turns"] = turn_tools.published(
            replace(shared, llm=models.turn_llm),
            options.memory,
            policy=settings.policy,
            passages=passages,
        )
    if on.admin.enabled:
        known_jobs = [job.name for style in styles.values() for job in style.jobs]
        styles["administration"] = _administration(services, known_jobs)
    return _merge(styles, passages, services)


def _files(services: Services, shared: StyleServices) -> Published:
    """Return the file tools and jobs; the jobs alone where the tools are switched off."""
    settings = services.settings
    files = file_tools.published(
        shared,
        settings.files,
        [TurnViews(services.database, services.clock, settings.settings.mcp.memory)],
        reranker=services.models.reranker,
        owner_versions={WHITEBOARD: settings.whiteboard.history_kept},
        policy=settings.policy,
    )
    return files if settings.settings.mcp.tools.file_io.enabled else Published([], files.jobs)


def _administration(services: Services, known_jobs: list[str]) -> Published:
    """Return the tools over a tenant; `known_jobs` are those of all styles."""
    database, clock, settings = services.database, services.clock, services.settings
    embedding = services.models.embedding
    quotas = FileQuotas(
        settings.files.project_bytes_max,
        settings.files.tenant_bytes_max,
        settings.limits.stored.quota,
    )
    archives = ArchiveTransfer(
        database,
        clock,
        settings.archives,
        quotas,
        [*known_jobs, *(job.name for job in embedding.jobs)] if embedding else known_jobs,
        [PLACE_ALL_JOB, *([embedding.sweep.name] if embedding else [])],
    )
    parts = (
        archives,
        KeyTools(database, clock, tool_names),
        CallLogReader(database, clock, settings.audit.retention_days),
        JobTools(database, clock),
        LimitReader(effective_limits(settings)),
        Purge(database, clock, owners(database, clock), settle_s(settings)),
        AuditTool(database),
        UsageTools(database, clock, settings.limits.model_calls_a_day, quotas.stored),
    )
    return Published([tool for part in parts for tool in tools_of(part)], [], archives=archives)


def settle_s(settings: Settings) -> float:
    """Return how long a row of the call log or a recall trace may wait while the database works."""
    return 2 * max(settings.audit.flush_every_s, settings.settings.mcp.memory.trace.flush_every_s)


def owners(database: Database, clock: Clock) -> Owners:
    """Return the owners of all styles: what disabled ones stored before is still there."""
    turns, memories = TurnOwners(database, clock), MemoryOwners(database)
    boards = partial(whiteboard_tools.boards_of_user, database)
    return {
        PurgeLevel.SESSION: (turns.of_session, memories.of_session),
        PurgeLevel.USER: (turns.of_user, boards, memories.of_user),
        PurgeLevel.PATH: (files_at,),
    }


def _merge(
    styles: dict[str, Published], passages: Mapping[str, PassageSearch], services: Services
) -> Published:
    """Merge the styles, the tools of the gateway, which use all others, and the embedder's jobs."""
    settings, embedding = services.settings, services.models.embedding
    on = settings.settings.mcp.tools
    tools = [tool for style in styles.values() for tool in style.tools]
    direct = {tool.name: tool for tool in tools if tool.name not in on.disabled}
    with_users = [style.users_found for style in styles.values() if style.users_found]
    tools += tools_of(SearchTools(direct, passages, *with_users))
    if on.find_tool.enabled:
        tools += tools_of(ToolSearch(embedding))
    if on.mcp_pipe.enabled:
        tools += tools_of(PipeTool(on.mcp_pipe, settings.limits, services.clock))
    first = ("turns", "agent")  # clients may take the first of a list alone
    tools.sort(
        key=lambda tool: (
            first.index(tool.toolset) if tool.toolset in first else len(first),
            not tool.for_agents,
        )
    )
    return Published(
        tools,
        [job for style in styles.values() for job in style.jobs]
        + (list(embedding.jobs) if embedding else []),
        styles["files"].content,
        prompts=tuple(prompt for style in styles.values() for prompt in style.prompts),
        guides=tuple(guide for style in styles.values() for guide in style.guides),
        completions={
            name: one for style in styles.values() for name, one in style.completions.items()
        },
        archives=next(
            (style.archives for style in styles.values() if style.archives is not None), None
        ),
        events=next((style.events for style in styles.values() if style.events is not None), None),
        background=tuple(enter for style in styles.values() for enter in style.background),
    )


@asynccontextmanager
async def opened_models(
    settings: Settings, database: Database, clock: Clock, meter: Meter
) -> AsyncIterator[Models]:
    """Open the models that the settings name; their connections are closed at the end."""
    async with (
        embedder(settings.embeddings, settings.data_dir) as embedding_client,
        reranker(settings.rerank) as rerank_client,
        llm(settings.model, meter) as model,
        _style_llm(
            settings.turn_model, settings.turn_model_section, settings, meter, model
        ) as turn_model,
        _style_llm(settings.memories_model, "model", settings, meter, model) as memories_model,
    ):
        embedding = (
            Embedding(database, InstrumentedEmbedder(embedding_client), clock, meter)
            if embedding_client
            else None
        )
        all_models = [one for one in (model, turn_model, memories_model) if one is not None]
        yield Models(
            embedding,
            InstrumentedReranker(rerank_client, meter) if rerank_client else None,
            model,
            turn_model,
            memories_model,
            refused=lambda: any(one.refused for one in all_models),
        )


@asynccontextmanager
async def _style_llm(
    options: ModelOptions,
    section: str,
    settings: Settings,
    meter: Meter,
    general: "ModelClient | None",
) -> AsyncIterator["ModelClient | None"]:
    """Open the model of one style: the general one unless its options differ."""
    if options == settings.model:
        yield general
        return
    async with llm(options, meter, section) as client:
        yield client


def all_published(*, optional: bool = True) -> Published:
    """Return what the documentation describes, with tools that are off by default or without.

    No tool can be called, as there is no database.
    """
    nothing = cast(Any, None)
    settings = Settings.model_validate(
        {"settings": {"mcp": {"memory": {"shadow": {"enabled": optional}}}}}
    )
    return published(Services(settings, nothing, SystemClock(), O200kCounter(), nothing, Models()))


def tool_names() -> list[str]:
    """Return the names of all tools, whether or not the settings enable them."""
    return [tool.name for tool in all_published().tools]


_RATES: Final = "limits.rates."
SETTINGS_BY_KIND: Final[Mapping[Kind, Sequence[str]]] = {
    "retention": (
        "files.versions_kept",
        "files.versions_days",
        "files.delete_retention_days",
        "whiteboard.history_kept",
        "settings.mcp.memory.l1_retention_days",
        "settings.mcp.memory.l2_retention_days",
        "settings.mcp.memory.compaction_min_age_hours",
        "settings.mcp.memory.trace.days",
        "memories.decay_days",
        "audit.retention_days",
    ),
    "quota": (
        "limits.stored.tenant_bytes_max",
        "files.tenant_bytes_max",
        "files.project_bytes_max",
        "files.file_bytes_max",
        "files.payload_bytes_max",
        "limits.request_bytes_max",
        "notebook.documents_max",
        "notebook.document_bytes_max",
        "whiteboard.boards_max",
        "knowledge.blocks_max",
        "memories.users_max",
        "memories.per_user_max",
        "archives.archive_bytes_max",
        "settings.mcp.memory.recall_tok_max",
        "settings.mcp.memory.max_input_tok",
    ),
    "rate": (
        f"{_RATES}key_calls_s",
        f"{_RATES}tenant_calls_s",
        f"{_RATES}key_requests_s",
        f"{_RATES}tenant_requests_s",
        f"{_RATES}key_calls_at_once",
        f"{_RATES}tenant_calls_at_once",
        "limits.model_calls_a_day",
        "files.summaries.a_day",
        "knowledge.judgements_a_day",
    ),
}


def effective_limits(settings: Settings) -> EffectiveLimits:
    """Return a function from a tenant to its limits; rates are scaled by the tenant's factor."""
    rates = settings.limits.rates
    limits = [
        _limit(settings, kind, path)
        for kind, paths in SETTINGS_BY_KIND.items()
        for path in paths
        if rates.enabled or not path.startswith(_RATES)
    ]

    def of(tenant: bytes) -> list[TenantLimit]:
        factor = rates.factor(tenant)
        return [
            TenantLimit(one.kind, one.setting, one.value * factor, one.about)
            if one.setting.startswith(_RATES)
            else one
            for one in limits
        ]

    return of


def _limit(settings: Settings, kind: Kind, path: str) -> TenantLimit:
    *parents, name = path.split(".")
    options = settings
    for section in parents:
        options = getattr(options, section)
    return TenantLimit(
        kind, path, getattr(options, name), type(options).model_fields[name].description or ""
    )


def read_examples() -> None:
    """Read a sentence in each language, which loads the word lists and weights of the rules."""
    for language in LANGUAGES:
        example = language.rules[0].example
        content_terms(example)
        extract([("", example)], session="", turn="", user="")
        changes_in(example)


log = structlog.get_logger("memsvc.runtime")

Publish = Callable[[Services], Published]
"""Makes tools and jobs of these services: `published`, or what an entry point takes of it."""


def instructions() -> str:
    """Return what the server tells an agent about how to use its tools."""
    return resources("memsvc").joinpath("instructions.md").read_text("utf-8")


@frozen
class Runtime:
    """Services behind every entry point."""

    services: Services
    published: Published
    worker: Worker | None
    call_log: CallLog
    dispatch: Dispatch
    authenticator: Authenticator
    changes: Changes
    rates: RateLimits

    async def warm(self) -> None:
        """Load all that calls need, step by step, so that no caller waits for it.

        A vocabulary that cannot be used is logged; only calls that count tokens fail then.
        """
        await asyncio.to_thread(read_examples)
        for tool in self.dispatch.catalogue:
            input_schema(tool)
            listed_output_schema(tool)
            await asyncio.sleep(0)
        if self.services.models.embedding is not None:
            await self.services.models.embedding.load()
        try:
            await asyncio.to_thread(self.services.tokens.load)
        except RuntimeError as error:
            log.error(
                "the tokenizer cannot be loaded; calls that need to count tokens will fail",
                fault=str(error),
            )


@asynccontextmanager
async def opened_services(settings: Settings, app_url: str) -> AsyncIterator[Services]:
    """Open the database and the models, measured and traced; close all at the end."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        opened_tracer(settings.tracing, metrics, version()) as tracer,
        opened_database(settings, app_url, metrics, Revisions.read_package()) as database,
        opened_models(settings, database, clock, metrics) as models,
    ):
        metrics.watch_pool(database.usage)
        metrics.watch("memsvc_model_refused", models.refused)
        yield Services(settings, database, clock, O200kCounter(), metrics, models, tracer)


@asynccontextmanager
async def build_runtime(
    settings: Settings, app_url: str, host: str, publish: Publish = published
) -> AsyncIterator[Runtime]:
    """Build the runtime over an open database; nothing of it runs yet.

    With a `host` that only this machine reaches, keys that opened a tenant before they had to be
    listed are listed now, and a caller with a wrong key learns where the right one is.
    """
    async with opened_services(settings, app_url) as services:
        metrics, clock, database = services.metrics, services.clock, services.database
        parts = publish(services)
        calls = call_log(database, metrics, clock, settings.audit)
        catalogue = Catalogue(parts.tools)
        rates = RateLimits(database, settings.limits.rates, metrics)
        admission = Admission(
            settings.limits.slots, rates, metrics, connections_max=settings.database.pool_max
        )
        metrics.watch("memsvc_calls_running", admission.running_calls)
        metrics.watch("memsvc_calls_waiting", admission.waiting_calls)
        dispatch = Dispatch(
            catalogue,
            calls,
            metrics,
            clock,
            admission,
            _disabled(settings, catalogue),
            tracer=services.tracer,
            slow_ms=settings.audit.slow_ms,
            quota=StorageQuota(database, clock, settings.limits.stored.quota),
            policy=settings.policy,
        )
        changes = Changes(settings.database.direct_url or app_url)
        issued = TokenVerifier(settings.auth.oauth, clock) if settings.auth.oauth.issuer else None
        await list_legacy_keys(database, settings.auth, host, clock.now())
        yield Runtime(
            services,
            parts,
            worker_of(services, app_url, parts.jobs) if settings.worker.enabled else None,
            calls,
            dispatch,
            Authenticator(database, settings.auth, clock, metrics, changes, issued),
            changes,
            rates,
        )


def checks_of(database: Database, worker: Worker | None) -> dict[str, rest.Check]:
    """Return the checks that a process must pass to be ready."""
    revisions = Revisions.read_package()
    checks = {
        "database": rest.database_check(database),
        "migrations": lambda: is_schema_current(database, revisions),
        "row_security": rest.isolation_check(database),
    }
    return checks | ({"worker": worker.alive} if worker else {})


def _disabled(settings: Settings, catalogue: Catalogue) -> frozenset[str]:
    """Return the tools that the settings disable one by one.

    Raises SettingsError for a name that is not a tool.
    """
    names, known = frozenset(settings.settings.mcp.tools.disabled), catalogue.names()
    if unknown := sorted(names.difference(known)):
        raise SettingsError(
            [
                f"settings.mcp.tools.disabled: unknown tool {name};"
                f" {suggest_name(name, known) or TOOLS_HINT}"
                for name in unknown
            ]
        )
    return names


def worker_of(services: Services, app_url: str, jobs: Sequence[Job]) -> Worker:
    """Return the worker that runs these jobs."""
    settings, metrics = services.settings, services.metrics
    worker = Worker(
        settings.database.direct_url or app_url,
        services.database,
        jobs,
        services.clock,
        metrics,
        settings.worker,
        grace_s=settings.shutdown_grace_s,
        tracer=services.tracer,
    )
    metrics.add_jobs(jobs)
    metrics.watch_jobs(lambda: worker.backlog)
    metrics.watch_index(lambda: worker.index_size)
    return worker
