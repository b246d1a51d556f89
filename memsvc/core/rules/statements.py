"""First-person statements and standing instructions that no rule reads: the grammar's engine."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memsvc.core.facts import STATEMENT_CHARS_MAX
from memsvc.core.greeting_phrases import is_greeting_phrase
from memsvc.core.rules import topics as t
from memsvc.core.rules.grammar import MOCKERY, Grammar
from memsvc.core.rules.health_lexicon import has_class_words, health_topics
from memsvc.core.rules.own_words import holds_text, own_end, statement_parts, within
from memsvc.core.rules.phrases import sentence_labels
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.remarks import is_asked, is_no_order, is_order_now
from memsvc.core.rules.rule import Topic
from memsvc.core.rules.sentence_grammars import GRAMMAR_WORD, grammars_for
from memsvc.core.rules.text_requests import LASTING, OCCUPATION, STANDING
from memsvc.core.rules.word_groups import WORD, Hits, word_hits
from memsvc.core.secrets import is_secret

SENTENCE_CHARS_READ = 400
"""A longer sentence was hardly typed: no statement is read in it."""

VALUE_BYTES_MAX = 128
FRAGMENT_CHARS_MAX = 40
CLAUSE_WORDS = 8
STYLE_CHARS_MAX = 120
"""Length of a sentence that says how to answer without saying how long."""

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
ORDERS = frozenset((t.INSTRUCTION, t.ANSWER_LANGUAGE, t.EMOJI))
"""Topics of what the assistant is told to do."""
_AFTER = r"(?=[\s\"'”’»)]|$)"
_DOTTED_WORDS = "".join(
    rf"(?<!\b{word}\.)"
    for word in (
        "dr",
        "mr",
        "mrs",
        "ms",
        "st",
        "prof",
        r"e\.g",
        r"i\.e",
        "nr",
        r"z\.b",
        "ca",
        "bzw",
        "sr",
        "sra",
        "vs",
        "approx",
        r"p\.ej",
        "etc",
    )
)
_FOOD = frozenset((t.ALLERGY, t.FOOD_RULE, t.DIET))
_HEALTH = _FOOD | {t.CONDITION, t.MEDICATION}
_FOOD_IDS = frozenset(topic.fact_id for topic in _FOOD)
_RELATIVE = re.compile(
    r"(?:my (?:\w+ )?(?:brother|sister|mother|mum|mom|father|dad|parents?|aunt|uncle|cousin|nephew|niece|grand\w+|gran|nan|\w+-in-law)"
    r"|meine? (?:\w+ )?(?:bruder|schwester|mutter|vater|eltern|tante|onkel|cousine?|neffe|nichte|oma|opa|groß\w+|schwieger\w+)"
    r"|mi (?:\w+ )?(?:herman[oa]|madre|padre|tí[oa]|prim[oa]|sobrin[oa]|abuel[oa]|suegr[oa]|cuñad[oa])"
    r"|m(?:on|a) (?:\w+ )?(?:frère|sœur|mère|père|tante|oncle|cousine?|neveu|nièce|grand\W\w+|beau\W\w+|belle\W\w+))\b"
    r"(?!.*\b(?:i|i'm|i've|we|me|us|ich|wir|mir|uns|yo|nos|me|je|j|moi|nous)\b)"
    r"|我?的?(?:哥|弟|姐|妹|爸|妈|父|母|爷|奶|叔|姑|舅|姨|表)[^我]*$|(?:母|父|兄|弟|姉|妹|両親|祖母|祖父|叔父|叔母|従兄弟|いとこ)[はがに](?!.*[私僕俺])"
)
"""How a sentence begins about relatives with whom few live: what they may not eat is no diet here."""
_NAMING = re.compile(
    r"\b(?:(?:call|address) me|nenne? mich|llám[ae]me|appelle-moi|appelez-moi) \S+|叫我[^，,。]+"
)
_REQUEST = re.compile(
    r"(?:て|で)(?:くれ|もらえ|いただけ|くださ)[^。]{0,8}[?？、]|^(?:你|您)?(?:能不能|可以|可不可以)"
)
"""How a question asks for something that lasts where it says since or until when."""
_POLITE_REQUEST = re.compile(
    r"(?:can|could|would|will) (?:you|u|we)(?: please| just| maybe)? "
    r"|(?:kannst|könntest|könnten|können|magst) (?:du|sie|wir)(?: bitte| mir| mit mir)* "
    r"|¿?(?:me )?(?:puedes|podrías|podés|podemos|puede) |(?:est-ce que )?(?:tu|vous|on) (?:peux|pourrais|pouvez|peut|pourrait) (?:me |nous )?"
    r"|(?:(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous) (?:me |nous )?"
)
"""How somebody asks the assistant to do something; to answer in a language lasts."""
_THIS = re.compile(
    r"\b(?:this|that|it|these|das|dies\w*|es|est[oae]|eso|ça|ceci|cela|cet|cette|ce)\b"
)
"""What shows that something is asked of one text or answer."""
_ADDRESS = quick_pattern(
    r"\b(?:tu|vou)(?:toie|toyer|toyons|toyez|voie|voyer|voyons|voyez)\b|\b(?:duzen|siezen)\b|\btute(?:ar|es|a|e)(?:me|nos)\b"
)
"""How somebody wants to be addressed, which lasts by itself."""
_DOMAIN = re.compile(
    r"(?:(?:for|with|bei|para|con|pour|für|in|en)(?: (?:anything|any|all|every))? (?!the\b|an?\b|this\b|that\b|these\b|my\b|me\b|now\b|to\w+\b|once\b|dem\b|der\b|den\b|die\b|das\b|diese\w*|eine?\w*|mir\b|mich\b|el\b|la\b|un\w*|est\w+|mí\b|le\b|ce\w*|moi\b|ma\b|mon\b|mes\b|hoy\b|heute\b)[\w'-]+(?: [\w'-]+){0,3}?"
    r"|(?:when(?:ever)?|if|whatever) (?:i|we) [\w' ]{3,30}|wenn (?:ich|wir|du) [\w ]{3,30}|(?:cuando|si) (?:te|yo|nos) [\w ]{3,30}|(?:quand|si) (?:je|tu|on) [\w' ]{3,30})"
    r"(?:[,:] |(?= (?:i|ich|je|yo) (?:want|need|like|prefer|will|möchte|brauch\w*|veux|préfère)\b)|(?= (?:assume|use|stick|keep|always|never|nur|immer|no|nunca|siempre|solo|toujours|jamais|ein|eine|kein\w*)\b))"
)
"""What an instruction is for, before it."""
_SHOULD = re.compile(
    r"(?:(?:your|all|any|my|alle|deine|tus|las|los|tes|les) )?(?P<form>[\w-]+)(?: \w+){0,4}? (?:(?:should|must)(?:n't| not)?|(?:need|have|ought) to|can be|soll(?:t?en)?|müssen|dürfen|deben|tienen que|doivent|devraient) (?!i\b|we\b|ich\b)"
)
"""How answers are to be."""
_TOOL = re.compile(
    r"(?:for|bei|für|para|pour) (?!the\b|an?\b|this\b|that\b|my\b|me\b|now\b|to\w+\b|once\b|[dms]e[rnmsi]+\b|die\b|das\b|el\b|la\b|un\w*|est\w+|mí\b|le\b|ce\w*|hoy\b|heute\b)[\w'-]+(?: [\w'-]+)?? ?,? (?=(?P<act>[\w'-]+))"
)
"""What is to be used for what."""
_WANT = re.compile(
    r"(?:i (?:only |always )?(?:want|need|like|prefer|expect)|i'd (?:like|prefer)|ich (?:möchte|will|brauche|hätte gerne?)|(?:yo )?(?:quiero|necesito|prefiero)|me gustan?|je (?:veux|voudrais|préfère)|j'aimerais) "
    r"(?!an?\b|the\b|some\b|th[ia][st]\b|to\b|my\b|one\b|two\b|three\b|help\b|eine?\w*\b|das\b|un\w*\b|el\b|la\b|le\b|ce\w*\b).*\b(?:any|every|each|always|whenever|immer|bei jede\w|cada|siempre|chaque|toujours)\b"
)
"""What somebody wants of each answer."""
_BARE = re.compile(
    r"\W*(?:so |and |but |then |please |pls |bitte |also |y |et )*(?:no|not|nothing|never|only|just|keine?\w*|nur|ohne|nichts|nie|sin|nada|solo|sólo|nunca|ni|pas|sans|zéro|jamais|rien|short|plain|simple|brief|kurze?\w*|einfache?\w*|cort[oa]s?|courte?s?)\b(?! idea| longer| doubt| need| problem)"
)
"""How a clause begins that says what answers are to be without a verb."""
_FRAGMENT = re.compile(
    r"\W*(?:(?:and |und |y |et )?(?:please|pls|bitte|por favor|s'il te plaît)? ?[^.!?\n]{3,28}|[^。！？\n]{2,12})[.!?。！？\s]*$"
)
"""A sentence of a few words, which may say that the one before is meant for all times."""
_KEPT_UP = re.compile(
    r"\b(?:keep (?:doing|it up|that up|that in mind)|(?:every|each) (?:single )?time|always|never again|from now on|from here on|going forward|by default|house rule|standing rule|without exception|no exceptions"
    r"|immer|jedes mal|ab jetzt|ab sofort|in zukunft|dauerhaft|grundsätzlich|ohne ausnahme|siempre|cada vez|de ahora en adelante|sin excepción|nunca más|toujours|à chaque fois|chaque fois|désormais|dorénavant|plus jamais|sans exception)\b"
    r"|以后都|每次都|一直这样|今后也|今後も|毎回|いつもそう|これからも|ずっと"
)
_TAG = re.compile(
    r"[, ](?:ok|okay|right|yeah|alright|deal|please|pls|ja|oder|gell|vale|sí|d'accord|hein|ne|no) ?\?+\s*$"
)
"""A tag that makes a question of a statement."""
_CONDITION = re.compile(
    r"(?:if|when|wenn|falls|si|s'ils?|quand|cuando)\b(?! (?:possible|you|du|tu)\b)"
)
"""How a sentence begins that says only when something would be."""
_END = re.compile(
    rf"[.!?;。！？；…\n](?:(?<=\.){_AFTER}(?<!\d\.){_DOTTED_WORDS}|(?<=\.)(?<=\d\.)(?=\s+(?-i:[^\W\d_a-zß-öø-ÿ])|\s*$)(?<!\b\d\.)|(?<='\d\d\.)(?=\s)|(?<=[ (](?:19|20)\d\d\.)(?=\s)|(?<=[!?])[!?]*(?:{_AFTER}|(?=[^\x00-\x7f]))|(?<=[。！？；…\n])|(?<=;)(?=\s))[\"'”’»)」』”）]*",
    re.IGNORECASE,
)
_QUOTES = frozenset('«“「"')
_QUOTED_PHRASE = re.compile(
    r"«[^«»\n]{1,30}»|“[^“”\n]{1,30}”|「[^「」\n]{1,30}」|(?<=\s)\"[^\"\n]{1,30}\"(?=\s)"
)
_CLAUSE_END = re.compile(
    r"(?=¿)|[,;:，、；：](?=\s|[^\x00-\x7f])|\s[-–—]+\s|—|\s\(|\s(?:so|and|but|und|aber|also|y|pero|así que|et|mais|donc)\s"
)
_OPENER = re.compile(
    r"ever|circumstances|rather|simply|kindly|and|or|but|then|so|please|pls|always|never|just|also|only|now|und|oder|aber|dann|bitte|immer"
    r"|nie|nur|auch|y|o|pero|entonces|siempre|nunca|solo|también|favor|no|que|et"
    r"|ou|mais|alors|toujours|jamais|aussi|merci|ne"
)
"""Words behind which an imperative may stand."""
_PREDICATE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|went|go(?:es)?|ist|sind|war|waren|hat|haben|hatte|wird|es|son|era|está|están"
    r"|tiene|tienen|est|sont|était|ont|c'est|suben?|baja[n]?)\b|[是有了]|[るたすだ]$"
)
"""The verb of a sentence that tells something, not how to answer."""
_QUOTATION_ENDS = " \n\"'”“»」』"
_TRIM = ' \t\n(（"“”„«»*_`#>-–—•:,'


@dataclass(frozen=True, slots=True)
class Found:
    """A statement found by the grammar: where, of which topic, its value and its clause."""

    at: int
    topic: Topic
    value: str
    statement: str


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a text with their ends, in order.

    A quoted phrase ends none, and a fragment that says for how long belongs to the one before."""
    quoted = not _QUOTES.isdisjoint(text)
    phrases = [phrase.span() for phrase in _QUOTED_PHRASE.finditer(text)] if quoted else []
    spans, start = [], 0
    for end in _END.finditer(text):
        if phrases and any(left < end.start() < right for left, right in phrases):
            continue
        spans.append((start, end.end()))
        start = end.end()
    spans.append((start, len(text)))
    for at in range(len(spans) - 1, 0, -1):
        left, right = spans[at]
        if right - left <= FRAGMENT_CHARS_MAX and _is_fragment(text[left:right].casefold()):
            spans[at - 1 : at + 1] = [(spans[at - 1][0], right)]
    return spans


