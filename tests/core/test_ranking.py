"""What makes one entry rank above another, when nothing is relevant, and what is shown once."""

from dataclasses import replace
from datetime import UTC, date, datetime
from math import isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.analysis import query_terms, terms
from memsvc.core.question_kinds import QuestionKind, kind_by_meaning, kind_of
from memsvc.core.ranking import (
    DEFAULT_WEIGHTS,
    Candidate,
    Question,
    QuestionTerms,
    bm25_constants,
    bm25_idf,
    bm25_scores,
    bm25_term_score,
    names_speaker,
    rank,
)
from memsvc.core.relevance import FLOOR, Confidence, Distinct, confidence, order_by_days
from memsvc.core.time_references import TimeReferences, read

PERSONAL, GENERAL, OPEN = QuestionKind.PERSONAL, QuestionKind.GENERAL, QuestionKind.OPEN
QUESTION = Question({"dog": 5.0, "walk": 4.0})
PLAIN = replace(DEFAULT_WEIGHTS, answer=0.0, day=0.0, short_exponent=0.0)


def ids(ranked):
    return [item.entry for item in ranked]


def scores(ranked):
    return {item.entry: item.score for item in ranked}


def entry(number, dog=0.0, walk=0.0, length=20, **fields):
    found = {term: score for term, score in (("dog", dog), ("walk", walk)) if score}
    return Candidate(number, found, length, **fields)


def recall(question, messages, speakers=()):
    """Ranks a small book as the store does, the reference BM25 in place of SQL."""
    documents = [terms(message) for message in messages]
    average = sum(map(len, documents)) / len(documents)
    k1, b = bm25_constants(average)
    counts = {
        term: sum(term in document for document in documents) for term in query_terms(question)
    }
    candidates = [
        Candidate(
            number,
            {
                term: bm25_term_score(
                    bm25_idf(count, len(documents)),
                    document.count(term),
                    len(document),
                    average,
                    k1,
                    b,
                )
                for term, count in counts.items()
                if term in document
            },
            len(document),
            speaker=speakers[number] if speakers else "",
            is_question=messages[number].endswith("?"),
        )
        for number, document in enumerate(documents)
    ]
    kind = kind_by_meaning(question, kind_of(question), None)
    asked = QuestionTerms.of(question).in_index(
        len(documents), counts, counts_unknown=kind is QuestionKind.GENERAL
    )
    ranked = rank(candidates, asked, DEFAULT_WEIGHTS)
    sure = confidence(ranked, PERSONAL if names_speaker(candidates, asked) else kind)
    return ranked if sure.total >= FLOOR else []


def test_bm25_of_a_worked_example():
    documents = [["dog", "dog", "walk"], ["cat"], ["dog", "cat"]]
    idf_dog, idf_walk = log(1 + 1.5 / 2.5), log(1 + 2.5 / 1.5)
    first = idf_dog * 2 * 1.9 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2)) + idf_walk * 1.9 / (
        1 + 0.9 * (0.6 + 0.4 * 3 / 2)
    )
    third = idf_dog * 1.9 / (1 + 0.9)
    assert bm25_scores(["dog", "walk", "dog"], documents, 0.9, 0.4) == pytest.approx(
        [first, 0.0, third]
    )
    assert bm25_scores(["dog", "walk"], documents, 0.9, 0.4) == pytest.approx(
        [1.4758, 0.0, 0.4700], abs=5e-5
    )


def test_bm25_of_nothing_is_nothing():
    assert bm25_scores(["dog"], [], 0.9, 0.4) == []
    assert bm25_scores([], [[], ["dog"]], 0.9, 0.4) == [0.0, 0.0]


def test_a_term_of_every_entry_still_counts_a_little():
    assert 0 < bm25_idf(10, 10) < bm25_idf(1, 10) < bm25_idf(0, 10)


def test_long_entries_are_normalised_fully_and_short_ones_little():
    assert bm25_constants(10) == (0.9, 0.4)
    assert bm25_constants(75) == (0.9, pytest.approx(0.7))
    assert bm25_constants(500) == (0.9, 1.0)


def test_an_entry_borrows_the_terms_that_it_lacks_from_those_beside_it():
    ranked = scores(rank([entry(1, dog=4), entry(2, walk=2), entry(3)], QUESTION, PLAIN))
    assert ranked[2] == pytest.approx(2 + 0.6 * 4)
    assert ranked[1] == pytest.approx(4 + 0.6 * 2)
    assert ranked[3] == pytest.approx(0.6 * 2 + 0.42 * 4)


