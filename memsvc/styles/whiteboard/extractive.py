"""A board by rules: the most informative lines by kind; new statements replace old ones.

A line replaces another that it repeats, reverses or answers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import regex

from memsvc.core.analysis import is_question, own_terms
from memsvc.core.chunks import sentence_boundary_positions, sentences
from memsvc.core.facts import Identity
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import is_greeting_phrase
from memsvc.core.rules.own_words import is_speaker, pasted_spans, within
from memsvc.styles.whiteboard.entries import BoardEntry
from memsvc.styles.whiteboard.line_terms import (
    LineTerms,
    facts_of,
    has_answer,
    is_other_value,
    is_repeated,
    is_repeated_question,
    is_reversed,
    is_short,
    terms_of,
)

LINES_MAX: Final = 200
"""Lines of a board, and sentences of an update, that are compared; of more, the latest."""
LINE_CHARS_MAX: Final = 320
TERMS_MIN: Final = 2
HEADING_TOK: Final = 8
LEFT_OUT_NOTE: Final = (
    "(Older entries were left out to stay within the size limit; the history has them.)"
)

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
_DONE: Final = (
    r"\b(?:(?:is|are|has been|have been) (?:now |already |all )?(?:done|finished|completed|ready|booked|sent|written|prepared|called|fixed|ordered|paid|sorted)"
    r"|(?:i(?:'ve)?|we(?:'ve)?) (?:have )?(?:now |already |just )?(?:done|finished|completed|booked|sent|written|wrote|prepared|called|fixed|ordered|paid|sorted)"
    r"|(?:task )?done(?=:)|erledigt|fertig|abgeschlossen|(?:ist|sind|hab\w*) (?:\w+ ){0,3}?ge(?:bucht|schickt|schrieben|kauft|macht|zahlt|liefert)"
    r"|(?:está|están) (?:hech[oa]s?|list[oa]s?|terminad[oa]s?)|hecho(?=:)|(?:est|sont) (?:fait(?:es?|s)?|prête?s?|terminée?s?|finie?s?)|fait(?=:))\b"
    r"|\[[xX]\]|✅|已完成|完成了|做完了|搞定|済み|終わりました|終わった"
)
_FINISHED: Final = regex.compile(_DONE, regex.IGNORECASE)
"""Matches words that report a task as done."""
_PENDING: Final = regex.compile(
    r"\b(?:not|never|when|once|until|before|if|after|must|should|needs?|ha[sv]e to|will|please|want|almost|nearly|half|partly|cannot|no|nothing|none|due|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|to be"
    r"|nicht|kein\w*|fast|beinahe|halb|noch|wenn|sobald|bis|bevor|falls|muss|müssen|soll\w*|bitte|cuando|hasta|si|casi|debe\w*|quand|presque|dès|avant|pas|doit|doivent)\b|n't\b|没|未|请|之前|まだ|たら|[?？]",
    regex.IGNORECASE,
)
"""Matches words that mean that a task is still open, although words of `_DONE` occur."""
_USER_WORDS: Final = regex.compile(
    r"\b(?:i|i'm|i've|my|we|our|ich|mein|wir|je|mon|nous|yo|mi|mis)\b|私|僕|俺|我|名前|我叫",
    regex.IGNORECASE,
)
_NAME: Final = regex.compile(r"(?<!^)(?<![.!?:]\s)\b\p{Lu}\p{L}+|[\p{Katakana}ー]{2,}")
_NUMBER: Final = regex.compile(r"\p{N}")
_HEADING: Final = regex.compile(r"#{1,6}\s+|\*\*[^*\n]{1,80}\*\*:?\Z")
_LIST_MARK: Final = regex.compile(r"\A(?:[-*•・+]|\d{1,3}[.)])\s+")
_SPEAKER: Final = regex.compile(r" \(([^()\n]{1,64})\)\Z")
_LABEL: Final = regex.compile(
    r"(?P<name>\p{Lu}[\w.'-]{1,30}(?: \p{Lu}[\w.'-]{0,30})?):\s+(?=\S.*[.!?。！？]\s*\Z)"
)
"""How a line begins that says who speaks, unless the label names a topic, such as "Task"."""
_TOPIC_LABEL: Final = regex.compile(
    rf"{_RESOLVE_WORDS.pattern}|{_TO_DO.pattern}|{_DONE}"
    r"|\b(?:agenda|risks?|ideas?|goals?|results?|outcome|open|beschluss|beschlüsse|ergebnis|offen|risiko|idee|ziel|acuerdo|objetivo|résultat|objectif)\b",
    regex.IGNORECASE,
)
_CHAR: Final = regex.compile(r"\p{L}")
_DENSE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")


@frozen
class _BoardLine:
    order: int
    kind: int
    text: str
    role: str
    terms: LineTerms

    @property
    def text_line(self) -> str:
        return f"- {self.text} ({self.role})" if self.role else f"- {self.text}"


def extracted(
    board: str, new: Sequence[BoardEntry], *, tokens_max: int, count: Callable[[str], int]
) -> str:
    """Return the most informative lines of the board and new entries, within `tokens_max` tokens.

    Lines name their speakers and are sorted into decisions, tasks, open questions, facts and notes,
    each oldest first. A note at the end says if some were left out, now or earlier.

    Of lines that say nearly the same, or differ in one amount or time alone, the newest is kept.
    One that reverses an older one replaces it, as an answer does its question and a report that it
    is done a task. Greetings and
    fillers are left out. The same board and entries give the same board; "" where nothing was
    worth a line.
    """
    entry_lines = _entry_lines([*_by_speaker(new)])
    uses_facts = any(line.terms.facts for line in entry_lines)
    lines = _without_replaced(_board_lines(board, uses_facts=uses_facts), entry_lines)
    last = max((line.order for line in lines), default=0)
    first = min((line.order for line in lines), default=0)
    ranked = sorted(lines, key=lambda line: (-_weight(line, first, last), -line.order))
    note = f"\n\n{LEFT_OUT_NOTE}"
    remaining = tokens_max - HEADING_TOK * len(_KIND_NAMES) - count(note)
    chosen = []
    for line in ranked:
        cost = count(line.text_line + "\n")
        if cost <= remaining:
            chosen.append(line)
            remaining -= cost
    is_whole = len(chosen) == len(lines) < LINES_MAX and LEFT_OUT_NOTE not in board
    while chosen and count(text := _written(chosen) + ("" if is_whole else note)) > tokens_max:
        chosen.pop()
        is_whole = False
    return text if chosen else ""


def _written(lines: Sequence[_BoardLine]) -> str:
    blocks = []
    for kind, title in enumerate(_KIND_NAMES):
        of_kind = sorted((line for line in lines if line.kind == kind), key=lambda line: line.order)
        if of_kind:
            blocks.append("\n".join([f"## {title}", *(line.text_line for line in of_kind)]))
    return "\n\n".join(blocks)


def _board_lines(board: str, *, uses_facts: bool) -> Iterator[_BoardLine]:
    """Yield the lines of a board, also of one that a model wrote."""
    kind: int | None = None
    found = []
    for raw in board.splitlines():
        line = raw.strip()
        if heading := _HEADING.match(line):
            title = (
                line[heading.end() :].strip().rstrip(":")
                if line.startswith("#")
                else line.strip("*: ")
            )
            kind = _KIND_NAMES.index(title) if title in _KIND_NAMES else None
        elif line == LEFT_OUT_NOTE:
            continue
        elif _LIST_MARK.match(line):
            found.append((kind, _LIST_MARK.sub("", line)))
        else:
            found += [(kind, sentence) for sentence in sentences(line)]
    for order, (known, line) in enumerate(found[-LINES_MAX:]):
        speaker = _SPEAKER.search(line)
        text = _SPEAKER.sub("", line)
        if text:
            role = speaker[1] if speaker else ""
            facts = facts_of(text, role) if uses_facts else {}
            yield _line(order, text, role, _kind(text) if known is None else known, facts)


def _by_speaker(new: Iterable[BoardEntry]) -> Iterator[BoardEntry]:
    """Yield what each speaker says in entries whose lines begin with a name: "Jonas: I agree.".

    A speaker's words end at the next label or at a blank line."""
    for entry in new:
        role, lines = entry.role, list[str]()
        for line in entry.content.split("\n"):
            label = _LABEL.match(line)
            if label and is_speaker(label["name"]) and not _TOPIC_LABEL.search(label[0]):
                yield replace(entry, role=role, content="\n".join(lines))
                role, lines = label["name"], [line[label.end() :]]
            elif role != entry.role and not line.strip():
                yield replace(entry, role=role, content="\n".join(lines))
                role, lines = entry.role, []
            else:
                lines.append(line)
        yield replace(entry, role=role, content="\n".join(lines))