def _is_fragment(low: str) -> bool:
    return _FRAGMENT.match(low) is not None and _KEPT_UP.search(low) is not None


def clause_of(text: str, at: int, end: int) -> str:
    """Return the sentence around some words of a text, as far as it tells and does not ask."""
    floor = max(0, at - SENTENCE_CHARS_READ)
    start = floor
    for before in _END.finditer(text, floor, at):
        start = before.end()
    after = _END.search(text, max(end - 1, at), end + SENTENCE_CHARS_READ)
    until = after.end() if after is not None else min(len(text), end + SENTENCE_CHARS_READ)
    sentence = text[start:until]
    if sentence.rstrip(_TRIM).endswith(("?", "？")):
        low = sentence.casefold()
        grammars = grammars_for(low, set(GRAMMAR_WORD.findall(low)))
        positions = (_asked_from(low, end - start, grammar) for grammar in grammars)
        sentence = sentence[: min((place for place in positions if place), default=len(sentence))]
    return _cut(sentence, at - start, end - start)


def _cut(sentence: str, at: int, end: int) -> str:
    """Return a sentence without the clauses for which a fact has no room, around some words."""
    start, until = 0, len(sentence)
    positions = (
        [boundary.start() for boundary in _CLAUSE_END.finditer(sentence)]
        if until > STATEMENT_CHARS_MAX
        else []
    )
    while until - start > STATEMENT_CHARS_MAX:
        before = next((boundary for boundary in positions if start < boundary <= at), None)
        after = next(
            (boundary for boundary in reversed(positions) if end <= boundary < until), None
        )
        if after is not None and (before is None or until - after <= before - start or before > at):
            until = after
        elif before is not None:
            start = before + 1
        else:
            start = max(start, min(at, until - STATEMENT_CHARS_MAX))
            until = start + STATEMENT_CHARS_MAX
            break
    return sentence[start:until].strip(_TRIM).strip()


