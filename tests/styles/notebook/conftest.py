"""The notebook of one tenant's project, by its tools."""

from collections.abc import Callable
from typing import Any

import pytest

from memsvc.styles.notebook.options import NotebookOptions
from tests.door import Door, open_door


class NotebookDoor:
    """The tools of the notebook, with the answers cut down to what most tests look at."""

    def __init__(self, call: Door, project: str = "default") -> None:
        self.call = call
        self.project = project

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.call(tool, **{"project": self.project} | arguments)

    async def refused(self, code: str, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """The message of a call that has to fail with this code, and its details."""
        body = await self.call.refuses(code, tool, **{"project": self.project} | arguments)
        known = ("code", "message", "retryable", "recovery")
        return body["message"], {name: value for name, value in body.items() if name not in known}

    async def write(self, name: str, content: str, **arguments: Any) -> str:
        """What the update of a document told."""
        return str((await self("update_document", id=name, content=content, **arguments))["text"])

    async def text(self, name: str = "root", **arguments: Any) -> str:
        """What a document holds."""
        return str((await self("read_document", id=name, **arguments))["text"])

    async def version(self, name: str = "root") -> str:
        """The version that a document is at."""
        return str((await self("read_document", id=name))["version"])

    async def tree(self) -> str:
        """The tree as YAML."""
        return str((await self("get_document_tree"))["text"])

    async def missing(self, name: str) -> bool:
        """Whether there is no such document."""
        outcome = await self.call.dispatch.call(
            self.call.caller,
            "read_document",
            {"project": self.project, "id": name},
            surface="test",
            request_id="r",
        )
        return outcome.error is not None and outcome.error.message == "Error: id: not found"


@pytest.fixture
def notebook(call: Door) -> NotebookDoor:
    """The notebook of the test's tenant."""
    return NotebookDoor(call)


@pytest.fixture
def with_options(
    database: Any, clock: Any, tokens: Any, meter: Any, scope: Any
) -> Callable[..., NotebookDoor]:
    """A notebook with options other than the defaults."""
    return lambda **options: NotebookDoor(
        open_door(database, clock, tokens, meter, scope, notebook=NotebookOptions(**options))
    )
