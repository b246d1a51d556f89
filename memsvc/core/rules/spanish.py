"""Rules of facts, and the grammar of statements and standing instructions, in Spanish."""

from memsvc.core.facts import FactTier
from memsvc.core.rules import topics as t
from memsvc.core.rules.forgotten import IN_SPANISH
from memsvc.core.rules.grammar import Grammar
from memsvc.core.rules.rule import Language, Rule, relations, retraction

# fmt: off
# A rule and a pattern are a line of data each, however long.


SPANISH_GRAMMAR = Grammar(
    language="es",
    whole_words=True,
    common="el la los las de que y en un una es no se por con para mi mis me yo soy tengo nos nuestro nuestra tu tus te su sus lo le al del como pero si ya más muy a o este esta hay siempre nunca usa cada todo todos nada sin porfa oye desde",
    lead=r"(?:(?:ok|vale|bueno|pues|oye|oiga|mira|mirá|a ver|hola|buenas|buenos días|buenas tardes|por cierto|además|y|pero|ah|eh|uf|jo|ey|nota|aviso|ojo|recuerda|recuerda que|ten en cuenta que|que sepas que|te cuento|te comento|para que sepas|para tu información|dato|importante|perdona|perdón|gracias|sí|no(?=,)|en realidad|la verdad|la verdad es que|en fin|total|resumiendo|en resumen|sobre mí|que|es que|una cosa|[-*•–]|\d{1,2}[.)]|(?P<polite>(?:puedes|podrías|podés|puede)(?: por favor)?(?= (?:dejar|no|siempre|evitar|usar siempre)\b)))(?:[,:!.…–—-]+ ?| |$))+",
    request=r"(?:(?:y|o|pero|entonces|oye|a ver|porfa) )*(?:¿|(?:qué|quién|cuál|cuáles|cómo|dónde|cuándo|cuánto|cuánta|por qué|puedes|podrías|podés|me (?:puedes|podrías|ayudas|haces|dices|explicas|recomiendas|das)|sabes|conoces|tienes|hay|es|son|será|debería|tengo que|vale la pena|dame|dime|ayúdame|recomiéndame|hazme|escríbeme|explícame|alguna idea|algún|alguna)\b)",
    topics=(
        (t.ANSWER_LANGUAGE, r"\b(?:responderme|contestarme|hablarme|explícame\w*|respóndeme|responde|respondeme|contéstame|contestame|contesta|escríbeme|escribe|háblame|hablame|habla|hablemos|respuestas|contestá|respondé|hablá\w*|contestes|respondas)\b.{0,40}\ben (?:un )?{language}\b|\ben {language},? (?:por favor|porfa|siempre|nada más)\b|^(?:solo |sólo |todo )?en {language}[.! ]*$|\bprefiero (?:el |que sea en |que me hables en ){language}\b"),
        (t.PRONOUNS, r"\bmis pronombres\b|^elle\b(?!,? (?:est|se|a|va)\b)|\buso (?:el pronombre )?(?:elle|ella|él)\b|\bpronombres? (?:es|son|:)|\b(?:ella/la|él/lo|elle/le|she/her|he/him|they/them)\b|\b(?:háblame|trátame|refiér\w+ a mí) (?:en|con|de) (?:femenino|masculino|neutro|elle|ella|él)\b"),
        (t.NICKNAME, r"\b(?:con |lo de )?(?P<name>[\wáéíóúñ'-]+) (?:a secas|basta|me vale|es suficiente|está bien|sobra)\b|\b(?:aquí|os escribe|te escribe|soy (?:la|el)) (?P<name2>[\wáéíóúñ'-]+)\b[.,! ]*(?:$|con \w|de )"),
        (t.NICKNAME, r"\bsoy (?P<name>[\wáéíóúñ'-]+)(?=[.,;!]|$)"),
        (t.NICKNAME, r"\b(?:todos|todas|todo el mundo|mis \w+|mi \w+|los \w+|en \w+|la gente|amigos|aquí) (?:me )?(?:me dicen|me llaman|dicen|llaman|conocen) (?!que|cuando)\w|\bme (?:dicen|llaman|conocen (?:como|por)) (?!la atención|mucho|que)\w|\b(?:llámame|llamame|dime|decime) (?!(?:cuando|mañana|luego|hoy|al?|esta|antes|después)\b|si|qué|cómo|cuál|algo|un|la|el|lo|más|que|dónde|cuánto)\w+(?=\W*$|[.,;!]| (?:y|a secas|por\w*|que (?:es|así))\b)|\bpuedes llamarme\b|\bes (?:solo|sólo) para el banco\b|\ben el dni pone\b|\bme pusieron \w+ pero\b|\bnadie me (?:dice|llama) (?:así|por)\b|\blo de \w+ (?:me suena|es (?:para|cosa))\b"),
    ),
)

