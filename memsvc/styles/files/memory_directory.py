"""The directory /memories for the memory tool of Claude models: six commands with fixed answers.

The answers follow the local file system tool of the `anthropic` package (MIT), so that a model sees
the words it was trained on.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from random import random
from typing import Annotated, Final, Literal, TypeVar, assert_never
from unicodedata import category

from pydantic import Field

from memsvc.core.errors import (
    Code,
    MemsvcError,
    already_exists,
    invalid,
    invalid_content,
    invalid_path,
    not_found,
    permission_denied,
    resource_busy,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import PATH_BYTES_MAX, check_path, decode_segment, encode_segment
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.styles.files.file_store import INTEGER_MAX, FileStat, FileStore, Precondition
from memsvc.styles.files.file_writer import FileWriter, Mode

LINES_MAX: Final = 999_999
VIEW_LEVELS: Final = 2
QUOTE_CHARACTERS_MAX: Final = 1000
"""Characters of a text that was not found, as quoted in the error."""
MATCH_LINES_MAX: Final = 200
"""Places of a text that should be unique, as listed in the error."""

_NUMBER_WIDTH: Final = len(str(LINES_MAX))
_UNITS: Final = ("B", "K", "M", "G")


def shorten(text: str) -> str:
    """Return a caller's text, short enough to be quoted back."""
    return text if len(text) <= QUOTE_CHARACTERS_MAX else text[:QUOTE_CHARACTERS_MAX] + "…"


def lines_of(content: str, text: str) -> list[int]:
    """Return the numbers of the lines in which a text starts, once per match, overlaps too."""

    def numbers() -> Iterator[int]:
        line, counted, at = 1, 0, content.find(text)
        while at != -1:
            line += content.count("\n", counted, at)
            counted = at
            yield line
            at = content.find(text, at + 1)

    return list(islice(numbers(), MATCH_LINES_MAX))


def number_lines(lines: Sequence[str], first: int) -> str:
    """Return the lines with numbers from `first` on, right-aligned, followed by a tab."""
    return "\n".join(
        f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)
    )


