"""A board by rules: the most informative lines by kind; new statements replace old ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from memsvc.core.analysis import is_question, terms
from memsvc.core.sentences import sentences
from memsvc.styles.whiteboard.entries import BoardEntry

LINES_MAX: Final = 200
"""Lines of a board, and sentences of an update, that are compared; of more, the latest."""
LINE_CHARS_MAX: Final = 320
TERMS_MIN: Final = 2
REPEATED_SHARE: Final = 0.8
"""Share of the longer line's words that two lines share when they say the same."""
SUPERSEDED_SHARE: Final = 0.5
"""Share of the shorter line's words for a line that itself says that something changed."""
ANSWER_SHARE: Final = 0.5
HEADING_TOK: Final = 8

_KIND_NAMES: Final = ("Decisions", "Tasks", "Open questions", "Facts", "Notes")
_DECISION, _TASK, _QUESTION, _FACT, _NOTE = range(5)
_KIND_WEIGHTS: Final = {_DECISION: 5.0, _FACT: 4.0, _TASK: 4.0, _QUESTION: 3.0, _NOTE: 1.0}
_ROLE_WEIGHTS: Final = {"user": 1.0, "assistant": 0.8, "tool": 0.5, "system": 0.5}
_RECENT_WEIGHT: Final = 3.0
"""Extra weight of the newest line over the oldest."""

_RESOLVE_WORDS: Final = regex.compile(
    r"\b(?:decid\w*|decision|agreed?|approved?|we(?:'ll| will| are going to)|let'?s"
    r" (?:go|use|take|do)|go(?:ing)? with"
    r"|chose|chosen|settled on|confirmed|rejected|beschlossen|entschieden|entscheidung|einigten"
    r"|décidé|décision|convenu"
    r"|decidido|decidimos|decisión|acordado)\b"
    r"|決定|決め|決まり|ことにし|にしました|にします|採用|合意|承認|却下|决定|同意|采用|确定|选择了|选定|批准",
    regex.IGNORECASE,
)
_TO_DO: Final = regex.compile(
    r"\b(?:to-?do|action item|task|need(?:s)? to|have to|has to|must|should|please|remember"
    r" to|don'?t forget|deadline"
    r"|due|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|will"
    r" (?:send|write|call|fix|prepare|check|review|finish)"
    r"|aufgabe|muss|müssen|bitte|frist|tâche|doit|devons|s'il vous plaît|tarea|debe|debemos|por"
    r" favor)\b"
    r"|必要があ|してください|お願い|タスク|締め切り|締切|期限|までに|宿題|需要|请|任务|待办|截止|之前完成|必须",
    regex.IGNORECASE,
)
_USER_WORDS: Final = regex.compile(
    r"\b(?:i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi|mis)\b|私|僕|俺|我|名前|我叫",
    regex.IGNORECASE,
)
_NAME: Final = regex.compile(r"(?<!^)(?<![.!?:]\s)\b\p{Lu}\p{L}+|[\p{Katakana}ー]{2,}")
_NUMBER: Final = regex.compile(r"\p{N}")
_CHANGED: Final = regex.compile(
    r"\b(?:now|no longer|not any"
    r" ?more|instead|actually|chang\w+|switch\w*|moved|postponed|cancel\w*|revers\w+"
    r"|correction|rather than|scrapped|jetzt|nicht"
    r" mehr|stattdessen|doch|geändert|verschoben|maintenant|ne plus"
    r"|finalement|changé|ahora|ya no|en vez|cambi\w+)\b"
    r"|変更|やめ|取り消|中止|延期|ではなく|じゃなくて|改め|取消|改为|改成|不再|推迟|而不是",
    regex.IGNORECASE,
)
_VALUE: Final = regex.compile(
    r"\b[\p{Sc}#]?\p{N}[\p{N}.,:/%-]*(?:st|nd|rd|th|am|pm|k|%)?\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tomorrow|tonight)\b"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
    r"|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi"
    r"|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b"
    r"|[\p{N}〇一二三四五六七八九十百千]+(?=[月日年時时点分円元人個个])|[月火水木金土日]曜|(?<=周|星期)[一二三四五六日天]",
    regex.IGNORECASE,
)
"""Values that may differ in a repeated line: numbers, times and days."""
_HEADING: Final = regex.compile(r"#{1,6}\s+|\*\*[^*\n]{1,80}\*\*:?\Z")
_LIST_MARK: Final = regex.compile(r"\A(?:[-*•・+]|\d{1,3}[.)])\s+")
_SPEAKER: Final = regex.compile(r" \(([^()\n]{1,64})\)\Z")
_CHAR: Final = regex.compile(r"\p{L}")
_DENSE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")


@dataclass(frozen=True, slots=True)
class _BoardLine:
    order: int
    kind: int
    text: str
    role: str
    terms: frozenset[str]
    frame: tuple[str, ...]
    changes: bool

    @property
    def text_line(self) -> str:
        return f"- {self.text} ({self.role})" if self.role else f"- {self.text}"


