"""Rules of facts, and the grammar of statements and standing instructions, in German."""

from memsvc.core.facts import FactTier
from memsvc.core.rules import topics as t
from memsvc.core.rules.forgotten import IN_GERMAN
from memsvc.core.rules.grammar import Grammar
from memsvc.core.rules.rule import Language, Rule, relations, retraction

# fmt: off
# A rule and a pattern are a line of data each, however long.


GERMAN_GRAMMAR = Grammar(
    language="de",
    whole_words=True,
    common="der die das den dem ein eine einen einem und ist sind zu von im mein meine ich wir mir mich uns unser unsere für du dir dein sie es mit auf bei nicht kein keine aus hab habe bin hat wenn aber als auch nur noch bitte immer nie ab jetzt per sag seit gar am zum zur was wie so da",
    lead=r"(?:(?:ok|okay|also|so|na ja|naja|hallo|hi|hey|moin|servus|grüß gott|grüezi|guten (?:tag|morgen|abend)|übrigens|btw|fyi|ach|ah|ach ja|kurze (?:frage|info|anmerkung)|kurz|zur info|zur erinnerung|info|hinweis|wichtig|merk dir|merke|notiz|nur zur info|nur so|nebenbei|danke|sorry|entschuldigung|ja|nein|nee|und|aber|kurzfassung|zu mir|über mich|ehrlich gesagt|eigentlich|ps|noch was|noch etwas|vorab|damit du(?:'s| es)? weißt|boah|tja|gut|mal ehrlich|am rande|[-*•–]|\d{1,2}[.)]|(?P<polite>(?:kannst|könntest|würdest) du(?: bitte| mal)*(?= (?:aufhören|immer|künftig|nie|ab|grundsätzlich|mich|in zukunft|stets)\b)))(?:[,:!.…–—-]+ ?| |$))+",
    request=r"(?:(?:und|aber|also|oder|ja|bitte|nur|hast du|eine|kurze|gibt's|habt ihr) )*(?:was|wer|wie|wo|wann|warum|wieso|weshalb|welche[rsnm]?|woher|wohin|worauf|womit|wofür|kannst|könntest|können|könnt|würdest|hast|hat|haben|ist|sind|bin|gibt|soll|sollte|sollen|muss|müssen|darf|dürfen|lohnt|weißt|kennst|magst|was'n|kann|brauch|brauche|brauchen|geht|reicht|wird|werden|macht|passt|schreibst|schreib mir|erklär|erkläre|zeig mir|hilf|mach mir|empfiehl|such|übersetze|fasse|nenn mir|irgendwelche|irgendeine|idee|ideen|tipps?|tipp|hab|habe|stimmt|war|waren|wäre|wären|oder)\b",
    topics=(
        (t.ANSWER_LANGUAGE, r"\b(?:antworte|antwort|antworten|schreib|schreibe|sprich|sprechen|rede|reden|red|schnack|schwätz|kommunizier\w*|mit mir|mir|erklär\w*|texte|antworten sie|sprechen sie)\b.{0,40}\b(?:auf|in|im|nur|bitte)? ?{language}\b|^(?:bitte |nur |immer |alles )*(?:auf|in) {language}(?: bitte|,? immer|,? nur|[.! ]*$)|\b(?:bleib|wechsel|bleiben wir)\w* (?:\w+ )?(?:bei|auf|zu|zum) {language}\b|\b(?:auf|in) {language} (?:antworten|schreiben|sprechen|reden|unterhalten|weitermachen)\b|\blieber (?:auf )?{language}\b|\b(?:auf|in) {language} bitte\b"),
        (t.PRONOUNS, r"\bmeine pronomen\b|\bpronomen (?:sind|ist|:)|\b(?:sie/ihr|er/ihm|dey/dem|they/them|hen/hem|xier|dey|she/her|he/him|nin)\b|\bweder er noch sie\b|\b(?:sprich|sprecht|rede|redet|schreib) (?:von|über) mir (?:als|mit)\b"),
        (t.NICKNAME, r"\b(?:frau|herr|dr|doktor|name|nachname|nenn\w*|sagen|anrede|siez\w*|duz\w*)\b.{0,40}?\b(?P<name>[\wäöüß'-]+) (?:reicht|genügt|langt|tut's|geht auch|ist mir lieber|passt schon)\b|\b(?:hier (?:ist|schreibt|spricht)|gestatten,?) (?P<name2>[\wäöüß'-]+)[.,! ]*(?:$|mit \w+|aus \w+|und|hier)"),
        (t.NICKNAME, r"\bbin (?:ich )?(?:der|die) (?P<name>[\wäöüß'-]+)(?=[.,;!]|$)"),
        (t.NICKNAME, r"\b(?:sag|sagt|sage|sagen sie) (?:bitte |ruhig |einfach |gern |lieber )*(?!du\b|sie\b|ja\b|nein\b|nie\b|das\b|was\b|es\b|nichts\b)[\wäöüß-]{2,20} zu mir\b|\b(?:sag|nenn) (?:mich )?(?:ruhig|einfach) (?!du|sie|wie|was)\w+|\b(?:kannst|darfst|könnt) (?:du |mich )?(?:ruhig |gern |gerne |einfach )*(?:mich )?(?:[\wäöüß'-]+ )?(?:sagen|nennen|rufen)\b|\bkannst (?:ruhig |gern |einfach )+\w+ sagen\b|\b(?:alle|jeder|freunde|man|meine \w+|die \w+) (?:\w+ )?(?:nennen|nennt|rufen|ruft|sagen|sagt) (?:mich|zu mir|nur)\b|\b(?:nennen|nennt|rufen|ruft|sagen|sagt) (?:mich|mir) (?:alle|jeder|meine|die)\b|\bich (?:werde|bin) (?:\w+ )?(?:genannt|gerufen)\b|\bwerde (?:ich )?\w+ (?:genannt|gerufen)\b|\bim (?:ausweis|pass) steht\b|\bsteht (?:\w+ )?im (?:ausweis|pass)\b|\bsagt nur (?:meine?|die|der)\b|\bich hei(?:ß|ss)e? \w|\bfür alle (?:anderen|anderem) \w|^(?:bitte )?nenne? mich \w"),
    ),
)

