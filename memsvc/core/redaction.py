"""Removal of sentences and values from a text or a JSON line, without a trace of what they were."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from memsvc.core.analysis import content_terms, normalized_text, terms
from memsvc.core.chunks import merged, sentence_ends
from memsvc.core.frozen import frozen

LEFT_OUT: Final = "…"
VALUE_CHARS_MIN: Final = 3
"""Of a shorter value, unless in a script without spaces, other sentences may hold it by chance."""
_REFERS: Final = re.compile(
    r"(?:it|that|this|which|he|she|they|him|her|them|es|das|er|sie|ihn|ca|cela|il|elle|lo|la|eso|el|ella)\b"
    r"|[它他她这那其]|それ|これ|彼"
)
"""How a clause begins that is about what another one names."""
_UNSPACED_CHARS: Final = r"\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af"
_UNSPACED: Final = re.compile(f"[{_UNSPACED_CHARS}]")
_CHAR: Final = rf"[^\W{_UNSPACED_CHARS}]"
_WORD: Final = re.compile(rf"{_CHAR}+|[{_UNSPACED_CHARS}]")
_IDENTIFIER: Final = re.compile(rf"(?={_CHAR}*\d)(?!(?:19|20)\d\d(?!{_CHAR})){_CHAR}{{4,}}")
"""A number or code that nobody would say by chance; no year."""
_SHORT_NUMBER: Final = re.compile(
    rf"(?<!{_CHAR})(?!(?:19|20)\d\d\b)(?={_CHAR}*\d){_CHAR}{{1,3}}(?!{_CHAR})(?:[-.,:/]\d{{1,3}}(?!{_CHAR}))*"
)
_PART_END: Final = re.compile(r"[,;!?、。，；！？]")
_NEAR_WORDS: Final = 5
"""Words on either side of a short number that may say what it numbers; characters in CJK text."""
_NEAR_CHARS: Final = 100
_CHARS_READ: Final = 2_000
_NUMBERS_MAX: Final = 20
"""Maximum short numbers of a forgotten sentence that are looked for in other sentences."""
_BEHIND: Final = re.compile(
    rf"(?:\s?({_CHAR}+))?((?:[^\w,;!?、。，；！？]*(?:{_CHAR}+|\w)){{0,{_NEAR_WORDS - 1}}})"
)

Range = tuple[int, int]


@frozen
class Redaction:
    """What is to be forgotten of a person.

    `statements` are the clauses that say it, `values` what they are about. `kept` are the clauses
    of other facts: where one of them stands in the same sentence, only values go. `beside` are
    clauses that stay although they are of no fact."""

    statements: Collection[str]
    values: Collection[str]
    kept: Collection[str] = ()
    beside: Collection[str] = ()

    @property
    def searched(self) -> list[str]:
        """Return the values that are looked for in whatever was said."""
        return [
            value
            for value in self.values
            if len(value) >= VALUE_CHARS_MIN or _UNSPACED.search(value)
        ]

    def ranges(self, text: str) -> list[Range]:
        """Return what to remove of a text, in order."""
        statements = [comparable(one) for one in self.statements if one]
        stated = {
            comparable(one[start:end]) for one in self.statements for start, end in sentences(one)
        }
        numbers = {
            (said[:_CHARS_READ], number)
            for said in statements
            for number in _SHORT_NUMBER.findall(said[:_CHARS_READ])[:_NUMBERS_MAX]
        }
        kept = {comparable(one): one for one in (*self.kept, *self.beside) if one}
        found = []
        for start, stop in sentences(text):
            sentence = comparable(text[start:stop])
            states = any(one in sentence or (sentence and sentence in one) for one in statements)
            values = [value for value in self.searched if holds(sentence, value)]
            beside = {
                one: words for one, words in kept.items() if one in sentence or sentence in one
            }
            if not (states and any(sentence in one for one in beside)):
                values += [
                    number
                    for said, number in numbers
                    if number in sentence and _names_the_same(sentence[:_CHARS_READ], said, number)
                ]
            if not states and not values:
                continue
            parts = self._parts(text[start:stop], sentence, beside, values) if beside else []
            if parts:
                found += [(start + first, start + last) for first, last in parts]
            elif values or not beside or sentence in stated:
                found.append((start, stop))
        return found

    def _parts(
        self, text: str, sentence: str, kept: Mapping[str, str], held: Sequence[str]
    ) -> list[Range]:
        """Return what to remove of a sentence in which other facts stand: all but their clauses.

        A clause that refers to another one goes with it. Where a fact has no clause, only the
        values go."""
        values = _word_ranges(text, [*self.values, *held])
        own = [one for one in kept if one != sentence and one in sentence]
        clauses = _word_ranges(
            text, [kept[one] for one in own if kept[one] in self.beside or not _REFERS.match(one)]
        )
        if not clauses:
            return [(0, len(text))] if own else values
        edges = [0, *(edge for clause in clauses for edge in clause), len(text)]
        around = zip(edges[::2], edges[1::2], strict=True)
        return merged([*values, *(one for one in around if re.search(r"\w", text[slice(*one)]))])

    def applied(self, text: str) -> str:
        """Return a text without what is to be forgotten, "" where no word is left."""
        return without(text, self.ranges(text))

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON of the same length, without what is to be forgotten."""
        return changed_line(line, self.applied)


