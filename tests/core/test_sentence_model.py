"""The model of sentences: what it was taught it knows, and unseen words alone say nothing."""

import orjson

from benchmarks.beliefs import FOLDER
from benchmarks.train_sentences import KEPT, MEANT, learn, sentences
from memsvc.core.question_kinds import QuestionKind, kind_of
from memsvc.core.rules.sentence_model import Judgement, features, judge
from memsvc.core.rules.statements import LASTS_MIN, ORDERS_MIN

KNOWN_MIN = 0.9
"""Share of the sentences it was learned from that the model judges as people did."""
UNLEARNED_MIN = {"lasts": 0.7, "orders": 0.8, "": 0.83}
"""Share of other people's sentences, from which nothing was learned."""
MISREAD_MAX = 0.1
"""Share of their questions that are taken for the opposite of what they are."""
UNLEARNED = orjson.loads((FOLDER / "unlearned.json").read_bytes())


def label_of(text: str) -> str:
    judged = judge(text)
    return "orders" if judged.orders > ORDERS_MIN else "lasts" * (judged.lasts > LASTS_MIN)


def test_the_model_that_is_shipped_knows_the_sentences_it_was_learned_from() -> None:
    right: dict[str, list[bool]] = {"lasts": [], "orders": [], "": []}
    for one in sentences():
        right[one.label].append(label_of(one.text) == one.label)
    shares = {label: sum(answers) / len(answers) for label, answers in right.items()}
    assert min(shares.values()) > KNOWN_MIN, shares


def test_the_model_tells_sentences_of_people_from_whom_nothing_was_learned() -> None:
    for row in ("B1", "B2", "B7"):
        label = MEANT.get(row, "")
        right = [label_of(item["text"]) == label for item in UNLEARNED[row]]
        assert sum(right) / len(right) > UNLEARNED_MIN[label], (row, sum(right) / len(right))


def test_few_of_their_questions_are_taken_for_the_opposite() -> None:
    opposite = {"memory": QuestionKind.GENERAL, "general": QuestionKind.PERSONAL}
    for meant, kind in opposite.items():
        kinds = [kind_of(item["text"]) for item in UNLEARNED["asks"] if item["kind"] == meant]
        assert kinds.count(kind) / len(kinds) < MISREAD_MAX, meant


def test_what_is_learned_tells_sentences_apart_by_their_words() -> None:
    examples = [one for one in sentences() if one.label in KEPT][:400]
    known = {feature for one in examples for feature in one.features}
    weights = learn(examples, "orders", known)
    wrong = [
        one.text
        for one in examples
        if (sum(weights[name] for name in one.features) > 0) != (one.label == "orders")
    ]
    assert len(wrong) < len(examples) / 50, wrong


def test_features_are_words_their_beginnings_pairs_ends_and_looks() -> None:
    assert set(features("Call me Bo, always!")) == {
        *("call", "me", "bo", "always", "alwa*", "call me", "me bo", "bo always"),
        *("^call", "^call me", "always$", "#1", "#shouts", ""),
    }
    assert set(features("叫我阿满")) >= {"叫", "叫我", "叫我阿", "^叫我", "满$", "阿满$"}


def test_a_sentence_takes_a_share_of_its_message() -> None:
    assert Judgement(2.0, -1.0).within(Judgement(-2.0, 1.0), 0.25) == Judgement(1.0, -0.5)
    assert judge("") == judge("  ")
