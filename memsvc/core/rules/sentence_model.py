"""What a sentence is, by its words: something that lasts, a standing instruction, or neither.

And whether it says something that always matters: of the speaker's health or food, or how to
address them; and of a question, whether it asks for what was said or done before.

A linear model: each word, its beginning, each pair of words, the first and last ones and the look
of a sentence have a weight of their own (in Chinese and Japanese up to three characters), learned by
`benchmarks.train_sentences` from sentences that people labelled. Nothing in it is written by hand."""

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from math import sqrt
from typing import Final, NamedTuple

MODEL_FILE: Final = "sentence_model.txt.xz"
"""Features, a line each: what it begins with like the one before, as a number of characters from
`a` on, and the rest. Behind an empty line, of each label a line of the features' weights in halves,
as characters from `WEIGHT_ZERO` on."""
LABELS: Final = ("lasts", "orders", "health", "address", "recalls", "pasted")
WEIGHT_ZERO: Final = "\u0100"
SHARED_MAX: Final = 25
PREFIX_CHARS: Final = 4
CJK_CHARS_MAX: Final = 3
LENGTHS: Final = (3, 6, 10, 16, 25)
"""Words, or pairs of characters, from which on a sentence is longer."""
MEANT_MIN: Final = -1.5
"""Judgement below which not even a rule is believed."""
KNOWN_MIN: Final = 0.2
"""Share of a sentence's features that the model must know. Of one in a language that it has not
learned it knows the length and the marks, and those alone make nothing last."""
MESSAGE_SHARE: Final = 0.4
MESSAGE_CHARS_MAX: Final = 400
"""What the message around a sentence adds to its judgement, if it is no longer."""
SENTENCES_CACHED: Final = 8
"""Sentences of a message whose judgements are kept while it is read."""

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_CODE: Final = re.compile(  # by a sign that all begin with: that is looked for quickly
    r"[`{}<>=_/\\(A-Z\-.](?:(?<=[`{}<>=])|(?<=\w[_/\\])\w|(?<=\w\()\)|(?<=[a-z][A-Z])\w"
    r"|(?<!\w-)(?<=-)-\w|(?<=\w\.)\w{2,4}\b)"
)
_LOOKS: Final = (
    ("#quotes", re.compile(r"[\"“”«»「」『』„]")),
    ("#asks", re.compile(r"[?？]\s*$")),
    ("#shouts", re.compile(r"[!！]\s*$")),
    ("#colon", re.compile(r"[:：]\s*$")),
    ("#lower", re.compile(r"^\W*[a-zß-öø-ÿ]")),
    ("#lines", re.compile(r"\n")),
    ("#code", _CODE),
    ("#name", re.compile(r"[\w,] [A-ZÄÖÜÉ][a-zäöüßéèáíóúñç]{2,}")),
)

_SELF_QUESTION: Final = re.compile(
    r", (?:am i|aren't i|are we|aren't we|do i|don't i|do we|don't we|have i|haven't i|did i|didn't i|is it|isn't it|was i|wasn't i)\?"
    r"|[,，] ?(?:oder nicht|oder etwa nicht|stimmt's|stimmt das|richtig|¿verdad|¿no|¿o no|¿a que sí|non|pas vrai|n'est-ce pas|c'est ça|ou pas|right|correct) ?\?|[,，](?:对吧|对不对|是吧|对吗|没错吧)[？?]",
    re.IGNORECASE,
)
_CONDITIONAL: Final = re.compile(
    r"\W*(?:(?:ok|okay|so|now|and|but|hey|und|also|y|et|bon|alors|bueno) ?,? )*(?:"
    r"suppos(?:e|ing) (?:i|i'm|i'd|my|we|we'd|that|there|someone|somebody|a|the)\b|imagin(?:e|ing) (?:i|i'm|we|we're|my|that|if|being|having)\b|let's (?:say|pretend|imagine)\b|say (?:i|i'm|my \w+ (?:is|was|were)) |pretend (?:i|i'm|that i|we|my)\b|what if\b|hypothetically\b|if (?:i|we) (?:were|had(?! to)) |if only\b"
    r"|(?:mal )?angenommen\b|stell dir vor,? (?:ich|wir|mein)\b[^,]*\b(?:hätte|wäre|würde)|gesetzt den fall\b|nehmen wir an\b|tu so,? als\b|wenn (?:ich|wir)\b[^,]{0,60}\b(?:hätten?|wären?|würden?|könnten?)\b"
    r"|sup[oó]n(?:te)? que\b|supongamos\b|pongamos que\b|imag[ií]nate? (?:que|si)\b|imaginemos\b|si (?:yo )?(?:fuera|fuese|tuviera|tuviese|viviera)\b|haz de (?!cada|todo)|hagamos como\b"
    r"|mettons\b|imagin(?:e|ons|ez) (?:que|qu')|suppos(?:e|ons|ez) (?:que|qu')|admettons\b|si (?:j'étais|j'avais|on était|on avait)\b|fais comme si\b"
    r")(?!.*[,;] ?(?:i'm|i am|i've|i have|ich bin|ich habe|soy|tengo|je suis|j'ai)\b)"
    r"|\W*(?:假如|假设|假使|要是我|如果我是|想象一下|设想|我们来写|もし(?!もし|か)|仮に|たとえば私が|想像して)",
    re.IGNORECASE,
)


