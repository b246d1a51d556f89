"""Argument types that all file tools share, and the fields that the call log may keep."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from memsvc.core.paths import check_path
from memsvc.core.tools import Arguments

FilePath = Annotated[
    str,
    AfterValidator(check_path),
    Field(description="absolute path such as /notes/todo.md; empty for the root"),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
INTEGER_MAX: Final = 2**53
LOGGED: Final = frozenset(
    {
        "project",
        "path",
        "from_path",
        "to_path",
        "path_prefix",
        "mode",
        "content_encoding",
        "expected_version",
        "expected_destination_version",
        "content_sha256",
    }
)


class FileArguments(Arguments):
    """Arguments that every file tool takes."""

    project: str = Field(description="the project that the file is in")
