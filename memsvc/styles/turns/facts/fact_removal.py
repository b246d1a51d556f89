"""Removal of facts and turns from recall, and the lookup of what can be removed."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Self

from memsvc.core.call_context import step_done
from memsvc.core.errors import not_found
from memsvc.core.facts import Fact, Merge
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.ranking import QuestionTerms
from memsvc.core.redaction import comparable, holds, sentences
from memsvc.core.rules.change_words import TOPICS_BY_FACT
from memsvc.core.rules.extraction import requested_fact_ids
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import (
    fact_history,
    facts,
    forgets,
    guard,
    index,
    insights,
    jobs,
    sessions,
)
from memsvc.store.database import Database, Tx
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.store.forgets import Undo
from memsvc.store.index import IndexedTurnItem
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.search import QueryEmbedding
from memsvc.store.style_files import append
from memsvc.styles.embedding import Embedding, embed_query, queue_embedding
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts import restoring
from memsvc.styles.turns.facts.forgetting import (
    FactWords,
    FileWiper,
    Forgetting,
    is_quote,
    redaction_of,
    wipe_index,
    without_words,
    words_hash,
)
from memsvc.styles.turns.facts.query_names import (
    asked_kinds,
    clauses_beside,
    named_by,
    sentences_of_kinds,
    whole_and_parts,
    whole_name,
)
from memsvc.styles.turns.facts.restoring import TakenBack
from memsvc.styles.turns.facts.said_sentences import (
    NamedSentences,
    SaidSentence,
    Speaker,
    cosines_of,
    find_items,
    is_low_content,
    is_offered,
    named_sentences,
    said_terms,
)
from memsvc.styles.turns.forgotten_digests import ForgottenDigests
from memsvc.styles.turns.maintenance import consolidation
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recall import TurnRecall
from memsvc.styles.turns.recall.recall_request import RecallRequest
from memsvc.styles.turns.recall.recalled_facts import without_others
from memsvc.styles.turns.turn_index import TurnIndex

WIPE_JOB: Final = "turns.wipe"
EARLIER_JOB: Final = "turns.forget_earlier"
EARLIER_INTERVAL_S: Final = 30 * 24 * 60 * 60
"""Once after an upgrade would do: an archive of an older version may be restored later."""
FORGET_ID_BYTES: Final = 8
EARLIER_FACTS: Final = 100
INSIGHTS_MAX: Final = 1000
"""Insights of an index that are looked through for forgotten words."""
NOT_ASKED: Final = NamedSentences()


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

    @property
    def index_ids(self) -> list[int]:
        """Return the numbers of these indexes."""
        return [target_index.number for target_index in self.indexes()]

    async def within_reach(self, tx: Tx) -> Self:
        """Return the owner, without its session if only other users spoke there."""
        row = await sessions.find(tx, self.session) if self.user else None
        is_of_others = row and not row.shared and row.user_id not in ("", self.user)
        return replace(self, session="") if is_of_others else self


@frozen
class RemovalTargets:
    """Targets to forget: facts by id, facts matching a question, and whole turns.

    A name is a fact id, a record id or, as in the session's files, a record. `earlier` ones are
    forgotten already, by a version that left their words."""

    names: Sequence[str]
    question: str
    turns: Sequence[str]
    earlier: bool = False


@frozen
class RemovedFacts:
    """Facts and items that were or would be forgotten; `unknown` are the ids without a match.

    `forgetting` is what goes of messages that say the facts, or that a query named; `meant` are the
    sentences that the query may mean, where it named nothing. `forget` is the id by which it can be
    taken back `until` a time."""

    facts: list[Fact]
    items_by_turn: dict[str, list[IndexedTurnItem]]
    unknown: list[str]
    known: list[Fact]
    forgetting: Forgetting
    meant: Sequence[SaidSentence] = ()
    forget: str | None = None
    until: datetime | None = None


@frozen
class _Named:
    """What a query asks to forget: facts by their names, and sentences without a fact.

    `beside` are clauses of these sentences that stay. `name` is a name that goes everywhere."""

    names: Sequence[str]
    sentences: NamedSentences = NOT_ASKED
    beside: Sequence[str] = ()
    name: str = ""


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
        embedding: Embedding | None = None,
    ) -> None:
        self._embedding = embedding
        self._digests = ForgottenDigests(database, clock)
        self.jobs = (
            Job(WIPE_JOB, self.wipe),
            Job(EARLIER_JOB, self.forget_earlier, interval_s=EARLIER_INTERVAL_S),
        )
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
            found = await fact_history.list_facts(
                tx, owner.index_ids, query, after=after, limit=limit
            )
            return await fact_history.with_replacements(tx, found)

    async def would_forget(
        self, scope: Scope, owner: FactOwner, targets: RemovalTargets
    ) -> RemovedFacts:
        """Return what would be forgotten now; changes nothing."""
        embedding = await embed_query(self._embedding, targets.question)
        async with self._database.begin_read(scope) as tx:
            return (await self._planned(tx, owner, targets, embedding))[-1]

    async def forget(
        self, scope: Scope, owner: FactOwner, targets: RemovalTargets, *, erase: bool = False
    ) -> RemovedFacts:
        """Forget facts and turns, all or nothing.

        Past values of the facts go too, and so do the facts that were learned in the turns, about
        any user, and the sentences that say them, in every session of the user. Turns that another
        user said are unknown to a user. Stating facts again makes new ones. Unless it is to `erase`
        them, `undo` takes it back while the grace lasts. RESOURCE_BUSY when a session's writer
        takes too long."""
        now = self._clock.now()
        keyed = await self._digests.key(scope)
        embedding = await embed_query(self._embedding, targets.question)
        async with self._database.begin_read(scope) as tx:
            owner, named, speakers, planned = await self._planned(tx, owner, targets, embedding)
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
                found = await self._found(tx, owner, targets, named, speakers)
                if latest <= speakers and session_names.issuperset(found.forgetting.sessions):
                    wiper = FileWiper(tx, now, keyed)
                    await self._remove(wiper, owner, found)
                    await self._withdraw(wiper, owner, insight_indexes, found)
                    return found if erase else await self._keep_undo(wiper, owner, found)
            # said or found meanwhile, in another session or about another user: retry with these
            speakers |= latest
            session_names.update(found.forgetting.sessions)

    async def _planned(
        self,
        tx: Tx,
        owner: FactOwner,
        targets: RemovalTargets,
        embedding: QueryEmbedding | None,
    ) -> tuple[FactOwner, _Named, set[str], RemovedFacts]:
        """Return the owner within reach, what is named, who spoke, and what would be forgotten."""
        owner = owner if targets.earlier else await owner.within_reach(tx)
        named = await self._named(tx, owner, targets, embedding)
        speakers = await _speakers(tx, owner, targets)
        return owner, named, speakers, await self._found(tx, owner, targets, named, speakers)

    async def _named(
        self,
        tx: Tx,
        owner: FactOwner,
        targets: RemovalTargets,
        embedding: QueryEmbedding | None,
    ) -> _Named:
        """Return the targeted facts, by record id where a question found them.

        If it found none, the sentences that it names."""
        if not targets.question.strip():
            return _Named(targets.names)
        speaker = await Speaker.of(tx, owner.session, owner.user)
        current = await facts.current_facts(tx, owner.index_ids, self._clock.now())
        kinds = asked_kinds(targets.question)
        if kinds is not None:
            names = [one.statement.record_id for one in current if any(k.has(one) for k in kinds)]
            names += [*targets.names, *(name for kind in kinds for name in kind.fact_ids)]
            return _Named(names, NamedSentences(await sentences_of_kinds(tx, speaker, kinds)))
        question, sources = QuestionTerms.of(targets.question), frozenset({"facts"})
        request = RecallRequest(
            owner.session, "", owner.user, question, self._clock.now(), None, sources=sources
        )
        ranked = await self._recall.rank(tx.scope, request, await self._recall.search(tx, request))
        recalled = await self._recall.gather(tx, request, ranked)
        found = await fact_history.find_by_names(
            tx,
            owner.index_ids,
            names=recalled.ids("fact", len(recalled.chunks)),
            session=owner.session,
            turns=(),
        )
        said = await said_terms(tx, speaker, targets.question)
        if name := whole_name(targets.question, said):
            return _Named([*targets.names, *_held_by_name(current, name)], name=name)
        requested = requested_fact_ids(targets.question)
        found += [one for one in current if one.statement.fact_id in requested and one not in found]
        found = without_others(found, targets.question)
        named, parts = whole_and_parts(targets.question, named_by(targets.question, found, said))
        left = {fact.statement.fact_id for fact in found if fact not in named}
        with_past = requested.intersection(TOPICS_BY_FACT) - left
        names = [
            *targets.names,
            *(
                fact.statement.fact_id
                if fact.statement.fact_id in with_past
                else fact.statement.record_id
                for fact in named
            ),
        ]
        meant = _Named(names, NamedSentences(parts))
        if not names and not parts:
            sentences = await named_sentences(tx, speaker, targets.question, embedding)
            meant = await _with_facts(tx, current, sentences, embedding)
        texts = [fact.statement.statement for fact in named]
        texts += [one.text for one in meant.sentences.named]
        beside = await clauses_beside(tx, targets.question, embedding, texts)
        return replace(meant, beside=beside)

    async def _found(
        self,
        tx: Tx,
        owner: FactOwner,
        targets: RemovalTargets,
        named: _Named,
        speakers: Collection[str],
    ) -> RemovedFacts:
        matching = await fact_history.find_by_names(
            tx,
            owner.index_ids,
            names=named.names,
            session=owner.session,
            turns=(),
            forgotten=targets.earlier,
        )
        speaker = await Speaker.of(tx, owner.session, owner.user)
        items, turns = {}, targets.turns
        if turns:
            number, limit = turn_index.turns(owner.session).number, self._options.items_max * 3
            if not targets.earlier:
                turns = [turn for turn in turns if speaker.said(owner.session, turn)]
            items = await index.list_visible(
                tx, owner.session, number, turns, limit=limit, also_hidden=targets.earlier
            )
            learned_in = [one.number for one in _turn_indexes(owner, targets, speakers)]
            known_places = {fact.place for fact in matching}
            matching += [
                fact
                for fact in await fact_history.find_by_names(
                    tx, learned_in, names=(), session=owner.session, turns=turns
                )
                if fact.place not in known_places
            ]
        known = {
            name
            for one in (fact.statement for fact in matching)
            for name in (one.fact_id, one.record, one.record_id)
        }
        unknown = [name for name in targets.names if name not in known]
        unknown += [turn for turn in targets.turns if turn not in items]
        matching = await fact_history.with_replacements(tx, matching)
        current = await facts.current_facts(tx, owner.index_ids, self._clock.now())
        said = [one.text for one in named.sentences.named]
        redaction = redaction_of(matching, current, said, named.beside, named.name)
        places = {fact.place for fact in matching}
        matching += [  # quotes of which nothing is left that says something
            fact
            for fact in current
            if fact.place not in places and is_quote(fact)
            if (left := redaction.applied(fact.statement.statement)) != fact.statement.statement
            and is_low_content(left)
        ]
        evidence = [
            (fact.statement.evidence.session, fact.statement.evidence.item) for fact in matching
        ]
        items_with_words = await find_items(tx, speaker, redaction, evidence)
        return RemovedFacts(
            matching,
            {turn: kept for turn, kept in items.items() if kept},
            unknown,
            current,
            Forgetting(redaction, items_with_words),
            named.sentences.meant,
        )

    async def _remove(self, wiper: FileWiper, owner: FactOwner, found: RemovedFacts) -> None:
        tx, now, undo = wiper.tx, wiper.now, wiper.undo
        merge = Merge((), (), 0, deleted=tuple(found.facts))
        lines = file_layout.fact_lines(merge, [], now, forgotten=True)
        for turn in found.items_by_turn:
            lines[file_layout.raw_events(owner.session, now)] += file_layout.forgotten_turn_line(
                turn, now
            )
        words = FactWords.of(found.facts, found.known, found.forgetting.redaction)
        if not lines and not found.forgetting.items:
            return
        await self._note_rows(wiper, owner, found, words)
        if lines:
            await append(tx, lines, owner=file_layout.OWNER, now=now)
        items = [item for items in found.items_by_turn.values() for item in items]
        left = await wiper.wipe(found.forgetting, words, {owner.session: items})
        if found.facts:
            await facts.apply(tx, found.facts[0].index_id, 0, merge, [], now)
            await fact_history.forget(tx, found.facts)
        await wipe_index(tx, left, words, self._costs, wiper.digests)
        await queue_embedding(tx, now)
        await guard.set_forgotten(tx, owner.session, list(found.items_by_turn))
        undo[owner.session].turns.extend(found.items_by_turn)

    async def _note_rows(
        self, wiper: FileWiper, owner: FactOwner, found: RemovedFacts, words: FactWords
    ) -> None:
        """Note the rows of facts and guards as they are before they are changed."""
        changed = [(fact, without_words(fact)) for fact in words.gone] + [*words.rewritten]
        by_place = {old.place: new for old, new in changed}
        for row in await forgets.fact_rows(wiper.tx, [old for old, _ in changed]):
            undo = wiper.undo[row["evidence"]["session"]]
            undo.facts.append(row)
            undo.fact_words.append(words_hash(by_place[row["book"], row["entry"]]))
        turns: dict[str, set[str]] = {owner.session: {*found.items_by_turn}}
        for item in found.forgetting.items:
            turns.setdefault(item.session, set()).add(item.turn)
        for session, names in turns.items():
            rows = await forgets.guard_rows(wiper.tx, session, sorted(names))
            wiper.undo[session].guards.extend(rows)

    async def _withdraw(
        self,
        wiper: FileWiper,
        owner: FactOwner,
        indexes: Sequence[TurnIndex],
        found: RemovedFacts,
    ) -> None:
        """Remove the insights that rest on what was forgotten, or say it, with their words."""
        numbers = [one.number for one in indexes]
        stored = await insights.list_all(wiper.tx, numbers, limit=INSIGHTS_MAX)
        redaction = found.forgetting.redaction
        saying = [one for one in stored if redaction.ranges(one.summary)]
        await wiper.wipe_insights(saying)
        await insights.remove(wiper.tx, saying)
        while invalid := await consolidation.remove_invalid(
            wiper.tx, owner.session, indexes, now=wiper.now
        ):
            await wiper.wipe_insights(invalid)

    async def _keep_undo(
        self, wiper: FileWiper, owner: FactOwner, found: RemovedFacts
    ) -> RemovedFacts:
        """Store what brings it all back until the grace ends, and queue the end of it."""
        grace = timedelta(hours=self._options.forget_grace_hours)
        if not grace or not any(one.lines or one.facts for one in wiper.undo.values()):
            return found
        forget, until = secrets.token_hex(FORGET_ID_BYTES), wiper.now + grace
        await forgets.save(wiper.tx, forget, owner.user, wiper.undo, now=wiper.now, until=until)
        await jobs.enqueue(wiper.tx, WIPE_JOB, forget, now=wiper.now, delay_s=grace.total_seconds())
        return replace(found, forget=forget, until=until)

    async def undo(self, scope: Scope, owner: FactOwner, forget: str) -> TakenBack:
        """Bring back what a forget took, and return it; all or nothing.

        What was forgotten once more, said anew or purged since stays as it is. NOT_FOUND for an id
        that is unknown, of another user, erased, or past its grace."""
        async with self._database.begin_read(scope) as tx:
            undo = await forgets.find(tx, forget, owner.user, self._clock.now())
            names = await restoring.index_names(tx, undo)
        locks = [*map(session_lock, sorted(undo)), *map(index_lock, names)]
        async with self._database.begin(
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            still, now = await self._undo_of(tx, owner, forget), self._clock.now()
            restored = await restoring.restore(tx, still, self._costs, now)
            await queue_embedding(tx, now)
            await forgets.remove(tx, forget)
        return restored

    async def erase(self, scope: Scope, owner: FactOwner, forget: str) -> None:
        """Make a forget one for good now. NOT_FOUND as `undo`."""
        async with self._database.begin(scope) as tx:
            await self._undo_of(tx, owner, forget)
            await forgets.remove(tx, forget)

    async def _undo_of(self, tx: Tx, owner: FactOwner, forget: str) -> dict[str, Undo]:
        undo = await forgets.find(tx, forget, owner.user, self._clock.now())
        if not undo:
            raise not_found(
                "the deletion with this forget_id cannot be undone: it does not exist, belongs to"
                " another user, was already undone or made final, or its undo_until has passed",
                recovery="pass a forget_id that memory_forget returned for this user_id, before its"
                " undo_until",
            )
        return undo

    async def forget_earlier(self, scope: Scope, subject: str) -> None:
        """Job: remove the words of what older versions forgot, which only hid it."""
        del subject
        while True:
            async with self._database.begin_read(scope) as tx:
                page = await fact_history.forgotten_with_words(tx, limit=EARLIER_FACTS)
            if not page:
                break
            owners: dict[tuple[str, str], list[str]] = {}
            for fact in page:
                evidence = fact.statement.evidence
                place = (evidence.session, evidence.user)
                owners.setdefault(place, []).append(fact.statement.record_id)
            for (session, user), names in owners.items():
                targets = RemovalTargets(names, "", [], earlier=True)
                await self.forget(scope, FactOwner(session, user), targets, erase=True)
                step_done()
        async with self._database.begin_read(scope) as tx:
            forgotten = await guard.forgotten_turns(tx)
        for session, turns in forgotten.items():
            await self._forget_earlier_turns(scope, session, turns)

    async def _forget_earlier_turns(self, scope: Scope, session: str, turns: Sequence[str]) -> None:
        async with self._database.begin_read(scope) as tx:
            number, limit = turn_index.turns(session).number, self._options.items_max * 3
            items = await index.list_visible(
                tx, session, number, turns, limit=limit, also_hidden=True
            )
            row = await sessions.find(tx, session)
        with_words = [turn for turn, found in items.items() if any(one.indexed for one in found)]
        if with_words:
            owner = FactOwner(session, row.user_id if row else "")
            targets = RemovalTargets([], "", with_words, earlier=True)
            await self.forget(scope, owner, targets, erase=True)
            step_done()

    async def wipe(self, scope: Scope, subject: str) -> None:
        """Job: delete what brings back the words of a forget, whose grace is over."""
        async with self._database.begin(scope) as tx:
            await forgets.remove(tx, subject)


def _held_by_name(current: Sequence[Fact], name: str) -> list[str]:
    """Return the record ids of facts in which each sentence of the value contains the name."""
    return [
        fact.statement.record_id
        for fact in current
        for value in [fact.statement.value]
        if all(holds(comparable(value[start:end]), name) for start, end in sentences(value))
    ]


async def _with_facts(
    tx: Tx,
    current: Sequence[Fact],
    sentences: NamedSentences,
    embedding: QueryEmbedding | None,
) -> _Named:
    """Return the named sentences, with the fact that states them if the query means it.

    If they state facts and it means none of these, the sentences are only offered: they cannot
    go without the facts."""
    sentence = comparable(" ".join(said.text for said in sentences.named))
    if not sentence or embedding is None:
        return _Named((), sentences)
    stated = {
        f"{fact.statement.key}: {fact.statement.value}": fact.statement.record_id
        for fact in current
        if (statement := comparable(fact.statement.statement))
        and (statement in sentence or sentence in statement)
    }
    alike = await cosines_of(tx, embedding, list(stated))
    near = [text for text, cosine in alike.items() if is_offered(embedding, cosine)]
    if stated and not near:
        return _Named((), NamedSentences((), sentences.named))
    return _Named([stated[max(near, key=alike.__getitem__)]] if near else (), sentences)


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
