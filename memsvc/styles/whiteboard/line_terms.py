"""Comparison of lines of a whiteboard: whether one repeats, reverses or answers another."""

from collections.abc import Mapping, Set
from typing import Final

import regex

from memsvc.core.analysis import own_terms
from memsvc.core.facts import Identity, Statement
from memsvc.core.frozen import frozen
from memsvc.core.rules.change_words import NEGATIVE
from memsvc.core.rules.extraction import extract
from memsvc.core.rules.sentences import SPEAKER_FIRST, TRIM
from memsvc.core.word_similarity import (
    Values,
    has_other_subject,
    have_other_amount,
    have_other_identifiers,
    have_other_persons,
    values_of,
)

REPEATED_SHARE: Final = 0.8
"""Minimum share of the longer line's words that two lines with the same meaning have in common."""
REVERSED_SHARE: Final = 0.5
"""Minimum share of common words if the newer line says that something changed."""
SHORT_TERMS: Final = 4
ANSWER_SHARE: Final = 0.5
CJK_SUBJECT_CHARS: Final = 4
"""Maximum characters before an identifier in scripts without spaces between words."""
NOT_A_PERSON: Final = ("assistant", "tool", "system", "")
"""Roles whose sentences in the first person say nothing about a person."""

# fmt: off
_INSTEAD: Final = (
    r"\b(?:instead(?: of)?|rather than|stattdessen|(?:an)?statt|sondern|au lieu d[e'’]|plutôt que|en (?:vez|lugar) de|sino)\b"
    r"|ではなく|じゃなくて?|の代わりに|而不是|而是"
)
_REVERSED: Final = (
    rf"{_INSTEAD}|\b(?:actually|in fact|chang\w+ (?:my|our|his|her|their) minds?|on second thoughts?"
    r"|correction|scrap(?:ped)? that|revers\w+|doch nicht|eigentlich|umentschieden|anders überlegt"
    r"|finalement|en fait|changé d['’]avis|en realidad|cambi\w+ de (?:idea|opinión))\b"
    r"|やっぱり|やはり|実は|気が変わ\w*|其实|改主意"
)
_MOVED: Final = (
    r"\b(?:now|no longer|not any ?more|chang\w+|switch\w*|moved?|postponed|cancel\w*|scrapped"
    r"|(?:goes|went) (?:up|down)|rises?|rose|increas\w+|steigt|sinkt|erhöht|augmente|sube"
    r"|jetzt|nicht mehr|doch|geändert|verschoben|maintenant|ne plus|changé|reporté|ahora|ya no|cambi\w+|aplazad\w+)\b"
    r"|変更|やめ|取り消|中止|延期|改め|取消|改为|改成|不再|推迟"
)
_ALSO: Final = regex.compile(
    r"\b(?:also|too|auch|aussi|también)\b|也|还|も(?!う)", regex.IGNORECASE
)
_EXCHANGE: Final = regex.compile(_INSTEAD, regex.IGNORECASE)
_REVERSAL: Final = regex.compile(_REVERSED, regex.IGNORECASE)
_CHANGED: Final = regex.compile(f"{_REVERSED}|{_MOVED}", regex.IGNORECASE)
_REASON: Final = regex.compile(
    r",? (?:because|weil|denn|da (?:der|die|das)|parce qu(?:e|['’]\w+)|porque|ya que)\b.*", regex.IGNORECASE
)
"""Matches the reason for a change, which is ignored when lines are compared."""
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
"""Matches the value that a sentence says is no longer true: "on Monday instead of Friday"."""
_DECISION_PREFIX: Final = regex.compile(
    r"\b(?:decid\w*|decision|agreed?|chose|chosen|settled on|let'?s|go(?:ing)? with|use|beschlossen|entschieden|décidé|"
    r"decidido|decidimos)\b|決定|決め|にしました|にします|决定|采用",
    regex.IGNORECASE,
)
# fmt: on
_CJK: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")


@frozen
class LineTerms:
    """What a line says, as far as rules compare it.

    `plain` are its words without those that say that something changed, `settling` the content
    words of these that say that something was decided, `own` the terms of the rest. `old` are the
    terms of what it says holds no longer, `subject` is the identifier that it begins with. It `changes` something, or even `reverses` it in so many words, or
    `exchanges` one for another; its subject may be its speaker (`is_speakers`). `facts` are what it tells about its speaker that has one value at a time.
    """

    terms: frozenset[str]
    own: frozenset[str]
    old: frozenset[str]
    values: Values
    plain: Values
    settling: frozenset[str]
    subject: str
    changes: bool
    reverses: bool
    exchanges: bool
    is_speakers: bool
    facts: Mapping[Identity, str]


def terms_of(text: str, facts: Mapping[Identity, str]) -> LineTerms:
    """Return what a line says; `facts` as `facts_of` found them."""
    plain = values_of(_CHANGED.sub(" ", _REASON.sub("", text)))
    own = values_of(_DECISION_PREFIX.sub(" ", plain.text))
    match = _OLD.search(text)
    old = frozenset(own_terms(match["old"])) if match is not None else frozenset()
    may_change = not _ALSO.search(text)
    return LineTerms(
        terms=frozenset(own_terms(text)),
        own=frozenset(own_terms(own.text)),
        old=old,
        values=values_of(text),
        plain=plain,
        settling=frozenset(plain.content) - frozenset(own.content),
        subject=_subject(own),
        changes=bool(old) or (may_change and _CHANGED.search(text) is not None),
        reverses=bool(old) or (may_change and _REVERSAL.search(text) is not None),
        exchanges=_EXCHANGE.search(text) is not None,
        is_speakers=SPEAKER_FIRST.match(plain.text.casefold().lstrip(TRIM)) is not None,
        facts=facts,
    )


