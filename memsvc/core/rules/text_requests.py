"""Requests to work on a text, and letters: their words in six languages."""

import re
from collections import Counter
from typing import Final

from memsvc.core.question_kinds import is_greeting_phrase
from memsvc.core.rules.quick_pattern import quick_pattern

# fmt: off
_FUNCTION_WORDS: Final = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and is are was of to in my i you it that for with not on have this me at be your a he she we they do can from please",
        "de": "der die das und ist ich nicht ein eine zu mit von den dem auf für im mein meine bin du sie es wir bitte wie hat habe aus kann mir mal",
        "es": "el la los las y es que en un una por con para mi yo no se del al me lo soy tengo como más pero está este muy de",
        "fr": "le la les et est que je un une pour avec mon ma ne pas des du au me ce suis ai dans il elle vous nous sur plus c'est j'ai de",
    }.items()
}
"""Common words by which short texts of these languages are told apart."""
# fmt: on

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

# fmt: off
# A pattern is a line of data, however long. Those without re.IGNORECASE are for text in lower case,
# which takes a third of the time.

_NOUN: Final = (
    # kinds of text
    r"(?:texte?n?s?|\w{3,12}texte?s?|sequel|prequel|opening line|opening|textos?|e-?mails?|mails?|letters?|briefe?s?|cartas?|lettres?|courriels?|courriers?|correos?|messages?|mensajes?|msgs?|sms|whatsapps?|nachricht(?:en)?|notiz(?:en)?|zettel|aushang"
    r"|mots?|reviews?|reseñas?|rezension(?:en)?|bewertung(?:en)?|avis|opini(?:ón|ones)|comments?|kommentare?|comentarios?|commentaires?|beitrag|beiträge|threads?|tweets?|captions?|ads?|adverts?|listings?"
    r"|\w*anzeigen?|inserate?|anuncios?|annonces?|lyrics?|paroles|letras?|\w*liedtexte?s?|songtexte?|songs?|lied(?:er)?|canci(?:ón|ones)|chansons?|poems?|gedichte?s?|poemas?|poèmes?|verses?|versos?|strophen?|stanzas?"
    r"|stor(?:y|ies)|geschichten?|historias?|histoires?|relatos?|cuentos?|contes?|tales?|passages?|pasajes?|paragraphs?|párrafos?|paragraphes?|absatz|absätze|abschnitte?s?|excerpts?|extracts?|extraits?|auszug|fragmentos?"
    r"|chapters?|kapitel|capítulos?|chapitres?|entr(?:y|ies|adas?)|eintrag|einträge|diar(?:y|ies|ios?)|tagebuch\w*|journal|dialogu?e?s?|diálogos?|gespräche?s?|conversation\w*|conversaci(?:ón|ones)"
    r"|chats?|chatverlauf|transcript\w*|transkripte?|transcripci(?:ón|ones)|interviews?|entrevistas?|entretiens?|speech(?:es)?|reden?|discursos?|discours|monologu?e?s?|monólogos?|gui(?:ón|ones)|scenes?|szenen?|escenas?"
    r"|scènes?|essays?|aufsatz|ensayos?|copies?|copie|redacci(?:ón|ones)|articles?|artikels?|artículos?|abstracts?|statements?|aussagen?|bios?|cvs?|resumes?|résumés?|lebensl\w+|currículums?"
    r"|applications?|bewerbung(?:en)?|candidatures?|solicitud(?:es)?|anschreiben|fiches?|questionnaires?|fragebogen|surveys?|respons\w+|antworten|respuestas|réponses|sentences?"
    r"|sätze|satz|frases?|phrases?|utterances?|quotes?|quotations?|zitate?s?|citas?|citations?|persona|character|figur|personajes?|personnages?|roles?|rolle|papel"
    r"|rôle|announcements?|ankündigung|rundschreiben|comunicados?|notices?|avisos?|affiches?|carteles?|cartel|flyers?|memos?|protokolle?|drafts?|entwurf|borrador(?:es)?|brouillons?|blurbs?|descriptions?|beschreibung(?:en)?"
    r"|descripci(?:ón|ones)|complaints?|beschwerden?|quejas?|plaintes?|réclamations?|voicemails?|audios?|testimonials?|obituary|toasts?|vows|clauses?|snippets?|feedback|telegrams?|postcards?|postkarte"
    r"|manuscrit|biograph(?:y|ies)|biografías?|biografien?|biographies?|memoirs?|memoiren|memorias|mémoires|monograph|esquema|gliederung|outline|faltas|incipit|steckbrief|gist|haiku|limerick|slogan|commas?|kommas?|tenses?|initials?|iniciales|sentido|rhymes?|bullet points|stichpunkte|passé|out-of-office|auto-?reply|plot|protagonist|coplas?|nouvelle|réplique|openers?|excuses"
    # what is found in one
    r"|scam|phishing|spam|betrug|timo|estafa|arnaque|grammar|grammatik|gramática|grammaire|spelling|rechtschreib\w*|ortografía|orthographe|typos?|tippfehler|mistakes|fehler|errores|fautes|tone|tonfall|tono|tonalité|wording|wortwahl|register"
    r"|registro|registre|irony|ironie|ironía|subtext|subtexto|sous-texte|metaphors?|adjectives|third person|dritte\w* person|tercera persona|troisième personne|headline|überschrift|titular|titre|punctuation|narrator|erzählers?|narrador|narrateur"
    # whose it is
    r"|guy|man|woman|lady|person|candidate|applicant|customer|client|student|pupil|witness|speaker|author|writer|sender|kund(?:e|in)|schüler(?:in)?|bewerber(?:in)?|absender(?:in)?|clienta?|alumn[oa]|candidat[oae]?|autora?|auteure?)"
)
_THING: Final = r"(?:forms?|formulare?s?|formularios?|formulaires?|logs?|logfile|stack ?traces?|fehlermeldung(?:en)?|code|tables?|tabelle|tabla|tableau|csv|json|yaml|rows|tickets?|lines|zeilen|pages?|páginas?|seite|profiles?|profile?s?|profils?|perfil(?:es)?|prompts?|scripts?|posts?|notes?|notas?|minutes|records?|roles?|tests?|" + _NOUN[3:]
_CJK_NOUN: Final = (
    r"(?:短信|邮件|信|消息|文字|文章|文本|段落|段|句子|句|对话|聊天|记录|歌词|歌|诗|日记|简历|自我介绍|评论|评价|差评|好评|介绍|采访|访谈|独白|台词|剧本|故事|广告|招聘|通知|公告|表格|表单|日志|代码|演讲|作文|内容|原文|稿|文案|笔录|人物|角色|客户|诈骗|骗局|拼音|材料|标题"
    r"|メール|文|手紙|メッセージ|会話|やりとり|チャット|詩|履歴書|口コミ|レビュー|インタビュー|セリフ|台本|脚本|物語|求人|お知らせ|フォーム|表|ログ|コード|スピーチ|原稿|下書き|記事|発言|投稿|アンケート|回答|キャラ|役|詐欺|フィッシング)"
)
_REFERENCE_WORD: Final = (
    r"(?:this|these|those|that|the following|following|here'?s|here is|here are|below|above|attached|got|received"
    r"|diese[rsmn]?|folgende[rnsm]?|hier|unten|obige[rnsm]?|de[mnr]|das|est[aeo]s?|es[aeo]s?|siguientes?|aquí|cet?|cette|ces|suivant\w*|voici|voilà|ci-dessous)"
)
REFERENCE: Final = quick_pattern(
    rf"\b{_REFERENCE_WORD}\W{{1,3}}(?:[\w'’-]+\W{{1,2}}){{0,4}}?{_THING}(?:s|e?n)?\b"
    rf"|\b{_THING}\W{{1,3}}(?:[\w'’-]+\W{{1,2}}){{0,3}}?(?:below|above|following|received|unten|oben|abajo|arriba|ci-dessous|siguientes?|suivante?s?)\b"
    rf"|\b(?:c'est|das ist|das war|esto es|eso es|it's|it was|it's from|es de|ist aus|c'est de|das (?:hat|stammt)|ist) (?:[\w'’-]+\W{{1,2}}){{0,3}}?{_THING}\b"
    rf"|^\W{{0,3}}(?:es|son) (?:[\w'’-]+\W{{1,2}}){{0,2}}?{_THING}\b"
    r"|\b(?:the following|folgendes|lo siguiente|ce qui suit|lo que sigue)\b"
    rf"|(?:[这那](?:[份封段条个首篇些句是])?|[下以]面?[下上]?|以[下上]|上面).{{0,8}}{_CJK_NOUN}|(?:この|その|次の|以下の|下の|上の|上記の|こちらの|これ).{{0,8}}{_CJK_NOUN}",
)
"""What points to a text of this message, or to who said it."""