_YEAR = re.compile(
    r"\b(?:in|since|im|im jahr|seit|en|desde|depuis) (?:19|20)\d\d\b|(?<!\d)(?:19|20)\d\d ?年"
)
"""The year of something in a life, in lower case."""
_SPEAKER_FIRST = re.compile(
    r"(?:\w+\W){0,2}?(?:i|i'm|i've|we|we're|ich|wir|yo|je|j'|on|nous|soy|somos|tengo|tenemos|llevo|trabajo|vivo|moi)\b|.{0,4}(?:我(?!妈|爸|哥|姐|弟|妹|们?老板|朋友|同事|同学|的)|[私僕俺咱])"
)
"""How a sentence begins whose subject is the speaker, beside a text that is worked on."""
_TRANSIENT = re.compile(
    r"\b(?:yet|still|again|now|today|tonight|currently|at the mom\w*|at the min\w*|jetzt|grade?|gerade|heute|noch|hoy|ahora|otra vez|ya|maintenant|encore|aujourd'hui|en ce moment)\b|又|还没|今天|现在|今日|もう|また|まだ|さっき|今(?!年|でも)"
)
"""Words of the moment: without a word of what lasts beside them, a sentence does not last."""
_PASSES = re.compile(
    r"[?？`]|\w[_/\\]\w|(?<!\w)[/~]\w|\b0x|\w\(\)|[a-z][A-Z]\w|(?<!\w)--\w"
    r"|^\W*(?:[Mm]y|[Oo]ur|[Mm]is?|[Nn]uestr[oa]s?)\b[^.]{0,30}?(?:'s|\bis|\bare|\best[áa]n?)\s+\w+(?:ing|ndo)\b"
)
"""A question behind it, code, or what something of the speaker's is doing: not by form alone."""


