"""Turn memory: recall before a turn, and atomic storage after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from memsvc.core import facts as fact_rules
from memsvc.core.background import meanwhile
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import Item, digest, fingerprint
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import context, facts, guard, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.facts import Dated
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.sessions import TurnDone
from memsvc.styles.turns import block, books, budget, history, layout
from memsvc.styles.turns.facts.extraction import Findings, claims_of, findings
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.history import Conversation
from memsvc.styles.turns.layout import summary_shown
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import Policy, policy_of
from memsvc.styles.turns.prompt import Parts, Prepared, Prompts
from memsvc.styles.turns.recall.asking import Ask, question_of
from memsvc.styles.turns.recall.recall import Recall
from memsvc.styles.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class Look:
    """Options of recall: as of which time (None: now), which sources, whether to explain."""

    as_of: datetime | None
    sources: frozenset[str]
    explain: bool


@dataclass(frozen=True, slots=True)
class _Recent:
    """Recent context that the caller does not send itself, oldest first, with its costs."""

    stored: list[context.StoredItem]
    said: list[Item]
    line: budget.Line


class TurnMemory:
    """The two halves of a turn. Before: read only. After: one short transaction, all or nothing."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        tokens: TokenCounter,
        meter: Meter,
        options: TurnOptions,
        *,
        follow_up: FollowUp,
        recall: Recall,
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = budget.Costs(tokens, options)
        self._meter = meter
        self._options = options
        self._follow_up = follow_up
        self._recall = recall
        self._prompts = Prompts(self._costs, options.recall_tok_max)

    async def before_turn(
        self,
        scope: Scope,
        *,
        session: str,
        turn: str,
        user: str,
        conversation: Conversation,
        instructions: str,
        max_input_tok: int,
        look: Look,
    ) -> Prepared:
        """Return the input for the model: memory block, history, recent context, current input.

        With the caller's `instructions` it is never over `max_input_tok` tokens. INVALID_ARGUMENT
        when the current input and the instructions alone are over it. Writes nothing.

        Whatever is already stored of this very turn, because its answer was lost and it is retried,
        is left out. With a `look.as_of`, no later message is shown, and facts are those valid
        then."""
        before, _ = block.strip(conversation.history)
        current, _ = block.strip(conversation.current)
        current = current or conversation.current
        costs = await self._costs.counted([*before, *current])
        current_cost = sum(map(costs.item, current))
        room = max_input_tok - current_cost - await costs.counted_text(instructions)
        budget.check_fits(max_input_tok - room, max_input_tok)
        history_line = budget.Line([costs.item(item) for item in before], history.starts(before, cut=False))
        kept = history_line.kept(room)
        shown = [*before[len(before) - kept :], *current]
        question = question_of(current)
        looked_up = await self._recall.look_up(scope, session, user, question, look.sources)
        async with self._database.begin(scope, read_only=True) as tx:
            ask = Ask(
                session,
                turn,
                user,
                question,
                self._clock.now(),
                explain=look.explain,
                as_of=look.as_of,
                sources=look.sources,
                looked_up=looked_up,
            )
            matches = await self._recall.search(tx, ask)
            book, most = books.turns(session).number, self._options.recent_context_items
            read = context.read(tx, session, book, most=most, until=look.as_of, tokens_max=max_input_tok)
            async with meanwhile(read) as reading:
                ranked = await self._recall.rank(scope, ask, matches)
            running = reading.result()
            recent = _recent(running, turn, Conversation(before, current, conversation.behind), most)
            # assume a full block: items that it may displace must be recallable
            summary_cost = self._prompts.summary_cost(summary := summary_shown(running.summary))
            sure = recent.line.kept(room - history_line.cost(kept) - self._prompts.block_tok_max(summary_cost))
            in_prompt = {item.entry for item in recent.stored[len(recent.stored) - sure :]}
            ask = replace(ask, known={digest(item) for item in shown}, prompt=in_prompt)
            recalled = await self._recall.gather(tx, ask, ranked)
        parts = Parts(
            recalled,
            before,
            history_line,
            recent.said,
            [item.ref for item in recent.stored],
            recent.line,
            current,
            current_cost,
            summary,
            summary_cost,
        )
        return self._prompts.fitted(parts, room)

    async def after_turn(
        self,
        scope: Scope,
        *,
        session: str,
        turn: str,
        user: str,
        given: Sequence[Item],
        exact: bool,
        outputs: Sequence[Item],
    ) -> dict[str, Any]:
        """Store a turn: its items, the facts in them, and their index entries.

        Returns the stored result when the turn is already stored; CONFLICT when it is stored with
        other content; RESOURCE_BUSY when the session's writer takes too long. `exact` means that
        `given` is the current input alone. Nothing is stored where the session's policy forbids
        it."""
        inputs, block_found = block.strip(given)
        said, _ = block.strip(outputs)
        book = books.turns(session)
        found = await findings([*inputs, *said])
        costs = await self._costs.counted([*inputs, *said])
        locks = [session_lock(session)]
        if found:
            locks += [book_lock(shelf.name) for shelf in books.facts(session, user)]
        async with self._database.begin(
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            most = self._options.recent_context_items * 2 + 8
            standing = await sessions.standing(tx, session, turn, book.number, most=most)
            if not exact:
                older = len(standing.digests) == most
                window = self._options.recent_context_items
                inputs = history.delta(inputs, standing.digests, window=window, block_found=block_found, older=older)
            if not inputs and not said:
                raise MemsvcError(Code.INVALID_ARGUMENT, "the turn holds nothing but recalled memory")
            mark = fingerprint([inputs, said])
            if standing.guard is not None:
                return {"turn_id": turn} | self._repeated(standing.guard, mark)
            policy = policy_of(standing.policy, self._options)
            if not policy.store:
                return {"turn_id": turn, "stored_items": 0, "fact_ids": []}
            becomes_shared = bool(user and standing.only_user and user != standing.only_user)
            stored = Turn(session, turn, user, inputs, said)
            result, merge = await self._store(tx, stored, found, costs, mark, policy, follow_up=becomes_shared)
        for statement in merge.kept:
            self._meter.add("mcp_memory_fact_write_total", tier=statement.tier.value)
        return result

    def _repeated(self, stored: guard.Guard, mark: bytes) -> dict[str, Any]:
        if stored.fingerprint not in (mark, guard.ANY_CONTENT):
            self._meter.add("mcp_memory_idempotency_conflicts_total")
            raise MemsvcError(
                Code.CONFLICT,
                "this turn_id is stored already with other items",
                recovery="use a new turn_id for a new turn",
            )
        result: dict[str, Any] = stored.result
        return result

    async def _store(
        self,
        tx: Tx,
        turn: Turn,
        found: Findings,
        costs: budget.Costs,
        mark: bytes,
        policy: Policy,
        *,
        follow_up: bool,
    ) -> tuple[dict[str, Any], fact_rules.Merge]:
        now = self._clock.now()
        book = books.facts_learnt(turn.session, turn.user)
        merge = await self._merged(tx, turn, found, now)
        dated = [Dated(statement, policy.expires_at(statement.tier, now)) for statement in merge.kept]
        touched = [*merge.kept, *(fact.statement for fact in merge.deleted)]
        changed = list(dict.fromkeys(statement.fact_id for statement in touched))
        result = {"turn_id": turn.turn, "stored_items": len(turn.items()), "fact_ids": changed}
        events = layout.raw_events(turn.session, now)
        lines = turn.lines(now, result)
        journals = {events: b"".join(lines)} | layout.fact_lines(merge, dated, now)
        spans = await append(tx, journals, owner=layout.OWNER, now=now)
        entries = turn.entries(lines, spans[events], costs, now)
        shelf = books.turns(turn.session)
        additions = {shelf.name: entries} | ({book.name: facts.entries(dated, now)} if dated else {})
        firsts = await index.add(tx, additions)
        if merge.changes:
            await facts.apply(tx, book.number, firsts.get(book.name, 0), merge, dated, now)
        done = TurnDone(turn.session, turn.turn, turn.user, mark, firsts[shelf.name], result)
        counters = {"items": len(entries), "facts": len(changed), "dedupe_skip_count": merge.repeated}
        await sessions.advance(tx, done, counters=counters, now=now)
        first = firsts[shelf.name]
        written = [books.named(name).number for name in additions]
        await self._follow_up.queue(tx, turn.session, first=first, items=len(entries), books=written, at_once=follow_up)
        return result, merge

    async def _merged(self, tx: Tx, turn: Turn, found: Findings, now: datetime) -> fact_rules.Merge:
        """Return the changes that the claims of a turn make to the facts of its indexes."""
        claims = claims_of(found, turn.items(), session=turn.session, turn=turn.turn, user=turn.user)
        if not claims:
            return fact_rules.Merge((), (), 0)
        shelves = [book.number for book in books.facts(turn.session, turn.user)]
        return fact_rules.merge(await facts.concerned(tx, shelves, claims), claims, now)


def _recent(running: context.Context, turn: str, told: Conversation, most: int) -> _Recent:
    """Return the last items of a session that are neither of this turn nor sent by the caller."""
    stored = [item for item in running.items if layout.turn_of(item.ref) != turn]
    said = history.as_said(stored)
    places = history.unseen(said, [item.digest for item in stored], told)
    unseen, items = [stored[at] for at in places], [said[at] for at in places]
    cut = len(running.items) == most or not all(item.line for item in stored)
    starts = history.starts(items, cut=cut)
    costs = [item.tokens if item.line else budget.TOO_MUCH for item in unseen]
    return _Recent(unseen, items, budget.Line(costs, starts))
