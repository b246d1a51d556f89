"""Statements that no rule reads, instructions and classes; and what is none of them."""

import pytest

from memsvc.core.facts import STATEMENT_CHARS_MAX, Statement
from tests.styles.turns.test_rules import RULES, claims

STATED = {
    "user_statement": (
        "I ride a steel Koga to the office.",
        "We release on first Mondays, never on a Friday.",
        "we deploy with helm, not with ansible",
        "Aisle for me, please.",
        "our monorepo is built with bazel",
        "my sister is a dentist in Hull",
        "used to smoke, quit in 2019",
        "I'm not on social media.",
        "Neither of my brothers drives.",
        "Our cat has a bald patch behind the ear.",
        "Wir heizen seit Jahren mit Holz.",
        "Meine Schwester ist Zahnärztin.",
        "Bei uns isst niemand Rosinen.",
        "Los lunes siempre comemos en casa de mi abuela.",
        "Mi hermana es bombera en Gijón.",
        "J'apprends le violon depuis trois ans.",
        "Mon fils entre en sixième à la rentrée.",
        "我每天骑车上班，大概四十分钟",
        "我们团队每周三发版",
        "妻は看護師で、夜勤が多いです",
        "毎朝五時に起きて犬と散歩しています",
        "I'm a piano tuner, mostly church halls.",
        "no pets allowed in our building, worse luck",
        "ich bin Kranführerin, drei Wochen Montage, eine daheim",
        "je suis factrice à Brest depuis 2011",
        "soy zurdo y llevo veinte años de afinador",
        "I've got a Pixel 6, battery is weak.",
        "The twins, Maeve and Declan, turn seven on the 9th of October.",
        "Marlon is our treasurer, he signs anything over 200 quid.",
        "On a Timéo une semaine sur deux.",
    ),
    "user_instruction": (
        "Only ever give me one option at a time, more than that and I freeze",
        "Under no circumstances push anything unless Priya has approved it",
        "Finish each factual answer with a source, make that a habit",
        "I'd rather you never mentioned star signs again",
        "cada vez que me hables de dinero ponme un ejemplo con cifras",
        "Nunca des por buena una cuenta sin repasarla",
        "Si ma question est bête tu me le dis, à chaque fois",
        "No emojis",
        "metric units pls",
        "Keep it under five lines unless I ask for more.",
        "staging is pg-2, never touch pg-1",
        "Let me know when you are guessing, always.",
        "python 3.9 syntax only",
        "always run the tests before you say done",
        "Before you delete anything, ask me, every time.",
        "von jetzt an per Du",
        "Bitte künftig keine Tabellen mehr.",
        "Háblame siempre de usted, por favor",
        "Donne toujours les températures en Celsius",
        "以后代码注释都用英文写",
        "回答はいつも三行以内でお願いします",
    ),
    "user_allergy": (
        "peanuts would kill me",
        "penicillin is off the table with me, I came out in hives",
        "I can't do dairy, my gut goes nuts. Anyway, can you fix this email?",
        "la moutarde me fait gonfler les yeux",
        "Wespenstiche? Nein, Nüsse gehen bei mir gar nicht.",
        "one bite of celery and my lips swell",
        "les crevettes, j'ai failli y passer",
        "吃芒果嘴就肿",
        "カニを食べると蕁麻疹が出る",
        "I can't be in the same room as walnuts, honestly",
        "no puedo estar con gatos, me pongo a estornudar",
    ),
    "user_food_rule": (
        "doctor's orders: no gluten",
        "Schweinefleisch? Wir essen kein Schweinefleisch.",
        "prawns are off the menu in this house",
        "por la tensión ni sal ni embutido",
        "お酒は控えてます",
        "ich bin seit vier Jahren trocken, also kein Alkohol",
        "soy musulmán, así que nada de cerdo",
    ),
    "user_diet": ("celiac here, since birth", "leb seit 2016 vegan"),
    "user_medication": (
        "they put me on warfarin last year",
        "two candesartan with breakfast, I never skip it",
        "my Adderall wears off about three, which is when the trouble starts",
        "我早上要吃一片氨氯地平",
    ),
    "user_condition": (
        "epileptic since I was nine",
        "I'm deaf in my left ear so phone calls are no good",
        "late-diagnosed autistic here so please be literal",
        "Zöliakie, schon als Kind",
        "me detectaron hipotiroidismo en mayo",
    ),
    "user_pronouns": ("she/her, please",),
    "user_nickname": (
        "everyone at the shop says Hideo",
        "no need for Dr Marsh, Wendy is fine",
        "Frau Petersen muss nicht sein, Inken reicht",
        "Everyone's called me Bex since school",
        "Charlotte steht im Pass, alle sagen Lotte",
        "Me pusieron Guadalupe pero soy Lupita hasta en la oficina",
        "喊我阿满就行",
        "At the stall I am Dee, it is shorter.",
        "In der Werkstatt bin ich der Matze, das reicht.",
        "Para todos los demás soy Nacho.",
        "Dans l'atelier je suis Jojo.",
    ),
}
PLAIN = [
    "I'm vegan.",
    "I'm vegetarian.",
    "I am a vegetarian",
    "I'm gluten-free.",
    "I'm diabetic.",
    "I'm pregnant.",
    "I'm 34.",
    "I'm 34 years old",
    "I am a nurse.",
    "I'm a teacher",
    "I'm a student.",
    "I live in Berlin.",
    "I live in Paris",
    "I'm from Spain.",
    "I work at Siemens.",
    "I work as a plumber.",
    "I have two kids.",
    "I have a dog named Rex.",
    "I have a cat.",
    "My wife is Anna.",
    "My birthday is May 3.",
    "I like jazz.",
    "I love hiking.",
    "I hate olives.",
    "I don't eat meat.",
    "I don't drink.",
    "I never drink coffee.",
    "I prefer tea.",
    "I use vim.",
    "I play chess.",
    "I drive a Skoda.",
    "I'm left-handed.",
    "I'm colour blind.",
    "I'm married.",
    "I'm single.",
    "I moved to Oslo.",
    "I speak German.",
    "I'm learning Spanish.",
    "I'm allergic to nuts.",
    "I can't eat shellfish.",
    "I'm lactose intolerant.",
    "We live in Rome.",
    "We have three cats.",
    "Ich bin Veganer.",
    "Ich bin Vegetarierin.",
    "Ich wohne in Köln.",
    "Ich bin 40.",
    "Ich bin Lehrer.",
    "Ich arbeite bei Bosch.",
    "Ich habe zwei Kinder.",
    "Ich habe einen Hund.",
    "Ich mag Jazz.",
    "Ich trinke keinen Alkohol.",
    "Ich esse kein Fleisch.",
    "Ich bin schwanger.",
    "Soy vegano.",
    "Soy vegetariana.",
    "Vivo en Madrid.",
    "Tengo dos hijos.",
    "Trabajo en Telefónica.",
    "Soy médico.",
    "Me gusta el jazz.",
    "No como carne.",
    "Tengo 30 años.",
    "Je suis végane.",
    "J'habite à Lyon.",
    "J'ai deux enfants.",
    "Je travaille chez Renault.",
    "Je suis infirmière.",
    "J'aime le jazz.",
    "Je ne mange pas de viande.",
    "J'ai 30 ans.",
    "我吃素。",
    "我住在上海。",
    "我有两个孩子。",
    "我是老师。",
    "我喜欢爵士乐。",
    "我不喝酒。",
    "我30岁。",
    "ベジタリアンです。",
    "東京に住んでいます。",
    "子供が二人います。",
    "教師です。",
    "ジャズが好きです。",
    "お酒は飲みません。",
    "30歳です。",
]
"""What everybody says in so many words."""
SUPPOSED = (
    "Suppose I were vegan and lived in Oslo.",
    "If I had three kids I would never sleep.",
    "Let's say my wife is allergic to nuts.",
    "Wenn ich drei Kinder hätte und einen Hof, würde ich nirgends mehr hinfahren.",
    "Stell dir vor, ich wäre Veganer und hätte Kinder.",
    "Supongamos que soy vegano y vivo en Madrid.",
    "Mettons que je sois gaucher et daltonien.",
    "假如我住在上海,有两个孩子。",
    "もし私がベジタリアンで子供が二人いたら。",
)
LANGUAGES = (
    "Could you stick to Spanish with me?",
    "Kannst du mir auf Ukrainisch antworten?",
    "¿Puedes responderme en catalán?",
    "Est-ce que vous pouvez me répondre en occitan ? Je suis du coin.",
    "My nan reads along and only knows Gujarati, so that is how it should come out.",
)
"""Requests to answer in a language: they last, though they are questions or statements."""
NO_CLASS = (
    "my asthma patients are all under ten",
    "I'm writing an essay about gluten and my rash of deadlines",
    "They are Muslims, so no pork for them",
    "Could you answer this in French?",
    "Can you write a poem in Spanish?",
    "I teach Gujarati on Saturdays.",
    "Put the last one into Gujarati.",
    "I'm Danish.",
    "my colleague is allergic to mites and wants the carpet out",
    "Kannst du das auf Englisch schreiben?",
    "We had no milk left, so we walked",
    "Could you tell me how people in Wales speak Welsh?",
)
"""Words of a class that tell none of the speaker."""
REMARKS = (
    "where do the fixtures live, i need another",
    "do we still run redis on the old box",
    "what's our staging port again, i keep losing it",
    "welche server nehmen wir, ich dachte die alten",
    "dónde guardamos los backups",
    "我们用的是哪个分支呢",
    "bump the retries to 7 in worker.toml so we stay under it",
    "rerun everything, i want it green",
    "rename both files and push, we need them for the demo",
    "Let me know if you need any advice.",
    "It's great when you have that kind of help.",
    "The report has concise answers.",
    "It's just not right.",
)
"""Questions without a mark, orders of the moment, offers: none is a fact."""
CLEAR = {
    "Our ticketing runs on Zendesk.": (
        "Our ticketing doesn't run on Zendesk.",
        (
            "I think our ticketing runs on Zendesk.",
            '"Our ticketing runs on Zendesk," said Ann.',
            "Our ticketing ran on Zendesk.",
            "Their ticketing runs on Zendesk.",
            "Our ticketing runs on Zendesk again today.",
            "Does our ticketing run on Zendesk?",
        ),
    ),
    "I bank with Monzo": (
        "I don't bank with Monzo",
        (
            "I might bank with Monzo",
            'The ad says "I bank with Monzo"',
            "I banked with Monzo",
            "She banks with Monzo",
        ),
    ),
    "Wir heizen mit Öl": (
        "Wir heizen nicht mit Öl",
        (
            "Ich glaube, wir heizen mit Öl",
            "„Wir heizen mit Öl“, sagt die Werbung",
            "Ich heizte mit Öl",
            "Die heizen mit Öl",
        ),
    ),
    "Nuestro proveedor es Azcárate": (
        "Nuestro proveedor no es Azcárate",
        (
            "Creo que nuestro proveedor es Azcárate",
            "«Nuestro proveedor es Azcárate», dice",
            "Nuestro proveedor era Azcárate",
            "Su proveedor es Azcárate",
        ),
    ),
    "Notre chienne dort au pied du lit": (
        "Notre chienne ne dort pas au pied du lit",
        (
            "Je crois que notre chienne dort au pied du lit",
            "« Notre chienne dort au pied du lit »",
            "Notre chienne dormait au pied du lit",
            "Leur chienne dort au pied du lit",
        ),
    ),
    "In der Backstube nehmen wir Mehl von der Mühle": (
        "In der Backstube nehmen wir kein Mehl von der Mühle",
        (
            "In der Backstube nehmen wir heute Mehl von der Mühle",
            "In der Backstube nahmen wir Mehl von der Mühle",
            "In der Backstube nimmt er Mehl von der Mühle",
            "„In der Backstube nehmen wir Mehl von der Mühle“",
        ),
    ),
    "駅前のカフェでバイトしてるよ": (
        "駅前のカフェではバイトしてないよ",
        (
            "駅前のカフェでバイトしてるかも",
            "「駅前のカフェでバイトしてるよ」",
            "彼は駅前のカフェでバイトしてるよ",
        ),
    ),
    "我在义乌开小店": (
        "我不在义乌开店",
        ("“我在义乌开小店”", "我刚在义乌吃饭", "他在义乌开小店"),
    ),
    "うちの店は表参道の裏": (
        "うちの店は表参道じゃない",
        ("うちの店は表参道ですか", "「うちの店は表参道の裏」", "彼の店は表参道の裏"),
    ),
}
"""Sentences that last by their form alone: said, denied, and what is not said of now."""
ENCOURAGED = (
    "Keep it up, we are proud of you!",
    "You've always been there for me.",
    "Never been to something like that.",
    "People use their phones for everything, I find.",
)
"""What the words of an instruction or of a name say of nobody."""
NOT_STATED = (
    "Fantastic, the boiler again. I live for cold showers every morning.",
    "You're the landlord and I'm the tenant. I've lived here for nine years.",
    "I'm vegan, am I?",
    "The bloke on the ferry always eats raw onions.",
    "We adopted two orphans and the parent process died.",
    "My kids got all the fractions wrong on the worksheet, every one of them.",
    "I braised it and it split.",
    "Toll, schon wieder Stau. Ich wohne ja auf der Autobahn.",
    "Pongamos que soy viuda y vivo en Soria.",
    "Ma fille n'a plus de parent depuis le dernier commit.",
    "地铁上有个人说他每天跑十公里",
    "親プロセスが毎日死んで孤児だらけです",
    "My brother-in-law swears by his air fryer, even for trout.",
    "We can live with clause 14 but the indemnity has to go.",
    "Is a fan heater ok overnight? 2 sentences please",
    "ando hoy con el portátil al 8 %, dime rápido cómo guardo en PDF",
    "入浴は中止にして清拭でいいですよね",
    "あー腹減った、もう何でもいいからすぐできるやつ教えて",
    "うちの子がまた本番で落ちた。",
    "We moved to trunk-based development.",
    "I'm single-minded today.",
    "I married the two branches.",
    "I'm allergic to meetings.",
    "I'm dying to see it.",
    "I'm dying for a beer.",
    "Asthma affects millions of people.",
    "No eggs left in the fridge.",
    "I cut the onions without crying.",
    "Explain the passive voice with an example.",
    "That will do.",
    "my baby is finally in production",
    "I'm tired today.",
    "I'm starving.",
    "Oh great, I just love working weekends.",
    "Am I allergic to nuts?",
    "If I lived in Rome, I would walk more.",
    "Imagine I was a nurse in Utrecht.",
    "A woman on the train said she speaks nine languages.",
    '"I live on a boat," she sang.',
    "Make it shorter.",
    "Translate this into German, please.",
    "I have a question about taxes.",
    "I think the second draft reads better.",
    "Ich versteh nur Bahnhof.",
    "Bin ich gegen Tetanus geimpft?",
    "Angenommen, ich wäre Beamter in Bayern.",
    "Ich bin heute müde.",
    "Si viviera en Japón comería sushi cada día.",
    "Estoy en las nubes, repítemelo.",
    "Si j'avais un bateau, je partirais demain.",
    "J'ai un chat dans la gorge.",
    "如果我有一百万，就去环游世界",
    "我是不是色盲？",
    "もし宝くじが当たったら、仕事を辞めるのに",
    "今日は頭が真っ白です",
)


