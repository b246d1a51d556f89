"""Sentences of a user's that say that something changed, and what they put in doubt."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from memsvc.core.analysis import content_terms, normalized_text, terms
from memsvc.core.facts import (
    PROFILE_FACT_IDS,
)
from memsvc.core.rules import topics as t
from memsvc.core.rules.change_words import (
    AGAIN,
    BY_TOPIC,
    CJK,
    COMPANION,
    CORRECTION,
    ENDED,
    EVENT,
    FAMILY,
    GENERAL,
    MAYBE,
    NEGATIVE,
    OTHERS,
    SELF,
    TOPIC_WORDS,
    TOPICS_BY_FACT,
    WEAK,
    Phrases,
    names_in,
)
from memsvc.core.rules.own_words import own_spans
from memsvc.core.rules.sentences import ASKED
from memsvc.core.rules.statements import grammars_for
from memsvc.core.rules.word_groups import is_done_by_others
from memsvc.core.text_cache import TextCache
from memsvc.core.time_references import DAY_NUMBERS

CHANGE_CHARS_MAX: Final = 200
TEXT_CHARS_READ: Final = 8000
BESIDE_MIN: Final = 2
"""Terms of a sentence, without the names of companions, that suffice to say what changed."""
SHORT_TERMS: Final = 12
CHANGES_MAX: Final = 4
"""Changes of one message that are read."""
CACHED_TEXTS_MAX: Final = 8192
"""Texts of which it is known where they say a change."""
EVENT_CHARS_MAX: Final = 400
"""A longer message is not read for news that no word of change tells."""
NEW_WORDS_MAX: Final = 2
"""Words of what took the place of something, unless it is a name."""

_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCE: Final = re.compile(
    r"(?:[^\n。！？!?.;；…]|\.(?=\w)|(?:(?<=\b[DM]r)|(?<=\bMrs)|(?<=\bMs)|(?<=\bProf))\.|(?<=\d)(?<!\d{3})\.(?= (?:[a-zäöü]|Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)))*"
    r"(?:[。！？!?.;；…\n]|$)"
)
CLAUSE_END: Final = re.compile(
    r"[,，、:：()（）]|\s[-–—]+\s|…|\b(?:and|but|so|und|aber|y|pero|et|mais)\b"
)
_EVENT: Final = re.compile(EVENT)
_NEGATED: Final = re.compile(
    r"(?:(?:\b(?:not|never|nicht|nie|no|nobody|nunca|pas)|n't)\b|没|没有|不想|未)\W*(?:\w+\W+(?:(?:to|of|about)\W+)?)?$"
)
_NAMED_LOSS: Final = re.compile(
    r"\W*(?:[^\W\d_a-z]\w+\W+){1,3}(?:has |is |ist |est )?"
    r"(?:died|dead|passed|gestorben|verstorben|mort|decede|murió|falleció|décédé)"
)
"""A death of somebody with a name, who has to be named by a fact."""
_QUESTION: Final = ("?", "？")
_WORDLIKE: Final = r"[^\s,，、;；。!！?？:()]*[^\s,，、;；。!！?？:().]"
_OLD: Final = (
    r"(?:(?:the|my|our|das|dem|den|der|die|le|la|les|el|los|las) )?"
    rf"(?P<old>{_WORDLIKE}(?: {_WORDLIKE}){{0,3}}?)"
)
_NEW: Final = rf"(?P<new>{_WORDLIKE}(?: {_WORDLIKE}){{0,3}})"
_OLD_END: Final = (
    r"(?=[,.;!?]|$| (?:since|from|as|because|for|now|any|seit|ab|weil|jetzt|mehr|depuis|car"
    r"|maintenant|plus|desde|porque|ahora)\b)"
)
_BEFORE: Final = r"(?:(?P<new>[A-ZÀ-Þ0-9][\w.'-]*)(?: (?:now|jetzt|nun|maintenant|ahora))?,? )?"
_HAN: Final = "[^，。！？、,.\\s]{1,20}?"
_MOVES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\bfrom {_OLD} (?:over )?to {_NEW}",
        rf"\b[Vv]o[nm] {_OLD} (?:auf|zu[mr]?|nach|in) {_NEW}",
        rf"\b(?:d[eu] |des |del |d['’]){_OLD} (?:à|aux?|vers|chez|al?|para) {_NEW}",
        rf"[从把由](?P<old>{_HAN})[全都]*[换转迁改切搬][到成为用去]+了?(?P<new>{_HAN})了?(?=[，。！,.]|$)",
        rf"(?P<old>{_HAN})(?:から|を?やめて、?|を?解約して、?)(?P<new>{_HAN})[にへ]",
    )
)
"""From one thing to another: beside a word of change the first gave way to the second."""
_PREFERRED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_BEFORE}(?:instead of|rather than|statt|anstelle von|au lieu d[eu]|en vez de|en lugar de) {_OLD}{_OLD_END}",
        rf"\b(?:not|nicht|pas|no es) {_OLD},? (?:but|sondern|mais|sino) {_NEW}",
        rf"(?:\b(?:not|nicht|[Nn]o|pas|plus)|n't)(?: \w+ing| va(?:mos|is)?)?(?: to| nach| in| a| à)? {_OLD}, (?:ahora )?(?:it's|it is|it'll be|es ist|es wird|wir fahren|es|será|c'est|ce sera)(?: jetzt| nun| nach| ahora)* {_NEW}",
        rf"{_BEFORE}(?<=, )(?:and not|not|nicht|pas|y no|no) {_OLD}{_OLD_END}",
        rf"\b(?:no longer|nicht mehr|ya no|don't|doesn't) {_OLD}{_OLD_END}",
        rf"(?:不是|不用|不再用?)(?P<old>{_HAN})了?[，,]?[而改]?[是用](?P<new>{_HAN})(?:了|(?=[，。！,.]|$))",
        rf"(?P<old>{_HAN})(?:の[代か]わりに|[でじ]ゃ?はなくて?、?)(?P<new>{_HAN})(?=[をにで。！]|$)",
    )
)
"""One thing and not another: beside a word of now, or of change, the other holds no more."""
_NOW: Final = re.compile(
    r"\b(?:now|nowadays|these days|from (?:today|now)|jetzt|nun|ab (?:heute|sofort)|neuerdings"
    r"|maintenant|desormais|dorenavant|ahora|a partir de)\b|现在|以后|改|今は|今後|これから"
)
_COPULA: Final = re.compile(
    r"\b(?:is|are) (?:called |named )?|\b(?:ist|sind|heißt|es|son|se llama|est|sont|s'appelle) |是|叫|は",
    re.IGNORECASE,
)
_OWN: Final = re.compile(
    r"\W*(?:(?:the|my|our|der|die|das|meine?|unsere?|el|la|mi|nuestr[oa]|mon|ma|notre|le)\b|我们?的|[私うち]の)\W*",
    re.IGNORECASE,
)
STOPS: Final = " .!。！"
NUMBER: Final = re.compile(r"\d+")
_WEEKDAY: Final = re.compile(
    rf"\b(?:{'|'.join(sorted(DAY_NUMBERS))})s?\b|(?:周|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜"
)
COMMON: Final = frozenset(
    terms(
        "time day week month year today yesterday tomorrow morning evening night last next first new old now always"
        " never still also even good great nice thing people work go come make use say want need know think look feel"
        " monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
        " september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag lunes martes"
        " miercoles jueves viernes sabado domingo lundi mardi mercredi jeudi vendredi samedi dimanche"
        " one two three every really much back way big little long own tag woche monat jahr heute gestern morgen abend"
        " neu alt gut immer semana mes hoy ayer ano nuevo siempre bien semaine mois jour annee hier bien toujours tout"
    )
)


@dataclass(frozen=True)
class Change:
    """A sentence that says that something changed, and `text`, it with its neighbours.

    `text` has 200 characters at most. `expired_topics` are the topics whose facts its words of
    change end, `topics` those that it is about. One that is `weak` may say something else, as news
    that something happened: it puts nothing in doubt, unless it `resumes` what was denied or had
    ended. `replaced` are the things that gave way to others, each with what it gave way to, ""
    where that is not read; `corrects` says that it puts right what was said just before."""

    sentence: str
    text: str
    expired_topics: frozenset[str]
    topics: frozenset[str]
    weak: bool
    resumes: bool = False
    corrects: bool = False
    replaced: tuple[tuple[str, str], ...] = ()

    @cached_property
    def terms(self) -> frozenset[str]:
        """Return the terms of the sentence that are not common words."""
        return frozenset(content_terms(self.sentence)) - COMMON

    @cached_property
    def name_terms(self) -> frozenset[str]:
        """Return the terms of what is written as names; a number of one or two digits is none.

        A person with whom something was done is left out, unless the sentence says little else."""
        beside = frozenset(terms(" ".join(COMPANION.findall(self.sentence))))
        names = self.terms & frozenset(terms(" ".join(names_in(self.text))))
        return names - beside if len(self.terms - beside) >= BESIDE_MIN else names

    @cached_property
    def subject(self) -> str:
        """Return what it says changed, "" where that is the speaker or not said."""
        return _subject_of(self.sentence)

    @cached_property
    def ended_terms(self) -> frozenset[str]:
        """Return the terms of clauses that say something has ended, without the words of ending."""
        found = set[str]()
        for words in map(normalized_text, CLAUSE_END.split(self.sentence)):
            phrases = _CHANGE_PHRASES.found_in(words)
            if _ENDED in dict(phrases):
                parts = tuple(terms(" ".join(phrase for _, phrase in phrases)))
                found.update(term for term in terms(words) if not term.startswith(parts))
        return frozenset(found) - COMMON

    @cached_property
    def now(self) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the terms of what changed and of its new value; None if the text names neither."""
        is_now = _NOW.search(normalized_text(self.sentence)) is not None
        return next(_roles(self.sentence), None) if is_now else None

    @property
    def may_end_facts(self) -> bool:
        """Return whether facts are to be compared with it."""
        return self.resumes or not self.weak or self.now is not None

    @property
    def is_news(self) -> bool:
        """Return whether it is told beside what was said before it: more than "again" says so."""
        return not self.resumes or _may_tell_event(self.sentence)

    @property
    def is_short(self) -> bool:
        """Return whether the change is all that its sentence says; others say it by the way."""
        return len(self.terms) <= SHORT_TERMS