def sentences(text: str) -> list[Range]:
    """Return where the sentences of a text stand, which together are all of it."""
    starts = [0, *sentence_ends(text)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def comparable(text: str) -> str:
    """Return a text as it is compared: its words without case, accents and marks around them."""
    return " ".join(normalized_text(text).split()).strip(" .,;:!?\"'…。！？、，")


def holds(sentence: str, value: str) -> bool:
    """Return whether a comparable text has a value as words of its own."""
    wanted = comparable(value)
    if not wanted:
        return False
    if _UNSPACED.search(wanted):
        return wanted in sentence
    return re.search(rf"(?<!{_CHAR}){re.escape(wanted)}(?!{_CHAR})", sentence) is not None


def identifiers(text: str) -> list[str]:
    """Return the numbers and codes of a text that nobody would say by chance."""
    return _IDENTIFIER.findall(text)


def _names_the_same(sentence: str, said: str, number: str) -> bool:
    """Return whether a short number means the same thing in both sentences.

    It does if a content word of `said` is near it in `sentence`. A number directly before a content
    word is an amount ("42 km") and does not count, unless a shared word precedes it ("locker 214
    noted")."""
    wanted = {term for term in content_terms(said) if not re.search(r"\d", term)}
    content = frozenset(content_terms(sentence))
    units = {unit for _, unit, _ in _around(said, number)}
    return any(
        not wanted.isdisjoint(terms(last))
        or (
            (unit in units or content.isdisjoint(terms(unit)))
            and not wanted.isdisjoint(terms(near))
        )
        for last, unit, near in _around(sentence, number)
    )


def _around(sentence: str, number: str) -> Iterator[tuple[str, str, str]]:
    """Yield the words around each occurrence of a number: before it, after it, and nearby."""
    for match in _SHORT_NUMBER.finditer(sentence):
        if match.group() == number:
            before = _PART_END.split(sentence[max(0, match.start() - _NEAR_CHARS) : match.start()])[
                -1
            ]
            words = list(_WORD.finditer(before))[-_NEAR_WORDS:]
            start = words[0].start() if words else len(before)
            behind = _BEHIND.match(sentence, match.end(), match.end() + _NEAR_CHARS)
            unit, after = behind.groups("") if behind else ("", "")
            yield before[words[-1].start() :] if words else "", unit, f"{before[start:]}, {after}"


def without(text: str, ranges: Sequence[Range]) -> str:
    """Return a text without some ranges, "" where no word is left."""
    last, parts = 0, []
    for start, stop in ranges:
        parts += [text[last:start], LEFT_OUT if start > last or stop < len(text) else ""]
        last = stop
    left = "".join([*parts, text[last:]]).strip() if ranges else text
    return left if re.search(r"\w", left) else ""


def changed_line(line: bytes, change: Callable[[str], str]) -> bytes:
    """Return a line of JSON of the same length with its texts changed to shorter ones.

    Names, ids and times, which are no texts of a person, stay."""
    body: dict[str, Any] = orjson.loads(line)
    for name in ("item", "value", "statement", "words", "cues", "slot", "summary", "text", "doubt"):
        if name in body:
            body[name] = _changed(body[name], change)
    content = orjson.dumps(body)
    if content == orjson.dumps(orjson.loads(line)):
        return line
    if len(content) >= len(line):
        content = content.replace(LEFT_OUT.encode(), b"")
    return content + b" " * max(0, len(line) - 1 - len(content)) + b"\n"


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            name: one
            if name in ("type", "role", "id", "call_id", "name")
            else _changed(one, change)
            for name, one in value.items()
        }
    return [_changed(one, change) for one in value] if isinstance(value, list) else value


def _word_ranges(text: str, parts: Collection[str]) -> list[Range]:
    """Return where the words of some parts stand in a text, whatever is between these words."""
    found = []
    for value in parts:
        words = re.findall(r"\w+", value)
        if words:
            pattern = r"\W{0,3}".join(map(re.escape, words))
            found += [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
    return merged(found)
