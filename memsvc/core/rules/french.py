"""Rules of facts, and the grammar of statements and standing instructions, in French."""

from memsvc.core.facts import FactTier
from memsvc.core.rules import topics as t
from memsvc.core.rules.forgotten import IN_FRENCH
from memsvc.core.rules.grammar import Grammar
from memsvc.core.rules.rule import Language, Rule, relations, retraction

# fmt: off
# A rule and a pattern are a line of data each, however long.


FRENCH_GRAMMAR = Grammar(
    language="fr",
    whole_words=True,
    common="le la les de des du et en un une est pas ne je j'ai j'habite c'est mon ma mes moi on nous notre nos tu te ton tes vous sur dans pour avec que qui il elle au aux à ce ça se d'un d'une stp merci suis chez depuis toujours jamais plus y ou mais quand si l'on n'est qu'on",
    lead=r"(?:(?:ok|bon|bah|ben|alors|donc|bonjour|bonsoir|salut|coucou|hello|au fait|d'ailleurs|en fait|et|mais|ah|oh|euh|tiens|écoute|note|nb|ps|info|pour info|pour information|à noter|rappel|sache que|sachez que|important|pardon|désolée?|merci|oui|non|bref|en bref|en résumé|franchement|honnêtement|à vrai dire|petite précision|précision|voilà|du coup|enfin|sinon|là|à propos de moi|petite question|surtout|dis|parce que|car|[-*•–]|\d{1,2}[.)]|(?P<polite>(?:peux-tu|pourrais-tu|tu peux|tu pourrais|pouvez-vous|pourriez-vous)(?= (?:arrêter|toujours|éviter|ne|cesser)\b)))(?:[,:!.…–—-]+ ?| |$))+",
    request=r"(?:(?:et|ou|mais|alors|donc|bon|du coup|stp|dis) )*(?:qu'est-ce|est-ce|qu'|que (?:faire|puis|dois|me)|quoi|qui|quel|quelle|quels|quelles|comment|où|quand (?:est|faut|dois)|combien|pourquoi|peux-tu|tu (?:peux|pourrais|saurais|connais|as|sais|me|crois|penses|vois)|t'as|pourrais-tu|pouvez-vous|vous (?:pouvez|avez|connaissez|sauriez)|y a|il y a|c'est (?:normal|possible|quoi|grave|bien)|on (?:peut|fait|réintègre|paie)|je (?:dois|peux|fais|prends|marie|paie|mets) |faut-il|dois-je|puis-je|aide|aide-moi|donne-moi|propose|fais-moi|écris-moi|explique|une idée|des idées|un conseil|ça (?:vaut|marche|existe)|un \w+ ou)\b",
    topics=(
        (t.ANSWER_LANGUAGE, r"\b(?:explique\w*|parler|réponds|répondez|réponds-moi|écris|écris-moi|parle|parle-moi|parlons|réponses|répondre|cause|causons|parles|répondes)\b.{0,40}\ben {language}\b|\ben {language},? (?:s'il te plaît|s'il vous plaît|stp|svp|toujours|uniquement)|^(?:toujours |seulement |tout )?en {language}[.! ]*$|\bje préfère (?:le |l'|en ){language}\b"),
        (t.PRONOUNS, r"\bmes pronoms\b|\bpronoms? (?:est|sont|:)|\b(?:iel|iels|ael|elle/la|il/lui|iel/ellui|she/her|he/him|they/them)\b|\b(?:genre|accorde|parle)\w* (?:moi |de moi )?au (?:féminin|masculin|neutre)\b"),
        (t.NICKNAME, r"\b(?P<name>[\w'éèêçïëàâô-]+),? (?:tout court|suffit|ça suffit|ça (?:me )?va|fera l'affaire|c'est (?:bien|parfait|mieux))\b|\b(?:ici|c'est) (?P<name2>[\w'éèêçïëàâô-]+)[.,! ]*(?:$|avec (?:un|deux|une)\b|au fait|à l'appareil|comme )"),
        (t.NICKNAME, r"\bje suis (?P<name>[\w'éèêçïëàâô-]+)(?=[.,;!]|$)"),
        (t.NICKNAME, r"\b(?:dis|dites) (?:moi )?(?:plutôt |juste )?(?!que\b|tu\b|vous\b|bonjour|pas\b)[\wéèêç]{2,15} (?:tout court|suffit|ça suffit)\b|\b(?:tout le monde|mes \w+|les \w+|mon \w+|ma \w+|on|tous) (?:m'appellent?|me dit|me disent|dit|disent|me surnomment?|m'appelle) (?!que|bonjour|du|pas)\w|\bon m'appelle \w|\bappell?e(?:z|)-moi (?!(?:quand|si|demain|ce|à|au|dès|plus|avant|après|en|dans)\b)\w|\btu peux m'appeler\b|\bmoi,? c'est \w|\bc'est pour les impôts\b|\bpour l'état civil\b|\bsur mes papiers\b|\bpersonne ne m'appelle\b"),
    ),
)

