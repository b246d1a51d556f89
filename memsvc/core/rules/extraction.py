"""Fact extraction from user messages by rules: cheap filters first, then the context of a match."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from unicodedata import is_normalized, normalize

from memsvc.core.facts import Claim, Ending, Evidence, Retraction, Statement, slot_of
from memsvc.core.items import Item, role_of, text_parts
from memsvc.core.rules.chinese import CHINESE
from memsvc.core.rules.english import ENGLISH
from memsvc.core.rules.french import FRENCH
from memsvc.core.rules.german import GERMAN
from memsvc.core.rules.japanese import JAPANESE
from memsvc.core.rules.reader import Reader
from memsvc.core.rules.rule import ABBREVIATED, Rule
from memsvc.core.rules.spanish import SPANISH
from memsvc.core.rules.surroundings import quoted_spans, within
from memsvc.core.secrets import is_secret

VALUE_BYTES_MAX = 128
STATEMENTS_MAX = 64
LISTED_MAX = 8
TEXT_CHARS_READ = 16_000
"""Of a longer text the first and the last half are read: the middle was pasted, not typed."""
TURN_CHARS_READ = 32_000
"""Total for all texts of a turn, the newest first: older ones were read in their own turns."""
LEFT_CHARS_READ = 240

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)


_SPACED = tuple(Reader(language) for language in LANGUAGES if language.spaced)
_UNSPACED = tuple(Reader(language) for language in LANGUAGES if not language.spaced)

_WORD = re.compile(r"[^\W\d_]+")
_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_INVISIBLE = re.compile(r"[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00]")
_LEGIBLE = str.maketrans({"’": "'", "ʼ": "'", "＇": "'", "\u00a0": " ", "\u202f": " ", "\u3000": " ", "\r": "\n"})
_SENTENCE = re.compile(rf"(?:{ABBREVIATED}|(?<=\bst))\.(?=\s)|[\n。！？!?;；…]", re.IGNORECASE)
_FULL_STOP = re.compile(ABBREVIATED + r"[.·](?:[\s\"'”’»)]|$)", re.IGNORECASE)
_DATED_STOP = re.compile(r"(?<!\d)" + _FULL_STOP.pattern, re.IGNORECASE)
_DATED = ("user_birthday", "user_plan")
"""Topics whose values may contain a full stop after a number as part of a date."""
_MARKUP = re.compile(r"</?[A-Za-z!]|[{}<>|`]{2}|\[\[|\]\]|\\u00|\{\"")
_LABEL = re.compile(r"[\W_]{0,4}(?P<label>[^\W\d_][\w .'-]{0,40}?)[*_\])]{0,3}\s?[:：](?!//)")
_LABEL_WORDS = """
    note; notes; fyi; ps; p.s; info; update; edit; correction; remember; reminder; btw; context; about; me; fact;
    facts; ich; hinweis; übrigens; wichtig; korrektur; rappel; moi; nota; yo; importante; corrección; important;
    remark; profile; 关于我; 备注; 注意; 更正; メモ; 訂正; 自己紹介; 我搬家了; 引っ越しました; about me; über mich; à propos de moi;
    sobre mí; i moved; i've moved; i have moved; i just moved; i've just moved; we moved; we've moved;
    i changed jobs; i've changed jobs; ich bin umgezogen; wir sind umgezogen; j'ai déménagé; nous avons déménagé;
    me he mudado; me mudé; nos hemos mudado
"""
_LABELS = frozenset(label.strip() for label in _LABEL_WORDS.split(";"))
"""Labels allowed before a colon at the start of a message: no other person's name."""
_EDGES = " \t\"'“”„«»‹›「」『』《》()[]*_~`-–—:,、"


def extract(
    items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str, chars_max: int = TURN_CHARS_READ
) -> list[Claim]:
    """Return the claims in the user messages of a turn, in order (pairs of event id and item)."""
    found = read([item for _, item in items], chars_max)
    return claims_of(zip((event for event, _ in items), found, strict=True), session=session, turn=turn, user=user)


def read(items: Sequence[Item], chars_max: int = TURN_CHARS_READ) -> "list[Found]":
    """Return what the rules find in each item, reading `chars_max` characters in all, newest first.

    Only user messages are read: the rules are in the first person, an assistant's "my name is" is
    not about the user, and tool output or recalled memory is nobody's statement."""
    found: list[Found] = []
    for item in reversed(items):
        if chars_max <= 0:
            found.append(())
            continue
        text = _said(item, chars_max)
        chars_max -= len(text)
        found.append(_findings(text))
    return found[::-1]