def statements_in(
    text: str, pasted: Sequence[tuple[int, int]], read_already: Sequence[tuple[int, str]]
) -> Iterator[Found]:
    """Yield the statements in own words of a text.

    `read_already` are the places and topics that rules have read: in such a sentence only another
    class of what is always told is a statement too."""
    has_text = holds_text(text, pasted)
    order: Found | None = None
    for sentence_start, sentence_end in sentence_spans(text):
        sentence = text[sentence_start:sentence_end]
        start = sentence_end - len(sentence.lstrip(_QUOTATION_ENDS))
        end = own_end(text, pasted, start, sentence_end)
        if not 4 < end - start <= SENTENCE_CHARS_READ or within(pasted, start):
            continue
        known = {fact_id for at, fact_id in read_already if start <= at < end}
        read: list[Found] = []
        for left, right in statement_parts(text, start, end) if has_text else ((start, end),):
            is_request = has_text and not LASTING.search(text[left:right].lower())
            read += _statements(text[left:right], left, known, is_request=is_request)
        if order is not None and not read and not known and _specifies(text[start:end]):
            longer = f"{order.statement} {text[start:end].strip(_TRIM)}"
            if len(longer) <= STATEMENT_CHARS_MAX:
                order = replace(order, statement=longer)
                continue
        if order is not None:
            yield order
        order = next((found for found in read if found.topic is t.INSTRUCTION), None)
        for found in read:
            is_phrase = found.topic is t.STATEMENT and is_greeting_phrase(found.statement)
            if found is not order and not is_phrase:
                yield found
    if order is not None:
        yield order


