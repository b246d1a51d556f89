"""What a query to forget names: facts, all of a kind, and clauses beside others that stay."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from memsvc.core.analysis import content_terms, query_terms, terms
from memsvc.core.facts import Fact, Identity
from memsvc.core.frozen import frozen
from memsvc.core.redaction import comparable, sentences
from memsvc.core.rules.change_words import CJK, names_in
from memsvc.core.rules.changes import COMMON
from memsvc.core.rules.extraction import (
    LANGUAGES,
    RELATION_KEYS,
    RELATIONS,
    requested_fact_ids,
)
from memsvc.core.rules.text_requests import FIRST_PERSON
from memsvc.core.rules.topics import BIRTHDAY
from memsvc.core.secrets import holds_secret
from memsvc.store.database import Tx
from memsvc.store.search import QueryEmbedding
from memsvc.styles.turns.facts.forgetting import is_quote
from memsvc.styles.turns.facts.said_sentences import (
    STANDS_OUT,
    SaidSentence,
    Speaker,
    cosines_of,
)

WORDS_MAX: Final = 40
"""Maximum words of a query that are examined one by one."""
_JOINING: Final = r"(?:and|but|und|aber|y|pero|et|mais)\s"
_BEGINNING: Final = re.compile(rf"(?<=[;；，。！？])|(?<=[.!?])\s+|,?\s(?={_JOINING})")
"""Matches where a clause begins."""
_ABOUT_THE_NUMBER: Final = re.compile(
    rf"\W*(?:{_JOINING})?"
    r"(?:(?:its?|th(?:at|is|ese|ose)|which|es|das|dies|ça|ca|cela|c|lo|la|eso|es[eot]|le)\b|[它这那其])",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W\u3040-\u30ff\u4e00-\u9fff]+")
WORDS_MIN: Final = 3
"""Minimum words of a clause that can stand alone; pairs of characters in Chinese or Japanese."""
_NUMBER: Final = re.compile(r"\d|[一二三四五六七八九十百千万]{2}")
_LONG_NUMBER: Final = re.compile(r"\d(?: ?\d){6,}|\d(?:[ -]?\d){8,}")
_TITLE: Final = re.compile(
    r"(?:Herrn?|Frau|Mr|Mrs|Ms|Miss|Dr|Prof|Se?ñor|Señora|Sra?|Monsieur|Madame|Mme|M)\.?"
)
_MARKS: Final = " .,;:!?\"'“”„«»"
_FORGET: Final = re.compile(
    r"\W*(?:please |bitte |por favor )?"
    r"(?:forget|delete|remove|erase|wipe|vergiss|lösche?|oublie[rz]?|efface[rz]?|olvida|borra)"
    r"(?: about| a)? ",
    re.IGNORECASE,
)
_EVERYTHING: Final = re.compile(
    r"\b(?:(?:everything|anything|all|whatever)\b.{0,40}?\b(?:about|on|of)|alles\b.{0,20}?\b(?:über|von|zu[mr]?)"
    r"|todo\b.{0,20}?\b(?:sobre|de)|tout\b.{0,20}?\b(?:sur|de|concerne))\b",
    re.IGNORECASE,
)
_EVERYTHING_CJK: Final = re.compile(
    r"关于([^的\s]{1,10}?)的?(?:一切|所有|全部|事)|^([^のに\s]{1,10})(?:に関する|についての?|の)(?:こと|すべて|全部|情報)"
)
_BIRTHDAYS: Final = frozenset(
    term
    for words in (BIRTHDAY.key, *(one.keywords.get(BIRTHDAY.fact_id, "") for one in LANGUAGES))
    for term in terms(words)
)


_ADDRESS: Final = re.compile(rf"\b{_TITLE.pattern} (?=[^\W\d_a-zß-öø-ÿ])")
_CONTINUATION: Final = re.compile(
    r"\W*(?:he|she|it|they|his|her|its|their|er|sie|es|seine?|ihre?|il|elle|son|sa|ses|él|ella|su|sus)\b",
    re.IGNORECASE,
)
"""Matches the beginning of a sentence that refers to the one before it."""


def _relations(question: str) -> frozenset[str]:
    """Return the relations, such as husband, by which a question names people."""
    low = _ADDRESS.sub("", question).casefold()
    words = re.findall(r"\w+", low)
    found = {RELATION_KEYS.get(word, word) for word in words} & RELATIONS
    if CJK.search(low):
        found |= {key for word, key in RELATION_KEYS.items() if CJK.search(word) and word in low}
    return frozenset(found)


def _is_other_relation(fact: Fact, relations: Set[str], asked: Set[str]) -> bool:
    """Return whether a fact is about a relation that the query does not mean."""
    statement = fact.statement
    is_named = not asked.isdisjoint(terms(statement.value))
    return bool(relations) and statement.key in RELATIONS - relations and not is_named


def _of_kind(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts of the kinds that a question asks for, if it says which ones.

    Words that the person has `said` before and that do not name the kind must occur in the fact:
    "my brother Uwe" is no fact about a sister, and "my ex's name" is not the user's name. Among
    the facts of a kind, those with most of the words are returned; all of them if none has any.
    """
    requested = requested_fact_ids(question)
    asked = set(content_terms(question))
    asking = {
        term
        for word in question.split()[:WORDS_MAX]
        if requested and requested_fact_ids(question.replace(word, "")) != requested
        for term in terms(word)
    }
    names = (asked & said) - asking
    held = [
        (len(asked & words), fact)
        for fact in found
        if fact.statement.fact_id in requested
        for words in [frozenset(terms(_words(fact)))]
        if names <= words
    ]
    named = set[Identity]()
    for kind in {fact.statement.fact_id for _, fact in held}:
        most = max(count for count, fact in held if fact.statement.fact_id == kind)
        best = {
            fact.statement.identity
            for count, fact in held
            if fact.statement.fact_id == kind and count == most
        }
        named |= best if most or len(best) == 1 else set()
    return [fact for _, fact in held if fact.statement.identity in named]


