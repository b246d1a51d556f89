"""What a query to forget names: facts, and clauses of a sentence beside others that stay."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from memsvc.core.analysis import content_terms, query_terms, terms
from memsvc.core.facts import Fact, Identity
from memsvc.core.redaction import comparable
from memsvc.core.rules.extraction import LANGUAGES, requested_fact_ids
from memsvc.core.rules.topics import BIRTHDAY
from memsvc.core.secrets import holds_secret
from memsvc.store.database import Tx
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns.facts.forgetting import STANDS_OUT, cosines_of

WORDS_MAX: Final = 40
"""Words of a query that are looked at one by one; of a longer one the others name something."""
_JOINING: Final = r"(?:and|but|und|aber|y|pero|et|mais)\s"
_BEGINNING: Final = re.compile(rf"(?<=[;；，。！？])|(?<=[.!?])\s+|,?\s(?={_JOINING})")
"""Where a clause begins that may stand alone."""
_ABOUT_THE_NUMBER: Final = re.compile(
    rf"\W*(?:{_JOINING})?"
    r"(?:(?:its?|th(?:at|is|ese|ose)|which|es|das|dies|ça|ca|cela|c|lo|la|eso|es[eot]|le)\b|[它这那其])",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W\u3040-\u30ff\u4e00-\u9fff]+")
WORDS_MIN: Final = 3
"""Words, or pairs of characters of a script without spaces, of a clause that stands alone."""
_NUMBER: Final = re.compile(r"\d|[一二三四五六七八九十百千万]{2}")
_LONG_NUMBER: Final = re.compile(r"\d(?: ?\d){6,}|\d(?:[ -]?\d){8,}")
_BIRTHDAYS: Final = frozenset(
    term
    for words in (BIRTHDAY.key, *(one.keywords.get(BIRTHDAY.fact_id, "") for one in LANGUAGES))
    for term in terms(words)
)


def _of_kind(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts of the kinds that a question asks for, as far as it names which.

    Words of it that the person has `said` and that do not ask for the kind have to be in a fact:
    "my brother Uwe" names nothing of a sister, and "my ex's name" not one's own. Of the others
    those count that hold the most of its words; where none holds any, several are not told apart.
    """
    requested = requested_fact_ids(question)
    asked = set(content_terms(question))
    asking = {
        term
        for word in question.split()[:WORDS_MAX]
        if requested and requested_fact_ids(question.replace(word, "")) != requested
        for term in terms(word)
    }
    names = (asked & said) - asking
    held = [
        (len(asked & words), fact)
        for fact in found
        if fact.statement.fact_id in requested
        for words in [frozenset(terms(_words(fact)))]
        if names <= words
    ]
    named = set[Identity]()
    for kind in {fact.statement.fact_id for _, fact in held}:
        most = max(count for count, fact in held if fact.statement.fact_id == kind)
        best = {
            fact.statement.identity
            for count, fact in held
            if fact.statement.fact_id == kind and count == most
        }
        named |= best if most or len(best) == 1 else set()
    return [fact for _, fact in held if fact.statement.identity in named]


def _words(fact: Fact) -> str:
    statement = fact.statement
    return f"{statement.key} {statement.value} {statement.keywords} {statement.statement}"


def named_by(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts that a question names: by their kind, or by a third of its words.

    The words of a sentence that says several facts name none of these. `said` are the terms of the
    question that the person has said."""
    asked = set(query_terms(question))
    if of_kind := _of_kind(question, found, said):
        return of_kind
    times_said = Counter(comparable(fact.statement.statement) for fact in found)
    named = []
    for fact in found:
        statement = fact.statement
        words = f"{statement.key} {statement.value} {statement.keywords}"
        if times_said[comparable(statement.statement)] == 1:
            words = f"{words} {statement.statement}"
        if 3 * len(asked.intersection(terms(words))) >= len(asked):
            named.append(fact)
    return named


async def clauses_beside(
    tx: Tx, question: str, embedding: QueryEmbedding | None, sentences: Iterable[str]
) -> list[str]:
    """Return the clauses of the sentences that a query does not mean and that tell nothing of it.

    The rest of a sentence often tells what was forgotten. Only beside a code, a long number or a
    birthday it cannot, where it holds no number, and the query must clearly mean these."""
    asked = frozenset(content_terms(question))
    found: list[str] = []
    for sentence in sentences:
        telling, beside = _divided(sentence, asked)
        alike = await cosines_of(tx, embedding, [*telling, *beside]) if telling else {}
        if len(alike) == len({*telling, *beside}):
            best = max((alike[one] for one in telling), default=0.0)
            found += [one for one in beside if best - alike[one] >= STANDS_OUT]
    return found


def _divided(sentence: str, asked: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the clauses in which a query names a number, and those that say nothing of it."""
    telling, beside = [], []
    for clause in _clauses(sentence):
        named = asked.intersection(terms(clause))
        number = _NUMBER.search(clause)
        only_number = holds_secret(clause) or _LONG_NUMBER.search(clause) or named & _BIRTHDAYS
        if named and number and only_number:
            telling.append(clause)
        elif not named and not number and not _ABOUT_THE_NUMBER.match(clause):
            beside.append(clause)
    return telling, beside


def _clauses(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence that may stand alone; a shorter one belongs to that before."""
    starts = [0, *(match.end() for match in _BEGINNING.finditer(sentence)), len(sentence)]
    start = 0
    for left, right in pairwise(starts[1:]):
        if len(_WORD.findall(sentence, left, right)) >= WORDS_MIN:
            yield sentence[start:left]
            start = left
    yield sentence[start:]
