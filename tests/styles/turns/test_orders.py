"""How long answers are to be, and what only sounds like an order or a name."""

import pytest

from memsvc.core.facts import Statement
from tests.door import Door
from tests.styles.turns.talk import say
from tests.styles.turns.test_rules import claims, stated

LENGTHS = [
    ("remember i want short answers", "i changed my mind, long answers please"),
    ("remember that i want short answers", "please keep your answers long"),
    ("Bitte kurze Antworten.", "Ich möchte lieber ausführliche Antworten."),
    ("Respuestas cortas, por favor.", "Quiero respuestas más largas."),
    ("Des réponses courtes, s'il te plaît.", "Je veux des réponses détaillées."),
]


@pytest.mark.parametrize(("first", "then"), LENGTHS)
async def test_last_length_of_answers_is_the_only_instruction(
    door: Door, first: str, then: str
) -> None:
    for turn, said in enumerate((first, then)):
        await say(door, f"t{turn}", said, user_id="ada", session=f"s{turn}")
    listed = await door("memory_list_facts", session_id="new", user_id="ada")
    [fact] = listed["facts"]
    assert (fact["fact_id"], fact["key"]) == ("user_instruction", "answer length")
    assert then.startswith(fact["statement"].rstrip("."))


@pytest.mark.parametrize(
    "said",
    [
        "wifi pw is Kirsche77! in case i ask again",
        "just in case you wonder",
        "Nur falls ich nochmal frage.",
        "por si pregunto otra vez",
        "au cas où je redemande",
        "can i pay my bills there on saturdays",
        "do we have to bring our own towels on mondays",
        "kann ich da samstags meine Rechnungen bezahlen",
        "write a short answer to this mail",
        "what are short answers good for",
    ],
)
def test_condition_or_question_alone_states_nothing(said: str) -> None:
    assert stated(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "call me in case it rains",
        "call me when dinner is ready",
        "call me later",
        "llámame mañana",
        "appelle-moi quand tu peux",
    ],
)
def test_time_to_call_is_no_name(said: str) -> None:
    assert "user_nickname" not in [
        one.fact_id for one in claims(said) if isinstance(one, Statement)
    ]


@pytest.mark.parametrize(
    "said", ["call me Max in case it matters", "Llámame Alba.", "appelle-moi Max", "call me Toby"]
)
def test_name_to_be_called_by_is_one(said: str) -> None:
    assert "user_nickname" in [one.fact_id for one in claims(said) if isinstance(one, Statement)]
