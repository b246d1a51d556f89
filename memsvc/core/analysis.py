"""Text analysis into index terms, the same for stored text and for queries."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cache
from importlib.resources import files
from itertools import islice, pairwise
from typing import Final
from unicodedata import category, normalize

import regex
import Stemmer

from memsvc.core.frozen import frozen

TERMS_VERSION: Final = 3
TERMS_MAX: Final = 4000
QUERY_TERMS_MAX: Final = 64
TERM_SIZE_BYTES_MAX: Final = 64
WORD_CHARS_MAX: Final = TERM_SIZE_BYTES_MAX // 4
"""Characters that surely fit into so many bytes: one takes at most four."""
CHANGE_MARK: Final = "changemark"
"""Keyword, and term, of messages in which a user says that something changed."""

_FUNCTION_WORDS: Final = """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can cannot could did do does doing done down during each either else ever few for from
    further get gets getting got had has have having he her here hers herself him himself his how however i if
    in into is it its itself just kind let like lot many may me might more most much must my myself nor not of
    off on once only or other ought our ours ourselves out over own really same shall she should so some such
    than that the their theirs them themselves then there these they thing this those through to too under until
    up upon us very was we were what when where whether which while who whom whose why will with within without
    would yes yet you your yours yourself yourselves dont cant wont didnt doesnt isnt wasnt
    aber auch auf aus bei bin bist das dass dein deine dem den der des dich dir du ein eine einem einen einer
    eines er habe haben hatte ich ihm ihn ihr ihre im ist kann kein keine mein meine mich mir nach nicht noch
    nur oder sein seine sich sie sind und uns unser vom von vor wann warum wenn wer werden wie wir wird wo wurde
    zu zum zur au aux avec ce ces cette dans de elle elles et etait eux il ils je le les leur lui mon ne nous
    ont ou pas qu que quel quelle qui se ses sont sur ta te tes toi tu un une vos votre vous al como cual cuando
    del desde donde el ella ellos en eres es esa ese esta este esto fue las lo los muy nos nosotros para pero
    por porque quien su sus tambien tiene una unas uno unos
"""
STOP_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""English function words; German, French and Spanish ones that are no content word of English (not
die, war, son)."""

_VERB_VARIANTS: Final = """
    become became; begin began begun; bend bent; bite bit bitten; blow blew blown; break broke broken; bring
    brought; build built; buy bought; catch caught; choose chose chosen; come came; deal dealt; dig dug; draw
    drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed;
    feel felt; fight fought; find found; fly flew flown; forget forgot forgotten; forgive forgave forgiven;
    freeze froze frozen; give gave given; go goes went gone; grow grew grown; hang hung; hear heard; hide hid
    hidden; hold held; keep kept; know knew known; lead led; lend lent; lose lost; make made; mean meant; meet
    met; pay paid; ride rode ridden; ring rang; rise rose risen; run ran; say said; see saw seen; sell sold;
    send sent; shake shook; shine shone; shoot shot; sing sang sung; sit sat; sleep slept; speak spoke spoken;
    spend spent; stand stood; steal stole stolen; stick stuck; strike struck; swim swam swum; take took taken;
    teach taught; tear tore torn; tell told; think thought; throw threw thrown; understand understood; wake woke
    woken; wear wore worn; win won; write wrote written; child children; man men; woman women; person people;
    foot feet; tooth teeth; mouse mice; wife wives; life lives; good better best; bad worse worst;
    haus hauser hausern; kind kinder kindern; buch bucher buchern; bild bilder bildern; mann manner mannern;
    land lander landern; blatt blatter blattern; rad rader radern; wort worter wortern; kleid kleider kleidern;
    travail travaux
"""
_BASE_BY_VARIANT: Final = {
    form: forms.split()[0] for forms in _VERB_VARIANTS.split(";") for form in forms.split()[1:]
}

