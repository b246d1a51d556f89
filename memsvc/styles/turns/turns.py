"""Turn memory: what is recalled before a turn, and how a turn is stored once and whole."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from memsvc.core import facts as fact_rules
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import Item, digest, fingerprint
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import facts, guard, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.facts import Dated
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.sessions import TurnDone
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns import block, books, budget, history, layout
from memsvc.styles.turns.extraction import extract, states_anything
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.history import Conversation
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.prompt import Parts, Prepared, Prompts
from memsvc.styles.turns.recall import Ask, Recall, question_of
from memsvc.styles.turns.turn import Turn


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
        embedding: Embedding | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = budget.Costs(tokens, options.media_tok)
        self._meter = meter
        self._options = options
        self._follow_up = follow_up
        self._embedding = embedding
        self._recall = Recall(meter, options)
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
        explain: bool = False,
    ) -> Prepared:
        """What to send to the model: memory block, history, recent context, current input, with the `instructions`
        that the caller adds never over `max_input_tok` tokens. INVALID_ARGUMENT when the current input and the
        instructions alone are over it. Writes nothing.

        What is stored of this very turn already, because its answer was lost and it starts over, is left out."""
        before, _ = block.strip(conversation.history)
        current, _ = block.strip(conversation.current)
        current = current or conversation.current
        current_cost = sum(map(self._costs.item, current))
        room = max_input_tok - current_cost - self._costs.text(instructions)
        budget.check_fits(max_input_tok - room, max_input_tok)
        history_line = budget.Line([self._costs.item(item) for item in before], history.starts(before, cut=False))
        kept = history_line.kept(room)
        shown = [*before[len(before) - kept :], *current]
        async with self._database.begin(scope, read_only=True) as tx:
            book = books.turns(session)
            recent = await sessions.recent(tx, session, book.number, most=self._options.recent_context_items)
            stored = [item for item in recent if layout.turn_of(item.ref) != turn]
            unseen = [stored[at] for at in history.unseen([item.digest for item in stored], before, current)]
            items = [orjson.loads(item.line)["item"] for item in unseen]
            cut = len(recent) == self._options.recent_context_items
            recent_line = budget.Line([item.tokens for item in unseen], history.starts(items, cut=cut))
            # beside a full block: what may have to give way to it must be recallable
            sure = recent_line.kept(room - history_line.cost(kept) - self._options.recall_tok_max)
            ask = Ask(
                session,
                turn,
                user,
                question_of(current),
                known={digest(item) for item in shown},
                prompt={item.entry for item in unseen[len(unseen) - sure :]},
                now=self._clock.now(),
                explain=explain,
            )
            recalled = await self._recall.gather(tx, ask)
        parts = Parts(
            recalled,
            before,
            history_line,
            items,
            [item.ref for item in unseen],
            recent_line,
            current,
            current_cost,
        )
        return self._prompts.fitted(parts, room, explain=explain)

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
        """Store a turn: its items, the facts in them, and what makes both findable. The stored result when the turn
        is there already; CONFLICT when it is there with other content; RESOURCE_BUSY when the session is being
        written for too long. `exact` says that `given` is the current input and nothing else."""
        inputs, block_found = block.strip(given)
        said, _ = block.strip(outputs)
        book = books.turns(session)
        locks = [session_lock(session)]
        if states_anything([*inputs, *said]):
            locks.append(book_lock(books.facts_learnt(session, user).name))
        async with self._database.begin(
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            most = self._options.recent_context_items * 2 + 8
            standing = await sessions.standing(tx, session, turn, book.number, most=most)
            if not exact:
                inputs = history.delta(inputs, standing.digests, block_found=block_found)
            if not inputs and not said:
                raise MemsvcError(Code.INVALID_ARGUMENT, "the turn holds nothing but recalled memory")
            mark = fingerprint([inputs, said])
            if standing.guard is not None:
                return self._repeated(standing.guard, mark)
            result, merge = await self._store(tx, Turn(session, turn, user, inputs, said), mark)
        for statement in merge.kept:
            self._meter.add("mcp_memory_fact_write_total", tier=statement.tier.value)
        return result

    def _repeated(self, stored: guard.Guard, mark: bytes) -> dict[str, Any]:
        if stored.fingerprint != mark:
            self._meter.add("mcp_memory_idempotency_conflicts_total")
            raise MemsvcError(
                Code.CONFLICT,
                "this turn_id is stored already with other items",
                recovery="use a new turn_id for a new turn",
            )
        result: dict[str, Any] = stored.result
        return result

    async def _store(self, tx: Tx, turn: Turn, mark: bytes) -> tuple[dict[str, Any], fact_rules.Merge]:
        now = self._clock.now()
        book = books.facts_learnt(turn.session, turn.user)
        merge = await self._merged(tx, book.number, turn, now)
        dated = [Dated(statement, self._expires_at(statement, now)) for statement in merge.kept]
        events = layout.raw_events(turn.session, now)
        lines = turn.lines(now)
        journals = {events: b"".join(lines)} | layout.fact_lines(merge, dated, now)
        spans = await append(tx, journals, owner=layout.OWNER, now=now)
        entries = turn.entries(lines, spans[events], self._costs, now)
        shelf = books.turns(turn.session)
        additions = {shelf.name: entries} | ({book.name: facts.entries(dated, now)} if dated else {})
        firsts = await index.add(tx, additions)
        if dated:
            await facts.apply(tx, book.number, firsts[book.name], merge, dated, now)
        changed = list(dict.fromkeys(statement.fact_id for statement in merge.kept))
        result = {"turn_id": turn.turn, "stored_items": len(entries), "fact_ids": changed}
        done = TurnDone(turn.session, turn.turn, turn.user, mark, firsts[shelf.name], result)
        await sessions.advance(tx, done, counters={"items": len(entries), "facts": len(changed)}, now=now)
        first = firsts[shelf.name]
        written = [books.named(name).number for name in additions]
        await self._follow_up.queue(tx, turn.session, first=first, items=len(entries), books=written)
        return result, merge

    async def _merged(self, tx: Tx, book: int, turn: Turn, now: datetime) -> fact_rules.Merge:
        """What the statements of a turn do to the facts of a book."""
        statements = extract(turn.items(), session=turn.session, turn=turn.turn, user=turn.user)
        if not statements:
            return fact_rules.Merge((), (), 0)
        held = await facts.active(tx, book, [statement.identity for statement in statements])
        return fact_rules.merge(held, statements, now)

    def _expires_at(self, statement: fact_rules.Statement, now: datetime) -> datetime | None:
        l1_days, l2_days = self._options.l1_retention_days, self._options.l2_retention_days
        return fact_rules.expires_at(statement.tier, now, l1_days=l1_days, l2_days=l2_days)
