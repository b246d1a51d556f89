"""Which parts of a message are the user's own words, and which are text that is worked on."""

from memsvc.core.facts import Statement
from memsvc.core.rules.extraction import extract
from memsvc.core.rules.own_words import own_end, own_spans, pasted_spans, statement_parts, within

# a message, with ⟦ ⟧ around the text that is worked on
DIVIDED = [
    "Here's what the caretaker left on my voicemail.⟦ Hiya, it's Dom. I live in Didsbury. I'm asthmatic.⟧",
    (
        "⟦I wake at five. I feed the goats. My husband sleeps till nine. ⟧What tense is this in? I teach"
        " writing on Thursdays"
    ),
    "Jette schreibt:⟦ ich bin jetzt Veganerin und ziehe nach Lübeck.⟧",
    (
        "Short firm reply to my lodger please, I run a guest house.⟦ Hi, it's Kwame in room 2. I'm allergic to"
        " feathers.⟧"
    ),
    "⟦这家店我从大连跑来吃的。我对虾过敏。服务员还给我上虾。⟧\n\n这条差评咋回？我开小饭馆的。",
    (
        "on tient un gîte à deux et voilà ce qu'on a reçu, tu répondrais quoi ?⟦ Je suis venue de Metz avec mon"
        " bébé. Je ne supporte pas les chats. Personne ne m'a prévenue.⟧"
    ),
    "Translate this for reference:⟦ I live in Rome and my wife is a lawyer.⟧",
    "How do you say ⟦'I live in Rome'⟧ in French?",
    "Translate:⟦ I live in Paris.⟧",
    (
        "hey can u sum this up for me, I teach ethics\n\n⟦I was raised in Tromsø by two lighthouse keepers."
        " I hated fish. At nineteen I left for Marseille.⟧"
    ),
    "I'm the accountant here, so keep the figures. Shorten this:\n\n⟦I moved to Tulsa. I owe Ana $40.⟧",
    (
        "⟦From: Pilar <p@example.org>\nSubject: your booking\n\nHello, I manage the hostel in Ronda. I"
        " don't accept cards.\n\nBest,\nPilar⟧\n\nDoes she want cash? I'm arriving with my wife."
    ),
    "⟦Anna: I'm moving to Ghent\nBob: nice, I hate Ghent⟧\n\nmake minutes of it, I'm the chair",
    "⟦[10:32] Tomas: I sold the Volvo\n[10:33] Ines: I've quit smoking⟧\n\nWho sold what?",
    "What should I write back to this guy?\n\n⟦Hey, I'm Dirk, 44. I live on a boat. I've two dogs.⟧",
    (
        "My daughter has to learn this poem, what's it about?\n\n⟦I am the river, I am the stone,\n"
        "I live in the valley and I sleep alone.\nMy mother is rain and my father is snow.⟧"
    ),
    "⟦> I moved to Lisbon\n> and I regret it⟧\n\nHow would you answer him? I moderate the forum.",
    "⟦```\nI live in a box\n```⟧\nlint this, we use 2 spaces",
    'Play this character, I want to rehearse:⟦ "I run a sawmill. I\'m diabetic."⟧ I sell hydraulics.',
    "⟦You are Mabel, a concierge in Sarasota. I speak only in rhymes.⟧",
    (
        "Find the mistakes, it's my lodger's:\n\n⟦Name: Obinna\nAddress: Dundee\nI keep bees.⟧\n\n"
        "I promised him it'd be done tonight."
    ),
    "Klingt das höflich genug?\n\n⟦Sehr geehrte Frau Lohmeier, ich wohne in Kiel. Ich ziehe aus.⟧",
    (
        "Fass mir den Chat zusammen, ich bin Elternsprecherin:\n⟦Tanja: wir ziehen nach Husum\n"
        "Ole: ich vertrage keine Laktose⟧"
    ),
    "Tradúceme al inglés la carta de mi cuñada:\n\n⟦Me llamo Yolanda y soy celíaca.⟧",
    "Mon collègue m'a envoyé ça, je réponds quoi ?\n⟦« Je suis muté à Nancy. »⟧",
    "traduis ça en français, moi j'ai fait allemand :\n\n⟦Hi, I'm allergic to walnut dust. I moved.⟧",
    "请把这段话翻成英文：⟦我叫赵磊，住在洛阳，对芒果过敏。⟧",
    "⟦小袁：我下个月回绵阳\n大鹏：我女朋友海鲜过敏⟧\n\n以上是群里的聊天记录，我刚当上组长。",
    "添削お願いします。\n\n⟦私は去年から長野に住んでいます。犬がいます。名前はポチです。⟧",
    "⟦Dear Agony Aunt, I am 64. I own a boat. Yours, Flustered in Poole ⟧///// what should I reply to this?",
    "Who's in the wrong here?\n\n⟦AITA for this? I (27F) work nights. We live in Tulsa.⟧",
    (
        "mach eine Tabelle daraus:\n⟦Steckbrief 1: Ich bin Imkerin.\nSteckbrief 2: Ich fahre Bahn.⟧\n"
        "Brauch das für unser Treffen, das organisiere ich jeden Mittwoch"
    ),
    (
        "Tú qué le contestarías?\n⟦«Yo ya no bebo y hago crossfit cada día»⟧\nCon gracia, que yo soy de"
        " Cádiz"
    ),
    "Dis-moi si ça sonne juste :\n\n⟦— Je suis convoyeur de fonds. J'habite à Roubaix.⟧",
    (
        "Spiel folgende Kundin:⟦ Heidrun, 58. „Ich kaufe nur bei euch, seit Jahren.“ ⟧Ich bin Optiker."
    ),
    "french please -⟦ I moved to Tulsa. I work nights. My wife runs a bakery.⟧",
    "reddit post, who's the asshole?\n\n⟦I moved to Tulsa. I work nights. I eat no pork.⟧",
    "ins Englische:\n⟦Ich wohne in Husum. Ich arbeite nachts. Wir haben zwei Hunde.⟧",
    "もっと短く\n\n⟦私は長野に住んでいます。犬がいます。夜勤をしています。⟧",
    "次のメールに返信を書いて。私は受付です。\n\n⟦いつもお世話になっております。来月で退職します。⟧",
]

