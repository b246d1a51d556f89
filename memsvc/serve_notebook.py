"""The notebook alone over stdio, in a folder of Markdown files: a drop-in for structured-memory."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from memsvc.adapters.document_folder import DocumentFolder
from memsvc.core.errors import Code, MemsvcError, SettingsError
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.core.tools import Published, Tool, ToolContext
from memsvc.package_files import default_config
from memsvc.runtime import Models, Runtime, published
from memsvc.serve_stdio import run
from memsvc.settings import ALL_LISTED, Settings, load
from memsvc.stdio_app import ServerProfile
from memsvc.store import document_tree, files, style_files
from memsvc.store.database import Database
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.notebook.links import ROOT, document_id, path_of
from memsvc.styles.notebook.notebook_writer import INDEX_NAME
from memsvc.styles.notebook.options import NotebookOptions

SERVER_NAME: Final = "structured-memory"
FOLDER_VARIABLE: Final = "DATA_DIR"
TEMPLATE_VARIABLE: Final = "ROOT_TEMPLATE"
HIDDEN: Final = ".memsvc"
TOOLS: Final = ("read_document", "update_document", "get_document_tree")
INSTRUCTIONS: Final = """\
A notebook of Markdown documents that form a tree. `root` is its main entry point: keep all primary information there,
and always read and update `root` by default. Only when a topic has become too large or too complex for `root`, split it
out: put `[[subdocument_id]]` in the text, which makes the document `subdocument_id`, and write it there. Keep the tree
shallow. A document is linked by exactly one other, and goes away once nothing links it.
"""


def serve(environment: Mapping[str, str], *, all_tools: bool) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    What the environment lacks, and why the server stopped, is written to stderr.
    """
    folder_path = _required(environment, FOLDER_VARIABLE)
    template = _required(environment, TEMPLATE_VARIABLE)
    folder = Path(folder_path).absolute()
    try:
        (folder / HIDDEN).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MemsvcError(
            Code.UNAVAILABLE, f"Failed to create data directory: {error.strerror}"
        ) from error
    settings = _settings(folder / HIDDEN, template)
    sync = FolderSync(DocumentFolder(folder, folder / HIDDEN), settings.notebook)
    names = None if all_tools else TOOLS
    profile = ServerProfile(INSTRUCTIONS, SERVER_NAME, partial(_published, sync, names), sync.begin)
    _print_error("start server, connect to standard input/output")
    run(settings, None, profile)
    _print_error("MCP server stopped: closed")


def _required(environment: Mapping[str, str], name: str) -> str:
    if name not in environment:
        raise MemsvcError(
            Code.INVALID_ARGUMENT, f"Environment variable {name} is required but not found"
        )
    return environment[name]


def _settings(data_dir: Path, template: str) -> Settings:
    """Return the defaults; the environment is ignored, so that a folder is always served alike."""
    notebook_options = {"root_template": template}
    try:
        return load(
            default_config(),
            {},
            data_dir=data_dir,
            log_level="warning",
            notebook=notebook_options,
            settings=ALL_LISTED,
        )
    except SettingsError as error:
        raise MemsvcError(
            Code.INVALID_ARGUMENT, f"{TEMPLATE_VARIABLE}: {'; '.join(error.errors)}"
        ) from None


def _published(  # noqa: PLR0917 - the arguments of `published`, after those bound here
    sync: "FolderSync",
    names: Collection[str] | None,
    database: Database,
    settings: Settings,
    clock: Clock,
    tokens: TokenCounter,
    meter: Meter,
    models: Models,
) -> Published:
    """Return the named tools of the notebook, or all; those that write sync the folder."""
    tools = notebook_tools.published(database, clock, meter, settings.notebook).tools
    selected = [tool for tool in tools if names is None or tool.name in names]
    jobs = published(database, settings, clock, tokens, meter, models).jobs
    selected_tools = [tool if tool.read_only else sync.synced(tool, database) for tool in selected]
    # clients of that server expect tools and nothing else
    return Published(
        [replace(tool, resource=None) for tool in selected_tools]
        if names is not None
        else selected_tools,
        jobs,
    )