def claims_of(found: "Iterable[tuple[str, Found]]", *, session: str, turn: str, user: str) -> list[Claim]:
    """Return the claims of a turn by what was found in its items (pairs of event id and finding).

    At most 64."""
    claims: list[Claim] = []
    for event, findings in found:
        evidence = Evidence(session, turn, event, user)
        made = (claim for one in findings for claim in _made(one, turn, evidence))
        claims += islice(made, STATEMENTS_MAX - len(claims))
    return _numbered(claims)


def _findings(text: str) -> "Found":
    found: dict[tuple[str, str, bool, int], _Found] = {}
    for one in _found(text):
        # where two rules of a topic match the same words, the first one wins
        found.setdefault((one.rule.topic.fact_id, one.key, one.rule.ends, one.at), one)
    return tuple(sorted(found.values(), key=lambda one: one.at))


def _said(item: Item, chars_max: int) -> str:
    """Return the text of a user message; "" for any other item."""
    return "" if role_of(item) != "user" else _legible("\n".join(text_parts(item)), min(chars_max, TEXT_CHARS_READ))


@dataclass(frozen=True, slots=True)
class _Found:
    """A match of a rule: its values, and the words that state each unless in English."""

    at: int
    reader: Reader
    rule: Rule
    key: str
    values: tuple[str, ...]
    words: tuple[str, ...] = ()


Found = tuple[_Found, ...]
"""Matches in an item, in the order of the text."""


def _found(text: str) -> Iterator[_Found]:
    """Yield the matches of the rules in a text, rule by rule."""
    words = set(_WORD.findall(text.casefold()))
    quoted: list[tuple[int, int]] | None = None
    for reader in [*_SPACED, *(_UNSPACED if _HAN.search(text) else ())]:
        for number in reader.candidates(text, words):
            for match in islice(reader.pattern(number).finditer(text), STATEMENTS_MAX):
                if quoted is None:
                    quoted = quoted_spans(text)
                one = _read(text, match, reader, reader.language.rules[number], quoted)
                if one is not None:
                    yield one


def _read(
    text: str, match: re.Match[str], reader: Reader, rule: Rule, quoted: Sequence[tuple[int, int]]
) -> _Found | None:
    if within(quoted, match.start()) or not _is_the_users(text, match, reader, rule):
        return None
    groups = match.groupdict()
    said = groups.get("v")
    end = match.end("v") if said is not None else match.end()
    if rule.topic.fact_id != "user_name" and text[end : end + 40].lstrip(" .\"'").startswith(("?", "？")):
        return None
    if reader.after.match(text, end):
        return None
    spoken = (groups.get("k") or groups.get("j") or "").casefold()
    key = rule.key or reader.language.keys.get(spoken, spoken) or rule.topic.key
    if rule.topic.fact_id == "user_favourite":
        key = f"favourite {key}"
    at = match.end("aside") if groups.get("aside") else match.start()
    foreign = reader.language is not ENGLISH
    if said is None or rule.fixed:
        found = _Found(at, reader, rule, key, (rule.fixed,), (match[0],) if foreign else ())
        return found if rule.fixed or rule.ends else None
    values = tuple(_values(said, match, reader, rule))
    words = tuple(_words(match, value) for value in values) if foreign else ()
    return _Found(at, reader, rule, key, values, words) if values else None


def _words(match: re.Match[str], value: str) -> str:
    """Return the words of a match about one of its values, without other remarks."""
    text, (start, end) = match.string, match.span("v")
    aside = match.span("aside") if "aside" in match.re.groupindex else (-1, -1)
    before = text[match.start() : start] if aside[0] < 0 else text[match.start() : aside[0]] + text[aside[1] : start]
    return before + value + text[end : match.end()]


