"""Questions about the person who asks, and requests for advice, told from questions of knowledge.

Patterns are over `normalized_text`: lower case, no diacritics."""

import re
from typing import Final

from memsvc.core.analysis import normalized_text

CHARS_MAX: Final = 400
"""Longer texts are pasted or explained: their own words find what they need."""

_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|ive|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|us|our|ours"
    r"|ich|mir|mich|mein(?:e[nmrs]?)?|wir|uns|unser(?:e[nmrs]?)?"
    r"|je|j'|moi|mon|ma|mes|nous|notre|nos"
    r"|mi|mis|mio|mia|yo|conmigo|nuestr[oa]s?"
    r"|tengo|soy|estoy|vivo|trabajo|dedico|llamo|hago|voy|puedo|debo|quiero|juego|estudio|tomo|uso"
    r"|conduzco|manejo|pierdo|aspiro|gano|llevo|conozco|suelo|practico|bebo|como yo|leo|toco"
    r"|compre|tuve|fui|trabaje|vivi|deje|dije|hice|estudie|tenemos|vivimos|somos|fuimos|vamos)\b"
    r"|\b[jm]'|(?:¿|\b(?:que|cual|donde|cuando|como) )me\b"
    r"|我|咱|俺|私|僕|わたし|あたし|ぼく|自分の|うち[のはが]|だっけ"
)
_KIN: Final = re.compile(
    r"老公|老婆|老伴|女儿|闺女|儿子|孩子|宠物|对象|旦那|息子|娘|長男|長女|子ども|子供|夫は|妻は|主人"
    r"|実家|勤め先|職場|マイカー|大家|家賃|ペット|飼い|キャンパス|バイト|治疗|働いてる|住んでる"
    r"|飲む薬|飲んでる"
)
"""In Chinese and Japanese one's own people and things are named without a possessive."""
_ADVICE: Final = re.compile(
    r"\b(?:what (?:should|could|shall|can) (?:i|we)|should (?:i|we)|recommend|suggest\w*"
    r"|(?:plan|organi[sz]e) (?:a|an|my|our|the|me|us)\b|gift|present for|ideas? for"
    r"|help me (?:choose|pick|plan|decide|find)|which .{1,40} (?:should|would) (?:i|we|suit)"
    r"|empfiehl\w*|empfehl\w*|was (?:soll|sollte|konnte|kann) (?:ich|wir)|schlag\w* .{0,30}\bvor"
    r"|vorschlag\w*|geschenk\w*|plane? (?:mir|uns|eine?n?)\b"
    r"|welche[nrs]? .{1,40} (?:soll|sollte) ich"
    r"|recomiend\w*|recomendar\w*|sugier\w*|que (?:deberia|puedo|podria|pido|hago|cocino|regalo)"
    r"|regalo|ideas? (?:de|para)|planea\w*|organiza\w*"
    r"|recommand\w*|conseil\w*|que (?:dois|devrais|puis)-je|cadeau|propose\w*|idees? (?:de|pour)"
    r"|organise\w*|planifie\w*)\b"
    r"|推荐|建议|主意|礼物|计划一|安排|おすすめ|オススメ|提案|プレゼント|どうしよう|何がいい|計画"
)
_TASK: Final = re.compile(
    r"\b(?:translat\w*|rhymes?|synonyms?|antonyms?|another word|explain|define|definition"
    r"|proofread|rewrite|convert|calculate|compute|solve|spell|pronounce|what does .{1,60} mean"
    r"|ubersetz\w*|reim\w*|synonym\w*|(?:anderes|ein) wort fur|erklar\w*|bedeutet|berechne\w*"
    r"|traduc\w*|tradui\w*|sinonimo\w*|explica\w*|explique\w*|significa|signifie|rime|veut dire"
    r"|quiere decir|calcula\w*|corrige\w*)\b"
    r"|翻译|翻譯|同义|近义|解释|什么意思|怎么说|怎麼說|英語で|英訳|訳して|意味|同じ意味|言い換え"
)
_PROBLEM: Final = re.compile(
    r"\b(?:why|how (?:do|can|would|should) (?:i|we)|wie (?:kann|mache|bekomme)|como (?:puedo|hago)"
    r"|comment (?:puis|faire)|won't|wont|doesn't|doesnt|isn't|not working|returns?|throws?|error"
    r"|exception|crash\w*"
    r"|stuck|fix|fails?|failing|abort|upside|broken|warum|wirft|woran|funktioniert|fehler|riesig"
    r"|por que|devuelve|pourquoi|erreur|denied|marche)\b"
    r"|为什么|為什麼|报错|匹配不|なぜ|エラー|出ない"
)
_COMPUTER: Final = re.compile(
    r"\b(?:css|html|javascript|js|typescript|python|java|sql|regex\w*|git|docker\w*|linux|bash|script"
    r"|excel|formula|function|loop|code|compiler|api|json|yaml|webcam|driver|browser|windows|server"
    r"|query|consulta|programm?\w*|image|formel|flexbox|rebase|kubernetes|npm|pip|c\+\+|rust|php)\b"
    r"|正则|代码|函数|程序|报错|コード|関数|プログラム|エラー|スクリプト"
)

