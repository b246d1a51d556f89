"""What looks like a secret is masked, and what only talks about secrets is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.secrets import MASK, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my password is hunter2, ok?", f"my password is {MASK}, ok?"),
        ("api_key=abcd1234", f"api_key={MASK}"),
        ('"password": "hunter2"', f'"password": {MASK}'),
        ("My PIN code is 1234.", f"My PIN code is {MASK}"),
        ("Mein Passwort ist geheim1", f"Mein Passwort ist {MASK}"),
        ("contraseña: abc123", f"contraseña: {MASK}"),
        ("密码是12345", f"密码是{MASK}"),
        ("パスワードはabcdです", f"パスワードは{MASK}"),
        ("pay with 4111 1111 1111 1111 now", f"pay with {MASK} now"),
        ("5500-0000-0000-0004", MASK),
        ("postgres://me:hunter2@host/db", f"postgres://me:{MASK}@host/db"),
        ("use sk-proj-abcdefghijklmnopqrstuv", f"use {MASK}"),
        ("ghp_abcdefghijklmnopqrst0123", MASK),
        ("AKIAABCDEFGHIJKLMNOP", MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- after", f"{MASK} after"),
        ("Authorization: Bearer abcdefghijklmnopqrst", f"Authorization: {MASK}"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


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
    assert masked(text) == text


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    assert masked(masked(text)) == masked(text)
