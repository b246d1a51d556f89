"""Similarity of two texts by their words, used without an embedder, and contradiction rules."""

import re
from collections import Counter
from collections.abc import Collection, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Final
from unicodedata import normalize
from zlib import crc32

from memsvc.core.analysis import CHINESE_GRAMMAR, own_terms
from memsvc.core.frozen import frozen
from memsvc.core.rules.changes import is_about_others
from memsvc.core.rules.sentences import SPEAKER_FIRST

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
WORDS_MAX: Final = 2000

SUBJECT_SHARE_MIN: Final = 0.5
"""Minimum share of common content words for two texts to have the same subject."""
CONTRADICTION_SCORE: Final = 0.8
"""Confidence of a contradiction found by rules: just enough to count as one."""

_AMOUNT_PREFIX_TEXT: Final = """
    is are was were = : at to from takes take took costs cost has have had after every under over about than of in for
    by until within due ist sind war um kostet kosten dauert bis von nach für fällig est sont était à coûte coûtent
    dure avant après es son era cuesta cuestan dura hasta は が を に へ 在 是 到 要 有 为 約 约 于
"""
_AMOUNT_WORDS: Final = frozenset(_AMOUNT_PREFIX_TEXT.split())
"""Words before a number that is an amount or a time; after others it often only enumerates."""
_STATE_TEXT: Final = """
    is are was were be = : due ist sind war sein fällig est sont était es son era será は 在 是 为
"""
_STATE_WORDS: Final = frozenset(_STATE_TEXT.split())
"""Words before a day that is said of something once: other events fall on many days."""
_DATE_WORDS_TEXT: Final = """
    on the of th st nd rd am den dem der le la el de du 月 日 年 曜 周 週 星 期
    january february march april may june july august september october november december
    januar februar märz mai juni juli oktober dezember janvier février mars avril juin juillet août septembre octobre
    novembre décembre enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
"""
_DATE_WORDS: Final = frozenset(_DATE_WORDS_TEXT.split())
_DAY_TEXT: Final = """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays today tomorrow tonight montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi
    jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo
"""
_DAYS: Final = frozenset(_DAY_TEXT.split())
_DENSE: Final = r"\u3040-\u30ff\u4e00-\u9fff々"
_TOKEN: Final = re.compile(
    rf"(?P<number>[#$€£¥]?(?:(?![{_DENSE}])[^\W_]){{0,12}}?\d(?:[.,:/%-]?(?![{_DENSE}])[^\W_]){{0,40}}%?"
    r"|[〇一二三四五六七八九十百千万]{1,12}(?=[年月日時时点分秒円元個个件回歳岁]))"
    r"|(?P<day>[月火水木金土日](?=曜)|(?<=[周週])[一二三四五六日天]|(?<=星期)[一二三四五六日天])"
    rf"|[{_DENSE}]|(?:(?![{_DENSE}])[^\W\d_])+(?:['’][^\W\d_]+)*|[=:](?=\s)",
)
_NAMED: Final = re.compile(rf"#|(?![{_DENSE}])[^\W\d_]|\d+\.\d+\.\d")
"""How a number begins that names something: `#88`, `v2`, `10.0.0.5`."""
TOKENS_MAX: Final = 400
WORDS_CACHED: Final = 8192
_GRAMMAR: Final = re.compile(rf"[\u3040-\u309f{CHINESE_GRAMMAR}]|[=:]")
"""Characters of Chinese and Japanese that are hardly words by themselves."""
_NEGATION_TEXT: Final = """
    not no never without cannot cant wont dont doesnt didnt isnt arent wasnt werent shouldnt mustnt neither nor nicht
    kein keine keinen nie niemals ohne pas jamais sans nunca jamás sin ninguno
"""
_NEGATION_WORDS: Final = frozenset(_NEGATION_TEXT.split())
_PAIRS_TEXT: Final = """
    always never; like dislike; love hate; on off; enable disable; enabled disabled; true false; allow forbid;
    allowed forbidden; before after; more less; most least; increase decrease; fast slow; light dark; up down;
    open closed; open close; success failure; succeed fail; passes fails; accept reject; safe unsafe; valid invalid;
    required optional; public private; early late; hot cold; left right; high low; start stop; sync async;
    synchronous asynchronous; prefer avoid; good bad; yes no; morning evening; possible impossible
"""
_WORD_PAIRS: Final = tuple((pair.split()[0], pair.split()[1]) for pair in _PAIRS_TEXT.split(";"))
_EMPHASIS_TEXT: Final = """
    indeed really actually truly certainly definitely obviously honestly basically simply wirklich tatsächlich eigentlich
    natürlich jedenfalls wahrlich vraiment effectivement certes évidemment franchement realmente ciertamente claramente
    efectivamente verdaderamente 确实 真的 的确 实际上 本当に 確かに 実際
"""
_EMPHASIS_TERMS: Final = frozenset(own_terms(_EMPHASIS_TEXT))
"""Words that say how sure somebody is, and nothing else."""


