"""Facts that a model finds in messages, by a job after the turns; no turn depends on it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from zlib import crc32

import orjson
import structlog

from memsvc.core import facts as fact_rules
from memsvc.core.errors import MemsvcError, ModelOutputError
from memsvc.core.facts import Merge, Statement, merge
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.ports import Clock, Llm, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.core.untrusted import is_memory_block
from memsvc.store import context, conversation, fact_history, facts, jobs, sessions
from memsvc.store.conversation import TranscriptItem
from memsvc.store.database import Database, Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.locks import index_lock, session_lock
from memsvc.styles.model_budget import BudgetExhaustedError
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.facts.fact_correction import write_merge
from memsvc.styles.turns.models.model_budget import ModelCallBudget
from memsvc.styles.turns.models.model_facts import (
    KEYS,
    PROPOSALS_MAX,
    FactProposal,
    InputMessage,
    ModelInput,
    Proposals,
    claims_of_proposals,
    most_related,
)
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of

MESSAGES_MAX: Final = 40
MESSAGES_TOK: Final = 6000
TEXT_CHARS_MAX: Final = 8000
"""Characters of one message in the model's input."""
CONTEXT_MESSAGES: Final = 6
CONTEXT_CHARS_MAX: Final = 1000
ELLIPSIS: Final = " [...]"

log = structlog.get_logger("memsvc.enrichment")

EXTRACT_JOB: Final = "turns.extract"
CATEGORY: Final = "extraction"
_INSTRUCTIONS: Final = package_text(__package__, "prompts/extract_facts.md").format(
    keys=", ".join(KEYS), proposals=PROPOSALS_MAX
)
WINDOWS_A_RUN: Final = 10
"""Windows that one run reads before it yields to other jobs."""
RETRY_DELAY_S: Final = 600.0
DELETED_MAX_AGE: Final = timedelta(days=30)
"""For this long an assistant cannot bring back forgotten facts by repeating them; a user can."""


