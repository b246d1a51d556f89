"""Grammar of statements as data: what a sentence says that lasts, in each language."""

import re
from dataclasses import dataclass
from functools import cached_property

from memsvc.core.rules.idioms import is_idiom
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.word_groups import words_of

_LATIN_WORD = re.compile(r"[^\W\d_]+")
_PATTERNS = (
    "lead",
    "request",
    "sarcasm",
    "conditional",
    "persistent",
    "temporary",
    "states",
    "implicit",
    "commands",
    "targets",
    "permanent",
    "style",
    "once",
)
_MATCHED = ("lead", "request", "implicit")
"""Patterns that are not searched for: what they match at a place is of interest, or is found soon."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """First-person statements and standing instructions of a language, as patterns of lower case.

    The `common` words tell the language of a sentence. Without one of the `markers` (words;
    characters in scripts without spaces) no statement is read but by its beginning, without one of
    the `cues` beside them no instruction and no class. `lead` are fillers before it, `request` begins
    a clause that asks or requests something now. `sarcasm` rejects a sentence and any rule in it,
    and so do `idioms` (figures of speech and idioms of work, apart by ";"); `conditional` rejects a sentence
    (a condition, hearsay), `temporary` one that is true for the moment only; before a question in
    the same sentence only `persistent` words make one. `states` finds a statement anywhere,
    `implicit` one at the beginning that leaves out the speaker. `commands` finds an instruction,
    after the speaker only with a `targets` word: `permanent` words make it last, those about style
    (`style`) last by themselves, `once` are words about this one answer. `topics` are what is
    told by class, each with the words of which it needs one, if it does."""

    language: str
    whole_words: bool
    common: str
    markers: str
    cues: str
    lead: str
    request: str
    sarcasm: str
    conditional: str
    temporary: str
    idioms: str
    states: str
    implicit: str
    commands: str
    targets: str
    permanent: str
    style: str
    once: str
    topics: tuple[tuple[Topic, str] | tuple[Topic, str, str], ...]
    persistent: str = ""

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Return words by which the language is recognised."""
        return frozenset(self.common.split())

    @cached_property
    def marker_words(self) -> tuple[str, ...]:
        """Return the words of which a statement has at least one."""
        return tuple(self.markers.split())

    @cached_property
    def cue_words(self) -> tuple[str, ...]:
        """Return the words of which an instruction has at least one, or a statement."""
        return (*self.marker_words, *self.cues.split())

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        """Return the compiled patterns by name."""
        return {
            name: (re.compile if name in _MATCHED else quick_pattern)(getattr(self, name))
            for name in _PATTERNS
        }

    @cached_property
    def topic_patterns(self) -> tuple[tuple[Topic, re.Pattern[str], frozenset[str]], ...]:
        """Return the compiled patterns of what is told by class, with the words that they need."""
        languages = "(?:" + "|".join(words_of("language", self.language)) + ")"
        return tuple(
            (
                topic,
                quick_pattern(pattern.replace("{language}", languages)),
                frozenset(" ".join(required).split()),
            )
            for topic, pattern, *required in self.topics
        )

    @cached_property
    def idioms_by_word(self) -> dict[str, list[re.Pattern[str]]]:
        """Return the figures of speech by the longest word of each."""
        found: dict[str, list[re.Pattern[str]]] = {}
        for phrase in filter(None, map(str.strip, self.idioms.split(";"))):
            word = max(_LATIN_WORD.findall(phrase), key=len) if self.whole_words else phrase
            start, end = (r"(?<!\w)", r"(?!\w)") if self.whole_words else ("", "")
            pattern = re.escape(phrase).replace(r"\ ", " ").replace(r"\*", r"[\w'-]+")
            found.setdefault(word, []).append(re.compile(start + pattern + end))
        return found

    def is_not_literal(self, sentence: str, words: set[str]) -> bool:
        """Return whether a sentence is a figure of speech, idioms of work or sarcasm."""
        return (
            self._has_idiom(sentence, words)
            or is_idiom(sentence, words)
            or bool(self.patterns["sarcasm"].search(sentence))
        )

    def _has_idiom(self, sentence: str, words: set[str]) -> bool:
        """Return whether a sentence has one of the idioms in it."""
        by_word = self.idioms_by_word
        found = (
            words & by_word.keys()
            if self.whole_words
            else (key for key in by_word if key in sentence)
        )
        return any(pattern.search(sentence) for word in found for pattern in by_word[word])

    def has_any(self, of: tuple[str, ...], sentence: str, words: set[str]) -> bool:
        """Return whether a sentence has one of some words."""
        if self.whole_words:
            return not words.isdisjoint(of)
        return any(word in sentence for word in of)
