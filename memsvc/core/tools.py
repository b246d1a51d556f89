"""Tools as data: styles publish a catalogue of tools and events, from which surfaces are made."""

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NewType, Protocol, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from memsvc.core.archives import ArchiveTransfers
from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import IDENTIFIER_BYTES_MAX, check_identifier, check_project
from memsvc.core.ports import PassageSearch
from memsvc.core.resources import Completion, Guide, Prompt, Resource
from memsvc.core.scope import (
    ALL_PROJECTS,
    DEFAULT_PROJECT,
    DEFAULT_SESSION,
    Caller,
    Permission,
    Scope,
)
from memsvc.core.validation_messages import safe_text, suggest_name

Toolset = Literal[
    "agent",
    "host",
    "turns",
    "files",
    "knowledge",
    "notebook",
    "memories",
    "whiteboard",
    "chatgpt",
    "admin",
    "all",
]
"""A set of tools; each tool says in which it is."""
HOST_TOOLSET: Final[Toolset] = "host"
"""The set for hosts whose hooks recall before each turn and store after it."""
NAME_CHARS_MAX: Final = 64
TOOLSETS: Final[tuple[Toolset, ...]] = get_args(Toolset)
Toolsets = Annotated[
    tuple[Toolset, ...],
    BeforeValidator(
        lambda value: (
            [name.strip() for name in value.split(",")] if isinstance(value, str) else value
        )
    ),
]
"""Toolsets as a setting: a list, or a text between commas."""


def parse_toolsets(names: Iterable[str]) -> frozenset[Toolset]:
    """Return the toolsets of these names, blank ones left out; INVALID_ARGUMENT for others."""
    found = {name.strip() for name in names} - {""}
    for name in found.difference(TOOLSETS):
        raise invalid(
            f"unknown toolset {safe_text(name, NAME_CHARS_MAX)}; the toolsets are"
            f" {', '.join(TOOLSETS)}",
            recovery=suggest_name(name, TOOLSETS) or None,
        )
    return frozenset(name for name in TOOLSETS if name in found)


class ProgressCallback(Protocol):
    """Receiver of the progress of a slow tool, whether a client listens or not."""

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        """Report that `done` of `total`, where known, is finished.

        `step` is a fixed phrase, never content.

        `done` only grows. Returns at once and never fails."""
        ...


class _Silent:
    """A receiver that ignores reports."""

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        del done, total, step


SILENT: Final[ProgressCallback] = _Silent()
"""For calls whose callers did not request progress."""


@frozen
class ProjectEvent:
    """An event in a project: its number there, which grows, its kind, and its published data."""

    number: int
    kind: str
    data: JsonObject


class ProjectEventSource(Protocol):
    """Source of project events for subscribers.

    `uri` is announced on each event; a caller that may call `tool`, whose only argument is the
    project, may subscribe."""

    uri: str
    tool: str

    async def latest(self, scope: Scope) -> int:
        """Return the number of the latest event; 0 when there is none."""
        ...

    async def since(self, scope: Scope, number: int) -> Sequence[ProjectEvent]:
        """Return the events after this number that are still stored, oldest first."""
        ...


Version = Annotated[str, Field(pattern=r"^[0-9a-f]{32}:[1-9][0-9]{0,18}$", max_length=64)]
"""Version token of a file, as an argument."""
NextCursor = Annotated[str | None, "cursor of the next page, if there is one"]
PLUGINS = ("auto", "rag")


class Arguments(BaseModel):
    """Arguments of every tool: a project. Null counts as absent.

    Older clients name the store to use as `plugin`, which is no longer listed."""

    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )

    project: str = Field(
        DEFAULT_PROJECT,
        description="project name",
    )
    plugin: SkipJsonSchema[str] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if value is not None}
        return values

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        return check_project(value.strip() or DEFAULT_PROJECT)

    @field_validator("plugin")
    @classmethod
    def _plugin(cls, value: str) -> str:
        plugin = value.strip().lower()
        if plugin not in PLUGINS:
            raise invalid(
                "unknown plugin; the available plugins are: " + ", ".join(PLUGINS),
                details={"available_plugins": list(PLUGINS)},
            )
        return plugin


class AllProjectsArguments(Arguments):
    """Arguments of a tool that covers all projects unless one is named."""

    project: str = Field(ALL_PROJECTS, description="project, or `*` for all your projects")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        value = value.strip()
        return ALL_PROJECTS if value in ("", ALL_PROJECTS) else check_project(value)


class NamedProjectArguments(Arguments):
    """Arguments of a tool to which the project, or `*` for all, must be said."""

    project: str = Field(description="the project, or * for all of your projects")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        return value.strip() if value.strip() == ALL_PROJECTS else check_project(value.strip())


class TenantArguments(Arguments):
    """Arguments of a tool over a tenant, whatever project is named."""

    project: str = Field(ALL_PROJECTS, description="ignored by this tool")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        if value.strip() not in ("", ALL_PROJECTS):
            check_project(value.strip())
        return ALL_PROJECTS


