"""A small memory told whole: facts and messages that share no word with a personal question."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.analysis import is_question
from memsvc.core.facts import Fact, latest_by_identity
from memsvc.core.greeting_phrases import has_content
from memsvc.core.question_kinds import asks_knowledge, is_first_person
from memsvc.core.ranking import Ranked
from memsvc.core.topic_lexicon import shared_topics, topics_in
from memsvc.store.index import Text
from memsvc.store.recall_content import EntryPlace
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.recall.block_chunks import fact_chunk
from memsvc.styles.turns.recall.recalled import RecalledChunk
from memsvc.styles.turns.recall.recalled_facts import STATED_SHARE

FACTS_MAX: Final = 60
MESSAGES_MAX: Final = 60
"""Facts and messages of the user that a small memory has at the most."""
ENTRIES_MAX: Final = 300
"""Items of the sessions searched up to which messages of a memory are looked through."""
MESSAGE_CHARS_MAX: Final = 600
FACT_EXTRA: Final = 0.2
FIRST_PERSON_EXTRA: Final = 0.5
PART: Final = "small memory"
"""Name of the score of what is told without a shared word."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """Facts and messages that no word of the question found, best first, and their scores."""

    facts: Sequence[RecalledChunk]
    messages: Sequence[tuple[EntryPlace, Ranked]]


def remaining(
    question: str,
    facts: Sequence[Fact],
    messages: Mapping[EntryPlace, Text],
    sessions: Mapping[int, str],
    *,
    told: Collection[EntryPlace],
    score_min: float,
) -> Remaining:
    """Return what a memory holds beside what was told, the topics of the question first.

    Of a memory that is not small only what shares a topic with the question. Messages that facts
    repeat, questions and thanks are left out. `sessions` are by index."""
    topics = topics_in(question)
    existing = list(latest_by_identity(facts).values())
    own = {
        place: text
        for place, text in messages.items()
        if text.role == "user" and len(text.text) <= MESSAGE_CHARS_MAX
    }
    if len(existing) > FACTS_MAX or len(own) > MESSAGES_MAX:
        score_min = 1.0
    fact_chunks: list[RecalledChunk] = []
    for fact in existing:
        if EntryPlace(fact.index_id, fact.entry) in told:
            continue
        words = f"{fact.statement.told} {fact.statement.keywords}"
        score = shared_topics(topics, topics_in(words))
        if score >= score_min:
            fact_chunks.append(fact_chunk(fact, score + FACT_EXTRA, {PART: score + FACT_EXTRA}))
    fact_chars: Counter[tuple[str, str]] = Counter()
    for fact in existing:
        evidence = fact.statement.evidence
        fact_chars[evidence.session, evidence.turn] += len(fact.statement.told)
    ranked: list[tuple[EntryPlace, Ranked]] = []
    for place, text in own.items():
        if place in told or _is_without_content(text.text):
            continue
        if fact_chars[sessions[place.index_id], turn_of(text.ref)] > STATED_SHARE * len(text.text):
            continue
        score = shared_topics(topics, topics_in(text.text))
        if score >= score_min:
            score += FIRST_PERSON_EXTRA * is_first_person(text.text)
            ranked.append((place, Ranked(place.entry, score, {PART: score}, 0.0)))
    fact_chunks.sort(key=lambda chunk: -chunk.score)
    ranked.sort(key=lambda pair: (-pair[1].score, -messages[pair[0]].message_at.timestamp()))
    return Remaining(fact_chunks, ranked)


def _is_without_content(text: str) -> bool:
    return is_question(text) or asks_knowledge(text) or not has_content(text)
