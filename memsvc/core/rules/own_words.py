"""Division of a user message into the user's own words and text that is worked on."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from memsvc.core.chunks import merged
from memsvc.core.frozen import frozen
from memsvc.core.rules import text_requests as words
from memsvc.core.rules.sentence_model import judge_once
from memsvc.core.rules.text_requests import is_foreign
from memsvc.core.text_cache import TextCache

Span = tuple[int, int]

_CLOSING_QUOTES = {
    "“": "”",
    "„": "“",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "‹": "›",
    "‚": "‘",
    '"': '"',
    "`": "`",
    "'": "'",
}
QUOTATION_MARKS = frozenset(_CLOSING_QUOTES) - {"`"}
_FENCES = ("```", "~~~")
_MARK = re.compile(r"```|~~~|\n|[\"`“”„«»「」『』‹›‚‘]|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?=[\s/>])[^<>\n]{0,200}>")
TAGS_OPEN_MAX = 50
PASTED_CHARS_MAX = 1000
PASTED_MIN = 1.0
"""Judgement from which on a message of at most so many characters holds a text to work on."""
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,8}(?:>|// ).*$", re.MULTILINE)
_VERSES = re.compile(
    r"(?:(?<=[.!?:：] )|^)(?:[^/\n.!?:：]*\w+ \w+ \w+[^/\n.!?:：]*,? / ){2}[^/\n]+|(?:(?<=[.!?:：] )|^)[^/\n.!?:：]+[,;] / [^/\n]+",
    re.MULTILINE,
)
"""Lines of a poem in one line."""

_LINE = re.compile(r"^.*\S.*$", re.MULTILINE)
_STAMP = (
    r"[\[(<]?(?:(?:\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4})[ T,]{1,2})?"
    r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?: ?[ap]m)?[\])>]?"
)
_LABEL = re.compile(
    rf"[^\w\n]{{0,4}}(?P<stamp>{_STAMP}\s{{0,3}}[-–]?\s{{0,2}})?(?P<label>[^\W\d_](?:[\w.'’&-]| (?=\S)){{0,40}}?)"
    rf"[*_\])]{{0,3}}\s?(?P<after>{_STAMP})?[:：](?!//|\d)\s*(?P<said>.?)"
)
_SPEAKER = re.compile(
    r"\s{0,8}(?:@[\w.-]{1,40}\s?[:：]|[\w.-]{2,20}> \S|—\s?[^\W\d_])|AITA\b|.{0,80}?\b(?:I|[Mm]e) ?\(\d\d ?[MFmf]\)|\s{0,8}[\u3040-\u30ff\u4e00-\u9fffA-Za-z]{1,8}[「『].*[」』]\s{0,8}$"
)
_NAME = re.compile(
    r"[^\W\d_a-zß-öø-ÿ][\w.'’&-]{0,40}(?: [^\W\d_a-zß-öø-ÿ][\w.'’&-]{0,40}){0,2}"
    r"|(?!(?:I|We|Just|Also|Already|Newly|Recently|Finally)\b)[A-Z][a-z]+ (?:\w+ed|says|said|wrote|writes)"
)
_NO_NAME = re.compile(r"(?:ing|tion|ment|ness|ung|heit|keit|schaft|weise|ción|mente|dad)$")
_NO_CJK_NAME = re.compile(r"[我你的了是在有不这那一私僕俺をはがもで]|これ|それ|だけ|ひと")
_ITEM = re.compile(r"\s{0,8}(?:[-*•・·–]|\d{1,2}[.)]|[A-Z][.)]|★)\s?(?=\S)")
_ITEM_NUMBER = re.compile(r"[^\W\d_]{3,20} (?:\d{1,2}|[A-Z])")
"""The label of one of several texts."""
_SEPARATOR = re.compile(r"(?<= )(?:([/=*_~#|+-])\1{2,}|>{1,3}|//|--)(?= )|——")
"""What stands between a text and a request in a line."""
_LOG_LINE = re.compile(rf"\s{{0,4}}{_STAMP}\s")
_EMAIL_HEADER = re.compile(
    r"\W{0,3}(?:subject|betreff|asunto|objet|件名|主题|发件人|差出人)\s?[:：]|.{0,60}[:：].{0,60}@",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"^\W{0,3}(?:you are|you're|du bist|sie sind|eres|tu es|vous êtes) (?:now |jetzt |ahora |maintenant )?"
    r"(?-i:[^\W\d_a-zß-öø-ÿ])\w+[,.]|^\W{0,3}(?:你是|你现在是|あなたは).{1,12}[，。、]",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\b(?:(?:that|this)(?! (?!(?:sentence|text|lines?|into|in|to|for|from|please|sounds?|back)\b)\w)|those|it|the above|das|den satz|eso|esa frase|lo|ça|cette phrase|cela)\b"
    r"|[这那](?![个份封张篇件]\w)|これ|この文(?!章)|上",
    re.IGNORECASE,
)
"""Words for the text before them; "this letter" is another one, which is not in the message."""
_CHANGE_OF_SUBJECT = re.compile(
    r"\W*(?:anyway|anyways|also|btw|by the way|other thing|separately|jedenfalls|übrigens|anderes thema|otra cosa|por cierto|en fin|sinon|au fait|bref)\b"
    r"|\W*(?:对了|话说|另外|ところで|それはそうと)",
    re.IGNORECASE,
)
"""How a request begins that is not about what stands before it."""
_JOINED = re.compile(r"(?:[\s,;、]|\b(?:and|or|und|oder|y|o|et|ou)\b)*")
"""Between quotations, which are blanked out."""
CJK_NAME_CHARS = 6
COMMENTS_MAX = 3
SPANS_MAX = 20
TEXTS_CACHED = 64
TITLE_CHARS_MAX = 60
"""Remarks before or after a text."""
QUOTED_TEXT_CHARS = 24
"""A quotation of this length can be what a request is about."""
PLAY_CHARS_MAX = 400
"""A longer message is no play that begins."""
TEXT_SENTENCES = 3
"""Sentences after a request, in its own line, that are a text."""


def quoted_spans(text: str) -> list[Span]:
    """Return the parts of a text in quotation marks, in code, between tags or behind ">", in order.

    Quotation marks apply within a line; a fence or a tag that is never closed extends to the
    end."""
    quotes = (match.span() for match in _BLOCK_QUOTE.finditer(text))
    return merged([*_quoted(text), *(_tagged(text) if "<" in text else ()), *quotes])


def masked(text: str, spans: Iterable[Span]) -> str:
    """Return a text of the same length with spaces in place of some spans."""
    parts, start = [], 0
    for left, right in spans:
        parts += [text[start:left], re.sub(r"[^\n]", " ", text[left:right])]
        start = right
    return "".join(parts) + text[start:]


def _quoted(text: str) -> Iterator[Span]:
    closing, start = "", 0
    for mark in _MARK.finditer(text):
        kind = mark[0]
        if closing:
            if kind == closing:
                yield start, mark.end()
            if kind == closing or (kind == "\n" and closing not in _FENCES):
                closing = ""
        elif kind in _FENCES or (kind in _CLOSING_QUOTES and not _is_word_end(text, mark)):
            closing, start = _CLOSING_QUOTES.get(kind, kind), mark.start()
    if closing in _FENCES:
        yield start, len(text)


def _is_word_end(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is the apostrophe after a word, as in the dogs' house."""
    return mark[0] == "'" and text[mark.start() - 1 : mark.start()].isalnum()


