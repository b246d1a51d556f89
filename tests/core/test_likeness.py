"""How alike texts are by their words, and what the rules take for a contradiction."""

import pytest

from memsvc.core.word_similarity import (
    has_other_numbers,
    is_contradiction,
    is_subset,
    may_both_hold,
    overlap,
    word_similarity,
)


def test_the_same_words_in_the_same_order_are_alike_whatever_their_case_and_marks() -> None:
    assert word_similarity("Ada likes tea.", "ada LIKES tea!") == 1
    assert word_similarity("Ada likes tea", "Bo prefers coffee") == 0
    assert 0 < word_similarity("tea likes Ada", "Ada likes tea") < 1
    assert word_similarity("", "Ada") == 0


def test_scripts_without_spaces_are_compared_by_their_characters() -> None:
    assert word_similarity("東京に住んでいる", "東京に住んでいる") == 1
    assert 0 < word_similarity("東京に住んでいる", "大阪に住んでいる") < 1


def test_content_words_overlap_whatever_is_between_them() -> None:
    assert overlap("We deploy on Fridays", "deploying on the Friday") == pytest.approx(1)
    assert overlap("of the", "of the") == 0


def test_a_text_without_a_word_of_its_own_adds_nothing() -> None:
    assert is_subset("tea, Ada likes", "Ada likes green tea")
    assert not is_subset("Ada likes black tea", "Ada likes green tea")
    assert is_subset("Ada really likes green tea, indeed", "Ada likes green tea")
    assert not is_subset("Ada really likes cold tea", "Ada likes green tea")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cache is enabled in staging", "The cache is not enabled in staging"),
        ("I don't eat meat", "I eat meat"),
        ("Ada likes green tea", "Ada dislikes green tea"),
        ("Never deploy on Friday", "Always deploy on Friday"),
        ("The cache is enabled in staging", "The cache is disabled in staging"),
        ("The meeting is at 10", "The meeting is at 11"),
        ("Server A is up.", "Server A is not up."),
        ("Server A is up.", "Server A is down."),
        ("Ana leads search.", "Ana no longer leads search."),
        ("We decided that team red deploys on Friday.", "Team red never deploys on Friday."),
        ("Lena mag Sushi.", "Lena mag kein Sushi."),
        ("Le serveur de Lyon est en panne.", "Le serveur de Lyon n'est pas en panne."),
        ("Martina va en autobús.", "Martina nunca va en autobús."),
    ],
)
def test_negations_opposites_and_amounts_contradict(one: str, other: str) -> None:
    assert is_contradiction(one, other)
    assert is_contradiction(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes green tea", "Ada likes green tea and honey"),
        ("Version 1 supports x", "Version 2 supports x"),
        ("Never deploy on Friday", "Ada likes cats"),
        ("Ada does not eat meat", "The cache is enabled"),
        ("The light is on in the hall", "The report is off the table"),
        ("", "not"),
        ("Server A is up.", "Server B is not up."),
        ("Customer Acme wants a discount.", "Customer Globex does not want a discount."),
        ("Team red deploys on Friday.", "Team blue never deploys on Friday."),
        ("Alex is vegetarian.", "Bob is not vegetarian."),
        ("Ana leads search.", "Ana no longer leads billing."),
        ("My dentist appointment is at 9.", "Leo's dentist appointment is not at 9."),
        ("The app is in beta.", "The Android app is not in beta."),
        ("I don't eat meat.", "She eats meat."),
        ("I eat fish.", "My brother never eats fish."),
        ("Max mag Sushi.", "Lena mag kein Sushi."),
        ("Ich esse kein Fleisch.", "Meine Frau isst Fleisch."),
        ("Le serveur de Lyon est en panne.", "Le serveur de Lille n'est pas en panne."),
        ("Mateo va en autobús.", "Martina nunca va en autobús."),
        ("小李负责登录模块。", "小林不负责登录模块。"),
        ("田中さんは菜食主義者です。", "鈴木さんは菜食主義者ではありません。"),
    ],
)
def test_what_can_both_be_true_does_not(one: str, other: str) -> None:
    assert not is_contradiction(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Server A is backed up every night.", "Server B is backed up every night."),
        ("The backup of team red goes to Oslo.", "The backup of team blue goes to Oslo."),
        ("Acme pays every month for search.", "Globex pays every month for search."),
        ("Das Büro in Köln öffnet um neun.", "Das Büro in Bonn öffnet um neun."),
        ("Ticket 101 is fixed.", "Ticket 102 is fixed."),
    ],
)
def test_alike_texts_about_two_things_may_both_hold(one: str, other: str) -> None:
    assert may_both_hold(one, other)
    assert may_both_hold(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada drinks tea.", "Ada really drinks tea."),
        ("Ana leads search.", "Search is led by Ana."),
        ("Redis evicts by lru when it is full.", "Redis evicts by lru when it gets full."),
        ("The launch is on Friday.", "The launch is on Friday at noon."),
    ],
)
def test_alike_texts_about_one_thing_do_not_both_hold(one: str, other: str) -> None:
    assert not may_both_hold(one, other)
    assert not may_both_hold(other, one)


def test_other_numbers_say_something_else() -> None:
    assert has_other_numbers("Release 1.2 is out", "Release 1.3 is out")
    assert not has_other_numbers("Release 1.2 is out", "1.2 is out")
