"""Everyday words of six languages by group, from a data file, and what they say of health and food."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise, product
from typing import Final, Self
from unicodedata import normalize

from memsvc.core.frozen import frozen
from memsvc.core.rules import topics as t
from memsvc.core.rules.rule import Topic

WORDS_FILE: Final = "health_words.txt"
"""Lines of a group, a language (or * for those with spaces), a colon and words, apart by ";".

`/` between words of a phrase stands for either. A word may begin or end with * for any letters
there; in scripts without spaces it is a pattern."""
CJK_LANGUAGES: Final = ("zh", "ja")
STEM_CHARS: Final = 3
"""Letters of a word that must stand at the place of a *, and by which stems are found."""
PLAIN_CHARS_MIN: Final = 6

WORD: Final = re.compile(r"[^\W_]+")

Hits = Mapping[str, Sequence[int]]
"""Places of words by group, counted in words, in scripts without spaces in characters."""
Person = tuple[int, bool]
"""The place where a sentence names somebody, and whether that is not the speaker."""
Place = tuple[int, int]
"""Where a clause begins that tells something, and where the word ends that tells it."""
HealthPlaces = tuple[Mapping[Topic, Place], Place | None]
"""Where a sentence tells of the speaker's health, by topic, and of others'."""
Entries = dict[str, list[tuple[str, str]]]

NEAR: Final = 4
"""Words between two that belong together."""
NEAR_OWN: Final = 2
"""Words from the speaker to what is the speaker's."""
FAR: Final = 9
"""Words between a food and what it does to somebody."""
PHRASE_WORDS: Final = 6
"""Words of a sentence without a subject that names an illness and hardly anything else."""
SUBJECT_WORDS: Final = 6
"""Words of a clause among which the verb of its subject stands."""
_BREAK: Final = re.compile(r"[,;:.!?()—–]|\s-\s|[，、；：。（）]")
_JOINING: Final = re.compile(
    "and|but|so|because|while|und|aber|weil|denn|y|pero|porque|et|mais|car"
)
_POSSESSIVE: Final = re.compile(r"my|our|mein\w*|unser\w*|mis?|nuestr\w+|mon|ma|mes|notre|nos")
_PREDICATES: Final = re.compile(
    r"was|were|can|may|affects?|means|ist|sind|kann|es|son|puede|est|sont|peut"
)
"""Words behind the name of an illness by which a sentence speaks of it in general."""


def word_hits(language: str, sentence: str) -> Hits:
    """Return where a sentence, in lower case, has words of each group."""
    if language in CJK_LANGUAGES:
        return {
            group: places
            for group, pattern in _patterns(language).items()
            if (places := [match.start() for match in pattern.finditer(sentence)])
        }
    hits = defaultdict[str, list[int]](list)
    phrases, stems, ends = _words(language)
    words = WORD.findall(sentence)
    for at, word in enumerate(words):
        for group, rest in phrases.get(word, ()):
            if not rest or words[at + 1 : at + 1 + len(rest)] == rest:
                hits[group].append(at)
        for group, stem in stems.get(word[:STEM_CHARS], ()):
            if word.startswith(stem):
                hits[group].append(at)
        for group, end in ends.get(word[-STEM_CHARS:], ()):
            if word.endswith(end) and len(word) >= len(end) + STEM_CHARS:
                hits[group].append(at)
    return hits


def words_of(group: str, language: str) -> list[str]:
    """Return the words of a group in a language, long ones first."""
    found = [
        word
        for name, code, words in _lines()
        if (name, code) == (group, language)
        for word in words
    ]
    return sorted(found, key=len, reverse=True)


@cache
def _lines() -> list[tuple[str, str, list[str]]]:
    content = files("memsvc.core.rules").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    found = []
    for line in content.splitlines():
        head, _, phrases = line.partition(": ")
        group, code = head.split()
        split = [[word.split("/") for word in phrase.split()] for phrase in phrases.split(";")]
        words = [" ".join(either) for phrase in split for either in product(*phrase)]
        found.append((group, code, words))
    return found


@cache
def _patterns(language: str) -> Mapping[str, re.Pattern[str]]:
    return {
        group: re.compile("|".join(words_of(group, language)))
        for group, code, _ in _lines()
        if code == language
    }


@cache
def _words(language: str) -> tuple[dict[str, list[tuple[str, list[str]]]], Entries, Entries]:
    """Return phrases by their first word, beginnings by their first letters, endings by their last."""
    phrases = defaultdict[str, list[tuple[str, list[str]]]](list)
    stems = defaultdict[str, list[tuple[str, str]]](list)
    ends = stems.copy()
    for group, code, entries in _lines():
        if code not in ("*", language):
            continue
        for entry in dict.fromkeys([*entries, *map(_plain, entries)]):
            if entry.endswith("*"):
                stems[entry[:STEM_CHARS]].append((group, entry[:-1]))
            elif entry.startswith("*"):
                ends[entry[-STEM_CHARS:]].append((group, entry[1:]))
            else:
                first, *rest = WORD.findall(entry)
                phrases[first].append((group, rest))
    return phrases, stems, ends


