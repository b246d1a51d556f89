"""File tools of one tenant, in one project unless another is named."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memsvc.styles.files.options import FilesOptions
from tests.door import Door, open_door

PROJECT = "default"


class FileDoor:
    """The file tools, with the project filled in and the answers cut down to what most tests look
    at."""

    def __init__(self, call: Door, project: str = PROJECT) -> None:
        self.call = call
        self.project = project

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.call(f"file_{tool}", **{"project": self.project} | arguments)

    async def refuses(self, code: str, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.call.refuses(
            code, f"file_{tool}", **{"project": self.project} | arguments
        )

    async def write(self, path: str, content: str = "x", **arguments: Any) -> str:
        """The version that the write led to."""
        written = await self("write", path=path, content=content, **arguments)
        return str(written["version"])

    async def text(self, path: str, **arguments: Any) -> str:
        """The content of a text file."""
        read = await self("read", path=path, **arguments)
        assert read["content_encoding"] == "utf-8"
        return str(read["content"])

    async def paths(self, path: str = "", **arguments: Any) -> list[str]:
        """The paths of one page of a listing."""
        return [entry["path"] for entry in (await self("list", path=path, **arguments))["entries"]]


@pytest.fixture
def files(call: Door) -> FileDoor:
    """The file tools of the test's tenant."""
    return FileDoor(call)


@pytest.fixture
def in_project(call: Door) -> Callable[[str], FileDoor]:
    """The file tools of the same tenant in another project."""
    return lambda project: FileDoor(call, project)


@pytest.fixture
def with_limits(
    database: Any, clock: Any, tokens: Any, meter: Any, scope: Any
) -> Callable[..., FileDoor]:
    """File tools with limits other than the defaults."""

    return lambda **limits: FileDoor(
        open_door(database, clock, tokens, meter, scope, files=FilesOptions(**limits))
    )


Remember = Callable[[str], Awaitable[None]]


@pytest.fixture
def remember(call: Door) -> Remember:
    """Makes a session with one turn that states a fact."""

    async def remember(session: str) -> None:
        await call(
            "memory_after_turn",
            session_id=session,
            turn_id="t1",
            input_items=[{"role": "user", "content": "My name is Ada."}],
            output_items=[{"role": "assistant", "content": "Hello Ada."}],
        )

    return remember
