"""Compiled rules of a language."""

import re
from collections.abc import Iterable

from memsvc.core.rules.rule import Language


class RuleReader:
    """A language with its rules by their marker words.

    A rule's pattern is compiled for the first text that it may match: of some four hundred rules
    few are ever needed."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._patterns: dict[int, re.Pattern[str]] = {}
        self.numbers_by_word: dict[str, list[int]] = {}
        for number, rule in enumerate(language.rules):
            for word in rule.on.split():
                self.numbers_by_word.setdefault(word, []).append(number)
        (
            self.context_excludes,
            self.prefix_excludes,
            self.prefix_allowed,
            self.value_end,
            self.empty_value,
            self.after,
            self.joins,
        ) = (
            re.compile(pattern, re.IGNORECASE)
            for pattern in (
                language.context_excludes,
                language.prefix_excludes,
                language.prefix_allowed,
                language.value_end,
                language.empty_value,
                language.after,
                language.joins,
            )
        )

    def pattern(self, number: int) -> re.Pattern[str]:
        """Return the pattern of the rule with this number."""
        found = self._patterns.get(number)
        if found is None:
            found = self._patterns[number] = self.language.rules[number].compiled(
                whole_words=self.language.whole_words
            )
        return found

    def candidates(self, text: str, words: set[str]) -> Iterable[int]:
        """Return the numbers of the rules that can match a text of these words, in their order."""
        if self.language.whole_words:
            found = [self.numbers_by_word[word] for word in words if word in self.numbers_by_word]
        else:
            found = [numbers for marker, numbers in self.numbers_by_word.items() if marker in text]
        return sorted({number for numbers in found for number in numbers})