def size(size_bytes: int) -> str:
    """Return a size in units of 1024, with one decimal unless it is whole: 0B, 512B, 1.5K, 2M."""
    unit = min(max(size_bytes.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    amount = size_bytes / 1024**unit
    return (
        f"{int(amount)}{_UNITS[unit]}" if amount == int(amount) else f"{amount:.1f}{_UNITS[unit]}"
    )


@dataclass(slots=True)
class DirectoryNode:
    """A directory, or a file, with the bytes of all that is below it."""

    size_bytes: int = 0
    children: dict[str, "DirectoryNode"] = field(default_factory=dict)

    def put(self, segments: Sequence[str], size_bytes: int) -> None:
        """Count a file below this directory."""
        node = self
        node.size_bytes += size_bytes
        for segment in segments[:VIEW_LEVELS]:
            name = decode_segment(segment)
            node = node.children.setdefault(segment if name is None else name, DirectoryNode())
            node.size_bytes += size_bytes
        if len(segments) > VIEW_LEVELS:
            node.children[""] = DirectoryNode()

    def list_entries(self, levels: int) -> list[tuple[str, int]]:
        """Return the names and sizes in this directory, parents first, without hidden names."""
        entries = []
        for name, node in sorted(self.children.items()):
            if name.startswith(".") or not name:
                continue
            entries.append((f"{name}/" if node.children else name, node.size_bytes))
            if levels > 1:
                entries += [
                    (f"{name}/{child_path}", size_bytes)
                    for child_path, size_bytes in node.list_entries(levels - 1)
                ]
        return entries


Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]
Argument = TypeVar("Argument", str, int)
ROOT: Final = "/memories"
ATTEMPTS_MAX: Final = 40
"""How often an edit is retried because another caller changed the file meanwhile."""
WAIT_S_MAX: Final = 0.2

_DEPTH_MAX: Final = PATH_BYTES_MAX // 2
_PAGE_ENTRIES: Final = 1024


@result
class MemoryText:
    text: Annotated[str, "result of the command, as text"]


Edit = tuple[str, str]
"""Result of an edit: the new content of a file and the answer."""


@frozen
class MemoryDirectory:
    """The commands of the memory tool over the file store.

    Paths are read and returned as the caller writes them, in any script; in the store each of their
    segments is encoded. Every error has its fixed sentence as the message. Edits apply only to the
    version that was read, so concurrent edits are not lost."""

    files: FileStore
    writing: FileWriter

    @tool(
        "memory",
        "Memory directory",
        Permission.WRITE,
        toolset="turns",
        destructive=True,
        removes=lambda args: args.command == "delete",
        logs=("command", "path", "old_path", "new_path"),
        text_member="text",
        bare_errors=True,
    )
    async def run(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        command: Annotated[
            Command, "what to do: view, create, str_replace, insert, delete or rename"
        ],
        path: Annotated[
            str | None, "a file or directory in /memories; for all commands except rename"
        ] = None,
        view_range: Annotated[
            list[int] | None,
            Field(max_length=16),
            "for view: first and last line, counted from 1; -1: end",
        ] = None,
        file_text: Annotated[str | None, "for create: content of the new file"] = None,
        old_str: Annotated[
            str | None, "for str_replace: text that occurs in the file exactly once"
        ] = None,
        new_str: Annotated[str, "for str_replace: new text; empty if omitted"] = "",
        insert_line: Annotated[
            int | None,
            Field(le=INTEGER_MAX, ge=-INTEGER_MAX),
            "for insert: line after which to insert; 0 for the beginning",
        ] = None,
        insert_text: Annotated[str | None, "for insert: text to insert"] = None,
        old_path: Annotated[str | None, "path to rename"] = None,
        new_path: Annotated[str | None, "path after renaming"] = None,
    ) -> MemoryText:
        """Keep files in /memories from one conversation to the next.

        View a directory or file, create a file, replace (str_replace) or insert text, delete or
        rename. Look into /memories before you start a task."""

        def required(name: str, value: Argument | None) -> Argument:
            if value is None:
                raise invalid(f"the command {command} needs the argument {name}")
            return value

        match command:
            case "rename":
                source = required("old_path", old_path)
                text = self.rename(scope, source, required("new_path", new_path))
            case "view":
                text = self.view(scope, required("path", path), view_range)
            case "create":
                at = required("path", path)
                text = self.create(scope, at, required("file_text", file_text))
            case "str_replace":
                at = required("path", path)
                text = self.str_replace(scope, at, required("old_str", old_str), new_str)
            case "insert":
                line, at = required("insert_line", insert_line), required("path", path)
                text = self.insert(scope, at, line, required("insert_text", insert_text))
            case "delete":
                text = self.delete(scope, required("path", path))
            case _:
                assert_never(command)
        return MemoryText(await text)

    async def view(self, scope: Scope, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return a file's numbered lines, or a directory's content to LEVELS_SHOWN levels.

        `view_range` with two members selects lines (first and last, -1 for the end). NOT_FOUND;
        INVALID_CONTENT for a file that is not text or has more than LINES_MAX lines."""
        store_path = _store_path(path)
        entry = await self._entry(scope, store_path)
        if not entry.exists:
            raise not_found(_missing(path))
        if entry.type == "DIRECTORY":
            return await self._view_directory(scope, path, store_path)
        with _with_messages({Code.NOT_FOUND: _gone(path)}):
            content, _ = await self._read(scope, path, store_path)
        lines = content.split("\n")
        if len(lines) > LINES_MAX:
            raise invalid_content(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first = 0
        if view_range and len(view_range) == 2:
            first = max(1, view_range[0]) - 1
            lines = lines[first : len(lines) if view_range[1] == -1 else view_range[1]]
        return f"Here's the content of {path} with line numbers:\n" + number_lines(lines, first + 1)

    async def create(self, scope: Scope, path: str, file_text: str) -> str:
        """Create a file. ALREADY_EXISTS, NOT_DIRECTORY, and the errors of a write."""
        store_path = _store_path(path)
        exists = f"File {path} already exists"
        if (await self._entry(scope, store_path)).exists:
            raise already_exists(exists)
        with _with_messages({Code.ALREADY_EXISTS: exists, Code.IS_DIRECTORY: exists}):
            absent = Precondition(must_not_exist=True)
            await self.writing.put(
                scope, store_path, file_text.encode(), mode="TRUNCATE", when=absent
            )
        return f"File created successfully at: {path}"

    async def str_replace(self, scope: Scope, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that occurs exactly once; the answer shows the lines around it.

        NOT_FOUND, IS_DIRECTORY, INVALID_ARGUMENT where the text does not occur or not just once,
        RESOURCE_BUSY."""

        def edit(content: str) -> Edit:
            old, new = (_with_line_ends(content, text) for text in (old_str, new_str))
            match_count = content.count(old)
            if match_count == 0:
                raise invalid(
                    f"No replacement was performed, old_str `{shorten(old_str)}` did not appear"
                    f" verbatim in {path}.",
                    recovery=_other_line_ends(content, old_str),
                )
            if match_count > 1:
                lines = ", ".join(map(str, lines_of(content, old)))
                raise invalid(
                    "No replacement was performed. Multiple occurrences of old_str"
                    f" `{shorten(old_str)}` in lines: {lines}. Please ensure it is unique",
                )
            at = content.find(old)
            changed = content[:at] + new + content[at + len(old) :]
            line = content.count("\n", 0, at)
            first = max(0, line - 2)
            snippet = number_lines(changed.split("\n")[first : line + 3], first + 1)
            return (
                changed,
                "The memory file has been edited. Here is the snippet showing the change (with"
                " line numbers):\n" + snippet,
            )

        return await self._edit(scope, path, edit)

    async def insert(self, scope: Scope, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text after a line, 0 for the start.

        NOT_FOUND, IS_DIRECTORY, INVALID_ARGUMENT where there is no such line, RESOURCE_BUSY."""

        def edit(content: str) -> Edit:
            # only a line feed separates lines, so that a carriage return stays where it is
            lines = content.removesuffix("\n").split("\n") if content else []
            if not 0 <= insert_line <= len(lines):
                raise invalid(
                    f"Invalid `insert_line` parameter: {insert_line}. It should be within the"
                    f" range [0, {len(lines)}].",
                )
            lines.insert(insert_line, insert_text.rstrip("\n"))
            changed = "\n".join(lines)
            changed = changed if changed.endswith("\n") else changed + "\n"
            return _with_line_ends(content, changed), f"The file {path} has been edited."

        return await self._edit(scope, path, edit)

    async def delete(self, scope: Scope, path: str) -> str:
        """Delete a file or a directory with its content.

        NOT_FOUND, PERMISSION_DENIED for /memories itself."""
        store_path = _store_path(path)
        if store_path == ROOT:
            raise permission_denied("Cannot delete the /memories directory itself")
        with _with_messages({Code.NOT_FOUND: f"The path {path} does not exist"}):
            await self.writing.delete(scope, store_path, recursive=True)
        return f"Successfully deleted {path}"

    async def rename(self, scope: Scope, old_path: str, new_path: str) -> str:
        """Move a file or a directory.

        NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED for /memories itself, INVALID_PATH for a
        directory into itself."""
        source, destination = _store_path(old_path), _store_path(new_path)
        if source == ROOT:
            raise permission_denied("Cannot rename the /memories directory itself")
        exists = f"The destination {new_path} already exists"
        if (await self._entry(scope, destination)).exists:
            raise already_exists(exists)
        missing = f"The path {old_path} does not exist"
        with _with_messages({Code.ALREADY_EXISTS: exists, Code.NOT_FOUND: missing}):
            await self.writing.rename(scope, source, destination)
        return f"Successfully renamed {old_path} to {new_path}"

    async def _entry(self, scope: Scope, store_path: str) -> FileStat:
        entry = await self.files.entry(scope, store_path)
        # other directories exist because of their files; this one always exists
        is_new = not entry.exists and store_path == ROOT
        return await self.files.entry(scope, "") if is_new else entry

    async def _read(self, scope: Scope, path: str, store_path: str) -> tuple[str, str | None]:
        read = await self.files.read(scope, store_path)
        if read.content_encoding != "utf-8":
            raise invalid_content(f"Unsupported file type for {path}")
        return read.content, read.version

    async def _edit(self, scope: Scope, path: str, edit: Callable[[str], Edit]) -> str:
        store_path = _store_path(path)
        no_file = f"The path {path} is not a file."
        if store_path == ROOT:
            raise MemsvcError(Code.IS_DIRECTORY, no_file)
        missing = _missing(path)
        for attempt in range(ATTEMPTS_MAX):
            with _with_messages({Code.NOT_FOUND: missing, Code.IS_DIRECTORY: no_file}):
                content, version = await self._read(scope, path, store_path)
            missing = _gone(path)
            changed, answer = edit(content)
            whole = changed.encode()
            # A TRUNCATE that finds its own content written by another caller meanwhile would count
            # as done, though that was another edit. Only for an edit that shortens the file is this
            # the same.
            mode: Mode = "TRUNCATE" if len(whole) < len(content.encode()) else "OVERWRITE"
            try:
                await self.writing.put(
                    scope, store_path, whole, mode=mode, when=Precondition(expected_version=version)
                )
            except MemsvcError as error:
                if error.code is not Code.VERSION_CONFLICT:
                    raise
                await asyncio.sleep(min(WAIT_S_MAX, 0.005 * 2**attempt) * random())  # noqa: S311 - no secret
                continue
            return answer
        raise resource_busy(
            "this file was not changed, because other calls keep changing it", retry_after_s=1.0
        )

    async def _view_directory(self, scope: Scope, path: str, store_path: str) -> str:
        root = DirectoryNode()
        cursor: str | None = ""
        while cursor is not None:
            try:
                page = await self.files.listing(
                    scope,
                    store_path,
                    depth=_DEPTH_MAX,
                    limit=_PAGE_ENTRIES,
                    cursor=cursor,
                    directory_times=False,
                )
            except MemsvcError as error:
                # nothing left after the last page, or nothing in /memories yet
                if error.code is not Code.NOT_FOUND:
                    raise
                break
            cursor = page.next_cursor
            for entry in page.entries:
                if entry.type == "FILE":
                    root.put(entry.path[len(store_path) + 1 :].split("/"), entry.size)
        lines = [f"{size(root.size_bytes)}\t{path}"]
        lines += [
            f"{size(size_bytes)}\t{path}/{name}"
            for name, size_bytes in root.list_entries(VIEW_LEVELS)
        ]
        return (
            f"Here're the files and directories up to {VIEW_LEVELS} levels deep in {path},"
            " excluding hidden items:\n" + "\n".join(lines)
        )


def _with_line_ends(content: str, text: str) -> str:
    """Return a text for a file: with CRLF where all its lines end in that, else as it is."""
    ends = content.count("\r\n")
    is_uniform = 0 < ends == content.count("\n")
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if is_uniform else text


def _other_line_ends(content: str, text: str) -> str | None:
    """Return the advice for a text that only its line ends tell from one in the file."""
    if text.replace("\r\n", "\n") not in content.replace("\r\n", "\n"):
        return None
    return (
        "the line endings differ between old_str and the file; replace one line at a time,"
        " without its line ending"
    )


def _store_path(path: str) -> str:
    """Return the path in the file store.

    INVALID_PATH for a path that is not in /memories, leads out of it or is too long."""
    if len(path.encode()) > PATH_BYTES_MAX:
        raise invalid_path(f"path is longer than {PATH_BYTES_MAX} bytes")
    inside = path.removeprefix(ROOT)
    if not path.startswith(ROOT) or (inside and not inside.startswith("/")):
        raise invalid_path(f"Path must start with /memories, got: {path}")
    segments = inside.rstrip("/").split("/")[1:]
    if any(segment in {"", ".", ".."} for segment in segments):
        raise invalid_path(f"Path {path} would escape /memories directory")
    if any(category(character) == "Cc" for character in inside):
        raise invalid_path("path must not contain control characters")
    return check_path("/".join((ROOT, *map(encode_segment, segments))))


def _missing(path: str) -> str:
    return f"The path {path} does not exist. Please provide a valid path."


def _gone(path: str) -> str:
    return f"The file {path} no longer exists (may have been deleted or renamed concurrently)."


@contextmanager
def _with_messages(messages: Mapping[Code, str]) -> Iterator[None]:
    """Raise errors of the given codes with the fixed sentences of the tool."""
    try:
        yield
    except MemsvcError as error:
        if error.code not in messages:
            raise
        raise MemsvcError(error.code, messages[error.code]) from error