def _plain(word: str) -> str:
    """Return a long word without its accents, as it is often typed."""
    if len(word) < PLAIN_CHARS_MIN:
        return word
    return "".join(character for character in normalize("NFD", word) if character.isascii())


@frozen
class SentenceWords:
    """A sentence, in lower case, as words of a language: what it says of health and food.

    `hits` are the places of its words, `persons` whom it names, and `own` the places of what it
    says of the speaker. `words` are empty and places count characters in scripts without spaces."""

    language: str
    sentence: str
    hits: Hits
    words: Sequence[re.Match[str]]
    starts: Sequence[int]
    persons: Sequence[Person]
    own: Hits

    @classmethod
    def of(cls, language: str, sentence: str) -> Self:
        """Read a sentence.

        A word is said of whom its clause names before it, or else behind it, or else of whom the
        clauses before name last. A clause with a subject and a verb in the third person names
        somebody too, unless the speaker is in it: "Tomasz is allergic", but "peanuts would kill
        me"."""
        hits = word_hits(language, sentence)
        words = [] if language in CJK_LANGUAGES else [*WORD.finditer(sentence)]
        starts = _clause_starts(sentence, words)
        persons = _persons(hits, starts, [word[0] for word in words])
        own = hits
        if any(is_other for _, is_other in persons):
            left = {
                group: [at for at in places if group == "me" or not _is_others(at, persons, starts)]
                for group, places in hits.items()
            }
            own = {group: places for group, places in left.items() if places}
        return cls(language, sentence, hits, words, starts, persons, own)

    def topics(self, *, is_personal: bool = False) -> list[Topic]:
        """Return what it says of the speaker's health and food; nothing that it says of others.

        `is_personal` says that it is known to be about the speaker."""
        return self._topics(self.own, is_personal=is_personal)

    def places(self) -> HealthPlaces:
        """Return where it tells of the speaker's health, by topic, and of others'.

        Where no clause names the speaker before, the place is empty."""
        own, others = self.own, dict[str, list[int]]()
        for group, places in self.hits.items() if own is not self.hits else ():
            left = [at for at in places if at not in own.get(group, ())]
            if left and group != "topic":
                others[group] = left
        is_others = bool(self._topics(others, is_personal=True))
        told = {
            topic: self._place(own, _GROUPS[topic])
            for topic in self._topics(own, is_personal=not is_others)
        }
        return told, self._place(others, _SUBJECTS) if is_others else None

    def _topics(self, hits: Hits, *, is_personal: bool) -> list[Topic]:
        subjects = [place for group in _SUBJECTS for place in hits.get(group, ())]
        if not subjects:
            return []
        is_cjk = self.language in CJK_LANGUAGES
        if any(_near(hits, group, "topic", NEAR) for group in _SUBJECTS) and not _is_own(hits):
            return []
        is_told = is_personal or is_cjk or "me" in hits
        if not is_told and not self._is_phrase(hits, subjects):
            return []
        far, near = (2 * FAR, 3 * NEAR) if is_cjk else (FAR, NEAR)
        return list(_topics(hits, far, near, is_phrase=is_cjk or "me" not in hits))

    def _is_phrase(self, hits: Hits, subjects: Sequence[int]) -> bool:
        """Return whether it leaves out that it is about the speaker: "Celiac here", "no eggs"."""
        words = [word[0] for word in self.words]
        first = min((*subjects, *hits.get("avoid", ()), *hits.get("not", ())))
        if first >= NEAR or _PREDICATES.fullmatch(" ".join(words[first + 1 : first + 2])):
            return False
        if words[first + 1 : first + 2] == ["here"]:
            return True
        has_rule = not hits.keys().isdisjoint(("avoid", "not", "ill", "allergic"))
        return has_rule or len(words) <= PHRASE_WORDS or "," in self.sentence

    def _place(self, hits: Hits, groups: Iterable[str]) -> Place:
        """Return where the clause about the person of a word begins, and where the word ends."""
        first = min(at for group in groups for at in hits.get(group, ()))
        start = max(at for at in self.starts if at <= first)
        if not any(start <= at <= first for at, _ in self.persons):
            return 0, 0
        if not self.words:
            return start, first + 1
        start += _JOINING.fullmatch(self.words[start][0]) is not None and start < first
        return self.words[start].start(), self.words[first].end()

    @property
    def is_of_others(self) -> bool:
        """Return whether it names others and not the speaker."""
        return bool(self.persons) and all(is_other for _, is_other in self.persons)

    @property
    def leaves_out_subject(self) -> bool:
        """Return whether it begins with a food or an illness: "no nuts, ever"."""
        return any(0 in self.hits.get(group, ()) for group in (*_SUBJECTS, "avoid", "not"))


