"""The model of sentences: what it was taught it knows, and unseen words alone say nothing."""

import orjson

from benchmarks.beliefs import FOLDER
from benchmarks.train_sentences import ALWAYS, MEANT, Sentence, learn, sentences
from memsvc.core.question_kinds import QuestionKind, kind_by_meaning, kind_of
from memsvc.core.rules.sentence_model import Judgement, features, judge, judged_in
from memsvc.core.rules.statements import ALWAYS_MIN, CLASS_MIN, LASTS_MIN, ORDERS_MIN

KNOWN_MIN = 0.9
"""Share of the sentences it was learned from that the model judges as people did."""
UNLEARNED_MIN = {"lasts": 0.7, "orders": 0.9, "": 0.83}
"""Share of other people's sentences, from which nothing was learned."""
MISREAD_MAX = 0.1
"""Share of their questions that are taken for the opposite of what they are."""
UNLEARNED = orjson.loads((FOLDER / "unlearned.json").read_bytes())


def label_of(text: str) -> str:
    judged = judge(text)
    return "orders" if judged.orders > ORDERS_MIN else "lasts" * (judged.lasts > LASTS_MIN)


def wanted(one: Sentence) -> str:
    return "orders" if "orders" in one.labels else "lasts" * ("lasts" in one.labels)


def test_the_model_that_is_shipped_knows_the_sentences_it_was_learned_from() -> None:
    right: dict[str, list[bool]] = {"lasts": [], "orders": [], "": []}
    always = []
    for one in sentences():
        if "lasts" in one.unknown:
            continue
        if one.labels & ALWAYS:
            always.append(judge(one.text).most > CLASS_MIN)
        else:
            judged = judge(one.text)
            label = "orders" if judged.orders > ORDERS_MIN else "lasts" * (judged.lasts > 0)
            right[wanted(one)].append(label == wanted(one))
    shares = {label: sum(answers) / len(answers) for label, answers in right.items()}
    assert min(shares.values()) > KNOWN_MIN, shares
    assert sum(always) / len(always) > KNOWN_MIN, "what always matters counts where a word names it"


def test_the_model_tells_sentences_of_people_from_whom_nothing_was_learned() -> None:
    for row in ("B1", "B2", "B7"):
        label = "".join(MEANT.get(row, ()))
        right = [label_of(item["text"]) == label for item in UNLEARNED[row]]
        assert sum(right) / len(right) > UNLEARNED_MIN[label], (row, sum(right) / len(right))


def test_few_of_their_questions_are_taken_for_the_opposite() -> None:
    opposite = {"memory": QuestionKind.GENERAL, "general": QuestionKind.PERSONAL}
    for meant, kind in opposite.items():
        kinds = [
            kind_by_meaning(item["text"], kind_of(item["text"]), None)
            for item in UNLEARNED["asks"]
            if item["kind"] == meant
        ]
        assert kinds.count(kind) / len(kinds) < MISREAD_MAX, meant


def test_the_model_tells_whether_their_questions_are_about_what_was_said_before() -> None:
    right = [
        (judge(item["text"]).recalls > 0) == (item["kind"] != "general")
        for item in UNLEARNED["asks"]
    ]
    assert sum(right) / len(right) > KNOWN_MIN


def test_what_is_learned_tells_sentences_apart_by_their_words() -> None:
    examples = [one for one in sentences() if wanted(one)][::20]
    known = {feature for one in examples for feature in one.features} | {"zonk"}
    weights = learn(examples, "orders", known, {"please": ["@polite"], "zonk": ["@polite"]})
    wrong = [
        one.text
        for one in examples
        if (sum(weights[name] for name in one.features) > 0) != ("orders" in one.labels)
    ]
    assert len(wrong) < len(examples) / 50, wrong
    assert weights["zonk"] > 0, "a word that nobody said weighs as its group"


UNREAD = (
    "Wczoraj próbowałem uruchomić skrypt na nowym serwerze, ale ciągle wyrzuca błąd z połączeniem.",
    "Вчера вечером сервер опять упал, и мы два часа искали причину в логах, но ничего не нашли.",
    "Надо переписать этот абзац так, чтобы он звучал менее официально и не терял смысла.",
    "Dün akşam toplantıda bütçeyi konuştuk ama kimse rakam vermediği için karar haftaya kaldı.",
    "어제 회의에서 예산안을 다시 검토하기로 했는데 팀장님이 자료를 아직 안 보내 주셔서 미뤄졌습니다.",
    "Trean gam graltool molvear vemtroon brearhisplest plosteamdum teast chand gost grulrimtut.",
)


def test_the_length_and_the_marks_of_unknown_words_make_nothing_last() -> None:
    for sentence in UNREAD:
        assert label_of(sentence) == "", sentence
        beside = judged_in(sentence, f"I like tea. {sentence}")
        assert beside.most < min(LASTS_MIN, ORDERS_MIN), sentence


def test_features_are_words_their_beginnings_pairs_ends_and_looks() -> None:
    assert set(features("Call me Bo, always!")) == {
        *("call", "me", "bo", "always", "alwa*", "call me", "me bo", "bo always"),
        *("^call", "^call me", "always$", "#1", "#shouts", ""),
    }
    assert set(features("叫我阿满")) >= {"叫", "叫我", "叫我阿", "^叫我", "满$", "阿满$"}


def test_a_sentence_takes_a_share_of_its_message() -> None:
    own, all_ = Judgement(2.0, -1.0, 0.0, 4.0, 0.0, 0.0), Judgement(-2.0, 1.0, 0.0, 0.0, 4.0, 8.0)
    assert own.within(all_, 0.25) == Judgement(1.0, -0.5, 0.0, 3.0, 1.0, 2.0)
    assert judge("") == judge("  ")


def test_what_always_matters_is_told_from_the_rest() -> None:
    assert judge("The pump under my skin gives me insulin").health > ALWAYS_MIN
    assert judge("Payroll knows me as Bartholomew, everyone here says Barty").address > ALWAYS_MIN
    other = judge("We keep two donkeys behind the barn")
    assert max(other.health, other.address) < ALWAYS_MIN