_STILL = r"(?:maintenant |aussi |toujours |très |vraiment |actuellement |désormais |encore )*"
_ONE = r"(?P<k>femme|épouse|mari|époux|compagnon|compagne|copine|copain|petite amie|petit ami|mère|maman|père|papa|chef|patron|patronne)"
_KIN = r"(?P<k>fille|fils|frère|sœur|soeur|bébé|enfant|cousine?|nièce|neveu|meilleure? amie?|colocataire)"
_ONE_WORDS = "femme épouse mari époux compagnon compagne copine copain amie ami mère maman père papa chef patron patronne"
_KIN_WORDS = "fille fils frère sœur soeur bébé enfant cousin cousine nièce neveu ami amie colocataire"
_ANIMAL = r"(?P<k>chien|chienne|chat|chatte|cheval|perroquet|lapin|hamster|tortue|oiseau)"
_DIET = r"(?P<v>végétarien(?:ne)?|vegan|végan(?:e)?|végétalien(?:ne)?|pescétarien(?:ne)?|flexitarien(?:ne)?)"
_WORKER = (
    r"(?P<v>(?:ingénieure?|développeu(?:r|se)|professeure?|institut(?:eur|rice)|infirmi(?:er|ère)|médecin|avocate?|designer|architecte|étudiante?"
    r"|chercheu(?:r|se)|comptable|journaliste|auteure?|cuisini(?:er|ère)|boulang(?:er|ère)|artiste|musicien(?:ne)?|photographe|pilote|électricien(?:ne)?"
    r"|agricult(?:eur|rice)|consultante?|pharmacien(?:ne)?|psychologue|traduct(?:eur|rice)|serveu(?:r|se)|programmeu(?:r|se)|dentiste|retraitée?)"
    r"(?: (?:en|de|du) [^\W\d_]+)?)\b"
)
_DAY = r"(?:demain|après-demain|la semaine prochaine|ce week-end|(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)(?: prochain)?)"
_PLAN_VERB = r"(?:je (?:vais|pars|prends|dois|rencontre|commence|visite|vole|voyage|déménage|retrouve|vois)|j'ai|on (?:part|va|déménage)|nous (?:allons|partons|déménageons))"

