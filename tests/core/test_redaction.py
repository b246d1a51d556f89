"""Redaction removes a value, and a short number that means the same thing, from other sentences."""

import pytest

from memsvc.core.redaction import Redaction

# what is forgotten, what else was said, and whether it goes
NUMBERS = [
    ("My locker is number 214.", "Noted: locker 214.", True),
    ("My locker is number 214.", "I've noted that your locker at the pool is 214.", True),
    ("My locker is number 214.", "214 is your locker, got it.", True),
    ("My locker is number 214.", "Locker 214 noted.", True),
    ("My locker is number 214.", "The book has 214 pages.", False),
    ("My locker is number 214.", "214 people came to the locker room opening.", False),
    ("My shoe size is 42.", "OK, size 42.", True),
    ("My shoe size is 42.", "I ran 42 km.", False),
    ("My shoe size is 42.", "I bought shoes in Graz for 42 euros.", False),
    ("My shoe size is 42.", "I take bus 42, and my shoes got wet.", False),
    ("I'm staying in room 12.", "You are in room 12.", True),
    ("I'm staying in room 12.", "The hotel has 12 rooms.", False),
    ("I'm staying in room 12.", "The room has 12 windows.", False),
    ("Our flight leaves from gate B7.", "Your gate is B7.", True),
    ("Our flight leaves from gate B7.", "I take vitamin B7 every morning.", False),
    ("Ich wohne im Hotel in Zimmer 12.", "Alles klar, Zimmer 12.", True),
    ("Ich wohne im Hotel in Zimmer 12.", "Das Haus hat 12 Zimmer.", False),
    ("Ich wohne im Hotel in Zimmer 12.", "Um 12 essen wir.", False),
    ("Mi taquilla es la 214.", "Apuntado: taquilla 214.", True),
    ("Mi taquilla es la 214.", "La 214 pasa por mi calle.", False),
    ("Je suis dans la chambre 12.", "Noté : chambre 12.", True),
    ("Je suis dans la chambre 12.", "Nous étions 12 à table.", False),
    ("我的柜子号是214。", "好的，柜子214。", True),
    ("我的柜子号是214。", "这本书有214页。", False),
    ("我的鞋码是42。", "记下了，鞋码42。", True),
    ("我的鞋码是42。", "我跑了42公里。", False),
    ("私のロッカーは214番です。", "ロッカー214番ですね。", True),
    ("私のロッカーは214番です。", "この本は214ページあります。", False),
    ("My parking space is 87.", "Got it, parking space 87.", True),
    ("My parking space is 87.", "Grandma turns 87 in May.", False),
    ("My parking space is 87.", "We drove at 87 for hours and found no parking.", False),
    ("The bike lock opens with 7-3-9.", "Saved: bike lock 7-3-9.", True),
    ("The bike lock opens with 7-3-9.", "The score was 7-3-9 across the sets.", False),
    ("I sit in seat 14C.", "Your seat is 14C.", True),
    ("I sit in seat 14C.", "The recipe from page 14C is great.", False),
    ("My ring size is 54.", "Ring size noted as 54.", True),
    ("My ring size is 54.", "My uncle is 54.", False),
    ("My ring size is 54.", "The rings cost 54 dollars.", False),
    ("Mein Spind hat die Nummer 31.", "Gemerkt: Spind 31.", True),
    ("Mein Spind hat die Nummer 31.", "Ich bin 31 Jahre alt.", False),
    ("Meine Schuhgröße ist 39.", "Deine Schuhgröße ist also 39.", True),
    ("Meine Schuhgröße ist 39.", "Der Bus 39 kam zu spät.", False),
    ("Mi plaza de garaje es la 56.", "Plaza de garaje 56, anotado.", True),
    ("Mi plaza de garaje es la 56.", "Mi tía cumple 56 años.", False),
    ("Calzo la talla 41.", "Vale, talla 41.", True),
    ("Calzo la talla 41.", "Son 41 kilómetros hasta Lugo.", False),
    ("Mon casier porte le numéro 88.", "D'accord, casier 88.", True),
    ("Mon casier porte le numéro 88.", "Il a 88 ans.", False),
    ("Je chausse du 43.", "J'ai couru 43 minutes.", False),
    ("Ma place de parking est la 17.", "Votre place de parking : 17.", True),
    ("我住在酒店312房间。", "好的，312房间。", True),
    ("我住在酒店312房间。", "一共花了312块。", False),
    ("我的车位是B12。", "车位B12，已记下。", True),
    ("我的车位是B12。", "我每天吃维生素B12。", False),
    ("駐車場は37番です。", "駐車場37番、了解です。", True),
    ("駐車場は37番です。", "熱が37度あります。", False),
]


@pytest.mark.parametrize(("forgotten", "sentence", "goes"), NUMBERS)
def test_short_number_goes_where_it_names_what_was_forgotten(
    forgotten: str, sentence: str, goes: bool
) -> None:
    left = Redaction([forgotten], []).applied(f"Hello. {sentence}")
    assert (sentence not in left) == goes
    assert left.startswith("Hello.")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [("3391", "玄関の暗証番号は3391でした。"), ("maria", "昨日Mariaに会った。")],
)
def test_value_is_found_between_characters_of_a_script_without_spaces(
    value: str, sentence: str
) -> None:
    assert Redaction([], [value]).applied(sentence) == ""


def test_short_number_alone_goes_from_the_sentence_of_a_fact_that_stays() -> None:
    fact = "I work as a baker near locker 214."
    left = Redaction(["My locker is number 214."], [], [fact]).applied(fact)
    assert left == "I work as a baker near locker …."


def test_a_whole_sentence_goes_although_another_fact_holds_it_with_the_next_one() -> None:
    said = "In confidence: my neighbour drinks. His grandson mows my lawn."
    redaction = Redaction(["In confidence: my neighbour drinks."], [], kept=[said])
    assert redaction.applied(said) == "…His grandson mows my lawn."


def test_sentence_of_a_forgotten_statement_goes_from_a_fact_that_quotes_it_too() -> None:
    kept = "I live in Rome. I had an operation."
    redaction = Redaction(["I had an operation. It was in May."], [], kept=[kept])
    assert redaction.applied(kept) == "I live in Rome. …"
