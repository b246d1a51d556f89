"""Messages of a person, and the sentences of these that a query names or may mean."""

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Final, Self

from memsvc.core.analysis import content_terms, query_terms, terms
from memsvc.core.frozen import frozen
from memsvc.core.ranking import bm25_idf
from memsvc.core.redaction import Redaction, sentences
from memsvc.core.vectors import MeantText, cosines, pack, units
from memsvc.store import index
from memsvc.store.database import Tx
from memsvc.store.search import IndexMatches, IndexQuery, QueryEmbedding, SearchFilter, search
from memsvc.store.sessions import find as find_session
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.maintenance.raw_archive import event_files, lines_of

CANDIDATES: Final = 400
"""Messages that are looked through for a value, and for what a query names."""
SHARE_MIN: Final = 0.5
"""Share of a query's weight that a sentence has to hold to be what it names: of the words that the
person has ever said, which have KNOWN_MIN of the weight of all."""
KNOWN_MIN: Final = 0.5
SENTENCES_MAX: Final = 5
MEANT_CANDIDATES: Final = 20
"""Messages nearest to a query whose sentences are compared with it."""
MEANT_MIN: Final = 0.08
"""How far above that of unrelated texts the cosine of the sentence must be that a query means."""
STANDS_OUT: Final = 0.13
"""How far above that of every other sentence it must be."""
OFFERED_SHARE: Final = 0.5
"""Share of the cosine of unrelated texts below which a text cannot be the one that is meant."""
MEANT_MAX: Final = 5
"""Sentences to choose from where a query names none."""
WORDS_MIN: Final = 2
"""Content words of a sentence without a number that says something by itself."""
TEXT_CHARS_MAX: Final = 1_000_000


@frozen
class Place:
    """An item: its session, entry and event, and its text."""

    session: str
    entry: int
    event: str
    text: str
    role: str = "user"

    @property
    def turn(self) -> str:
        """Return the turn of the item."""
        return file_layout.turn_of(self.event)


@frozen
class SaidSentence:
    """A sentence of a message that states what to forget."""

    session: str
    turn: str
    text: str


@frozen
class Speaker:
    """The user, or the session if there is no user, whose messages are searched.

    `turns` are those of the user, or of nobody, in a session where others speak too; None in a
    session that the index of the user covers."""

    session: str
    user: str
    turns: Set[str] | None = None

    @classmethod
    async def of(cls, tx: Tx, session: str, user: str) -> Self:
        """Return the speaker, with the turns from the session's files if it is shared."""
        row = await find_session(tx, session) if user else None
        if row is None or not row.shared:
            return cls(session, user)
        lines = [
            line for file in await event_files(tx, session) for line in await lines_of(tx, file)
        ]
        return cls(session, user, {line.turn for line in lines if line.user in ("", user)})

    async def messages(self, tx: Tx, words: str) -> list[Place]:
        """Return the items of the speaker's turns that hold one of these words."""
        matches = await self.search(tx, query_terms(words))
        found = (await _read(tx, self.places(matches))).values()
        return [place for place in found if self.said(place.session, place.turn)]

    def said(self, session: str, turn: str) -> bool:
        """Return whether a turn is the speaker's own."""
        return self.turns is None or session != self.session or turn in self.turns

    async def search(
        self, tx: Tx, query: Sequence[str], embedding: QueryEmbedding | None = None
    ) -> IndexMatches:
        """Return the messages that contain words of a query or are close to it in meaning.

        In a shared session, this includes everybody's messages."""
        near = MEANT_CANDIDATES if self.turns is None else CANDIDATES
        own = turn_index.turns(self.session).number
        numbers = [turn_index.said(self.user).number if self.user else own]
        if self.turns is not None:
            numbers.append(own)
        queries = [IndexQuery(one, CANDIDATES, best_by_embedding=near) for one in numbers]
        found = [*(await search(tx, queries, query, embedding)).values()]
        if self.turns is not None:  # what a job has yet to move to the index of the session
            within = SearchFilter(within=own)
            found += (await search(tx, queries[:1], query, embedding, within)).values()
        counts, names = Counter[str](), dict[int, str]()
        for one in found:
            counts.update(one.counts_by_term)
            names |= one.names
        candidates = [candidate for one in found for candidate in one.candidates]
        return IndexMatches(sum(one.entries for one in found), counts, candidates, names)

    def places(self, matches: IndexMatches, *, by_words: bool = True) -> dict[tuple[int, int], str]:
        """Return the sessions of messages that were found, by index and entry."""
        sessions = {number: turn_index.session_of(name) for number, name in matches.names.items()}
        sessions[turn_index.turns(self.session).number] = self.session
        return {
            (one.index_id, one.entry): sessions[one.index_id]
            for one in matches.candidates
            if one.term_scores or not by_words
        }


async def find_items(
    tx: Tx, speaker: Speaker, redaction: Redaction, evidence: Collection[tuple[str, str]]
) -> list[Place]:
    """Return the items of a speaker that say what is to be forgotten.

    Those that facts are from, by session and event, and those that hold a value or a sentence."""
    found: dict[tuple[int, int], str] = {}
    for words in [*redaction.searched, *redaction.statements]:
        found |= speaker.places(await speaker.search(tx, query_terms(words)))
    sources: dict[str, list[str]] = {}
    for source, event in evidence:
        sources.setdefault(source, []).append(event)
    for source, events in sources.items():
        number = turn_index.turns(source).number
        entries = await index.entries_of(tx, number, events)
        found |= {(number, entry): source for entry in entries.values()}
    return [
        place
        for place in (await _read(tx, found)).values()
        if (place.session, place.event) in evidence or speaker.said(place.session, place.turn)
        if redaction.ranges(place.text)
    ]