def _specifies(sentence: str) -> bool:
    """Return whether a sentence behind an instruction is a fragment that says more of it."""
    low = sentence.casefold().strip(_TRIM)
    return (
        len(low) <= FRAGMENT_CHARS_MAX * 2
        and not low.endswith(("?", "？"))
        and not _PREDICATE.search(low)
        and not is_greeting_phrase(low)
        and not _SPEAKER_FIRST.match(low)
    )


def _statements(sentence: str, at: int, known: set[str], *, is_request: bool) -> Iterator[Found]:
    low = sentence.casefold()
    words = set(GRAMMAR_WORD.findall(low))
    for grammar in grammars_for(low, words):
        indent, start, end = _told_part(low, grammar)
        body = low[start:end].strip(_TRIM)
        implicit, conditional = grammar.patterns["implicit"], grammar.patterns["conditional"]
        if (
            not body
            or is_asked(body)
            or not (
                grammar.has_any(grammar.cue_words, low, words)
                or implicit.match(body)
                or has_class_words(grammar.language, body)
            )
            or (
                (conditional.search(low[indent:end]) or conditional.search(body))
                and not _starts_with_order(word_hits(grammar.language, body))
            )
        ):
            continue
        if grammar.is_not_literal(low[indent:end]) and _is_plain_order(body, grammar):
            known = known | {"user_statement"}
        elif grammar.is_not_literal(low[indent:end]):
            boundary = _CLAUSE_END.search(body)  # "stop that, it drives me up the wall" is an order
            body = body[: boundary.start()] if boundary is not None else ""
            if not body or grammar.is_not_literal(body) or not _is_order(body, grammar):
                continue
            known = known | {"user_statement"}
        topics = _topics_of(sentence, body, words, grammar, is_request=is_request)
        if known:
            known |= _FOOD_IDS if known & _FOOD_IDS else frozenset()
            if "user_nickname" in known and not _is_order(_NAMING.sub("", body), grammar):
                topics = [topic for topic in topics if topic is not t.INSTRUCTION]
            topics = [topic for topic in topics if topic in _CLASSES and topic.fact_id not in known]
        if (
            topics == [t.STATEMENT]
            and end < len(low)
            and not grammar.patterns["persistent"].search(body)
        ):
            return
        statement = _cut(sentence[:end], start, start)
        value = _value_of(statement)
        if topics and not is_secret(value, sentence):
            yield from (Found(at, topic, value, statement) for topic in topics)
            return


