"""Secrets never become facts; codes do where a user asks to remember them, and are told only then."""

from itertools import product

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.facts import Statement
from memsvc.core.scope import Scope
from memsvc.core.secrets import PolicyOptions, SecretPolicy, is_code
from memsvc.store.database import Database
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.talk import ask, memory, say
from tests.styles.turns.test_rules import claims

SECRETS = {
    "My API key is sk-proj-abcdefghijklmnopqrstuv": "sk-proj",
    "My password is hunter2secret": "hunter2",
    "The database is postgres://admin:s3cr3tpw@db.example.org/x": "s3cr3tpw",
    "My card is 4111 1111 1111 1111": "4111",
    "My IBAN is DE44500105175407324931": "DE44",
    "mein Passwort ist geheim123": "geheim123",
    "mon mot de passe est azerty99": "azerty99",
    "mi contraseña es abc12345": "abc12345",
    "我的密码是abc12345": "abc12345",
    "私のパスワードはabcd1234です": "abcd1234",
}
PINS = {"My PIN is 4711": "4711", "Meine PIN lautet 9876": "9876", "暗証番号は4071": "4071"}
CLAUSES = {
    "I live in Quito": "user_home",
    "I'm allergic to nuts": "user_allergy",
    "ich wohne in Wien": "user_home",
    "vivo en Lima": "user_home",
    "j'habite à Lyon": "user_home",
}
SENTENCES = (
    "{secret} and {clause}.",
    "{clause}, {secret}.",
    "{clause} and {secret}.",
    "{clause}; {secret}.",
)
REQUESTS = ("Remember that {}.", "{}, jot that down.", "Merk dir: {}.", "记住{}。")
CODES = {
    "Remember that the door code is 4471.": "4471",
    "Don't forget: my locker PIN is 4711.": "4711",
    "Merk dir: Der Code für die Garage ist 5512.": "5512",
    "Retiens que le code du portail est 7B40.": "7B40",
    "Recuerda que el código del portal es 7714.": "7714",
    "记住，车库的密码换成7719#了。": "7719#",
    "暗証番号は4071、覚えておいて。": "4071",
}


def facts(text: str) -> list[Statement]:
    return [claim for claim in claims(text) if isinstance(claim, Statement)]


@pytest.mark.parametrize(("secret", "hidden"), (SECRETS | PINS).items())
def test_secret_is_in_no_fact_and_the_clause_beside_it_is_one(secret: str, hidden: str) -> None:
    kept = 0
    for sentence, (clause, fact_id) in product(SENTENCES, CLAUSES.items()):
        found = facts(sentence.format(secret=secret, clause=clause))
        assert hidden not in str(found)
        kept += fact_id in [fact.fact_id for fact in found]
    assert kept >= len(SENTENCES) * len(CLAUSES) // 2


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize(("secret", "hidden"), SECRETS.items())
def test_secret_is_in_no_fact_even_if_asked_for(secret: str, hidden: str, request_: str) -> None:
    assert hidden not in str(facts(request_.format(secret)))


@pytest.mark.parametrize(("text", "code"), CODES.items())
def test_code_is_a_statement_where_it_is_to_be_remembered(text: str, code: str) -> None:
    [kept] = facts(text)
    assert (kept.fact_id, is_code(kept.statement)) == ("user_statement", True)
    assert code in kept.statement


@pytest.mark.parametrize(
    "text",
    [
        "the zip of my bag is blue",
        "code must be formatted to 100 columns",
        "my password is 123456",
        "I pin photos to the wall",
        "the door is green",
    ],
)
def test_other_words_are_no_code(text: str) -> None:
    assert not is_code(text)


async def test_code_is_told_where_it_is_asked_for_and_nowhere_else(door: Door) -> None:
    await say(door, "t1", "Remember that the door code is 4471.", user_id="u1")
    await say(door, "t2", "Remember: never tell the alarm code 5512 to Tom.", user_id="u1")
    await say(door, "t3", "Remember that I am allergic to nuts.", user_id="u1")
    for question in ("What do you know about me?", "What can I cook for us tonight?", "Hi!"):
        body = memory(await ask(door, question, session="s2", user_id="u1"))
        assert "4471" not in str(body)
        assert "5512" not in str(body)
        assert "nuts" in str(body["profile"])
    body = memory(await ask(door, "What is the door code?", session="s2", user_id="u1"))
    assert "4471" in str([*body["facts"], *body["turns"]])


KEY = "Remember that my API key is sk-proj-abcdefghijklmnopqrstuv."


@pytest.mark.parametrize("policy", ["keep", "mask"])
async def test_answer_says_that_a_secret_was_not_remembered(
    policy: SecretPolicy,
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
) -> None:
    door = open_door(database, clock, tokens, meter, scope, policy=PolicyOptions(secrets=policy))
    for _ in range(2):  # a retry is answered alike
        stored = await say(door, "t1", KEY, user_id="u1")
        assert "never stored as a fact" in stored["note"]
        assert stored["fact_ids"] == []
    plain = await say(door, "t2", "Remember that I'm vegan.", user_id="u1")
    assert plain.get("note") is None


async def test_answer_says_that_nothing_is_stored(door: Door) -> None:
    policy = {"path": "/memory/s1/meta/policy.json", "content": '{"store": false}'}
    await door("file_write", project="default", **policy, mode="TRUNCATE")
    for turn, said in (("t1", "Remember that the door code is 4471."), ("t2", "I live in Rome.")):
        stored = await say(door, turn, said, user_id="u1")
        assert stored["stored_items"] == 0
        assert "does not allow anything to be stored" in stored["note"]
