"""Past items among the matches: which a prompt shows, and the changes told with them."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from memsvc.core import relevance
from memsvc.core.analysis import CHANGE_MARK, normalized_text, terms
from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import is_filler, is_greeting_phrase
from memsvc.core.ranking import Candidate, EntryPlace, bm25_idf
from memsvc.core.rules.change_words import TOPICS_BY_FACT
from memsvc.core.rules.changes import (
    CHANGE_CHARS_MAX,
    Change,
    changes_in,
    matches_topic,
    names,
    replaces,
    topics_of,
)
from memsvc.core.secrets import NOT_ASKED_FOR, asks_for_secret, has_secret_value
from memsvc.store.recalls import OutdatedFact
from memsvc.store.search import IndexMatches
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recall_request import RecallRequest
from memsvc.styles.turns.recall.recalled import (
    IN_CONTEXT,
    OVER_THE_BUDGET,
    show_item,
)
from memsvc.styles.turns.recall.recalled_facts import FactRequest
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder, before_secret, quote_text

OTHER_SESSION_WEIGHT: Final = 0.8
"""Factor of items of other sessions: an equal match of the session itself comes first, and one from
elsewhere has to match by a quarter better."""
ENTRIES_PER_INDEX: Final = 1 << 32
"""Distance of indexes in the numbers of candidates, so that none are neighbours."""
CHANGES_READ: Final = 12
"""Latest messages of change among the candidates that are read with every recall."""
FOLLOWING_MAX: Final = 3
"""Messages of change shown beside what is told."""
FOLLOWING_ENTRIES: Final = 100
"""Entries within which such a message follows what is told; one that is weak, a tenth of them."""
NEIGHBOURS: Final = 2
NAMED_CHARS_MAX: Final = 600
"""Of a longer text a change may share some words by chance."""
NAMED_PART: Final = 3
"""An item shares at least one in so many words with the change that ends it."""
NAMED_TERMS_MIN: Final = 2
_NAME: Final = re.compile(
    r"(?<=[^\s.!?…:][ \t])(?!I\b)[A-ZÀ-ÖØ-Þ][\w'-]*|\w*\d[\w.-]{2,}"
    r"|[\u3040-\u30ff\u4e00-\u9fff]{2,}"
)
WordsOf = Callable[[str], frozenset[str]]

GREETING_CHARS_MAX: Final = 60
"""A longer answer is taken to have content."""
UNDER_THE_FLOOR: Final = "nothing of its session is relevant enough"
QUOTED_SHARE: Final = 1.3
"""Estimated tokens of items, by the limit of a block, behind which no more are selected."""
QUOTE_SHARES: Final = (6, 4, 3, 3, 3, 2)
"""Sixths of `snippet_chars_max` that are quoted of the best items, and of each behind them."""
ANSWER: Final = "answer to an item that is shown"
"""Name of the score of an answer that no word of the question found."""
OVER_THE_LIMIT: Final = "over recall_turns_limit"


class ItemPool(NamedTuple):
    """Candidates of several sessions as one index, with its entries and their counts by term.

    `changes` are the messages of change that were found, the latest first."""

    candidates: list[Candidate]
    changes: list[Candidate]
    entries: int
    counts_by_term: Counter[str]


def pool_items(found: Sequence[IndexMatches], session: str) -> ItemPool:
    """Return the matches of a session and of others, in the indexes that were searched for items.

    The idf of a term is computed over all these, so that a rare word of a small one does not count
    for more. Among equals the later session comes first, and the session itself before all."""
    own = turn_index.turns(session).number
    sessions, changes, kept = {own: session}, list[Candidate](), list[IndexMatches]()
    for matches in found:
        sessions |= {number: turn_index.session_of(name) for number, name in matches.names.items()}
        for one in matches.candidates:
            one.session = sessions[one.index_id]
        if _take_changes(matches, changes):
            kept.append(matches)
    counts, latest = Counter[str](), dict[int, datetime]()
    for matches in kept:
        counts.update(matches.counts_by_term)
        for one in matches.candidates:
            latest[one.index_id] = max(one.said_at, latest.get(one.index_id, one.said_at))
    order = sorted(latest, key=lambda index_id: (index_id == own, latest[index_id], index_id))
    first = {index_id: at * ENTRIES_PER_INDEX for at, index_id in enumerate(order)}
    entries = sum(matches.entries for matches in kept)
    for matches in kept:
        scale = {
            term: bm25_idf(counts[term], entries) / bm25_idf(term_count, matches.entries)
            for term, term_count in matches.counts_by_term.items()
        }
        for one in matches.candidates:
            one.first = first[one.index_id]
            one.weight = 1.0 if one.index_id == own else OTHER_SESSION_WEIGHT
            if len(kept) > 1:
                one.term_scores = {
                    term: score * scale[term] for term, score in one.term_scores.items()
                }
    changes.sort(key=attrgetter("said_at", "index_id", "entry"), reverse=True)
    candidates = [one for matches in kept for one in matches.candidates]
    return ItemPool(candidates, changes, entries, counts)


def _take_changes(matches: IndexMatches, changes: list[Candidate]) -> bool:
    """Make matches what they were if no message of change were marked; add those to `changes`.

    Returns whether anything else was found."""
    if matches.counts_by_term.pop(CHANGE_MARK, None) is None:
        return True
    changes += [
        one for one in matches.candidates if one.term_scores.pop(CHANGE_MARK, None) is not None
    ]
    steps = range(-NEIGHBOURS, NEIGHBOURS + 1)
    neighbours = {
        (one.index_id, one.entry + step)
        for one in matches.candidates
        if one.term_scores or one.cosine is not None
        for step in steps
    }
    matches.candidates[:] = [
        one for one in matches.candidates if (one.index_id, one.entry) in neighbours
    ]
    return bool(matches.candidates)


@frozen
class SaidChange:
    """A change with the message that says it."""

    message: Candidate
    change: Change

    def is_after(self, item: Candidate) -> bool:
        """Return whether it was said after an item that was read."""
        if item.index_id == self.message.index_id:
            return self.message.entry > item.entry
        return self.message.said_at > item.said_at


def said_changes(messages: Collection[Candidate]) -> list[SaidChange]:
    """Return the changes that a user's messages say, oldest first."""
    found = [
        SaidChange(message, change)
        for message in messages
        if message.role == "user"
        for change in changes_in(message.text)
    ]
    return sorted(found, key=lambda said: (said.message.said_at, said.message.entry))


