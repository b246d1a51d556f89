"""Rules of facts, and the grammar of statements and standing instructions, in English."""

from memsvc.core.facts import FactTier
from memsvc.core.rules import topics as t
from memsvc.core.rules.forgotten import IN_ENGLISH
from memsvc.core.rules.grammar import Grammar
from memsvc.core.rules.rule import POINT, Language, Rule, relations, retraction

# fmt: off
# A rule and a pattern are a line of data each, however long.


ENGLISH_GRAMMAR = Grammar(
    language="en",
    whole_words=True,
    common="the a an is are and to of in my i i'm i've i'd we our for you your it it's that this with on me at not don't can't from be have has no please pls always never use all every call by or if when but by as there so us am was",
    lead=r"(?:(?:ok|okay|so|well|anyway|anyways|also|btw|fyi|hey|hi|hiya|hello|oh|ah|ugh|and|but|right|for (?:future|your) reference|going forward|for your information|as a (?:general )?(?:rule|note|heads[ -]up)|general note|small request|one request|little request|a favou?r|house rule|standing (?:order|request)|just so (?:you|u) know|jsyk|heads[ -]up|by the way|actually|honestly|quick (?:thing|note|heads[ -]up|correction)|for context|context|background|note|remember"
    r"|reminder|please note|to be clear|tbh|sorry|thanks|cheers|lol|haha|yes|yeah|yep|no(?=[,!.])|remember to|please remember to|short version|long story short|about me|a little about me|you should know|for the record|one more thing|one thing|before (?:we|you) (?:go on|start|begin)|turns out|thing is|the thing is|important|ps|p\.s\.|remember that|keep in mind|keep in mind that|in case it matters|if it matters|good morning|morning|evening|afternoon|you know|i mean|see|look|listen|besides|plus|then|basically|unfortunately|luckily|sadly|[-*•–]|\d{1,2}[.)]|(?P<polite>(?:can|could|would|will) (?:you|u)(?: please| kindly| just| maybe)?(?= (?:stop|quit|always|never|not|only|keep|avoid|start|use|call|from|please)\b)))(?:[,:!.…–—-]+ ?| |$))+",
    request=r"(?:(?:so|and|but|or|then|anyway|also|ok|now|please|pls|plz|hey|any idea|any ideas|any chance|any tips|any) )*(?:what|what's|whats|who|who's|which|where|where's|when (?:is|are|do|should|can)|why|how|how's|can|could|would|will|do|does|did|is|are|am|was|were|should|shall|have|has|may|might|any|help|isn't|aren't|don't you|doesn't|won't|can't you|could you|find me|give me|tell me|show me|write me|write|recommend|suggest|explain|translate|summari[sz]e|draft|compare|calculate|convert|list|fix|define|talk me|walk me|remind me|make me|need (?:a|an|some|help|the)|looking for|wondering|is there)\b",
    topics=(
        (t.ANSWER_LANGUAGE, r"\b(?:answer|reply|respond|write|speak|talk|chat|answers|replies|responses|converse|text|explain|stick|continue)\b(?: \w+| back){0,4}? (?:only |always |exclusively |strictly |plain |simple |easy |my native )*(?:in |to )?(?:only |always |plain |simple |easy |proper |british |american |mexican |brazilian |swiss |traditional |simplified )*{language}\b(?! (?:food|class|lesson|exam|wine|essay|test|restaurant))|\b(?:in|to|use|stick to|prefer) {language}(?: only)?,? (?:please|pls|plz|always|only|from now on|whenever|unless)\b|^(?:only |just |always )?{language} (?:only|please|pls|plz|always)\b|\b(?:everything|i'd (?:like|prefer|rather)\b.{0,20}) in {language}\b|^(?:please |pls |let's )?(?:switch|stick|keep|change)\b.{0,20} (?:to|in) {language}\b"),
        (t.PRONOUNS, r"(?<!her )(?<!his )(?<!their )\b(?:my pronouns are |i use |i'm |i go by |it's |use )?(?P<v>(?:she|he|they|xe|ze|it|fae|ey|any)/(?:her|him|them|they|he|she|xem|hir|zir|its|em)(?:/\w+)?)\b|\bmy pronouns (?:are|is) (?P<w>[\w/ ]{2,20})"),
        (t.NICKNAME, r"\b(?:it's|its|i'm|that's|this is|name's|names) (?P<name>[\w'-]+)(?: [\w'-]+)?,? (?:by the way|btw|here|speaking|with (?:an?|the|two|one|no)\b|spelt|spell\w*|pronounced|shorten\w*|as in|like the|rhym\w+|for short|to (?:my |you|everyone|friends|mates))"),
        (t.NICKNAME, r"\bshorten(?:s|ed)? (?:it|that|my name) to \w|\b(?P<name2>[\w'-]+) to (?:you|my friends|friends|mates|(?:everyone|everybody)(?: else)?|the rest of the world)[.! ]*$|\b(?:don't|dont|no|not|never|skip|drop|forget|lose|rather|instead|just|plain|simply|mouthful)\b.{0,60}?\b(?P<name>[\w'-]+)(?:'ll do| will do| is fine| does fine| is enough| is plenty| works| suits me| will be fine)\b"),
        (t.NICKNAME, r"\bno(?:body|t even my mum| one)(?:'s| has)? (?:ever )?(?:calls?|called|uses|used) (?:me|it|that)\b|\bmy (?:full |first |last )?name(?:'s| is) (?:spelt|spelled|written|pronounced) \w|\b(?:everyone|everybody|people|friends|folks|they all|mates|the lads|all|colleagues|the (?:kids|team|guys|others)|my \w+)(?:'s|'ve| has| have)? (?:just |all |always |at \w+ |at the \w+ |here )*(?:call(?:s|ed)? (?:me )?|(?:says?|uses?) (?:me )?(?=[\w'-]+(?: [\w'-]+)?(?:[.,;!]|$)))\w|\bi (?:just |usually |mostly |normally )*go by \w|\b(?:you can|please|just|u can|do) (?:just |always )*(?:call|address) me\b(?! (?:in case|if|when\w*|at|on|back|later|to(?:morrow|day|night)|before|after|once|as soon|every\w*|asap)\b)|^(?:please |just )*call me (?!(?:in case|if|when\w*|at|on|back|later|to(?:morrow|day|night)|before|after|once|as soon|every\w*|asap)\b)\w|\bdrop the (?:mr|mrs|ms|miss|dr|doctor|professor|sir|title|surname|formalities)\b|\b(?:it's|its|i'm|answer to|respond to|known as) (?:just |plain |simply )?(?!just\b|simply\b|really\b|still\b|definitely\b)\w+,? (?:not|never|short for|for short|to (?:my )?(?:friends|everyone|everybody))\b|\bon my (?:license|licence|passport|id|birth certificate|diploma)\b|\b(?:passport|license|licence|birth certificate) says\b|(?<!too )\bshort for (?!the\b|an?\b|this\b|my\b)\w+"),
        (t.NAME, r"\b(?:full|first|last|given|legal|middle|maiden|sur|real|actual|official)[ -]?name(?:'s| is|:)|^(?:the )?name(?:'s| is|:) |\b(?:i was|i'm|i am) (?:christened|baptised|named after)\b", "name name's christened baptised named"),
        (t.NICKNAME, r"\b(?:i'm|i am) (?!{language}\b|\w+(?:an|ish|ese)\b)(?P<name>[\w'-]+)(?: now)?(?=[.,;!]|$)"),
        (t.NAME, r"\bwho's typing: |\b(?:this is|it's) \w+ (?:here|speaking|again)\b|\bthe name's \w"),
    ),
)

