"""What a sentence says of the speaker's health and food, by everyday words of six languages."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memsvc.core.rules import topics as t
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.word_groups import CJK_LANGUAGES, WORD, Hits, word_hits

NEAR: Final = 4
"""Words between two that belong together."""
NEAR_OWN: Final = 2
"""Words from the speaker to what is the speaker's."""
FAR: Final = 9
"""Words between a food and what it does to somebody."""
PHRASE_WORDS: Final = 6
"""Words of a sentence without a subject that names an illness and hardly anything else."""
_PREDICATES: Final = re.compile(
    r"was|were|can|may|affects?|means|ist|sind|kann|es|son|puede|est|sont|peut"
)
"""Words behind the name of an illness by which a sentence speaks of it in general."""


def has_class_words(language: str, sentence: str) -> bool:
    """Return whether a sentence, in lower case, may tell something of a profile."""
    return (
        not word_hits(language, sentence)
        .keys()
        .isdisjoint((*_SUBJECTS, "language", "lasting", "wish", "style"))
    )


def health_topics(language: str, sentence: str, *, is_personal: bool = False) -> list[Topic]:
    """Return what a sentence, in lower case, says of the speaker's health and food.

    `is_personal` says that it is known to be about the speaker."""
    hits = word_hits(language, sentence)
    subjects = [place for group in _SUBJECTS for place in hits.get(group, ())]
    if not subjects:
        return []
    is_cjk = language in CJK_LANGUAGES
    if any(_near(hits, group, "topic", NEAR) for group in _SUBJECTS) and not _is_own(hits):
        return []
    if not (is_personal or is_cjk or "me" in hits) and not _is_phrase(sentence, hits, subjects):
        return []
    far, near = (2 * FAR, 3 * NEAR) if is_cjk else (FAR, NEAR)
    return list(_topics(hits, far, near, is_phrase=is_cjk or "me" not in hits))


_SUBJECTS: Final = (
    *("allergic", "food", "substance", "diet", "regimen"),
    *("condition", "drug", "drugend", "medicine"),
)


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


def _is_phrase(sentence: str, hits: Hits, subjects: Sequence[int]) -> bool:
    """Return whether a sentence leaves out that it is about the speaker: "Celiac here", "no eggs"."""
    words = WORD.findall(sentence)
    first = min((*subjects, *hits.get("avoid", ()), *hits.get("not", ())))
    if first >= NEAR or _PREDICATES.fullmatch(" ".join(words[first + 1 : first + 2])):
        return False
    if words[first + 1 : first + 2] == ["here"]:
        return True
    has_rule = not hits.keys().isdisjoint(("avoid", "not", "ill", "allergic"))
    return has_rule or len(words) <= PHRASE_WORDS or "," in sentence