FOLLOWING: Final = quick_pattern(
    r"\b(?:following|below|pasted|attached|folgend\w*|unten|siguientes?|abajo|suivante?s?|ci-dessous)\b"
)
"""What points to what stands behind it."""

GENERAL: Final = quick_pattern(r"\b(?:to|auf|an|für|à|pour|para) (?:an?|eine?[nrm]?|une?|una)\b|\ba una?\b")
"""What asks about texts of a kind."""

NOUN: Final = quick_pattern(rf"\b{_NOUN}(?:s|e?n)?\b|{_CJK_NOUN}")
"""A text, its making or its author."""

VERB: Final = quick_pattern(
    r"\b(?:(?:should|shall|do|can|must) i (?:reply|answer|respond|write back|sign|trust)|(?<!\bi )(?<!\bwe )(?:translate|summari[sz]e|sum (?:this|it|that|these|them)? ?up|tl;?dr|proof-?read|re-?write|re-?phrase|re-?word|paraphrase|condense|boil \w+ down|spell-?check|transcribe|write back|reply to (?:this|him|her|them|it)"
    r"|role-?play|(?:act|speak|talk|answer|reply) (?:as|like) (?!usual|if|before|always)|impersonate|in (?:the voice of|character)|pretend (?:you'?re|you are|to be|i'm|i am)|transform|convert|anonymi[sz]e|simplify|shorten|classify|categori[sz]e|decode|decipher|critique|punctuate|(?:play|take) (?:this|the|a) (?:character|role|part)|how (?:do|would) (?:you|i|\w+ \w+) say|sounds?|read(?:s)? to|come across|what (?:does|did|do) (?:this|that|it|he|she|they|these|those|the|my|his|her|our|their)\b.{0,30} (?:mean|want|imply))"
    r"|übersetz(?:e|t|en)?|zusammenfass\w*|fass\w{0,3} (?:\w+ ){0,6}zusammen|korrektur ?les\w*|korrigier\w*|umformulier\w*|formulier\w* (?:\w+ ){0,5}um|umschreib\w*|redigier\w*|spiel\w* (?:\w+ ){0,3}(?:rolle|figur)|schlüpf\w*|in der rolle|sei (?:jetzt |bitte |mal )*(?:der|die|ein|eine)\b|klingt|mein(?:t|te|en) (?:er|sie|der|die)\b|auf (?:deutsch|englisch|französisch|spanisch)"
    r"|tradú[cz]\w+|traduc\w+|resum[ei]\w*|resúm\w*|corr[ií]g\w+|corrije|reescrib\w+|reformul\w+|parafrase\w+|haz de|actúa como|hazte pasar|métete en|suena|insinúa\w*|insinuando|quier[eo]n? decir|transforma|convierte|al (?:inglés|español|francés|alemán|castellano)"
    r"|veut(?:-il|-elle|-on)? dire|sous-entend\w*|transforme|convertis|invente|tradui\w+|résum\w+|corrige\w*|reformule\w*|réécri\w+|relis\w*|relire|paraphrase\w*|fais (?:comme si tu|semblant)|incarne|mets-toi dans la peau|joue (?:le|ce|un) (?:rôle|personnage)|en (?:anglais|français|allemand|espagnol)"
    r"|(?:in|into|to) (?:plain |simple |proper |modern |formal )?(?:english|german|french|spanish|chinese|japanese|italian|dutch|portuguese))\b"
    r"|翻译|译成|翻成|总结|概括|压缩|润色|改写|改成|校对|改错|缩写|扮演|归纳|提炼|摘要|提取|分析|点评|打个?分|什么意思|病句|断句|语气|语法|整理|真的假的|回复"
    r"|訳して|訳し|翻訳|和訳|英訳|要約|まとめて|添削|校正|直して|言い換え|書き換え|書き直|短くして|なりきって|演じて|現代語|分類して|分析して|分けて|意味|自然に聞こえ|どう思|返信|採点|要するに|整えて|悪役",
)
"""What one does with texts only."""