def _words(fact: Fact) -> str:
    statement = fact.statement
    return f"{statement.key} {statement.value} {statement.keywords} {statement.statement}"


def whole_name(question: str, said: Set[str]) -> str:
    """Return whose name a query wants to be forgotten in every sentence, "" if it asks for less.

    "everything about Herr Pichler", "todo sobre Ana"; or nothing but the name or a word that is no
    kind of fact: "Momo", "forget bruno". A word for a relative is no name ("妻のこと"). `said` are
    those terms of the query that the person has used before."""
    if (found := _EVERYTHING_CJK.search(question)) is not None:
        name = found[1] or found[2]
        return "" if any(name in language.keys for language in LANGUAGES) else name
    lead = _EVERYTHING.search(question)
    rest = question[lead.end() :] if lead else _FORGET.sub("", question)
    words = rest.strip(_MARKS).split()
    names = [word for word in words if word[0].isupper()]
    if lead is None:
        is_titled = len(words) == 2 and names == words and _TITLE.fullmatch(words[0])
        is_word = len(words) == 1 and not CJK.search(question) and not requested_fact_ids(question)
        words = words if is_titled or is_word else []
    else:
        names = [word for word in names if not _TITLE.fullmatch(word)]
        words = names or words[: len(words) == 1]
    name = " ".join(words)
    asked = content_terms(name)
    is_said = bool(asked) and {*asked} <= said
    return name if is_said and not FIRST_PERSON.search(name.lower()) else ""


def named_by(question: str, found: Sequence[Fact], said: Set[str]) -> list[Fact]:
    """Return the facts that a question names, by their kind or by a third of its words.

    Facts with at most half as many of its words as another one are left out. A sentence that states
    several facts is not evidence for any of them. `said` are those terms of the question that the
    person has used before."""
    asked = set(query_terms(question))
    relations = _relations(question)
    found = [one for one in found if not _is_other_relation(one, relations, asked)]
    if of_kind := _of_kind(question, found, said):
        stated = {comparable(fact.statement.statement) for fact in of_kind}
        return [  # "my dog Rex" names the dog as well, that the same sentence states
            fact
            for fact in found
            if fact in of_kind
            or (comparable(fact.statement.statement) in stated and _is_asked(fact, asked))
        ]
    times_said = Counter(comparable(fact.statement.statement) for fact in found)
    counts: list[tuple[int, Fact]] = []
    for fact in found:
        statement = fact.statement
        words = f"{statement.key} {statement.value} {statement.keywords}"
        if times_said[comparable(statement.statement)] == 1:
            words = f"{words} {statement.statement}"
        counts.append((len(asked.intersection(terms(words))), fact))
    most = max((count for count, _ in counts), default=0)
    return [fact for count, fact in counts if 3 * count >= len(asked) and 2 * count > most]