INSTRUCTED = {
    "For tax questions: plain words, no Latin.": "For this question: no Latin, please.",
    "Bei Verträgen eine Tabelle mit Fristen.": "Für heute Abend ein Rezept ohne Fleisch.",
    "Para los correos, tono seco.": "Para mañana necesito un resumen corto.",
    "Pour mes mails : pas de blabla.": "Pour ce soir une recette sans viande.",
    "For spreadsheets assume LibreOffice.": "For the spreadsheet use a bigger font.",
    "I want sources with every claim.": "I want a source.",
    "Replies shouldn't be longer than a postcard.": "The replies were short.",
    "My eyes are tired, short paragraphs please.": "Short answers are a sign of temper, I hear.",
    "Units: metric.": "Ana: metric units, always.",
    "On se tutoie, d'accord ?": "On se voit demain, d'accord ?",
    "Können wir uns bitte duzen?": "Können wir uns morgen sehen?",
    "Could you round prices to the euro? Every time.": "Could you round prices to the euro?",
    "Kannst du mir immer erst das Ergebnis sagen?": "Kannst du mir das Ergebnis sagen?",
    "¿Puedes poner siempre la fuente?": "¿Puedes poner la fuente?",
    "Tu peux toujours mettre la source ?": "Tu peux mettre la source ?",
    "金額は税込みで書いてもらえますか、毎回。": "金額を書いてもらえますか。",
    "代码里变量名用英文。": "变量名用了什么？",
    "Never translate the names of dishes.": "Translate the names of the dishes.",
    "Talk to me as if I were twelve.": "Imagine I were twelve.",
    "Hör auf mit « klar ! » und « gern ! », komm immer zum Punkt.": "Er sagte « klar ! » dazu.",
}
"""Instructions of each form, and what looks like them for the moment or of others."""


