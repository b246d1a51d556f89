"""How a style publishes what it can do: a tool is data, and every surface is a skin over the catalogue of tools."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from memsvc.core.archives import Archives
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.happenings import Happenings
from memsvc.core.paths import check_project
from memsvc.core.ports import Passages
from memsvc.core.progress import Progress
from memsvc.core.resources import Completion, Guide, Prompt, Resource
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT, Caller, Permission, Scope

Version = Annotated[str, Field(pattern=r"^[0-9a-f]{32}:[1-9][0-9]{0,18}$", max_length=64)]
"""The token of one state of a file, as an argument."""
PLUGINS = ("auto", "rag")


class Arguments(BaseModel):
    """What every tool takes: a project, and the store to use. An explicit null counts as not given."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True)

    project: str = Field(DEFAULT_PROJECT, description="a named part of your memory; nothing is shared between projects")
    plugin: str = Field("auto", description="accepted for older clients", json_schema_extra={"enum": list(PLUGINS)})

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: Any) -> Any:
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if value is not None}
        return given

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        return check_project(value.strip() or DEFAULT_PROJECT)

    @field_validator("plugin")
    @classmethod
    def _plugin(cls, value: str) -> str:
        plugin = value.strip().lower()
        if plugin not in PLUGINS:
            raise MemsvcError(
                Code.INVALID_ARGUMENT,
                "that plugin is not available; available plugins: " + ", ".join(PLUGINS),
                details={"available_plugins": list(PLUGINS)},
            )
        return plugin


class SpanningArguments(Arguments):
    """What a tool takes that is about all projects unless one is named."""

    project: str = Field(ALL_PROJECTS, description="the project; `*`: all that the key may touch")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        value = value.strip()
        return ALL_PROJECTS if value in ("", ALL_PROJECTS) else check_project(value)


class ComposedArguments(SpanningArguments):
    """What a tool takes that works with other tools: these say themselves which project they touch."""

    project: str = Field(ALL_PROJECTS, description="what the call is logged under; tools that it calls name their own")


class Result(BaseModel):
    """What a tool answers; the same object goes out as text and as structured content."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a body for every wire, as an object and as compact JSON, and the error if it is one."""

    body: dict[str, Any]
    text: str
    error: MemsvcError | None = None

    def member(self, name: str) -> str:
        """A member of a result as text: itself if it is a string, else as JSON."""
        value = self.body[name]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Calls(Protocol):
    """The tools as the caller of one of them may use them. Every call is found, permitted, limited, logged and counted
    like one that the caller sent; all are logged under the request that they serve."""

    @property
    def progress(self) -> Progress:
        """Who is told how far the caller's own call has come."""
        ...

    def tools(self) -> Sequence["Tool"]:
        """The tools that the caller may see."""
        ...

    async def call(self, name: str, arguments: Any) -> Outcome:
        """Call a tool. Never raises but for cancellation."""
        ...


