"""Every setting with its default, as one frozen object."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memsvc.adapters.options import (
    MODEL_PREFIXES,
    EmbeddingOptions,
    ModelOptions,
    RerankOptions,
    TracingOptions,
)
from memsvc.administration.archive_tools import ArchiveOptions
from memsvc.console.options import ConsoleOptions
from memsvc.gateway.audit import AuditOptions
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.metrics import MetricsOptions
from memsvc.gateway.pipe_run import PipeOptions
from memsvc.gateway.server_card import ServerCardOptions
from memsvc.gateway.sse_options import SseOptions
from memsvc.store.database import DatabaseOptions
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.turns.options import HEURISTIC_MODEL, TurnOptions
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.worker import WorkerOptions

HEURISTIC = "settings.mcp.memory.heuristic"
MEMORIES_MODEL = "openai:gpt-5-mini"


class Switch(BaseModel):
    """One switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="whether these tools are there")


class AdminSwitch(Switch):
    """Switches of the administrative tools."""

    over_mcp: bool = Field(
        False, description="whether agents see them too, beside REST and commands"
    )


class ToolSwitches(BaseModel):
    """Switches of the tools."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Switch = Field(
        Switch(), description="turn memory: memory_before_turn, memory_after_turn and their kin"
    )
    file_io: Switch = Field(Switch(), description="files: file_read, file_write and their kin")
    whiteboard: Switch = Field(
        Switch(), description="whiteboards: context_update, whiteboard_get and their kin"
    )
    knowledge: Switch = Field(
        Switch(), description="knowledge: elfmem_remember, elfmem_recall and their kin"
    )
    notebook: Switch = Field(
        Switch(), description="the notebook: read_document, update_document and their kin"
    )
    memories: Switch = Field(
        Switch(), description="memories: /api/memories, memories_add and their kin"
    )
    admin: AdminSwitch = Field(
        AdminSwitch(), description="administration: tenant_usage, tenant_purge and their kin"
    )
    mcp_pipe: PipeOptions = Field(PipeOptions(), description="mcp_pipe: several calls in one")
    find_tool: Switch = Field(Switch(), description="find_tool: the tools that fit a question")
    disabled: tuple[str, ...] = Field((), description="single tools that are not there, by name")


class McpOptions(BaseModel):
    """The MCP tools and turn memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: ToolSwitches = Field(ToolSwitches(), description="which tools are there")
    memory: TurnOptions = Field(TurnOptions(), description="turn memory")


class ToolSettings(BaseModel):
    """Settings that operators of MCP memory tools look for under `settings`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mcp: McpOptions = Field(McpOptions(), description="the MCP tools")


class Settings(BaseModel):
    """All settings of one process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any that is free")
    data_dir: Path = Field(
        Path(".memsvc"), description="folder of the embedded PostgreSQL and of the first API key"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least that is logged"
    )
    shutdown_notice_s: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="how long after SIGTERM new calls are answered while /readyz fails already",
    )
    shutdown_grace_s: float = Field(
        25.0, ge=0, le=3600, description="how long calls may go on after SIGTERM"
    )
    auth: AuthOptions = Field(AuthOptions(), description="who may call")
    limits: LimitsOptions = Field(LimitsOptions(), description="what a request may be")
    console: ConsoleOptions = Field(
        ConsoleOptions(), description="web pages for people at /console"
    )
    sse: SseOptions = Field(
        SseOptions(), description="the transport at /sse, for old clients; deprecated"
    )
    server_card: ServerCardOptions = Field(
        ServerCardOptions(), description="what strangers may learn of this server"
    )
    audit: AuditOptions = Field(AuditOptions(), description="how the call log is written")
    database: DatabaseOptions = Field(DatabaseOptions(), description="PostgreSQL", repr=False)
    metrics: MetricsOptions = Field(
        MetricsOptions(), description="who may read /metrics", repr=False
    )
    tracing: TracingOptions = Field(
        TracingOptions(), description="OpenTelemetry traces", repr=False
    )
    worker: WorkerOptions = Field(WorkerOptions(), description="jobs that run in the background")
    files: FilesOptions = Field(FilesOptions(), description="the file store")
    archives: ArchiveOptions = Field(
        ArchiveOptions(), description="export and restore of a tenant's memory"
    )
    whiteboard: WhiteboardOptions = Field(
        WhiteboardOptions(), description="whiteboards: a page for each conversation"
    )
    knowledge: KnowledgeOptions = Field(
        KnowledgeOptions(), description="what agents learn: blocks that fade unless used"
    )
    notebook: NotebookOptions = Field(
        NotebookOptions(), description="the notebook: a tree of documents a project"
    )
    memories: MemoriesOptions = Field(
        MemoriesOptions(), description="memories: what is known of a user, by id"
    )
    embeddings: EmbeddingOptions = Field(
        EmbeddingOptions(), description="search by meaning", repr=False
    )
    model: ModelOptions = Field(
        ModelOptions(), description="a model that reads and writes", repr=False
    )
    rerank: RerankOptions = Field(
        RerankOptions(), description="a model that reorders what was found", repr=False
    )
    settings: ToolSettings = Field(ToolSettings(), description="tools and turn memory")

    @model_validator(mode="after")
    def _extraction_needs_a_model(self) -> Self:
        heuristic = self.settings.mcp.memory.heuristic
        if heuristic.enabled and not heuristic.base_url:
            if not self.model.model:
                raise ValueError(
                    f"{HEURISTIC}.enabled needs {HEURISTIC}.base_url, or a model in model.model"
                )
            if heuristic.model != HEURISTIC_MODEL or heuristic.api_key:
                raise ValueError(
                    f"{HEURISTIC}.model and {HEURISTIC}.api_key need {HEURISTIC}.base_url beside"
                    " them"
                )
        return self

    @property
    def turn_model(self) -> ModelOptions:
        """Return the model of turn memory.

        That of `heuristic` where it has its own endpoint, else the general one, with the time limit
        of `heuristic` where that is on; without a name, none.
        """
        heuristic = self.settings.mcp.memory.heuristic
        if not self.settings.mcp.tools.memory.enabled:
            return ModelOptions()
        if not heuristic.enabled:
            return self.model
        if not heuristic.base_url:
            return self.model.model_copy(update={"timeout_ms": heuristic.timeout_ms})
        named = heuristic.model.startswith(MODEL_PREFIXES)
        return ModelOptions(
            model=heuristic.model if named else f"openai:{heuristic.model}",
            base_url=heuristic.base_url,
            api_key=heuristic.api_key,
            timeout_ms=heuristic.timeout_ms,
            retries=self.model.retries,
        )

    @property
    def memories_model(self) -> ModelOptions:
        """Return the model that finds memories: the general one, by default gpt-5-mini.

        The default applies where only the key or the endpoint is set. Its time limit is no longer
        than a call may wait for both answers.
        """
        on = self.settings.mcp.tools.memories.enabled
        return self.model.within(self.memories.deadline_s, MEMORIES_MODEL) if on else ModelOptions()

    @property
    def turn_model_section(self) -> str:
        """Return the section of the settings that names the model of turn memory."""
        heuristic = self.settings.mcp.memory.heuristic
        return HEURISTIC if heuristic.enabled and heuristic.base_url else "model"

    @model_validator(mode="after")
    def _owner_needs_application(self) -> Self:
        if self.database.admin_url and not self.database.url:
            raise ValueError("database.admin_url needs database.url beside it")
        if self.database.direct_url and not self.database.url:
            raise ValueError("database.direct_url needs database.url beside it")
        return self