def is_done_by_others(language: str, sentence: str) -> bool:
    """Return whether somebody else does or undergoes what a sentence, in lower case, tells."""
    read = SentenceWords.of(language, sentence)
    doers = {*read.hits.get("them", ()), *read.hits.get("acts", ())}
    return read.is_of_others and any(at in doers for at, _ in read.persons)


_SUBJECTS: Final = (
    *("allergic", "food", "substance", "diet", "regimen"),
    *("condition", "drug", "drugend", "medicine"),
)
_GROUPS: Final = {
    t.ALLERGY: ("allergic", "food", "substance"),
    t.FOOD_RULE: ("regimen", "food"),
    t.DIET: ("diet",),
    t.MEDICATION: ("drug", "drugend", "medicine"),
    t.CONDITION: ("condition",),
}
"""Groups of the words that tell a topic."""
_NO_PERSON: Final = (*_SUBJECTS, "ill", "avoid", "not", "self", "it")
"""Groups of words that are not the subject of a person's clause."""


def _clause_starts(sentence: str, words: Sequence[re.Match[str]]) -> list[int]:
    """Return the places at which clauses begin, in order; those of words are counted in words."""
    if not words:
        return [0, *(mark.end() for mark in _BREAK.finditer(sentence))]
    return [0] + [
        at
        for at, (before, word) in enumerate(pairwise(words), 1)
        if _JOINING.fullmatch(word[0]) or _BREAK.search(sentence, before.end(), word.start())
    ]


def _persons(hits: Hits, starts: Sequence[int], words: Sequence[str]) -> list[Person]:
    """Return the places where a sentence names somebody, in order, and whether it is another."""
    others, me = hits.get("them", ()), hits.get("me", ())
    near = NEAR if words else NEAR_OWN
    whose = [at for at in me if not words or _POSSESSIVE.fullmatch(words[at])]
    theirs = [at for at in whose if any(at < place < at + near for place in others)]
    found = [(at, False) for at in me if at not in theirs] + [(at, True) for at in others]
    for start, end in pairwise([*starts, len(words)]) if words else ():
        start += _JOINING.fullmatch(words[start]) is not None  # noqa: PLW2901
        clause = range(start, min(end, start + SUBJECT_WORDS))
        verbs = [at for at in hits.get("has", ()) if at in clause]
        verbs += [
            at
            for group in ("may", "acts")
            for at in hits.get(group, ())
            if at in clause and at > start
        ]
        if verbs and all(at in whose for at in me if start <= at < end):
            subject = range(start, min(verbs))
            named = [at for group in _NO_PERSON for at in hits.get(group, ())]
            if not any(at in subject for at in named) and min(verbs) not in hits.get("it", ()):
                found.append((min(verbs), True))
    return sorted(found)


def _is_others(at: int, persons: Sequence[Person], starts: Sequence[int]) -> bool:
    clause = bisect_right(starts, at) - 1
    start = starts[clause]
    end = starts[clause + 1] if clause + 1 < len(starts) else at + FAR * FAR
    before = [is_other for place, is_other in persons if start <= place <= at]
    behind = [is_other for place, is_other in persons if at < place < end]
    earlier = [is_other for place, is_other in persons if place < start]
    return before[-1] if before else all(behind) if behind else earlier[-1:] == [True]


def _topics(hits: Hits, far: int, near: int, *, is_phrase: bool) -> Iterator[Topic]:
    if (
        "allergic" in hits
        or _near(hits, "food", "ill", far)
        or _near(hits, "substance", "ill", far)
    ):
        yield t.ALLERGY
    elif "regimen" in hits or (
        _near(hits, "food", "avoid", near)
        or (is_phrase and _near(hits, "food", "not", near))
        or ("eat" in hits and _near(hits, "food", "not", near))
        or (_near(hits, "so", "not", 2) and _near(hits, "food", "not", 2))
        or (_near(hits, "not", "eat", near) and _near(hits, "food", "eat", far))
    ):
        yield t.FOOD_RULE
    elif "diet" in hits and (is_phrase or "self" in hits):
        yield t.DIET
    if "medicine" in hits or "drug" in hits or _near(hits, "drugend", "take", near):
        yield t.MEDICATION
    if "condition" in hits:
        yield t.CONDITION


def _is_own(hits: Hits) -> bool:
    """Return whether the speaker stands right before an illness or a drug, and nothing behind it.

    "I'm deaf in my left ear", "my Adderall wears off about three", but not "my asthma patients"."""
    own, topics = hits.get("me", ()), hits.get("topic", ())
    return any(
        any(0 < place - me <= NEAR_OWN for me in own) and place + 1 not in topics
        for group in ("allergic", "condition", "drug", "medicine")
        for place in hits.get(group, ())
    )


def _near(hits: Hits, group: str, other: str, distance: int) -> bool:
    others = hits.get(other, ())
    return any(abs(at - place) <= distance for at in hits.get(group, ()) for place in others)
