"""Kinds of questions, and courtesies that ask nothing."""

import re
from collections.abc import Sequence, Set
from enum import Enum
from typing import Final

from memsvc.core.analysis import is_question, normalized_text, terms
from memsvc.core.rules.sentence_model import judge

_PHRASES: Final = """
    hello; hi; hey; hiya; howdy; greetings; good (?:morning|afternoon|evening|night|day); welcome( back)?; bye;
    goodbye; (?:see|talk to) (?:you|ya)( later| soon| tomorrow| then)?; take care;
    have a (?:good|great|nice) (?:day|one|evening|weekend); thanks?( a lot| a million| a bunch| so much| again)?;
    thank you( so much| very much| again)?; many thanks; thx; tysm; ty; cheers; much appreciated;
    i appreciate (?:it|that); you'?re welcome; no problem; no worries; please; sorry; ok; okay; okey; k; alright;
    all right; right; sure( thing)?; yes; yeah; yep; yup; no; nope; nah; fine; great; good; nice( one)?; cool;
    perfect; awesome; excellent; wonderful; amazing; brilliant; super; lovely; sweet; exactly; agreed; indeed;
    of course; got it; gotcha; understood; (?:duly )?noted; notiert; gemerkt; note; anotado; apuntado;
    i(?:'ll| will)? (?:remember|note|keep) (?:that|it|this)( in mind)?; i see; makes sense; (?:sounds|looks) (?:good|great|fine);
    that'?s (?:it|all|fine|good|great|perfect|right); (?:good|great|nice|well) (?:job|work|done); wow; oh; ah; aha;
    hmm+; mhm; uh; um; lol; (?:ha){2,}; never ?mind; not now; done; go ahead; (?:(?:let's|we can) )?(?:go|move|carry) on; continue; hallo; moin( moin)?;
    servus; grussgott; gruss gott; guten (?:tag|morgen|abend)|gute nacht; schonen (?:tag|abend)( noch)?;
    danke?( dir| euch| ihnen)?( sehr| schon)?; vielen( lieben)? dank; besten dank; herzlichen dank;
    merci( beaucoup| bien)?; bitte( schon| sehr)?; gern(?:e)?( geschehen)?; ja; jo; nein; doch; klar; alles klar;
    passt( so)?; perfekt; genau; gut; sehr gut; prima; toll; klasse; spitze; wunderbar; einverstanden; verstanden;
    stimmt; tschuss; ciao; (?:auf )?wiedersehen; bis (?:bald|dann|spater|morgen|gleich); mach(?:'?s)? gut;
    entschuldigung; kein problem; bonjour; bonsoir; salut; coucou; bonne (?:nuit|journee|soiree); au revoir;
    a (?:bientot|demain|plus); s'il (?:te|vous) plait; de rien; oui; non; d'accord; parfait; tres bien; genial;
    entendu; pas de probleme; desole(?:e)?; hola; buenos dias; buen dia; buenas( tardes| noches)?;
    (?:muchas |mil )?gracias; de nada; por favor; si; vale; claro( que si)?; perfecto; muy bien; entendido;
    estupendo; adios; hasta (?:luego|pronto|manana); lo siento; obrigad[oa]; ola; bom dia; boa (?:tarde|noite);
    grazie( mille)?; prego; buongiorno; va bene; next( one| question| topic)?; (?:that|this|it) (?:helps|helped|worked|works|did it)( me)?( a lot)?;
    (?:das|des) (?:hilft|half|hat geholfen|war'?s)( mir)?( sehr| weiter)?; (?:die )?nachste( frage)?; (?:mach(?:en wir)? )?weiter( so| im text| geht'?s)?;
    (?:eso|me) (?:me )?(?:ayuda|sirve)( mucho)?; (?:la )?siguiente( pregunta)?; sigue; sigamos; adelante; listo;
    (?:ca|cela) (?:m'aide|aide)( beaucoup)?; (?:la )?(?:question )?suivante?; on continue; la suite; nickel; super
"""
_CJK_PHRASES: Final = """
    (?:どうも)?ありがとう(?:ございます|ございました|ね)? こんにち[はわ] こんばん[はわ] おはよう(?:ございます)?
    おやすみ(?:なさい)? さようなら はい うん いいえ 了解(?:です|しました)? わかりました 分かりました わかった
    分かった お願いします すみません ごめん(?:なさい)? よろしく(?:お願いします)? なるほど すごい いいね
    完璧(?:です)? お疲れ様(?:です|でした)? 大丈夫(?:です)? (?:非常|十分)?感[谢謝](?:你|您)? [谢謝][谢謝](?:你|您)?
    多[谢謝] 你好 您好 早上好 晚上好 晚安 再[见見] 拜拜 好的?吧? 行吧? 可以 是的 [对對]的? 嗯+ 哦 明白了? 知道了 [记記](?:下|住)了 メモしました 覚えました 承知(?:しました|です)
    [没沒](?:问题|問題|关系|關係) 不客[气氣] 不用[谢謝] [请請] [对對]不起 太好了 很好 不[错錯] 完美 辛苦了
    (?:好的?)?下一[个個] [继繼][续續] 有[帮幫]助 [帮幫]大忙了 [谢謝]啦 続けて(?:ください)? 次(?:(?:を)?お願いします)? 助かり(?:ます|ました)
    감사합니다 고마워요? 안녕하세요 네
"""
"""Normalised, as they are compared.

A blank stands for any white space, in the second list for a separator."""
_ANSWER: Final = re.compile(
    r"\b(?:yes|yeah|yep|yup|no|nope|nah|sure(?: thing)?|agreed|ja|jo|nein|doch|einverstanden|oui|non"
    r"|d'accord|entendu|si|vale)\b|はい|うん|いいえ|是|[对對]|可以|네"
)
"""Courtesies that answer what was asked before them."""
CHARS_MAX: Final = 400
"""Longer texts are pasted or explained: their own words find what they need."""