RESPONSE: Final = quick_pattern(
    # an answer, summary or translation that is wanted
    r"\b(?:answers?|repl(?:y|ies)|responses?|comeback|rebuttal|feedback|summary|recap|digest|gist|translation|rundown|takeaways?|thoughts) (?:to|of|for|on|from|about) (?:an?|the|my|our|his|her|their|this|that|these|those|him|her|them|it|some)\b"
    r"|\bwhat (?:do|should|would|could|can|shall|might) (?:i|you|we) (?:even |actually |possibly )?(?:say|tell|write|answer|reply|respond|text|put|make of|think of|do with)\b|\b(?:how|what) (?:do|should|would|could|can|shall|might|'d|d) ?(?:i|you|we) (?:best |even |politely |nicely )?(?:reply|answer|respond|react|handle|phrase|word|put)\b"
    r"|\bis (?:this|that|it|he|she) (?:\w+ ){0,2}?(?:legit|genuine|real|rude|safe|polite|sarcastic|passive|ok to send|trustworthy|a scam|phishing|spam)\b|\b(?:make|get|put|turn|cut|boil|tidy|clean|tone|tighten|soften|smooth|polish|trim|touch|spruce|jazz|spice|sharpen) (?:this|that|it|these|them|the (?:text|tone|wording))\b"
    r"|\b(?<!\w )(?<!, )(?:english|german|french|spanish|italian|japanese|chinese) (?:please|pls|plz)\b|\bspot the (?:lie|error|mistake|typo)s?\b|\bwho(?:'s| is| was) (?:speaking|talking|writing|narrating|in the wrong|right here|the (?:asshole|jerk|narrator|villain))\b|\breddit\b|\bout of (?:this|that|it|these)\b|\bread (?:this|that|it) (?:for|to|out)\b|\bcomprehension\b|\b(?<!\w )(?<!, )(?:shorter|longer|funnier|simpler|friendlier|politer|snappier|less \w+|more \w+)\b(?! than)"
    r"|\bins (?:englische|deutsche|französische|spanische|italienische|türkische|polnische)\b|\b(?<!\w )(?<!, )(?:kürzer|länger|lustiger|förmlicher|knapper|höflicher|netter|einfacher)\b|\b(?:más|plus) (?:corto|largo|formal|graciosos?|sencillo|educado|natural|court|long|simple|poli|drôle|vendeu\w+|fluide|naturel)\b|\bça sonne\b|\bversion (?:plus|moins|más|menos)\b|\bleichte\w* sprache\b|\b(?:ablehnen|zusagen|absagen)\W*$|\bqu'(?:est-ce qu')?(?:il|elle) veut\b|\bt'y crois\b|\b(?:a|ont) (?:glissé|laissé|posté|collé) (?:ça|ce)\b"
    r"|\b(?:antwort|rückmeldung|reaktion|erwiderung) (?:auf|an|für|zu)\b|\b(?:was|wie) (?:\w+ ){0,2}?(?:antworte[nt]?|schreib(?:e|en|st)?|sag(?:e|en|st)?|reagier\w*|erwider\w*|formulier\w*) (?:ich|wir|man|du)\b|\b(?:was|wie) (?:würdest|würdet|soll|sollte|kann|könnte) (?:ich|wir|man|du)\b.{0,40}\b(?:antworten|schreiben|sagen|reagieren|erwidern|formulieren|verstehen)\b"
    r"|\b(?:in|en) (?:\w+ ){1,2}(?:sätzen|zeilen|worten|sentences|lines|words|bullets|frases|líneas|palabras|phrases|lignes|mots)\b|\b(?:lesbar|leserlich|lisible|legible|readable)\b|\b(?:überarbeit|übertrag|umwandel|verständlich|verbesser|glätt|polier|kürz|entschärf|vereinfach|analysier|bewert|einordn|auswert)\w*|\bist (?:das|die|der) (?:\w+ )?(?:seriös|echt|betrug|unhöflich|fake)\b"
    r"|\brespuesta (?:a|para|al)\b|\bqué (?:le|les|te|se le|hay que) (?:contest|respond|dig|dir|pong|pond|escrib)\w*|\bqué (?:contest|respond|pong|dir[íi]|escrib)\w+|\bc[óo]mo (?:le |les |se )?(?:contest|respond|dig|dir)\w+|\b(?:contest|respond)(?:ar|er)(?:le|les|la|lo)?\b|\b(?:contest|respond)er?[íi]as\b|\b(?:pul[ei]|suaviz|mejor[aeá]|revís|repás|simplific|acort)\w*|\bes (?:fiable|verdad|una estafa|un timo|de fiar)\b"
    r"|\bréponse (?:à|au|aux|pour|de|polie|correcte|courte|sympa)\b|\brépondr\w+|\b(?:quoi|que|qu'est-ce que) (?:\w+ ){0,2}?(?:répondre|réponds|dire|dis|écrire|penses|pense)\b|\btu (?:dirais|mettrais|ferais|écrirais|tournerais|répondrais|en penses)\b|\b(?:raccourci|simplifi|adouci|amélior|corrig|peaufin|retravaill|arrang)\w*|\bc'est (?:une arnaque|sérieux|fiable|du phishing|un faux)\b"
    r"|(?:怎么|咋|如何|该怎|怎样|咋样)[^，,。？?]{0,6}(?:回|答|说(?!服|明|话)|应对)|回(?:他|她|它|ta|TA|人家|对方|个话|一下|一句|什么|啥|封|条)|帮我?(?:想|拟|写)?[^，,。]{0,4}回|精简|修改|改(?:得|一下|改|顺|短|好|礼貌|客气|正式|口语)|挑[^，,。]{0,3}错|检查|译|通顺|口语化|写得(?:行|怎么|好|对|咋)|改?[短长]一?点|英文|靠谱[吗不]|是不是(?:骗|真)|骗人|可信|解读|念[一给]|套话"
    r"|(?:どう|なんて|何て|何と|どのように)[^。、]{0,8}(?:返|答え|書け|書い|言え|言い|断)|返[しせ](?:ば|たら|方|文)|返事|返答|答え方|断り方|言い方|丁寧に|やわらか|柔らか|一言で|[0-9一二三四五六七八九十]行で|縮め|推敲|修正|直[すせる]|[日英中独仏]語に(?:して|し)|おかしいところ|変なところ|変じゃない|嘘っぽ|箇条書き|要点|わかるように|もっと(?:短|長|丁寧|自然|面白|かわい|やさし)|チェックして|抜き出|抽出|どういう(?:意味|こと)|言いたい|怪しい|本物|角が立",
)
"""What asks for an answer to somebody, or what to make of a text."""

PROCESS: Final = quick_pattern(
    r"\b(?<!\bi )(?<!\bwe )(?:check|review|interpret|explain|grade|mark|rate|score|count|compare|analy[sz]e|fix|edit|improve|sort|label|tag|cut|trim|format|underline|highlight|prüf\w*|bewerte|deute|erklär\w*|zähl\w*|vergleich\w*|kürz\w*"
    r"|revís\w*|revis[ae]|explica\w*|analiza|cuenta|compara|ordena|acorta|vérifi\w*|explique\w*|analyse|compte|raccourcis)\b",
)
"""What is done to texts and to other things."""