Counts = Counter[str | tuple[str, str]]
"""Counts of each word and each pair of neighbouring words of a text."""


def word_similarity(one: str, other: str) -> float:
    """Return the similarity of two texts by their words, as `cosine` of their counts."""
    return cosine(counts_of(one), counts_of(other))


def cosine(counts: Counts, others: Counts) -> float:
    """Return 0 for no word in common to 1 for the same words in the same order."""
    shared = sum(times * others[key] for key, times in counts.items())
    if not shared:
        return 0.0
    size = sqrt(
        sum(times * times for times in counts.values())
        * sum(times * times for times in others.values())
    )
    return min(1.0, shared / size)


def overlap(one: str, other: str) -> float:
    """Return the cosine of the sets of content words: 0 for none in common, 1 for the same."""
    words, others = set(own_terms(one)), set(own_terms(other))
    return len(words & others) / sqrt(len(words) * len(others)) if words and others else 0.0


def is_subset(new: str, old: str) -> bool:
    """Return whether a text has no content word that the other one lacks, but for emphasis."""
    return set(own_terms(new)) - _EMPHASIS_TERMS <= set(own_terms(old))


@frozen
class Values:
    """The words of a text, and which of them are values, identifiers or content.

    `quantities` are the places of amounts and times, which may differ another time, `identifiers`
    what tells one thing from another: numbers of tickets, rooms and servers, and single capital
    letters. `content` has the term of each word, "" for function words and negations.
    """

    text: str
    words: tuple[str, ...]
    quantities: frozenset[int]
    identifiers: frozenset[str]
    content: tuple[str, ...]

    def places(self, known: Set[str]) -> list[int]:
        """Return the places of content words that are not among the known ones."""
        return [place for place, term in enumerate(self.content) if term and term not in known]

    def shared(self, other: "Values") -> frozenset[str]:
        """Return the content words that two texts have in common."""
        return frozenset(self.content) & frozenset(other.content) - {""}

    def names_more(self, other: "Values", known: Set[str]) -> bool:
        """Return whether a text names in its subject what another one does not, nor `known` has.

        A subject stands before what it is said to be, or before all that two texts share. The verb
        of "we decided that ..." is none."""
        shared = self.shared(other)
        places = self.places(shared | known)
        is_frame = len(places) == 1 and SPEAKER_FIRST.match(self.text.casefold()) is not None
        if is_frame and not other.places(shared | known):
            return False
        return any(
            shared.isdisjoint(self.content[:place])
            or not _STATE_WORDS.isdisjoint(self.words[place + 1 :])
            for place in places
        )

    def begins_apart(self, shared: Set[str]) -> bool:
        """Return whether a word that is not shared stands in the first half of the shared ones."""
        return any(
            sum(term in shared for term in self.content[:place])
            <= sum(term in shared for term in self.content[place:])
            for place in self.places(shared)
        )

    def is_state(self, place: int) -> bool:
        """Return whether a word is what something is said to be."""
        before = next((at for at in range(place, 0, -1) if self.content[at - 1]), 0)
        return not _STATE_WORDS.isdisjoint(self.words[before:place])

    def is_amount(self, place: int) -> bool:
        """Return whether a word is an amount, a time or a day."""
        return place in self.quantities or self.words[place] in _DAYS

    def slots(self, known: Set[str]) -> set[tuple[str, str]]:
        """Return between which known words each unknown one stands, "" for none."""
        words = ["", *(term for term in self.content if term), ""]
        found, at = set(), 0
        while at < len(words) - 1:
            end = next(
                to for to in range(at + 1, len(words)) if words[to] in known or not words[to]
            )
            found |= {(words[at], words[end])} if end > at + 1 else set()
            at = end
        return found