def _phrase_pattern() -> str:
    phrases = [" ".join(phrase.split()) for phrase in _PHRASES.split(";")]
    return "|".join(sorted(phrases, key=len, reverse=True)).replace(" ", r"\s+")


_PATTERN: Final = re.compile(
    rf"(?<![^\W_])(?:{_phrase_pattern()})(?![^\W_])"
    rf"|(?=[\u3040-\u9fff\uac00-\ud7a3])(?:{'|'.join(normalized_text(_CJK_PHRASES).split())})"
)
_CHARS_MAX: Final = 200
"""A longer text is taken to have content."""


def is_greeting_phrase(text: str) -> bool:
    """Return whether a text holds only courtesies and neither a question nor content."""
    if len(text) > _CHARS_MAX or is_question(text):
        return False
    normalized = normalized_text(text)
    rest = _PATTERN.sub(" ", normalized)
    return rest != normalized and not terms(rest)


def is_filler(text: str) -> bool:
    """Return whether a text holds only courtesies that answer nothing."""
    return is_greeting_phrase(text) and not any(
        _ANSWER.fullmatch(found[0]) for found in _PATTERN.finditer(normalized_text(text))
    )


class QuestionKind(Enum):
    """What a question is about."""

    PERSONAL = "personal"
    """The person who asks, their own things, or what was said."""
    OPEN = "open"
    """Neither."""
    GENERAL = "general"
    """What people know, or a text in hand."""


def _words(words: str, others: str = "") -> re.Pattern[str]:
    """Return a pattern of words, and of those of languages that write none apart."""
    return re.compile(rf"(?<![a-z])(?:{words})(?![a-z])" + (f"|{others}" if others else ""))


