"""What a rule is: a line of data that says how people put a fact, with an example of what it reads and what it must not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from memsvc.core.facts import Tier

STOPS = ",;!?。，、！？；…\n"
"""What ends a value wherever it stands; a full stop does where it ends a sentence."""

_SPACE = re.compile(r"(?P<kept>\\.|\[(?:\\.|[^\]\\])*\]| [?*])| ")
_SPACES = r"[ \t]{1,8}"
"""A space in a pattern, outside of sets of characters, is any run of them."""

ABBREVIATED = "".join(
    rf"(?<!\b{word})" for word in ("dr", "mr", "mrs", "ms", "st", "prof", r"e\.g", r"i\.e", "nr", r"z\.b")
)
"""What is not before a full stop that ends something: the full stop behind an abbreviation does not."""

POINT = rf"(?:\.(?!\s|$)|(?!{ABBREVIATED}\.)\.)"
"""A full stop within a value."""

_MACROS = {
    "{v}": rf"(?P<v>(?:[^{STOPS}.]|{POINT}){{1,200}})",
    "{w}": rf"(?P<v>(?:[^{STOPS}.]|{POINT}){{1,100}}?)",
    "{list}": rf"(?P<v>(?:[^;!?。！？；…\n.]|{POINT}){{1,200}})",
    "{name}": r"(?P<v>(?:(?:dr|mrs?|ms|prof|st)\. )?(?-i:[^\W\d_a-zß-öø-ÿ])[\w'-]{0,40}(?: (?-i:[^\W\d_a-zß-öø-ÿ])[\w'-]{0,40}){0,3})",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """What a fact can be about. `record` ends the id of its record, `cues` are English words under which it is found.

    `many` is true where several values hold side by side. `rivals` are the topics that the same value cannot have too.
    `shape` says what a value must look like: a `name`, something `proper` with a capital, a short `list`, or anything.
    """

    fact_id: str
    key: str
    tier: Tier
    confidence: float
    record: str
    cues: str
    many: bool = False
    rivals: tuple[tuple[str, str], ...] = ()
    shape: Literal["", "name", "proper", "list"] = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to put a fact of a topic, in one language.

    `on` are the words (in scripts without spaces: the characters) without one of which the pattern cannot match. The
    pattern's group `v` is the value, `k` the key where there are several (a relation, a kind of pet); `fixed` is a value
    that is not said in so many words, and `aside` what else is said of the same person. `says` is an example and `value` what is read in it; in `unsaid` nothing of the
    topic is stated. A rule that `ends` takes a fact back instead of stating one; its value "" means whatever holds.
    `tier` differs from the topic's where the words tell how long it holds. A rule that is `plain` is so clear that it
    may stand anywhere in a sentence.
    """

    topic: Topic
    on: str
    pattern: str
    says: str
    value: str
    unsaid: str
    key: str = ""
    fixed: str = ""
    ends: bool = False
    tier: Tier | None = None
    plain: bool = False

    def compiled(self, *, spaced: bool) -> re.Pattern[str]:
        """The pattern as it is searched for; words of scripts with spaces are whole words."""
        pattern = self.pattern
        for macro, meaning in _MACROS.items():
            pattern = pattern.replace(macro, meaning)
        pattern = _SPACE.sub(lambda match: match["kept"] or _SPACES, pattern)
        return re.compile((r"(?<![\w'])" if spaced else "") + pattern, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Language:
    """The rules of a language and what surrounds statements in it.

    In front of a statement, `bars` anywhere in its sentence make it no statement of the user's (a condition, somebody
    else's words) and `barred` does right before it; `leads` is what may stand between the sentence's beginning and it.
    `tails` end a value, `hollow` values say nothing, `after` behind a value makes it somebody else's words, `joins` is
    what stands between the values of a list. `keys` gives the English name of what `k` matches. `asked` are, by topic,
    patterns of questions for all its facts in words too common to search by, and `cues` the words that find them.
    """

    name: str
    spaced: bool
    rules: tuple[Rule, ...]
    bars: str
    barred: str
    leads: str
    tails: str
    hollow: str
    after: str
    joins: str
    keys: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    cues: Mapping[str, str] = field(default_factory=dict)
