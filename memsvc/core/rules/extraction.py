"""Fact extraction from user messages by rules: cheap filters first, then the context of a match."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice, zip_longest
from typing import Final
from unicodedata import is_normalized, normalize

from memsvc.core.analysis import find_date_names, normalized_text, terms
from memsvc.core.facts import (
    Claim,
    Evidence,
    FactExpiry,
    FactTier,
    RemovalClaim,
    Statement,
    slot_of,
)
from memsvc.core.frozen import frozen
from memsvc.core.rules.chinese import CHINESE
from memsvc.core.rules.english import ENGLISH
from memsvc.core.rules.forget_requests import forget_requests
from memsvc.core.rules.french import FRENCH
from memsvc.core.rules.german import GERMAN
from memsvc.core.rules.japanese import JAPANESE
from memsvc.core.rules.memory_requests import memory_requests
from memsvc.core.rules.own_words import Span, within
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.rule import NOT_SHORT_FORM, Rule, RuleReader, Topic
from memsvc.core.rules.sentence_model import is_meant, judge
from memsvc.core.rules.sentences import VALUE_BYTES_MAX, Message, clause_beside, value_of
from memsvc.core.rules.spanish import SPANISH
from memsvc.core.rules.statements import (
    ORDERS,
    Found,
    clause_of,
    clause_without_secret,
    is_anothers_health,
    remembered,
    statements_in,
)
from memsvc.core.rules.topics import (
    CONTACT,
    FAMILY,
    HOME,
    INSTRUCTION,
    NAME,
    PLAN,
    REMINDER,
    STATEMENT,
    TASK_TODAY,
    TASK_WEEK,
)
from memsvc.core.secrets import holds_secret, is_code, is_secret
from memsvc.core.untrusted import is_memory_block

_ENDING = (PLAN, REMINDER, TASK_TODAY, TASK_WEEK)
"""Topics of facts that end; what somebody asks to be remembered does not."""
_REPLACED = (*_ENDING, STATEMENT)
_UNJUDGED = (*ORDERS, NAME, FAMILY, *_ENDING, CONTACT)
"""Topics that a rule reads whatever else its sentence says: they need not last."""
STATEMENTS_MAX = 64
LISTED_MAX = 8
TEXT_CHARS_READ = 16_000
"""Of a longer text the first and the last half are read: the middle was pasted, not typed."""
TURN_CHARS_READ = 32_000
"""Total for all texts of a turn, the newest first: older ones were read in their own turns."""
LEFT_CHARS_READ = 240

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
# fmt: off
RELATIONS: Final = frozenset((
    "wife", "husband", "girlfriend", "boyfriend", "mother", "father", "boss", "daughter", "son",
    "brother", "sister", "niece", "nephew", "cousin", "roommate",
))
# fmt: on
"""Keys of facts about a user's relatives and other close people."""
RELATION_KEYS: Final[Mapping[str, str]] = {
    word: key
    for language in LANGUAGES
    for word, key in language.keys.items()
    if key in RELATIONS and word not in ("先生", "太太", "主人")
}
"""Keys by the words for them in all languages, except for words that are also titles."""
_WORD = re.compile(r"[^\W\d_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_HIDDEN = re.compile(r"[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00]")
_CHARACTER_MAP = str.maketrans(
    {"’": "'", "ʼ": "'", "＇": "'", "\u00a0": " ", "\u202f": " ", "\u3000": " ", "\r": "\n"}
)
_SENTENCE = re.compile(rf"(?:{NOT_SHORT_FORM}|(?<=\bst))\.(?=\s)|[\n。！？!?;；…]", re.IGNORECASE)
_FULL_STOP = re.compile(NOT_SHORT_FORM + r"[.·](?:[\s\"'”’»)]|$)", re.IGNORECASE)
_DATE_STOP = re.compile(r"(?<!\d)" + _FULL_STOP.pattern, re.IGNORECASE)
_DATE_TOPICS = ("user_birthday", "user_plan")
"""Topics whose values may contain a full stop after a number as part of a date."""
_OVER = re.compile(
    r"[,;]| (?:over|to|than|rather|instead|als|statt|vor|plutôt|à|au|aux|que|antes|more) ",
    re.IGNORECASE,
)
_RELATION = re.compile(
    r" (?:in|on|for|with|at|of|by|when|if|from|im|am|mit|für|de|du|des|d'|sur|pour|del|con|en|para|sin) ",
    re.IGNORECASE,
)
_ARTICLE = re.compile(
    r"^(?:the|an?|my|der|die|das|den|ein|eine|einen|le|la|les|du|des|el|los|las|un|une|una) |^l'"
)
_AND = ("and", "und", "y", "et")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_SMALL_WORDS = re.compile(r"(?:\s+[a-zà-ÿ]+)*\s*$")
"""Words before a date that lead to it."""
_MARKUP = re.compile(r"</?[A-Za-z!]|[{}<>|`]{2}|\[\[|\]\]|\\u00|\{\"")
_EDGES = " \t\"'“”„«»‹›「」『』《》()[]*_~`-–—:,、"


_BY_WORD = tuple(RuleReader(language) for language in LANGUAGES if language.whole_words)
_BY_CHARACTER = tuple(RuleReader(language) for language in LANGUAGES if not language.whole_words)


def extract(
    messages: Sequence[tuple[str, str]],
    *,
    session: str,
    turn: str,
    user: str,
    chars_max: int = TURN_CHARS_READ,
    certain: bool = False,
) -> list[Claim]:
    """Return the claims in the user messages of a turn, in order (pairs of event id and text).

    With `certain`, every sentence with the form of a rule is one, however unlikely it looks."""
    texts = ["" if is_memory_block(text) else text for _, text in messages]
    readings = read(texts, chars_max, certain=certain)
    events = [event for event, _ in messages]
    return claims_of(zip(events, readings, strict=True), session=session, turn=turn, user=user)


def read(
    texts: Sequence[str], chars_max: int = TURN_CHARS_READ, *, certain: bool = False
) -> "list[Reading]":
    """Return what the rules find in each text, reading `chars_max` characters in all, newest first.

    The texts are those of user messages, "" for any other item: the rules are in the first person,
    an assistant's "my name is" is not about the user, and tool output or recalled memory is
    nobody's statement."""
    readings = []
    for whole_text in reversed(texts):
        if chars_max <= 0:
            readings.append(NOTHING)
            continue
        text = _clean_text(whole_text, min(chars_max, TEXT_CHARS_READ))
        chars_max -= len(text)
        readings.append(_reading_of(Message(text), certain=certain) if text else NOTHING)
    judge.cache_clear()  # what people said stays in memory alone, where it can be forgotten
    return readings[::-1]


def claims_of(
    readings: "Iterable[tuple[str, Reading]]", *, session: str, turn: str, user: str
) -> list[Claim]:
    """Return the claims of a turn by what was found in its items (pairs of event id and finding).

    At most 64."""
    claims: list[Claim] = []
    for event, reading in readings:
        evidence = Evidence(session, turn, event, user)
        made = (
            claim for match in reading.matches for claim in _claims_of_match(match, turn, evidence)
        )
        claims += islice(made, STATEMENTS_MAX - len(claims))
    return _with_unique_records(claims)


def _reading_of(message: Message, *, certain: bool) -> "Reading":
    message, requests = memory_requests(message)
    text = message.text
    asked = [span for request in requests for span in request.contents]
    by_rule: dict[tuple[str, str, bool, int], _Match] = {}
    for match in _iter_matches(message, [(0, len(text))] if certain else asked):
        # where two rules of a topic match the same words, the first one wins
        by_rule.setdefault((match.topic.fact_id, match.key, match.deletes, match.at), match)
    read_already = [(match.at, match.end, match.topic.fact_id) for match in by_rule.values()]
    # a wish to be forgotten is no standing instruction beside
    read_already += [
        (match.at, match.end, INSTRUCTION.fact_id) for match in by_rule.values() if match.deletes
    ]
    by_grammar = [_of_grammar(one) for one in statements_in(message, read_already)]
    matches = [*by_rule.values(), *by_grammar]
    refuses_secret = False
    for start, end in asked:
        read = [match for match in matches if start <= match.at < end]
        content = text[start:end]
        taken = [
            match
            for match in read
            if match.topic in _REPLACED
            or is_anothers_health(match.topic, content)
            or is_code(match.statement)
        ]
        matches = [match for match in matches if match not in taken]
        one = remembered(text, start, end)
        refuses_secret = refuses_secret or one is None
        is_more = is_code(content) or all(match.deletes or match in taken for match in read)
        if one and is_more:
            matches.append(_of_grammar(one))
    forgotten = [*forget_requests(text)]
    kept_matches = [match for match in matches if match.deletes or not within(forgotten, match.at)]
    found = sorted(kept_matches, key=lambda match: match.at)
    clauses = [_with_own_clause(text, match, found) for match in found]
    told = {match.statement for match in clauses if match.topic is not STATEMENT}
    kept = [
        match for match in clauses if match.topic is not STATEMENT or match.statement not in told
    ]
    return Reading(tuple(kept), refuses_secret=refuses_secret)


def _of_grammar(found: Found) -> "_Match":
    return _Match(
        found.at,
        found.end,
        found.topic,
        found.topic.key,
        (found.value,),
        statement=found.statement,
    )


def _with_own_clause(text: str, match: "_Match", found: "Iterable[_Match]") -> "_Match":
    """Return a match whose statement is without the clauses that state other matches."""
    start = text.find(match.statement, max(0, match.at - len(match.statement)))
    others = [(other.at - start, other.end - start) for other in found if other.at < other.end]
    if match.at == match.end or start < 0:
        return match
    clause = clause_beside(match.statement, match.at - start, match.end - start, others)
    is_whole = match.values == (value_of(match.statement),)
    return replace(
        match, statement=clause, values=(value_of(clause),) if is_whole else match.values
    )


@frozen
class _Match:
    """A statement found: its values, its clause, and the words of each value unless in English."""

    at: int
    end: int
    topic: Topic
    key: str
    values: tuple[str, ...]
    words: tuple[str, ...] = ()
    statement: str = ""
    keywords: str = ""
    tier: FactTier | None = None
    deletes: bool = False


@frozen
class Reading:
    """Matches that the rules found in a text, in order.

    `refuses_secret`: it asks to remember a secret, which becomes no fact."""

    matches: tuple[_Match, ...] = ()
    refuses_secret: bool = False


NOTHING: Final = Reading()


def _iter_matches(message: Message, asked: Sequence[Span]) -> Iterator[_Match]:
    """Yield the matches of the rules in a message, rule by rule.

    What stands in `asked` is to be remembered: it is meant, whatever else it looks like."""
    text = message.text
    words = set(_WORD.findall(text.casefold()))
    for reader in [*_BY_WORD, *(_BY_CHARACTER if _CJK.search(text) else ())]:
        for number in reader.candidates(text, words):
            for match in islice(reader.patterns[number].finditer(text), STATEMENTS_MAX):
                one = _read(message, match, reader, reader.language.rules[number], asked)
                if one is not None and (one.statement or one.deletes):
                    yield one


def _read(
    message: Message,
    match: re.Match[str],
    reader: RuleReader,
    rule: Rule,
    asked: Sequence[Span],
) -> _Match | None:
    text = message.text
    if within(message.pasted, match.start()) or not _is_user_statement(text, match, reader, rule):
        return None
    groups = match.groupdict()
    value_text = groups.get("v")
    end = match.end("v") if value_text is not None else match.end()
    if rule.topic.fact_id != "user_name" and text[end : end + 40].lstrip(" .\"'").startswith(
        ("?", "？")
    ):
        return None
    if reader.after.match(text, end):
        return None
    key_text = (groups.get("k") or groups.get("j") or "").casefold()
    key = rule.key or reader.language.keys.get(key_text, key_text) or rule.topic.key
    if rule.topic.fact_id == "user_favourite":
        key = f"favourite {key}"
    at = match.end("aside") if groups.get("aside") else match.start()
    foreign = reader.language is not ENGLISH
    values: tuple[str, ...]
    words: tuple[str, ...]
    if value_text is None or rule.fixed:
        values, words = (rule.fixed,), (match[0],)
        if not (rule.fixed or rule.deletes):
            return None
    else:
        values = tuple(_values(value_text, match, reader, rule))
        words = tuple(_words(match, value) for value in values)
        if not values:
            return None
    statement = _statement(match, at, values[-1])
    is_judged = not (rule.plain or rule.deletes or rule.topic in _UNJUDGED or within(asked, at))
    around = statement if message.pasted else message.until(at)
    if is_judged and not is_meant(statement, around):
        return None
    return _Match(
        at,
        _end(match, values[-1], rule),
        rule.topic,
        key,
        values,
        words if foreign else (),
        statement,
        reader.language.keywords.get(rule.topic.fact_id, ""),
        rule.tier,
        rule.deletes,
    )


def _end(match: re.Match[str], last: str, rule: Rule) -> int:
    """Return where a match ends: behind the last member of a list, which may be followed by more."""
    if rule.topic.shape == "list" and last and (place := match["v"].rfind(last)) >= 0:
        return match.start("v") + place + len(last)
    return match.end()


def _statement(match: re.Match[str], at: int, value: str) -> str:
    """Return the sentence around a match, cut so that it holds no secret."""
    text = match.string
    statement = clause_of(text, at, match.end())
    if not holds_secret(statement):
        return statement
    last = text.rfind(value, at, match.end())
    return clause_without_secret(text, at, match.end() if last < 0 else last + len(value))


def _words(match: re.Match[str], value: str) -> str:
    """Return the words of a match about one of its values, without other remarks."""
    text, (start, end) = match.string, match.span("v")
    extra = match.span("aside") if "aside" in match.re.groupindex else (-1, -1)
    before = (
        text[match.start() : start]
        if extra[0] < 0
        else text[match.start() : extra[0]] + text[extra[1] : start]
    )
    return before + value + text[end : match.end()]


def _is_user_statement(text: str, match: re.Match[str], reader: RuleReader, rule: Rule) -> bool:
    """Return whether the text before a match allows a statement of the user's about the user."""
    start = match.start()
    floor = max(0, start - LEFT_CHARS_READ)
    line = text.rfind("\n", floor, start) + 1 or floor
    left = text[line:start]
    position = 0
    for sentence in _SENTENCE.finditer(left):
        position = sentence.end()
    left = left[position:]
    if not left.strip():
        return True
    if reader.context_excludes.search(left):
        return (
            reader.prefix_allowed.search(left) is not None
            and reader.context_excludes.search(reader.prefix_allowed.sub("", left)) is None
        )
    if rule.plain:
        return reader.prefix_excludes.search(left) is None
    lead = left.rstrip()
    return lead[-1] in ',:：，、)）-–—"' or reader.prefix_allowed.search(left) is not None


def _values(value_text: str, match: re.Match[str], reader: RuleReader, rule: Rule) -> Iterator[str]:
    """Yield the values in the matched words, each up to its end."""
    remaining = value_text
    for pattern in (_MARKUP, _DATE_STOP if rule.topic.fact_id in _DATE_TOPICS else _FULL_STOP):
        if (end := pattern.search(remaining)) is not None:
            remaining = remaining[: end.start()]
    if not rule.plain and rule.topic.fact_id not in ("user_plan", "user_reminder", "user_contact"):
        remaining = reader.value_end.sub("", remaining)
    parts = (
        _listed(remaining, reader)[:LISTED_MAX]
        if rule.topic.shape == "list"
        else [_last_place(remaining, match, reader)]
        if rule.topic is HOME and reader.language.whole_words
        else [remaining]
    )
    for number, part in enumerate(parts):
        value = (
            part.strip(_EDGES).rstrip(".").strip()
            if not rule.plain
            else part.strip().rstrip(".").strip(' "“”「」『』')
        )
        if rule.topic.shape == "list" and number and len(value.split()) > 3:
            return
        if _is_value(value, match, reader, rule):
            yield value


def _listed(text: str, reader: RuleReader) -> list[str]:
    """Return the members of a list, stopping where the next clause begins.

    That is behind a comma that follows an "and", or where its first words begin a clause."""
    parts, start, is_closed = [], 0, False
    joining = _AND if reader.language.whole_words else ()
    for joint in reader.joins.finditer(text):
        parts.append(text[start : joint.start()])
        start = joint.end()
        is_comma = joint[0].strip() == ","
        if (is_closed and is_comma) or any(
            reader.value_end.match(f" {word} {text[start:]}") for word in joining
        ):
            return parts
        is_closed = is_closed or not is_comma
    return [*parts, text[start:]]


def _last_place(text: str, match: re.Match[str], reader: RuleReader) -> str:
    """Return the last place to which somebody moved, without its date: "to Graz and to Wels"."""
    to = match.string[: match.start("v")].split()[-1] + " "
    for part in reader.joins.split(text)[1:]:
        if part.startswith(to) and not part[len(to) :][:1].islower():
            text = part[len(to) :]
    folded = normalized_text(text)
    dates = [start for start, _, _ in find_date_names(folded)]
    dates += [year.start() for year in _YEAR.finditer(folded)]
    if not dates or len(folded) != len(text):
        return text
    return _SMALL_WORDS.sub("", text[: min(dates)]) or text


def _is_value(value: str, match: re.Match[str], reader: RuleReader, rule: Rule) -> bool:
    text, (start, end) = match.string, match.span("v")
    at = max(start, text.find(value, start, end))
    around = text[match.start() : at] + text[end : match.end()]
    if (
        not value
        or value[0] in "/~"  # a path
        or (start == match.start() and reader.context_excludes.match(value))
        or len(value.encode("utf-8", "replace")) > VALUE_BYTES_MAX
        or is_secret(value, around)
        or (
            not rule.deletes
            and rule.topic.excludes
            and re.match(rule.topic.excludes, value, re.IGNORECASE)
        )
    ):
        return False
    empty = reader.empty_value.match(value)
    if empty is not None and rule.topic.fact_id not in ("user_plan", "user_reminder"):
        # a preference or need may begin with any word
        return (
            rule.plain
            and empty.end() < len(value)
            and rule.topic.fact_id not in ("user_name", "user_like")
        )
    if rule.topic.shape == "proper" and not rule.deletes and reader.language.whole_words:
        return not value[0].islower() or (
            match[0][0].islower() and match[0][0] == "i" and len(value.split()) <= 2
        )
    return any(character.isalnum() for character in value)


def _claims_of_match(found: _Match, turn: str, evidence: Evidence) -> Iterator[Claim]:
    topic = found.topic
    for value, words in zip_longest(found.values, found.words, fillvalue=""):
        if found.deletes:
            key = (
                ""
                if topic.key == found.key and topic.fact_id in ("user_pet", "user_favourite")
                else found.key
            )
            yield RemovalClaim(
                (FactExpiry(topic.fact_id, key, value),), evidence, statement=found.statement
            )
            continue
        yield Statement(
            record=f"{turn}-fact-{topic.record}",
            fact_id=topic.fact_id,
            key=found.key,
            slot=slot_of(value) if topic.many else _head_slot(value) if topic.by_head else "",
            value=value,
            tier=found.tier or topic.tier,
            confidence=topic.confidence,
            keywords=" ".join(filter(None, (topic.keywords, found.keywords))),
            evidence=evidence,
            words=words,
            statement=found.statement,
            conflicts=tuple(
                FactExpiry(*conflict, value, exact=True) for conflict in topic.conflicts
            ),
        )


def _head_slot(value: str) -> str:
    """Return the slot of a value by its head word; "" for a single word, which has no other."""
    preferred = _ARTICLE.sub("", _OVER.split(value.strip(), maxsplit=1)[0])
    words = [
        word for word in _RELATION.split(preferred, maxsplit=1)[0].split() if not word.isdigit()
    ]
    if words and _CJK.search(words[-1]):
        preferred, words = preferred.replace("的", " "), re.split("[的の]", words[-1])
    return slot_of("".join(terms(words[-1]))) if " " in preferred and words else ""


def _clean_text(text: str, chars_max: int) -> str:
    """Return a text normalised, without invisible characters.

    Of a long one the first and last half."""
    if len(text) > chars_max:
        side_chars = (chars_max - 1) // 2  # with a line break between the halves
        text = f"{text[:side_chars]}\n{text[len(text) - side_chars :]}"
    if text.isascii():
        return text.replace("\x00", "").replace("\r", "\n")
    text = text if is_normalized("NFC", text) else normalize("NFC", text)
    return _HIDDEN.sub("", text).translate(_CHARACTER_MAP)


def _with_unique_records(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims with unique records: the first keeps the plain name."""
    seen: dict[str, int] = {}
    result = []
    for claim in claims:
        if isinstance(claim, Statement):
            count = seen[claim.record] = seen.get(claim.record, 0) + 1
            claim = claim if count == 1 else replace(claim, record=f"{claim.record}-{count}")  # noqa: PLW2901
        result.append(claim)
    return result


def _ids_by_pattern() -> dict[str, frozenset[str]]:
    by_pattern: dict[str, set[str]] = {}
    for language in LANGUAGES:
        for fact_id, pattern in language.question_patterns.items():
            by_pattern.setdefault(pattern, set()).add(fact_id)
    return {pattern: frozenset(ids) for pattern, ids in by_pattern.items()}


_IDS_BY_PATTERN: Final[Mapping[str, frozenset[str]]] = _ids_by_pattern()
"""Question patterns, in any case, with the ids of the facts that they ask for."""
_REQUEST: Final = quick_pattern("|".join(_IDS_BY_PATTERN), re.IGNORECASE)
_compiled: Final = cache(partial(re.compile, flags=re.IGNORECASE))


QUESTION_FACT_IDS: Final = frozenset().union(*_IDS_BY_PATTERN.values())
"""Ids that a pattern asks for."""


def requests_facts(question: str) -> bool:
    """Return whether a question asks for facts of some ids, in words too common to search by."""
    return _REQUEST.search(question) is not None


def requested_fact_ids(question: str) -> frozenset[str]:
    """Return the ids of the facts that a question asks for."""
    if not requests_facts(question):
        return frozenset()
    return frozenset().union(
        *(ids for pattern, ids in _IDS_BY_PATTERN.items() if _compiled(pattern).search(question))
    )
