"""Memories added from a conversation, by a model in two requests or by rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any, Final, TypeVar

import anyio
import structlog

from memsvc.core import facts as fact_rules
from memsvc.core.background import computed
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import user_message
from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.rules.extraction import extract
from memsvc.core.scope import Scope
from memsvc.core.secrets import masked
from memsvc.core.untrusted import within_lines
from memsvc.store import facts, memories, memory_settings
from memsvc.store.database import Database, Tx
from memsvc.store.locks import book_lock
from memsvc.store.memories import Memory
from memsvc.store.search import Meaning
from memsvc.styles.memories import deciding, prompts, wording
from memsvc.styles.memories.answers import Proposal, UnreadableError, facts_in, proposals_in
from memsvc.styles.memories.book import Book, book, new_id, same
from memsvc.styles.memories.deciding import Present
from memsvc.styles.memories.finding import Finding
from memsvc.styles.memories.keeping import Change, Keeping, evidence_of
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.model_budget import ModelBudget, SpentError

log = structlog.get_logger("memsvc.memories")

PURPOSE: Final = "memories"
TRIES: Final = 2
"""Attempts of the model to compare, where others change the memories it was given meanwhile."""
HEARD: Final = ("user", "assistant")
"""Roles whose messages a model gets; a system message says nothing about a user."""
NOT_EXTRACTED: Final = "Failed to extract facts"
NOT_UPDATED: Final = "Failed to update memories"

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Added:
    """Result of adding a conversation: whether it had facts at all, and the changes in order."""

    anything: bool
    changes: list[Change]


class Adding:
    """Writer of memories found in conversations.

    The lock of the index serialises the writers of a user's memories and is never held while a
    model runs: the model's decisions are compared with what is stored by then.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        meter: Meter,
        options: MemoriesOptions,
        *,
        keeping: Keeping,
        finding: Finding,
        llm: Llm | None,
        budget: ModelBudget,
    ) -> None:
        self._database = database
        self._clock = clock
        self._meter = meter
        self._options = options
        self._keeping = keeping
        self._finding = finding
        self._llm = llm
        self._budget = budget

    async def add(self, scope: Scope, user: str, said: Sequence[Said], metadata: dict[str, Any]) -> Added:
        """Add the facts of the messages about a user as memories.

        UNAVAILABLE, with nothing written, when the model fails or takes too long for both requests;
        RESOURCE_BUSY when others write the same user's memories for too long. Rules do it once the
        tenant's daily budget of model requests is used up.
        """
        if self._llm is None:
            return await self._by_rules(scope, user, said, metadata)
        deadline = anyio.current_time() + self._options.deadline_s
        try:
            return await self._by_model(self._llm, scope, user, said, metadata, deadline)
        except SpentError:
            log.info(
                "memories are found by rules: the daily budget of model requests is used up", project=scope.project
            )
            return await self._by_rules(scope, user, said, metadata)

    async def _by_rules(self, scope: Scope, user: str, said: Sequence[Said], metadata: dict[str, Any]) -> Added:
        now, shelf = self._clock.now(), book(user)
        heard = [(f"m{at}", user_message(one.text)) for at, one in enumerate(said) if one.role == "user"]
        most = self._options.conversation_chars_max
        chars = sum(len(one.text) for one in said)
        found = await computed(chars, extract, heard, session="", turn="now", user=user, chars_max=most)
        read = [one for one in found if wording.lasting(one)]
        if not read:
            return Added(False, [])
        told = [wording.in_words(one) for one in read]
        texts = [one.value for one in told if isinstance(one, fact_rules.Statement)]
        async with self._database.begin(scope, locks=[book_lock(shelf.name)]) as tx:
            concerned = await facts.concerned(tx, [shelf.number], read)
            merged = fact_rules.merge(concerned, told, now)
            known = await memories.at(tx, shelf.number, [fact.entry for fact in concerned], since=None)
            present = Present({}, _by_text(await memories.saying(tx, shelf.number, texts)))
            changes = deciding.by_claims(
                merged, known, present, lambda: new_id(now), evidence_of(user, "rule", metadata)
            )
            await self._write(tx, shelf, changes, now, metadata)
        return Added(True, changes)

    async def _by_model(
        self, llm: Llm, scope: Scope, user: str, said: Sequence[Said], metadata: dict[str, Any], deadline: float
    ) -> Added:
        found = await self._extracted(llm, scope, said, deadline)
        if not found:
            return Added(False, [])
        meaning = await self._finding.meaning("\n".join(found))
        for attempt in range(1, TRIES + 1):
            async with self._database.begin(scope, read_only=True) as tx:
                shown = await self._compared(tx, book(user), found, meaning)
            text = prompts.update(shown.values(), found)
            proposals = await self._ask(llm, scope, text, proposals_in, NOT_UPDATED, deadline)
            changes = await self._apply(scope, user, proposals, shown, metadata, insist=attempt == TRIES)
            if changes is not None:
                return Added(True, changes)
        raise AssertionError("the last attempt always applies")

    async def _extracted(self, llm: Llm, scope: Scope, said: Sequence[Said], deadline: float) -> list[str]:
        """Return the facts that a model finds in a conversation and that may become memories."""
        lines = [
            f"{one.role}: {within_lines(masked(one.text))}" for one in said if one.role in HEARD and one.text.strip()
        ]
        if not lines:
            return []
        async with self._database.begin(scope, read_only=True) as tx:
            prompt = (await memory_settings.wants(tx)).prompt or prompts.EXTRACTION
        text = prompts.extraction(prompt, "\n".join(lines))
        told = await self._ask(llm, scope, text, facts_in, NOT_EXTRACTED, deadline)
        return [one for one in told if deciding.fit(one)][: self._options.facts_max]

    async def _compared(self, tx: Tx, shelf: Book, found: Sequence[str], meaning: Meaning | None) -> dict[str, Memory]:
        """Return the memories to compare new facts with, by id, hidden ones too.

        All of them if they are few, else those about the same subject.
        """
        most = self._options.compared_max
        shown = await memories.newest(tx, shelf.number, since=None, most=most + 1)
        if len(shown) > most:
            shown = await self._finding.find(tx, shelf, "\n".join(found), meaning, since=None, most=most)
        return {one.memory: one for one in shown}

    async def _apply(
        self,
        scope: Scope,
        user: str,
        proposals: Sequence[Proposal],
        shown: dict[str, Memory],
        metadata: dict[str, Any],
        *,
        insist: bool,
    ) -> list[Change] | None:
        """Apply the proposals that still fit.

        Return None, and change nothing, when a memory given to the model has changed since, unless
        `insist`.
        """
        now, shelf = self._clock.now(), book(user)
        async with self._database.begin(scope, locks=[book_lock(shelf.name)]) as tx:
            present = await _present(tx, shelf, shown, [one.text for one in proposals])
            evidence = evidence_of(user, "model", metadata)
            decided = deciding.by_proposals(
                proposals, shown, present, evidence, lambda: new_id(now), most=self._options.facts_max
            )
            if decided.outdated and not insist:
                return None
            await self._write(tx, shelf, decided.changes, now, metadata)
        return decided.changes

    async def _write(
        self, tx: Tx, shelf: Book, changes: Sequence[Change], now: datetime, metadata: dict[str, Any]
    ) -> None:
        if changes:
            await self._keeping.keep(tx, shelf, changes, now, metadata=metadata, found=True)

    async def _ask(
        self, llm: Llm, scope: Scope, text: str, read: Callable[[str], Read], failed: str, deadline: float
    ) -> Read:
        """Return a model's parsed answer; UNAVAILABLE, worded as `failed`, without one in time."""
        await self._budget.take(scope)
        started = perf_counter()
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                answer = await llm.complete(
                    prompts.INSTRUCTIONS, text, output_tokens_max=self._options.max_output_tokens
                )
            found = read(answer)
        except MemsvcError as error:
            if error.code is Code.UNAVAILABLE:
                await self._budget.give_back(scope)
            raise self._failed(failed, error.message, error.retry_after_s) from error
        except TimeoutError as error:
            raise self._failed(failed, f"the model took longer than {self._options.deadline_s:g} s") from error
        except UnreadableError as error:
            raise self._failed(failed, "the model's answer is not the JSON that it was asked for") from error
        self._meter.add("memsvc_model_calls_total", purpose=PURPOSE, status="success")
        self._meter.add("memsvc_model_duration_ms", (perf_counter() - started) * 1000, purpose=PURPOSE)
        return found

    def _failed(self, what: str, why: str, retry_after_s: float | None = None) -> MemsvcError:
        self._meter.add("memsvc_model_calls_total", purpose=PURPOSE, status="error")
        log.warning("memories were not added", reason=why)
        return MemsvcError(Code.UNAVAILABLE, f"{what}: {why}", retry_after_s=retry_after_s)


async def _present(tx: Tx, shelf: Book, shown: dict[str, Memory], texts: Sequence[str]) -> Present:
    by_id = await memories.named(tx, shelf.number, shown)
    by_text = _by_text(await memories.saying(tx, shelf.number, texts))
    return Present(by_id, by_text, frozenset(same(one.text) for one in shown.values() if one.memory not in by_id))


def _by_text(found: Sequence[Memory]) -> dict[str, Memory]:
    return {same(one.text): one for one in found}