def whole_and_parts(question: str, named: Iterable[Fact]) -> tuple[list[Fact], list[SaidSentence]]:
    """Return the facts that a question names as a whole, and the sentences it names of others.

    Those quote several sentences, of which only some have most of the question's words. A sentence
    that goes on about one of these ("Her last seizure was in May.") is meant too, unless it names
    somebody else."""
    whole, parts = list[Fact](), list[SaidSentence]()
    asked = set(query_terms(question))
    for fact in named:
        text, source = fact.statement.statement, fact.statement.evidence
        each = [text[start:stop].strip() for start, stop in sentences(text)]
        counts = [len(asked.intersection(terms(sentence))) for sentence in each]
        matches, is_match = list[str](), False
        for sentence, count in zip(each, counts, strict=True):
            is_match = 2 * count > max(counts) or (is_match and _continues(sentence))
            matches += [sentence] if is_match else []
        if is_quote(fact) and 0 < len(matches) < len(each):
            parts += [SaidSentence(source.session, source.turn, sentence) for sentence in matches]
        else:
            whole.append(fact)
    return whole, parts


def _continues(sentence: str) -> bool:
    """Return whether a sentence refers to the one before it and names nobody else."""
    names = content_terms(" ".join(names_in(sentence)))
    return _CONTINUATION.match(sentence) is not None and COMMON.issuperset(names)


def _is_asked(fact: Fact, asked: Set[str]) -> bool:
    """Return whether a question says all that a fact does."""
    words = content_terms(fact.statement.value)
    return bool(words) and asked >= {*words}


async def clauses_beside(
    tx: Tx, question: str, embedding: QueryEmbedding | None, texts: Iterable[str]
) -> list[str]:
    """Return the clauses of these sentences that can stay when the query is forgotten.

    Usually the rest of a sentence reveals what was forgotten, so nothing stays. Beside a code, a
    long number or a birthday that the query clearly means, a clause without a number is safe."""
    asked = frozenset(content_terms(question))
    found: list[str] = []
    for sentence in texts:
        telling, beside = _divided(sentence, asked)
        alike = await cosines_of(tx, embedding, [*telling, *beside]) if telling else {}
        if len(alike) == len({*telling, *beside}):
            best = max((alike[one] for one in telling), default=0.0)
            found += [one for one in beside if best - alike[one] >= STANDS_OUT]
    return found


