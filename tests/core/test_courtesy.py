"""Courtesies ask nothing and tell nothing; whatever holds more than them does."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.question_kinds import is_greeting_phrase

COURTESIES = """
Thanks!
Thanks a lot
Thank you so much!!
thank you very much, that's great
ok
OK, great.
ok great
Okay 👍
Hello!
Hi there
Good morning
hey, good evening!
Yes please.
No, thanks.
Got it, thanks again!
Sounds good
Perfect. See you tomorrow!
Hmmmm
haha
That's all, bye!
You're welcome
Danke
Danke dir
Danke schön!
Vielen lieben Dank!
Guten Morgen
Grüß Gott
Alles klar, danke
ja, passt so
Tschüss, bis morgen
Merci beaucoup !
D'accord, très bien
Bonne soirée
¡Muchas gracias!
Hola, buenos días
vale, perfecto
ありがとうございます！
こんにちは
はい、わかりました。
了解です、お願いします
谢谢你！
好的，明白了
Thanks, that helps.
ok, next one
Danke, das hilft mir
ok, weiter so
vale, siguiente
ça m'aide, merci
好的，下一个
助かりました！
你好
謝謝
""".strip().splitlines()
MORE = """
Thanks, and what is my dog called?
ok, book the flight
Is it good?
What do I do in the morning?
Hello Ada
Thank the waiter for me
Yes, the blue one
great white sharks
I am fine with Tuesday
Who is Right Said Fred?
Danke für die Blumen
Hallo, wo wohne ich?
Gute Reise nach Wien
Bonjour tristesse
Buenos Aires
gracias por el libro
はい、東京です
谢谢你的书
好的咖啡
你好吗？我住在哪里
who am i?
What did I say?
Remind me
right, left or straight?
""".strip().splitlines()


@pytest.mark.parametrize("text", COURTESIES)
def test_a_courtesy_asks_nothing(text: str) -> None:
    assert is_greeting_phrase(text)


@pytest.mark.parametrize("text", MORE)
def test_what_holds_more_than_courtesies_does(text: str) -> None:
    assert not is_greeting_phrase(text)


@pytest.mark.parametrize("text", ["", " ", "?!", "🙂", "the", "it is"])
def test_what_says_nothing_at_all_is_no_courtesy(text: str) -> None:
    assert not is_greeting_phrase(text)


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert is_greeting_phrase(text) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "thank you " * 20_000,
        "h" + "a" * 200_000,
        "ha" * 99 + "x",
        "hm" + "m" * 190,
        "\u0301" * 500_000,
    ],
)
def test_a_long_text_takes_no_time(text: str) -> None:
    started = time.monotonic()
    is_greeting_phrase(text)
    assert time.monotonic() - started < 1
