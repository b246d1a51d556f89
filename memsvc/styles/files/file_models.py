"""Types of what the file tools take and return."""

from functools import partial
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from memsvc.core.paths import check_path
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Arguments

FilePath = Annotated[
    str,
    AfterValidator(check_path),
    Field(description="such as /notes/todo.md; empty: the root"),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
INTEGER_MAX: Final = 2**53
Integer = Annotated[int, Field(le=INTEGER_MAX)]


class FileArguments(Arguments):
    """Arguments that every file tool takes."""

    project: str = Field(description="the file's project")


file_tool = partial(
    tool,
    toolset="files",
    base=FileArguments,
    logs=(
        "path",
        "from_path",
        "to_path",
        "path_prefix",
        "mode",
        "content_encoding",
        "expected_version",
        "expected_destination_version",
        "content_sha256",
    ),
)


@result
class FileWrite:
    bytes_written: Annotated[int, "bytes of the content that was given"]
    version: Annotated[str, "token of the new state of the file; empty where it keeps no versions"]