@dataclass(frozen=True, slots=True)
class Composed:
    """The function of a tool that works with other tools: it gets calls where others get the scope. It touches no data
    but through them, so that it needs no scope."""

    run: Callable[[Calls, Any], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Reporting:
    """The function of a tool that may take long: it tells beside its answer how far it has come."""

    run: Callable[[Scope, Any, Progress], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class ByCaller:
    """The function of a tool whose answer hangs on what its caller may: it gets the caller where others get the
    scope."""

    run: Callable[[Caller, Any], Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing that a caller can do.

    `logged` names the string arguments that the call log may keep as they are (identifiers and paths); every other
    string is content and leaves only its length behind. `counter` and `duration_ms` name the metrics of this tool
    beyond those that every tool has. `spans_projects` lets the project be `*`: all that the caller may touch.
    With `told_as` the text content is that member of the result instead of JSON, with `bare_errors` the message of an
    error. With `protocol_errors` an error is one of the protocol (JSON-RPC), as clients of an older
    server of these tools expect, with its details as data. `resource` is the URI under which the answer can be read.
    What is `administrative` is for people and programs that look after a tenant: agents get to see it over MCP only
    where the settings say so. What `waits_for_model` may take as long as one thinks: it takes no room from other calls.
    What may be called `over_quota` takes away or maintains, and stores next to nothing.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[Result]
    run: Callable[[Scope, Any], Awaitable[Result]] | Composed | Reporting | ByCaller
    permission: Permission
    read_only: bool
    idempotent: bool
    destructive: bool = False
    logged: frozenset[str] = frozenset()
    counter: str | None = None
    duration_ms: str | None = None
    spans_projects: bool = False
    told_as: str | None = None
    bare_errors: bool = False
    protocol_errors: bool = False
    resource: Resource | None = None
    administrative: bool = False
    waits_for_model: bool = False
    over_quota: bool = False

    def told(self, outcome: Outcome) -> str:
        """The text that a client gets of a call of this tool, beside the object."""
        if outcome.error is not None:
            return outcome.error.message if self.bare_errors else outcome.text
        return outcome.text if self.told_as is None else outcome.member(self.told_as)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work that follows a write, queued in the write's own transaction and run later by a worker, at least once.

    `run` takes the scope and the subject: what the job is about, an identifier and never content. It has to come to the
    same end when it is run twice. A job with `every_s` is also queued for each project that often, with the subject "".
    """

    name: str
    run: Callable[[Scope, str], Awaitable[None]]
    attempts_max: int = 5
    every_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """One version of a file, which stays what it is whatever is written meanwhile.

    `tag` names exactly these bytes: the version token, or a hash where there is none. `pieces(start, stop)` are the
    bytes `start <= position < stop`, each piece 1 MiB at the most; it fails rather than leave a byte out.
    """

    path: str
    tag: str
    size_bytes: int
    is_text: bool
    updated_at: datetime
    pieces: Callable[[int, int], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class StoredContent:
    """What storing a content did; `created` when no file was there before. `version` is "" where none are kept."""

    bytes_written: int
    version: str
    created: bool


class FileContent(Protocol):
    """The content of files as bytes, beside the tools that carry it within JSON. `asked` is in each case what the
    arguments model of that tool made of the arguments; the errors are those of the tool."""

    @property
    def bytes_max(self) -> int:
        """What one file may hold."""
        ...

    async def open(self, scope: Scope, asked: Any) -> OpenFile:
        """What file_read would read."""
        ...

    async def open_version(self, scope: Scope, asked: Any) -> OpenFile:
        """What file_read_version would read."""
        ...

    async def put(self, scope: Scope, asked: Any, content: bytes) -> StoredContent:
        """What file_write would write, but with this content, which may be as large as a file."""
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """What a style can do: what callers may ask of it, what follows, and, if it keeps files, those as bytes and as
    passages. `prompts` show what its tools answer, `guides` say how to use them, `completions` complete arguments, by
    their names; `happenings` are told as they happen. What is to run beside the calls is entered as `background`."""

    tools: list[Tool]
    jobs: list[Job]
    content: FileContent | None = None
    passages: Passages | None = None
    prompts: tuple[Prompt, ...] = ()
    guides: tuple[Guide, ...] = ()
    completions: Mapping[str, Completion] = field(default_factory=dict)
    happenings: Happenings | None = None
    background: tuple[Callable[[], AbstractAsyncContextManager[None]], ...] = ()
    archives: Archives | None = None


EntryType = Literal["FILE", "DIRECTORY"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file that is made from rows when somebody reads it: it has no versions, and can be written only where its view
    takes it."""

    path: str
    updated_at: datetime
    content: bytes


class Views(Protocol):
    """The rendered files of a style. They stand in the file tree beside the stored ones and win over them."""

    async def read(self, scope: Scope, path: str) -> Rendered | None:
        """The rendered file at exactly this path, or None."""
        ...

    async def below(self, scope: Scope, directory: str) -> Sequence[Rendered]:
        """The rendered files inside a directory, at any depth."""
        ...

    def takes(self, path: str) -> bool:
        """Whether callers may write the file at this path, be it there or not."""
        ...

    async def write(self, scope: Scope, path: str, content: bytes) -> None:
        """Let the file at a path that is taken hold this; INVALID_CONTENT when it cannot."""
        ...
