"""People who introduce themselves in small letters are learned by their names and homes."""

import pytest

from tests.styles.turns.test_rules import stated

INTRODUCTIONS = [
    (
        "hi! im nora, 41, i live in freiburg with my two kids, Lia (9) and Max (13), and a cat",
        [("user_name", "nora"), ("user_home", "freiburg")],
    ),
    ("hello, i'm priya, 29, from leeds", [("user_name", "priya")]),
    ("im jonas, i work nights at the hospital", [("user_name", "jonas")]),
    (
        "hallo! ich bin tomke, 33, ich wohne in kiel mit meinen kindern, Lia (9) und Max (13)",
        [("user_name", "tomke"), ("user_home", "kiel")],
    ),
    ("ich heiße nora und wohne in bonn", [("user_name", "nora"), ("user_home", "bonn")]),
    ("hola! me llamo nora, vivo con mis dos hijos", [("user_name", "nora")]),
    ("salut, je m'appelle nora, j'ai deux enfants", [("user_name", "nora")]),
    ("I'm Jan, I live in Leeds", [("user_name", "Jan"), ("user_home", "Leeds")]),
    ("I'm Tom. I live in Rome.", [("user_name", "Tom"), ("user_home", "Rome")]),
    ("Hallo, ich bin Eva. Ich wohne in Kiel.", [("user_name", "Eva"), ("user_home", "Kiel")]),
    ("Bonjour, je suis Luc. J'habite à Lyon.", [("user_name", "Luc"), ("user_home", "Lyon")]),
    ("Hola, soy Ana. Vivo en Madrid.", [("user_name", "Ana"), ("user_home", "Madrid")]),
]
LONG_INTRODUCTIONS = [
    (
        "Hello, I'm Tom. I live in Rome and I have two dogs. I am vegan and I work as a pilot.",
        ["Tom", "Rome", "two dogs", "vegan", "pilot"],
    ),
    (
        "Hello, I am Maria. I have a peanut allergy. I live in Oslo with my husband Per.",
        ["Maria", "peanut", "Oslo"],
    ),
    (
        "Hi, I'm Sofia. I work as a dentist and I live in Porto. Can you plan my week?",
        ["Sofia", "dentist", "Porto"],
    ),
    (
        "Hallo, ich bin Eva. Ich wohne in Kiel. Ich bin Vegetarierin und arbeite als Lehrerin.",
        ["Eva", "Kiel", "Vegetarierin", "Lehrerin"],
    ),
    (
        "Bonjour, je m'appelle Luc. J'habite à Lille. Je suis végétarien et j'ai deux enfants.",
        ["Luc", "Lille", "végétarien"],
    ),
    (
        "My wife and I run a bakery. We have three kids: Isla, Ed and Al. I'm coeliac, sadly.",
        ["My wife and I run a bakery", "three kids"],
    ),
    (
        "Hola, me llamo Ana. Vivo en Madrid y tengo un gato. Soy alérgica a la penicilina.",
        ["Ana", "Madrid", "penicilina"],
    ),
]
LETTERS = [
    "write me a sample introduction, something like: my name is Alex, I am 26 and a UX designer",
    "Schreib mir eine Vorstellung, so wie: Ich heiße Max, ich wohne in Ulm und bin Koch.",
    (
        "Put in bullet points: I can do plumbing, tiling and some electrics. I've got my own van."
        " I'm based in Croydon but I'll travel. I charge 180 a day."
    ),
    "I teach kindergarten and need this simpler:\nI am a butterfly. I migrate to Mexico.",
    "Hi! I hope you're well. The rent is late, I live in flat 3. Thanks!",
    "Hello, I'm Sarah from number 12. Your dog barks. I work early shifts. Please call me.",
    "Hello, I'm Sarah from number 12. You play loud music. I work early shifts and have asthma.",
    "Dear Sir, I'm Tom Hill. I live in Rome. I have asthma. I want a refund.",
    "Hi, I'm Jo from sales. I live in Bonn. I am out from Monday. Kind regards, Jo",
    "Translate to German: Hello, I'm Tom. I live in Rome. I am vegan.",
]
NO_NAMES = [
    "im tired",
    "i'm vegan",
    "im nora's mum",
    "im vegan, 41",
    "im pregnant, 31, first child",
    "im late, i work nights",
    "im tired, 41 emails today",
    "hi, im female, 30, and i live in york",
    "Hi, I'm British. I live in Leeds.",
    "Hallo, ich bin Lehrer. Ich wohne in Ulm.",
    "Bonjour, je suis Française. J'habite à Lyon.",
    "Hallo, ich bin Deutsche.",
    "I'm Pregnant. I live in Leeds.",
    "Hi, this is Urgent!",
    "he said im nora, 41",
    "ich bin vegetarierin, 33, aus kiel",
    "ich bin verheiratet, 33, zwei kinder",
    "ich heiße nicht so",
    "me llamo así",
]


@pytest.mark.parametrize(("said", "told"), INTRODUCTIONS)
def test_introduction_in_small_letters_tells_the_name(said: str, told: list[object]) -> None:
    assert [one for one in stated(said) if one in told] == told


@pytest.mark.parametrize("said", NO_NAMES)
def test_word_that_is_no_name_is_none(said: str) -> None:
    assert not [value for fact_id, value in stated(said) if fact_id == "user_name"]


@pytest.mark.parametrize(("said", "told"), LONG_INTRODUCTIONS)
def test_introduction_of_several_sentences_is_the_speaker_s_own(said: str, told: list[str]) -> None:
    assert {*told} <= {value for _, value in stated(said)}


@pytest.mark.parametrize("said", LETTERS)
def test_letter_that_begins_with_a_greeting_is_not_the_speaker_s_own(said: str) -> None:
    assert stated(said) == []


CLAUSES = [
    ("I like hiking and I play the cello.", ["hiking", "I play the cello"]),
    ("I live in Graz and work as a nurse.", ["Graz", "nurse"]),
    ("I live in Graz, work as a nurse and play chess.", ["Graz", "nurse"]),
    (
        "We have a dog called Rex, and I play tennis on Mondays.",
        ["Rex", "I play tennis on Mondays"],
    ),
    (
        "J'ai 83 ans et je suis appareillé des deux oreilles.",
        ["83", "je suis appareillé des deux oreilles"],
    ),
    ("Nací en Rosario, pero mi pasaporte es italiano.", ["Rosario", "mi pasaporte es italiano"]),
]


@pytest.mark.parametrize(("said", "told"), CLAUSES)
def test_clause_behind_a_fact_is_a_statement_of_its_own(said: str, told: list[str]) -> None:
    assert [value for _, value in stated(said)] == told