def mark_changes(
    chunks: Sequence[Candidate],
    changes: Sequence[SaidChange],
    outdated: Mapping[EntryPlace, Sequence[OutdatedFact]],
    words_of: WordsOf,
    can_quote: Callable[[str], bool],
) -> None:
    """Mark each item whose facts ended, or that a later change names, with what replaced it.

    A sentence of change that one chunk tells, or its own message, is told once: another item says
    on which day it was said. So it is where `can_quote` refuses the sentence."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks} - {""}
    told |= {said.change.text for said in changes if said.message.place in shown}
    latest_first = [said for said in reversed(changes) if not said.change.weak]
    for chunk in [chunk for chunk in chunks if chunk.kind == "turn"]:
        ended = [
            (fact.superseded_by, "" if fact.valid_to else fact.ended_on)
            for fact in outdated.get(chunk.place, ())
            if (
                fact.session == chunk.session
                if fact.is_source
                else _repeats(fact, words_of(chunk.text), words_of)
            )
        ]
        can_end = chunk.role == "user" and len(chunk.text) <= NAMED_CHARS_MAX
        named = (
            (said.change.text, f"{said.message.said_at:%Y-%m-%d}")
            for said in (latest_first if can_end else ())
            if said.is_after(chunk) and _is_outdated(said.change, chunk.text, words_of)
        )
        marks = dict(ended or islice(named, 1))
        by = [
            words
            for words, day in marks.items()
            if not day or (words not in told and can_quote(words))
        ]
        told |= {said.change.text for said in changes} & set(by)
        if by:
            _mark(chunk, "superseded_by", "; ".join(by))
        elif marks:
            _mark(chunk, "questioned", max(marks.values()))


def following(
    chunks: Sequence[Candidate],
    changes: Sequence[SaidChange],
    facts: Mapping[tuple[int, int], Fact],
    words_of: WordsOf,
) -> list[Candidate]:
    """Return the messages of change to show beside these chunks, that no chunk tells already.

    They name or concern an item or a fact, in whatever session, or follow it in its own: the former
    first, then the surer ones, those that share a word, then the later."""
    shown = {chunk.place for chunk in chunks}
    told = {_by(chunk) for chunk in chunks}
    found: dict[EntryPlace, tuple[tuple[bool, ...], Candidate]] = {}
    changes = [
        said for said in changes if said.message.place not in shown and said.change.text not in told
    ]
    for chunk in chunks:
        if chunk.kind not in ("turn", "fact") or _by(chunk):
            continue
        fact = facts.get(chunk.place)
        later = [
            said
            for said in changes
            if (
                (known := found.get(said.message.place)) is None
                or known[0] > (False, said.change.weak, False)
            )
            and (fact.valid_from < said.message.said_at if fact else said.is_after(chunk))
        ]
        if not later:
            continue
        text = str(chunk.fields.get("statement") or chunk.fields.get("text", ""))
        words = words_of(text)
        topics = _topics_of(text, fact) if any(map(_about, later)) else frozenset[str]()
        for said in later:
            change, place = said.change, said.message.place
            shares = not change.terms.isdisjoint(words)
            related = (shares and names(change, words)) or not topics.isdisjoint(_about(said))
            if not related and not _is_near(said, chunk, fact):
                continue
            rank = (not related, change.weak, not shares)
            if place not in found or rank < found[place][0]:
                found[place] = (rank, said.message)
    latest_first = sorted(found.values(), key=lambda one: one[1].said_at, reverse=True)
    ranked = sorted(latest_first, key=lambda one: one[0])
    return [message for _, message in ranked][:FOLLOWING_MAX]


def _is_near(said: SaidChange, chunk: Candidate, fact: Fact | None) -> bool:
    """Return whether a change follows an item soon, or a fact, in its session."""
    message = said.message
    if fact is not None:
        return message.index_id == turn_index.turns(fact.statement.evidence.session).number
    entries_max = FOLLOWING_ENTRIES // (10 if said.change.weak else 1)
    return message.index_id == chunk.index_id and message.entry <= chunk.entry + entries_max


def _about(said: SaidChange) -> frozenset[str]:
    return said.change.topics | said.change.expired_topics


def _topics_of(text: str, fact: Fact | None) -> frozenset[str]:
    """Return the topic that a fact has by its id, or those that its text or an item's names."""
    known = TOPICS_BY_FACT.get(fact.statement.fact_id) if fact else None
    return frozenset((known,)) if known else topics_of(normalized_text(text))


