"""Every setting: defaults, then the YAML file, then the environment, then the command line, into one frozen object."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self, get_origin

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from memsvc.adapters.embeddings import EmbeddingOptions
from memsvc.adapters.llm import PROVIDERS, ModelOptions
from memsvc.adapters.rerank import RerankOptions
from memsvc.core.errors import SettingsError
from memsvc.core.problems import plain
from memsvc.gateway.audit import AuditOptions
from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.sse import SseOptions
from memsvc.gateway.pipe_run import PipeOptions
from memsvc.store.database import DatabaseOptions
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.turns.options import HEURISTIC_MODEL, TurnOptions
from memsvc.styles.whiteboard.options import WhiteboardOptions
from memsvc.worker import WorkerOptions

PREFIX = "MEMSVC_"
HEURISTIC = "settings.mcp.memory.heuristic"
MEMORIES_MODEL = "openai:gpt-5-mini"
SHORT_FORMS = {"MEMSVC_DATABASE_URL": "MEMSVC_DATABASE__URL", "MEMORY_MODEL": "MEMSVC_MODEL__MODEL"}
SHORT_FORMS |= {"MEMORY_DECAY_DAYS": "MEMSVC_MEMORIES__DECAY_DAYS"}
# Read by other programs, or set by Kubernetes in every container beside a service that is named memsvc.
NOT_SETTINGS = ("MEMSVC_CONFIG", "MEMSVC_URL", "MEMSVC_API_KEY", "MEMSVC_TEST_", "MEMSVC_SERVICE_", "MEMSVC_PORT_")


class Switch(BaseModel):
    """One switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="whether these tools are there")


class ToolSwitches(BaseModel):
    """Which tools are there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Switch = Field(Switch(), description="turn memory: memory_before_turn, memory_after_turn and their kin")
    file_io: Switch = Field(Switch(), description="files: file_read, file_write and their kin")
    whiteboard: Switch = Field(Switch(), description="whiteboards: context_update, whiteboard_get and their kin")
    knowledge: Switch = Field(Switch(), description="knowledge: elfmem_remember, elfmem_recall and their kin")
    notebook: Switch = Field(Switch(), description="the notebook: read_document, update_document and their kin")
    memories: Switch = Field(Switch(), description="memories: /api/memories, memories_add and their kin")
    mcp_pipe: PipeOptions = Field(PipeOptions(), description="mcp_pipe: several calls in one")
    find_tool: Switch = Field(Switch(), description="find_tool: the tools that fit a question")
    disabled: tuple[str, ...] = Field((), description="single tools that are not there, by name")


class McpOptions(BaseModel):
    """The MCP tools and turn memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: ToolSwitches = Field(ToolSwitches(), description="which tools are there")
    memory: TurnOptions = Field(TurnOptions(), description="turn memory")


class ToolSettings(BaseModel):
    """What operators of MCP memory tools look for under `settings`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mcp: McpOptions = Field(McpOptions(), description="the MCP tools")


class Settings(BaseModel):
    """All settings of one process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any that is free")
    data_dir: Path = Field(Path(".memsvc"), description="folder of the embedded PostgreSQL and of the first API key")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")
    shutdown_grace_s: float = Field(25.0, ge=0, le=3600, description="how long calls may go on after SIGTERM")
    auth: AuthOptions = Field(AuthOptions(), description="who may call")
    limits: LimitsOptions = Field(LimitsOptions(), description="what a request may be")
    sse: SseOptions = Field(SseOptions(), description="the transport at /sse, for old clients; deprecated")
    audit: AuditOptions = Field(AuditOptions(), description="how the call log is written")
    database: DatabaseOptions = Field(DatabaseOptions(), description="PostgreSQL", repr=False)
    worker: WorkerOptions = Field(WorkerOptions(), description="jobs that run in the background")
    files: FilesOptions = Field(FilesOptions(), description="the file store")
    whiteboard: WhiteboardOptions = Field(WhiteboardOptions(), description="whiteboards: a page for each conversation")
    knowledge: KnowledgeOptions = Field(
        KnowledgeOptions(), description="what agents learn: blocks that fade unless used"
    )
    notebook: NotebookOptions = Field(NotebookOptions(), description="the notebook: a tree of documents a project")
    memories: MemoriesOptions = Field(MemoriesOptions(), description="memories: what is known of a user, by id")
    embeddings: EmbeddingOptions = Field(EmbeddingOptions(), description="search by meaning", repr=False)
    model: ModelOptions = Field(ModelOptions(), description="a model that reads and writes", repr=False)
    rerank: RerankOptions = Field(RerankOptions(), description="a model that reorders what was found", repr=False)
    settings: ToolSettings = Field(ToolSettings(), description="tools and turn memory")

    @model_validator(mode="after")
    def _extraction_needs_a_model(self) -> Self:
        heuristic = self.settings.mcp.memory.heuristic
        if heuristic.enabled and not heuristic.base_url:
            if not self.model.model:
                raise ValueError(f"{HEURISTIC}.enabled needs {HEURISTIC}.base_url, or a model in model.model")
            if heuristic.model != HEURISTIC_MODEL or heuristic.api_key:
                raise ValueError(f"{HEURISTIC}.model and {HEURISTIC}.api_key need {HEURISTIC}.base_url beside them")
        return self

    @property
    def turn_model(self) -> ModelOptions:
        """The model that turn memory asks: that of `heuristic` where it has an endpoint of its own, else the general
        one, with the time limit of `heuristic` where that is on; without a name, none."""
        heuristic = self.settings.mcp.memory.heuristic
        if not self.settings.mcp.tools.memory.enabled:
            return ModelOptions()
        if not heuristic.enabled:
            return self.model
        if not heuristic.base_url:
            return self.model.model_copy(update={"timeout_ms": heuristic.timeout_ms})
        named = heuristic.model.startswith(PROVIDERS)
        return ModelOptions(
            model=heuristic.model if named else f"openai:{heuristic.model}",
            base_url=heuristic.base_url,
            api_key=heuristic.api_key,
            timeout_ms=heuristic.timeout_ms,
            retries=self.model.retries,
        )

    @property
    def memories_model(self) -> ModelOptions:
        """The model that finds memories: the general one; where only its key or its endpoint is set, gpt-5-mini there.
        It gets no longer than a call may wait for both answers."""
        on = self.settings.mcp.tools.memories.enabled
        return self.model.within(self.memories.deadline_s, MEMORIES_MODEL) if on else ModelOptions()

    @property
    def turn_model_section(self) -> str:
        """Where the settings name the model that turn memory asks."""
        heuristic = self.settings.mcp.memory.heuristic
        return HEURISTIC if heuristic.enabled and heuristic.base_url else "model"

    @model_validator(mode="after")
    def _owner_needs_application(self) -> Self:
        if self.database.admin_url and not self.database.url:
            raise ValueError("database.admin_url needs database.url beside it")
        if self.database.direct_url and not self.database.url:
            raise ValueError("database.direct_url needs database.url beside it")
        return self