FRENCH = Language(
    "French",
    whole_words=True,
    rules=(
        Rule(t.NAME, "appelle", r"je m'appelle {name}", "Je m'appelle Ada.", "Ada", "Comment je m'appelle ?"),
        Rule(t.NAME, "appelle", r"je m'appelle (?!comment|pas|plus|aussi|comme|ça|donc){small}", "je m'appelle ada", "ada", "je m'appelle comment"),
        Rule(t.NAME, "suis moi", r"\A\W*(?:(?:bonjour|bonsoir|salut|coucou)[,!. ]+)?(?:je suis|moi,? c'est) (?!\w+(?:aise?|ien|ienne|oise?)\b){name}(?![\w'-]| \w)", "Bonjour, je suis Ada.", "Ada", "Bonjour, je suis Française."),
        Rule(t.NAME, "nom prénom", r"mon (?:nom|prénom) (?:complet )?est {name}", "Mon prénom est Ada.", "Ada", "Son prénom est Ada."),
        retraction(t.NAME, "appelle", r"je ne m'appelle (?:pas|plus) {v}", "Je ne m'appelle pas Bob.", "Bob", "Je ne m'appelle pas Bob."),
        Rule(t.NICKNAME, "appelez appelle", r"(?:appelez|appelle)-moi (?:plutôt |simplement )?{name}", "Appelle-moi Max.", "Max", "Ne m'appelle pas Max."),
        Rule(t.AGE, "ans", r"j'ai {still}(?P<v>\d{1,3}) ans\b(?! d')".replace("{still}", _STILL), "J'ai 34 ans.", "34", "J'ai 10 ans d'expérience."),
        Rule(t.BIRTHDAY, "anniversaire", r"mon anniversaire est le (?P<v>\d[^,;!?\n]{2,25})", "Mon anniversaire est le 4 mai.", "4 mai",
             "Quand est mon anniversaire ?"),
        Rule(t.PREFERENCE, "préfère", "je préfère {v}", "Je préfère le thé.", "le thé", "Elle préfère le thé."),
        Rule(t.FAVOURITE, "préféré préférée favori favorite", r"(?:mon|ma) (?P<k>[^\W\d_]+) (?:préférée?|favorite?) est {v}",
             "Ma couleur préférée est le bleu.", "le bleu", "Quelle est ma couleur préférée ?"),
        Rule(t.LIKE, "aime adore", r"j'(?:aime|adore) (?!pas\b|plus\b)(?:beaucoup |bien |vraiment |aussi )*(?!pas\b|plus\b){v}", "J'adore le jazz.", "le jazz",
             "Je n'aime pas le jazz."),
        Rule(t.DISLIKE, "aime", r"je n'aime (?:pas|plus|pas du tout|pas trop) (?!que\b){v}", "Je n'aime plus le jazz.", "le jazz",
             "Tu n'aimes plus le jazz."),
        Rule(t.DISLIKE, "déteste", r"je déteste {v}", "Je déteste les olives.", "les olives", "Il déteste les olives."),
        retraction(t.DISLIKE, "déteste", r"je ne déteste (?:pas|plus) {v}", "Je ne déteste plus les olives.", "les olives", "Je ne déteste plus les olives."),
        Rule(t.DIET, "végétarien végétarienne vegan végan végane végétalien végétalienne pescétarien pescétarienne flexitarien flexitarienne",
             rf"je suis {_STILL}(?:une? )?{_DIET}\b", "Je suis végétarienne.", "végétarienne", "Je ne suis pas végétarienne."),
        Rule(t.DIET, "viande", r"je mange (?:de nouveau |à nouveau )?de la viande", "Je mange de la viande.", "eats meat", "Je ne mange pas de viande.",
             fixed="eats meat"),
        Rule(t.DIET, "viande", r"je ne mange (?:pas|plus|jamais) de viande", "Je ne mange plus de viande.", "no meat", "Je mange de la viande.",
             fixed="no meat"),
        retraction(t.DIET, "végétarien végétarienne vegan végan végane végétalien végétalienne", rf"je ne suis (?:pas|plus) {_DIET}",
             "Je ne suis plus végétarien.", "végétarien", "Je ne suis pas végétarien."),
        Rule(t.ALLERGY, "allergique", rf"je suis {_STILL}allergique (?:aux|au|à la|à l'|à) ?{{list}}", "Je suis allergique aux noix.", "noix",
             "Je ne suis pas allergique aux noix."),
        retraction(t.ALLERGY, "allergique", r"je ne suis (?:pas|plus) allergique (?:aux|au|à la|à l'|à) ?{v}", "Je ne suis plus allergique aux noix.", "noix",
             "Je ne suis pas allergique aux noix."),
        Rule(t.HOME, "habite vis", rf"(?:j'habite|je vis|nous habitons|on habite) {_STILL}(?:à|au|aux|en|dans la ville de) {{v}}", "J'habite à Lyon.", "Lyon",
             "Je n'habite pas à Lyon."),
        Rule(t.ADDRESS, "habite adresse", r"(?:j'habite(?: maintenant)?(?: au)?|(?:mon|ma nouvelle) adresse est(?: le)?) (?P<v>\d{1,4}(?: bis| ter)?,? (?:rue|avenue|boulevard|bd|place|chemin|allée|impasse|quai|route|cours) (?:(?!et\b|mais\b|avec\b)[\w'.-]+ ?){1,5}(?:, (?:\d{5} )?(?-i:[A-Z])[\w-]+)?)",
             "Mon adresse est le 5 rue de la Paix, 69001 Lyon.", "5 rue de la Paix, 69001 Lyon", "Son adresse est le 5 rue de la Paix."),
        Rule(t.HOME, "déménagé emménagé", r"j'ai (?:récemment |finalement )?(?:dé|em)ménagé (?:à|au|en) {v}", "J'ai déménagé à Nice.", "Nice",
             "Elle a déménagé à Nice."),
        retraction(t.HOME, "habite vis", r"je (?:n'habite|ne vis) (?:pas|plus) (?:à|au|aux|en) {v}", "Je n'habite plus à Lyon.", "Lyon", "Je n'habite pas à Lyon."),
        Rule(t.ORIGIN, "viens originaire", r"je (?:viens|suis originaire) (?:de la |du |de |d'|des )(?!faire|voir|finir|\w+[eio]r\b){v}", "Je viens du Chili.", "Chili",
             "Il vient du Chili."),
        retraction(t.ORIGIN, "viens", r"je ne viens pas (?:de |du |d'){v}", "Je ne viens pas du Chili.", "Chili", "Je ne viens pas du Chili."),
        Rule(t.BIRTHPLACE, "né née", r"je suis née? (?:à|au|en) (?!\d){v}", "Je suis née à Lima.", "Lima", "Je suis né en 1990."),
        Rule(t.JOB, "travaille métier", r"(?:je travaille comme|mon métier est) {v}", "Je travaille comme cuisinier.", "cuisinier",
             "Je ne travaille pas comme cuisinier."),
        Rule(t.JOB, "suis", rf"je suis {_STILL}(?:une? )?{_WORKER}", "Je suis infirmière.", "infirmière", "Je ne suis pas infirmière."),
        retraction(t.JOB, "suis", rf"je ne suis (?:pas|plus) (?:une? )?{_WORKER}", "Je ne suis plus infirmière.", "infirmière", "Je ne suis pas infirmière."),
        Rule(t.EMPLOYER, "travaille", r"je travaille {still}(?:chez|pour) {v}".replace("{still}", _STILL), "Je travaille chez Renault.", "Renault",
             "Je ne travaille pas chez Renault."),
        retraction(t.EMPLOYER, "travaille", r"je ne travaille (?:pas|plus) (?:chez|pour) {v}", "Je ne travaille plus chez Renault.", "Renault",
             "Je ne travaille pas chez Renault."),
        Rule(t.STUDIES, "étudie études", r"(?:j'étudie|je fais des études de) {v}", "J'étudie la physique.", "la physique", "Je n'étudie pas la physique."),
        Rule(t.FAMILY, _ONE_WORDS,
             rf"(?:ma|mon) (?:nouve(?:au|lle?) )?{_ONE},? (?:s'appelle |se nomme |est )?(?:maintenant )?{{name}}", "Ma femme s'appelle Ana.", "Ana", "Sa femme s'appelle Ana."),
        Rule(t.KIN, _KIN_WORDS,
             rf"(?:ma|mon) (?:petite? |grande? )?{_KIN},? (?:s'appelle |se nomme |est )?{{name}}", "Ma fille Ana arrive.", "Ana", "Sa fille Ana arrive."),
        *relations(
            r"{name},? (?:c')?est (?:ma|mon) (?!meilleur){k}(?=[.,;!\n]|$| et\b)",
            r"{name},? (?:(?:ce )?n'est (?:pas|plus)|(?:c')?est (?:ma|mon) [\w' -]{2,30}?,? (?:et )?(?:non )?pas) (?:ma|mon) {k}(?=[.,;!\n]|$| mais\b)",
            (t.FAMILY, _ONE_WORDS, _ONE, "Ana est ma patronne.", "Ana n'est pas ma patronne.", "Ana"),
            (t.KIN, _KIN_WORDS, _KIN, "Ana est ma sœur.", "Ana est ma patronne, pas ma sœur.", "Ana"),
        ),
        Rule(t.PET, "chien chienne chat chatte cheval perroquet lapin hamster tortue oiseau",
             rf"(?:ma|mon) {_ANIMAL},? (?:s'appelle |se nomme |est )?{{name}}", "Mon chien s'appelle Rex.", "Rex", "Son chien s'appelle Rex."),
        Rule(t.PET, "chien chienne chat chatte cheval perroquet lapin hamster tortue oiseau",
             rf"(?:j'ai|nous avons) (?:maintenant )?une? {_ANIMAL},? (?:qui s'appelle|nommée?|appelée?) {{name}}", "J'ai un chien nommé Rex.", "Rex", "Il a un chien nommé Rex."),
        retraction(t.PET, "chien chat cheval perroquet lapin hamster tortue", rf"je n'ai (?:pas|plus) (?:de |d'){_ANIMAL}", "Je n'ai plus de chien.", "",
             "Je n'ai pas de chien."),
        Rule(t.CONDITION, "diabétique asthmatique épileptique enceinte", r"je suis {still}(?P<v>diabétique|asthmatique|épileptique|enceinte)\b".replace("{still}", _STILL),
             "Je suis diabétique.", "diabétique", "Je ne suis pas diabétique."),
        Rule(t.LANGUAGE, "parle", r"je parle (?:couramment |aussi |un peu )?(?:le |l')?(?P<v>(?:anglais|français|allemand|espagnol|italien|portugais|chinois|japonais|russe"
             r"|arabe|néerlandais|danois)(?:(?:, | et )(?:le |l')?\w+)*)", "Je parle danois et anglais.", "danois", "Je ne parle pas danois."),
        retraction(t.LANGUAGE, "parle", r"je ne parle (?:pas|plus) (?:le |l')?{v}", "Je ne parle pas danois.", "danois", "Je ne parle pas danois."),
        Rule(t.HOBBY, "loisir passe hobby", r"mon (?:loisir|passe-temps|hobby)(?: préféré)? est {list}", "Mon passe-temps est la peinture.", "la peinture",
             "Quel est mon loisir ?"),
        Rule(t.POSSESSION, "voiture téléphone vélo ordinateur", r"(?:ma|mon) (?P<k>voiture|téléphone|vélo|ordinateur) est une? {v}", "Ma voiture est une Clio.", "Clio",
             "Ma voiture est rouge."),
        Rule(t.GOAL, "objectif but", r"mon (?:objectif|but) est (?:de |d'){v}", "Mon objectif est d'apprendre l'italien.", "apprendre l'italien",
             "Quel est mon objectif ?"),
        Rule(t.PLAN, "demain semaine week lundi mardi mercredi jeudi vendredi samedi dimanche", rf"(?P<v>{_DAY},? {_PLAN_VERB} [^,;!?\n]{{2,90}})",
             "Vendredi je pars à Rome.", "Vendredi je pars à Rome", "Vendredi tu pars à Rome."),
        Rule(t.PLAN, "demain semaine week lundi mardi mercredi jeudi vendredi samedi dimanche", rf"(?P<v>{_PLAN_VERB} [^,;!?\n]{{2,80}}? {_DAY})\b",
             "Je pars à Rome demain.", "Je pars à Rome demain", "Tu pars à Rome demain."),
        Rule(t.PLAN, "demain semaine week lundi mardi mercredi jeudi vendredi samedi dimanche",
             rf"(?P<v>(?:mon|ma|mes|notre|nos) [^,;!?\n]{{2,60}}? (?:est|sont|commence|finit) {_DAY}\b[^,;!?\n]{{0,60}})", "Mon examen est demain à 15 h.",
             "Mon examen est demain à 15 h", "Son examen est demain."),
        Rule(t.PLAN, "prochain prochaine", rf"(?P<v>(?:le mois prochain|l'année prochaine),? {_PLAN_VERB}[^,;!?\n]{{2,90}})",
             "Le mois prochain nous déménageons à Lyon.", "Le mois prochain nous déménageons à Lyon", "Le mois prochain ils déménagent.", tier=FactTier.L0),
        Rule(t.REMINDER, "rappelle rappelez", r"(?:rappelle|rappelez)-moi (?=[^;!?\n]{0,90}aujourd'hui)(?:de |d')?(?P<v>[^;!?\n]{2,100})",
             "Rappelle-moi d'appeler Bo aujourd'hui.", "appeler Bo aujourd'hui", "Tu me rappelles Bo aujourd'hui.", tier=FactTier.L1),
        Rule(t.REMINDER, "rappelle rappelez", r"(?:rappelle|rappelez)-moi (?![^;!?\n]{0,90}aujourd'hui)(?:de |d')?(?P<v>[^;!?\n]{2,100})",
             "Rappelle-moi d'appeler Bo demain.", "appeler Bo demain", "Tu me rappelles Bo."),
        Rule(t.TASK_TODAY, "aujourd hui", r"aujourd'hui,? (?:je dois|j'ai besoin de|il faut que je) {v}", "Aujourd'hui je dois acheter du pain.", "acheter du pain",
             "Dois-je acheter du pain aujourd'hui ?"),
        Rule(t.TASK_WEEK, "semaine", r"cette semaine,? (?:je dois|j'ai besoin de) {v}", "Cette semaine je dois peindre.", "peindre", "Cette semaine tu dois peindre."),
        Rule(t.CONTACT, "mail email adresse courriel", r"mon (?:adresse )?(?:e-?mail|courriel|mail) est (?P<v>[\w.+-]{1,64}@[\w.-]{3,80}\w)",
             "Mon email est ada@example.org.", "ada@example.org", "Son email est a@example.org.", key="email"),
        Rule(t.CONTACT, "numéro", r"mon numéro (?:de téléphone )?est (?:le )?(?P<v>\+?\d[\d .-]{5,18}\d)", "Mon numéro est le 06 12 34 56 78.", "06 12 34 56 78",
             "Son numéro est le 06 12 34 56 78.", key="phone"),
        Rule(t.ANSWER_LANGUAGE, "réponds répondez écris", r"(?:réponds|répondez|écris)(?:-moi)?(?: toujours)? en (?P<v>français|anglais|allemand|espagnol|italien|portugais|chinois|japonais|russe|arabe)\b", "Réponds toujours en français.",
             "français", "Il répond en français."),
        Rule(t.ANSWER_LENGTH, "réponses explications", r"(?:je veux |donne-moi |plutôt )*(?:des )?(?P<v>(?:réponses|explications) (?:plus )?(?:courtes|brèves|longues|détaillées))(?=(?:,? (?:s'il te plaît|stp|maintenant))*(?:[.!,;\n]|$))", "Je veux des réponses courtes.", "réponses courtes",
                 "Elle veut des réponses courtes."),
        Rule(t.EMOJI, "emojis émojis emoji", r"(?:n'utilise pas d'|pas d'|n'utilisez pas d'|arrête les )[eé]mojis?", "Pas d'emojis.", "no emojis", "Des emojis.",
             fixed="no emojis"),
        Rule(t.EDITOR, "vim neovim emacs code pycharm", r"j'utilise (?P<v>(?:neo)?vim|emacs|vs ?code|pycharm)\b", "J'utilise Emacs.", "Emacs", "Je n'utilise pas Emacs."),
        Rule(t.INDENTATION, "tabulations espaces tabs", r"j'utilise (?:des |les )?(?P<v>tabulations|tabs|espaces)\b", "J'utilise des tabulations.", "tabulations",
             "Utilises-tu des tabulations ?"),
        *IN_FRENCH,
    ),
    context_excludes=r"\b(?:si|s'il|sauf si|imagine|imaginons|supposons|serait|serais|aurais|voudrais|dit|disait|dis|demande|demandait|croit|pense que tu|prétend|écrit|écrivait|raconte"
    r"|chanson|poème|roman|traduis|traduction|rôle|personnage|exemple|rêve|quand|comment|oublie)\b",
    prefix_excludes=r"\b(?:tu|il|elle|que|qui|ce que|dont|où|comment|pourquoi)\s+$",
    prefix_allowed=r"(?:^|[\s,(])(?:et|mais|car|donc|oui|non|bonjour|salut|en fait|enfin|maintenant|désormais|aujourd'hui|hier|parce que|puisque|au fait|d'ailleurs|note que|retiens que"
    r"|souviens-toi que|correction|pardon|désolée?|je veux dire|s'il te plaît|merci|alors|eh bien|moi|moi,|finalement|je pense que|et que)[,:]?\s*$",
    value_end=r"\s(?:et (?:je|j'|nous|mon|ma|mes|elle|il|on)|mais|parce|car|qui|que|depuis|avec|quand|si|maintenant|aussi|beaucoup|actuellement|en ce moment|comme|chez|plus|du tout|et j)\b.*$"
    r"|\s(?:et j'|à (?:la|l')).*$|\s[-–—(].*$|\s?:\s.*$|\s+$",
    empty_value=r"(?:ça|cela|ce|ceci|ces|toi|te|vous|moi|lui|elle|il|qu'|que|quand|comment|pas|plus|rien|tout|ton|ta|tes|votre|vos|l'idée)(?:\b|(?<='))",
    after=r"[\"»]?[ ,]{0,3}(?:a dit|a-t-(?:il|elle)|dit-(?:il|elle))",
    joins=r", | et (?:aux |au |à la |à l'|le |l')?| ou ",
    keys={
        "femme": "wife", "épouse": "wife", "mari": "husband", "époux": "husband", "compagnon": "partner", "compagne": "partner", "copine": "girlfriend",
        "copain": "boyfriend", "petite amie": "girlfriend", "petit ami": "boyfriend", "mère": "mother", "maman": "mother", "père": "father", "papa": "father",
        "chef": "boss", "patron": "boss", "patronne": "boss", "fille": "daughter", "fils": "son", "frère": "brother", "sœur": "sister", "soeur": "sister",
        "bébé": "child", "enfant": "child", "cousine": "cousin", "nièce": "niece", "neveu": "nephew", "meilleur ami": "best friend",
        "meilleure amie": "best friend", "colocataire": "roommate", "chien": "dog", "chienne": "dog", "chat": "cat", "chatte": "cat", "cheval": "horse",
        "perroquet": "parrot", "lapin": "rabbit", "tortue": "turtle", "oiseau": "bird", "voiture": "car", "téléphone": "phone", "vélo": "bike",
        "ordinateur": "computer", "couleur": "color", "plat": "food", "film": "movie", "livre": "book",
    },
    question_patterns={
        "user_name": r"\b(?:mon (?:nom|prénom)|je m'appelle|qui suis-je)\b",
        "user_nickname": r"\b(?:m'appeler|mon surnom|je m'appelle)\b",
        "user_age": r"\bquel âge\b|\bmon âge\b",
        "user_birthday": r"\bmon anniversaire\b",
        "user_preference": r"\b(?:je préfère|préféré-je|mes préférences)\b",
        "user_favourite": r"\b(?:mon|ma|mes) \w+ (?:préféré|favori)",
        "user_like": r"\b(?:j'aime|j'adore|aimé-je|mes goûts)\b",
        "user_dislike": r"\bn'aime (?:pas|plus)\b|\bje déteste\b|\bn'aimé-je\b",
        "user_diet": r"\bmon régime\b|\bpuis-je manger\b|\bje (?:mange|peux manger)\b|\bsuis-je v",
        "user_allergy": r"\b(?:suis-je|je suis) allergique\b|\bmes allergies\b|\bpuis-je manger\b|\bje peux manger\b",
        "user_address": r"\bmon adresse\b|\boù (?:est-ce que )?(?:j'habite|habité-je)\b",
        "user_home": r"\b(?:où|dans quelle ville) .{0,12}(?:j'habite|habité-je|je vis|vis-je)\b|\bhabite|\bma ville\b|\bmon adresse\b",
        "user_origin": r"\bd'où (?:je viens|viens-je|est-ce que je viens)\b|\bmes origines\b",
        "user_birthplace": r"\b(?:suis-je|je suis) née?\b",
        "user_job": r"\bmon (?:métier|travail|emploi)\b|\bma profession\b|\bje fais dans la vie\b",
        "user_employer": r"\bje travaille\b|\btravaillé-je\b|\bmon (?:employeur|entreprise)\b",
        "user_studies": r"\bj'étudie\b|\bmes études\b",
        "user_family": r"\bm(?:a|on) (?:famille|femme|épouse|mari|compagnon|compagne|copine|copain|mère|père|chef|patron)\b",
        "user_kin": r"\bm(?:a|on|es) (?:famille|filles?|fils|frères?|sœurs?|soeurs?|enfants?)\b",
        "user_pet": r"\bm(?:a|on|es) (?:animal|animaux|chiens?|chiennes?|chats?|chatte|cheval|lapin|tortue)\b",
        "user_condition": r"\bma santé\b|\bmes maladies\b|\bsuis-je (?:diab|asth|ence)",
        "user_language": r"\blangues?\b.{0,20}\bje parle\b|\bje parle\b",
        "user_hobby": r"\bm(?:on|es) (?:loisirs?|passe-temps|hobb)",
        "user_possession": r"\bm(?:a|on) (?:voiture|téléphone|vélo|ordinateur)\b",
        "user_goal": r"\bm(?:on|es) (?:objectifs?|buts?)\b",
        "user_plan": r"\bmes (?:projets|plans)\b|\b(?:je fais|je pars|je vais|ai-je prévu|j'ai prévu|déménageons)\b",
        "user_reminder": r"\bme rappeler\b|\bmes rappels\b",
        "today_task": r"\b(?:dois-je|je dois)\b.{0,20}\baujourd'hui\b",
        "weekly_task": r"\b(?:dois-je|je dois)\b.{0,20}\bcette semaine\b",
        "user_contact": r"\bmon (?:e-?mail|numéro|adresse|courriel)\b",
        "user_instruction": r"\b(?:dois-tu|tu dois) (?:répondre|écrire)\b|\bmes instructions\b",
        "user_tooling": r"\bmon éditeur\b|\bj'utilise\b",
    },
    keywords={
        "user_name": "nom prénom appelle", "user_nickname": "surnom", "user_age": "âge ans", "user_birthday": "anniversaire", "user_preference": "préfère préférence",
        "user_favourite": "préféré favori", "user_like": "aime adore", "user_dislike": "aime déteste", "user_diet": "régime manger", "user_allergy": "allergie allergique",
        "user_home": "habite ville adresse", "user_address": "habite adresse rue", "user_origin": "origine viens", "user_birthplace": "né", "user_job": "métier travail", "user_employer": "travaille entreprise",
        "user_studies": "études", "user_family": "femme mari mère père", "user_kin": "fille fils frère sœur enfant", "user_pet": "animal chien chat",
        "user_condition": "santé maladie", "user_language": "langue parle", "user_hobby": "loisir", "user_possession": "voiture téléphone", "user_goal": "objectif",
        "user_plan": "projet", "user_reminder": "rappel rappeler", "today_task": "aujourd'hui tâche", "weekly_task": "semaine tâche", "user_contact": "adresse numéro",
        "user_instruction": "instruction répondre", "user_tooling": "éditeur utilise",
    },
)