def extracted(
    board: str, new: Sequence[BoardEntry], *, tokens_max: int, count: Callable[[str], int]
) -> str:
    """Return the most informative lines of the board and new entries, within `tokens_max` tokens.

    Lines name their speakers and are sorted into decisions, tasks, open questions, facts and notes,
    each oldest first.

    Of lines that say nearly the same, or differ in numbers and days alone, the newest is kept. One
    that says that something changed replaces an older one about the same, as an answer does its
    question. Greetings and fillers are left out. The same board and entries give the same board; ""
    where nothing was worth a line.
    """
    lines = _without_replaced([*_board_lines(board), *_entry_lines(new, start=LINES_MAX)])
    last = max((line.order for line in lines), default=0)
    first = min((line.order for line in lines), default=0)
    ranked = sorted(lines, key=lambda line: (-_weight(line, first, last), -line.order))
    remaining = tokens_max - HEADING_TOK * len(_KIND_NAMES)
    chosen: list[_BoardLine] = []
    for line in ranked:
        cost = count(line.text_line + "\n")
        if cost <= remaining:
            chosen.append(line)
            remaining -= cost
    while chosen and count(text := _written(chosen)) > tokens_max:
        chosen.pop()
    return text if chosen else ""


def _written(lines: Sequence[_BoardLine]) -> str:
    blocks = []
    for kind, title in enumerate(_KIND_NAMES):
        of_kind = sorted((line for line in lines if line.kind == kind), key=lambda line: line.order)
        if of_kind:
            blocks.append("\n".join([f"## {title}", *(line.text_line for line in of_kind)]))
    return "\n\n".join(blocks)


def _board_lines(board: str) -> Iterator[_BoardLine]:
    """Yield the lines of a board, also of one that a model wrote."""
    kind: int | None = None
    found: list[tuple[int | None, str]] = []
    for raw in board.splitlines():
        line = raw.strip()
        if heading := _HEADING.match(line):
            title = (
                line[heading.end() :].strip().rstrip(":")
                if line.startswith("#")
                else line.strip("*: ")
            )
            kind = _KIND_NAMES.index(title) if title in _KIND_NAMES else None
        elif _LIST_MARK.match(line):
            found.append((kind, _LIST_MARK.sub("", line)))
        else:
            found += [(kind, sentence) for sentence in sentences(line)]
    for order, (known, line) in enumerate(found[-LINES_MAX:]):
        speaker = _SPEAKER.search(line)
        text = _SPEAKER.sub("", line)
        if text:
            yield _line(order, text, speaker[1] if speaker else "", known)


def _entry_lines(new: Sequence[BoardEntry], *, start: int) -> list[_BoardLine]:
    found: list[_BoardLine] = []
    for entry in new:
        for sentence in sentences(entry.content):
            text = _LIST_MARK.sub("", sentence)
            limited = (
                text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 1].rstrip() + "…"
            )
            line = _line(
                start + len(found), limited, entry.role.replace("(", "[").replace(")", "]"), None
            )
            if _has_content(line):
                found.append(line)
    return found[-LINES_MAX:]


def _line(order: int, text: str, role: str, kind: int | None) -> _BoardLine:
    """Return a line.

    Its `frame` are its words without values, `changes` whether it states a change.
    """
    frame, changes = tuple(terms(_VALUE.sub(" ", text))), _CHANGED.search(text) is not None
    return _BoardLine(
        order,
        _kind(text) if kind is None else kind,
        text,
        role,
        frozenset(terms(text)),
        frame,
        changes,
    )


def _kind(text: str) -> int:
    if is_question(text):
        return _QUESTION
    if _RESOLVE_WORDS.search(text):
        return _DECISION
    if _TO_DO.search(text):
        return _TASK
    if _NUMBER.search(text) or _NAME.search(text) or _USER_WORDS.search(text):
        return _FACT
    return _NOTE


def _has_content(line: _BoardLine) -> bool:
    """Return whether a sentence has enough words to stand alone."""
    if not _CHAR.search(line.text):
        return False
    return len(line.terms) >= TERMS_MIN or (line.kind in (_DECISION, _FACT) and bool(line.terms))


def _without_replaced(lines: Sequence[_BoardLine]) -> list[_BoardLine]:
    """Return the lines without those that a later one repeats, supersedes or answers."""
    kept: list[_BoardLine] = []
    for line in lines:
        kept = [previous for previous in kept if not _replaces(line, previous)]
        kept.append(line)
    return kept


def _replaces(line: _BoardLine, previous: _BoardLine) -> bool:
    shared = len(line.terms & previous.terms)
    min_terms = min(len(line.terms), len(previous.terms))
    if not shared:
        return line.frame == previous.frame != ()
    if previous.kind == _QUESTION:
        if line.kind == _QUESTION:
            return shared >= REPEATED_SHARE * min_terms
        return shared >= ANSWER_SHARE * len(previous.terms)
    if line.kind == _QUESTION:
        return False
    if (
        shared >= REPEATED_SHARE * max(len(line.terms), len(previous.terms))
        or line.frame == previous.frame
    ):
        return True
    return line.changes and shared >= SUPERSEDED_SHARE * min_terms


def _weight(line: _BoardLine, first: int, last: int) -> float:
    age = (last - line.order) / max(1, last - first)
    weight = _KIND_WEIGHTS[line.kind] + _RECENT_WEIGHT * (1 - age) * _ROLE_WEIGHTS.get(
        line.role, 1.0
    )
    weight += 0.5 * (_NAME.search(line.text) is not None) + 0.5 * (
        _NUMBER.search(line.text) is not None
    )
    dense = len(_DENSE.findall(line.text)) * 2 > len(line.text)
    return weight - (
        0.5 if len(line.text) > (LINE_CHARS_MAX // 4 if dense else LINE_CHARS_MAX // 2) else 0.0
    )
