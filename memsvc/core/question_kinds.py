"""Kinds of questions, their topics in everyday words, and courtesies that ask nothing."""

import re
from collections.abc import Set
from enum import Enum
from typing import Final

from memsvc.core.analysis import is_question, normalized_text, terms

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
_ORDERS: Final = (
    "explain|describe|define|summari[sz]e|translate|convert|write|name the|list"
    "|erklar|nenne|beschreib|explica|explique"
)
_ORDER: Final = re.compile(rf"^\W*(?:{_ORDERS})")
"""Verbs that ask for a text: of general knowledge, unless it is about somebody who is known."""
_KNOWLEDGE: Final = re.compile(
    rf"^\W*(?:{_ORDERS}"
    r"|how (?:does|do|is|are|can|many|long|far|tall|old|much)\b"
    r"|what(?:'s| is| are| does| do| causes?| makes?| year|s)\b"
    r"|who (?:was|is|wrote|painted|invented|discovered|founded|composed|created|won|made)\b"
    r"|which (?:\w+ ){1,2}(?:has|have|is|are|does|do|ended|[a-z]{3,}s)\b"
    r"|why (?:is|are|do|does|did)\b|when (?:was|were|did)\b"
    r"|is (?:a|an)\b|in (?:chess|math|physics|which)\b"
    r"|was (?:ist|sind|macht|bedeutet|versteht)\b|wer (?:hat|war|ist|schrieb|erfand)\b"
    r"|warum (?:ist|sind|hat)\b|wie (?:heisst|heissen) d(?:ie|er|as)\b"
    r"|wie (?:viele?|lautet|funktioniert|lange|hoch|weit)\b|in welchem jahr\b|aus welche\w*\b"
    r"|welche\w* \w+ (?:hat|haben)\b"
    r"|(?:que|quien(?:es)?|cual(?:es)?) (?:es|son|significa|quiere|fue|pinto|escribio|invento)\b"
    r"|cuant[oa]s?\b|de donde viene|como se\b|por que (?:es|son|se)\b|en que ano\b"
    r"|qui (?:a|est|etait|fut)\b|que (?:signifie|veut)\b|qu'est|c'est quoi\b|quelle? est\b"
    r"|combien\b|pourquoi\b|comment (?:fonctionne|dit|calcul)|en quelle annee\b)"
    r"|(?:capital|capitale|hauptstadt) (?:of|de|du|von|der)\b"
    r"|什么是|是什么|是谁|是誰|谁[写发画拍]|首都|最[高大长長快小深古]"
    r"|一番|いちばん|かける|反対語|多少|哪一?年|出自|差在|等於|等于|怎么写|って何|は誰|とは|教えて|あげて|何度|何年"
)


_CODE: Final = re.compile(r"(?<![a-z0-9])[a-z]+-?\d{3,}(?![a-z0-9])")
"""What identifies a ticket, an error or a product: letters, then a number."""
_NEXT_WORD: Final = re.compile(r"(?<=\w[\s,:(])[^\W\d_]\w*")
"""A word that does not begin a sentence."""


def kind_of(question: str) -> QuestionKind:
    """Return what a question is about.

    What stands in quotation marks and what only addresses a request count for nothing. General
    knowledge, arithmetic, words and languages, and a fault of one's program are no personal
    matters, also where they say "I" or "my"."""
    text = normalized_text(question)
    if len(question) > CHARS_MAX:
        return QuestionKind.PERSONAL if _OWN.search(text) else QuestionKind.OPEN
    voice = _voice(text)
    is_own = any(pattern.search(voice) for pattern in (_OWN, _SELF, _KIN))
    if _is_task(text, voice):
        return QuestionKind.GENERAL
    if is_own or _ADVICE.search(text):
        return QuestionKind.PERSONAL
    is_general = _REQUEST.search(text) or _KNOWLEDGE.search(text)
    return QuestionKind.GENERAL if is_general else QuestionKind.OPEN


ASKS_MIN: Final = 1.0
"""Log-odds at least by which a question's meaning tells its kind, for or against memory."""


def kind_by_meaning(kind: QuestionKind, asks: float | None) -> QuestionKind:
    """Return the kind of a question by its words and the log-odds that it is about memory.

    What its words say of the user's own matters holds."""
    if asks is None or kind is QuestionKind.PERSONAL or abs(asks) < ASKS_MIN:
        return kind
    return QuestionKind.PERSONAL if asks > 0 else QuestionKind.GENERAL


def kind_in_memory(question: str, kind: QuestionKind, known: Set[str]) -> QuestionKind:
    """Return the kind of a question in a memory of these terms.

    A request for a text ("write", "list", "tell me") is no general knowledge where it names
    something of the memory: "Write a card for Halina.". No question is where it names a code of the
    memory: "What does E0308 mean?"."""
    text = normalized_text(question)
    codes = [terms(code) for code in _CODE.findall(text)]
    if kind is QuestionKind.GENERAL and any(code and known >= set(code) for code in codes):
        return QuestionKind.OPEN
    is_request = _ORDER.search(text) or _REQUEST.search(text)
    if kind is not QuestionKind.GENERAL or not is_request or _is_task(text, _voice(text)):
        return kind
    names = [word for word in _NEXT_WORD.findall(question) if word[0].isupper()]
    is_known = any(term in known for term in terms(" ".join(names)))
    return QuestionKind.OPEN if is_known else kind


def _voice(text: str) -> str:
    """Return a question without what it quotes and what only addresses a request."""
    return _REQUEST.sub(" ", _QUOTED.sub(" ", text))


def _is_task(text: str, voice: str) -> bool:
    """Return whether a question is about numbers, words, a text in hand, or a machine's fault."""
    if _TASK.search(text):
        return True
    is_fault = _COMPUTER.search(text) and _FAULT.search(text)
    return is_fault is not None and not _SHARED.search(voice)