async def _read(tx: Tx, places: Mapping[tuple[int, int], str]) -> dict[tuple[int, int], Place]:
    by_index: dict[int, list[int]] = {}
    for number, entry in places:
        by_index.setdefault(number, []).append(entry)
    found = {}
    for number, entries in sorted(by_index.items()):
        texts = await index.texts(tx, number, entries, chars_max=TEXT_CHARS_MAX)
        for entry, text in sorted(texts.items()):
            session = places[number, entry]
            found[number, entry] = Place(session, entry, text.ref, text.text, text.role)
    return found


async def said_terms(tx: Tx, speaker: Speaker, question: str) -> Set[str]:
    """Return the terms of a question that occur in the speaker's messages."""
    return frozenset((await speaker.search(tx, query_terms(question))).counts_by_term)


@frozen
class NamedSentences:
    """Sentences that a query names, or else those that it may mean, nearest first."""

    named: Sequence[SaidSentence] = ()
    meant: Sequence[SaidSentence] = ()


async def named_sentences(
    tx: Tx, speaker: Speaker, question: str, embedding: QueryEmbedding | None
) -> NamedSentences:
    """Return the sentences of a speaker's messages that a query names best, if any does.

    They hold half of what the query asks by weight, and none holds more. Where many do alike, none
    is named. Where none does, it is the one that means what the query says, if it stands out."""
    query = query_terms(question)
    matches = await speaker.search(tx, query, embedding)
    read = await _read(tx, speaker.places(matches, by_words=False))
    own = {
        key: place
        for key, place in read.items()
        if place.role == "user" and speaker.said(place.session, place.turn)
    }
    said = _sentences_of(own[key] for key in speaker.places(matches) if key in own)
    shares = _shares(query, said, matches)
    named = _named_by_words(shares)
    if named or embedding is None:
        nearest = heapq.nlargest(MEANT_MAX, shares, key=lambda text: shares[text])
        return NamedSentences(
            [said[text] for text in named], [] if named else [said[text] for text in nearest]
        )
    near = sorted(matches.candidates, key=lambda one: one.cosine or 0.0, reverse=True)
    keys = [(one.index_id, one.entry) for one in near]
    said = _sentences_of([own[key] for key in keys if key in own][:MEANT_CANDIDATES])
    alike, ordered = await _similarities(tx, embedding, list(said))
    text = embedding.standing_out(alike, near=MEANT_MIN, clear=STANDS_OUT)
    if text is not None:
        return NamedSentences([said[text]])
    offered = [
        text
        for text, cosine in alike.items()
        if is_offered(embedding, cosine)
        and (content_terms(text) or embedding.is_near(ordered[text]))
    ]
    nearest = heapq.nlargest(
        MEANT_MAX,
        offered,
        key=lambda text: (
            not is_low_content(text) or embedding.is_near(ordered[text]),
            ordered[text],
        ),
    )
    return NamedSentences((), [said[text] for text in nearest])


def is_low_content(text: str) -> bool:
    """Return whether a text has no number and at most one content word, as exclamations do."""
    return len(content_terms(text)) < WORDS_MIN and not re.search(r"\d", text)


def is_offered(embedding: QueryEmbedding, cosine: float) -> bool:
    """Return whether a text with this cosine to a query may be the one that is meant."""
    return cosine >= OFFERED_SHARE * (embedding.unrelated or 0.0)


def _sentences_of(places: Iterable[Place]) -> dict[str, SaidSentence]:
    """Return the different sentences of messages, by their text."""
    found: dict[str, SaidSentence] = {}
    for place in places:
        for start, stop in sentences(place.text):
            if text := place.text[start:stop].strip():
                found.setdefault(text, SaidSentence(place.session, place.turn, text))
    return found


def _shares(query: Sequence[str], said: Iterable[str], matches: IndexMatches) -> dict[str, float]:
    """Return the share of a query's weight that each sentence holds.

    None where most of the query was never said."""
    counts = matches.counts_by_term
    every = {term: bm25_idf(counts.get(term, 0), matches.entries) for term in query}
    weights = {term: weight for term, weight in every.items() if term in counts}
    if not weights or sum(weights.values()) < KNOWN_MIN * sum(every.values()):
        return {}
    shares = {}
    for sentence in said:
        held = set(terms(sentence)).intersection(weights)
        if held:
            shares[sentence] = sum(weights[term] for term in held) / sum(weights.values())
    return shares


def _named_by_words(shares: Mapping[str, float]) -> list[str]:
    best = max(shares.values(), default=0.0)
    named = [text for text, share in shares.items() if share >= best * 0.999]
    return named if best >= SHARE_MIN and len(named) <= SENTENCES_MAX else []


async def cosines_of(
    tx: Tx, embedding: QueryEmbedding | None, texts: Sequence[str]
) -> dict[str, float]:
    """Return the cosine of each text to a query, without those whose vector cannot be made now."""
    return (await _similarities(tx, embedding, texts))[0]


async def _similarities(
    tx: Tx, embedding: QueryEmbedding | None, texts: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the cosines of texts to a query, and those by which they are ordered.

    Exclamations are close to any short query, but less close to its specific part."""
    if embedding is None or tx.encoder is None or not texts:
        return {}, {}
    made = await tx.encoder.encode([MeantText(text) for text in texts])
    known = {text: vector.whole for text, vector in zip(texts, made, strict=True) if vector}
    if not known:
        return {}, {}
    vectors = units(b"".join(pack(list(known.values()))), len(embedding.vector))
    alike, ordered = (
        dict(zip(known, cosines(vector, vectors), strict=True))
        for vector in (embedding.vector, embedding.ordering)
    )
    return alike, ordered