def found(text: str) -> list[Statement]:
    return [claim for claim in claims(text) if isinstance(claim, Statement)]


def ids(text: str) -> set[str]:
    return {one.fact_id for one in found(text)}


def test_first_person_sentences_are_statements_of_their_class() -> None:
    wrong = [
        f"{fact_id}: {text!r}: {[(one.fact_id, one.statement) for one in found(text)]}"
        for fact_id, texts in STATED.items()
        for text in texts
        if not any(one.fact_id == fact_id and one.statement in text for one in found(text))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_request_to_answer_in_a_language_lasts_and_other_words_of_a_class_tell_none() -> None:
    keys = {text: {one.key for one in found(text)} for text in (*LANGUAGES, *NO_CLASS)}
    assert not [text for text in LANGUAGES if "answer language" not in keys[text]]
    assert not {text: keys[text] for text in NO_CLASS if keys[text] - {"statement"}}


def test_an_instruction_that_lasts_is_told_from_one_of_the_moment_by_its_form() -> None:
    wrong = []
    for lasting, other in INSTRUCTED.items():
        wrong += [] if "user_instruction" in ids(lasting) else [lasting]
        wrong += [other] if "user_instruction" in ids(other) else []
    assert not wrong, "\n".join(wrong)


def test_what_is_told_before_a_question_is_a_statement_though_it_has_no_mark_or_word() -> None:
    for text, told in {
        "I keep two donkeys, what is the best thing to put on their hooves when it gets wet": "I keep two donkeys",
        "うちは毎朝五時に店を開けるんだけど、仕込みって前の晩でも平気？": "うちは毎朝五時に店を開けるんだけど",
    }.items():
        assert [one.statement for one in found(text)] == [told]


def test_what_begins_like_a_question_but_tells_something_is_told_whole() -> None:
    for text in (
        "He swapped my mints for his, which was kind, as sesame closes my throat.",
        "Hausstaub ist mein Endgegner, bin allergisch seit ich denken kann.",
    ):
        assert [one.statement for one in found(text)] == [text]
    [one] = found("I keep two donkeys on a hill, which hay is best in winter")
    assert one.statement == "I keep two donkeys on a hill"


def test_what_everybody_says_in_so_many_words_is_believed_but_not_what_is_supposed() -> None:
    assert not [text for text in PLAIN if not found(text)]
    assert not [text for text in SUPPOSED if found(text)]
    finished = [text for text in PLAIN if text.endswith((".", "。"))]
    assert not [text for text in finished if not found(f"{text} {SUPPOSED[0]}")]
    assert ids("もし英語で質問しても日本語で答えてください。") == {"user_instruction"}
    assert ids("Say we instead of I in everything you write for me.") == {"user_instruction"}
    [one] = found("If my wife had nuts in the house I'd die, I'm allergic to nuts.")
    assert one.fact_id == "user_allergy"


def test_a_line_end_makes_no_text_to_work_on_of_a_statement() -> None:
    assert [one.statement for one in found("I am a vegetarian\n")] == ["I am a vegetarian"]


def test_what_looks_like_a_word_for_an_illness_or_a_rule_of_food_tells_none() -> None:
    for text in (
        "我住在伊斯兰堡。",
        "我在清洁食堂工作。",
        "Me siento minusvalorado en mi trabajo.",
        "I'm a radiotherapist.",
        "Ich wohne in der Basedowstraße in Hamburg.",
    ):
        assert ids(text) <= {"user_statement", "user_home", "user_employer", "user_job"}, text


def test_an_instruction_keeps_the_fragment_behind_it() -> None:
    [one] = found("Always write dates with the day first. Like 3 May 2031.")
    assert one.statement == "Always write dates with the day first. Like 3 May 2031."
    [one] = found("Always write dates with the day first. Is 3 May a Monday?")
    assert one.statement == "Always write dates with the day first."
    [one] = found("Leave the vendor folder alone from now on. Don't edit a thing in there.")
    assert one.statement.endswith("Don't edit a thing in there.")


def test_figures_of_speech_conditions_hearsay_and_the_moment_are_no_statements() -> None:
    wrong = [f"{text!r}: {found(text)}" for text in (*NOT_STATED, *REMARKS) if found(text)]
    wrong += [
        text for text in ENCOURAGED if {one.fact_id for one in found(text)} - {"user_statement"}
    ]
    assert not wrong, "\n".join(wrong)


def test_a_plan_of_several_people_is_told_with_all_of_them() -> None:
    said = "My partner Sam and I are flying to Oslo next Friday"
    assert [one.statement for one in found(f"{said}.") if one.fact_id == "user_plan"] == [
        f"{said}."
    ]


HEALTH_OF_OTHERS = [
    "The lodger turned out to eat no meat and drink no coffee.",
    "Der Gerd wohnt jetzt im betreuten Wohnen, er ist taub.",
    "Le chat du gardien prend de la cortisone.",
    "El cachorro de los Marín es alérgico a las avispas.",
    "生徒さんの子に小麦アレルギーがあって、おやつに悩みます。",
]


def test_health_that_a_sentence_tells_of_somebody_else_is_not_the_users() -> None:
    wrong = [
        text
        for text in HEALTH_OF_OTHERS
        if {one.fact_id for one in found(text)} - {"user_statement"}
    ]
    assert not wrong, "\n".join(wrong)


def test_a_clear_sentence_of_the_speaker_needs_no_word_of_what_lasts() -> None:
    wrong = []
    for text, (denied, others) in CLEAR.items():
        wrong += [
            text for text in (text, denied) if [one.statement for one in found(text)] != [text]
        ]
        wrong += [text for text in others if found(text)]
    assert not wrong, "\n".join(wrong)


def test_a_fact_keeps_its_clause_with_its_negation_and_its_time() -> None:
    rows = {
        "Never use tabs, please.": "Never use tabs",
        "I live in Leeds since May, can you find me a plumber?": "I live in Leeds since May",
        "Hi! I like all soups except leek. What else?": "I like all soups except leek",
        "Short version: my name is Imre.": "my name is Imre",
    }
    for text, clause in rows.items():
        [one] = found(text)
        assert clause in one.statement, one
        assert "What" not in one.statement, one
        assert "can you" not in one.statement, one
        assert "ever" in one.value or "Never" not in text, one
    long = "I live in Leeds, " + ", ".join(
        f"the {number}th house on the left" for number in range(20)
    )
    [one] = found(long)
    assert one.statement.startswith("I live in Leeds")
    assert len(one.statement) <= STATEMENT_CHARS_MAX


def test_no_statement_is_told_with_a_sentence_beside_it_that_holds_a_secret() -> None:
    for text in (
        "We keep bees behind the barn. Never tell anyone my password is Tr0ub4dor&3.",
        "Leave the vendor folder alone from now on. Not the one with password Tr0ub4dor&3 in there.",
    ):
        statements = [one.statement for one in found(text)]
        assert statements, text
        assert not any("Tr0ub4dor" in statement for statement in statements), text


def test_a_sentence_that_joins_another_brings_no_number_of_a_card() -> None:
    for first in (
        "I always book trips with my credit card.",
        "Always charge it to my credit card.",
    ):
        for then in ("Never with 8812 4477 1234.", "Not 88 12 44 77."):
            assert not [one for one in found(f"{first} {then}") if "8" in one.told], then


def test_a_statement_is_kept_with_the_sentence_behind_it_that_negates() -> None:
    text = "Gave up motorbikes after the crash. Not getting on one ever again, so stop the deals."
    assert [one.statement for one in found(text)] == [text]
    [one] = found("I keep two donkeys. Not sure about a third one yet.")
    assert one.statement == "I keep two donkeys."


def test_what_becomes_of_the_other_forms_of_each_rule() -> None:
    """Asked, quoted, imagined and said of others, no example of an English rule states its fact."""
    wrong = []
    for language, rule in RULES:
        if language.name != "English" or rule.deletes or "remind" in rule.on:
            continue
        example = rule.example.rstrip(".!")
        for form in (
            f'The sign said "{example}".',
            f"In my dream {example}.",
            f"Bob: {example}",
            f"> {example}",
        ):
            fact = (rule.topic.fact_id, rule.value)
            wrong += [form for one in found(form) if (one.fact_id, one.value) == fact]
        # another fact of the example is told by its own clause
        told = [one.told for one in found(f"Hello there. {rule.example}")]
        if not any(rule.value.casefold() in each.casefold() for each in told) and not rule.fixed:
            wrong.append(f"{rule.example}: told as {told}")
    assert not wrong, "\n".join(wrong)


def test_by_its_form_alone_lasts_no_question_code_or_what_something_is_doing() -> None:
    lasting = ("I've got a steel Koga.", "My brother is a plumber in Leeds.", "I live in Leeds.")
    passing = (
        "I've got a hunch about this mail, does it look right?",
        "I've got `cart_id` in two places.",
        "My ears are ringing.",
    )
    assert [text for text in lasting if not found(text)] == []
    assert [text for text in passing if found(text)] == []


def test_a_path_is_no_value() -> None:
    assert {one.fact_id for one in found("So I live in /opt/app at run time.")} <= {
        "user_statement"
    }


def test_what_somebody_likes_behind_a_number_is_no_instruction() -> None:
    assert [one.fact_id for one in found("Question 3. I like thing 3.")] == ["user_like"]


@pytest.mark.parametrize(
    "text",
    [
        "The patient is diabetic. He takes metformin.",
        "She needs crutches for six weeks.",
        "He's allergic to penicillin.",
        "Tomasz is allergic to pollen.",
        "Ben has asthma and Ilka is a vegetarian.",
        "My daughter is allergic to eggs",
        "dad's had a stroke",
        "My son can't eat gluten.",
        "My trainee has epilepsy, so no flashing slides.",
        "Karim keeps halal.",
        "My wife is vegan, but I eat everything.",
        "Our dog is on insulin.",
        "Der Patient ist Diabetiker. Er nimmt Metformin.",
        "Sie ist gegen Penicillin allergisch.",
        "Mein Sohn darf kein Gluten essen.",
        "Lena ist Vegetarierin.",
        "Il prend de la metformine.",
        "Ma fille est allergique aux œufs.",
        "L'entraîneur des petits, Mickaël, est daltonien.",
        "Él es alérgico a la penicilina.",
        "Necesita muletas seis semanas.",
        "Lucía tiene asma y Pablo es vegetariano.",
        "viene a cenar mi sobrino Joel, que es celíaco",
        "我女儿对鸡蛋过敏。",
        "他有糖尿病。",
        "小王对花生过敏。",
        "彼は糖尿病です。",
        "田中さんはピーナッツアレルギーです。",
        "息子はグルテンが食べられません。",
    ],
)
def test_health_of_another_is_not_the_users(text: str) -> None:
    assert ids(text) <= {"user_statement"}


@pytest.mark.parametrize(
    "text",
    [
        "Tomasz is allergic to pollen.",
        "My daughter is allergic to eggs",
        "Our dog is on insulin.",
        "Mein Sohn darf kein Gluten essen.",
        "Ma fille est allergique aux œufs.",
        "Mi hijo no puede comer gluten.",
        "我女儿对鸡蛋过敏。",
        "息子はグルテンが食べられません。",
    ],
)
def test_health_of_another_is_a_statement(text: str) -> None:
    assert [(one.fact_id, one.statement) for one in found(text)] == [("user_statement", text)]


@pytest.mark.parametrize(
    "text",
    [
        "Allergic to nuts here",
        "Been on sertraline since September",
        "peanuts would kill me",
        "Cats make my eyes swell.",
        "They diagnosed me with lupus in May.",
        "The doctor put me on ramipril.",
        "My wife and I are vegan.",
        "My sister cooks, but I'm coeliac.",
        "Ben is vegan, but I'm coeliac.",
        "I have asthma like my mother.",
        "Mir wurde Metformin verschrieben.",
        "Ich habe Asthma wie mein Vater.",
        "Mon médecin m'a mis sous Levothyrox.",
        "J'ai de l'asthme comme mon père.",
        "Tengo asma, como mi madre.",
        "Mi médico me recetó metformina.",
        "医生说我有高血压。",
        "从小就有哮喘。",
        "跟着我妈信佛之后就吃素了，葱蒜也不碰",
        "我和我老婆都吃素。",
        "私は卵アレルギーです。",
        "妻も私もベジタリアンです。",
    ],
)
def test_health_of_the_speaker_is_the_users_whoever_else_is_named(text: str) -> None:
    assert ids(text) & {
        *("user_allergy", "user_condition", "user_medication", "user_diet", "user_food_rule")
    }


CLAUSES = {
    "My name is Zoe, I'm allergic to peanuts and I moved from Berlin to Graz in May.": {
        ("user_name", "Zoe", "My name is Zoe"),
        ("user_allergy", "peanuts", "I'm allergic to peanuts"),
        ("user_home", "Graz", "I moved from Berlin to Graz in May."),
    },
    "I live at 9 Harbour Lane and I am coeliac": {
        ("user_address", "9 Harbour Lane", "I live at 9 Harbour Lane"),
        ("user_diet", "I am coeliac", "I am coeliac"),
        ("user_condition", "I am coeliac", "I am coeliac"),
    },
    "I have asthma, and I never take aspirin.": {
        ("user_condition", "asthma", "I have asthma"),
        ("user_medication", "I never take aspirin", "I never take aspirin."),
    },
    "My name is Zoe and my son is allergic to nuts.": {
        ("user_name", "Zoe", "My name is Zoe"),
        ("user_statement", "my son is allergic to nuts", "my son is allergic to nuts."),
    },
    "I'm allergic to cats and my wife is allergic to dogs.": {
        ("user_allergy", "cats", "I'm allergic to cats"),
        ("user_statement", "my wife is allergic to dogs", "my wife is allergic to dogs."),
    },
    "I live in Leeds, I think, and I love sushi.": {
        ("user_home", "Leeds", "I live in Leeds, I think"),
        ("user_like", "sushi", "I love sushi."),
    },
    "I'm allergic to shellfish and latex, I speak Dutch, Arabic and French": {
        ("user_allergy", "shellfish", "I'm allergic to shellfish and latex"),
        ("user_allergy", "latex", "I'm allergic to shellfish and latex"),
        ("user_language", "Dutch", "I speak Dutch, Arabic and French"),
        ("user_language", "Arabic", "I speak Dutch, Arabic and French"),
        ("user_language", "French", "I speak Dutch, Arabic and French"),
    },
    "Soy alérgica a las nueces y al polen, hablo francés.": {
        ("user_allergy", "nueces", "Soy alérgica a las nueces y al polen"),
        ("user_allergy", "polen", "Soy alérgica a las nueces y al polen"),
        ("user_language", "francés", "hablo francés."),
    },
    "Je suis allergique aux noix, je parle danois.": {
        ("user_allergy", "noix", "Je suis allergique aux noix"),
        ("user_language", "danois", "je parle danois."),
    },
    "Ich heiße Zoe, ich wohne in Graz.": {
        ("user_name", "Zoe", "Ich heiße Zoe"),
        ("user_home", "Graz", "ich wohne in Graz."),
    },
    "我叫小美，我住在上海。": {
        ("user_name", "小美", "我叫小美"),
        ("user_home", "上海", "我住在上海。"),
    },
}


@pytest.mark.parametrize("text", CLAUSES)
def test_each_fact_of_a_sentence_is_told_by_its_own_clause(text: str) -> None:
    assert {(one.fact_id, one.value, one.statement) for one in found(text)} == CLAUSES[text]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("I'm allergic to nuts, love pasta", ["nuts"]),
        ("I'm allergic to peanuts, walnuts and sesame.", ["peanuts", "walnuts", "sesame"]),
        ("I'm allergic to peanuts, walnuts, and sesame.", ["peanuts", "walnuts", "sesame"]),
        ("Ich bin allergisch gegen Nüsse und Milch, spreche Deutsch", ["Nüsse", "Milch"]),
        ("Je suis allergique aux noix et au lait, adore le pain", ["noix", "lait"]),
        ("我对花生和芝麻过敏", ["花生", "芝麻"]),
        ("I moved to Graz in May and to Wels in July", ["Wels"]),
        ("I moved to Graz in 2019", ["Graz"]),
        ("I live in Rio de Janeiro", ["Rio de Janeiro"]),
        ("Me mudé a Graz en mayo y a Wels en julio", ["Wels"]),
        ("J'ai déménagé à Graz en mai", ["Graz"]),
    ],
)
def test_a_value_ends_where_another_clause_or_a_date_begins(text: str, values: list[str]) -> None:
    assert [one.value for one in found(text)] == values