def _is_the_users(text: str, match: re.Match[str], reader: Reader, rule: Rule) -> bool:
    """Return whether the text before a match allows a statement of the user's about the user."""
    start = match.start()
    floor = max(0, start - LEFT_CHARS_READ)
    line = text.rfind("\n", floor, start) + 1 or floor
    left = text[line:start]
    label = _LABEL.match(left)
    if label is not None and label["label"].casefold() not in _LABELS:
        return False
    if left.lstrip().startswith(">"):
        return False
    cut = 0
    for sentence in _SENTENCE.finditer(left):
        cut = sentence.end()
    left = left[cut:]
    if not left.strip():
        return True
    if reader.bars.search(left):
        return reader.leads.search(left) is not None and reader.bars.search(reader.leads.sub("", left)) is None
    if rule.plain:
        return reader.barred.search(left) is None
    lead = left.rstrip()
    return lead[-1] in ',:：，、)）-–—"' or reader.leads.search(left) is not None


def _values(said: str, match: re.Match[str], reader: Reader, rule: Rule) -> Iterator[str]:
    """Yield the values in the matched words, each up to its end."""
    cut = said
    for pattern in (_MARKUP, _DATED_STOP if rule.topic.fact_id in _DATED else _FULL_STOP):
        if (end := pattern.search(cut)) is not None:
            cut = cut[: end.start()]
    if not rule.plain and rule.topic.fact_id not in ("user_plan", "user_reminder", "user_contact"):
        cut = reader.tails.sub("", cut)
    parts = reader.joins.split(cut)[:LISTED_MAX] if rule.topic.shape == "list" else [cut]
    for number, part in enumerate(parts):
        value = (
            part.strip(_EDGES).rstrip(".").strip() if not rule.plain else part.strip().rstrip(".").strip(' "“”「」『』')
        )
        if rule.topic.shape == "list" and number and len(value.split()) > 3:
            return
        if _says_something(value, match, reader, rule):
            yield value


def _says_something(value: str, match: re.Match[str], reader: Reader, rule: Rule) -> bool:
    if not value or len(value.encode("utf-8", "replace")) > VALUE_BYTES_MAX or is_secret(value, match[0]):
        return False
    hollow = reader.hollow.match(value)
    if hollow is not None and rule.topic.fact_id not in ("user_plan", "user_reminder"):
        # a preference or need may begin with any word
        return rule.plain and hollow.end() < len(value) and rule.topic.fact_id not in ("user_name", "user_like")
    if rule.topic.shape == "proper" and not rule.ends and reader.language.spaced:
        return not value[0].islower() or (match[0][0].islower() and match[0][0] == "i" and len(value.split()) <= 2)
    return any(character.isalnum() for character in value)


def _made(found: _Found, turn: str, evidence: Evidence) -> Iterator[Claim]:
    rule, topic = found.rule, found.rule.topic
    for value, words in zip_longest(found.values, found.words, fillvalue=""):
        if rule.ends:
            key = "" if topic.key == found.key and topic.fact_id in ("user_pet", "user_favourite") else found.key
            yield Retraction((Ending(topic.fact_id, key, value),), evidence)
            continue
        cues = " ".join(filter(None, (topic.cues, found.reader.language.cues.get(topic.fact_id, ""))))
        yield Statement(
            record=f"{turn}-fact-{topic.record}",
            fact_id=topic.fact_id,
            key=found.key,
            slot=slot_of(value) if topic.many else "",
            value=value,
            tier=rule.tier or topic.tier,
            confidence=topic.confidence,
            cues=cues,
            evidence=evidence,
            words=words,
            ends=tuple(Ending(*rival, value, exact=True) for rival in topic.rivals),
        )


def _legible(text: str, chars_max: int) -> str:
    """Return a text normalised, without invisible characters.

    Of a long one the first and last half."""
    if len(text) > chars_max:
        half = (chars_max - 1) // 2  # with a line break between the halves
        text = f"{text[:half]}\n{text[len(text) - half :]}"
    if text.isascii():
        return text.replace("\x00", "").replace("\r", "\n")
    text = text if is_normalized("NFC", text) else normalize("NFC", text)
    return _INVISIBLE.sub("", text).translate(_LEGIBLE)


def _numbered(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims with unique records: the first keeps the plain name."""
    seen: dict[str, int] = {}
    numbered: list[Claim] = []
    for claim in claims:
        if isinstance(claim, Statement):
            count = seen[claim.record] = seen.get(claim.record, 0) + 1
            claim = claim if count == 1 else replace(claim, record=f"{claim.record}-{count}")  # noqa: PLW2901
        numbered.append(claim)
    return numbered