_SUFFIXES: Final = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))
_LAST: Final = frozenset("enrx")
"""Last letters of the endings of stems."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_ASCII: Final = frozenset(map(chr, range(128)))
_RUN: Final = re.compile(r"\w+")
_NO_WORD: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or code == ord("_"))
}
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
CODE_NAME_CHARS_MAX: Final = 64
NAME_PARTS_MAX: Final = 8
_COMPOUND: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}|[A-Za-z0-9]_[A-Za-z0-9]")
"""Where a name in code has two parts."""
_INNER: Final = re.compile(r"[A-Z_](?<=[A-Za-z0-9].)")
"""A capital letter or underscore within a word, without which no name in code has two parts."""
_PART: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_DOTS: Final = "\u0308"
_DOTTED: Final = re.compile("[äöüÄÖÜ]")
_WRITTEN_OUT: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)
_CJK_LIKE: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々"
)
_WORD: Final = regex.compile(
    rf"(?V1)(?P<unspaced>[{_CJK_LIKE}]+)"
    rf"|[[\p{{L}}\p{{N}}]--[{_CJK_LIKE}]][[\p{{L}}\p{{N}}\p{{M}}]--[{_CJK_LIKE}]]*(?:'[[\p{{L}}]--[{_CJK_LIKE}]]+)?"
)
_KANA: Final = re.compile("[\u3041-\u30fa]")
_HANGUL: Final = regex.compile(r"\p{Hangul}")
HANGUL_WORD_MAX: Final = 3
"""Most syllables that a Korean noun of one syllable has with its particle."""
_MARK_RUN: Final = regex.compile(r"(\p{M}{8})\p{M}+")
_ACCENTS: Final = regex.compile(r"(?<=\p{Latin})\p{M}+")
_CHARACTER_MAP: Final = str.maketrans("łøđðıʼ’‘＇", "loddi''''") | str.maketrans(
    {"æ": "ae", "œ": "oe", "þ": "th"}
)
_HIDDEN: Final = regex.compile(r"\p{Cf}+")

# Without PyStemmer's cache a stemmer keeps nothing between calls.
_ENGLISH: Final = Stemmer.Stemmer("english", 0)
_STEM_BY_SCRIPT: Final = (
    (0x0370, 0x03FF, Stemmer.Stemmer("greek", 0)),
    (0x0400, 0x04FF, Stemmer.Stemmer("russian", 0)),
    (0x0600, 0x06FF, Stemmer.Stemmer("arabic", 0)),
    (0x0900, 0x097F, Stemmer.Stemmer("hindi", 0)),
)

_ENDING: Final = re.compile(r"(?<=\w{4})(?:e|en)$|(?<=e[au]u)x$|(?<=\weu)x$")
"""Endings of stems that German and French plurals have beside those of English."""
_PLURAL: Final = re.compile(r"(?<=\w[^\We])aux$")
"""The French plural of words in "al"."""
CHINESE_GRAMMAR: Final = "的了是我你您他她它们們这這那哪么麼什怎吗嗎呢吧啊呀把被给給跟和与與或就都也还還很不没沒个個里裡之请請问問谁誰为為说說讲講多少几幾"
"""Chinese words of one character that are grammar; other words stand between them."""
_IDEOGRAPHS: Final = regex.compile(rf"(?V1)[\p{{Han}}--[{CHINESE_GRAMMAR}]]+")

WORDS_FILE: Final = "common_words.txt"
"""Lines of a language, a colon and words, with no diacritics."""

_ANY_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_LATIN_WORD: Final = re.compile(r"[a-z]+")
_JAPANESE_PAIR: Final = re.compile(r"[\u3041-\u309f]|.[はがをにでともの]|.?[何誰言]")
_ONE_CHARACTER: Final = re.compile(r"[\u2e80-\U0010ffff]\Z")
_CHINESE_PAIR: Final = re.compile(rf".?[{CHINESE_GRAMMAR}]|[时時]候")
"""Pairs of characters that are grammar, or across the border of two words."""

_MONTH_NAMES: Final = """
    january januar janvier enero; february februar fevrier febrero; march marz mars marzo; april avril abril;
    may mai mayo; june juni juin junio; july juli juillet julio; august aout agosto; september septembre
    septiembre; october oktober octobre octubre; november novembre noviembre; december dezember decembre
    diciembre
