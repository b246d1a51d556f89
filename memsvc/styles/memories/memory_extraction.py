"""Memories added from a conversation, by a model in two requests or by rules."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, TypeVar

import anyio
import structlog
from pydantic import Field

from memsvc.core import facts as fact_rules
from memsvc.core.background import run_in_thread
from memsvc.core.errors import (
    Code,
    MemsvcError,
    ModelRefusalError,
    invalid,
    payload_too_large,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.rules.extraction import extract
from memsvc.core.scope import Permission, Scope
from memsvc.core.secrets import replace_secrets
from memsvc.core.untrusted import within_lines
from memsvc.store import facts, memories
from memsvc.store.database import Database, Tx
from memsvc.store.locks import index_lock
from memsvc.store.memories import Memory
from memsvc.store.search import QueryEmbedding
from memsvc.styles.embedding import embed_query
from memsvc.styles.memories import memory_changes, user_memories
from memsvc.styles.memories.memory_changes import (
    CurrentMemories,
    InvalidAnswerError,
    MemoryProposal,
    facts_in,
    proposals_in,
)
from memsvc.styles.memories.memory_models import (
    AddedMemories,
    AddedMemory,
    AgentId,
    CheckedMetadata,
    MemoryMessage,
    UserId,
    check_size,
    memory_tool,
    owners_of,
)
from memsvc.styles.memories.memory_writer import (
    MemoryChange,
    MemoryIndex,
    MemoryWriter,
    comparable,
    evidence_of,
    hidden_before,
    index_for,
    new_id,
)
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.memories.user_memories import MemorySearch, ProjectSettings
from memsvc.styles.model_budget import BudgetExhaustedError, ModelBudget, timed_call

log = structlog.get_logger("memsvc.memories")

METRIC_LABEL: Final = "memories"
ATTEMPTS_MAX: Final = 2
"""Attempts of the model to compare, where others change the memories it was given meanwhile."""
EXTRACTED_ROLES: Final = ("user", "assistant")
"""Roles whose messages a model gets; a system message says nothing about a user."""
NOTHING_FOUND: Final = "No new information found to store"
NOT_EXTRACTED: Final = "Failed to extract facts"
NOT_UPDATED: Final = "Failed to update memories"

Read = TypeVar("Read")


@frozen
class MemoryExtraction:
    """Writer of memories found in conversations.

    UNAVAILABLE, with nothing written, when the model fails or takes too long for both requests;
    RESOURCE_BUSY when others write the same user's memories for too long. Rules find them once the
    tenant's daily budget of model requests is used up.

    The lock of the index serialises the writers of a user's memories and is never held while a
    model runs: the model's decisions are compared with what is stored by then.
    """

    database: Database
    clock: Clock
    meter: Meter
    options: MemoriesOptions
    writer: MemoryWriter
    search: MemorySearch
    settings: ProjectSettings
    llm: Llm | None
    budget: ModelBudget

    @memory_tool(
        "memories_add",
        "Add memories",
        Permission.WRITE,
        uses_model=True,
        stores=("messages", "metadata"),
    )
    async def add(
        self,
        scope: Scope,
        user_id: UserId,
        messages: Annotated[list[MemoryMessage], "messages of the conversation, oldest first"],
        metadata: Annotated[
            CheckedMetadata,
            Field(default_factory=dict),
            "metadata of the new memories, such as session_id and source",
        ],
        *,
        agent_id: Annotated[AgentId, "agent id, stored in the metadata"] = None,
        run_id: Annotated[AgentId, "run id, stored in the metadata"] = None,
        infer: Annotated[bool, "if false, the messages are stored unchanged"] = True,
    ) -> AddedMemories:
        """Extract memories of a user from a conversation.

        Updates memories that have changed and deletes those that are no longer true."""
        metadata = metadata | owners_of(agent_id, run_id)
        check_size(metadata, self.options)
        if len(messages) > self.options.messages_max:
            raise invalid(f"one call can have at most {self.options.messages_max} messages")
        if sum(len(item.content) for item in messages) > self.options.conversation_chars_max:
            raise payload_too_large(
                "the messages of one call are limited to"
                f" {self.options.conversation_chars_max} characters in total",
                recovery="send the messages in several calls",
            )
        if not infer:
            return await self._add_texts(scope, user_id, messages, metadata)
        if self.llm is None:
            return await self._add_by_rules(scope, user_id, messages, metadata)
        deadline = anyio.current_time() + self.options.deadline_s
        try:
            return await self._add_by_model(scope, user_id, messages, metadata, deadline)
        except BudgetExhaustedError:
            log.info(
                "memories are extracted by rules, because the daily limit of model calls is"
                " reached",
                project=scope.project,
            )
            return await self._add_by_rules(scope, user_id, messages, metadata)

    async def _add_by_rules(
        self,
        scope: Scope,
        user: str,
        messages: Sequence[MemoryMessage],
        metadata: JsonObject,
    ) -> AddedMemories:
        now, user_index = self.clock.now(), index_for(user)
        user_messages = [
            (f"m{position}", one.content)
            for position, one in enumerate(messages)
            if one.role == "user"
        ]
        chars_max = self.options.conversation_chars_max
        chars = sum(len(one.content) for one in messages)
        extracted = await run_in_thread(
            chars, extract, user_messages, session="", turn="now", user=user, chars_max=chars_max
        )
        claims = [one for one in extracted if memory_changes.is_permanent(one)]
        if not claims:
            return AddedMemories([], NOTHING_FOUND)
        memory_claims = memory_changes.as_memory_claims(claims)
        texts = [one.value for one in memory_claims if isinstance(one, fact_rules.Statement)]
        async with self.database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
            related = await facts.facts_of_claims(tx, [user_index.index_id], claims)
            merged = fact_rules.merge(related, memory_claims, now)
            known = await memories.at(tx, user_index.index_id, [fact.entry for fact in related])
            present = CurrentMemories(
                {}, _by_text(await memories.with_texts(tx, user_index.index_id, texts))
            )
            evidence = evidence_of(user, "rule", metadata)
            changes = memory_changes.by_claims(
                merged, known, present, lambda: new_id(now), evidence
            )
            identities = {one.identity for one in claims if isinstance(one, fact_rules.Statement)}
            repeated = [one for one in known.values() if one.fact.statement.identity in identities]
            changes += memory_changes.brought_back(
                [*repeated, *present.by_text.values()],
                changes,
                await self._hidden_before(tx, now),
                evidence,
            )
            await self.writer.write(tx, user_index, changes, now, metadata=metadata, found=True)
        return _added(changes)

    async def _add_texts(
        self,
        scope: Scope,
        user: str,
        messages: Sequence[MemoryMessage],
        metadata: JsonObject,
    ) -> AddedMemories:
        now, user_index = self.clock.now(), index_for(user)
        spoken = [one.content for one in messages if one.role in EXTRACTED_ROLES]
        texts = [text for text in (" ".join(one.split()) for one in spoken) if text]
        if not all(map(memory_changes.is_valid_memory, texts)):
            raise invalid(
                f"with infer=false, a message is limited to {memory_changes.TEXT_BYTES_MAX}"
                " bytes and must not look like a password or key",
                recovery="shorten the message, or omit infer so that facts are extracted from it",
            )
        async with self.database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
            by_text = _by_text(await memories.with_texts(tx, user_index.index_id, texts))
            evidence = evidence_of(user, "user", metadata)
            changes, _ = memory_changes.by_proposals(
                [MemoryProposal("ADD", "", text, "") for text in texts],
                {},
                CurrentMemories({}, by_text),
                evidence,
                lambda: new_id(now),
                limit=len(texts),
            )
            since = await self._hidden_before(tx, now)
            changes += memory_changes.brought_back(by_text.values(), changes, since, evidence)
            await self.writer.write(tx, user_index, changes, now, metadata=metadata, found=True)
        return _added(changes) if texts else AddedMemories([], NOTHING_FOUND)

    async def _add_by_model(
        self,
        scope: Scope,
        user: str,
        messages: Sequence[MemoryMessage],
        metadata: JsonObject,
        deadline: float,
    ) -> AddedMemories:
        new_facts = await self._extract(scope, messages, deadline)
        if not new_facts:
            return AddedMemories([], NOTHING_FOUND)
        embedding = await embed_query(self.search.embedding, "\n".join(new_facts))
        for attempt in range(1, ATTEMPTS_MAX + 1):
            async with self.database.begin_read(scope) as tx:
                candidates = await self._candidates(tx, index_for(user), new_facts, embedding)
            text = user_memories.update(candidates.values(), new_facts)
            proposals = await self._complete(scope, text, proposals_in, NOT_UPDATED, deadline)
            outcome = await self._apply(
                scope,
                user,
                new_facts,
                proposals,
                candidates,
                metadata,
                final=attempt == ATTEMPTS_MAX,
            )
            if outcome is not None:
                return outcome
        raise AssertionError(
            "the changes were not applied in the last attempt, which must always apply them"
        )

    async def _extract(
        self, scope: Scope, messages: Sequence[MemoryMessage], deadline: float
    ) -> list[str]:
        """Return the facts that a model finds in a conversation and that may become memories."""
        lines = [
            f"{one.role}: {within_lines(replace_secrets(one.content))}"
            for one in messages
            if one.role in EXTRACTED_ROLES and one.content.strip()
        ]
        if not lines:
            return []
        async with self.database.begin_read(scope) as tx:
            prompt = (await memories.read_settings(tx)).prompt or user_memories.EXTRACTION
        text = user_memories.extraction(prompt, "\n".join(lines))
        extracted = await self._complete(scope, text, facts_in, NOT_EXTRACTED, deadline)
        return [one for one in extracted if memory_changes.is_valid_memory(one)][
            : self.options.facts_max
        ]

    async def _candidates(
        self,
        tx: Tx,
        user_index: MemoryIndex,
        new_facts: Sequence[str],
        embedding: QueryEmbedding | None,
    ) -> dict[str, Memory]:
        """Return the memories to compare new facts with, by id, hidden ones too.

        All of them if they are few, else those about the same subject.
        """
        limit = self.options.compared_max
        candidates = await memories.list_latest(tx, user_index.index_id, limit=limit + 1)
        if len(candidates) > limit:
            candidates = await self.search.find(
                tx, user_index, "\n".join(new_facts), embedding, limit=limit
            )
        return {candidate.memory: candidate for candidate in candidates}

    async def _apply(
        self,
        scope: Scope,
        user: str,
        new_facts: Sequence[str],
        proposals: Sequence[MemoryProposal],
        candidates: dict[str, Memory],
        metadata: JsonObject,
        *,
        final: bool,
    ) -> AddedMemories | None:
        """Apply the proposals that still fit, and add the facts that they forget.

        Return None, and change nothing, when a memory given to the model has changed since, unless
        `final`.
        """
        now, user_index = self.clock.now(), index_for(user)
        async with self.database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
            index_id = user_index.index_id
            texts = [*new_facts, *(one.text for one in proposals)]
            by_id = await memories.find_by_ids(tx, index_id, candidates)
            by_text = _by_text(await memories.with_texts(tx, index_id, texts))
            deleted = candidates.keys() - by_id.keys()
            present = CurrentMemories(
                by_id, by_text, frozenset(comparable(candidates[one].text) for one in deleted)
            )
            forgotten, unplaced = memory_changes.forgotten_facts(
                new_facts, proposals, candidates, present
            )
            additions = [MemoryProposal("ADD", "", fact, "") for fact in forgotten]
            evidence = evidence_of(user, "model", metadata)
            changes, has_conflict = memory_changes.by_proposals(
                [*proposals, *additions],
                candidates,
                present,
                evidence,
                lambda: new_id(now),
                limit=self.options.facts_max,
            )
            if has_conflict and not final:
                return None
            known = [memory_changes.target(one, by_id) for one in proposals if one.event == "NONE"]
            changes += memory_changes.brought_back(
                [*by_text.values(), *filter(None, known)],
                changes,
                await self._hidden_before(tx, now),
                evidence,
            )
            await self.writer.write(tx, user_index, changes, now, metadata=metadata, found=True)
        return _added(changes, unplaced)

    async def _hidden_before(self, tx: Tx, now: datetime) -> datetime | None:
        return hidden_before(now, (await self.settings.read(tx)).decayDays)

    async def _complete(
        self,
        scope: Scope,
        text: str,
        parse: Callable[[str], Read],
        error_message: str,
        deadline: float,
    ) -> Read:
        """Return a model's parsed answer; UNAVAILABLE with `error_message` when it is late."""
        assert self.llm is not None
        await self.budget.consume(scope)
        try:
            with timed_call(self.meter, METRIC_LABEL):
                with anyio.fail_after(deadline - anyio.current_time()):
                    answer = await self.llm.complete(
                        user_memories.INSTRUCTIONS,
                        text,
                        output_tokens_max=self.options.max_output_tokens,
                    )
                return parse(answer)
        except MemsvcError as error:
            if error.code is Code.UNAVAILABLE:
                await self.budget.release(scope)
            failure = _unavailable(error_message, error.message, error.retry_after_s)
            if isinstance(error, ModelRefusalError):  # no wait mends its settings
                failure = ModelRefusalError(failure.code, failure.message, recovery=error.recovery)
            raise failure from error
        except TimeoutError as error:
            raise _unavailable(
                error_message, f"the model took longer than {self.options.deadline_s:g} s"
            ) from error
        except InvalidAnswerError as error:
            raise _unavailable(
                error_message, "the model's answer is not the requested JSON"
            ) from error


def _added(changes: Sequence[MemoryChange], unplaced: Sequence[str] = ()) -> AddedMemories:
    count = sum(item.event == "ADD" for item in changes)
    return AddedMemories(
        [AddedMemory(item.memory, item.text, item.event) for item in changes],
        f"Added {count} memories successfully",
        list(unplaced) or None,
    )


def _unavailable(what: str, why: str, retry_after_s: float | None = None) -> MemsvcError:
    log.warning("a model could not extract or compare facts, so no memories were added", reason=why)
    return unavailable(f"{what}: {why}", retry_after_s=retry_after_s)


def _by_text(memories_found: Sequence[Memory]) -> dict[str, Memory]:
    return {comparable(one.text): one for one in memories_found}
