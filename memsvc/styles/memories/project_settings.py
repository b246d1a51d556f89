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
class EffectiveSettings:
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

    async def read(self, tx: Tx) -> EffectiveSettings:
        """Return the effective settings of a transaction's project."""
        return self._effective((await memory_settings.read_settings(tx)).settings)

    async def effective(self, scope: Scope) -> EffectiveSettings:
        """Return the effective settings of a project."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await self.read(tx)

    async def set(self, scope: Scope, overrides: dict[str, Any]) -> None:
        """Set a project's own settings; the options supply the rest."""
        async with self._database.begin(scope) as tx:
            await memory_settings.set_settings(tx, overrides)

    async def prompt(self, scope: Scope) -> tuple[str, bool]:
        """Return the extraction prompt, and whether it is the project's own."""
        async with self._database.begin(scope, read_only=True) as tx:
            custom = (await memory_settings.read_settings(tx)).prompt
        return custom or prompts.EXTRACTION, custom is not None

    async def set_prompt(self, scope: Scope, prompt: str | None) -> None:
        """Set a project's extraction prompt; None resets it.

        INVALID_ARGUMENT where it has no placeholder for the conversation.
        """
        checked = prompts.check_prompt(prompt) if prompt is not None else None
        async with self._database.begin(scope) as tx:
            await memory_settings.set_prompt(tx, checked)

    def _effective(self, overrides: dict[str, Any]) -> EffectiveSettings:
        limit = overrides.get("searchLimit", self._options.search_limit)
        return EffectiveSettings(
            overrides.get("memoryEnabled", True),
            overrides.get("decayDays", self._options.decay_days),
            limit,
        )
