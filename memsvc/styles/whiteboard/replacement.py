"""Which line of a board a later one replaces: it repeats it, reverses it, or answers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import regex

from memsvc.core.analysis import terms
from memsvc.core.facts import Identity, Statement
from memsvc.core.items import user_message
from memsvc.core.rules.extraction import extract
from memsvc.core.word_similarity import (
    Values,
    have_other_amount,
    have_other_identifiers,
    values_of,
)

REPEATED_SHARE: Final = 0.8
"""Share of the longer line's words that two lines share when they say the same."""
REVERSED_SHARE: Final = 0.5
"""Share of a line's words for one that itself says that something changed."""
SHORT_TERMS: Final = 4
ANSWER_SHARE: Final = 0.5
NOT_A_PERSON: Final = ("assistant", "tool", "system", "")
"""Roles whose sentences in the first person are about nobody who could change."""

# fmt: off
_REVERSED: Final = (
    r"\b(?:instead(?: of)?|actually|in fact|chang\w+ (?:my|our|his|her|their) minds?|on second thoughts?|rather than"
    r"|correction|scrap(?:ped)? that|revers\w+"
    r"|stattdessen|(?:an)?statt|sondern|doch nicht|eigentlich|umentschieden|anders überlegt"
    r"|finalement|en fait|changé d['’]avis|au lieu d[e'’]|plutôt que"
    r"|en (?:vez|lugar) de|en realidad|sino|cambi\w+ de (?:idea|opinión))\b"
    r"|ではなく|じゃなくて?|の代わりに|やっぱり|やはり|実は|気が変わ\w*|而不是|而是|其实|改主意"
)
_MOVED: Final = (
    r"\b(?:now|no longer|not any ?more|chang\w+|switch\w*|moved?|postponed|cancel\w*|scrapped"
    r"|jetzt|nicht mehr|doch|geändert|verschoben|maintenant|ne plus|changé|reporté|ahora|ya no|cambi\w+|aplazad\w+)\b"
    r"|変更|やめ|取り消|中止|延期|改め|取消|改为|改成|不再|推迟"
)
_REVERSAL: Final = regex.compile(_REVERSED, regex.IGNORECASE)
_CHANGED: Final = regex.compile(f"{_REVERSED}|{_MOVED}", regex.IGNORECASE)
_PHRASE: Final = r"(?P<old>[^,.;:!?\n、。，；！？]{1,60}?)(?=$|[,.;:!?)、。，；！？]| (?:but|because|so|and|as|since|we|i|weil|und|car|et|porque|y)\b)"
_PLACE: Final = r"(?:(?:on|in|at|by|to|with|for|the|am|im|in|den|mit|le|la|les|en|el|los|con) )*"
_OLD: Final = regex.compile(
    rf"\b(?:instead of|rather than|(?:an)?statt|anstelle von|au lieu d(?:e |['’])|plutôt qu(?:e |['’])"
    rf"|en (?:vez|lugar) de) ?{_PLACE}{_PHRASE}"
    rf"|[,;:(–—-] ?(?:and |und |et |y )?(?:not|nicht(?: mehr)?|pas|non|no (?=el |la |los |las |en )) ?{_PLACE}{_PHRASE}"
    rf"|\A(?:(?:no|nein|non)[,.]? )?(?:not|nicht|pas|non|no) {_PLACE}(?P<old>[^,.;:!?、。，]{{1,60}}),"
    r"|\b(?:nicht|pas|no|not) (?P<old>[^,.;]{1,60}?),? (?:sondern|mais|sino|but)\b"
    r"|\b(?:mov|chang|switch|verschob|verleg|geänder|report|cambi|mud|pass)\w* (?:\w+ ){0,3}?(?:from|von|vom|de|du|del)"
    r" (?P<old>[^,.;]{1,40}?) (?:to|auf|nach|zu|à|au|a|al) "
    r"|(?P<old>[^\s、。，,はがをに]{1,12})(?:ではなく|じゃなく|の代わりに|をやめ)"
    r"|(?:而不是|不是|从)(?P<old>[^，。,、；]{1,12}?)(?=$|[，。,、；]|而是|改[为成到])",
    regex.IGNORECASE,
)
"""What a sentence says holds no longer, beside what does: "on Monday instead of Friday"."""
_DECIDED: Final = regex.compile(
    r"\b(?:decid\w*|decision|agreed?|chose|chosen|settled on|let'?s|go(?:ing)? with|use|beschlossen|entschieden|décidé|"
    r"decidido|decidimos)\b|決定|決め|にしました|にします|决定|采用",
    regex.IGNORECASE,
)
# fmt: on
_DENSE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")


