"""What looks like a secret is masked, and what only talks about secrets is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.secrets import PLACEHOLDER, is_secret, replace_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my password is hunter2, ok?", f"my password is {PLACEHOLDER}, ok?"),
        ("api_key=abcd1234", f"api_key={PLACEHOLDER}"),
        ('{"password": "hunter2"}', f'{{"password": "{PLACEHOLDER}"}}'),
        ('{"pin":1234}', f'{{"pin":{PLACEHOLDER}}}'),
        ('password="correct horse battery"', f'password="{PLACEHOLDER}"'),
        ("My PIN code is 1234.", f"My PIN code is {PLACEHOLDER}"),
        ("Mein Passwort ist geheim1", f"Mein Passwort ist {PLACEHOLDER}"),
        ("contraseña: abc123", f"contraseña: {PLACEHOLDER}"),
        ("密码是12345", f"密码是{PLACEHOLDER}"),
        ("パスワードはabcdです", f"パスワードは{PLACEHOLDER}"),
        ("pay with 4111 1111 1111 1111 now", f"pay with {PLACEHOLDER} now"),
        ("5500-0000-0000-0004", PLACEHOLDER),
        ("postgres://me:hunter2@host/db", f"postgres://me:{PLACEHOLDER}@host/db"),
        ("use sk-proj-abcdefghijklmnopqrstuv", f"use {PLACEHOLDER}"),
        ("ghp_abcdefghijklmnopqrst0123", PLACEHOLDER),
        ("AKIAABCDEFGHIJKLMNOP", PLACEHOLDER),
        ("the api key is sk-proj-abcdefghijklmnopqrstuv, ok", f"the api key is {PLACEHOLDER}, ok"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- after",
            f"{PLACEHOLDER} after",
        ),
        ("Authorization: Bearer abcdefghijklmnopqrst", f"Authorization: {PLACEHOLDER}"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert replace_secrets(text) == shown
    assert replace_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password again",
        "the passport is blue",
        "pinnacle is a hotel",
        "call 4111 1111 1111 1112",
        "order 1234567890123456",
        "https://example.com/a:b@c",
        "born in 1985, 34 years old, 2026-01-05",
        "sk-iing is fun",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert replace_secrets(text) == text


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    assert replace_secrets(replace_secrets(text)) == replace_secrets(text)


@pytest.mark.parametrize(
    ("value", "around"),
    [
        ("hunter2", "my password is hunter2"),
        ("correct horse", "wifi password correct horse"),
        ("hunter2", "the masterpassword: hunter2"),
        ("1234", "my PIN is 1234"),
        ("7", "the token is 7"),
        ("blue", "the secret colour is blue"),
        ("DE", "my IBAN starts with DE"),
        ("4111 1111 1111 1111", "I pay with 4111 1111 1111 1111"),
        ("123-45-6789", "it is 123-45-6789"),
        ("DE44500105175407324931", "send it to DE44500105175407324931"),
        ("5d41402abc4b2a76b9719d911017c592", "it says 5d41402abc4b2a76b9719d911017c592"),
        ("aB3dE6gH9kL2mN5p", "mine is aB3dE6gH9kL2mN5p"),
        ("geheim", "mein Kennwort lautet geheim"),
        ("1234", "meine Geheimzahl: 1234"),
        ("abc", "mi clave es abc"),
        ("abc", "mon mot de passe est abc"),
        ("12345", "密码是12345"),
        ("abcd", "パスワードはabcdです"),
        ("4111", "我的信用卡是4111"),
        ("Kai", "身份证 330102, 叫我 Kai"),
        ("Kai", "我的身份证是三三零一零二，叫我 Kai"),
        ("Visa", "my credit card, a Visa, 41 11 11"),
        ("42", "card number ends in 42"),
    ],
)
def test_no_fact_is_made_of_a_secret_or_where_one_is_spoken_of(value: str, around: str) -> None:
    assert is_secret(value, around)


@pytest.mark.parametrize(
    ("value", "around"),
    [
        ("Ann", "my secretary is Ann"),
        ("blue", "the passport is blue"),
        ("阿康", "身份证上叫王建国，但大家都喊我阿康"),
        ("Visa", "I pay by credit card, a Visa"),
        ("Pinneberg", "I live in Pinneberg"),
        ("Claverton", "I live in Claverton"),
        ("tea", "I prefer tea"),
        ("someone.else1234@example.com", "my address is someone.else1234@example.com"),
        ("Llanfairpwllgwyngyll", "I live in Llanfairpwllgwyngyll"),
        ("2026-01-05", "my birthday is 2026-01-05"),
    ],
)
def test_other_values_are_no_secrets(value: str, around: str) -> None:
    assert not is_secret(value, around)


@given(st.text())
def test_whatever_is_masked_is_a_secret(text: str) -> None:
    assert replace_secrets(text) == text or is_secret(text, "")
