"""What a sentence has of each language: fillers, requests, and names that a profile holds."""

import re
from dataclasses import dataclass
from functools import cached_property

from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.word_groups import words_of


@dataclass(frozen=True, eq=False)
class Grammar:
    """What shows the speaker of a language in patterns of lower case.

    The `common` words tell the language of a sentence. `lead` are fillers before it, `request` begins
    a clause that asks or requests something now. `topics` are what is told by class, each with the
    words of which it needs one, if it does."""

    language: str
    whole_words: bool
    common: str
    lead: str
    request: str
    topics: tuple[tuple[Topic, str] | tuple[Topic, str, str], ...]

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Return words by which the language is recognised."""
        return frozenset(self.common.split())

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        """Return the compiled patterns by name."""
        return {name: re.compile(getattr(self, name)) for name in ("lead", "request")}

    @cached_property
    def language_name(self) -> re.Pattern[str]:
        """Return a pattern of the names of languages."""
        return re.compile(rf"\b{self._languages}\b" if self.whole_words else self._languages)

    @property
    def _languages(self) -> str:
        return "(?:" + "|".join(words_of("language", self.language)) + ")"

    @cached_property
    def topic_patterns(self) -> tuple[tuple[Topic, re.Pattern[str], frozenset[str]], ...]:
        """Return the compiled patterns of what is told by class, with the words that they need."""
        return tuple(
            (
                topic,
                quick_pattern(pattern.replace("{language}", self._languages)),
                frozenset(" ".join(required).split()),
            )
            for topic, pattern, *required in self.topics
        )