def test_a_term_that_an_entry_has_itself_is_not_counted_again():
    assert scores(rank([entry(1, dog=4), entry(2, dog=4)], QUESTION, PLAIN)) == pytest.approx(
        {1: 4, 2: 4}
    )


def test_entries_out_of_reach_lend_nothing():
    assert ids(rank([entry(1, dog=4), entry(6)], QUESTION, PLAIN)) == [1]


def test_a_long_entry_borrows_little_and_lends_little():
    ranked = scores(rank([entry(1, dog=4), entry(2, length=300)], QUESTION, PLAIN))
    assert ranked[2] == pytest.approx(0.1 * 0.6 * 4)
    ranked = scores(rank([entry(1, dog=4, length=300), entry(2)], QUESTION, PLAIN))
    assert ranked[2] == pytest.approx(0.1 * 0.6 * 4)


def test_an_answer_gains_from_its_question():
    weights = replace(PLAIN, answer=0.2)
    asked = scores(rank([entry(1, dog=4, is_question=True), entry(2)], QUESTION, weights))
    said = scores(rank([entry(1, dog=4), entry(2)], QUESTION, weights))
    assert asked[2] == pytest.approx(said[2] + 0.2 * 4)


def test_the_speaker_named_in_the_question_comes_first():
    question = QuestionTerms.of("Where does Maria walk her dog?").in_index(
        100, {"dog": 3, "walk": 3, "maria": 3}
    )
    candidates = [entry(1, dog=4, speaker="John"), entry(9, dog=3, speaker="Maria")]
    assert ids(rank(candidates, question, DEFAULT_WEIGHTS)) == [9, 1]
    both = QuestionTerms.of("Where do Maria and John walk the dog?").in_index(
        100, {"dog": 3, "walk": 3}
    )
    assert ids(rank(candidates, both, DEFAULT_WEIGHTS)) == [1, 9]


def test_what_was_said_on_the_day_named_comes_first():
    said = [
        datetime(2023, 5, 3, tzinfo=UTC),
        datetime(2023, 5, 20, tzinfo=UTC),
        datetime(2023, 7, 3, tzinfo=UTC),
    ]
    candidates = [entry(10 * number, dog=4, message_at=day) for number, day in enumerate(said)]
    question = replace(
        QUESTION, date_values=QuestionTerms.of("dog on May 3, 2023").in_index(3, {}).date_values
    )
    assert ids(rank(candidates, question, PLAIN)) == [0, 10, 20]


def test_entries_of_a_day_with_much_to_say_gain():
    monday, tuesday = datetime(2023, 5, 1, tzinfo=UTC), datetime(2023, 5, 2, tzinfo=UTC)
    candidates = [entry(1, dog=4, message_at=monday), entry(10, dog=3.9, message_at=tuesday)]
    candidates.append(entry(20, walk=3, message_at=tuesday))
    assert ids(rank(candidates, QUESTION, DEFAULT_WEIGHTS))[0] == 10


def test_a_very_short_entry_ranks_below_a_telling_one():
    assert ids(
        rank([entry(1, dog=4, length=20), entry(10, dog=4, length=2)], QUESTION, DEFAULT_WEIGHTS)
    ) == [1, 10]


def test_a_long_message_of_the_assistant_ranks_below_what_the_user_said():
    candidates = [
        entry(1, dog=4, length=200, role="user"),
        entry(10, dog=4, length=200, role="assistant"),
    ]
    assert ids(rank(candidates, QUESTION, DEFAULT_WEIGHTS)) == [1, 10]


def test_later_comes_first_among_equals():
    assert ids(rank([entry(1, dog=4), entry(10, dog=4)], QUESTION, PLAIN)) == [10, 1]


finite = st.floats(0.01, 20)
candidate_lists = st.lists(
    st.builds(
        Candidate,
        st.integers(1, 40),
        st.dictionaries(st.sampled_from(["dog", "walk"]), finite),
        st.integers(0, 500),
        st.sampled_from(["", "dog", "Maria"]),
        st.sampled_from(["", "user", "assistant"]),
        st.none() | st.datetimes(timezones=st.just(UTC)),
        st.booleans(),
        st.just(""),
        st.none() | st.floats(-1, 1),
        st.none() | st.floats(-1, 1),
        st.sampled_from([1.0, 0.8]),
    ),
    max_size=40,
    unique_by=lambda candidate: candidate.entry,
)


