"""Remarks that state and instruct nothing: questions without a mark, orders of the moment.

Those tell an agent at work what to do next; encouragement and offers sound like instructions."""

import re
from typing import Final

# fmt: off
# A pattern is a line of data, however long. All are for text in lower case.

_LEAD: Final = r"(?:(?:and|also|ok|okay|so|but|wait|hm+|hey|morning|well|now|then|yeah|yes|nope|no|wow|oh|cool|plus|sure|of course|thanks?|just|und|ach|also|aber|y|pero|et|mais|alors)\b[\s,.:!-]*){0,3}"
_ASKED: Final = re.compile(
    rf"^{_LEAD}(?:"
    r"(?:whats|wheres|whens|hows|whos|whys)\b|(?:what|where|when|who|why|how)(?: (?:much|many|long|often|far|late|soon|exactly))?(?:'s(?! (?:typing|speaking|here))| is| are| was| were| do| does| did| can| could| should| will| would| have| has| had)\b"
    r"|(?:what|which|whose|how) (?!i\b|we\b|my\b|our\b)[\w.-]+ (?:[\w.-]+ )?(?:is|are|was|were|do|does|did|can|should|will|have|has) (?!my\b|our\b)|who (?:asked|said|wrote|made|broke|changed|owns|has|put)\b"
    r"|(?:do|did|does|have|has|are|is|was|were|will|should|can|could) (?:i|we|they|he|she|it|there|the|that|this|these|those|any|anyone|\d[\w.]*)\b(?! (?:not )?(?:that|which) i)"
    r"|(?:was|wo|wann|wer|wen|wem|warum|wieso|weshalb|wohin|woher|womit|wofür|woran) (?!ich\b|wir\b|mir\b|mich\b|uns\b|mein|unser|immer\b|auch\b|für mich\b|es bei\b|das betrifft\b)\w+|(?:welche[rnsm]?|wie ?viele?) (?!ich\b|wir\b)\w+"
    r"|wie (?:heißt|heisst|geht|ist|war|sind|lange|oft|weit|hoch|groß|spät|kann|soll|machen|kriege|bekomme)\b|(?:haben|hast|habt|hat|ist|sind|kann|können|sollen|soll|läuft|gibt|brauchen) (?:du|wir|es|das|die|der|man) .{2,60}\b(?:noch|schon|eigentlich|jetzt|da)$"
    r"|(?:qué|cuál(?:es)?|cuándo|dónde|adónde|quién(?:es)?|cuánt[oa]s?|por qué)\b(?! (?:ganas|bien|pena|suerte|alegría|rabia))"
    r"|(?:quand|qui) (?:est|sont|est-ce)\b|(?:où|pourquoi|combien|comment|quel(?:le)?s?|c'est (?:quoi|où|quand|qui)|est-ce qu)(?:'| )(?:est|sont|c'est|on|tu|vous|il|elle|va|vont|fait|faut|est-ce)\b"
    r")"
    r"|\b(?:until when|since when|which one|or what|or not|bis wann|seit wann|wohin damit|oder wie|desde cuándo|hasta cuándo|jusqu'à quand)\?*$|\bright\?+"
    r"|^.{0,60}(?:吗|呢|吧|ですか|ますか|でしたっけ|だっけ|[でて]いいですよね|の?かな)[？?]?$"
)
"""A question, also where no mark ends it."""

_VERB: Final = (
    r"(?:re-?)?(?:run|give|store|raise|merge|fix|bump|push|pull|flip|cap|pin|set|add|drop|remove|delete|revert|rename|move|split|deploy|ship|build|test|check|put|create|open|close|start|restart|kill|install|update|upgrade|downgrade|commit|rebase|squash|tag"
    r"|release|log|print|grep|replace|refactor|extract|inline|mock|stub|retry|ping|send|dump|export|import|wire|hook|enable|disable|turn|switch|change|lower|increase|decrease|reduce|undo|redo|scale|roll|leave|throw|clean|rotate|port|patch|regenerate|generate|apply|wrap|render|fetch|load|lint|mark)"
)
_TECHNICAL: Final = (
    r"(?:\b(?:it|them|that|this|both|all|everything|those|these)\b|\b\w+[._/-]\w+|\b\d+ ?(?:s|ms|m|min|h|k|gb|mb|kb|px|%)?\b|`|_"
    r"|\b(?:tests?|files?|branch|flag|timeout|prod|staging|sandbox|ci|repo|commit|pr|config|logs?|db|database|query|cache|queue|warnings?|errors?|suite|build|script|table|column|index|endpoint|service|container|cluster|node|token|cents|ints?|strings?|schema|migration|module|class|function|method|field|header|docs?|readme|ticket|release|version|deps?|dependenc\w+)\b)"
)
_ORDER_NOW: Final = re.compile(rf"^{_LEAD}(?:please |pls |maybe |first |next |also )*{_VERB}(?:,| (?:[\w'-]+ ){{0,4}}?)(?=[^.!?]{{0,60}}?{_TECHNICAL})")
"""An order to an agent that works on code: what it decides stands in its turn."""
_LASTS: Final = re.compile(r"\b(?:always|never|every|whenever|each|from now|by default|anymore|any more)\b|\b(?:i|we) (?:always|never|usually|only)\b")