ACTION: Final = quick_pattern(
    r"(?:(?:^|[,.:;!?(–—-]\s{0,2}|\b(?:can|could|would|will) (?:you|u)|\b(?:please|pls|plz|kindly|just|and|help me|you to|it|to))\s{0,3}(?!(?:i|we|my|it|this|that|these|they|he|she|there|so)\b)[\w'’-]+\s"
    r"|\b(?:how (?:would|do|should) \S+(?: \S+)?|what'?s?|does|is|why (?:is|does|do)|which|who|any)\s)"
    r"(?:(?!(?:i|we)\b)[\w'’-]+\s){0,6}?(?:this|these|it|that|them|him|her|his|their|its)\b(?! (?:is|are) (?:my|our|me)\b)"
    r"|^\W{0,3}(?:\w*[áéíóú]\w*l[oae]s?|\w+(?:me|se|nos)l[oae]s?|(?:haz|pon)l[oa]s?)\b|^\W{0,3}(?:¿|me )?\w+ (?:est[aeo]s?|es[aeo]s?)\b|¿.{0,40}\b(?:est[aeo]s?|es[aeo]s?|él|ella)\b"
    r"|^\W{0,3}\w+[- ](?:le|la|les|moi|ça|cette?|ces|ce)\b|\b(?:tu peux|peux-tu|pourrais-tu|vous pouvez)\b.{0,30}\b(?:ça|le|la|les|cela|ceci|ce|cette|ces)\b"
    r"|^\W{0,3}\w+ (?:mir |mal |bitte |doch )?(?:daraus|damit|das|dies\w*|es|ihn|ihm|ihr|ob)\b|\b(?:kannst|könntest|würdest) du\b.{0,30}\b(?:das|dies\w*|es|ihn|ihm|ihr|sie)\b|\b(?:wie|was|ist|warum|wer)\b.{0,20}\b(?:das|dies\w*|ihm|ihr|darauf)\b"
    r"|\b(?:esto|ceci|daraus|hieraus)\b|(?:帮我?|请|把|给我).{0,12}[这下它他她]|[这它他她].{0,20}[？?]|(?:これ|それ|ここ|この).{0,20}(?:[?？]|て|ください)",
)
"""A request or question about "this" or "it"."""

FORWARDED: Final = quick_pattern(
    r"\b(?:someone|somebody|who(?:ever)?|my|our|his|her|the|an?) (?:[\w'’-]+ ){0,3}?(?:just )?(?:wrote|sent|forwarded|texted|mailed|posted|handed|gave|left|got|submitted|says|said) (?:me |us |in |over |to me )?(?:this|that|these|the following)\b"
    r"|\b(?:someone|somebody|jemand\w*|alguien|quelqu'un),? (?:who|der|die|das|que|qui) (?:says?|said|sagt|dice|dit)\b|から(?:の|来た)(?:返事|返信|メール|手紙|連絡|line)"
    r"|\b(?:this|that|here)(?:'s| is) what .{1,40} (?:wrote|said|sent|says|made|left|told|posted|dictated|answered|replied|got)\b"
    r"|\b(?:my|our|his|her|the|an?) (?:[\w'’-]+ ){1,4}?\w{2,}(?:ed|ent|ote|ave|eft|uck|old|ut|ot|ung) (?:me |us |in |over |to me |at me |under )?(?:this|these|the following)(?=\s*(?:[,.:;!?–—-]|$|(?:and|to|on|in|under|at|for|but|so|over)\b))"
    r"|\b(?:this|these) (?:just |only )?(?:came|arrived|turned up|landed|popped up|was (?:in|on|under)|were (?:in|on|under))\b"
    r"|\b(?:hat|haben) (?:mir|uns) (?:das|dies|dieses|folgendes|so was|sowas)\b|\b(?:kam|hing|lag|stand) (?:das|das hier|heute|eben|gerade|gestern)\b"
    r"|\bme (?:ha |han |acaba de )?\w{2,}(?:ado|ido|ó|aron|ieron|legar) (?:esto|este|esta|estos|estas)\b|\b(?:esto|este|esta)\b.{0,20} me (?:lo |la )?(?:ha|han|lleg|mand|dej|pas|envi)\w*"
    r"|\b(?:j'ai|on a|on s'est|nous avons|je me suis) (?:\w+ )?(?:reçu|pris|trouvé|eu)\b.{0,20}\b(?:ça|ceci|hier|ce matin|mot|message|avis)\b|\bm'(?:a|ont) \w+ (?:ça|ceci)\b|\bvient de (?:m'|me |nous )\w+|\b\w+ (?:me )?acaba de \w+|\bjust (?:wrote|texted|emailed|messaged|pinged|dm'd) (?:me|us)\b|\bvoilà ce qu\w*"
    r"|\bi (?:just )?(?:got|received|found) (?:this|these|the following|an? \w+)\b"
    r"|\b(?:mein|unser|ein|der|die)\w* .{0,40}\b\w{0,4}(?:geschickt|geschrieben|diktiert|notiert|gesprochen|abgegeben|weitergeleitet|bekommen|gekriegt|hinterlassen|schreibt|schickt)\b"
    r"|\b(?:mi|nuestr[oa]|una?|el|la) .{0,30}\b(?:mandó|mandado|escribió|escrito|envió|enviado|pasó|pasado|dejó|dejado|entregó|entregado|explicar)\b"
    r"|\b(?:mon|ma|notre|une?|le|la) .{0,30}\b(?:envoyé|écrit|rendu|laissé|transmis|transféré|m'écrit)\b"
    r"|(?:发给|发来|发了|写给|寄来|转给|留的|留下的|(?<![A-Za-z0-9+#])写的|发的|贴在)|(?:から(?:来た|もらった|届いた)|が(?:書いた|送って|くれた)|に届いた)",
)
"""What tells whose text follows."""

REPORT: Final = quick_pattern(
    r"\b(?:wrote|writes?|says?|said|texted|e-?mailed|posted|replied|answered|told (?:me|us)|left|geschrieben|schreibt|schrieb|sagt|sagte|meint|meinte|gepostet|escribió|escribe|dice|dijo|puso|contestó|écrit|écrivait|dit|a dit|répondu|posté)\W{0,2}$"
    r"|(?:说|写道|写|发来|回复|留言|表示|问|曰|言って|書いて|って|とのこと|より)\W{0,2}$"
)
"""How words end that report what somebody says, before a colon."""

