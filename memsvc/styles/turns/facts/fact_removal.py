"""Removal of facts and turns from recall, and the lookup of what can be removed."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from memsvc.core.analysis import query_terms, terms
from memsvc.core.facts import Fact, Merge
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.redaction import comparable
from memsvc.core.rules.extraction import requested_fact_ids
from memsvc.core.scope import Scope
from memsvc.store import fact_history, facts, guard, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.store.index import IndexedTurnItem
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.forgetting import (
    FactWords,
    Forgetting,
    find_items,
    named_sentences,
    redact_lines,
    redaction_of,
    wipe_files,
    wipe_index,
)
from memsvc.styles.turns.maintenance import consolidation
from memsvc.styles.turns.maintenance.compaction import remove_from_summary
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recall import TurnRecall
from memsvc.styles.turns.recall.recall_request import RecallRequest
from memsvc.styles.turns.turn_index import TurnIndex


@frozen
class FactOwner:
    """Owner of facts: a session, a user, or both (`owner_kind`)."""

    session: str
    user: str
    owner_kind: str = "all"

    def indexes(self) -> list[TurnIndex]:
        """Return the indexes of these facts."""
        session_index, *user_indexes = turn_index.facts(self.session, self.user)
        return {
            "all": [session_index, *user_indexes],
            "session": [session_index],
            "user": user_indexes,
        }[self.owner_kind]


@frozen
class RemovalTargets:
    """Targets to forget: facts by id, facts matching a question, and whole turns.

    A name is a fact id, a record id or, as in the session's files, a record."""

    names: Sequence[str]
    question: str
    turns: Sequence[str]


@frozen
class RemovedFacts:
    """Facts and items that were or would be forgotten; `unknown` are the ids without a match.

    `forgetting` is what goes of messages that say the facts, or that a query named."""

    facts: list[Fact]
    items_by_turn: dict[str, list[IndexedTurnItem]]
    unknown: list[str]
    known: list[Fact]
    forgetting: Forgetting


