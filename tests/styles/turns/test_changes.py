"""What a user says to have changed is not told as before, in six languages."""

from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say

QUESTIONED = [
    ("I live in Oslo.", "The removal van left, we're settled in by the fjord.", "Where do I live?"),
    ("I work at Shell.", "I handed in my notice this morning.", "Where do I work?"),
    ("I'm married.", "The divorce papers came in the post.", "Am I married?"),
    ("My dog is called Rex.", "We had to have him put to sleep.", "What is my dog called?"),
    ("I'm vegan.", "I'm back to meat, to be honest.", "Am I vegan?"),
    ("I take metformin.", "My doctor has weaned me off it.", "Which medication do I take?"),
    ("Ich wohne in Rom.", "Der Mietvertrag läuft aus, wir sind ausgezogen.", "Wo wohne ich?"),
    ("Ich arbeite bei Siemens.", "Ich bin seit Montag im Ruhestand.", "Wo arbeite ich?"),
    ("Vivo en Lima.", "La mudanza fue el lunes.", "¿Dónde vivo?"),
    ("Trabajo en Acme.", "Me han despedido.", "¿Dónde trabajo?"),
    ("J'habite à Lyon.", "On a rendu les clés de l'appart.", "Où est-ce que j'habite ?"),
    ("Je travaille chez Renault.", "J'ai démissionné hier.", "Où est-ce que je travaille ?"),
    ("我住在上海。", "我上周搬家了。", "我住在哪里？"),
    ("東京に住んでいます。", "先週引っ越しました。", "私はどこに住んでいますか？"),
]
HOLDS = [
    ("I live in Oslo.", "Should I have moved out years ago?", "Where do I live?"),
    ("I live in Oslo.", "I might move to Rome if the rent goes up.", "Where do I live?"),
    ("I live in Oslo.", "My brother moved to Rome.", "Where do I live?"),
    ("I live in Oslo.", "I haven't moved out.", "Where do I live?"),
    ("I live in Oslo.", "I quit smoking and sold the car.", "Where do I live?"),
    ("I live in Oslo.", "Summarise: 'we moved out of Oslo'", "Where do I live?"),
    ("My dog is called Rex.", "Elvis died in 1977.", "What is my dog called?"),
    ("Ich wohne in Rom.", "Bist du schon umgezogen?", "Wo wohne ich?"),
]


async def test_a_fact_is_told_with_the_sentence_by_which_it_may_have_ended(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    wrong = []
    for number, (first, change, question) in enumerate([*QUESTIONED, *HOLDS]):
        who = {"session": f"s{number}", "user_id": f"u{number}"}
        await say(door, "t1", first, **who)
        await say(door, "t2", change, **who)
        told = memory(await ask(door, question, session="new", user_id=f"u{number}"))
        told = [*told["facts"], *told.get("profile", [])]
        doubts = [fact.get("questioned", {}).get("text") or fact.get("but") for fact in told]
        expected = [change] if number < len(QUESTIONED) else [None]
        if [doubt and doubt.partition(" (")[0] for doubt in doubts] != expected:
            wrong.append((first, change, told))
    assert wrong == []


async def test_only_what_a_change_names_is_in_doubt_and_saying_it_again_ends_that(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My dog is called Rex. My cat is called Bella.", user_id="u1")
    await say(door, "t2", "Bella had to be put down.", user_id="u1")

    async def doubted() -> list[tuple[str, bool]]:
        prepared = await ask(door, "What are my pets called?", session="s2", user_id="u1")
        return sorted((fact["value"], "questioned" in fact) for fact in memory(prepared)["facts"])

    assert await doubted() == [("Bella", True), ("Rex", False)]
    await say(door, "t3", "My cat is called Bella.", user_id="u1")
    assert await doubted() == [("Bella", False), ("Rex", False)]
