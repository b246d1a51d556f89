"""Settings of a project that override the options."""

from dataclasses import dataclass
from typing import Any, Final

from memsvc.core.scope import Scope
from memsvc.store import memory_settings
from memsvc.store.database import Database, Tx
from memsvc.styles.memories import prompts
from memsvc.styles.memories.options import MemoriesOptions

SEARCH_LIMIT_OF_ZERO: Final = 100
"""The search limit that 0 stands for, as clients of older servers write it."""


@dataclass(frozen=True, slots=True)
class InForce:
    """Effective settings of a project.

    Whether memories are to be used at all is for its clients to obey.
    """

    memory_enabled: bool
    decay_days: float
    search_limit: int


class ProjectSettings:
    """Reads and writes of a project's settings."""

    def __init__(self, database: Database, options: MemoriesOptions) -> None:
        self._database = database
        self._options = options

    async def read(self, tx: Tx) -> InForce:
        """Return the effective settings of a transaction's project."""
        return self._in_force((await memory_settings.wants(tx)).wanted)

    async def in_force(self, scope: Scope) -> InForce:
        """Return the effective settings of a project."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await self.read(tx)

    async def want(self, scope: Scope, wanted: dict[str, Any]) -> None:
        """Set a project's own settings; the options supply the rest."""
        async with self._database.begin(scope) as tx:
            await memory_settings.want(tx, wanted)

    async def prompt(self, scope: Scope) -> tuple[str, bool]:
        """Return the extraction prompt, and whether it is the project's own."""
        async with self._database.begin(scope, read_only=True) as tx:
            own = (await memory_settings.wants(tx)).prompt
        return own or prompts.EXTRACTION, own is not None

    async def ask_by(self, scope: Scope, prompt: str | None) -> None:
        """Set a project's extraction prompt; None resets it.

        INVALID_ARGUMENT where it has no placeholder for the conversation.
        """
        own = prompts.checked(prompt) if prompt is not None else None
        async with self._database.begin(scope) as tx:
            await memory_settings.ask_by(tx, own)

    def _in_force(self, wanted: dict[str, Any]) -> InForce:
        limit = wanted.get("searchLimit", self._options.search_limit)
        return InForce(wanted.get("memoryEnabled", True), wanted.get("decayDays", self._options.decay_days), limit)