OWN = [
    "Just so you have it: our wedding anniversary is the 3rd of October",
    "How should I reply to a recruiter? I'm a nurse in Leeds. I work nights. I have two kids.",
    "What does BATNA mean? I'm doing an MBA part time. I live in Porto. My wife is a lawyer.",
    "My dentist recommended this toothpaste. I have sensitive teeth. I drink a lot of tea.",
    "我在成都开了家面馆。我老婆是重庆人。我们有两个女儿。怎么说服房东降租？",
    "Short version: my name is Imre",
    "I can't do dairy. Anyway, can you fix this email?",
    "Vivo en Teruel. Por cierto, ¿me corriges este correo?",
    "btw: I moved to Bergen last week",
    "Kurz: ich heiße Fiete.",
    "Kurze Frage: ich bin Veganerin, darf ich das essen?",
    "Petite précision : je suis végétarienne.",
    "补充：我住在苏州。",
    "ちなみに：私は看護師です。",
    "About me:\n- I live in Kiel\n- I have two cats",
    "Job: I'm a nurse\nHome: I live in Kiel",
    "From: Oslo\nTo: Bergen\nDate: 4 June\n\nI prefer the window seat.",
    "Here's some background on me:\n\nI'm a nurse. I work nights. I have two kids.\n\nPlan my week?",
    "Is this normal?\n\nI'm 34 and I take metformin twice a day.",
    "What should I cook?\n\nI'm allergic to nuts. My son hates fish. We have an oven.",
    "Act as a dietitian. I'm vegan and 34. Make me a plan.",
    "I translate contracts for a living. I live in Graz. I have two kids. I ride a bike.",
    "Write an email to my landlord. I live in flat 4B. The heating is broken. I work from home.",
    "Always translate my mails to French before you send them. I live in Lyon.",
    "Remember this:\n1. I live in Basel\n2. my wife is called Mia",
    "Commit messages: imperative mood, max 50 chars.",
    "Ich brauche eine Bewerbung. Ich bin Köchin. Ich habe in Rostock gearbeitet. Ich suche Arbeit.",
    "帮我写一封辞职信。我在杭州做会计，下个月要回老家。",
    "履歴書を書いてほしい。私は看護師です。",
]


