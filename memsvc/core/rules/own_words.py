"""Division of a user message into the user's own words and text that is worked on."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

_CLOSING = {
    "“": "”",
    "„": "“",
    "«": "»",
    "「": "」",
    "『": "』",
    "‹": "›",
    '"': '"',
    "`": "`",
    "'": "'",
}
_FENCES = ("```", "~~~")
_QUOTE = re.compile(r"```|~~~|\n|[\"`“”„«»「」『』‹›]|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})[^<>\n]{0,200}>")
TAGS_OPEN_MAX = 50
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)
_SPEAKER = re.compile(
    r"^[^\w\n]{0,4}(?P<label>(?-i:[^\W\d_a-zß-öø-ÿ])[\w.'-]{0,40}(?: (?-i:[^\W\d_a-zß-öø-ÿ])[\w.'-]{0,40})?)"
    r"[*_\])]{0,3}\s?[:：](?!//).*$",
    re.MULTILINE,
)
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


def worked_on_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a user message that are not the user's own words, in order, disjoint.

    Text that is quoted, code, or given to be translated, summarised, answered and the like. No
    statement and no instruction of the user's begins there; one that begins in own words may end
    in a quotation ("my favourite song is 'Angie'"). Call it once a message, on the text that the
    rules read, and ask `within` for each position."""
    spans = sorted(
        [
            *_quoted(text),
            *(_tagged(text) if "<" in text else ()),
            *(match.span() for match in _BLOCK_QUOTE.finditer(text)),
            *_spoken_lines(text),
        ]
    )
    return _merged(spans)


def own_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a user message that are the user's own words, in order, not blank."""
    spans, start = [], 0
    for left, right in (*worked_on_spans(text), (len(text), len(text))):
        if text[start:left].strip():
            spans.append((start, left))
        start = right
    return spans


def within(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Return whether a position lies in one of some ordered, disjoint spans."""
    at = bisect_right(spans, (position, 1 << 60))
    return at > 0 and position < spans[at - 1][1]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _spoken_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines that begin with the name of somebody who speaks."""
    for match in _SPEAKER.finditer(text):
        if match["label"].casefold() not in _LABELS:
            yield match.span()


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    closing, start = "", 0
    for mark in _QUOTE.finditer(text):
        kind = mark[0]
        if closing:
            if kind == closing:
                yield start, mark.end()
            if kind == closing or (kind == "\n" and closing not in _FENCES):
                closing = ""
        elif kind in _FENCES or (kind in _CLOSING and not _is_word_end(text, mark)):
            closing, start = _CLOSING.get(kind, kind), mark.start()
    if closing in _FENCES:
        yield start, len(text)


def _is_word_end(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is the apostrophe after a word, as in the dogs' house."""
    return mark[0] == "'" and text[mark.start() - 1 : mark.start()].isalnum()


def _tagged(text: str) -> Iterator[tuple[int, int]]:
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
