"""The tool `memory`, which Claude models call to keep their own files, in the form they know."""

from typing import Literal, assert_never

from pydantic import Field

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool
from memsvc.styles.files.memory_directory import MemoryDirectory

INTEGER_MAX = 2**53
VIEW_RANGE_ITEMS_MAX = 16

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]


class MemoryArguments(Arguments):
    """A command and its arguments; arguments of other commands are ignored."""

    command: Command = Field(
        description="what to do: view, create, str_replace, insert, delete or rename"
    )
    path: str | None = Field(
        None, description="a file or directory in /memories; for all commands but rename"
    )
    view_range: list[int] | None = Field(
        None,
        max_length=VIEW_RANGE_ITEMS_MAX,
        description="view: the first and the last line to show, counted from 1; -1 for the end",
    )
    file_text: str | None = Field(None, description="create: the content of the new file")
    old_str: str | None = Field(
        None, description="str_replace: a text that occurs in the file exactly once"
    )
    new_str: str = Field(
        "", description="str_replace: what to put in its place; nothing if not given"
    )
    insert_line: int | None = Field(
        None,
        le=INTEGER_MAX,
        ge=-INTEGER_MAX,
        description="insert: the line to insert behind; 0 for the beginning",
    )
    insert_text: str | None = Field(None, description="insert: the text to insert")
    old_path: str | None = Field(None, description="rename: what to rename")
    new_path: str | None = Field(None, description="rename: its new path")

    def required_text(self, name: str) -> str:
        """Return an argument that the command requires; INVALID_ARGUMENT when it is missing."""
        value = getattr(self, name)
        if not isinstance(value, str):
            raise invalid(f"{name}: the command {self.command} needs it")
        return value


class MemoryResult(Result):
    text: str = Field(description="the answer, as a sentence or as numbered lines")


class MemoryTool:
    """Function of the tool."""

    def __init__(self, memories: MemoryDirectory) -> None:
        self._memories = memories

    async def run(self, scope: Scope, args: MemoryArguments) -> MemoryResult:
        return MemoryResult(text=await self._answer(scope, args))

    async def _answer(self, scope: Scope, args: MemoryArguments) -> str:
        match args.command:
            case "view":
                return await self._memories.view(scope, args.required_text("path"), args.view_range)
            case "create":
                return await self._memories.create(
                    scope, args.required_text("path"), args.required_text("file_text")
                )
            case "str_replace":
                return await self._memories.str_replace(
                    scope, args.required_text("path"), args.required_text("old_str"), args.new_str
                )
            case "insert":
                if args.insert_line is None:
                    raise invalid("insert_line: the command insert needs it")
                return await self._memories.insert(
                    scope,
                    args.required_text("path"),
                    args.insert_line,
                    args.required_text("insert_text"),
                )
            case "delete":
                return await self._memories.delete(scope, args.required_text("path"))
            case "rename":
                return await self._memories.rename(
                    scope, args.required_text("old_path"), args.required_text("new_path")
                )
            case _:
                assert_never(args.command)


def memory_tools(memories: MemoryDirectory) -> list[Tool]:
    """Return the tool, whose text content is its answer alone."""
    return [
        Tool(
            name="memory",
            title="Memory directory",
            description=(
                "Keep files in /memories from one conversation to the next: view a directory or a"
                " file, create a file, str_replace or insert text in it, delete or rename. Look"
                " into /memories before starting on a task."
            ),
            arguments=MemoryArguments,
            result=MemoryResult,
            run=MemoryTool(memories).run,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            destructive=True,
            logged=frozenset({"project", "command", "path", "old_path", "new_path"}),
            text_member="text",
            bare_errors=True,
        )
    ]
