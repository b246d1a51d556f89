"""Rules as data: a pattern for one phrasing of a fact, with an example and a counterexample."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial
from typing import Literal

from memsvc.core.facts import FactTier
from memsvc.core.frozen import frozen

STOPS = ",;!?。，、！？；…\n"
"""Characters that end a value anywhere; a full stop does where it ends a sentence."""

_SPACE = re.compile(r"(?P<kept>\\.|\[(?:\\.|[^\]\\])*\]| [?*])| ")
_SPACE_RUN = r"[ \t]{1,8}"
"""A space in a pattern, outside of sets of characters, matches any run of them."""

NOT_SHORT_FORM = "".join(
    rf"(?<!\b{word})"
    for word in ("dr", "mr", "mrs", "ms", "st", "prof", r"e\.g", r"i\.e", "nr", r"z\.b")
)
"""Negative lookbehind: a full stop after an abbreviation does not end anything."""

POINT = rf"(?:\.(?!\s|$)|(?!{NOT_SHORT_FORM}\.)\.)"
"""A full stop within a value."""

_PLACEHOLDERS = {
    "{v}": rf"(?P<v>(?:[^{STOPS}.]|{POINT}){{1,200}})",
    "{w}": rf"(?P<v>(?:[^{STOPS}.]|{POINT}){{1,100}}?)",
    "{list}": rf"(?P<v>(?:[^;!?。！？；…\n.]|{POINT}){{1,200}})",
    "{name}": r"(?P<v>(?:(?:dr|mrs?|ms|prof|st)\. )?(?-i:[^\W\d_a-zß-öø-ÿ])[\w'-]{0,40}(?: (?-i:[^\W\d_a-zß-öø-ÿ])[\w'-]{0,40}){0,3})",
    "{small}": r"(?P<v>(?-i:[a-zß-öø-ÿ])[\w-]{1,40})(?=[.,;!\n]|$| (?:and|und|et|y)\b)",
}


@frozen
class Topic:
    """A subject of facts.

    `record` ends the id of its record, `keywords` are English keywords. `many` is true where
    several values can hold at the same time, `by_head` where those with another head word can. `conflicts` are the topics that the same value cannot
    have too. `shape` is the required form of a value: a `name`, something `proper` with a capital,
    a short `list`, or anything. Nothing that matches `excludes` is a value, in any language."""

    fact_id: str
    key: str
    confidence: float
    record: str
    keywords: str
    tier: FactTier = FactTier.L0
    many: bool = False
    by_head: bool = False
    conflicts: tuple[tuple[str, str], ...] = ()
    shape: Literal["", "name", "proper", "list"] = ""
    excludes: str = ""


@frozen
class Rule:
    """One phrasing of a fact of a topic, in one language.

    `on` are the words (in scripts without spaces: the characters) without one of which the pattern
    cannot match. The pattern's group `v` is the value, `k` the key where there are several (a
    relation, a kind of pet); `fixed` is a value that the words only imply, and the group `aside` is
    a remark about the same person. `example` is an example and `value` its value; `counter_example`
    states nothing of the topic. A rule that `deletes` retracts a fact. `tier` differs from the topic's where the words imply another
    duration. A `plain` rule is so clear that it may match anywhere in a sentence."""

    topic: Topic
    on: str
    pattern: str
    example: str
    value: str
    counter_example: str
    key: str = ""
    fixed: str = ""
    deletes: bool = False
    tier: FactTier | None = None
    plain: bool = False

    def compiled(self, *, whole_words: bool) -> re.Pattern[str]:
        """Return the compiled pattern; in scripts with spaces it matches whole words."""
        pattern = self.pattern
        for placeholder, replacement in _PLACEHOLDERS.items():
            pattern = pattern.replace(placeholder, replacement)
        pattern = _SPACE.sub(lambda match: match["kept"] or _SPACE_RUN, pattern)
        return re.compile((r"(?<![\w'])" if whole_words else "") + pattern, re.IGNORECASE)


retraction = partial(Rule, deletes=True)
"""Make a rule that retracts a fact instead of stating one; its value "" means any value."""


def relations(
    stated: str, denied: str, *rows: tuple[Topic, str, str, str, str, str]
) -> tuple[Rule, ...]:
    """Return the rules that state or deny that somebody is a relation of the user.

    A row has a topic, the words for its relations, their pattern, an example of each of the two
    patterns, and the name in them."""
    return tuple(
        Rule(
            topic,
            on,
            pattern.replace("{k}", words),
            example,
            name,
            denial,
            deletes=pattern == denied,
        )
        for topic, on, words, statement, denial, name in rows
        for pattern, example in ((stated, statement), (denied, denial))
    )


@frozen
class Language:
    """The rules of a language and the context of statements in it.

    Before a statement, `context_excludes` anywhere in its sentence reject it as the user's own (a
    condition, a quotation) and `prefix_excludes` does so right before it; `prefix_allowed` may
    stand between the start of the sentence and it. `value_end` end a value, `empty_value` values
    are empty, `after` following a value makes it a quotation, `joins` separates the values of a
    list. `keys` gives the English name of what `k` matches. `question_patterns` are, by topic,
    patterns of questions for all its facts in words too common to search by, and `keywords` their
    keywords."""

    name: str
    whole_words: bool
    rules: tuple[Rule, ...]
    context_excludes: str
    prefix_excludes: str
    prefix_allowed: str
    value_end: str
    empty_value: str
    after: str
    joins: str
    keys: Mapping[str, str] = field(default_factory=dict)
    question_patterns: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)


class RuleReader:
    """A language with its compiled patterns, and its rules by their marker words."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.patterns = [rule.compiled(whole_words=language.whole_words) for rule in language.rules]
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

    def candidates(self, text: str, words: set[str]) -> Iterable[int]:
        """Return the numbers of the rules that can match a text of these words, in their order."""
        if self.language.whole_words:
            found = [self.numbers_by_word[word] for word in words if word in self.numbers_by_word]
        else:
            found = [numbers for marker, numbers in self.numbers_by_word.items() if marker in text]
        return sorted({number for numbers in found for number in numbers})
