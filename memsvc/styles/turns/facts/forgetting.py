"""Forgetting: what was said of a fact, or in a turn, leaves every message, file and index at once.

Sentences that say it, and those in which the same value stands, in all sessions of the person, are
blanked in the files, in every version of them, and leave the index. Facts that stand in the same
sentence stay, without the value. What the files held before is noted for an undo."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Final, Self

import orjson
import zstandard

from memsvc.core.facts import Fact, FactState
from memsvc.core.frozen import frozen
from memsvc.core.ports import PassageSearch
from memsvc.core.redaction import (
    LEFT_OUT,
    Redaction,
    changed_line,
    comparable,
    holds,
    identifiers,
)
from memsvc.core.scope import Scope
from memsvc.store import (
    facts,
    file_gc,
    files,
    guard,
    index,
    placement,
    sessions,
    style_files,
    tree,
)
from memsvc.store.database import Tx
from memsvc.store.forgets import Undo
from memsvc.store.index import IndexedTurnItem
from memsvc.store.insights import Insight
from memsvc.store.placement import Rewritten
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.facts.said_sentences import Place, SaidSentence
from memsvc.styles.turns.forgotten_digests import KeyDigest
from memsvc.styles.turns.maintenance.compaction import sentence_of
from memsvc.styles.turns.maintenance.raw_archive import (
    ARCHIVE_SUFFIX,
    CONTENT_BYTES_MAX,
    decompress,
    event_files,
    redacted_items,
)
from memsvc.styles.turns.turn_items import TurnItem, entry_of, read_changes

_BLOCKS_A_SWEEP: Final = 1000
_ANY: Final = datetime.min.replace(tzinfo=UTC)
VALUES_MAX: Final = 5
PASSAGES_MAX: Final = 20
"""Passages of each kind that are looked through for a value."""


@frozen
class Forgetting:
    """What is forgotten of a person: by redaction, in some items, and of items as a whole."""

    redaction: Redaction
    items: Sequence[Place]

    def sentences(self) -> list[SaidSentence]:
        """Return the sentences that will be removed, each with its session and turn."""
        return [
            SaidSentence(item.session, item.turn, item.text[start:stop].strip())
            for item in self.items
            for start, stop in self.redaction.ranges(item.text)
        ]

    @property
    def sessions(self) -> list[str]:
        """Return the sessions that are changed, in order."""
        return sorted({item.session for item in self.items})


@frozen
class FactWords:
    """Facts that lose their words: forgotten ones all, others a value; each as it was and is."""

    gone: Sequence[Fact]
    rewritten: Sequence[tuple[Fact, Fact]]

    @classmethod
    def of(cls, gone: Sequence[Fact], known: Sequence[Fact], redaction: Redaction) -> Self:
        """Return what becomes of the facts that are forgotten, and of those that stay."""
        places = {fact.place for fact in gone}
        rewritten = []
        for fact in known:
            statement = redaction.applied(fact.statement.statement)
            doubt = fact.doubt and replace(fact.doubt, text=redaction.applied(fact.doubt.text))
            value = redaction.applied(fact.statement.value) or fact.statement.value
            words = replace(fact.statement, statement=statement, value=value)
            new = replace(fact, statement=words)
            new = replace(new, doubt=doubt if doubt and doubt.text else None)
            if fact.place not in places and new != fact:
                rewritten.append((fact, new))
        return cls(gone, rewritten)


def without_words(fact: Fact) -> Fact:
    """Return a fact of which nothing is left but that there was one."""
    statement = replace(fact.statement, value="", slot="", keywords="", statement="", words="")
    return replace(fact, statement=statement, doubt=None)


def words_hash(fact: Fact) -> str:
    """Return a hash of the words of a fact, by which it is seen whether they were changed since."""
    statement = fact.statement
    words = [statement.value, statement.slot, statement.keywords, statement.statement]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def redaction_of(
    gone: Sequence[Fact],
    known: Sequence[Fact],
    said: Iterable[str],
    beside: Sequence[str],
    name: str,
) -> Redaction:
    """Return what is to be redacted for facts, for sentences that a query named, and for a name.

    `known` are the facts that stay, `beside` other clauses that do. What quotes a sentence that
    goes does not keep it."""
    records = {fact.place for fact in gone}
    stated = [fact.statement.statement for fact in gone if fact.statement.statement]
    stated = list(dict.fromkeys([*stated, *said]))
    values = [
        value
        for fact in gone
        for value in (fact.statement.value, fact.statement.words)
        if comparable(value) != comparable(fact.statement.statement)
    ]
    values += [number for words in stated for number in identifiers(words)]
    values.append(name)
    telling = Redaction(stated, [])
    kept = [
        fact.statement.statement
        for fact in known
        if fact.place not in records and fact.statement.statement
        if not (is_quote(fact) and telling.ranges(fact.statement.statement))
    ]
    return Redaction(stated, list(dict.fromkeys(filter(None, values))), kept, beside)


def is_quote(fact: Fact) -> bool:
    """Return whether a fact only quotes a message, or its beginning, and has no topic."""
    value, said = comparable(fact.statement.value), comparable(fact.statement.statement)
    return said.startswith(value) if fact.statement.value.endswith(LEFT_OUT) else said == value


Left = dict[str, dict[str, TurnItem]]
"""What is left of changed items, by session and event."""
Digests = defaultdict[str, dict[str, int]]
"""Digests of changed items from now on, by session and event."""


@frozen
class FileWiper:
    """Changes lines of files in one transaction, and notes what they were, by session."""

    tx: Tx
    now: datetime
    keyed: KeyDigest
    undo: defaultdict[str, Undo] = field(default_factory=lambda: defaultdict(Undo))
    digests: Digests = field(default_factory=lambda: defaultdict(dict))

    async def wipe(
        self,
        forgetting: Forgetting,
        changed: FactWords,
        whole: Mapping[str, Sequence[IndexedTurnItem]],
    ) -> Left:
        """Remove what is forgotten from the files of sessions and facts, and from summaries.

        `whole` are the items by session of which nothing stays."""
        redaction, left = forgetting.redaction, Left()
        for session in sorted({*forgetting.sessions, *whole}):
            items = [item for item in forgetting.items if item.session == session]
            changes = {item.event: redaction.applied for item in items}
            changes |= {item.ref: _no_text for item in whole.get(session, ())}
            left[session] = await self._redact(session, changes)
            said = [one.text for one in forgetting.sentences() if one.session == session]
            said += [item.indexed for item in whole.get(session, ())]
            await self._wipe_summaries(session, said, redaction)
        for fact in changed.gone:
            await self._change_fact(fact, lambda line: changed_line(line, _no_text))
        for fact, _ in changed.rewritten:
            await self._change_fact(fact, redaction.line)
        return left

    async def _redact(
        self, session: str, changes: Mapping[str, Callable[[str], str]]
    ) -> dict[str, TurnItem]:
        """Change the texts of items in the event files of a session, in all versions of them.

        `changes` are by event. Return what is left of each. A keyed digest of what each was is
        noted in the files, so that it is known when it is sent again."""
        left = {}
        notes = b""
        found = await event_files(self.tx, session) if changes else []
        redacted = await redacted_items(self.tx, found)

        def changed(line: bytes) -> bytes:
            nonlocal notes
            if not any(f'"{event}"'.encode() in line for event in changes):
                return line
            body = orjson.loads(line)
            if body["id"] not in changes or "item" not in body:
                return line
            new = changed_line(line, changes[body["id"]])
            left[body["id"]] = TurnItem.of(orjson.loads(new)["item"])
            digest = redacted.get(body["id"]) or self.keyed(TurnItem.of(body["item"]).digest)
            self.digests[session][body["id"]] = digest
            if new != line:
                notes += file_layout.item_line(body["id"], "redacted", self.now, digest=digest)
            return new

        for file in found:
            self.undo[session].lines.update(await change_lines(self.tx, file.path, changed))
        if notes:
            path = file_layout.raw_events(session, self.now)
            await style_files.append(self.tx, {path: notes}, owner=file_layout.OWNER, now=self.now)
        return left

    async def _wipe_summaries(
        self, session: str, texts: Sequence[str], redaction: Redaction
    ) -> None:
        """Remove what these texts say, and what is to be redacted, from a session's summaries.

        A model's text cannot be separated, and goes as a whole."""
        if not (texts or redaction.searched):
            return
        said = [" ".join(text.split()) for text in texts]

        def changed(line: bytes) -> bytes:
            summary = orjson.loads(line)
            lines = [] if summary.get("worded_by") else summary["summary"].splitlines()
            kept = [
                one
                for one in lines
                if not any(sentence_of(one) in text for text in said)
                and not any(holds(comparable(one), value) for value in redaction.searched)
                and not redaction.ranges(one)
            ]
            return changed_line(line, lambda _: "\n".join(kept))

        for path in await summary_files(self.tx, session):
            self.undo[session].lines.update(await change_lines(self.tx, path, changed))

    async def wipe_insights(self, gone: Sequence[Insight]) -> None:
        """Remove the words of insights from the files of the sessions that they are of."""
        for one in gone:
            for session in sorted({said["session"] for said in one.evidence["turns"]}):
                path = file_layout.insights_file(session, one.made_at)
                await change_lines(
                    self.tx,
                    path,
                    _of_record(one.insight, lambda line: changed_line(line, _no_text)),
                )

    async def _change_fact(self, fact: Fact, change: Callable[[bytes], bytes]) -> None:
        """Change the lines about a fact in its file."""
        path = file_layout.fact_file(fact)
        undo = self.undo[fact.statement.evidence.session]
        change = _of_record(fact.statement.record, change)
        undo.lines.update(await change_lines(self.tx, path, change))
        if path not in undo.paths:
            undo.paths.append(path)


