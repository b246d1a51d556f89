"""Detection of courtesies: greetings, thanks, assent, farewells."""

from typing import Final

import regex

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
_ANSWER: Final = regex.compile(
    r"\b(?:yes|yeah|yep|yup|no|nope|nah|sure(?: thing)?|agreed|ja|jo|nein|doch|einverstanden|oui|non"
    r"|d'accord|entendu|si|vale)\b|はい|うん|いいえ|是|[对對]|可以|네"
)
"""Courtesies that answer what was asked before them."""
_THANKS: Final = regex.compile(
    r"\b(?:thank|thanks|thx|ty|tysm|cheers|danke?|merci|gracias|obrigad[oa]|grazie)\b"
)


def _phrase_pattern() -> str:
    phrases = [" ".join(phrase.split()) for phrase in _PHRASES.split(";")]
    return "|".join(sorted(phrases, key=len, reverse=True)).replace(" ", r"\s+")


_PATTERN: Final = regex.compile(
    rf"(?<![\p{{L}}\p{{N}}])(?:{_phrase_pattern()})(?![\p{{L}}\p{{N}}])|{'|'.join(normalized_text(_CJK_PHRASES).split())}"
)
_CHARS_MAX: Final = 200
"""A longer text is taken to have content."""
_THANKS_CHARS_MAX: Final = 40
_WORDS_ALONE: Final = 1


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


def has_content(text: str) -> bool:
    """Return whether a text has two words or more beside courtesies, thanks one word more.

    "Grand, thanks a million" and "merci chef" say nothing else."""
    if len(text) > _CHARS_MAX:
        return True
    normalized = normalized_text(text)
    count = len(terms(_PATTERN.sub(" ", normalized)))
    is_thanks = len(text) <= _THANKS_CHARS_MAX and _THANKS.search(normalized) is not None
    return count > _WORDS_ALONE + is_thanks
