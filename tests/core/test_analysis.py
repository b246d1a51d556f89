"""What becomes a term, in which language, and that nothing a client sends can break it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core import analysis
from memsvc.core.analysis import (
    NamedDate,
    is_question,
    other_terms,
    parse_date_names,
    query_terms,
    terms,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def test_terms_keep_order_and_repeats_and_leave_out_function_words():
    assert terms("The cat saw the other cats, and a dog.") == ["cat", "see", "cat", "dog"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("running", "runs"),
        ("She bought pianos", "buy a piano"),
        ("her children", "his child"),
        ("CAFÉ", "cafe"),
        ("cafe\u0301", "caf\u00e9"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("ＡＢＣ１２３", "abc123"),
        ("𝐁old", "bold"),
        ("İstanbul", "istanbul"),
        ("Łódź", "lodz"),
        ("Maria’s", "Maria"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\u200fabc\u200e", "abc"),
        ("книги", "книгу"),
        ("δρόμος", "δρόμοι"),
        ("الكتاب", "كتاب"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("Wohnung", "Wohnungen"),
        ("Krankenversicherung", "Krankenversicherungen"),
        ("Haus", "Häuser"),
        ("Buch", "Bücher"),
        ("Bild", "Bildern"),
        ("Katze", "Katzen"),
        ("Frau", "Frauen"),
        ("Hund", "Hunde"),
        ("Stadt", "Städten"),
        ("cheval", "chevaux"),
        ("journal", "journaux"),
        ("animal", "animaux"),
        ("oiseau", "oiseaux"),
        ("jeu", "jeux"),
        ("gardening", "gardens"),
        ("listens", "listening"),
        ("Mutter", "Mütter"),
        ("travail", "travaux"),
    ],
)
def test_forms_of_one_word_are_one_term(one, other):
    own = [[term for term in terms(text) if term not in spelled(text)] for text in (one, other)]
    assert own[0] == own[1] != []


def spelled(text: str) -> set[str]:
    """The terms of other spellings, of which a word with an umlaut has one more than its stem."""
    return {other for _, other in other_terms(text)}


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("call fetchUserProfile first", "user profile"),
        ("call fetchUserProfile first", "fetch user"),
        ("call fetchUserProfile first", "userProfile"),
        ("call fetchUserProfile first", "fetch_user_profile"),
        ("call fetch_user_profile first", "fetchUserProfile"),
        ("use parse_http_response()", "parseHttpResponse"),
        ("use parse_http_response()", "parse http"),
        ("an XMLHttpRequest failed", "HttpRequest"),
        ("an XMLHttpRequest failed", "http request"),
        ("class HTTPServer:", "http server"),
        ("MAX_RETRY_COUNT = 3", "maxRetryCount"),
        ("base64EncodeText", "encode"),
        ("ein Gerät mit fetchUserProfile", "user profile"),
        ("Herr Müller aus Köln", "Mueller"),
        ("Herr Mueller aus Koeln", "Müller Köln"),
        ("Mu\u0308ller", "Mueller"),
        ("Größe: 42", "Groesse"),
        ("Straße", "Strasse"),
        ("Goethe", "Göthe"),
    ],
)
def test_word_is_found_by_its_other_forms(text: str, question: str) -> None:
    content = [term for term in query_terms(question) if term not in spelled(question)]
    shared = set(terms(text)) & set(query_terms(question))
    assert len(shared) >= len(content)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("fetchUserProfile", ["fetchuserprofil", "fetch", "user", "profil"]),
        ("fetch_user_profile", ["fetch", "user", "profil", "fetchuserprofil"]),
        ("my_fetchUser", ["fetchus", "myfetchus", "fetch", "user"]),
        ("Müller", ["muller", "mueller"]),
        *((word, [term]) for word, term in (
            ("neue", "neue"), ("blue", "blue"), ("Goethe", "goeth"), ("poem", "poem"),
            ("APIs", "api"), ("iPhone", "iphon"), ("eBay", "ebay"), ("PhD", "phd"),
            ("HELLO", "hello"), ("E0308", "e0308"), ("__init__", "init"), ("Straße", "strass"),
            ("Café", "cafe"), ("Łódź", "lodz"), ("dGhpcyBpcyBhIHRlc3Q", "dghpcybpcybhihrlc3q"),
            ("aGhpcCBpcyBhIHRlc3QgYWJjRGVmR2hpSmtsTW5v", "aghpccbpcybhihrlc3qgywjjrgvmr2hpsmtstw5v"),
        )),
    ],
)  # fmt: skip
def test_word_has_the_terms_of_its_parts_and_no_more(word: str, expected: list[str]) -> None:
    assert terms(word) == expected


def test_whole_name_of_code_is_a_term_beside_its_parts() -> None:
    name = set(query_terms("fetchUserProfile"))
    assert len(name & set(terms("fetchUserProfile"))) > len(
        name & set(terms("fetch the user's profile"))
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tag", "Tagen und Nächten"),
        ("pair", "paix"),
        ("time", "Tim"),
        ("modern", "mode"),
        ("house", "how"),
        ("corner", "corn"),
        ("number", "numb"),
        ("relax", "relay"),
    ],
)
def test_other_words_are_other_terms(one: str, other: str) -> None:
    assert not set(terms(one)) & set(terms(other))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我养了一只猫，也喜欢喝茶。", "猫"),
        ("我养了一只猫，也喜欢喝茶。", "茶"),
        ("我养了一只猫，也喜欢喝茶。", "猫多大了？"),
        ("我养了一只猫，也喜欢喝茶。", "你知道我的猫吗？"),
        ("犬を飼っている。本を読む。", "犬"),
        ("犬を飼っている。本を読む。", "本はどこ？"),
        ("저는 차를 좋아해요.", "차"),
    ],
)
def test_word_of_one_character_is_found_in_a_text(text: str, question: str) -> None:
    assert {term for term in query_terms(question) if len(term) == 1} & set(terms(text))


@pytest.mark.parametrize("question", ["北京的天气", "名前は？", "저는", "知道吗"])
def test_character_of_a_longer_word_is_no_term_of_a_question(question: str) -> None:
    assert not [term for term in query_terms(question) if len(term) == 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我喜欢吃苹果", ["喜", "果", "我喜", "喜欢", "欢吃", "吃苹", "苹果"]),
        ("犬を飼う", ["犬", "飼", "犬を", "を飼", "飼う"]),
        ("犬の名前", ["犬", "犬の", "の名", "名前"]),
        ("猫", ["猫"]),
        ("iPhone用ケース", ["iphon", "用", "用ケ", "ケー", "ース"]),
        ("안녕하세요 세계", ["안녕", "녕하", "하세", "세요", "세", "세계"]),
        ("Wo sind die Häuser in München?", ["die", "haus", "munch", "haeuser", "muench"]),
        ("¿Dónde está la niña?", ["la", "nina"]),
        ("Où est l'école ?", ["est", "l", "ecol"]),
        ("don't can't I'll O'Neil", ["o", "neil"]),
        (
            "room 101, 1990s, CS:GO foo_bar",
            ["room", "101", "1990s", "cs", "go", "foo", "bar", "foobar"],
        ),
        ("👍🏽 ... \x00 \ud800", []),
        ("", []),
        ("\u0640", ["\u0640"]),
    ],
)
def test_examples_of_several_languages(text, expected):
    assert terms(text) == expected


@given(ANY_TEXT)
def test_no_string_breaks_it_and_terms_can_be_stored(text):
    for term in terms(text):
        size_bytes = len(term.encode())
        assert 0 < size_bytes <= analysis.TERM_SIZE_BYTES_MAX
        assert "\x00" not in term
    is_question(text)
    parse_date_names(text)


@given(ANY_TEXT)
def test_a_text_finds_itself(text):
    found = terms(text)
    asked = query_terms(text)
    assert set(asked) <= set(found)
    assert len(asked) == len(set(asked)) <= analysis.QUERY_TERMS_MAX
    if len(asked) < analysis.QUERY_TERMS_MAX:  # a question leaves out characters of longer words
        assert all(len(term) == 1 and term > "\u1000" for term in set(found) - set(asked))


def test_letters_of_any_case_are_the_same_terms():
    assert terms("HELLO WORLD ÉCOLE") == terms("hello world école")


def test_a_long_word_is_cut_at_a_character():
    assert terms("x" * 200) == ["x" * 64]
    assert terms("дж" * 100)[0].encode().decode() == "дж" * 16


def test_terms_of_a_text_are_capped():
    assert len(terms("dog cat " * analysis.TERMS_MAX)) == analysis.TERMS_MAX
    assert len(terms("猫" * 3 * analysis.TERMS_MAX)) == analysis.TERMS_MAX


def test_a_long_question_keeps_its_beginning_and_its_end():
    asked = query_terms(" ".join(f"word{number}" for number in range(1000)))
    assert len(asked) == analysis.QUERY_TERMS_MAX
    assert (asked[0], asked[31], asked[32], asked[-1]) == ("word0", "word31", "word968", "word999")


def test_a_megabyte_of_combining_marks_takes_no_time():
    started = time.perf_counter()
    terms("a" + "\u0301\u0316" * 250_000)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What happened on 11 December, 2023?", [NamedDate(2023, 12, 11)]),
        ("on May 3, 2023", [NamedDate(2023, 5, 3)]),
        ("since 2023-05-08", [NamedDate(2023, 5, 8)]),
        ("in July 2022 and the 14th of August", [NamedDate(2022, 7, None), NamedDate(None, 8, 14)]),
        ("am 3. März 2022", [NamedDate(2022, 3, 3)]),
        ("el 5 de enero de 2024", [NamedDate(2024, 1, 5)]),
        ("in May", [NamedDate(None, 5, None)]),
        ("I may march", []),
        ("2023-13-01", []),
    ],
)
def test_dates_named(text, expected):
    assert parse_date_names(text) == expected


@pytest.mark.parametrize("text", ["Really? ", "本当ですか？", "حقا؟"])
def test_a_question_mark_of_any_script_asks(text):
    assert is_question(text)
    assert not is_question("No; I do not.")