def _tagged(text: str) -> Iterator[Span]:
    names: list[str] = []
    start = 0
    for tag in _TAG.finditer(text):
        name = tag["name"].casefold()
        if not tag["close"]:
            start = start if names else tag.start()
            names += [name] if len(names) < TAGS_OPEN_MAX else []
        elif name in names:
            del names[names.index(name) :]
            if not names:
                yield start, tag.end()
    if names:
        yield start, len(text)


_pasted = TextCache[Sequence[Span]](TEXTS_CACHED)


def pasted_spans(text: str) -> Sequence[Span]:
    """Return the parts of a user message that are not the user's own words, in order, disjoint.

    Text that is quoted, code, or given to be translated, summarised, answered and the like. No
    statement and no instruction of the user's begins there; one that begins in own words may end
    in a quotation ("my favourite song is 'Angie'"). Call it once a message, on the text that the
    rules read, and ask `within` for each position. The latest are cached, as rules and changes of a
    turn are read one after the other."""
    return _pasted.get(text, _pasted_spans)


def _pasted_spans(text: str) -> Sequence[Span]:
    if _gives_roles(text):
        return [(0, len(text))]
    text = _SEPARATOR.sub(lambda mark: "\n\n".ljust(len(mark[0])), text)
    quoted = quoted_spans(text)
    if "\n" not in text and not (words.COLON.search(text) or words.SENTENCE_END.search(text)):
        return quoted  # one sentence
    paragraphs = _paragraphs(text, quoted)
    examples = ((match.end(), len(text)) for match in words.EXAMPLE.finditer(text))
    verses = (match.span() for match in _VERSES.finditer(text)) if " / " in text else ()
    spans = merged(
        [*quoted, *verses, *examples, *_structured(paragraphs), *_given(text, paragraphs)]
    )
    may_be_pasted = (
        not holds_text(text, spans)
        and len(text) <= PASTED_CHARS_MAX
        and not words.tells_of_oneself(text)
    )
    if may_be_pasted and judge_once(text.strip()).pasted > PASTED_MIN:
        return [(0, len(text))]
    return spans