def _told_part(low: str, grammar: Grammar) -> tuple[int, int, int]:
    """Return where a sentence begins, where it does without fillers, and where it begins to ask."""
    indent = len(low) - len(low.lstrip(_TRIM))
    lead = grammar.patterns["lead"].match(low, indent)
    start = lead.end() if lead is not None else indent
    if lead is not None and lead["polite"]:
        return start, start, len(low)
    asks = _POLITE_REQUEST.match(low, start)
    if asks is not None and (_is_standing(low) or _names_language(low[asks.end() :], grammar)):
        return asks.end(), asks.end(), len(low)
    if (
        not low.rstrip(_TRIM + ")").endswith(("?", "？"))
        or _TAG.search(low)
        or (_REQUEST.search(low) and _is_standing(low))
    ):
        return indent, start, len(low)
    if grammar.patterns["request"].match(low, start):
        return indent, start, start
    return indent, start, _asked_from(low, start, grammar)


def _is_standing(low: str) -> bool:
    return STANDING.search(low) is not None or _ADDRESS.search(low) is not None


def _names_language(asked: str, grammar: Grammar) -> bool:
    """Return whether what the assistant is asked to do is to answer in a language from now on."""
    return not (grammar.patterns["once"].search(asked) or _THIS.search(asked)) and any(
        topic is t.ANSWER_LANGUAGE and pattern.match(asked)
        for topic, pattern, _ in grammar.topic_patterns
    )


def _value_of(statement: str) -> str:
    """Return as much of a statement as a value may hold, in whole words."""
    value = statement.strip(" .!。！")
    if len(value.encode()) <= VALUE_BYTES_MAX:
        return value
    value = value.encode()[: VALUE_BYTES_MAX - 3].decode("utf-8", "ignore")
    return (value.rsplit(" ", 1)[0] if " " in value else value) + "…"


def _asked_from(low: str, start: int, grammar: Grammar) -> int:
    """Return where a question begins in a sentence that ends with one; 0 if that is unknown."""
    request = grammar.patterns["request"]
    for boundary in _CLAUSE_END.finditer(low, start):
        word = boundary.start() + len(boundary[0]) - len(boundary[0].lstrip())
        for place in (word, boundary.end(), boundary.end() + 1):
            if request.match(low, place):
                return boundary.start()
    return 0