async def summary_files(tx: Tx, session: str) -> list[str]:
    """Return the files with the summaries of a session."""
    directory = f"{file_layout.session_root(session)}/events/compact"
    return [path async for path in tree.all_files_at(tx, directory) if path.endswith(".jsonl")]


def _no_text(text: str) -> str:
    del text
    return ""


def _of_record(record: str, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a change of lines that leaves those of other records as they are."""
    return lambda line: change(line) if file_layout.is_of(line, {record}) else line


async def change_lines(tx: Tx, path: str, change: Callable[[bytes], bytes]) -> dict[str, str]:
    """Change lines of a file, none in length, in all versions of it; an archive is packed anew.

    Return what the changed lines were, by a hash of what each is now."""
    is_archive = path.endswith(ARCHIVE_SUFFIX)
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return {}
    content = await files.read(tx, file)
    if is_archive:
        content = decompress(content, bytes_max=CONTENT_BYTES_MAX)
    changed, starts, before, start = bytearray(content), dict[int, bytes](), dict[str, str](), 0
    for line in content.splitlines(keepends=True):
        new = change(line)
        if new != line:
            starts[start] = changed[start : start + len(line)] = new
            before[line_hash(new)] = line.decode()
        start += len(line)
    if starts and not is_archive:
        await style_files.overwrite(tx, file, starts)
    elif starts:
        await _repack(tx, file, bytes(changed))
    return before


async def _repack(tx: Tx, file: files.File, content: bytes) -> None:
    """Replace an archive, of which no other version is left."""
    packed, now = zstandard.ZstdCompressor().compress(content), file.updated_at
    await files.rewrite(tx, file, packed, is_text=False, now=now)
    keep = file_gc.FileRetention(cutoff=now, past_states=0, deleted_before=now)
    await file_gc.hide_old(tx, file.incarnation, keep)
    while not await file_gc.sweep(tx, file.incarnation, limit=_BLOCKS_A_SWEEP):
        pass


def line_hash(line: bytes) -> str:
    """Return a hash of what is left of a line."""
    return hashlib.sha256(line).hexdigest()


async def wipe_index(
    tx: Tx, left: Left, changed: FactWords, costs: Costs, digests: Digests
) -> None:
    """Rewrite or hide the entries of items and facts; a retry of their turns is accepted.

    The caller holds the sessions, and the indexes of facts, and has hidden what is gone."""
    for session, items in left.items():
        await rewrite_items(tx, session, items, costs, digests[session])
        turns = {file_layout.turn_of(event) for event in items}
        await guard.accept_any_content(tx, session, sorted(turns))
    await facts.set_words(tx, [without_words(fact) for fact in changed.gone])
    await facts.set_words(tx, [new for _, new in changed.rewritten])
    pairs = [*((fact, without_words(fact)) for fact in changed.gone), *changed.rewritten]
    await rewrite_facts(tx, pairs)


async def rewrite_facts(
    tx: Tx, pairs: Sequence[tuple[Fact, Fact]], *, is_shown: bool = False
) -> None:
    """Re-index facts under their new words; each pair is the old and the new version of a fact.

    With `is_shown`, hidden ones of active facts are found again."""
    for old, new in pairs:
        rewritten = Rewritten(
            facts.indexed_text(old.statement),
            facts.text_of(new.statement),
            new.statement.keywords,
            is_shown=is_shown and new.state is FactState.ACTIVE,
        )
        name = await index.name_of(tx, old.index_id)
        await placement.rewrite(tx, old.index_id, name, {old.entry: rewritten})


async def rewrite_items(
    tx: Tx,
    session: str,
    left: Mapping[str, TurnItem],
    costs: Costs,
    digests: Mapping[str, int],
    *,
    is_shown: bool = False,
) -> None:
    """Give the entries of items the words that their lines have; hide those without any.

    They get these digests, by event. With `is_shown`, hidden ones are found again."""
    items = await read_changes(await costs.counted(list(left.values())))
    by_event = dict(zip(left, items, strict=True))
    row = await sessions.find(tx, session)
    target = turn_index.searched(
        session, row.user_id if row else "", shared=row is not None and row.shared
    )
    index_id = turn_index.turns(session).number
    entries = await index.entries_of(tx, index_id, list(left))
    indexed = await index.indexed_texts(tx, index_id, list(entries.values()))
    changed = {}
    for event, entry in entries.items():
        item = by_event[event]
        new = entry_of(event, item, (0, 0, 0), costs.text_chars_max, _ANY)
        changed[entry] = Rewritten(
            index.indexed_text(*indexed[entry]),
            new.text if new.text.strip() else "",
            new.keywords if new.text.strip() else "",
            item.tokens,
            digests.get(event),
            is_shown=is_shown,
        )
    await placement.rewrite(tx, index_id, target.name, changed)


async def held_elsewhere(
    passages: Mapping[str, PassageSearch], scope: Scope, user: str, redaction: Redaction
) -> list[tuple[str, str]]:
    """Return the kind and the path or id of what else holds the forgotten values.

    Only what the user may see is looked through."""
    found: dict[tuple[str, str], None] = {}
    for words in (redaction.searched or list(redaction.statements))[:VALUES_MAX]:
        for kind, find in passages.items():
            if kind in scope.hidden_toolsets:
                continue
            for passage in await find(scope, words, PASSAGES_MAX, user=user):
                if redaction.ranges(passage.text):
                    found[kind, passage.path] = None
    return list(found)