class Judgement(NamedTuple):
    """How much speaks for a sentence being what: logarithms of odds, above 0 where it rather is.

    `lasts`: it says something of the speaker that still holds in a month. `orders`: it tells the
    assistant how to be from now on. `health`, `address`: it says what the speaker may not eat or
    is ill with, or how to call them and in which language to answer. `recalls`: it asks for what was
    said or done before, not for what anybody knows. `pasted`: it holds a text that is worked on."""

    lasts: float
    orders: float
    health: float
    address: float
    recalls: float
    pasted: float

    @property
    def most(self) -> float:
        """How much speaks for anything to remember."""
        return max(self.lasts, self.orders)

    def within(self, message: "Judgement", share: float) -> "Judgement":
        """Return the judgement of a sentence with a share of that of the message around it."""
        return Judgement(
            *(own * (1 - share) + all_ * share for own, all_ in zip(self, message, strict=True))
        )


UNREADABLE: Final = Judgement(-1.0, -1.0, -9.0, -9.0, 0.0, -9.0)
"""Neither, so far as is known; what a rule reads in it is believed all the same."""


@lru_cache(SENTENCES_CACHED)
def judge(sentence: str) -> Judgement:
    """Return what a sentence, as it was typed, is by its words."""
    return judge_once(sentence)


def judge_once(sentence: str) -> Judgement:
    """Return the same without keeping the sentence in memory."""
    weights, found = _weights(), set(features(sentence))
    known = [weights[feature] for feature in found if feature in weights]
    if len(known) < KNOWN_MIN * len(found):
        return UNREADABLE
    scale = 1 / sqrt(len(known))
    return Judgement(*(scale * sum(column) for column in zip(*known, strict=True)))


def judged_in(sentence: str, message: str) -> Judgement:
    """Return what a sentence of a message is, by its own words and what is said and asked around it.

    What is asked tells work of the moment from what lasts."""
    own = judge(sentence)
    if own is UNREADABLE or len(sentence) >= len(message) or len(message) > MESSAGE_CHARS_MAX:
        return own
    return own.within(judge(message), MESSAGE_SHARE)


def is_meant(clause: str, message: str) -> bool:
    """Return whether a clause may say something of the speaker: it need not last."""
    judged = judged_in(clause, message)
    most = judged.orders if is_conditional(clause) else judged.most
    return not asks_oneself(message) and most > MEANT_MIN


def asks_oneself(message: str) -> bool:
    """Return whether somebody asks if what is said of them is true: ", am I?"."""
    return _SELF_QUESTION.search(message) is not None


def is_conditional(sentence: str) -> bool:
    """Return whether a sentence begins by supposing what is not so: "suppose I were ..."."""
    return _CONDITIONAL.match(sentence) is not None


def features(sentence: str) -> Iterator[str]:
    """Yield the features of a sentence, some of them repeatedly; "" is one of every sentence."""
    low = sentence.casefold().replace("’", "'")
    if _CJK.search(low):
        runs = re.findall(r"\w+", low)
        text = "".join(runs)
        for run in runs:
            for length in range(1, CJK_CHARS_MAX + 1):
                for at in range(len(run) - length + 1):
                    yield run[at : at + length]
        for length in range(1, CJK_CHARS_MAX + 1):
            yield f"^{text[:length]}"
            yield f"{text[-length:]}$"
        count = len(text) / 2
    else:
        words = ["0" if word[0].isdigit() else word for word in _WORD.findall(low)]
        yield from words
        for word in words:
            if len(word) > PREFIX_CHARS:
                yield f"{word[:PREFIX_CHARS]}*"
        yield from map(" ".join, pairwise(words))
        yield f"^{' '.join(words[:1])}"
        yield f"^{' '.join(words[:2])}"
        yield f"{' '.join(words[-1:])}$"
        count = len(words)
    yield f"#{sum(count >= length for length in LENGTHS)}"
    for name, pattern in _LOOKS:
        if pattern.search(sentence):
            yield name
    yield ""


@cache
def _weights() -> Mapping[str, Sequence[float]]:
    """Return the weights of each feature by label."""
    content = files("memsvc.core.rules").joinpath(MODEL_FILE).read_bytes()
    lines, _, codes = lzma.decompress(content).decode().partition("\n\n")
    columns = [[(ord(code) - ord(WEIGHT_ZERO)) / 2 for code in line] for line in codes.split("\n")]
    found = {}
    shared: dict[tuple[float, ...], tuple[float, ...]] = {}
    name = ""
    for line, weights in zip(lines.split("\n"), zip(*columns, strict=True), strict=True):
        name = name[: ord(line[0]) - ord("a")] + line[1:]
        found[name] = shared.setdefault(weights, weights)
    return found
