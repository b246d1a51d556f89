"""Functions of the memory tools."""

from typing import Any

import orjson

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.core.tools import Arguments
from memsvc.store.memories import Memory
from memsvc.styles.memories.adding import Adding, Said
from memsvc.styles.memories.contract import (
    AddArguments,
    AddedMemory,
    AddResult,
    ChangeArguments,
    DoneResult,
    HistoryResult,
    ListArguments,
    MemoriesResult,
    OneArguments,
    PromptArguments,
    PromptResult,
    ResetResult,
    SearchArguments,
    SettingsArguments,
    SettingsResult,
    ShownMemory,
    StepShown,
    SuccessResult,
    UserArguments,
)
from memsvc.styles.memories.memories import Memories
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.project_settings import ProjectSettings
from memsvc.styles.memories.prompts import EXTRACTION

NOTHING_FOUND = "No new information found to store"


class MemoryTools:
    """Translation of tool arguments to method calls, and of their values to results."""

    def __init__(self, adding: Adding, memories: Memories, settings: ProjectSettings, options: MemoriesOptions) -> None:
        self._adding = adding
        self._memories = memories
        self._settings = settings
        self._options = options

    async def add(self, scope: Scope, asked: AddArguments) -> AddResult:
        self._check(asked.metadata)
        if len(asked.messages) > self._options.messages_max:
            raise invalid(f"messages may have {self._options.messages_max} items at the most")
        if sum(len(one.content) for one in asked.messages) > self._options.conversation_chars_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"messages may have {self._options.conversation_chars_max} characters together",
                recovery="send them in several calls",
            )
        said = [Said(one.role.strip().lower(), one.content.replace("\x00", "")) for one in asked.messages]
        added = await self._adding.add(scope, asked.user_id, said, asked.metadata)
        if not added.anything:
            return AddResult(results=[], message=NOTHING_FOUND)
        new = sum(one.event == "ADD" for one in added.changes)
        return AddResult(
            results=[AddedMemory(id=one.memory, memory=one.text, event=one.event) for one in added.changes],
            message=f"Added {new} memories successfully",
        )

    async def search(self, scope: Scope, asked: SearchArguments) -> MemoriesResult:
        found = await self._memories.search(scope, asked.user_id, asked.query, asked.limit)
        return MemoriesResult(results=[_shown(one, asked.user_id) for one in found])

    async def list(self, scope: Scope, asked: ListArguments) -> MemoriesResult:
        found = await self._memories.listed(scope, asked.user_id, asked.limit)
        return MemoriesResult(results=[_shown(one, asked.user_id) for one in found])

    async def get(self, scope: Scope, asked: OneArguments) -> ShownMemory:
        found = await self._memories.get(scope, asked.user_id, asked.memory_id)
        return _shown(found, asked.user_id)

    async def change(self, scope: Scope, asked: ChangeArguments) -> ShownMemory:
        self._check(asked.metadata)
        changed = await self._memories.change(scope, asked.user_id, asked.memory_id, asked.memory, asked.metadata)
        return _shown(changed, asked.user_id)

    async def delete(self, scope: Scope, asked: OneArguments) -> DoneResult:
        await self._memories.delete(scope, asked.user_id, asked.memory_id)
        return DoneResult(success=True, message="Memory deleted successfully")

    async def delete_all(self, scope: Scope, asked: UserArguments) -> DoneResult:
        deleted = await self._memories.delete_all(scope, asked.user_id)
        return DoneResult(success=True, message=f"Deleted {deleted} memories")

    async def history(self, scope: Scope, asked: OneArguments) -> HistoryResult:
        steps = await self._memories.history(scope, asked.user_id, asked.memory_id)
        return HistoryResult(
            results=[
                StepShown(
                    event=one.event,
                    memory=one.text,
                    old_memory=one.old_text,
                    at=one.at,
                    origin=one.origin,
                    session_id=one.session,
                )
                for one in steps
            ]
        )

    async def get_settings(self, scope: Scope, _: Arguments) -> SettingsResult:
        held = await self._settings.in_force(scope)
        return SettingsResult(
            memoryEnabled=held.memory_enabled, decayDays=held.decay_days, searchLimit=held.search_limit
        )

    async def put_settings(self, scope: Scope, asked: SettingsArguments) -> SuccessResult:
        await self._settings.want(scope, asked.wanted())
        return SuccessResult(success=True)

    async def get_prompt(self, scope: Scope, _: Arguments) -> PromptResult:
        prompt, own = await self._settings.prompt(scope)
        return PromptResult(prompt=prompt, isCustom=own)

    async def put_prompt(self, scope: Scope, asked: PromptArguments) -> SuccessResult:
        await self._settings.ask_by(scope, asked.prompt)
        return SuccessResult(success=True)

    async def reset_prompt(self, scope: Scope, _: Arguments) -> ResetResult:
        await self._settings.ask_by(scope, None)
        return ResetResult(prompt=EXTRACTION)

    def _check(self, metadata: dict[str, Any] | None) -> None:
        if metadata and len(orjson.dumps(metadata)) > self._options.metadata_bytes_max:
            raise invalid(f"metadata may have {self._options.metadata_bytes_max} bytes at the most")


def _shown(one: Memory, user: str) -> ShownMemory:
    return ShownMemory(
        id=one.memory,
        memory=one.text,
        user_id=user,
        created_at=one.created_at,
        updated_at=one.fact.valid_from,
        metadata=one.metadata,
    )