_WEAK, _AGAIN, _CORRECTION, _ENDED = "weak", "again", "correction", "ended"
_KINDS: Final = {
    _WEAK: WEAK,
    _AGAIN: AGAIN,
    _CORRECTION: CORRECTION,
    _ENDED: ENDED,
    "general": GENERAL,
}
_CHANGE_PHRASES: Final = Phrases({**BY_TOPIC, **_KINDS})
_UNSURE: Final = frozenset((_WEAK, _AGAIN))
_I_HAVE: Final = re.compile(r"\bhe(?:mos)? \w+(?:[ai]do|to|cho)\b")
_ARTICLES: Final = frozenset(
    ("the", "der", "die", "das", "el", "la", "los", "las", "le", "les", "l")
)
_OTHERS_THING: Final = re.compile(
    r"\w\W+(?:of|vo[nm]|de|del|des|du|d) |'s \w|\b(?:his|her|their|seine?|ihre?|su|sus|leurs?) "
)
_OTHERS_THING_CJK: Final = re.compile(
    r"(?!(?:我|我们|咱|咱们|自己|私|僕|俺|うち|自分)[的の])[^了在着]{1,6}[的の]"
)
"""A thing with whose it is."""
_NAME_RUN: Final = re.compile(r"[A-ZÀ-Þ0-9]\S*(?: [A-ZÀ-Þ0-9]\S*)*")
_TOPICS: Final = Phrases(TOPIC_WORDS)
_PERSON_PHRASES: Final = Phrases({"others": OTHERS, "family": FAMILY, "self": SELF})
_SHARED: Final = frozenset(("love", "life"))
"""Topics of a user that others of the family may change."""
_OF_PEOPLE: Final = frozenset(("home", "love"))
_VEHICLES: Final = frozenset(("car", "bike"))
_RESCHEDULED: Final = re.compile(
    r"\bmoved (?:up |back )?to (?:next |the |this |\d{1,2}(?:st|nd|rd|th)?\.? )?"
    r"(?:\d{1,2}(?:[:.]\d\d|(?:st|nd|rd|th)\b(?! (?:ave|st|floor))| ?(?:am|pm|o clock)\b)|noon\b|morning|afternoon|evening"
    r"|week|month|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:jan|febr)uary|march\b|april|may\b"
    r"|june|july|august|(?:septem|octo|novem|decem)ber)"
)
"""An appointment moves to another time, a person to another place."""
_OF_A_THING: Final = re.compile(
    r"\b(?:moved|separated) (?:the|my|our|your|his|her|their|an?|this|that|these|those|all|it|them)\b"
    r"(?! (?:house|home|place|flat)s?\b)"
)
"""Words by which somebody moves or separates a thing."""
_DEVICE_ENDED: Final = re.compile(
    r"(?<!\bby a )(?<!\bby the )(?<!\bpar une )(?<!\bpor un )\b(?:car|van|truck|bike|engine|battery|phone|laptop|computer|tablet|printer|router|fridge|freezer|oven|boiler|dishwasher|machine|tv|telly|camera|server"
    r"|portable|telephone|ordi\w*|voiture|moteur|batterie|movil|coche|portatil|ordenador|bateria|lavadora|nevera)\b (?:(?!and\b|et\b|y\b)\w+ ){0,2}?(?:died|dead|mort|morte|murio|muerto|muerta)\b"
)
"""Matches a device that stopped working, which does not mean that anybody died."""
_QUIT_HABIT: Final = re.compile(r"\bquit (?!work)\w+ing\b")
_STOPPED: Final = re.compile(r"\b(?:stopped|quit|no longer|not|n't)\W+$")
_MAYBE: Final = Phrases({"maybe": MAYBE})


