"""The rules read any text in a moment: they stand in the way of every turn."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.core.rules.changes import changes_in
from memsvc.core.rules.extraction import LANGUAGES, extract

SIZE_CHARS = 256 * 1024
QUICK_S = 5.0
"""What takes minutes when a pattern runs away takes a tenth of a second when it does not."""

PHRASES = [rule.example for language in LANGUAGES for rule in language.rules]
MARKERS = [word for language in LANGUAGES for rule in language.rules for word in rule.on.split()]
NASTY = {
    "every marker": " ".join(dict.fromkeys(MARKERS)),
    "every example": " ".join(PHRASES),
    "beginnings": " ".join(phrase[: len(phrase) * 2 // 3] for phrase in PHRASES),
    "likes": "i like a,",
    "no value": "i like ",
    "quotes": "\"'“„«「`<a>",
    "apostrophes": "'a ",
    "tags": "<a><b>",
    "spaces": "my" + " " * 5000,
    "adverbs": "i really also still just really also ",
    "names": "My wife Aa Bb Cc Dd Ee ",
    "answer": "please from now on, please always please ",
    "digits": "my phone number is 1 2 3 4 5 6 7 8 9 0 ",
    "mail": "my email is a.a.a.a.a.a.a.a",
    "han": "我也还一直现在目前很非常",
    "kana": "私は実はもうもうの",
    "changes": "we gave the called not back up any off ",
    "marks": "e\u0301\u0301\u0301",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_a_quarter_of_a_megabyte_of_anything_is_read_in_a_moment(text: str) -> None:
    message = (text * (SIZE_CHARS // len(text) + 1))[:SIZE_CHARS]
    started = process_time()
    extract([("e", message)], session="s", turn="t", user="")
    changes_in(message)
    assert process_time() - started < QUICK_S


@given(
    st.lists(
        st.sampled_from([*MARKERS, *" ,.;:'\"\n<>「」我私", "i ", "my ", "ich ", "is "]),
        max_size=400,
    )
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_put_together_of_markers_is_read_and_no_value_is_too_long(
    words: list[str],
) -> None:
    for claim in extract([("e", " ".join(words))], session="s", turn="t", user=""):
        assert len(getattr(claim, "value", "").encode()) <= 128