@dataclass(frozen=True, slots=True)
class LineMeaning:
    """What a line says, as far as rules compare it.

    `own` are its terms without the words that say that something changed or was settled, `old`
    those of what it says holds no longer, `subject` the identifier that it begins with. It `changes`
    something, or even `reverses` it in so many words; `facts` are what it tells about its speaker
    that has one value at a time.
    """

    terms: frozenset[str]
    own: frozenset[str]
    old: frozenset[str]
    values: Values
    subject: str
    changes: bool
    reverses: bool
    facts: Mapping[Identity, str]


def meaning_of(text: str, facts: Mapping[Identity, str]) -> LineMeaning:
    """Return what a line says; `facts` as `facts_of` found them."""
    values = values_of(text)
    plain = _DECIDED.sub(" ", _CHANGED.sub(" ", text))
    match = _OLD.search(text)
    old = frozenset(terms(match["old"])) if match is not None else frozenset()
    return LineMeaning(
        terms=frozenset(terms(text)),
        own=frozenset(terms(plain)),
        old=old,
        values=values,
        subject=_subject(plain, values),
        changes=bool(old) or _CHANGED.search(text) is not None,
        reverses=bool(old) or _REVERSAL.search(text) is not None,
        facts=facts,
    )


def facts_of(text: str, role: str) -> dict[Identity, str]:
    """Return what somebody says about themselves that has one value at a time."""
    if role in NOT_A_PERSON:
        return {}
    claims = extract([("", user_message(text))], session="", turn="", user=role)
    return {
        claim.identity: claim.value.casefold()
        for claim in claims
        if isinstance(claim, Statement) and not claim.slot
    }


def _subject(plain: str, values: Values) -> str:
    """Return the identifier that a line begins with, after one word at the most."""
    folded = plain.casefold()
    position, first = min(
        ((folded.find(number), number) for number in values.identifiers), default=(-1, "")
    )
    if position < 0:
        return ""
    words_max = 3 if _DENSE.search(plain) else 1  # there a term is two characters
    return first if len(terms(plain[:position])) <= words_max else ""


def is_repeated(line: LineMeaning, previous: LineMeaning) -> bool:
    """Return whether a line says an older one again: with more, with less, or another amount.

    Lines that name two things by their identifiers are about two things.
    """
    if have_other_amount(line.values, previous.values):
        return True
    if line.values.identifiers != previous.values.identifiers:
        return False
    shared = len(line.terms & previous.terms)
    return shared >= REPEATED_SHARE * max(len(line.terms), len(previous.terms)) and (
        shared == min(len(line.terms), len(previous.terms))
    )


def is_other_value(line: LineMeaning, previous: LineMeaning) -> bool:
    """Return whether a line gives another value to all that an older one tells of its speaker."""
    return bool(previous.facts) and all(
        line.facts.get(identity, value) != value for identity, value in previous.facts.items()
    )


def is_reversed(line: LineMeaning, previous: LineMeaning) -> bool:
    """Return whether a line says in its own words that an older one holds no longer."""
    if not line.changes or _is_other_item(line, previous) or _is_other_item(previous, line):
        return False
    shared = line.own & previous.own
    if line.old & previous.own and shared - line.old:
        return True
    sizes = sorted((len(line.own), len(previous.own)))
    # "now" alone also tells what is new: then the longer line counts
    is_short = line.reverses and (len(shared) > 1 or sizes[1] <= SHORT_TERMS)
    return bool(shared) and len(shared) >= REVERSED_SHARE * sizes[0 if is_short else 1]


def _is_other_item(line: LineMeaning, other: LineMeaning) -> bool:
    """Return whether a line begins with an identifier and the other one has others."""
    identifiers = other.values.identifiers
    return bool(line.subject and identifiers) and line.subject not in identifiers


def is_short(line: LineMeaning) -> bool:
    """Return whether a line says what changed and leaves out of what: "Not Friday, Monday."."""
    return line.reverses and len(line.own - line.old) <= 1


def has_answer(line: LineMeaning, question: LineMeaning) -> bool:
    """Return whether a statement answers an older question."""
    return question.values.identifiers <= line.values.identifiers and len(
        line.terms & question.terms
    ) >= ANSWER_SHARE * len(question.terms)


def is_asked_again(line: LineMeaning, question: LineMeaning) -> bool:
    """Return whether a question is an older one in nearly the same words."""
    shared = len(line.terms & question.terms)
    return not have_other_identifiers(
        line.values, question.values
    ) and shared >= REPEATED_SHARE * min(len(line.terms), len(question.terms))