_Told = tuple[set[str], bool, str]
_Labels = tuple[frozenset[str], frozenset[str], bool, bool, bool, tuple[tuple[str, str], ...]]
"""Of a change all that follows its texts."""
_Place = tuple[int, int, int, int, _Labels]
"""Where a sentence of change stands in its text, where it stands with its neighbours, its labels.
"""
_places = TextCache[tuple[_Place, ...]](CACHED_TEXTS_MAX)


def changes_in(text: str) -> tuple[Change, ...]:
    """Return the changes that a user's message says, in its order, the last ones of many.

    Where they stand is cached by the hash of the text: the latest are read with every recall."""
    text = text[-TEXT_CHARS_READ:]
    if not text.strip():
        return ()
    return tuple(
        Change(text[start:end], text[left:right].strip()[:CHANGE_CHARS_MAX], *labels)
        for start, end, left, right, labels in _places.get(text, _places_in)
    )


def _places_in(text: str) -> tuple[_Place, ...]:
    if not _CHANGE_PHRASES.is_in(normalized_text(text)) and not _may_tell_event(text):
        return ()
    found: list[tuple[re.Match[str], _Told, tuple[int, int]]] = []
    events: list[tuple[re.Match[str], _Told, tuple[int, int]]] = []
    for start, end in own_spans(text):
        sentences = [match for match in _SENTENCE.finditer(text, start, end) if match[0].strip()]
        for at, match in enumerate(sentences):
            if (told := _told_change(match[0])) is not None:
                place = (match, told, _with_neighbours(sentences, at))
                (found if told[0] else events).append(place)
    return tuple(
        (*match.span(), *context, _labels(match[0], told))
        for match, told, context in found[-CHANGES_MAX:] or events[-1:]
    )