_I = r"(?:yo )?"
_NO = r"(?:no|ya no|nunca)"
_STILL = r"(?:ahora |también |muy |todavía |aún |actualmente |realmente )*"
_ONE = r"(?P<k>esposa|mujer|esposo|marido|pareja|novia|novio|madre|mamá|padre|papá|jefe|jefa)"
_KIN = r"(?P<k>hija|hijo|hermano|hermana|bebé|prima|primo|sobrina|sobrino|mejor amigo|mejor amiga|compañero de piso)"
_ONE_WORDS = "esposa mujer esposo marido pareja novia novio madre mamá padre papá jefe jefa"
_KIN_WORDS = "hija hijo hermano hermana bebé prima primo sobrina sobrino amigo amiga compañero"
_ANIMAL = r"(?P<k>perro|perra|gato|gata|caballo|loro|conejo|hámster|tortuga|pájaro)"
_DIET = r"(?P<v>vegetarian[oa]|vegan[oa]|pescetarian[oa]|flexitarian[oa])"
_WORKER = (
    r"(?P<v>(?:ingenier[oa]|desarrollador[a]?|profesora?|maestr[oa]|enfermer[oa]|médic[oa]|abogad[oa]|diseñadora?|arquitect[oa]|estudiante|científic[oa]|investigadora?"
    r"|contable|periodista|escritora?|cociner[oa]|panader[oa]|artista|músic[oa]|fotógraf[oa]|piloto|electricista|mecánic[oa]|agricultora?|consultora?|farmacéutic[oa]"
    r"|psicólog[oa]|traductora?|camarer[oa]|programadora?|dentista|jubilad[oa])(?: de [^\W\d_]+)?)\b"
)
_DAY = r"(?:mañana|pasado mañana|la (?:próxima semana|semana que viene)|este fin de semana|el (?:próximo )?(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo))"
_PLAN_VERB = r"(?:voy|vuelo|viajo|tengo|salgo|empiezo|visito|me mudo|nos mudamos|vamos|viajamos|veo|quedo|debo)"