_KNOWLEDGE: Final = re.compile(
    r"^\W*(?:explain|describe|define|summari[sz]e|translate|convert|write|name the|list"
    r"|how (?:does|do|is|are|can|many|long|far|tall|old|much)\b"
    r"|what(?:'s| is| are| does| do| causes?| makes?| year|s)\b"
    r"|who (?:was|is|wrote|painted|invented|discovered|founded|composed|created|won|made)\b"
    r"|which (?:\w+ ){1,2}(?:has|have|is|are|does|do|ended|[a-z]{3,}s)\b"
    r"|why (?:is|are|do|does|did)\b"
    r"|is (?:a|an)\b|in (?:chess|math|physics|which)\b"
    r"|was (?:ist|sind|macht|bedeutet)\b|wer (?:hat|war|ist|schrieb|erfand)\b"
    r"|warum (?:ist|sind|hat)\b"
    r"|wie (?:viele?|lautet|funktioniert|lange|hoch|weit)\b|in welchem jahr\b|aus welche\w*\b"
    r"|welche\w* \w+ (?:hat|haben)\b|erklar|nenne|beschreib"
    r"|(?:que|quien(?:es)?|cual(?:es)?) (?:es|son|significa|quiere|fue|pinto|escribio|invento)\b"
    r"|cuant[oa]s?\b|de donde viene|como se\b|explica|por que (?:es|son|se)\b"
    r"|qui (?:a|est|etait|fut)\b|que (?:signifie|veut)\b|qu'est|quelle? est\b|combien\b|explique"
    r"|pourquoi\b|comment (?:fonctionne|dit|calcul))"
    r"|什么是|是什么|是谁|是誰|多少|哪一年|出自|差在|等於|等于|怎么写|って何|は誰|とは|教えて|あげて|何度|何年"
)


def asks_knowledge(question: str) -> bool:
    """Return whether a question looks like one of general knowledge, which no memory answers."""
    return _KNOWLEDGE.search(normalized_text(question[:CHARS_MAX])) is not None


def is_personal(question: str) -> bool:
    """Return whether a question is about the person who asks, or asks for advice or a plan.

    General knowledge, arithmetic, words and languages, and help with a machine are not, also where
    they say "I" or "my"."""
    if len(question) > CHARS_MAX:
        return False
    text = normalized_text(question)
    if _TASK.search(text) or (_COMPUTER.search(text) and _PROBLEM.search(text)):
        return False
    return any(pattern.search(text) for pattern in (_FIRST_PERSON, _ADVICE, _KIN))


def is_first_person(text: str) -> bool:
    """Return whether somebody speaks of themselves or their own."""
    return _FIRST_PERSON.search(normalized_text(text[:CHARS_MAX])) is not None
