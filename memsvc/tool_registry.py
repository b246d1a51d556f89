"""Tools and jobs of every style that the settings enable, with the models that it uses."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import structlog

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embeddings import embedder
from memsvc.adapters.models import (
    InstrumentedEmbedder,
    InstrumentedLlm,
    InstrumentedReranker,
    llm,
    reranker,
)
from memsvc.adapters.options import ModelOptions
from memsvc.adapters.tokens import O200kCounter
from memsvc.administration import tools as administration
from memsvc.administration.archive_restore import FileQuotas
from memsvc.core.ports import Clock, Llm, Meter, Reranker, TokenCounter
from memsvc.core.tools import Published
from memsvc.effective_limits import effective_limits
from memsvc.gateway.find_tool import find_tool
from memsvc.gateway.pipe import pipe_tool
from memsvc.settings import Settings
from memsvc.store import vectors
from memsvc.store.database import Database
from memsvc.store.ownership import Owners
from memsvc.styles.embedding import Embedding
from memsvc.styles.files import tools as file_tools
from memsvc.styles.files.file_ownership import FileOwnership
from memsvc.styles.knowledge import tools as knowledge_tools
from memsvc.styles.memories import tools as memories_tools
from memsvc.styles.memories.memory_ownership import MemoryOwnership
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.purge.turn_ownership import TurnOwnership
from memsvc.styles.turns.views import TurnViews
from memsvc.styles.whiteboard import tools as whiteboard_tools
from memsvc.styles.whiteboard.board_owners import BoardOwners
from memsvc.styles.whiteboard.boards import OWNER as WHITEBOARD

if TYPE_CHECKING:
    from memsvc.adapters.model_client import ModelClient

log = structlog.get_logger("memsvc.tool_registry")


@dataclass(frozen=True, slots=True)
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


def published(
    database: Database,
    settings: Settings,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    models: Models,
) -> Published:
    """Return the tools of enabled styles and the gateway, and all jobs, always those of files."""
    options, on = settings.settings.mcp, settings.settings.mcp.tools
    embedding, general = models.embedding, models.llm
    budget = ModelBudget(database, clock, settings.limits.model_calls_a_day)
    styles = {"files": _files(database, settings, clock, meter, models, budget)}
    if on.whiteboard.enabled:
        styles["whiteboard"] = whiteboard_tools.published(
            database,
            clock,
            tokens,
            meter,
            settings.whiteboard,
            llm=general,
            embedding=embedding,
            budget=budget,
        )
    if on.notebook.enabled:
        styles["notebook"] = notebook_tools.published(
            database, clock, meter, settings.notebook, embedding=embedding
        )
    if on.memory.enabled:
        styles["turns"] = turn_tools.published(
            database,
            clock,
            tokens,
            meter,
            options.memory,
            embedding=embedding,
            llm=models.turn_llm,
            budget=budget,
            passages={
                source: style.passages
                for source, style in styles.items()
                if style.passages is not None
            },
        )
    if on.knowledge.enabled:
        styles["knowledge"] = knowledge_tools.published(
            database,
            clock,
            tokens,
            meter,
            settings.knowledge,
            embedding=embedding,
            llm=general,
            budget=budget,
        )
    if on.memories.enabled:
        styles["memories"] = memories_tools.published(
            database,
            clock,
            meter,
            settings.memories,
            embedding=embedding,
            llm=models.memories_llm,
            budget=budget,
        )
    if on.admin.enabled:
        known_jobs = [job.name for style in styles.values() for job in style.jobs]
        styles["administration"] = _administration(database, settings, clock, embedding, known_jobs)
    return _merge(styles, settings, clock, embedding)


def _files(
    database: Database,
    settings: Settings,
    clock: Clock,
    meter: Meter,
    models: Models,
    budget: ModelBudget,
) -> Published:
    """Return the file tools and jobs; the jobs alone where the tools are switched off."""
    files = file_tools.published(
        database,
        clock,
        meter,
        settings.files,
        [TurnViews(database, clock, settings.settings.mcp.memory)],
        embedding=models.embedding,
        reranker=models.reranker,
        llm=models.llm,
        budget=budget,
        owner_versions={WHITEBOARD: settings.whiteboard.history_kept},
    )
    return files if settings.settings.mcp.tools.file_io.enabled else Published([], files.jobs)


def _administration(
    database: Database,
    settings: Settings,
    clock: Clock,
    embedding: Embedding | None,
    known_jobs: list[str],
) -> Published:
    return administration.published(
        database,
        clock,
        archives=settings.archives,
        file_quotas=FileQuotas(
            settings.files.project_bytes_max,
            settings.files.tenant_bytes_max,
            settings.limits.stored.quota,
        ),
        known_jobs=[*known_jobs, *(job.name for job in embedding.jobs)]
        if embedding
        else known_jobs,
        sweep_jobs=[embedding.sweep.name] if embedding else [],
        calls_kept_days=settings.audit.retention_days,
        owners=owners(database, clock),
        calls_per_day=settings.limits.model_calls_a_day,
        effective_limits=effective_limits(settings),
        settle_s=settle_s(settings),
    )


def settle_s(settings: Settings) -> float:
    """Return how long a row of the call log or a recall trace may wait while the database works."""
    return 2 * max(settings.audit.flush_every_s, settings.settings.mcp.memory.trace.flush_every_s)


def owners(database: Database, clock: Clock) -> Owners:
    """Return the ownership of every style: what belongs to a session, a user or a path.

    Disabled styles are included, as what they stored before is still there.
    """
    return (
        TurnOwnership(database, clock),
        BoardOwners(database),
        MemoryOwnership(database),
        FileOwnership(),
    )


def _merge(
    styles: dict[str, Published], settings: Settings, clock: Clock, embedding: Embedding | None
) -> Published:
    """Merge the styles, the tools of the gateway, which use all others, and the embedder's jobs."""
    on = settings.settings.mcp.tools
    tools = [tool for style in styles.values() for tool in style.tools]
    if on.mcp_pipe.enabled:
        tools.append(pipe_tool(on.mcp_pipe, settings.limits, clock))
    if on.find_tool.enabled:
        tools.append(find_tool(embedding))
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
        embedder(settings.embeddings) as embedding_client,
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
        if embedding is not None and not await vectors.ready(database):
            log.warning(
                "this database stores no vectors: it lacks pgvector 0.7, or was not migrated"
                " since its installation"
            )
            embedding = None
        all_models = (model, turn_model, memories_model)
        general, of_turns, of_memories = (
            InstrumentedLlm(one) if one else None for one in all_models
        )
        configured_models = [one for one in all_models if one is not None]
        yield Models(
            embedding,
            InstrumentedReranker(rerank_client, meter) if rerank_client else None,
            general,
            of_turns,
            of_memories,
            refused=lambda: any(one.refused for one in configured_models),
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


def all_published() -> Published:
    """Return what the documentation describes, optional tools included.

    No tool can be called, as there is no database.
    """
    nothing = cast(Any, None)
    all_settings = Settings.model_validate(
        {"settings": {"mcp": {"memory": {"shadow": {"enabled": True}}}}}
    )
    return published(nothing, all_settings, SystemClock(), O200kCounter(), nothing, Models())
