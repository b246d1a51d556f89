"""Removal of facts and turns from recall, and the lookup of what can be removed."""

from collections.abc import Collection, Sequence
from datetime import datetime

from memsvc.core.facts import Fact, Merge
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import fact_history, facts, index, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.store.index import IndexedTurnItem
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.style_files import append
from memsvc.styles.turns import file_layout, turn_index
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
    """Facts and items that were or would be forgotten; `unknown` are the ids without a match."""

    facts: list[Fact]
    items_by_turn: dict[str, list[IndexedTurnItem]]
    unknown: list[str]


class FactRemoval:
    """Removes facts and turns from recall.

    The files keep the messages and a mark of the removal."""

    def __init__(
        self, database: Database, clock: Clock, options: TurnOptions, recall: TurnRecall
    ) -> None:
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
        any user. Earlier messages never bring them back; stating them again makes new facts.
        RESOURCE_BUSY when the session's writer takes too long."""
        now = self._clock.now()
        async with self._database.begin_read(scope) as tx:
            names = await self._names(tx, owner, targets)
            speakers = await _speakers(tx, owner, targets)
        while True:
            index_names = sorted(
                target_index.name
                for target_index in {*owner.indexes(), *_turn_indexes(owner, targets, speakers)}
            )
            insight_indexes = [turn_index.insights_from(name) for name in index_names]
            locks = [
                session_lock(owner.session),
                *map(index_lock, index_names),
                *(index_lock(insight_index.name) for insight_index in insight_indexes),
            ]
            async with self._database.begin(
                scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
            ) as tx:
                latest = await _speakers(tx, owner, targets)
                if latest <= speakers:
                    found = await self._found(tx, owner, targets, names, speakers)
                    await self._remove(tx, owner, found, now)
                    while await consolidation.remove_invalid(
                        tx, owner.session, insight_indexes, now=now
                    ):
                        pass
                    return found
            # a model found a fact about another user meanwhile: retry with that user's index
            speakers |= latest

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
        return [*targets.names, *recalled.ids("fact", len(recalled.chunks))]

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
        return RemovedFacts(matching, {turn: kept for turn, kept in items.items() if kept}, unknown)

    async def _remove(self, tx: Tx, owner: FactOwner, found: RemovedFacts, now: datetime) -> None:
        merge = Merge((), (), 0, deleted=tuple(found.facts))
        lines = file_layout.fact_lines(merge, [], now, forgotten=True)
        for turn in found.items_by_turn:
            lines[file_layout.raw_events(owner.session, now)] += file_layout.forgotten_turn_line(
                turn, now
            )
        if not lines:
            return
        await append(tx, lines, owner=file_layout.OWNER, now=now)
        hidden = {
            item.entry: item.indexed for items in found.items_by_turn.values() for item in items
        }
        await index.hide(
            tx, turn_index.turns(owner.session).number, hidden, searched_elsewhere=True
        )
        values = [fact.statement.value for fact in found.facts]
        await remove_from_summary(tx, owner.session, list(hidden.values()), values, now=now)
        if found.facts:
            await facts.apply(tx, found.facts[0].index_id, 0, merge, [], now)
            await fact_history.forget(tx, found.facts)


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
