"""Settings of a project that override the options."""

from typing import Annotated, Any, Final

from pydantic import Field

from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.store import memory_settings
from memsvc.store.database import Database, Tx
from memsvc.styles.memories import prompts
from memsvc.styles.memories.memory_models import SearchLimit, memory_tool
from memsvc.styles.memories.options import MemoriesOptions

SEARCH_LIMIT_OF_ZERO: Final = 100
"""The search limit that 0 stands for, as clients of older servers write it."""


@result
class EffectiveSettings:
    """Effective settings of a project.

    Whether memories are to be used at all is for its clients to obey.
    """

    memoryEnabled: Annotated[bool, "whether clients should use memories"]  # noqa: N815
    decayDays: Annotated[float, "days after which a memory is hidden; 0: never"]  # noqa: N815
    searchLimit: Annotated[  # noqa: N815
        int, "memories that a search answers with when it names no limit; 0: 100"
    ]


@result
class SettingsChange:
    success: Annotated[bool, "true: it is done"]


@result
class ExtractionPrompt:
    prompt: Annotated[str, "how a model is asked for the facts of a conversation"]
    isCustom: Annotated[bool, "whether that is the project's own way"]  # noqa: N815


@result
class DefaultPrompt:
    prompt: Annotated[
        str, "how a model is asked from now on, as in every project without a way of its own"
    ]


class ProjectSettings:
    """Reads and writes of a project's settings; the options supply what it does not set."""

    def __init__(self, database: Database, options: MemoriesOptions) -> None:
        self._database = database
        self._options = options

    async def read(self, tx: Tx) -> EffectiveSettings:
        """Return the effective settings of a transaction's project."""
        own = (await memory_settings.read_settings(tx)).settings
        return EffectiveSettings(
            own.get("memoryEnabled", True),
            own.get("decayDays", self._options.decay_days),
            own.get("searchLimit", self._options.search_limit),
        )

    @memory_tool(
        "memories_get_settings", title="Read the settings of memories", needs=Permission.READ
    )
    async def effective(self, scope: Scope) -> EffectiveSettings:
        """Read what holds for a project's memories: whether to use them, decay, search limit."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await self.read(tx)

    @memory_tool(
        "memories_put_settings",
        title="Change the settings of memories",
        needs=Permission.WRITE,
        idempotent=True,
    )
    async def change(
        self,
        scope: Scope,
        memoryEnabled: Annotated[  # noqa: N803
            bool | None, "whether clients should use memories; true if not given"
        ] = None,
        decayDays: Annotated[  # noqa: N803
            float | None,
            Field(ge=0, le=36500),
            "days after which a memory is hidden; 0: never; the server's if not given",
        ] = None,
        searchLimit: Annotated[  # noqa: N803
            SearchLimit, "memories that a search answers with; the server's if not given"
        ] = None,
    ) -> SettingsChange:
        """Say what shall hold for the memories of a project.

        What is not given is as the server has it."""
        settings: dict[str, Any] = {
            "memoryEnabled": memoryEnabled,
            "decayDays": decayDays,
            "searchLimit": searchLimit,
        }
        async with self._database.begin(scope) as tx:
            await memory_settings.set_settings(
                tx, {name: value for name, value in settings.items() if value is not None}
            )
        return SettingsChange(True)

    @memory_tool("memories_get_prompt", title="Read the extraction prompt", needs=Permission.READ)
    async def prompt(self, scope: Scope) -> ExtractionPrompt:
        """Read how a model is asked for the facts of a conversation in a project."""
        async with self._database.begin(scope, read_only=True) as tx:
            custom = (await memory_settings.read_settings(tx)).prompt
        return ExtractionPrompt(custom or prompts.EXTRACTION, custom is not None)

    @memory_tool(
        "memories_put_prompt",
        title="Change the extraction prompt",
        needs=Permission.WRITE,
        idempotent=True,
    )
    async def set_prompt(
        self,
        scope: Scope,
        prompt: Annotated[
            str,
            Field(max_length=20_000),
            "the request; {conversation} stands where the messages go",
        ],
    ) -> SettingsChange:
        """Say how a model is to be asked for the facts of a conversation in a project."""
        checked = prompts.check_prompt(prompt)
        async with self._database.begin(scope) as tx:
            await memory_settings.set_prompt(tx, checked)
        return SettingsChange(True)

    @memory_tool(
        "memories_reset_prompt",
        title="Reset the extraction prompt",
        needs=Permission.WRITE,
        idempotent=True,
    )
    async def reset_prompt(self, scope: Scope) -> DefaultPrompt:
        """Let a model be asked for the facts of a conversation as it is by default."""
        async with self._database.begin(scope) as tx:
            await memory_settings.set_prompt(tx, None)
        return DefaultPrompt(prompts.EXTRACTION)