def _may_tell_event(text: str) -> bool:
    return len(text) <= EVENT_CHARS_MAX and _EVENT.search(text.casefold()) is not None


def _told_change(sentence: str) -> _Told | None:
    """Return the labels of a sentence that says a change or news, if they are sure, and its words.

    Beside a question or what is only considered a clause may still say one."""
    words = normalized_text(sentence)
    labels = _CHANGE_PHRASES.labels_in(words, _NEGATED)
    if not labels and not _may_tell_event(sentence):
        return None
    is_question = sentence.rstrip().endswith(_QUESTION)
    if not is_question and not _is_maybe(words) and not ASKED.match(sentence.casefold()):
        return labels, True, words
    clauses = [one.casefold() for one in CLAUSE_END.split(sentence)[: -1 if is_question else None]]
    told = ", ".join(
        one for one in clauses if not _is_maybe(normalized_text(one)) and not ASKED.match(one)
    )
    words = normalized_text(told)
    labels = _CHANGE_PHRASES.labels_in(words, _NEGATED)
    return (labels, False, words) if labels or _may_tell_event(told) else None


def _is_maybe(words: str) -> bool:
    """Return whether words only consider a change ("not going to" states one)."""
    return bool(_MAYBE.labels_in(words, _STOPPED))


def _labels(sentence: str, told: _Told) -> _Labels:
    labels, is_certain, words = told
    replaced = tuple(_replaced(sentence, labels)) if is_certain else ()
    context = _PERSON_PHRASES.labels_in(words)
    is_of_others = "others" in context and "self" not in context
    topics = frozenset() if is_of_others else topics_of(words)
    is_of_others |= "life" not in topics and _NAMED_LOSS.match(sentence) is not None
    expired_topics = frozenset() if is_of_others else frozenset(labels) - _KINDS.keys()
    if ("family" in context and "self" not in context) or is_about_others(sentence):
        topics, expired_topics = topics & _SHARED, expired_topics & _SHARED
    if _RESCHEDULED.search(words):
        topics, expired_topics = topics - {"home"}, expired_topics - {"home"}
    if _OF_A_THING.search(words):
        topics, expired_topics = topics - _OF_PEOPLE, expired_topics - _OF_PEOPLE
    if "food" in topics:
        topics -= {"life"}  # animals that are eaten
    if "life" not in topics and _DEVICE_ENDED.search(words):
        expired_topics = (expired_topics - {"life"}) | (topics & _VEHICLES)
    if _QUIT_HABIT.search(words):
        expired_topics -= {"job"}
    resumes = is_certain and _AGAIN in labels and labels <= _UNSURE and not replaced
    weak = not is_certain or (labels <= _UNSURE and not replaced)
    return (
        expired_topics,
        topics,
        weak,
        resumes,
        _CORRECTION in labels,
        () if is_of_others else replaced,
    )