@frozen
class Window:
    """The entries `start` to `stop` - 1 of a session, with the model's input for them."""

    start: int
    stop: int
    model_input: ModelInput

    def first_part(self) -> "Window":
        """Return a window of about the first half of its messages."""
        messages = self.model_input.messages[: len(self.model_input.messages) // 2]
        return replace(
            self,
            stop=messages[-1].entry + 1,
            model_input=replace(self.model_input, messages=messages),
        )


async def next_window(tx: Tx, session: str, tokens: TokenCounter, now: datetime) -> Window | None:
    """Return the next window; None when all was read.

    It may hold no message: memory blocks and removed messages are skipped."""
    start = await conversation.read_position(tx, session)
    if start is None:
        return None
    index_id = turn_index.turns(session).number
    entries = await conversation.read_messages(
        tx, index_id, start, before=CONTEXT_MESSAGES, limit=MESSAGES_MAX, chars_max=TEXT_CHARS_MAX
    )
    new_entries = [one for one in entries if one.entry >= start]
    if not new_entries:
        return None
    user, messages, stop = _select_messages(new_entries, tokens)
    before = [_load_message(one, CONTEXT_CHARS_MAX) for one in entries if one.entry < start]
    index_ids = turn_index.fact_ids(session, user)
    current_facts = list(
        fact_rules.latest_by_identity(await facts.current_facts(tx, index_ids, now)).values()
    )
    context = [loaded[1] for loaded in before if loaded is not None and loaded[0] == user]
    model_input = ModelInput(
        session, user, messages, context, most_related(current_facts, messages)
    )
    return Window(start, stop, model_input)


def _select_messages(
    entries: Sequence[TranscriptItem], tokens: TokenCounter
) -> tuple[str, list[InputMessage], int]:
    """Return the first messages of one user within the token limit, the user and the stop entry.

    There is at least one message; the stop entry follows the last one."""
    messages: list[InputMessage] = []
    owner = ""
    stop = entries[0].entry
    left = MESSAGES_TOK
    for entry in entries:
        loaded = _load_message(entry, TEXT_CHARS_MAX)
        if loaded is not None:
            user, message = loaded
            cost = entry.tokens if len(entry.text) <= TEXT_CHARS_MAX else tokens.count(message.text)
            if messages and (user != owner or cost > left):
                break
            owner = user
            left -= cost
            messages.append(message)
        stop = entry.entry + 1
    return owner, messages, stop


def _load_message(entry: TranscriptItem, chars_max: int) -> tuple[str, InputMessage] | None:
    """Return a message and its user; None for a memory block, or a removed event."""
    if entry.line is None or is_memory_block(entry.text):
        return None
    event = orjson.loads(entry.line)
    text = entry.text if len(entry.text) <= chars_max else entry.text[:chars_max] + ELLIPSIS
    stored_at = datetime.fromisoformat(event["ts"])
    return event.get("user_id") or "", InputMessage(
        entry.entry, entry.ref, entry.role, entry.speaker, text, entry.said_at, stored_at
    )


@frozen
class ModelExtraction:
    """Extraction of facts by a model, one window of a session after the other.

    The position is stored in the transaction that stores the result: a run that dies or is
    overtaken leaves nothing half done, and twice is the same as once."""

    database: Database
    llm: Llm
    clock: Clock
    tokens: TokenCounter
    meter: Meter
    options: TurnOptions
    allowance: ModelCallBudget

    async def extract(self, scope: Scope, subject: str) -> None:
        """Job: read the messages of the session since the last time.

        No transaction is open while the model works. A session whose policy forbids storage is
        never sent to it, and facts forgotten meanwhile are not brought back: the rest is read
        again. If the model is out of reach or refuses, the error passes through and nothing counts
        as read. When the daily calls are used up, the rest is read the next day."""
        try:
            wait_s = await self._read_windows(scope, subject)
        except BudgetExhaustedError:
            wait_s = self.allowance.budget.next_day_delay_s(crc32(subject.encode()))
            log.info(
                "the daily limit of model calls is reached; facts of a session will be"
                " extracted tomorrow",
                project=scope.project,
            )
        if wait_s is not None:
            async with self.database.begin(scope) as tx:
                await jobs.enqueue(tx, EXTRACT_JOB, subject, now=self.clock.now(), delay_s=wait_s)

    async def _read_windows(self, scope: Scope, session: str) -> float | None:
        """Read some windows; return the seconds until the next run, None when all was read.

        A window without a usable answer, even for its first half, is skipped, so that no text can
        block a session."""
        for _ in range(WINDOWS_A_RUN):
            async with self.database.begin_read(scope) as tx:
                if not (await self._policy(tx, session)).store:
                    return None
                window = await next_window(tx, session, self.tokens, self.clock.now())
            if window is None:
                return None
            answer = await self._call_model(scope, window)
            if answer is None and len(window.model_input.messages) > 1:
                window = window.first_part()
                answer = await self._call_model(scope, window)
            await self._keep(scope, window, answer or [])
            if answer is None:
                log.warning(
                    "a model could not process a part of a session; that part is skipped",
                    session=session,
                )
                return RETRY_DELAY_S
        return 0.0

    async def _call_model(self, scope: Scope, window: Window) -> Sequence[FactProposal] | None:
        """Return the model's proposals; None when its output is unusable."""
        if not window.model_input.messages:
            return []
        text = window.model_input.text(self.clock.now())
        max_tokens = self.options.heuristic.max_output_tokens
        try:
            answer = await self.allowance.call(
                scope,
                CATEGORY,
                lambda: self.llm.extract(
                    _INSTRUCTIONS, text, Proposals, output_tokens_max=max_tokens
                ),
            )
        except ModelOutputError:
            return None
        except MemsvcError as error:
            log.warning(
                "a model call failed, so no facts were extracted from a part of a session",
                code=error.code.value,
                reason=error.message,
            )
            raise
        return answer.changes

    async def _keep(self, scope: Scope, window: Window, proposals: Sequence[FactProposal]) -> None:
        """Store the result of a window and mark it as read.

        Stores nothing when another run read it meanwhile, when any of it was forgotten, or when the
        policy now forbids it."""
        model_input, now = window.model_input, self.clock.now()
        indexes = turn_index.facts(model_input.session, model_input.user)
        locks = [
            session_lock(model_input.session),
            *(index_lock(target_index.name) for target_index in indexes),
        ]
        outcomes: Counter[str] = Counter()
        new_facts: Sequence[StatementWithExpiry] = ()
        async with self.database.begin(
            scope,
            locks=locks if proposals else (),
            lock_timeout_ms=self.options.session_lock_timeout_ms,
        ) as tx:
            if proposals and not (
                (await self._policy(tx, model_input.session)).store
                and await _exists(tx, model_input)
            ):
                return
            if not await conversation.set_read_position(
                tx, model_input.session, start=window.start, stop=window.stop
            ):
                return
            if proposals:
                merged, new_facts, outcomes = await self._merged(tx, model_input, proposals, now)
                if merged.changes:
                    fact_index = turn_index.new_facts(model_input.session, model_input.user)
                    await write_merge(tx, fact_index, merged, new_facts, now)
                    await sessions.count(tx, model_input.session, {"facts": len(new_facts)})
        for outcome, count in outcomes.items():
            self.meter.add("memsvc_extracted_facts_total", count, outcome=outcome)
        for new_fact in new_facts:
            self.meter.add("mcp_memory_fact_write_total", tier=new_fact.statement.tier.value)

    async def _policy(self, tx: Tx, session: str) -> SessionPolicy:
        found = await sessions.find(tx, session)
        return policy_of(found.policy if found else None, self.options)

    async def _merged(
        self, tx: Tx, model_input: ModelInput, proposals: Sequence[FactProposal], now: datetime
    ) -> tuple[Merge, list[StatementWithExpiry], Counter[str]]:
        """Return the changes that the proposals make to current facts, and outcome counts."""
        index_ids = turn_index.fact_ids(model_input.session, model_input.user)
        oldest = min(message.stored_at for message in model_input.messages)
        active = await facts.current_facts(tx, index_ids, now)
        deleted = await fact_history.deleted_since(tx, index_ids, oldest - DELETED_MAX_AGE)
        claims, outcomes = claims_of_proposals(
            proposals, model_input, active=active, deleted=deleted
        )
        policy = await self._policy(tx, model_input.session)
        # days count from the message
        stored_at = {message.event: message.stored_at for message in model_input.messages}
        expiry_by_record = {
            claim.record: policy.expires_at(claim, stored_at[claim.evidence.item])
            for claim in claims
            if isinstance(claim, Statement)
        }
        valid_claims = [
            claim
            for claim in claims
            if not isinstance(claim, Statement)
            or (last_day := expiry_by_record[claim.record]) is None
            or last_day > now
        ]
        known = [*await facts.facts_of_claims(tx, index_ids, valid_claims), *active, *deleted]
        merged = merge(known, valid_claims, now)
        outcomes["kept"] += len(merged.kept) + len(merged.deleted)
        outcomes["repeated"] += merged.repeated
        outcomes["stale"] += len(claims) - len(valid_claims) + merged.ignored
        return (
            merged,
            [StatementWithExpiry(one, expiry_by_record[one.record]) for one in merged.kept],
            outcomes,
        )


async def _exists(tx: Tx, model_input: ModelInput) -> bool:
    """Return whether all messages sent to the model are still stored."""
    seen = {
        message.event: message.entry for message in [*model_input.previous, *model_input.messages]
    }
    first, stop = min(seen.values()), max(seen.values()) + 1
    found = {
        item.ref
        for item in await context.read_items(
            tx, turn_index.turns(model_input.session).number, first, stop, chars_max=0
        )
    }
    return seen.keys() <= found
