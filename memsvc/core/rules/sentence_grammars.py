"""The grammars of the languages that a sentence may be in, and what is not meant in them."""

import re
from collections.abc import Sequence

from memsvc.core.rules.chinese_grammar import CHINESE_GRAMMAR
from memsvc.core.rules.english_grammar import ENGLISH_GRAMMAR
from memsvc.core.rules.french_grammar import FRENCH_GRAMMAR
from memsvc.core.rules.german_grammar import GERMAN_GRAMMAR
from memsvc.core.rules.grammar import MOCKERY, SHOP_TALK, Grammar
from memsvc.core.rules.japanese_grammar import JAPANESE_GRAMMAR
from memsvc.core.rules.phrases import sentence_labels
from memsvc.core.rules.spanish_grammar import SPANISH_GRAMMAR

SCENE_CHARS = 400
"""A longer message is no scene as a whole."""
_GRAMMARS: tuple[Grammar, ...] = (ENGLISH_GRAMMAR, GERMAN_GRAMMAR, SPANISH_GRAMMAR, FRENCH_GRAMMAR)
_KANA = re.compile(r"[\u3041-\u30ff]")
_HAN_OR_KANA = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
GRAMMAR_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_SELF_QUESTION = re.compile(
    r", (?:am i|aren't i|are we|aren't we|do i|don't i|do we|don't we|have i|haven't i|did i|didn't i|is it|isn't it|was i|wasn't i)\?"
    r"|[,，] ?(?:oder nicht|oder etwa nicht|stimmt's|stimmt das|richtig|¿verdad|¿no|¿o no|¿a que sí|non|pas vrai|n'est-ce pas|c'est ça|ou pas|right|correct) ?\?|[,，](?:对吧|对不对|是吧|对吗|没错吧)[？?]"
)
"""How somebody asks whether what is said of them is true."""
_EXCLAMATION = re.compile(r"\W{0,3}(?:[^\W\d_]+\W){0,2}?[^\W\d_]+ ?[,.!…、，。！]")
"""Up to three words with which a message begins: "Oh great, "."""


def is_not_literal(clause: str) -> bool:
    """Return whether a clause is a figure of speech, shop talk, mockery or of a stranger."""
    low = clause.casefold()
    words = set(GRAMMAR_WORD.findall(low))
    return any(
        grammar.is_not_literal(low)
        or grammar.is_about_stranger(low)
        or sentence_labels(grammar.language, low) >= MOCKERY
        for grammar in grammars_for(low, words)
    )


def is_scene(text: str) -> bool:
    """Return whether a short message, as a whole, plays a part, quotes or mocks.

    It may still tell the assistant what to do."""
    if len(text) > SCENE_CHARS:
        return False
    low = text.casefold()
    words = set(GRAMMAR_WORD.findall(low))
    exclamation = _EXCLAMATION.match(low)
    for grammar in grammars_for(low, words):
        labels = sentence_labels(grammar.language, low)
        if not labels.isdisjoint(("scene", "mock")) or labels >= SHOP_TALK:
            return True
        if exclamation is not None and "trouble" in labels:
            opening = sentence_labels(grammar.language, exclamation[0])
            return "fond" in opening
    return _SELF_QUESTION.search(low) is not None


def grammars_for(low: str, words: set[str]) -> Sequence[Grammar]:
    """Return the grammars of the language that a sentence seems to be in; several if unclear."""
    if _HAN_OR_KANA.search(low) is not None:
        return (JAPANESE_GRAMMAR,) if _KANA.search(low) is not None else (CHINESE_GRAMMAR,)
    shared = [len(grammar.common_words & words) for grammar in _GRAMMARS]
    most = max(shared)
    return [grammar for grammar, count in zip(_GRAMMARS, shared, strict=True) if count == most]
