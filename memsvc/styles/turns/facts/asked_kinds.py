"""Requests to forget all of a kind ("all my passwords"), or everything, in six languages."""

import re
from collections.abc import Sequence
from typing import Final

from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.redaction import sentences
from memsvc.core.rules.extraction import PEOPLE, PERSON_KEYS
from memsvc.store.database import Tx
from memsvc.styles.turns.facts.said_sentences import SaidSentence, Speaker

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
_EVERYTHING: Final = re.compile(
    rf"(?=.*(?:\b(?:everything|anything|all|alles|todo|tout)\b|{_ALL_CJK}))(?:{_FILLING}|\b(?:everything|anything"
    r"|it|that|about|me|what|you|know|have|stored|remember|alles|was|du|über|von|mich|mir|weißt|todo|lo|que|sabes"
    r"|sobre|de|mí|tout|ce|tu|sais|sur|moi)\b|你|知道|关于|[\W_])+",
    re.IGNORECASE,
)


_POSSESSIVE: Final = (
    r"(?:my|our|meine?[nmrs]?|unsere?[nmrs]?|mon|ma|mes|notre|nos|mis?|nuestr[oa]s?)"
)
_MY_PERSON: Final = re.compile(
    r"(?:(?:please |bitte )?(?:forget|delete|vergiss|lösche|oublie|olvida) )?"
    r"(?:(?:everything|all|alles|tout|todo) (?:about|über|sur|sobre) )?"
    rf"{_POSSESSIVE} ({'|'.join(map(re.escape, sorted({*PEOPLE, *PERSON_KEYS})))})[.!]?",
    re.IGNORECASE,
)


def _kind_of_person(word: str) -> AskedKind:
    """Return the kind of what is said of one of the user's people, by the word for them."""
    said = rf"\b{_POSSESSIVE} (?!ex\b)(?:\w+ )?{re.escape(word)}(?![\w-]|['’]s day\b| tongue\b)"
    key = PERSON_KEYS.get(word.casefold(), word.casefold())
    tells = re.compile(rf"{said}|\A{key} ", re.IGNORECASE)
    return AskedKind(tells, word, tells)


def asked_kinds(question: str) -> Sequence[AskedKind] | None:
    """Return the kinds of which a request names all; None if it has any other words.

    "my mother" stands for all that is said of this person. Empty for a request for everything,
    which only a purge can do."""
    if (person := _MY_PERSON.fullmatch(question.strip())) is not None:
        return [_kind_of_person(person[1])]
    kinds = [kind for kind in _KINDS if kind.asked.search(question)]
    rest = question
    for kind in kinds:
        rest = kind.asked.sub(" ", rest)
    if kinds and _REST_OF_KIND.fullmatch(f" {rest}"):
        return kinds
    return () if _EVERYTHING.fullmatch(question) else None


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