def once_read() -> WordsOf:
    """Return a function that returns the terms of a text, and reads each text once."""
    return cache(lambda text: frozenset(terms(text)))


def _is_outdated(change: Change, text: str, words_of: WordsOf) -> bool:
    """Return whether a sure change names what a user said, by a name and a good part of its words.

    In a short text it may also say what took the place of the thing. A change that ends a topic
    ends no item about another."""
    words = words_of(text)
    if len(text) <= CHANGE_CHARS_MAX and change.is_short and replaces(change, text, words):
        return True
    shared = change.terms & words
    return (
        NAMED_PART * len(shared) >= len(change.terms)
        and len(shared) >= NAMED_TERMS_MIN
        and any(shared.intersection(terms(name)) for name in _named(change.text, text))
        and (not change.expired_topics or matches_topic(change, text))
    )


def _repeats(fact: OutdatedFact, words: frozenset[str], words_of: WordsOf) -> bool:
    """Return whether a text of these words, which holds the value of a fact, says the fact."""
    value = words_of(fact.value)
    # of a longer word in a script without spaces, other characters count by where it stands
    longer = {word for word in value if len(word) > 1} or value
    return longer <= words and not words.isdisjoint(words_of(fact.statement) - value)


def _named(*texts: str) -> set[str]:
    """Return what is written as a name within a sentence, identifiers, and runs of CJK."""
    return {name for text in texts for name in _NAME.findall(text)}


def _mark(item: Candidate, name: str, words: str) -> None:
    item.fields[name] = words
    item.tokens += len(words) // 3 + 6


def _by(chunk: Candidate) -> str:
    """Return the sentence that a chunk tells of a change: of a fact in doubt, or of an item."""
    if chunk.kind == "turn":
        return str(chunk.fields.get("superseded_by", ""))
    return str(chunk.fields.get("questioned", {}).get("text", ""))


@frozen
class RankedMatches:
    """Ranked matches of a question, best first: items with their confidence, facts, insights.

    `weights` are the weights of the question's terms. Only items of `sessions` may be shown: there
    one item at least is relevant enough by itself, and the answer may stand beside it."""

    pool: ItemPool
    items: Sequence[Candidate]
    confidence: relevance.Confidence
    facts: FactRequest
    insights: Sequence[Candidate]
    weights: Mapping[str, float]
    sessions: Collection[str]