SPANISH = Language(
    "Spanish",
    whole_words=True,
    rules=(
        Rule(t.NAME, "llamo", rf"{_I}me llamo {{name}}", "Me llamo Ada.", "Ada", "¿Cómo me llamo?"),
        Rule(t.NAME, "llamo", rf"{_I}me llamo (?!así|como|igual|la|mucho|también){{small}}", "me llamo ada", "ada", "me llamo así"),
        Rule(t.NAME, "soy", r"\A\W*(?:(?:hola|buenas|buen[oa]s \w+)[,!. ]+)?soy {name}(?![\w'-]| \w)", "Hola, soy Ada.", "Ada", "Hola, soy médica."),
        Rule(t.NAME, "nombre", r"mi nombre (?:completo )?es {name}", "Mi nombre es Ada.", "Ada", "Su nombre es Ada."),
        retraction(t.NAME, "llamo nombre", rf"(?:{_NO} me llamo|mi nombre no es) {{v}}", "No me llamo Bob.", "Bob", "No me llamo Bob."),
        Rule(t.NICKNAME, "llámame llamarme", r"(?:llámame|puedes llamarme) {name}", "Llámame Max.", "Max", "No me llames Max."),
        Rule(t.AGE, "años", rf"{_I}tengo {_STILL}(?P<v>\d{{1,3}}) años\b(?! de)", "Tengo 34 años.", "34", "Tengo 10 años de experiencia."),
        Rule(t.BIRTHDAY, "cumpleaños", r"mi cumpleaños es (?:el )?(?P<v>\d[^,;!?\n]{2,25})", "Mi cumpleaños es el 4 de mayo.", "4 de mayo",
             "¿Cuándo es mi cumpleaños?"),
        Rule(t.PREFERENCE, "prefiero", rf"{_I}prefiero {{v}}", "Prefiero el té.", "el té", "Si prefiero el té, te aviso."),
        Rule(t.FAVOURITE, "favorito favorita", r"mi (?P<k>[^\W\d_]+) favorit[oa] es {v}", "Mi color favorito es el azul.", "el azul", "¿Cuál es mi color favorito?"),
        Rule(t.LIKE, "gusta gustan encanta encantan", r"(?:a mí )?me (?:gustan?|encantan?) (?:mucho |muchísimo )?{v}", "Me gusta el jazz.", "el jazz",
             "No me gusta el jazz."),
        Rule(t.DISLIKE, "gusta gustan", rf"(?:a mí )?{_NO} me (?:gustan?|encantan?) (?:nada )?{{v}}", "Ya no me gusta el jazz.", "el jazz", "No te gusta el jazz."),
        Rule(t.DISLIKE, "odio detesto", rf"{_I}(?:odio|detesto) {{v}}", "Odio las aceitunas.", "las aceitunas", "Ella odia las aceitunas."),
        retraction(t.DISLIKE, "odio detesto", rf"{_I}{_NO} (?:odio|detesto) {{v}}", "Ya no odio las aceitunas.", "las aceitunas", "Ya no odio las aceitunas."),
        Rule(t.DIET, "vegetariano vegetariana vegano vegana pescetariano pescetariana flexitariano flexitariana", rf"{_I}soy {_STILL}{_DIET}\b",
             "Soy vegetariana.", "vegetariana", "No soy vegetariana."),
        Rule(t.DIET, "carne", rf"{_I}(?:vuelvo a comer|como) (?:otra vez )?carne\b", "Vuelvo a comer carne.", "eats meat", "No como carne.", fixed="eats meat"),
        Rule(t.DIET, "carne", rf"{_I}{_NO} como carne", "Ya no como carne.", "no meat", "Como carne.", fixed="no meat"),
        retraction(t.DIET, "vegetariano vegetariana vegano vegana", rf"{_I}{_NO} soy {_DIET}", "Ya no soy vegano.", "vegano", "No soy vegano."),
        Rule(t.ALLERGY, "alérgico alérgica", rf"{_I}soy {_STILL}alérgic[oa] (?:a la |a las |a los |al |a ){{list}}", "Soy alérgico a las nueces.", "nueces",
             "No soy alérgico a las nueces."),
        Rule(t.ALLERGY, "alergia", rf"{_I}tengo alergia (?:a la |a las |a los |al |a ){{list}}", "Tengo alergia al polen.", "polen", "No tengo alergia al polen."),
        retraction(t.ALLERGY, "alérgico alérgica", rf"{_I}{_NO} soy alérgic[oa] (?:a la |a las |a los |al |a ){{v}}", "Ya no soy alérgica a las nueces.", "nueces",
             "No soy alérgica a las nueces."),
        Rule(t.HOME, "vivo vivimos", rf"{_I}(?:vivo|vivimos) {_STILL}en {{v}}", "Vivo en Lima.", "Lima", "No vivo en Lima."),
        Rule(t.ADDRESS, "vivo vivimos dirección", rf"(?:{_I}(?:vivo|vivimos) {_STILL}en|mi (?:nueva )?dirección es) (?:la |el )?(?P<v>(?:calle|avenida|avda\.?|plaza|paseo|camino|carrera|carrer) (?:(?!y\b|pero\b|con\b)[\w.-]+ ){{1,4}}?(?:n[úu]mero )?\d{{1,4}}\w?\b(?:, (?:\d{{5}} )?(?-i:[A-Z])[\w-]+)?)",
             "Vivo en la calle Mayor 5, Madrid.", "calle Mayor 5, Madrid", "Ella vive en la calle Mayor 5."),
        Rule(t.HOME, "mudé mudado", rf"{_I}(?:me mudé|me he mudado|nos mudamos) a {{v}}", "Me mudé a Quito.", "Quito", "Ella se mudó a Quito."),
        retraction(t.HOME, "vivo", rf"{_I}{_NO} vivo en {{v}}", "Ya no vivo en Lima.", "Lima", "No vivo en Lima."),
        Rule(t.ORIGIN, "soy vengo", rf"{_I}(?:soy|vengo) (?:originari[oa] )?de {{v}}", "Soy de Chile.", "Chile", "No soy de Chile."),
        retraction(t.ORIGIN, "soy vengo", rf"{_I}{_NO} (?:soy|vengo) de {{v}}", "No soy de Chile.", "Chile", "No soy de Chile."),
        Rule(t.BIRTHPLACE, "nací", rf"{_I}nací en (?!\d|el ){{v}}", "Nací en Lima.", "Lima", "Nací en 1990."),
        Rule(t.JOB, "trabajo profesión", rf"{_I}(?:trabajo (?:ahora )?(?:como|de)|mi profesión es) {{v}}", "Trabajo como cocinero.", "cocinero",
             "No trabajo como cocinero."),
        Rule(t.JOB, "soy", rf"{_I}soy {_STILL}(?:una? )?{_WORKER}", "Soy enfermera.", "enfermera", "No soy enfermera."),
        retraction(t.JOB, "soy", rf"{_I}{_NO} soy {_WORKER}", "Ya no soy enfermera.", "enfermera", "No soy enfermera."),
        retraction(t.JOB, "trabajo", rf"{_I}{_NO} trabajo (?:como|de) {{v}}", "Ya no trabajo como cocinero.", "cocinero", "No trabajo como cocinero."),
        Rule(t.EMPLOYER, "trabajo", rf"{_I}trabajo {_STILL}(?:en|para) {{v}}", "Trabajo en Telefónica.", "Telefónica", "No trabajo en Telefónica."),
        retraction(t.EMPLOYER, "trabajo", rf"{_I}{_NO} trabajo (?:en|para) {{v}}", "Ya no trabajo en Telefónica.", "Telefónica", "No trabajo en Telefónica."),
        Rule(t.STUDIES, "estudio", rf"{_I}estudio {{v}}", "Estudio física.", "física", "No estudio física."),
        Rule(t.FAMILY, _ONE_WORDS, rf"mi (?:nuev[oa] )?{_ONE},? (?:ahora )?(?:se llama |es )?(?:ahora )?{{name}}",
             "Mi esposa se llama Ana.", "Ana", "Su esposa se llama Ana."),
        Rule(t.KIN, _KIN_WORDS, rf"mi (?:pequeñ[oa] )?{_KIN}(?: mayor| menor)?,? (?:se llama |es )?{{name}}",
             "Mi hija Ana viene.", "Ana", "Su hija Ana viene."),
        Rule(t.PET, "perro perra gato gata caballo loro conejo hámster tortuga pájaro",
             rf"{_I}(?:tengo|tenemos) (?:ahora )?una? {_ANIMAL},? (?:que se llama|llamad[oa]) {{name}}", "Tengo un perro llamado Rex.", "Rex", "Ella tiene un perro llamado Rex."),
        Rule(t.PET, "perro perra gato gata caballo loro conejo hámster tortuga pájaro", rf"mi {_ANIMAL},? (?:se llama |es )?{{name}}", "Mi perro se llama Rex.", "Rex",
             "Tu perro se llama Rex."),
        *relations(
            r"{name} es mi (?!mejor){k}(?=[.,;!\n]|$| y\b)",
            r"{name} (?:ya )?(?:es mi [\w -]{2,30}?,? (?:y )?no|no es) mi {k}(?=[.,;!\n]|$| sino\b)",
            (t.FAMILY, _ONE_WORDS, _ONE, "Ana es mi jefa.", "Ana no es mi jefa.", "Ana"),
            (t.KIN, _KIN_WORDS, _KIN, "Ana es mi hermana.", "Ana es mi jefa, no mi hermana.", "Ana"),
        ),
        retraction(t.PET, "perro gato caballo loro conejo hámster tortuga", rf"{_I}{_NO} tengo (?:una? )?{_ANIMAL}", "Ya no tengo perro.", "", "No tengo perro."),
        Rule(t.CONDITION, "tengo padezco", rf"{_I}(?:tengo|padezco) (?P<v>diabetes|asma|epilepsia|migrañas?|artritis|hipertensión|ansiedad|depresión)\b", "Tengo asma.", "asma",
             "No tengo asma."),
        retraction(t.CONDITION, "tengo", rf"{_I}{_NO} tengo (?P<v>diabetes|asma|epilepsia|migrañas?|ansiedad)\b", "Ya no tengo asma.", "asma", "No tengo asma."),
        Rule(t.LANGUAGE, "hablo", rf"{_I}hablo (?:también |un poco de )?(?P<v>(?:inglés|francés|alemán|español|italiano|portugués|chino|japonés|ruso|árabe|danés|catalán)(?:(?:, | y )\w+)*)",
             "Hablo danés y alemán.", "danés", "No hablo danés."),
        retraction(t.LANGUAGE, "hablo", rf"{_I}{_NO} hablo {{v}}", "No hablo danés.", "danés", "No hablo danés."),
        Rule(t.HOBBY, "afición pasatiempo hobby", r"mi (?:afición|pasatiempo|hobby)(?: favorit[oa])? es {list}", "Mi afición es pintar.", "pintar", "¿Cuál es mi afición?"),
        Rule(t.POSSESSION, "coche carro auto móvil teléfono bicicleta portátil", r"mi (?P<k>coche|carro|auto|móvil|teléfono|bicicleta|portátil) es une? ?{v}".replace("une? ?", "una? "),
             "Mi coche es un Seat.", "Seat", "Mi coche es rojo."),
        Rule(t.GOAL, "objetivo meta quiero", rf"(?:mi (?:objetivo|meta) es|{_I}quiero (?=aprender)) ?{{v}}", "Quiero aprender italiano.", "aprender italiano", "No quiero aprender italiano."),
        Rule(t.PLAN, "mañana semana lunes martes miércoles jueves viernes sábado domingo", rf"(?P<v>{_DAY},? {_I}{_PLAN_VERB} [^,;!?\n]{{2,90}})", "El viernes vuelo a Roma.",
             "El viernes vuelo a Roma", "El viernes vuelas a Roma."),
        Rule(t.PLAN, "mañana semana lunes martes miércoles jueves viernes sábado domingo", rf"(?P<v>{_I}{_PLAN_VERB} [^,;!?\n]{{2,80}}? {_DAY})\b", "Vuelo a Roma mañana.",
             "Vuelo a Roma mañana", "Vuelas a Roma mañana."),
        Rule(t.PLAN, "mañana semana lunes martes miércoles jueves viernes sábado domingo",
             rf"(?P<v>(?:mis?|nuestr[oa]s?) [^,;!?\n]{{2,60}}? (?:es|son|empieza|termina) {_DAY}\b[^,;!?\n]{{0,60}})", "Mi examen es mañana a las 3.",
             "Mi examen es mañana a las 3", "Su examen es mañana."),
        Rule(t.PLAN, "próximo mes año", rf"(?P<v>el (?:próximo mes|mes que viene|próximo año|año que viene),? {_I}{_PLAN_VERB} [^,;!?\n]{{2,90}})", "El próximo mes nos mudamos a Lyon.",
             "El próximo mes nos mudamos a Lyon", "El próximo mes se mudan.", tier=FactTier.L0),
        Rule(t.REMINDER, "recuérdame", r"recuérdame (?=[^;!?\n]{0,90}\bhoy\b)(?P<v>[^;!?\n]{2,100})", "Recuérdame llamar a Bo hoy.", "llamar a Bo hoy", "Me recuerdas a Bo hoy.", tier=FactTier.L1),
        Rule(t.REMINDER, "recuérdame", r"recuérdame (?![^;!?\n]{0,90}\bhoy\b)(?P<v>[^;!?\n]{2,100})", "Recuérdame llamar a Bo mañana.", "llamar a Bo mañana", "Me recuerdas a Bo."),
        Rule(t.TASK_TODAY, "hoy", rf"hoy {_I}(?:tengo que|necesito|debo) {{v}}", "Hoy tengo que comprar pan.", "comprar pan", "¿Hoy tengo que comprar pan?"),
        Rule(t.TASK_WEEK, "semana", rf"esta semana {_I}(?:tengo que|necesito|debo) {{v}}", "Esta semana tengo que pintar.", "pintar", "Esta semana tienes que pintar."),
        Rule(t.CONTACT, "correo email mail", r"mi (?:correo(?: electrónico)?|e-?mail) es (?P<v>[\w.+-]{1,64}@[\w.-]{3,80}\w)", "Mi correo es ada@example.org.", "ada@example.org",
             "Su correo es a@example.org.", key="email"),
        Rule(t.CONTACT, "teléfono número móvil", r"mi (?:número(?: de teléfono)?|teléfono|móvil) es (?:el )?(?P<v>\+?\d[\d .-]{5,18}\d)", "Mi número es el 612 345 678.", "612 345 678",
             "Tu número es el 612 345 678.", key="phone"),
        Rule(t.ANSWER_LANGUAGE, "responde contesta respóndeme", r"(?:responde|contesta|respóndeme)(?: siempre)? en (?P<v>español|inglés|francés|alemán|italiano|portugués|chino|japonés|ruso|árabe|catalán)\b", "Responde siempre en español.", "español",
             "¿Ella responde en español?"),
        Rule(t.ANSWER_LENGTH, "respuestas explicaciones", r"(?:quiero |dame |mejor )*(?P<v>(?:respuestas|explicaciones) (?:más )?(?:cortas|breves|largas|detalladas))(?=(?:,? (?:por favor|ahora))*(?:[.!,;\n]|$))", "Quiero respuestas cortas.", "respuestas cortas",
                 "Ella quiere respuestas cortas."),
        Rule(t.EMOJI, "emojis", r"(?:no uses|sin|no utilices) emojis", "No uses emojis.", "no emojis", "Usas emojis.", fixed="no emojis"),
        Rule(t.EDITOR, "vim neovim emacs code pycharm", rf"{_I}(?:uso|utilizo) (?P<v>(?:neo)?vim|emacs|vs ?code|pycharm)\b", "Uso Emacs.", "Emacs", "No uso Emacs."),
        Rule(t.INDENTATION, "tabuladores espacios tabs", rf"{_I}(?:uso|utilizo) (?P<v>tabuladores|tabs|espacios)\b", "Uso tabuladores.", "tabuladores", "¿Usas tabuladores?"),
        *IN_SPANISH,
    ),
    context_excludes=r"\b(?:si|cuando|ojalá|imagina|imagínate|supongamos|sería|tendría|habría|dice|dijo|decía|dicen|pregunta|preguntó|cree|piensa que|escribió|cuenta|canción|poema|novela|traduce"
    r"|traducción|personaje|ejemplo|sueño|cómo|dónde|qué|cuál|olvida)\b|¿",
    prefix_excludes=r"\b(?:tú|él|ella|que|lo que|quien|donde|no|ya no|nunca)\s+$",
    prefix_allowed=r"(?:^|[\s,(¡])(?:y|pero|porque|pues|sí|hola|buenas|en realidad|de hecho|ahora|hoy|ayer|ya que|por cierto|además|recuerda que|ten en cuenta que|anota que|corrección|perdón"
    r"|quiero decir|por favor|gracias|bueno|entonces|yo|creo que|y que|buenos días)[,:]?\s*$",
    value_end=r"\s(?:y (?:me|mi|mis|yo|soy|tengo|trabajo|vivo|estoy|quiero|ella|él|no)|pero|porque|que|desde|con|cuando|si|ahora|también|mucho|actualmente|como|para|en (?:un|una|el|la)|nada)\b.*$"
    r"|\s[-–—(].*$|:\s.*$",
    empty_value=r"(?:eso|esto|ello|esa|ese|tú|ti|te|usted|él|ella|cómo|que|qué|cuando|no|nada|todo|tu|tus|su|sus|la idea)\b",
    after=r"[\"»]?[ ,]{0,3}(?:dijo|dice|preguntó)\b",
    joins=r", | y (?:a la |a las |a los |al )?| e | o ",
    keys={
        "esposa": "wife", "mujer": "wife", "esposo": "husband", "marido": "husband", "pareja": "partner", "novia": "girlfriend", "novio": "boyfriend", "madre": "mother",
        "mamá": "mother", "padre": "father", "papá": "father", "jefe": "boss", "jefa": "boss", "hija": "daughter", "hijo": "son", "hermano": "brother", "hermana": "sister",
        "bebé": "child", "prima": "cousin", "primo": "cousin", "sobrina": "niece", "sobrino": "nephew", "mejor amigo": "best friend", "mejor amiga": "best friend",
        "compañero de piso": "roommate", "perro": "dog", "perra": "dog", "gato": "cat", "gata": "cat", "caballo": "horse", "loro": "parrot", "conejo": "rabbit",
        "hámster": "hamster", "tortuga": "turtle", "pájaro": "bird", "coche": "car", "carro": "car", "auto": "car", "móvil": "phone", "teléfono": "phone",
        "bicicleta": "bike", "portátil": "laptop", "comida": "food", "película": "movie", "libro": "book",
    },
    question_patterns={
        "user_name": r"\b(?:mi nombre|me llamo|quién soy)\b",
        "user_nickname": r"\b(?:llamarme|mi apodo|me llamo)\b",
        "user_age": r"\b(?:cuántos años tengo|mi edad)\b",
        "user_birthday": r"\bmi cumpleaños\b",
        "user_preference": r"\bprefiero\b|\bmis preferencias\b",
        "user_favourite": r"\bmi \w+ favorit",
        "user_like": r"\bme (?:gustan?|encantan?)\b|\bmis gustos\b",
        "user_dislike": r"\bno me gustan?\b|\bodio\b|\bdetesto\b",
        "user_diet": r"\bmi dieta\b|\bpuedo comer\b|\b(?:qué|cómo) como\b|\bsoy (?:veg|pesc)",
        "user_allergy": r"\bsoy alérgic|\bmis alergias\b|\bpuedo comer\b",
        "user_address": r"\bd[óo]nde vivo\b|\bmi dirección\b",
        "user_home": r"\bvivo\b|\bmi (?:ciudad|casa|dirección)\b",
        "user_origin": r"\bde dónde (?:soy|vengo)\b|\bmi origen\b",
        "user_birthplace": r"\bnací\b",
        "user_job": r"\bmi (?:trabajo|profesión|empleo)\b|\ben qué trabajo\b|\ba qué me dedico\b|\bde qué trabajo\b",
        "user_employer": r"\bmi (?:empresa|trabajo|empleador)\b|\btrabajo\b",
        "user_studies": r"\bestudio\b|\bmis estudios\b",
        "user_family": r"\bmi (?:familia|esposa|mujer|esposo|marido|pareja|novia|novio|madre|padre|jefe|jefa)\b",
        "user_kin": r"\bmis? (?:familia|hijas?|hijos?|hermanos?|hermanas?)\b",
        "user_pet": r"\bmis? (?:mascotas?|perros?|perras?|gatos?|gatas?|caballo|loro|conejo|tortuga)\b",
        "user_condition": r"\bmi salud\b|\bmis enfermedades\b|\benfermedad(?:es)? tengo\b",
        "user_language": r"\bidiomas?\b.{0,12}\bhablo\b|\bhablo\b",
        "user_hobby": r"\bmis? (?:aficiones|afición|pasatiempos?|hobb)",
        "user_possession": r"\bmi (?:coche|carro|auto|móvil|teléfono|bicicleta|portátil)\b",
        "user_goal": r"\bmis? (?:objetivos?|metas?)\b",
        "user_plan": r"\bmis planes\b|\b(?:voy|vuelo|viajo|hago|tengo planeado|nos mudamos|me mudo)\b",
        "user_reminder": r"\brecordarme\b|\bmis recordatorios\b",
        "today_task": r"\b(?:tengo que|debo|necesito)\b.{0,20}\bhoy\b",
        "weekly_task": r"\b(?:tengo que|debo|necesito)\b.{0,20}\besta semana\b",
        "user_contact": r"\bmi (?:correo|e-?mail|teléfono|número|móvil)\b",
        "user_instruction": r"\bdebes (?:responder|contestar|escribir)\b|\bmis instrucciones\b",
        "user_tooling": r"\bmi editor\b|\b(?:uso|utilizo)\b",
    },
    keywords={
        "user_name": "nombre llamo", "user_nickname": "apodo", "user_age": "edad años", "user_birthday": "cumpleaños", "user_preference": "prefiero preferencia",
        "user_favourite": "favorito", "user_like": "gusta encanta", "user_dislike": "gusta odio", "user_diet": "dieta comer", "user_allergy": "alergia alérgico",
        "user_home": "vivo ciudad dirección", "user_address": "vivo dirección calle", "user_origin": "origen", "user_birthplace": "nací", "user_job": "trabajo profesión", "user_employer": "trabajo empresa",
        "user_studies": "estudios", "user_family": "esposa marido madre padre", "user_kin": "hija hijo hermano hermana", "user_pet": "mascota perro gato",
        "user_condition": "salud enfermedad", "user_language": "idioma hablo", "user_hobby": "afición", "user_possession": "coche móvil", "user_goal": "objetivo meta",
        "user_plan": "plan viaje", "user_reminder": "recordatorio recordar", "today_task": "hoy tarea", "weekly_task": "semana tarea", "user_contact": "correo teléfono número",
        "user_instruction": "instrucción responder", "user_tooling": "editor uso",
    },
)