def load(file: Path, environment: Mapping[str, str], **given: Any) -> Settings:
    """The settings; SettingsError with all problems at once, none of which tells a value."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    _merge(values, _read(file))
    for variable, path, text in _variables(environment):
        field = _field(path)
        if field is None or section_of(field) is not None:
            problems.append(f"{variable}: no such setting{_nearest(path)}")
        else:
            _merge(values, _nested(path, _parsed(text, field)))
    _merge(values, given)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        told = [_told(one) for one in error.errors(include_url=False, include_input=False)]
        raise SettingsError(problems + told) from None
    if problems:
        raise SettingsError(problems)
    return settings


def keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting by its path, sections left out, in the order of the file."""
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
        raise SettingsError([f"{file}: cannot be read: {error.strerror}"]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise SettingsError([f"{file}: {where}this is not YAML"]) from error
    if not isinstance(values, dict | None):
        raise SettingsError([f"{file}: must hold keys and values"])
    return values or {}


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, list[str], str]]:
    """Every variable that means a setting, the short forms first so that the long ones win."""
    for variable in sorted(environment, key=lambda name: (name not in SHORT_FORMS, name)):
        text = environment[variable]
        from_kubernetes = variable == "MEMSVC_PORT" and text.startswith("tcp://")
        ours = (variable in SHORT_FORMS and text) or variable.startswith(PREFIX)
        if ours and not variable.startswith(NOT_SETTINGS) and not from_kubernetes:
            yield variable, SHORT_FORMS.get(variable, variable).removeprefix(PREFIX).lower().split("__"), text


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
    """The model of a section; None for a setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _parsed(text: str, field: FieldInfo) -> Any:
    """A list from JSON or from words between commas; everything else as it is, for pydantic to read."""
    if get_origin(field.annotation) is not tuple:
        return text
    if text.lstrip().startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return [word.strip() for word in text.split(",") if word.strip()]


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    whole: dict[str, Any] = value
    return whole


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Later values over earlier ones, key by key; an empty key of the file counts as not given."""
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif isinstance(value, Mapping):
            into[name] = {}
            _merge(into[name], value)
        elif value is not None:
            into[name] = value


def _told(error: ErrorDetails) -> str:
    path = [str(step) for step in error["loc"]]
    if error["type"] == "extra_forbidden":
        return f"{'.'.join(path)}: no such setting{_nearest(path)}"
    field = _field([step for step in path if not step.isdigit()])
    message = plain(error)
    message = message[:1].lower() + message[1:]
    meaning = f" ({field.description})" if field is not None and field.description and not section_of(field) else ""
    return ": ".join(part for part in (".".join(path), f"{message}{meaning}") if part)


def _nearest(path: list[str]) -> str:
    """What may stand there instead: the nearest names of all settings, else the names of the section."""
    every = [name for name, _ in keys()]
    near = get_close_matches(".".join(path), every, n=2, cutoff=0.75)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    section = next((parent for depth in range(len(path) - 1, -1, -1) if _is_section(parent := path[:depth])), [])
    prefix = "".join(f"{step}." for step in section)
    names = {name.removeprefix(prefix).split(".")[0] for name in every if name.startswith(prefix)}
    return f"; allowed {f'in {prefix[:-1]}' if section else 'here'}: {', '.join(sorted(names))}"


def _is_section(path: list[str]) -> bool:
    field = _field(path)
    return not path or (field is not None and section_of(field) is not None)