"""
_MONTH_BY_NAME: Final = {
    name: month
    for month, names in enumerate(_MONTH_NAMES.split(";"), start=1)
    for name in names.split()
}
_MONTH: Final = "|".join(sorted(_MONTH_BY_NAME, key=len, reverse=True))
_DATE: Final = re.compile(
    rf"\b(?P<iso_year>\d{{4}})-(?P<iso_month>0[1-9]|1[0-2])(?:-(?P<iso_day>\d\d))?\b"
    rf"|(?:\b(?P<day_before>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?)?\b(?P<month>{_MONTH})\b"
    rf"(?:\s+(?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?\b)?(?:,?\s+(?:de\s+|of\s+)?(?P<year>\d{{4}})\b)?"
)
_AMBIGUOUS_MONTH_NAMES: Final = frozenset(("may", "march", "mars", "mai"))


def terms(text: str) -> list[str]:
    """Return the index terms of a text in order, repeats kept, at most TERMS_MAX.

    Takes any string, even lone surrogates and NUL. Case, compatibility forms and the diacritics of
    Latin letters are folded; stop words are left out; words are stemmed by script (Latin as
    English, whatever the language, so that question and text always agree; Cyrillic as Russian;
    Greek; Arabic; Devanagari as Hindi); German and French plurals lose their endings. Scripts
    written without spaces, and Hangul, become overlapping pairs of characters, and those single
    characters that may be words.

    Behind them are other spellings: the parts of names in code (fetchUserProfile, HTTPServer),
    such a name without its underscores, and words with ä, ö and ü written out (Mueller)."""
    return _terms_of(text, asks=False)


def own_terms(text: str) -> list[str]:
    """Return the terms of a text without other spellings, to compare how much two texts share."""
    return _own_terms(text, asks=False)


def _terms_of(text: str, *, asks: bool) -> list[str]:
    found = _own_terms(text, asks=asks)
    others = _stems(other for _, other in _other_forms(text))
    if others:  # each once: a text of code would be all about the parts of its names
        own = set(found)
        found += [term for term in dict.fromkeys(others) if term not in own]
    return found[:TERMS_MAX]


def _own_terms(text: str, *, asks: bool) -> list[str]:
    text_normalized = normalized_text(text)
    if text_normalized.isascii():
        return _ascii_terms(text_normalized)[:TERMS_MAX]
    return list(islice(_terms(text_normalized, asks=asks), TERMS_MAX))


def other_terms(question: str) -> list[tuple[str, str]]:
    """Return terms of a question, each with one of another spelling that can stand in for it."""
    pairs = [(_stems([word]), _stems([other])) for word, other in _other_forms(question)]
    return [(word, other) for words, others in pairs for word in words for other in others]


def _other_forms(text: str) -> list[tuple[str, str]]:
    """Return the words of a text, in lower case, with what somebody may ask for in their place.

    The word is "" where that is made of several words."""
    found: list[tuple[str, str]] = []
    if _INNER.search(text):
        for run in _RUN.findall(text):
            if run.isascii() and len(run) <= CODE_NAME_CHARS_MAX and _COMPOUND.search(run):
                found += _name_parts(run)
    if text.isascii():
        return found
    if _DOTS in text:
        text = normalize("NFC", _MARK_RUN.sub(r"\1", text))
    if _DOTTED.search(text):
        found += [
            (normalized_text(word), normalized_text(word.translate(_WRITTEN_OUT)))
            for word in _RUN.findall(text)
            if len(word) > 3 and _DOTTED.search(word)
        ]
    return found


def _name_parts(run: str) -> Iterator[tuple[str, str]]:
    """Yield a name in code with each of its parts, and one with underscores as one word.

    Brand names such as "iPhone" and encoded data, which has many parts, are not taken apart."""
    names = [name for name in run.split("_") if name]
    if len(names) > 1:
        yield "", "".join(names).lower()
    for name in names:
        parts = _PART.findall(name)
        words = [part.lower() for part in parts if len(part) > 1]
        if len(words) > 1 and len(parts[0]) > 1 and len(parts) <= NAME_PARTS_MAX:
            yield from ((name.lower(), word) for word in words)


def prefixes_of(wanted: Iterable[str]) -> frozenset[str]:
    """Return the two characters that ASCII words with some of the wanted terms may begin with.

    Stems begin with the same letters as their words, but for words as "lying"."""
    found = {term[:2] for term in wanted}
    found |= {
        form[:2]
        for form, base in _BASE_BY_VARIANT.items()
        if base[:2] in found or base[0] in found or base[1:2] == "y"
    }
    found |= {f"{char}y" for char in _LETTERS}
    found |= {term + char for term in found if len(term) == 1 for char in _LETTERS}
    return frozenset(
        first + second
        for term in found
        for first in {term[0], term[0].upper()}
        for second in {term[1:], term[1:].upper()}
    )


def distinct_words(text: str) -> set[str]:
    """Return the words of a text: its runs of letters, digits and `_`."""
    if text.isascii():
        return set(text.translate(_NO_WORD).split())
    return set(_RUN.findall(text))


def words_with_terms(
    words: Iterable[str], wanted: Set[str], prefixes: Set[str]
) -> dict[str, frozenset[str]]:
    """Return the words, runs of letters and digits, that have some of the wanted terms, and which.

    `prefixes` are those of the wanted terms."""
    found = {}
    ascii_words = []
    bases = []
    for word in words:
        is_other = (
            "_" in word
            or not word.isascii()
            or (not word[1:].islower() and _COMPOUND.search(word) is not None)
        )
        if not is_other and word[:2] not in prefixes:
            continue
        if is_other:
            if shared := wanted & set(terms(word)):
                found[word] = frozenset(shared)
        elif (low := word.lower()) not in STOP_WORDS:
            ascii_words.append(word)
            bases.append(_truncate(_BASE_BY_VARIANT.get(low, low)))
    stems = zip(ascii_words, _latin_stems(bases), strict=True)  # all at once: quicker
    return found | {word: frozenset((stem,)) for word, stem in stems if stem in wanted}


def query_terms(text: str) -> list[str]:
    """Return the distinct terms of a question in order, at most QUERY_TERMS_MAX.

    Its terms are those of a text, but no character of a longer word by itself. Of a longer one the first and the last half: people put their question before or after what they
    paste."""
    distinct = list(dict.fromkeys(_terms_of(text, asks=True)))
    side_count = QUERY_TERMS_MAX // 2
    return (
        distinct
        if len(distinct) <= QUERY_TERMS_MAX
        else distinct[:side_count] + distinct[-side_count:]
    )


def uncommon_terms(question: str, every: Sequence[str] | None = None) -> list[str]:
    """Return the terms of a question that are not common words of its language, or else all.

    A memory in several languages has few messages in one of them, so that its common words seem
    rare there. `every` are all of its terms, where they are known."""
    found = list(query_terms(question) if every is None else every)
    text = normalized_text(question)
    words = set(_LATIN_WORD.findall(text))
    _, common = max(_languages(), key=lambda language: len(words & language[0]))
    pairs = _JAPANESE_PAIR if _ANY_KANA.search(text) else _CHINESE_PAIR
    return [term for term in found if term not in common and not pairs.match(term)] or found


def content_terms(question: str, uncommon: Sequence[str] | None = None) -> list[str]:
    """Return the uncommon terms of a question, those of one character only where all are.

    `uncommon` are its uncommon terms, where they are known."""
    found = list(uncommon_terms(question) if uncommon is None else uncommon)
    return [term for term in found if not _ONE_CHARACTER.match(term)] or found


@cache
def _languages() -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return for each language its common words, and the terms that these are indexed by."""
    content = files("memsvc.core").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    found = [frozenset(line.split()[1:]) for line in content.splitlines()]
    return [(words, frozenset(term for word in words for term in terms(word))) for words in found]


