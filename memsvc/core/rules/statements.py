"""Statements that last and standing instructions that no rule reads, sentence by sentence."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from memsvc.core.facts import STATEMENT_CHARS_MAX
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import is_greeting_phrase
from memsvc.core.rules import topics as t
from memsvc.core.rules.chinese import CHINESE_GRAMMAR
from memsvc.core.rules.english import ENGLISH_GRAMMAR
from memsvc.core.rules.french import FRENCH_GRAMMAR
from memsvc.core.rules.german import GERMAN_GRAMMAR
from memsvc.core.rules.grammar import Grammar
from memsvc.core.rules.japanese import JAPANESE_GRAMMAR
from memsvc.core.rules.own_words import holds_text, own_end, statement_parts, within
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.sentence_model import (
    MESSAGE_SHARE,
    Judgement,
    asks_oneself,
    is_conditional,
    judge,
    judged_in,
)
from memsvc.core.rules.sentences import (
    ASKED,
    CLAUSE_END,
    FRAGMENT_CHARS_MAX,
    SENTENCE_CHARS_READ,
    SPEAKER_FIRST,
    TRIM,
    Message,
    cut_around,
    sentence_ends,
    value_of,
)
from memsvc.core.rules.spanish import SPANISH_GRAMMAR
from memsvc.core.rules.text_requests import FIRST_PERSON, LASTING
from memsvc.core.rules.word_groups import (
    WORD,
    HealthPlaces,
    SentenceWords,
)
from memsvc.core.secrets import holds_secret, is_code, is_secret

_GRAMMARS: tuple[Grammar, ...] = (ENGLISH_GRAMMAR, GERMAN_GRAMMAR, SPANISH_GRAMMAR, FRENCH_GRAMMAR)
_KANA = re.compile(r"[\u3041-\u30ff]")
_HAN_OR_KANA = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
_GRAMMAR_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


LASTS_MIN = 1.2
ORDERS_MIN = -0.7
"""Judgements from which on a sentence is a statement, or an instruction."""
ALWAYS_MIN = -0.7
ALWAYS_LASTS_MIN = 0.6
"""Judgements from which on a sentence is a statement that may be of health or of how to address."""
ALWAYS_TOLD_MIN = 0.5
"""Judgement from which on it is told always, as one of them."""
CLASS_MIN = -1.8
PROFILE_MIN = -3.0
"""Judgements from which on what names an illness or a food, or a name, tells it of the speaker."""
REQUEST_MIN = -1.8
"""Judgement from which on a request to answer in a language holds from now on."""
LANGUAGE_ORDERS_MIN = -2.7
LANGUAGE_SUM_MIN = -4.5
"""Judgements from which on a sentence that names a language says in which one to answer."""
STATEMENT_WORDS_MIN = 3
_CLASSES = frozenset(
    (
        t.INSTRUCTION,
        t.ANSWER_LANGUAGE,
        t.PRONOUNS,
        t.ALLERGY,
        t.CONDITION,
        t.MEDICATION,
        t.DIET,
        t.FOOD_RULE,
    )
)
"""Topics that are always told: a sentence that a rule has read may state another of them."""
ORDERS = frozenset((t.INSTRUCTION, t.ANSWER_LANGUAGE, t.ANSWER_LENGTH, t.EMOJI))
"""Topics of what the assistant is told to do."""
_FOOD = frozenset((t.ALLERGY, t.FOOD_RULE, t.DIET))
_HEALTH = _FOOD | {t.CONDITION, t.MEDICATION}
_OF_SPEAKER = (t.NAME, t.NICKNAME, t.INSTRUCTION)
_NAME_IDS = frozenset((t.NAME.fact_id, t.NICKNAME.fact_id))
_FOOD_IDS = frozenset(topic.fact_id for topic in _FOOD)
_PHONE = re.compile(r"\+?\d(?:[ ()/-]?\d){7,}")
_NAMING = re.compile(
    r"\b(?:(?:call|address) me|nenne? mich|llám[ae]me|appelle-moi|appelez-moi) \S+|叫我[^，,。]+"
)
_NEGATED = re.compile(
    r"\W*(?:not(?! sure| really| that)|never(?! mind)|nor|under no circumstances|in no way|nicht|nie(?:mals)?|kein\w*|auf keinen fall|unter keinen umständen|nunca|jamás|ni|bajo ningún|en ningún|jamais|plus jamais|pas|en aucun cas|sous aucun|hors de question)\b"
    r"|\W*(?:绝不|绝对不|千万别|再也不|決して|絶対に?|二度と)"
)
"""How a sentence begins that negates what the one before told."""
_BARE_CONDITION = re.compile(
    r"\W*(?:(?:just |only )?in case (?:i|you|we|they|it|someone|anyone)\b|(?:nur )?(?:falls|für den fall,? dass) (?:ich|du|wir|es|jemand|sie)\b"
    r"|por si (?:acaso )?\w|au cas où )(?:[^\w,]*[\w']+){1,6}\W*$"
)
"""A sentence that only says when another one matters."""
_OTHER_FIRST = re.compile(
    r"\W*(?:there's|there is|the|an?|der|die|das|eine?|il y a|les?|la|une?|l'|hay|el|los|las|una)\b|.{0,12}(?:さん|くん|ちゃん|の方|の子)[はがに]|.{1,8}的"
)
"""How a sentence begins that tells of somebody or something else."""
_OF_A_PERSON = re.compile(r"\W*(?:her|his|their|s?he|they call|ihr|sein|sie heißt)(?: |'s )\w")
"""How a sentence begins that names somebody spoken of before it."""
_TAG = re.compile(
    r"[, ](?:ok|okay|right|yeah|alright|deal|please|pls|ja|oder|gell|vale|sí|d'accord|hein|ne|no) ?\?+\s*$"
)
"""A tag that makes a question of a statement."""
_PREDICATE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|went|go(?:es)?|ist|sind|war|waren|hat|haben|hatte|wird|es|son|era|está|están"
    r"|tiene|tienen|est|sont|était|ont|c'est|suben?|baja[n]?)\b|[是有了]|[るたすだ]$"
)
"""The verb of a sentence that tells something, not how to answer."""
_BACK_REFERENCE = re.compile(
    r"\b(?:there|that|those|them|it|da|dort|darin|daran|das|ahí|allí|eso|esos|là|ça|cela|ceux-là)\b|[那这它]|そこ|それ"
)
"""Words for what the sentence before named."""
_QUOTATION_ENDS = " \n\"'”“»」』"
_NEXT_CLAUSE = re.compile(
    r",? (?:and|but|und|aber|y|pero|et|mais) (?=(?:i|we|my|our|ich|wir|meine?|unsere?|yo|mis?|nuestr[oa]s?|je|nous|mon|ma|mes|notre)\b|i'm\b|j')",
    re.IGNORECASE,
)


@frozen
class Found:
    """A statement found by the grammar: where, of which topic, its value and its clause.

    From `at` to `end` stands what tells it; they are the same where no word alone does."""

    at: int
    end: int
    topic: Topic
    value: str
    statement: str


def grammars_for(low: str, words: set[str]) -> Sequence[Grammar]:
    """Return the grammars of the language that a sentence seems to be in; several if unclear."""
    if _HAN_OR_KANA.search(low) is not None:
        return (JAPANESE_GRAMMAR,) if _KANA.search(low) is not None else (CHINESE_GRAMMAR,)
    shared = [len(grammar.common_words & words) for grammar in _GRAMMARS]
    most = max(shared)
    return [grammar for grammar, count in zip(_GRAMMARS, shared, strict=True) if count == most]


def clause_of(text: str, at: int, end: int) -> str:
    """Return the sentence around some words of a text, as far as it tells and does not ask."""
    floor = max(0, at - SENTENCE_CHARS_READ)
    window = text[floor : end + SENTENCE_CHARS_READ]
    ends = [floor + place for place in sentence_ends(window)]
    start = max((place for place in ends if place <= at), default=floor)
    until = min((place for place in ends if place >= end), default=floor + len(window))
    sentence = text[start:until]
    if sentence.rstrip(TRIM).endswith(("?", "？")):
        low = sentence.casefold()
        grammars = grammars_for(low, set(_GRAMMAR_WORD.findall(low)))
        positions = (_asked_from(low, end - start, grammar) for grammar in grammars)
        sentence = sentence[: min((place for place in positions if place), default=len(sentence))]
    return cut_around(sentence, at - start, end - start)


def statements_in(whole: Message, read_already: Sequence[tuple[int, int, str]]) -> Iterator[Found]:
    """Yield the statements in own words of a message.

    `read_already` are the places (from, to) and topics that rules have read: in such a sentence only
    another class of what is always told is a statement too."""
    text, pasted = whole.text, whole.pasted
    has_text = holds_text(text, pasted)
    order: Found | None = None
    told: Found | None = None
    before = ""
    for sentence_start, sentence_end in whole.sentences:
        sentence = text[sentence_start:sentence_end]
        message = "" if has_text else whole.until(sentence_start)
        start = sentence_end - len(sentence.lstrip(_QUOTATION_ENDS))
        end = own_end(text, pasted, start, sentence_end)
        if within(pasted, start) or not _is_read(text, start, end, sentence_end):
            before = ""
            continue
        known = {fact_id for at, until, fact_id in read_already if at < end and start < until}
        read: list[Found] = []
        for left, right in statement_parts(text, start, end) if has_text else ((start, end),):
            part = text[left:right]
            is_request = has_text and not LASTING.search(part.lower())
            read += _statements(part, message or part, left, known, is_request=is_request)
        if known and not has_text and (clause := _own_clause(text, start, end, read_already)):
            read += _statements(text[clause:end], message, clause, set(), is_request=False)
        if order is not None and not known and _specifies(text[start:end], read):
            longer = _longer(order, text[start:end])
            if longer is not None:
                order = longer
                continue
        if not known and _is_negation(text[start:end], read):
            longer = _longer(order or told, text[start:end])
            if longer is not None:
                order, told = (longer, told) if order else (None, longer)
                before = text[start:end].strip(TRIM)
                continue
            joined = f"{before} {text[start:end]}"
            read = [] if is_secret(joined, joined) else read
        if order is not None:
            yield order
        order = next((found for found in read if found.topic is t.INSTRUCTION), None)
        finished, told = _told_after(read, told, before)
        yield from (found for found in finished if found is not order)
        before = text[start:end].strip(TRIM)
    yield from (found for found in (told, order) if found is not None)


def _own_clause(
    text: str, start: int, end: int, read_already: Sequence[tuple[int, int, str]]
) -> int | None:
    """Return where the first clause about the speaker starts after the last match of a rule.

    None if there is none. In "I like hiking, and I play the cello" it is a statement of its own."""
    read = max(until for at, until, _ in read_already if at < end and start < until)
    clause = _NEXT_CLAUSE.search(text, read, end)
    return clause.end() if clause else None


def remembered(text: str, start: int, end: int) -> Found | None:
    """Return what somebody asks to be remembered as a statement, whatever it is about.

    Nothing if it is a secret other than a code."""
    statement = cut_around(text[start:end], 0, 0)
    if is_secret(statement, statement) and not is_code(statement):
        return None
    return Found(start, start, t.STATEMENT, value_of(statement), statement)


def clause_without_secret(text: str, at: int, end: int) -> str:
    """Return the clause around some words of a text, or these alone where it holds a secret or code.

    Nothing where they hold one too."""
    start = max((boundary.end() for boundary in CLAUSE_END.finditer(text, 0, at)), default=0)
    boundary = CLAUSE_END.search(text, end)
    until = boundary.start() if boundary else len(text)
    clauses = (clause_of(text[start:until], at - start, end - start), text[at:end].strip(TRIM))
    return next((clause for clause in clauses if not holds_secret(clause)), "")


def is_anothers_health(topic: Topic, text: str) -> bool:
    """Return whether words about health that are to be remembered name another than the speaker."""
    low = text.casefold().strip(TRIM)
    return (
        topic in _HEALTH
        and not FIRST_PERSON.search(low)
        and not any(
            SentenceWords.of(grammar.language, low).leaves_out_subject
            for grammar in grammars_for(low, set(_GRAMMAR_WORD.findall(low)))
        )
    )


def _is_negation(sentence: str, read: Sequence[Found]) -> bool:
    """Return whether a sentence begins by negating what the one before told of."""
    is_plain = all(found.topic in (t.STATEMENT, t.INSTRUCTION) for found in read)
    is_question = sentence.rstrip(TRIM).endswith(("?", "？"))
    is_negated = _NEGATED.match(sentence.casefold()) is not None
    return is_plain and not is_question and is_negated


def _longer(found: Found | None, sentence: str) -> Found | None:
    """Return a statement with the sentence behind it; None without one, too long or with a secret."""
    statement = f"{found.statement} {sentence.strip(TRIM)}" if found else ""
    if found is None or len(statement) > STATEMENT_CHARS_MAX or is_secret(statement, statement):
        return None
    return replace(found, statement=statement)


def _told_after(
    read: Sequence[Found], told: Found | None, before: str
) -> tuple[list[Found], Found | None]:
    """Return what a sentence finishes, and the statement on which the next one may lean.

    `told` was that until now, and `before` is the sentence before."""
    finished = []
    is_before = told is not None and told.statement.endswith(before)
    for found in read:
        is_plain = found.topic is t.STATEMENT
        if not is_plain and (found.topic is t.INSTRUCTION or len(read) > 1):
            finished.append(found)
        elif not (is_plain and is_greeting_phrase(found.statement)):
            words = told.statement if told is not None and is_before else before
            joined = _joined(words, found) if is_plain else None
            if told is not None and not (joined and is_before and told.topic is t.STATEMENT):
                finished.append(told)
            told = joined or found
    return finished, told


def _joined(before: str, found: Found) -> Found | None:
    """Return a statement with the words before it, if it leans on them: it names no speaker."""
    space = "" if _HAN_OR_KANA.search(found.statement) else " "
    longer = before + space + found.statement
    if (
        not before
        or before.endswith(("?", "？"))
        or len(longer) > STATEMENT_CHARS_MAX
        or FIRST_PERSON.search(found.statement.lower())
        or is_secret(longer, longer)
    ):
        return None
    return replace(found, value=value_of(longer), statement=longer)


def _is_read(text: str, start: int, end: int, sentence_end: int) -> bool:
    """Return whether own words may state something: those before a quotation as far as it does."""
    if not 4 < end - start <= SENTENCE_CHARS_READ:
        return False
    whole = text[start : min(sentence_end, start + SENTENCE_CHARS_READ)]
    return end == sentence_end or judge(whole).most > LASTS_MIN


def _specifies(sentence: str, read: Sequence[Found]) -> bool:
    """Return whether a sentence behind an instruction says more of it.

    A fragment does, or an instruction that refers to the one before."""
    low = sentence.casefold().strip(TRIM)
    if read and not (
        all(found.topic is t.INSTRUCTION for found in read) and _BACK_REFERENCE.search(low)
    ):
        return False
    return (
        len(low) <= FRAGMENT_CHARS_MAX * 2
        and not low.endswith(("?", "？"))
        and not _PREDICATE.search(low)
        and not is_greeting_phrase(low)
        and not SPEAKER_FIRST.match(low)
    )


def _statements(
    sentence: str, message: str, at: int, known: set[str], *, is_request: bool
) -> Iterator[Found]:
    low = sentence.casefold()
    words = set(_GRAMMAR_WORD.findall(low))
    judged = judged_in(sentence, message)
    is_supposed = is_conditional(low) and judged.orders < ORDERS_MIN
    if is_supposed or asks_oneself(low) or _BARE_CONDITION.match(low):
        return
    read: list[Found] = []
    grammars = grammars_for(low, words)
    places = [SentenceWords.of(grammar.language, low).places() for grammar in grammars]
    told_end = len(low)
    for grammar in grammars:
        start, end = _told_part(low, grammar, judged)
        body = low[start:end].strip(TRIM)
        told_end = end
        if not body:
            continue
        told = (
            judged
            if end == len(low)
            else judged_in(sentence[:end], message).within(judged, MESSAGE_SHARE)
        )
        topics = _topics_of(sentence, body, words, grammar, told, is_request=is_request)
        if _is_of_others(places) or (
            not FIRST_PERSON.search(low)
            and _OTHER_FIRST.match(low)
            and not _HEALTH.isdisjoint(topics)
        ):
            is_told = bool(topics) or told.most > ALWAYS_MIN
            topics = [topic for topic in topics if topic not in _HEALTH]
            topics = topics or [t.STATEMENT] * is_told
        elif _OF_A_PERSON.match(low):
            topics = [t.STATEMENT if one in _OF_SPEAKER else one for one in topics]
        if known:
            known |= _FOOD_IDS if known & _FOOD_IDS else frozenset()
            if not known.isdisjoint(_NAME_IDS) and judge(_NAMING.sub("", body)).orders < ORDERS_MIN:
                topics = [topic for topic in topics if topic is not t.INSTRUCTION]
            topics = [topic for topic in topics if topic in _CLASSES and topic.fact_id not in known]
        statement = cut_around(sentence[:end], start, start)
        value = value_of(statement)
        by_model = [_topic_of(told)]  # by no word of the language, which may be another one
        if topics and not is_secret(statement, sentence) and (not read or topics != by_model):
            read = [Found(at, at, topic, value, statement) for topic in topics]
            if topics != by_model:
                break
    yield from _placed(read, sentence[:told_end], at, places, is_known=bool(known))


def _is_of_others(places: Iterable[HealthPlaces]) -> bool:
    """Return whether in some language a sentence tells of the health of others alone."""
    return any(not own and others is not None for own, others in places)


def _placed(
    read: Sequence[Found],
    sentence: str,
    at: int,
    places: Sequence[HealthPlaces],
    *,
    is_known: bool,
) -> Iterator[Found]:
    """Yield what a sentence tells with its place, and what it tells of others' health beside it."""
    others = next((place for _, place in places if place), (0, 0))
    is_others = _is_of_others(places)
    for found in read:
        own = next((told[found.topic] for told, _ in places if found.topic in told), (0, 0))
        start, end = others if is_others else own
        yield replace(found, at=at + start, end=at + end)
    start, end = others
    statement = cut_around(sentence, start, end)
    is_beside = is_known or (bool(read) and not is_others)
    if is_beside and 0 < end <= len(sentence) and not is_secret(statement, sentence):
        yield Found(at + start, at + end, t.STATEMENT, value_of(statement), statement)