def _marked(text: str) -> str:
    for start, end in reversed(pasted_spans(text)):
        text = f"{text[:start]}⟦{text[start:end]}⟧{text[end:]}"
    return text


def test_a_message_is_divided_into_own_words_and_text_that_is_worked_on() -> None:
    wrong = [
        marked
        for row in (*DIVIDED, *OWN)
        if (marked := _marked(row.translate({0x27E6: "", 0x27E7: ""}))) != row
    ]
    assert not wrong, "\n".join(wrong)


def test_no_fact_holds_a_word_that_only_a_text_worked_on_has() -> None:
    wrong = []
    for row in DIVIDED:
        parts = row.replace("⟧", "⟦").split("⟦")
        own = "".join(parts[::2])
        text = "".join(parts)
        for claim in extract([("e", text)], session="s", turn="t", user=""):
            if isinstance(claim, Statement) and claim.told.rstrip("…") not in own:
                told = claim.statement or claim.value
                wrong += [] if told.strip(" .…") in own else [(text, told)]
    assert not wrong, wrong


def test_a_sentence_ends_where_the_text_begins_that_it_introduces() -> None:
    for text, own in (
        ("Translate for my aunt: I live in Rome.", "Translate for my aunt:"),
        ("I sing 'Angie' every day.", "I sing 'Angie' every day."),
        ("I read “One Hundred Years of Solitude” twice.", None),
        ("My uncle wrote “I live in Rome and I hate it” today.", "My uncle wrote "),
    ):
        end = own_end(text, pasted_spans(text), 0, len(text))
        assert text[:end] == (own or text)


def test_beside_a_text_only_what_is_not_about_it_tells_something() -> None:
    for text, told in (
        ("Sum up the chat, I'm the chair of the PTA:", ["I'm the chair of the PTA"]),
        ("My tenant sent me this and I don't read Spanish:", ["I don't read Spanish"]),
        ("Traduis ça, moi j'ai fait allemand :", ["moi j'ai fait allemand"]),
        ("压缩成三句话，我是做外贸的：", ["我是做外贸的"]),
        ("Here's a note that came in;", []),
        ("it went to my mum's account", []),
        ("C'est pour mon atelier du jeudi", ["C'est pour mon atelier du jeudi"]),
        ("I run the salon since 2011.", ["I run the salon since 2011."]),
    ):
        parts = [text[start:end].strip() for start, end in statement_parts(text, 0, len(text))]
        assert parts == told


def test_own_spans_are_all_that_is_not_worked_on() -> None:
    text = 'My dog "Rex" died. Translate: I live in Rome.\n\n(I play "I will survive")'
    own = [text[start:end] for start, end in own_spans(text)]
    assert own == ['My dog "Rex" died. Translate:', "\n\n(I play ", ")"]
    assert own_spans("") == pasted_spans("") == []
    assert [within([(2, 4), (6, 7)], position) for position in range(8)] == [
        *(False, False, True, True),
        *(False, False, True, False),
    ]


def test_who_gives_out_roles_speaks_as_somebody_else() -> None:
    for text in (
        "You're the ferryman and I'm a widowed queen with nine cats. Go.",
        "Let's make up a game: I'm a blind pirate, I live on a reef.",
        "我演怕水的海盗，住在礁石上，你演船长",
    ):
        assert pasted_spans(text) == [(0, len(text))], text
    for text in ("You're the best! I live in Leeds.", "Our game jam repo: nobody pushes to main."):
        assert not pasted_spans(text), text


def test_a_text_that_is_not_in_the_message_makes_nothing_else_one() -> None:
    for text in (
        "It's my fourth month of keto, no potatoes. Can you check the grammar in this toast?",
        "ヴィーガンになって三年。この文章、校正してくれる?",
        "我一碰芒果嘴就肿，从小就这样。话说这个合同第三条什么意思?",
    ):
        assert not pasted_spans(text), text
    assert pasted_spans("I moved to Tulsa in March. Can you translate this into German?")
