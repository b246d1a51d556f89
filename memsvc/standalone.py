"""Servers of one style over stdio: drop-ins for structured-memory and for elfmem.

The notebook is kept in sync with a folder of Markdown files, one per document. A hash of each file
that was written is recorded, so that none that somebody else has written is overwritten or removed.
"""

import asyncio
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError, SettingsError, invalid, unavailable
from memsvc.core.paths import decode_segment, encode_segment
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.core.tools import Published, Tool, ToolContext
from memsvc.package_files import default_config
from memsvc.runtime import Runtime, Services, published, style_services
from memsvc.serve_stdio import run
from memsvc.settings import ALL_LISTED, Settings, load
from memsvc.stdio_app import ServerProfile
from memsvc.store import document_tree, files, style_files
from memsvc.store.database import Database
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.notebook.document_tree import ROOT, document_id, path_of
from memsvc.styles.notebook.notebook_writer import INDEX_NAME
from memsvc.styles.notebook.options import NotebookOptions

SUFFIX: Final = ".md"


class DocumentFolder:
    """The files of one folder; `memory` is a private folder where it records what it wrote."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folder = folder
        self._lock = memory / "documents.lock"
        self._written = memory / "documents.json"
        self._new = memory / "document.new"

    def read(self) -> tuple[dict[str, str], list[str]]:
        """Return the texts of all documents by their ids, and a line for each file that is none."""
        texts: dict[str, str] = {}
        errors: list[str] = []
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if not file.is_file():
                continue
            try:
                texts[_id(file)] = file.read_bytes().decode()
            except UnicodeDecodeError:
                errors.append(f"{file.name} is not UTF-8 and was skipped")
            except OSError as error:
                errors.append(f"cannot read {file.name}: {error.strerror}")
        return texts, errors

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against every other process that locks it; blocks."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def written(self) -> dict[str, str]:
        """Return the SHA-256 of what was written, as hex digits by ids, of existing files."""
        names = {file.name for file in self._folder.iterdir()}
        return {
            document: file_hash
            for document, file_hash in self._read_written().items()
            if _name(document) in names
        }

    def _read_written(self) -> dict[str, str]:
        try:
            known = json.loads(self._written.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write(self, texts: Mapping[str, bytes], document_ids: Collection[str]) -> list[str]:
        """Write these texts to files, and remove files of documents not among `document_ids`.

        Each file is replaced atomically. Files that somebody else wrote stay, and each gets a line
        in the result.
        """
        written = self._read_written()
        errors: list[str] = []
        for document, text in texts.items():
            new_hash = sha256(text).hexdigest()
            try:
                current_hash = self._current_hash(document)
                if current_hash not in (None, new_hash, written.get(document)):
                    errors.append(
                        f"{_name(document)} was changed by another program and was not overwritten"
                    )
                    continue
                if current_hash != new_hash:
                    self._replace(document, text)
            except OSError as error:
                errors.append(f"cannot write {_name(document)}: {error.strerror}")
            else:
                written[document] = new_hash
        for document in written.keys() - set(document_ids):
            if self._current_hash(document) not in (None, written[document]):
                errors.append(
                    f"{_name(document)} was changed by another program and was not removed"
                )
            else:
                (self._folder / _name(document)).unlink(missing_ok=True)
            del written[document]
        self._write_written(written)
        return errors

    def _current_hash(self, document: str) -> str | None:
        try:
            return sha256((self._folder / _name(document)).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def _replace(self, document: str, text: bytes) -> None:
        self._new.write_bytes(text)
        self._new.replace(self._folder / _name(document))

    def _write_written(self, written: Mapping[str, str]) -> None:
        new = self._written.with_suffix(".new")
        new.write_text(json.dumps(written, ensure_ascii=False, indent=1), "utf-8")
        new.replace(self._written)


def _name(document: str) -> str:
    """Return the name of a document's file: its id, encoded where that is no valid name."""
    plain = not document.startswith(".") and not any(char in document for char in "/\\%\0")
    return f"{document if plain else encode_segment(document)}{SUFFIX}"


def _id(file: Path) -> str:
    name = file.name.removesuffix(SUFFIX)
    return (decode_segment(name) if "%" in name else None) or name


SERVER_NAME: Final = "structured-memory"
FOLDER_VARIABLE: Final = "DATA_DIR"
TEMPLATE_VARIABLE: Final = "ROOT_TEMPLATE"
HIDDEN: Final = ".memsvc"
TOOLS: Final = ("read_document", "update_document", "get_document_tree")
INSTRUCTIONS: Final = (
    "A notebook of Markdown documents that form a tree. `root` is its main entry point:"
    " keep all primary information there,\nand always read and update `root` by default."
    " Only when a topic has become too large or too complex for `root`, split it\nout: put"
    " `[[subdocument_id]]` in the text, which creates the document `subdocument_id`, and"
    " write it there. Keep the tree\nshallow. Exactly one other document links to each"
    " document; a document is removed when nothing links to it any more.\n"
)