def _told_part(low: str, grammar: Grammar, judged: Judgement) -> tuple[int, int]:
    """Return where a sentence begins without fillers, and where it begins to ask.

    Many questions have no mark: what tells nothing as a whole may tell something before it asks."""
    indent = len(low) - len(low.lstrip(TRIM))
    lead = grammar.patterns["lead"].match(low, indent)
    start = lead.end() if lead is not None else indent
    is_question = low.rstrip(TRIM + ")").endswith(("?", "？"))
    is_question |= ASKED.match(low, start) is not None and CLAUSE_END.search(low, start) is None
    if judged.orders > ORDERS_MIN or _TAG.search(low):
        return start, len(low)
    if judged.lasts > LASTS_MIN and not is_question:
        asked_from = _asked_from(low, start, grammar) or len(low)
        is_told = judge(low[asked_from:]).lasts > LASTS_MIN  # ", which is why I eat no wheat"
        return start, len(low) if is_told else asked_from
    if is_question and grammar.patterns["request"].match(low, start):
        return start, start
    asked_from = _asked_from(low, start, grammar)
    if asked_from or not is_question:
        return start, asked_from or len(low)
    return start, max((end.start() for end in CLAUSE_END.finditer(low, start)), default=0)


def _asked_from(low: str, start: int, grammar: Grammar) -> int:
    """Return where a question begins in a sentence that ends with one; 0 if that is unknown."""
    request = grammar.patterns["request"]
    for boundary in CLAUSE_END.finditer(low, start):
        word = boundary.start() + len(boundary[0]) - len(boundary[0].lstrip())
        for place in (word, boundary.end(), boundary.end() + 1):
            if request.match(low, place):
                return boundary.start()
    return 0


