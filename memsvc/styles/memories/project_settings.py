"""What a project wants otherwise than the options say."""

from dataclasses import dataclass
from typing import Any, Final

from memsvc.core.scope import Scope
from memsvc.store import memory_settings
from memsvc.store.database import Database, Tx
from memsvc.styles.memories import prompts
from memsvc.styles.memories.options import MemoriesOptions

SEARCH_LIMIT_OF_ZERO: Final = 100
"""What a limit of 0 stands for, as clients of older servers write it."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds in a project. Whether memories are to be used at all is for its clients to heed."""

    memory_enabled: bool
    decay_days: float
    search_limit: int


class ProjectSettings:
    """Reads and writes what a project wants."""

    def __init__(self, database: Database, options: MemoriesOptions) -> None:
        self._database = database
        self._options = options

    async def read(self, tx: Tx) -> InForce:
        """What holds in the project of a transaction."""
        return self._in_force((await memory_settings.wants(tx)).wanted)

    async def in_force(self, scope: Scope) -> InForce:
        """What holds in a project."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await self.read(tx)

    async def want(self, scope: Scope, wanted: dict[str, Any]) -> None:
        """Let the project have what is given, and of the rest what the options say."""
        async with self._database.begin(scope) as tx:
            await memory_settings.want(tx, wanted)

    async def prompt(self, scope: Scope) -> tuple[str, bool]:
        """How a model is asked for facts, and whether that is the project's own way."""
        async with self._database.begin(scope, read_only=True) as tx:
            own = (await memory_settings.wants(tx)).prompt
        return own or prompts.EXTRACTION, own is not None

    async def ask_by(self, scope: Scope, prompt: str | None) -> None:
        """Let a model be asked in another way, or with None as by default; INVALID_ARGUMENT where that has no place for
        the conversation."""
        own = prompts.checked(prompt) if prompt is not None else None
        async with self._database.begin(scope) as tx:
            await memory_settings.ask_by(tx, own)

    def _in_force(self, wanted: dict[str, Any]) -> InForce:
        limit = wanted.get("searchLimit", self._options.search_limit)
        return InForce(wanted.get("memoryEnabled", True), wanted.get("decayDays", self._options.decay_days), limit)