CREATION: Final = quick_pattern(
    r"\b(?:write|draft|compose|create|generate|make|need|want|help(?: me)?(?: with| write)?|come up with) (?:me |us |up )?(?:an?|some|my|our)\b|\bmy (?:own )?(?:plans?|diet|cv|resume|week|code|build)\b"
    r"|\b(?:schreib\w*|entwirf|erstell\w*|mach\w*|brauch\w*|verfass\w*) (?:mir |uns )?(?:bitte |mal )?(?:eine?n?|mein\w*)\b|\b(?:escr[íi]be\w*|red[áa]cta\w*|haz\w*|crea\w*|necesito) (?:un|una|mi)\b"
    r"|\b(?:écris|rédige|fais|crée|besoin d)\S* (?:un|une|mon|ma)\b|写一|書いて",
)
"""What asks for a new text, or for one of the user's own."""

REMEMBER: Final = quick_pattern(
    r"\b(?:remember|keep (?:in mind|to)|bear in mind|you should know|follow|stick to|rules?|forget|merk\w*|wissen|regeln?|halte dich|recuerda\w*|apunta\w*|reglas?|retiens|rappelle-toi|règles?|my question|deal|thing|guidelines|conventions|constraints|requirements|preferences|(?:your|all|any) (?:future )?(?:answers|replies|responses)|(?:deine|alle|allen|künftigen) antworten|(?:tus|todas las) respuestas|(?:tes|vos|toutes les) réponses|gilt|richtlinien|vorgaben|like this|as follows|wie folgt|como sigue|así|comme suit|comme ça)\b"
    r"|^\W*(?:just |only |nomás |solo |sólo |nur )?(?:so (?:that )?you (?:have it|know)\b|for (?:context|reference|the record|your (?:info|records?))\b|para que (?:lo )?(?:sepas|tengas)\b|(?:damit|dass) (?:du|sie)\b.{0,20}\b(?:weißt|wissen)\b|zur (?:info|kenntnis)|pour (?:info|mémoire|que (?:tu|vous) (?:le )?sach\w+)|供(?:你|您)?参考|让(?:你|您)知道|参考まで|念のため)"
    r"|\b(?:bit|something|facts?|things?|info|background|you) (?:on|about) (?:me|myself|us)\b|介绍一下(?:我|自己)|记住|记得|遵守|規則|覚え|守って",
)
"""What asks to bear something in mind."""

LASTING: Final = quick_pattern(
    r"\b(?:always|never|whenever|every time|from now on|each time|in (?:all )?future|all future|by default|each of your|every one of your|habit|as a (?:general )?(?:rule|policy)|general policy|permanently|any ?time|immer|grundsätzlich|generell|dauerhaft|nie(?:mals)?|jedes ?mal|ab jetzt|von jetzt an|künftig\w*|in zukunft"
    r"|siempre|nunca|jamás|por defecto|por norma|como norma|cada vez|a partir de ahora|de ahora en adelante|desde ahora|toujours|jamais|à l'avenir|par défaut|systématiquement|désormais|dorénavant|à partir de maintenant|chaque fois)\b"
    r"|以后|今后|往后|每次|总是|一律|默认|从(?:现在|今天)起|从今|これから|以降|原則|基本的に|今後|いつも|毎回|常に|必ず",
)
"""What makes a request one for all times, beside a text too."""
STANDING: Final = quick_pattern(
    rf"{LASTING.pattern}|\b(?:when i|unless|wenn ich|salvo que|cuando (?:te|yo)|sauf si|quand je)\b|除非"
)
"""What makes a request one for all times: an instruction, about no text of this message."""

ROLES: Final = quick_pattern(
    r"\b(?:you're|you are|du bist|sie sind|eres|tu es|vous êtes) (?:(?:the|now an?|der|die|das|el|la|le) |l')(?!best|one|only|man|boss|expert|beste|einzige|mejor|únic|meilleur|seul)\w"
    r"|\b(?:game|play|role-?play|pretend\w*|spiel\w*|juego|juguemos|jeu|jouons)\b[^.!?\n]{0,30}[:：]\s?(?:i|i'm|you|you're|ich|du|yo|soy|tú|je|tu)\b"
    r"|\b(?:back to|resume|continue|continuing|still in|carry on with|for|bedtime) (?:(?:our|the|my|this) )?(?:\w+ )?(?:game|scene|campaign|role-?play|larp|sims|saga|session|detective thing)\b(?= with|\W|$)|\bin this (?:scene|game)\b|\b(?:stay|still|be) in character\b|\byour (?:move|line|turn)\W*$|\b(?:write on|carry on|continue) (?:from here|this|the (?:log|story|diary))\b|\bkeep (?:that|this|the) voice\b"
    r"|\b(?:be|play|still as|now as|as) the \w+(?: \w+)?,? (?:ok|please|and i|i'm|i am|again)\b|\b(?:let's|lets) (?:play|pretend)\b|\bpretend (?:i'm|i am|i was|you're|you are|that i|that you|we're|we are|to be)\b|\b(?:my|her|his) (?:character|next trait)\b|\bscene\b[^.!?\n]{0,25}[:：]|\bin first person\b|\byou are an? \w+(?: \w+){0,2} and i'm an? "
    r"|\b(?:wir spielen|spiel mit mir|lass uns spielen|spielen wir|rollenspiel|weiter im spiel|tu so, als|meine figur|in (?:der|dieser) (?:szene|rolle)|du spielst|du machst den|du bist dran|wir machen da weiter|schreib weiter)\b"
    r"|\b(?:vamos a jugar|juguemos|jugamos|seguimos (?:con )?(?:la|el) (?:partida|juego|escena|historia)|mi personaje|(?:en|retomo) el papel|haz(?:te)? como si|haz de cuenta|te toca, \w+|vos sos)\b"
    r"|\bon (?:joue|reprend|continue|fait un jeu)\b[^.!?\n]{0,25}(?:partie|scène|jeu|jdr|[:：])|\b(?:mon personnage|dans la peau d|fais comme si|faisons (?:comme si|semblant)|jeu de rôle|à toi de jouer|dans le même ton)|\bà toi\b[^.!?\n]{0,15}\W*$"
    r"|ごっこ|过家家|扮演|我[是演当扮][^。！？\n]{0,40}你[是演当扮]|[接继]着?[续]?演|[你我]演|来玩.{0,4}游戏|剧本杀|接着往下写|[私僕俺]は[^！？\n]{0,40}(?:あなた|君|お前|おまえ)は|続きいくよ|(?:役|設定)で[、。い]|設定[:：]|(?:役|主人)として|なりきり|一人称で書"
)
"""What gives out roles in a play, in lower case: "you're the ferryman"."""

FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|we|ich|wir|yo|soy|tengo|vivo|donde trabajo|enseño|estudio|llevo|dirijo|nací|leo|organizo|gestiono|je|j'\w+|nous|(?<!give )(?<!tell )(?<!show )(?<!send )(?<!help )me|mich)\b|\b(?:my|our|mein\w*|mis?|mon|ma|mes)\b(?! \w+(?: \w+)?(?:'s|s')(?!\w))(?! \w+ (?:has|had|is|was|hat|ist|tiene|a)\b)|[我俺僕私]|わし|おれ|拙者|本宫",
)
DIRECTIVE: Final = re.compile(
    r"[?？:：]|\b(?:please|pls|plz|bitte|por favor|svp|stp|s'il te plaît|s'il vous plaît)\b|请|帮|ください|お願い|^(?!\W{0,3}(?:the|our|my|an?|this|that|it|there|they|he|she|we|i|die|der|das|unser\w*|mein\w*|eine?|es|ich|wir|el|la|los|las|una?|hay|mi|yo|les?|une?|il|elle|on|je|nous)\b)",
)
"""A sentence that asks, or does not begin as one that tells."""
SELF_STATEMENT: Final = re.compile(r"\W{0,3}(?:\w+\W{1,2}){0,2}?(?:i|i'm|we|ich|wir|yo|je|j')\b(?! (?:need|want|would|have to|brauch\w*|möchte\w*|veux|voudrais))")
"""How a sentence begins that tells something of oneself."""
_OWN_START: Final = re.compile(
    r"\W*(?:and |but |und |y |et )?(?:i|i'?m|i'?ve|we|we're|my|our|ich|wir|meine?|unsere?|yo|soy|tengo|vivo|mis?"
    r"|nuestr[oa]s?|je|nous|mon|ma|mes|notre|nos)\b|\W*j'|\W*(?:我|咱|私|僕|俺|うち)"
)
_SPEAKER_NAME: Final = re.compile(
    r"\W*(?:[^\W\d_]+(?: \w+){0,2}[,!.]* )?(?i:i'?m|i am|my name is|this is|ich bin|ich heiße|mein name ist|je m'appelle|je suis|moi,? c'est|me llamo|soy|mi nombre es) [^\W\d_a-zß-öø-ÿ]"
)
"""Matches a message that begins with the speaker's name: "Hello, I'm Ada"."""
_YOU: Final = re.compile(
    r"\b(?:you|yours?|du|dir|dich|dein\w*|ihnen|vous|votre|vos|usted(?:es)?|vuestr\w+)\b"
)
_QUOTE: Final = re.compile(r"[:：\"“„«「『]")
_LIST: Final = re.compile(r": (?![^.!?\n]*\b(?:i|ich|je|yo|soy)\b)[^.!?:\n]{1,60}(?=[.!?])", re.IGNORECASE)
"""Matches a list within a sentence: "We have three kids: Isla, Fergus and Callum."."""
_COLON_OR_QUOTE: Final = re.compile(r"[:?？：\"“„«「『]")
WANTS: Final = quick_pattern(r"\b(?:i|we) (?:only |just |really |also )?(?:need|want|would like|have to)\b|\bi'd like\b|\b(?:ich|wir) (?:brauch\w*|möchte\w*|will)\b|\b(?:necesito|quiero|tengo que|je veux|je voudrais|il me faut)\b|[请帮]")

EXAMPLE: Final = re.compile(
    r"\b(?:write|draft|compose|create|generate|make|schreib\w*|verfass\w*|escr[ií]be\w*|redacta\w*|écri[st]\w*|rédige\w*)\b[^.!?\n]{0,200}"
    r"\b(?:like(?: this)?|for example|e\.g\.?|along the lines of|so(?: etwas)? wie|zum beispiel|así como|por ejemplo|comme(?: ça)?|par exemple)\s?[:：]\s",
    re.IGNORECASE,
)
"""Matches a request to write a text, up to the example that follows."""

COMMENT: Final = quick_pattern(
    r"^\W{0,3}(?:\(|（|\^|↑|--|—\s*(?=\w)|ps\b|p\.s\.|btw\b|fyi\b|ok\b|okay\b|thx|以上|上面)"
    r"|\b(?:it|this|that|these|they|those)(?:'s|'re| is| are| was| were| came| comes| goes| needs| has to)\b.{0,30}\b(?:from|for|by|my|our|his|her|a|an|the|in)\b"
    r"|\b(?:asking|(?:need|want) (?:it|this)|just curious|any (?:idea|thoughts)|(?:what|which|who) do you think|how (?:do|would|should|can) (?:i|you|we)|should i|in your view|your (?:take|view|opinion))\b"
    r"|\b(?:someone|somebody|my [\w-]+(?: [\w-]+)?|a (?:friend|client|customer|colleague)) (?:just )?(?:wrote|sent|got|gave|received|texted|found|posted|forwarded|left|handed)\b"
    rf"|\b(?:the|this|that|his|her) (?:original|parser|{_THING})\b"
    r"|^(?:das|es|die|so was|sowas|hat|ist|stammt|kommt|soll|muss|brauch\w*)\b.{0,40}\b(?:von|vom|für|aus|mein\w*|unser\w*|gekriegt|bekommen|geschrieben|geschickt|bis)\b"
    r"|\b(?:hat|haben) .{0,30}(?:gekriegt|bekommen|geschickt|geschrieben|gefunden)\b|\b(?:würdest du|was meinst du|was denkst du|kannst du|könntest du|muss dazu|wie soll ich)\b"
    r"|^(?:es|son|era|lo|la|me lo|me la)\b.{0,30}\b(?:para|de|mi|un|una|escribió|mandó|envió|pasó)\b|\b(?:qué opinas|cómo (?:le )?(?:respondo|contesto)|me puedes|puedes|ponme|dime|hazme|yo ni)\b"
    r"|^(?:c'est|il|elle|ce sont|ça)\b.{0,30}\b(?:pour|de|mon|ma|mes|un|une|écrit|envoyé)\b|\b(?:tu peux|peux-tu|dis-moi|qu'en penses|il me faudrait|d'après toi|c'est moi)\b"
    r"|我(?:妈|爸|家|刚|们|是|负责|要|想|得|心)|帮我|怎么办|作业|谢|用的|の課題|と思う|思います|もらえ|ほしい|欲しい|でしょうか|ですかね|なんだけど|なんです|ちなみに",
    re.IGNORECASE,
)
"""What only somebody says who speaks about a text to whoever works on it."""

ROLE: Final = re.compile(
    r"(?:(?:the )?(?:assistant|user|system|developer|tool|function|human|bot|ai|agent|model|chatbot|llm|gpt|claude)"
    r"(?: (?:result|output|message|prompt|response|call|answer|reply|note))?|assistent|nutzer|benutzer|système"
    r"|utilisateur|sistema|usuario|asistente|助手|系统|用户|アシスタント|システム|ユーザー)",
    re.IGNORECASE,
)
"""Who speaks in a recorded conversation with a machine."""

