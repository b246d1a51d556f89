"""Client that all commands use to call tools, on a server or in the embedded data folder."""

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import orjson
from typer import Argument, Option, Typer

from memsvc.core.errors import Code, MemsvcError, invalid, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_path
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT
from memsvc.variables import KEY_VARIABLE, URL_VARIABLE

TIMEOUT_S: Final = 120.0
CONFIG_VARIABLE: Final = "MEMSVC_CONFIG"
SCORE_DIGITS: Final = 4
"""Decimal places that are printed; JSON has all of them."""
PAGE_MAX: Final = 200
OR_STDIN: Final = ", or - for standard input."
_annotated: Any = Annotated

Config = Annotated[Path | None, Option(envvar=CONFIG_VARIABLE, help="YAML file with the settings.")]
DataDir = Annotated[
    Path | None,
    Option(
        help="Folder that contains the embedded PostgreSQL and the file with the first API key."
    ),
]
Project = Annotated[str, Option(help="The project to use.")]
OnlyProject = Annotated[str | None, Option(help="Use only this project.")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Url = Annotated[
    str | None,
    Option(
        envvar=URL_VARIABLE,
        help="URL of a running server, such as http://host:8080. If omitted, the command"
        " uses the data folder or the configured database.",
    ),
]


@frozen
class CommandOutput:
    """Output of a command: the body with --json, else the lines.

    A command whose answer is bytes writes them itself and returns None as the body. The note goes
    to standard error, after the lines.
    """

    body: Any
    lines: Iterable[str]
    note: str = ""


def show(output: CommandOutput, *, as_json: bool, project: str | None = None) -> None:
    """Print the output. For an empty list, name the project on standard error."""
    if output.body is None:
        return
    if as_json:
        print(orjson.dumps(output.body, option=orjson.OPT_INDENT_2).decode())
        return
    lines = list(output.lines)
    for line in lines:
        print(line)
    nothing = "" if lines or project is None else f"Nothing found in project {project}."
    if note := output.note or nothing:
        print(note, file=sys.stderr)


@frozen
class RemoteTools:
    """The tools of a memory, in one project, with the permissions of MEMSVC_API_KEY."""

    http: httpx2.AsyncClient
    project: str

    async def __call__(self, tool: str, /, **arguments: Any) -> JsonObject:
        """Call a tool and return its result; arguments that are None are left out.

        Raises the tool's own error, or UNAVAILABLE; INVALID_ARGUMENT for what a shell can pass and
        JSON cannot.
        """
        args = {name: value for name, value in arguments.items() if value is not None}
        try:
            content = orjson.dumps({"project": self.project} | args)
        except orjson.JSONEncodeError as error:
            raise invalid("command-line arguments must be UTF-8 text") from error
        headers = {"Content-Type": "application/json"}
        response = await self.send(
            "POST", f"/api/tools/{quote(tool, safe='')}", content=content, headers=headers
        )
        result: JsonObject = orjson.loads(response.content)
        return result

    async def list_all(
        self, tool: str, member: str, /, *, limit: int | None = None, **arguments: Any
    ) -> list[JsonObject]:
        """Return a tool's result with the lists of all pages joined, up to a limit."""
        found: list[JsonObject] = []
        cursor: str | None = None
        while True:
            page_limit = limit and min(limit - len(found), PAGE_MAX)
            page = await self(tool, **arguments, limit=page_limit, cursor=cursor)
            found += page[member]
            cursor = page.get("next_cursor")
            if not cursor or (limit and len(found) >= limit):
                return found

    @asynccontextmanager
    async def download(self, path: str, **request: Any) -> AsyncIterator[httpx2.Response]:
        """Open a response, which may be larger than memory. Raises the error of a failed call."""
        opened = self.http.send(self.http.build_request("GET", path, **request), stream=True)
        response = await self._receive(opened)
        try:
            if response.is_error:
                await response.aread()
                raise failure(response)
            yield response
        finally:
            await response.aclose()

    def content_path(self, path: str) -> str:
        """Return the URL path of a file's bytes."""
        return f"/api/files/{quote(self.project, safe='')}/content{quote(check_path(path))}"

    async def send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        """Send a request and return its response. Raises the error in a failed response."""
        response = await self._receive(self.http.request(method, path, **request))
        if response.is_error:
            raise failure(response)
        return response

    async def _receive(self, answer: Awaitable[httpx2.Response]) -> httpx2.Response:
        """Return an answer; raise UNAVAILABLE where there is none."""
        try:
            return await answer
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise unavailable(
                f"the server at {self.http.base_url} did not answer ({type(error).__name__})",
                recovery=f"check that --url or {URL_VARIABLE} is correct and that `memsvc serve` is"
                " running at that address",
            ) from error


def failure(response: httpx2.Response) -> MemsvcError:
    """Return the error in a response, or one of our own if it does not come from memsvc."""
    try:
        body = orjson.loads(response.content)
        code, message = Code(body["code"]), str(body["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        error_text = (
            f"{response.url.host} answered with status {response.status_code}, but the"
            " answer is not from a memsvc server"
        )
        return unavailable(
            error_text, recovery=f"check that --url or {URL_VARIABLE} is the URL of a memsvc server"
        )
    recovery = body.get("recovery")
    if response.status_code == httpx2.codes.UNAUTHORIZED:
        recovery = (
            f"set {KEY_VARIABLE} to a valid key of this server; the first key of a data folder is"
            " in its file api-key"
        )
    return MemsvcError(code, message, recovery=recovery)


@frozen
class CommandTarget:
    """The memory that a command works on, and the format of its output.

    It is the server at `url` or, without one, the data folder (or the database that is configured).
    """

    url: str | None = None
    project: str = DEFAULT_PROJECT
    config: Path | None = None
    data_dir: Path | None = None
    as_json: bool = False
    use_folder_key: bool = False
    """Opens the data folder by its own key, whatever MEMSVC_API_KEY is."""
    create: bool = False
    """Makes the database where the data folder has none yet."""


@asynccontextmanager
async def connected(target: CommandTarget) -> AsyncIterator[httpx2.AsyncClient]:
    """Open a client of that memory with the key of MEMSVC_API_KEY or the data folder's own."""
    key = "" if target.use_folder_key else environment_key()
    if target.url:
        async with client(target.url, key) as http:
            yield http
        return
    from memsvc.cli.embedded_service import opened  # noqa: PLC0415 - loads the whole server

    async with (
        opened(target.config, target.data_dir, key, create=target.create) as (
            transport,
            folder_key,
        ),
        client("http://localhost", folder_key, transport) as http,
    ):
        yield http


def environment_key() -> str:
    """Return the key in MEMSVC_API_KEY, or "" if it is not set.

    Raises INVALID_ARGUMENT for a text that cannot be a key."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise invalid(
            f"the value of {KEY_VARIABLE} is not a valid key",
            recovery=f"set {KEY_VARIABLE} to a key for this server, on a single line",
        )
    return key


def check_url(url: str) -> None:
    """Raise INVALID_ARGUMENT if a text is not the URL of a server."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise invalid(
            f"{url} is not the URL of a server", recovery="use a URL such as http://127.0.0.1:8080"
        )


def client(
    url: str, key: str, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """Return a client with a key of the server at a URL, which may be its MCP endpoint.

    Raises INVALID_ARGUMENT if the text is not such a URL."""
    check_url(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    base_url = url.rstrip("/").removesuffix("/mcp")
    return httpx2.AsyncClient(
        base_url=base_url, headers=headers, timeout=TIMEOUT_S, transport=transport, trust_env=False
    )


def target_of_project(
    help_text: str = "The project.", default: str = DEFAULT_PROJECT
) -> Callable[..., CommandTarget]:
    """Return a function that returns the target named by a command's options."""

    def target_of(
        *,
        project: Annotated[str, Option(help=help_text)] = default,
        as_json: Json = False,
        url: Url = None,
        config: Config = None,
        data_dir: DataDir = None,
    ) -> CommandTarget:
        return CommandTarget(server_of(url, data_dir, config), project, config, data_dir, as_json)

    return target_of


def server_of(url: str | None, data_dir: Path | None, config: Path | None) -> str | None:
    """Return the server that a command uses, or None without a server.

    A data folder or settings on the command line take precedence over a URL from the environment.
    """
    typed = config is not None and str(config) != os.environ.get(CONFIG_VARIABLE)
    return None if (data_dir is not None or typed) and url == os.environ.get(URL_VARIABLE) else url


target_of = target_of_project()
Command = Callable[..., Awaitable[CommandOutput]]
Lines = Callable[[Any], Iterable[str]]
Answer = TypeVar("Answer")


def stores(function: Command, only_reads_with: str = "") -> Command:
    """Mark a command that stores something, so that it creates the database if there is none.

    With the option `only_reads_with`, the command only reads."""
    vars(function)["only_reads_with"] = only_reads_with
    return function


@frozen
class ToolOption:
    """An argument or option of a command, and the tool's argument that it sets."""

    parameter: inspect.Parameter
    to: str


def argument(
    name: str,
    help_text: str | None = None,
    kind: Any = str,
    default: Any = inspect.Parameter.empty,
    *,
    to: str = "",
    **more: Any,
) -> ToolOption:
    """Return an argument of a command, required unless it has a default; `more` is typer's."""
    return _tool_option(name, kind, default, Argument(help=help_text, **more), to)


def option(
    name: str,
    help_text: str | None,
    kind: Any = str,
    default: Any = None,
    *,
    flags: Sequence[str] = (),
    to: str = "",
    **more: Any,
) -> ToolOption:
    """Return an option of a command, with these `flags` if not the name; `more` is typer's."""
    return _tool_option(name, kind, default, Option(*flags, help=help_text, **more), to)


def _tool_option(name: str, kind: Any, default: Any, about: Any, to: str) -> ToolOption:
    annotation = _annotated[kind | None if default is None else kind, about]
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameter = inspect.Parameter(name, by_name, default=default, annotation=annotation)
    return ToolOption(parameter, to or name)


def tool_command(
    tool: str, help_text: str, *options: ToolOption, lines: Lines, pages: str = "", table: str = ""
) -> Command:
    """Return a command that passes its options on to a tool and prints these lines of its answer.

    With `pages`, the answer is that member of all its pages. With `table`, a note says if that
    member is empty, with the names in it that are nearest to those of the options.
    """

    async def run(call: RemoteTools, **values: Any) -> CommandOutput:
        args = {one.to: values[one.parameter.name] for one in options}
        body = (
            {pages: await call.list_all(tool, pages, **args)} if pages else await call(tool, **args)
        )
        is_cut = pages and len(body[pages]) == args.get("limit")
        note = f"There may be more {pages}: list them with a higher --limit." if is_cut else ""
        if table and not body[table]:
            everything = await replace(call, project=ALL_PROJECTS)(tool)
            note = _nothing_matches(args | {"project": call.project}, everything[table])
        return CommandOutput(body, lines(body), note)

    [call, _] = inspect.signature(run).parameters.values()
    vars(run)["__signature__"] = inspect.Signature([call, *(one.parameter for one in options)])
    run.__doc__ = help_text
    return run


def _nothing_matches(given: JsonObject, known: Sequence[JsonObject]) -> str:
    """Return a note that nothing was found, with the known names closest to the given ones."""
    from memsvc.core.validation_messages import suggest_name  # noqa: PLC0415 - loads pydantic

    near = (
        suggest_name(value, names)
        for name, value in given.items()
        if isinstance(value, str) and value not in (names := {str(row.get(name)) for row in known})
    )
    return "; ".join(["Nothing found", *filter(None, near)])


def rows(member: str, *names: str) -> Lines:
    """Return a function that returns a line for each row in a member of a result; see `columns`."""
    return lambda body: columns(body[member], *names)


def text(member: str) -> Lines:
    """Return a function that returns the text in a member of a result."""
    return lambda body: [body[member]]


def command_group(
    commands: Mapping[str, Callable[..., Any]],
    target_of_options: Callable[..., CommandTarget] = target_of,
    **more: Any,
) -> Typer:
    """Return a group of these commands, of which those that await use tools; see `as_command`."""
    group = Typer(no_args_is_help=True, **{"add_completion": False} | more)
    for name, function in commands.items():
        uses_tools = inspect.iscoroutinefunction(function)
        group.command(name)(as_command(function, target_of_options) if uses_tools else function)
    return group


def as_command(
    function: Command, target_of_options: Callable[..., CommandTarget] = target_of
) -> Callable[..., None]:
    """Return the function that typer makes a command of; it prints what `function` returns.

    Its options are the parameters of `function` but the first, the `RemoteTools`, and those
    of `target_of_options`.
    """

    unless = getattr(function, "only_reads_with", None)

    def run(target: CommandTarget, /, **options: Any) -> None:
        create = unless is not None and not options.get(unless)
        target = replace(target, create=create)
        answer = asyncio.run(run_calls(target, partial(function, **options)))
        show(answer, as_json=target.as_json, project=target.project)

    return with_options(run, target_of_options, function)


def with_options(
    run: Callable[..., None], make: Callable[..., Any], function: Callable[..., Any] | None = None
) -> Callable[..., None]:
    """Return a command that runs with what `make` makes of options of its own.

    Its options are the parameters of `run`, or of the `function` that it runs, but the first, and
    those of `make`.
    """
    function = function or run
    [_, *own], made = (inspect.signature(one).parameters.values() for one in (function, make))

    def command(**options: Any) -> None:
        run(make(**{parameter.name: options.pop(parameter.name) for parameter in made}), **options)

    # the help is Rich markup, where brackets are tags
    command.__doc__ = (function.__doc__ or "").replace("[[", r"[\[")
    return _with_parameters(command, *own, *made)


def printed(function: Callable[..., CommandOutput]) -> Callable[..., None]:
    """Return a command that prints what the function returns, as JSON with the option --json."""

    def command(*place: Any, as_json: bool = False, **options: Any) -> None:
        show(function(*place, **options), as_json=as_json)

    command.__doc__ = function.__doc__
    as_json = inspect.signature(command).parameters["as_json"].replace(annotation=Json)
    return _with_parameters(command, *inspect.signature(function).parameters.values(), as_json)


def _with_parameters(
    command: Callable[..., None], *parameters: inspect.Parameter
) -> Callable[..., None]:
    """Return a command after giving it these parameters, which typer passes by name."""
    named = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    vars(command)["__signature__"] = inspect.Signature(named)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return command


async def run_calls(
    target: CommandTarget, function: Callable[[RemoteTools], Awaitable[Answer]]
) -> Answer:
    """Return the result of a function that calls tools of that memory."""
    async with connected(target) as http:
        try:
            return await function(RemoteTools(http, target.project))
        except MemsvcError as error:
            failed = error  # raised outside the app, whose task groups would wrap it
    raise failed


def text_or_stdin(text: str | None) -> str | None:
    """Return the text that was typed or, for `-`, standard input without its last newline."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise invalid("standard input is not UTF-8 text") from error


def local_bytes(source: Path) -> bytes:
    """Return the content of a local file, or standard input for `-`."""
    if str(source) == "-":
        return sys.stdin.buffer.read()
    try:
        return source.read_bytes()
    except OSError as error:
        raise invalid(f"cannot read {source}: {error.strerror}") from error


def columns(rows: Iterable[Mapping[str, Any]], *names: str) -> Iterable[str]:
    """Yield a line for each row, columns separated by tabs."""
    return ("\t".join(_cell(row.get(name)) for name in names) for row in rows)


def _cell(value: Any) -> str:
    text = (
        ""
        if value is None
        else str(round(value, SCORE_DIGITS) if isinstance(value, float) else value)
    )
    return " ".join(text.split())
