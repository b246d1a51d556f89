"""What a question is about: the person who asks, anything, or the world and the text in hand.

Patterns are over `normalized_text`: lower case, no diacritics. Words end where no Latin letter
follows: Chinese and Japanese are written against them."""

import re
from enum import Enum
from typing import Final

from memsvc.core.analysis import normalized_text

CHARS_MAX: Final = 400
"""Longer texts are pasted or explained: their own words find what they need."""


class QuestionKind(Enum):
    """What a question is about."""

    PERSONAL = "personal"
    """The person who asks, their own things, or what was said; or it asks for advice or a plan."""
    OPEN = "open"
    """Neither."""
    GENERAL = "general"
    """What people know, numbers, words, a text in hand, or a machine's fault."""


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
    r"|(?:sag|nenn|erzahl|gib|zeig|erklar)e? (?:mir|uns)|ich (?:will|mochte|wurde gern) wissen"
    r"|(?:me|nos) (?:dices|cuentas|das|explicas)|quiero saber"
    r"|(?:dis|raconte|donne|explique|montre|cite)[- ](?:moi|nous)|j'aimerais savoir"
    r"|tu me (?:dis|racontes|donnes|expliques)|je (?:voudrais|veux) savoir",
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
_ADVICE: Final = _words(
    r"what (?:should|could|shall|can) (?:i|we)|should (?:i|we)|recommend|suggest\w*"
    r"|(?:plan|organi[sz]e) (?:a|an|my|our|the|me|us)|gift|present for|ideas? for"
    r"|help me (?:choose|pick|plan|decide|find)|which .{1,40} (?:should|would) (?:i|we|suit)"
    r"|empfiehl\w*|empfehl\w*|was (?:soll|sollte|konnte|kann) (?:ich|wir)|schlag\w* .{0,30}\bvor"
    r"|vorschlag\w*|geschenk\w*|plane? (?:mir|uns|eine?n?)"
    r"|welche[nrs]? .{1,40} (?:soll|sollte) ich"
    r"|recomiend\w*|recomendar\w*|sugier\w*|que [a-z]+o (?:hoy|manana|esta noche)"
    r"|que (?:deberia|puedo|podria|pido|hago|cocino|regalo)"
    r"|regalo|ideas? (?:de|para)|planea\w*|organiza\w*"
    r"|recommand\w*|conseil\w*|que (?:dois|devrais|puis)-je|cadeau|propose\w*|idees? (?:de|pour)"
    r"|organise\w*|planifie\w*",
    r"推荐|建议|主意|礼物|计划一|安排|おすすめ|オススメ|提案|プレゼント|どうしよう|何がいい|計画",
)
_TASK: Final = _words(
    r"translat\w*|rhym\w*|synonyms?|antonyms?|another word|explain|defin(?:e|ition)|proofread"
    r"|rewrite|rephrase|convert|calculate|compute|solve|spell\w*|pronounce\w*|conjugate\w*|plural"
    r"|(?:past|present) (?:tense|participle)|what does .{1,60} mean|(?:a|an?other|some) (?:joke"
    r"|riddle|pun|limerick|haiku|tongue twister)s?|say .{1,60} in [a-z]{4,}"
    r"|square root|percent(?:age)? of"
    r"|ubersetz\w*|reim\w*|synonym\w*|(?:anderes|ein) wort fur|erklar\w*|bedeutet|berechne\w*"
    r"|schreibt man|witz|ratsel|zungenbrecher|prozent|quadratwurzel|mehrzahl|auf (?:englisch"
    r"|franzosisch|spanisch|italienisch|latein)"
    r"|traduc\w*|tradui\w*|sinonimo\w*|explica\w*|explique\w*|significa|signifie|rime\w*|rima\w*"
    r"|veut dire|quiere decir|calcula\w*|corrige\w*|se (?:dice|escribe|conjuga)|chiste|adivinanza"
    r"|trabalenguas|raiz cuadrada|por ciento|se dit|s'ecrit|dit-on|blague|devinette|racine carree"
    r"|pour cent|un autre mot|otra palabra",
    r"\d\s*(?:[-+*/x×÷^=]|times|plus|minus|divided by|mal|por|fois)\s*\d|\d ?%"
    r"|翻译|翻譯|同义|同義|反义|近义|解释|解釋|什么意思|什麼意思"
    r"|怎么[说写读]|怎麼[說寫讀]|笑话|笑話|谜语|绕口令|成语|平方|英語で|英訳|訳して|意味|言い換え|ことわざ|ダジャレ"
    r"|なぞなぞ|冗談|笑い話|早口言葉|読み方|何と読",
)
"""Words, numbers and jests."""
_FAULT: Final = _words(
    r"why|how (?:do|can|would|should) (?:i|you)|how to|what(?:'s|s| am i| have i| is) .{0,20}"
    r"(?:wrong|missing)|won't|wont|doesn't|doesnt|isn't|not working|returns?|throws?|errors?|wrong"
    r"|difference|exceptions?|crash\w*|hangs?|stuck|fix|fails?|failing|abort|upside|broken|undo|denied"
    r"|trying to|keeps? getting"
    r"|wie (?:kann|mache?|bekomme?|geht|krieg)|warum|wirft|woran|funktioniert|geht nicht|fehler\w*"
    r"|hangt|falsch|riesig|como (?:se|puedo|hago)|por que|devuelve|falla|no (?:funciona|termina"
    r"|compila|carga|arranca|va|sale)|comment|pourquoi|erreurs?|plante|ne (?:marche|fonctionne"
    r"|compile|veut) pas|marche|[a-z]+(?:error|exception)",
    r"为什么|為什麼|怎么|怎麼|如何|报错|出错|匹配不|卡住|なぜ|どうして|エラー|出ない|動かない|できない"
    r"|どうやって|には[？?]?$|方法",
)
_COMPUTER: Final = _words(
    r"css|html|javascript|js|typescript|python|java|sql|regex\w*|git|docker\w*|linux|bash|script\w*"
    r"|skript\w*|excel|formula|formule|formel|function|funktion|loop|schleife|bucle|boucle|code"
    r"|compiler|div|api|json|yaml|xml|csv|webcam|driver|treiber|browser|windows|server|serveur|servidor"
    r"|query|consulta|requete|programm?\w*|image|array|pandas|numpy|dataframe|spreadsheet|terminal"
    r"|branch|commit|merge|flexbox|rebase|kubernetes|npm|pip|react|django|c\+\+|rust|php"
    r"|ssh|segfault|null(?:pointer)?\w*",
    r"正则|代码|函数|程序|报错|コード|関数|プログラム|エラー|スクリプト|エクセル|パイソン|去重",
)
_SHARED: Final = _words(
    r"we|our|us|wir|unser(?:e[nmrs]?)?|nous|notre|nos|nuestr[oa]s?|tenemos", r"我们|我們|咱们|うち"
)
"""A project is spoken of in the plural: its faults are in memory."""
_KNOWLEDGE: Final = re.compile(
    r"^\W*(?:explain|describe|define|summari[sz]e|translate|convert|write|name the|list"
    r"|how (?:does|do|is|are|can|many|long|far|tall|old|much)\b"
    r"|what(?:'s| is| are| does| do| causes?| makes?| year|s)\b"
    r"|who (?:was|is|wrote|painted|invented|discovered|founded|composed|created|won|made)\b"
    r"|which (?:\w+ ){1,2}(?:has|have|is|are|does|do|ended|[a-z]{3,}s)\b"
    r"|why (?:is|are|do|does|did)\b|when (?:was|were|did)\b"
    r"|is (?:a|an)\b|in (?:chess|math|physics|which)\b"
    r"|was (?:ist|sind|macht|bedeutet|versteht)\b|wer (?:hat|war|ist|schrieb|erfand)\b"
    r"|warum (?:ist|sind|hat)\b|wie (?:heisst|heissen) d(?:ie|er|as)\b"
    r"|wie (?:viele?|lautet|funktioniert|lange|hoch|weit)\b|in welchem jahr\b|aus welche\w*\b"
    r"|welche\w* \w+ (?:hat|haben)\b|erklar|nenne|beschreib"
    r"|(?:que|quien(?:es)?|cual(?:es)?) (?:es|son|significa|quiere|fue|pinto|escribio|invento)\b"
    r"|cuant[oa]s?\b|de donde viene|como se\b|explica|por que (?:es|son|se)\b|en que ano\b"
    r"|qui (?:a|est|etait|fut)\b|que (?:signifie|veut)\b|qu'est|c'est quoi\b|quelle? est\b"
    r"|combien\b|explique"
    r"|pourquoi\b|comment (?:fonctionne|dit|calcul)|en quelle annee\b)"
    r"|(?:capital|capitale|hauptstadt) (?:of|de|du|von|der)\b"
    r"|什么是|是什么|是谁|是誰|谁[写发画拍]|首都|最[高大长長快小深古]"
    r"|一番|いちばん|かける|反対語|多少|哪一?年|出自|差在|等於|等于|怎么写|って何|は誰|とは|教えて|あげて|何度|何年"
)


