"""What a query to forget names: facts, and clauses of a sentence beside others that stay."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from memsvc.core.analysis import content_terms, query_terms, terms
from memsvc.core.facts import Fact, Identity
from memsvc.core.redaction import comparable, sentences
from memsvc.core.rules.change_words import CJK, names_in
from memsvc.core.rules.changes import COMMON
from memsvc.core.rules.extraction import (
    LANGUAGES,
    PEOPLE,
    PERSON_KEYS,
    requested_fact_ids,
)
from memsvc.core.rules.text_requests import FIRST_PERSON
from memsvc.core.rules.topics import BIRTHDAY
from memsvc.core.secrets import holds_secret
from memsvc.store.database import Tx
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns.facts.forgetting import is_quote
from memsvc.styles.turns.facts.said_sentences import (
    STANDS_OUT,
    SaidSentence,
    cosines_of,
)

WORDS_MAX: Final = 40
"""Maximum words of a query that are examined one by one."""
_JOINING: Final = r"(?:and|but|und|aber|y|pero|et|mais)\s"
_BEGINNING: Final = re.compile(rf"(?<=[;；，。！？])|(?<=[.!?])\s+|,?\s(?={_JOINING})")
"""Matches where a clause begins."""
_ABOUT_THE_NUMBER: Final = re.compile(
    rf"\W*(?:{_JOINING})?"
    r"(?:(?:its?|th(?:at|is|ese|ose)|which|es|das|dies|ça|ca|cela|c|lo|la|eso|es[eot]|le)\b|[它这那其])",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W\u3040-\u30ff\u4e00-\u9fff]+")
WORDS_MIN: Final = 3
"""Minimum words of a clause that can stand alone; pairs of characters in Chinese or Japanese."""
_NUMBER: Final = re.compile(r"\d|[一二三四五六七八九十百千万]{2}")
_LONG_NUMBER: Final = re.compile(r"\d(?: ?\d){6,}|\d(?:[ -]?\d){8,}")
_TITLE: Final = re.compile(
    r"(?:Herrn?|Frau|Mr|Mrs|Ms|Miss|Dr|Prof|Se?ñor|Señora|Sra?|Monsieur|Madame|Mme|M)\.?"
)
_MARKS: Final = " .,;:!?\"'“”„«»"
_FORGET: Final = re.compile(
    r"\W*(?:please |bitte |por favor )?"
    r"(?:forget|delete|remove|erase|wipe|vergiss|lösche?|oublie[rz]?|efface[rz]?|olvida|borra)"
    r"(?: about| a)? ",
    re.IGNORECASE,
)
_EVERYTHING: Final = re.compile(
    r"\b(?:(?:everything|anything|all|whatever)\b.{0,40}?\b(?:about|on|of)|alles\b.{0,20}?\b(?:über|von|zu[mr]?)"
    r"|todo\b.{0,20}?\b(?:sobre|de)|tout\b.{0,20}?\b(?:sur|de|concerne))\b",
    re.IGNORECASE,
)
_EVERYTHING_CJK: Final = re.compile(
    r"关于([^的\s]{1,10}?)的?(?:一切|所有|全部|事)|^([^のに\s]{1,10})(?:に関する|についての?|の)(?:こと|すべて|全部|情報)"
)
_BIRTHDAYS: Final = frozenset(
    term
    for words in (BIRTHDAY.key, *(one.keywords.get(BIRTHDAY.fact_id, "") for one in LANGUAGES))
    for term in terms(words)
)


_ADDRESS: Final = re.compile(rf"\b{_TITLE.pattern} (?=[^\W\d_a-zß-öø-ÿ])")
_LEANS: Final = re.compile(
    r"\W*(?:he|she|it|they|his|her|its|their|er|sie|es|seine?|ihre?|il|elle|son|sa|ses|él|ella|su|sus)\b",
    re.IGNORECASE,
)
"""How a sentence begins that goes on about what the one before it says."""


def _people(question: str) -> frozenset[str]:
    """Return the keys of the people that a question names by what they are to the speaker."""
    low = _ADDRESS.sub("", question).casefold()
    words = re.findall(r"\w+", low)
    found = {PERSON_KEYS.get(word, word) for word in words} & PEOPLE
    if CJK.search(low):
        found |= {key for word, key in PERSON_KEYS.items() if CJK.search(word) and word in low}
    return frozenset(found)


def _is_another(fact: Fact, people: Set[str], asked: Set[str]) -> bool:
    """Return whether a fact is about another of the user's people, whom the query does not name."""
    statement = fact.statement
    is_named = not asked.isdisjoint(terms(statement.value))
    return bool(people) and statement.key in PEOPLE - people and not is_named


