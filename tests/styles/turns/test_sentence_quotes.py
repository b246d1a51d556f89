"""What is quoted of a long text: the sentences that bear on a question, word for word."""

from itertools import pairwise
from time import perf_counter

from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.analysis import query_terms
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder, quote_text

FILLER = "The weather was fine and everybody went along with it for another while. " * 8

QUOTES = [
    # question, sentences between filler, what the quote holds, what it does not hold
    ("Where is the treasure?", ["The treasure is under the oak."], ["under the oak."], []),
    (
        "Which port does the gateway use, and who owns the ledger?",
        ["The gateway listens on port 8443.", "Oyelaran owns the ledger since May."],
        ["port 8443.", "Oyelaran owns the ledger"],
        [],
    ),
    (
        "Why was Kafka dropped?",
        ["Kafka was dropped last week.", "It lost messages on every restart."],
        ["Kafka was dropped", "lost messages on every restart."],
        [],
    ),
    (
        "What did the audit of the invoices find?",
        ["Nobody had paid number 4711 of the vendor.", "That is what the audit of invoices found."],
        ["number 4711", "audit of invoices found."],
        [],
    ),
    (
        "\u5bc6\u7801\u662f\u4ec0\u4e48",
        ["\u65b0\u7684\u5bc6\u7801\u662f\u6a59\u5b50\u3002"],
        ["\u6a59\u5b50"],
        [],
    ),
    ("Where is the anchor?", ["Nothing."], [FILLER[:100]], ["Nothing."]),
]


def quoted(text: str, question: str, chars_max: int = 300) -> str:
    return quote_text(
        text, QuoteFinder(dict.fromkeys(query_terms(question), 1.0)).ranges(text, chars_max)
    )


def test_the_sentences_that_bear_on_a_question_are_quoted() -> None:
    wrong = []
    for question, sentences, held, missing in QUOTES:
        apart = "\n".join([FILLER, *sentences, FILLER])
        shown = quoted(apart, question)
        if not all(one in shown for one in held) or any(one in shown for one in missing):
            wrong.append((question, shown))
        if len(shown) > 310:
            wrong.append((question, f"{len(shown)} characters"))
    assert wrong == []


def test_what_is_far_apart_is_quoted_with_a_mark_between() -> None:
    text = f"The red key opens the shed. {FILLER}The blue key opens the barn. {FILLER}"
    shown = quoted(text, "Which key opens the shed, which the barn?")
    red, blue, rest = shown.split("\u2026")
    assert red.startswith("The red key opens the shed.")
    assert "The blue key opens the barn." in blue
    assert rest == ""


@given(
    text=st.text(alphabet="ab\u00e4\u5bc6 .!\n", max_size=900) | st.text(max_size=900),
    question=st.text(alphabet="ab\u5bc6 ", max_size=20),
    chars_max=st.integers(40, 300),
)
def test_a_quote_is_word_for_word_and_in_order(text: str, question: str, chars_max: int) -> None:
    ranges = QuoteFinder(dict.fromkeys(query_terms(question), 1.0)).ranges(text, chars_max)
    assert ranges == sorted(ranges)
    assert all(0 <= start < stop <= len(text) for start, stop in ranges) or ranges == [(0, 0)]
    assert all(first[1] < second[0] for first, second in pairwise(ranges))
    assert quote_text(text, ranges).replace("\u2026", "") == "".join(
        text[start:stop] for start, stop in ranges
    ).replace("\u2026", "")
    if len(text) <= chars_max:
        assert quote_text(text, ranges) == text


def test_hostile_texts_are_quoted_quickly() -> None:
    quote_finder = QuoteFinder({"a": 1.0, "b": 2.0})
    for text in ("a\n" * 12_500, "a" * 25_000, "." * 25_000, "a. b! " * 4_000, " \n" * 12_500):
        start = perf_counter()
        quote_finder.ranges(text, 600)
        assert perf_counter() - start < 1