_TECHNICAL: Final = re.compile(
    r"`|\b[\w-]+\.(?:py|[jt]sx?|go|rs|md|ya?ml|json|toml|sql|java|kt|swift|c|h|cpp|cs"
    r"|rb|php|sh|css|html|ini|cfg|conf|env|lock|txt|csv|ipynb|tf|proto)\b"
    r"|\b[a-zA-Z]+_[a-zA-Z]|\b[a-z]+[A-Z][a-z]|\b[A-Z][a-z]+[A-Z][a-z]|(?<!\w)--[a-z]|\w\(\)"
)


def is_technical(text: str) -> bool:
    """Return whether a text names a file, an identifier or code."""
    return _TECHNICAL.search(text) is not None


def kind_of(question: str) -> QuestionKind:
    """Return what a question is about.

    What stands in quotation marks and what only addresses a request count for nothing. General
    knowledge, arithmetic, words and languages, and a fault of one's program are no personal
    matters, also where they say "I" or "my"."""
    text = normalized_text(question)
    if len(question) > CHARS_MAX:
        return QuestionKind.PERSONAL if _OWN.search(text) else QuestionKind.OPEN
    voice = _REQUEST.sub(" ", _QUOTED.sub(" ", text))
    is_own = any(pattern.search(voice) for pattern in (_OWN, _SELF, _KIN))
    is_fault = _COMPUTER.search(text) and _FAULT.search(text) and not _SHARED.search(voice)
    if is_fault or _TASK.search(text):
        return QuestionKind.GENERAL
    if is_own or _ADVICE.search(text):
        return QuestionKind.PERSONAL
    is_general = _REQUEST.search(text) or _KNOWLEDGE.search(text)
    return QuestionKind.GENERAL if is_general else QuestionKind.OPEN


def asks_knowledge(text: str) -> bool:
    """Return whether a text begins as a question of general knowledge does."""
    return _KNOWLEDGE.search(normalized_text(text[:CHARS_MAX])) is not None


def is_first_person(text: str) -> bool:
    """Return whether somebody speaks of themselves or their own."""
    text = normalized_text(text[:CHARS_MAX])
    return _OWN.search(text) is not None or _SELF.search(text) is not None
