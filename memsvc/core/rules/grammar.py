"""Grammar of statements as data: what a sentence says that lasts, in each language."""

import re
from dataclasses import dataclass
from functools import cached_property

from memsvc.core.rules.phrases import sentence_labels
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.word_groups import words_of

UNMEANT = frozenset(("idiom", "mock", "unreal", "scene"))
"""Words of which one makes that a sentence says nothing of the speaker."""
MOCKERY = frozenset(("fond", "trouble"))
"""Praise and what nobody praises: together they mock."""
SHOP_TALK = frozenset(("life", "trade"))
"""Words of family and life and of tools and trades: "I killed the child process"."""
OPENING_WORDS = 3
OPENING_CHARACTERS = 6
"""The beginning of a sentence, in which a stranger is its subject."""
_PATTERNS = (
    "lead",
    "request",
    "conditional",
    "persistent",
    "implicit",
    "states",
    "commands",
    "targets",
    "permanent",
    "style",
    "once",
)
_MATCHED = ("lead", "request", "implicit", "states")
"""Patterns that are not searched for: what they match at a place is of interest, or is found soon."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """First-person statements and standing instructions of a language, as patterns of lower case.

    The `common` words tell the language of a sentence. Without one of the `markers` (words;
    characters in scripts without spaces) no statement is read but by its beginning (`implicit`,
    which leaves out the speaker), without one of the `cues` beside them no instruction and no
    class. A sentence that begins like `states` lasts by its form. `lead` are fillers before it,
    `request` begins a clause that asks or requests something now. `conditional` rejects a sentence (a condition, hearsay); before a question in the same
    sentence only `persistent` words make one. `commands` finds an instruction, after the speaker
    only with a `targets` word: `permanent` words make it last, those about style (`style`) last by
    themselves, `once` are words about this one answer. `topics` are what is told by class, each
    with the words of which it needs one, if it does.

    What the words of sentence_words.txt say of a sentence decides the rest: a statement needs a
    word of what lasts, and none of the moment."""

    language: str
    whole_words: bool
    common: str
    markers: str
    cues: str
    lead: str
    request: str
    conditional: str
    implicit: str
    states: str
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

    def is_not_literal(self, sentence: str) -> bool:
        """Return whether a sentence is a figure of speech, shop talk or mockery."""
        labels = sentence_labels(self.language, sentence)
        return not labels.isdisjoint(UNMEANT) or labels >= SHOP_TALK

    def is_about_stranger(self, sentence: str) -> bool:
        """Return whether a sentence begins with a stranger as its subject."""
        opening = (
            " ".join(sentence.split(maxsplit=OPENING_WORDS)[:OPENING_WORDS])
            if self.whole_words
            else sentence[:OPENING_CHARACTERS]
        )
        return "stranger" in sentence_labels(self.language, opening)

    def has_any(self, of: tuple[str, ...], sentence: str, words: set[str]) -> bool:
        """Return whether a sentence has one of some words."""
        if self.whole_words:
            return not words.isdisjoint(of)
        return any(word in sentence for word in of)