_THIRD: Final = r"(?:it|they|he|she|that|there|those|these|life|nature|people|things|everyone|when (?:we're|i'm|motivating|picking)|[a-z]+ing (?:a|the|your|people|in|others|initiative|adaptable)|(?:[a-z'-]+ ){1,4}?(?=(?:are|is|has been) (?:always|great|really|key|a must|awesome))|(?:the|a|an|this|my|our|his|her|their) (?:[\w'-]+ ){1,4}?)"
_NO_ORDER: Final = re.compile(
    rf"^{_LEAD}(?:\w+, )?(?:"
    r"(?:just |please |be sure to )?(?:let me know|keep me posted|tell me|hit me up|holler|reach out|shout)\b.{0,40}\b(?:you|when it's|the title|if there's|how it goes|what .{0,20} think|get around)\b(?!.{0,40}\b(?:sure|certain|guess\w*|assum\w*|unsure)\b)"
    r"|(?:just )?(?:know )?(?:that )?(?:i'm|i’m|i am|i'll|i’ll|i will|we're|we’ll|we'll) (?:\w+ ){0,2}?(?:(?:be )?(?:always |right |just )*(?:here|there)\b|trying\b|feeling\b|analy[sz]ing\b|looking\b|(?:so |really )?(?:proud|glad|happy|excited)\b|keep (?:you|going)\b|definitely\b)"
    r"|you(?:'ve|’ve| have|'re|’re|'ll|’ll)? (?:always|never|must have|gotta|can (?:always|tell)|know|are|don't have to|love|learn\w*|show)\b(?!.{0,30}\b(?:answer|repl|write|respond|use|call me|speak|forget|ask|say|give|add|put|start|end)\w*)"
    r"|(?:always|never) (?:a|an|the|been|heard|seen|saw|had|got|gets|happy|glad|here|there|good|great|nice|fun|stay\w*|interested|on|ready|in|too|wanted|thought|\w+ed)\b(?! (?:of|in) (?:english|german|french|spanish))"
    r"|(?:let's |we(?:'ll| will|) )?(?:keep (?:it|that|this|going|pushing|up)(?: up)?|never give up|don't (?:give up|worry|be afraid|hesitate|ever quit)|stay safe|hang in there|give it a go)\b(?!.{0,30}\b(?:short|brief|simple|concise|formal|casual|under|to|in)\b)"
    r"|i (?:want|need|wanna|would like|'d like|hope|have|bet|can|could|appreciate|like how|sometimes|gotta) (?:to (?:make sure|give|pass|know (?:if|whether|how|what)|help|learn|try|share|see if|add|thank)|tell\b|give you\b|help you\b|a feedback\b)"
    r"|i(?:'ve| have) (?:submitted|made|been|got|drafted|learned|never|heard)\b|(?:glad|good|great|happy|nice|thanks?|sounds?|wishing|hope|can't wait|looking forward|love (?:all|how)|if (?:you (?:ever |know |want|need)|there's))\b(?!.{0,60}\b(?:answer|repl(?:y|ies)|always|short|brief|never|code|ask me|tell me|stop)\b)"
    r")"
    r"|.*(?:\bkeep it up\b|\bnever give up\b|\bdon't hesitate\b|\byou (?:ever )?(?:need|want) (?:help|support|advice|anything|any|someone|a hand|to (?:talk|chat|vent)|some)\b|\banything (?:else )?you need\b|\b(?:bet|hope) you\b)"
    rf"|^{_LEAD}(?:\w+, )?{_THIRD} ?(?:'s|’s|is|are|was|were|has|have|had|means?|reminds?|shows?|brings?|gives?|looks?|helps?|never|always|can|will(?! do\b)|might|must)\b(?!.{{0,80}}\b(?:your (?:answers?|repl\w+|responses?|tone|text|code|language)|please|should|have to|for me\b|to me in|too (?:long|short|formal|casual|wordy)|when you (?:answer|write|reply)|if you (?:always|never|could|would|can|answer|write)|you (?:always|never) (?:answer|write|use)))"
)
"""Encouragement, offers and remarks about others, in the words of an instruction."""
# fmt: on


def is_asked(body: str) -> bool:
    """Return whether a sentence asks, with or without a mark: a question states nothing."""
    return _ASKED.search(body) is not None


def is_order_now(body: str) -> bool:
    """Return whether a sentence tells an agent what to do next, and nothing that lasts."""
    return _ORDER_NOW.match(body) is not None and _LASTS.search(body) is None


def is_no_order(body: str) -> bool:
    """Return whether what looks like an instruction encourages, offers or speaks of others."""
    return _NO_ORDER.match(body) is not None