HEADER: Final = re.compile(
    r"^[^\w\n]{0,3}(?:from|to|cc|bcc|subject|sent|date|reply-to|von|an|betreff|gesendet|datum|de|para|asunto|fecha|enviado|à|a|objet|envoyé|发件人|收件人|主题|日期|抄送|差出人|宛先|件名|日時|送信者)\s?[:：].*$",
    re.IGNORECASE,
)
"""A line of a mail's head."""

GREETING: Final = re.compile(
    r"^\W{0,3}(?P<formal>dear|(?:sehr )?geehrte[rs]?|liebe[rs]?|estimad[oa]s?|querid[oa]s?|chère?s?|madame|monsieur|to whom|尊敬的|亲爱的|拝啓|いつもお世話)\b"
    r"|^\W{0,3}(?:hi(?: there| all| both)?|hiya|heya|howdy|hello|hey|good (?:morning|day|evening)|guten (?:tag|morgen|abend)|hallo|moin|servus|grüß gott|hola|buen[oa]s(?: \w+)?|bonjour|bonsoir|salut|お世話|您好|你好)(?:[ ,，、!。][\w' ]{0,30})?[,，!。、]",
    re.IGNORECASE,
)
"""How a letter begins."""

CLOSING: Final = re.compile(
    r"(?:^[^\w\n]{0,3}|[.!?]\s)(?:(?:kind|best|warm|many)? ?(?:regards|wishes)|best|sincerely|cheers|yours\b.{0,20}|love|signed\b.{0,30}|thanks|(?:mit )?(?:freundliche[nr]|liebe[nr]?|viele[nr]?|beste[nr]?|schöne[nr]?)? ?gr[uü](?:ß|ss)e?n?|mfg|lg|vg"
    r"|(?:un |muchos )?(?:saludos?|abrazos?)\b.{0,30}|atentamente|cordialmente|(?:bien )?cordialement|bien à vous|amicalement|此致|敬礼|祝好|敬具)\W*(?:(?<=, )[^\W\d_]{2,15}\W*)?(?:\n.{1,60}){0,4}$",
    re.IGNORECASE | re.MULTILINE,
)
"""How a letter ends: the words and the names below."""

OWN_LABELS: Final = frozenset(label.strip() for label in re.split(";", """
    note; notes; fyi; ps; p.s; info; update; edit; correction; remember; reminder; btw; context; about; me; fact; facts; ich; hinweis; übrigens; wichtig; korrektur; rappel; moi; nota; yo;
    importante; corrección; important; remark; profile; background; short; quick; summary; tldr; tl;dr; also; first; second; third; finally; question; answer; plan; goal; goals; today; tomorrow;
    name; age; job; work; home; city; location; address; diet; food; allergies; allergy; health; meds; medication; family; kids; pets; hobbies; likes; dislikes; preferences; preference; rule; rules;
    style; tone; format; formatting; language; languages; pronouns; timezone; editor; stack; tools; setup; hardware; os; travel; budget; schedule; deadline; reason; problem; issue; situation; status;
    dates; prices; units; currency; temperatures; distances; times; numbers; amounts; weights; measurements; length; spelling; code; recipes; answers; replies; emails; sources; titles; feedback;
    preise; einheiten; währung; zahlen; rezepte; antworten; mails; datum; fechas; precios; unidades; medidas; recetas; respuestas; código; prix; unités; mesures; recettes; réponses;
    日期; 价格; 单位; 代码; 菜谱; 回答; 格式; 语气; 日付; 値段; 単位; コード; レシピ; 回答; 口調; instruction; instructions; fix; bug; todo; task; disclaimer; confession; truth; spoiler; hi; hello; hey; ok; okay; yes; no; look; listen; well; so; sorry; thanks; thank you;
    hallo; servus; moin; kurz; kurzfassung; kurzinfo; nachtrag; ergänzung; vorab; kontext; hintergrund; zur info; achtung; bitte; regel; regeln; stil; ton; sprache; beruf; arbeit; wohnort; familie;
    haustiere; gesundheit; allergien; ernährung; essen; hobbys; vorlieben; ziel; frage; fakt; merke; erinnerung; danke; ja; nein; stand; grund;
    resumen; contexto; aviso; dato; ojo; hola; buenas; gracias; regla; reglas; estilo; tono; idioma; trabajo; casa; ciudad; familia; mascotas; salud; alergias; dieta; comida; gustos; aficiones; objetivo;
    pregunta; recordatorio; posdata; actualización; sí; total; además; primero;
    bref; contexte; précision; salut; bonjour; merci; règle; règles; langue; travail; métier; maison; ville; famille; animaux; santé; régime; goûts; loisirs; objectif;
    résumé; attention; oui; non; donc; aussi; perso;
    关于我; 备注; 注意; 更正; 补充; 提醒; 背景; 说明; 简单说; 总之; 顺便; 顺便说; 另外; 对了; 你好; 谢谢; 工作; 职业; 家庭; 饮食; 过敏; 健康; 爱好; 语言; 规则; 要求; 目标; 问题; 情况; 现状; 我; 我搬家了;
    メモ; 訂正; 自己紹介; 引っ越しました; 補足; ちなみに; 追記; 前提; 要するに; こんにちは; 仕事; 職業; 家族; 食事; アレルギー; 趣味; 言語; ルール; 目標; 質問; 状況; 現状; お願い; 私; 僕; 俺
"""))
"""Labels of one's own remarks, which look like the name of a speaker."""
# fmt: on

SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»)]*\s+|[。！？]+[」』”）]*|\s[–—-]\s")
_CLAUSE = re.compile(r"[,，、;；]")
_OTHERS = re.compile(
    r"\W{0,3}(?:my|our|mein\w*|unser\w*|mis?|nuestr[oa]s?|mon|ma|mes|notre|nos)\W(?:\w+\W+){3}",
    re.IGNORECASE,
)
"""How a clause begins that is about somebody whom the user knows."""
PART = re.compile(
    r"(?:(?:and|und|y|et|so|bc|because|que|car|da)\b\s*)?(?P<told>(?:(?!\s(?:and|und|y|et)\s)[^,，、;；:：])+)",
    re.IGNORECASE,
)
"""A clause, also behind an "and"."""
_HERE = re.compile(
    r"\s{0,3}[\^↑]|.*[:：]\s*$|\W{0,3}(?:here|hier|voici|voilà|aquí)\b", re.IGNORECASE
)
COLON = re.compile(r"(?<!\d)[:：](?!//|\d|\))|[:：](?=\s)")
IT = re.compile(
    r"\W{0,3}(?:it|its|it's|this|that|that's|these|those|they|they're|he|she|das|ist|sind|stammt|es(?! que)|c'est|ce sont|ça|era|son|lo|la|me lo)\b(?!.{0,8} (?:my job|moi|mein job))(?! (?:for|für|para|pour) (?:my|our|mein\w*|unser\w*|mi|nuestr[oa]|mon|ma|notre)\b)|这是?|那是?|これ|それ",
    re.IGNORECASE,
)
"""How a sentence begins that is about a text, beside one."""
OUTER_MAX = 6
"""Lines of a message and sentences of a line, from either side, that can be a request."""
LABEL_CHARS_MAX = 30
SENTENCE_CHARS_READ = 400