def _gives_roles(text: str) -> bool:
    """Return whether a message begins a play, in which "I" is whom the user plays."""
    low = text[: PLAY_CHARS_MAX + 1].lower()
    return (
        len(low) <= PLAY_CHARS_MAX
        and words.ROLES.search(low) is not None
        and words.FIRST_PERSON.search(low) is not None
    )


def own_spans(text: str) -> list[Span]:
    """Return the parts of a user message that are the user's own words, in order, not blank.

    A name or short title in quotation marks is part of them."""
    spans, start = [], 0
    pasted = [span for span in pasted_spans(text) if not _is_title(text, span, QUOTED_TEXT_CHARS)]
    for left, right in (*pasted, (len(text), len(text))):
        if text[start:left].strip():
            spans.append((start, left))
        start = right
    return spans


def within(spans: Sequence[Span], position: int) -> bool:
    """Return whether a position lies in one of some ordered, disjoint spans."""
    at = bisect_right(spans, (position, 1 << 60))
    return at > 0 and position < spans[at - 1][1]


def own_end(text: str, spans: Sequence[Span], start: int, end: int) -> int:
    """Return where the own words of a sentence end that begins in them.

    A text that it introduces is none of it, a name or title in quotation marks is."""
    at = bisect_right(spans, (start, 1 << 60))
    for left, right in spans[at : at + SPANS_MAX]:
        if left < end and not _is_title(text, (left, right)):
            return left
    return end


def holds_text(text: str, spans: Sequence[Span]) -> bool:
    """Return whether more than names and titles is worked on in a message."""
    return any(not _is_title(text, span) for span in spans)


