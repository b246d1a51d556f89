"""Project events that styles publish as they occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memsvc.core.scope import Scope


@dataclass(frozen=True, slots=True)
class ProjectEvent:
    """An event in a project: its number there, which grows, its kind, and its published data."""

    number: int
    kind: str
    data: dict[str, Any]


class ProjectEventSource(Protocol):
    """Source of project events for subscribers.

    `uri` is announced on each event; a caller that may call `tool`, whose only argument is the
    project, may subscribe."""

    uri: str
    tool: str

    async def latest(self, scope: Scope) -> int:
        """Return the number of the latest event; 0 when there is none."""
        ...

    async def since(self, scope: Scope, number: int) -> Sequence[ProjectEvent]:
        """Return the events after this number that are still stored, oldest first."""
        ...
