"""Turn memory: recall before a turn, and atomic storage after it."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Any, Final

import orjson

from memsvc.core import facts as fact_rules
from memsvc.core.background import run_concurrently, run_in_count_thread, run_in_thread
from memsvc.core.errors import conflict, invalid
from memsvc.core.facts import Doubt, Fact
from memsvc.core.items import canonical, fingerprint, hash_of_content
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.rules.ended_facts import meant_facts, questioned, restatements, with_replacements
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.core.secrets import PolicyOptions, secret_refused
from memsvc.core.timestamp import parse_timestamp
from memsvc.store import context, facts, guard, index, search, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.search import MEANT_MIN, IndexQuery, QueryEmbedding, SearchFilter
from memsvc.store.sessions import StoredDigest, StoredTurn
from memsvc.store.style_files import append
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns import block, budget, file_layout, history, turn_index
from memsvc.styles.turns.file_layout import summary_for_prompt
from memsvc.styles.turns.follow_up import FollowUp
from memsvc.styles.turns.forgotten_digests import ForgottenDigests, KeyDigest, as_sent
from memsvc.styles.turns.history import Conversation, conversation_of, split_conversation
from memsvc.styles.turns.inspection import RecallTraces
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import SessionPolicy, policy_of
from memsvc.styles.turns.prompt import PreparedPrompt, PromptBuilder, PromptParts, RecentContext
from memsvc.styles.turns.recall.recall import TurnRecall
from memsvc.styles.turns.recall.recall_request import RecallRequest, question_of
from memsvc.styles.turns.recall.recalled_turns import RankedMatches
from memsvc.styles.turns.session_placement import SessionPlacement
from memsvc.styles.turns.turn_items import (
    Turn,
    TurnItem,
    items_of,
    may_change_facts,
    read_meaning,
    read_statements,
    unread_note,
)
from memsvc.styles.turns.turn_models import (
    AfterTurnArguments,
    AfterTurnResult,
    BeforeTurnArguments,
    BeforeTurnResult,
    search_tools,
    turn_tool,
)

LATEST_FACTS: Final = 200
"""Facts of each index that a sentence of change may put in doubt."""
NEAREST: Final = 20
"""Messages nearest to one of change that are compared with it."""
STANDS_OUT: Final = 0.1
"""How far above every other cosine that of the message must be that a change ends."""
NOT_STORED_NOTE: Final = (
    "nothing was stored, because the policy of this session does not allow anything to be stored"
)
FORGOTTEN_NOTE: Final = (
    "nothing was stored, because this turn was forgotten or purged; to store it again, use a new"
    " turn_id"
)
REFUSED_NOTE: Final = (
    "the user asked to remember a password, key, token or card number, which is never"
    " stored as a fact"
)
FORGET_NOTE: Final = (
    "the user asked to forget something, which a message does not do: call memory_forget"
)


NO_MERGE: Final = fact_rules.Merge((), (), 0)
NO_TURN_ID_NOTE: Final = (
    "no turn_id was given, so one was generated: repeating this call would store the turn a"
    " second time"
)
SHARED_NOTE: Final = (
    "several users have now spoken in this session, which stays shared: its messages are recalled"
    " only in it, and messages of its users' other sessions are not recalled in it"
)
STORED_NOTE: Final = "both the host's hook and the model sent this turn; it is stored once"


class TurnMemory:
    """The tools around a turn. Before: read only. After: one short transaction, all or nothing."""

    def __init__(  # noqa: PLR0913 - one argument a dependency
        self,
        database: Database,
        clock: Clock,
        tokens: TokenCounter,
        meter: Meter,
        options: TurnOptions,
        *,
        follow_up: FollowUp,
        recall: TurnRecall,
        policy: PolicyOptions,
        traces: RecallTraces,
        embedding: Embedding | None = None,
    ) -> None:
        self._digests = ForgottenDigests(database, clock)
        self._database = database
        self._embedding = embedding
        self._clock = clock
        self._costs = budget.Costs(tokens, options)
        self._meter = meter
        self._options = options
        self._follow_up = follow_up
        self._recall = recall
        self._placement = SessionPlacement(database, clock, options)
        self._policy = policy
        self._traces = traces
        self._prompts = PromptBuilder(self._costs, options.recall_tok_max)

    @turn_tool(
        "memory_before_turn",
        title="Recall before a turn",
        for_agents=True,
        needs=Permission.READ,
        parts=search_tools,
        counter="mcp_memory_before_turn_total",
    )
    async def before_turn(self, scope: Scope, args: BeforeTurnArguments) -> BeforeTurnResult:
        """Call before you answer, with the user's new input.

        Send the returned input_items to the model: recalled memory, recent context and the input.
        If this fails, continue without memory."""
        prepared = await self._prepared(scope, args)
        turn = args.turn_id or new_turn_id(self._clock.now())
        self._traces.note(
            scope, session=args.session_id, turn=turn, user=args.user_id, prepared=prepared
        )
        return BeforeTurnResult(
            turn,
            prepared.input_items,
            prepared.fact_ids,
            prepared.insight_ids,
            prepared.tokens,
            prepared.details if args.explain else None,
        )

    async def _prepared(self, scope: Scope, args: BeforeTurnArguments) -> PreparedPrompt:
        """Return the input for the model: memory, older context, history, context, current input.

        Context older than the history comes before it. With the caller's instructions it is never
        over `max_input_tok` tokens. INVALID_ARGUMENT when the current input and the instructions
        alone are over it. Writes nothing. What is stored of this very turn, which is then a retry,
        is left out. With an `as_of`, no later message is shown, and facts are those valid then."""
        as_of = parse_timestamp(args.as_of, "as_of")
        max_input_tok = (
            args.max_input_tok if args.max_input_tok > 0 else self._options.max_input_tok
        )
        conversation = await conversation_of(args, self._options, self._clock.now())
        conversation = await self._stripped(scope, conversation)
        before, current = conversation.history, conversation.current
        current_cost = sum(item.tokens for item in current)
        instructions_cost = await self._costs.counted_text(args.base_instructions)
        capacity = max_input_tok - current_cost - instructions_cost
        budget.check_limit(max_input_tok - capacity, max_input_tok)
        history_line = budget.ItemSequence(
            [item.tokens for item in before],
            history.start_positions([item.item for item in before], truncated=False),
        )
        kept = history_line.kept(capacity)
        known = {item.digest for item in [*before[len(before) - kept :], *current]}
        keyed = await self._digests.key(scope)
        request = await self._recall.request(
            scope, args, question_of(current), self._clock.now(), as_of
        )
        async with self._database.begin_read(scope) as tx:
            ranked, context_read = await self._search(tx, scope, request, max_input_tok)
            recent = _recent(
                context_read, args.turn_id, conversation, self._options.recent_context_items, keyed
            )
            summary = summary_for_prompt(context_read.summary)
            summary_cost = self._prompts.summary_cost(summary)
            in_prompt = self._in_prompt(recent, capacity - history_line.cost(kept), summary_cost)
            recalled = await self._recall.gather(tx, request, ranked, known=known, prompt=in_prompt)
        parts = PromptParts(
            recalled, before, history_line, recent, current, current_cost, summary, summary_cost
        )
        prepared = self._prompts.within_limit(parts, capacity)
        if request.as_of is not None:
            prepared.limits["as_of"] = request.as_of.isoformat()
        return prepared

    async def _stripped(self, scope: Scope, conversation: Conversation) -> Conversation:
        """Return a conversation without memory blocks, its secrets as the store has them.

        The tokens of what is sent to the model are counted, with the secrets."""
        current = block.strip(conversation.current)[0] or conversation.current
        history = block.strip(conversation.history)[0]
        counted = await self._costs.counted([*history, *current])
        items = await self._masked(scope, [*counted, *conversation.trailing])
        start, stop = len(history), len(counted)
        return Conversation(items[:start], items[start:stop], items[stop:])

    def _in_prompt(self, recent: RecentContext, capacity: int, summary_cost: int) -> set[int]:
        """Return the entries of recent items that are in the prompt whatever is recalled.

        A full block is assumed: items that it may displace must be recallable."""
        last_count = recent.line.kept_last(capacity, recent.last_exchange)
        block_tok = self._prompts.block_tok_max(summary_cost)
        safe_count = max(last_count, recent.line.kept(capacity - block_tok))
        return {item.entry for item in recent.stored[len(recent.stored) - safe_count :]}

    async def _search(
        self, tx: Tx, scope: Scope, request: RecallRequest, max_input_tok: int
    ) -> tuple[RankedMatches, context.Context]:
        """Return the ranked matches, and the recent context, read while they are ranked."""
        matches = await self._recall.search(tx, request)
        read = context.read(
            tx,
            request.session,
            turn_index.turns(request.session).number,
            limit=self._options.recent_context_items,
            until=request.as_of,
            tokens_max=max_input_tok,
        )
        async with run_concurrently(read) as reading:
            ranked = await self._recall.rank(scope, request, matches)
        return ranked, reading.result()

    @turn_tool(
        "memory_after_turn",
        title="Store a turn",
        for_agents=True,
        needs=Permission.WRITE,
        idempotent=True,
        counter="mcp_memory_after_turn_total",
        duration_ms="mcp_memory_after_turn_duration_ms",
    )
    async def after_turn(
        self, scope: Scope, caller: Caller, args: AfterTurnArguments
    ) -> AfterTurnResult:
        """Call after you have answered, with before_turn's turn_id.

        Stores the turn and its facts once, however often you retry."""
        inputs, conversation, output_items = [
            await items_of(values, name, self._options, self._clock.now())
            for name, values in (
                ("input_items", args.input_items),
                ("conversation_items", args.conversation_items),
                ("output_items", args.output_items),
            )
        ]
        current = split_conversation(
            conversation, args.current_input_start, args.current_input_count
        ).current
        if not (inputs or output_items or current):
            raise invalid("a turn needs input_items, conversation_items or output_items")
        if caller.connection.has_hooks and args.turn_id and args.user_id:
            async with self._database.begin_read(scope) as tx:
                session = await guard.find_session(tx, args.turn_id, args.user_id)
            if session not in (None, args.session_id):
                return AfterTurnResult(True, args.turn_id, 0, [], STORED_NOTE)
        stored = await self.store(
            scope,
            session=args.session_id,
            turn=args.turn_id or new_turn_id(self._clock.now()),
            user=args.user_id,
            inputs=current if conversation else inputs,
            exact=bool(conversation),
            output_items=output_items,
        )
        unread = unread_note(
            input_items=inputs, conversation_items=conversation, output_items=output_items
        )
        return with_notes(stored, "" if args.turn_id else NO_TURN_ID_NOTE, unread)

    async def store(
        self,
        scope: Scope,
        *,
        session: str,
        turn: str,
        user: str,
        inputs: Sequence[TurnItem],
        exact: bool,
        output_items: Sequence[TurnItem],
    ) -> AfterTurnResult:
        """Store a turn: its items, the facts in them, and their index entries.

        Returns the stored result when the turn is already stored; CONFLICT when it is stored with
        other content; RESOURCE_BUSY when the session's writer takes too long. `exact` means that
        `inputs` is the current input alone. Nothing is stored where the session's policy forbids
        it, and no secret where the project's policy masks them; SECRET_REFUSED for a new turn with
        one where it refuses them. A `note` says what was asked for and not done, such as to forget
        something."""
        inputs, block_found = block.strip(inputs)
        input_count = len(inputs)
        items = await self._masked(scope, [*inputs, *block.strip(output_items)[0]])
        is_refused = await self._is_refused(scope, items)
        items = await self._costs.counted(await read_statements(items))
        if self._embedding is not None:
            now, chars_max = self._clock.now(), self._costs.text_chars_max
            whole = Turn.of(session, turn, user, items[:input_count], items[input_count:])
            await self._embedding.encode(whole.meant_texts(chars_max, now))
            items = await read_meaning(items, self._embedding, chars_max)
        inputs, output_items = items[:input_count], items[input_count:]
        keyed = await self._digests.key(scope)
        locks = [session_lock(session)]
        if may_change_facts(items):
            locks += [index_lock(fact_index.name) for fact_index in turn_index.facts(session, user)]
        async with self._database.begin(
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            status = await sessions.read_status(
                tx, session, turn, turn_index.turns(session).number, limit=self._latest_limit
            )
            if not exact:
                inputs = await self._without_echo(tx, session, inputs, status, keyed, block_found)
            if not inputs and not output_items:
                raise invalid("the turn contains nothing except recalled memory")
            content_hash = await _content_hash(inputs, output_items)
            result: dict[str, Any] = {"stored_items": 0, "fact_ids": []}
            policy = policy_of(status.policy, self._options)
            merge = NO_MERGE
            if status.guard is not None:
                if status.guard.fingerprint not in (content_hash, guard.ANY_CONTENT):
                    await self._check_same(status.guard, [inputs, output_items])
                result = status.guard.result
            elif is_refused:
                raise secret_refused()
            elif policy.store:
                stored = Turn.of(session, turn, user, inputs, output_items)
                result, merge = await self._store(tx, stored, content_hash, policy, status)
        for statement in merge.kept:
            self._meter.add("mcp_memory_fact_write_total", tier=statement.tier.value)
        is_stored = status.guard is not None or policy.store
        answer = AfterTurnResult(**{"turn_id": turn} | result | {"ok": True})
        return with_notes(answer, _note(inputs, answer, is_stored=is_stored), [])

    @property
    def _latest_limit(self) -> int:
        """Return how many of the latest items are compared with the input."""
        return self._options.recent_context_items * 2 + 8

    async def _without_echo(
        self,
        tx: Tx,
        session: str,
        inputs: Sequence[TurnItem],
        status: sessions.SessionStatus,
        keyed: KeyDigest,
        block_found: bool,
    ) -> list[TurnItem]:
        """Return the input without items of the session that the client sent again."""
        delta = partial(
            history.delta,
            inputs,
            window=self._options.recent_context_items,
            block_found=block_found,
            has_more=len(status.latest) == self._latest_limit,
        )
        stored = as_sent(status.latest, inputs, keyed)
        new, known = delta(stored), frozenset(stored)
        if not any(item.digest in known for item in new[:-1]):
            return new
        # perhaps sent as it is shown since something of it was forgotten
        index_id = turn_index.turns(session).number
        limit, tokens_max = self._options.recent_context_items, self._options.max_input_tok
        read = await context.read(tx, session, index_id, limit=limit, tokens_max=tokens_max)
        return delta(as_sent(status.latest, inputs, keyed, _current_digests(read.items)))

    async def _check_same(self, stored: guard.Guard, groups: Sequence[Sequence[TurnItem]]) -> None:
        """Raise CONFLICT unless a turn is stored with these items under another policy of secrets.

        That is as they were sent, or masked."""
        sent = [[item.as_sent for item in items] for items in groups]
        masked = [await _all_masked(items) for items in sent]
        if stored.fingerprint not in (await _content_hash(*sent), await _content_hash(*masked)):
            self._meter.add("mcp_memory_idempotency_conflicts_total")
            raise conflict(
                "this turn_id is already stored with different items",
                recovery="use a new turn_id for a new turn",
            )

    async def _masked(self, scope: Scope, items: Sequence[TurnItem]) -> list[TurnItem]:
        """Return items as they may be stored, without secrets where the policy masks them."""
        if self._policy.of(scope.project) != "mask":
            return list(items)
        return await _all_masked(items)

    async def _is_refused(self, scope: Scope, items: Sequence[TurnItem]) -> bool:
        """Return whether an item has a secret that the policy refuses."""
        return self._policy.of(scope.project) == "refuse" and any(
            item.sent for item in await _all_masked(items)
        )

    async def _store(
        self,
        tx: Tx,
        turn: Turn,
        content_hash: bytes,
        policy: SessionPolicy,
        status: sessions.SessionStatus,
    ) -> tuple[dict[str, Any], fact_rules.Merge]:
        now = self._clock.now()
        fact_index = turn_index.new_facts(turn.session, turn.user)
        merge = await self._merged(tx, turn, now)
        new_facts = [
            StatementWithExpiry(
                statement,
                policy.expires_at(statement, statement.message_at or now),
                statement.message_at,
                newer,
            )
            for statement, newer in [*((kept, None) for kept in merge.kept), *merge.past]
        ]
        changed_statements = [*merge.kept, *(fact.statement for fact in merge.deleted)]
        changed = list(dict.fromkeys(statement.fact_id for statement in changed_statements))
        joins = turn.user and status.user_id not in ("", turn.user) and not status.shared
        result: dict[str, Any] = {
            "turn_id": turn.turn,
            "stored_items": len(turn.events),
            "fact_ids": changed,
        } | ({"note": SHARED_NOTE} if joins else {})
        events = file_layout.raw_events(turn.session, now)
        lines = turn.lines(now, result)
        lines_by_path = {events: b"".join(lines)} | file_layout.fact_lines(merge, new_facts, now)
        spans = await append(tx, lines_by_path, owner=file_layout.OWNER, now=now)
        entries = turn.entries(lines, spans[events], self._costs.text_chars_max, now)
        item_index = turn_index.turns(turn.session)
        search_index = await self._placement.index_of_items(
            tx,
            turn.session,
            [turn.user],
            owner=status.user_id,
            shared=status.shared,
            has_items=bool(status.latest),
        )
        additions = {item_index.name: entries} | (
            {fact_index.name: facts.entries(new_facts, now)} if new_facts else {}
        )
        search_names = {item_index.name: search_index.name}
        first_entries = await index.add(tx, additions, search_names=search_names)
        if merge.changes:
            await facts.apply(
                tx, fact_index.number, first_entries.get(fact_index.name, 0), merge, new_facts, now
            )
        first = first_entries[item_index.name]
        done = StoredTurn(turn.session, turn.turn, turn.user, content_hash, first, result)
        counters = {
            "items": len(entries),
            "facts": len(changed),
            "dedupe_skip_count": merge.repeated,
        }
        await sessions.finish_turn(tx, done, counters=counters, now=now)
        await self._follow_up.queue(tx, turn.session, first=first, items=len(entries))
        return result, merge

    async def _merged(self, tx: Tx, turn: Turn, now: datetime) -> fact_rules.Merge:
        """Return what the claims and changes of a turn do to the facts of its indexes."""
        claims, doubts, meant = turn.claims(now), turn.doubts(now), turn.meant(now)
        if not (claims or doubts or meant):
            return NO_MERGE
        index_ids = [fact_index.number for fact_index in turn_index.facts(turn.session, turn.user)]
        latest = LATEST_FACTS if doubts or meant else 0
        known = await facts.facts_of_claims(tx, index_ids, claims, latest=latest)
        replacing = with_replacements(claims, known, doubts, now)
        if replacing != claims:
            claims = replacing
            known = await facts.facts_of_claims(tx, index_ids, claims, latest=latest)
        ended = await self._ended(tx, turn, meant, known)
        merge = fact_rules.merge(restatements(known, claims, doubts), claims, now)
        return questioned(merge, known, claims, doubts, now, ended)

    async def _ended(
        self,
        tx: Tx,
        turn: Turn,
        meant: Sequence[tuple[QueryEmbedding, Doubt]],
        known: Sequence[Fact],
    ) -> list[tuple[Fact, Doubt]]:
        """Return the facts of the earlier message that each message of change ends, if one does.

        That is the user's own message that is nearest in meaning, if it clearly stands out."""
        index_id = turn_index.searched(turn.session, turn.user, shared=False).number
        index_ids = [index_id, *{fact.index_id for fact in known} - {index_id}]
        queries = [IndexQuery(one, 0, best_by_embedding=NEAREST) for one in index_ids]
        facts_by_source = dict[tuple[int, str], list[Fact]]()
        for fact in known:
            evidence = fact.statement.evidence
            source = turn_index.turns(evidence.session).number, evidence.item
            facts_by_source.setdefault(source, []).append(fact)
        ended = list[tuple[Fact, Doubt]]()
        for embedding, doubt in meant:
            found = await search.search(tx, queries, [], embedding, SearchFilter(doubt.said_at))
            candidates = [one for matches in found.values() for one in matches.candidates]
            cosines = {
                (one.index_id, one.ref): one.cosine or 0.0
                for one in candidates
                if one.role == "user"
            }
            place = embedding.standing_out(cosines, near=MEANT_MIN, clear=STANDS_OUT)
            if place in facts_by_source:
                near = {(one.index_id, one.entry): one.cosine or 0.0 for one in candidates}
                told = meant_facts(facts_by_source[place], doubt, near)
                ended += [(fact, doubt) for fact in told]
        return ended