def facts_of(text: str, role: str) -> dict[Identity, str]:
    """Return what somebody says about themselves that has one value at a time."""
    if role in NOT_A_PERSON:
        return {}
    claims = extract([("", text)], session="", turn="", user=role)
    return {
        claim.identity: claim.value.casefold()
        for claim in claims
        if isinstance(claim, Statement) and not claim.slot
    }


def _subject(own: Values) -> str:
    """Return the identifier that a line begins with, after one word at the most."""
    place = next((at for at, word in enumerate(own.words) if word in own.identifiers), None)
    if place is None:
        return ""
    words_max = CJK_SUBJECT_CHARS if _CJK.search(own.text) else 1
    return own.words[place] if sum(map(bool, own.content[:place])) <= words_max else ""


def is_repeated(line: LineTerms, previous: LineTerms) -> bool:
    """Return whether a line says an older one again: with more, with less, or another amount.

    Lines that name two things by their identifiers are about two things.
    """
    if have_other_amount(line.values, previous.values):
        return True
    if line.values.identifiers != previous.values.identifiers:
        return False
    shared = len(line.terms & previous.terms)
    return (
        shared >= REPEATED_SHARE * max(len(line.terms), len(previous.terms))
        and shared == min(len(line.terms), len(previous.terms))
        and _ends_alike(line.plain, previous.plain)
        and _ends_alike(previous.plain, line.plain)
        and not have_other_persons(line.values, previous.values)
    )


def _ends_alike(one: Values, other: Values) -> bool:
    """Return whether the words that only one text has come after all the words that both have."""
    shared = one.shared(other)
    places = one.places(shared)
    return not places or shared.isdisjoint(one.content[places[0] :])


def is_other_value(line: LineTerms, previous: LineTerms) -> bool:
    """Return whether a line gives another value to all that an older one tells of its speaker."""
    return bool(previous.facts) and all(
        line.facts.get(identity, value) != value for identity, value in previous.facts.items()
    )


def is_reversed(line: LineTerms, previous: LineTerms) -> bool:
    """Return whether a line says in its own words that an older one is no longer true."""
    if not line.changes or _is_other_item(line, previous) or _is_other_item(previous, line):
        return False
    shared, settling = line.own & previous.own, line.settling | previous.settling
    if line.old & previous.own and shared - line.old:
        known = settling.union(*((old, *old) for old in line.old))
        return not (
            line.plain.names_more(previous.plain, known)
            or have_other_persons(line.plain, previous.plain)
            or _replaces(line, previous, known)
        )
    return bool(shared) and _has_new_value(line, previous, shared, settling)


def _replaces(line: LineTerms, previous: LineTerms, known: Set[str]) -> bool:
    """Return whether a line has other words between the same words as an older one."""
    known = known | line.plain.shared(previous.plain)
    return not line.plain.slots(known).isdisjoint(previous.plain.slots(known))


def _has_new_value(
    line: LineTerms, previous: LineTerms, shared_terms: Set[str], settling: Set[str]
) -> bool:
    """Return whether a line repeats an older one except for one value, which is new.

    The value is an amount or a day, or what the older line ends with; or the line says explicitly
    that it reverses something."""
    one, other = previous.plain, line.plain
    shared = one.shared(other) | settling
    old, new = one.places(shared), other.places(shared)
    if has_other_subject(one, other, settling):
        return False
    is_amount = bool(old and new) and one.is_amount(old[0]) and other.is_amount(new[0])
    sizes = sorted((len(line.own), len(previous.own)))
    # "now" alone also tells what is new: then the longer line counts
    is_short = line.reverses and (len(shared_terms) > 1 or sizes[1] <= SHORT_TERMS)
    if not is_amount and len(shared_terms) < REVERSED_SHARE * sizes[0 if is_short else 1]:
        return False
    if not old or not new:
        return True
    if NEGATIVE.search(line.values.text.casefold()) or len(one.slots(shared)) > 1:
        return False
    if is_amount:
        return True
    is_last = shared.isdisjoint(one.content[old[-1] + 1 :])
    if line.reverses:
        return is_last or line.exchanges or (line.is_speakers and previous.is_speakers)
    return is_last and one.is_state(old[0]) and other.is_state(new[0])


def _is_other_item(line: LineTerms, other: LineTerms) -> bool:
    """Return whether a line begins with an identifier and the other one has others."""
    identifiers = other.values.identifiers
    return bool(line.subject and identifiers) and line.subject not in identifiers


def is_short(line: LineTerms) -> bool:
    """Return whether a line gives a new value without its subject: "Not Friday, Monday."."""
    return line.reverses and len(line.own - line.old) <= 1


def has_answer(line: LineTerms, question: LineTerms) -> bool:
    """Return whether a statement answers an older question, and asks about nothing else."""
    shared = line.values.shared(question.values)
    return (
        question.values.identifiers <= line.values.identifiers
        and len(line.terms & question.terms) >= ANSWER_SHARE * len(question.terms)
        and line.values.slots(shared).isdisjoint(question.values.slots(shared))
    )


def is_repeated_question(line: LineTerms, question: LineTerms) -> bool:
    """Return whether a question is an older one in nearly the same words."""
    shared = len(line.terms & question.terms)
    known = line.values.shared(question.values)
    return (
        not have_other_identifiers(line.values, question.values)
        and shared >= REPEATED_SHARE * min(len(line.terms), len(question.terms))
        and not (line.values.places(known) and question.values.places(known))
    )
