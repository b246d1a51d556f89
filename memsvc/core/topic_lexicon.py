"""Topics of everyday talk by their words in six languages, a bridge between paraphrases."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from memsvc.core.analysis import normalized_text, terms

WORDS_FILE: Final = "topic_words.txt"
"""Lines of a topic, a colon and words."""
CHARS_MAX: Final = 2000
"""Characters of a text that are looked at."""
GENERAL_TOPICS: Final = frozenset(("time", "place", "name", "outdoors"))
"""Topics that nearly any statement may touch; sharing one says little."""
_FIRST_CJK: Final = "\u2e80"


def topics_in(text: str) -> frozenset[str]:
    """Return the topics that the words of a text belong to."""
    topics_by_term, cjk_words, topics_by_cjk_word = _lexicon()
    text = text[:CHARS_MAX]
    found = [topics_by_term.get(term, ()) for term in terms(text)]
    if not text.isascii():
        found += [topics_by_cjk_word[word] for word in cjk_words.findall(normalized_text(text))]
    return frozenset(topic for topics in found for topic in topics)


def shared_topics(topics: frozenset[str], others: frozenset[str]) -> float:
    """Return how much two sets of topics have in common: one for each, little for a broad one."""
    return sum(0.3 if topic in GENERAL_TOPICS else 1.0 for topic in topics & others)


@cache
def _lexicon() -> tuple[dict[str, set[str]], re.Pattern[str], dict[str, set[str]]]:
    """Return topics by term, a pattern of the words written without spaces, topics by these."""
    by_term: dict[str, set[str]] = {}
    by_cjk_word: dict[str, set[str]] = {}
    content = files("memsvc.core").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    for line in content.splitlines():
        topic, _, words = line.partition(": ")
        for word in words.split():
            if word[0] >= _FIRST_CJK:
                by_cjk_word.setdefault(normalized_text(word), set()).add(topic)
            else:
                for term in terms(word):
                    by_term.setdefault(term, set()).add(topic)
    by_length = sorted(by_cjk_word, key=len, reverse=True)
    return by_term, re.compile("|".join(map(re.escape, by_length))), by_cjk_word