def new_turn_id(now: datetime) -> str:
    """Return an id for a turn whose caller gave none."""
    return f"turn-{int(now.timestamp() * 1000)}-{secrets.token_hex(3)}"


def with_notes(stored: AfterTurnResult, before: str, after: Sequence[str]) -> AfterTurnResult:
    """Return a result with further notes around its own."""
    return replace(stored, note="; ".join(filter(None, [before, stored.note, *after])) or None)


def _note(inputs: Sequence[TurnItem], answer: AfterTurnResult, *, is_stored: bool) -> str:
    """Return a note on anything that was requested but not done, or ""."""
    if answer.forgotten:
        return FORGOTTEN_NOTE
    if not is_stored:
        return NOT_STORED_NOTE
    if any(item.reading.refuses_secret for item in inputs):
        return REFUSED_NOTE
    return FORGET_NOTE if any(item.asks_to_forget for item in inputs) else ""


async def _content_hash(*groups: Sequence[TurnItem]) -> bytes:
    contents = [[item.content for item in items] for items in groups]
    size_bytes = sum(len(content) for group in contents for content in group)
    return await run_in_count_thread(size_bytes, fingerprint, contents)


async def _all_masked(items: Sequence[TurnItem]) -> list[TurnItem]:
    """Return items without secrets."""
    return await run_in_thread(
        sum(len(item.content) for item in items), lambda: [item.masked() for item in items]
    )