def statement_parts(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the parts of a sentence beside a text that is worked on that tell something lasting.

    All of one that is not about the text; else its clauses in the first person: "Sum this up, I'm
    the chair" tells the second."""
    sentence = text[start:end]
    if not words.is_about_text(sentence):
        yield start, end
        return
    parts = list(words.PART.finditer(sentence))
    if len(parts) == 1 and sentence.rstrip().endswith((":", "：")):
        return  # it leads to the text
    for part in parts:
        told = part["told"].lower()
        if words.is_statement(told) and not words.is_about_text(told):
            yield start + part.start("told"), start + part.end("told")


def _is_title(text: str, span: Span, chars_max: int = TITLE_CHARS_MAX) -> bool:
    left, right = span
    is_quoted = text[left] in QUOTATION_MARKS and right - left <= chars_max
    return is_quoted and not words.FIRST_PERSON.search(text[left:right].lower())


@frozen
class _Line:
    """A line that is not blank, its quotations blanked out in `own`.

    `kind` is what it looks like: "header" (of a mail), "speech" (of a speaker), "stamped" (of a
    log), "quote" (hardly anything else), "row" (of a table), "item" (of a list or form), "own" (a
    remark with a label) or "".
    `request` is how clearly a sentence of it asks to work on a text, from 0 to 3, and `at` where
    that sentence begins."""

    start: int
    end: int
    own: str
    kind: str
    request: int
    at: int


Lines = Sequence[_Line]


def _paragraphs(text: str, quoted: Sequence[Span]) -> list[list[_Line]]:
    own = masked(text, quoted)
    paragraphs: list[list[_Line]] = []
    matches = list(_LINE.finditer(text))
    for number, match in enumerate(matches):
        start, end = match.span()
        if not number or text.count("\n", matches[number - 1].end(), start) > 1:
            paragraphs.append([])
        kind = _kind(match[0], own[start:end])
        if (
            kind in ("speech", "own")
            and paragraphs[-1]
            and (before := paragraphs[-1][-1].kind) in ("speech", "own")
        ):
            kind = before  # the first of several labels tells what they are
        outer = min(number, len(matches) - 1 - number) < words.OUTER_MAX
        request, at = (
            words.find_request(own[start:end]) if outer and kind in ("", "own", "quote") else (0, 0)
        )
        paragraphs[-1].append(_Line(start, end, own[start:end], kind, request, at))
    return paragraphs


def _kind(line: str, own: str) -> str:
    if len(line) > 3 * len(own.strip()):
        return "quote"
    if words.HEADER.match(line):
        return "header"
    if _SPEAKER.match(line):
        return "speech"
    label = _LABEL.match(line)
    if label is not None and not (
        words.VERB.search(label["label"].lower()) or words.REMEMBER.search(label["label"].lower())
    ):
        if label["stamp"] or label["after"] or is_speaker(label["label"]):
            return "speech"
        if label["label"].casefold() in words.OWN_LABELS:
            return "own"
        if (
            label["said"]
            and len(label["label"]) <= words.LABEL_CHARS_MAX
            and not words.request_score(label["label"] + ":")
        ):
            return "item"
    if _LOG_LINE.match(line):
        return "stamped"
    if line.count("|") > 1 or line.count("\t") > 1:
        return "row"
    return "item" if _ITEM.match(line) else ""


def is_speaker(label: str) -> bool:
    """Return whether a label before a colon names a speaker: "Jonas", "User", not "Task"."""
    folded = label.casefold()
    if words.ROLE.fullmatch(folded):
        return True
    if _ITEM_NUMBER.fullmatch(label):
        return folded.split()[0] not in words.OWN_LABELS
    if _NO_NAME.search(folded) or not words.OWN_LABELS.isdisjoint((folded, *folded.split())):
        return False
    if label[0] > "\u3000":
        return len(label) <= CJK_NAME_CHARS and _NO_CJK_NAME.search(label) is None
    return _NAME.fullmatch(label) is not None


def _structured(paragraphs: Sequence[Lines]) -> Iterator[Span]:
    """Yield the lines of speakers, of a log and of a table, which need no request."""
    for lines in paragraphs:
        for kind, count_min in (("speech", 1), ("stamped", 2), ("row", 2)):
            found = [line for line in lines if line.kind == kind]
            if len(found) >= count_min:
                yield found[0].start, found[-1].end


def _given(text: str, paragraphs: Sequence[Lines]) -> Iterator[Span]:
    """Yield the parts that are given to be worked on."""
    start = _email_start(paragraphs)
    if start is not None:
        yield from _without_comments(text, paragraphs[start:], paragraphs[:start])
        return
    requests = [
        (line.request, number)
        for number, paragraph in enumerate(paragraphs)
        for line in paragraph
        if line.request
    ]
    if not requests:
        return
    # the request stands at the head or, if it is clearer there, at the end
    number = max(
        requests, key=lambda pair: (pair[0], pair[1] == 0, pair[1] == len(paragraphs) - 1)
    )[1]
    paragraph = paragraphs[number]
    line = max(paragraph, key=lambda line: line.request)
    split = paragraph.index(line) + 1
    inline = _after_colon(text, line)
    if inline is not None:
        yield inline
    after = (
        [paragraph[split:], *paragraphs[number + 1 :]]
        if split < len(paragraph)
        else paragraphs[number + 1 :]
    )
    before = [*paragraphs[:number], paragraph[: split - 1]] if split > 1 else paragraphs[:number]
    if (
        len(before) == 1
        and len(_own(before[0])) < TITLE_CHARS_MAX
        and words.GREETING.match(_own(before[0]))
    ):
        before = []
    ends_in_colon = line.own.rstrip().endswith((":", "："))
    if after and (
        not before
        or number == 0
        or ends_in_colon
        or _text_score(after, paragraph) >= _text_score(before, paragraph)
    ):
        given, frame = after, [*before, [line]]
    else:
        given, frame = before, [[line], *after]
    if inline is None and not given:
        yield from _in_line(line)
    elif given and (
        inline is not None
        or line.request + _text_score(given, frame[0]) > 2
        or (ends_in_colon and line.request > 1)
    ):
        yield from _without_comments(text, given, frame, found=inline is not None)


def _email_start(paragraphs: Sequence[Lines]) -> int | None:
    """Return the number of the paragraph with which somebody's mail or letter begins."""
    heads = [
        number
        for number, paragraph in enumerate(paragraphs)
        for line in paragraph
        if line.kind == "header"
    ]
    if heads and (
        (heads.count(heads[0]) > 1 and paragraphs[heads[0]][-1].kind != "header")
        or any(_EMAIL_HEADER.match(line.own) for line in paragraphs[heads[0]])
    ):
        return heads[0]
    for number, paragraph in enumerate(paragraphs):
        greeting = words.GREETING.match(paragraph[0].own)
        if _ROLE.match(paragraph[0].own) or (greeting and number):
            return number
        if number < len(paragraphs) - 1 and (
            (greeting and greeting["formal"])
            or any(words.CLOSING.match(line.own) for line in paragraph[1:])
        ):
            return number
    return None


def _text_score(given: Sequence[Lines], frame: Lines) -> int:
    """Return how much paragraphs look like a text that somebody else wrote, from 0 to 3."""
    lines = [line for paragraph in given for line in paragraph if line.kind != "quote"]
    own = "\n".join(line.own for line in lines)
    if (
        words.GREETING.match(own)
        or words.CLOSING.search(own)
        or any(line.kind not in ("", "item", "own") for line in lines)
    ):
        return 3
    if is_foreign(own, _own(frame)):
        return 3
    if sum(line.kind in ("item", "own") for line in lines) > len(lines) // 2:
        return 3 if any(line.request > 1 for line in frame) else 1
    short = sum(len(line.own) < 70 and line.own.rstrip()[-1:] not in ".。:" for line in lines)
    if short > 2 and short > len(lines) // 2:
        return 3  # verses
    return 2 if len(words.SENTENCE_END.findall(own + " ")) >= TEXT_SENTENCES else 1


def _after_colon(text: str, line: _Line) -> Span | None:
    """Return what stands behind the first colon after a request, on the same line."""
    if not line.request:
        return None
    for colon in words.COLON.finditer(line.own, line.at):
        rest = line.own[colon.end() :]
        if rest.strip():
            if line.request == 1 and (
                "?" in rest or not words.FIRST_PERSON.search(rest[:60].lower())
            ):
                return None
            start = line.start + colon.end()
            joined = _JOINED.match(rest)
            quoted = text[start : start + (joined.end() if joined else 0)].rstrip()
            if len(quoted) >= QUOTED_TEXT_CHARS:
                return start, start + len(quoted)
            last = rest.rfind(" " * QUOTED_TEXT_CHARS) + 1  # a quotation ends the text
            return start, start + last + QUOTED_TEXT_CHARS - 1 if last else line.end
    return None


def _in_line(line: _Line) -> Iterator[Span]:
    """Yield the sentences beside a request in its line, if they are a text of their own."""
    if line.request < 2 or " " * QUOTED_TEXT_CHARS in line.own:
        return
    after = [match.end() for match in words.SENTENCE_END.finditer(line.own, line.at)]
    before = len(words.SENTENCE_END.findall(line.own, 0, line.at))
    is_letter = bool(after) and words.GREETING.match(line.own[after[0] :]) is not None
    sentences_min = 1 if is_letter else 2 if line.request == 3 else TEXT_SENTENCES
    is_remark = (
        not is_letter
        and len(after) >= sentences_min
        and (
            words.GENERAL.search(line.own, line.at, after[0])
            or words.COMMENT.search(line.own[after[0] : [*after, len(line.own)][1]])
        )
    )
    if len(after) >= sentences_min and not is_remark:
        yield line.start + len(line.own[: after[0]].rstrip()), line.end
    elif (line.at and not _CHANGE_OF_SUBJECT.match(line.own, line.at)) and (
        before >= TEXT_SENTENCES or (line.request == 3 and _BACK.search(line.own, line.at))
    ):
        yield line.start, line.start + line.at


def _without_comments(
    text: str, given: Sequence[Lines], frame: Sequence[Lines], *, found: bool = False
) -> Iterator[Span]:
    """Yield paragraphs without the user's remarks before and after the text in them.

    `found` says that another text was found: they may be remarks altogether."""
    paragraphs = [list(paragraph) for paragraph in given]
    is_first = not frame or frame[0][0].start > given[0][0].start
    matches = list(words.CLOSING.finditer(text, given[0][0].start, given[-1][-1].end))
    closed = matches[-1].end() if matches else 0
    for _ in range(COMMENTS_MAX):
        if len(paragraphs) > (not found) and _is_comment(paragraphs[-1], given, frame, closed):
            paragraphs.pop()
    for _ in range(COMMENTS_MAX):
        if len(paragraphs) > 1 and is_first and _is_comment(paragraphs[0], given, frame, closed):
            paragraphs.pop(0)
    if not paragraphs:
        return
    last = paragraphs[-1]
    if len(last) > 1 and last[0].kind not in ("", "header") and not last[-1].kind:
        is_remark = last[0].kind == "quote" or _is_clear_comment(last[-1:])
        last = last[:-1] if is_remark else last
    yield paragraphs[0][0].start, last[-1].end


def _is_comment(
    paragraph: Lines, given: Sequence[Lines], frame: Sequence[Lines], closed: int
) -> bool:
    """Return whether a paragraph beside a text speaks about it; a letter in it ends at `closed`."""
    own = _own(paragraph)
    if (
        any(line.kind not in ("", "item", "own") for line in paragraph)
        or (paragraph[0].start < closed and not any(line.request > 1 for line in paragraph))
        or words.GREETING.match(own)
    ):
        return False
    if closed or _is_clear_comment(paragraph):
        return True
    others = [line for part in given for line in part if line not in paragraph]
    if 2 * sum(bool(line.kind) for line in others) > len(others):
        return not any(line.kind for line in paragraph)
    rest, asked = _own(others), _own([line for part in frame for line in part])
    return bool(rest) and is_foreign(rest, own) and not is_foreign(own, asked)


def _own(lines: Lines) -> str:
    return " ".join(line.own.strip() for line in lines)


def _is_clear_comment(lines: Lines) -> bool:
    own = _own(lines)[: words.SENTENCE_CHARS_READ]
    return any(line.request for line in lines) or words.COMMENT.search(own) is not None