def detect_language(text: str) -> str:
    """Return the code of the language of a text; "" if unsure."""
    han = sum("\u4e00" <= character <= "\u9fff" for character in text)
    kana = sum("\u3040" <= character <= "\u30ff" for character in text)
    latin = [word.casefold() for word in _WORD.findall(text) if word[0] < "\u0250"]
    if han + kana > 2 * len(latin):
        return "ja" if kana * 5 > han else "zh"
    counts = Counter(
        language for word in latin for language, common in _FUNCTION_WORDS.items() if word in common
    ).most_common(2)
    if not counts or counts[0][1] < 2:
        return ""
    return counts[0][0] if len(counts) == 1 or counts[0][1] > 1.3 * counts[1][1] else ""


def is_foreign(text: str, frame: str) -> bool:
    """Return whether a text is in another language than its frame."""
    frame_language = detect_language(frame)
    if not frame_language:
        return False
    language = detect_language(text)
    if language:
        return language != frame_language
    if frame_language in ("zh", "ja"):
        return len(_WORD.findall(text)) > 5 and text.isascii()
    common = _FUNCTION_WORDS[frame_language]
    found = [word.casefold() in common for word in _WORD.findall(text)]
    return len(found) > 5 and 12 * sum(found) < len(found)


def find_request(own: str) -> tuple[int, int]:
    """Return how clearly a line asks to work on a text, and where its clearest sentence begins."""
    best, start = (0, 0), 0
    ends = [*(match.end() for match in SENTENCE_END.finditer(own)), len(own)]
    for number, end in enumerate(ends):
        if min(number, len(ends) - 1 - number) < OUTER_MAX:
            sentence = own[start : min(end, start + SENTENCE_CHARS_READ)]
            clear = request_score(sentence)
            colon = COLON.search(sentence)
            if clear < 2 and colon:
                rest = own[start + colon.end() : start + SENTENCE_CHARS_READ]
                if is_foreign(rest, sentence[: colon.end()]) and not detect_language(rest):
                    clear = 2
                elif not clear and colon.end() <= LABEL_CHARS_MAX:
                    start += colon.end()
                    clear = request_score(sentence[colon.end() :])
            if clear > best[0]:
                best = clear, start
        start = end
    return best


def request_score(sentence: str) -> int:
    """Return how clearly a sentence asks to work on a text, from 0 (not at all) to 3.

    Behind a colon the text itself begins."""
    sentence = sentence.lower()
    colon = COLON.search(sentence)
    head = sentence[: colon.start()] if colon else sentence
    if REMEMBER.search(head):
        return 0
    clauses = _CLAUSE.split(head)
    action = ACTION.search(head) is not None
    creation = CREATION.search(head) is not None
    verb = (not creation and VERB.search(head) is not None) or RESPONSE.search(head) is not None
    noun = not creation and any(
        (
            action
            or not is_statement(clause)
            or PROCESS.search(clause)
            or _OTHERS.match(clause)
            or NOUN.match(clause.lstrip())
        )
        and NOUN.search(clause)
        for clause in clauses
    )
    if STANDING.search(head) and not (colon and verb):
        return 0
    references = REFERENCE.search(head) is not None and not (
        SELF_STATEMENT.match(head)
        and not (colon or FOLLOWING.search(head))
        and sentence.rstrip()[-1:] not in "?？"
    )
    reported = colon and REPORT.search(head) and not SELF_STATEMENT.match(head)
    if references or reported or FORWARDED.search(head) or (verb and (colon or action)):
        return 3
    if verb or (noun and not (colon and len(head) <= LABEL_CHARS_MAX)):
        return 2 if verb or DIRECTIVE.search(sentence) else 1
    if colon is None:
        return int(any(ACTION.search(clause) and not is_statement(clause) for clause in clauses))
    if action and not SELF_STATEMENT.match(head):
        return 1 if sentence[colon.end() :].strip() else 2
    named = NOUN.search(head, max(0, colon.start() - 12)) is not None
    return int(not is_statement(clauses[0]) and (named or len(head) > LABEL_CHARS_MAX))


def is_about_text(sentence: str) -> bool:
    """Return whether a sentence speaks of a text of the message or of what to do with it."""
    return bool(
        _HERE.match(sentence)
        or IT.match(sentence)
        or ACTION.search(sentence.lower())
        or request_score(sentence) > 1
    )


def tells_of_oneself(text: str) -> bool:
    """Return whether the speakers of a text talk about themselves, as in "Hi! I'm Ada.".

    Every sentence behind a greeting begins with the speaker; or most do, the first one included; or
    half of those do that follow the speaker's name. In the last two cases no sentence but a
    question may address somebody, and the text must neither begin nor end as a letter does."""
    low = text.lower()
    sentences = [one for one in re.split(r"(?<=[.!?])\s+|\n", low) if one.strip()]
    own = [
        bool(_OWN_START.match(sentence)) or (at == 0 and is_greeting_phrase(sentence))
        for at, sentence in enumerate(sentences)
    ]
    greeting = GREETING.match(text)
    is_letter = CLOSING.search(text) or (greeting and greeting["formal"])
    plain = _LIST.sub(" ", text)
    is_own_text = own[:1] == [True] and 2 * sum(own) > len(own) and not _QUOTE.search(plain)
    names_speaker = _SPEAKER_NAME.match(text) is not None and ":" not in text
    if (is_own_text or names_speaker) and not is_letter:
        rest = [pair for pair in zip(sentences, own, strict=True) if "?" not in pair[0]][1:]
        names_you = any(_YOU.search(sentence) for sentence, _ in rest)
        return not names_you and 2 * sum(is_own for _, is_own in rest) >= len(rest)
    return all(own) and _COLON_OR_QUOTE.search(text) is None


def is_statement(clause: str) -> bool:
    """Return whether a clause, in lower case, tells something of the user."""
    return FIRST_PERSON.search(clause) is not None and WANTS.search(clause) is None