@given(candidate_lists)
def test_the_parts_of_a_score_add_up_to_it(candidates):
    ranked = rank(candidates, QUESTION, DEFAULT_WEIGHTS)
    assert all(isclose(item.score, sum(item.parts.values()), abs_tol=1e-9) for item in ranked)
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


@given(candidate_lists, st.randoms())
def test_the_order_of_candidates_does_not_matter(candidates, random):
    shuffled = random.sample(candidates, len(candidates))
    before, after = (rank(some, QUESTION, DEFAULT_WEIGHTS) for some in (candidates, shuffled))
    assert scores(before) == pytest.approx(scores(after))


MESSAGES = [
    "I adopted a puppy from the shelter last week!",
    "Wow, what is the puppy called?",
    "Biscuit. He sleeps all day.",
    "My sister moved to Lisbon for her job.",
    "Lisbon is lovely in spring.",
]


def test_an_answer_that_repeats_no_word_of_the_question_is_found():
    assert 2 in ids(recall("What is the name of the puppy from the shelter?", MESSAGES))[:3]


def test_a_book_of_one_entry_can_answer():
    assert ids(recall("What is my dog's name?", ["My dog is called Rex"])) == [0]


@pytest.mark.parametrize(
    ("question", "counts", "counted"),
    [
        ("Müller", {"muller": 1, "mueller": 1}, {"muller"}),
        ("Müller", {"mueller": 1}, {"mueller"}),
        ("Müller", {}, {"muller"}),
        ("fetchUserProfile", {"fetchuserprofil": 1, "user": 3}, {"fetchuserprofil"}),
        ("fetchUserProfile", {"user": 3, "profil": 1}, {"user", "profil"}),
        ("fetch_user_profile", {"fetchuserprofil": 1}, {"fetch", "user", "profil"}),
    ],
)
def test_another_spelling_counts_in_place_of_a_word_that_the_index_lacks(
    question: str, counts: dict[str, int], counted: set[str]
) -> None:
    asked = QuestionTerms.of(question).in_index(50, counts).asked_idf
    assert {term for term, idf in asked.items() if idf} == counted


@pytest.mark.parametrize(
    "question",
    ["What is the boiling point of nitrogen?", "ok thanks", "", "How do I center a div in CSS?"],
)
def test_nothing_relevant_gives_nothing(question):
    assert recall(question, MESSAGES) == []


def test_the_name_of_a_speaker_alone_is_not_relevance():
    speakers = ["Maria", "John", "Maria", "John", "Maria"]
    messages = [*MESSAGES[:-1], "Thanks, John!"]
    assert recall("Which compiler flags does John recommend?", messages, speakers) == []


def ranked(number, score, relevance, day=None):
    """A candidate as the ranking leaves it."""
    time = datetime.combine(day, datetime.min.time(), UTC) if day else None
    return Candidate(number, {}, 20, message_at=time, score=score, relevance=relevance)


def bulk(top, others=40, score=2.0, step=0.01):
    """A ranking whose best stands above many that hardly differ."""
    rest = [ranked(number, score + step * (number % 7), 0.5) for number in range(others)]
    return [ranked(99, top, 1.2), *sorted(rest, key=lambda item: -item.score)]


def test_what_stands_out_from_the_bulk_is_surer_than_what_does_not():
    outstanding, drowned = (confidence(bulk(top), GENERAL) for top in (4.0, 2.1))
    assert outstanding.relevance == drowned.relevance == 1.2
    assert outstanding.total > FLOOR > drowned.total


def test_confidence_is_free_of_scale():
    once = confidence(bulk(4.0), GENERAL)
    thrice = confidence(bulk(12.0, score=6.0, step=0.03), GENERAL)
    assert thrice.total == pytest.approx(once.total)


def test_a_question_about_what_is_ones_own_takes_less():
    assert Confidence(1.0, 10.0, None, PERSONAL).total > FLOOR
    assert Confidence(1.0, 10.0, None, GENERAL).total < FLOOR


def test_a_meaning_beyond_noise_can_answer_without_a_shared_word_and_noise_cannot():
    assert Confidence(0.0, 10.0, 0.6, GENERAL).total > FLOOR
    assert Confidence(0.0, 10.0, 0.05, GENERAL).total == 0
    assert Confidence(0.0, 10.0, None, PERSONAL).total == 0