def _topics_of(
    sentence: str, body: str, words: set[str], grammar: Grammar, *, is_request: bool
) -> list[Topic]:
    """Return what a sentence states something about; nothing if it states nothing that lasts.

    `is_request` says that it asks for something now: it tells nothing to do from now on."""
    patterns = grammar.patterns
    once = is_request or bool(patterns["once"].search(body) and not LASTING.search(body))
    topics = [*_profile_topics(sentence, body, words, grammar, once=once)]
    topics += health_topics(grammar.language, body)
    if is_request and not _is_about_speaker(body, grammar) and _is_order(body, grammar):
        boundary = _CLAUSE_END.search(body)
        body = body[boundary.end() :] if boundary is not None else ""
    elif not once and t.ANSWER_LANGUAGE not in topics and _is_order(body, grammar):
        topics.append(t.INSTRUCTION)
    if grammar.is_about_stranger(body):
        return [topic for topic in topics if topic in ORDERS]
    if topics and _RELATIVE.match(body) and not set(topics).isdisjoint(_HEALTH):
        return [t.STATEMENT]
    if topics:
        return topics
    if (
        _CONDITION.match(body)
        or is_order_now(body)
        or not _lasts(sentence, body, grammar, is_request=is_request)
    ):
        return []
    has_marker = grammar.has_any(grammar.marker_words, body, words)
    if patterns["implicit"].match(body) or has_marker:
        return health_topics(grammar.language, body, is_personal=True) or [t.STATEMENT]
    return []


def _lasts(sentence: str, body: str, grammar: Grammar, *, is_request: bool) -> bool:
    """Return whether a sentence says something that lasts, by its words or by its form."""
    labels = sentence_labels(grammar.language, body)
    if "passing" in labels or labels >= MOCKERY:
        return False
    return bool(
        ("habit" in labels and (not is_request or _SPEAKER_FIRST.match(body)))
        or _YEAR.search(body)
        or (is_request and OCCUPATION.search(body))
        or (
            grammar.patterns["states"].match(body)
            and not _TRANSIENT.search(body)
            and not _PASSES.search(sentence)
        )
    )


def _profile_topics(
    sentence: str, body: str, words: set[str], grammar: Grammar, *, once: bool
) -> Iterator[Topic]:
    """Yield the topics of names, pronouns and answer languages that a sentence tells, each once."""
    told: set[Topic] = set()
    for topic, pattern, required in grammar.topic_patterns:
        if topic in told or (required and words.isdisjoint(required)):
            continue
        if topic.fact_id == "user_instruction" and once:
            continue
        match = pattern.search(body)
        if match is not None and _is_capitalised(match, sentence):
            told.add(topic)
            yield topic


def _is_capitalised(match: re.Match[str], sentence: str) -> bool:
    """Return whether what a pattern takes for a name is written like one."""
    names = [name for group, name in match.groupdict().items() if "name" in group and name]
    return not names or any(name[0].isalpha() and name.capitalize() in sentence for name in names)


def _is_about_speaker(body: str, grammar: Grammar) -> bool:
    """Return whether a sentence begins with the speaker."""
    return 0 in word_hits(grammar.language, body).get("me", ())


_PART = re.compile(
    r"\b(?:act|behave|talk|speak|answer|reply) as if\b|\bpretend\b|\btu (?:so )?als ob\b|\bfais comme si\b|\bhaz como si\b"
)
"""A part to be played is no instruction, whatever is said in it."""