def values_of(text: str) -> Values:
    """Return the words and values of a text."""
    words: list[str] = []
    quantities = set()
    identifiers = set()
    for match in _TOKEN.finditer(text):
        word = match[0].casefold()
        place = len(words)
        words.append(word)
        is_number = match["number"] is not None
        if is_number and not _NAMED.match(word) and _word_before(words, place) in _AMOUNT_WORDS:
            quantities.add(place)
        elif is_number or _is_letter(match[0], place):
            identifiers.add(word)
        elif match["day"] or word in _DAYS:
            quantities.update([place] if _word_before(words, place) in _STATE_WORDS else ())
        if place + 1 == TOKENS_MAX:
            break
    content = tuple(word if word in identifiers else _content(word) for word in words)
    return Values(text, tuple(words), frozenset(quantities), frozenset(identifiers), content)


def _is_letter(word: str, place: int) -> bool:
    """Return whether a word is a capital letter that names something: "hall B", but not "I"."""
    return place > 0 and len(word) == 1 and word.isascii() and word.isupper() and word != "I"


@lru_cache(WORDS_CACHED)
def _content(word: str) -> str:
    """Return the term of a word or character, "" where it is a function word or a negation."""
    if word in _NEGATION_WORDS or word in _STATE_WORDS or _GRAMMAR.fullmatch(word):
        return ""
    return "".join(own_terms(word)[-1:])


def has_other_subject(one: Values, other: Values, known: Set[str] = frozenset()) -> bool:
    """Return whether two texts are about two persons or things.

    One of them names in its subject what the other does not, nor `known` has, or one is about
    somebody else."""
    return (
        one.names_more(other, known)
        or other.names_more(one, known)
        or have_other_persons(one, other)
    )


def may_both_hold(one: str, other: str) -> bool:
    """Return whether two texts that are alike say something of two persons or things.

    They name others by a number or letter, in their subjects, or in their first halves; without a
    word in common nothing is known."""
    values, other_values = values_of(one), values_of(other)
    shared = values.shared(other_values)
    return bool(shared) and (
        have_other_identifiers(values, other_values)
        or has_other_subject(values, other_values)
        or (values.begins_apart(shared) and other_values.begins_apart(shared))
    )


def have_other_persons(one: Values, other: Values) -> bool:
    """Return whether one text is about somebody else, and one about the speaker or nobody."""
    return is_about_others(one.text) != is_about_others(other.text)


def _word_before(words: Sequence[str], place: int) -> str:
    """Return the word before a value, or before the date that the value is a part of."""
    before = place - 1
    while before >= 0 and (words[before] in _DATE_WORDS or words[before][:1].isnumeric()):
        before -= 1
    return words[before] if before >= 0 else ""


def have_other_amount(one: Values, other: Values) -> bool:
    """Return whether two texts are the same but for one amount or time."""
    if len(one.words) != len(other.words) or not one.quantities & other.quantities:
        return False
    places = [
        place
        for place, pair in enumerate(zip(one.words, other.words, strict=True))
        if pair[0] != pair[1]
    ]
    return len(places) == 1 and places[0] in one.quantities & other.quantities


def have_other_identifiers(one: Values, other: Values) -> bool:
    """Return whether each text names something by a number that the other does not."""
    return bool(one.identifiers - other.identifiers and other.identifiers - one.identifiers)


