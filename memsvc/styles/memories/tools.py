"""Everything that this style publishes, assembled."""

from typing import Any, Final

from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.scope import Permission
from memsvc.core.tools import Arguments, Published, Result, Tool
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.memories import memory_models
from memsvc.styles.memories.memory_events import MemoryEvents
from memsvc.styles.memories.memory_extraction import MemoryExtraction
from memsvc.styles.memories.memory_search import MemorySearch
from memsvc.styles.memories.memory_tools import MemoriesTools
from memsvc.styles.memories.memory_writer import MemoryWriter
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.project_settings import ProjectSettings
from memsvc.styles.memories.user_memories import UserMemories
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
    writer = MemoryWriter(
        per_user_max=options.per_user_max, users_max=options.users_max, embeds=embedding is not None
    )
    search = MemorySearch(meter, embedding)
    budget = budget or ModelBudget(database, clock, 0)
    extraction = MemoryExtraction(
        database, clock, meter, options, writer=writer, search=search, llm=llm, budget=budget
    )
    memories = UserMemories(database, clock, writer, search, settings)
    functions = MemoriesTools(extraction, memories, settings, options)
    tools = [*_tools(functions, uses_model=llm is not None), *_settings_tools(functions)]
    return Published(tools=tools, jobs=[], events=MemoryEvents(database))


def _tools(functions: MemoriesTools, *, uses_model: bool) -> list[Tool]:
    return [
        _write_tool(
            "memories_add",
            "Add memories",
            "Find what a conversation tells of a user and keep it as memories; what changed is"
            " updated, what is no longer true is deleted, what is known already is left alone.",
            (memory_models.AddMemoriesArguments, memory_models.AddMemoriesResult, functions.add),
            idempotent=False,
            uses_model=uses_model,
        ),
        _read_tool(
            "memories_search",
            "Search memories",
            "Search a user's memories, best first.",
            (memory_models.SearchMemoriesArguments, memory_models.MemoriesResult, functions.search),
        ),
        _read_tool(
            "memories_list",
            "List memories",
            "List a user's memories, newest first.",
            (memory_models.ListMemoriesArguments, memory_models.MemoriesResult, functions.list),
        ),
        _read_tool(
            "memories_get",
            "Read a memory",
            "Read one memory of a user.",
            (memory_models.OneMemoryArguments, memory_models.UserMemoryResult, functions.get),
        ),
        _write_tool(
            "memories_update",
            "Change a memory",
            "Let one memory of a user say something else. Its history keeps what it said.",
            (memory_models.ChangeMemoryArguments, memory_models.UserMemoryResult, functions.change),
            idempotent=False,
        ),
        _read_tool(
            "memories_history",
            "Tell a memory's history",
            "Tell what a memory of a user said when, who found it, and when it was deleted.",
            (
                memory_models.OneMemoryArguments,
                memory_models.MemoryHistoryResult,
                functions.history,
            ),
        ),
        _write_tool(
            "memories_delete",
            "Delete a memory",
            "Delete one memory of a user. Its history still tells what it said.",
            (memory_models.OneMemoryArguments, memory_models.DoneResult, functions.delete),
            destructive=True,
        ),
        _write_tool(
            "memories_delete_all",
            "Delete all memories",
            "Delete all memories of a user in a project, hidden ones too.",
            (memory_models.UserArguments, memory_models.DoneResult, functions.delete_all),
            destructive=True,
        ),
    ]


def _settings_tools(functions: MemoriesTools) -> list[Tool]:
    return [
        _read_tool(
            "memories_get_settings",
            "Read the settings of memories",
            "Read what holds for the memories of a project: whether clients should use them,"
            " decay and search limit.",
            (Arguments, memory_models.MemorySettingsResult, functions.get_settings),
        ),
        _write_tool(
            "memories_put_settings",
            "Change the settings of memories",
            "Say what shall hold for the memories of a project; what is not given is as the"
            " server has it.",
            (
                memory_models.MemorySettingsArguments,
                memory_models.SuccessResult,
                functions.put_settings,
            ),
        ),
        _read_tool(
            "memories_get_prompt",
            "Read the extraction prompt",
            "Read how a model is asked for the facts of a conversation in a project.",
            (Arguments, memory_models.ExtractionPromptResult, functions.get_prompt),
        ),
        _write_tool(
            "memories_put_prompt",
            "Change the extraction prompt",
            "Say how a model is to be asked for the facts of a conversation in a project.",
            (
                memory_models.ExtractionPromptArguments,
                memory_models.SuccessResult,
                functions.put_prompt,
            ),
        ),
        _write_tool(
            "memories_reset_prompt",
            "Reset the extraction prompt",
            "Let a model be asked for the facts of a conversation as it is by default.",
            (Arguments, memory_models.ResetPromptResult, functions.reset_prompt),
        ),
    ]


_Function = tuple[type[Arguments], type[Result], Any]
"""Argument and result models of a tool, and the function that it runs."""


def _read_tool(name: str, title: str, description: str, function: _Function) -> Tool:
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


def _write_tool(
    name: str,
    title: str,
    description: str,
    function: _Function,
    *,
    idempotent: bool = True,
    destructive: bool = False,
    uses_model: bool = False,
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
        uses_model=uses_model,
    )