_QUOTED: Final = re.compile(
    r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`|“[^”\n]{1,200}”|„[^“”\n]{1,200}[“”]"
    r"|«[^»\n]{1,200}»|「[^」\n]{1,200}」|『[^』\n]{1,200}』|《[^》\n]{1,200}》|‘[^’\n]{1,200}’"
)
_REQUEST: Final = _words(
    r"(?<!did you )(?:tell|give|show|teach|name|explain(?: to)?) (?:me|us)|explain .{1,80} to me"
    r"|(?:i|i'd) (?:need|want|like|would like|love) to know|i wonder|i'm (?:wondering|curious)"
    r"|(?:sag|nenn|erzahl|gib|zeig|erklar|schreib|ubersetz)e? (?:mir|uns)|ich (?:will|mochte|wurde gern) wissen"
    r"|(?:(?:konnen|konnten|wurden|geben|sagen|zeigen|nennen|erklaren|schreiben|erzahlen|ubersetzen|suchen|machen|empfehlen|helfen) sie|(?:kannst|konntest|wurdest) du) (?:mir|uns)"
    r"|(?:me|nos) (?:dices|cuentas|das|explicas|puedes?|podrias?|podria)|quiero saber"
    r"|(?:dis|raconte|donne|explique|montre|cite|dites|racontez|donnez|expliquez|montrez|citez|ecrivez|traduisez)[- ](?:moi|nous)|j'aimerais savoir"
    r"|(?:tu|vous) (?:me|nous) (?:dis|racontes|donnes|expliques)|(?:peux-tu|pourrais-tu|pouvez-vous|pourriez-vous) (?:me|nous)|je (?:voudrais|veux) savoir",
    r"(?:给|給|告诉|告訴|跟|教)我|我(?:想|要)(?:知道|问|問)",
)
"""Words by which people ask to be told something: they do not speak of themselves there."""
_OWN: Final = _words(
    r"my|mine|ours?|mein(?:e[nmrs]?)?|unser(?:e[nmrs]?)?|mon|ma|mes|notre|nos|mis?|mi[oa]s?"
    r"|nuestr[oa]s?",
    r"我的|我们的|我們的|私の|僕の|俺の|自分の|うち[のはが]",
)
_SELF: Final = _words(
    r"i|ive|i'(?:m|ve|d|ll)|me|we|we(?:'re|'ve)|us|ich|mir|mich|wir|uns|je|moi|nous|yo|conmigo"
    r"|tengo|soy|estoy|vivo|trabajo|dedico|llamo|hago|voy|puedo|debo|quiero|juego|estudio|tomo|uso"
    r"|conduzco|manejo|pierdo|aspiro|gano|llevo|conozco|suelo|practico|bebo|como yo|leo|toco"
    r"|compre|tuve|fui|trabaje|vivi|deje|dije|hice|estudie|tenemos|vivimos|somos|fuimos|vamos"
    r"|you (?:said|told|mentioned|suggested|recommended|gave)|hast du|hattest du|as-tu|me dijiste"
    r"|(?:did|have) you (?:say|tell|told|mention\w*|suggest\w*|recommend\w*)",
    r"\b[jm]'|(?:¿|\b(?:que|cual|donde|cuando|como) )me\b"
    r"|我|咱|俺|私|僕|わたし|あたし|ぼく|だっけ",
)
_KIN: Final = re.compile(
    r"老公|老婆|老伴|女儿|闺女|儿子|孩子|宠物|对象|旦那|息子|娘|長男|長女|子ども|子供|夫は|妻は|主人"
    r"|実家|勤め先|職場|マイカー|大家|家賃|ペット|飼い|キャンパス|バイト|治疗|働いてる|住んでる"
    r"|飲む薬|飲んでる"
)
"""In Chinese and Japanese one's own people and things are named without a possessive."""


def kind_of(question: str) -> QuestionKind:
    """Return whether the words of a question name the user's own matters.

    What stands in quotation marks and what only addresses a request count for nothing."""
    text = normalized_text(question)
    if len(question) > CHARS_MAX:
        return QuestionKind.PERSONAL if _OWN.search(text) else QuestionKind.OPEN
    voice = _REQUEST.sub(" ", _QUOTED.sub(" ", text))
    is_own = any(pattern.search(voice) for pattern in (_OWN, _SELF, _KIN))
    return QuestionKind.PERSONAL if is_own else QuestionKind.OPEN


ASKS_MIN: Final = 1.0
"""Log-odds at least by which a question is taken to be about memory, or not."""


def kind_by_meaning(question: str, kind: QuestionKind, asks: float | None) -> QuestionKind:
    """Return the kind of a question by its words and the log-odds that it is about memory.

    What its words say of the user's own matters holds. Without log-odds, the model of sentences
    tells what is general."""
    if kind is QuestionKind.PERSONAL:
        return kind
    if (judge(question).recalls if asks is None else asks) < -ASKS_MIN:
        return QuestionKind.GENERAL
    return QuestionKind.PERSONAL if (asks or 0.0) > ASKS_MIN else kind


_CODE: Final = re.compile(r"(?<![a-z0-9])[a-z]+-?\d{3,}(?![a-z0-9])")
"""What identifies a ticket, an error or a product: letters, then a number."""
_NEXT_WORD: Final = re.compile(
    r"(?<=\w[\s,:(])[^\W\d_]\w*\b(?!-\d)|[^\W\d_]\w*(?= ?[\u3040-\u9fff])"
)
"""A word that does not begin a sentence, or that stands in Chinese or Japanese; no code's letters."""


def kind_in_memory(question: str, kind: QuestionKind, known: Set[str]) -> QuestionKind:
    """Return the kind of a question in a memory of these terms.

    No question is general that names a person, a thing or a code of the memory: "Write a card for
    Halina.", "What does E0308 mean?"."""
    if kind is not QuestionKind.GENERAL:
        return kind
    names = [word for word in _NEXT_WORD.findall(question) if word[0].isupper()]
    codes = _CODE.findall(normalized_text(question))
    is_known = any(found and known >= {*found} for found in map(terms, [*names, *codes]))
    return QuestionKind.OPEN if is_known else kind


KEYWORDS_MAX: Final = 3
_KEY_CODE: Final = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S+")


def is_keywords(text: str, content: Sequence[str]) -> bool:
    """Return whether a text is a keyword search: two or three words, or a code.

    `content` are the terms of the text without common words. A single word could be a command, such
    as "commit", and does not count."""
    words = text.split()
    if len(words) == 1:
        return _KEY_CODE.fullmatch(words[0]) is not None
    return 1 < len(words) <= KEYWORDS_MAX and len(words) == len(content) and not is_question(text)