def is_contradiction(one: str, other: str) -> bool:
    """Return whether two texts contradict each other about the same subject, as far as rules see.

    One negates and the other does not, they differ in a word and its opposite, or only in one
    amount. Where both have a content word of their own besides, or one names more in its subject,
    both may be true. Deliberately modest: it requires much in common,
    knows few opposites, and misses what takes knowledge of the world."""
    values, other_values = values_of(one), values_of(other)
    if have_other_amount(values, other_values):
        return True
    if have_other_identifiers(values, other_values):
        return False
    words, others = _words(one), _words(other)
    conflicts = _word_conflicts(set(words), set(others))
    is_negated = _count_negation_words(words) % 2 != _count_negation_words(others) % 2
    if not (conflicts or is_negated):
        return False
    ignored_terms = {term for word in conflicts for term in own_terms(word)}
    known = values.shared(other_values) | ignored_terms
    if values.places(known) and other_values.places(known):
        return False
    terms_one = {term for term in own_terms(one) if not _NUMBER.fullmatch(term)} - ignored_terms
    terms_other = {term for term in own_terms(other) if not _NUMBER.fullmatch(term)} - ignored_terms
    return (
        bool(terms_one and terms_other)
        and len(terms_one & terms_other) / len(terms_one | terms_other) >= SUBJECT_SHARE_MIN
        and not has_other_subject(values, other_values, ignored_terms)
    )


def has_other_numbers(one: str, other: str) -> bool:
    """Return whether two texts have different numbers and so cannot be equivalent."""
    return sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other))


def _word_conflicts(words: set[str], others: set[str]) -> set[str]:
    found = set()
    for left, right in _WORD_PAIRS:
        for first, second in ((left, right), (right, left)):
            if (
                _has(words, first)
                and _has(others, second)
                and not _has(words, second)
                and not _has(others, first)
            ):
                found |= {left, left + "s", right, right + "s"}
    return found


def _has(words: set[str], word: str) -> bool:
    return word in words or f"{word}s" in words


def _count_negation_words(words: list[str]) -> int:
    return sum(1 for word in words if word in _NEGATION_WORDS or word.endswith("n't"))


def _words(text: str) -> list[str]:
    found = []
    for word in _WORD.findall(normalize("NFKC", text).casefold().replace("’", "'")):
        found += list(word) if ord(word[0]) > 0x2E80 else [word]
        if len(found) >= WORDS_MAX:
            break
    return found


def counts_of(text: str) -> Counts:
    """Return the words of a text and the pairs of neighbouring words.

    In scripts without spaces, a character is a word."""
    words = _words(text)
    counts: Counts = Counter(words)
    counts.update(pairwise(words))
    return counts


DUPLICATE_SHARE: Final = 0.8
"""Share of common words and pairs of words from which two texts are nearly the same."""
BANDS: Final = 12
BAND_ROWS: Final = 4
"""Texts that share 0.8 of their words have one of so many bands in common in 998 of 1,000 cases."""
_PRIME: Final = 2**61 - 1
_FACTORS: Final = [pow(3, 41 + 2 * at, _PRIME) for at in range(BANDS * BAND_ROWS)]


def words_and_pairs(text: str) -> frozenset[int]:
    """Return hashes of 32 bits of the words of a text and of its pairs of neighbouring words."""
    hashes = [crc32(word.encode()) for word in _words(text)]
    return frozenset([*hashes, *(crc32(b"%d" % one, other) for one, other in pairwise(hashes))])


def bands(hashes: Collection[int]) -> list[int]:
    """Return keys of which texts that have most of their hashes in common share one, by MinHash.

    After Broder 1997: the least of the hashes under each of many permutations, in bands."""
    signature = [min(one * factor % _PRIME for one in hashes) for factor in _FACTORS]
    return [
        hash((at, *signature[at : at + BAND_ROWS])) for at in range(0, len(signature), BAND_ROWS)
    ]


def shared_part(hashes: Collection[int], others: Collection[int]) -> float:
    """Return the Jaccard similarity of two sets: the shared part of all that is in either."""
    shared = len(frozenset(hashes) & frozenset(others))
    return shared / ((len(hashes) + len(others) - shared) or 1)