class ComposedArguments(AllProjectsArguments):
    """Arguments of a tool that calls other tools, which name their own project."""

    project: str = Field(
        ALL_PROJECTS,
        description="project to log under",
    )


class Result(BaseModel):
    """Result of a tool; the same object goes out as text and as structured content."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


@cache
def result_adapter(result: type) -> TypeAdapter[Any]:
    """Return what writes results of this type, a model or a dataclass, as JSON."""
    return TypeAdapter(result)


@frozen
class CallOutcome:
    """Outcome of a call: the body as an object and as compact JSON, and the error if it failed."""

    body: JsonObject
    text: str
    error: MemsvcError | None = None

    def member(self, name: str) -> str:
        """Return a member of a result as text: itself if it is a string, else as JSON."""
        value = self.body[name]
        return (
            value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )


class ToolCalls(Protocol):
    """The tools as the caller of one of them may use them.

    Every call is resolved, authorized, limited, logged and counted like one that the caller sent;
    all are logged under the request that they belong to."""

    @property
    def progress(self) -> ProgressCallback:
        """Return the progress receiver of the caller's own call."""
        ...

    def tools(self) -> Sequence["Tool"]:
        """Return the tools that the caller may see."""
        ...

    async def call(self, name: str, arguments: Any) -> CallOutcome:
        """Call a tool. Never raises except on cancellation."""
        ...


Accepted = NewType("Accepted", bool)
"""Whether the client's user was asked before this call, and agreed."""


@frozen
class ToolContext:
    """Everything that a call gives a tool beside its arguments.

    Without `caller` and `calls` where no caller is: an operator runs the tool."""

    scope: Scope
    progress: ProgressCallback = SILENT
    caller: Caller | None = None
    calls: ToolCalls | None = None
    accepted: Accepted = Accepted(False)


def removes_nothing(_: Any) -> bool:
    """Return False: what a tool replaces is kept as a version."""
    return False


@frozen_by_keyword
class Tool:
    """One operation that a caller can perform.

    `logged` names the string arguments that the call log may keep as they are (identifiers and
    paths); every other string is content and only its length is logged. `counter` and `duration_ms`
    name the metrics of this tool beyond those that every tool has. `spans_projects` lets the
    project be `*`: all that the caller may touch. A `composed` tool calls others, and touches data
    through these alone; its `steps` are their names, and their arguments where these are known.

    Of a `destructive` tool, `removes` says whether a call with these arguments removes anything for
    good: every call does where it is not given. The user is asked first, where the client can, and
    is shown the strings that are `logged` or `shown`.

    With `text_member` the text content is that member of the result instead of JSON, with
    `bare_errors` the message of an error. With `protocol_errors` an error is one of the protocol
    (JSON-RPC), as clients of an older server of these tools expect, with its details as data.
    `resource` is the URI under which the result can be read. It is in its `toolset`,
    and where `for_agents` or `for_hosts` in theirs too.

    `wraps` names a tool whose work this one does: from whom that is hidden, this one is, too.
    `parts` returns the tools whose work a call does beside its own: it is refused to a key that
    hides one of them.

    An `is_admin` tool is for people and programs that manage a tenant: agents see it over MCP only
    where the settings allow it. A tool that `uses_model` may take as long as the model: it does not
    use the capacity of other calls. A tool that may be called `over_quota` removes or maintains
    data, and stores next to nothing. `stores` names the arguments whose text it stores as they are,
    to which the gateway applies the policy of secrets."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type
    run: Callable[[ToolContext, Any], Awaitable[Any]]
    permission: Permission
    read_only: bool
    idempotent: bool
    destructive: bool = False
    removes: Callable[[Any], bool] | None = None
    steps: Callable[[Any], Iterable[tuple[str, Mapping[str, Any] | None]]] | None = None
    logged: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    counter: str | None = None
    duration_ms: str | None = None
    spans_projects: bool = False
    composed: bool = False
    text_member: str | None = None
    bare_errors: bool = False
    protocol_errors: bool = False
    resource: Resource | None = None
    wraps: str = ""
    parts: Callable[[Any], Iterable[str]] = lambda _: ()
    toolset: Toolset = "all"
    for_agents: bool = False
    for_hosts: bool = False
    is_admin: bool = False
    uses_model: bool = False
    over_quota: bool = False
    stores: tuple[str, ...] = ()

    def is_in(self, toolsets: Collection[str]) -> bool:
        """Return whether any of these sets has the tool."""
        return (
            "all" in toolsets
            or self.toolset in toolsets
            or (self.for_agents and "agent" in toolsets)
            or (self.for_hosts and HOST_TOOLSET in toolsets)
        )

    def addressed(self, arguments: Any, caller: Caller) -> Any:
        """Return the arguments with the project, user and session that they leave out.

        They are those of the caller's connection, else of its key; a session is the user's own."""
        if arguments is not None and not isinstance(arguments, Mapping):
            return arguments
        found = dict(arguments or {})
        for name, value in caller.own.items():
            if self.takes_own(name) and _is_blank(found.get(name)):
                found[name] = value
        session = self.arguments.model_fields.get("session_id")
        if session and session.default == "" and _is_blank(found.get("session_id")):
            found["session_id"] = _default_session(found.get("user_id", caller.own.get("user_id")))
        return found

    def takes_own(self, name: str) -> bool:
        """Return whether an argument is the caller's own project or user where it is left out."""
        field = None if self.toolset == "admin" else self.arguments.model_fields.get(name)
        return field is not None and field.default != ALL_PROJECTS

    def body(self, result: Any) -> JsonObject:
        """Return a result of this tool as JSON."""
        body: JsonObject = result_adapter(self.result).dump_python(
            result, mode="json", warnings="error"
        )
        return body

    def text_of(self, outcome: CallOutcome) -> str:
        """Return the text that a client gets of a call of this tool, beside the object."""
        if outcome.error is not None:
            return outcome.error.message if self.bare_errors else outcome.text
        return outcome.text if self.text_member is None else outcome.member(self.text_member)


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _default_session(user: Any) -> str:
    """Return the session of a call that names none: each user has one, which is no other's.

    The name of a user whose name leaves no room for that is a hash."""
    with suppress(AttributeError, MemsvcError):  # no user, or one that is refused later
        name = check_identifier(user.strip(), "user_id")
        session = f"{DEFAULT_SESSION}@{name}"
        if len(session.encode()) <= IDENTIFIER_BYTES_MAX:
            return session
        return f"{DEFAULT_SESSION}#{sha256(name.encode()).hexdigest()}"
    return DEFAULT_SESSION