def is_stop_word(word: str) -> bool:
    """Return whether a word carries no content, in any case and with its diacritics.

    Contractions with "not" count as stop words too."""
    head, quote, tail = normalized_text(word).partition("'")
    if tail == "t" and head.endswith("n"):
        return True
    return head in STOP_WORDS and (not quote or tail in _SUFFIXES or tail in STOP_WORDS)


def is_question(text: str) -> bool:
    """Return whether the text ends in a question mark of any script.

    The next entry is then likely its answer."""
    return text.rstrip().endswith(("?", "？", "؟", "\u037e"))


def parse_date_names(text: str) -> list["NamedDate"]:
    """Return the months and days that the text names.

    Recognizes ISO dates and English, German, French or Spanish month names. A word that is also
    something else (may, march) counts only beside a number or after "in"."""
    return [named for _, _, named in find_date_names(normalized_text(text))]


def find_date_names(text: str) -> Iterator[tuple[int, int, "NamedDate"]]:
    """Yield the start, end and date of each date in a folded text, as `parse_date_names`."""
    for match in _DATE.finditer(text):
        if match["iso_month"]:
            named = NamedDate(
                int(match["iso_year"]), int(match["iso_month"]), int(match["iso_day"] or 0) or None
            )
            yield match.start(), match.end(), named
            continue
        day, year = match["day_before"] or match["day_after"], match["year"]
        if match["month"] in _AMBIGUOUS_MONTH_NAMES and not (
            day
            or year
            or text[max(0, match.start() - 3) : match.start()].endswith(("in ", "im ", "en "))
        ):
            continue
        named = NamedDate(
            int(year) if year else None, _MONTH_BY_NAME[match["month"]], int(day) if day else None
        )
        yield match.start(), match.end(), named