def _topics_of(
    sentence: str,
    body: str,
    words: set[str],
    grammar: Grammar,
    judged: Judgement,
    *,
    is_request: bool,
) -> list[Topic]:
    """Return what a sentence states something about; nothing if it states nothing that lasts.

    `is_request` says that it asks for something now: it tells nothing to do from now on."""
    if judged.most < PROFILE_MIN:
        return []
    topics = [*_profile_topics(sentence, body, words, grammar)]
    if is_request or judged.orders < REQUEST_MIN:
        topics = [topic for topic in topics if topic not in ORDERS]
    wants_language = (
        judged.orders > LANGUAGE_ORDERS_MIN and judged.lasts + judged.orders > LANGUAGE_SUM_MIN
    )
    if wants_language and not is_request and grammar.language_name.search(body):
        topics = [t.ANSWER_LANGUAGE, *(topic for topic in topics if topic not in ORDERS)]
    health = SentenceWords.of(grammar.language, body)
    if judged.most > CLASS_MIN:
        topics += health.topics()
    is_order = judged.orders > ORDERS_MIN and not is_request and not is_greeting_phrase(sentence)
    is_order = is_order and _PHONE.search(body) is None  # "ring me on ..." tells how to reach one
    if is_order and t.ANSWER_LANGUAGE not in topics:
        topics.append(t.INSTRUCTION)
    lasts = judged.lasts
    is_always = max(judged.health, judged.address) > ALWAYS_MIN
    if (
        topics
        or lasts < (ALWAYS_LASTS_MIN if is_always else LASTS_MIN)
        or (is_request and not SPEAKER_FIRST.match(body))
        or (grammar.whole_words and len(WORD.findall(body)) < STATEMENT_WORDS_MIN)
    ):
        return topics
    topic = _topic_of(judged)
    if judged.orders > REQUEST_MIN and LASTING.match(body) and not FIRST_PERSON.search(body):
        topic = t.INSTRUCTION  # "never deploy on Fridays" is told to the assistant
    if topic is t.CONDITION and health.is_of_others:
        topic = t.STATEMENT
    return health.topics(is_personal=True) or [topic]


def _topic_of(judged: Judgement) -> Topic:
    """Return what a statement is about that no word tells of."""
    if judged.health > ALWAYS_TOLD_MIN:
        return t.CONDITION
    return t.INSTRUCTION if judged.address > ALWAYS_TOLD_MIN else t.STATEMENT


def _profile_topics(sentence: str, body: str, words: set[str], grammar: Grammar) -> Iterator[Topic]:
    """Yield the topics of names, pronouns and answer languages that a sentence tells, each once."""
    told = set()
    for topic, pattern, required in grammar.topic_patterns:
        if topic in told or (required and words.isdisjoint(required)):
            continue
        match = pattern.search(body)
        if match is not None and _is_capitalised(match, sentence):
            told.add(topic)
            yield topic


def _is_capitalised(match: re.Match[str], sentence: str) -> bool:
    """Return whether what a pattern takes for a name is written like one."""
    names = [name for group, name in match.groupdict().items() if "name" in group and name]
    return not names or any(name[0].isalpha() and name.capitalize() in sentence for name in names)
