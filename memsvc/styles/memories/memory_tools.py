"""Functions of the memory tools."""

from typing import Any

import orjson

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.core.tools import Arguments
from memsvc.store.memories import Memory
from memsvc.styles.memories.memory_extraction import ExtractionMessage, MemoryExtraction
from memsvc.styles.memories.memory_models import (
    AddedMemory,
    AddMemoriesArguments,
    AddMemoriesResult,
    ChangeMemoryArguments,
    DoneResult,
    ExtractionPromptArguments,
    ExtractionPromptResult,
    ListMemoriesArguments,
    MemoriesResult,
    MemoryHistoryResult,
    MemoryHistoryStep,
    MemorySettingsArguments,
    MemorySettingsResult,
    OneMemoryArguments,
    ResetPromptResult,
    SearchMemoriesArguments,
    SuccessResult,
    UserArguments,
    UserMemoryResult,
)
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.project_settings import ProjectSettings
from memsvc.styles.memories.prompts import EXTRACTION
from memsvc.styles.memories.user_memories import UserMemories

NOTHING_FOUND = "No new information found to store"


class MemoriesTools:
    """Translation of tool arguments to method calls, and of their values to results."""

    def __init__(
        self,
        extraction: MemoryExtraction,
        memories: UserMemories,
        settings: ProjectSettings,
        options: MemoriesOptions,
    ) -> None:
        self._extraction = extraction
        self._memories = memories
        self._settings = settings
        self._options = options

    async def add(self, scope: Scope, args: AddMemoriesArguments) -> AddMemoriesResult:
        self._check(args.metadata)
        if len(args.messages) > self._options.messages_max:
            raise invalid(f"messages may have {self._options.messages_max} items at the most")
        if sum(len(item.content) for item in args.messages) > self._options.conversation_chars_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"messages may have {self._options.conversation_chars_max} characters together",
                recovery="send them in several calls",
            )
        messages = [
            ExtractionMessage(item.role.strip().lower(), item.content.replace("\x00", ""))
            for item in args.messages
        ]
        added = await self._extraction.add(scope, args.user_id, messages, args.metadata)
        if not added.has_facts:
            return AddMemoriesResult(results=[], message=NOTHING_FOUND)
        added_count = sum(item.event == "ADD" for item in added.changes)
        return AddMemoriesResult(
            results=[
                AddedMemory(id=item.memory, memory=item.text, event=item.event)
                for item in added.changes
            ],
            message=f"Added {added_count} memories successfully",
            unplaced=list(added.unplaced) or None,
        )

    async def search(self, scope: Scope, args: SearchMemoriesArguments) -> MemoriesResult:
        found = await self._memories.search(scope, args.user_id, args.query, args.limit)
        return MemoriesResult(results=[_memory_result(memory, args.user_id) for memory in found])

    async def list(self, scope: Scope, args: ListMemoriesArguments) -> MemoriesResult:
        found = await self._memories.latest(scope, args.user_id, args.limit)
        return MemoriesResult(results=[_memory_result(memory, args.user_id) for memory in found])

    async def get(self, scope: Scope, args: OneMemoryArguments) -> UserMemoryResult:
        found = await self._memories.get(scope, args.user_id, args.memory_id)
        return _memory_result(found, args.user_id)

    async def change(self, scope: Scope, args: ChangeMemoryArguments) -> UserMemoryResult:
        self._check(args.metadata)
        changed = await self._memories.change(
            scope, args.user_id, args.memory_id, args.memory, args.metadata
        )
        return _memory_result(changed, args.user_id)

    async def delete(self, scope: Scope, args: OneMemoryArguments) -> DoneResult:
        await self._memories.delete(scope, args.user_id, args.memory_id)
        return DoneResult(success=True, message="Memory deleted successfully")

    async def delete_all(self, scope: Scope, args: UserArguments) -> DoneResult:
        deleted = await self._memories.delete_all(scope, args.user_id)
        return DoneResult(success=True, message=f"Deleted {deleted} memories")

    async def history(self, scope: Scope, args: OneMemoryArguments) -> MemoryHistoryResult:
        steps = await self._memories.history(scope, args.user_id, args.memory_id)
        return MemoryHistoryResult(
            results=[
                MemoryHistoryStep(
                    event=step.event,
                    memory=step.text,
                    old_memory=step.old_text,
                    at=step.at,
                    origin=step.origin,
                    session_id=step.session,
                )
                for step in steps
            ]
        )

    async def get_settings(self, scope: Scope, _: Arguments) -> MemorySettingsResult:
        effective = await self._settings.effective(scope)
        return MemorySettingsResult(
            memoryEnabled=effective.memory_enabled,
            decayDays=effective.decay_days,
            searchLimit=effective.search_limit,
        )

    async def put_settings(self, scope: Scope, args: MemorySettingsArguments) -> SuccessResult:
        await self._settings.set(scope, args.overrides())
        return SuccessResult(success=True)

    async def get_prompt(self, scope: Scope, _: Arguments) -> ExtractionPromptResult:
        prompt, custom = await self._settings.prompt(scope)
        return ExtractionPromptResult(prompt=prompt, isCustom=custom)

    async def put_prompt(self, scope: Scope, args: ExtractionPromptArguments) -> SuccessResult:
        await self._settings.set_prompt(scope, args.prompt)
        return SuccessResult(success=True)

    async def reset_prompt(self, scope: Scope, _: Arguments) -> ResetPromptResult:
        await self._settings.set_prompt(scope, None)
        return ResetPromptResult(prompt=EXTRACTION)

    def _check(self, metadata: dict[str, Any] | None) -> None:
        if metadata and len(orjson.dumps(metadata)) > self._options.metadata_bytes_max:
            raise invalid(f"metadata may have {self._options.metadata_bytes_max} bytes at the most")


def _memory_result(memory: Memory, user: str) -> UserMemoryResult:
    return UserMemoryResult(
        id=memory.memory,
        memory=memory.text,
        user_id=user,
        created_at=memory.created_at,
        updated_at=memory.fact.valid_from,
        metadata=memory.metadata,
    )
