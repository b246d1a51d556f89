"""Which questions are about the person who asks, and which about the world."""

import orjson

from benchmarks.train_heads import FOLDER
from memsvc.core.analysis import content_terms, uncommon_terms
from memsvc.core.question_kinds import (
    ASKS_MIN,
    QuestionKind,
    kind_by_meaning,
    kind_in_memory,
    kind_of,
)

GENERAL_MIN, MISTAKEN_MAX = 0.4, 0.05
"""Shares of the prompts of a writer from whom no word was learned: of those that need no memory
that words alone take for general, and of those that do."""
OWN = """
what's my dentist's name
where did I park
which language do I code in
what did you tell me about the landlord
plan a weekend in Rome for us
why are our docker images so large
Wie heißt meine Chefin?
Haben Sie mir gesagt, wann der Zug fährt?
Können Sie mir sagen, wann mein Zug fährt?
Welche Tabletten gaben Sie mir?
Check my schedule for me
Was schenke ich meinem Bruder?
¿Qué le regalo a mi madre?
où est-ce que j'habite ?
qu'est-ce que je cuisine ce soir ?
我女儿几岁了
今晚我吃什么好
うちの犬の名前は？
俺の仕事って何だっけ
"""
NOT_OWN = """
tell me a joke about lawyers
can you tell me the boiling point of ethanol
give me three words that rhyme with orange
is 'my dog is ill' spelled correctly
how many feet are in a mile
Erzähl mir einen Witz über Beamte
Könnten Sie mir bitte einen Witz erzählen?
Geben Sie mir ein Rezept für Linsensuppe.
Kannst du mir erklären, was Inflation ist?
Expliquez-moi la photosynthèse
peux-tu me traduire le mot papillon
¿me puedes explicar la inflación?
dime tres sinónimos de feliz
raconte-moi une blague
c'est quoi un trou noir ?
给我讲个笑话
オーストラリアの首都はどこ
who signs the releases
in welcher Filiale läuft der Versuch
"""


def test_words_of_the_user_s_own_matters_make_a_question_personal() -> None:
    for questions, kind in ((OWN, QuestionKind.PERSONAL), (NOT_OWN, QuestionKind.OPEN)):
        for question in questions.strip().splitlines():
            assert kind_of(question) is kind, question


def test_meaning_decides_where_no_word_names_the_user_s_own_matters() -> None:
    for kind, asks, decided in (
        (QuestionKind.OPEN, ASKS_MIN + 0.1, QuestionKind.PERSONAL),
        (QuestionKind.OPEN, -ASKS_MIN - 0.1, QuestionKind.GENERAL),
        (QuestionKind.OPEN, 0.0, QuestionKind.OPEN),
        (QuestionKind.PERSONAL, -ASKS_MIN - 0.1, QuestionKind.PERSONAL),
    ):
        assert kind_by_meaning("anything", kind, asks) is decided


def test_words_alone_know_general_questions_of_a_writer_they_were_not_learned_from() -> None:
    prompts = orjson.loads(FOLDER.joinpath("train.json").read_bytes())
    general: dict[bool, list[bool]] = {True: [], False: []}
    for prompt in prompts:
        kind = kind_by_meaning(prompt["text"], kind_of(prompt["text"]), None)
        general[prompt["memory"]].append(kind is QuestionKind.GENERAL)
    assert sum(general[False]) / len(general[False]) > GENERAL_MIN
    assert sum(general[True]) / len(general[True]) < MISTAKEN_MAX


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


def test_common_words_of_the_question_s_language_are_not_searched():
    assert uncommon_terms("Wo ist der Schlüssel?") == ["schlussel", "schluessel"]
    assert uncommon_terms("son la") == ["son", "la"]
    assert uncommon_terms("我的猫和花园呢") == ["猫", "花园"]
    assert uncommon_terms("什么时候喂猫") == ["候喂", "喂猫"]


def test_question_that_names_a_term_of_the_memory_is_no_general_knowledge() -> None:
    known = {"halina", "spring", "pari", "e0308"}
    for question, kind in (
        ("Write a card for Halina.", QuestionKind.OPEN),
        ("Give me three facts about Halina", QuestionKind.OPEN),
        ("Write a card for Boris.", QuestionKind.GENERAL),
        ("Write a poem about spring.", QuestionKind.GENERAL),
        ("Spring is near. Write about autumn.", QuestionKind.GENERAL),
        ("What does E0308 mean?", QuestionKind.OPEN),
        ("What does E0501 mean?", QuestionKind.GENERAL),
    ):
        assert kind_in_memory(question, QuestionKind.GENERAL, known) is kind, question
    assert kind_in_memory("My Halina", QuestionKind.PERSONAL, known) is QuestionKind.PERSONAL
