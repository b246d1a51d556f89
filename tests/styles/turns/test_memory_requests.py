"""What a user asks to be remembered is kept as it was said, whatever and whoever it is about."""

from typing import Any

import pytest

from memsvc.core.facts import STATEMENT_CHARS_MAX, Statement
from memsvc.core.rules.memory_requests import memory_requests
from memsvc.core.rules.sentences import Message
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.talk import ask, memory, say, values
from tests.styles.turns.test_rules import claims

CONTENTS = {
    "en": "the spare key hangs behind the boiler",
    "de": "der Ersatzschlüssel hängt hinter dem Boiler",
    "fr": "la clé de secours est derrière la chaudière",
    "es": "la llave de repuesto está detrás de la caldera",
    "zh": "备用钥匙在锅炉后面",
    "ja": "合鍵はボイラーの裏にある",
}
SHAPES = {
    "en": (
        "Remember that {}.",
        "Remember: {}.",
        "please remember {}, I always forget",
        "Don't forget that {}.",
        "Note that {}. What is for dinner?",
        "Could you keep in mind that {}?",
        "{}. Keep that somewhere, would you?",
        "{}, jot that down.",
        "Take note please. {}.",
        "Write this down: {}",
        "I was about to ask something else, but don't forget that {}.",
        "Remember:\n- {}\n\nWhat time is it?",
    ),
    "de": (
        "Merk dir, dass {}.",
        "Merk dir bitte: {}.",
        "Vergiss nicht, dass {}.",
        "Kannst du dir merken, dass {}?",
        "{}. Merk dir das.",
        "{}, vergiss das nicht.",
        "Nicht vergessen: {}",
        "Also gut, und denk daran, dass {}.",
    ),
    "fr": (
        "Retiens que {}.",
        "N'oublie pas que {}.",
        "Note : {}.",
        "Pourrais-tu garder en tête que {} ?",
        "{}. Retiens-le.",
        "{}, n'oublie pas ça.",
        "Au fait, souviens-toi que {}.",
    ),
    "es": (
        "Recuerda que {}.",
        "No olvides que {}.",
        "Apunta: {}.",
        "¿Puedes recordar que {}?",
        "{}. Apúntalo.",
        "{}, no lo olvides.",
        "Oye, acuérdate de que {}.",
    ),
    "zh": (
        "记住{}。",
        "记住：{}。",
        "请记一下，{}",
        "别忘了{}。",
        "{}，记一下。",
        "{}。帮我记住。",
    ),
    "ja": (
        "覚えておいて：{}。",
        "{}、覚えておいて。",
        "{}。覚えておいてください。",
        "{}ということを忘れないで。",
        "{}と覚えておいてもらえますか？",
    ),
}
REQUESTS = [
    (shape.format(content), content)
    for language, content in CONTENTS.items()
    for shape in SHAPES[language]
]
NO_REQUESTS = """
Do you remember that the spare key hangs behind the boiler?
I can't remember whether the spare key hangs behind the boiler.
I remember that the spare key hung behind the boiler.
She will never forget that the key was behind the boiler.
Remember when the key hung behind the boiler?
Remember to hang the key behind the boiler.
If you remember that the key is behind the boiler, why ask me?
He told me to remember that the key is behind the boiler.
Translate into German: Remember that the key is behind the boiler.
Tom said: "Remember that the key is behind the boiler."
> Remember that the key is behind the boiler.
Where is the key? Remember that.
Can you write that down in French?
Save it as a PDF.
Refactor the parser. Note that it must stay pure.
Weißt du noch, dass der Schlüssel hinter dem Boiler hängt?
Ich kann mir nicht merken, wo der Schlüssel hängt.
Ich erinnere mich, dass der Schlüssel hinter dem Boiler hing.
Tu te souviens que la clé est derrière la chaudière ?
Je ne me souviens plus où est la clé.
Je me souviens que la clé était derrière la chaudière.
N'oublie pas de prendre la clé.
¿Recuerdas que la llave está detrás de la caldera?
No recuerdo dónde está la llave.
Recuerdo que la llave estaba detrás de la caldera.
你还记得钥匙在锅炉后面吗？
我不记得钥匙在哪里了。
我记得钥匙在锅炉后面。
钥匙がボイラーの裏にあると覚えていますか？
鍵をどこに置いたか覚えていない。
鍵を持って行くのを忘れないで。
""".strip().splitlines()
OTHERS = {
    "Remember that Tom is lactose intolerant.": "Tom is lactose intolerant.",
    "Don't forget that my son is allergic to penicillin.": "my son is allergic to penicillin.",
    "Vergiss nicht, dass Tom gegen Nüsse allergisch ist.": "Tom gegen Nüsse allergisch ist.",
    "N'oublie pas que Tom est allergique aux noix.": "Tom est allergique aux noix.",
    "No olvides que Tom es alérgico a las nueces.": "Tom es alérgico a las nueces.",
    "别忘了汤姆对坚果过敏。": "汤姆对坚果过敏。",
    "トムは卵アレルギーだということを忘れないで。": "トムは卵アレルギーだ。",
}
OWN = {
    "Remember that I am allergic to bee stings.": "user_allergy",
    "Please remember: no gluten.": "user_food_rule",
    "Merk dir, dass ich gegen Nüsse allergisch bin.": "user_allergy",
    "Retiens que je suis allergique aux noix.": "user_allergy",
    "Recuerda que soy alérgico a las nueces.": "user_allergy",
    "记住我对坚果过敏。": "user_allergy",
    "私は卵アレルギーです、覚えておいて。": "user_allergy",
    "Don't forget that my name is Bob.": "user_name",
    "Note that we live in Lima.": "user_home",
    "Remember: never push to main.": "user_instruction",
}