@pytest.mark.parametrize(
    "text",
    [
        *("Commit.", "Commit and push.", "Format the code.", "Stop.", "Keep going.", "Go on."),
        *("Fix it.", "Push the branch.", "Commit these two files.", "Squash and merge."),
        *("Weiter.", "Formatiere die Datei.", "Mach einen Commit.", "Sigue.", "Haz el commit."),
        "if anything comes up ring me on 07700 900418, i'm usually about after four",
        *("Continue.", "Fais le commit.", "提交代码。", "继续。", "コミットお願い。", "続けて。"),
    ],
)
def test_order_of_the_moment_is_no_instruction(text: str) -> None:
    assert not ids(text)


@pytest.mark.parametrize(
    "text",
    [
        "Be concise.",
        "Be terse.",
        "No emojis",
        "Never deploy on Fridays.",
        "Never restart prod on weekends.",
        "Never touch migrations that have been merged; always add a new file.",
        "My name in commits is 'R. Okafor'",
        "stop calling me Samuel, it's Sam",
        "keep it short, tiny screen",
        "Ruf niemals vor acht bei mir an.",
        "Ruf mich nie sonntags an.",
        "Nunca despliegues en viernes.",
        "Ne déploie jamais la veille d'un congé.",
    ],
)
def test_standing_order_is_one_instruction_in_its_whole_sentence(text: str) -> None:
    assert [(one.fact_id, one.statement) for one in found(text)] == [("user_instruction", text)]


def test_sentence_in_small_letters_ends_behind_a_long_number() -> None:
    [one] = found("my locker is 214. i live in Leeds.")[-1:]
    assert (one.value, one.statement) == ("Leeds", "i live in Leeds.")
    assert [one.value for one in found("my flat is on the 3. floor, i live in Leeds.")] == ["Leeds"]


def test_sentence_ends_behind_a_letter_that_is_no_initial() -> None:
    assert [one.value for one in found("We chose plan B. I live in Leeds.")][-1] == "Leeds"
    [one] = found("I take vitamin C. I live in Leeds.")[-1:]
    assert one.statement == "I live in Leeds."
