"""Rearranged patterns are found in the same texts as those that rules are written with."""

import re
from itertools import product

from memsvc.core.rules.quick_pattern import quick_pattern

PATTERNS = (
    r"\b(?:cats?|car(?:ts|ds)?|c|dogs?)\b|猫|(?:小|大)?狗|[猪羊].{0,3}叫",
    r"(?<!\bno )\bcats?\b|(?<!no |my )\bdogs?\b|^cat|(?:a|an)? cart",
    r"\bc*ats|ca+t|[]c]art|[^c]at\b|car[\]d]s|c[a-d]t|(?!cat)ca|(?-i:C)at",
    r"c{1,2}at|ca(?=ts|rds)|ca(?:r|t|)s|\d{2} cats|\bno\s|(?P<found>ca|do)g",
)
WORDS = ("", "no ", "a ", "cat", "cats", "car", "carts", "cards", "c", "caat", "dogs", "dog", "Cat")
CJK = ("", "猫", "小狗", "狗", "猪会叫", "]art", "12 cats", " cart")


def test_a_pattern_is_found_where_it_was() -> None:
    texts = ["".join(parts) for parts in product(WORDS, WORDS, CJK)]
    wrong = []
    for written, flags in product(PATTERNS, (0, re.IGNORECASE)):
        plain, quick = re.compile(written, flags), quick_pattern(written, flags)
        found = [text for text in texts if plain.search(text)]
        assert 0 < len(found) < len(texts)
        wrong += [
            (written, text)
            for text in texts
            if (quick.search(text) is None) != (plain.search(text) is None)
        ]
    assert wrong == []