_STILL = r"(?:jetzt |nun |wieder |auch |noch |immer noch |sehr |wirklich |total |derzeit |aktuell |eigentlich |gerade |seit \w+ )*"
_ONE = r"(?P<k>frau|ehefrau|mann|ehemann|partner|partnerin|freundin|freund|mutter|mama|vater|papa|chef|chefin)"
_KIN = r"(?P<k>tochter|sohn|bruder|schwester|baby|kind|nichte|neffe|bester freund|beste freundin|mitbewohner)"
_ONE_WORDS = "frau ehefrau mann ehemann partner partnerin freundin freund mutter mama vater papa chef chefin"
_KIN_WORDS = "tochter sohn bruder schwester baby kind nichte neffe freund freundin mitbewohner"
_ANIMAL = r"(?P<k>hund|hündin|katze|kater|pferd|papagei|kaninchen|hase|hamster|schildkröte|vogel|wellensittich)"
_DIET = r"(?P<v>vegetarier(?:in)?|vegetarisch|veganer(?:in)?|vegan|pescetarier(?:in)?|flexitarier(?:in)?)"
_WORKER = (
    r"(?P<v>[\wäöüß-]*(?:ingenieur|entwickler|lehrer|arzt|ärztin|anwalt|anwältin|designer|architekt|student|wissenschaftler"
    r"|forscher|buchhalter|journalist|autor|koch|köchin|bäcker|künstler|musiker|fotograf|pilot|elektriker|mechaniker|bauer"
    r"|manager|analyst|berater|professor|apotheker|therapeut|psychologe|psychologin|übersetzer|kellner|programmierer"
    r"|krankenpfleger|pfleger|krankenschwester|polizist|tischler|rentner)(?:in)?)\b"
)
_DO = r"(?:esse|trinke|höre|lese|spiele|koche|tanze|male|schaue|backe)"
_OTHER_CLAUSE = (
    r"(?P<aside>(?:(?!(?:wenn|falls|ob|als|wie|würde|wäre|hätte|könnte|möchte|dass|weil|er|sie|du)\b)[\w.'-]+ ){1,8}?und )??"
)
"""Clauses between "ich" and the verb of a rule."""
_DAY = r"(?:morgen|übermorgen|nächste woche|(?:am|diesen|nächsten) (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag))"
_PLAN_VERB = r"(?:fliege|fahre|reise|gehe|treffe|muss|habe|will|werde|ziehe|beginne|besuche|starte|mache)"

