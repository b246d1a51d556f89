"""Which questions are about the person who asks, and which about the world or the text in hand."""

from memsvc.core.question_kinds import (
    QuestionKind,
    kind_in_memory,
    kind_of,
)
from memsvc.core.ranking import content_terms

PERSONAL = """
what's my dentist's name
where did I park
which language do I code in
what did you tell me about the landlord
plan a weekend in Rome for us
can you suggest a restaurant for Friday
why are our docker images so large
Wie heißt meine Chefin?
Was schenke ich meinem Bruder?
¿Qué le regalo a mi madre?
qué ceno hoy
où est-ce que j'habite ?
qu'est-ce que je cuisine ce soir ?
我女儿几岁了
今晚我吃什么好
うちの犬の名前は？
俺の仕事って何だっけ
"""
GENERAL = """
tell me a joke about lawyers
can you tell me the boiling point of ethanol
give me three words that rhyme with orange
is 'my dog is ill' spelled correctly
how many feet are in a mile
my dockerfile script fails, what's wrong
I'm trying to sort a column in excel but the header moves
Erzähl mir einen Witz über Beamte
mein python skript hängt sich auf, warum?
Ich brauche ein anderes Wort für "froh"
dime tres sinónimos de feliz
mi función de javascript devuelve undefined
raconte-moi une blague
c'est quoi un trou noir ?
mon code python plante avec une erreur
给我讲个笑话
我的python脚本报错了
面白い冗談を言って
オーストラリアの首都はどこ
"""
OPEN = """
who signs the releases
port for the relay board on the bench
in welcher Filiale läuft der Versuch
quién firma los contratos
"""


def test_questions_are_told_apart():
    tables = {
        QuestionKind.PERSONAL: PERSONAL,
        QuestionKind.GENERAL: GENERAL,
        QuestionKind.OPEN: OPEN,
    }
    assert not [
        (kind.value, kind_of(question).value, question)
        for kind, questions in tables.items()
        for question in questions.strip().splitlines()
        if kind_of(question) is not kind
    ]


def test_common_words_of_the_question_s_language_are_no_evidence():
    assert content_terms("Quelle est la capitale du Pérou ?") == ["capital", "perou"]
    assert content_terms("Wo ist der Mond?") == ["mond"]
    assert content_terms("did the plant die?") == ["plant", "die"]
    assert content_terms("¿no es la mía?") == ["mia"]
    assert content_terms("線が出ないんだけど") == ["出な"]
    assert content_terms("我的狗叫什么") == ["狗叫"]
    assert content_terms("我的猫呢") == ["猫"]
    assert content_terms("格式不对") == ["格式"]
    assert content_terms("son la") == ["son", "la"]


def test_request_that_names_a_term_of_the_memory_is_no_general_knowledge() -> None:
    known = {"halina", "spring", "pari"}
    for question, kind in (
        ("Write a card for Halina.", QuestionKind.OPEN),
        ("Give me three facts about Halina", QuestionKind.OPEN),
        ("Write a card for Boris.", QuestionKind.GENERAL),
        ("Write a poem about spring.", QuestionKind.GENERAL),
        ("Spring is near. Write about autumn.", QuestionKind.GENERAL),
        ("Translate Halina into Greek.", QuestionKind.GENERAL),
        ("What is the capital of Paris?", QuestionKind.GENERAL),
    ):
        assert kind_in_memory(question, QuestionKind.GENERAL, known) is kind, question
    assert kind_in_memory("My Halina", QuestionKind.PERSONAL, known) is QuestionKind.PERSONAL