def _current_digests(stored: Sequence[context.StoredItem]) -> dict[int, int]:
    """Return the digests of stored items as they are shown now, by entry."""
    return {
        item.entry: hash_of_content(canonical(orjson.loads(item.line)["item"]))
        for item in stored
        if item.line
    }


def _recent(
    context_read: context.Context,
    turn: str,
    conversation: Conversation,
    limit: int,
    keyed: KeyDigest,
) -> RecentContext:
    """Return the last items of a session that are neither of this turn nor sent by the caller."""
    stored = [item for item in context_read.items if file_layout.turn_of(item.ref) != turn]
    items_loaded = history.load_items(stored)
    sent = [*conversation.history, *conversation.current, *conversation.trailing]
    digests = as_sent(
        [StoredDigest(item.entry, item.digest, False) for item in stored],
        sent,
        keyed,
        _current_digests(stored) if conversation.history else {},
    )
    places, older = history.new_positions(items_loaded, digests, conversation)
    new_items, items = [stored[at] for at in places], [items_loaded[at] for at in places]
    truncated = len(context_read.items) == limit or not all(item.line for item in stored)
    start_positions = history.start_positions(items, truncated=truncated)
    costs = [item.tokens if item.line else budget.TOO_LARGE for item in new_items]
    latest = file_layout.turn_of(stored[-1].ref) if stored else ""
    last_exchange = sum(
        1
        for _ in takewhile(
            lambda item: file_layout.turn_of(item.ref) == latest, reversed(new_items)
        )
    )
    line = budget.ItemSequence(costs, start_positions)
    return RecentContext(new_items, items, line, older, last_exchange)
