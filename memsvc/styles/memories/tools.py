"""Everything that this style publishes, assembled."""

from typing import Any, Final

from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.scope import Permission
from memsvc.core.tools import Arguments, Published, Result, Tool
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.memories import contract
from memsvc.styles.memories.adding import Adding
from memsvc.styles.memories.finding import Finding
from memsvc.styles.memories.happenings import Found
from memsvc.styles.memories.keeping import Keeping
from memsvc.styles.memories.memories import Memories
from memsvc.styles.memories.memory_tools import MemoryTools
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.project_settings import ProjectSettings
from memsvc.styles.model_budget import ModelBudget

_LOGGED: Final = frozenset({"project", "user_id", "memory_id"})


def published(
    database: Database,
    clock: Clock,
    meter: Meter,
    options: MemoriesOptions,
    *,
    embedding: Embedding | None = None,
    llm: Llm | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the tools over memories.

    A model finds memories in conversations; without one, rules do.
    """
    settings = ProjectSettings(database, options)
    keeping = Keeping(per_user_max=options.per_user_max, users_max=options.users_max, embeds=embedding is not None)
    finding = Finding(meter, embedding)
    budget = budget or ModelBudget(database, clock, 0)
    adding = Adding(database, clock, meter, options, keeping=keeping, finding=finding, llm=llm, budget=budget)
    memories = Memories(database, clock, keeping, finding, settings)
    functions = MemoryTools(adding, memories, settings, options)
    tools = [*_tools(functions, waits=llm is not None), *_settings_tools(functions)]
    return Published(tools=tools, jobs=[], happenings=Found(database))


def _tools(functions: MemoryTools, *, waits: bool) -> list[Tool]:
    return [
        _writes(
            "memories_add",
            "Add memories",
            "Find what a conversation tells of a user and keep it as memories; what changed is updated, what is no "
            "longer true is deleted, what is known already is left alone.",
            (contract.AddArguments, contract.AddResult, functions.add),
            idempotent=False,
            waits=waits,
        ),
        _reads(
            "memories_search",
            "Search memories",
            "Search a user's memories, best first.",
            (contract.SearchArguments, contract.MemoriesResult, functions.search),
        ),
        _reads(
            "memories_list",
            "List memories",
            "List a user's memories, newest first.",
            (contract.ListArguments, contract.MemoriesResult, functions.list),
        ),
        _reads(
            "memories_get",
            "Read a memory",
            "Read one memory of a user.",
            (contract.OneArguments, contract.ShownMemory, functions.get),
        ),
        _writes(
            "memories_update",
            "Change a memory",
            "Let one memory of a user say something else. Its history keeps what it said.",
            (contract.ChangeArguments, contract.ShownMemory, functions.change),
            idempotent=False,
        ),
        _reads(
            "memories_history",
            "Tell a memory's history",
            "Tell what a memory of a user said when, who found it, and when it was deleted.",
            (contract.OneArguments, contract.HistoryResult, functions.history),
        ),
        _writes(
            "memories_delete",
            "Delete a memory",
            "Delete one memory of a user. Its history still tells what it said.",
            (contract.OneArguments, contract.DoneResult, functions.delete),
            destructive=True,
        ),
        _writes(
            "memories_delete_all",
            "Delete all memories",
            "Delete all memories of a user in a project, hidden ones too.",
            (contract.UserArguments, contract.DoneResult, functions.delete_all),
            destructive=True,
        ),
    ]


def _settings_tools(functions: MemoryTools) -> list[Tool]:
    return [
        _reads(
            "memories_get_settings",
            "Read the settings of memories",
            "Read what holds for the memories of a project: whether clients should use them, decay and search limit.",
            (Arguments, contract.SettingsResult, functions.get_settings),
        ),
        _writes(
            "memories_put_settings",
            "Change the settings of memories",
            "Say what shall hold for the memories of a project; what is not given is as the server has it.",
            (contract.SettingsArguments, contract.SuccessResult, functions.put_settings),
        ),
        _reads(
            "memories_get_prompt",
            "Read the extraction prompt",
            "Read how a model is asked for the facts of a conversation in a project.",
            (Arguments, contract.PromptResult, functions.get_prompt),
        ),
        _writes(
            "memories_put_prompt",
            "Change the extraction prompt",
            "Say how a model is to be asked for the facts of a conversation in a project.",
            (contract.PromptArguments, contract.SuccessResult, functions.put_prompt),
        ),
        _writes(
            "memories_reset_prompt",
            "Reset the extraction prompt",
            "Let a model be asked for the facts of a conversation as it is by default.",
            (Arguments, contract.ResetResult, functions.reset_prompt),
        ),
    ]


_Function = tuple[type[Arguments], type[Result], Any]
"""Argument and result models of a tool, and the function that it runs."""


def _reads(name: str, title: str, description: str, function: _Function) -> Tool:
    arguments, result, run = function
    return Tool(
        name=name,
        title=title,
        description=description,
        arguments=arguments,
        result=result,
        run=run,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=_LOGGED,
    )


def _writes(
    name: str,
    title: str,
    description: str,
    function: _Function,
    *,
    idempotent: bool = True,
    destructive: bool = False,
    waits: bool = False,
) -> Tool:
    arguments, result, run = function
    return Tool(
        name=name,
        title=title,
        description=description,
        arguments=arguments,
        result=result,
        run=run,
        permission=Permission.WRITE,
        read_only=False,
        over_quota=destructive,
        idempotent=idempotent,
        destructive=destructive,
        logged=_LOGGED,
        waits_for_model=waits,
    )
