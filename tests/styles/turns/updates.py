"""Two hundred changes of mind: what a user says first, what later, what is asked then, and what is
true by then."""

from dataclasses import dataclass

NAMES = (("Ada", "Grace"), ("Tomás", "Eve"), ("Noor", "Zoë"))
PLACES = (("Paris", "Berlin"), ("Lima", "Oslo"), ("Quito", "Madrid"))
THINGS = (("jazz", "olives"), ("chess", "tea"), ("opera", "coffee"))
FIRMS = (("Acme", "Globex"), ("Initech", "Siemens"), ("Renault", "Hooli"))
HAN_NAMES = (("小明", "小红"), ("李雷", "韩梅"), ("安娜", "王芳"))
HAN_PLACES = (("上海", "北京"), ("成都", "广州"), ("东京", "杭州"))
HAN_THINGS = (("爵士乐", "香菜"), ("茶", "咖啡"), ("足球", "电影"))
KANA_NAMES = (("花子", "太郎"), ("アナ", "ユキ"), ("ケン", "ミカ"))
KANA_PLACES = (("東京", "大阪"), ("京都", "札幌"), ("福岡", "名古屋"))
KANA_THINGS = (("ジャズ", "パクチー"), ("紅茶", "コーヒー"), ("映画", "野球"))