def _of_kind(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts of the kinds that a question asks for, if it says which ones.

    Words that the person has `said` before and that do not name the kind must occur in the fact:
    "my brother Uwe" is no fact about a sister, and "my ex's name" is not the user's name. Among
    the facts of a kind, those with most of the words are returned; all of them if none has any.
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


def whole_name(question: str, said: Set[str]) -> str:
    """Return whose name a query wants to be forgotten in every sentence, "" if it asks for less.

    "everything about Herr Pichler", "todo sobre Ana"; or nothing but the name or a word that is no
    kind of fact: "Momo", "forget bruno". A word for a relative is no name ("妻のこと"). `said` are
    those terms of the query that the person has used before."""
    if (found := _EVERYTHING_CJK.search(question)) is not None:
        name = found[1] or found[2]
        return "" if any(name in language.keys for language in LANGUAGES) else name
    lead = _EVERYTHING.search(question)
    rest = question[lead.end() :] if lead else _FORGET.sub("", question)
    words = rest.strip(_MARKS).split()
    names = [word for word in words if word[0].isupper()]
    if lead is None:
        is_titled = len(words) == 2 and names == words and _TITLE.fullmatch(words[0])
        is_word = len(words) == 1 and not CJK.search(question) and not requested_fact_ids(question)
        words = words if is_titled or is_word else []
    else:
        names = [word for word in names if not _TITLE.fullmatch(word)]
        words = names or words[: len(words) == 1]
    name = " ".join(words)
    asked = content_terms(name)
    is_said = bool(asked) and {*asked} <= said
    return name if is_said and not FIRST_PERSON.search(name.lower()) else ""


def named_by(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts that a question names, by their kind or by a third of its words.

    Facts with at most half as many of its words as another one are left out. A sentence that states
    several facts is not evidence for any of them. `said` are those terms of the question that the
    person has used before."""
    asked = set(query_terms(question))
    people = _people(question)
    found = [one for one in found if not _is_another(one, people, asked)]
    if of_kind := _of_kind(question, found, said):
        stated = {comparable(fact.statement.statement) for fact in of_kind}
        return [  # "my dog Rex" names the dog as well, that the same sentence states
            fact
            for fact in found
            if fact in of_kind
            or (comparable(fact.statement.statement) in stated and _is_asked(fact, asked))
        ]
    times_said = Counter(comparable(fact.statement.statement) for fact in found)
    counts: list[tuple[int, Fact]] = []
    for fact in found:
        statement = fact.statement
        words = f"{statement.key} {statement.value} {statement.keywords}"
        if times_said[comparable(statement.statement)] == 1:
            words = f"{words} {statement.statement}"
        counts.append((len(asked.intersection(terms(words))), fact))
    most = max((count for count, _ in counts), default=0)
    return [fact for count, fact in counts if 3 * count >= len(asked) and 2 * count > most]


def whole_and_parts(question: str, named: Iterable[Fact]) -> tuple[list[Fact], list[SaidSentence]]:
    """Return the facts that a question names as a whole, and the sentences it names of others.

    Those quote several sentences, of which only some have most of the question's words. A sentence
    that goes on about one of these ("Her last seizure was in May.") is meant too, unless it names
    somebody else."""
    whole, parts = list[Fact](), list[SaidSentence]()
    asked = set(query_terms(question))
    for fact in named:
        said, source = fact.statement.statement, fact.statement.evidence
        each = [said[start:stop].strip() for start, stop in sentences(said)]
        counts = [len(asked.intersection(terms(one))) for one in each]
        meant = list[str]()
        for one, count in zip(each, counts, strict=True):
            goes_on = bool(meant) and one is each[each.index(meant[-1]) + 1] and _LEANS.match(one)
            if 2 * count > max(counts) or (goes_on and _has_no_name(one)):
                meant.append(one)
        if is_quote(fact) and 0 < len(meant) < len(each):
            parts += [SaidSentence(source.session, source.turn, one) for one in meant]
        else:
            whole.append(fact)
    return whole, parts


def _has_no_name(sentence: str) -> bool:
    return COMMON.issuperset(content_terms(" ".join(names_in(sentence))))


def _is_asked(fact: Fact, asked: Set[str]) -> bool:
    """Return whether a question says all that a fact does."""
    words = content_terms(fact.statement.value)
    return bool(words) and asked >= {*words}


async def clauses_beside(
    tx: Tx, question: str, embedding: QueryEmbedding | None, texts: Iterable[str]
) -> list[str]:
    """Return the clauses of these sentences that can stay when the query is forgotten.

    Usually the rest of a sentence reveals what was forgotten, so nothing stays. Beside a code, a
    long number or a birthday that the query clearly means, a clause without a number is safe."""
    asked = frozenset(content_terms(question))
    found: list[str] = []
    for sentence in texts:
        telling, beside = _divided(sentence, asked)
        alike = await cosines_of(tx, embedding, [*telling, *beside]) if telling else {}
        if len(alike) == len({*telling, *beside}):
            best = max((alike[one] for one in telling), default=0.0)
            found += [one for one in beside if best - alike[one] >= STANDS_OUT]
    return found


def _divided(sentence: str, asked: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the clauses with the number that the query names, and those that do not mention it."""
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
    """Yield the clauses of a sentence; a short one is part of the clause before it."""
    starts = [0, *(match.end() for match in _BEGINNING.finditer(sentence)), len(sentence)]
    start = 0
    for left, right in pairwise(starts[1:]):
        if len(_WORD.findall(sentence, left, right)) >= WORDS_MIN:
            yield sentence[start:left]
            start = left
    yield sentence[start:]