def serve_notebook(environment: Mapping[str, str], *, all_tools: bool) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    What the environment lacks, and why the server stopped, is written to stderr.
    """
    folder_path = _required(environment, FOLDER_VARIABLE)
    template = _required(environment, TEMPLATE_VARIABLE)
    folder = Path(folder_path).absolute()
    try:
        (folder / HIDDEN).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unavailable(f"Failed to create data directory: {error.strerror}") from error
    settings = _settings(folder / HIDDEN, template)
    sync = FolderSync(DocumentFolder(folder, folder / HIDDEN), settings.notebook)
    names = None if all_tools else TOOLS
    profile = ServerProfile(INSTRUCTIONS, SERVER_NAME, partial(_published, sync, names), sync.begin)
    _print_error("start server, connect to standard input/output")
    run(settings, None, profile)
    _print_error("MCP server stopped: closed")


def _required(environment: Mapping[str, str], name: str) -> str:
    if name not in environment:
        raise invalid(f"Environment variable {name} is required but not found")
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
        raise invalid(
            f"the value of {TEMPLATE_VARIABLE} cannot be used: {'; '.join(error.errors)}"
        ) from None


def _published(sync: "FolderSync", names: Collection[str] | None, services: Services) -> Published:
    """Return the named tools of the notebook, or all; those that write sync the folder."""
    database = services.database
    shared = replace(style_services(services), embedding=None)
    tools = notebook_tools.published(shared, services.settings.notebook).tools
    selected = [tool for tool in tools if names is None or tool.name in names]
    selected_tools = [tool if tool.read_only else sync.synced(tool, database) for tool in selected]
    # clients of that server expect tools and nothing else
    return Published(
        [replace(tool, resource=None) for tool in selected_tools]
        if names is not None
        else selected_tools,
        published(services).jobs,
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
        async with parts.services.database.begin_read(scope) as tx:
            is_new = not await document_tree.count(tx, INDEX_NAME)
        if is_new:
            await self._import(parts.services, scope)
        await self.sync(parts.services.database, scope)

    async def _import(self, services: Services, scope: Scope) -> None:
        found, warnings = await asyncio.to_thread(self._folder.read)
        texts = {
            document: text
            for name, text in found.items()
            if (document := document_id(name)) is not None
        }
        warnings += [
            f"{name}.md was skipped, because its name is not a valid document id"
            for name in found
            if document_id(name) is None
        ]
        texts.setdefault(ROOT, self._options.root_template)
        documents = notebook_tools.notebook(style_services(services), self._options)
        try:
            result = await documents.import_documents(scope, texts)
        except MemsvcError as error:
            if error.code is Code.NOT_EMPTY:
                return  # another process, started at the same time, was first
            where = ", ".join(f"{name} {value}" for name, value in error.details.items())
            raise MemsvcError(
                error.code,
                f"cannot load the documents in the folder that {FOLDER_VARIABLE} names:"
                f" {error.message} ({where})",
                recovery="correct the links in the *.md files of this folder, or move the files"
                " elsewhere, and start again",
            ) from error
        self._log(
            [
                *warnings,
                *(f"{name}.md is not linked from root and was skipped" for name in result.orphans),
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
            self._log([f"cannot write the *.md files: {error.strerror}"])
        except MemsvcError as error:
            self._log([f"the *.md files are out of date: {error.message}"])

    async def _stale(self, database: Database, scope: Scope) -> tuple[dict[str, bytes], list[str]]:
        """Return the texts of documents whose files are stale or missing, and the names of all."""
        written = await asyncio.to_thread(self._folder.written)
        texts: dict[str, bytes] = {}
        async with database.begin_read(scope) as tx:
            names = list(await document_tree.read_all(tx, INDEX_NAME))
            stored = await style_files.find(tx, [path_of(name) for name in names])
            for name in names:
                file = stored.get(path_of(name))
                if file is not None and (
                    file.sha256 is None or file.sha256.hex() != written.get(name)
                ):
                    texts[name] = await files.read(tx, file)
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


KNOWLEDGE_SERVER_NAME: Final = "elfmem"
PREFIX: Final = "elfmem_"


def serve_knowledge(data_dir: Path, config: Path | None) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    The environment is ignored, so that a folder is served in the same way everywhere.
    """
    settings = load(
        config or default_config(), {}, data_dir=data_dir, log_level="warning", settings=ALL_LISTED
    )
    run(settings, None, ServerProfile(guide(None), KNOWLEDGE_SERVER_NAME, _knowledge_tools))


def _knowledge_tools(services: Services) -> Published:
    result = published(services)
    return replace(
        result,
        tools=[tool for tool in result.tools if tool.name.startswith(PREFIX)],
        prompts=(),
        guides=(),
        completions={},
    )