def _divided(sentence: str, asked: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the clauses with the number that the query names, and those that do not mention it."""
    telling, beside = [], []
    for clause in _clauses(sentence):
        named = asked.intersection(terms(clause))
        number = _NUMBER.search(clause)
        only_number = holds_secret(clause) or _LONG_NUMBER.search(clause) or named & _BIRTHDAYS
        if named and number and only_number:
            telling.append(clause)
        elif not named and not number and not _ABOUT_THE_NUMBER.match(clause):
            beside.append(clause)
    return telling, beside


def _clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence; a short one is part of the clause before it."""
    starts = [0, *(match.end() for match in _BEGINNING.finditer(sentence)), len(sentence)]
    start = 0
    for left, right in pairwise(starts[1:]):
        if len(_WORD.findall(sentence, left, right)) >= WORDS_MIN:
            yield sentence[start:left]
            start = left
    yield sentence[start:]


_ALL_CJK: Final = r"(?:所有|全部|一切|すべて|全て)"
_VALUE: Final = r"\d|[:=：]|.\b(?:is|are|ist|sind|lautet|est|sont|es|son)\b|[是は]"


def _asked(plural: str, cjk: str) -> re.Pattern[str]:
    """Return a pattern for the plural of a kind, or for "all" of it in Chinese and Japanese."""
    all_of_it = rf"{_ALL_CJK}.{{0,4}}(?:{cjk})|(?:{cjk}).{{0,2}}{_ALL_CJK}"
    return re.compile(rf"\b(?:{plural})\b|{all_of_it}", re.IGNORECASE)


@frozen
class AskedKind:
    """A kind of thing of which a request can name all, such as passwords.

    `asked` finds it in a request. Sentences of messages with these `words` that `tells` matches are
    of the kind, and facts that it matches or that have one of `fact_ids`."""

    asked: re.Pattern[str]
    words: str
    tells: re.Pattern[str]
    fact_ids: Sequence[str] = ()

    def has(self, fact: Fact) -> bool:
        """Return whether a fact is of this kind."""
        statement = fact.statement
        words = f"{statement.key} {statement.value}\n{statement.statement}"
        return statement.fact_id in self.fact_ids or self.tells.search(words) is not None


_CODES: Final = (
    r"(?:\b\w*(?:codes?|pins?)|geheimzahl(?:en)?|códigos?|combinations?|kombination(?:en)?|combinaisons?"
    r"|combinaci(?:ón|ones))\b\D{0,40}(?:\d[ -]?){3}|(?:密[码碼]|暗証番号)\D{0,10}\d{3}"
)
_PASSWORDS: Final = (
    r"\b(?:\w*pass(?:word|code|phrase)s?|pwd?s?|\w*(?:passw|kennw)(?:ort|örter)|contraseñas?|claves?"
    r"|mots? de passe)\b|密[码碼]|口令|パスワード"
)
_CODE_WORDS: Final = (
    "code codes pin pins türcode alarmcode zugangscode geheimzahl combination kombination"
    " combinaison código códigos combinación 密码 密碼 暗証番号"
)
_KINDS: Final = (
    AskedKind(
        _asked(
            r"\w*pass(?:words|codes|phrases)|pwd?s|\w*(?:passw|kennw)örtern?|contraseñas|claves"
            r"|mots de passe",
            "密[码碼]|口令|パスワード",
        ),
        f"password passwords passcode passphrase pw pws pwd passwort passwörter kennwort kennwörter"
        f" wlan-passwort contraseña contraseñas clave claves passe 口令 パスワード {_CODE_WORDS}",
        re.compile(
            rf"(?:{_PASSWORDS}).{{0,100}}?(?:{_VALUE})|\d.{{0,100}}?(?:{_PASSWORDS})|{_CODES}",
            re.IGNORECASE,
        ),
    ),
    AskedKind(
        _asked(
            r"\w*codes|pins|pin (?:codes|numbers)|pin-?nummern|geheimzahlen|códigos|codes pin",
            "暗証番号",
        ),
        _CODE_WORDS,
        re.compile(_CODES, re.IGNORECASE),
    ),
    AskedKind(
        _asked(
            r"(?:(?:tele)?phone|mobile|cell) (?:numbers|nos)|(?:telefon|handy|mobil)nummern"
            r"|numéros de (?:téléphone|portable)|(?:números de )?(?:teléfonos?|móvil(?:es)?)",
            "(?:电话|手机)号?码?|(?:電話|携帯)番号",
        ),
        "phone telephone mobile cell number telefon telefonnummer handy handynummer mobilnummer"
        " nummer téléphone portable numéro teléfono móvil celular número 电话 手机 電話 携帯",
        re.compile(
            r"^(?=.*(?:phone|mobile|\bcell|telefon|handy|mobiln|téléphone|portable|teléfono|móvil"
            r"|celular|电话|手机|電話|携帯"
            r"|\b(?:my|our|meine|unsere|mon|notre|mi|nuestro) (?:new |neue )?n[uú]m))"
            r".*\d(?:[ /().-]{0,2}\d){5}",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
    AskedKind(
        _asked(r"(?:home |postal )?addresses|adressen|adresses|direcciones", "地址|住所"),
        "address addresses adresse adressen adresses dirección direcciones 地址 住所",
        re.compile(
            r"^(?!.*@)(?=.*(?:\baddress|adresse|direcci(?:ón|ones)\b|地址|住所)).*[\d一二三四五六七八九十]",
            re.IGNORECASE | re.MULTILINE,
        ),
        ("user_address", "user_home"),
    ),
)
_FILLING: Final = (
    r"\b(?:please|forget|delete|remove|erase|wipe|all|every|any|of|the|our|and|or"
    r"|bitte|vergiss|lösche?|alle[nr]?|sämtliche[nr]?|unsere[nr]?|die|und"
    r"|por favor|olvida|borra|tod[ao]s|las|los|nuestr[ao]s|y|stp|oublie[rz]?"
    r"|efface[rz]?|tou(?:te)?s|les|nos|et)\b"
    rf"|{_ALL_CJK}|[请我的和私のをと]|忘掉|忘记|删除|忘れて|消して|ください"
)
_REST_OF_KIND: Final = re.compile(
    rf"(?:{_FILLING}|\b(?:my|meine[nr]?|mis|mes)\b|[\W_])+", re.IGNORECASE
)
_ALL_OF_IT: Final = re.compile(
    rf"(?=.*(?:\b(?:everything|anything|all|alles|todo|tout)\b|{_ALL_CJK}))(?:{_FILLING}|\b(?:everything|anything"
    r"|it|that|about|me|what|you|know|have|stored|remember|alles|was|du|über|von|mich|mir|weißt|todo|lo|que|sabes"
    r"|sobre|de|mí|tout|ce|tu|sais|sur|moi)\b|你|知道|关于|[\W_])+",
    re.IGNORECASE,
)


_POSSESSIVE: Final = (
    r"(?:my|our|meine?[nmrs]?|unsere?[nmrs]?|mon|ma|mes|notre|nos|mis?|nuestr[oa]s?)"
)
_RELATION_QUERY: Final = re.compile(
    r"(?:(?:please |bitte )?(?:forget|delete|vergiss|lösche|oublie|olvida) )?"
    r"(?:(?:everything|all|alles|tout|todo) (?:about|über|sur|sobre) )?"
    rf"{_POSSESSIVE} ({'|'.join(map(re.escape, sorted({*RELATIONS, *RELATION_KEYS})))})[.!]?",
    re.IGNORECASE,
)


def _relation_kind(word: str) -> AskedKind:
    """Return a kind that matches everything said about a relation, such as "mother"."""
    pattern = rf"\b{_POSSESSIVE} (?!ex\b)(?:\w+ )?{re.escape(word)}(?![\w-]|['’]s day\b| tongue\b)"
    key = RELATION_KEYS.get(word.casefold(), word.casefold())
    tells = re.compile(rf"{pattern}|\A{key} ", re.IGNORECASE)
    return AskedKind(tells, word, tells)


def asked_kinds(question: str) -> Sequence[AskedKind] | None:
    """Return the kinds of which a request names all; None if it has any other words.

    "my mother" stands for all that is said of this person. Empty for a request for everything,
    which only a purge can do."""
    if (found := _RELATION_QUERY.fullmatch(question.strip())) is not None:
        return [_relation_kind(found[1])]
    kinds = [kind for kind in _KINDS if kind.asked.search(question)]
    rest = question
    for kind in kinds:
        rest = kind.asked.sub(" ", rest)
    if kinds and _REST_OF_KIND.fullmatch(f" {rest}"):
        return kinds
    return () if _ALL_OF_IT.fullmatch(question) else None


async def sentences_of_kinds(
    tx: Tx, speaker: Speaker, kinds: Sequence[AskedKind]
) -> list[SaidSentence]:
    """Return the sentences of these kinds in a speaker's messages and the assistant's answers."""
    return [
        SaidSentence(place.session, place.turn, text)
        for kind in kinds
        for place in await speaker.messages(tx, kind.words)
        for start, stop in sentences(place.text)
        if kind.tells.search(text := " ".join(place.text[start:stop].split()))
    ]