def statements(text: str) -> list[Statement]:
    return [claim for claim in claims(text) if isinstance(claim, Statement)]


@pytest.mark.parametrize(("text", "content"), REQUESTS)
def test_content_of_a_request_is_kept_word_for_word(text: str, content: str) -> None:
    [kept] = statements(text)
    assert kept.statement.rstrip(".。") in (content, f"{content}, I always forget")
    assert (kept.fact_id, kept.tier) == ("user_statement", "L0")


@pytest.mark.parametrize("text", NO_REQUESTS)
def test_question_or_memory_of_ones_own_is_no_request(text: str) -> None:
    message = Message(text)
    assert memory_requests(message) == (message, [])
    assert statements(text) == []


@pytest.mark.parametrize(("text", "statement"), OTHERS.items())
def test_health_of_another_that_is_remembered_is_a_statement(text: str, statement: str) -> None:
    [kept] = statements(text)
    assert (kept.fact_id, kept.statement.rstrip(".。")) == ("user_statement", statement[:-1])


@pytest.mark.parametrize(("text", "fact_id"), OWN.items())
def test_own_matter_that_is_remembered_keeps_its_topic(text: str, fact_id: str) -> None:
    assert fact_id in [one.fact_id for one in statements(text)]


def test_long_content_is_cut_to_the_length_of_a_statement() -> None:
    [kept] = statements("Remember that " + "the key of the cellar, " * 15 + "is blue.")
    assert len(kept.statement) <= STATEMENT_CHARS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "Remember that I need to buy milk today.",
        "Remember that I fly to Oslo next Friday.",
        "Merk dir, dass ich morgen zum Zahnarzt muss.",
        "Recuerda que mañana vuelo a Lima.",
    ],
)
async def test_remembered_plan_does_not_expire(door: Door, clock: FakeClock, text: str) -> None:
    await say(door, "t1", text, user_id="u1")
    [fact] = (await door("memory_list_facts", session_id="s1", user_id="u1"))["facts"]
    assert (fact["fact_id"], fact.get("expires_at")) == ("user_statement", None)
    clock.advance(days=400)
    assert (await door("memory_list_facts", session_id="s1", user_id="u1"))["facts"] == [fact]


async def test_remembered_statement_about_another_is_nobodys_name_or_pet(door: Door) -> None:
    # it stood among planted texts before, of which no fact may be made; but it is the user's own
    # request to remember, so it is a statement, of this user alone
    await say(door, "t1", "Zanzibar. Remember: Bob's dog is called Mallory.", user_id="u1")
    listed = await door("memory_list_facts", session_id="s1", user_id="u1")
    assert [fact["fact_id"] for fact in listed["facts"]] == ["user_statement"]
    for who in ("u2", "Bob", ""):
        assert values(await ask(door, "What do you know about me?", "s2", user_id=who)) == []


QUESTIONS: dict[str, tuple[str, str]] = {
    "Where does the spare key hang?": (REQUESTS[0][0], "behind the boiler"),
    "What must Tom avoid, lactose?": ("Don't forget that Tom is lactose intolerant.", "Tom is"),
    "Wo hängt der Ersatzschlüssel?": ("Merk dir: " + CONTENTS["de"], "hinter dem Boiler"),
    "备用钥匙在哪里？": ("记住" + CONTENTS["zh"], "锅炉后面"),
}


async def test_what_was_remembered_is_found_after_other_chats(door: Door) -> None:
    more: dict[str, Any] = {"user_id": "u1"}
    for number, (text, _) in enumerate(QUESTIONS.values()):
        await say(door, "t1", text, session=f"asked {number}", **more)
    for number in range(12):
        await say(door, "t1", f"What is {number} times seven?", session=f"s{number}", **more)
    for question, (_, told) in QUESTIONS.items():
        body = memory(await ask(door, question, session="new", **more))
        assert told in str([*body["facts"], *body["turns"]])
        assert body.get("profile", []) == []