@frozen
class NamedDate:
    """A month (1 to 12) as a question names it, with its year and day where given."""

    year: int | None
    month: int
    day: int | None


def normalized_text(text: str) -> str:
    """Return the text normalised for comparison.

    Case, compatibility forms and the diacritics of Latin letters are removed."""
    if text.isascii():
        return text.lower()
    if _has_category(text, ("Cf", "Cn")):
        text = _HIDDEN.sub("", text)
    if _has_category(text, ("Mn", "Mc", "Me", "Cn")):
        # Runs of combining marks are cut first: sorting them makes normalize() quadratic.
        text = _MARK_RUN.sub(r"\1", text)
    normal_text = normalize("NFKD", text).casefold().translate(_CHARACTER_MAP)
    if _has_category(normal_text, ("Mn", "Mc", "Me", "Cn")):
        normal_text = _ACCENTS.sub("", normal_text)
    return normalize("NFC", normal_text)


def _has_category(text: str, categories: Collection[str]) -> bool:
    """Return whether a text has a character of some Unicode categories: quicker than a pattern."""
    return any(category(char) in categories for char in set(text) - _ASCII)


def _ascii_terms(text_normalized: str) -> list[str]:
    words = _ASCII_WORD.findall(text_normalized)
    if "'" in text_normalized:
        words = [part for word in words for part in (_parts(word) if "'" in word else (word,))]
    return _stems(words)


def _stems(words: Iterable[str]) -> list[str]:
    """Return the terms of words of Latin letters, all stemmed at once, which is quicker."""
    bases = [_BASE_BY_VARIANT.get(word, word) for word in words if word not in STOP_WORDS]
    return _latin_stems(
        [base if len(base) <= WORD_CHARS_MAX else _truncate(base) for base in bases]
    )


def _latin_stems(words: Sequence[str]) -> list[str]:
    """Return the stems of Latin words: English ones, and German and French singulars.

    The German plural in "er" is left to the list of variants: English has too many such words."""
    singular = [_PLURAL.sub("al", word) if word[-1:] == "x" else word for word in words]
    return [
        _ENDING.sub("", stem) if stem[-1:] in _LAST else stem
        for stem in _ENGLISH.stemWords(singular)
    ]


def _terms(text_normalized: str, *, asks: bool) -> Iterator[str]:
    for match in _WORD.finditer(text_normalized):
        word = match[0]
        if match["unspaced"] is None:
            for part in _parts(word):
                if part not in STOP_WORDS:
                    base = _truncate(_BASE_BY_VARIANT.get(part, part))
                    yield _stem(base) or base  # nothing is left of a tatweel alone
        else:
            yield from _single_characters(word, asks=asks)
            for first, second in pairwise(word):
                yield first + second


def _single_characters(run: str, *, asks: bool) -> Iterator[str]:
    """Yield the characters of an unspaced run that may be words by themselves.

    These are the Chinese characters alone between words of grammar or kana; of a text also the
    first and the last of several (a verb and its noun), unless kana beside them show where words
    end, and the first of a short Korean word, which may have a particle."""
    if len(run) == 1:
        yield run
    elif _HANGUL.match(run):
        if len(run) <= HANGUL_WORD_MAX and not asks:
            yield run[0]
    else:
        only_alone = asks or _KANA.search(run)
        for part in _IDEOGRAPHS.findall(run):
            if len(part) == 1:
                yield part
            elif not only_alone:
                yield part[0]
                yield part[-1]


def _parts(word: str) -> tuple[str, ...]:
    """Return the parts of a word with an apostrophe that may be terms: none of one with "not"."""
    head, quote, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return ()
    return (head,) if not quote or tail in _SUFFIXES else (head, tail)


def _truncate(word: str) -> str:
    if len(word) <= WORD_CHARS_MAX:
        return word
    return word.encode()[:TERM_SIZE_BYTES_MAX].decode(errors="ignore")


def _stem(word: str) -> str:
    code = ord(word[0])
    if code < 0x0370:
        return _latin_stems([word])[0]
    for first, last, script_stem in _STEM_BY_SCRIPT:
        if first <= code <= last:
            other: str = script_stem.stemWord(word)
            return _truncate(other)
    return word