def _entry_lines(new: Sequence[BoardEntry]) -> list[_BoardLine]:
    found: list[_BoardLine] = []
    for entry in reversed(new):
        role = entry.role.replace("(", "[").replace(")", "]")
        pasted = pasted_spans(entry.content)
        for position, sentence in _sentences_from_end(entry.content):
            text = _limited(_LIST_MARK.sub("", sentence))
            kind = _kind(text)
            if not _has_content(text, kind):
                continue
            facts = {} if within(pasted, position) else facts_of(text, role)
            found.append(_line(2 * LINES_MAX - len(found), text, role, kind, facts))
            if len(found) == LINES_MAX:
                return found[::-1]
    return found[::-1]


def _sentences_from_end(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences and lines of a text, the last one first, and where each begins."""
    end = len(text)
    for start in (*reversed([*sentence_boundary_positions(text)]), 0):
        sentence = text[start:end].lstrip()
        if sentence:
            yield end - len(sentence), " ".join(sentence.split())
        end = start


def _limited(text: str) -> str:
    return text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 1].rstrip() + "…"


def _line(order: int, text: str, role: str, kind: int, facts: dict[Identity, str]) -> _BoardLine:
    return _BoardLine(order, kind, text, role, terms_of(text, facts))


def _kind(text: str) -> int:
    if is_question(text):
        return _QUESTION
    if _RESOLVE_WORDS.search(text):
        return _DECISION
    if _TO_DO.search(text) and not _is_done(text):
        return _TASK
    if _NUMBER.search(text) or _NAME.search(text) or _USER_WORDS.search(text):
        return _FACT
    return _NOTE


def _is_done(text: str) -> bool:
    return _FINISHED.search(text) is not None and _PENDING.search(text) is None


def _has_content(text: str, kind: int) -> bool:
    """Return whether a sentence has enough words to stand alone."""
    if not _CHAR.search(text):
        return False
    count = len(frozenset(own_terms(text)))
    return (
        count >= TERMS_MIN
        or (kind in (_DECISION, _FACT) and count > 0)
        or (count > 0 and len(text.split()) > 1 and not is_greeting_phrase(text))
    )


def _without_replaced(
    board_lines: Iterable[_BoardLine], entry_lines: Iterable[_BoardLine]
) -> list[_BoardLine]:
    """Return the lines without those that a new one repeats, reverses or answers."""
    kept = [*board_lines]
    for line in entry_lines:
        reversed_lines = _reversed_by(line, kept)
        replaced = {
            previous.order
            for previous in kept
            if previous in reversed_lines or _repeats(line, previous)
        }
        replaced |= {task.order for task in _done_by(line, kept)}
        kept = [previous for previous in kept if previous.order not in replaced]
        kept.append(_in_place_of(line, reversed_lines))
    return kept


def _reversed_by(line: _BoardLine, lines: Sequence[_BoardLine]) -> list[_BoardLine]:
    """Return the statements that a line reverses.

    One that does not say about what reverses the latest decision that it can mean, or else the
    latest statement.
    """
    if line.kind == _QUESTION:
        return []
    statements = [previous for previous in lines if previous.kind != _QUESTION]
    found = [
        one for one in statements if line.role == one.role and is_other_value(line.terms, one.terms)
    ]
    if found or not is_short(line.terms):
        reversed_lines = [one for one in statements if is_reversed(line.terms, one.terms)]
        return found + [one for one in reversed_lines if one not in found]
    old = line.terms.old
    intended = [
        one
        for one in statements
        if (one.terms.own & old if old else line.kind == one.kind == _DECISION)
    ]
    return sorted(intended, key=lambda one: (one.kind, -one.order))[:1]


def _done_by(line: _BoardLine, lines: Sequence[_BoardLine]) -> list[_BoardLine]:
    """Return the one task that a line reports as done; nothing if several match equally."""
    if not _is_done(line.text):
        return []
    done = frozenset(own_terms(_FINISHED.sub(" ", line.text)))
    counts = {
        task.order: len(done & task.terms.terms)
        for task in lines
        if task.kind == _TASK or task.text.startswith("[ ]")
    }
    most = max(counts.values(), default=0)
    best = [task for task in lines if counts.get(task.order) == most]
    return best if len(best) == 1 and 2 * most >= max(1, len(done)) else []


def _in_place_of(line: _BoardLine, reversed_lines: Sequence[_BoardLine]) -> _BoardLine:
    """Return a line in place of those that it reverses: a decision's reversal is a decision.

    One that says no more than what changed stands behind the line that it changes.
    """
    if not reversed_lines:
        return line
    previous = reversed_lines[-1]
    text = line.text
    if is_short(line.terms) and line.kind != _DECISION and not line.terms.facts:
        text = _limited(f"{previous.text} {text}")
    return replace(line, kind=min(line.kind, previous.kind), text=text)


def _repeats(line: _BoardLine, previous: _BoardLine) -> bool:
    if line.kind == _QUESTION:
        return previous.kind == _QUESTION and is_repeated_question(line.terms, previous.terms)
    if previous.kind == _QUESTION:
        return has_answer(line.terms, previous.terms)
    return is_repeated(line.terms, previous.terms)


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