def _replaced(sentence: str, labels: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the things that a sentence says gave way to others, each with the other."""
    for clause in CLAUSE_END.split(sentence):
        for move in filter(None, (pattern.search(clause) for pattern in _MOVES)):
            if _CHANGE_PHRASES.labels_in(normalized_text(clause), _NEGATED) - _UNSURE:
                yield move["old"], _name_in(move["new"])
    if labels - _UNSURE or _NOW.search(normalized_text(sentence)):
        for found in filter(None, (pattern.search(sentence) for pattern in _PREFERRED)):
            yield found["old"], _name_in(found.groupdict().get("new") or "")


def _subject_of(sentence: str) -> str:
    """Return the first word of a clause of change that does not name the speaker.

    What belongs to somebody else is named by all words before it."""
    subject = ""
    for clause in CLAUSE_END.split(sentence):
        words = normalized_text(clause)
        starts = [
            start for label, _, start in _CHANGE_PHRASES.matches(words) if label not in _UNSURE
        ]
        if not starts:
            continue
        lead = words[: min(starts)]
        is_own = "self" in _PERSON_PHRASES.labels_in(words) or _I_HAVE.search(words)
        if CJK.search(lead) or is_own:
            subject = lead if _OTHERS_THING_CJK.match(lead) else ""
        else:
            weak = {phrase for label, phrase in _CHANGE_PHRASES.found_in(lead) if label == _WEAK}
            before = [word for word in _WORD.findall(lead) if word not in weak | _ARTICLES]
            first = [word for word in before if not COMMON.issuperset(terms(word))]
            subject = lead if _OTHERS_THING.search(lead) else (first or before or [""])[0]
        if not subject:
            return ""
    return subject


def _name_in(words: str) -> str:
    """Return the name that words begin with, or all of them where they begin with none."""
    name = _NAME_RUN.match(words)
    return name[0] if name else "" if len(words.split()) > NEW_WORDS_MAX else words


def is_about_others(sentence: str) -> bool:
    """Return whether in some language a sentence is about others and not the speaker."""
    low = sentence.casefold()
    grammars = grammars_for(low, set(_WORD.findall(low)))
    return any(is_done_by_others(grammar.language, low) for grammar in grammars)


def _with_neighbours(sentences: Sequence[re.Match[str]], at: int) -> tuple[int, int]:
    """Return where a sentence and those around it stand, as long as they are short."""
    first = last = at
    while first or last + 1 < len(sentences):
        before, after = max(0, first - 1), min(len(sentences) - 1, last + 1)
        if sentences[after].end() - sentences[first].start() <= CHANGE_CHARS_MAX and after > last:
            last = after
        elif (
            sentences[last].end() - sentences[before].start() <= CHANGE_CHARS_MAX and before < first
        ):
            first = before
        else:
            break
    return sentences[first].start(), sentences[last].end()


def _roles(sentence: str) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield the terms of subject and predicate of each clause with a form of "to be".

    The rest holds a name, a number or a day."""
    for clause in CLAUSE_END.split(sentence):
        thing, *others = (_COPULA if _COPULA.search(clause) else _NOW).split(clause, maxsplit=1)
        rest = others[-1] if others else ""
        if _OWN.match(rest) and not _OWN.match(thing):
            thing, rest = rest, thing
        if CJK.search(rest) or names_in(rest) or NUMBER.search(rest):
            roles = [
                terms(_OWN.sub("", _NOW.sub(" ", normalized_text(part)).strip()))
                for part in (thing, rest)
            ]
            if all(roles):
                yield frozenset(roles[0]), frozenset(roles[1])


def topics_of(words: str) -> frozenset[str]:
    """Return the topics that words, normalised, are about."""
    return frozenset(_TOPICS.labels_in(words))


def names(change: Change, words: frozenset[str]) -> bool:
    """Return whether a change names what a text of these terms says: two of them, or a name."""
    return len(change.terms & words) >= 2 or not change.name_terms.isdisjoint(words)


def may_end(fact_id: str, topics: frozenset[str]) -> bool:
    """Return whether a change of these topics may end a fact that it does not name.

    A name or an instruction has no topic, whatever else its words say. An allergy ends only if the
    change mentions one: an operation alone does not end it."""
    topic = TOPICS_BY_FACT.get(fact_id)
    if fact_id == t.ALLERGY.fact_id:
        return topic in topics
    return topic is not None or fact_id not in PROFILE_FACT_IDS


def matches_topic(change: Change, text: str, fact_id: str = "") -> bool:
    """Return whether a change may end what a text says, because both have the same topic.

    A new address ends a home only where that has a number: it may be in the same town."""
    known = TOPICS_BY_FACT.get(fact_id)
    if not may_end(fact_id, change.topics):
        return False
    topics = frozenset((known,)) if known else topics_of(normalized_text(text))
    if "home" in topics and NUMBER.search(text):
        topics |= {"address"}
    about = change.expired_topics or (change.topics if change.is_short else frozenset())
    if not (known or change.expired_topics):
        about -= {"life", "love"}  # a fish and a mother have no more in common
    return not change.weak and not topics.isdisjoint(about)


def replaces(change: Change, said: str, words: frozenset[str]) -> bool:
    """Return whether a change says what took the place of what a text of these words says.

    It says that the old thing is gone, or shares a word and has another day or number."""
    if any(gave_way(old, said) for old, _ in change.replaced):
        return True
    if change.terms.isdisjoint(words):
        return False
    texts = normalized_text(said), normalized_text(change.sentence)
    for pattern in (NUMBER, _WEEKDAY):
        old, new = (set(pattern.findall(text)) for text in texts)
        if old and new - old:
            return True
    return False


def takes_up(change: Change, told: str) -> bool:
    """Return whether a change takes up again what a statement denies or ended."""
    negated = normalized_text(told)
    words = frozenset(terms(NEGATIVE.sub(" ", negated))) - COMMON
    return (
        2 * len(words.intersection(terms(change.sentence))) >= max(2, len(words))
        and not NEGATIVE.search(normalized_text(change.sentence))
        and bool(NEGATIVE.search(negated) or _CHANGE_PHRASES.labels_in(negated) - _UNSURE)
    )


def says_otherwise(change: Change, said: str, words: frozenset[str]) -> bool:
    """Return whether a change gives something a different value than a text does.

    The text, which has these words, says what the thing is, or when or how much."""
    if change.now is None:
        return False
    thing, new = change.now
    is_other = any(one == thing and not new <= old for one, old in _roles(said))
    return is_other or (thing <= words and replaces(change, said, words))


def is_said_in(change: Change, told: str) -> bool:
    """Return whether a statement says itself what a change says."""
    told, sentence = map(normalized_text, (told, change.sentence))
    sure = {
        found for found in _CHANGE_PHRASES.found_in(sentence, _NEGATED) if found[0] not in _UNSURE
    }
    return bool(sure) and sure <= _CHANGE_PHRASES.found_in(told)


def gave_way(old: str, text: str) -> bool:
    """Return whether a text says what gave way: all its words, or those of the text's clause."""
    words = frozenset(terms(old))
    return bool(words - COMMON) and words <= frozenset(terms(text))
