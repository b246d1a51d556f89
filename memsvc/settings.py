"""Every setting with its default, as one frozen object, and the sources that it is loaded from.

These are the command line, the environment, the YAML file and the defaults, in this order.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Literal, Self, get_origin

import orjson
import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from memsvc.adapters.options import (
    EMBEDDINGS_OFF,
    MODEL_PREFIXES,
    RERANK_OFF,
    EmbeddingOptions,
    ModelOptions,
    RerankOptions,
    TracingOptions,
)
from memsvc.administration.archive_tools import ArchiveOptions
from memsvc.console.dependencies import ConsoleOptions
from memsvc.core.errors import SettingsError
from memsvc.core.options import Options
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tools import Toolsets
from memsvc.core.validation_messages import suggest_name, validation_message
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.call_accounting import AuditOptions
from memsvc.gateway.limits import LimitsOptions, SseOptions
from memsvc.gateway.metrics import MetricsOptions
from memsvc.gateway.pipeline_spec import PipeOptions
from memsvc.gateway.server_card import ServerCardOptions
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

ALL_LISTED: Final = {"mcp": {"toolset": "all"}}
"""The section `settings` of a server whose clients expect all of its tools."""

PREFIX: Final = "MEMSVC_"
SHORT_NAMES: Final = {
    "MEMSVC_DATABASE_URL": "MEMSVC_DATABASE__URL",
    "MEMORY_MODEL": "MEMSVC_MODEL__MODEL",
    "MEMORY_DECAY_DAYS": "MEMSVC_MEMORIES__DECAY_DAYS",
}
# Read by other programs, or set by Kubernetes in every container beside a service that is named
# memsvc.
NOT_SETTINGS: Final = (
    "MEMSVC_CONFIG",
    "MEMSVC_URL",
    "MEMSVC_API_KEY",
    "MEMSVC_USER",
    "MEMSVC_PROJECT",
    "MEMSVC_HOOKS_DIR",
    "MEMSVC_TEST_",
    "MEMSVC_SERVICE_",
    "MEMSVC_PORT_",
)

_SOURCES: ContextVar[tuple[PydanticBaseSettingsSource, ...]] = ContextVar("sources", default=())
"""The environment and the file while `load` reads them; elsewhere nothing but arguments counts."""


class Switch(Options):
    """A switch for a group of tools."""

    enabled: bool = Field(True, description="whether the tools of this group are enabled")


class AdminSwitch(Switch):
    """Switches of the administrative tools."""

    over_mcp: bool = Field(
        False,
        description="whether the tools of this group are also offered to MCP clients, in addition"
        " to REST and the command line",
    )


class ToolSwitches(Options):
    """Switches for the groups of tools."""

    memory: Switch = Field(
        Switch(),
        description="turn memory (memory of conversations): memory_before_turn, memory_after_turn"
        " and related tools",
    )
    file_io: Switch = Field(Switch(), description="files: file_read, file_write and related tools")
    whiteboard: Switch = Field(
        Switch(), description="whiteboards: context_update, whiteboard_get and related tools"
    )
    knowledge: Switch = Field(
        Switch(), description="knowledge: elfmem_remember, elfmem_recall and related tools"
    )
    notebook: Switch = Field(
        Switch(), description="the notebook: read_document, update_document and related tools"
    )
    memories: Switch = Field(
        Switch(), description="memories: /api/memories, memories_add and related tools"
    )
    admin: AdminSwitch = Field(
        AdminSwitch(), description="administration: tenant_usage, tenant_purge and related tools"
    )
    mcp_pipe: PipeOptions = Field(
        PipeOptions(), description="mcp_pipe: run several tools in one call"
    )
    find_tool: Switch = Field(Switch(), description="find_tool: find the right tool for a task")
    disabled: tuple[str, ...] = Field((), description="names of tools to disable")


class McpOptions(Options):
    """Options of the MCP tools and turn memory."""

    tools: ToolSwitches = Field(ToolSwitches(), description="groups of tools to enable")
    toolset: Toolsets = Field(
        ("agent",),
        description="toolsets that are listed to clients unless the request or the key names"
        " other toolsets; tools that are not listed can still be called",
    )
    memory: TurnOptions = Field(TurnOptions(), description="turn memory")


class ToolSettings(Options):
    """Settings of the MCP tools and of turn memory, under `settings`, as in `settings.mcp`."""

    mcp: McpOptions = Field(McpOptions(), description="the MCP tools")


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=False,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any free port")
    data_dir: Path = Field(
        Path(".memsvc"),
        description="folder that contains the embedded PostgreSQL and the file with the first API"
        " key",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="minimum log level"
    )
    shutdown_notice_s: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="how long new calls are still answered after SIGTERM; /readyz fails during this"
        " time",
    )
    shutdown_grace_s: float = Field(
        25.0, ge=0, le=3600, description="how long running calls may continue after SIGTERM"
    )
    auth: AuthOptions = Field(AuthOptions(), description="authentication")
    limits: LimitsOptions = Field(LimitsOptions(), description="limits of requests")
    console: ConsoleOptions = Field(ConsoleOptions(), description="the web console at /console")
    sse: SseOptions = Field(
        SseOptions(), description="the deprecated transport at /sse, for old clients"
    )
    server_card: ServerCardOptions = Field(
        ServerCardOptions(),
        description="the server card, which tells MCP clients about this server and can be read"
        " without a key",
    )
    audit: AuditOptions = Field(AuditOptions(), description="the call log")
    database: DatabaseOptions = Field(DatabaseOptions(), description="PostgreSQL", repr=False)
    metrics: MetricsOptions = Field(MetricsOptions(), description="access to /metrics", repr=False)
    tracing: TracingOptions = Field(
        TracingOptions(), description="OpenTelemetry traces", repr=False
    )
    worker: WorkerOptions = Field(WorkerOptions(), description="background jobs")
    files: FilesOptions = Field(FilesOptions(), description="the file store")
    archives: ArchiveOptions = Field(
        ArchiveOptions(), description="export and restore of a tenant's data"
    )
    whiteboard: WhiteboardOptions = Field(
        WhiteboardOptions(), description="whiteboards: one page of notes for each conversation"
    )
    knowledge: KnowledgeOptions = Field(
        KnowledgeOptions(),
        description="agent knowledge: short texts (knowledge blocks) that fade unless used",
    )
    notebook: NotebookOptions = Field(
        NotebookOptions(), description="the notebook: a tree of documents in each project"
    )
    memories: MemoriesOptions = Field(
        MemoriesOptions(),
        description="memories: short statements about a user, each with its own id",
    )
    embeddings: EmbeddingOptions = Field(
        EmbeddingOptions(), description="search by meaning", repr=False
    )
    policy: PolicyOptions = Field(
        PolicyOptions(),
        description="policies for all stored content, regardless of the tool that stores it",
    )
    model: ModelOptions = Field(ModelOptions(), description="the language model", repr=False)
    rerank: RerankOptions = Field(
        RerankOptions(), description="a model that reorders search results", repr=False
    )
    settings: ToolSettings = Field(ToolSettings(), description="tools and turn memory")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_: Any,
        **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of a load; without one, the arguments alone."""
        return init_settings, *_SOURCES.get()

    @model_validator(mode="after")
    def _extraction_needs_a_model(self) -> Self:
        heuristic = self.settings.mcp.memory.heuristic
        if heuristic.enabled and not heuristic.base_url:
            if not self.model.model:
                raise ValueError(
                    f"if {HEURISTIC}.enabled is true, either {HEURISTIC}.base_url or"
                    " model.model must be set"
                )
            if heuristic.model != HEURISTIC_MODEL or heuristic.api_key:
                raise ValueError(
                    f"if {HEURISTIC}.model or {HEURISTIC}.api_key is set,"
                    f" {HEURISTIC}.base_url must also be set"
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
            raise ValueError("if database.admin_url is set, database.url must also be set")
        if self.database.direct_url and not self.database.url:
            raise ValueError("if database.direct_url is set, database.url must also be set")
        return self


def off_notices(settings: Settings) -> tuple[str, ...]:
    """Return a line for each kind of search by a model that is off, with how to turn it on."""
    embeddings = () if settings.embeddings.provider else (f"Embeddings: {EMBEDDINGS_OFF}",)
    rerank = () if settings.rerank.endpoint else (f"Reranker: {RERANK_OFF}",)
    return embeddings + rerank


class StrictSource(EnvSettingsSource):
    """The variables of an environment, `errors` for those of ours that are no settings.

    A list is JSON, or words between commas."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.errors: list[str] = []
        self._environment = environment
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        """Return the variables that set something, the short ones overwritten by the long."""
        found: dict[str, str | None] = {}
        for variable in sorted(self._environment, key=lambda name: (name not in SHORT_NAMES, name)):
            text = self._environment[variable]
            from_cluster = variable == "MEMSVC_PORT" and text.startswith("tcp://")
            is_setting = (variable in SHORT_NAMES and text) or variable.startswith(PREFIX)
            if not is_setting or variable.startswith(NOT_SETTINGS) or from_cluster:
                continue
            name = SHORT_NAMES.get(variable, variable).lower()
            path = name.removeprefix(self.env_prefix.lower()).split("__")
            field = _field(path)
            if field is None or section_of(field) is not None:
                self.errors.append(f"{variable}: unknown setting{_suggest(path)}")
            else:
                found[name] = _json_list(text) if get_origin(field.annotation) is tuple else text
        return found


def _json_list(text: str) -> str:
    if not text.lstrip().startswith("["):
        return orjson.dumps([word.strip() for word in text.split(",") if word.strip()]).decode()
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()  # a text, which validation rejects
    return text


def load(
    file: Path, environment: Mapping[str, str], *user_files: Path, **overrides: Any
) -> Settings:
    """Load the settings; those of `user_files` come before those of `file`.

    Raises SettingsError with all problems at once, none of which shows a value.
    """
    variables = StrictSource(environment)
    files = [InitSettingsSource(Settings, _read(one)) for one in (*user_files, file)]
    token = _SOURCES.set((variables, *files))
    try:
        settings = Settings(**_without_empty(overrides))
    except ValidationError as error:
        invalid = [_error_text(one) for one in error.errors(include_url=False, include_input=False)]
        raise SettingsError(variables.errors + invalid) from None
    finally:
        _SOURCES.reset(token)
    if variables.errors:
        raise SettingsError(variables.errors)
    return settings


def _without_empty(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return values without those that are missing, at any depth."""
    return {
        name: _without_empty(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting with its path, without sections, in the order of the file."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            yield prefix + name, field
        else:
            yield from keys(inner, f"{prefix}{name}.")


def _read(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise SettingsError([f"cannot read {file}: {error.strerror}"]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise SettingsError([f"cannot read {file}: {where}invalid YAML"]) from error
    if not isinstance(values, dict | None):
        raise SettingsError([f"{file} must contain YAML keys and values"])
    return {str(name): value for name, value in _without_empty(values or {}).items()}


def with_values(text: str, section: str, values: dict[str, str | int]) -> str:
    """Return the text of a YAML file with these values in a section, and all else as it was.

    Raises SettingsError for a file into which they cannot be put so, as it uses anchors, say.
    """
    before = yaml.safe_load(text) or {}
    expected = before | {section: (before.get(section) or {}) | values}
    with suppress(yaml.YAMLError):
        written = text
        for name, value in values.items():
            written = _with_value(written, section, name, orjson.dumps(value).decode())
        if yaml.safe_load(written) == expected:
            return written
    listing = ", ".join(f"{name}: {value}" for name, value in values.items())
    raise SettingsError(
        [
            (
                f"the section {section} cannot be edited automatically; set these values in the"
                f" file by hand: {listing}"
            )
        ]
    )


def _with_value(text: str, section: str, name: str, value: str) -> str:
    node = _child(yaml.compose(text), section)
    if node is None:
        end = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{end}{section}:\n  {name}: {value}\n"
    start, end_index = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.MappingNode) and node.value:
        child = _child(node, name)
        if child is None and node.flow_style:
            start, end_index, value = start + 1, start + 1, f"{name}: {value}, "
        elif child is None:
            value = f"{name}: {value}\n{' ' * node.start_mark.column}"
            end_index = start
        else:
            start, end_index = child.start_mark.index, child.end_mark.index
    else:
        value = f"{{{name}: {value}}}"
    return f"{text[:start]}{'' if text[start - 1] in ' {' else ' '}{value}{text[end_index:]}"


def _child(node: yaml.Node | None, name: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((child for key, child in pairs if key.value == name), None)


def _field(path: list[str]) -> FieldInfo | None:
    model: type[BaseModel] | None = Settings
    field = None
    for name in path:
        field = model.model_fields.get(name) if model else None
        if field is None:
            return None
        model = section_of(field)
    return field


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a section; None for a setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _error_text(error: ErrorDetails) -> str:
    path = [str(step) for step in error["loc"]]
    if error["type"] == "extra_forbidden":
        return f"{'.'.join(path)}: unknown setting{_suggest(path)}"
    field = _field([step for step in path if not step.isdigit()])
    message = validation_message(error)
    message = message[:1].lower() + message[1:]
    description = (
        f" ({field.description})"
        if field is not None and field.description and not section_of(field)
        else ""
    )
    return ": ".join(part for part in (".".join(path), f"{message}{description}") if part)


def _suggest(path: list[str]) -> str:
    """Suggest what may stand there instead: the nearest setting names, else the section's names."""
    all_names = [name for name, _ in keys()]
    if match := suggest_name(".".join(path), all_names):
        return f"; {match}"
    section = next(
        (parent for depth in range(len(path) - 1, -1, -1) if _is_section(parent := path[:depth])),
        [],
    )
    prefix = "".join(f"{step}." for step in section)
    names = {
        name.removeprefix(prefix).split(".")[0] for name in all_names if name.startswith(prefix)
    }
    return (
        f"; the settings {f'in {prefix[:-1]}' if section else 'here'} are"
        f" {', '.join(sorted(names))}"
    )


def _is_section(path: list[str]) -> bool:
    field = _field(path)
    return not path or (field is not None and section_of(field) is not None)