# first | later | question: {0} is the old value, {1} the new one; a line that says no {1} takes
# something back.
_CHANGES = {
    NAMES: """
        My name is {0}. | Actually, my name is {1}. | What is my name?
        My name is {0}. | My name is not {0}. | What is my name?
        Call me {0}. | Please call me {1}. | What should you call me?
        My wife is called {0}. | My wife's name is {1}. | What is my wife's name?
        My dog is called {0}. | I don't have a dog any more. | What is my dog called?
        My cat {0} is old. | My cat {0} died. | What is my cat called?
        Ich heiße {0}. | Nein, ich heiße {1}. | Wie heiße ich?
        Meine Frau heißt {0}. | Meine Frau heißt {1}. | Wie heißt meine Frau?
        Mein Hund heißt {0}. | Ich habe keinen Hund mehr. | Wie heißt mein Hund?
        Je m'appelle {0}. | En fait, je m'appelle {1}. | Comment je m'appelle ?
        Ma femme s'appelle {0}. | Ma femme s'appelle {1}. | Comment s'appelle ma femme ?
        Me llamo {0}. | Perdón, me llamo {1}. | ¿Cómo me llamo?
        Mi esposa se llama {0}. | Mi esposa se llama {1}. | ¿Cómo se llama mi esposa?
    """,
    PLACES: """
        I live in {0}. | I moved to {1}. | Where do I live?
        I live in {0}. | I don't live in {0} any more. | Where do I live?
        I'm from {0}. | No, I'm from {1}. | Where am I from?
        Ich wohne in {0}. | Ich bin nach {1} gezogen. | Wo wohne ich?
        Ich wohne in {0}. | Ich wohne nicht mehr in {0}. | Wo wohne ich?
        J'habite à {0}. | J'ai déménagé à {1}. | Où est-ce que j'habite ?
        J'habite à {0}. | Je n'habite plus à {0}. | Où est-ce que j'habite ?
        Vivo en {0}. | Me mudé a {1}. | ¿Dónde vivo?
        Vivo en {0}. | Ya no vivo en {0}. | ¿Dónde vivo?
        I live in {0}. | Ich wohne jetzt in {1}. | Where do I live?
    """,
    THINGS: """
        I like {0}. | I no longer like {0}. | What do I like?
        I like {0}. | I hate {0}. I like {1}. | What do I like?
        I prefer {0}. | I prefer {1}. | What do I prefer?
        I hate {0}. | I love {0}. I hate {1}. | What do I dislike?
        My favourite drink is {0}. | My favourite drink is {1}. | What is my favourite drink?
        I'm allergic to {0}. | I'm not allergic to {0} any more. | What am I allergic to?
        Ich mag {0}. | Ich mag {0} nicht mehr. | Was mag ich?
        Ich bevorzuge {0}. | Ich bevorzuge {1}. | Was bevorzuge ich?
        J'adore {0}. | Je n'aime plus {0}. | Qu'est-ce que j'adore ?
        Je préfère {0}. | Je préfère {1}. | Qu'est-ce que je préfère ?
        Me gusta {0}. | Ya no me gusta {0}. | ¿Qué me gusta?
        Prefiero {0}. | Prefiero {1}. | ¿Qué prefiero?
    """,
    FIRMS: """
        I work at {0}. | I work for {1} now. | Where do I work?
        I work at {0}. | I no longer work at {0}. | Where do I work?
        Ich arbeite bei {0}. | Ich arbeite jetzt bei {1}. | Wo arbeite ich?
        Ich arbeite bei {0}. | Ich arbeite nicht mehr bei {0}. | Wo arbeite ich?
        Je travaille chez {0}. | Je travaille maintenant chez {1}. | Où est-ce que je travaille ?
        Trabajo en {0}. | Ahora trabajo en {1}. | ¿Dónde trabajo?
        My car is a {0}. | My car is a {1}. | What is my car?
        My car is a {0}. | I sold my car. | What is my car?
    """,
    (("vegetarian", "vegan"), ("vegan", "pescatarian"), ("pescatarian", "vegetarian")): """
        I'm {0}. | I'm {1} now. | What is my diet?
        I'm a {0}. | I'm no longer a {0}. | What is my diet?
        I'm {0}. | I eat meat again. | What is my diet?
    """,
    (("vegetarisch", "vegan"), ("vegan", "vegetarisch")): """
        Ich esse {0}. | Ich esse jetzt {1}. | Wie ist meine Ernährung?
        Ich bin {0}. | Ich esse wieder Fleisch. | Wie ist meine Ernährung?
    """,
    (("végétarien", "vegan"), ("vegan", "végétarien")): """
        Je suis {0}. | Je suis maintenant {1}. | Quel est mon régime ?
        Je suis {0}. | Je ne suis plus {0}. | Quel est mon régime ?
    """,
    (("vegetariano", "vegano"), ("vegano", "vegetariano")): """
        Soy {0}. | Ahora soy {1}. | ¿Cuál es mi dieta?
        Soy {0}. | Ya no soy {0}. | ¿Cuál es mi dieta?
    """,
    (("tabs", "spaces"), ("spaces", "tabs"), ("tabs", "4 spaces")): """
        I use {0}. | I use {1} now. | What is my indentation?
    """,
    (("German", "English"), ("French", "German"), ("Spanish", "Dutch")): """
        Always answer in {0}. | Please answer in {1}. | What language should you answer in?
        I speak {0}. | I don't speak {0}. | Which languages do I speak?
    """,
    HAN_NAMES: """
        我叫{0}。 | 不，我叫{1}。 | 我叫什么名字？
        我妻子叫{0}。 | 我妻子叫{1}。 | 我妻子叫什么？
        我的狗叫{0}。 | 我现在没有狗了。 | 我的狗叫什么？
    """,
    HAN_PLACES: """
        我住在{0}。 | 我搬到{1}了。 | 我住在哪里？
        我住在{0}。 | 我不再住在{0}。 | 我住在哪里？
        我来自{0}。 | 不，我来自{1}。 | 我来自哪里？
    """,
    HAN_THINGS: """
        我喜欢{0}。 | 我不喜欢{0}。 | 我喜欢什么？
        我更喜欢{0}。 | 我更喜欢{1}。 | 我更喜欢什么？
        我对{0}过敏。 | 我对{0}不再过敏。 | 我对什么过敏？
    """,
    KANA_NAMES: """
        私の名前は{0}です。 | いいえ、私の名前は{1}です。 | 私の名前は？
        妻の名前は{0}です。 | 妻の名前は{1}です。 | 妻の名前は？
        犬の名前は{0}です。 | もう犬は飼っていません。 | 犬の名前は？
    """,
    KANA_PLACES: """
        {0}に住んでいます。 | {1}に引っ越しました。 | 私はどこに住んでいますか？
        {0}に住んでいます。 | もう{0}に住んでいません。 | 私はどこに住んでいますか？
        {0}出身です。 | いいえ、{1}出身です。 | 私の出身は？
    """,
    KANA_THINGS: """
        {0}が好きです。 | {0}はもう好きじゃない。 | 私は何が好きですか？
        {0}の方が好きです。 | {1}の方が好きです。 | どちらの方が好き？
        {0}のアレルギーがあります。 | {0}のアレルギーはもうありません。 | 何のアレルギーがありますか？
    """,
}


@dataclass(frozen=True)
class Update:
    """A change of mind; `new` is "" where something was taken back."""

    first: str
    later: str
    question: str
    old: str
    new: str


def updates() -> list[Update]:
    """All of them, each line with each pair of its values."""
    made = []
    for pairs, lines in _CHANGES.items():
        for line in lines.strip().splitlines():
            first, later, question = (part.strip() for part in line.split(" | "))
            for old, new in pairs:
                filled = [part.format(old, new) for part in (first, later, question)]
                fresh = (
                    "eats meat"
                    if "eat meat" in later or "wieder Fleisch" in later
                    else new
                    if "{1}" in later
                    else ""
                )
                made.append(Update(*filled, old, fresh))
    return made
