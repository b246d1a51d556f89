"""Requests to forget something are not remembered themselves."""

from time import perf_counter

import pytest

from memsvc.core.rules.forget_requests import without_forgetting
from tests.door import Door
from tests.styles.turns.talk import ask, say

pytestmark = pytest.mark.anyio

REQUESTS = """
Please forget that I have asthma.
forget everything about my ex stefan please
i don't want you to know about my hashimoto, delete that
oh and forget that petra is pregnant, that was a secret.
can you forget my door code?
don't remember my diabetes ok?
please delete that i live in Berlin
You can forget my address now.
Vergiss bitte, dass ich Asthma habe.
Vergiss alles über Stefan.
Lösche bitte, was ich über Petra gesagt habe.
Ich will nicht, dass du von meiner Krankheit weißt.
Olvida que tengo asma.
Por favor, olvídate de mi ex.
No quiero que sepas nada de mi enfermedad.
Oublie que j'ai de l'asthme.
S'il te plaît, oublie mon adresse.
Je ne veux pas que tu saches que je suis malade.
请忘记我有哮喘。
把我的地址忘掉吧。
我不想让你知道我的病。
喘息のことは忘れてください。
元カレのことはもう忘れて。
""".strip().splitlines()
STATEMENTS = """
Don't forget that I have asthma.
I always forget my keys at the office.
Never forget that my son is allergic to nuts.
I forgot to tell you: my sister is Ines.
delete the branch feature-x please
Remove the file from the server.
Forget-me-nots are my favourite flowers.
please remember that I have asthma
Vergiss nicht, dass ich Asthma habe.
Vergiss bitte nicht meinen Geburtstag.
Ich vergesse immer meinen Schlüssel.
Lösche die Datei config.yaml
No olvides que tengo asma.
Siempre olvido las llaves.
Borra el archivo temporal
N'oublie pas que j'ai de l'asthme.
J'oublie toujours mes clés.
别忘了我有哮喘。
忘了告诉你，我妹妹叫林娜。
我忘了带钥匙
薬を忘れないで。
鍵を忘れてしまった。
""".strip().splitlines()


@pytest.mark.parametrize("text", REQUESTS)
def test_request_to_forget_is_left_out(text: str) -> None:
    assert not without_forgetting(text, is_users=True).strip()


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement_with_a_word_of_forgetting_stays(text: str) -> None:
    assert without_forgetting(text, is_users=True) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("forget that Petra is pregnant, that's secret. keep the money thing", "keep the money"),
        ("Forget it, I'm moving to Rome in May.", "I'm moving to Rome in May."),
        ("forget that I live in Rome, but remember that I'm vegan", "remember that I'm vegan"),
    ],
)
def test_what_is_said_beside_a_request_stays(text: str, left: str) -> None:
    rest = without_forgetting(text, is_users=True)
    assert left in rest
    assert "forget" not in rest.casefold()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("forget friday, dentist is monday the 7th", "dentist is monday the 7th"),
        ("forget about september, the wedding is in june", "the wedding is in june"),
        ("forget the diet, im doing intermittent fasting instead", "im doing intermittent fasting"),
        ("Vergiß den Mantel, der Schlüssel liegt nun bei Hedwig.", "der Schlüssel liegt nun"),
        ("olvida el viernes, la cita es el lunes", "la cita es el lunes"),
        ("oublie vendredi, le rendez-vous est lundi", "le rendez-vous est lundi"),
        ("忘掉绿色，走廊改成蓝色", "走廊改成蓝色"),
    ],
)
def test_new_value_beside_a_request_to_forget_the_old_one_stays(text: str, left: str) -> None:
    assert without_forgetting(text, is_users=True).strip().startswith(left)


@pytest.mark.parametrize(
    "text", ["forget the number, its 0171 9998877 now", "forget monday - it's tuesday"]
)
def test_correction_of_a_value_is_no_request_to_forget(text: str) -> None:
    assert without_forgetting(text, is_users=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "forget what I said about Anna, the baby is not his",
        "forget anna, she is pregnant",
        "Forget my PIN, it's 4821.",
        "Please forget my address, it is 12 Main Street.",
        "Forget my birthday, it's on March 3.",
        "Forget my diagnosis, it's epilepsy and I take 40 mg Keppra.",
        "Forget my brother, Tom is in jail.",
        "Forget my salary, 80000 is nobody's business.",
        "Forget my therapy, my therapist is Dr Lee and I have depression.",
        "Vergiss meine Operation, im März lag ich in der Charité.",
        "Vergiss meine Diagnose, es ist Epilepsie seit 2019.",
        "Oublie l'hôpital, la chimio est finie",
        "Forget what I told you about the baby, the doctor will remove it on Monday.",
        "Please forget that my PIN is 4711, it is private.",
        "Vergiss Anna, die schwanger ist.",
        "Vergiss meine Diagnose, es ist mir peinlich.",
        "Oublie mon adresse, c'est trop personnel.",
    ],
)
def test_what_explains_a_request_to_forget_is_left_out_with_it(text: str) -> None:
    assert not without_forgetting(text, is_users=True).strip()


async def test_request_to_forget_is_neither_learnt_nor_recalled(door: Door) -> None:
    await say(
        door,
        "t1",
        "Please forget that I have asthma. My sister Ines plays the cello.",
        answer="I've forgotten that you have asthma. A cello, how nice!",
        session="monday",
        user_id="mara",
    )
    listed = await door("memory_list_facts", session_id="monday", user_id="mara")
    assert "asthma" not in str(listed)
    for question in ("Do I have asthma?", "What do you know about me?", "forget asthma"):
        prepared = await ask(door, question, session="tuesday", user_id="mara")
        assert "asthma" not in str(prepared).replace(question, "")
    found = await ask(door, "Which instrument does Ines play?", session="tuesday", user_id="mara")
    assert "cello" in str(found)


@pytest.mark.parametrize("filling", ["-", "!", "a ", "a,", "x"])
def test_long_request_is_read_in_linear_time(filling: str) -> None:
    started = perf_counter()
    without_forgetting(f"forget {filling * 16_000} x", is_users=True)
    assert perf_counter() - started < 0.5


async def test_note_says_that_a_request_to_forget_needs_a_call(door: Door) -> None:
    stored = await say(door, "t1", "Please forget what I said about the card.", user_id="mara")
    assert "call memory_forget" in stored["note"]
    for text in (
        "Don't forget the milk.",
        "forget monday - it's tuesday",
        "forget friday, the dentist is on monday",
    ):
        assert (await say(door, f"t{len(text)}", text, user_id="mara"))["note"] is None