class FactRemoval:
    """Removes facts and turns, and what was said of them, from recall and from the files.

    The files keep a mark of the removal."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        costs: Costs,
        options: TurnOptions,
        recall: TurnRecall,
    ) -> None:
        self._costs = costs
        self._database = database
        self._clock = clock
        self._options = options
        self._recall = recall

    async def listed(
        self,
        scope: Scope,
        owner: FactOwner,
        query: FactHistoryFilter,
        *,
        after: FactPosition | None,
        limit: int,
    ) -> list[Fact]:
        """Return the facts of a session and a user, newest first, up to a limit.

        A superseded one names the record id of what replaced it."""
        async with self._database.begin_read(scope) as tx:
            index_ids = [target_index.number for target_index in owner.indexes()]
            found = await fact_history.list_facts(tx, index_ids, query, after=after, limit=limit)
            return await fact_history.with_replacements(tx, found)

    async def would_forget(
        self, scope: Scope, owner: FactOwner, targets: RemovalTargets
    ) -> RemovedFacts:
        """Return what would be forgotten now; changes nothing."""
        async with self._database.begin_read(scope) as tx:
            names = await self._names(tx, owner, targets)
            speakers = await _speakers(tx, owner, targets)
            return await self._found(tx, owner, targets, names, speakers)

    async def forget(self, scope: Scope, owner: FactOwner, targets: RemovalTargets) -> RemovedFacts:
        """Forget facts and turns for good, all or nothing.

        Past values of the facts go too, and so do the facts that were learned in the turns, about
        any user, and the sentences that say them, in every session of the user. Stating them again
        makes new facts. RESOURCE_BUSY when a session's writer takes too long."""
        now = self._clock.now()
        async with self._database.begin_read(scope) as tx:
            names = await self._names(tx, owner, targets)
            speakers = await _speakers(tx, owner, targets)
            planned = await self._found(tx, owner, targets, names, speakers)
        session_names = {owner.session, *planned.forgetting.sessions}
        while True:
            index_names = sorted(
                target_index.name
                for target_index in {*owner.indexes(), *_turn_indexes(owner, targets, speakers)}
            )
            insight_indexes = [turn_index.insights_from(name) for name in index_names]
            locks = [
                *map(session_lock, sorted(session_names)),
                *map(index_lock, index_names),
                *(index_lock(insight_index.name) for insight_index in insight_indexes),
            ]
            async with self._database.begin(
                scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
            ) as tx:
                latest = await _speakers(tx, owner, targets)
                found = await self._found(tx, owner, targets, names, speakers)
                if latest <= speakers and session_names.issuperset(found.forgetting.sessions):
                    await self._remove(tx, owner, found, now)
                    while await consolidation.remove_invalid(
                        tx, owner.session, insight_indexes, now=now
                    ):
                        pass
                    return found
            # said or found meanwhile, in another session or about another user: retry with these
            speakers |= latest
            session_names.update(found.forgetting.sessions)

    async def _names(self, tx: Tx, owner: FactOwner, targets: RemovalTargets) -> list[str]:
        """Return the names of the targeted facts, by record id where a question found them."""
        if not targets.question.strip():
            return list(targets.names)
        now, sources = self._clock.now(), frozenset({"facts"})
        request = RecallRequest(
            owner.session, "", owner.user, targets.question, now, sources=sources
        )
        ranked = await self._recall.rank(tx.scope, request, await self._recall.search(tx, request))
        recalled = await self._recall.gather(tx, request, ranked)
        found = await fact_history.find_by_names(
            tx,
            [target_index.number for target_index in owner.indexes()],
            names=recalled.ids("fact", len(recalled.chunks)),
            session=owner.session,
            turns=(),
        )
        named = _named_by(targets.question, found)
        return [*targets.names, *(fact.statement.record_id for fact in named)]

    async def _found(
        self,
        tx: Tx,
        owner: FactOwner,
        targets: RemovalTargets,
        names: Sequence[str],
        speakers: Collection[str],
    ) -> RemovedFacts:
        index_id = turn_index.turns(owner.session).number
        items = {}
        if targets.turns:
            limit = self._options.items_max * 3
            items = await index.list_visible(
                tx, owner.session, index_id, targets.turns, limit=limit
            )
        index_ids = [target_index.number for target_index in owner.indexes()]
        matching = await fact_history.find_by_names(
            tx, index_ids, names=names, session=owner.session, turns=()
        )
        if targets.turns:
            turn_index_ids = [
                target_index.number for target_index in _turn_indexes(owner, targets, speakers)
            ]
            turn_facts = await fact_history.find_by_names(
                tx, turn_index_ids, names=(), session=owner.session, turns=targets.turns
            )
            known_places = {(fact.index_id, fact.entry) for fact in matching}
            matching += [
                fact for fact in turn_facts if (fact.index_id, fact.entry) not in known_places
            ]
        known = {
            name
            for fact in matching
            for name in (
                fact.statement.fact_id,
                fact.statement.record,
                fact.statement.record_id,
            )
        }
        unknown = [name for name in targets.names if name not in known]
        unknown += [turn for turn in targets.turns if turn not in items]
        matching = await fact_history.with_replacements(tx, matching)
        current = await facts.current_facts(tx, index_ids, self._clock.now())
        said: list[str] = []
        if targets.question.strip() and not matching:
            said = await named_sentences(tx, owner.session, owner.user, targets.question)
        redaction = redaction_of(matching, current, said)
        evidence = [
            (fact.statement.evidence.session, fact.statement.evidence.item) for fact in matching
        ]
        places = await find_items(tx, owner.session, owner.user, redaction, evidence)
        return RemovedFacts(
            matching,
            {turn: kept for turn, kept in items.items() if kept},
            unknown,
            current,
            Forgetting(redaction, places),
        )

    async def _remove(self, tx: Tx, owner: FactOwner, found: RemovedFacts, now: datetime) -> None:
        merge = Merge((), (), 0, deleted=tuple(found.facts))
        lines = file_layout.fact_lines(merge, [], now, forgotten=True)
        for turn in found.items_by_turn:
            lines[file_layout.raw_events(owner.session, now)] += file_layout.forgotten_turn_line(
                turn, now
            )
        words = FactWords.of(found.facts, found.known, found.forgetting.redaction)
        if not lines and not found.forgetting.items:
            return
        if lines:
            await append(tx, lines, owner=file_layout.OWNER, now=now)
        items = [item for items in found.items_by_turn.values() for item in items]
        left = await wipe_files(tx, found.forgetting, words, now)
        events = {item.ref for item in items}
        whole = await redact_lines(tx, owner.session, events, lambda _: "", now)
        left[owner.session] = left.get(owner.session, {}) | whole
        texts = [item.indexed for item in items]
        values = [fact.statement.value for fact in found.facts]
        await remove_from_summary(tx, owner.session, texts, values, now=now)
        if found.facts:
            await facts.apply(tx, found.facts[0].index_id, 0, merge, [], now)
            await fact_history.forget(tx, found.facts)
        await wipe_index(tx, left, words, self._costs)
        await guard.set_forgotten(tx, owner.session, list(found.items_by_turn))


def _named_by(question: str, found: Sequence[Fact]) -> list[Fact]:
    """Return the facts that a question names: by their kind, or by words of their own.

    The words of a sentence that says several of them name none of these."""
    requested, asked = requested_fact_ids(question), set(query_terms(question))
    said = Counter(comparable(fact.statement.statement) for fact in found)
    named = []
    for fact in found:
        statement = fact.statement
        words = f"{statement.key} {statement.value} {statement.keywords}"
        if said[comparable(statement.statement)] == 1:
            words = f"{words} {statement.statement}"
        if statement.fact_id in requested or not asked.isdisjoint(terms(words)):
            named.append(fact)
    return named


async def _speakers(tx: Tx, owner: FactOwner, targets: RemovalTargets) -> set[str]:
    if not targets.turns:
        return set()
    return await sessions.speakers(tx, owner.session, targets.turns)


def _turn_indexes(
    owner: FactOwner, targets: RemovalTargets, speakers: Collection[str]
) -> list[TurnIndex]:
    """Return the indexes of facts learned in the turns, of the session and its speakers.

    Only those within reach."""
    if not targets.turns:
        return []
    indexes = {*owner.indexes()}
    if owner.owner_kind != "session":
        indexes |= {turn_index.new_facts(owner.session, user) for user in speakers}
    return sorted(indexes, key=lambda target_index: target_index.name)
