"""A small memory answers questions in other words by their meaning, and general ones not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.talk import ask, memory, say

Opened = Callable[..., Door]


@pytest.fixture
async def opened(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope
) -> Opened:
    """Return a function that opens a service with the bundled encoder and turn options."""
    encoder = SentenceEncoder(EmbeddingOptions())
    await encoder.load()

    def make(**options: Any) -> Door:
        turns = TurnOptions(**options)
        return open_door(database, clock, tokens, meter, scope, turns=turns, embedder=encoder)

    return make


@pytest.fixture
def door(opened: Opened) -> Door:
    """Return a service with the bundled encoder."""
    return opened()


PERSONS = {
    "en": (
        ["The old Volvo is gone, a Skoda stands outside now", "Thursdays I fence at the club"],
        [("Which vehicle do we drive?", "Skoda"), ("What sport do I practise?", "fence")],
    ),
    "de": (
        ["Der Opel ist weg, jetzt steht ein Skoda vor der Tür", "Donnerstags fechte ich im Verein"],
        [("Womit fahren wir?", "Skoda"), ("Welchen Sport treibe ich?", "fechte")],
    ),
    "es": (
        ["Vendimos el Seat y llegó un Skoda", "Los jueves hago esgrima en el club"],
        [("¿Qué coche tenemos?", "Skoda"), ("¿Qué deporte practico?", "esgrima")],
    ),
    "fr": (
        ["La Clio est partie, une Skoda la remplace", "Le jeudi je tire au fleuret au club"],
        [("Quelle voiture avons-nous ?", "Skoda"), ("Quel sport je pratique ?", "fleuret")],
    ),
    "zh": (
        ["旧大众卖了，换了一辆斯柯达", "每周四我去俱乐部练击剑"],
        [("我开的是什么车？", "斯柯达"), ("我做什么运动？", "击剑")],
    ),
    "ja": (
        ["古いワーゲンを手放してシュコダにした", "木曜はクラブでフェンシングしてる"],
        [("私のマイカーは何？", "シュコダ"), ("私がやっているスポーツは？", "フェンシング")],
    ),
}
OTHERS = {
    "en": ["Who invented the telephone?", "Why does my regex match twice?", "A rhyme for silver?"],
    "de": ["Wer hat das Telefon erfunden?", "Was macht ein Turbolader im Motor?"],
    "es": ["¿Quién inventó el teléfono?", "¿Cuánto es 17 por 23?"],
    "fr": ["Qui a inventé le téléphone ?", "Combien font 17 fois 23 ?"],
    "zh": ["电话是谁发明的？", "我的正则表达式为什么匹配不到换行？"],
    "ja": ["電話を発明したのは誰？", "「猫に小判」を英語で言うと？"],
}


async def test_personal_questions_find_answers_in_other_words_and_general_ones_find_nothing(
    door: Door,
) -> None:
    wrong = []
    for language, (said, questions) in PERSONS.items():
        for number, text in enumerate(said):
            await say(door, f"t{number}", text, session=f"old {language}", user_id=language)
        for question, held in questions:
            prepared = await ask(door, question, session="new", user_id=language)
            if held not in str(prepared["input_items"][:-1]):
                wrong.append(question)
        for question in OTHERS[language]:
            body = memory(await ask(door, question, session="new", user_id=language))
            if body["facts"] or body["turns"]:
                wrong.append(question)
        stranger = await ask(door, questions[0][0], session="new", user_id=f"other {language}")
        assert len(stranger["input_items"]) == 1
    assert wrong == []


ACROSS = [
    ("The spare key hangs behind the shed door", "Wo hängt der Ersatzschlüssel?"),
    ("Wo wir im Sommer hinfahren, wissen wir noch nicht", "Where are we going this summer?"),
    ("Le plombier passe jeudi pour la fuite", "¿Cuándo viene el fontanero?"),
    (
        "Cuando llega mi suegra, ponemos el mantel de lino",
        "Quelle nappe met-on pour ma belle-mère ?",
    ),
    ("猫のごはんは朝七時と夜八時", "什么时候喂猫？"),
    ("什么时候装修还没定，先把厨房的灯换了", "台所で何を交換した？"),
]
"""Each statement with a question about it in another language. Other statements share the common
words of that question."""


async def test_question_finds_what_was_said_in_another_language_before_what_is_worded_alike(
    door: Door,
) -> None:
    for number, (text, _) in enumerate(ACROSS):
        await say(door, f"t{number}", text, session=f"old {number}", user_id="ada")
    first = []
    for _, question in ACROSS:
        prepared = await ask(door, question, session="new", user_id="ada", explain=True)
        first.append(prepared["explanation"]["candidates"][0]["session"])
    assert first == [f"old {number}" for number in range(len(ACROSS))]


FILLERS = [
    "Thanks, that helps.",
    "ok, next one",
    "Danke, das hilft mir, weiter",
    "gracias, me sirve",
    "好的，下一个",
    "助かりました",
]


async def test_a_block_tells_nothing_twice_and_no_courtesies(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    allergy = "Never serve me walnuts, they bring me out in hives."
    said = [allergy, *FILLERS, "Thursdays I fence at the club."]
    for number, text in enumerate(said):
        await say(door, f"t{number}", text, user_id="ada", session="old")
    told = []
    for question in ("What sport do I practise?", "Where do I fence on Thursdays?"):
        body = memory(await ask(door, question, session="new", user_id="ada"))
        profile = [fact["statement"] for fact in body.get("profile", ())]
        told.append([*profile, *(fact["statement"] for fact in body["facts"])])
        told[-1] += [turn["text"] for turn in body["turns"]]
    assert [sorted(texts) for texts in told] == 2 * [[allergy, "Thursdays I fence at the club."]]


WORK = {
    "en": (
        [
            ("scheduling, no celery please", "Done by systemd: ingest.timer at 02:10 and 14:10."),
            ("where do the mails arrive", "At pollen-in, fetched over IMAP at 07:40."),
            ("use 8000?", "It is taken, so uvicorn listens on port 8127, see app/main.py."),
            ("backups", "Nightly pg_dump with restic, kept 14 daily and 6 monthly."),
            ("more contrast", "The legend is black on white now, changed in map.css."),
        ],
        [
            ("how often is that kicked off", "ingest.timer"),
            ("when do we look into the mailbox", "07:40"),
            ("on which port do we listen", "8127"),
            ("what if we lose everything", "restic"),
        ],
        ["who painted the Mona Lisa?", "What year did the Berlin Wall fall?"],
    ),
    "de": (
        [
            ("wer ist dran wenn ich weg bin", "Vertretung ist Tjark, steht in doku/vertretung.md."),
            ("lizenz eupl", "LICENSE angelegt und in 27 Dateien eine SPDX-Zeile, siehe pruefe.py."),
            ("gelb nervt, setz 325", "Warnschwelle gelb jetzt 325 statt 310."),
            ("alte werte verdichten", "Nach 90 Tagen werden sie zu Stundenmitteln."),
        ],
        [
            ("wer kümmert sich, solange ich verreist bin?", "Tjark"),
            ("darf der quelltext weitergegeben werden?", "SPDX"),
            ("ab welchem wert wird gewarnt, und welche stufe gilt?", "325"),
            ("wie heben wir messwerte auf?", "Stundenmitteln"),
        ],
        ["Wer hat das Telefon erfunden?", "Wie heißt die Hauptstadt von Peru?"],
    ),
}


async def test_reports_of_work_are_found_in_other_words(door: Door) -> None:
    wrong, found = [], 0
    for language, (turns, questions, others) in WORK.items():
        for number, (text, answer) in enumerate(turns):
            await say(door, f"t{number}", text, answer=answer, session=language, user_id=language)
        for question, held in questions:
            told = memory(await ask(door, question, session="new", user_id=language))["turns"]
            found += any(held in turn["text"] for turn in told)
        wrong += [
            question
            for question in others
            if memory(await ask(door, question, session="new", user_id=language))["turns"]
        ]
    assert wrong == []
    assert found >= 7, "of 8 questions in other words"


SPOKEN_OF = [
    ("logs wohin", "Ins Journal, aufbewahrt werden sie 21 Tage."),
    ("dienst stürzt nachts ab", "Ursache war OOM um 3:12, der Bericht lud ein ganzes Jahr."),
    ("schlüssel für frau okonkwo", "Angelegt, Kennung des Schlüssels ist app-03."),
    ("wie heißt die kiste", "Hostname ist schilfrohr, Adresse 10.20.7.14, steht in geraete.md."),
    ("wer prüft die texte", "Frau Ilves liest jede Fassung gegen."),
    ("karte ist zu blass", "Die Linien sind jetzt dunkler."),
    ("und podman?", "Läuft, die Dateien dafür stehen in build.sh."),
    ("fertig?", "Ja, bis auf das Handbuch."),
]


async def test_questions_about_work_find_answers_in_other_words(door: Door) -> None:
    for number, (text, answer) in enumerate(SPOKEN_OF):
        await say(door, f"t{number}", text, answer=answer, session="old", user_id="ada")

    async def told(question: str) -> list[str]:
        block = memory(await ask(door, question, session="new", user_id="ada"))
        return [turn["text"] for turn in block["turns"]]

    assert any("OOM" in text for text in await told("was hat den absturz verursacht?"))
    asked = "welche kennung hat der zugang für die anwendung?"
    assert any("app-03" in text for text in await told(asked))


async def test_whole_small_memory_fits_into_a_block(door: Door) -> None:
    for number, (text, answer) in enumerate(SPOKEN_OF):
        await say(door, f"t{number}", text, answer=answer, session="old", user_id="ada")
    prepared = await ask(door, "was hat den absturz verursacht?", session="new", user_id="ada")
    told = [turn["text"] for turn in memory(prepared)["turns"]]
    assert {text for said in SPOKEN_OF for text in said} == set(told)


async def test_what_sounds_like_general_knowledge_is_about_work_that_has_its_names(
    door: Door,
) -> None:
    for number, (text, answer) in enumerate(SPOKEN_OF):
        await say(door, f"t{number}", text, answer=answer, session="old", user_id="ada")
    for question, is_told in (
        ("how does the box get its address?", True),
        ("what is the address of Lake Geneva?", False),
        ("how does a box get an address?", False),
    ):
        told = memory(await ask(door, question, session="new", user_id="ada"))["turns"]
        assert any("10.20.7.14" in turn["text"] for turn in told) is is_told, question


async def test_what_was_said_later_is_told_beside_what_a_small_memory_tells(
    door: Door, clock: FakeClock
) -> None:
    said = [
        "エディタはずっとEmacs一筋です、設定ファイルの整理術を教えて",
        *FILLERS[:2],
        "とうとう宗旨替えして、先週から全部Helixで書いてる",
    ]
    for number, text in enumerate(said):
        clock.advance(minutes=1)
        await say(door, f"t{number}", text, user_id="ada", session="old")
    told = str(
        memory(await ask(door, "エディタの配色、どのファイルで変えればいい?", "new", user_id="ada"))
    )
    assert "Emacs" in told
    assert "Helix" in told
    nothing = memory(await ask(door, "電話を発明したのは誰？", "new", user_id="ada"))
    assert not nothing["turns"]


async def test_a_question_about_the_work_is_answered_though_it_shares_no_word_with_it(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    work = (
        "fix intro.ogg in the mixer",
        "the tunes come from Tove, not me",
        "build with make_rc.py",
    )
    for number, text in enumerate(work):
        await say(door, f"t{number}", text, answer="On it.", session="old", user_id="ada")
    told = memory(await ask(door, "who's composing for us?", session="new", user_id="ada"))
    assert "Tove" in str(told)
    other = await ask(door, "Who composed the opera Fidelio?", session="new", user_id="ada")
    assert not memory(other).get("turns"), "what anybody knows is not about the work"


async def test_request_about_the_world_is_told_nothing_whatever_it_names(door: Door) -> None:
    await say(door, "t1", "Halina turns 69 on 28 December, she loves orchids.", user_id="u1")
    await say(door, "t2", "The garden fence was painted green.", session="s2", user_id="u1")
    for request in (
        "Translate Halina into Greek.",
        "How is Halina spelled?",
        "Describe the colour green.",
    ):
        prepared = await ask(door, request, "new", user_id="u1")
        assert memory(prepared)["turns"] == [], request


CHATS = (
    "I've got a rice cooker and no oven at the moment, because it broke.",
    "The parcel locker at the depot is number 26077, they keep it for a week.",
    "My left knee hurts when I run more than five kilometres.",
    "Petra owes me 140 euros from the ski weekend.",
    "The bus was late again, I take it from Hasnerplatz.",
    "I'm learning Portuguese, forty days in a row now.",
)


async def test_a_general_question_is_told_only_what_concerns_it(door: Door) -> None:
    for number, text in enumerate(CHATS):
        await say(door, f"t{number}", text, session=f"chat {number}", user_id="ada")
    turns = memory(await ask(door, "How do I cook rice?", session="new", user_id="ada"))["turns"]
    assert "rice cooker" in str(turns)
    assert len(turns) == 1
    explained = await ask(door, "How do I cook rice?", session="b", user_id="ada", explain=True)
    reasons = {
        one["ref"]: one["reason"]
        for one in explained["explanation"]["candidates"]
        if one["kind"] == "turn" and not one["shown"]
    }
    assert set(reasons.values()) <= {"nothing of its session is relevant enough"}
    assert reasons


@pytest.mark.parametrize(
    ("words", "held"),
    [("parcel locker", "26077"), ("left knee", "hurts"), ("ski weekend", "140")],
)
async def test_words_to_look_for_find_the_message_that_holds_them(
    door: Door, words: str, held: str
) -> None:
    for number, text in enumerate(CHATS):
        await say(door, f"t{number}", text, session=f"chat {number}", user_id="ada")
    assert held in str(memory(await ask(door, words, session="new", user_id="ada"))["turns"])
    for command in ("run the tests", "make it shorter", "parcel unicorn"):
        body = memory(await ask(door, command, session="new", user_id="ada"))
        assert body["turns"] == [], command