class FolderSync:
    """Sync of the files of a folder with the notebook.

    The database is authoritative: the files are read once, into an empty notebook, and written from
    then on.
    """

    def __init__(self, folder: DocumentFolder, options: NotebookOptions) -> None:
        self._folder = folder
        self._options = options
        self._lock = asyncio.Lock()
        self._logged: set[str] = set()

    async def begin(self, parts: Runtime, caller: Caller) -> None:
        """Import the files at the first start, and write those that are missing or stale."""
        scope = Scope(caller.tenant, DEFAULT_PROJECT)
        async with parts.database.begin(scope, read_only=True) as tx:
            is_new = not await document_tree.count(tx, INDEX_NAME)
        if is_new:
            await self._import(parts, scope)
        await self.sync(parts.database, scope)

    async def _import(self, parts: Runtime, scope: Scope) -> None:
        found, warnings = await asyncio.to_thread(self._folder.read)
        texts = {
            document: text
            for name, text in found.items()
            if (document := document_id(name)) is not None
        }
        warnings += [
            f"{name}.md has a name that no document can have"
            for name in found
            if document_id(name) is None
        ]
        texts.setdefault(ROOT, self._options.root_template)
        documents = notebook_tools.notebook(
            parts.database, parts.clock, parts.metrics, self._options
        ).documents
        try:
            result = await documents.import_documents(scope, texts)
        except MemsvcError as error:
            if error.code is Code.NOT_EMPTY:
                return  # another process, started at the same time, was first
            where = ", ".join(f"{name} {value}" for name, value in error.details.items())
            raise MemsvcError(
                error.code,
                f"the documents of {FOLDER_VARIABLE} cannot be taken over: {error.message}"
                f" ({where})",
                recovery="mend the links in its *.md files, or move them away, and start again",
            ) from error
        self._log(
            [
                *warnings,
                *(
                    f"{name}.md is not linked from root and was left alone"
                    for name in result.orphans
                ),
            ]
        )

    def synced(self, tool: Tool, database: Database) -> Tool:
        """Return the tool with a sync of the files after each call."""

        async def run(context: ToolContext, args: Any) -> Any:
            result = await tool.run(context, args)
            # it is written, whether or not the client still waits
            await asyncio.shield(self.sync(database, context.scope))
            return result

        return replace(tool, run=run)

    async def sync(self, database: Database, scope: Scope) -> None:
        """Write what the documents hold now to the files.

        Errors are written to stderr, and the next call tries again.
        """
        try:
            async with self._lock, _in_thread(self._folder.locked()):
                texts, names = await self._stale(database, scope)
                self._log(await asyncio.to_thread(self._folder.write, texts, names))
        except OSError as error:
            self._log([f"the *.md files cannot be written: {error.strerror}"])
        except MemsvcError as error:
            self._log([f"the *.md files are not up to date: {error.message}"])

    async def _stale(self, database: Database, scope: Scope) -> tuple[dict[str, bytes], list[str]]:
        """Return the texts of documents whose files are stale or missing, and the names of all."""
        written = await asyncio.to_thread(self._folder.written)
        texts: dict[str, bytes] = {}
        async with database.begin(scope, read_only=True) as tx:
            names = list(await document_tree.read_all(tx, INDEX_NAME))
            stored = await style_files.find(tx, [path_of(name) for name in names])
            for name in names:
                file = stored.get(path_of(name))
                if file is not None and (
                    file.sha256 is None or file.sha256.hex() != written.get(name)
                ):
                    texts[name] = await files.read(tx, file, 0, file.size_bytes)
        return texts, names

    def _log(self, messages: Iterable[str]) -> None:
        for message in messages:
            if message not in self._logged:
                self._logged.add(message)
                _print_error(message)


@asynccontextmanager
async def _in_thread(lock: AbstractContextManager[None]) -> AsyncIterator[None]:
    await asyncio.to_thread(lock.__enter__)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _print_error(text: str) -> None:
    with suppress(BrokenPipeError):  # the parent process need not read stderr
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
