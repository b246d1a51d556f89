"""How a style tells what happens in projects, as it happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memsvc.core.scope import Scope


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened in a project: its number there, which grows, what kind of thing it was, and what is told
    of it."""

    number: int
    kind: str
    told: dict[str, Any]


class Happenings(Protocol):
    """What happens in projects, for those who want to hear of it as it happens; `uri` is what is announced then, and
    whoever may call `tool`, which takes nothing but the project, may hear of it."""

    uri: str
    tool: str

    async def latest(self, scope: Scope) -> int:
        """The number of what happened last; 0 when nothing has."""
        ...

    async def since(self, scope: Scope, number: int) -> Sequence[Happening]:
        """What happened behind this number and is still known, oldest first; none when nothing has."""
        ...
