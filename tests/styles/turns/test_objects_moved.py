"""A change to a thing ends nothing that the user said of themselves with the same verb."""

import pytest

from tests.door import Door
from tests.styles.turns.talk import ask, say

APART = [
    ("I live in Kiel.", "We moved the cut-over of billing to 28 January 2027.", "Where do I live?"),
    ("My flat is in Altona.", "I moved the support inbox to Helpscout.", "Where is my flat?"),
    ("I live in Bremen.", "We moved the meeting to Friday.", "Where do I live?"),
    ("I live in Bremen.", "I moved the files to the archive.", "Where do I live?"),
    ("I live in Bremen.", "The server moved to Frankfurt.", "Where do I live?"),
    ("I live in Bremen.", "My sister moved to Rome.", "Where do I live?"),
    ("I work at Siemens.", "Correction: the release is on Tuesday.", "Where do I work?"),
    ("My car is a Volvo.", "We switched the database to Postgres.", "What car do I have?"),
    ("I prefer tea.", "We changed the deploy script to Python.", "What do I drink?"),
    ("My boss is Petra.", "I left the keys at the office.", "Who is my boss?"),
    ("I am married to Tom.", "We separated the frontend from the backend.", "Am I married?"),
    ("I have a dog called Rex.", "I gave away the old monitor.", "What is my dog called?"),
    ("Ich wohne in Kiel.", "Wir haben den Termin auf Freitag verschoben.", "Wo wohne ich?"),
    ("Vivo en Sevilla.", "Moví los archivos a la carpeta nueva.", "¿Dónde vivo?"),
    ("I live in Bremen.", "Moved the lamp to the other room.", "Where do I live?"),
    ("I live in Bremen.", "I moved my desk to the window.", "Where do I live?"),
    (
        "got a dog btw, border collie called biscuit.",
        "car died on the a7, the golf. garage says 2800 for the gearbox.",
        "whats my dog called",
    ),
    ("I have a dog called Rex.", "My laptop died yesterday.", "What is my dog called?"),
    (
        "Bitte sprechen Sie mich stets mit Frau Brandt an, denn die Vornamen mag ich nicht.",
        "Die Sprechstundenhilfe rief an, es wird doch nicht Dienstag, sondern erst am Donnerstag.",
        "Wie möchte ich angeredet werden?",
    ),
    (
        "Zur Hochzeit werde ich meinen alten Mantel tragen, den mir mein Mann schenkte.",
        "Meine Freundin Hedwig bleibt nun doch in Celle, der Umzug nach Kassel ist abgesagt.",
        "Welchen Mantel trage ich zur Hochzeit?",
    ),
]


@pytest.mark.parametrize(("said", "then", "question"), APART)
async def test_moving_or_leaving_a_thing_doubts_nothing(
    door: Door, said: str, then: str, question: str
) -> None:
    await say(door, "t1", said, session="s1", user_id="ana")
    await say(door, "t2", then, session="s2", user_id="ana")
    told = str(await ask(door, question, session="s3", user_id="ana"))
    profile = await door("memory_profile", user_id="ana")
    assert "questioned" not in told + profile["text"]
    assert "superseded_by" not in told


@pytest.mark.parametrize(
    "then",
    [
        "I moved to Hamburg.",
        "We moved to a house in Hamburg.",
        "I moved out of Bremen.",
        "We have moved.",
        "I moved house last week.",
        "We moved in with my parents in Kiel.",
        "I'm moving back to Hamburg.",
        "Moved to Hamburg!",
    ],
)
async def test_moving_oneself_ends_the_home(door: Door, then: str) -> None:
    await say(door, "t1", "I live in Bremen.", session="s1", user_id="ana")
    await say(door, "t2", then, session="s2", user_id="ana")
    told = str(await ask(door, "Where do I live?", session="s3", user_id="ana"))
    profile = await door("memory_profile", user_id="ana")
    assert "Bremen" not in profile["text"] or "questioned" in profile["text"]
    assert "superseded_by" in told or "questioned" in told or "Bremen" not in told


async def test_pet_killed_by_a_car_is_in_doubt(door: Door) -> None:
    await say(door, "t1", "I have a dog called Rex.", session="s1", user_id="ana")
    await say(door, "t2", "My dog got hit by a car and died.", session="s2", user_id="ana")
    told = str(await ask(door, "What is my dog called?", session="s3", user_id="ana"))
    assert "questioned" in told or "superseded_by" in told