class TurnSelection:
    """Selection of items for one prompt: each once, up to `recall_turns_limit`.

    `known` are digests of items that the caller has, `prompt` the entries of items in the recent
    context; neither is recalled again, nor is what the turn itself has already stored. Only
    items of the sessions of `ranked` may be shown, and a secret only if it is asked for or is an
    answer by itself."""

    def __init__(
        self,
        options: TurnOptions,
        request: RecallRequest,
        quote_finder: QuoteFinder,
        *,
        known: Collection[int],
        prompt: Collection[int],
        ranked: RankedMatches,
    ) -> None:
        self._limit = options.recall_turns_limit
        self._chars_max = options.snippet_chars_max
        self._request = request
        self._quote_finder = quote_finder
        self._known = known
        self._prompt = prompt
        self._remaining = QUOTED_SHARE * options.recall_tok_max
        self._distinct = relevance.Distinct()
        self._ranked = ranked
        self._allows_secrets = asks_for_secret(request.question.text)
        self._withheld: set[tuple[str, str]] = set()
        self._count = 0

    def chunks(self, selected: Sequence[Candidate]) -> list[Candidate]:
        """Return the items to show, of those that were read, in this order; others get a reason."""
        return [item for item in selected if self._show_or_explain(item)]

    def _show_or_explain(self, item: Candidate) -> bool:
        """Set the quote of an item and return True, or set the reason why it is not shown."""
        item.reason = self._reason_against(item)
        is_shown = not item.reason and self.show(item)
        self._count += is_shown
        return is_shown

    def _reason_against(self, item: Candidate) -> str:
        if item.session not in self._ranked.sessions:
            return UNDER_THE_FLOOR
        if reason := self.why_not(item):
            return reason
        if self._count >= self._limit:
            return OVER_THE_LIMIT
        if self._remaining <= 0:
            return OVER_THE_BUDGET
        if not self._distinct.add_if_new(item.text.casefold().split()):
            return "nearly the same as an item with a higher rank"
        return ""

    def answers(
        self, shown: Sequence[Candidate], items: Mapping[EntryPlace, Candidate]
    ) -> list[Candidate]:
        """Return the answers to the first of the user's messages shown, as far as they were read.

        What was decided and done often stands there alone, in other words than the question."""
        places, as_of = {chunk.place for chunk in shown}, self._request.as_of
        found = []
        for chunk in [chunk for chunk in shown if chunk.role == "user"]:
            item = items.get(EntryPlace(chunk.index_id, chunk.entry + 1))
            if item is None or item.place in places or item.role != "assistant":
                continue
            is_same_turn = turn_of(item.ref) == turn_of(chunk.ref)
            if is_same_turn and (as_of is None or item.said_at <= as_of):
                found.append((item, chunk.score))
        self._limit += len(found)
        result = []
        for item, score in found:
            if self._show_or_explain(item):
                item.score, item.parts = score, {ANSWER: score}
                result.append(item)
        return result

    def without_repeats(self, shown: Sequence[Candidate]) -> list[Candidate]:
        """Return the items without answers that may repeat a secret left out of their turn."""
        for item in shown:
            if item.role != "user" and (item.session, turn_of(item.ref)) in self._withheld:
                item.reason = NOT_ASKED_FOR
        return [item for item in shown if not item.reason]

    def show(self, item: Candidate) -> bool:
        """Set the quote of an item; it is shorter if more items come before it.

        Returns whether it may be shown; otherwise it has the reason."""
        share = QUOTE_SHARES[min(self._count, len(QUOTE_SHARES) - 1)]
        ranges = self._quote_finder.ranges(item.text, share * self._chars_max // 6)
        is_answer = self._ranked.confidence.passes_floor(item)
        if not is_answer and not self.can_quote(quote_text(item.text, ranges)):
            ranges = before_secret(item.text, ranges)
            self._withheld.add((item.session, turn_of(item.ref)))
        if not ranges:
            item.reason = NOT_ASKED_FOR
            return False
        show_item(item, ranges)
        self._remaining -= item.tokens
        return True

    def can_quote(self, text: str) -> bool:
        """Return whether a text may be quoted: it has no secret, or the question asks for one."""
        return self._allows_secrets or not has_secret_value(text)

    def why_not(self, item: Candidate) -> str:
        """Return why an item is not shown, "" where it may be."""
        is_own = item.session == self._request.session
        if is_own and turn_of(item.ref) == self._request.turn:
            return "belongs to the current turn"
        if not item.text.strip():
            return "no text"
        is_short = len(item.text) <= GREETING_CHARS_MAX
        is_empty = is_greeting_phrase if item.role == "assistant" else is_filler
        if is_short and is_empty(item.text):
            return "a message without content"
        if is_own and item.entry in self._prompt:
            return IN_CONTEXT
        if item.digest in self._known:
            return "in the caller's input"
        return ""