def _is_order(body: str, grammar: Grammar) -> bool:
    """Return whether a sentence tells the assistant what to do from now on."""
    if is_no_order(body) or _PART.search(body):
        return False
    patterns = grammar.patterns
    style = patterns["style"]
    hits = word_hits(grammar.language, body)
    if _is_lasting_wish(body, hits):
        return True
    if "task" in hits and hits.keys().isdisjoint(("lasting", "only", "wish")):
        return False
    if (
        _ADDRESS.search(body)
        or (body.endswith(("?", "？")) and not _TAG.search(body) and LASTING.search(body))
        or style.search(body)
        or ((boundary := _CLAUSE_END.search(body)) and style.search(body[: boundary.start()]))
    ):
        return True
    if "task" not in hits and "style" in hits and _is_form(body, hits):
        return True
    if _is_about_speaker(body, grammar) and not patterns["targets"].search(body):
        return False
    if patterns["commands"].search(body) and patterns["permanent"].search(body):
        return True
    if "wish" in hits:
        return True
    has_style = (
        {"style", "only"} <= hits.keys()
        and len(body) <= STYLE_CHARS_MAX
        and "task" not in hits
        and not body.endswith(("?", "？"))
    )
    if not (has_style or "lasting" in hits):
        return False
    return _has_imperative(body, hits, grammar) or (
        has_style
        and min(*hits["style"], *hits["only"]) <= 1
        and not (_PREDICATE.search(body) or _SPEAKER_SAYS.search(body))
    )


_SPEAKER_SAYS = re.compile(r"\bi (?:like|love|hate|have|own|live|work|need)\b")


def _starts_with_order(hits: Hits) -> bool:
    """Return whether a sentence begins with a wish, or with "never" or the like and an act."""
    lasting, acts = hits.get("lasting", ()), hits.get("act", ())
    return 0 in hits.get("wish", ()) or (0 in lasting and 1 in acts)


def _is_plain_order(body: str, grammar: Grammar) -> bool:
    """Return whether a sentence with a word of mockery or fiction begins as an order that lasts."""
    hits = word_hits(grammar.language, body)
    starts = 0 in (*hits.get("act", ()), *hits.get("wish", ())) or _DOMAIN.match(body)
    return (
        (starts or (not grammar.whole_words and LASTING.search(body) is not None))
        and "idiom" not in sentence_labels(grammar.language, body)
        and _is_order(body, grammar)
    )


def _is_lasting_wish(body: str, hits: Hits) -> bool:
    """Return whether a sentence says what is wanted of every answer, or what to use for what."""
    tool = _TOOL.match(body)
    return ("style" in hits and _WANT.match(body) is not None) or (
        tool is not None and len(WORD.findall(body[: tool.start("act")])) in hits.get("act", ())
    )


def _is_form(body: str, hits: Hits) -> bool:
    """Return whether a sentence says how something is to be: "For law: plain words"."""
    if len(body) > STYLE_CHARS_MAX or body.endswith(("?", "？")) or _TRANSIENT.search(body):
        return False
    domain = _DOMAIN.match(body)
    if domain is not None:
        boundary = _CLAUSE_END.search(body, domain.end())
        clause = body[domain.end() : boundary.start() if boundary is not None else None]
        return not _PREDICATE.search(clause)
    words = [word.start() for word in WORD.finditer(body)]
    start = 0
    for left, right in (*(end.span() for end in _CLAUSE_END.finditer(body)), (len(body),) * 2):
        inside = [at for at, place in enumerate(words) if start <= place < left]
        if 1 < len(inside) <= CLAUSE_WORDS and not set(inside[1:]).isdisjoint(hits["style"]):
            clause = body[start:left]
            if _BARE.match(clause) and not _PREDICATE.search(clause):
                return True
        start = right
    modal = _SHOULD.match(body)
    return modal is not None and min(hits["style"]) == len(
        WORD.findall(body[: modal.start("form")])
    )


def _has_imperative(body: str, hits: Hits, grammar: Grammar) -> bool:
    """Return whether a clause of a sentence begins with what one tells an assistant to do."""
    if not grammar.whole_words:
        return "act" in hits
    acts, end, before = set(hits.get("act", ())), 0, ""
    for at, word in enumerate(WORD.finditer(body)):
        is_first = not body[end : word.start()].isspace() or _OPENER.fullmatch(before)
        if at in acts and (is_first or word[0].endswith("me")):
            return True
        before, end = word[0], word.end()
    return False