@frozen
class Job:
    """Work queued in the transaction of a write and run later by a worker, at least once.

    `run` takes the scope and the subject: an identifier of what the job is about, never content. It
    must be idempotent. A job with `interval_s` is also queued for each project at that interval,
    with the subject ""."""

    name: str
    run: Callable[[Scope, str], Awaitable[None]]
    attempts_max: int = 5
    interval_s: int | None = None


@frozen_by_keyword
class OpenFile:
    """One version of a file, unaffected by later writes.

    `tag` identifies exactly these bytes: the version token, or a hash where there is none.
    `chunks(start, stop)` yields the bytes `start <= position < stop` in chunks of at most 1 MiB; it
    fails rather than leave a byte out."""

    path: str
    tag: str
    size_bytes: int
    is_text: bool
    updated_at: datetime
    chunks: Callable[[int, int], AsyncIterator[bytes]]


@frozen
class StoredContent:
    """Result of storing content; `created` when no file existed, `version` may be ""."""

    bytes_written: int
    version: str
    created: bool


class FileContent(Protocol):
    """The content of files as bytes, beside the tools that carry it within JSON.

    `args` is in each case the parsed arguments model of that tool; the errors are those of the
    tool."""

    @property
    def bytes_max(self) -> int:
        """Return the size limit of one file."""
        ...

    async def open(self, scope: Scope, args: Any) -> OpenFile:
        """Open the file that file_read would read."""
        ...

    async def open_version(self, scope: Scope, args: Any) -> OpenFile:
        """Open the version that file_read_version would read."""
        ...

    async def put(self, scope: Scope, args: Any, content: bytes) -> StoredContent:
        """Write this content, which may be as large as a file, as file_write would."""
        ...


UserSearch = Callable[[Scope, str, int], Awaitable[Sequence[str]]]
"""Search for the users of a project, up to a number, whose content answers a query best."""


@frozen
class Published:
    """Everything that a style publishes: tools, jobs and its files as bytes and passages.

    `prompts` present tool results, `guides` explain their use, `completions` complete arguments by
    name; `events` are its events, `users_found` finds users by their content. Context managers in
    `background` run beside the calls."""

    tools: list[Tool]
    jobs: list[Job]
    content: FileContent | None = None
    passages: PassageSearch | None = None
    prompts: tuple[Prompt, ...] = ()
    guides: tuple[Guide, ...] = ()
    completions: Mapping[str, Completion] = field(default_factory=dict)
    events: ProjectEventSource | None = None
    background: tuple[Callable[[], AbstractAsyncContextManager[None]], ...] = ()
    archives: ArchiveTransfers | None = None
    users_found: UserSearch | None = None


EntryType = Literal["FILE", "DIRECTORY"]


@frozen
class RenderedFile:
    """A file that is rendered from rows when it is read.

    It has no versions, and can be written only where its view accepts it."""

    path: str
    updated_at: datetime
    content: bytes


class Views(Protocol):
    """The rendered files of a style, which win over stored ones in the file tree."""

    async def read(self, scope: Scope, path: str) -> RenderedFile | None:
        """Return the rendered file at exactly this path, or None."""
        ...

    async def list_directory(self, scope: Scope, directory: str) -> Sequence[RenderedFile]:
        """Return the rendered files inside a directory, at any depth."""
        ...

    def accepts(self, path: str) -> bool:
        """Return whether callers may write the file at this path, existing or not."""
        ...

    async def write(self, scope: Scope, path: str, content: bytes) -> None:
        """Replace the content of a writable file; INVALID_CONTENT when it is not valid."""
        ...