def test_an_own_question_is_answered_by_what_is_hardly_alike():
    assert Confidence(0.0, 10.0, 0.05, OPEN, asks=1.0).total > FLOOR
    assert Confidence(0.0, 10.0, 0.05, PERSONAL, asks=-1.0).total > FLOOR
    assert Confidence(1.0, 10.0, 0.05, OPEN, asks=-2.0).total < FLOOR


def test_nothing_found_is_no_answer():
    assert confidence([], PERSONAL).total == 0


def test_a_meaning_raises_what_shares_no_word():
    unrelated = [entry(number, cosine=0.1, specific_cosine=0.1) for number in range(20, 40)]
    candidates = [entry(1, dog=4), entry(10, cosine=0.7, specific_cosine=0.7), *unrelated]
    equal = replace(PLAIN, similarity=0.5)
    ranked = {item.entry: item for item in rank(candidates, QUESTION, equal)}
    assert ranked[10].score == pytest.approx(4.0)  # as much as the best by words
    assert ranked[10].similarity == pytest.approx(0.6)
    assert 20 not in ranked


def test_order_follows_what_is_specific_and_confidence_the_whole_question():
    worded_alike = entry(1, cosine=0.6, specific_cosine=0.1)
    answer = entry(10, cosine=0.5, specific_cosine=0.4)
    ranked = rank([worded_alike, answer], replace(QUESTION, unrelated=0.2), PLAIN)
    assert ids(ranked) == [10, 1]
    assert [item.similarity for item in ranked] == pytest.approx([0.3, 0.4])


def test_an_entry_from_elsewhere_comes_after_one_of_the_session_that_matches_alike():
    candidates = [entry(1, dog=4), entry(1 << 32, dog=4, weight=0.8)]
    assert scores(rank(candidates, QUESTION, PLAIN)) == pytest.approx({1: 4.0, 1 << 32: 3.2})


@pytest.mark.parametrize(("order", "best"), [("first", 1), ("latest", 30)])
def test_of_what_matches_the_first_or_the_latest_comes_first_where_asked_for(order, best):
    days = {1: 1, 30: 9, 60: 5}
    candidates = [
        entry(number, dog=4, message_at=datetime(2023, 5, day, tzinfo=UTC))
        for number, day in days.items()
    ]
    assert (
        ids(rank(candidates, replace(QUESTION, when=TimeReferences(order=order)), PLAIN))[0] == best
    )


def test_what_was_said_in_the_time_that_is_asked_about_comes_first():
    now = datetime(2023, 5, 20, tzinfo=UTC)
    candidates = [
        entry(1, dog=4, message_at=datetime(2023, 5, 10, tzinfo=UTC)),
        entry(30, dog=4, message_at=now),
    ]
    question = QuestionTerms.of("Where did we walk the dog last week?").in_index(
        100, {"dog": 3, "walk": 3}, read("last week", now)
    )
    assert ids(rank(candidates, question, PLAIN)) == [1, 30]


MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY = (date(2026, 1, day) for day in range(5, 10))


def in_order(*scores_and_days):
    """Entries 1, 2, 3... of a ranking."""
    return [ranked(at, score, 1.0, day) for at, (score, day) in enumerate(scores_and_days, 1)]


def test_after_the_best_ten_the_best_of_three_other_days_come_next():
    best = [(10.0, MONDAY)] * 10
    rest = [
        (9.0, MONDAY),
        (8.0, TUESDAY),
        (7.0, TUESDAY),
        (6.0, WEDNESDAY),
        (5.5, THURSDAY),
        (5.0, FRIDAY),
    ]
    assert ids(order_by_days(in_order(*best, *rest))) == [*range(1, 11), 12, 14, 15, 11, 13, 16]


def test_a_day_whose_best_is_much_worse_waits_its_turn():
    ranked = in_order(*[(10.0, MONDAY)] * 11, (4.0, TUESDAY), (3.9, WEDNESDAY), (3.8, MONDAY))
    assert ids(order_by_days(ranked)) == [*range(1, 11), 12, 11, 13, 14]


def test_what_was_said_on_one_day_or_is_hardly_more_than_ten_stays_in_order():
    for ranked in (
        in_order(),
        in_order((2.0, MONDAY)),
        in_order(*[(1.0, MONDAY)] * 30),
        in_order(*[(1.0, None)] * 12),
    ):
        assert list(order_by_days(ranked)) == ranked


def test_near_duplicates_are_admitted_once():
    distinct = Distinct()
    texts = [["dog", "walk", "park"], ["park", "dog", "walk"], ["dog"], []]
    assert [distinct.add_if_new(text) for text in texts] == [True, False, True, True]