GERMAN = Language(
    "German",
    whole_words=True,
    rules=(
        Rule(t.NAME, "heiße heisse", r"ich (?:heiße|heisse) {name}", "Ich heiße Ada.", "Ada", "Heiße ich Ada?"),
        Rule(t.NAME, "heiße heisse", r"ich (?:heiße|heisse) (?:übrigens |eigentlich )?(?!nicht|auch|dich|euch|sie|so|das|es|wie|alle|jetzt){small}", "ich heiße ada", "ada", "ich heiße nicht ada"),
        Rule(t.NAME, "bin", r"\A\W*(?:(?:hallo|hi|hey|moin|servus|guten (?:tag|morgen|abend))(?: zusammen)?[,!. ]+ *)?ich bin (?!\w+(?:isch|lich|ig|los|iert|haft|er|erin|ung|vegan|tet|den)\b|(?:neu|müde|krank|single|mutter|student|gerade|jetzt|schon|erst|vegan|trans)\b)"
             r"{small}(?=,? \(?\d\d\b(?: (?:jahre|und)| *[.,;!)\n]|$)|, (?:und )?(?:(?:ich )?(?:wohne|lebe|komme|arbeite)|aus)\b)", "hallo, ich bin ada, 41", "ada", "ich bin müde, 41 mails heute"),
        Rule(t.NAME, "bin spricht", r"\A\W*(?:hallo|hi|hey|moin|servus|guten (?:tag|morgen|abend))(?: zusammen)?[,!.]? (?:ich bin|hier spricht) (?:(?:die|der) )?"
             r"(?!\w+(?:er|erin|ist|istin|ent|entin|ant|antin|arzt|ärztin|ung|frau|mann|wirt|kraft)\b|(?:koch|köchin|anwalt|anwältin|arzt|vater|mutter|mama|papa|oma|opa|single|witwe|witwer|azubi|neu|deutsche[rn]?|\w+ier)\b){name}(?![\w'-]| \w)", "Hallo, ich bin Ada.", "Ada", "Hallo, ich bin Lehrerin."),
        Rule(t.NAME, "name", r"mein (?:voller |richtiger )?name (?:ist|lautet) {name}", "Mein Name ist Ada.", "Ada",
             "Sein Name ist Ada."),
        retraction(t.NAME, "name heiße heisse", r"(?:mein name ist|ich (?:heiße|heisse)) nicht(?: mehr)? {v}",
             "Mein Name ist nicht Bob.", "Bob", "Mein Name ist nicht Bob."),
        Rule(t.NICKNAME, "nenn nennt", r"(?:bitte )?nenn(?:e|t|en)? (?:sie )?mich (?:bitte |alle |einfach )*{name}", "Nenn mich Max.", "Max",
             "Nenn mich nicht Max."),
        Rule(t.AGE, "jahre", r"ich bin {still}(?P<v>\d{1,3}) jahre alt".replace("{still}", _STILL), "Ich bin 34 Jahre alt.",
             "34", "Sie ist 34 Jahre alt."),
        Rule(t.BIRTHDAY, "geburtstag", r"mein geburtstag ist (?:am |der )?(?P<v>\d[^,;!?\n]{1,25})",
             "Mein Geburtstag ist am 4. Mai", "4. Mai", "Wann ist mein Geburtstag?"),
        Rule(t.BIRTHDAY, "geboren", r"ich (?:bin|wurde) am (?P<v>\d[^,;!?\n]{1,25}?) geboren", "Ich bin am 4.5.1990 geboren.",
             "4.5.1990", "Er ist am 4.5.1990 geboren."),
        Rule(t.PREFERENCE, "bevorzuge", "ich bevorzuge {v}", "Ich bevorzuge Tee.", "Tee", "Bevorzuge ich Tee?"),
        Rule(t.PREFERENCE, "lieber", "ich (?:mag|trinke|esse|nutze|hätte) lieber {v}", "Ich mag lieber Tee.", "Tee",
             "Mag ich lieber Tee?"),
        Rule(t.FAVOURITE, "lieblingsfarbe lieblingsessen lieblingsfilm lieblingsbuch lieblingsmusik lieblingsband lieblingstier",
             r"(?:mein|meine) lieblings(?P<k>\w+) (?:ist|sind) {v}", "Meine Lieblingsfarbe ist Blau.", "Blau",
             "Ist meine Lieblingsfarbe Blau?"),
        Rule(t.LIKE, "mag liebe", r"ich (?:mag|liebe) (?:sehr |wirklich |besonders )?(?!kein|nicht|lieber)(?!\w+ nicht(?: mehr)?\b){v}",
             "Ich mag Jazz.", "Jazz", "Ich mag keinen Jazz."),
        Rule(t.LIKE, "gern gerne", rf"ich {_DO} (?:sehr |auch |besonders )?gerne? (?:viel |mal |auch )*+(?!nicht\b|in\b|im\b|mit\b|bei\b|am\b|zu\b|auf\b|morgens\b|abends\b|allein\b|zusammen\b){{v}}",
             "Ich trinke gern Tee.", "Tee", "Ich trinke nicht gern Tee."),
        Rule(t.LIKE, "gern gerne", rf"ich {_DO} (?!nicht\b|sehr\b|auch\b|gern)(?P<v>[\wäöüß-]+(?: (?!nicht\b)[\wäöüß-]+)?) (?:sehr )?gerne?(?=[.,;!\n]|$)", "Ich höre Jazz gern.", "Jazz",
             "Ich höre Jazz nicht gern."),
        Rule(t.DISLIKE, "mag hasse", r"ich (?:hasse|mag keine?n?) (?![^.,;!?\n]{0,60} nicht\b){v}", "Ich mag keine Oliven.", "Oliven",
             "Magst du keine Oliven?"),
        Rule(t.DISLIKE, "mag", r"ich mag {w} (?:gar |überhaupt )?nicht(?: mehr)?(?=[.,;!\n]|$)", "Ich mag Oliven nicht mehr.",
             "Oliven", "Du magst Oliven nicht."),
        retraction(t.DISLIKE, "hasse", r"ich hasse {w} nicht(?: mehr)?(?=[.,;!\n]|$)", "Ich hasse Oliven nicht mehr.", "Oliven",
             "Ich hasse Oliven nicht mehr."),
        Rule(t.DIET, "vegetarier vegetarierin vegetarisch veganer veganerin vegan pescetarier pescetarierin flexitarier flexitarierin",
             rf"ich {_OTHER_CLAUSE}(?:bin|esse|lebe|ernähre mich) {_STILL}{_DIET}\b", "Ich bin Vegetarierin.", "Vegetarierin",
             "Ich bin kein Vegetarier."),
        Rule(t.DIET, "fleisch", r"ich esse (?:jetzt |nun )?(?:wieder |auch )?fleisch\b", "Ich esse wieder Fleisch.", "eats meat",
             "Ich esse kein Fleisch.", fixed="eats meat"),
        Rule(t.DIET, "fleisch", r"ich esse kein(?:erlei)? fleisch", "Ich esse kein Fleisch mehr.", "no meat", "Ich esse Fleisch.",
             fixed="no meat"),
        retraction(t.DIET, "vegetarier vegetarierin veganer veganerin vegan", rf"ich (?:bin|lebe|esse) (?:keine? |nicht (?:mehr )?){_DIET}",
             "Ich bin kein Vegetarier mehr.", "Vegetarier", "Ich bin kein Vegetarier."),
        Rule(t.ALLERGY, "allergisch", rf"ich {_OTHER_CLAUSE}(?:bin|reagiere) {_STILL}allergisch (?:gegen|auf) {{list}}",
             "Ich bin allergisch gegen Nüsse.", "Nüsse", "Ich bin nicht allergisch gegen Nüsse."),
        Rule(t.ALLERGY, "allergie", r"ich habe eine (?:starke )?(?P<v>\w+)-?allergie\b", "Ich habe eine Nuss-Allergie.", "Nuss",
             "Ich habe keine Nuss-Allergie."),
        retraction(t.ALLERGY, "allergisch", r"ich bin nicht (?:mehr )?allergisch (?:gegen|auf) {v}", "Ich bin nicht mehr allergisch gegen Nüsse.",
             "Nüsse", "Ich bin nicht allergisch gegen Nüsse."),
        Rule(t.HOME, "wohne lebe", rf"(?:ich {_OTHER_CLAUSE}(?:wohne|lebe)|wir (?:wohnen|leben)) {_STILL}in (?:der nähe von )?{{v}}", "Ich wohne in Wien.",
             "Wien", "Ich wohne nicht in Wien."),
        Rule(t.ADDRESS, "wohne wohnen adresse", r"(?:(?:ich wohne|wir wohnen) (?:jetzt )?(?:in der|in|an der|am|im|auf der)|meine (?:neue )?adresse (?:ist|lautet)(?: die)?)"
             r" (?P<v>(?-i:[A-ZÄÖÜ])[\w.-]+(?: [\w.-]+)? \d{1,4}\w?\b(?:(?:,| in) (?:\d{4,5} )?(?-i:[A-ZÄÖÜ])\w+)?)",
             "Ich wohne in der Lindenstraße 5, 10969 Berlin.", "Lindenstraße 5, 10969 Berlin", "Er wohnt in der Lindenstraße 5."),
        Rule(t.HOME, "gezogen umgezogen", r"ich bin (?:gerade |kürzlich |vor kurzem )?nach {w} (?:um)?gezogen", "Ich bin nach Köln gezogen.",
             "Köln", "Sie ist nach Köln gezogen."),
        retraction(t.HOME, "wohne lebe", r"ich (?:wohne|lebe) nicht (?:mehr |länger )?in {v}", "Ich wohne nicht mehr in Wien.", "Wien",
             "Ich wohne nicht in Wien."),
        Rule(t.ORIGIN, "komme stamme", r"ich (?:komme|stamme) (?:ursprünglich )?aus (?:der |den )?{v}", "Ich komme aus der Schweiz.",
             "Schweiz", "Er kommt aus der Schweiz."),
        retraction(t.ORIGIN, "komme stamme", r"ich (?:komme|stamme) nicht aus (?:der )?{v}", "Ich komme nicht aus Chile.", "Chile",
             "Ich komme nicht aus Chile."),
        Rule(t.JOB, "arbeite beruf", rf"(?:ich {_OTHER_CLAUSE}arbeite (?:jetzt )?als|ich bin von beruf|mein beruf ist) (?:eine? )?{{v}}",
             "Ich arbeite als Koch.", "Koch", "Ich arbeite nicht als Koch."),
        Rule(t.JOB, "bin", rf"ich {_OTHER_CLAUSE}bin (?:jetzt |ein |eine )*{_WORKER}", "Ich bin Lehrerin.", "Lehrerin", "Ich bin keine Lehrerin."),
        retraction(t.JOB, "arbeite bin", rf"ich bin (?:keine? |nicht mehr ){_WORKER}", "Ich bin kein Lehrer mehr.", "Lehrer",
             "Ich bin kein Lehrer."),
        retraction(t.JOB, "arbeite", r"ich arbeite nicht (?:mehr )?als {v}", "Ich arbeite nicht mehr als Koch.", "Koch",
             "Ich arbeite nicht als Koch."),
        Rule(t.EMPLOYER, "arbeite", rf"ich {_OTHER_CLAUSE}arbeite (?:jetzt )?(?:bei|für) (?:der |dem )?{{v}}", "Ich arbeite bei Siemens.", "Siemens",
             "Ich arbeite nicht bei Siemens."),
        retraction(t.EMPLOYER, "arbeite", r"ich arbeite nicht (?:mehr )?(?:bei|für) {v}", "Ich arbeite nicht mehr bei Siemens.", "Siemens",
             "Ich arbeite nicht bei Siemens."),
        Rule(t.STUDIES, "studiere", r"ich studiere (?!nicht){v}", "Ich studiere Physik.", "Physik", "Ich studiere nicht Physik."),
        Rule(t.FAMILY, _ONE_WORDS,
             rf"meine? (?:neuer? )?{_ONE} (?:heißt |heisst |namens )?(?:jetzt |nun )?{{name}}", "Meine Frau heißt Ana.", "Ana", "Seine Frau heißt Ana."),
        Rule(t.KIN, _KIN_WORDS,
             rf"meine? (?:kleine |große |kleiner |großer |jüngste |ältere )?{_KIN} (?:heißt |heisst |namens )?{{name}}",
             "Meine Tochter Ana kommt.", "Ana", "Ihre Tochter Ana kommt."),
        *relations(
            r"(?!heute\b|das\b|hier\b){name} ist (?:eigentlich |jetzt )?meine? (?!beste){k}(?=[.,;!\n]|$| und\b)",
            r"{name} ist (?:meine? [\w -]{2,30}?,? (?:und )?)?(?:doch )?nicht (?:mehr )?meine? {k}(?=[.,;!\n]|$| sondern\b)",
            (t.FAMILY, _ONE_WORDS, _ONE, "Ana ist meine Chefin.", "Ana ist nicht meine Chefin.", "Ana"),
            (t.KIN, _KIN_WORDS, _KIN, "Ana ist meine Schwester.", "Ana ist meine Chefin, nicht meine Schwester.", "Ana"),
        ),
        retraction(t.FAMILY, "getrennt", rf"ich habe mich von meine[rm] {_ONE} getrennt", "Ich habe mich von meiner Frau getrennt.", "",
             "Ich habe mich von meiner Frau getrennt."),
        Rule(t.PET, "hund hündin katze kater pferd papagei kaninchen hase hamster schildkröte vogel wellensittich",
             rf"meine? {_ANIMAL} (?:heißt |heisst |namens )?{{name}}", "Mein Hund heißt Rex.", "Rex", "Sein Hund heißt Rex."),
        Rule(t.PET, "hund hündin katze kater pferd papagei kaninchen hase hamster schildkröte vogel wellensittich",
             rf"(?:ich habe|wir haben) (?:jetzt |nun |auch )*eine?n? (?:\w+ )?{_ANIMAL},? (?:namens|mit (?:dem )?namen|de[rn]|die|das) {{name}}",
             "Ich habe einen Hund namens Bruno.", "Bruno", "Er hat einen Hund namens Bruno."),
        retraction(t.PET, "hund hündin katze kater pferd papagei kaninchen hase hamster schildkröte vogel",
             rf"ich habe keine?n? {_ANIMAL}(?: mehr)?", "Ich habe keinen Hund mehr.", "", "Ich habe keinen Hund."),
        Rule(t.LANGUAGE, "spreche", r"ich spreche (?:fließend |auch |etwas )?(?!nicht|kein)(?P<v>(?-i:[A-ZÄÖÜ])\w+(?:(?:, | und )(?-i:[A-ZÄÖÜ])\w+)*)",
             "Ich spreche Deutsch und Dänisch.", "Deutsch", "Ich spreche kein Deutsch."),
        retraction(t.LANGUAGE, "spreche", r"ich spreche (?:kein|nicht(?: mehr)?) {v}", "Ich spreche kein Dänisch.", "Dänisch",
             "Ich spreche kein Dänisch."),
        Rule(t.HOBBY, "hobby hobbys", r"meine? hobbys? (?:ist|sind) {list}", "Mein Hobby ist Schach.", "Schach", "Ist mein Hobby Schach?"),
        Rule(t.CONDITION, "habe leide", r"ich (?:habe|leide an|leide unter) (?P<v>diabetes|asthma|adhs|epilepsie|migräne|arthrose|depressionen"
             r"|bluthochdruck|heuschnupfen|rheuma)\b", "Ich habe Asthma.", "Asthma", "Ich habe kein Asthma."),
        retraction(t.CONDITION, "habe", r"ich habe kein (?P<v>diabetes|asthma|adhs)\b", "Ich habe kein Asthma mehr.", "Asthma",
             "Ich habe kein Asthma."),
        Rule(t.MEDICATION, "nehme", r"ich nehme (?:täglich )?(?P<v>metformin|insulin|ibuprofen|aspirin|paracetamol|antibiotika|die pille)\b",
             "Ich nehme Metformin.", "Metformin", "Ich nehme kein Metformin."),
        Rule(t.POSSESSION, "auto handy telefon laptop fahrrad", r"mein (?P<k>auto|handy|telefon|laptop|fahrrad) ist (?:jetzt )?eine? {v}",
             "Mein Auto ist ein Golf.", "Golf", "Mein Auto ist kaputt."),
        Rule(t.POSSESSION, "fahre", r"ich fahre eine?n? (?P<v>(?-i:[A-Z])\w+)", "Ich fahre einen Golf.", "Golf", "Ich fahre oft.", key="car"),
        Rule(t.GOAL, "ziel möchte", r"(?:mein ziel ist(?: es)?,? |ich möchte (?=[^.,;!?\n]{2,60} lernen)){v}", "Ich möchte Italienisch lernen.",
             "Italienisch lernen", "Was ist mein Ziel?"),
        Rule(t.PLAN, "morgen übermorgen woche montag dienstag mittwoch donnerstag freitag samstag sonntag",
             rf"(?P<v>{_DAY} {_PLAN_VERB} ich [^,;!?\n]{{2,90}})", "Am Freitag fliege ich nach Rom.", "Am Freitag fliege ich nach Rom",
             "Am Freitag fliegt sie nach Rom."),
        Rule(t.PLAN, "morgen übermorgen woche montag dienstag mittwoch donnerstag freitag samstag sonntag",
             rf"(?P<v>ich {_PLAN_VERB} {_DAY} [^,;!?\n]{{2,90}})", "Ich fliege morgen nach Rom.", "Ich fliege morgen nach Rom",
             "Sie fliegt morgen nach Rom."),
        Rule(t.PLAN, "morgen übermorgen woche montag dienstag mittwoch donnerstag freitag samstag sonntag",
             rf"(?P<v>(?:mein|unser)e? [^,;!?\n]{{2,60}}? (?:ist|sind|beginnt|endet) (?!am ){_DAY}\b[^,;!?\n]{{0,60}})", "Meine Prüfung ist morgen um 15 Uhr.",
             "Meine Prüfung ist morgen um 15 Uhr", "Ihre Prüfung ist morgen."),
        Rule(t.PLAN, "nächsten nächstes", rf"(?P<v>(?:nächsten monat|nächstes jahr) (?:{_PLAN_VERB} ich|ziehen wir|fliegen wir|fahren wir) [^,;!?\n]{{2,90}})",
             "Nächsten Monat ziehen wir um nach Lyon.", "Nächsten Monat ziehen wir um nach Lyon", "Nächsten Monat ziehen sie um.", tier=FactTier.L0),
        Rule(t.REMINDER, "erinnere erinner", r"(?:bitte )?erinnere? mich (?=heute)(?P<v>[^;!?\n]{2,100})", "Erinnere mich heute an Brot.",
             "heute an Brot", "Erinnere dich heute an Brot.", tier=FactTier.L1),
        Rule(t.REMINDER, "erinnere erinner", r"(?:bitte )?erinnere? mich (?!heute)(?:bitte )?(?:daran,? )?(?P<v>[^;!?\n]{2,100})",
             "Erinnere mich morgen an den Termin.", "morgen an den Termin", "Erinnere dich morgen."),
        Rule(t.TASK_TODAY, "heute", r"(?:heute (?:muss|soll) ich|heute brauche ich|ich muss heute(?: noch)?) {v}", "Heute muss ich Brot kaufen.",
             "Brot kaufen", "Muss ich heute Brot kaufen?"),
        Rule(t.TASK_WEEK, "woche", r"(?:diese woche (?:muss|brauche) ich|ich muss diese woche) {v}", "Diese Woche muss ich streichen.", "streichen",
             "Diese Woche musst du streichen."),
        Rule(t.CONTACT, "mail email", r"meine (?:neue )?e-?mail(?:-?adresse)? (?:ist|lautet) (?P<v>[\w.+-]{1,64}@[\w.-]{3,80}\w)",
             "Meine E-Mail ist ada@example.org.", "ada@example.org", "Ihre E-Mail ist a@example.org.", key="email"),
        Rule(t.CONTACT, "telefonnummer handynummer", r"meine (?:neue )?(?:telefon|handy)nummer (?:ist|lautet) (?P<v>\+?\d[\d /-]{5,18}\d)",
             "Meine Handynummer ist 0170 1234567.", "0170 1234567", "Deine Handynummer ist 0170 1234567.", key="phone"),
        Rule(t.ANSWER_LANGUAGE, "antworte antworten schreib schreibe sprich", r"(?:bitte )?(?:antworte|antworten sie|schreibe?|sprich)(?: mir)?"
             r"(?: bitte)?(?: ab jetzt| immer| nur)* auf (?P<v>(?-i:[A-Z])\w+)", "Antworte immer auf Deutsch.", "Deutsch",
             "Er antwortet auf Deutsch."),
        Rule(t.EMOJI, "emojis", r"(?:bitte )?(?:(?:benutze?|verwende?|nutze) )?(?:bitte )?keine emojis", "Bitte keine Emojis.", "no emojis",
             "Emojis bitte.", fixed="no emojis"),
        Rule(t.ANSWER_LENGTH, "antworten erklärungen", r"(?:bitte |gib mir |ich (?:will|möchte) )*(?:lieber |wieder )?(?P<v>(?:kurze|knappe|lange|längere|kürzere|ausführliche(?:re)?) (?:antworten|erklärungen))(?=(?:,? (?:bitte|ab jetzt|wieder))*(?:[.!,;\n]|$))", "Ich will kurze Antworten.", "kurze Antworten",
                 "Sie will kurze Antworten."),
        Rule(t.INSTRUCTION, "immer nie jetzt", r"(?:(?:ab jetzt|von nun an) |bitte (?:immer|nie) )(?P<v>[^,;!?\n]{3,90})",
             "Bitte immer metrische Einheiten verwenden.", "metrische Einheiten verwenden", "Du verwendest immer Zoll."),
        Rule(t.INDENTATION, "tabs leerzeichen", r"ich (?:nutze|benutze|verwende|bevorzuge) (?P<v>tabs|leerzeichen)\b", "Ich nutze Tabs.", "Tabs",
             "Nutzt du Tabs?"),
        Rule(t.EDITOR, "vim neovim emacs code pycharm", r"ich (?:nutze|benutze|verwende) (?P<v>(?:neo)?vim|emacs|vs ?code|pycharm)\b",
             "Ich benutze Emacs.", "Emacs", "Ich benutze kein Emacs."),
        *IN_GERMAN,
    ),
    context_excludes=r"\b(?:wenn|falls|ob|würde|würden|wäre|hätte|könnte|angenommen|stell dir vor|sagt|sagte|sagten|sagst|fragt|fragte|meint|meinte|glaubt"
    r"|denkt|schrieb|schreibt|erzählte|behauptet|lied|gedicht|roman|übersetze|übersetzung|rolle|rollenspiel|beispiel|traum|vergiss)\b",
    prefix_excludes=r"\b(?:du|er|sie|was|wer|wie|warum|die|das|den|dass)\s+$",
    prefix_allowed=r"(?:^|[\s,(])(?:und|aber|denn|also|ja|nein|nee|hallo|hi|hey|eigentlich|übrigens|leider|zum glück|jetzt|nun|heute|gestern|weil|da|ach|ok|okay"
    r"|bitte|merk dir|beachte|korrektur|entschuldigung|sorry|ich meine|ich meinte|außerdem|inzwischen|mittlerweile|doch|und dass|servus|moin|tatsächlich"
    r"|guten (?:tag|morgen|abend))[,:]?\s*$",
    value_end=r"\s(?:und (?:ich|wir|mein|meine|bin|habe|arbeite|wohne|komme|möchte|suche|brauche)|aber|weil|denn|da ich|mit (?:mein|der|dem)\w*|seit|obwohl|wenn|nicht mehr"
    r"|mehr|sehr|total|wirklich|gerade|momentan|zurzeit|jetzt|nun|ursprünglich|um|als|bei|auch nicht|nicht|auch|besonders|lieber als|geboren|und(?! (?-i:[A-ZÄÖÜ])[\w-]+ *(?:$|[,.]|und\b|oder\b)))\b.*$|\s[-–—(].*$|:\s.*$",
    empty_value=r"(?:es|das|dies|diese|dich|dir|ihn|ihr|euch|uns|mich|wie|was|wenn|dass|nicht|kein\w*|alles|nichts|etwas|sie|er|du|eure?|deine?n?|Sie|Ihre?n?|der Gedanke)\b",
    after=r"[\"“]?[ ,]{0,3}(?:sagte?|fragte?|meinte?|schrieb) (?:er|sie|\w+)\b",
    joins=r", | und | oder ",
    keys={
        "frau": "wife", "ehefrau": "wife", "mann": "husband", "ehemann": "husband", "partnerin": "partner", "freundin": "girlfriend",
        "freund": "boyfriend", "mutter": "mother", "mama": "mother", "vater": "father", "papa": "father", "chef": "boss", "chefin": "boss",
        "tochter": "daughter", "sohn": "son", "bruder": "brother", "schwester": "sister", "baby": "child", "kind": "child", "nichte": "niece",
        "neffe": "nephew", "bester freund": "best friend", "beste freundin": "best friend", "mitbewohner": "roommate", "hund": "dog",
        "hündin": "dog", "katze": "cat", "kater": "cat", "pferd": "horse", "papagei": "parrot", "kaninchen": "rabbit", "hase": "rabbit",
        "schildkröte": "turtle", "vogel": "bird", "wellensittich": "bird", "auto": "car", "handy": "phone", "telefon": "phone",
        "fahrrad": "bike", "farbe": "color", "essen": "food", "film": "movie", "buch": "book", "musik": "music", "tier": "animal",
    },
    question_patterns={
        "user_name": r"\b(?:mein(?:en)? name|wie heiß?s?e ich|wer bin ich)\b",
        "user_nickname": r"\bnennst du mich\b|\bmein spitzname\b|\bwie heiß?s?e ich\b",
        "user_age": r"\bwie alt bin ich\b|\bmein alter\b",
        "user_birthday": r"\bmein(?:en)? geburtstag\b|\bwann (?:bin|wurde) ich geboren\b",
        "user_preference": r"\bbevorzuge ich\b|\bmag ich lieber\b|\bmeine vorlieben\b",
        "user_favourite": r"\bmeine? lieblings",
        "user_like": r"\b(?:mag|liebe) ich\b|\bmache ich gern|\bich gerne?\b|\bmeine vorlieben\b",
        "user_dislike": r"\bmag ich (?:gar |überhaupt )?nicht\b|\bhasse ich\b",
        "user_diet": r"\b(?:esse|darf|kann|soll) ich\b.{0,20}(?:essen|fleisch)?|\bmeine ernährung\b|\bbin ich ve",
        "user_allergy": r"\bbin ich allergisch\b|\bmeine allergie|\b(?:darf|kann) ich\b.{0,30}\bessen\b",
        "user_address": r"\bwohne ich\b|\bmeine adresse\b",
        "user_home": r"\b(?:wohne|lebe) ich\b|\bmein (?:wohnort|zuhause)\b|\bmeine (?:stadt|adresse)\b",
        "user_origin": r"\bkomme ich (?:ursprünglich )?her\b|\b(?:komme|stamme) ich\b|\bmeine herkunft\b",
        "user_job": r"\b(?:mein(?:en)? (?:beruf|job)|arbeite ich|mache ich beruflich)\b",
        "user_employer": r"\barbeite ich\b|\bmein(?:en)? (?:arbeitgeber|firma|job)\b",
        "user_studies": r"\bstudiere ich\b|\bmein studium\b",
        "user_family": r"\bmeine?n?r? (?:familie|frau|ehefrau|mann|ehemann|partner|partnerin|freundin|freund|mutter|vater|chef|chefin)\b",
        "user_kin": r"\bmeine?n?r? (?:familie|tochter|töchter|sohn|söhne|bruder|brüder|schwester|schwestern|kind|kinder)\b",
        "user_pet": r"\bmeine?n?r? (?:haustiere?|hunde?|katzen?|kater|pferd|papagei|kaninchen|hamster|vogel)\b",
        "user_condition": r"\bmeine (?:gesundheit|krankheit)|\bkrankheiten habe ich\b",
        "user_medication": r"\bmeine medikamente\b|\bmedikamente nehme ich\b|\bnehme ich\b",
        "user_language": r"\bsprachen spreche ich\b|\bspreche ich\b",
        "user_hobby": r"\bmeine?n? hobb(?:y|ys|ies)\b|\bmeiner freizeit\b",
        "user_possession": r"\bmein (?:auto|handy|telefon|laptop|fahrrad)\b|\bfahre ich\b",
        "user_goal": r"\bmeine? ziele?\b",
        "user_plan": r"\bmeine pläne\b|\b(?:fliege|reise|fahre|ziehe|mache|habe) ich\b.{0,30}(?:morgen|woche|tag|monat|vor|hin|um)?",
        "user_reminder": r"\b(?:meine )?erinnerungen\b|\bmich erinnern\b",
        "today_task": r"\b(?:muss|soll|brauche) ich heute\b",
        "weekly_task": r"\b(?:muss|soll|brauche) ich diese woche\b",
        "user_contact": r"\bmeine (?:e-?mail|telefonnummer|handynummer|nummer)\b",
        "user_instruction": r"\bsollst du (?:antworten|schreiben)\b|\bmeine anweisungen\b",
        "user_tooling": r"\bmein(?:en)? editor\b|\b(?:nutze|benutze|verwende) ich\b",
    },
    keywords={
        "user_name": "Name heiße", "user_nickname": "Spitzname", "user_age": "Alter alt", "user_birthday": "Geburtstag", "user_preference": "bevorzuge lieber",
        "user_favourite": "Lieblings", "user_like": "mag gern", "user_dislike": "mag hasse", "user_diet": "Ernährung essen", "user_allergy": "Allergie allergisch",
        "user_home": "wohne lebe Wohnort Stadt", "user_address": "wohne Adresse Straße", "user_origin": "Herkunft", "user_job": "Beruf arbeite", "user_employer": "Arbeitgeber Firma arbeite",
        "user_studies": "Studium studiere", "user_family": "Frau Mann Partner Mutter Vater", "user_kin": "Tochter Sohn Bruder Schwester Kind",
        "user_pet": "Haustier Hund Katze", "user_condition": "Krankheit Gesundheit", "user_medication": "Medikament", "user_language": "Sprache spreche",
        "user_hobby": "Hobby Freizeit", "user_possession": "Auto Handy", "user_goal": "Ziel", "user_plan": "Plan", "user_reminder": "Erinnerung erinnern",
        "today_task": "heute Aufgabe", "weekly_task": "Woche Aufgabe", "user_contact": "Adresse Nummer", "user_instruction": "Anweisung antworten",
        "user_tooling": "Editor",
    },
)