_I = r"(?:i|we)"
_STOPS = r"[^,;!?。，、！？；…\n.]"
_NEXT = r"(?! (?:and (?:i|i'm|i've|i'd|i'll|we|we're|my|our|he|she|they|you|please)|but|because|although|though"

_NEXT += r"|so (?:i|we|you|please|that|it|my|don't|do))\b(?!'s))"
_CLAUSE = rf"(?P<v>(?:{_NEXT}{_STOPS}|{POINT}){{1,200}})"
"""A value up to the end of its clause: a compound of two things stays together."""
_CALLED = r"(?P<v>(?:(?! (?:and|but|because|so|since|as|not|or|who|which|if|when|while|please|although|though|now|by the way|[(–—-])(?!\w))"
_CALLED += rf"{_STOPS}|{POINT}){{1,200}})"
_FILL = r"(?: (?:spelled|spelt|written|actually|really|just|now|still))?+"
_NO_COMMENT = r"(?!not to (?:say|tell|answer|share|disclose|discuss|comment|talk))"
_UNNAMED = r"(?! (?:not|pronounced|hard|difficult|often|usually|very|too|on|in|at|from|irrelevant|unimportant|private|wrong|misspelled)\b)"
_OTHER_STATEMENT = r"(?:i|we) (?:live in|work as|work at|work for|study|am from)(?: (?!and\b|who\b|with\b)[\w.'-]+){1,4}?(?:,| and)"
_NO_NAME = r"(?!\w+(?:\wan|ish|ese|ic|ist|ite|ed|ing|ch|sh|(?-i:[A-Z]{2}))\b|(?:greek|thai|swiss|czech|dane|swede|pole|finn|turk|scot|muslim|sikh|hindu|jew|leo|virgo"
_NO_NAME += r"|aries|libra|ok|okay|sorry|fine|good|great|well|happy|sad|sick|busy|back|here|ready|sure|new|done|late|curious|afraid|glad|alone|home"
_NO_NAME += r"|pregnant|lost|single|hungry|thirsty|sleepy|angry|not|so|in|at|on|from|a|an|the|gay|black|white|deaf|blind|ill|old|young|free|next|mom|mum|dad|monday|friday)\b)"
_SMALL_NAME = (
    rf"{_NO_NAME}(?!\w+(?:ous|ful|less|ble|nant|ive)\b|(?:(?:fe)?male|trans|bi|queer|straight|widow|broke|stuck|upset|scared|pretty|just|only|almost|already)\b)"
    r"{small}(?=,? \(?\d\d\b(?: (?:years|yo\b|y/o|and|from)| *[.,;!)\n]|$)"
    rf"|, (?:and )?(?:(?:i|we) (?:live|come|work)|(?:i'm|im|i am) (?:from|an?)|from|(?:mum|mom|dad|mother|father) of|living|based|an? (?:\w+ )+(?:from|at|in))\b)"
)
"""A name in small letters, with the age or more of an introduction behind it."""
_AM = r"(?:i am|i'm|im|we're|we are)"
_HOME = r"(?:(?:my|our) (?:(?:new|home|postal|street|current) )*|new )address"
_STREET = r"(?P<v>(?:(?:(?:flat|apartment|apt\.?|unit) \w{1,5},? )?(?:number |no\. ?)?\d{1,5}\w?,?"
_STREET += r"(?: (?!(?:and|but|with|because|since|in|on|at|a|the|am|pm|now)\b)[\w.'-]+){1,4}"
_STREET += r"|(?!platform|gate|room|table)[^\W\d_]{5,}(?: [^\W\d_]+)? \d{1,4}\w?\b)"
_STREET += r"(?:, (?:\d{4,5} )?(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+){0,2}(?: \d\w\w\b)?(?![\w'])){0,3})"
_ANY = r"(?: any ?more| any longer)"
_STILL = r"(?:really |truly |also |still |just |now |currently |actually |absolutely |always |usually |mostly )?"
_ONE = r"(?P<k>wife|husband|partner|spouse|fiancée?|boyfriend|girlfriend|mother|mom|mum|father|dad|boss|manager)"
_KIN = r"(?P<k>daughter|son|brother|sister|baby|kid|child|cousin|niece|nephew|best friend|roommate|flatmate)"
_WHO = r"(?!(?:she|he|it|this|that|who|here|there|what|they|today)\b)"
_ALONE = r"(?=[.,;!\n]|$| (?:and|not|but)\b)"
_ONE_WORDS = "wife husband partner spouse fiance fiancée boyfriend girlfriend mother mom mum father dad boss manager"
_KIN_WORDS = "daughter son brother sister baby kid child cousin niece nephew friend roommate flatmate"
_ANIMAL = r"(?P<k>dog|cat|puppy|kitten|horse|parrot|rabbit|bunny|hamster|guinea pig|turtle|tortoise|bird|snake|fish|pet)"
_ALIVE = r"(?![\w'-]| (?:just |sadly |recently )?(?:died|passed))"
_THING = r"(?P<k>car|phone|laptop|bike|bicycle|motorbike|computer|camera|tablet|printer)"
_AGE = r"(?P<v>\d{1,3})(?: years?[ -]old| years of age| yo\b| y/o|(?= *(?:[.,!;\n]|and\b|$)))"
_DIET = r"(?P<v>vegetarian|vegan|pescatarian|pescetarian|flexitarian|omnivore|meat eater|carnivore)"
_RULE = r"(?P<v>halal|kosher|gluten[- ]free|dairy[- ]free|low[- ]carb|keto)"
_WORKER = (
    r"(?P<v>(?:[\w-]+ ){0,3}?(?:engineer|developer|programmer|teacher|nurse|doctor|physician|surgeon|dentist|lawyer"
    r"|attorney|designer|architect|student|scientist|researcher|accountant|journalist|writer|author|editor|chef|cook"
    r"|baker|artist|musician|painter|photographer|pilot|plumber|electrician|carpenter|mechanic|farmer|manager|analyst"
    r"|consultant|professor|lecturer|librarian|pharmacist|therapist|psychologist|translator|waiter|waitress|barista"
    r"|firefighter|police officer|paramedic|veterinarian|vet|biologist|chemist|physicist|economist|entrepreneur"
    r"|freelancer|salesperson|secretary|social worker|driver|dancer|actor|actress|coach|counselor|counsellor))\b"
    r"(?! (?:of mine|friend|told|said|fan|at heart|myself))"
)
_CONDITION = (
    r"(?P<v>(?:(?:type [12]|chronic|mild|severe|high) )?(?:diabetes|asthma|adhd|epilepsy|migraines?|arthritis|depression"
    r"|anxiety|autism|celiac disease|coeliac disease|crohn's disease|blood pressure|cancer|hypothyroidism|insomnia"
    r"|back pain|dyslexia|eczema|hay fever|tinnitus|lupus|ibs|ptsd|ocd|multiple sclerosis|parkinson's|long covid))\b"
)
_LANGUAGE_LIST = r"[\w+.-]{2,20}(?:(?:, | and |, and )[\w+.-]{2,20}){0,5}"
_WHEN = r"(?P<h>tomorrow|next week|this weekend|(?:on|this|next) (?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_LATER = r"(?:next (?:month|year|spring|summer|autumn|fall|winter)|in (?-i:January|February|March|April|May|June|July"
_LATER += r"|August|September|October|November|December))"
_PLAN_VERB = r"(?:'ll|'m|'re| am| are| will| have to| need to| must| fly| travel| move| leave| start| meet| go| get"
_PLAN_VERB += r"| have| see| visit| drive)"
_NO_PLACE = r"(?:vim|neovim|emacs|java|python|rust|go|php|ruby|react|vue|angular|mysql|postgres\w*|mongo\w*|oracle|windows|mac(?:os)?|linux|android|ios|iphone|aws|azure|gcp|docker|kubernetes|github|gitlab|google|apple|microsoft|amazon|meta)"
_WORK = r"(?:project|app|application|website|thesis|dissertation|book|novel|game|startup|paper|prototype|album|podcast|library)"

RULES: tuple[Rule, ...] = (
    Rule(t.NAME, "name", rf"my name is{_UNNAMED}{_FILL} {_CALLED}", "My name is Ada and I bake.", "Ada", "My name is not Ada.", plain=True),
    Rule(t.PREFERENCE, "prefer", rf"i prefer {_NO_COMMENT}{_CLAUSE}", "I prefer tea but not now.", "tea", "I prefer not to say.", plain=True),
    Rule(t.LIKE, "like", rf"i like {_CLAUSE}", "I like tea and cake.", "tea and cake", "She thinks I like jazz.", plain=True),
    Rule(t.TODAY, "today", "today i need {v}", "Today I need milk", "milk", "If today I need milk, I go.", plain=True),
    Rule(t.WEEK, "week", "this week i need {v}", "This week I need a plan", "a plan", "This week we need x.", plain=True),
    Rule(t.NAME, "name", "my (?:full |real |first )?name's {name}", "My name's Ada.", "Ada", "Her name's Ada."),
    Rule(t.NAME, "m am", rf"(?:hi|hello|hey)(?: there| all)?[,!.]? (?:i'm|i am) {_NO_NAME}{{name}}(?![\w'-]| \w)", "Hi, I'm Ada!", "Ada",
         "Hi, I'm German and tired."),
    Rule(t.NAME, "called", "(?:i'm|i am) called {name}", "I'm called Ada.", "Ada", "I called Ada."),
    Rule(t.NAME, "m am", rf"(?:i'm|i am) {_NO_NAME}{{name}}(?=(?:, (?:and )?| and |\. )(?:i|i'm|i've|my|an?|\d+)\b)", "I'm Tom, I live in Leeds.", "Tom",
         "I'm Tired, I live in Leeds."),
    Rule(t.NAME, "m am im", rf"\A\W*(?:(?:hi|hiya|hello|hey|good (?:morning|evening))(?: there| all| everyone)?[,!. ]+)*(?:i'm|im|i am) {_SMALL_NAME}", "hi! im ada, 41", "ada",
         "im tired, 41 emails today"),
    retraction(t.NAME, "name", r"my name (?:is not|isn't|is no longer) {v}", "My name is not Bob.", "Bob",
         "My name is not Bob."),
    Rule(t.NICKNAME, "call", r"(?:just |please |you can |everyone |everybody |friends |people )*calls? me {name}",
         "Please call me Max.", "Max", "Don't call me Max."),
    Rule(t.NICKNAME, "nickname go", "(?:my nickname is|i go by) {name}", "I go by Max.", "Max", "I go by bus."),
    retraction(t.NICKNAME, "call", r"(?:don't|do not|stop|never) call(?:ing)? me {name}", "Don't call me Max.", "Max",
         "Don't call me Max."),
    Rule(t.AGE, "am m im", rf"{_AM} {_STILL}{_AGE}", "I'm 34 years old.", "34", "I'm 20 minutes late."),
    Rule(t.AGE, "turned", r"i (?:just )?turned (?P<v>\d{1,3})(?=[.,;!\n]| (?:today|yesterday|last|this|years|and)\b|$)", "I just turned 40.", "40",
         "I turned 40 pages."),
    Rule(t.BIRTHDAY, "birthday", "my birthday is (?:on )?(?:the )?(?P<v>[^,;!?\n]{0,20}\\d[^,;!?\n]{0,20})",
         "My birthday is on May 4.", "May 4", "Is my birthday on May 4?"),
    Rule(t.BIRTHDAY, "born", r"(?:i was|i'm) born on (?:the )?(?P<v>[^,;!?\n]{0,20}\d[^,;!?\n]{0,20})",
         "I was born on 4 May 1990.", "4 May 1990", "She was born on 4 May 1990."),
    Rule(t.PREFERENCE, "rather prefer", "(?:i'd|i would) (?:rather|prefer to) have {v}", "I'd rather have tea.", "tea",
         "Would I rather have tea?"),
    retraction(t.PREFERENCE, "prefer", r"i (?:don't|do not|no longer) prefer {v}", "I no longer prefer tea.", "tea",
         "I no longer prefer tea."),
    Rule(t.FAVOURITE, "favourite favorite", r"my (?:all[- ]time )?favou?rite (?P<k>(?!thing|part|one|moment)\w+(?: \w+)?) (?:is|are) {v}",
         "My favourite colour is blue.", "blue", "What if my favourite colour is blue?"),
    Rule(t.FAVOURITE, "favourite favorite", r"(?P<v>(?-i:[A-Z])[^,.;!?\n]{1,60}?) is my (?:all[- ]time )?favou?rite (?P<k>\w+)\b",
         "Dune is my favourite book.", "Dune", "Dune is her favourite book."),
    Rule(t.LIKE, "love adore enjoy like", r"i (?:really |also |still |just |absolutely |do |truly ){0,2}"
         rf"(?:love|adore|enjoy|like) {_CLAUSE}", "I really love hiking.", "hiking", "I would love hiking."),
    Rule(t.LIKE, "fan", rf"{_AM} (?:really )?a (?:big |huge |great )?fan of {{v}}", "I'm a big fan of jazz.", "jazz",
         "I'm not a fan of jazz."),
    Rule(t.DISLIKE, "hate dislike detest loathe stand", rf"i {_STILL}(?:hate|dislike|detest|loathe|can't stand) {_CLAUSE}",
         "I hate olives.", "olives", "Do I hate olives?"),
    Rule(t.DISLIKE, "like love enjoy", r"i (?:really |also |still )?(?:don't|do not|dont|didn't)(?: really| even)? "
         r"(?:like|love|enjoy) {w}(?:" + _ANY + r")?(?=[.,;!?\n]|$)", "I don't like olives any more.", "olives",
         "You don't like olives."),
    retraction(t.LIKE, "longer stopped", r"i (?:[\w' ]{1,40} and )?(?:no longer (?:like|love|enjoy|eat|drink)|stopped (?:liking|loving|enjoying|eating|drinking)) {v}",
         "I no longer like jazz.", "jazz", "I no longer like jazz."),
    retraction(t.LIKE, "fan", rf"{_AM} (?:not|no longer) (?:really )?a (?:big |huge )?fan of {{v}}", "I'm not a fan of jazz.",
         "jazz", "I'm not a fan of jazz."),
    retraction(t.DISLIKE, "hate dislike mind", r"i (?:don't|do not|no longer) (?:hate|dislike|mind) {w}(?:" + _ANY + r")?"
         r"(?=[.,;!?\n]|$)", "I don't hate olives any more.", "olives", "I don't hate olives."),
    Rule(t.DIET, "vegetarian vegan pescatarian pescetarian flexitarian omnivore meat carnivore",
         rf"(?:{_AM}|i became|i've become|i went|i turned) {_STILL}(?:an? )?(?:strict )?{_DIET}\b(?! (?:food|restaurant))",
         "I'm a vegetarian.", "vegetarian", "I'm not a vegetarian."),
    Rule(t.DIET, "eat", r"i (?:do )?(?:eat|started eating) meat(?: again| now)?\b", "I eat meat again.", "eats meat",
         "I don't eat meat.", fixed="eats meat"),
    Rule(t.DIET, "eat", r"i (?:don't|do not|never|no longer) eat (?:any )?meat\b", "I don't eat meat.", "no meat",
         "I eat meat.", fixed="no meat"),
    retraction(t.DIET, "vegetarian vegan pescatarian pescetarian flexitarian omnivore meat carnivore",
         rf"{_AM} (?:not|no longer) (?:an? )?{_DIET}", "I'm no longer vegan.", "vegan", "I'm not a vegan."),
    Rule(t.FOOD_RULE, "halal kosher gluten dairy low keto", rf"i (?:only )?(?:eat|keep|follow|am on)(?: an?)? {_RULE}",
         "I only eat halal.", "halal", "I don't eat halal."),
    retraction(t.FOOD_RULE, "halal kosher gluten dairy low keto",
         rf"i (?:don't|no longer) (?:eat|keep|follow)(?: an?)? {_RULE}", "I no longer eat keto.", "keto",
         "I no longer eat keto."),
    Rule(t.ALLERGY, "allergic", rf"{_AM} {_STILL}(?:very |severely |deathly |highly |super )?allergic to {{list}}",
         "I'm allergic to peanuts.", "peanuts", "I'm not allergic to peanuts."),
    Rule(t.ALLERGY, "allergic", rf"{_AM} (?:an? )?(?:vegetarian|vegan|pescatarian) and (?:also )?allergic to {{list}}", "I'm vegan and allergic to soy.", "soy", "She's vegan and allergic to soy."),
    Rule(t.ALLERGY, "allergy", r"i have an? (?:severe |bad )?(?P<v>[\w-]+(?: [\w-]+)?) allergy\b",
         "I have a nut allergy.", "nut", "I have no nut allergy."),
    Rule(t.ALLERGY, "intolerant", rf"{_AM} (?P<v>[\w-]+[ -]intolerant)", "I'm lactose intolerant.", "lactose intolerant",
         "I'm not lactose intolerant."),
    retraction(t.ALLERGY, "allergic", rf"{_AM} (?:not|no longer) (?:actually )?allergic to {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I'm not allergic to nuts any more.", "nuts", "I'm not allergic to nuts."),
    Rule(t.HOME, "live", rf"{_I} (?:now |currently |actually |still |both |all )?live in (?:the city of )?{{v}}",
         "I live in Paris with my cat.", "Paris", "If I lived in Paris I would smile."),
    Rule(t.HOME, "live", rf"{_OTHER_STATEMENT} (?:now )?live in {{v}}", "I work at Arup and live in Rome.", "Rome", "We dined and live in Rome."),
    Rule(t.ADDRESS, "live living address", rf"(?:{_I} {_STILL}live at|{_AM} {_STILL}living at|{_HOME}(?:'s| is(?: now)?|:)) {_STREET}",
         "I live at 12 Elm Street, Leeds.", "12 Elm Street, Leeds", "My IP address is 10.0.0.1."),
    Rule(t.HOME, "living based", rf"{_AM} (?:now |currently )?(?:living|based) in {{v}}", "I'm based in Oslo.", "Oslo",
         "I'm not based in Oslo."),
    Rule(t.HOME, "moved relocated", rf"(?:{_I}|i've|we've|i have) (?:just |recently |finally )?(?:moved|relocated) (?:from (?!{_NO_PLACE}\b){_STOPS}{{1,60}}? )?to {{v}}",
         "I just moved to Berlin.", "Berlin", "He moved to Berlin."),
    retraction(t.HOME, "live", rf"{_I} (?:don't|do not|no longer) live in {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I don't live in Paris any more.", "Paris", "I don't live in Paris."),
    retraction(t.HOME, "lived used moved", rf"{_I} (?:used to live in|moved (?:away from|out of)) {{v}}",
         "I used to live in Paris.", "Paris", "I used to live in Paris."),
    Rule(t.ORIGIN, "from", rf"(?:{_AM}|i come) (?:originally )?from {{v}}", "I'm originally from Chile.", "Chile",
         "I'm not from Chile."),
    retraction(t.ORIGIN, "from", rf"(?:{_AM} not|i don't come) from {{v}}", "I'm not from Chile.", "Chile",
         "I'm not from Chile."),
    Rule(t.BIRTHPLACE, "born", "i was born (?:and raised )?in (?!\\d|the (?:\\d|year)){v}", "I was born in Lima.", "Lima",
         "I was born in 1990."),
    Rule(t.TIMEZONE, "timezone zone", r"my time ?zone is {v}", "My timezone is CET.", "CET", "What is my timezone?"),
    Rule(t.JOB, "work job", r"(?:i work as|my job is(?: being)?|my job title is) (?:an? |the )?{v}",
         "I work as a nurse.", "nurse", "I don't work as a nurse."),
    Rule(t.JOB, "am m im became", rf"(?:{_AM}|i became|i've become) {_STILL}an? {_WORKER}", "I'm a software engineer.",
         "software engineer", "I'm not a nurse."),
    Rule(t.JOB, "retired unemployed", rf"{_AM} (?:now |recently )?(?P<v>retired|unemployed|self-employed)\b",
         "I'm retired.", "retired", "I'm not retired."),
    Rule(t.JOB, "work", rf"{_OTHER_STATEMENT} (?:now )?work as (?:an? |the )?{{v}}", "I live in Rome and work as a nurse.", "nurse",
         "We dined in Rome and work as nurses."),
    retraction(t.JOB, "work", rf"i (?:don't|do not|no longer) work as (?:an? )?{{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I no longer work as a nurse.", "nurse", "I don't work as a nurse."),
    retraction(t.JOB, "am m im", rf"{_AM} (?:not|no longer) an? {_WORKER}", "I'm not a nurse any more.", "nurse",
         "I'm not a nurse."),
    Rule(t.EMPLOYER, "work working", rf"(?:i (?:now |currently )?work|{_AM} (?:now )?working) (?:at|for) {{v}}",
         "I work at Acme as a clerk.", "Acme", "I work at night."),
    Rule(t.HOME, "live", r"(?:i|we) (?:don't|do not) live in [^,.;!?\n]{1,40}?,? but (?:rather )?in {v}", "I don't live in Hull but in Beverley.", "Beverley",
         "I don't live in Hull but I like it."),
    Rule(t.EMPLOYER, "work", r"(?:i|we) (?:don't|do not) work (?:at|for) [^,.;!?\n]{1,40}?,? but (?:at|for) {v}", "I don't work at Bosch but at Siemens.", "Siemens",
         "I don't work at Bosch but I will."),
    Rule(t.EMPLOYER, "work", rf"{_OTHER_STATEMENT} (?:now )?work (?:at|for) {{v}}", "I live in Rome and work at Arup.", "Arup",
         "My sons live in Rome and work at Arup."),
    retraction(t.EMPLOYER, "work left quit resigned", rf"(?:i (?:don't|do not|no longer) work (?:at|for)|i(?:'ve)? (?:just |recently )?(?:left|quit|resigned from)(?: (?:my )?(?:old )?(?:job|position|working|work) (?:at|with|for))?+) (?!the (?:house|office|shop|store|hotel|building|station)\b){{w}}(?:{_ANY})?"
         r"(?=[.,;!\n]|$)", "I don't work at Acme any more.", "Acme", "I no longer work at Acme."),
    Rule(t.STUDIES, "study studying major majoring", rf"(?:i study|{_AM} studying|i(?:'m| am)? major(?:ing)? in) {{w}}(?= (?:at|in|with|and|but)\b|[.,;!?\n]|$)",
         "I study physics at MIT.", "physics", "I don't study physics."),
    retraction(t.STUDIES, "study studying stopped", rf"i (?:don't|no longer|stopped) study(?:ing)? {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I no longer study physics.", "physics", "I don't study physics."),
    Rule(t.FAMILY, _ONE_WORDS,
         rf"my (?:new )?{_ONE}(?:'s name)?(?: is|'s|,)?(?: now)? (?:called |named )?{{name}}", "My wife is called Ana.",
         "Ana", "My wife likes tea."),
    Rule(t.KIN, _KIN_WORDS,
         rf"my (?:\w+er |little |big |\w+est )?{_KIN}(?:'s name)?(?: is|'s| is called| is named|,)? (?:called |named )?{{name}}",
         "My daughter Ana starts school.", "Ana", "My daughter likes tea."),
    retraction(t.FAMILY, "wife husband partner boyfriend girlfriend",
         rf"(?:my ex-?{_ONE}|i (?:broke up with|divorced|split up with) my (?P<j>wife|husband|partner|boyfriend|girlfriend))",
         "I broke up with my girlfriend.", "", "I broke up with my girlfriend."),
    *relations(
        rf"{_WHO}{{name}} is (?:actually |really |now |also )?my (?!best)(?:\w+er |little |big |new )?{{k}}{_ALONE}",
        rf"{_WHO}{{name}} (?:isn't|is not|is no longer|is (?:my|our|the|an?) [\w' -]{{2,30}}?,? (?:and )?not) my (?:\w+er |little |big )?{{k}}{_ALONE}",
        (t.FAMILY, _ONE_WORDS, _ONE, "Ana is my manager.", "Ana is not my manager.", "Ana"),
        (t.KIN, _KIN_WORDS, _KIN, "Ana is my sister.", "Ana is my boss, not my sister.", "Ana"),
    ),
    Rule(t.CHILDREN, "kids children daughters sons", rf"{_I} have (?P<v>\w+ (?:kids|children|daughters|sons))\b",
         "We have two kids.", "two kids", "We don't have two kids."),
    Rule(t.RELATIONSHIP, "married single divorced engaged widowed", rf"(?:{_AM}|i got) (?:now |recently |happily |just )?"
         r"(?P<v>married|single|divorced|engaged|widowed)\b(?![-'])(?! (?:in|with|off) | to (?:the|this|that|my) )", "I'm happily married.", "married",
         "I'm not married."),
    retraction(t.RELATIONSHIP, "married single divorced engaged",
         rf"{_AM} (?:not|no longer) (?P<v>married|single|divorced|engaged)\b", "I'm no longer single.", "single",
         "I'm not single."),
    Rule(t.PET, "dog cat puppy kitten horse parrot rabbit bunny hamster guinea turtle tortoise bird snake fish pet",
         rf"my {_ANIMAL}(?:'s name)?(?: is|'s| is called| is named|,)? (?:called |named )?{{name}}{_ALIVE}", "My dog is called Rex.",
         "Rex", "My dog likes Rex."),
    Rule(t.PET, "dog cat puppy kitten horse parrot rabbit bunny hamster guinea turtle tortoise bird snake fish pet",
         rf"{_I} (?:now |just |also |recently )?(?:have|got|adopted|own) (?:an?|another) (?:\w+ )?{_ANIMAL},? (?:called|named) {{name}}", "I now have a cat named Tom.",
         "Tom", "She has a cat named Tom."),
    Rule(t.PET_KIND, "dog cat horse parrot rabbit hamster turtle dogs cats", r"i have (?:an? )?+(?!no |hot |my |your )(?P<v>(?:\w+ )?(?:dog|cat|horse"
         r"|parrot|rabbit|hamster|turtle)s?)\b(?! (?:allergy|person))", "I have a dog.", "dog",
         "I have no dog."),
    retraction(t.PET, "dog cat horse parrot rabbit hamster turtle", rf"i (?:don't|do not|no longer) have (?:an? |my |the )?{_ANIMAL}"
         rf"(?:{_ANY})?", "I don't have a dog any more.", "", "I don't have a dog."),
    retraction(t.PET_KIND, "dog cat horse parrot rabbit hamster turtle", r"i (?:don't|do not|no longer) have (?:an? |my |the )?"
         r"(?P<v>dog|cat|horse|parrot|rabbit|hamster|turtle)", "I no longer have a dog.", "dog", "I have no dog."),
    Rule(t.CONDITION, "have diagnosed suffer", rf"(?:i (?:have|suffer from)|i was diagnosed with|i've got) {_CONDITION}",
         "I have asthma.", "asthma", "I don't have asthma."),
    Rule(t.CONDITION, "diabetic asthmatic epileptic autistic pregnant dyslexic",
         rf"{_AM} (?P<v>diabetic|asthmatic|epileptic|autistic|pregnant|dyslexic)\b", "I'm diabetic.", "diabetic",
         "I'm not diabetic."),
    retraction(t.CONDITION, "have", rf"i (?:don't|do not|no longer) have {_CONDITION}", "I no longer have asthma.", "asthma",
         "I don't have asthma."),
    retraction(t.CONDITION, "diabetic asthmatic epileptic pregnant",
         rf"{_AM} (?:not|no longer) (?P<v>diabetic|asthmatic|epileptic|pregnant)\b", "I'm no longer pregnant.",
         "pregnant", "I'm not diabetic."),
    Rule(t.MEDICATION, "take taking", r"(?:i take|i'm taking|i am taking|i'm on) (?:\d+ ?mg (?:of )?)?(?P<v>(?-i:[A-Z])?[a-z]+"
         r"(?:in|ol|ine|ide|ate|one|pril|statin|mab|zole|ium|xil|pam)|insulin|antibiotics|antidepressants|the pill|aspirin)\b"
         r"(?! (?:for granted|bus|train))", "I take metformin.", "metformin", "I don't take metformin."),
    retraction(t.MEDICATION, "take taking stopped", r"i (?:don't take|no longer take|stopped taking|quit taking) {v}",
         "I stopped taking metformin.", "metformin", "I no longer take metformin."),
    Rule(t.LANGUAGE, "speak fluent", rf"(?:i (?:can )?(?:also )?speak|{_AM} fluent in) (?:fluent |a little |some )?"
         rf"(?P<v>(?-i:[A-Z]){_LANGUAGE_LIST})", "I speak French and Dutch.", "French", "I don't speak French."),
    retraction(t.LANGUAGE, "speak", r"i (?:don't|do not|no longer|can't) speak (?P<v>(?-i:[A-Z])\w+)", "I don't speak French.",
         "French", "I don't speak French."),
    Rule(t.HOBBY, "hobby hobbies", r"my (?:main |favou?rite )?hobb(?:y is|ies are) {list}", "My hobby is chess.", "chess",
         "Is my hobby chess?"),
    Rule(t.HOBBY, "free spare", r"in my (?:free|spare) time,? i (?:like to |love to )?{v}", "In my free time I paint.", "paint",
         "In my free time, who knows?"),
    retraction(t.HOBBY, "stopped quit gave", r"i (?:stopped|quit|gave up) (?!taking|liking|studying|working|using)(?P<v>\w+ing)\b",
         "I gave up painting.", "painting", "I stopped painting."),
    Rule(t.POSSESSION, "drive", r"i (?:now )?drive an? (?P<v>(?-i:[A-Z])[\w-]+(?: [\w-]+)?)", "I drive a Volvo.", "Volvo",
         "I drive a lot.", key="car"),
    Rule(t.POSSESSION, "car phone laptop bike bicycle motorbike computer camera tablet printer",
         rf"my {_THING} is (?:now )?an? (?!bit|mess|little|lot|total|disaster|piece){{v}}", "My phone is a Pixel 8.",
         "Pixel 8", "My phone is broken."),
    retraction(t.POSSESSION, "bought sold got have own", rf"i (?:just |recently )?sold my {_THING}", "I sold my car.", "",
         "I sold my car."),
    retraction(t.POSSESSION, "have own", rf"i (?:don't|do not|no longer) (?:have|own) (?:an? |my |the )?{_THING}\b",
         "I no longer have a car.", "", "I don't have a car."),
    Rule(t.GOAL, "goal", r"my (?:main |big |long-term )?goal (?:is|this year is|for \d{4} is) (?:to )?{v}",
         "My goal is to run a marathon.", "run a marathon", "What is my goal?"),
    Rule(t.GOAL, "want training learning", r"i want to (?P<v>(?:learn|become|run|write|build|start|lose|quit|save|study|travel to)"
         r" [^,;!?\n]{2,80})", "I want to learn Italian.", "learn Italian", "I don't want to learn Italian."),
    retraction(t.GOAL, "want goal", rf"i (?:don't|no longer) want to {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I no longer want to learn Italian.", "learn Italian", "I don't want to learn Italian."),
    Rule(t.PLAN, "tomorrow week weekend monday tuesday wednesday thursday friday saturday sunday",
         rf"(?P<v>{_WHEN},? {_I}{_PLAN_VERB}\b[^,;!?\n]{{2,90}})", "On Friday I fly to Rome.", "On Friday I fly to Rome",
         "On Friday you fly to Rome."),
    Rule(t.PLAN, "tomorrow week weekend monday tuesday wednesday thursday friday saturday sunday",
         rf"(?P<v>{_I}{_PLAN_VERB}\b(?:(?! and {_I}\b)[^,;!?\n]){{2,80}}? {_WHEN})\b", "I'm meeting Eve tomorrow.", "I'm meeting Eve tomorrow",
         "You meet Eve tomorrow."),
    Rule(t.PLAN, "tomorrow week weekend monday tuesday wednesday thursday friday saturday sunday",
         rf"(?P<v>(?:my|our) [^,;!?\n]{{2,60}}? (?:is|are|starts?|ends?) (?!on ){_WHEN}\b[^,;!?\n]{{0,60}})", "My exam is next Friday at 3 pm.",
         "My exam is next Friday at 3 pm", "Her exam is next Friday."),
    Rule(t.PLAN, "next in", rf"(?P<v>{_LATER},? {_I}{_PLAN_VERB}\b[^,;!?\n]{{2,90}})", "Next month we move to Lyon.",
         "Next month we move to Lyon", "Next month they move.", tier=FactTier.L0),
    Rule(t.PLAN, "next in", rf"(?P<v>{_I}{_PLAN_VERB}\b(?:(?! and {_I}\b)[^,;!?\n]){{2,80}}? {_LATER})\b", "I'm moving to Lyon next month.",
         "I'm moving to Lyon next month", "He's moving next month.", tier=FactTier.L0),
    retraction(t.PLAN, "cancelled canceled longer", r"i (?:cancell?ed|am no longer going on|called off) (?:my |the |our )?{v}",
         "I cancelled my trip to Rome.", "trip to Rome", "I cancelled the trip."),
    Rule(t.REMINDER, "remind", r"(?:please )?remind me (?:to )?(?P<v>(?:today |tonight )(?:to )?[^,;!?\n]{2,90}"
         r"|[^,;!?\n]{2,90}? (?:today|tonight))\b", "Remind me to call Bo tonight.", "call Bo tonight",
         "Did you remind me to call Bo tonight?", tier=FactTier.L1),
    Rule(t.REMINDER, "remind", r"(?:please )?remind me (?:to )(?P<v>[^,;!?\n]{2,100})", "Remind me to call Bo tomorrow.",
         "call Bo tomorrow", "You remind me of Bo."),
    retraction(t.REMINDER, "remind reminder", r"(?:don't|no need to|stop) remind(?:ing)? me (?:to |about ){v}",
         "Don't remind me to call Bo.", "call Bo", "Don't remind me to call Bo."),
    Rule(t.TASK_TODAY, "today", r"today i (?:have to|must|should|'ve got to) {v}", "Today I have to call Bo.", "call Bo",
         "Today you have to call Bo."),
    Rule(t.TASK_TODAY, "today", r"i (?:have to|must|need to) {w} today\b", "I need to call Bo today.", "call Bo",
         "Do I need to call Bo today?"),
    Rule(t.TASK_WEEK, "week", r"this week i (?:have to|must|should) {v}", "This week I have to paint.", "paint",
         "This week you have to paint."),
    Rule(t.TASK_WEEK, "week", r"i (?:have to|must|need to) {w} this week\b", "I must paint this week.", "paint",
         "Must I paint this week?"),
    Rule(t.CONTACT, "email mail", r"my (?:new )?e-?mail(?: address)? is (?P<v>[\w.+-]{1,64}@[\w-]{1,63}"
         r"(?:\.[\w-]{1,63}){1,4})", "My email is ada@example.org.", "ada@example.org", "Her email is ada@example.org.",
         key="email"),
    Rule(t.CONTACT, "email mail", r"my (?P<k>(?:work|office|business|private|personal|school) e-?mail)(?: address)? is (?P<v>[\w.+-]{1,64}@[\w-]{1,63}"
         r"(?:\.[\w-]{1,63}){1,4})", "My work email is ada@example.org.", "ada@example.org", "Her work email is ada@example.org."),
    Rule(t.CONTACT, "phone number mobile", r"my (?:new number|(?:new |cell |mobile )?(?:phone|cell|mobile|telephone)(?: number)?) is "
         r"(?P<v>\+?\d[\d ()/-]{5,18}\d)", "My phone number is +49 170 1234567.", "+49 170 1234567",
         "My phone is old.", key="phone"),
    Rule(t.ANSWER_LANGUAGE, "answer reply respond speak write talk", r"(?:please |from now on,? |always |only )*(?:answer|reply"
         r"|respond|write|speak|talk)(?: to)?(?: me)? (?:always |only )?in (?P<v>(?-i:[A-Z])[a-z]+)(?: from now on| only)?"
         r"(?=[.,;!\n]|$)", "Always answer in German.", "German", "She can answer in German."),
    retraction(t.ANSWER_LANGUAGE, "answer reply respond", r"(?:don't|do not|stop|no longer) (?:answer|reply|respond)(?:ing)? in "
         r"(?P<v>(?-i:[A-Z])[a-z]+)", "Don't answer in German.", "German", "Don't answer in German."),
    Rule(t.EMOJI, "emojis emoji", r"(?:please |and )?(?:don't|do not|never|stop|avoid|without)(?: using| use)? (?:any )?emojis?",
         "Please don't use emojis.", "no emojis", "Can you use emojis?", fixed="no emojis"),
    Rule(t.EMOJI, "emojis emoji", r"(?:please |you can |you may |feel free to |do )+use (?:some |more )?emojis?(?: again)?",
         "You can use emojis again.", "emojis", "Did I say to use emojis?", fixed="emojis"),
    Rule(t.ANSWER_LENGTH, "answers replies responses explanations", r"(?:please |(?:give me|keep to|stick to|i (?:now )?want|i'd like) )*(?P<v>(?:(?:much|more|very|really) )?(?:short|brief|concise|long|detailed)(?:er)? (?:answers|replies|responses|explanations)|(?:keep )?(?:all |your |the )?(?:answers|replies|responses|explanations) (?:short|brief|concise|long|detailed)(?:er)?)(?=(?:,? (?:please|pls|from now on|again|now|instead))*(?:[.!,;\n]|$))", "I want short answers.", "short answers",
         "She wants short answers."),
    Rule(t.INSTRUCTION, "always never now", r"(?<!and\s)(?<!to\s)(?<!we\s)(?:please )?(?:(?:always|from now on,?) |(?=never))(?P<v>(?:never )?(?:use|write|give(?! up)|keep|include|add"
         r"|explain|format|show|call|ask|start|end|avoid|cite|mention|tell) [^;!?\n]{2,90})", "Always use metric units.",
         "use metric units", "You always use metric units."),
    Rule(t.PROJECT, "working", rf"{_AM} {_STILL}working on (?:my |the )?(?P<v>(?:an? )?(?:{_STOPS}{{0,40}}? )?{_WORK}\b(?:{_NEXT}{_STOPS}|{POINT}){{0,80}})", "I'm working on a Python project.", "a Python project", "Are you working on a project?"),
    Rule(t.INDENTATION, "tabs spaces", r"(?:i|we|always|please) (?:now |always )?(?:use|prefer|indent with) (?P<v>tabs|spaces|\d spaces"
         r"|(?:two|four) spaces)\b", "I use tabs.", "tabs", "Do you use tabs?"),
    Rule(t.EDITOR, "editor ide", r"my (?:main |favou?rite )?(?:editor|ide) is {v}", "My editor is Neovim.", "Neovim",
         "My editor is slow."),
    Rule(t.EDITOR, "vim neovim emacs code pycharm intellij sublime zed helix nano cursor", r"i (?:now |mostly |always )?use (?P<v>"
         r"(?:neo)?vim|emacs|vs ?code|pycharm|intellij|sublime(?: text)?|zed|helix|nano|cursor)\b", "I use Emacs.", "Emacs",
         "I don't use Emacs."),
    Rule(t.TOOL, "code program develop", r"i (?:mostly |mainly |usually |always )?(?:code|program|develop)(?: mostly| mainly)? in "
         r"(?P<v>(?-i:[A-Z])[\w+#.]{0,20})", "I mostly code in Rust.", "Rust", "I code in bed."),
    retraction(t.TOOL, "use using stopped", rf"i (?:don't use|no longer use|stopped using) {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I stopped using Rust.", "Rust", "I no longer use Rust."),
    retraction(t.EDITOR, "use using stopped", rf"i (?:don't use|no longer use|stopped using) {{w}}(?:{_ANY})?(?=[.,;!\n]|$)",
         "I stopped using Emacs.", "Emacs", "I no longer use Emacs."),
)

ENGLISH = Language(
    "English",
    whole_words=True,
    rules=(*RULES, *IN_ENGLISH),
    context_excludes=r"\b(?:if|unless|whether|would|wouldn't|could|suppose|supposing|imagine|pretend|wish|wished|hypothetically|let's say"
    r"|says|saying|said|tells|told|asks|asked|claims|claimed|thinks|thought|believes|assumes|wrote|writes|lyrics|song"
    r"|poem|story|novel|translate|translation|role ?play|act as|persona|character|dream|dreamt|dreamed|used to|example|e\.g|forget)\b",
    prefix_excludes=r"\b(?:do|did|does|don't|didn't|can|should|will|might|may|what|which|who|whom|how|why|where|that|things?|stuff|like"
    r"|someone|you|he|she|they|am|was|were|be|[\w-]+'s|the \w+|one|as)\s+$",
    prefix_allowed=r"(?:^|[\s,(])(?:(?:it )?turns out(?: that)?|and|but|so|because|since|as|well|don't forget that|ok|okay|oh|hi|hello|hey|yes|yeah|yep|no|nope|nah|actually|btw|fyi|also|though"
    r"|although|still|now|currently|honestly|personally|today|yesterday|recently|thanks|please|remember|remember that|note"
    r"|note that|correction|sorry|by the way|in fact|to be honest|you know|as you know|i think|i guess|i mean|i meant|that"
    r"|wait|update|cause|plus|anyway|basically|unfortunately|luckily|sadly|sometimes|this year|i told you|i said|i mentioned"
    r"|last (?:week|month|year|spring|summer|fall|winter)|while|and that|in (?:\d{4}))[,:]?\s*$",
    value_end=r"\s(?:and (?:love|like|enjoy|hate|study|speak|play|come|drive|prefer|i|my|we|he|she|it|they|am|have|want|need|work|live|so|also|that|the|then|now|don't|would|will|can|it's|i'm|just)"
    r"|but|because|'cause|cause|cuz|coz|so (?:i|we|please|that|it|my)|which|who|since|although|though|when(?:ever)?|while|if|as (?:a|an|well|it"
    r"|you|they|i)|too|anymore|any more|any longer|these days|nowadays|right now|at the moment|by the way|btw|in fact|and not|not"
    r"|so much|a lot|very much|either|though|lol|haha|however|with my|for (?:\w+ )?(?:years?|months?|weeks?|days|now|a living)|now"
    r"|last (?:week|month|year)|years ago|again|instead|already|yet|please|thanks|and (?:\w+ )?for \w+ing|at the \w+ of)\b.*$"
    r"|\s[-–—(\[{|].*$|:\s.*$",
    empty_value=r"(?:to$|it|that|this|these|those|them|him|her|me|us|you|your|how|what|when|where|why|the way|the idea|the sound|the look|to (?:hear|see|know"
    r"|think|say|help|be)|being|hearing|seeing|knowing|having|spending|everything|anything|something|one|both|all|each|every|any|some|not"
    r"|nothing|having|doing|going|talking|chatting|every|there|here|our|their|his|its|my|I|we)\b",
    after=r"[\"'”]?[ ,]{0,3}(?:s?he|they|my \w+|(?-i:[A-Z])\w+) (?:said|says|asked|replied|wrote|told|joked|lied)\b"
    r"|[ ,.!-]{0,3}(?:just kidding|jk|j/k|not really|in (?:a|the|my) (?:dream|story|game|novel|movie))\b",
    joins=r",? and |, | or |/",
    keys={
        "mom": "mother", "mum": "mother", "dad": "father", "fiance": "partner", "fiancé": "partner", "fiancée": "partner",
        "spouse": "partner", "kid": "child", "baby": "child", "puppy": "dog", "kitten": "cat", "bunny": "rabbit",
        "bicycle": "bike", "colour": "color",
    },
    question_patterns={
        "user_name": r"\b(?:my name|who am i|what am i called|do you know who i am)\b",
        "user_nickname": r"\b(?:call me|my nickname|my name|who am i)\b",
        "user_age": r"\bhow old am i\b|\bmy age\b",
        "user_birthday": r"\bmy birthday\b|\bwhen (?:was|am) i born\b",
        "user_preference": r"\bdo i (?:generally )?prefer\b|\bmy preferences?\b",
        "user_favourite": r"\bmy favou?rites?\b|\bdo i like (?:best|most)\b",
        "user_like": r"\bdo i (like|love|enjoy)\b|\bmy (likes|favou?rites?)\b",
        "user_dislike": r"\bdo(?:n't)? i (?:not |really )?(?:like|hate|dislike|love|enjoy)\b|\bmy dislikes\b",
        "user_diet": r"\bmy diet\b|\b(?:can|do|should|may) i eat\b|\bam i (?:a |an )?(?:veg|pesc|omni)",
        "user_food_rule": r"\bmy diet\b|\b(?:can|do|should|may) i eat\b",
        "user_allergy": r"\bam i (?:allergic|intolerant)\b|\bmy allerg|\b(?:can|should|may) i eat\b|\bcan't i eat\b",
        "user_home": r"\b(?:do|am) i (?:live|living|based)\b|\bmy (?:home|city|address)\b|\bwhere i live\b",
        "user_address": r"\bmy (?:home|address)\b|\bwhere (?:do )?i live\b",
        "user_origin": r"\b(?:am i|do i come) from\b|\bmy (?:origin|country|home country)\b",
        "user_birthplace": r"\b(?:was|am) i born\b|\bmy birthplace\b",
        "user_timezone": r"\bmy time ?zone\b|\btime ?zone am i\b",
        "user_job": r"\bdo i work as\b|\bmy (?:job|profession|occupation)\b|\bi do for (?:a living|work)\b|\bdo i do for",
        "user_employer": r"\bdo i work\b|\bmy (?:employer|company|workplace|job)\b",
        "user_project": r"\bam i working on\b|\bmy (?:current )?projects?\b",
        "user_studies": r"\b(?:do|am|did) i study|\bmy (?:studies|major|degree)\b",
        "user_family": r"\bmy (?:family|wife|husband|partner|boyfriend|girlfriend|mother|mom|mum|father|dad|boss|manager|spouse)\b",
        "user_kin": r"\bmy (?:family|daughters?|sons?|brothers?|sisters?|child(?:ren)?|kids?|siblings?|baby)\b",
        "user_children": r"\b(?:many|my) (?:kids|children|daughters|sons)\b|\bdo i have (?:any )?(?:kids|children)\b",
        "user_relationship": r"\bam i (?:married|single|engaged|divorced)\b|\bmy (?:relationship|marital) status\b",
        "user_pet": r"\bmy (?:pets?|dogs?|cats?|puppy|kitten|horse|parrot|rabbit|hamster|turtle)\b|\bdo i have (?:an? |any )?(?:pet|dog|cat)",
        "user_pet_kind": r"\bmy pets?\b|\bpets? do i have\b|\bdo i have (?:an? |any )?(?:pet|dog|cat)",
        "user_condition": r"\bmy (?:health|medical|conditions?|illness)|\bconditions? do i have\b|\bam i (?:diabetic|pregnant|ill)",
        "user_medication": r"\bmy (?:medication|medicine|meds|drugs|pills)|\b(?:medication|medicine|meds|pills|drugs) (?:do|am) i\b",
        "user_language": r"\blanguages? (?:do|can) i\b|\bdo i speak\b|\bmy languages?\b",
        "user_hobby": r"\bmy hobb(?:y|ies)\b|\b(?:in )?my (?:free|spare) time\b|\bdo i do for fun\b",
        "user_possession": r"\b(?:my|do i (?:drive|own|have)|have i got)\b.{0,12}\b(?:car|phone|laptop|bike|computer|camera|tablet|printer)\b"
        r"|\bdo i drive\b",
        "user_goal": r"\bmy goals?\b|\bdo i want to (?:learn|achieve|do|become)\b",
        "user_plan": r"\bmy (?:plans?|schedule|calendar|agenda)\b|\b(?:am|will|do) i (?:doing|do|going|go|planning|plan|have planned)\b"
        r"|\bwhen (?:do|am|will) i\b|\bwhere (?:am|will) i (?:going|go|flying|fly|travell?ing)\b",
        "user_reminder": r"\bremind(?:ers?)?\b.{0,20}\b(?:me|my|i)\b|\bmy (?:reminders?|to-?dos?|tasks?)\b",
        "today_task": r"\bdo i (?:need|have) to do today\b|\bmy (?:tasks?|to-?dos?)\b.{0,20}\btoday\b|\bdo today\b",
        "weekly_task": r"\bdo i (?:need|have) to do this week\b|\bmy (?:tasks?|to-?dos?)\b.{0,20}\bweek\b|\bdo this week\b",
        "user_contact": r"\bmy (?:e-?mail|phone|mobile|contact|number)\b|\b(?:reach|contact) me\b",
        "user_instruction": r"\b(?:my|the) (?:instructions?|rules)\b|\bshould you (?:answer|reply|write|respond|use)\b|\bdid i (?:tell|ask) you to\b",
        "user_tooling": r"\bmy (?:editor|ide|indentation|tools?|setup|stack|code style)\b|\b(?:do i|should i|should you) (?:use|code|program|indent)\b",
    },
)
